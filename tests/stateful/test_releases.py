"""Releases over random schedules: an adversary subtracts every published figure from every other,
and isolates no small group.

`DENIABLE_STATEFUL=50` plays fifty times as many schedules.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.history import answer as history_answer
from deniable.aggregator.history import cuts, file_catalogue, period_counts
from deniable.aggregator.history import service as history_service
from deniable.aggregator.history.report_files import STEPS, ReportRows
from deniable.aggregator.state import stored_panes
from deniable.aggregator.windows import closing, granules
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from toolkit.crowds import ORIGIN
from toolkit.releases import Adversary, ReleasingAggregator, telling_query

HALF_HOUR = 1800
MIDNIGHT = ORIGIN // 86400 * 86400
N_EPOCHS = 7
SCHEDULES = 6 * int(os.environ.get("DENIABLE_STATEFUL", "1"))
CUTS: list[dict[str, str]] = [{}, {"by": "hour"}, {"by": "stratum"}]


class ReleasedSchedule:
    """Two queries on one channel, with versions and strata; answers early and late, restarts, every
    question to the history."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        slide = int(self.random.integers(1, 4))
        window = slide + int(self.random.integers(0, 4))
        schedule = Schedule(
            MIDNIGHT,
            MIDNIGHT + N_EPOCHS * HALF_HOUR,
            HALF_HOUR,
            window * HALF_HOUR,
            slide * HALF_HOUR,
        )
        self.n_strata = 1 + seed % 2
        strata = (
            [Stratum("town", 1.0, 300), Stratum("land", 1.0, 100)] if self.n_strata == 2 else []
        )
        how: dict[str, Any] = {"schedule": schedule, "channel": "both", "strata": strata}
        grace = None if seed % 3 == 0 else 2 * HALF_HOUR
        cohort = int(self.random.integers(2, 7))
        first = telling_query(id="first", minimum_cohort=cohort, grace=grace, **how)
        second = telling_query(id="second", minimum_cohort=cohort + 1, **how)
        self.versions: list[list[Query]] = [[first], [second]]
        self.aggregator = ReleasingAggregator(folder, [first, second], early=600)
        self.adversaries = [Adversary(), Adversary()]

    def answer(self, epoch: int) -> None:
        """Answers to any version, of this epoch or a late one."""
        for _ in range(self.random.integers(0, 3)):
            versions = self.versions[int(self.random.random() < 0.3)]
            query = versions[-1 if self.random.random() < 0.8 else 0]
            late = int(self.random.choice([0, 0, 0, 1, 2]))
            n = int(self.random.choice([1, 1, 2, 3, 5, 8]))
            self.aggregator.answer(
                query, max(0, epoch - late), int(self.random.integers(self.n_strata)), n
            )

    def new_version(self) -> None:
        versions = self.versions[int(self.random.integers(2))]
        newer = versions[-1].revised(
            minimum_cohort=max(2, versions[-1].minimum_cohort + int(self.random.integers(-1, 3)))
        )
        self.aggregator.publish(newer)
        versions.append(newer)

    def happen(self, epoch: int) -> None:
        """One epoch, and what comes in between."""
        aggregator = self.aggregator
        for third in range(1, 4):
            self.answer(min(epoch, N_EPOCHS - 1))
            aggregator.now = MIDNIGHT + epoch * HALF_HOUR + third * HALF_HOUR // 3
            over = (aggregator.now - MIDNIGHT - aggregator.channel.grace) // HALF_HOUR
            aggregator.close_epochs(min(N_EPOCHS, over))
            aggregator.revise()
            if self.random.random() < 0.2:
                aggregator.restart()
            if self.random.random() < 0.1:
                aggregator.keeper.publish(everything=True)
        if epoch < N_EPOCHS - 1 and self.random.random() < 0.2:
            self.new_version()
        start, end = sorted(self.random.integers(0, N_EPOCHS + 1, 2).tolist())
        self.ask(start, end + 1, {}, fraction=str(self.random.choice(STEPS) / 100))
        self.check()

    def ask(self, start: int, end: int, how: dict[str, str], **amount: str) -> None:
        """Ask about both queries, and for their counts."""
        times = MIDNIGHT + start * HALF_HOUR, MIDNIGHT + end * HALF_HOUR
        for versions, adversary in zip(self.versions, self.adversaries, strict=True):
            cut = how if how.get("by") != "stratum" or self.n_strata > 1 else {}
            period = {"from": str(times[0]), "to": str(times[1])}
            adversary.read(self.aggregator.ask(versions[-1], **period, **cut, **amount))
            adversary.read(self.aggregator.panes(versions[-1], *times))

    def ask_everything(self) -> None:
        """All periods, cut in all ways, and of some of them every fraction."""
        for start, end in combinations(range(N_EPOCHS + 1), 2):
            self.ask(start, end, CUTS[int(self.random.integers(3))], source="panes")
            if self.random.random() < 0.2 or (start, end) == (0, N_EPOCHS):
                for percent in STEPS[::2]:
                    self.ask(start, end, {}, fraction=str(percent / 100))

    def check(self) -> None:
        """Nothing small is isolated, and what is not released is accounted for."""
        for versions, adversary in zip(self.versions, self.adversaries, strict=True):
            name = versions[0].id
            for window in self.aggregator.windows(versions[0]):
                adversary.read(window)
                if window["final"]:
                    epochs = versions[0].schedule.epochs_of_window(window["index"])
                    panes = stored_panes(self.aggregator.state.connection, name, epochs)
                    assert window["n"] + window["held_back"] == sum(
                        pane.n for pane in panes.values()
                    )
            exposed = adversary.exposed(self.aggregator.cohorts[name])
            assert not exposed, f"{sorted(map(len, exposed))} answers to {name} are isolated"


def play(seed: int, folder: Path) -> ReleasedSchedule:
    """A random schedule from its beginning to its end."""
    folder.mkdir()
    played = ReleasedSchedule(folder, seed)
    try:
        for epoch in range(N_EPOCHS + 3):
            played.happen(epoch)
        played.ask_everything()
        played.check()
    finally:
        played.aggregator.close()
    return played


def play_all(folder: Path) -> None:
    for seed in range(5 * SCHEDULES):
        play(seed, folder / str(seed))


@pytest.mark.slow
def test_no_schedule_lets_an_adversary_isolate_fewer_answers_than_the_cohort(
    tmp_path: Path,
) -> None:
    n_isolated, n_figures = 0, 0
    for seed in range(SCHEDULES):
        for adversary in play(seed, tmp_path / str(seed)).adversaries:
            n_figures += len(adversary.figures)
            n_isolated += len(adversary.isolated()) if adversary.figures else 0
    assert n_figures > 20 * SCHEDULES  # there was something to subtract,
    assert n_isolated > 5 * SCHEDULES  # and it tells groups apart


# --- planted mistakes: the machine must find each of them


def _every_pane_by_itself(sizes: Any, _cohort: int, _schedule: Schedule) -> list[list[int]]:
    """What an aggregator without granules does: whatever was counted is released."""
    return [[epoch] for epoch, _ in sizes]


def _parts_of_granules(connection: Any, query: str, epochs: range) -> list[granules.Granule]:
    """Granules that a period cuts are given as far as they lie in it."""
    found = granules.released_granules(connection, query, range(1 << 40))
    return [
        each._replace(panes=inside)
        for each in found
        if (inside := {key: pane for key, pane in each.panes.items() if key.epoch in epochs})
    ]


def _every_pane_of(found: Iterable[granules.Granule]) -> list[granules.Granule]:
    """Granules taken apart, as if every epoch could be published by itself."""
    return [
        each._replace(first=key.epoch, last=key.epoch, panes={key: pane})
        for each in found
        for key, pane in each.panes.items()
    ]


def _parts_that_cut_granules(
    request: Any, versions: Any, found: Any, *rest: Any
) -> list[cuts.Part]:
    """Every part has what lies in it, also of a granule that lies in several."""
    return cuts.cut_period(request, versions, _every_pane_of(found), *rest)


def _epochs_by_themselves(connection: Any, query: str, epochs: range) -> list[granules.Granule]:
    """The counts of every epoch, however small it is."""
    return _every_pane_of(granules.released_granules(connection, query, epochs))


def _drawn_anew(staged: file_catalogue.StagedReports) -> ReportRows:
    return ReportRows.drawn([(staged.key, staged.reports)])


PLANTED: dict[str, list[tuple[Any, str, Any]]] = {
    "whatever was counted is released": [(granules, "group_epochs", _every_pane_by_itself)],
    "windows cut granules": [(closing, "released_granules", _parts_of_granules)],
    "periods cut granules": [(period_counts, "released_granules", _parts_of_granules)],
    "parts cut granules": [(history_answer, "cut_period", _parts_that_cut_granules)],
    "panes are published epoch by epoch": [
        (history_service, "released_granules", _epochs_by_themselves)
    ],
    "fractions end anywhere": [(period_counts, "ends_a_block", lambda *_: True)],
    "slices are drawn for every answer": [(file_catalogue.StagedReports, "rows", _drawn_anew)],
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, name, planted in PLANTED[mistake]:
        monkeypatch.setattr(place, name, planted)
    with pytest.raises(AssertionError, match="are isolated"):
        play_all(tmp_path)
