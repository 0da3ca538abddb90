"""The shares that wait for their proxies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from deniable.client.receipts import Receipt
from deniable.client.storage.charges import Charges
from deniable.client.storage.journal import Journal
from deniable.client.storage.records import QueuedShare

__all__ = ["Outbox"]


class Outbox:
    """Queued shares, the answers they belong to, and the proxies that did not accept some."""

    def __init__(self, connection: sqlite3.Connection, charges: Charges, journal: Journal) -> None:
        self._db, self._charges, self._journal = connection, charges, journal

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
        self._journal.count("shares dropped: too old", n)
        return n

    def _undo(self, answer: int, now: int) -> None:
        [found] = self._db.execute(
            "SELECT charge, serial, question, epoch FROM answers WHERE place = ?", (answer,)
        )
        charge, serial, question, epoch = found
        analyst, query, epsilon = self._charges.give_back(charge)
        self._journal.write(
            Receipt(now, "given back", "", "", analyst, query, serial, question, epoch, -epsilon)
        )
        self._journal.count("epochs given back")

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
