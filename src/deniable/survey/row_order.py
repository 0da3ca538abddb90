"""Rows in random order: where a row stands in a file says whose it is, to anyone who knows how the
file was sorted.

The order is a uniform permutation, drawn from the cryptographic source. A large file is dealt out
into parts, each row into one drawn at random, and each part is shuffled on its own: together that
is a uniform permutation too. What lies on the disk meanwhile is what is about to be published, in
files without a name.
"""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any

import numpy as np

from deniable.randomness import Source
from deniable.survey import reading

__all__ = ["in_random_order"]

_PARTS = 64
_Columns = dict[str, list[Any]]
_Row = tuple[Any, ...]


@contextmanager
def in_random_order(
    write: Callable[[_Columns], None], columns: Sequence[str], source: Source
) -> Iterator[Callable[[_Columns], None]]:
    """A function that takes rows; when all are there, they are written in random order. Nothing is
    written if that fails."""
    with ExitStack() as files:
        held: list[_Row] = []
        parts: list[IO[bytes]] = []

        def add(rows: _Columns) -> None:
            held.extend(zip(*(rows[name] for name in columns), strict=True))
            if len(held) > reading.CHUNK_ROWS:
                if not parts:
                    parts.extend(
                        files.enter_context(tempfile.TemporaryFile()) for _ in range(_PARTS)
                    )
                _deal(held, parts, source)
                held.clear()

        yield add
        _deal(held, parts, source)
        for rows in _dealt(parts) if parts else [held]:
            order = np.argsort(source.words(len(rows)), kind="stable").tolist()
            for first in range(0, len(order), reading.CHUNK_ROWS):
                chosen = [rows[i] for i in order[first : first + reading.CHUNK_ROWS]]
                write(dict(zip(columns, map(list, zip(*chosen, strict=True)), strict=True)))


def _deal(rows: list[_Row], parts: list[IO[bytes]], source: Source) -> None:
    """Put each row into a part drawn at random."""
    if not parts:
        return
    dealt: list[list[_Row]] = [[] for _ in parts]
    for row, part in zip(rows, source.below(len(parts), len(rows)).tolist(), strict=True):
        dealt[part].append(row)
    for of_part, file in zip(dealt, parts, strict=True):
        pickle.dump(of_part, file)


def _dealt(parts: list[IO[bytes]]) -> Iterator[list[_Row]]:
    """All rows of each part."""
    for file in parts:
        end = file.tell()
        file.seek(0)
        rows: list[_Row] = []
        while file.tell() < end:
            rows += pickle.load(file)  # noqa: S301 - a file without a name, which this process wrote
        yield rows
