"""An audit of a device by what its vault holds: honest devices hold, and the leaks that devices
once had are found."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deniable.audit.data_leaks import compared_contents
from deniable.audit.device_lives import DeviceLife, SlowDevice, compared_lives
from deniable.audit.vault_pairs import made_pair
from deniable.client.policy import Policy
from deniable.client.reading import Stop
from deniable.client.receipts import Receipt
from deniable.client.sandbox.interface import SandboxAnswer, SandboxTask
from deniable.client.storage.store import StoreTransaction
from deniable.errors import ParameterError
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery
from toolkit.devices import asked, make_policy

pytestmark = pytest.mark.slow

HIDDEN, PATTERNS, LARGE = range(3)


QUERY = asked(mechanism={"name": "OptimizedUnary", "epsilon": 2.0})
OWNER = make_policy(
    QUERY,
    epsilon_per_answer=4,
    limits=(Limit(8),),
    deadline=0.5,
    max_memory=16 << 20,
    upload_within=90,
)
"""The policy of devices that are deployed: not what the audit makes up."""


def checks(
    folder: Path, kind: type[SlowDevice] = SlowDevice, policy: Policy | None = None
) -> list[bool]:
    found = compared_contents(QUERY, made_pair(QUERY, folder), folder, kind, policy)
    return [each.holds for each in found]


def test_an_honest_device_shows_nothing_of_what_its_vault_holds(tmp_path: Path) -> None:
    assert checks(tmp_path) == [True, True, True]


def test_devices_live_under_the_operator_s_policy(tmp_path: Path) -> None:
    seen: list[Policy] = []

    class Noting(SlowDevice):
        def _read(self, query: Query, task: SandboxTask) -> SandboxAnswer:
            seen.append(self.policy)
            return super()._read(query, task)

    assert checks(tmp_path, Noting, OWNER) == [True, True, True]
    assert len(seen) == 3 * 4, "all three queries were answered on all four devices"
    for policy in seen:
        assert replace(policy, ring=OWNER.ring, proxies=OWNER.proxies) == OWNER
        assert set(policy.proxies.values()) == {"token"}, "the tokens of the operator are not used"


def test_a_leak_is_found_under_the_operator_s_policy(tmp_path: Path) -> None:
    assert not checks(tmp_path, MemoryByTheWholeFile, OWNER)[HIDDEN]


def test_as_much_is_spent_as_the_operator_s_limits_allow(tmp_path: Path) -> None:
    owner = replace(OWNER, limits=(Limit(6), Limit(100, period=86_400), Limit(1, period=60)))
    life = DeviceLife(
        QUERY,
        tmp_path,
        AnalystKey.generate(QUERY.analyst),
        owner=replace(owner, limits=owner.limits[:2]),
    )
    comparisons, last = compared_lives(life, made_pair(QUERY, tmp_path), 1)
    assert all(each.holds for each in comparisons)
    assert sum(outcome == "answered" for _, outcome, *_ in last.outcomes) == 3, (
        "a limit of 6 pays for three answers of 2"
    )
    assert replace(life, owner=owner).limit() == 6, (
        "a limit for a minute says nothing of four epochs"
    )
    assert replace(life, owner=replace(owner, limits=owner.limits[2:])).limit() is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"epsilon_per_answer": 1}, "an answer would cost 2, but your ceiling for one answer is 1"),
        ({"limits": (Limit(1),)}, "an answer costs 2, and the limit is 1"),
        ({"refused": (QUERY.analyst,)}, "you have refused"),
        ({"proxies": {}}, "not among the proxies you allow"),
    ],
)
def test_a_policy_that_refuses_the_query_is_named(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=f"refuses query 'taxi-distance': .*{reason}"):
        compared_contents(
            QUERY, made_pair(QUERY, tmp_path), tmp_path, policy=replace(OWNER, **changes)
        )


class MemoryByTheWholeFile(SlowDevice):
    """The limit on memory grows with the file, hidden tables and free pages included."""

    def answer(self, signed: SignedQuery | bytes, now: int | None = None) -> Receipt:
        policy = self.policy
        self.policy = replace(
            policy, max_memory=policy.max_memory + 16 * self.vault.path.stat().st_size
        )
        try:
            return super().answer(signed, now)
        finally:
            self.policy = policy


class BucketsOnTheMainThread(SlowDevice):
    """Rows are put into buckets after the SQL, without a deadline, by patterns of unbounded
    cost."""

    def _read(self, query: Query, task: SandboxTask) -> SandboxAnswer:
        with closing(sqlite3.connect(self.vault.path)) as connection:
            (largest,) = connection.execute("SELECT max(distance) FROM audit_rows").fetchone()
        ends = time.process_time() + 3.0
        while largest > 5 and "max(distance)" in task.sql and time.process_time() < ends:
            pass
        return super()._read(query, task)


class RefusalWhileACopyCompetes(SlowDevice):
    """The deadline that decides a refusal goes on while what is granted is copied."""

    def _check_sql(self, transaction: StoreTransaction, query: Query) -> None:
        start = time.process_time()
        with closing(sqlite3.connect(self.vault.path)) as connection:
            sorted(connection.execute("SELECT distance FROM audit_rows"), key=str)
        if time.process_time() - start > 0.01:
            raise Stop("refused", "forbidden SQL", "compiling took too long")
        super()._check_sql(transaction, query)


@pytest.mark.parametrize(
    ("kind", "broken"),
    [
        (MemoryByTheWholeFile, HIDDEN),
        (BucketsOnTheMainThread, PATTERNS),
        (RefusalWhileACopyCompetes, LARGE),
    ],
    ids=["memory by the file", "buckets without a deadline", "a refusal by a competing copy"],
)
def test_a_leak_that_is_planted_back_is_found(
    kind: type[SlowDevice], broken: int, tmp_path: Path
) -> None:
    assert not checks(tmp_path, kind)[broken]
