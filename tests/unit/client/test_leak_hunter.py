"""Nothing tells two devices apart that differ in their data alone, and planted leaks are found.

`DENIABLE_LEAK_HUNT_MINUTES=10` hunts for so long, instead of through the first scenarios alone.
"""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest

from deniable.queries.signed.signing import SignedQuery, authenticate
from deniable.sql.guard import LARGEST_CELL
from toolkit.attacks.leak_hunter import (
    Finding,
    difference_of,
    first_leak,
    hunt,
    shrink,
)
from toolkit.attacks.leak_hunter_device import SLOWNESS, Life, ProcessorClock, processor_seconds
from toolkit.attacks.leak_hunter_plants import PLANTS, Plant
from toolkit.attacks.leak_hunter_scenarios import (
    DISTANCES,
    KINDS,
    KNOWN,
    LONG_TEXT,
    OWNERS,
    Ask,
    Contents,
    Scenario,
    scenario_of,
    simpler,
)
from toolkit.devices import ORIGIN, make_policy

N_SCENARIOS = 20
"""Of the short form, besides the known ones."""


@pytest.mark.slow
def test_the_hunter_finds_no_leak_in_an_honest_device() -> None:
    """In a process of its own: the hunter charges a device the time of the process it lives in, and
    this one also collects garbage and serves other tests."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        minutes = float(os.environ.get("DENIABLE_LEAK_HUNT_MINUTES", "0"))
        seen, found = alone.submit(hunt, -len(KNOWN), N_SCENARIOS, minutes).result()
    for what in ("answered", "sampled out", "refused", "uploads", "polls"):
        assert seen[what] > 3, f"the lives were too quiet: {what}"
    assert not found, "\n\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTS.values(), ids=PLANTS)
def test_the_hunter_finds_a_planted_leak(plant: Plant) -> None:
    """In the same scenario an honest device does not show it, so it is this leak that was found."""
    scenarios = map(scenario_of, range(plant.seed, plant.seed + 3))
    assert first_leak(scenarios, plant.conduct, plant.part) is not None


# --- the hunter's parts ---------------------------------------------------------------------------


def test_a_scenario_is_made_from_its_seed_alone_and_all_kinds_are_asked() -> None:
    drawn = [scenario_of(seed) for seed in range(200)]
    assert [scenario_of(seed) for seed in range(200)] == drawn
    assert {ask.kind for scenario in drawn for ask in scenario.asks} == set(KINDS)
    assert {scenario.one.owner for scenario in drawn} == set(OWNERS)
    assert 0.2 < sum(scenario.same_granted for scenario in drawn) / len(drawn) < 0.6
    assert all(scenario.one != scenario.other for scenario in drawn)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_query_can_be_signed_at_its_largest(kind: str) -> None:
    sizes = [ask.size for seed in range(200) for ask in scenario_of(seed).asks if ask.kind == kind]
    [(query, relayed)] = Scenario(0, Contents(), Contents(), (Ask(kind, max(sizes)),)).queries()
    verified = authenticate(SignedQuery.from_bytes(relayed), make_policy(query).ring, ORIGIN)
    assert verified.digest == query.digest


def run_sql(kind: str, size: int, trip: str) -> list[tuple[object, ...]] | str:
    """What a query finds where this is the only trip, with a cell's limit, or how it fails."""
    [(query, _)] = Scenario(0, Contents(), Contents(), (Ask(kind, size),)).queries()
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE trips (distance REAL, note TEXT)")
        connection.execute("INSERT INTO trips VALUES (?, '')", (DISTANCES[trip],))
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_CELL)
        ends = time.process_time() + 0.3
        connection.set_progress_handler(lambda: time.process_time() > ends, 1000)
        try:
            return connection.execute(query.sql).fetchall()
        except sqlite3.Error as error:
            return error.sqlite_errorname


@pytest.mark.parametrize(
    ("kind", "size", "harm"),
    [
        ("fails where far", 0, "SQLITE_ERROR"),
        ("slow where far", 0, "SQLITE_INTERRUPT"),
        ("long text where far", 100_000, "SQLITE_TOOBIG"),
        ("a blob where far", 0, [(b"\0",)]),
    ],
)
def test_hostile_sql_harms_those_who_have_gone_far(kind: str, size: int, harm: object) -> None:
    assert run_sql(kind, size, "near") == [(DISTANCES["near"],)]
    assert run_sql(kind, size, "far") == harm


def test_long_texts_and_many_rows_are_made_for_those_who_have_gone_far() -> None:
    for kind in ("heavy patterns where far", "heavy rows where far"):
        for trip, length in (("near", 1), ("far", LONG_TEXT)):
            rows = run_sql(kind, 40, trip)
            assert {len(str(cell)) for row in rows for cell in row} == {length}
    assert run_sql("many rows where far", 0, "near") == []
    assert len(run_sql("many rows where far", 0, "far")) == 10_000


def burn(seconds: float) -> None:
    ends = time.process_time() + seconds
    while time.process_time() < ends:
        pass


@pytest.mark.slow
def test_the_clock_charges_the_work_of_a_device_and_of_its_processes_and_no_waiting() -> None:
    clock = ProcessorClock(1000)
    time.sleep(0.3)
    assert clock() == 1000
    burn(1 / SLOWNESS)
    assert 1000.5 <= clock() <= 1002
    clock.sleep(7)
    program = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"
    command, pipe = [sys.executable, "-c", program], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as child:  # noqa: S603 - ours
        assert child.stdout is not None
        assert child.stdin is not None
        start = clock.time
        child.stdout.readline()
        running = clock()
        child.stdin.close()
    assert start + 0.5 * SLOWNESS <= running, "a child that still runs is not charged"
    assert running <= clock(), "a child that has ended is no longer charged"
    with clock.stopped():
        before = processor_seconds()
        burn(0.5)
        assert processor_seconds() - before >= 0.5
    assert clock() < running + 0.5 * SLOWNESS


def test_a_device_that_sleeps_until_a_moment_wakes_at_it_exactly() -> None:
    clock = ProcessorClock(1000)
    burn(0.4 / SLOWNESS)  # just below the next step of the clock
    now = clock()
    burn(0.2 / SLOWNESS)
    clock.sleep(1007 - now)
    assert clock() == 1007


def test_a_leak_is_shrunk_to_what_it_needs() -> None:
    asks = (
        Ask("plain", cover=True),
        Ask("memory", 24, rows="several", memoize=True, sampling=0.7),
        Ask("count"),
    )
    epochs = (("near", "far"), ("far",))
    large = Contents(epochs, copies=300, note=5, hidden=10, deleted=8_000, owner="commits")
    scenario = Scenario(7, Contents(), large, asks, n_epochs=2, limit=30)

    def probe(given: Scenario) -> Finding | None:
        asked = any(ask.kind == "memory" and ask.memoize for ask in given.asks)
        leaks = asked and given.other.deleted > given.one.deleted
        return Finding(given, ("reports",)) if leaks else None

    found = shrink(Finding(scenario, ("reports",)), probe)
    needed = (Ask("memory", 24, memoize=True),)
    assert found.scenario == Scenario(7, Contents(), Contents(deleted=8_000), needed)


def test_shrinking_never_makes_the_vaults_equal_and_ends() -> None:
    for seed in range(100):
        found = shrink(
            Finding(scenario_of(seed), ("polls",)),
            lambda given: Finding(given, ("polls",)),
            most_tries=1000,
        )
        assert found.scenario.one != found.scenario.other
        assert len(found.scenario.asks) == 1
        assert all(each.one != each.other for each in simpler(scenario_of(seed)))


def test_another_leak_met_while_shrinking_is_not_taken_for_the_one_that_was_found() -> None:
    found = Finding(scenario_of(3), ("sends", "polls"))
    assert shrink(found, lambda given: Finding(given, ("polls",))) == found


def test_only_what_is_not_granted_may_differ_where_reports_are_compared() -> None:
    near, far = Contents((("near",),)), Contents((("far",),))
    assert Scenario(0, near, replace(near, hidden=9, deleted=9), ()).same_granted
    for changed in (
        far,
        replace(near, copies=2),
        replace(near, note=1),
        replace(near, owner="locks"),
    ):
        assert not Scenario(0, near, changed, ()).same_granted
    one, other = Life(reports=[b"1"]), Life(reports=[b"2"])
    assert one.differing(other, reports=True) == ("reports",)
    assert one.differing(other, reports=False) == ()


@pytest.mark.parametrize("part", Life.MUST_BE_EQUAL)
def test_whatever_differs_is_noticed(part: str) -> None:
    one, other = Life(), Life()
    setattr(other, part, {"spent": [(1,)]} if part == "ledger" else [(1, "x")])
    assert one.differing(other, reports=False) == (part,)


def test_what_is_told_of_a_leak_holds_no_payload_and_says_how_to_see_it_again() -> None:
    secret = b"an answer"
    one = Life(sends=[(5.0, "https://two.example", "token", 9, secret)], reports=[secret])
    other = Life(sends=[(5.0, "https://two.example", "token", 9, [secret])])
    one.ledger["receipts"], other.ledger["receipts"] = [], [(secret,)]
    found = difference_of(one, other, scenario_of(-2))
    assert found is not None
    assert found.parts == ("sends", "ledger", "reports")
    assert "an answer" not in str(found)
    assert "python -m toolkit.attacks.leak_hunter --seed -2 --count 1" in str(found)
    assert "https://two.example" in str(found)
