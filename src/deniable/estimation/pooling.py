"""One estimate from several: the strata of a population, or batches with the same question to the
same population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.intervals import welch_degrees
from deniable.estimation.report_counts import check_population
from deniable.estimation.score_laws import combined_law
from deniable.estimation.unbias import Moments, finite

__all__ = [
    "check_poolable",
    "combine",
    "pooled_covariance",
    "stratified",
    "welch_satterthwaite",
    "with_estimated_sizes",
]

_Floats = NDArray[np.float64]


def stratified(
    estimates: Mapping[Any, Estimate] | Sequence[Estimate],
    sizes: Mapping[Any, float] | Sequence[float],
) -> Estimate:
    """The proportions of a population whose strata were estimated one by one.

    With B_i people in stratum i and B of them in all: r = sum B_i r_i / B, its covariance sum B_i^2
    C_i / B^2, and degrees of freedom by Welch and Satterthwaite, (sum v_i)^2 / sum (v_i^2 / (n_i -
    1)), v_i = B_i^2 V_i. The strata may use different mechanisms. Give each its own `population`
    when estimating it, and the error bars are those of a finite population.

    >>> from deniable import BinaryResponse, seeded_source
    >>> survey, coins = BinaryResponse(p=0.8, q=0.5), seeded_source(5)
    >>> town = survey.estimate(survey.privatize([1] * 300 + [0] * 700, coins), population=4_000)
    >>> country = survey.estimate(survey.privatize([1] * 200 + [0] * 200, coins), population=1_000)
    >>> print(stratified({"town": town, "country": country}, {"town": 4_000, "country": 1_000}))
    0    65.73 %   62.78 to 68.60
    1    34.27 %   31.40 to 37.22
    1,400 reports of 5,000 people; epsilon 2.197 per report; intervals cover 95 %
    the sum of 2 strata: town, country
    """
    names = list(estimates) if isinstance(estimates, Mapping) else list(range(len(estimates)))
    if isinstance(estimates, Mapping) != isinstance(sizes, Mapping):
        raise ParameterError(
            "sizes",
            sizes,
            "must be a mapping if the estimates are one, and a sequence if they are not",
        )
    if isinstance(sizes, Mapping) and set(sizes) != set(names):
        raise ParameterError("sizes", list(sizes), f"must name the strata {names}")
    if len(sizes) != len(names):
        raise ParameterError("sizes", list(sizes), f"must have one entry per stratum, {len(names)}")
    parts = check_poolable([estimates[name] for name in names])
    people = [_check_size(name, sizes[name], estimates[name]) for name in names]
    weights = np.array(people) / sum(people)
    proportions, variance, covariance = _weighted_sum(weights, [_moments(part) for part in parts])
    known = all(part.population is not None for part in parts)
    return Estimate(
        labels=parts[0].labels,
        proportions=proportions,
        variance=variance,
        covariance=covariance,
        population=int(sum(people)) if known else None,
        degrees=welch_satterthwaite(
            [w**2 * part.variance for w, part in zip(weights, parts, strict=True)], parts
        ),
        strata=tuple(zip(weights.tolist(), parts, strict=True)),
        **_description(parts, f"the sum of {len(parts)} strata: {', '.join(map(str, names))}"),
    )


def with_estimated_sizes(
    total: Estimate, parts: Sequence[Estimate], sizes: Sequence[float], variances: Sequence[float]
) -> Estimate:
    """A stratified estimate with the error of sizes that were estimated, independently and with
    these variances.

    r = sum B_i r_i / B changes by (r_i - r)/B per person of stratum i, so Var(B_i) (r_i - r)(r_i -
    r)'/B^2 is added. There is no score interval then: the sizes' error is not one of the strata.
    """
    people = sum(sizes)
    gaps = np.array([part.proportions - total.proportions for part in parts]) / people
    extra = np.array(variances)[:, None] * gaps**2
    covariance = (
        None
        if total.covariance is None
        else total.covariance + (gaps.T * np.array(variances)) @ gaps
    )
    return replace(
        total, variance=total.variance + extra.sum(axis=0), covariance=covariance, strata=()
    )


def combine(estimates: Sequence[Estimate]) -> Estimate:
    """One estimate from batches of different people that measure the same proportions with
    different epsilons or mechanisms.

    Each batch is weighted by its inverse variance, label by label. The observed variance of a batch
    is correlated with its estimate (few supporting reports look both rare and certain), so
    weighting by it would be biased. The weights come instead from the variance as a function of the
    proportion, at one proportion for all batches: first 1/k, then the resulting pilot estimate.
    That pilot is uncorrelated with the differences between batches, so that the result stays
    unbiased to first order. Batches of a general matrix have no such function; then each batch has
    one weight, from its summed variance.

    The batches contain different people; replays of the same permanent answers are refused, as far
    as they are known (:meth:`BasicRappor.estimate` takes them together). In a finite population, the same for all, they are parts
    of one sample, and the error bars account for it. `epsilon` is the largest of the batches'; a
    person in several of them loses the sum.

    >>> from deniable import DirectEncoding, OptimizedUnary, seeded_source
    >>> coins, crowd = seeded_source(6), ["tea"] * 3_000 + ["coffee"] * 5_000 + ["none"] * 2_000
    >>> drinks = ["tea", "coffee", "none"]
    >>> first, second = DirectEncoding(drinks, 1.0), OptimizedUnary(drinks, 2.0)
    >>> print(combine([first.estimate(first.privatize(crowd, coins)), second.estimate(second.privatize(crowd, coins))]))
    tea       30.64 %   29.00 to 32.30
    coffee    49.60 %   47.85 to 51.37
    none      19.97 %   18.42 to 21.55
    20,000 reports; epsilon 2 per report; intervals cover 95 %
    2 batches of different people, combined by inverse variance; epsilon is the largest of theirs
    """
    parts = check_poolable(list(estimates))
    if len({part.population for part in parts}) > 1:
        raise ParameterError(
            "population",
            [part.population for part in parts],
            "must be the same for all batches; for parts of one use stratified()",
        )
    n = sum(part.n for part in parts)
    population = check_population(parts[0].population, n)
    # As if the population were infinite: batches of a finite one exclude each other's people, and
    # are not independent.
    moments = [_infinite(part) for part in parts]
    weights = _inverse_variance_weights(parts, [variance for _, variance, _ in moments])
    proportions, variance, covariance = finite(_weighted_sum(weights, moments), population)
    return Estimate(
        labels=parts[0].labels,
        proportions=proportions,
        variance=variance,
        covariance=covariance,
        population=population,
        degrees=welch_satterthwaite(
            [w**2 * v for w, (_, v, _) in zip(weights, moments, strict=True)], parts
        ),
        **_score_law(weights, parts),
        **_description(
            parts,
            f"{len(parts)} batches of different people, combined by inverse variance; epsilon is"
            " the largest of theirs",
        ),
    )


def pooled_covariance(strata: Sequence[tuple[float, Estimate]]) -> _Floats | None:
    """The covariance of the sum of these weighted estimates, as in :func:`stratified`."""
    return _weighted_sum(
        np.array([weight for weight, _ in strata]), [_moments(part) for _, part in strata]
    )[2]


def check_poolable(estimates: Sequence[Any]) -> list[Estimate]:
    """The estimates, checked to be unbiased and of the same labels."""
    if not estimates:
        raise ParameterError("estimates", [], "must hold at least one estimate")
    for estimate in estimates:
        if not isinstance(estimate, Estimate):
            raise ParameterError("estimates", type(estimate).__name__, "is not an Estimate")
        if estimate.labels != estimates[0].labels:
            raise ParameterError(
                "labels",
                list(estimate.labels),
                f"must be the same in all estimates: {list(estimates[0].labels)}",
            )
        if estimate.unbiased is not None:
            raise ParameterError(
                "estimates",
                estimate.notes[-1],
                "is not an unbiased estimate: pool first, then make it consistent",
            )
    origins = _origins(estimates)
    if len(set(origins)) < len(origins):
        raise ParameterError(
            "estimates",
            f"{len(estimates)} estimates",
            "must not be of replays of the same permanent answers, which repeat their noise: give"
            " all reports to one estimate(), as a list",
        )
    return list(estimates)


def _origins(estimates: Sequence[Estimate]) -> list[object]:
    return [origin for estimate in estimates for origin in estimate._replayed]


def welch_satterthwaite(terms: Sequence[_Floats], parts: Sequence[Estimate]) -> _Floats:
    """Degrees of freedom of a sum of independent variances, label by label; infinite where there is
    no variance at all."""
    degrees = [
        np.maximum(part.n - 1.0 if part.degrees is None else part.degrees, 0.0) for part in parts
    ]
    return welch_degrees(terms, degrees)


def _check_size(name: Any, size: Any, estimate: Estimate) -> float:
    if isinstance(size, bool | str) or not size > 0 or not np.isfinite(size):
        raise ParameterError(f"sizes[{name!r}]", size, "must be a number of people above 0")
    if estimate.population not in {None, size}:
        raise ParameterError(
            f"sizes[{name!r}]",
            size,
            f"must be the population its estimate was given, {estimate.population}",
        )
    return float(size)


def _moments(part: Estimate) -> Moments:
    return part.proportions, part.variance, part.covariance


def _infinite(part: Estimate) -> Moments:
    """The moments in an infinite population, undoing :func:`finite`."""
    if part.population is None:
        return _moments(part)
    proportions = np.clip(part.proportions, 0, 1)
    variance = part.variance + proportions * (1 - proportions) / part.population
    covariance = part.covariance
    if covariance is not None:
        covariance = covariance - np.outer(proportions, proportions) / part.population
        np.fill_diagonal(covariance, variance)
    return part.proportions, variance, covariance


def _weighted_sum(weights: NDArray[np.float64], moments: Sequence[Moments]) -> Moments:
    """For independent parts; one weight per part, or per part and label."""
    proportions = np.zeros_like(moments[0][0])
    variance = np.zeros_like(proportions)
    covariance: _Floats | None = np.zeros((proportions.size, proportions.size))
    for weight, (part, spread, joint) in zip(weights, moments, strict=True):
        proportions = proportions + weight * part
        variance = variance + weight**2 * spread
        if covariance is None or joint is None:
            covariance = None
            continue
        w = np.broadcast_to(weight, part.shape)
        covariance = covariance + np.outer(w, w) * joint
    return proportions, variance, covariance


def _inverse_variance_weights(parts: Sequence[Estimate], variances: Sequence[_Floats]) -> _Floats:
    """One row per part; every column sums to 1."""
    k = len(parts[0].labels)
    functions = [_variance_function(part) for part in parts]
    if all(function is not None for function in functions):
        proportion = np.full(k, 1 / k)
        for _ in range(2):
            inverse = np.array(
                [1 / function(proportion) for function in functions if function is not None]
            )
            weights = inverse / inverse.sum(axis=0)
            proportion = np.clip(
                (weights * np.array([part.proportions for part in parts])).sum(axis=0), 0, 1
            )
        return np.asarray(weights)
    totals = np.array([variance.sum() for variance in variances])
    if not np.all(totals > 0):
        raise ParameterError("estimates", totals.tolist(), "must have summed variances above 0")
    return np.repeat((1 / totals / (1 / totals).sum())[:, np.newaxis], k, axis=1)


def _variance_function(part: Estimate) -> Any:
    if part.support is None:
        return None
    a, b = part.support

    def variance(proportion: _Floats) -> _Floats:
        rate = b + (a - b) * proportion
        return np.asarray(rate * (1 - rate) / ((a - b) ** 2 * part.n))

    return variance


def _score_law(weights: _Floats, parts: Sequence[Estimate]) -> dict[str, Any]:
    """What the score interval of combined batches is made from, if each has one; exact where that
    of any batch is."""
    laws = [part._law for part in parts if not part.strata]
    if len(laws) < len(parts) or any(law is None for law in laws):
        return {}
    rare = np.any([part._rare(None) for part in parts], axis=0)
    return {
        "score_law": combined_law(weights, [law for law in laws if law is not None]),
        "rare": rare,
    }


def _description(parts: Sequence[Estimate], note: str) -> dict[str, Any]:
    """What describes all the parts: reports add up, and the largest epsilon counts."""
    sampled = [part for part in parts if part.sampled_epsilon is not None]
    least = (
        max(sampled, key=lambda part: part.sampled_epsilon or 0.0)
        if len(sampled) == len(parts)
        else None
    )
    windows = [part.window for part in parts]
    notes = dict.fromkeys(text for part in parts for text in part.notes)
    return {
        "n": sum(part.n for part in parts),
        "mechanism": " + ".join(dict.fromkeys(part.mechanism for part in parts)),
        "epsilon": max(part.epsilon for part in parts),
        "conservative": any(part.conservative for part in parts),
        # People in a batch without sampling are protected only by the local epsilon.
        "sampled_epsilon": None if least is None else least.sampled_epsilon,
        "sampled_delta": None if least is None else least.sampled_delta,
        "sampled_crowd": None if least is None else least.sampled_crowd,
        "_replayed": frozenset(_origins(parts)),
        "window": (
            None
            if None in windows
            else (min(w[0] for w in windows if w), max(w[1] for w in windows if w))
        ),
        "notes": (*notes, note),
    }
