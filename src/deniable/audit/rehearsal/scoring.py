"""Score a run: how far estimates are from the truth, how often intervals contain it, and what does
not add up."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.windows.window import Window
from deniable.audit.rehearsal.liars import diagnostics, poisoning_bound
from deniable.audit.rehearsal.scenario_run import Played
from deniable.numerics import normal_quantile
from deniable.results import Result

__all__ = [
    "CONFIDENCE",
    "Accuracy",
    "LiarsOutcome",
    "accuracy",
    "defects",
    "liars_outcome",
    "window_notes",
]

CONFIDENCE = 0.95
_FALSE_ALARM = 1e-3
"""The chance that a rehearsal of a correct system reports a scenario as biased, or as covering too
rarely."""
_NUMBER = re.compile(r"\d[\d.,]*")


@dataclass(frozen=True, eq=False)
class Accuracy(Result):
    """Estimates compared with the truth about the simulated people, over all windows that have an
    estimate."""

    windows: int
    intervals: int
    coverage: float
    """The fraction of the 95 % intervals that contain the truth."""
    coverage_error: float
    """Its standard error, from the number of windows and labels and the correlation of the labels'
    errors."""
    bias: float
    """The mean error, as a proportion, of the label where it is largest relative to its own
    standard error."""
    bias_error: float
    bias_label: str
    biased: bool
    covers_too_seldom: bool
    covers_too_often: bool
    cv: Mapping[str, float] = field(default_factory=dict)
    """The coefficient of variation of each label's estimate, as it was over the windows: the root
    of the mean squared error, relative to the truth. Its own relative standard error is 1 / sqrt(2
    windows). Without labels whose true proportion is 0."""
    stated_cv: Mapping[str, float] = field(default_factory=dict)
    """The same, as the estimates state it."""


def accuracy(played: Played) -> Accuracy | None:
    """How good the estimates are; None if there are none."""
    pairs = [
        (window.estimate, truth)
        for window, truth in zip(played.windows, played.truths, strict=True)
        if window.estimate
    ]
    if not pairs:
        return None
    errors = np.array([estimate.proportions - truth for estimate, truth in pairs])
    variances = np.array([estimate.variance for estimate, _ in pairs])
    inside = []
    for estimate, truth in pairs:
        low, high = estimate.interval(CONFIDENCE).T
        inside.append((low <= truth) & (truth <= high))
    covered = np.array(inside)
    labels = len(pairs[0][0].labels)
    bias = errors.mean(axis=0)
    bias_errors = np.sqrt(variances.sum(axis=0)) / len(pairs)
    scores = np.abs(bias) / np.maximum(bias_errors, 1e-300)
    at = int(scores.argmax())
    effective = sum(_independent_labels(estimate.covariance, labels) for estimate, _ in pairs)
    error = math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / effective)
    coverage = float(covered.mean())
    limit = -normal_quantile(_FALSE_ALARM / 2)
    true = np.mean([truth for _, truth in pairs], axis=0)
    measured, stated = (
        {
            str(label): math.sqrt(square) / part
            for label, square, part in zip(
                pairs[0][0].labels, squares.mean(axis=0).tolist(), true.tolist(), strict=True
            )
            if part > 0
        }
        for squares in (errors**2, variances)
    )
    return Accuracy(
        windows=len(pairs),
        intervals=covered.size,
        coverage=coverage,
        coverage_error=error,
        bias=float(bias[at]),
        bias_error=float(bias_errors[at]),
        bias_label=str(pairs[0][0].labels[at]),
        biased=bool(scores[at] > -normal_quantile(_FALSE_ALARM / 2 / labels)),
        covers_too_seldom=coverage < CONFIDENCE - limit * error,
        covers_too_often=coverage > CONFIDENCE + limit * error,
        cv=measured,
        stated_cv=stated,
    )


def _independent_labels(covariance: NDArray[np.float64] | None, labels: int) -> float:
    """How many independent intervals the intervals of one window are worth.

    The events that two intervals contain the truth are correlated about as much as the square of
    their errors' correlation: two labels that sum to 1 are worth one.
    """
    if covariance is None or len(covariance) != labels:
        return float(labels)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    correlation = covariance / np.outer(spread, spread)
    return float(labels**2 / (correlation**2).sum())


def window_notes(windows: list[Window]) -> dict[str, int]:
    """One note of each kind on the windows' estimates, and how many windows have such a note, with
    whatever numbers."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for window in windows:
        kinds = {
            _NUMBER.sub("#", note): note
            for note in (() if window.estimate is None else window.estimate.notes)
        }
        counts.update(kinds.keys())
        examples = kinds | examples
    return {examples[kind]: n for kind, n in counts.most_common()}


def defects(played: Played, tracer: Played | None) -> list[str]:
    """What must not happen, whatever goes wrong outside: answers counted twice, acknowledged
    answers lost, totals that disagree.

    In the tracer everyone has their own bucket, so a bucket above 1 is an answer that was counted
    twice.
    """
    found = []
    for run in (played, tracer):
        if run is None:
            continue
        whole = ~run.gaps
        lost = int(np.maximum(run.delivered - run.counted, 0)[whole].sum())
        if lost:
            found.append(
                f"{lost:,} answers that every proxy had taken were not counted, in windows that"
                " call themselves complete"
            )
        more = int(np.maximum(run.counted - run.delivered, 0).sum())
        if more:
            found.append(f"{more:,} more answers were counted than had reached every proxy")
        if any(account.waiting for account in run.accounts):
            found.append(
                "what a proxy's log held is not what was counted, orphaned, repeated, late or"
                " malformed"
            )
        if not all(window.conservation.get("balanced") for window in run.windows):
            found.append("the conservation statement of a window does not balance")
    if tracer is not None:
        twice = sum(int(np.maximum(pane.counts - 1, 0).sum()) for pane in tracer.panes.values())
        if twice:
            found.append(f"{twice:,} answers were counted more than once")
    if played.delivery["replays accepted"]:
        found.append(
            f"proxies took {played.delivery['replays accepted']:,} shares that they had taken"
            " before"
        )
    return list(dict.fromkeys(found))


@dataclass(frozen=True, eq=False)
class LiarsOutcome(Result):
    """What liars achieved, and the most they could have achieved."""

    label: str
    liars: int
    """People who lie."""
    reports: int
    """Lying reports in a window, of `n` on average."""
    n: float
    moved: float
    """How far the label's estimate is from the truth on average, as a proportion."""
    moved_error: float
    bound: float
    """The largest change that so many lying reports can make to it: exact, averaged over the
    windows."""
    flagged: int
    """Windows whose notes doubt the reports."""
    windows: int
    flagged_from: int | None
    """How many lying reports it takes for at least half of the windows to be flagged; None if half
    of all reports are too few."""
    flagged_of: int
    """The number of reports that `flagged_from` refers to."""


def liars_outcome(
    played: Played, target: int, liars: int, flagged_from: tuple[int | None, int]
) -> LiarsOutcome | None:
    """The figures of a run with liars; None without an estimate."""
    shown = [
        (window, truth)
        for window, truth in zip(played.windows, played.truths, strict=True)
        if window.estimate
    ]
    if not shown:
        return None
    moved = np.array(
        [
            window.estimate.proportions[target] - truth[target]
            for window, truth in shown
            if window.estimate
        ]
    )
    variances = [window.estimate.variance[target] for window, _ in shown if window.estimate]
    return LiarsOutcome(
        label=str(played.query.labels[target]),
        liars=liars,
        reports=played.n_liars,
        n=float(np.mean([window.n for window, _ in shown])),
        moved=float(moved.mean()),
        moved_error=math.sqrt(sum(variances)) / len(shown),
        bound=float(
            np.mean(
                [
                    poisoning_bound(played.query, window, played.n_liars, target)
                    for window, _ in shown
                ]
            )
        ),
        flagged=sum(bool(diagnostics(window.estimate)) for window, _ in shown),
        windows=len(shown),
        flagged_from=flagged_from[0],
        flagged_of=flagged_from[1],
    )
