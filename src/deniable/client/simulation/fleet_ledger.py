"""The ledgers of a simulated fleet: the accountant and the rules that a whole device goes by, for
each of many devices.

Devices that have paid for the same answers have the same ledger, so the accountant is asked once
for each kind of ledger there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.client.encoding import cost_of_answer
from deniable.errors import ParameterError
from deniable.privacy.ledger import Accountant, Limit, PrivacyEvent
from deniable.queries.query import Query

__all__ = ["FleetLedger"]

_Name = tuple[str, str]


@dataclass(frozen=True)
class _Ledger:
    accountant: Accountant
    on_query: Mapping[_Name, Fraction] = field(default_factory=dict)

    def allows(self, event: PrivacyEvent, budget: Fraction | None) -> bool:
        spent = self.on_query.get((event.analyst, event.query), Fraction())
        return self.accountant.check(event) is None and (
            budget is None or spent + event.cost <= budget
        )

    def after(self, event: PrivacyEvent) -> _Ledger:
        accountant = Accountant.from_dict(self.accountant.limits, self.accountant.to_dict())
        accountant.record(event)
        name = (event.analyst, event.query)
        return _Ledger(
            accountant, {**self.on_query, name: self.on_query.get(name, Fraction()) + event.cost}
        )


class FleetLedger:
    """`n` ledgers under the same limits. A device answers what its owner's ceiling, its limits and
    the query's budget pay for.

    Memoized queries, which are paid for once, are not counted here.
    """

    def __init__(self, n: int, limits: Iterable[Limit], epsilon_per_answer: Any = 3.0) -> None:
        limits = tuple(limits)
        self._ceiling: Fraction = Limit(epsilon_per_answer).epsilon
        self._dated = any(limit.period is not None for limit in limits)
        self._kinds = [_Ledger(Accountant(limits))]
        self._places = {self._key(self._kinds[0]): 0}
        self._of_device = np.zeros(n, dtype=np.intp)

    def __len__(self) -> int:
        return int(self._of_device.size)

    def able(self, query: Query, now: int) -> NDArray[np.bool_]:
        """Which devices may answer the query: what a device checks of its budget before it flips
        its sampling coin."""
        if query.memoize:
            raise ParameterError("memoize", True, "must be false for a fleet with ledgers")
        event = PrivacyEvent(query.analyst, query.id, now, cost_of_answer(query))
        if event.cost > self._ceiling:
            return np.zeros(len(self), dtype=np.bool_)
        budget = None if query.budget.epsilon is None else Fraction(repr(query.budget.epsilon))
        allowed = np.zeros(len(self._kinds), dtype=np.bool_)
        for kind in np.unique(self._of_device).tolist():
            allowed[kind] = self._kinds[kind].allows(event, budget)
        return allowed[self._of_device]

    def charge(self, query: Query, now: int, devices: NDArray[Any]) -> None:
        """Write down what these devices paid for their answers."""
        event = PrivacyEvent(query.analyst, query.id, now, cost_of_answer(query))
        following = np.arange(len(self._kinds))
        for kind in np.unique(self._of_device[devices]).tolist():
            ledger = self._kinds[kind].after(event)
            place = self._places.setdefault(self._key(ledger), len(self._kinds))
            if place == len(self._kinds):
                self._kinds.append(ledger)
            following[kind] = place
        self._of_device[devices] = following[self._of_device[devices]]

    def spent(self) -> list[Fraction]:
        """What each device has given away for life."""
        totals = [ledger.accountant.spent() for ledger in self._kinds]
        return [totals[kind] for kind in self._of_device.tolist()]

    def _key(self, ledger: _Ledger) -> str:
        """The same for ledgers that will decide alike: dates matter where a limit has a period."""
        document = ledger.accountant.to_dict()
        on_query = sorted((*name, str(spent)) for name, spent in ledger.on_query.items())
        return json.dumps(
            [document["spent"], document["history"] if self._dated else None, on_query]
        )
