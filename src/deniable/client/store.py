"""The device's memory: ledger, permanent answers, epochs, versions seen, outgoing shares, receipts and counters.

One SQLite file beside the vault, of mode 0600. Whatever belongs together changes in one transaction, so that a device that is
killed at any moment wakes up with all of it or with none. The file holds no true answer: permanent answers are randomized, and
they are found again by a hash of the true answer under a secret of this device.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.client.receipts import Receipt
from deniable.errors import StoreError
from deniable.privacy.ledger import Accountant, Limit, PrivacyEvent
from deniable.queries.signing import Seen

__all__ = ["QueuedShare", "Store", "StoreTransaction"]

SCHEMA_VERSION = 1
APPLICATION_ID = 0x646E7663  # "dnvc"
MOST_RECEIPTS = 10_000
_PATIENCE = 30.0  # seconds another process of the same device may hold the file
_SCHEMA = """
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE versions (analyst TEXT, query TEXT, serial INTEGER NOT NULL, digest BLOB NOT NULL, signed BLOB NOT NULL,
                       PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE epochs (analyst TEXT, query TEXT, epoch INTEGER NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE spent (analyst TEXT, query TEXT, epsilon TEXT NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE charges (time INTEGER NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL, epsilon TEXT NOT NULL);
CREATE INDEX charges_by_time ON charges (time);
CREATE TABLE memo (place INTEGER PRIMARY KEY, scope BLOB NOT NULL, answer BLOB NOT NULL UNIQUE, permanent BLOB NOT NULL);
CREATE INDEX memo_by_scope ON memo (scope);
CREATE TABLE queue (place INTEGER PRIMARY KEY AUTOINCREMENT, proxy TEXT NOT NULL, due INTEGER NOT NULL,
                    expires INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX queue_by_proxy ON queue (proxy, due);
CREATE TABLE proxies (proxy TEXT PRIMARY KEY, failures INTEGER NOT NULL, retry_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE receipts (place INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, outcome TEXT NOT NULL,
                       reason TEXT NOT NULL, detail TEXT NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL,
                       serial INTEGER NOT NULL, question TEXT NOT NULL, epoch INTEGER, epsilon TEXT NOT NULL, left TEXT,
                       verified INTEGER NOT NULL, first INTEGER NOT NULL, times INTEGER NOT NULL);
CREATE INDEX receipts_by_query ON receipts (analyst, query);
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
"""


@dataclass(frozen=True, repr=False)
class QueuedShare:
    """A share that waits for its proxy."""

    place: int
    record: bytes

    def __repr__(self) -> str:
        return f"<queued share {self.place}>"


@dataclass(frozen=True)
class Store:
    """The file of one device. Nothing is opened until a transaction begins, and nothing stays open after it.

    `durable=False` leaves out the waiting for the disk: a killed process still loses nothing, a power failure may.
    """

    path: Path
    durable: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path).absolute())

    @contextmanager
    def transaction(self) -> Iterator[StoreTransaction]:
        """All that is done with the book is kept, or on any error undone. Only one process at a time has it."""
        try:
            connection = self._connect()
            try:
                connection.execute("BEGIN IMMEDIATE")
                self._settle(connection)
                yield StoreTransaction(connection)
                connection.execute("COMMIT")
            finally:
                connection.close()
        except sqlite3.Error as error:  # its words may quote what is stored; its code says enough
            raise StoreError(f"{self.path} cannot be used: {getattr(error, 'sqlite_errorname', type(error).__name__)}") from None

    def _connect(self) -> sqlite3.Connection:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            mode = os.fstat(handle).st_mode
            os.close(handle)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error.strerror}") from None
        if os.name == "posix" and mode & 0o077:
            raise StoreError(f"{self.path} has mode {mode & 0o777:04o}: others can open it; set 0600")
        connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        connection.execute(f"PRAGMA synchronous = {'FULL' if self.durable else 'OFF'}")
        connection.execute("PRAGMA secure_delete = ON")
        return connection

    def _settle(self, connection: sqlite3.Connection) -> None:
        """Make the tables of a new file; refuse one of somebody else, or of another version."""
        application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if application == APPLICATION_ID and version == SCHEMA_VERSION:
            return
        if application == APPLICATION_ID:
            raise StoreError(f"{self.path} has schema version {version}; this program knows version {SCHEMA_VERSION} only")
        if application or version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise StoreError(f"{self.path} is not the store of a device")
        for statement in _SCHEMA.split(";\n"):
            connection.execute(statement)
        connection.execute("INSERT INTO secret VALUES (?)", (os.urandom(32),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


class StoreTransaction:
    """What can be read and written in one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    # --- versions and epochs ----------------------------------------------------------------------------------------

    def seen(self) -> dict[tuple[str, str], Seen]:
        """The newest version accepted of each query."""
        rows = self._db.execute("SELECT analyst, query, serial, digest FROM versions")
        return {(analyst, query): Seen(serial, digest) for analyst, query, serial, digest in rows}

    def signed_queries(self) -> list[bytes]:
        """The queries accepted so far, as they came: what a device without a network goes on answering."""
        return [row[0] for row in self._db.execute("SELECT signed FROM versions ORDER BY analyst, query")]

    def accept(self, analyst: str, query: str, seen: Seen, signed: bytes) -> None:
        """Note a verified version, so that no older one is accepted again."""
        row = (analyst, query, seen.serial, seen.digest, signed)
        self._db.execute("INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?)", row)

    def last_epoch(self, analyst: str, query: str) -> int:
        """The newest epoch that was decided, whatever its version; -1 if none. A clock set back opens none again."""
        row = self._db.execute("SELECT epoch FROM epochs WHERE analyst = ? AND query = ?", (analyst, query)).fetchone()
        return -1 if row is None else int(row[0])

    def decide(self, analyst: str, query: str, epoch: int) -> None:
        """Note that this epoch is decided: answered, or its coin said no."""
        self._db.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)", (analyst, query, epoch))

    # --- the ledger -------------------------------------------------------------------------------------------------

    def accountant(self, limits: Iterable[Limit], now: int) -> Accountant:
        """The accountant that knows all that was spent, and when, as far as these limits look back from `now`."""
        limits = tuple(limits)
        spent: dict[str, Fraction] = {}
        drawn = []
        for analyst, query, epsilon in self._db.execute("SELECT analyst, query, epsilon FROM spent"):
            spent[analyst] = spent.get(analyst, Fraction()) + Fraction(epsilon)
            drawn.append([analyst, query])
        since = now - max((limit.period or 0 for limit in limits), default=0)
        history = self._db.execute("SELECT time, analyst, epsilon FROM charges WHERE time > ? ORDER BY time", (since,))
        state = {
            "version": 1,
            "spent": {analyst: str(loss) for analyst, loss in spent.items()},
            "drawn": drawn,
            "history": [list(row) for row in history],
        }
        return Accountant.from_dict(limits, state)

    def spent_on(self, analyst: str, query: str) -> Fraction:
        """What one query has cost so far, over all its versions."""
        row = self._db.execute("SELECT epsilon FROM spent WHERE analyst = ? AND query = ?", (analyst, query)).fetchone()
        return Fraction(row[0]) if row else Fraction()

    def charge(self, event: PrivacyEvent) -> None:
        """Write down an event that the accountant has allowed."""
        total = self.spent_on(event.analyst, event.query) + event.cost
        self._db.execute("INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", (event.analyst, event.query, str(total)))
        self._db.execute("INSERT INTO charges VALUES (?, ?, ?, ?)", (event.time, event.analyst, event.query, str(event.cost)))

    # --- permanent answers ------------------------------------------------------------------------------------------

    def answer_key(self, scope: bytes, index: int) -> bytes:
        """The name under which the permanent answer of a true answer is kept: a keyed hash, never the answer."""
        secret = self._db.execute("SELECT key FROM secret").fetchone()[0]
        return hashlib.blake2b(scope + index.to_bytes(8, "little", signed=True), digest_size=32, key=secret).digest()

    def permanent(self, key: bytes) -> bytes | None:
        """The permanent answer kept under this name."""
        row = self._db.execute("SELECT permanent FROM memo WHERE answer = ?", (key,)).fetchone()
        return None if row is None else bytes(row[0])

    def oldest_permanent(self, scope: bytes) -> bytes | None:
        """The first permanent answer that was drawn for a question."""
        row = self._db.execute("SELECT permanent FROM memo WHERE scope = ? ORDER BY place LIMIT 1", (scope,)).fetchone()
        return None if row is None else bytes(row[0])

    def keep_permanent(self, scope: bytes, key: bytes, permanent: bytes) -> None:
        """Keep a permanent answer for good."""
        self._db.execute("INSERT INTO memo (scope, answer, permanent) VALUES (?, ?, ?)", (scope, key, permanent))

    # --- outgoing shares --------------------------------------------------------------------------------------------

    def enqueue(self, proxy: str, record: bytes, due: int, expires: int) -> None:
        """Let a share wait for its proxy from `due` on, and be given up at `expires`."""
        self._db.execute("INSERT INTO queue (proxy, due, expires, record) VALUES (?, ?, ?, ?)", (proxy, due, expires, record))

    def n_queued(self, proxy: str | None = None) -> int:
        """How many shares wait, for one proxy or for all."""
        row = self._db.execute("SELECT count(*) FROM queue WHERE proxy = coalesce(?, proxy)", (proxy,)).fetchone()
        return int(row[0])

    def waiting_proxies(self, now: int) -> list[str]:
        """The proxies for which shares are due, and which are not being left alone after a failure."""
        sql = (
            "SELECT DISTINCT proxy FROM queue WHERE due <= ? AND proxy NOT IN"
            " (SELECT proxy FROM proxies WHERE retry_at > ?) ORDER BY proxy"
        )
        return [row[0] for row in self._db.execute(sql, (now, now))]

    def due_shares(self, proxy: str, now: int, most: int) -> list[QueuedShare]:
        """The next shares of one proxy that are due, all of one length: one upload has one size class."""
        where = "FROM queue WHERE proxy = ? AND due <= ?"
        rows = self._db.execute(
            f"SELECT place, record {where} AND length(record) = (SELECT length(record) {where} ORDER BY due, place LIMIT 1)"
            " ORDER BY due, place LIMIT ?",
            (proxy, now, proxy, now, most),
        )
        return [QueuedShare(place, record) for place, record in rows]

    def schedule(self) -> list[tuple[str, int, int]]:
        """Proxy, due time and length of each waiting share, in the order of their writing: all that shows outside."""
        return list(self._db.execute("SELECT proxy, due, length(record) FROM queue ORDER BY place"))

    def remove(self, shares: Iterable[QueuedShare]) -> None:
        """Forget shares that their proxy has, or will never have."""
        self._db.executemany("DELETE FROM queue WHERE place = ?", [(share.place,) for share in shares])

    def postpone(self, shares: Iterable[QueuedShare], due: int) -> None:
        """Let shares wait for longer."""
        self._db.executemany("UPDATE queue SET due = ? WHERE place = ?", [(due, share.place) for share in shares])

    def drop_expired(self, now: int) -> int:
        """Give up the shares that nobody would count any more, and count them."""
        n = self._db.execute("DELETE FROM queue WHERE expires <= ?", (now,)).rowcount
        self.count("shares dropped: too old", n)
        return n

    def failures(self, proxy: str) -> int:
        """How many times in a row a proxy did not take shares."""
        row = self._db.execute("SELECT failures FROM proxies WHERE proxy = ?", (proxy,)).fetchone()
        return 0 if row is None else int(row[0])

    def failed(self, proxy: str, retry_at: int) -> None:
        """Leave a proxy alone until `retry_at`."""
        self._db.execute("INSERT OR REPLACE INTO proxies VALUES (?, ?, ?)", (proxy, self.failures(proxy) + 1, retry_at))

    def reached(self, proxy: str) -> None:
        """Forget a proxy's failures."""
        self._db.execute("DELETE FROM proxies WHERE proxy = ?", (proxy,))

    # --- receipts and counters --------------------------------------------------------------------------------------

    def write(self, receipt: Receipt) -> None:
        """Keep a receipt. The same refusal of the same version, again and again, is one receipt that counts."""
        if receipt.outcome == "refused":
            last = self._db.execute(
                "SELECT place, outcome, reason, serial FROM receipts WHERE analyst = ? AND query = ? ORDER BY place DESC LIMIT 1",
                (receipt.analyst, receipt.query),
            ).fetchone()
            if last is not None and last[1:] == ("refused", receipt.reason, receipt.serial):
                sql = "UPDATE receipts SET time = ?, detail = ?, epoch = ?, left = ?, times = times + 1 WHERE place = ?"
                self._db.execute(sql, (receipt.time, receipt.detail, receipt.epoch, _text(receipt.left), last[0]))
                return
        row = (
            *(receipt.time, receipt.outcome, receipt.reason, receipt.detail, receipt.analyst, receipt.query, receipt.serial),
            *(receipt.question, receipt.epoch, str(receipt.epsilon), _text(receipt.left), receipt.verified),
            *(receipt.time, 1),
        )
        place = self._db.execute(f"INSERT INTO receipts VALUES (NULL, {', '.join('?' * len(row))})", row).lastrowid  # noqa: S608
        self._db.execute("DELETE FROM receipts WHERE place <= ?", ((place or 0) - MOST_RECEIPTS,))

    def receipts(self, last: int | None = None) -> list[Receipt]:
        """The receipts, the oldest first; only the `last` ones if that is given."""
        names = "time, outcome, reason, detail, analyst, query, serial, question, epoch, epsilon, left, verified, first, times"
        rows = self._db.execute(f"SELECT {names} FROM receipts ORDER BY place DESC LIMIT ?", (-1 if last is None else last,))  # noqa: S608
        found = []
        for row in rows:
            given = dict(zip(names.split(", "), row, strict=True))
            given["epsilon"], given["verified"] = Fraction(given["epsilon"]), bool(given["verified"])
            given["left"] = None if given["left"] is None else Fraction(given["left"])
            found.append(Receipt(**given))
        return found[::-1]

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        if n:
            sql = "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = n + excluded.n"
            self._db.execute(sql, (name, n))

    def counters(self) -> Mapping[str, int]:
        """All counters, by name."""
        return dict(self._db.execute("SELECT name, n FROM counters ORDER BY name"))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
