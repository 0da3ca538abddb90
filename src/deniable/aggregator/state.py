"""The aggregator's state: one SQLite file in which positions, marks, waiting shares, panes and
accounts move together.

A step of the engine is one transaction. Killed at any point, the engine finds the state of its last
finished step, and the logs still have what came after: nothing is lost, and nothing is counted
twice.

Waiting rows are only ever added. A row whose id is among the joined ones no longer waits, so
joining does not rewrite the waiting rows; both are deleted when their epoch is closed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.conservation import OUTSIDE, Account, Ledger
from deniable.aggregator.counting.panes import PaneKey, Panes
from deniable.aggregator.history.file_catalogue import stage
from deniable.aggregator.schema import STATE
from deniable.aggregator.step import Step, Stored
from deniable.aggregator.windows.revisions import Revisions
from deniable.counts import Counts
from deniable.errors import StateError
from deniable.service.files.database import one_line
from deniable.service.files.file_lock import lock_file
from deniable.service.files.schemas import transaction
from deniable.wire.counts import pack_counts, unpack_counts

__all__ = ["State", "connect", "signed", "stored_panes", "unsigned"]

_Words = NDArray[np.uint64]
_FIGURES = tuple(figure.name for figure in fields(Account))


def signed(word: int) -> int:
    """A 64-bit word as SQLite stores it."""
    return word - (1 << 64) if word >> 63 else word


def unsigned(number: int) -> int:
    """The word that :func:`signed` was given."""
    return number % (1 << 64)


def stored_panes(connection: sqlite3.Connection, query: str, epochs: range) -> Panes:
    """The panes of a query in these epochs, from a state file."""
    rows = connection.execute(
        "SELECT serial, epoch, stratum, n, silent, counts FROM panes WHERE query = ? AND epoch >= ?"
        " AND epoch < ?",
        (query, epochs.start, epochs.stop),
    )
    return {
        PaneKey(query, serial, epoch, stratum): unpack_counts(counts, n, nothing)
        for serial, epoch, stratum, n, nothing, counts in rows
    }


def connect(path: str | Path) -> sqlite3.Connection:
    """A connection to a state file, which is created if missing, migrated if old, and refused if
    too new. Its rows are checked by :class:`State` only."""
    return STATE.connect(Path(path), check=False)


class State:
    """The state of one engine. Only one process at a time may have it open."""

    def __init__(self, path: str | Path, proxies: Sequence[str]) -> None:
        self.path, self.proxies = Path(path), tuple(proxies)
        self._lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_file(self._lock, wait=False)
        except BlockingIOError:
            os.close(self._lock)
            raise StateError(f"another aggregator is running on {path}") from None
        try:
            self.connection = connect(path)
        except BaseException:
            os.close(self._lock)
            raise
        self.results = Revisions(self.connection)
        try:
            self._validate_rows()
            self._validate_proxies()
        except BaseException:
            self.close()  # a connection left to the garbage collector would still lock the file
            raise

    def _validate_rows(self) -> None:
        """Refuse a file whose rows are not as they were written: its figures would be wrong, and
        nothing would show it."""
        try:
            STATE.check_rows(self.connection, self.path)
            (problem,) = self.connection.execute("PRAGMA quick_check(1)").fetchone()
            problem = " ".join(str(problem).split())
        except (sqlite3.DatabaseError, UnicodeError) as error:
            problem = one_line(error)
        if problem != "ok":
            self._refuse(problem)

    def _refuse(self, what: str) -> NoReturn:
        raise StateError(
            f"{self.path} is damaged: {what}. Restore the file from a backup"
        ) from None

    def _validate_proxies(self) -> None:
        try:
            rows = self.connection.execute("SELECT name FROM proxies ORDER BY proxy").fetchall()
        # the text of the schema is damaged, which no check of rows or pages shows
        except sqlite3.DatabaseError as error:
            self._refuse(one_line(error))
        names = tuple(name for (name,) in rows)
        if not names:
            with self.transaction():
                self.connection.executemany(
                    "INSERT INTO proxies VALUES (?, ?, NULL, '')", list(enumerate(self.proxies))
                )
        elif names != self.proxies:
            raise StateError(
                f"{self.path} was written for the proxies {list(names)}, not {list(self.proxies)}"
            )

    def close(self) -> None:
        """Release the state."""
        self.connection.close()
        os.close(self._lock)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything done in the body, or nothing."""
        with transaction(self.connection):
            yield

    def settle_engine(self, name: str) -> None:
        """Record, inside a transaction, which engine counts into this state: another one would
        count everything again."""
        known = self.connection.execute("SELECT value FROM meta WHERE name = 'engine'").fetchone()
        if known is None:
            self.connection.execute("INSERT INTO meta VALUES ('engine', ?)", (name,))
        elif known[0] != name:
            raise StateError(
                f"{self.path} belongs to engine {known[0]!r}; give engine {name!r} its own state"
                " file"
            )

    # --- what is lost

    def note_loss(self, proxy: int, channel: int, epochs: range, why: str) -> None:
        """Record, inside a transaction, that shares of a proxy are lost for these epochs: their
        windows will say so."""
        row = (proxy, signed(channel), epochs.start, epochs.stop, why)
        self.connection.execute(
            "INSERT INTO losses (proxy, channel, first, past, why) VALUES (?, ?, ?, ?, ?)", row
        )

    def lost(self, channel: int, epoch: int) -> set[int]:
        """The proxies that have lost shares of an epoch."""
        rows = self.connection.execute(
            "SELECT proxy FROM losses WHERE channel = ? AND first <= ? AND past > ?",
            (signed(channel), epoch, epoch),
        )
        return {proxy for (proxy,) in rows}

    def restored_at(self) -> int | None:
        """When the state was last restored from a backup; None if it never was."""
        row = self.connection.execute("SELECT value FROM meta WHERE name = 'restored'").fetchone()
        return None if row is None else int(row[0])

    # --- what the engine starts from

    def positions(self) -> list[tuple[int, ...]]:
        """How far each proxy's log is counted: one offset per partition, or nothing if it was never
        read."""
        rows = self.connection.execute("SELECT position FROM proxies ORDER BY proxy")
        return [tuple(map(int, position.split())) for (position,) in rows]

    def marks(self) -> dict[tuple[int, int, int], int]:
        """By proxy, partition and channel: the epoch before which the partition is complete, as far
        as it is counted."""
        rows = self.connection.execute("SELECT proxy, partition, channel, epoch FROM marks")
        return {
            (proxy, partition, unsigned(channel)): epoch
            for proxy, partition, channel, epoch in rows
        }

    def identities(self) -> list[str | None]:
        """The identity of each proxy's log, if it was ever read. Positions have a meaning only
        together with it."""
        return [
            identity
            for (identity,) in self.connection.execute(
                "SELECT identity FROM proxies ORDER BY proxy"
            )
        ]

    def fronts(self) -> dict[int, int]:
        """For each channel, the first epoch that is not closed."""
        return {
            unsigned(channel): front
            for channel, front in self.connection.execute("SELECT channel, front FROM channels")
        }

    def firsts(self) -> dict[int, int]:
        """For each channel, the first epoch that was ever counted."""
        return {
            unsigned(channel): first
            for channel, first in self.connection.execute("SELECT channel, first FROM channels")
        }

    def stored(self) -> Iterator[Stored]:
        """The joined ids of all open epochs, then all rows that ever waited (the joined ones no
        longer do)."""
        still_open = (
            "(SELECT 1 FROM channels WHERE channels.channel = {0}.channel AND {0}.epoch >= front)"
        )
        joined = (
            "SELECT channel, epoch, bucket, ids FROM joined WHERE EXISTS"  # noqa: S608 - no input
            f" {still_open.format('joined')}"
        )
        for channel, epoch, bucket, content in self.connection.execute(joined):
            yield Stored(
                unsigned(channel),
                epoch,
                bucket,
                None,
                np.frombuffer(content, dtype="<u8").reshape(2, -1),
            )
        waiting = (
            "SELECT channel, epoch, bucket, proxy, words, content FROM waiting WHERE EXISTS"  # noqa: S608
            f" {still_open.format('waiting')}"
        )
        for channel, epoch, bucket, proxy, words, content in self.connection.execute(waiting):
            rows = np.frombuffer(content, dtype="<u8").reshape(words, -1)
            yield Stored(unsigned(channel), epoch, bucket, proxy, rows)

    # --- what the engine changes (inside a transaction)

    def apply(self, step: Step) -> None:
        """Apply everything that a step changes."""
        run = self.connection.executemany
        positions = [
            (" ".join(map(str, position)), proxy) for proxy, position in step.positions.items()
        ]
        run("UPDATE proxies SET position = ? WHERE proxy = ?", positions)
        reached = [
            (proxy, part, signed(channel), epoch)
            for (proxy, part, channel), epoch in step.marks.items()
        ]
        run("INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)", reached)
        run(
            "UPDATE proxies SET identity = ? WHERE proxy = ?",
            [(name, proxy) for proxy, name in step.identities.items()],
        )
        for part in step.stored:
            place = (signed(part.channel), part.epoch, part.bucket)
            content = np.ascontiguousarray(part.rows, dtype="<u8").data
            if part.proxy is None:
                self.connection.execute(
                    "INSERT INTO joined (channel, epoch, bucket, ids) VALUES (?, ?, ?, ?)",
                    (*place, content),
                )
            else:
                self.connection.execute(
                    "INSERT INTO waiting (channel, epoch, bucket, proxy, words, content) VALUES (?,"
                    " ?, ?, ?, ?, ?)",
                    (*place, part.proxy, len(part.rows), content),
                )
        for key, pane in step.panes.items():
            self._add_pane(key, pane)
        if step.reports:
            stage(self.connection, step.reports)
        self.enter(step.ledger)

    def _add_pane(self, key: PaneKey, pane: Counts) -> None:
        place = (key.query, key.serial, key.epoch, key.stratum)
        known = self.connection.execute(
            "SELECT n, silent, counts FROM panes WHERE query = ? AND serial = ? AND epoch = ? AND"
            " stratum = ?",
            place,
        ).fetchone()
        total = pane
        if known:
            total = unpack_counts(known[2], known[0], known[1])
            total += pane
        self.connection.execute(
            "INSERT OR REPLACE INTO panes (query, serial, epoch, stratum, n, silent, counts) VALUES"
            " (?, ?, ?, ?, ?, ?, ?)",
            (*place, total.n, total.nothing, pack_counts(total)),
        )

    def enter(self, ledger: Ledger) -> None:
        """Add the entries of a ledger to the accounts, the totals, and the refusals by reason."""
        added = ", ".join(f"{figure} = {figure} + excluded.{figure}" for figure in _FIGURES)
        self.connection.executemany(
            f"INSERT INTO accounts (channel, epoch, proxy, {', '.join(_FIGURES)}) VALUES (?, ?, ?,"  # noqa: S608
            " ?, ?, ?, ?, ?, ?) "
            f"ON CONFLICT DO UPDATE SET {added}",
            [
                (
                    OUTSIDE if epoch == OUTSIDE else signed(channel),
                    epoch,
                    proxy,
                    *(getattr(account, f) for f in _FIGURES),
                )
                for (proxy, channel, epoch), account in ledger.accounts.items()
            ],
        )
        totals: dict[tuple[int, str], int] = {}
        for (proxy, _, _), account in ledger.accounts.items():
            for figure in _FIGURES:
                totals[proxy, figure] = totals.get((proxy, figure), 0) + getattr(account, figure)
        for table, column, entries in (
            ("totals", "outcome", totals),
            ("refusals", "reason", ledger.reasons),
        ):
            self.connection.executemany(
                f"INSERT INTO {table} (proxy, {column}, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE"  # noqa: S608
                " SET n = n + excluded.n",
                [(*key, n) for key, n in entries.items() if n],
            )

    def close_epoch(self, channel: int, epoch: int, missing: Iterable[int]) -> None:
        """Close this epoch and all before it: none of their shares is counted any more. `missing`
        are the absent proxies."""
        self.connection.executemany(
            "INSERT INTO closures (channel, epoch, missing) VALUES (?, ?, ?)",
            [
                (signed(channel), epoch, " ".join(map(str, chosen)))
                for chosen in [sorted(missing)]
                if chosen
            ],
        )
        self.connection.execute(
            "UPDATE channels SET front = ? WHERE channel = ?", (epoch + 1, signed(channel))
        )

    def missing(self, channel: int, epochs: range) -> set[int]:
        """The proxies without which some of these epochs were closed."""
        rows = self.connection.execute(
            "SELECT missing FROM closures WHERE channel = ? AND epoch >= ? AND epoch < ?",
            (signed(channel), epochs.start, epochs.stop),
        )
        return {int(proxy) for (text,) in rows for proxy in text.split()}

    def drop_waiting(self, channel: int, epoch: int, proxy: int) -> None:
        """Give up the waiting shares of a proxy in an epoch."""
        self.connection.execute(
            "DELETE FROM waiting WHERE channel = ? AND epoch = ? AND proxy = ?",
            (signed(channel), epoch, proxy),
        )

    def panes(self, query: str, epochs: range) -> Panes:
        """The panes of a query in these epochs."""
        return stored_panes(self.connection, query, epochs)

    def accounts(self, channel: int, epochs: range) -> dict[int, Account]:
        """What became of the shares of each proxy in these epochs of a channel."""
        totals = ", ".join(f"sum({figure})" for figure in _FIGURES)
        rows = self.connection.execute(
            f"SELECT proxy, {totals} FROM accounts WHERE channel = ? AND epoch >= ? AND epoch < ?"  # noqa: S608
            " GROUP BY proxy",
            (OUTSIDE if epochs.start == OUTSIDE else signed(channel), epochs.start, epochs.stop),
        )
        return {proxy: Account(*figures) for proxy, *figures in rows}


Clock = Callable[[], int]
"""Tells the time in whole seconds of UTC; injected, so that tests and simulations can run
faster."""
