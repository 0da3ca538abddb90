"""Audits of graph protocols: two graphs that differ in one edge, and everything all participants
send about them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.findings import Audit
from deniable.audit.game import Game, Progress, play
from deniable.audit.mechanisms import check_claim
from deniable.audit.views import ClaimedLikelihood, ItemScores, WholeReport
from deniable.checks import check_confidence
from deniable.graphs.graph import Graph
from deniable.graphs.response import EdgeResponse
from deniable.graphs.two_rounds import TwoRounds
from deniable.randomness import Source, system_source

__all__ = ["audit_edges"]

_TRIPLES = 64
"""Copies of the small graph reported at a time: no report depends on another pair of people."""
_WORLD = 5
"""People in the graph for the two-round protocol, whose second round depends on the whole first
round."""
INPUTS = ("no edge", "an edge")


def audit_edges(
    protocol: EdgeResponse | TwoRounds,
    n: int = 1_000_000,
    claim: float | None = None,
    confidence: float = 0.999,
    source: Source | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Try to tell apart two graphs that differ in one edge, by all reports of all people, both
    rounds taken together.

    >>> from deniable import seeded_source
    >>> found = audit_edges(EdgeResponse(1.0, "both"), n=40_000, source=seeded_source(1))
    >>> found.holds, found.verdicts[0].shown > 0.8
    (True, True)
    """
    check_confidence(confidence)
    claim = check_claim(protocol.epsilon if claim is None else claim)
    coins = source or system_source()
    game = (
        _two_rounds(protocol, claim, coins)
        if isinstance(protocol, TwoRounds)
        else _one_round(protocol, claim, coins)
    )
    verdict = play(game, n, 1 - confidence, progress=progress)
    note = (
        "Edge privacy: what is hidden is one edge, and not how many edges a person has"
        " (docs/graphs.md)."
    )
    return Audit(str(protocol), protocol.epsilon, confidence, (verdict,), notes=(note,))


def _one_round(response: EdgeResponse, claim: float, source: Source) -> Game:
    """Three people, two of whom are always connected: everything they report about each other."""

    def draw(i: int, count: int) -> NDArray[Any]:
        parts = []
        for start in range(0, count, _TRIPLES):
            size = min(_TRIPLES, count - start)
            first = 3 * np.arange(size)
            edges = [np.column_stack([first, first + 1])]
            if i:
                edges.append(np.column_stack([first + 1, first + 2]))
            rows = response.privatize(Graph(3 * size, np.concatenate(edges)), source).rows
            bits = np.unpackbits(rows, axis=1, bitorder="little", count=3 * size).reshape(
                size, 3, size, 3
            )
            # what the three people of each copy say about each other
            own = bits[np.arange(size), :, np.arange(size), :]
            parts.append(np.packbits(own.reshape(size, 9), axis=1))
        return np.concatenate(parts)

    return Game("the reports of an edge", claim, INPUTS, draw, [WholeReport()])


def _two_rounds(protocol: TwoRounds, claim: float, source: Source) -> Game:
    """Five people; all other pairs are connected, so the edge decides most of a count in the second
    round."""
    pairs = np.array([(low, high) for high in range(_WORLD) for low in range(high)])
    # without and with the edge between 0 and 1
    graphs = [Graph(_WORLD, pairs[1:]), Graph(_WORLD, pairs)]
    lists = [
        [np.array(sorted(_neighbours(graph, node)), dtype=np.int64) for node in range(_WORLD)]
        for graph in graphs
    ]
    degree_scale = float(protocol.degree_scale)
    a, b = protocol.response.channel.a, protocol.response.channel.b
    bit_gain = np.log([(1 - a) / (1 - b), a / b])

    def draw(i: int, count: int) -> NDArray[Any]:
        """How strongly each of the three parts indicates the edge, under the claimed distributions,
        one graph per row."""
        out = np.zeros((count, 3))
        for at in range(count):
            reports = protocol.privatize(graphs[i], source)
            first = reports.first
            degrees = first.degrees[:2]
            out[at, 0] = (
                sum(abs(d - (_WORLD - 2)) - abs(d - (_WORLD - 1)) for d in degrees.tolist())
                / degree_scale
            )
            out[at, 1] = bit_gain[int(first.reports.rows[1, 0]) & 1]
            scales = protocol.count_scales(first.bounds)
            without, with_it = (first.counts(np.arange(_WORLD), each) for each in lists)
            noisy = scales > 0
            gains = (
                np.abs(reports.counts - without)[noisy] - np.abs(reports.counts - with_it)[noisy]
            )
            out[at, 2] = float((gains / scales[noisy]).sum())
        return out

    def logs(rows: NDArray[Any], i: int) -> NDArray[np.float64]:
        return np.asarray(rows.sum(axis=1) if i else np.zeros(len(rows)), dtype=np.float64)

    return Game(
        "both rounds",
        claim,
        INPUTS,
        draw,
        [ClaimedLikelihood(logs, protocol.epsilon), ItemScores()],
    )


def _neighbours(graph: Graph, node: int) -> set[int]:
    return {int(b if a == node else a) for a, b in graph.edges.tolist() if node in (a, b)}
