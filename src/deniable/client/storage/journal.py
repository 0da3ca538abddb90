"""What a device tells its owner: receipts and counters."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable.client.receipts import Receipt
from deniable.client.storage.schema import LONG_TABLES, STORE

__all__ = ["Journal"]

MOST_RECEIPTS = 10_000


class Journal:
    """The receipts, and counters of what happened."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db, self._path = connection, path

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
