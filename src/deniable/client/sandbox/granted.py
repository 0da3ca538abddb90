"""Reads what a vault's owner grants, as the sandbox's process is given it: names and cells.

This is the only code that reads the vault for an analyst, only `pool.py` may import it, and
it runs none of the analyst's SQL. Whether the vault has changed is determined by SQLite (`PRAGMA
data_version` counts the commits of all other connections, in every journal mode, as one open
connection sees them) and by the file's inode, size and time, in case it was replaced or overwritten
without SQLite.

A read lock keeps the owner from committing, unless the vault is in WAL mode. So rows are read in
chunks, in transactions that are short, and the copy begins anew, with longer transactions, if the
owner has committed between two of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from deniable.client.vaults.schema import grants, row_number_of
from deniable.errors import VaultBusyError, VaultError
from deniable.sql.guard import Shape, quoted

__all__ = [
    "LONG_LOCK",
    "SHORT_LOCK",
    "GrantedSnapshot",
    "VaultChangedError",
    "VaultCopy",
    "VaultReader",
    "Version",
]

SHORT_LOCK, LONG_LOCK = 0.25, 2.0
"""Seconds for which a read may keep the owner from committing: at first, and after the owner has
changed the vault several times while it was copied. Programs that write to a vault wait longer than
that, usually 5 seconds."""
_FIRST_CHUNK, _LARGEST_CHUNK = 500, 4_000  # rows
_CHUNK_BYTES = 1 << 18
_FIRST_ROW_NUMBER, _LAST_ROW_NUMBER = -(1 << 63), (1 << 63) - 1
_PASSING = tuple(
    f"SQLITE_{name}"
    for name in ("BUSY", "LOCKED", "PROTOCOL", "SCHEMA", "READONLY", "CANTOPEN", "IOERR", "NOMEM")
)
"""Prefixes of SQLite's error names for a writing owner or the remains of a crash, as opposed to a
broken file."""

Version = tuple[int, int]
"""Equal for two reads of one reader only if nothing has changed between them."""


class VaultChangedError(VaultError):
    """The vault was changed while it was being copied, so the copy must begin anew."""


@dataclass(frozen=True)
class GrantedSnapshot:
    """The vault at one moment, for the duration of the `with` that created it."""

    version: Version
    connection: sqlite3.Connection

    def shape(self) -> Shape:
        """What is granted."""
        return grants(self.connection)


class VaultReader:
    """A read-only connection to a vault that knows whether anything has changed. It holds no locks
    between snapshots."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, ...] = ()
        self._n_opened = 0

    @contextmanager
    def snapshot(self, patience: float) -> Iterator[GrantedSnapshot]:
        """The vault as it is now; waits up to `patience` seconds for an owner who is writing."""
        try:
            connection = self._opened()
            connection.execute(f"PRAGMA busy_timeout = {max(1, int(1000 * patience))}")
            connection.execute("BEGIN")
            [(changes,)] = connection.execute("PRAGMA data_version")
            try:
                yield GrantedSnapshot((self._n_opened, changes), connection)
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self.close()  # and with it every lock
            name = getattr(error, "sqlite_errorname", "no SQLite file")
            kind = VaultBusyError if name.startswith(_PASSING) else VaultError
            raise kind(f"the vault cannot be read ({name})") from None
        except (FileNotFoundError, PermissionError) as error:
            self.close()
            raise VaultError(f"the vault cannot be read ({error.strerror})") from None

    def _opened(self) -> sqlite3.Connection:
        status = self.path.stat()
        file = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        # SQLite would keep pages of what was there before
        if self._connection is None or self._file != file:
            self.close()
            self._connection = _connect(self.path)
            self._file = file
            self._n_opened += 1
        return self._connection

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class VaultCopy:
    """Reads the granted cells in chunks; it can rest, and go on if nothing has changed."""

    def __init__(
        self, reader: VaultReader, shape: Shape, version: Version, lock: float = SHORT_LOCK
    ) -> None:
        self.shape, self.version = shape, version
        self._reader, self._lock = reader, lock
        self._table = 0
        # the next row number or, in a table without them, how many rows were read
        self._place: int | None = None
        self._n_rows = _FIRST_CHUNK

    def advance(self, patience: float, until: float, take: Callable[[int, list[Any]], int]) -> bool:
        """Hand over chunks for as long as one lock may be held; whether all was handed over.

        A chunk is the number of a table and rows of it; `take` returns how many bytes it made of
        them. Raises :class:`VaultChangedError` if the vault has changed.
        """
        with self._reader.snapshot(patience) as snapshot:
            if snapshot.version != self.version:
                raise VaultChangedError("the vault was changed while it was copied")
            connection = snapshot.connection
            [(mode,)] = connection.execute("PRAGMA journal_mode")
            ends = until if mode == "wal" else min(until, monotonic() + self._lock)
            while self._table < len(self.shape):
                table, rows = self._table, self._rows(connection)
                if rows:
                    n_bytes = take(table, rows)
                    self._n_rows = max(
                        1,
                        min(_LARGEST_CHUNK, 2 * self._n_rows, len(rows) * _CHUNK_BYTES // n_bytes),
                    )
                if monotonic() > ends:
                    return False
        return True

    def _rows(self, connection: sqlite3.Connection) -> list[Any]:
        """The next rows of the table that is being read; after its last ones, the next table is."""
        name, columns = self.shape[self._table]
        table, cells = quoted(name), ", ".join(quoted(column) for column, _ in columns)
        number = row_number_of(connection, name)
        if number is None:  # such a table can only be counted through
            sql = f"SELECT {cells} FROM {table} LIMIT ? OFFSET ?"  # noqa: S608 - quoted
            rows = connection.execute(sql, (_LARGEST_CHUNK, self._place or 0)).fetchall()
            self._move((self._place or 0) + len(rows), len(rows) < _LARGEST_CHUNK)
            return rows
        first = _FIRST_ROW_NUMBER if self._place is None else self._place
        numbers = (
            f"SELECT {number} AS place FROM {table} WHERE {number} >= ? ORDER BY {number} LIMIT ?"  # noqa: S608 - quoted
        )
        counted = f"SELECT count(*), max(place) FROM ({numbers})"  # noqa: S608 - quoted
        [(n_rows, last)] = connection.execute(counted, (first, self._n_rows))
        sql = f"SELECT {cells} FROM {table} WHERE {number} BETWEEN ? AND ?"  # noqa: S608 - quoted
        rows = connection.execute(sql, (first, last)).fetchall() if n_rows else []
        self._move((last or 0) + 1, n_rows < self._n_rows or last == _LAST_ROW_NUMBER)
        return rows

    def _move(self, place: int, over: bool) -> None:
        self._table, self._place = (self._table + 1, None) if over else (self._table, place)


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. `immutable=1` is not used: it would skip the locks that keep
    a writing owner out."""
    connection = sqlite3.connect(
        path.as_uri() + "?mode=ro", uri=True, isolation_level=None, check_same_thread=False
    )
    for pragma in ("query_only=1", "trusted_schema=0", "cell_size_check=1", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}")
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str | bytes:
    """A text, or a blob if the bytes are not UTF-8: neither can be an answer, and a blob can be
    passed on."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
