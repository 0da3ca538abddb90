"""The device's state: ledger, permanent answers, epochs, query versions, outgoing shares, receipts,
counters, granted names.

One SQLite file next to the vault, with mode 0600. Whatever belongs together changes in one
transaction, so a device that is killed at any moment restarts with all of it or none. The file
contains no true answer: permanent answers are randomized, and are looked up by a hash of the true
answer keyed with a secret of this device.

Each change is counted. If the store's witness (:mod:`.witness`) has counted more changes, the store
was restored from an older copy and is not used.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from deniable.client.storage.charges import Charges
from deniable.client.storage.journal import Journal
from deniable.client.storage.outbox import Outbox
from deniable.client.storage.schema import CHECKED_TABLES, STORE
from deniable.client.storage.seats import Seats
from deniable.client.storage.versions import KnownVersions
from deniable.client.witness import Witness
from deniable.errors import StoreError
from deniable.service.files import row_checks
from deniable.sql.guard import Shape

__all__ = ["Store", "StoreTransaction"]

_PATIENCE = 30.0  # seconds another process of the same device may hold the file


@dataclass(frozen=True)
class Store:
    """The store file of one device. Nothing is opened until a transaction begins, and nothing stays
    open after it.

    `durable=False` does not wait for the disk: a killed process still loses nothing, but a power
    failure may. `witness` is a file elsewhere that counts the store's changes.
    """

    path: Path
    durable: bool = True
    witness: Witness | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path).absolute())

    @classmethod
    def beside(cls, vault: Path) -> Store:
        """The store of a vault: `VAULT.client` beside it, with a witness among the user's state
        files."""
        path = vault.with_name(vault.name + ".client")
        return cls(path, witness=Witness.of(path))

    @contextmanager
    def transaction(self) -> Iterator[StoreTransaction]:
        """A transaction: everything done in it is kept, or undone on any error. Only one process at
        a time can hold it."""
        try:
            connection = self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
                if STORE.bring_up_to_date(connection, self.path) == 0:
                    connection.execute("INSERT INTO secret VALUES (?)", (os.urandom(32),))
                STORE.check_rows(connection, self.path, CHECKED_TABLES)
                if self.witness is not None:
                    self.witness.check(self.path, *_counted(connection))
                before = connection.total_changes
                yield StoreTransaction(connection, self.path)
                changed = connection.total_changes > before
                if changed:
                    connection.execute("UPDATE state SET changes = changes + 1")
                counted = _counted(connection)
                connection.execute("COMMIT")
            finally:
                connection.close()
        except (sqlite3.Error, UnicodeError) as error:  # their messages may quote what is stored
            raise StoreError(
                f"{self.path} cannot be used:"
                f" {getattr(error, 'sqlite_errorname', type(error).__name__)}"
            ) from None
        if changed and self.witness is not None:
            self.witness.write(*counted)

    def _connect(self) -> sqlite3.Connection:
        try:
            # an existing file is not opened: closing it would release all locks on it
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            mode = self.path.stat().st_mode
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error.strerror}") from None
        if os.name == "posix" and mode & 0o077:
            raise StoreError(
                f"{self.path} has mode {mode & 0o777:04o}: others can open it; set 0600"
            )
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        try:
            connection.execute(f"PRAGMA synchronous = {'FULL' if self.durable else 'OFF'}")
            connection.execute("PRAGMA secure_delete = ON")
            row_checks.prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _counted(connection: sqlite3.Connection) -> tuple[str, int]:
    """An identifier of the store that reveals nothing, and how many changes it has seen."""
    [(secret, changes)] = connection.execute("SELECT key, changes FROM secret, state")
    return hashlib.blake2b(b"witness", digest_size=16, key=secret).hexdigest(), int(changes)


class StoreTransaction:
    """The reads and writes available in one transaction."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db = connection
        self.versions = KnownVersions(connection, path)
        self.charges = Charges(connection)
        self.seats = Seats(connection)
        self.journal = Journal(connection, path)
        self.outbox = Outbox(connection, self.charges, self.journal)

    def secret(self) -> bytes:
        """The device's secret, which orders rows and names true answers."""
        return bytes(self._db.execute("SELECT key FROM secret").fetchone()[0])

    def granted(self) -> Shape | None:
        """The names that were granted when the vault could last be read; None if it never could."""
        row = self._db.execute("SELECT shape FROM shared").fetchone()
        if row is None:
            return None
        return tuple(
            (table, tuple((name, affinity) for name, affinity in columns))
            for table, columns in json.loads(row[0])
        )

    def keep_granted(self, shape: Shape) -> None:
        """Record what is granted, if it has changed."""
        if shape != self.granted():
            self._db.execute("DELETE FROM shared")
            self._db.execute("INSERT INTO shared VALUES (?)", (json.dumps(shape),))
