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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.client.receipts import Receipt
from deniable.client.storage.records import QueuedShare, Seat
from deniable.client.storage.schema import (
    CHECKED_TABLES,
    EPOCH_ZERO,
    LONG_TABLES,
    STORE,
)
from deniable.client.witness import Witness
from deniable.errors import StoreError
from deniable.privacy.ledger import Accountant, Limit, PrivacyEvent
from deniable.queries.signed.signing import SeenVersion
from deniable.service.files import row_checks
from deniable.service.files.chained_lines import Head
from deniable.sql.guard import Shape

__all__ = ["QueuedShare", "Seat", "Store", "StoreTransaction"]

MOST_RECEIPTS = 10_000
MOST_DECIDED = 1_000
"""How many epochs of a query are kept individually; all earlier ones count as decided."""
LAST_EPOCH = (1 << 62) - 1
"""Later than any: what is decided up to it is decided for good."""
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
        self._db, self._path = connection, path

    # --- versions and epochs

    def seen(self) -> dict[tuple[str, str], SeenVersion]:
        """The newest accepted version of each query."""
        rows = self._db.execute("SELECT analyst, query, serial, digest FROM versions")
        return {
            (analyst, query): SeenVersion(serial, digest) for analyst, query, serial, digest in rows
        }

    def set_revoked(self, proxy: str, keys: Iterable[str]) -> None:
        """Record the keys a proxy reports as revoked, replacing its earlier list."""
        known = {
            key for (key,) in self._db.execute("SELECT key FROM revoked WHERE proxy = ?", (proxy,))
        }
        if known != set(keys):  # otherwise each poll would write to the disk
            self._db.execute("DELETE FROM revoked WHERE proxy = ?", (proxy,))
            self._db.executemany(
                "INSERT INTO revoked VALUES (?, ?)", [(proxy, key) for key in sorted(set(keys))]
            )

    def revoked(self) -> set[str]:
        """The keys that any proxy reports as revoked."""
        return {key for (key,) in self._db.execute("SELECT DISTINCT key FROM revoked")}

    def signed_queries(self) -> list[bytes]:
        """The signed bytes of the queries accepted so far, which a device without a network
        continues to answer."""
        return [
            row[0]
            for row in self._db.execute("SELECT signed FROM versions ORDER BY analyst, query")
        ]

    def accept(
        self, analyst: str, query: str, seen: SeenVersion, signed: bytes, proxies: Sequence[str]
    ) -> None:
        """Record a verified version, so that no older one is accepted again."""
        row = (analyst, query, seen.serial, seen.digest, signed)
        self._db.execute("INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?)", row)
        asked = (analyst, query, seen.serial, seen.digest, json.dumps(list(proxies)))
        self._db.execute("INSERT OR IGNORE INTO asked VALUES (?, ?, ?, ?, ?)", asked)

    def asked(self) -> list[tuple[str, str, int, bytes, tuple[str, ...]]]:
        """Every version ever accepted: analyst, query, serial, digest, proxies."""
        STORE.check_rows(self._db, self._path, LONG_TABLES)
        rows = self._db.execute(
            "SELECT analyst, query, serial, digest, proxies FROM asked ORDER BY analyst, query,"
            " serial"
        )
        return [(*row[:4], tuple(json.loads(row[4]))) for row in rows]

    def feed_head(self, address: str) -> Head | None:
        """How far the public feed at an address extended when it was last compared."""
        row = self._db.execute(
            "SELECT lines, hash FROM feed_heads WHERE address = ?", (address,)
        ).fetchone()
        return None if row is None else Head(*row)

    def keep_feed_head(self, address: str, head: Head) -> None:
        """Record how far a feed extends."""
        self._db.execute("INSERT OR REPLACE INTO feed_heads VALUES (?, ?, ?)", (address, *head))

    def is_decided(self, analyst: str, query: str, epoch: int) -> bool:
        """Whether this epoch was decided, for any version of the query. Setting the clock back does
        not reopen it."""
        names = (analyst, query)
        row = self._db.execute(
            "SELECT epoch FROM epochs WHERE analyst = ? AND query = ?", names
        ).fetchone()
        if row is not None and epoch <= row[0]:
            return True
        found = self._db.execute(
            "SELECT 1 FROM decided WHERE analyst = ? AND query = ? AND epoch = ?", (*names, epoch)
        )
        return found.fetchone() is not None

    def decide(self, analyst: str, query: str, epoch: int) -> None:
        """Record that this epoch is decided: answered, refused, or its coin said no."""
        names = (analyst, query)
        self._db.execute("INSERT OR IGNORE INTO decided VALUES (?, ?, ?)", (*names, epoch))
        old = self._db.execute(
            "SELECT epoch FROM decided WHERE analyst = ? AND query = ? ORDER BY epoch DESC LIMIT 1"
            " OFFSET ?",
            (*names, MOST_DECIDED),
        ).fetchone()
        if old is not None:
            self._db.execute(
                "DELETE FROM decided WHERE analyst = ? AND query = ? AND epoch <= ?",
                (*names, old[0]),
            )
            self._db.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)", (*names, old[0]))

    def decide_all(self, analyst: str, query: str) -> None:
        """Record that every epoch of the query is decided, for all its versions."""
        self._db.execute("DELETE FROM decided WHERE analyst = ? AND query = ?", (analyst, query))
        self._db.execute(
            "INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)", (analyst, query, LAST_EPOCH)
        )

    # --- what is granted

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

    # --- the ledger

    def accountant(
        self, limits: Iterable[Limit], now: int, without: bytes | None = None
    ) -> Accountant:
        """An accountant with everything spent, and when, as far back from `now` as these limits
        look.

        `without` leaves out what is reserved for one memoized question, so that it can be charged
        again as of today.
        """
        limits = tuple(limits)
        spent: dict[str, Fraction] = {}
        for analyst, epsilon in self._db.execute(
            "SELECT analyst, epsilon FROM charges WHERE scope = ?", (without,)
        ):
            spent[analyst] = -Fraction(epsilon)
        drawn = []
        for analyst, query, epsilon in self._db.execute(
            "SELECT analyst, query, epsilon FROM spent"
        ):
            spent[analyst] = spent.get(analyst, Fraction()) + Fraction(epsilon)
            drawn.append([analyst, query])
        since = now - max((limit.period or 0 for limit in limits), default=0)
        sql = (
            "SELECT time, analyst, epsilon FROM charges WHERE time > ? AND (scope IS NULL OR scope"
            " IS NOT ?) ORDER BY time"
        )
        history = self._db.execute(sql, (since, without))
        state = {
            "version": 1,
            "spent": {analyst: str(loss) for analyst, loss in spent.items()},
            "drawn": drawn,
            "history": [list(row) for row in history],
        }
        return Accountant.from_dict(limits, state)

    def spent_on(self, analyst: str, query: str) -> Fraction:
        """What one query has cost so far, over all its versions."""
        row = self._db.execute(
            "SELECT epsilon FROM spent WHERE analyst = ? AND query = ?", (analyst, query)
        ).fetchone()
        return Fraction(row[0]) if row else Fraction()

    def charge(self, event: PrivacyEvent, scope: bytes | None = None) -> int:
        """Record an event the accountant has allowed; returns its row. A reservation for a `scope`
        replaces the previous one."""
        total = self.spent_on(event.analyst, event.query) + event.cost
        if scope is not None:
            total -= self.reserved_cost(scope)
            self._db.execute("DELETE FROM charges WHERE scope = ?", (scope,))
        self._db.execute(
            "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)",
            (event.analyst, event.query, str(total)),
        )
        row = (event.time, event.analyst, event.query, str(event.cost), scope)
        return int(
            self._db.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", row).lastrowid or 0
        )

    def give_back(self, charge: int) -> tuple[str, str, Fraction]:
        """Refund a charge for an answer that never left; returns whose charge it was, and how
        much."""
        [(analyst, query, epsilon)] = self._db.execute(
            "SELECT analyst, query, epsilon FROM charges WHERE rowid = ?", (charge,)
        )
        self._db.execute("DELETE FROM charges WHERE rowid = ?", (charge,))
        total = self.spent_on(analyst, query) - Fraction(epsilon)
        self._db.execute(
            "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)", (analyst, query, str(total))
        )
        return analyst, query, Fraction(epsilon)

    def reserved_cost(self, scope: bytes) -> Fraction:
        """What has been charged for the permanent answers of a memoized question, drawn or not."""
        row = self._db.execute("SELECT epsilon FROM charges WHERE scope = ?", (scope,)).fetchone()
        return Fraction(row[0]) if row else Fraction()

    def reserved(self, scope: bytes) -> dict[int, int]:
        """How many permanent answers each slot of a memoized question has paid for."""
        return dict(
            self._db.execute("SELECT slot, answers FROM reserves WHERE scope = ?", (scope,))
        )

    def reserve(self, scope: bytes, answers: Mapping[int, int]) -> None:
        """Record how many permanent answers each slot has paid for."""
        rows = [(scope, slot, n) for slot, n in answers.items()]
        self._db.executemany("INSERT OR REPLACE INTO reserves VALUES (?, ?, ?)", rows)

    # --- permanent answers

    def secret(self) -> bytes:
        """The device's secret, which orders rows and names true answers."""
        return bytes(self._db.execute("SELECT key FROM secret").fetchone()[0])

    def seats(self, scope: bytes, slots: int) -> list[list[Seat]]:
        """The seats of the first slots of a memoized question, each slot's in the order they were
        added."""
        found: list[list[Seat]] = [[] for _ in range(slots)]
        sql = (
            "SELECT slot, place, answer, permanent, spoke FROM memo WHERE scope = ? AND slot < ?"
            " ORDER BY place"
        )
        for slot, place, name, permanent, spoke in self._db.execute(sql, (scope, slots)):
            found[slot].append(Seat(place, name, permanent, spoke - EPOCH_ZERO))
        return found

    def add_seat(self, scope: bytes, slot: int, name: bytes, permanent: bytes, spoke: int) -> Seat:
        """Add a seat to a slot."""
        sql = "INSERT INTO memo (scope, slot, answer, permanent, spoke) VALUES (?, ?, ?, ?, ?)"
        place = int(
            self._db.execute(sql, (scope, slot, name, permanent, spoke + EPOCH_ZERO)).lastrowid or 0
        )
        return Seat(place, name, permanent, spoke)

    def keep_seats(self, seats: Iterable[Seat]) -> None:
        """Write these seats, all of each, whether or not something has changed."""
        rows = [(seat.name, seat.permanent, seat.spoke + EPOCH_ZERO, seat.place) for seat in seats]
        self._db.executemany(
            "UPDATE memo SET answer = ?, permanent = ?, spoke = ? WHERE place = ?", rows
        )

    # --- outgoing shares

    def set_clock(self, now: int) -> None:
        """Record the time. If the clock was set back, waiting shares and retries move back with it,
        so they do not wait longer."""
        [(last,)] = self._db.execute("SELECT clock FROM state")
        if now < last:
            self._db.execute("UPDATE queue SET due = due - ?", (last - now,))
            self._db.execute("UPDATE proxies SET retry_at = retry_at - ?", (last - now,))
        if now != last:
            self._db.execute("UPDATE state SET clock = ?", (now,))

    def new_answer(self, charge: int, serial: int, question: str, epoch: int, messages: int) -> int:
        """Record an answer whose charge is refunded if it turns out that it never left; returns its
        row."""
        sql = (
            "INSERT INTO answers (charge, serial, question, epoch, messages) VALUES (?, ?, ?, ?, ?)"
        )
        return int(
            self._db.execute(sql, (charge, serial, question, epoch, messages)).lastrowid or 0
        )

    def enqueue(
        self, proxy: str, record: bytes, due: int, expires: int, answer: int | None = None
    ) -> None:
        """Queue a share of an answer for its proxy, to be sent from `due` on and given up at
        `expires`."""
        sql = "INSERT INTO queue (proxy, due, expires, record, answer, tried) VALUES (?,?,?,?,?,0)"
        self._db.execute(sql, (proxy, due, expires, record, answer))

    def mark_tried(self, shares: Iterable[QueuedShare]) -> list[QueuedShare]:
        """Record that shares are about to be sent, and return those never tried before."""
        sql = "UPDATE queue SET tried = 1 WHERE place = ? AND tried = 0"
        return [share for share in shares if self._db.execute(sql, (share.place,)).rowcount]

    def mark_untried(self, shares: Iterable[QueuedShare]) -> None:
        """Record that the first attempt to send shares made no connection: no byte of them left."""
        places = [(share.place,) for share in shares]
        self._db.executemany("UPDATE queue SET tried = 0 WHERE place = ?", places)

    def n_queued(self, proxy: str | None = None) -> int:
        """How many shares wait, for one proxy or for all."""
        row = self._db.execute(
            "SELECT count(*) FROM queue WHERE proxy = coalesce(?, proxy)", (proxy,)
        ).fetchone()
        return int(row[0])

    def waiting_proxies(self, now: int) -> list[str]:
        """The proxies that have shares due and are not in a backoff after a failure."""
        sql = (
            "SELECT DISTINCT proxy FROM queue WHERE due <= ? AND proxy NOT IN"
            " (SELECT proxy FROM proxies WHERE retry_at > ?) ORDER BY proxy"
        )
        return [row[0] for row in self._db.execute(sql, (now, now))]

    def first_expiry(self, proxy: str) -> int:
        """When the first share waiting for a proxy is given up; 0 if there are none."""
        return int(
            self._db.execute(
                "SELECT coalesce(min(expires), 0) FROM queue WHERE proxy = ?", (proxy,)
            ).fetchone()[0]
        )

    def due_shares(self, proxy: str, now: int, most: int) -> list[QueuedShare]:
        """The next due shares of one proxy, all of one length: one upload has one size class."""
        where = "FROM queue WHERE proxy = ? AND due <= ?"
        rows = self._db.execute(
            f"SELECT place, record {where} AND length(record) = (SELECT length(record) {where}"
            " ORDER BY due, place LIMIT 1) ORDER BY due, place LIMIT ?",
            (proxy, now, proxy, now, most),
        )
        return [QueuedShare(place, record) for place, record in rows]

    def schedule(self) -> list[tuple[str, int, int]]:
        """Proxy, due time and length of each waiting share, in the order they were queued: all that
        is visible from outside."""
        return list(self._db.execute("SELECT proxy, due, length(record) FROM queue ORDER BY place"))

    def remove(self, shares: Iterable[QueuedShare]) -> None:
        """Remove shares that their proxy has, or will never have."""
        self._db.executemany(
            "DELETE FROM queue WHERE place = ?", [(share.place,) for share in shares]
        )

    def postpone(self, shares: Iterable[QueuedShare], due: int) -> None:
        """Postpone shares."""
        self._db.executemany(
            "UPDATE queue SET due = ? WHERE place = ?", [(due, share.place) for share in shares]
        )

    def drop_expired(self, now: int) -> int:
        """Drop the shares that are too old to be counted, count them, and refund the charges for
        answers that never left.

        A message left if all of its shares did: if one is missing, the others are noise to
        everybody. An answer never left if none of its messages did. Whether a share was ever sent
        depends on the network and the clock, not on the data. Reservations for permanent answers
        stay, because those answers are kept.
        """
        sql = (
            "SELECT answer FROM queue JOIN answers ON answers.place = answer WHERE expires <= ? AND"
            " tried = 0"
            # by message id
            " GROUP BY answer HAVING count(DISTINCT substr(record, 17, 16)) = messages ORDER BY"
            " answer"
        )
        for (answer,) in self._db.execute(sql, (now,)).fetchall():
            self._undo(answer, now)
        n = self._db.execute("DELETE FROM queue WHERE expires <= ?", (now,)).rowcount
        if n:
            self._db.execute(
                "DELETE FROM answers WHERE place NOT IN (SELECT answer FROM queue WHERE answer IS"
                " NOT NULL)"
            )
        self.count("shares dropped: too old", n)
        return n

    def _undo(self, answer: int, now: int) -> None:
        [found] = self._db.execute(
            "SELECT charge, serial, question, epoch FROM answers WHERE place = ?", (answer,)
        )
        charge, serial, question, epoch = found
        analyst, query, epsilon = self.give_back(charge)
        self.write(
            Receipt(now, "given back", "", "", analyst, query, serial, question, epoch, -epsilon)
        )
        self.count("epochs given back")

    def failures(self, proxy: str) -> int:
        """How many times in a row a proxy did not accept shares."""
        row = self._db.execute("SELECT failures FROM proxies WHERE proxy = ?", (proxy,)).fetchone()
        return 0 if row is None else int(row[0])

    def failed(self, proxy: str, retry_at: int) -> None:
        """Count a failure, and do not contact the proxy until `retry_at`."""
        self._db.execute(
            "INSERT OR REPLACE INTO proxies VALUES (?, ?, ?)",
            (proxy, self.failures(proxy) + 1, retry_at),
        )

    def reached(self, proxy: str) -> None:
        """Forget a proxy's failures."""
        self._db.execute("DELETE FROM proxies WHERE proxy = ?", (proxy,))

    # --- receipts and counters

    def write(self, receipt: Receipt) -> None:
        """Store a receipt. A repeated refusal of the same version is one receipt with a count."""
        if receipt.outcome == "refused":
            last = self._db.execute(
                "SELECT place, outcome, reason, serial FROM receipts WHERE analyst = ? AND query ="
                " ? ORDER BY place DESC LIMIT 1",
                (receipt.analyst, receipt.query),
            ).fetchone()
            if last is not None and last[1:] == ("refused", receipt.reason, receipt.serial):
                sql = (
                    "UPDATE receipts SET time = ?, detail = ?, epoch = ?, left = ?, times = times +"
                    " 1 WHERE place = ?"
                )
                self._db.execute(
                    sql, (receipt.time, receipt.detail, receipt.epoch, _text(receipt.left), last[0])
                )
                return
        row = (
            *(
                receipt.time,
                receipt.outcome,
                receipt.reason,
                receipt.detail,
                receipt.analyst,
                receipt.query,
                receipt.serial,
            ),
            *(
                receipt.question,
                receipt.epoch,
                str(receipt.epsilon),
                _text(receipt.left),
                receipt.verified,
            ),
            *(receipt.time, 1),
        )
        place = self._db.execute(
            f"INSERT INTO receipts VALUES (NULL, {', '.join('?' * len(row))})",  # noqa: S608
            row,
        ).lastrowid
        self._db.execute("DELETE FROM receipts WHERE place <= ?", ((place or 0) - MOST_RECEIPTS,))

    def receipts(self, last: int | None = None) -> list[Receipt]:
        """The receipts, oldest first; only the `last` ones if given."""
        STORE.check_rows(self._db, self._path, LONG_TABLES)
        names = (
            "time, outcome, reason, detail, analyst, query, serial, question, epoch, epsilon, left,"
            " verified, first, times"
        )
        rows = self._db.execute(
            f"SELECT {names} FROM receipts ORDER BY place DESC LIMIT ?",  # noqa: S608
            (-1 if last is None else last,),
        )
        found = []
        for row in rows:
            given = dict(zip(names.split(", "), row, strict=True))
            given["epsilon"], given["verified"] = (
                Fraction(given["epsilon"]),
                bool(given["verified"]),
            )
            given["left"] = None if given["left"] is None else Fraction(given["left"])
            found.append(Receipt(**given))
        return found[::-1]

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter."""
        if n:
            sql = (
                "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = n +"
                " excluded.n"
            )
            self._db.execute(sql, (name, n))

    def counters(self) -> Mapping[str, int]:
        """All counters, by name."""
        STORE.check_rows(self._db, self._path, LONG_TABLES)
        return dict(self._db.execute("SELECT name, n FROM counters ORDER BY name"))


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
