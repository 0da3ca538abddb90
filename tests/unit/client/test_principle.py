"""Nothing leaves a device but the randomized report: two devices that differ in their data alone
look alike in all else."""

from __future__ import annotations

import functools
import itertools
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from deniable.client.cadence import Cadence, rounds
from deniable.client.device import Device
from deniable.client.sandbox import interface as sandbox
from deniable.client.sandbox import pool as sandbox_pool
from deniable.client.sandbox.granted import VaultCopy
from deniable.client.vaults.vault import Vault
from deniable.errors import SandboxError, VaultError
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from deniable.queries.strata import Stratum
from toolkit.attacks.observed import (
    Observed,
    PositionedSource,
    RecordingNetwork,
    VirtualClock,
    live,
    make_person,
    set_rows,
)
from toolkit.devices import asked, at, make_policy, queued, signed

FAILS = 99.0
SQL = (
    "SELECT CASE WHEN distance = 99 THEN abs(-9223372036854775807 - 1) ELSE distance END FROM trips"
)
"""An analyst's SQL that fails while it runs, for those whose data hold a certain value."""
HISTORIES: dict[str, list[list[Any]]] = {
    "the same value in all epochs": [[3.5], [3.5], [3.5]],
    "another value in each epoch": [[0.5], [8.5], [2.5]],
    "no row, SQL that fails, a null": [[], [FAILS, 3.5], [None]],
    "several rows, alike and not": [[3.5, 3.5], [1.5, 2.5, 4.5, 5.5], [3.5] * 9],
}
MECHANISM = {"name": "OptimizedUnary", "epsilon": 1.0}


@functools.cache
def others() -> list[Query]:
    """Ten queries that are asked next, each another way."""
    ways: list[dict[str, Any]] = [
        {},
        {"rows": "several", "most_rows": 2},
        {"memoize": True},
        {"cover": True},
        {"mechanism": {"name": "OptimizedUnary", "epsilon": 0.5}},
    ]
    return [
        asked(id=f"next-{i}", **{"mechanism": MECHANISM, **ways[i % len(ways)]}) for i in range(10)
    ]


def assert_alike(
    folder: Path, query: Query, histories: dict[str, list[list[Any]]]
) -> list[Observed]:
    """Lives with these histories look alike, to the last byte that n - 1 proxies see; the budget
    runs out on the way."""
    cost = Fraction(repr(query.epsilon))
    policy = make_policy(
        query, limits=(Limit(3 * cost * query.most_rows + 4, period=40 * 600),), strata=("south",)
    )
    seen = {
        name: live(folder / str(i), policy, rows, query, others())
        for i, (name, rows) in enumerate(histories.items())
    }
    [(first, expected), *rest] = seen.items()
    for name, found in rest:
        for part in ("outcomes", "ledger", "queue", "sends", "polls"):
            assert getattr(found, part) == getattr(expected, part), (
                f"{part} tell {name!r} from {first!r}"
            )
    return list(seen.values())


def queries() -> list[Query]:
    grid = itertools.product(
        [False, True], ["random", "aggregate", "several"], [False, True], [False, True], [1.0, 0.7]
    )
    return [
        asked(
            sql=SQL,
            mechanism=MECHANISM,
            memoize=memoize,
            distinct=2 if memoize else 1,
            rows=rows,
            most_rows=3 if rows == "several" else 1,
            cover=cover,
            strata=[Stratum("north"), Stratum("south", sampling=sampling)] if strata else [],
            sampling=sampling,
        )
        for memoize, rows, cover, strata, sampling in grid
    ]


def named(query: Query) -> str:
    flags = [name for name in ("memoize", "cover", "strata") if getattr(query, name)]
    return "-".join([query.rows, *flags, *(["sampled"] if query.sampling < 1 else [])])


@pytest.mark.parametrize("query", queries(), ids=named)
def test_whatever_the_data_are_a_device_sends_charges_and_refuses_alike(
    tmp_path: Path, query: Query
) -> None:
    [one, *_] = assert_alike(tmp_path, query, HISTORIES)
    outcomes = [outcome for outcome, *_ in one.outcomes]
    assert outcomes[:3].count("answered") == (3 if query.sampling == 1 else 2), (
        "two answers at least, or nothing was compared"
    )
    assert "refused" in outcomes, "the limit is never reached, so refusals were not compared"
    assert one.sends


@pytest.mark.parametrize(
    ("rows", "memoize"), [("all", False), ("all", True), ("random", False), ("random", True)]
)
def test_answers_in_several_buckets_are_sent_charged_and_refused_alike(
    tmp_path: Path, rows: str, memoize: bool
) -> None:
    query = asked(
        sql=SQL,
        mechanism=MECHANISM,
        rows=rows,
        ones=3,
        memoize=memoize,
        distinct=2 if memoize else 1,
    )
    [one, *_] = assert_alike(tmp_path, query, HISTORIES)
    assert [outcome for outcome, *_ in one.outcomes][:3] == ["answered"] * 3
    assert "refused" in [outcome for outcome, *_ in one.outcomes]


def test_sql_with_too_many_columns_is_no_way_to_make_only_some_devices_silent(
    tmp_path: Path,
) -> None:
    """Where it ran, it was refused for its columns; where it failed, it was answered: one bit of
    truth in each epoch."""
    assert_alike(
        tmp_path, asked(sql=SQL.replace("SELECT", "SELECT 1,", 1), mechanism=MECHANISM), HISTORIES
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "error",
    [
        VaultError("x"),
        SandboxError("x"),
        UnicodeError(),
        MemoryError(),
        RecursionError(),
        KeyError(),
    ],
)
def test_no_error_on_the_way_from_the_data_to_the_report_is_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    real = sandbox.answer

    raised: list[bool] = []

    def answer(*arguments: Any, **options: Any) -> sandbox.SandboxAnswer:
        found = real(*arguments, **options)
        if found.buckets == [8]:
            raised.append(True)
            raise error
        return found

    monkeypatch.setattr(sandbox, "answer", answer)
    for memoize in (False, True):
        query = asked(
            mechanism=MECHANISM, memoize=memoize, distinct=1 + memoize, id=f"q-{int(memoize)}"
        )
        (tmp_path / query.id).mkdir()
        assert_alike(tmp_path / query.id, query, HISTORIES)
        assert raised, "no error was on the way"
        raised.clear()


# --- time

TAKES = {1.5: 0.05, 2.5: 0.25, 3.5: 1.9, 4.5: 2.9}
"""Seconds that the SQL takes for a person with this distance. The deadline is one; two later the
process is killed."""
Loop = Callable[[Device, RecordingNetwork, VirtualClock], None]


def by_cadence(device: Device, network: RecordingNetwork, clock: VirtualClock) -> None:
    cadence = Cadence(60, device.policy.slot)
    for _ in itertools.islice(rounds(device, network, cadence, clock=clock, sleep=clock.sleep), 25):
        pass


def sleeping_after_the_work(device: Device, network: RecordingNetwork, clock: VirtualClock) -> None:
    """What the client once did."""
    for _ in range(25):
        found = device.fetch(network)
        device.answer_all(found)
        device.upload(network)
        clock.sleep(60)


def seen_over_time(
    folder: Path, loop: Loop, distance: float, monkeypatch: pytest.MonkeyPatch
) -> Observed:
    """A person with this distance lives for 25 minutes, asked seven questions every ten."""
    asking = [
        asked(id=f"q-{i}", mechanism=MECHANISM, memoize=i % 2 == 1, cover=True, sampling=0.7)
        for i in range(7)
    ]
    clock, source = VirtualClock(at(0, 20)), PositionedSource("coins")
    device = make_person(folder, make_policy(asking[0]), source, on_step=source.step, clock=clock)
    set_rows(device.vault, [distance])
    network = RecordingNetwork(clock=clock, last=asking[0].proxies[-1])
    network.relayed = {
        proxy: [signed(query).to_bytes() for query in asking] for proxy in asking[0].proxies
    }
    real = sandbox.answer

    def answer(
        vault: Vault, task: sandbox.SandboxTask, *arguments: Any, **options: Any
    ) -> sandbox.SandboxAnswer:
        found = real(vault, task, *arguments, **options)
        clock.sleep(TAKES[distance])
        return task.nothing() if TAKES[distance] > device.policy.deadline else found

    monkeypatch.setattr(sandbox, "answer", answer)
    loop(device, network, clock)
    monkeypatch.undo()
    return network.seen


@pytest.mark.slow
def test_the_time_of_polls_and_uploads_does_not_tell_how_long_the_sql_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [one, *rest] = [
        seen_over_time(tmp_path / str(i), by_cadence, d, monkeypatch) for i, d in enumerate(TAKES)
    ]
    assert len(one.polls) == 2 * 25
    assert len(one.sends) > 10
    assert len({moment for moment, *_ in one.sends}) > 3
    for other in rest:
        assert other.polls == one.polls
        assert other.sends == one.sends


@pytest.mark.slow
def test_a_client_that_sleeps_after_its_work_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, slow = (
        seen_over_time(tmp_path / str(d), sleeping_after_the_work, d, monkeypatch)
        for d in (1.5, 2.5)
    )
    assert quick.polls != slow.polls
    assert quick.sends != slow.sends


def test_a_read_that_does_not_end_is_answered_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vault that has changed is copied before it is read, and that takes as long as it is
    large."""
    query = asked(mechanism=MECHANISM)
    source = PositionedSource("coins")
    device = make_person(
        tmp_path / "ann", make_policy(query, deadline=0.1), source, on_step=source.step
    )
    released = threading.Event()

    def answer(*_: Any, **options: Any) -> sandbox.SandboxAnswer:
        released.wait(60)
        raise AssertionError

    monkeypatch.setattr(sandbox, "answer", answer)
    monkeypatch.setattr("deniable.client.reading._START_UP", 0.1)
    started = time.monotonic()
    receipt = device.answer(signed(query), at(0))
    taken = time.monotonic() - started
    released.set()
    assert receipt.outcome == "answered"
    assert taken < device.policy.slot


# --- a vault that is large, or in use


def asked_two_ways() -> list[Query]:
    """SQL that compiles on what is granted, and SQL that does not; the first is answered first."""
    return [
        asked(id="a", serial=9, mechanism=MECHANISM),
        asked(id="b", mechanism=MECHANISM, sql="SELECT secret FROM trips"),
    ]


def make_patient(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr("deniable.client.reading._START_UP", 0.4)
    source = PositionedSource("coins")
    return make_person(folder, make_policy(asked(), deadline=0.1), source, on_step=source.step)


def done(device: Device, epoch: int) -> list[tuple[Any, ...]]:
    """What the device does with the two queries, and what waits for its proxies then."""
    receipts = device.answer_all([signed(query) for query in asked_two_ways()], at(epoch))
    return [(r.query, r.outcome, r.reason, r.epsilon) for r in receipts] + queued(device)


def test_a_vault_that_takes_long_to_copy_does_not_keep_sql_from_being_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy for one query goes on while the next one is looked at, and how long it takes is how
    much is shared."""
    small, large = (make_patient(tmp_path / name, monkeypatch) for name in ("small", "large"))
    for device in (small, large):
        set_rows(device.vault, [3.5])
    released, real = threading.Event(), VaultCopy.advance

    def advance(copying: VaultCopy, *arguments: Any) -> bool:
        released.wait(30)
        return real(copying, *arguments)

    expected = done(small, 0)
    assert [outcome for _, outcome, *_ in expected[:2]] == ["answered", "refused"]
    monkeypatch.setattr(VaultCopy, "advance", advance)
    found = done(large, 0)
    released.set()
    assert found == expected


@pytest.mark.parametrize("known", [True, False], ids=["read before", "never read"])
def test_a_vault_that_its_owner_is_writing_to_does_not_change_what_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """What was granted when the vault could last be read decides; what is only refused is refused
    in any case."""
    idle, writing = (make_patient(tmp_path / name, monkeypatch) for name in ("idle", "writing"))
    for device in (idle, writing):
        set_rows(device.vault, [3.5])
        if known:
            done(device, 0)
    sandbox_pool.close_all()  # nothing is left in memory, as after a restart
    expected = done(idle, 1)
    with closing(sqlite3.connect(writing.vault.path, isolation_level=None)) as owner:
        owner.execute("BEGIN EXCLUSIVE")
        owner.execute("DELETE FROM trips")
        found = done(writing, 1)
    if known:
        assert found == expected
    else:
        assert [(outcome, reason) for _, outcome, reason, _ in found] == [("refused", "vault")] * 2


def test_a_vault_that_is_gone_is_not_answered_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = make_patient(tmp_path / "ann", monkeypatch)
    assert done(device, 0)[0][1] == "answered"
    device.vault.path.unlink()
    assert [(outcome, reason) for _, outcome, reason, _ in done(device, 1)[:2]] == [
        ("refused", "vault")
    ] * 2
