"""Files of every kind that the project writes, how their meaning is read, and damage to their
bytes."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Make = Callable[[Path], Path]
Read = Callable[[Path], Any]


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    make: Make
    """Writes it, and what it needs, into a folder, with the real code; gives the file that is
    damaged."""
    read: Read
    """What the file means, read by the real code, in a form that can be compared."""
    same: Callable[[Any, Any], bool] = lambda meaning, found: bool(meaning == found)
    """Whether what is found is the meaning, or less of it that is accounted for."""
    cuts: bool = True
    """Whether a file that ends early is damaged: where a crash can leave one, its last record was
    never acknowledged."""


def damages(content: bytes, n: int, seed: int, cuts: bool = True) -> Iterator[tuple[str, bytes]]:
    """Bits flipped, bytes overwritten, runs of zeros and of noise, lengths cut: `n` of them over
    the whole file."""
    chance = random.Random(seed)  # noqa: S311 - where damage is, not a secret
    used = [i for i, byte in enumerate(content) if byte] or [0]
    if cuts:
        # not to nothing: that is a file which is not there
        yield "cut off", content[: 2 * len(content) // 5]
        yield "last byte gone", content[:-1]
    for i in range(n):
        # pages of SQLite are empty for the most part
        at = chance.choice(used) if i % 3 else chance.randrange(len(content))
        changed = bytearray(content)
        how = i % 4
        if how < 2:
            changed[at] ^= 1 << chance.randrange(8)
            what = "a bit flipped"
        elif how == 2:
            changed[at] = chance.randrange(256)
            what = "a byte changed"
        else:
            length = chance.choice((2, 8, 64))
            changed[at : at + length] = (
                bytes(length) if chance.random() < 0.5 else chance.randbytes(length)
            )
            what = f"{length} bytes overwritten"
        yield f"{what} at {at}", bytes(changed[: len(content)])


def settled(path: Path) -> Path:
    """An SQLite file with everything in it, and nothing beside it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    return path
