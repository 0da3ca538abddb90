"""Rehearse a query: play scenarios on simulated people, and say what to expect, what is lost, and
whether to believe the ±."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.windows.window import COMPLETE
from deniable.audit.rehearsal.liars import flagged_from
from deniable.audit.rehearsal.people import assumed_proportions, rehearsed_query
from deniable.audit.rehearsal.scenario_run import Parts, Played, play, target_label
from deniable.audit.rehearsal.scenarios import Scenario, scenarios_by_name
from deniable.audit.rehearsal.scoring import (
    CONFIDENCE,
    Accuracy,
    LiarsOutcome,
    accuracy,
    defects,
    liars_outcome,
    window_notes,
)
from deniable.audit.rehearsal.wording import rehearsal_text, verdict_text
from deniable.checks import whole
from deniable.display import Bar, Display
from deniable.errors import ParameterError
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.randomness import seeded_source
from deniable.results import Result

__all__ = ["Rehearsal", "ScenarioOutcome", "rehearse"]

_USUAL_PEOPLE = 10_000
_MOST_PEOPLE = 10_000_000
_TRACED_PEOPLE = 300
_TRACED_WINDOWS = 3
_THIN = 0.1


@dataclass(frozen=True, eq=False)
class ScenarioOutcome(Result):
    """The outcome of one scenario. Answers are the messages of all epochs; `duplicates` are
    repeated shares, not counted again."""

    name: str
    happens: str
    sent: int
    counted: int
    late: int
    """Answers that a proxy refused because their epoch was closed."""
    silent: float
    """The average fraction of people who did not answer because their clock was too far off."""
    resent: int
    duplicates: int
    conditions: Mapping[str, int]
    """How many windows are in each condition."""
    thin: int
    """How many windows lack more than a tenth of the answers that were made without a condition or
    note that says so."""
    released: int
    """How many seconds after its end the slowest window's last result came."""
    notes: Mapping[str, int]
    """The notes on the windows' estimates, and how many windows have each."""
    accuracy: Accuracy | None
    liars: LiarsOutcome | None
    defects: tuple[str, ...]
    """Things found that must not happen in any scenario."""

    @property
    def lost(self) -> int:
        """Answers that were made and not counted."""
        return self.sent - self.counted

    @property
    def holds(self) -> bool:
        """Whether nothing forbidden happened and, without liars, intervals contain the truth as
        often as they claim."""
        honest = (
            self.accuracy is None
            or self.liars is not None
            or not (self.accuracy.biased or self.accuracy.covers_too_seldom)
        )
        return honest and not self.defects

    @property
    def verdict(self) -> str:
        """What to expect, what is lost, and whether the ± can be believed."""
        return verdict_text(self)


@dataclass(frozen=True, eq=False)
class Rehearsal(Result):
    """All scenarios of a query."""

    query: str
    people: int
    windows: int
    epochs_per_window: int
    labels: tuple[str, ...]
    assumed: NDArray[np.float64]
    seed: int
    notes: tuple[str, ...]
    """How the rehearsal differs from the query as signed."""
    outcomes: tuple[ScenarioOutcome, ...]

    @property
    def holds(self) -> bool:
        """Whether every scenario holds."""
        return all(outcome.holds for outcome in self.outcomes)

    def __str__(self) -> str:
        return rehearsal_text(self)

    def _display(self, confidence: float = 0.95) -> Display:
        columns = (
            "scenario",
            "sent",
            "counted",
            "lost",
            "late",
            "duplicates",
            "coverage",
            "bias",
            "holds",
        )
        rows = [
            (
                each.name,
                each.sent,
                each.counted,
                each.lost,
                each.late,
                each.duplicates,
                None if each.accuracy is None else each.accuracy.coverage,
                None if each.accuracy is None else each.accuracy.bias,
                each.holds,
            )
            for each in self.outcomes
        ]
        bars = [
            Bar(
                each.name,
                found.coverage,
                found.coverage - 1.96 * found.coverage_error,
                found.coverage + 1.96 * found.coverage_error,
            )
            for each in self.outcomes
            if (found := each.accuracy) is not None
        ]
        notes = tuple(f"{each.name}: {each.verdict}" for each in self.outcomes)
        return Display(
            columns,
            rows,
            notes,
            bars,
            "part of the 95 % intervals that contain the truth",
            CONFIDENCE,
        )


def rehearse(
    query: Query,
    *,
    people: int | None = None,
    windows: int = 16,
    scenarios: Sequence[str] = (),
    proportions: Mapping[str, float] | Sequence[float] | None = None,
    liars: float = 0.05,
    seed: int = 2013,
    parts: Parts | None = None,
    progress: Callable[[float], None] | None = None,
) -> Rehearsal:
    """Play scenarios with a query on `people` simulated people, new ones in each of `windows`
    windows.

    The people's answers are drawn with `proportions` (see
    :func:`~deniable.audit.rehearsal.people.assumed_proportions`) and pass through the code of
    devices, proxies and aggregator. Everything is derived from the seed.

    >>> from deniable.queries.columns.column import Column
    >>> from deniable.queries.schedule import Schedule
    >>> query = Query("commute", "City", "SELECT km FROM trips", [Column("km", ["[0,5)", "[5,inf)"])],
    ...               Schedule(0, 86400, 600, 600, 600), ["one", "two"], {"name": "TwoCoin", "p": 0.5, "q": 0.5})
    >>> rehearsal = rehearse(query, people=500, windows=3, scenarios=["honest"])
    >>> rehearsal.holds, rehearsal.outcomes[0].lost
    (True, 0)
    """
    people = whole(
        "people",
        min(query.population or _USUAL_PEOPLE, _USUAL_PEOPLE) if people is None else people,
        2,
        _MOST_PEOPLE,
    )
    windows = whole("windows", windows, 2, 100_000)
    seed = whole("seed", seed, 0, 2**32 - 1)
    if not 0 < liars < 0.5:
        raise ParameterError(
            "liars", liars, "must lie strictly between 0 and 0.5: they are a part of the people"
        )
    chosen = scenarios_by_name(scenarios)
    asked, notes = rehearsed_query(query, people, windows)
    weights = assumed_proportions(asked, proportions)
    outcomes = []
    for i, scenario in enumerate(chosen):
        part = None if progress is None else _within(progress, i, len(chosen))
        if scenario.faults.lie:
            scenario = replace(scenario, faults=replace(scenario.faults, liars=liars))  # noqa: PLW2901 - as many as asked for
        outcomes.append(_outcome(asked, weights, people, scenario, seed, parts, part))
    epochs = asked.schedule.window // asked.schedule.every
    return Rehearsal(
        asked.id,
        people,
        windows,
        epochs,
        asked.labels,
        weights,
        seed,
        tuple(notes),
        tuple(outcomes),
    )


def _within(progress: Callable[[float], None], i: int, of: int) -> Callable[[float], None]:
    return lambda part: progress((i + part) / of)


def _outcome(
    query: Query,
    weights: NDArray[np.float64],
    people: int,
    scenario: Scenario,
    seed: int,
    parts: Parts | None,
    progress: Callable[[float], None] | None,
) -> ScenarioOutcome:
    faults = scenario.faults
    played = play(query, weights, people, faults, seed, parts, progress)
    tracer = None if faults.lie else play(_tracer(query), None, _TRACED_PEOPLE, faults, seed, parts)
    liars = None
    if faults.lie:
        target = target_label(weights)
        n = _typical_reports(played)
        source, random = seeded_source(seed + 1), np.random.default_rng(seed)
        found = (
            flagged_from(query, weights, n, faults.lie, target, random, source) if n else (None, 0)
        )
        liars = liars_outcome(played, target, round(faults.liars * people), found)
    return ScenarioOutcome(
        name=scenario.name,
        happens=scenario.happens,
        sent=int(played.sent.sum()),
        counted=int(played.counted.sum()),
        late=int(played.late.sum()),
        silent=played.delivery["silent"] / max(1, played.delivery["asked"]),
        resent=played.delivery["resent"],
        duplicates=_duplicates(played),
        conditions=dict(Counter(window.condition for window in played.windows)),
        thin=_thin(played),
        released=max(played.released, default=0),
        notes=window_notes(played.windows),
        accuracy=accuracy(played),
        liars=liars,
        defects=tuple(defects(played, tracer)),
    )


def _duplicates(played: Played) -> int:
    """Repeated shares: refused by a proxy or by the aggregator, as duplicates or because their
    epoch was closed."""
    logged = sum(account.duplicate + account.late for account in played.accounts)
    return (
        played.delivery["already taken"]
        + played.delivery["replayed"]
        - played.delivery["replays accepted"]
        + logged
    )


def _thin(played: Played) -> int:
    """Windows that say they are complete, and lack more than a tenth of their answers."""
    found = 0
    for window in played.windows:
        epochs = played.query.schedule.epochs_of_window(window.index)
        sent, counted = (
            int(each[epochs.start : epochs.stop].sum()) for each in (played.sent, played.counted)
        )
        found += window.condition == COMPLETE and counted < (1 - _THIN) * sent
    return found


def _typical_reports(played: Played) -> int:
    """The reports of a complete window, or of one epoch where devices repeat their coins and a
    window uses only one epoch."""
    if played.query.memoize:
        return max((pane.n for pane in played.panes.values()), default=0)
    return int(
        np.median([window.n for window in played.windows if window.condition == COMPLETE] or [0])
    )


def _tracer(query: Query) -> Query:
    """The same schedule with one bucket per person, and so little noise that every count is the
    truth."""
    schedule = query.schedule
    windows = min(_TRACED_WINDOWS, schedule.n_windows)
    return query.revised(
        schedule=replace(schedule, expires=schedule.origin + windows * schedule.window),
        columns=[Column("person", [f"p{i}" for i in range(2 * _TRACED_PEOPLE)], other=True)],
        mechanism={"name": "DirectEncoding", "epsilon": 40.0},
        budget=Budget(),
        envelope=None,
        strata=(),
        population=None,
        minimum_cohort=1 << 40,  # only the counts are used, not the estimates
        rows="random",
        most_rows=1,
        memoize=False,
        distinct=1,
        ones=1,
    )
