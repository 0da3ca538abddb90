"""What answers have cost, and what is reserved for permanent ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from fractions import Fraction

from deniable.privacy.ledger import Accountant, Limit, PrivacyEvent

__all__ = ["Charges"]


class Charges:
    """The charges of a device, from which an accountant is made."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def accountant(
        self, limits: Iterable[Limit], now: int, without: bytes | None = None
    ) -> Accountant:
        """An accountant with everything spent, and when, as far back from `now` as these limits
        look.

        `without` leaves out what is reserved for one memoized question, so that it can be charged
        again as of today.
        """
        limits = tuple(limits)
        spent: dict[str, Fraction] = {}
        for analyst, epsilon in self._db.execute(
            "SELECT analyst, epsilon FROM charges WHERE scope = ?", (without,)
        ):
            spent[analyst] = -Fraction(epsilon)
        drawn = []
        for analyst, query, epsilon in self._db.execute(
            "SELECT analyst, query, epsilon FROM spent"
        ):
            spent[analyst] = spent.get(analyst, Fraction()) + Fraction(epsilon)
            drawn.append([analyst, query])
        since = now - max((limit.period or 0 for limit in limits), default=0)
        sql = (
            "SELECT time, analyst, epsilon FROM charges WHERE time > ? AND (scope IS NULL OR scope"
            " IS NOT ?) ORDER BY time"
        )
        history = self._db.execute(sql, (since, without))
        state = {
            "version": 1,
            "spent": {analyst: str(loss) for analyst, loss in spent.items()},
            "drawn": drawn,
            "history": [list(row) for row in history],
        }
        return Accountant.from_dict(limits, state)

    def spent_on(self, analyst: str, query: str) -> Fraction:
        """What one query has cost so far, over all its versions."""
        row = self._db.execute(
            "SELECT epsilon FROM spent WHERE analyst = ? AND query = ?", (analyst, query)
        ).fetchone()
        return Fraction(row[0]) if row else Fraction()

    def add(self, event: PrivacyEvent, scope: bytes | None = None) -> int:
        """Record an event the accountant has allowed; returns its row. A reservation for a `scope`
        replaces the previous one."""
        total = self.spent_on(event.analyst, event.query) + event.cost
        if scope is not None:
            total -= self.reserved_cost(scope)
            self._db.execute("DELETE FROM charges WHERE scope = ?", (scope,))
        self._db.execute(
            "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)",
            (event.analyst, event.query, str(total)),
        )
        row = (event.time, event.analyst, event.query, str(event.cost), scope)
        return int(
            self._db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", row).lastrowid or 0
        )

    def give_back(self, charge: int) -> tuple[str, str, Fraction]:
        """Refund a charge for an answer that never left; returns whose charge it was, and how
        much."""
        [(analyst, query, epsilon)] = self._db.execute(
            "SELECT analyst, query, epsilon FROM charges WHERE rowid = ?", (charge,)
        )
        self._db.execute("DELETE FROM charges WHERE rowid = ?", (charge,))
        total = self.spent_on(analyst, query) - Fraction(epsilon)
        self._db.execute(
            "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", (analyst, query, str(total))
        )
        return analyst, query, Fraction(epsilon)

    def reserved_cost(self, scope: bytes) -> Fraction:
        """What has been charged for the permanent answers of a memoized question, drawn or not."""
        row = self._db.execute("SELECT epsilon FROM charges WHERE scope = ?", (scope,)).fetchone()
        return Fraction(row[0]) if row else Fraction()

    def reserved(self, scope: bytes) -> dict[int, int]:
        """How many permanent answers each slot of a memoized question has paid for."""
        return dict(
            self._db.execute("SELECT slot, answers FROM reserves WHERE scope = ?", (scope,))
        )

    def reserve(self, scope: bytes, answers: Mapping[int, int]) -> None:
        """Record how many permanent answers each slot has paid for."""
        rows = [(scope, slot, n) for slot, n in answers.items()]
        self._db.executemany("INSERT OR REPLACE INTO reserves VALUES (?, ?, ?)", rows)
