"""Coarser labels, and proportions among those who have a label, from an estimate and its
covariance.

A :class:`~deniable.estimation.tables.table.Table` does the same for a table whose cells sum to 1.
Here they need not: people may have none of the labels, as in a query without a bucket for all
others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.pooling import welch_satterthwaite
from deniable.estimation.unbias import LARGEST_COVARIANCE

__all__ = ["Group", "merged", "proportions_among"]

Group = tuple[Hashable, Sequence[int]]
"""A new label, and the positions of the labels it merges."""
_LEAST_CONDITION = 4.0
"""How many standard errors a condition's proportion must be above 0: closer to it, a ratio is far
from normal."""


def merged(estimate: Estimate, groups: Sequence[Group]) -> Estimate:
    """The estimate of coarser labels: with A the 0/1 matrix of groups by labels, proportions A p
    and covariance A C A'.

    Reports do not individually support a merged label, so its interval is the normal one; if no
    labels are merged, intervals are unchanged.

    >>> from deniable import DirectEncoding, seeded_source
    >>> drinks = DirectEncoding(["tea", "coffee", "none"], 1.0)
    >>> estimate = drinks.estimate(drinks.privatize(["tea"] * 3000 + ["coffee"] * 5000 + ["none"] * 2000, seeded_source(6)))
    >>> print(merged(estimate, [("hot drink", [0, 1]), ("none", [2])]))
    hot drink    80.05 %   77.62 to 82.48
    none         19.95 %   17.52 to 22.38
    10,000 reports; epsilon 1 per report; intervals cover 95 %
    """
    estimate = estimate.without_bias()
    matrix = _matrix(groups, len(estimate.labels))
    labels = tuple(label for label, _ in groups)
    if all(len(places) == 1 for _, places in groups):
        return _renamed(estimate, labels, np.array([places[0] for _, places in groups]))
    if estimate.covariance is None:
        rule = (
            f"must be at most {LARGEST_COVARIANCE} to be merged, because the covariance of more is"
            " not kept"
        )
        raise ParameterError("labels", len(estimate.labels), rule)
    covariance = matrix @ estimate.covariance @ matrix.T
    degrees = None
    if estimate.strata:
        parts = [(weight, merged(part, groups)) for weight, part in estimate.strata]
        degrees = welch_satterthwaite(
            [weight**2 * part.variance for weight, part in parts], [part for _, part in parts]
        )
    elif estimate.degrees is not None:
        degrees = np.array([estimate.degrees[list(places)].min() for _, places in groups])
    return dataclasses.replace(
        estimate,
        labels=labels,
        proportions=matrix @ estimate.proportions,
        variance=np.diagonal(covariance).clip(min=0.0).copy(),
        covariance=covariance,
        support=None,
        score_law=None,
        strata=(),
        degrees=degrees,
        reports=None,
    )


def proportions_among(
    estimate: Estimate, groups: Sequence[Group], condition: str
) -> Estimate | None:
    """The proportions of these groups among those who are in any of them; None if there are too few
    of those.

    With x the groups' proportions and S their sum, the ratio x/S has the covariance J C J', J = (I
    - (x/S) 1')/S (delta method).
    """
    parts = merged(estimate, [(label, [*places]) for label, places in groups])
    if parts.covariance is None:
        return None
    total = float(parts.proportions.sum())
    spread = float(np.sqrt(max(parts.covariance.sum(), 0.0)))
    if total <= _LEAST_CONDITION * spread:
        return None
    ratio = parts.proportions / total
    slopes = (np.eye(ratio.size) - ratio[:, np.newaxis]) / total
    covariance = slopes @ parts.covariance @ slopes.T
    return dataclasses.replace(
        parts,
        proportions=ratio,
        variance=np.diagonal(covariance).clip(min=0.0).copy(),
        covariance=covariance,
        population=None,
        support=None,
        score_law=None,
        strata=(),
        degrees=None,
        reports=None,
        notes=(*parts.notes, f"among those with {condition}, {100 * total:.2f} % of all"),
    )


def _matrix(groups: Sequence[Group], k: int) -> NDArray[np.float64]:
    matrix = np.zeros((len(groups), k))
    for row, (label, places) in zip(matrix, groups, strict=True):
        if not len(places) or not all(0 <= place < k for place in places):
            raise ParameterError("groups", label, f"must merge at least one of the {k} labels")
        row[list(places)] = 1.0
    return matrix


def _renamed(
    estimate: Estimate, labels: tuple[Hashable, ...], places: NDArray[np.intp]
) -> Estimate:
    pair, law = estimate.support, estimate.score_law
    return dataclasses.replace(
        estimate,
        labels=labels,
        proportions=estimate.proportions[places],
        variance=estimate.variance[places],
        covariance=(
            None if estimate.covariance is None else estimate.covariance[np.ix_(places, places)]
        ),
        support=None if pair is None else (pair[0][places], pair[1][places]),
        score_law=None if law is None else (law[0][places], law[1][places], law[2][places]),
        rare=None if estimate.rare is None else estimate.rare[places],
        degrees=None if estimate.degrees is None else estimate.degrees[places],
        reports=None,
        strata=tuple((weight, _renamed(part, labels, places)) for weight, part in estimate.strata),
    )
