"""Maintaining the history: moving reports to files, merging small files, dropping what is too old,
deleting on request.

Every change is one transaction of the catalogue. Files are written before it and removed after it,
so a process that is killed leaves at worst a file that is in no catalogue; its writer removes it on
the next start.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.history.file_catalogue import (
    DeletionReceipt,
    add_files,
    ensure_slice_key,
    files,
    staged,
)
from deniable.aggregator.history.report_files import (
    SECONDS_PER_DAY,
    FileEntry,
    ReportFolder,
    ReportRows,
    day_name,
)
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import Clock
from deniable.queries.schedule import Schedule
from deniable.queries.times import iso_time

__all__ = ["BATCH", "COMPACTED", "PUBLISHED", "HistoryMaintainer", "remove_orphans"]

PUBLISHED, COMPACTED, BATCH = "reports", "merged", "batch"
"""Kinds of files, by writer: staged reports, merged files, and Spark's batches."""
MOST_ROWS = 8_000_000
"""The most reports in one file: what is sorted in memory at once."""
_ENOUGH_BYTES = 8 << 20
"""Staged reports of closed epochs are moved to a file without waiting for more once they reach this
size."""
_MOST_STAGED = 64 << 20
"""Bytes of staged reports above which even those of open epochs are moved."""
_MOST_FILES = 8
"""Files of one version and day above which they are merged before the day is over."""
_SECONDS_TO_READ = 60
"""How long a merged file is kept for those who began to read it."""


@dataclass(frozen=True)
class _Group:
    """What may be in one file."""

    query: str
    serial: int
    day: int


def remove_orphans(
    connection: sqlite3.Connection, folder: ReportFolder, kinds: tuple[str, ...]
) -> int:
    """Remove files of these kinds that are in no catalogue, left by a writer that was killed;
    called by that writer.

    Files listed for removal are deleted as well: nobody reads them any more.
    """
    known = {entry.path for entry in files(connection)}
    lost = [
        path
        for path in folder.paths()
        if path not in known and path.rpartition("/")[2].startswith(kinds)
    ]
    for path in lost:
        folder.remove(path)
    return len(lost)


class HistoryMaintainer:
    """Maintains the history of one state. It has its own connection; only one thread at a time uses
    it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        settings: HistorySettings,
        clock: Clock,
        own_batches: bool = True,
    ) -> None:
        """`own_batches`: whether nobody else writes files, so that all files in no catalogue can be
        removed."""
        self.connection, self.settings, self.clock = connection, settings, clock
        self.folder = ReportFolder(settings.folder)
        self._schedules: dict[tuple[str, int], Schedule] = {}
        self._published_at: dict[_Group, int] = {}
        with self._transaction():
            ensure_slice_key(connection)
        remove_orphans(
            connection, self.folder, (PUBLISHED, COMPACTED, *([BATCH] if own_batches else []))
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def step(self) -> bool:
        """Do what is due; returns whether there was anything."""
        worked = self.publish()
        worked = self.compact() or worked
        worked = self.retain() > 0 or worked
        self.sweep()
        return worked

    # --- from the state to files

    def publish(self, everything: bool = False) -> bool:
        """Move staged reports of closed epochs to files, once they are many or have waited long.
        Returns whether any were moved.

        `everything` moves all of them now.
        """
        rows = self.connection.execute(
            "SELECT h.query, h.serial, h.epoch, sum(length(h.content)), h.epoch < c.front FROM"
            " history_staged AS h JOIN queries AS q ON q.id = h.query AND q.serial = h.serial JOIN"
            " channels AS c ON c.channel = q.channel GROUP BY h.query, h.serial, h.epoch"
        ).fetchall()
        groups: dict[_Group, dict[int, tuple[int, bool]]] = {}
        for query, serial, epoch, size, closed in rows:
            groups.setdefault(_Group(query, serial, self._day(query, serial, epoch)), {})[epoch] = (
                size,
                bool(closed),
            )
        total = sum(size for epochs in groups.values() for size, _ in epochs.values())
        moved = False
        for group, epochs in groups.items():
            chosen = [
                epoch
                for epoch, (_, closed) in epochs.items()
                if closed or everything or total > _MOST_STAGED
            ]
            size = sum(epochs[epoch][0] for epoch in chosen)
            if chosen and (everything or self._is_due(group, size)):
                self._move(group, chosen)
                moved = True
        return moved

    def _is_due(self, group: _Group, size: int) -> bool:
        now = self.clock()
        since = self._published_at.setdefault(group, now)
        over = (group.day + 1) * SECONDS_PER_DAY <= now
        return size >= _ENOUGH_BYTES or over or now - since >= self.settings.publish_every

    def _move(self, group: _Group, epochs: list[int]) -> None:
        wanted = set(epochs)
        found = [
            each
            for each in staged(self.connection, group.query, range(min(epochs), max(epochs) + 1))
            if each.key.serial == group.serial and each.key.epoch in wanted
        ]
        entries = []
        for part in _portions(found):
            rows = ReportRows.joined([each.rows() for each in part])
            entries.append(self.folder.write(PUBLISHED, group.query, group.day, group.serial, rows))
        with self._swap(entries):
            for each in found:
                gone = (
                    self.connection.execute(
                        "DELETE FROM history_staged WHERE seq = ?", (each.seq,)
                    ).rowcount
                    != 1
                )
                if gone:  # deleted on request meanwhile
                    raise _Overtaken
        self._published_at[group] = self.clock()

    @contextmanager
    def _swap(self, entries: list[FileEntry]) -> Iterator[None]:
        """A transaction that makes files count and does the work of the body; if that is overtaken,
        the files are removed."""
        try:
            with self._transaction():
                yield
                add_files(self.connection, entries)
        except BaseException as error:
            for entry in entries:
                self.folder.remove(entry.path)
            if not isinstance(error, _Overtaken):
                raise

    def _day(self, query: str, serial: int, epoch: int) -> int:
        if (query, serial) not in self._schedules:
            known = published(self.connection, query)
            self._schedules |= {
                (query, entry.query.serial): entry.query.schedule for entry in known
            }
        return day_of(self._schedules[query, serial], epoch)

    # --- files among themselves

    def compact(self) -> bool:
        """Merge small files of one version and day, when the day is over or there are many. Returns
        whether any were merged."""
        groups: dict[_Group, list[FileEntry]] = {}
        for entry in files(self.connection):
            if entry.n < MOST_ROWS // 2:
                groups.setdefault(_Group(entry.query, entry.serial, entry.day), []).append(entry)
        now = self.clock()
        merged = False
        for group, entries in groups.items():
            over = (group.day + 1) * SECONDS_PER_DAY + 3600 <= now
            if len(entries) >= (2 if over else _MOST_FILES):
                merged = self._merge(group, entries) or merged
        return merged

    def _merge(self, group: _Group, entries: list[FileEntry]) -> bool:
        chosen: list[FileEntry] = []
        for entry in sorted(entries, key=lambda entry: entry.n):
            if sum(each.n for each in chosen) + entry.n <= MOST_ROWS:
                chosen.append(entry)
        if len(chosen) < 2:
            return False
        try:
            rows = ReportRows.joined([self.folder.read(entry) for entry in chosen])
        except FileNotFoundError:  # deleted on request meanwhile
            return False
        made = self.folder.write(COMPACTED, group.query, group.day, group.serial, rows)
        with self._swap([made]):
            for entry in chosen:
                if not self._drop(entry.path):
                    raise _Overtaken
                self.connection.execute(
                    "INSERT OR REPLACE INTO history_removed VALUES (?, ?)",
                    (entry.path, self.clock()),
                )
        return True

    def _drop(self, path: str) -> bool:
        return (
            self.connection.execute("DELETE FROM history_files WHERE path = ?", (path,)).rowcount
            == 1
        )

    def sweep(self) -> None:
        """Remove files that were merged a while ago."""
        before = self.clock() - _SECONDS_TO_READ
        for (path,) in self.connection.execute(
            "SELECT path FROM history_removed WHERE since <= ?", (before,)
        ).fetchall():
            self.folder.remove(path)
            with self._transaction():
                self.connection.execute("DELETE FROM history_removed WHERE path = ?", (path,))

    # --- what goes

    def retain(self) -> int:
        """Delete the reports of days whose retention has passed; returns how many there were."""
        now, n = self.clock(), 0
        queries = self.connection.execute("SELECT DISTINCT query FROM history_epochs").fetchall()
        for (query,) in queries:
            before = now - self.settings.keep_of(query)
            last_day = before // SECONDS_PER_DAY - 1
            old = [
                entry
                for entry in published(self.connection, query)
                if day_of(entry.query.schedule, 0) <= last_day
            ]
            if not old:
                continue
            schedule = old[-1].query.schedule
            beyond = _first_epoch_after(schedule, last_day)
            (stored,) = self.connection.execute(
                "SELECT coalesce(sum(n), 0) FROM history_epochs WHERE query = ? AND epoch < ?",
                (query, beyond),
            ).fetchone()
            if stored:
                n += self._delete(query, beyond)
        return n

    def _delete(self, query: str, beyond: int) -> int:
        """Delete all reports of a query before an epoch at which a day begins."""
        with self._transaction():
            gone = [
                entry
                for entry in files(self.connection, query, range(beyond))
                if entry.last < beyond
            ]
            for entry in gone:
                self._drop(entry.path)
            self.connection.execute(
                "DELETE FROM history_staged WHERE query = ? AND epoch < ?", (query, beyond)
            )
            (n,) = self.connection.execute(
                "SELECT coalesce(sum(n), 0) FROM history_epochs WHERE query = ? AND epoch < ?",
                (query, beyond),
            ).fetchone()
            self.connection.execute(
                "DELETE FROM history_epochs WHERE query = ? AND epoch < ?", (query, beyond)
            )
        for entry in gone:
            self.folder.remove(entry.path)
        return int(n)

    def delete(self, query: str) -> DeletionReceipt:
        """Delete all reports of a query now, and return a receipt, which is kept. Counts and
        results stay."""
        entries = files(self.connection, query)
        removed = self.connection.execute(
            "SELECT path FROM history_removed WHERE path LIKE ? ESCAPE '\\'",
            (f"query={_literal(query)}/%",),
        ).fetchall()
        digests = {entry.path: self.folder.digest(entry.path) for entry in entries}
        now = self.clock()
        with self._transaction():
            gone = files(self.connection, query)
            for entry in gone:
                self._drop(entry.path)
            n_staged, bytes_staged = self.connection.execute(
                "SELECT coalesce(sum(n), 0), coalesce(sum(length(content)), 0) FROM history_staged"
                " WHERE query = ?",
                (query,),
            ).fetchone()
            self.connection.execute("DELETE FROM history_staged WHERE query = ?", (query,))
            self.connection.execute("DELETE FROM history_epochs WHERE query = ?", (query,))
            days = [entry.day for entry in gone]
            receipt: DeletionReceipt = {
                "query": query,
                "deleted_at": iso_time(now),
                "reports": sum(entry.n for entry in gone) + n_staged,
                "bytes": sum(entry.size for entry in gone) + bytes_staged,
                "first_day": day_name(min(days)) if days else None,
                "last_day": day_name(max(days)) if days else None,
                "files": [
                    {
                        "path": entry.path,
                        "reports": entry.n,
                        "bytes": entry.size,
                        "sha256": digests.get(entry.path),
                    }
                    for entry in gone
                ],
                "kept": "counts per epoch and the results of windows",
            }
            self.connection.execute(
                "INSERT INTO history_receipts (query, document) VALUES (?, ?)",
                (query, json.dumps(receipt)),
            )
        for path in [entry.path for entry in gone] + [path for (path,) in removed]:
            self.folder.remove(path)
        return receipt


class _Overtaken(Exception):  # noqa: N818 - not an error: the work is no longer needed
    """What was to be moved no longer exists."""


def _literal(text: str) -> str:
    """The text escaped for SQL's LIKE, so that an underscore is literal."""
    return text.replace("_", "\\_")


def _portions(found: list[Any]) -> Iterator[list[Any]]:
    """Staged reports in portions that fit into one file."""
    part: list[Any] = []
    n = 0
    for each in found:
        if part and n + len(each.reports) > MOST_ROWS:
            yield part
            part, n = [], 0
        part.append(each)
        n += len(each.reports)
    if part:
        yield part


def day_of(schedule: Schedule, epoch: int) -> int:
    """The day on which an epoch begins, in days since 1970."""
    return schedule.start_of_epoch(epoch) // SECONDS_PER_DAY


def _first_epoch_after(schedule: Schedule, day: int) -> int:
    """The first epoch that begins after a day."""
    return max(0, -(((day + 1) * SECONDS_PER_DAY - schedule.origin) // -schedule.every))
