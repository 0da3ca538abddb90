"""How often intervals hold the truth, by what they say: any design or mechanism, size and
proportion.

Where all reports of a survey are two counts, every survey that can come out is weighed by its exact
probability; otherwise surveys are drawn, by the mechanism itself where reports are not just one of
a few values. An interval may say "95 %" in some surveys and "at least
95 %" in others, and has to be right among those that say it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence, check_count, check_proportion
from deniable.errors import ParameterError
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.reports import Tally
from deniable.randomness import seeded_source
from deniable.results import Result

__all__ = ["Coverage", "coverage_of", "coverage_table"]

_Floats = NDArray[np.float64]
_MOST_ENUMERATED = 20_000
_NEGLIGIBLE = 1e-12
"""Surveys that are less probable than this together are left out."""


@dataclass(frozen=True, eq=False)
class Coverage(Result):
    """How often the intervals of one setting held the truth.

    >>> from deniable import Warner
    >>> found = coverage_of(Warner(0.7), 200, 0.1)
    >>> found.exact, 0.94 < found.plain < 0.97, found.at_least is None
    (True, True, True)
    """

    subject: str
    n_reports: int
    proportion: float
    plain: float | None
    """Among intervals that say just the confidence; None if none does."""
    plain_part: float
    """The proportion of surveys whose interval says that."""
    at_least: float | None
    """Among those that say "at least"; None if none does."""
    exact: bool
    """Whether all surveys were enumerated instead of drawn."""
    trials: int
    """How many surveys were drawn or enumerated."""


def coverage_of(
    subject: SurveyDesign | Mechanism,
    n_reports: int,
    proportion: float,
    confidence: float = 0.95,
    trials: int = 2_000,
    seed: int = 1,
) -> Coverage:
    """Of the interval of one proportion: that of carriers in a design, of the first label of a
    mechanism (the others have equal parts of the rest)."""
    check_count("n_reports", n_reports)
    check_proportion("proportion", proportion)
    check_confidence(confidence)
    check_count("trials", trials)
    rates, estimate = _setting(subject, n_reports, float(proportion))
    exact = rates is not None and rates.size == 2 and n_reports < _MOST_ENUMERATED
    if rates is not None and exact:
        counts, chances = _enumerated(rates, n_reports)
    else:
        if rates is not None:
            drawn = np.random.default_rng(seed).multinomial(n_reports, rates, trials)
        elif isinstance(subject, Mechanism):
            drawn = _drawn(subject, n_reports, float(proportion), trials, seed)
        counts, times = np.unique(drawn, axis=0, return_counts=True)
        chances = times / trials
    held, more = np.array([_outcome(estimate(row), proportion, confidence) for row in counts]).T

    def among(chosen: NDArray[np.bool_]) -> float | None:
        part = float(chances[chosen].sum())
        return float(chances[chosen & held].sum()) / part if part > _NEGLIGIBLE else None

    part = float(chances[~more].sum() / chances.sum())
    return Coverage(
        str(subject),
        n_reports,
        float(proportion),
        among(~more),
        part,
        among(more),
        exact,
        len(counts) if exact else trials,
    )


def coverage_table(
    subjects: Sequence[SurveyDesign | Mechanism],
    sizes: Sequence[int],
    proportions: Sequence[float],
    confidence: float = 0.95,
    trials: int = 2_000,
    seed: int = 1,
) -> Iterator[Coverage]:
    """Every subject with every size and proportion, one after the other."""
    for subject in subjects:
        for n_reports in sizes:
            for proportion in proportions:
                yield coverage_of(subject, n_reports, proportion, confidence, trials, seed)


def _setting(
    subject: SurveyDesign | Mechanism, n_reports: int, proportion: float
) -> tuple[_Floats | None, Callable[[Any], Any]]:
    """The probabilities of the reports, if each is counted in one cell, and what makes an estimate
    of counts of them."""
    if isinstance(subject, SurveyDesign):
        return np.asarray(subject.rates(proportion), dtype=np.float64), subject.estimate_counts

    def estimate(counts: Any) -> Any:
        return Tally(subject, counts, n_reports).estimate()

    channel = subject.channel()
    if not isinstance(channel, np.ndarray) or len(channel) != subject.cells:
        return None, estimate
    return channel @ _proportions(subject, proportion), estimate


def _proportions(mechanism: Mechanism, proportion: float) -> _Floats:
    """That of the first label, and equal parts of the rest."""
    k = len(mechanism.labels)
    if k < 2:
        raise ParameterError("subject", type(mechanism).__name__, "must have at least two labels")
    return np.append(proportion, np.full(k - 1, (1 - proportion) / (k - 1)))


def _drawn(
    mechanism: Mechanism, n_reports: int, proportion: float, trials: int, seed: int
) -> NDArray[np.int64]:
    """Counts of reports that the mechanism itself has drawn."""
    rng, source = np.random.default_rng(seed), seeded_source(seed)
    people = rng.multinomial(n_reports, _proportions(mechanism, proportion), trials)
    k = np.arange(people.shape[1])
    return np.array([mechanism.count(mechanism.draw(np.repeat(k, row), source)) for row in people])


def _enumerated(rates: _Floats, n: int) -> tuple[NDArray[np.int64], _Floats]:
    from scipy.stats import binom  # noqa: PLC0415 - slow to import

    second = np.arange(n + 1)
    chances = binom.pmf(second, n, rates[1])
    kept = chances > _NEGLIGIBLE / (n + 1)
    return np.column_stack([n - second, second])[kept], chances[kept]


def _outcome(estimate: Any, truth: float, confidence: float) -> tuple[bool, bool]:
    low, high = estimate.interval(confidence)[0].tolist()
    return low - 1e-12 <= truth <= high + 1e-12, bool(estimate.covers_more(confidence)[0])
