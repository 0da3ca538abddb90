"""How people came into a survey: weights, strata and clusters, and the errors that follow from
them.

Everything here works on *contributions*, one row per person: the errors of any estimate that solves
sum of weight × contribution = 0 come from how the weighted contributions of whole clusters vary
within their strata (Taylor linearisation), or from estimating again with replicate weights. The
coins of randomized answers are part of what varies, so they need no separate term, except when a
finite population reduces the sampling error and leaves the coins' error unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError

__all__ = ["Sample"]

_Floats = NDArray[np.float64]
_LARGEST_DENSE = 800
"""Up to this many clusters, degrees of freedom take the subtracted means into account: it takes the
square in numbers."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Who was asked: weights (or inclusion probabilities), strata, and clusters of people drawn
    together.

    `weights` say how many people in the population each person represents; `probabilities` are the
    inclusion probabilities, whose inverses are the weights. A cluster belongs to one stratum: the
    same name in two strata means two clusters. `stratum_sizes` gives how many clusters (people,
    where there are no clusters) each stratum of the population has, if a noticeable part of them
    was drawn without replacement: one number, or a mapping from strata.

    >>> school = Sample(weights=[2, 2, 3, 3, 1, 1], clusters=["a", "a", "b", "b", "c", "c"])
    >>> school.n, school.degrees
    (6, 2)
    """

    weights: Any = None
    probabilities: Any = None
    strata: Any = None
    clusters: Any = None
    stratum_sizes: Any = None
    _cluster: NDArray[np.intp] = field(init=False, repr=False)
    """The number of each person's cluster."""
    _stratum: NDArray[np.intp] = field(init=False, repr=False)
    """The number of each cluster's stratum."""
    _drawn: _Floats = field(init=False, repr=False)
    """Clusters drawn in each stratum."""
    _fraction: _Floats = field(init=False, repr=False)
    """The fraction of each stratum's clusters that was drawn; 0 if not known."""

    def __post_init__(self) -> None:
        if self.weights is not None and self.probabilities is not None:
            raise ParameterError(
                "probabilities", "…", "cannot be given with weights, which are their inverses"
            )
        given = [
            values
            for values in (self.weights, self.probabilities, self.strata, self.clusters)
            if values is not None
        ]
        if not given:
            raise ParameterError(
                "weights", None, "must be given, or probabilities, strata or clusters"
            )
        n = len(given[0])
        columns = {
            "weights": self.weights,
            "probabilities": self.probabilities,
            "strata": self.strata,
            "clusters": self.clusters,
        }
        for name, values in columns.items():
            if values is not None and len(values) != n:
                raise ParameterError(
                    f"len({name})", len(values), f"must be the number of people, {n}"
                )
        strata, stratum = _numbered("strata", self.strata, n)
        _, own = _numbered("clusters", self.clusters, n, alone=True)
        pairs, cluster = np.unique(np.column_stack([stratum, own]), axis=0, return_inverse=True)
        drawn = np.bincount(pairs[:, 0], minlength=len(strata)).astype(np.float64)
        for place in np.flatnonzero(drawn < 2):
            what = "the sample" if self.strata is None else f"stratum {strata[place]!r}"
            unit = "person" if self.clusters is None else "cluster"
            raise ParameterError(
                f"{unit}s in {what}",
                1,
                "must be at least 2 to estimate an error: merge it with another",
            )
        settled = {
            "weights": _weights(self.weights, self.probabilities, n),
            "_cluster": cluster.reshape(-1),
            "_stratum": pairs[:, 0],
            "_drawn": drawn,
            "_fraction": _fractions(self.stratum_sizes, strata, drawn, self.strata is not None),
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        """People in the sample."""
        return int(self.weights.size)

    @property
    def n_clusters(self) -> int:
        """Clusters in the sample; people, if there are no clusters."""
        return int(self._stratum.size)

    @property
    def degrees(self) -> int:
        """Degrees of freedom of the errors: clusters minus strata."""
        return int(self._drawn.sum()) - self._drawn.size

    @property
    def effective_n(self) -> float:
        """As many people of equal weight would estimate a proportion as well: (sum w)^2 / sum w^2
        (Kish 1965)."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())

    @cached_property
    def effective_degrees(self) -> float:
        """Degrees of freedom of the errors if people of equal variance have these weights
        (Satterthwaite; Bell and McCaffrey 2002).

        The linearised variance is a sum of squares of clusters' weighted residuals. If few of them
        carry most of the weight, it varies as one of few squares. With A their covariance for
        answers of variance 1, the degrees of freedom are (tr A)^2 / tr A^2; they depend on the
        weights alone, not on the answers.

        >>> round(Sample(strata=["a"] * 40 + ["b"] * 40, weights=[1.0] * 40 + [9.0] * 40).effective_degrees, 1)
        40.0
        """
        m = self._drawn[self._stratum]
        squares = np.bincount(self._cluster, self.weights**2)
        scale = np.sqrt(m / (m - 1))
        if squares.size > _LARGEST_DENSE:  # of so many clusters the means take away next to nothing
            parts = scale**2 * squares * (1 - 1 / m)
            return float(parts.sum() ** 2 / (parts**2).sum())
        sums, total = np.bincount(self._cluster, self.weights), self.weights.sum()
        cross = np.outer(sums, squares / total)
        spread = (
            np.diag(squares) - cross - cross.T + np.outer(sums, sums) * squares.sum() / total**2
        )
        centred = np.eye(m.size) - (self._stratum[:, None] == self._stratum) / m[:, None]
        found = scale[:, None] * (centred @ spread @ centred.T) * scale
        return min(float(np.trace(found) ** 2 / (found**2).sum()), float(self.degrees))

    @property
    def finite(self) -> bool:
        """Whether a noticeable part of the population was drawn."""
        return bool(self._fraction.any())

    def fractions(self) -> _Floats:
        """For each person, the fraction of their stratum's clusters that was drawn."""
        return np.asarray(self._fraction[self._stratum[self._cluster]])

    def covariance(self, contributions: _Floats, weights: _Floats | None = None) -> _Floats:
        """Variance of the weighted sum of contributions (one row per person): (1 - f) m/(m - 1)
        times the clusters' spread within strata."""
        totals = self.cluster_totals(contributions, weights)
        means = np.zeros((self._drawn.size, totals.shape[1]))
        np.add.at(means, self._stratum, totals)
        means /= self._drawn[:, None]
        gaps = totals - means[self._stratum]
        factor = (1 - self._fraction) * self._drawn / (self._drawn - 1)
        return np.asarray((gaps * factor[self._stratum][:, None]).T @ gaps)

    def cluster_totals(self, contributions: _Floats, weights: _Floats | None = None) -> _Floats:
        """The weighted contributions summed over each cluster."""
        weighted = contributions * (self.weights if weights is None else weights)[:, None]
        totals = np.zeros((self._stratum.size, contributions.shape[1]))
        np.add.at(totals, self._cluster, weighted)
        return totals

    def jackknife(self) -> Iterator[tuple[_Floats, float]]:
        """Weights with one cluster left out at a time and its stratum reweighted; and (1 - f)(m -
        1)/m, its part of the variance.

        The stratified delete-one jackknife ("JKn"): variance = sum of part × (estimate - the whole
        sample's)^2.
        """
        for dropped, stratum in enumerate(self._stratum.tolist()):
            m = self._drawn[stratum]
            factor = np.where(self._stratum == stratum, m / (m - 1), 1.0)
            factor[dropped] = 0.0
            yield (
                self.weights * factor[self._cluster],
                float((1 - self._fraction[stratum]) * (m - 1) / m),
            )

    def bootstrap(self, replicates: int, seed: int) -> Iterator[tuple[_Floats, float]]:
        """Weights of the Rao-Wu bootstrap: m - 1 clusters redrawn from a stratum of m; each counts
        1/replicates of the variance."""
        rng = np.random.default_rng(seed)
        order = np.argsort(self._stratum, kind="stable")
        for _ in range(replicates):
            times = np.zeros(self._stratum.size)
            start = 0
            for m, f in zip(self._drawn.astype(int).tolist(), self._fraction.tolist(), strict=True):
                drawn = rng.multinomial(m - 1, np.full(m, 1 / m)) * m / (m - 1)
                times[order[start : start + m]] = 1 + (drawn - 1) * np.sqrt(1 - f)
                start += m
            yield self.weights * times[self._cluster], 1 / replicates


def _numbered(
    name: str, values: Any, n: int, alone: bool = False
) -> tuple[list[Any], NDArray[np.intp]]:
    """The distinct values, and the index of each person's; without values all are one, or each is
    `alone`."""
    if values is None:
        return [None], np.arange(n) if alone else np.zeros(n, dtype=np.intp)
    try:
        labels, numbers = np.unique(np.asarray(values), return_inverse=True)
    except TypeError:
        raise ParameterError(
            name, "…", "must be all texts or all numbers, with none missing"
        ) from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ParameterError(
            f"{name}[{np.isnan(np.asarray(values)).argmax()}]", "…", "must not be missing"
        )
    return labels.tolist(), numbers.reshape(-1)


def _weights(weights: Any, probabilities: Any, n: int) -> _Floats:
    name, given = (
        ("weights", weights) if probabilities is None else ("probabilities", probabilities)
    )
    if given is None:
        return np.ones(n)
    try:
        values = np.asarray(given, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise ParameterError(name, type(given).__name__, "must hold numbers only") from None
    bad = (
        ~(np.isfinite(values) & (values > 0))
        if name == "weights"
        else ~((values > 0) & (values <= 1))
    )
    if bad.any():
        rule = "a positive number" if name == "weights" else "above 0 and at most 1"
        raise ParameterError(
            name, float(values[bad.argmax()]), f"in row {int(bad.argmax())} must be {rule}"
        )
    return values if name == "weights" else 1 / values


def _fractions(sizes: Any, strata: list[Any], drawn: _Floats, stratified: bool) -> _Floats:
    if sizes is None:
        return np.zeros(drawn.size)
    if isinstance(sizes, Mapping):
        missing = [stratum for stratum in strata if stratum not in sizes]
        if missing or not stratified:
            raise ParameterError("stratum_sizes", list(sizes), f"must name the strata {strata}")
        numbers = np.array([float(sizes[stratum]) for stratum in strata])
    elif stratified:
        raise ParameterError("stratum_sizes", sizes, f"must be a mapping from the strata {strata}")
    else:
        numbers = np.array([float(sizes)])
    if (numbers < drawn).any():
        at = int((numbers < drawn).argmax())
        raise ParameterError(
            "stratum_sizes",
            float(numbers[at]),
            f"must be at least what was drawn, {int(drawn[at])}",
        )
    return np.asarray(drawn / numbers)
