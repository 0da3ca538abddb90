"""Permanent answers: randomized, and found by a hash of the true answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from deniable.client.storage.records import Seat
from deniable.client.storage.schema import EPOCH_ZERO

__all__ = ["Seats"]


class Seats:
    """The seats of memoized questions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def of(self, scope: bytes, slots: int) -> list[list[Seat]]:
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

    def add(self, scope: bytes, slot: int, name: bytes, permanent: bytes, spoke: int) -> Seat:
        """Add a seat to a slot."""
        sql = "INSERT INTO memo (scope, slot, answer, permanent, spoke) VALUES (?, ?, ?, ?, ?)"
        place = int(
            self._db.execute(sql, (scope, slot, name, permanent, spoke + EPOCH_ZERO)).lastrowid or 0
        )
        return Seat(place, name, permanent, spoke)

    def keep(self, seats: Iterable[Seat]) -> None:
        """Write these seats, all of each, whether or not something has changed."""
        rows = [(seat.name, seat.permanent, seat.spoke + EPOCH_ZERO, seat.place) for seat in seats]
        self._db.executemany(
            "UPDATE memo SET answer = ?, permanent = ?, spoke = ? WHERE place = ?", rows
        )
