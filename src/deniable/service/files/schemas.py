"""Kinds of SQLite files: what a file of each kind has in it, and how one is opened.

Each kind has one module, named `schema` or in a folder `schemas`, with the statements that create a
file of the current version and a numbered migration for every earlier one. No table of a file is
created anywhere else.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from deniable.errors import DeniableError, LogError
from deniable.service.files import row_checks
from deniable.service.files.database import keep_copy, make_private, one_line, storage_reason

__all__ = ["FileSchema", "transaction"]

_CREATED = re.compile(r"CREATE TABLE (\w+)")
_SECONDS = 30.0
"""How long another process may hold a file."""


@dataclass(frozen=True)
class FileSchema:
    """One kind of SQLite file.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> kind = FileSchema("a list of towns", 0x64_6E_78_78, "CREATE TABLE towns (name TEXT);")
    >>> connection = kind.connect(Path(folder.name) / "towns.db")
    >>> kind.version, kind.tables, kind.version_of(connection, Path("towns.db"))
    (1, ('towns',), 1)
    >>> connection.close(), folder.cleanup()
    (None, None)
    """

    what: str
    """What a file of this kind is called in messages."""
    application_id: int
    """Four letters in the file's header that tell the kind."""
    script: str
    """The statements that create a file of the current version."""
    migrations: Mapping[int, str] = field(default_factory=dict)
    """By number: the statements that bring a file of the version before to that version."""
    unguarded: tuple[str, ...] = ()
    """Tables without row checksums (:mod:`.row_checks`), because their contents have checks of
    their own."""
    guarded: bool = True
    """False for a file to which programs other than ours write."""
    error: type[DeniableError] = LogError
    """What is raised for a file that cannot be used."""
    keeps_copy: bool = True
    """Whether a copy of the file is kept before a migration, to allow a rollback."""
    damaged_error: type[DeniableError] | None = None
    """What a file that is damaged, or of another kind, is refused with, if not with `error`."""
    secure_delete: bool = True
    """Whether what is deleted is overwritten."""
    earlier_version: Callable[[sqlite3.Connection], int | None] | None = None
    """Reads the version of a file from before it had an application id; None if it is not of this
    kind."""

    @cached_property
    def version(self) -> int:
        """The current version: the number of the last migration."""
        return max(self.migrations, default=1)

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(_CREATED.findall(self.script))

    @cached_property
    def _checked(self) -> tuple[str, ...]:
        return tuple(name for name in self.tables if name not in self.unguarded)

    def connect(
        self, path: Path, *, read_only: bool = False, check: bool = True
    ) -> sqlite3.Connection:
        """A connection in autocommit mode: the caller says BEGIN.

        Creates the file with mode 0600, or migrates it, unless `read_only`. Refuses a file of
        another kind or of a newer release and, with `check`, one whose rows are not those that
        were written.
        """
        connection: sqlite3.Connection | None = None
        try:
            if not read_only:
                make_private(path)
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}",
                uri=True,
                isolation_level=None,
                timeout=_SECONDS,
                check_same_thread=False,
            )
            self._settle(connection, path, read_only)
            if check:
                self.check_rows(connection, path)
        except BaseException as error:
            if connection is not None:
                connection.close()
            # in a damaged file, even SQLite's message may not be valid text
            if not isinstance(error, OSError | sqlite3.Error | TypeError | UnicodeError):
                raise
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_NOTADB:
                raise (self.damaged_error or self.error)(f"{path} is not {self.what}") from None
            reason = (
                storage_reason(path, error)
                if isinstance(error, OSError | sqlite3.OperationalError)
                else one_line(error)
            )
            raise self.error(f"{path} cannot be used as {self.what}: {reason}") from None
        return connection

    def _settle(self, connection: sqlite3.Connection, path: Path, read_only: bool) -> None:
        row_checks.prepare(connection)
        found = self.version_of(connection, path)
        if read_only:
            if found == 0:
                raise self.error(f"{path} is not written yet")
            return
        if found == 0:
            connection.execute("PRAGMA page_size = 16384")  # blobs of about 100 KB are usual
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # what is finished survives a power cut
        if self.secure_delete:
            connection.execute("PRAGMA secure_delete = ON")
        if found < self.version or not self._is_guarded(connection):
            with transaction(connection):
                self.bring_up_to_date(connection, path)

    def version_of(self, connection: sqlite3.Connection, path: Path) -> int:
        """The version of a file, 0 if nothing was written yet. Refuses a file of another kind or
        of a newer release."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != self.application_id:
            (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if application or n_tables or version:
                earlier = None
                if not application and self.earlier_version is not None:
                    earlier = self.earlier_version(connection)
                if earlier is None:
                    raise (self.damaged_error or self.error)(f"{path} is not {self.what}")
                version = earlier
        if version > self.version:
            raise self.error(
                f"{path} was written by a newer release (schema {version}; this release reads up"
                f" to {self.version})"
            )
        return int(version)

    def bring_up_to_date(self, connection: sqlite3.Connection, path: Path) -> int:
        """Create or migrate the tables, inside the caller's transaction: all of it or nothing is
        done. Returns the version that was found, 0 for a new file."""
        found = self.version_of(connection, path)  # another process may have been faster
        if found < self.version:
            if found and self.keeps_copy:
                keep_copy(path, found)
            row_checks.unguard(connection)
            steps = range(found + 1, self.version + 1) if found else ()
            for script in [self.migrations[number] for number in steps] or [self.script]:
                for statement in _statements(script):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self.application_id}")
            connection.execute(f"PRAGMA user_version = {self.version}")
        elif self._is_guarded(connection):
            return found
        if self.guarded:
            row_checks.guard(connection, self._checked)
        return found

    def _is_guarded(self, connection: sqlite3.Connection) -> bool:
        """False for a file from before there were checksums."""
        return not self.guarded or row_checks.has_sums(connection)

    def check_rows(
        self, connection: sqlite3.Connection, path: Path, tables: Iterable[str] | None = None
    ) -> None:
        """Refuse a file whose rows are not those that were written."""
        if not self.guarded or not self._is_guarded(connection):
            return
        table = row_checks.damaged(connection, tables)
        if table is not None:
            raise (self.damaged_error or self.error)(
                f"{path} is damaged: the rows of {table} do not fit their check sum. Restore the"
                " file from a backup"
            )


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything done with the connection in the body, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite undoes some failures, such as a full disk, itself
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


@cache
def _statements(script: str) -> tuple[str, ...]:
    """The statements of a script, each as SQLite takes it."""
    found, rest = [], ""
    for line in script.strip().splitlines():
        rest += f"{line}\n"
        if sqlite3.complete_statement(rest):
            found.append(rest.strip())
            rest = ""
    if rest.strip():
        raise ValueError(f"the script does not end with a semicolon: {rest!r}")
    return tuple(found)
