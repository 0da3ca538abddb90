"""Hierarchies of categories: trees, from their paths or from their parents."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from deniable.errors import ReleaseError
from deniable.release.hierarchy import ANY, Hierarchy, is_missing

__all__ = ["Tree"]


class Tree(Hierarchy):
    """Categories with categories above them, from rows that lead from a value to its widest label.

    >>> jobs = Tree.from_paths([("nurse", "care"), ("midwife", "care"), ("smith", "craft")])
    >>> [jobs.label("nurse", level) for level in range(jobs.levels)], jobs.loss("nurse", 1)
    (['nurse', 'care', '*'], 0.5)
    """

    def __init__(self, paths: dict[str, tuple[str, ...]]) -> None:
        self._paths = paths
        depth = len(next(iter(paths.values())))
        self._leaves: list[dict[str, int]] = [{} for _ in range(depth)]
        for path in paths.values():
            for counts, label in zip(self._leaves, path, strict=True):
                counts[label] = counts.get(label, 0) + 1

    @classmethod
    def from_paths(cls, rows: Iterable[Sequence[str]], name: str = "the hierarchy") -> Tree:
        """From rows (value, label on level 1, label on level 2, …), all of one length. A last ``*``
        may be left out.

        Refuses, with the row, a value that stands there twice, a label that has two labels above
        it, and one that stands above itself.
        """
        paths: dict[str, tuple[str, ...]] = {}
        above: dict[tuple[int, str], tuple[str, int]] = {}
        parents: dict[str, str] = {}
        first = 0
        for number, row in enumerate(rows, 1):
            path = tuple(str(label) for label in row)
            if not path or any(not label for label in path):
                raise ReleaseError(f"{name}, row {number}: a label is empty")
            first = first or len(path)
            if len(path) != first:
                raise ReleaseError(
                    f"{name}, row {number}: {len(path)} labels where row 1 has {first}"
                )
            if path[0] in paths:
                raise ReleaseError(
                    f"{name}, row {number}: the value {path[0]!r} stands in the hierarchy twice"
                )
            for level, (label, parent) in enumerate(pairwise(path)):
                known, where = above.setdefault((level, label), (parent, number))
                if known != parent:
                    raise ReleaseError(
                        f"{name}, row {number}: not a tree: {label!r} lies in {parent!r}, and in"
                        f" {known!r} by row {where}"
                    )
                if label != parent:
                    parents.setdefault(label, parent)
                    _refuse_cycle(parents, label, f"{name}, row {number}")
            paths[path[0]] = path
        return cls._closed(paths, name)

    @classmethod
    def from_parents(cls, rows: Iterable[Sequence[str]], name: str = "the hierarchy") -> Tree:
        """From rows (value, parent), in any order; a root has an empty parent, or no row of its
        own.

        Refuses, with the row, a value with two parents and one that is its own ancestor. Values are
        those that are nobody's parent; a value nearer to the root than others stays itself for some
        levels.
        """
        parents: dict[str, str] = {}
        where: dict[str, int] = {}
        roots: set[str] = set()
        for number, row in enumerate(rows, 1):
            if len(row) != 2 or not row[0]:
                raise ReleaseError(f"{name}, row {number}: must hold a value and its parent")
            value, parent = str(row[0]), str(row[1])
            if value in where:
                raise ReleaseError(
                    f"{name}, row {number}: not a tree: {value!r} lies in {parent!r}, and has a"
                    f" parent by row {where[value]}"
                )
            where[value] = number
            if not parent:
                roots.add(value)
                continue
            parents[value] = parent
            _refuse_cycle(parents, value, f"{name}, row {number}")
        inner = set(parents.values()) | roots
        chains = {value: _ancestors(parents, value) for value in parents if value not in inner}
        depth = max(map(len, chains.values()), default=0)
        paths = {
            value: (value,) * (depth - len(chain)) + tuple(chain) for value, chain in chains.items()
        }
        return cls._closed(paths, name)

    @classmethod
    def _closed(cls, paths: dict[str, tuple[str, ...]], name: str) -> Tree:
        if not paths:
            raise ReleaseError(f"{name} holds no value")
        # A widest label that all share says the same as *.
        shared = (
            len({path[-1] for path in paths.values()}) == 1 and len(next(iter(paths.values()))) > 1
        )
        return cls(
            {value: (*(path[:-1] if shared else path), ANY) for value, path in paths.items()}
        )

    @property
    def levels(self) -> int:
        """The length of every path."""
        return len(self._leaves)

    def check(self, value: Any) -> None:
        """Is there a path for it?"""
        if not is_missing(value) and str(value) not in self._paths:
            raise ValueError("is not in its hierarchy")

    def inner_label(self, value: Any, level: int) -> Hashable:
        """The label on its path."""
        return self._paths[str(value)][level]

    def inner_loss(self, value: Any, level: int) -> float:
        """How many other values the label covers, of all others."""
        counts = self._leaves[level]
        return (
            (counts[self._paths[str(value)][level]] - 1) / (len(self._paths) - 1)
            if len(self._paths) > 1
            else 0.0
        )

    def domain(self, level: int) -> list[Hashable] | None:
        """The labels of the level, in the order of the rows."""
        return list(self._leaves[level])

    def __repr__(self) -> str:
        return f"<Tree of {len(self._paths)} values on {self.levels} levels>"


def _ancestors(parents: dict[str, str], value: str) -> list[str]:
    chain = [value]
    while chain[-1] in parents:
        chain.append(parents[chain[-1]])
    return chain


def _refuse_cycle(parents: dict[str, str], value: str, where: str) -> None:
    label = parents[value]
    while label in parents and label != value:
        label = parents[label]
    if label == value:
        raise ReleaseError(f"{where}: a cycle: {value!r} lies in itself")
