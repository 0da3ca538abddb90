"""Search all generalisations for the one that keeps most information, and prove that it is the
best.

A generalisation is one level for each attribute; together they are a lattice. What one keeps is
bounded in two ways without looking at it: by what it would keep if no row were dropped, which adds
up over attributes; and, wherever a coarser one was looked at, by the rows that were kept there,
because a finer one cannot keep more rows. The search takes the generalisation with the highest
bound and looks at coarser ones above it, by bisection, until one shows that it cannot be the best,
and with it everything finer (or until it was looked at itself). When no bound is above the best one
found, that one is the best of all. The idea of walking paths by bisection is that of Flash
(Kohlmayer et al. 2012).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_number, check_proportion
from deniable.errors import ParameterError, ReleaseError
from deniable.release.classes import Cube
from deniable.release.constraints import Constraint, KAnonymity, satisfying
from deniable.release.information import Information
from deniable.release.table import Integers, Levels, TableAttribute
from deniable.results import Result

__all__ = ["LARGEST_LATTICE", "BestFirst", "LatticeResult", "allowed_levels", "lattice", "search"]

LARGEST_LATTICE = 1_000_000
LevelChoice = int | tuple[int, int] | range
Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class LatticeResult(Result):
    """The best generalisation that a search has found."""

    levels: Levels
    kept: float
    """The part of the table's information that it keeps."""
    bound: float
    """No generalisation keeps more than this."""
    tried: int
    """Generalisations that were tried."""
    size: int
    """Generalisations there are."""

    @property
    def optimal(self) -> bool:
        """Whether nothing better exists."""
        return self.bound <= self.kept


def allowed_levels(
    attributes: Sequence[TableAttribute], levels: Mapping[str, LevelChoice] | None
) -> list[range]:
    """The levels that each attribute may take: one, a range from (first, last), or all of them."""
    levels = levels or {}
    names = [attribute.name for attribute in attributes]
    for name in set(levels) - set(names):
        raise ReleaseError(f"a level is given for column {name!r}, which has no hierarchy")
    out = []
    for attribute in attributes:
        choice = levels.get(attribute.name, (0, attribute.levels - 1))
        first, last = (choice, choice) if isinstance(choice, int) else (choice[0], choice[-1])
        if isinstance(choice, bool) or not 0 <= first <= last < attribute.levels:
            raise ParameterError(
                f"level of {attribute.name}",
                choice,
                f"must lie between 0 and {attribute.levels - 1}",
            )
        out.append(range(first, last + 1))
    return out


def lattice(allowed: Sequence[range]) -> Integers:
    """All generalisations, a row each."""
    size = int(np.prod([len(levels) for levels in allowed], dtype=object))
    if size > LARGEST_LATTICE:
        raise ReleaseError(
            f"there are {size:,} generalisations; fix some levels to leave at most"
            f" {LARGEST_LATTICE:,}"
        )
    grids = np.meshgrid(*(np.array(levels, dtype=np.int64) for levels in allowed), indexing="ij")
    return np.stack(grids, axis=-1).reshape(-1, len(allowed))


def search(
    cube: Cube,
    information: Information,
    allowed: Sequence[range],
    constraints: Sequence[Constraint],
    suppress: float,
    time_limit: float | None = None,
    progress: Progress | None = None,
) -> LatticeResult:
    """The generalisation that keeps most, with at most the part `suppress` of the rows dropped.

    With a time limit in seconds it is the best one found by then; `bound` says how much better
    another could be.
    """
    check_proportion("suppress", suppress)
    if time_limit is not None and not check_number("time_limit", time_limit) > 0:
        raise ParameterError("time_limit", time_limit, "must be above 0 seconds")
    nodes = lattice(allowed)
    k = max(
        (constraint.k for constraint in constraints if isinstance(constraint, KAnonymity)),
        default=1,
    )
    most = information.most_per_row(nodes)
    fewest = cube.n * (1 - suppress * (1 + 1e-12))

    def look(levels: Levels) -> tuple[float | None, int]:
        classes = cube.classes(levels)
        rows = int(classes.sizes[classes.sizes >= k].sum())
        if rows < fewest or not rows:
            return None, rows
        kept = classes.kept(satisfying(classes, constraints))
        return (information.kept(kept, levels) if kept.n and kept.n >= fewest else None), rows

    def bound(rows: int, which: NDArray[np.bool_]) -> NDArray[np.float64]:
        return (
            most[which] * rows if rows and rows >= fewest else np.full(int(which.sum()), -math.inf)
        )

    tried = BestFirst(nodes, information.bounds(nodes), look, bound)
    left = tried.run(time_limit, progress)
    if tried.best is None:
        raise ReleaseError(
            "no generalisation satisfies the constraints: allow more rows to be dropped, or relax"
            " them"
        )
    value, i = tried.best
    return LatticeResult(
        tuple(nodes[i].tolist()),
        value,
        value if left is None else left,
        len(tried.looked_at),
        len(nodes),
    )


class BestFirst:
    """The search itself, for any value that is bounded as described above.

    `look(levels)` gives the value of a generalisation, or None if it is not allowed, and the rows
    it keeps. `bound(rows, which)` bounds the values of some generalisations, given the rows that
    one coarser than each of them keeps.
    """

    def __init__(
        self,
        nodes: Integers,
        upper: NDArray[Any],
        look: Callable[[Levels], tuple[Any, int]],
        bound: Callable[[int, NDArray[np.bool_]], NDArray[Any]],
    ) -> None:
        self.nodes, self.upper = nodes, upper.copy()
        """No value of a generalisation is above its bound; of one that was looked at, the bound is
        its value."""
        self._look, self._bound = look, bound
        self._top = nodes.max(axis=0)
        self._places = {tuple(node): i for i, node in enumerate(nodes.tolist())}
        self.looked_at: set[int] = set()
        self.best: tuple[Any, int] | None = None
        """The highest value and where it is."""

    def run(self, time_limit: float | None = None, progress: Progress | None = None) -> Any:
        """Search until nothing better is left, or the time is up; returns the bound on what is
        left, or None."""
        started = time.monotonic()
        while (i := self._most_promising()) is not None:
            elapsed = time.monotonic() - started
            if time_limit is not None and elapsed > time_limit and self.best is not None:
                return self.upper[i]
            self._walk_up(i)
            if progress is not None:
                ruled_out = 0.0 if self.best is None else float((self.upper <= self.best[0]).mean())
                progress(
                    ruled_out
                    if time_limit is None
                    else max(ruled_out, min(1.0, elapsed / time_limit))
                )
        if progress is not None:
            progress(1.0)
        return None

    def look(self, i: int) -> None:
        """Look at a generalisation, unless that was done before."""
        if i in self.looked_at:
            return
        self.looked_at.add(i)
        value, rows = self._look(tuple(self.nodes[i].tolist()))
        finer = (self.nodes <= self.nodes[i]).all(axis=1)
        self.upper[finer] = np.minimum(self.upper[finer], self._bound(rows, finer))
        if value is None:
            self.upper[i] = _lowest(self.upper.dtype)
            return
        self.upper[i] = value
        if self.best is None or value > self.best[0]:
            self.best = (value, i)

    def _most_promising(self) -> int | None:
        i = int(self.upper.argmax())
        if self.best is None:
            return None if self.upper[i] == _lowest(self.upper.dtype) else i
        return i if self.upper[i] > self.best[0] else None

    def _settled(self, i: int) -> bool:
        return i in self.looked_at or bool(
            self.upper[i] == _lowest(self.upper.dtype)
            or (self.best is not None and self.upper[i] <= self.best[0])
        )

    def _walk_up(self, i: int) -> None:
        """On a path from here to the top, look for the coarsest generalisation that rules this one
        out."""
        path = self._path(i)
        low, high = -1, len(path)
        while high - low > 1:
            middle = (low + high) // 2
            self.look(path[middle])
            low, high = (middle, high) if self._settled(i) else (low, middle)

    def _path(self, i: int) -> list[int]:
        """Up to the top, each time by the step to the highest bound."""
        levels = self.nodes[i].tolist()
        path = [i]
        while (steps := [a for a, level in enumerate(levels) if level < self._top[a]]) != []:
            ways = [
                self._places[tuple(level + (a == b) for b, level in enumerate(levels))]
                for a in steps
            ]
            path.append(max(ways, key=lambda way: self.upper[way]))
            levels = self.nodes[path[-1]].tolist()
        return path


def _lowest(dtype: Any) -> Any:
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype).min
