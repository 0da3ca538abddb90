"""Wedges and triangles from reports of two rounds, with their errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from deniable.graphs.noise import (
    laplace_fourth_moment,
    laplace_variance,
)
from deniable.graphs.response import EdgeChannel, Progress
from deniable.graphs.statistic import GraphStatistic

if TYPE_CHECKING:
    from deniable.graphs.two_rounds import TwoRoundReports

__all__ = ["UNIT", "estimated_triangles", "estimated_wedges"]

UNIT = 1 << 16
"""Counts of the second round are multiples of 1/65536, because b is."""
_BLOCK = 1024


def estimated_wedges(reports: TwoRoundReports, noise: float) -> GraphStatistic:
    """The sum of d (d - 1)/2 over noisy degrees, less the noise's own variance."""
    degrees = reports.first.degrees.astype(np.float64)
    value = float((degrees * (degrees - 1) - noise).sum() / 2)
    slopes = (2 * degrees - 1) ** 2 - 4 * noise  # unbiased for (2 d - 1)^2
    fourth = laplace_fourth_moment(reports.protocol.degree_scale) - noise**2
    variance = (noise * float(slopes.sum()) + reports.nodes * fourth) / 4
    # sum (2 d - 1)^2 = 8 W + n grows with the wedges.
    least = reports.nodes * (noise + fourth) / 4
    profile = (variance, 2 * noise, least)
    return GraphStatistic(
        "wedges", value, math.sqrt(max(variance, least)), reports.nodes, profile=profile
    )


def estimated_triangles(
    reports: TwoRoundReports, wedges: GraphStatistic, progress: Progress | None
) -> tuple[GraphStatistic, tuple[str, ...]]:
    """The sum of the noisy counts, unbiased but for cut lists, and what is to be said of its
    error."""
    protocol, channel = reports.protocol, reports.protocol.response.channel
    scales, times = np.unique(protocol.count_scales(reports.first.bounds), return_counts=True)
    spread = sum(
        int(n) * laplace_variance(int(scale))
        for scale, n in zip(scales, times, strict=True)
        if scale
    )
    noise = spread / (UNIT * channel.gap) ** 2
    coins, uncertain = _coins_variance(reports, channel, progress)
    variance = noise + coins
    notes: tuple[str, ...] = ()
    if uncertain > 0.2 * variance:
        # The estimated part of the variance is not known well: err on the side of too much.
        variance += uncertain
        notes = (
            (
                "The error of the triangles is itself uncertain, and their interval errs on the"
                " wide side."
            ),
        )
    return (
        GraphStatistic(
            "triangles", reports.triangles, math.sqrt(variance), reports.nodes, lost=protocol.cut
        ),
        notes,
    )


def _coins_variance(
    reports: TwoRoundReports, channel: EdgeChannel, progress: Progress | None
) -> tuple[float, float]:
    """What the coins of the noisy edges contribute, sum of v_jk c_jk^2, and roughly the
    standard error of that.

    With U the unbiased entries above the diagonal, nodes in order: (U'U)_jk estimates c_jk, and
    its square is too large by the products of a list with itself, which are in (U^2)'(U^2);
    they are replaced by what they estimate.
    """
    n, v = reports.nodes, channel.variance
    order = np.argsort(reports.first.ranks)
    bits = reports.first.reports.bits()
    upper = np.empty((n, n), dtype=np.float32)
    for start in range(0, n, _BLOCK):
        part = slice(start, min(start + _BLOCK, n))
        block = (bits[order[part]][:, order] - np.float32(channel.b)) / np.float32(channel.gap)
        upper[part] = np.triu(block, start + 1)
    del bits
    total, lists, steps = 0.0, 0.0, range(0, n, _BLOCK)
    for start in steps:
        end = min(start + _BLOCK, n)
        left = upper[:end, start:end]
        for other in range(start, n, _BLOCK):
            right = upper[:end, other : other + _BLOCK]
            common = (left.T @ right).astype(np.float64)
            squares = common**2 - (left**2).T @ right**2 + common
            first = np.triu(np.ones_like(common), other == start) if other == start else 1.0
            weight = v + channel.excess * upper[start:end, other : other + _BLOCK].astype(
                np.float64
            )
            total += float((squares * weight * first).sum())
            lists += float((common * first).sum())
        if progress:
            progress(end / n)
    # Squares are no less than what is squared; and where nothing is seen, what noise alone
    # would make of the sum.
    least = v * max(lists, 0.0)
    spread = v * math.sqrt(v**4 * n**4 / 6 + 4 * v**2 * n * max(total / v, lists, 0.0))
    return max(total, least, 0.0), spread
