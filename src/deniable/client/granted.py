"""The vault as the sandbox's process is given it: which tables and columns are shared, and their cells.

This is the only code that reads the vault for an analyst, and it runs none of the analyst's SQL. Whether the vault has changed is
determined by SQLite (`PRAGMA data_version` counts the commits of all other connections, in every journal mode, as one open
connection sees them) and by the file's inode, size and time, in case it was replaced or overwritten without SQLite.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.errors import VaultBusyError, VaultError
from deniable.sql.guard import Shape, fold, quoted

__all__ = ["APPLICATION_ID", "DECLARATION", "TAKEN_PREFIXES", "Snapshot", "VaultReader", "columns_of", "grants", "table_names"]

APPLICATION_ID = 0x646E7676
"""Marks an SQLite file as a vault: `dnvv` in the file's header."""

DECLARATION = "deniable_shared"
"""The table inside the vault that records what the owner shares. It cannot itself be shared."""

TAKEN_PREFIXES = ("sqlite_", "pragma_", "deniable_")
_CHUNK = 2_000  # rows
_PASSING = tuple(f"SQLITE_{name}" for name in ("BUSY", "LOCKED", "PROTOCOL", "SCHEMA", "READONLY", "CANTOPEN", "IOERR", "NOMEM"))
"""Prefixes of SQLite's error names for a writing owner or the remains of a crash, as opposed to a broken file."""


def table_names(connection: sqlite3.Connection) -> list[str]:
    """The ordinary tables: a view or a virtual table has no root page, and would show the contents of other tables."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name"
    names = [row[0] for row in connection.execute(sql)]
    return [name for name in names if not fold(name).startswith(TAKEN_PREFIXES)]


def columns_of(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """The columns of a table with their affinities; not generated ones, because they derive from others.

    The rules are those of https://sqlite.org/datatype3.html, section 3.1; ANY in a STRICT table keeps what it is given.
    """
    strict = any(row[5] for row in connection.execute(f"PRAGMA table_list({quoted(table)})") if row[0] == "main")
    found = {}
    for _, name, declared, _, _, _, hidden in connection.execute(f"PRAGMA table_xinfo({quoted(table)})"):
        if not hidden:
            found[name] = "BLOB" if strict and fold(declared) == "any" else _affinity(declared)
    return found


def _affinity(declared: str) -> str:
    kind = declared.upper()
    if "INT" in kind:
        return "INTEGER"
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in kind or not kind:
        return "BLOB"
    return "REAL" if any(word in kind for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def grants(connection: sqlite3.Connection) -> Shape:
    """What is shared: a share counts only as long as it names an ordinary column of an ordinary table.

    Tables and columns are ordered by name: the order in which the owner created them is private.
    """
    declared = {(fold(table), fold(column)) for table, column in connection.execute(f"SELECT * FROM {DECLARATION}")}  # noqa: S608
    shape = []
    for table in sorted(table_names(connection), key=fold):
        columns = sorted(columns_of(connection, table).items(), key=lambda column: fold(column[0]))
        shared = tuple((name, affinity) for name, affinity in columns if name and (fold(table), fold(name)) in declared)
        if shared:
            shape.append((table, shared))
    return tuple(shape)


@dataclass(frozen=True)
class Snapshot:
    """The vault at one moment, for the duration of the `with` that created it."""

    version: tuple[int, int]
    """Equal for two snapshots of one reader only if nothing has changed between them."""
    _connection: sqlite3.Connection

    def shape(self) -> Shape:
        """What is shared."""
        return grants(self._connection)

    def size(self) -> int:
        """The size of the whole file in bytes: roughly an upper bound for the shared cells."""
        pages, size = (self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * size)

    def chunks(self, shape: Shape) -> list[Generator[list[Any], None, None]]:
        """The rows of each table, in chunks. Must be read to the end, or closed."""

        def rows(table: str, columns: tuple[tuple[str, str], ...]) -> Generator[list[Any], None, None]:
            names = ", ".join(quoted(name) for name, _ in columns)
            with closing(self._connection.execute(f"SELECT {names} FROM {quoted(table)}")) as cursor:  # noqa: S608 - quoted
                while chunk := cursor.fetchmany(_CHUNK):
                    yield chunk

        return [rows(table, columns) for table, columns in shape]


class VaultReader:
    """A read-only connection to a vault that knows whether anything has changed. It holds no locks between snapshots."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, ...] = ()
        self._n_opened = 0

    @contextmanager
    def snapshot(self, patience: float) -> Iterator[Snapshot]:
        """The vault as it is now; waits up to `patience` seconds for an owner who is writing."""
        try:
            status = self.path.stat()
            file = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
            if self._connection is None or self._file != file:  # SQLite would keep pages of what was there before
                self.close()
                self._connection = _connect(self.path)
                self._file = file
                self._n_opened += 1
            connection = self._connection
            connection.execute(f"PRAGMA busy_timeout = {max(1, int(1000 * patience))}")
            connection.execute("BEGIN")
            [(changes,)] = connection.execute("PRAGMA data_version")
            yield Snapshot((self._n_opened, changes), connection)
            connection.execute("ROLLBACK")
        except BaseException as error:
            self.close()  # and with it every lock, also that of a read which was cut short
            if isinstance(error, sqlite3.Error):
                name = getattr(error, "sqlite_errorname", "no SQLite file")
                kind = VaultBusyError if name.startswith(_PASSING) else VaultError
                raise kind(f"the vault cannot be read ({name})") from None
            if isinstance(error, FileNotFoundError | PermissionError):
                raise VaultError(f"the vault cannot be read ({error.strerror})") from None
            raise

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. `immutable=1` is not used: it would skip the locks that keep a writing owner out."""
    connection = sqlite3.connect(path.as_uri() + "?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
    for pragma in ("query_only=1", "trusted_schema=0", "cell_size_check=1", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}")
    connection.text_factory = _text
    return connection


def _text(raw: bytes) -> str | bytes:
    """A text, or a blob if the bytes are not UTF-8: neither can be an answer, and a blob can be passed on."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
