"""A synthetic graph from reports: the reconstruction of Wang, Wu and Hu (2016, section 6.4), with a
private edge count.

The paper keeps as many edges as the true graph has, which reveals that number exactly. Here it is
the estimated number m. A proportion P(z | edge) of the m edges is expected among the pairs that
reported z ones; that many of these pairs are drawn uniformly. Only the reports are used, so it
costs no further privacy and the graph may be published. Each single edge is right with the
probability that the reports allow; statistics of the synthetic graph are not unbiased, and
:meth:`GraphReports.estimate` is better.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.graphs.graph import Graph
from deniable.graphs.moments import count_degrees
from deniable.randomness import Source, source_or_system

if TYPE_CHECKING:
    from deniable.graphs.reports import GraphReports

__all__ = ["synthetic_graph"]


def synthetic_graph(
    reports: GraphReports, source: Source | None = None, edges: int | None = None
) -> Graph:
    """A graph that could be the true one, with the estimated number of edges, or with a number of
    edges that is public anyway."""
    source = source_or_system(source)
    nodes, channel = reports.nodes, reports.response.channel
    bits = reports.bits()
    if edges is None:
        edges = round(min(max(count_degrees(bits, channel, channel).edges, 0), comb(nodes, 2)))
    copies = channel.copies
    found = [int((bits == z).sum()) // 2 for z in range(copies + 1)]
    found[0] = comb(nodes, 2) - sum(found[1:])
    wanted = [
        edges * comb(copies, z) * channel.a**z * (1 - channel.a) ** (copies - z)
        for z in range(copies + 1)
    ]
    counts = _whole(wanted, found, edges)
    keys = np.concatenate([_pick(bits, z, counts[z], found[z], source) for z in range(copies + 1)])
    pairs = np.column_stack(np.divmod(np.sort(keys), nodes))
    return Graph(nodes, pairs, reports.labels)


def _whole(wanted: list[float], most: list[int], total: int) -> list[int]:
    """Whole numbers near the wanted ones, none above its limit, that sum to the total."""
    counts = [min(int(x), limit) for x, limit in zip(wanted, most, strict=True)]
    # Where a class has no pairs left, the others take over, those most likely to be edges first.
    for z in reversed(range(len(counts))):
        counts[z] += min(total - sum(counts), most[z] - counts[z])
    return counts


def _pick(
    bits: NDArray[np.float32], value: int, count: int, available: int, source: Source
) -> NDArray[np.int64]:
    """The keys i nodes + j of `count` pairs i < j with the given number of ones, all such sets
    equally likely."""
    nodes = len(bits)
    if 2 * count > available or available < 64:
        places = np.argwhere(np.triu(bits == value, 1))
        keys = places[:, 0] * nodes + places[:, 1]
        # A random order, by sorting random words; ties are rare and harmless.
        return keys[np.argsort(source.words(keys.size), kind="stable")[:count]].astype(np.int64)
    chosen = np.empty(0, dtype=np.int64)
    while chosen.size < count:
        # Random pairs are tried until enough of this kind are found: each new one is uniform among
        # those left.
        tries = int(1.2 * (count - chosen.size) * comb(nodes, 2) / available) + 64
        i, j = source.below(nodes, 2 * tries), source.below(nodes, 2 * tries)
        low, high = i[i < j], j[i < j]
        keys = (low * nodes + high)[bits[low, high] == value]
        together = np.concatenate([chosen, keys])
        first = np.sort(np.unique(together, return_index=True)[1])
        chosen = together[first][:count]
    return chosen
