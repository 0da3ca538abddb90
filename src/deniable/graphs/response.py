"""Randomized response on the pairs of a graph: what each person reports about their edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, check_probability
from deniable.errors import GraphError, ParameterError
from deniable.graphs.graph import Graph, check_nodes
from deniable.mechanisms import exact
from deniable.mechanisms.bits import row_bytes
from deniable.randomness import ONE, Source, source_or_system

if TYPE_CHECKING:
    from deniable.graphs.reports import GraphReports

__all__ = ["EdgeChannel", "EdgeResponse"]

_Bytes = NDArray[np.uint8]
Progress = Callable[[float], None]
_BLOCK_ROWS = 512
_SPARSE_GRID = 1 << 16


@dataclass(frozen=True)
class EdgeChannel:
    """What estimation needs to know about one pair: how its reported bits become an unbiased entry,
    and how noisy that is.

    The entry is x = (y - b)/(a - b), where y is the mean of the pair's `copies` bits: 1 on average
    if there is an edge, else 0.
    """

    a: float
    """P(bit 1 | edge)."""
    b: float
    """P(bit 1 | no edge)."""
    copies: int

    @property
    def gap(self) -> float:
        """a - b."""
        return self.a - self.b

    @property
    def variance(self) -> float:
        """Of an entry that is truly 0: b (1 - b)/(a - b)^2, over the copies."""
        return self.b * (1 - self.b) / self.gap**2 / self.copies

    @property
    def excess(self) -> float:
        """What an edge adds to that variance; 0 for a symmetric coin."""
        return self.a * (1 - self.a) / self.gap**2 / self.copies - self.variance


@dataclass(frozen=True)
class EdgeResponse:
    """Randomized response to "are you two connected?", one coin per pair of people (Wang, Wu and Hu
    2016, section 6.4).

    Everybody knows the roster, nodes 0 … n - 1, and their own neighbours. With `reporting` =
    "once", a pair is reported by its end with the larger number, so that the loss of an edge is
    that of one bit: the bit is flipped with probability b = 1/(e^epsilon + 1). With "both", each
    end reports with its own coin at epsilon/2, and `epsilon` is twice the loss of a bit: two people
    asked about the same edge reveal it twice. The server takes the mean of the two bits, which has
    at least twice the variance of one bit at the full epsilon: it is for systems that cannot assign
    pairs to people.

    `epsilon` is the exact loss of an edge (edge privacy: graphs that differ in one edge); it does
    not hide who has many edges.

    >>> EdgeResponse(1.0).channel.b
    0.2689414213699951
    >>> print(EdgeResponse(1.0, "both").bit_epsilon)
    0.5
    """

    epsilon: float
    reporting: str = "once"
    coins: tuple[int, int] | None = None
    """P(bit 1 | edge) and P(bit 1 | no edge), as integers over 2**64; by default the best ones for
    epsilon."""

    def __post_init__(self) -> None:
        if self.reporting not in {"once", "both"}:
            raise ParameterError("reporting", self.reporting, "must be 'once' or 'both'")
        if self.coins is None:
            bit = Fraction(check_epsilon(self.epsilon)) / self.copies
            b = exact.up(1 / (exact.exp(bit) + 1))
            if 2 * b >= ONE:
                raise ParameterError(
                    "epsilon", self.epsilon, "is too small for a coin of 64 binary digits"
                )
            object.__setattr__(self, "coins", (ONE - b, b))
        elif not (
            len(self.coins) == 2
            and all(isinstance(c, int) for c in self.coins)
            and 0 < self.coins[1] < self.coins[0] < ONE
        ):
            raise ParameterError(
                "coins",
                self.coins,
                "must be two integers with 0 < P(1 | no edge) < P(1 | edge) < 2**64",
            )
        object.__setattr__(self, "epsilon", exact.log_ratio(self._ratio, self.copies))

    @classmethod
    def from_probabilities(cls, a: float, b: float, reporting: str = "once") -> EdgeResponse:
        """The response with P(1 | edge) = a and P(1 | no edge) = b; a has to be the larger one."""
        one, zero = (
            exact.nearest(check_probability(name, value)) for name, value in (("a", a), ("b", b))
        )
        if one <= zero:
            raise ParameterError("a", a, f"must be above b = {b!r}")
        return cls(0.0, reporting, (one, zero))

    @classmethod
    def laplace(cls, epsilon: float) -> EdgeResponse:
        """Laplace(1/epsilon) noise on the bit, rounded to the nearer of 0 and 1: flips it with
        probability e^(-epsilon/2)/2.

        The competitor in the paper's figures 5 and 6; its true loss is below epsilon, which wastes
        accuracy.
        """
        flip = exact.nearest(exact.exp(-Fraction(check_epsilon(epsilon)) / 2) / 2)
        return cls(0.0, "once", (ONE - flip, flip))

    @classmethod
    def sparse(cls, epsilon: float, keep: float = 1.0) -> EdgeResponse:
        """Randomized response of which only a fraction `keep` of the ones is sent: fewer noisy
        edges to pass around.

        P(1 | edge) = keep e^epsilon/(e^epsilon + 1), P(1 | no edge) = keep/(e^epsilon + 1), both
        rounded to multiples of 2**-16, in the private direction (asymmetric randomized response:
        Imola, Murakami and Chaudhuri 2022).
        """
        kept = Fraction(1) if keep == 1 else check_probability("keep", keep)
        growth = exact.exp(check_epsilon(epsilon))
        zero = math.ceil(kept * _SPARSE_GRID / (growth + 1))
        one = math.floor(kept * _SPARSE_GRID * growth / (growth + 1))
        # Rounded separately, the two could still be too far apart, because "nothing sent" is an
        # answer as well.
        while (
            one > zero
            and max(Fraction(one, zero), Fraction(_SPARSE_GRID - zero, _SPARSE_GRID - one)) > growth
        ):
            one -= 1
        if one <= zero:
            raise ParameterError(
                "epsilon", epsilon, f"is too small for a part of {float(kept):g} of the ones"
            )
        return cls(0.0, "once", (one * (ONE // _SPARSE_GRID), zero * (ONE // _SPARSE_GRID)))

    @property
    def copies(self) -> int:
        """How many bits a pair has."""
        return 2 if self.reporting == "both" else 1

    @property
    def bit_epsilon(self) -> float:
        """The loss of one bit: an edge's loss where pairs are reported once, half of it where both
        ends report."""
        return exact.log_ratio(self._ratio)

    @property
    def _ratio(self) -> Fraction:
        assert self.coins is not None  # noqa: S101 - set by __post_init__
        a, b = self.coins
        return max(Fraction(a, b), Fraction(ONE - b, ONE - a))

    @property
    def channel(self) -> EdgeChannel:
        """What estimation needs."""
        assert self.coins is not None  # noqa: S101 - set by __post_init__
        a, b = self.coins
        return EdgeChannel(a / ONE, b / ONE, self.copies)

    def width(self, node: int, nodes: int) -> int:
        """How many of the bits 0 … nodes - 1 of a row the node reports: all but its own, or those
        of smaller nodes."""
        return nodes if self.reporting == "both" else node

    def report(
        self, node: int, neighbours: Collection[int], nodes: int, source: Source | None = None
    ) -> _Bytes:
        """What one person sends: packed bits, bit j for node j, of a length that depends on public
        things only.

        Bits that the rule leaves to others, and the person's own, are zero.
        """
        check_nodes(nodes)
        if not 0 <= node < nodes:
            raise ParameterError("node", node, f"must lie between 0 and {nodes - 1}")
        places = np.array(sorted(neighbours), dtype=np.int64).reshape(-1)
        if places.size and (places[0] < 0 or places[-1] >= nodes):
            raise GraphError(f"a neighbour lies outside 0 to {nodes - 1}")
        if (places == node).any():
            raise GraphError("a node cannot be its own neighbour: that is a self-loop")
        if (places[1:] == places[:-1]).any():
            raise GraphError("a neighbour is listed twice")
        row: _Bytes = self._draw(
            node, node + 1, np.zeros_like(places), places, nodes, source_or_system(source)
        )[0]
        return row

    def privatize(
        self, graph: Any, source: Source | None = None, progress: Progress | None = None
    ) -> GraphReports:
        """What everybody in the graph sends. On people's own devices, :meth:`report` is the same
        for one person."""
        from deniable.graphs.reports import GraphReports  # noqa: PLC0415 - each needs the other

        graph = Graph.of(graph)
        source = source_or_system(source)
        low, high = graph.edges.T
        # Sorted by who reports them; with "both", each edge is listed at either end.
        rows = np.concatenate([high, low]) if self.reporting == "both" else high
        columns = np.concatenate([low, high]) if self.reporting == "both" else low
        order = np.argsort(rows, kind="stable")
        rows, columns = rows[order], columns[order]
        out = np.zeros((graph.nodes, row_bytes(graph.nodes)), dtype=np.uint8)
        for start in range(0, graph.nodes, _BLOCK_ROWS):
            end = min(start + _BLOCK_ROWS, graph.nodes)
            first, last = np.searchsorted(rows, [start, end])
            out[start:end] = self._draw(
                start, end, rows[first:last] - start, columns[first:last], graph.nodes, source
            )
            if progress:
                progress(end / graph.nodes)
        return GraphReports(self, out, graph.labels)

    def _draw(
        self,
        start: int,
        end: int,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        nodes: int,
        source: Source,
    ) -> _Bytes:
        """The reports of nodes `start` … `end` - 1 with the given edges, row and column each."""
        width = self.width(end - 1, nodes)
        truth = np.zeros((end - start, nodes), dtype=np.uint8)
        truth[rows, columns] = 1
        packed = np.packbits(truth, axis=1, bitorder="little")[:, : row_bytes(width)]
        assert self.coins is not None  # noqa: S101 - set by __post_init__
        one, zero = self.coins
        drawn = source.bit_rows(zero, end - start, width)
        if one + zero == ONE:
            drawn ^= packed  # turned over with the same probability, edge or not
        else:
            drawn = (drawn & ~packed) | (source.bit_rows(one, end - start, width) & packed)
        out = np.zeros((end - start, row_bytes(nodes)), dtype=np.uint8)
        out[:, : row_bytes(width)] = drawn & self.mask(start, end, nodes)[:, : row_bytes(width)]
        return out

    def mask(self, start: int, end: int, nodes: int) -> _Bytes:
        """Packed ones where nodes `start` … `end` - 1 report."""
        own, others = np.arange(start, end)[:, None], np.arange(nodes)
        allowed = others != own if self.reporting == "both" else others < own
        return np.packbits(allowed, axis=1, bitorder="little")

    def to_dict(self) -> dict[str, Any]:
        """Plain texts and numbers, ready for JSON; the coins as decimal texts, for JSON's numbers
        are doubles."""
        assert self.coins is not None  # noqa: S101 - set by __post_init__
        return {
            "reporting": self.reporting,
            "coins": [str(coin) for coin in self.coins],
            "epsilon": self.epsilon,
        }

    @classmethod
    def from_dict(cls, content: Any) -> EdgeResponse:
        """The response that :meth:`to_dict` described."""
        try:
            one, zero = (int(coin) for coin in content["coins"])
            return cls(0.0, content["reporting"], (one, zero))
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, ParameterError):
                raise
            raise GraphError(
                "the description of the response is not one that this library writes"
            ) from None
