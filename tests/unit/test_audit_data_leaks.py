"""An audit of a device by what its vault holds: honest devices hold, and the leaks that devices once had are found."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from deniable.audit.data_leaks import compared_contents
from deniable.audit.devices import SlowDevice
from deniable.audit.vault_pairs import made_pair
from deniable.client import device
from deniable.client.receipts import Receipt
from deniable.client.store import StoreTransaction
from deniable.queries.query import Query
from deniable.queries.signing import SignedQuery
from toolkit.devices import asked

pytestmark = pytest.mark.slow

HIDDEN, PATTERNS, LARGE = range(3)


def checks(folder: Path, kind: type[SlowDevice] = SlowDevice) -> list[bool]:
    query = asked(mechanism={"name": "OptimizedUnary", "epsilon": 2.0})
    found = compared_contents(query, made_pair(query, folder), folder, kind)
    return [each.holds for each in found]


def test_an_honest_device_shows_nothing_of_what_its_vault_holds(tmp_path: Path) -> None:
    assert checks(tmp_path) == [True, True, True]


class MemoryByTheWholeFile(SlowDevice):
    """The limit on memory grows with the file, hidden tables and free pages included."""

    def answer(self, signed: SignedQuery | bytes, now: int | None = None) -> Receipt:
        policy = self.policy
        self.policy = replace(policy, max_memory=policy.max_memory + 16 * self.vault.path.stat().st_size)
        try:
            return super().answer(signed, now)
        finally:
            self.policy = policy


class BucketsOnTheMainThread(SlowDevice):
    """Rows are put into buckets after the SQL, without a deadline, by patterns of unbounded cost."""

    def _read(self, book: StoreTransaction, query: Query) -> list[int]:
        with closing(sqlite3.connect(self.vault.path)) as connection:
            (largest,) = connection.execute("SELECT max(distance) FROM audit_rows").fetchone()
        ends = time.process_time() + 3.0
        while largest > 5 and "patterns" in query.id and time.process_time() < ends:
            pass
        return super()._read(book, query)


class RefusalWhileACopyCompetes(SlowDevice):
    """The deadline that decides a refusal goes on while what is granted is copied."""

    def _check_sql(self, book: StoreTransaction, query: Query) -> None:
        start = time.process_time()
        with closing(sqlite3.connect(self.vault.path)) as connection:
            sorted(connection.execute("SELECT distance FROM audit_rows"), key=str)
        if time.process_time() - start > 0.01:
            raise device._Stop("refused", "forbidden SQL", "compiling took too long")
        super()._check_sql(book, query)


@pytest.mark.parametrize(
    ("kind", "broken"),
    [(MemoryByTheWholeFile, HIDDEN), (BucketsOnTheMainThread, PATTERNS), (RefusalWhileACopyCompetes, LARGE)],
    ids=["memory by the file", "buckets without a deadline", "a refusal by a competing copy"],
)
def test_a_leak_that_is_planted_back_is_found(kind: type[SlowDevice], broken: int, tmp_path: Path) -> None:
    assert not checks(tmp_path, kind)[broken]
