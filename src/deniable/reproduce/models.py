"""Which model to choose: one column through the local model, a trusted curator and a release, at
the same epsilon.

It looks at the true answers, so its results are not private: it is for anyone who has the table, or
one like it, and wants to know what each way of asking would cost.

Errors are comparable only if each person is promised the same. The local model hides what a person
says, not that they took part. So by default all three hide what a person says ("replace-one"): a
curator's noise then has scale 2/epsilon, and a release gets half of epsilon, because replacing a
row removes one and adds one. With "add-remove", the curator and the release hide that a person is
there at all, as is usually stated for them; the local model cannot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, check_probability, whole
from deniable.curator import Curator, Histogram
from deniable.curator.histograms import NumberHistogram, check_labels
from deniable.curator.protection import Neighbours, Protection
from deniable.errors import ParameterError, ReleaseRowError
from deniable.estimation.estimate import Estimate
from deniable.mechanisms.mechanism import Mechanism
from deniable.planning.candidates import candidates
from deniable.planning.precision import FEWEST_REPORTS, ProportionVariance
from deniable.randomness import seeded_source
from deniable.release import CodedTable, Guarantee, histogram
from deniable.renames import reads_old_names
from deniable.reproduce.model_comparison import ModelComparison, ModelErrors

__all__ = ["best_local_mechanism", "compare_models", "release_errors"]

_Floats = NDArray[np.float64]
_Codes = NDArray[np.int64]
_MOST_LABELS = 1000
_MOST_REPETITIONS = 10_000
_AS_GOOD = 1.01
"""Two mechanisms whose variances differ by less count as equally good, and the one with the shorter
report wins."""


@dataclass(frozen=True)
class _Model:
    """A model to simulate, one estimate after another."""

    name: str
    mechanism: str
    epsilon: float
    delta: float
    report_bytes: int
    theory: _Floats
    run: Callable[[], Estimate]


@reads_old_names
def compare_models(
    frame: Any,
    column: str,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    *,
    labels: Sequence[Hashable] | None = None,
    bins: Sequence[float] | None = None,
    neighbours: Neighbours = "replace-one",
    trials: int = 50,
    seed: int | str = 1,
    progress: Callable[[float], None] | None = None,
) -> ModelComparison:
    """The errors of the local model, a curator and a release of one column, each simulated
    `trials` times.

    `frame` is what :meth:`CodedTable.of <deniable.release.CodedTable.of>` takes, one row per
    person. `labels` are the values that can occur, by default those that do; `bins` are edges, for
    a column of numbers. The number of people is public. The local model's and the release's coins
    come from `seed`; a curator's noise is drawn by OpenDP, which takes no seed.

    >>> cities = {"city": ["Oslo"] * 6000 + ["Rome"] * 3000 + ["Bern"] * 1000}
    >>> found = compare_models(cities, "city", epsilon=1.0, trials=10)
    >>> found["curator"].error < found["release"].error < found["local"].error
    True
    """
    epsilon, delta = check_epsilon(epsilon), float(check_probability("delta", delta))
    trials = whole("trials", trials, 2, _MOST_REPETITIONS)
    Protection(neighbours)  # refuses others
    names, codes = _coded(frame, column, labels, bins)
    if codes.size < FEWEST_REPORTS:
        raise ParameterError(
            "rows",
            codes.size,
            f"must be at least {FEWEST_REPORTS}: with fewer no error bar is worth printing",
        )
    counts = np.bincount(codes, minlength=len(names))
    models = [
        _local(names, counts, epsilon, seed),
        _curator(names, codes, epsilon, neighbours, trials),
        _release(names, codes, epsilon, delta, neighbours, seed),
    ]
    truth, found = counts / codes.size, []
    for place, model in enumerate(models):
        part_done = (
            None
            if progress is None
            else lambda part, place=place: progress((place + part) / len(models))
        )
        found.append(_simulate(model, truth, trials, part_done))
    return ModelComparison(
        column,
        names,
        truth,
        int(codes.size),
        epsilon,
        delta,
        neighbours,
        trials,
        seed,
        tuple(found),
    )


def best_local_mechanism(labels: int, epsilon: float) -> tuple[Mechanism, ProportionVariance]:
    """The mechanism with the smallest mean squared error if everyone reports, whatever the answers.

    n Var of a proportion f is constant + (slope - 1) f, linear in f, so its mean over all labels
    depends on their number alone.

    >>> [type(best_local_mechanism(k, 1.0)[0]).__name__ for k in (2, 8)]
    ['DirectEncoding', 'SubsetSelection']
    """

    def mean_variance(spread: ProportionVariance) -> float:
        return spread.constant + (spread.slope - 1) / labels

    trials = [candidate.at(epsilon, mean_variance) for candidate in candidates(labels)]
    best = min(mean_variance(trial.spread) for trial in trials)
    good = [
        (trial.build(), trial.spread)
        for trial in trials
        if mean_variance(trial.spread) <= _AS_GOOD * best
    ]
    return min(good, key=lambda pair: pair[0].report_bytes)


def release_errors(counts: _Codes, guarantee: Guarantee) -> _Floats:
    """Root mean squared error of the number of rows of each label in a release, dropped labels
    included: exact.

    X ~ Binomial(c, beta) rows are kept and X/beta is the estimate of c, or 0 if X is below k. With
    E[X; X >= k] = c beta P(Bin(c - 1) >= k - 1) and E[X (X - 1); X >= k] = c (c - 1) beta^2 P(Bin(c
    - 2) >= k - 2) the squared error follows.

    >>> release_errors(np.array([0, 10, 10_000]), Guarantee.of(1.0, 1e-5, sampling=0.5)).round(2).tolist()
    [0.0, 10.0, 100.0]
    """
    from scipy.stats import binom  # noqa: PLC0415 - slow to import

    beta, k = float(guarantee.sampling), guarantee.k
    c = counts.astype(np.float64)
    first = c * binom.sf(k - 2, np.maximum(c - 1, 0), beta)
    pairs = c * (c - 1) * binom.sf(k - 3, np.maximum(c - 2, 0), beta)
    # E[(X/beta)^2; shown] - 2 c E[X/beta; shown] + c^2
    return np.sqrt(np.maximum(pairs + first / beta - 2 * c * first + c**2, 0))


def _simulate(
    model: _Model, truth: _Floats, trials: int, progress: Callable[[float], None] | None
) -> ModelErrors:
    off = np.empty((trials, truth.size))
    variance, covered, first = np.zeros(truth.size), 0, None
    for repetition in range(trials):
        estimate = model.run()
        first = first or estimate
        off[repetition] = estimate.proportions - truth
        variance += estimate.variance
        low, high = estimate.interval(0.95).T
        # An interval that ends at the truth contains it, whatever the last bit of a quotient says.
        covered += int(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).sum())
        if progress is not None:
            progress((repetition + 1) / trials)
    assert first is not None  # noqa: S101 - for mypy: there is a repetition
    squared = (off**2).mean(axis=1)
    error = math.sqrt(squared.mean())
    spread = float(squared.std(ddof=1)) / math.sqrt(trials)
    return ModelErrors(
        model=model.name,
        mechanism=model.mechanism,
        epsilon=model.epsilon,
        delta=model.delta,
        report_bytes=model.report_bytes,
        estimate=first,
        theory=model.theory,
        stated=np.sqrt(variance / trials),
        measured=np.sqrt((off**2).mean(axis=0)),
        error=error,
        error_stderr=spread / (2 * error) if error else 0.0,
        largest=float(np.abs(off).max(axis=1).mean()),
        coverage=covered / off.size,
    )


def _local(names: tuple[Hashable, ...], counts: _Codes, epsilon: float, seed: int | str) -> _Model:
    mechanism, spread = best_local_mechanism(len(names), epsilon)
    n, source = int(counts.sum()), seeded_source(f"models, local, {seed}")
    answers = np.repeat(np.arange(len(names)), counts)
    theory = np.array([spread.stderr(count / n, n, reached=1.0) for count in counts.tolist()])

    def run() -> Estimate:
        return replace(
            mechanism.estimate(mechanism.privatize(answers, source), population=n), labels=names
        )

    return _Model(
        "local",
        type(mechanism).__name__,
        mechanism.epsilon,
        0.0,
        mechanism.report_bytes,
        theory,
        run,
    )


def _curator(
    names: tuple[Hashable, ...],
    codes: _Codes,
    epsilon: float,
    neighbours: Neighbours,
    trials: int,
) -> _Model:
    # Bins around whole numbers: every row is in one, so the number of rows can be public.
    edges, cost = np.arange(len(names) + 1) - 0.5, Fraction(epsilon)
    curator = Curator({"label": codes}, cost * (trials + 1), neighbours=neighbours)

    def run() -> Histogram:
        return replace(curator.histogram("label", epsilon=cost, bins=edges), labels=names)

    law, n, k = run().law, codes.size, len(names)
    proportions = np.bincount(codes, minlength=k) / n
    # If the number of rows is private too, proportions are of the sum of all noisy counts: to first
    # order X_j - share_j sum X.
    times = (
        np.ones(k)
        if neighbours == "replace-one"
        else (1 - proportions) ** 2 + (k - 1) * proportions**2
    )
    return _Model(
        "curator",
        "discrete Laplace",
        epsilon,
        0.0,
        _answer_bytes(k),
        np.sqrt(law.variance * times) / n,
        run,
    )


def _release(
    names: tuple[Hashable, ...],
    codes: _Codes,
    epsilon: float,
    delta: float,
    neighbours: Neighbours,
    seed: int | str,
) -> _Model:
    replaced = neighbours == "replace-one"
    rows = (epsilon / 2, delta / (1 + math.exp(epsilon / 2))) if replaced else (epsilon, delta)
    guarantee = Guarantee.of(*rows)
    promised = guarantee.replace_one if replaced else (guarantee.epsilon, guarantee.delta)
    table = CodedTable.of({"label": [names[code] for code in codes.tolist()]}, ["label"])
    source = seeded_source(f"models, release, {seed}")

    def run() -> Estimate:
        return histogram(table, "label", *rows, labels=names, population=table.n, source=source)

    theory = release_errors(np.bincount(codes, minlength=len(names)), guarantee) / table.n
    title = f"{100 * float(guarantee.sampling):.3g} % of rows, k = {guarantee.k}"
    return _Model("release", title, *promised, _answer_bytes(len(names)), theory, run)


def _answer_bytes(labels: int) -> int:
    """The size of a true answer."""
    return -(-max(labels - 1, 1).bit_length() // 8)


def _coded(
    frame: Any, column: str, labels: Sequence[Hashable] | None, bins: Sequence[float] | None
) -> tuple[tuple[Hashable, ...], _Codes]:
    """The labels, and the index of each row's label. Error messages contain no value."""
    if labels is not None and bins is not None:
        raise ParameterError("bins", list(bins), "must not be given together with labels")
    table = CodedTable.of(frame, [column])
    values, first = table.values[column], table.first_rows[column]
    _refuse([value is None for value in values], first, column, "is missing")
    if bins is not None:
        question = NumberHistogram(column, bins)
        names: tuple[Hashable, ...] = question.labels
        numbers = np.array([_number(value) for value in values])
        _refuse(~np.isfinite(numbers), first, column, "is not a finite number")
        places = np.searchsorted(question.edges[1:-1], numbers, side="right")
    else:
        names = check_labels(values if labels is None else labels, f"labels of {column}")
        # As texts: labels from a command line also match numbers in a Parquet file.
        known = {str(label): place for place, label in enumerate(names)}
        places = np.array([known.get(str(value), -1) for value in values])
        _refuse(places < 0, first, column, "is none of the labels")
    if not 2 <= len(names) <= _MOST_LABELS:
        rule = f"must be from 2 to {_MOST_LABELS}; bins turn many numbers into few labels"
        raise ParameterError(f"labels of {column}", len(names), rule)
    return names, places.astype(np.int64)[table.codes[column]][table.rows]


def _refuse(bad: Any, first_rows: Sequence[int], column: str, what: str) -> None:
    """Name the first row whose value is bad."""
    rows = [row for row, wrong in zip(first_rows, bad, strict=True) if wrong]
    if rows:
        raise ReleaseRowError(f"row {min(rows)}, column {column!r}: the value {what}")


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan
