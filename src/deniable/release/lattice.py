"""Search all generalisations for the one that keeps most information under given constraints, and know when it is found.

A generalisation is one level for each attribute; together they are a lattice. What one keeps is at most what it would keep if
no row were dropped, and that bound costs nothing, because it adds up over attributes. So generalisations are tried in the order
of their bounds, and the first bound that is not above the best one found ends the search: nothing left can be better. Constraints
need not be monotonic for that. Where too many rows are in classes below k, that holds for every finer generalisation too, and all
of these are left out; the coarsest such one is looked for by bisection on the way up (as Flash does: Kohlmayer et al. 2012).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError, ReleaseError
from deniable.mechanisms.exact import check_number
from deniable.release.classes import Cube
from deniable.release.constraints import Constraint, KAnonymity, satisfying
from deniable.release.information import Information
from deniable.release.table import Attribute, Levels

__all__ = ["LARGEST_LATTICE", "Found", "allowed_levels", "lattice", "search"]

LARGEST_LATTICE = 1_000_000
LevelChoice = int | tuple[int, int] | range
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Found:
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


def allowed_levels(attributes: Sequence[Attribute], levels: Mapping[str, LevelChoice] | None) -> list[range]:
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
            raise ParameterError(f"level of {attribute.name}", choice, f"must lie between 0 and {attribute.levels - 1}")
        out.append(range(first, last + 1))
    return out


def lattice(allowed: Sequence[range]) -> NDArray[np.int64]:
    """All generalisations, a row each."""
    size = int(np.prod([len(levels) for levels in allowed], dtype=object))
    if size > LARGEST_LATTICE:
        raise ReleaseError(f"there are {size:,} generalisations; fix some levels to leave at most {LARGEST_LATTICE:,}")
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
) -> Found:
    """The generalisation that keeps most, with at most the part `suppress` of the rows dropped.

    With a time limit in seconds it is the best one found until then; `bound` tells how much better another one could be.
    """
    if not 0 <= check_number("suppress", suppress) <= 1:
        raise ParameterError("suppress", suppress, "must lie between 0 and 1")
    if time_limit is not None and not check_number("time_limit", time_limit) > 0:
        raise ParameterError("time_limit", time_limit, "must be above 0 seconds")
    return _Search(cube, information, allowed, constraints, suppress).run(time_limit, progress)


class _Search:
    def __init__(
        self,
        cube: Cube,
        information: Information,
        allowed: Sequence[range],
        constraints: Sequence[Constraint],
        suppress: float,
    ) -> None:
        self.cube, self.information, self.constraints = cube, information, constraints
        self.nodes = lattice(allowed)
        self.top = tuple(levels[-1] for levels in allowed)
        self.bounds = information.bounds(self.nodes)
        self.left = np.ones(len(self.nodes), dtype=np.bool_)
        """Generalisations that may still be the best one."""
        self.tried: dict[Levels, bool] = {}
        """Whether too many rows of it are in classes below k."""
        self.best: tuple[float, Levels] | None = None
        self.k = max((constraint.k for constraint in constraints if isinstance(constraint, KAnonymity)), default=1)
        self.may_drop = suppress * (1 + 1e-12)

    def run(self, time_limit: float | None, progress: Progress | None) -> Found:
        started = time.monotonic()
        order = np.argsort(-self.bounds, kind="stable")
        bound = 0.0
        for number, i in enumerate(order.tolist()):
            if not self.left[i]:
                continue
            bound = float(self.bounds[i])
            if self.best is not None and bound <= self.best[0]:
                break
            elapsed = time.monotonic() - started
            if time_limit is not None and elapsed > time_limit and self.best is not None:
                break
            node = tuple(self.nodes[i].tolist())
            if self._try(node):
                self._climb(node)
            elif progress is not None:
                progress(max((number + 1) / len(order), 0.0 if time_limit is None else min(1.0, elapsed / time_limit)))
        else:
            bound = 0.0
        if self.best is None:
            raise ReleaseError("no generalisation satisfies the constraints: allow more rows to be dropped, or ask for less")
        if progress is not None:
            progress(1.0)
        return Found(self.best[1], self.best[0], max(bound, self.best[0]), len(self.tried), len(self.nodes))

    def _try(self, levels: Levels) -> bool:
        """Look at one generalisation; whether too many of its rows are in classes below k, so that all finer ones are out."""
        if levels in self.tried:
            return self.tried[levels]
        classes = self.cube.classes(levels)
        small = int(classes.sizes[classes.sizes < self.k].sum()) > self.may_drop * classes.n
        self.tried[levels] = small
        if small:
            self.left &= ~(self.nodes <= np.array(levels)).all(axis=1)
            return True
        kept = classes.kept(satisfying(classes, self.constraints))
        if kept.n and classes.n - kept.n <= self.may_drop * classes.n:
            value = self.information.kept(kept, levels)
            if self.best is None or value > self.best[0]:
                self.best = (value, levels)
        return False

    def _climb(self, node: Levels) -> None:
        """On a path from here to the top, find the last generalisation that is out as well."""
        path = [node]
        while path[-1] != self.top:
            # One level up where that costs the least information.
            steps = [(self._cost(path[-1], a), a) for a in range(len(node)) if path[-1][a] < self.top[a]]
            a = min(steps)[1]
            path.append((*path[-1][:a], path[-1][a] + 1, *path[-1][a + 1 :]))
        low, high = 0, len(path)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._try(path[middle]) else (low, middle)

    def _cost(self, levels: Levels, a: int) -> float:
        most = self.information.most[a]
        return most[levels[a]] - most[levels[a] + 1]
