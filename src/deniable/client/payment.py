"""What an answer costs its owner, as the ledger of a device counts it: a function of the query and
of what was paid before."""

from __future__ import annotations

from fractions import Fraction

from deniable.client import encoding
from deniable.client.policy import Policy
from deniable.client.storage.store import StoreTransaction
from deniable.privacy.ledger import PrivacyEvent
from deniable.queries.query import Query
from deniable.queries.signed import canonical

__all__ = ["Payment", "scope_of"]


def scope_of(query: Query) -> bytes:
    """What a permanent answer belongs to: the question and its mechanism, over all versions that do
    not change these."""
    fields = query.to_dict()
    named = [fields[name] for name in ("analyst", "id", "sql", "columns", "mechanism")]
    named += [] if query.ones == 1 else [query.ones]
    return canonical.encode(named if query.ask == "sql" else [*named, query.ask, query.value])


class Payment:
    """What an answer costs and whether it is allowed, decided before the data are read.

    A memoized question is paid for in advance: all permanent answers that its slots may ever draw,
    once. As long as another may be drawn, that reserve counts as spent today, so that a limit over
    a period holds in every period.
    """

    def __init__(
        self, transaction: StoreTransaction, policy: Policy, query: Query, now: int
    ) -> None:
        self._transaction, self._query = transaction, query
        self._scope = scope_of(query) if query.memoize else None
        self._answers: dict[int, int] = {}
        total, before = encoding.cost_of_answer(query), Fraction()
        if self._scope is not None:
            before = transaction.charges.reserved_cost(self._scope)
            paid = transaction.charges.reserved(self._scope)
            wanted = {
                slot: max(query.distinct, paid.get(slot, 0)) for slot in range(query.most_rows)
            }
            self._answers = {**paid, **wanted}
            total = encoding.cost_of_row(query) * sum(self._answers.values())
        self.cost = total - before
        """What it costs in addition to what was already spent."""
        self._due = self.cost > 0 or query.distinct > 1
        self._event = PrivacyEvent(query.analyst, query.id, now, total)
        self.accountant = transaction.charges.accountant(
            policy.limits, now, self._scope if self._due else None
        )
        self.refusal = self._check() if self._due else None

    def _check(self) -> str | None:
        query = self._query
        if query.budget.epsilon is not None:
            spent = self._transaction.charges.spent_on(query.analyst, query.id)
            if spent + self.cost > Fraction(repr(query.budget.epsilon)):
                return (
                    f"the query's budget is {query.budget.epsilon:g} in all, {float(spent):.6g} is"
                    f" spent, and an answer costs {float(self.cost):.6g}"
                )
        return self.accountant.check(self._event)

    def make(self) -> int | None:
        """Record the charge; returns its row if it is for this answer alone, and not for permanent
        answers."""
        if not self._due:
            return None
        self.accountant.record(self._event)
        charge = self._transaction.charges.add(self._event, self._scope)
        if self._scope is None:
            return charge
        self._transaction.charges.reserve(self._scope, self._answers)
        return None
