"""The history's catalogue, in the aggregator's state: which files count, which reports are not in a
file yet, and how many.

Reports are staged in the transaction that counts them, so each is kept exactly once, whatever is
killed. Later they move to a file: the file is written first, and one transaction adds it to the
catalogue and drops the staged reports. A reader takes the list of files and the staged reports in
one snapshot, and so never sees half of a commit.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from deniable.aggregator.counting.panes import PaneKey, Reports
from deniable.aggregator.history.report_files import FileEntry, ReportRows
from deniable.randomness import seeded_source

__all__ = [
    "CatalogueSnapshot",
    "DeletionReceipt",
    "StagedReports",
    "add_files",
    "ensure_slice_key",
    "note_reports",
    "snapshot",
    "stage",
]

_SLICE_KEY = "history_slices"
"""The name of the secret key that the slices of staged reports follow from, so that every reader
and the file agree on them."""
_COLUMNS = ", ".join(f'"{name}"' for name in FileEntry._fields)  # `groups` is an SQL keyword


class DeletedFile(TypedDict):
    """A file of reports that was deleted."""

    path: str
    reports: int
    bytes: int
    sha256: str | None


class DeletionReceipt(TypedDict):
    """What was deleted on request, and what was not."""

    query: str
    deleted_at: str
    reports: int
    bytes: int
    first_day: str | None
    last_day: str | None
    files: list[DeletedFile]
    kept: str


def ensure_slice_key(connection: sqlite3.Connection) -> None:
    """Draw the key of the slices if there is none yet, inside the caller's transaction."""
    if connection.execute("SELECT 1 FROM meta WHERE name = ?", (_SLICE_KEY,)).fetchone() is None:
        connection.execute("INSERT INTO meta VALUES (?, ?)", (_SLICE_KEY, secrets.token_hex(32)))


@dataclass(frozen=True)
class StagedReports:
    """Reports of a pane that are in no file yet."""

    seq: int
    key: PaneKey
    reports: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
    slice_key: bytes = b""

    def rows(self) -> ReportRows:
        """The reports with their slices, which are random and the same whenever they are read:
        another draw for every answer would let answers be told apart by a few reports."""
        return ReportRows.drawn(
            [(self.key, self.reports)], seeded_source(self.slice_key + self.seq.to_bytes(8, "big"))
        )


@dataclass(frozen=True)
class CatalogueSnapshot:
    """The reports of a query in some epochs, at one moment."""

    files: tuple[FileEntry, ...]
    """They may also hold other epochs of the same days."""
    staged: tuple[StagedReports, ...]
    n_reports: int


def stage(connection: sqlite3.Connection, reports: Reports) -> None:
    """Keep counted reports, inside the transaction that counts them."""
    parts: dict[PaneKey, list[np.ndarray[tuple[int, int], np.dtype[np.uint8]]]] = {}
    for key, rows in reports:
        parts.setdefault(key, []).append(rows)
    joined = {key: np.concatenate(pieces) for key, pieces in parts.items()}
    connection.executemany(
        "INSERT INTO history_staged (query, serial, epoch, stratum, n, content) VALUES (?, ?, ?, ?,"
        " ?, ?)",
        [(*key, len(rows), np.ascontiguousarray(rows).data) for key, rows in joined.items()],
    )
    note_reports(connection, ((key, len(rows)) for key, rows in joined.items()))


def note_reports(connection: sqlite3.Connection, added: Iterable[tuple[PaneKey, int]]) -> None:
    """Record how many reports were added, inside the caller's transaction."""
    connection.executemany(
        "INSERT INTO history_epochs (query, serial, epoch, n) VALUES (?, ?, ?, ?) ON CONFLICT DO"
        " UPDATE SET n = n + excluded.n",
        [(key.query, key.serial, key.epoch, n) for key, n in added],
    )


def add_files(connection: sqlite3.Connection, entries: Sequence[FileEntry]) -> None:
    """Make files count, inside the caller's transaction."""
    connection.executemany(
        f"INSERT INTO history_files ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        entries,
    )


def files(
    connection: sqlite3.Connection, query: str | None = None, epochs: range | None = None
) -> list[FileEntry]:
    """The files that count: of a query, or all; with reports of some epochs, or of any."""
    chosen = range(1 << 62) if epochs is None else epochs
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM history_files WHERE (?1 IS NULL OR query = ?1) AND last >= ?2 AND"  # noqa: S608
        " first < ?3 "
        "ORDER BY query, day, serial, path",
        (query, chosen.start, chosen.stop),
    )
    return [FileEntry(*row) for row in rows]


def staged(
    connection: sqlite3.Connection, query: str, epochs: range | None = None
) -> list[StagedReports]:
    """Reports of a query that are in no file yet."""
    chosen = range(1 << 62) if epochs is None else epochs
    rows = connection.execute(
        "SELECT seq, serial, epoch, stratum, n, content FROM history_staged WHERE query = ? AND"
        " epoch >= ? AND epoch < ?",
        (query, chosen.start, chosen.stop),
    )
    ((key,),) = connection.execute("SELECT value FROM meta WHERE name = ?", (_SLICE_KEY,))
    return [
        StagedReports(
            seq,
            PaneKey(query, serial, epoch, stratum),
            np.frombuffer(content, dtype=np.uint8).reshape(n, -1),
            bytes.fromhex(key),
        )
        for seq, serial, epoch, stratum, n, content in rows
    ]


def kept_epochs(connection: sqlite3.Connection, query: str) -> tuple[range, int] | None:
    """The range of epochs with reports of a query, and how many reports; None if there are none."""
    first, last, n = connection.execute(
        "SELECT min(epoch), max(epoch), sum(n) FROM history_epochs WHERE query = ?", (query,)
    ).fetchone()
    return None if n is None else (range(first, last + 1), n)


def complete_epochs(
    connection: sqlite3.Connection, query: str, epochs: range
) -> set[tuple[int, int]]:
    """The versions and epochs of which every counted report is still stored."""
    rows = connection.execute(
        "SELECT h.serial, h.epoch FROM history_epochs AS h WHERE h.query = ?1 AND h.epoch >= ?2 AND"
        " h.epoch < ?3 AND h.n = (SELECT sum(n) FROM panes AS p WHERE p.query = h.query AND"
        " p.serial = h.serial AND p.epoch = h.epoch)",
        (query, epochs.start, epochs.stop),
    )
    return set(rows.fetchall())


def first_open_epoch(connection: sqlite3.Connection, query: str) -> int:
    """The first epoch of a query that is not closed. Only closed ones are reported: two answers
    about an open epoch would show the few reports that came between them."""
    (front,) = connection.execute(
        "SELECT coalesce(min(front), 0) FROM channels WHERE channel IN (SELECT channel FROM queries"
        " WHERE id = ?)",
        (query,),
    ).fetchone()
    return int(front)


def snapshot(connection: sqlite3.Connection, query: str, epochs: range) -> CatalogueSnapshot:
    """The reports of a query in these epochs, all at one moment."""
    connection.execute("BEGIN")
    try:
        (n,) = connection.execute(
            "SELECT coalesce(sum(n), 0) FROM history_epochs WHERE query = ? AND epoch >= ? AND"
            " epoch < ?",
            (query, epochs.start, epochs.stop),
        ).fetchone()
        return CatalogueSnapshot(
            tuple(files(connection, query, epochs)), tuple(staged(connection, query, epochs)), n
        )
    finally:
        connection.execute("COMMIT")
