"""Distinguishing games: a million devices in each of two worlds, and whether their reports tell the
worlds apart too well.

An adversary who sees all reports of a device, over all rows and epochs, names an event that is
likelier in one world: chosen on devices of their own, so that the choice costs no confidence.
ln(P1/P0) is at least the lower Clopper-Pearson bound of P1 over the upper one of P0, and that must
not exceed the loss that is claimed. Each bound fails with a probability of 1e-9, so that an honest
game is lost with at most 4e-9, two directions taken together. The seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

from deniable.client.simulation.fleet import Fleet
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.randomness import Source, seeded_source
from deniable.scripted_randomness import every_path
from deniable.wire.shares import join_columns
from toolkit.devices import asked

N = 1_000_000
N_TO_CHOOSE = 200_000
FALSE_ALARM = 1e-9
THREE = [Column("answer", ["no", "yes"], other=True)]
COIN = {"name": "UnaryEncoding", "a": 0.625, "b": 0.375}
"""Three bits. An answer that changes costs 2 ln(5/3) = 1.0217, which the report of its bucket alone
reaches."""
RAPPOR = {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75}

History = Sequence[Sequence[int]]
"""The buckets of a device's rows, epoch by epoch."""
Memory = Callable[[Query, int], Any]


def reports(
    query: Query, history: History, n: int, source: Source, memory: Memory | None = None
) -> NDArray[np.int64]:
    """All that each of n devices with this history reports, as one number per device."""
    fleet = Fleet(query, n, source=source)
    if memory is not None:
        fleet._memo = memory(query, n)
    everyone, out = np.arange(n), np.zeros(n, dtype=np.int64)
    for rows in history:
        for column in fleet._reports(everyone, np.tile(np.array(rows), n)).reshape(n, -1).T:
            out = out * 8 + column
    return out


def lower_bound(query: Query, one: History, two: History, memory: Memory | None = None) -> float:
    """What the loss is at least, by the better of the two directions."""
    found = []
    for direction in ((one, two), (two, one)):
        looks = [
            reports(query, world, N_TO_CHOOSE, seeded_source(f"look {i}"), memory)
            for i, world in enumerate(direction)
        ]
        likely, rare = (
            np.bincount(look, minlength=8 ** (len(one) * len(one[0]))) for look in looks
        )
        ratios = np.where(likely >= 200, likely / (rare + 1), 0)
        event = ratios >= 0.9 * ratios.max()
        k1, k0 = (
            int(event[reports(query, world, N, seeded_source(f"game {i}"), memory)].sum())
            for i, world in enumerate(direction)
        )
        low, high = beta.ppf(FALSE_ALARM, k1, N - k1 + 1), beta.isf(FALSE_ALARM, k0 + 1, N - k0)
        found.append(math.log(low / high))
    return max(found)


GAMES: dict[str, tuple[dict[str, Any], History, History, int]] = {
    "memoized, two values that stay": ({"memoize": True}, [[0], [0]], [[1], [1]], 1),
    "memoized, one that stays and one that changes": (
        {"memoize": True},
        [[0], [0], [0]],
        [[1], [0], [2]],
        1,
    ),
    "memoized, two distinct values": (
        {"memoize": True, "distinct": 2},
        [[0], [1], [0]],
        [[1], [0], [1]],
        2,
    ),
    "memoized, more values than are paid for": (
        {"memoize": True, "distinct": 2},
        [[0], [1], [2], [2]],
        [[1], [2], [0], [0]],
        2,
    ),
    "several rows, one of which changes": ({}, [[0, 0]], [[0, 1]], 1),
    "several rows, all of which change": ({}, [[0, 0]], [[1, 1]], 2),
    "several rows, or none": ({}, [[0, 1]], [[2, 2]], 2),
    "memoized, several rows, one of which differs": (
        {"memoize": True},
        [[0, 0], [0, 0]],
        [[0, 1], [0, 1]],
        1,
    ),
    "memoized, several rows, all of which differ": (
        {"memoize": True},
        [[0, 0], [0, 0]],
        [[1, 1], [1, 1]],
        2,
    ),
    "memoized, several rows, alike and not": ({"memoize": True}, [[1, 0]], [[2, 2]], 2),
}
"""The query, two worlds, and for how many rows and values the loss is claimed."""


def question(mechanism: Any, changes: dict[str, Any], history: History) -> Query:
    rows = {"rows": "several", "most_rows": len(history[0])} if len(history[0]) > 1 else {}
    return asked(columns=THREE, mechanism=mechanism, **rows, **changes)


@pytest.mark.parametrize("game", GAMES)
def test_what_a_million_devices_report_stays_within_the_loss_that_is_claimed(game: str) -> None:
    changes, one, two, times = GAMES[game]
    query = question(COIN, changes, one)
    bound = lower_bound(query, one, two)
    claim = times * query.epsilon_charged
    assert bound <= claim
    assert bound > 0.9 * claim, (
        "the adversary does not even reach what is true, and would not notice more"
    )


def test_the_reports_of_a_permanent_answer_of_two_steps_stay_within_its_lifetime_loss() -> None:
    query = question(RAPPOR, {"memoize": True}, [[0]])
    bound = lower_bound(query, [[0]] * 5, [[1]] * 5)
    # more than one report tells, and less than the permanent answer
    assert query.epsilon < bound <= query.epsilon_charged


def test_the_sampled_loss_is_no_bound_for_someone_who_sees_whether_a_device_reported() -> None:
    """The condition that the threat model states: of single devices, the aggregator knows who took
    part."""
    query = question({"name": "OptimizedUnary", "epsilon": 2.0}, {"sampling": 0.3}, [[0]])
    events = []
    for world in (0, 1):
        sent = Fleet(query, N, source=seeded_source(f"single {world}")).answer(0, np.full(N, world))
        found = join_columns(sent.columns, 0).reports(query.tag, query.report_bytes)[0]
        bits = np.unpackbits(found, axis=1, bitorder="little")[:, :2]
        events.append(int((bits == [1, 0]).all(axis=1).sum()))  # it reported, and this
    bound = math.log(
        beta.ppf(FALSE_ALARM, events[0], N) / beta.isf(FALSE_ALARM, events[1] + 1, N - events[1])
    )
    assert query.epsilon_sampled < 1.08
    assert 1.8 < bound <= query.epsilon_local == query.epsilon


# --- the games notice what they are played for


class AsOnce:
    """The memory that fleets and devices once had: a permanent answer for each true answer, shared
    by all rows."""

    def __init__(self, query: Query, n: int) -> None:
        self._query, self._rows, self._drawn = (
            query,
            np.zeros((n, 3, 1), dtype=np.uint8),
            np.zeros((n, 3), dtype=np.bool_),
        )

    def reports(
        self, devices: NDArray[np.intp], truth: NDArray[np.intp], source: Source
    ) -> NDArray[np.uint8]:
        who = np.repeat(devices, self._query.most_rows)
        for answer in range(3):
            drawn = self._query.mechanism.draw(np.full(len(self._rows), answer), source)
            self._rows[:, answer] = np.where(
                self._drawn[:, answer, None], self._rows[:, answer], drawn
            )
        self._drawn[who, truth] = True
        return self._rows[who, truth]


class Forgetful(AsOnce):
    """A memory that keeps nothing: every report is drawn afresh."""

    def reports(
        self, devices: NDArray[np.intp], truth: NDArray[np.intp], source: Source
    ) -> NDArray[np.uint8]:
        drawn: NDArray[np.uint8] = self._query.mechanism.draw(truth, source)
        return drawn


@pytest.mark.parametrize(
    ("game", "memory"),
    [
        ("memoized, two values that stay", Forgetful),
        # it drew without end, and showed each change
        ("memoized, one that stays and one that changes", AsOnce),
        ("several rows, one of which changes", AsOnce),
        ("memoized, several rows, one of which differs", AsOnce),
        ("memoized, several rows, alike and not", AsOnce),
        ("memoized, several rows, all of which differ", Forgetful),
    ],
)
def test_the_games_are_lost_by_what_breaks_the_claim(game: str, memory: Memory) -> None:
    changes, one, two, times = GAMES[game]
    query = question(COIN, changes, one)
    assert lower_bound(query, one, two, memory) > 1.5 * times * query.epsilon_charged


# --- without chance


def test_the_exact_loss_of_memoized_rows_is_that_of_the_rows_which_change() -> None:
    """Every path of the draws of two rows in two epochs: c rows that change cost exactly c times
    one row."""
    columns = [Column("answer", ["no"], other=True)]
    query = asked(
        columns=columns,
        mechanism={"name": "DirectEncoding", "epsilon": 1.0},
        memoize=True,
        rows="several",
        most_rows=2,
    )

    def law(rows: list[int]) -> dict[bytes, Fraction]:
        def play(source: Source) -> bytes:
            fleet = Fleet(query, 1, source=source)
            return b"".join(
                fleet._reports(np.arange(1), np.array(rows)).tobytes() for _ in range(2)
            )

        found: dict[bytes, Fraction] = {}
        for p, seen in every_path(play):
            found[seen] = found.get(seen, Fraction()) + p
        assert sum(found.values()) == 1
        return found

    laws = {rows: law(list(rows)) for rows in ((0, 0), (0, 1), (1, 0), (1, 1))}
    assert {len(found) for found in laws.values()} == {4}, (
        "two rows, each with its own kept answer, whatever the rows are"
    )
    for one, first in laws.items():
        for two, second in laws.items():
            changed = sum(a != b for a, b in zip(one, two, strict=True))
            loss = math.log(max(first[seen] / second[seen] for seen in first))
            assert math.isclose(loss, changed * query.epsilon, abs_tol=1e-12)
