"""A yes/no answer whose log-odds have a random intercept per cluster, integrated by adaptive
Gauss-Hermite quadrature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

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


@cache
def _quadrature() -> tuple[_Floats, _Floats]:
    """Nodes and weights of Gauss and Hermite."""
    nodes, weights = np.polynomial.hermite.hermgauss(_NODES)
    return nodes, weights


class _Nodes(NamedTuple):
    """The people, in the order of the clusters, at each of the nodes."""

    terms: _Floats
    """The logarithm of each cluster's likelihood."""
    posterior: _Floats
    """The weight of each of a cluster's nodes given the reports."""
    mass: _Floats
    """The same, in one row per person, as all that follow."""
    design: _Floats
    u: _Floats
    by_eta: _Floats
    """The first derivative of P(report) by the log-odds, divided by P(report)."""
    curve: _Floats
    """The second, likewise."""
    by_rate: _Floats
    cross: _Floats
    """By the rate, and by the rate and the log-odds."""


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
        at = self._nodes(parameters)
        if at is None:
            return np.full(self.n_clusters, -np.inf), np.zeros((self.n_clusters, parameters.size))
        by_eta = at.mass * at.by_eta
        scores = [self._sum(at.design * by_eta.sum(axis=1)[:, None])]
        if self.people.has_rate:
            scores.append(self._sum((at.mass * at.by_rate).sum(axis=1))[:, None])
        scores.append(self._sum((by_eta * at.u).sum(axis=1))[:, None])
        return at.terms, np.hstack(scores)

    def _nodes(self, parameters: _Floats) -> _Nodes | None:
        """The people at the nodes of their cluster; None where the parameters are impossible."""
        model, sigma = self.people, float(parameters[-1])
        design = model.design[self._order]
        yes, no = (part[self._order] for part in model.channels(parameters[:-1]))
        eta = design @ parameters[: design.shape[1]]
        if min(yes.min(), no.min()) < 0 or np.maximum(yes, no).min() <= 0:
            return None
        mode, width = self._modes(eta, yes, no, sigma)
        nodes, weights = _quadrature()
        u = mode[:, None] + np.sqrt(2) * width[:, None] * nodes
        at = np.repeat(u, self._sizes, axis=0)
        p, slope, curve, proportion = binary_terms(
            eta[:, None] + sigma * at, yes[:, None], no[:, None]
        )
        if p.min() <= 0:
            return None
        heights = self._sum(np.log(p)) - u**2 / 2 + nodes**2 + np.log(weights)
        top = heights.max(axis=1, keepdims=True)
        parts = np.exp(heights - top)
        posterior = parts / parts.sum(axis=1, keepdims=True)
        yes_slope, no_slope = (part[self._order, 1][:, None] for part in (model.yes, model.no))
        return _Nodes(
            terms=top[:, 0] + np.log(parts.sum(axis=1) * width / np.sqrt(np.pi)),
            posterior=posterior,
            mass=np.repeat(posterior, self._sizes, axis=0),
            design=design,
            u=at,
            by_eta=slope / p,
            curve=curve / p,
            by_rate=(no_slope + (yes_slope - no_slope) * proportion) / p,
            cross=(yes_slope - no_slope) * proportion * (1 - proportion) / p,
        )

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

    def information(self, parameters: _Floats, weights: _Floats | None) -> _Floats:
        """Louis' identity: given u the second derivatives have a closed form; minus their mean, less
        the covariance of the scores given u, both over u given the reports.

        By differences of scores it would take two integrals per parameter.
        """
        at = self._nodes(parameters)
        if at is None:
            return np.full((parameters.size, parameters.size), np.nan)
        of_cluster = np.ones(self.n_clusters) if weights is None else weights
        mass = at.mass * np.repeat(of_cluster, self._sizes)[:, None]
        by_eta = mass * (at.curve - at.by_eta**2)
        # of every predictor of eta: the covariates, the rate (which is none), and u
        beta = at.design.shape[1]
        total = np.zeros((parameters.size, parameters.size))
        total[:beta, :beta] = at.design.T @ (at.design * by_eta.sum(axis=1)[:, None])
        total[:beta, -1] = total[-1, :beta] = at.design.T @ (by_eta * at.u).sum(axis=1)
        total[-1, -1] = (by_eta * at.u**2).sum()
        if self.people.has_rate:
            mixed = mass * (at.cross - at.by_eta * at.by_rate)
            total[:beta, beta] = total[beta, :beta] = at.design.T @ mixed.sum(axis=1)
            total[beta, -1] = total[-1, beta] = (mixed * at.u).sum()
            total[beta, beta] = -(mass * at.by_rate**2).sum()
        columns = [self._sum(at.by_eta * column[:, None]) for column in at.design.T]
        if self.people.has_rate:
            columns.append(self._sum(at.by_rate))
        scores = np.stack([*columns, self._sum(at.by_eta * at.u)], axis=2)
        centred = scores - (at.posterior[:, :, None] * scores).sum(axis=1, keepdims=True)
        spread = centred * (at.posterior * of_cluster[:, None])[:, :, None]
        total += np.tensordot(spread, centred, axes=([0, 1], [0, 1]))
        return -total

    def alternatives(self) -> Iterator[Model] | None:
        return None
