"""The permanent answers of a memoized question, as a device keeps, finds and replays them.

Each slot of a question has *seats*, one for each permanent answer it has drawn and free ones. Each
answer adds a seat to every slot, up to the `distinct` permanent answers that a slot may draw, and
then rewrites exactly one seat of every slot, whatever the data are: the store has as many rows of
the same size, and as many are written, for someone whose answer is always the same as for someone
who has another one every day.

Which seat speaks is found in the sandbox's process (:func:`deniable.client.sandbox.answer.seated`),
under the deadline of the query. Here, a permanent answer is drawn for every slot, and used where
the seat was free. Only those are drawn from the device's source (docs/wire.md fixes the order of
draws); the others cost the same, and are thrown away.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deniable.client import encoding
from deniable.client.payment import scope_of
from deniable.client.sandbox.answer import FREE, NAME_BYTES, Memo, SandboxAnswer
from deniable.client.storage.records import Seat
from deniable.client.storage.store import StoreTransaction
from deniable.queries.query import Query
from deniable.randomness import Source, system_source

__all__ = ["PermanentAnswers"]


@dataclass(frozen=True, repr=False)
class PermanentAnswers:
    """The seats of one question in a device's store."""

    query: Query
    secret: bytes
    slots: tuple[tuple[Seat, ...], ...]

    @classmethod
    def of(cls, transaction: StoreTransaction, query: Query) -> PermanentAnswers:
        """Those that the store has, with one more free seat in each slot that may still get one."""
        scope, slots = scope_of(query), range(query.most_rows)
        seats = transaction.seats.of(scope, query.most_rows)
        for slot in slots:
            if len(seats[slot]) < query.distinct:
                # Not zeros: a backup of the store must not compress better for some data.
                name, permanent = os.urandom(NAME_BYTES), os.urandom(query.report_bytes)
                seats[slot].append(transaction.seats.add(scope, slot, name, permanent, FREE))
        return cls(query, transaction.secret(), tuple(map(tuple, seats)))

    def __repr__(self) -> str:
        return f"<permanent answers of {self.query.id!r}>"

    @property
    def memo(self) -> Memo:
        """What the sandbox's process is given of them: names and epochs, no permanent answer."""
        seats = tuple(tuple((seat.name, seat.spoke) for seat in slot) for slot in self.slots)
        return (
            scope_of(self.query),
            self.secret,
            encoding.no_answer(self.query),
            self.query.distinct,
            seats,
        )

    def reports(
        self, transaction: StoreTransaction, found: SandboxAnswer, epoch: int, source: Source
    ) -> NDArray[np.uint8]:
        """The reports of the seats that speak. Draws and keeps what was drawn for free ones."""
        query = self.query
        speaking = [slot[place] for slot, (place, _) in zip(self.slots, found.seats, strict=True)]
        fresh = np.array([seat.spoke == FREE for seat in speaking])
        shape = (len(fresh), query.ones) if query.ones > 1 else len(fresh)
        truth = np.array(found.buckets, dtype=np.intp).reshape(shape)
        rows = np.frombuffer(b"".join(seat.permanent for seat in speaking), dtype=np.uint8).reshape(
            len(fresh), -1
        )
        drawn = np.empty_like(rows)
        drawn[fresh] = encoding.permanent_rows(query, truth[fresh], source)
        drawn[~fresh] = encoding.permanent_rows(query, truth[~fresh], system_source())
        rows = np.where(fresh[:, None], drawn, rows)
        transaction.seats.keep(
            # The process may have been compromised: it gives a name to a free seat, and to no
            # other.
            replace(
                seat,
                name=name if seat.spoke == FREE else seat.name,
                permanent=row.tobytes(),
                spoke=epoch,
            )
            for seat, row, (_, name) in zip(speaking, rows, found.seats, strict=True)
        )
        return encoding.replay_rows(query, rows, source)
