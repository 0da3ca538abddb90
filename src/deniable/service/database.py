"""A proxy's SQLite files: mode 0600, identified by an application id, with the schema checked before anything is read."""

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
    "make_private",
    "one_line",
    "storage_reason",
    "usable_storage",
]

_NO_ROOM = 64 << 10
"""A disk that refuses a write with less than this many bytes free counts as full, whatever reason it gives."""


@dataclass(frozen=True)
class Layout:
    """The layout of one kind of file."""

    what: str
    application_id: int
    version: int
    schema: str
    """The statements that create it."""
    upgrades: Mapping[int, str] = field(default_factory=dict)
    """The statements that upgrade each earlier version to the next."""
    unguarded: tuple[str, ...] = ()
    """Tables without row checksums (:mod:`.row_checks`), because their contents have their own checks."""

    def connect(self, path: Path, read_only: bool = False) -> sqlite3.Connection:
        """A connection in autocommit mode: the caller says BEGIN. Creates the file, unless `read_only`.

        Refuses a file of another kind, or one written by a newer version of the library.
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
                    return  # a file from before checksums existed
                connection.execute("BEGIN IMMEDIATE")
                row_checks.guard(connection, set(re.findall(r"CREATE TABLE (\w+)", self.schema)) - set(self.unguarded))
                connection.execute("COMMIT")
            table = row_checks.damaged(connection)
        except sqlite3.OperationalError:  # the disk is full or unavailable
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
        except (
            sqlite3.DatabaseError,
            TypeError,
            UnicodeError,
        ) as error:  # for a damaged file, even SQLite's message may not be valid text
            raise LogError(f"{path} is not {self.what}: {one_line(error)}") from None
        if application != self.application_id and (application or n_tables):
            raise LogError(f"{path} is not {self.what}: its application id is {application:#x}")
        if version > self.version:
            raise LogError(f"{path} has schema {version}, and this library knows up to {self.version}: it is of a newer one")
        return int(version)

    def _upgrade(self, connection: sqlite3.Connection, path: Path) -> None:
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = self._written_version(connection, path)  # another process may have been faster
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
    """Lock the folder of a file against other processes until the connection is closed or the process ends, for any reason."""
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
    """A context that uses the files at a path named by a setting: if the disk refuses, the error names that setting."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise ParameterError(name, str(path), f"cannot be used: {storage_reason(path, error)}") from None


def storage_reason(path: Path, error: OSError | sqlite3.Error) -> str:
    """Why the disk refused a write, in words an operator can act on."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT) or code == sqlite3.SQLITE_FULL or free_bytes(path) < _NO_ROOM:
        return "the disk is full"
    if number == errno.EROFS or code == sqlite3.SQLITE_READONLY:
        return "it is read-only"
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def free_bytes(path: Path) -> int:
    """Free bytes on the disk where a file is, or would be created."""
    for each in (path, *path.absolute().parents):
        with suppress(OSError):
            return shutil.disk_usage(each).free
    return 0


def copy_database(source: Path, target: Path) -> None:
    """Copy a consistent snapshot of an SQLite file, even while it is written. The copy has mode 0600 and is on the disk."""
    half = target.with_name(f"{target.name}.new")
    half.unlink(missing_ok=True)
    _make_private(half)
    address = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=30)) as reader, closing(sqlite3.connect(half)) as writer:
        reader.backup(writer)
        writer.execute("PRAGMA journal_mode = DELETE")  # a single file, with no WAL next to it
    with half.open("rb") as file:
        os.fsync(file.fileno())
    half.rename(target)


def keep_copy(path: Path, version: int) -> Path:
    """Copy a file next to itself before an upgrade, to allow a rollback; an existing copy is kept."""
    target = path.with_name(f"{path.name}.schema-{version}")
    if not target.exists():
        copy_database(path, target)
    return target


def one_line(error: Exception) -> str:
    """SQLite's message about a damaged file, which may quote a long schema, as one line of limited length."""
    return " ".join(str(error).split())[:200]


def keep_files_private() -> None:
    """Make all files that this process and its children create from now on private to their owner, because they hold shares."""
    os.umask(0o077)


def keep_private(path: Path) -> None:
    """Make an SQLite file, and SQLite's files next to it, private to their owner, as far as we may change them."""
    for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with suppress(OSError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def make_private(path: Path) -> None:
    """Create an SQLite file that is private to its owner, or make an existing one private; OSError if it cannot be created.

    An existing file is not opened: closing it would drop the locks of this process's other connections to it (fcntl(2)), and
    a command that ends meanwhile would take itself for the last user and delete the write-ahead log that those still read.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        keep_private(path)


def _make_private(path: Path) -> None:
    try:
        make_private(path)
    except OSError as error:
        raise LogError(f"{path} cannot be created: {storage_reason(path, error)}") from None
