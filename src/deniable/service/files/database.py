"""SQLite files on the disk: private modes, locks, consistent copies, and why a disk refuses."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from deniable.errors import LogError, LogInUseError, ParameterError

__all__ = [
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
"""A disk that refuses a write with less than this many bytes free counts as full, whatever reason
it gives."""


def lock(path: Path) -> sqlite3.Connection:
    """Lock the folder of a file against other processes until the connection is closed or the
    process ends, for any reason."""
    _make_private(path)
    connection = sqlite3.connect(path, isolation_level=None, timeout=0, check_same_thread=False)
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise LogInUseError(f"{path.parent} is in use by another proxy") from None
        raise LogError(f"{path} cannot be written: {storage_reason(path, error)}") from None
    return connection


@contextmanager
def usable_storage(name: str, path: Path) -> Iterator[None]:
    """A context that uses the files at a path named by a setting: if the disk refuses, the error
    names that setting."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise ParameterError(
            name, str(path), f"cannot be used: {storage_reason(path, error)}"
        ) from None


def storage_reason(path: Path, error: OSError | sqlite3.Error) -> str:
    """Why the disk refused a write, in words an operator can act on."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    number = getattr(error, "errno", None)
    if (
        number in (errno.ENOSPC, errno.EDQUOT)
        or code == sqlite3.SQLITE_FULL
        or free_bytes(path) < _NO_ROOM
    ):
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
    """Copy a consistent snapshot of an SQLite file, even while it is written. The copy has mode
    0600 and is on the disk."""
    half = target.with_name(f"{target.name}.new")
    half.unlink(missing_ok=True)
    _make_private(half)
    address = f"{source.absolute().as_uri()}?mode=ro"
    with (
        closing(sqlite3.connect(address, uri=True, timeout=30)) as reader,
        closing(sqlite3.connect(half)) as writer,
    ):
        reader.backup(writer)
        writer.execute("PRAGMA journal_mode = DELETE")  # a single file, with no WAL next to it
    with half.open("rb") as file:
        os.fsync(file.fileno())
    half.rename(target)


def keep_copy(path: Path, version: int) -> Path:
    """Copy a file next to itself before an upgrade, to allow a rollback; an existing copy is
    kept."""
    target = path.with_name(f"{path.name}.schema-{version}")
    if not target.exists():
        copy_database(path, target)
    return target


def one_line(error: Exception) -> str:
    """SQLite's message about a damaged file, which may quote a long schema, as one line of limited
    length."""
    return " ".join(str(error).split())[:200]


def keep_files_private() -> None:
    """Make all files that this process and its children create from now on private to their owner,
    because they hold shares."""
    os.umask(0o077)


def keep_private(path: Path) -> None:
    """Make an SQLite file, and SQLite's files next to it, private to their owner, as far as we may
    change them."""
    for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
        with suppress(OSError):
            if each.stat().st_mode & 0o077:
                each.chmod(0o600)


def make_private(path: Path) -> None:
    """Create an SQLite file that is private to its owner, or make an existing one private; OSError
    if it cannot be created.

    An existing file is not opened: closing it would drop the locks of this process's other
    connections to it (fcntl(2)), and a command that ends meanwhile would take itself for the last
    user and delete the write-ahead log that those still read.
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
