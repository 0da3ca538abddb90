"""How edges mix between groups of a public attribute."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.errors import GraphError
from deniable.graphs.limits import ENOUGH, flips
from deniable.graphs.statistic import GraphStatistic

if TYPE_CHECKING:
    from deniable.graphs.reports import GraphReports

__all__ = ["assortativity"]

_VISIBLE = 5.0
"""Standard errors by which the edges must stand out of the noise for the linearised error of a
quotient by them to hold."""

_CLEAR = 20.0
"""Standard errors below which that error rather errs on the wide side."""


def assortativity(reports: GraphReports, groups: Sequence[Hashable]) -> GraphStatistic:
    """Newman's coefficient r = (sum_g e_gg - sum_g a_g^2)/(1 - sum_g a_g^2) with its linearised
    error.

    e_gh is the proportion of edge ends between the groups g and h, a_g = sum_h e_gh. Each count of
    edges between two groups is the sum of its own pairs' entries, so that they are unbiased and
    independent, with known variances.
    """
    nodes, channel = reports.nodes, reports.response.channel
    if len(groups) != nodes:
        raise GraphError(f"there are {len(groups)} values of the attribute for {nodes} nodes")
    names = {name: place for place, name in enumerate(dict.fromkeys(groups))}
    if len(names) < 2:
        raise GraphError("the attribute has the same value everywhere: there is nothing to compare")
    member = np.zeros((nodes, len(names)), dtype=np.float32)
    member[np.arange(nodes), [names[name] for name in groups]] = 1
    sizes = member.sum(axis=0, dtype=np.float64)
    pairs = np.outer(sizes, sizes)
    np.fill_diagonal(pairs, sizes * (sizes - 1) / 2)
    # A block of rows at a time, in whole numbers below 2**24, and added up in doubles.
    bits = reports.bits()
    ones = np.zeros((len(names), len(names)))
    for start in range(0, nodes, 1024):
        part = slice(start, start + 1024)
        ones += member[part].T.astype(np.float64) @ (bits[part] @ member)
    ones /= channel.copies
    ones[np.diag_indices(len(names))] /= 2
    edges = (ones - channel.b * pairs) / channel.gap
    variance = channel.variance * pairs + channel.excess * np.clip(edges, 0, pairs)
    value, gradient = _newman(edges)
    upper = np.triu_indices(len(names))
    total, noise = edges[upper].sum(), math.sqrt(variance[upper].sum())
    stderr = math.sqrt((gradient[upper] ** 2 * variance[upper]).sum())
    reasons = (
        (
            total <= _VISIBLE * noise,
            "The edges do not stand out from the noise: any assortativity is possible.",
        ),
        (
            flips(float(pairs[upper].sum()), channel) < ENOUGH,
            "Too few coins flip for an interval of the assortativity.",
        ),
    )
    notes = tuple(text for holds, text in reasons if holds)
    bounds = (-1.0, 1.0) if notes else None
    return GraphStatistic(
        "assortativity", value, stderr, nodes, notes, bounds=bounds, wide=total <= _CLEAR * noise
    )


def _newman(edges: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The coefficient and its derivative by the number of edges between each two groups."""
    within, m = float(np.trace(edges)), float(np.triu(edges).sum())
    ends = edges.sum(axis=1) + np.diag(edges)
    chance = float((ends**2).sum()) / (4 * m**2)
    own = np.eye(len(edges))
    chance_by = (ends[:, None] + ends[None, :]) / (2 * m**2) - 2 * chance / m
    top_by = own / m - within / m**2 - chance_by
    value = (within / m - chance) / (1 - chance)
    return value, (top_by + value * chance_by) / (1 - chance)
