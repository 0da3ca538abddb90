"""The people of a simulation: what each would truly answer, and vaults for those who are whole
devices."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.client.sandbox import interface as sandbox
from deniable.client.vaults.sources import checked
from deniable.client.vaults.vault import Vault
from deniable.errors import SandboxError
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.query import Query

__all__ = ["Answers", "answers_of_rows", "answers_of_vaults", "make_vaults"]


class Answers:
    """The buckets of all rows of all people: what their SQL finds, -1 for a row in no bucket.

    >>> from deniable.queries.columns.column import Column
    >>> from deniable.queries.schedule import Schedule
    >>> query = Query("commute", "City", "SELECT km FROM trips", [Column("km", ["[0,5)", "[5,inf)"])],
    ...               Schedule(0, 86400, 600, 3600, 600), ["one", "two"], {"name": "TwoCoin", "p": 0.5, "q": 0.5})
    >>> Answers(query, [[0], [0, 1], [], [1]]).truth.tolist()
    [0.375, 0.375]
    """

    def __init__(self, query: Query, buckets: Sequence[Sequence[int]]) -> None:
        nothing = len(query.buckets) - 1 if query.buckets.complete else NONE
        kept = [
            [] if query.rows == "aggregate" and len(rows) > 1 else list(rows) for rows in buckets
        ]
        filled = [
            [nothing if bucket == NONE else bucket for bucket in rows] or [nothing] for rows in kept
        ]
        self.query, self._nothing = query, nothing
        self._counts = np.array([len(rows) for rows in filled], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._counts)[:-1]]).astype(np.int64)
        self._flat = np.array([bucket for rows in filled for bucket in rows], dtype=np.intp)
        self._kept: NDArray[np.intp] | None = None
        self.strata: NDArray[np.intp] | None = None
        """The stratum of each person, for a query that has some."""

    def __len__(self) -> int:
        return int(self._counts.size)

    def part(self, first: int) -> Answers:
        """The answers of the people from an index on."""
        bounds = zip(self._starts[first:].tolist(), self._counts[first:].tolist(), strict=True)
        others = Answers(
            self.query, [self._flat[start : start + count].tolist() for start, count in bounds]
        )
        others.strata = None if self.strata is None else self.strata[first:]
        return others

    @property
    def truth(self) -> NDArray[np.float64]:
        """The proportion of each bucket: the mean over people of the chance that it is what they
        would truly answer."""
        most = self.query.most_rows
        weights = np.where(self._counts > most, 1.0 / self._counts, 1.0 / most)
        each = np.repeat(weights, self._counts)
        inside = self._flat != NONE
        total = np.bincount(
            self._flat[inside], weights=each[inside], minlength=len(self.query.buckets)
        )
        if self._nothing != NONE:  # padded messages
            total[self._nothing] += float(np.sum(np.maximum(most - self._counts, 0)) / most)
        return np.asarray(total / len(self), dtype=np.float64)

    def draw(self, random: np.random.Generator) -> NDArray[np.intp]:
        """What each person answers in one epoch: one of their rows, or several, as the query says.

        Where answers are memoized, the rows drawn first stay, as on a device.
        """
        if self._kept is not None:
            return self._kept
        drawn = self._draw(random)
        self._kept = drawn if self.query.memoize else None
        return drawn

    def _draw(self, random: np.random.Generator) -> NDArray[np.intp]:
        most = self.query.most_rows
        if most == 1:
            chosen = self._starts + (random.random(len(self)) * self._counts).astype(np.int64)
            return self._flat[chosen]
        out = np.full((len(self), most), self._nothing, dtype=np.intp)
        for i, (start, count) in enumerate(
            zip(self._starts.tolist(), self._counts.tolist(), strict=True)
        ):
            places = random.permutation(count)[:most]
            out[i, : places.size] = self._flat[start + places]
        return out


def make_vaults(
    folder: Path,
    table: str,
    kinds: Mapping[str, str],
    rows: Iterable[Sequence[Sequence[object]]],
    granted: Sequence[str],
) -> list[Vault]:
    """One vault per person, with their rows, granting these columns.

    All begin as copies of one empty vault: the declaration of what is granted travels with the
    file.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    empty = Vault.create(folder / "empty.db")
    empty.import_rows(table, kinds, [])
    empty.grant(table, granted)
    vaults = []
    for number, own in enumerate(rows):
        path = folder / f"{number:06d}.db"
        shutil.copy(empty.path, path)  # with its mode, 0600
        vaults.append(Vault(path))
        vaults[-1].import_rows(table, kinds, own)
    empty.path.unlink()
    return vaults


def answers_of_vaults(query: Query, vaults: Iterable[Vault]) -> Answers:
    """What the query's SQL finds in each vault, in the sandbox; where the SQL fails, there is no
    answer, as on a device."""
    found: list[list[int]] = []
    for vault in vaults:
        try:
            rows: Any = sandbox.run(
                vault, query.statement, isolated=False, epoch=query.schedule.bounds_of_epoch(0)
            )
        except SandboxError:
            # it fails for the first one: most likely for a reason that the owner of the data can
            # fix
            if not found:
                raise
            rows = ()
        # In this process and without a deadline: these people are simulated, by the person who
        # looks at them.
        found.append([query.buckets.index(row) for row in rows])
    return Answers(query, found)


def answers_of_rows(
    query: Query,
    folder: Path,
    table: str,
    kinds: Mapping[str, str],
    rows: Iterable[Sequence[Sequence[object]]],
) -> Answers:
    """What the query's SQL would find in vaults with these rows: people take turns in one vault,
    without waiting for the disk."""

    def turns(vault: Vault) -> Iterator[Vault]:
        marks = ", ".join("?" * len(kinds))
        with closing(sqlite3.connect(vault.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("PRAGMA journal_mode = MEMORY")
            for own in rows:
                connection.execute("BEGIN")
                connection.execute(f'DELETE FROM "{table}"')  # noqa: S608 - the vault has checked the name
                connection.executemany(
                    f'INSERT INTO "{table}" VALUES ({marks})',  # noqa: S608
                    checked(kinds, own),
                )
                connection.execute("COMMIT")
                yield vault

    (scratch,) = make_vaults(folder, table, kinds, [[]], list(kinds))
    return answers_of_vaults(query, turns(scratch))
