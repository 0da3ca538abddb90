"""Statistics of estimated tables, each with its standard error.

All take a :class:`~deniable.Table` or an :class:`~deniable.Estimate` and return a
:class:`~deniable.Statistic`. The standard error is the delta method's: with gradient g of the
statistic by the cells, the variance is g' Cov g (Wang, Wu and Hu 2016, section 5.2), where Cov is
that of the estimated table, finite population included. It includes both the coins and the
sampling.

Estimated proportions may lie below 0, where an entropy has no meaning. Such a table is first
projected onto the simplex, and `notes` says so. The projection sets some cells to 0 and moves the
others by one constant, so it is linear around the estimate and the gradient goes through it; but it
is biased, so no interval is given.

Where "value ± standard errors" would not cover, the interval has its own law
(:mod:`deniable.estimation.interval_laws`): the measures of dependence near independence, and
quantiles. A statistic of an estimate that was made consistent (`ems`, norm-sub, …) takes its value
from that and its interval from the unbiased one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.interval_laws import (
    ShortfallLaw,
)
from deniable.estimation.tables.association import quadratic_law
from deniable.estimation.tables.dependence import (
    chi_square,
    cramers_v,
    g_square,
    mutual_information,
    phi_square,
    two_way,
)
from deniable.estimation.tables.deriving import (
    Axes,
    Subject,
    check_base,
    delta_statistic,
    label_scores,
    marginal_table,
    of_unbiased,
    proper_proportions,
    score_variance,
    scored_table,
    whole_table,
)
from deniable.estimation.tables.quantiles import quantile
from deniable.estimation.tables.statistic import Statistic
from deniable.estimation.tables.table import Table

__all__ = [
    "chi_square",
    "correlation",
    "cramers_v",
    "derived",
    "difference",
    "entropy",
    "g_square",
    "mean",
    "mutual_information",
    "phi_square",
    "proportion",
    "quantile",
    "ratio",
    "variance",
]

_Floats = NDArray[np.float64]


# --- proportions


@of_unbiased
def proportion(subject: Subject, event: Any) -> Statistic:
    """The proportion of people for whom `event` holds.

    An event is a label of a table with one axis, or a mapping from axes to a label or a list of
    labels.

    >>> from deniable import DirectEncoding
    >>> survey = DirectEncoding(["never", "once", "often"], epsilon=2.0)
    >>> answers = survey.estimate(["never"] * 600 + ["once"] * 250 + ["often"] * 150)
    >>> print(proportion(answers, {"value": ["once", "often"]}))
    proportion of value = once or often: 0.2748, 0.2301 to 0.3194 (95 %, from 1,000 reports)
    """
    table = whole_table(subject)
    weights, name = _event(table, event)
    return delta_statistic(
        table, float((weights * table.proportions).sum()), weights, f"proportion of {name}"
    )


@of_unbiased
def difference(subject: Subject, first: Any, second: Any) -> Statistic:
    """The proportion of the first event minus that of the second; events as for
    :func:`proportion`."""
    table = whole_table(subject)
    (plus, one), (minus, other) = _event(table, first), _event(table, second)
    value = float(((plus - minus) * table.proportions).sum())
    return delta_statistic(
        table, value, plus - minus, f"proportion of {one} less proportion of {other}"
    )


@of_unbiased
def ratio(subject: Subject, first: Any, second: Any) -> Statistic:
    """The proportion of the first event over that of the second; events as for :func:`proportion`.

    With A/B: gradient (w_A - (A/B) w_B)/B.
    """
    table = whole_table(subject)
    (above, one), (below, other) = _event(table, first), _event(table, second)
    base = float((below * table.proportions).sum())
    if base <= 0:
        raise ParameterError(
            f"estimated proportion of {other}", base, "must be positive to divide by"
        )
    value = float((above * table.proportions).sum()) / base
    return delta_statistic(
        table,
        value,
        (above - value * below) / base,
        f"proportion of {one} over proportion of {other}",
    )


# --- one attribute


@of_unbiased
def entropy(subject: Subject, axes: Axes | None = None, base: float = 2) -> Statistic:
    """Entropy of one attribute, or of several together, in bits: -sum pi log2 pi, gradient -(log2
    pi + 1/ln 2).

    At its maximum, when all values are equally frequent, the gradient vanishes and the estimate is
    biased downwards. Its interval is therefore that of the distance from the maximum: ln k - H is
    half of a squared length, of which chance adds tr(C/pi).

    >>> from deniable import DirectEncoding
    >>> coin = DirectEncoding(2, epsilon=3.0)
    >>> print(entropy(coin.estimate([0] * 800 + [1] * 200)))
    entropy of value: 0.6544, 0.5887 to 0.7149 (at least 95 %, from 1,000 reports)
    """
    table = marginal_table(subject, axes)
    proportions, back, notes = proper_proportions(table)
    unit = math.log(check_base(base))
    logs = np.log(proportions, out=np.zeros_like(proportions), where=proportions > 0) / unit
    value = -float((proportions * logs).sum())
    found = delta_statistic(
        table, value, back(-(logs + 1 / unit)), f"entropy of {', '.join(table.axes)}", notes
    )
    return found if found.biased else replace(found, law=_entropy_law(table, found, unit))


def _entropy_law(table: Table, found: Statistic, unit: float) -> ShortfallLaw | None:
    """Of the distance to the maximum, ln k: half of the squared length of (pi - 1/k)/sqrt(pi),
    close to there."""
    covariance = table.covariance
    if covariance is None:
        return None
    largest = math.log(table.proportions.size)
    # A proportion that may be 0 would let chance seem to add any amount: it is taken to be at least
    # its standard error.
    proportions = np.maximum(table.proportions, table.stderr).reshape(-1)
    spread = covariance / np.sqrt(np.outer(proportions, proportions))
    length = max(2 * (largest - found.value * unit), 0.0)
    traces = float(np.trace(spread)), float((spread**2).sum())
    law = quadratic_law(traces, length, (2 * unit * found.stderr) ** 2, 1 / (2 * unit), root=False)
    return ShortfallLaw(largest / unit, law)


@of_unbiased
def mean(
    subject: Subject, axis: str | None = None, scores: Sequence[float] | None = None
) -> Statistic:
    """Mean of an attribute's scores: its labels if they are numbers, otherwise those given, one per
    label."""
    table, values = scored_table(subject, axis, scores)
    return delta_statistic(
        table, float(values @ table.proportions), values, f"mean of {table.axes[0]}"
    )


@of_unbiased
def variance(
    subject: Subject, axis: str | None = None, scores: Sequence[float] | None = None
) -> Statistic:
    """Variance of an attribute's scores over the population, E x^2 - (E x)^2; gradient (x - E
    x)^2."""
    table, values = scored_table(subject, axis, scores)
    proportions, back, notes = proper_proportions(
        table, always=False, bad=lambda p: score_variance(values, p) < 0
    )
    centred = (values - values @ proportions) ** 2
    return delta_statistic(
        table,
        score_variance(values, proportions),
        back(centred),
        f"variance of {table.axes[0]}",
        notes,
    )


@of_unbiased
def correlation(
    subject: Subject,
    first: str | None = None,
    second: str | None = None,
    scores: Mapping[str, Sequence[float]] | None = None,
) -> Statistic:
    """Pearson's correlation of two scored attributes; `scores` gives those of axes whose labels are
    not numbers.

    With z, w the standardized scores, gradient z w - r (z^2 + w^2)/2.
    """
    table, _, pair, _ = two_way(subject, first, second)
    if len(table.axes) != 2:
        raise ParameterError(
            "axes", table.axes, "must be two: a correlation is between two attributes"
        )
    given = scores or {}
    x, y = (label_scores(table, i, given.get(axis)) for i, axis in enumerate(table.axes))

    def degenerate(p: _Floats) -> bool:
        return score_variance(x, p.sum(axis=1)) <= 0 or score_variance(y, p.sum(axis=0)) <= 0

    proportions, back, notes = proper_proportions(table, always=False, bad=degenerate)
    if degenerate(proportions):
        raise ParameterError(
            "variance", 0.0, message=f"a correlation of {pair} needs a positive variance of both"
        )
    z = (x - x @ proportions.sum(axis=1)) / math.sqrt(score_variance(x, proportions.sum(axis=1)))
    w = (y - y @ proportions.sum(axis=0)) / math.sqrt(score_variance(y, proportions.sum(axis=0)))
    value = float(z @ proportions @ w)
    gradient = np.outer(z, w) - value * (z[:, None] ** 2 + w[None, :] ** 2) / 2
    return delta_statistic(table, value, back(gradient), f"correlation of {pair}", notes)


# --- any function


@of_unbiased
def derived(
    subject: Subject, function: Callable[[_Floats], float], name: str, step: float = 1e-6
) -> Statistic:
    """Any smooth function of the tensor of proportions, with its gradient taken by central
    differences.

    >>> from deniable import DirectEncoding
    >>> coin = DirectEncoding(2, epsilon=3.0).estimate([0] * 400 + [1] * 600)
    >>> odds = derived(coin, lambda p: p[1] / p[0], "odds")
    >>> abs(odds.stderr / ratio(coin, 1, 0).stderr - 1) < 1e-6
    True
    """
    table = whole_table(subject)
    proportions = table.proportions
    gradient = np.empty_like(proportions)
    for at in np.ndindex(*proportions.shape):
        moved = np.zeros_like(proportions)
        moved[at] = step
        gradient[at] = (function(proportions + moved) - function(proportions - moved)) / (2 * step)
    return delta_statistic(table, float(function(proportions)), gradient, name)


def _event(table: Table, event: Any) -> tuple[_Floats, str]:
    """Ones at the cells where the event holds, and its name."""
    if not isinstance(event, Mapping):
        if len(table.axes) != 1:
            raise ParameterError(
                "event", event, f"must be a mapping from some of {', '.join(table.axes)} to labels"
            )
        event = {table.axes[0]: event}
    weights = np.ones(table.shape)
    texts = []
    for axis, wanted in event.items():
        labels = wanted if isinstance(wanted, list | set | frozenset) else [wanted]
        inside = [table.position(axis, label) for label in labels]
        along = np.zeros(table.shape[table.axes.index(axis)])
        along[inside] = 1
        weights *= along.reshape([-1 if name == axis else 1 for name in table.axes])
        texts.append(f"{axis} = {' or '.join(map(str, labels))}")
    return weights, ", ".join(texts)
