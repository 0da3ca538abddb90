"""A yes/no answer whose log-odds have a random intercept per cluster, integrated by adaptive
Gauss-Hermite quadrature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.regression.answer_models import BinaryModel, binary_terms
from deniable.estimation.regression.fitting import Model

__all__ = ["RandomInterceptModel"]

_Floats = NDArray[np.float64]
_NODES = 41
"""The log-likelihood of 30 clusters is then right to 1e-7, with sigma = 2 in log-odds and small
clusters to 1e-4."""
_MODE_STEPS = 12


@dataclass(frozen=True, eq=False)
class RandomInterceptModel:
    """The log-odds are x'beta + sigma u, u standard normal and common to a cluster. The last
    parameter is sigma.

    A cluster's likelihood is the integral over u of the product of its people's. The nodes are
    placed around the integrand's mode in its own width (adaptive quadrature), so that large
    clusters are integrated as accurately as small ones. Scores are means over u given the reports
    (Fisher's identity); sigma and -sigma are the same model.
    """

    people: BinaryModel
    clusters: Any
    _order: NDArray[np.intp] = field(init=False, repr=False)
    _starts: NDArray[np.intp] = field(init=False, repr=False)
    _sizes: NDArray[np.intp] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n = len(self.people.design)
        if len(self.clusters) != n:
            raise ParameterError(
                "len(random_intercept)", len(self.clusters), f"must be the number of people, {n}"
            )
        labels, number = np.unique(np.asarray(self.clusters), return_inverse=True)
        if not 2 <= labels.size < n:
            raise ParameterError(
                "clusters in random_intercept", labels.size, f"must be from 2 to {n - 1}"
            )
        order = np.argsort(number.reshape(-1), kind="stable")
        sizes = np.bincount(number.reshape(-1))
        for name, value in (
            ("_order", order),
            ("_starts", np.cumsum(sizes) - sizes),
            ("_sizes", sizes),
        ):
            object.__setattr__(self, name, value)

    @property
    def n_clusters(self) -> int:
        """How many clusters there are."""
        return int(self._sizes.size)

    def _sum(self, rows: _Floats) -> _Floats:
        """Sums over each cluster; the rows are in the order of the clusters."""
        return np.asarray(np.add.reduceat(rows, self._starts, axis=0))

    def evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        model, sigma = self.people, float(parameters[-1])
        design = model.design[self._order]
        yes, no = (part[self._order] for part in model.channels(parameters[:-1]))
        eta = design @ parameters[: design.shape[1]]
        impossible = np.full(self.n_clusters, -np.inf), np.zeros((self.n_clusters, parameters.size))
        if min(yes.min(), no.min()) < 0 or np.maximum(yes, no).min() <= 0:
            return impossible
        mode, width = self._modes(eta, yes, no, sigma)
        nodes, weights = np.polynomial.hermite.hermgauss(_NODES)
        u = mode[:, None] + np.sqrt(2) * width[:, None] * nodes
        at = np.repeat(u, self._sizes, axis=0)
        p, slope, _, proportion = binary_terms(eta[:, None] + sigma * at, yes[:, None], no[:, None])
        if p.min() <= 0:
            return impossible
        heights = self._sum(np.log(p)) - u**2 / 2 + nodes**2 + np.log(weights)
        top = heights.max(axis=1, keepdims=True)
        parts = np.exp(heights - top)
        terms = top[:, 0] + np.log(parts.sum(axis=1) * width / np.sqrt(np.pi))
        mass = np.repeat(parts / parts.sum(axis=1, keepdims=True), self._sizes, axis=0)
        by_eta = mass * slope / p
        scores = [self._sum(design * by_eta.sum(axis=1)[:, None])]
        if model.has_rate:
            yes_slope, no_slope = (
                model.yes[self._order, 1][:, None],
                model.no[self._order, 1][:, None],
            )
            scores.append(
                self._sum(
                    (mass * (no_slope + (yes_slope - no_slope) * proportion) / p).sum(axis=1)
                )[:, None]
            )
        scores.append(self._sum((by_eta * at).sum(axis=1))[:, None])
        return terms, np.hstack(scores)

    def _modes(
        self, eta: _Floats, yes: _Floats, no: _Floats, sigma: float
    ) -> tuple[_Floats, _Floats]:
        """Where each cluster's integrand is largest, and its width there: they affect only the
        accuracy."""
        mode = np.zeros(self.n_clusters)
        curvature = np.ones(self.n_clusters)
        for _ in range(_MODE_STEPS):
            p, slope, curve, _ = binary_terms(eta + sigma * np.repeat(mode, self._sizes), yes, no)
            first = slope / p
            gradient = sigma * self._sum(first) - mode
            curvature = 1 + sigma**2 * np.maximum(self._sum(first**2 - curve / p), 0)
            step = np.clip(gradient / curvature, -2, 2)
            mode = mode + step
            if np.abs(step).max() < 1e-9:
                break
        return mode, 1 / np.sqrt(curvature)

    def information(self, parameters: _Floats, weights: _Floats | None) -> None:
        return None

    def alternatives(self) -> Iterator[Model] | None:
        return None
