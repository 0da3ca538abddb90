"""SQLite files of a proxy: made with mode 0600, known by an application id, their schema checked before anything is read."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from deniable.errors import LogError, ParameterError
from deniable.service import row_checks

__all__ = [
    "Layout",
    "copy_database",
    "free_bytes",
    "keep_copy",
    "keep_files_private",
    "keep_private",
    "lock",
    "one_line",
    "storage_reason",
    "usable_storage",
]

_NO_ROOM = 64 << 10
"""Free bytes below which a disk that refuses to write is full, whatever it calls the reason."""


@dataclass(frozen=True)
class Layout:
    """What a file of one kind looks like."""

    what: str
    application_id: int
    version: int
    schema: str
    """The statements that make it."""
    upgrades: Mapping[int, str] = field(default_factory=dict)
    """From each earlier version to the next."""
    unguarded: tuple[str, ...] = ()
    """Tables whose rows have no check sum (:mod:`.row_checks`): what stands in them has checks of its own."""

    def connect(self, path: Path, read_only: bool = False) -> sqlite3.Connection:
        """A connection without transactions of its own: the caller says BEGIN. Makes the file, unless it is only to be read.

        Refused: a file of another kind, and one that a newer version of the library has written.
        """
        if not read_only:
            _make_private(path)
        mode = "ro" if read_only else "rw"
        try:
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, timeout=30, check_same_thread=False
            )
        except sqlite3.OperationalError as error:
            raise LogError(f"{path} cannot be opened: {error}") from None
        try:
            found = self._written_version(connection, path)
            if found == 0:
                if read_only:
                    raise LogError(f"{path} is not written yet")
                self._make(connection)
            elif found < self.version and not read_only:
                self._upgrade(connection, path)
            if not read_only:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA secure_delete = ON")
            self._check_rows(connection, path, read_only)
        except sqlite3.OperationalError as error:
            connection.close()
            raise LogError(f"{path} cannot be written: {storage_reason(path, error)}") from None
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_rows(self, connection: sqlite3.Connection, path: Path, read_only: bool) -> None:
        row_checks.prepare(connection)
        try:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'row_checks'").fetchone():
                if read_only:
                    return  # of a file from before there were sums
                connection.execute("BEGIN IMMEDIATE")
                row_checks.guard(connection, set(re.findall(r"CREATE TABLE (\w+)", self.schema)) - set(self.unguarded))
                connection.execute("COMMIT")
            table = row_checks.damaged(connection)
        except sqlite3.OperationalError:  # a disk that is full or away
            raise
        except (sqlite3.DatabaseError, UnicodeError) as error:
            raise LogError(f"{path} is damaged: {one_line(error)}") from None
        if table is not None:
            raise LogError(f"{path} is damaged: the rows of {table} do not fit their check sum. Restore the file from a backup")

    def _written_version(self, connection: sqlite3.Connection, path: Path) -> int:
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except (sqlite3.DatabaseError, TypeError, UnicodeError) as error:  # of a damaged file even SQLite's words may be no text
            raise LogError(f"{path} is not {self.what}: {one_line(error)}") from None
        if application != self.application_id and (application or n_tables):
            raise LogError(f"{path} is not {self.what}: its application id is {application:#x}")
        if version > self.version:
            raise LogError(f"{path} has schema {version}, and this library knows up to {self.version}: it is of a newer one")
        return int(version)

    def _upgrade(self, connection: sqlite3.Connection, path: Path) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = self._written_version(connection, path)  # another process may have been quicker
            if found < self.version:
                keep_copy(path, found)
            row_checks.prepare(connection)
            row_checks.unguard(connection)
            for version in range(found, self.version):
                for statement in self.upgrades[version].strip().split(";\n"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {self.version}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _make(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA page_size = 16384")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA application_id = {self.application_id}")
        connection.executescript(f"BEGIN IMMEDIATE; {self.schema} PRAGMA user_version = {self.version}; COMMIT;")


def lock(path: Path) -> sqlite3.Connection:
    """Keep others from using what stands beside a file, until the connection is closed or the process ends, however it does."""
    _make_private(path)
    connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise LogError(f"{path.parent} is in use by another proxy") from None
        raise LogError(f"{path} cannot be written: {storage_reason(path, error)}") from None
    return connection


@contextmanager
def usable_storage(name: str, path: Path) -> Iterator[None]:
    """What is made inside needs the files at a path, which a setting names: if the disk refuses, that setting is at fault."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise ParameterError(name, str(path), f"cannot be used: {storage_reason(path, error)}") from None


def storage_reason(path: Path, error: OSError | sqlite3.Error) -> str:
    """Why the disk did not take something, in words that say what to do about it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT) or code == sqlite3.SQLITE_FULL or free_bytes(path) < _NO_ROOM:
        return "the disk is full"
    if number == errno.EROFS or code == sqlite3.SQLITE_READONLY:
        return "it is read-only"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def free_bytes(path: Path) -> int:
    """Bytes that can still be written where a file is, or would be made."""
    for each in (path, *path.absolute().parents):
        with suppress(OSError):
            return shutil.disk_usage(each).free
    return 0


def copy_database(source: Path, target: Path) -> None:
    """Copy an SQLite file as it is at one moment, whoever writes to it meanwhile. The copy has mode 0600 and is on the disk."""
    half = target.with_name(f"{target.name}.new")
    half.unlink(missing_ok=True)
    _make_private(half)
    address = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=30)) as reader, closing(sqlite3.connect(half)) as writer:
        reader.backup(writer)
        writer.execute("PRAGMA journal_mode = DELETE")  # one file: nothing of it stands beside it
    with half.open("rb") as file:
        os.fsync(file.fileno())
    half.rename(target)


def keep_copy(path: Path, version: int) -> Path:
    """Copy a file beside itself before it is brought up to date, for the way back; a copy that is there already stays."""
    target = path.with_name(f"{path.name}.schema-{version}")
    if not target.exists():
        copy_database(path, target)
    return target


def one_line(error: Exception) -> str:
    """SQLite's words about a damaged file, which may quote a schema of many lines, as one line of a bearable length."""
    return " ".join(str(error).split())[:200]


def keep_files_private() -> None:
    """Let all files that this process, and those it starts, make from now on be their owner's alone: they hold shares."""
    os.umask(0o077)


def keep_private(path: Path) -> None:
    """Have a file of SQLite, and what it keeps beside that, be its owner's alone, as far as they are ours to change."""
    for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with suppress(OSError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def _make_private(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        keep_private(path)
    except OSError as error:
        raise LogError(f"{path} cannot be created: {storage_reason(path, error)}") from None
