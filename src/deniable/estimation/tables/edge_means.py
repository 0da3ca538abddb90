"""Limits of a distribution function at the edges of bins, by means over several edges.

A distribution F never falls, so its mean over the m edges up to an edge is at most F there, and its
mean over the m edges from there on is at least F. Where the noise of single bins is large, such a
mean has a far smaller error than the estimate at one edge, and a limit made from it holds however
people are spread. The best m weighs this error against how far F rises over the m edges.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.simplex import ascending

__all__ = ["EdgeMeans", "edge_means"]

_Floats = NDArray[np.float64]
_REACH = 1.96
"""Standard errors for which the number of edges is best: those of a 95 % interval."""
_GROWTH = 1.4
_GUIDE_POINTS = 9
"""Points at which the guide meets the estimate: few, so that it hardly depends on the noise that
decides whether an interval covers."""


class EdgeMeans(NamedTuple):
    """For each edge, an estimate that is in expectation at most F, one that is at least F, and
    their standard errors."""

    at_most: _Floats
    at_most_stderr: _Floats
    at_least: _Floats
    at_least_stderr: _Floats


def edge_means(below: _Floats, covariance: _Floats) -> EdgeMeans:
    """The means over the best numbers of edges, from the estimated F and the covariance of its
    errors.

    >>> certain = edge_means(np.array([0.0, 0.25, 0.75, 1.0]), np.zeros((4, 4)))
    >>> certain.at_most.tolist(), certain.at_least.tolist()
    ([0.0, 0.25, 0.75, 1.0], [0.0, 0.25, 0.75, 1.0])
    """
    guide = _guide(below)
    lower, lower_stderr = _means_up_to(below, covariance, guide)
    # from the other end, 1 - F is a distribution as well
    upper, upper_stderr = _means_up_to(1 - below[::-1], covariance[::-1, ::-1], 1 - guide[::-1])
    return EdgeMeans(lower, lower_stderr, 1 - upper[::-1], upper_stderr[::-1])


def _guide(below: _Floats) -> _Floats:
    """A rough F: straight lines between a few quantiles of the nearest one that does not fall."""
    edges = np.arange(below.size)
    rising = below.copy()
    rising[1:-1] = np.clip(ascending(below[1:-1]), 0, 1)
    levels = np.linspace(0, 1, _GUIDE_POINTS)
    places = np.interp(levels, rising + 1e-9 * edges, edges)
    places[0], places[-1] = 0, below.size - 1
    return np.interp(edges, places, levels)


def _numbers(edges: int) -> list[int]:
    """The numbers of edges that are tried: 1, 2, 3, 4, 6, 8, …"""
    numbers = [1]
    while numbers[-1] <= edges / 2:
        numbers.append(max(numbers[-1] + 1, round(_GROWTH * numbers[-1])))
    return numbers


def _means_up_to(below: _Floats, covariance: _Floats, guide: _Floats) -> tuple[_Floats, _Floats]:
    """The mean of F over the best number of edges up to each edge, and its standard error.

    Before the first edge F is 0 for certain. How many edges are best is decided by the mean
    variance along F: by that of the edge itself, edges would be chosen whose variance happens to be
    estimated too small.
    """
    size = below.size
    sums, guides = (np.concatenate([[0.0], np.cumsum(each)]) for each in (below, guide))
    covariances = np.pad(covariance.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    after = np.arange(1, size + 1)
    best, means, stderr = np.full(size, np.inf), below.copy(), np.zeros(size)
    for number in _numbers(size - 1):
        first = np.maximum(after - number, 0)
        summed = (
            covariances[after, after] - 2 * covariances[first, after] + covariances[first, first]
        )
        variance = np.maximum(summed, 0) / number**2
        shortfall = guide - (guides[after] - guides[first]) / number
        score = shortfall + _REACH * np.sqrt(variance[1:-1].mean())
        better = score < best - 1e-12
        best[better] = score[better]
        means[better] = ((sums[after] - sums[first]) / number)[better]
        stderr[better] = np.sqrt(variance[better])
    # At the ends F is 0 and 1 for certain.
    means[[0, -1]], stderr[[0, -1]] = below[[0, -1]], 0.0
    return means, stderr
