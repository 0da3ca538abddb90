"""A person's vault: one SQLite file on their device, with the declaration of what they grant inside
it.

The declaration is a table in the same file, so that it is copied, backed up and moved along with
the data, and one transaction changes both. Only what it names is ever copied to where an analyst's
SQL runs (`granted.py`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from deniable.client.vaults import recording, sources
from deniable.client.vaults.file_schema import VAULT
from deniable.client.vaults.schema import (
    DECLARATION,
    TAKEN_PREFIXES,
    columns_of,
    grants,
    table_names,
)
from deniable.errors import VaultError
from deniable.queries.schedule import duration, moment
from deniable.renames import reads_old_names
from deniable.service.files.schemas import transaction
from deniable.sql.guard import fold, quoted

__all__ = ["TableInfo", "Vault"]

_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_TAKEN_NAMES = frozenset({"rowid", "oid", "_rowid_"})  # names of the hidden row number
_PRIVATE = 0o600
_USUAL_WAIT = 5.0  # seconds for another program that is writing
_PROGRESS_EVERY = 1_000  # instructions of SQLite's machine


@reads_old_names
@dataclass(frozen=True)
class TableInfo:
    """One table of a vault: its rows, and which of its columns are granted."""

    name: str
    n_rows: int
    granted: tuple[str, ...]
    withheld: tuple[str, ...]


@reads_old_names
@dataclass(frozen=True)
class Vault:
    """A person's data and what they grant of it. Use :meth:`create` or :meth:`open`.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> vault = Vault.create(Path(folder.name) / "ann.db")
    >>> vault.import_rows("rides", {"city": "TEXT", "km": "REAL"}, [("Lyon", 3.5), ("Nice", None)])
    2
    >>> vault.grant("rides", ["km"])
    >>> vault.grants()
    {'rides': ('km',)}
    >>> vault.tables()
    [TableInfo(name='rides', n_rows=2, granted=('km',), withheld=('city',))]
    >>> folder.cleanup()
    """

    path: Path

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Vault:
        """A new, empty vault that grants nothing, readable only by its owner (mode 0600)."""
        vault = cls(Path(path).absolute())
        try:
            os.close(os.open(vault.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _PRIVATE))
        except FileExistsError:
            raise VaultError(f"{path} exists already") from None
        except OSError as error:
            raise VaultError(f"{path} cannot be created: {error.strerror}") from None
        try:
            with vault._connection() as connection, transaction(connection):
                VAULT.bring_up_to_date(connection, vault.path)
        except BaseException:
            vault.path.unlink()
            raise
        return vault

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Vault:
        """The vault in that file, after checking its permissions and version."""
        vault = cls(Path(path).absolute())
        try:
            mode = vault.path.stat().st_mode
        except OSError as error:
            raise VaultError(f"{path} cannot be opened: {error.strerror}") from None
        if os.name == "posix" and mode & 0o077:
            raise VaultError(f"{path} has mode {mode & 0o777:04o}: others can open it; set 0600")
        with vault._connection() as connection:
            vault._bring_up_to_date(connection)
        return vault

    def _bring_up_to_date(self, connection: sqlite3.Connection) -> None:
        """Migrate a vault of an earlier release; refuse a file that is none."""
        found = VAULT.version_of(connection, self.path)
        if found == 0:
            raise VaultError(f"{self.path} is not a vault")
        if found < VAULT.version:
            with transaction(connection):
                VAULT.bring_up_to_date(connection, self.path)

    @cached_property
    def uri(self) -> str:
        """The read-only URI of the file."""
        return self.path.as_uri() + "?mode=ro"

    def tables(self) -> list[TableInfo]:
        """All tables, by name, each with its granted and withheld columns."""
        with self._connection() as connection:
            declared = {table: dict(columns) for table, columns in grants(connection)}
            found = []
            for name in table_names(connection):
                columns = [
                    row[1] for row in connection.execute(f"PRAGMA table_xinfo({quoted(name)})")
                ]
                n_rows = connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0]  # noqa: S608 - quoted
                ours = declared.get(name, {})
                granted = tuple(column for column in columns if column in ours)
                found.append(
                    TableInfo(
                        name,
                        n_rows,
                        granted,
                        tuple(column for column in columns if column not in ours),
                    )
                )
        return found

    def grants(self) -> dict[str, tuple[str, ...]]:
        """What an analyst's SQL can read: the granted columns, by table. Reading one column is
        enough to count a table's rows."""
        return {table.name: table.granted for table in self.tables() if table.granted}

    def grant(self, table: str, columns: Sequence[str]) -> None:
        """Grant these columns of a table, in addition to what is already granted."""
        _check_list("columns", columns)
        with self._change() as connection:
            name, kinds = _layout(connection, table)
            by_fold = {fold(column): column for column in kinds}
            for column in columns:
                if fold(column) not in by_fold:
                    raise VaultError(
                        f"column {column!r} is not an ordinary column of {name}: it cannot be"
                        " granted"
                    )
                _check_name("column", column)
                connection.execute(
                    f"INSERT OR IGNORE INTO {DECLARATION} VALUES (?, ?)",  # noqa: S608
                    (name, by_fold[fold(column)]),
                )

    def withdraw(self, table: str, columns: Sequence[str] | None = None) -> None:
        """Stop granting these columns or, without `columns`, the whole table. This applies to
        queries that start from now on."""
        if columns is not None:
            _check_list("columns", columns)
        with self._change() as connection:
            known = connection.execute(
                f"SELECT column_name FROM {DECLARATION} WHERE table_name = ?",  # noqa: S608
                (table,),
            )
            granted = {fold(row[0]) for row in known}
            if not granted:
                raise VaultError(f"nothing of table {table!r} is granted")
            for column in granted if columns is None else columns:
                if fold(column) not in granted:
                    raise VaultError(f"column {column!r} of {table} is not granted")
                connection.execute(
                    f"DELETE FROM {DECLARATION} WHERE table_name = ? AND column_name = ?",  # noqa: S608
                    (table, column),
                )

    def import_rows(
        self, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[object]]
    ) -> int:
        """Add rows to a table, created if missing; all of them or, on any error, none. Returns how
        many.

        `columns` gives each column's kind: INTEGER, REAL or TEXT. A table that exists must have
        these columns, of these kinds. Imported columns are not granted until :meth:`grant` says so.
        """
        _check_name("table", table)
        _check_list("columns", list(columns))
        for column, kind in columns.items():
            _check_name("column", column)
            if kind not in sources.KINDS:
                raise VaultError(
                    f"column {column!r} has kind {kind!r}; the kinds are {', '.join(sources.KINDS)}"
                )
        with self._change() as connection:
            names = {fold(name): name for name in table_names(connection)}
            if fold(table) not in names:
                fields = ", ".join(f"{quoted(column)} {kind}" for column, kind in columns.items())
                connection.execute(f"CREATE TABLE {quoted(table)} ({fields})")
            else:
                _check_same(table, _layout(connection, table)[1], columns)
            places = ", ".join(quoted(column) for column in columns)
            marks = ", ".join("?" * len(columns))
            insert = f"INSERT INTO {quoted(table)} ({places}) VALUES ({marks})"  # noqa: S608 - safe names, quoted
            return connection.executemany(insert, sources.checked(columns, rows)).rowcount

    def record(self, table: str, values: Mapping[str, Any], at: int | None = None) -> None:
        """Add one row as an app produces it, with its time: `vault.record("rides", {"km": 3.5,
        "city": "Lyon"})`.

        A missing table or column is created, and is not granted until :meth:`grant` says so. Rows
        that are older, or more numerous, than :meth:`keep` allows are deleted.
        """
        _check_name("table", table)
        _check_list("values", list(values))
        for column in values:
            _check_name("column", column)
            if fold(column) == recording.RECORDED_AT:
                raise VaultError(f"column {column!r} is filled by the vault: give the time as `at`")
        now = moment("at", int(time.time()) if at is None else at)
        with self._change() as connection:
            recording.record(connection, table, values, now)
            recording.forget(connection, table, now)

    def keep(
        self, table: str, age: int | str | None = None, rows: int = recording.MOST_ROWS
    ) -> None:
        """Set how long a table's recorded rows are kept ("90 d", or seconds; None for ever), and
        how many; delete the rest."""
        _check_name("table", table)
        given = recording.Keeping(None if age is None else duration("age", age), rows)
        with self._change() as connection:
            recording.set_keeping(connection, table, given)
        self.forget()

    def forget(self, at: int | None = None, *, patience: float | None = None) -> int:
        """Delete the recorded rows whose retention has expired; returns how many. Devices do this
        before they answer.

        Whatever takes longer than `patience` seconds is undone, with
        :class:`~deniable.errors.VaultError`.
        """
        now = int(time.time()) if at is None else at
        with self._connection(patience) as connection:
            self._bring_up_to_date(connection)
            recorded = [
                name
                for name in table_names(connection)
                if recording.RECORDED_AT in columns_of(connection, name)
            ]
            due = [name for name in recorded if recording.is_over(connection, name, now)]
        if not due:
            return 0
        with self._change(patience) as connection:
            return sum(recording.forget(connection, name, now) for name in due)

    def drop(self, table: str) -> None:
        """Delete a table, if it exists, and overwrite its rows."""
        _check_name("table", table)
        with self._connection() as connection:
            connection.execute("PRAGMA secure_delete = 1")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(f"DELETE FROM {DECLARATION} WHERE table_name = ?", (table,))  # noqa: S608
            connection.execute(f"DROP TABLE IF EXISTS {quoted(table)}")
            connection.execute("COMMIT")

    def import_csv(self, table: str, path: str | os.PathLike[str]) -> int:
        """Add the rows of a CSV file (UTF-8, names in the first line, comma) to a table; an empty
        cell is NULL.

        A new table's kinds are inferred from the whole file: INTEGER or REAL where every cell is
        one, else TEXT; numbers with leading zeros are TEXT. An existing table keeps its kinds, and
        a cell that does not fit is refused.
        """
        return self.import_rows(table, *sources.read_csv(Path(path), self._kinds(table)))

    def import_parquet(self, table: str, path: str | os.PathLike[str]) -> int:
        """Add the rows of a Parquet file to a table (needs the `frames` extra). Dates and times
        become ISO text."""
        return self.import_rows(table, *sources.read_parquet(Path(path)))

    def _kinds(self, table: str) -> dict[str, str] | None:
        with self._connection() as connection:
            present = fold(table) in map(fold, table_names(connection))
            return _layout(connection, table)[1] if present else None

    @contextmanager
    def _connection(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """A connection; with `patience`, one that ends what takes longer."""
        wait = _USUAL_WAIT if patience is None else patience
        try:
            connection = sqlite3.connect(
                self.path.as_uri() + "?mode=rw", wait, uri=True, isolation_level=None
            )
            if patience is not None:
                ends = time.monotonic() + patience
                connection.set_progress_handler(
                    lambda: int(time.monotonic() > ends), _PROGRESS_EVERY
                )
            try:
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            # SQLite's own message may quote a row: its error code says enough.
            raise VaultError(
                f"{self.path} cannot be used:"
                f" {getattr(error, 'sqlite_errorname', type(error).__name__)}"
            ) from None

    @contextmanager
    def _change(self, patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """A transaction that is kept whole, or undone on any error."""
        with self._connection(patience) as connection:
            self._bring_up_to_date(connection)
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")


def _layout(connection: sqlite3.Connection, table: str) -> tuple[str, dict[str, str]]:
    """A table's name as written in the file, and its columns with their kinds, without generated
    columns, which derive from others."""
    for name in table_names(connection):
        if fold(name) == fold(table):
            kinds = columns_of(connection, name).items()
            return name, {
                column: kind if kind in sources.KINDS else "TEXT" for column, kind in kinds
            }
    raise VaultError(f"there is no ordinary table {table!r}")


def _check_same(table: str, present: Mapping[str, str], given: Mapping[str, str]) -> None:
    ours = {fold(column): kind for column, kind in present.items()}
    for column, kind in given.items():
        if ours.get(fold(column), kind) != kind:
            raise VaultError(f"column {column!r} of {table} is {ours[fold(column)]}, not {kind}")
    if differing := sorted(set(ours) ^ {fold(column) for column in given}):
        raise VaultError(
            f"table {table} and the rows differ in their columns: {', '.join(differing)}"
        )


def _check_list(what: str, names: Sequence[str]) -> None:
    if isinstance(names, str) or not names:
        raise VaultError(f"{what} must be a list of at least one name")
    if len({fold(name) for name in names}) < len(names):
        raise VaultError(f"{what} contains a name twice")


def _check_name(what: str, name: str) -> None:
    if not _SAFE_NAME.fullmatch(name):
        raise VaultError(
            f"{what} {name!r} must be a name of up to 63 letters a-z, digits and _, not beginning"
            " with a digit"
        )
    if fold(name) in _TAKEN_NAMES or fold(name).startswith(TAKEN_PREFIXES):
        raise VaultError(f"{what} {name!r} has a name that SQLite or the vault keeps for itself")
