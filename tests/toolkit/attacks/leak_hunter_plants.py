"""Leaks that devices once had, planted back: the hunter has to find each of them.

They are planted at two seams that do not depend on the client's insides: `Device.answer`, which
takes a signed query and leaves its results in the store, and the loop that calls the device
(`Conduct.rounds`). What the SQL finds is read here from the vault itself, without any of the
client's walls.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from deniable.client.cadence import Cadence
from deniable.client.device import Device
from deniable.client.encoding import cost_of_row
from deniable.client.receipts import Receipt
from deniable.client.storage.records import QueuedShare
from deniable.client.storage.schema import EPOCH_ZERO
from deniable.privacy.ledger import PrivacyEvent
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery, authenticate
from toolkit.attacks.leak_hunter_device import Conduct, ProcessorClock
from toolkit.attacks.observed import RecordingNetwork

__all__ = ["PLANTS", "Plant"]

_LONGEST = 0.1  # seconds of processor time that reading the rows may take here
_LEFT = 0.005  # seconds of processor time that a long compilation leaves before its deadline
_FOREVER = 1 << 40
_TIMES = 4


class _Leaking(Device):
    """A device that answers as it should, and knows what its SQL finds."""

    def answer(self, signed: SignedQuery | bytes, now: int | None = None) -> Receipt:
        now = int(self.clock()) if now is None else now
        parsed = SignedQuery.from_bytes(signed) if isinstance(signed, bytes) else signed
        return self.leak(authenticate(parsed, self.policy.ring, now), parsed, now)

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        """Answer the query, and let something be seen of the data."""
        raise NotImplementedError

    def honest(self, signed: SignedQuery, now: int) -> Receipt:
        """Answer as the client does."""
        return super().answer(signed, now)

    def found(self, query: Query) -> list[tuple[Any, ...]] | None:
        """The rows that the SQL finds; None if it fails or takes long."""
        ends = time.process_time() + _LONGEST
        with closing(sqlite3.connect(self.vault.uri, uri=True)) as connection:
            connection.set_progress_handler(lambda: time.process_time() > ends, 1000)
            try:
                return connection.execute(query.sql).fetchmany(1000)
            except sqlite3.Error:
                return None

    def refuse(self, query: Query, now: int, reason: str) -> Receipt:
        names = query.analyst, query.id, query.serial, query.question
        receipt = Receipt(now, "refused", reason, "refused", *names)
        with self.store.transaction() as transaction:
            transaction.journal.write(receipt)
        return receipt

    def waiting(self) -> Iterator[tuple[str, QueuedShare]]:
        """What waits for its proxies."""
        with self.store.transaction() as transaction:
            for proxy in transaction.outbox.waiting_proxies(_FOREVER):
                yield from (
                    (proxy, share) for share in transaction.outbox.due_shares(proxy, _FOREVER, 1000)
                )


class BucketsOnTheMainThread(_Leaking):
    """Rows are put into buckets after the SQL, in the device's own process, without a deadline.

    Patterns are bounded today: the work is done several times, as for a query with so many more of
    them, or a fast machine would have done it before the slot is over.
    """

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        receipt = self.honest(signed, now)
        rows = self.found(query) or [] if receipt.outcome == "answered" else []
        for row in _TIMES * (rows if query.memoize else rows[: query.most_rows]):
            query.buckets.index(row)
        return receipt


class MemoryByTheWholeFile(_Leaking):
    """The limit on memory grows with the file, hidden tables and free pages included."""

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        policy = self.policy
        room = 1 << (16 * self.vault.path.stat().st_size).bit_length()
        self.policy = replace(policy, max_memory=policy.max_memory + room)
        try:
            return self.honest(signed, now)
        finally:
            self.policy = policy


class DeadlineWhileACopyCompetes(_Leaking):
    """The deadline that decides a refusal goes on while what is granted is copied.

    A model: two processes that really compete do so by the scheduler's coins, and the device that
    had this leak showed it in some lives only.
    """

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        start = time.process_time()
        with closing(sqlite3.connect(self.vault.uri, uri=True)) as connection:
            try:
                sorted(connection.execute("SELECT distance, note FROM trips"), key=str)
            except sqlite3.Error:
                return self.honest(signed, now)
        if time.process_time() - start > _LEFT:
            return self.refuse(query, now, "forbidden SQL")
        return self.honest(signed, now)


class ARowPerPermanentAnswer(_Leaking):
    """Permanent answers are looked up outside, and a row is stored when one is drawn."""

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        receipt = self.honest(signed, now)
        with self.store.transaction() as transaction:
            transaction._db.execute("DELETE FROM memo WHERE spoke < ?", (EPOCH_ZERO,))  # free seats
        return receipt


class ChargeByDistinctAnswers(_Leaking):
    """Each different answer is charged when it is first found."""

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        receipt = self.honest(signed, now)
        n_more = len(set(self.found(query) or [])) - 1
        if receipt.outcome == "answered" and n_more > 0:
            with self.store.transaction() as transaction:
                transaction.charges.add(
                    PrivacyEvent(query.analyst, query.id, now, n_more * cost_of_row(query))
                )
        return receipt


class SilenceWithoutARow(_Leaking):
    """Anyone without a row sends nothing."""

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        before = {share.place for _, share in self.waiting()}
        receipt = self.honest(signed, now)
        if self.found(query) == []:
            new = [share for _, share in self.waiting() if share.place not in before]
            with self.store.transaction() as transaction:
                transaction.outbox.remove(new)
        return receipt


class UploadPerRow(_Leaking):
    """As many messages as rows."""

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        before = {share.place for _, share in self.waiting()}
        receipt = self.honest(signed, now)
        n_more = min(len(self.found(query) or []), 20) - 1
        new = [(proxy, share) for proxy, share in self.waiting() if share.place not in before]
        with self.store.transaction() as transaction:
            due, expires = now + self.policy.slot, now + self.policy.queue_age
            for proxy, share in new * n_more:
                transaction.outbox.enqueue(proxy, share.record, due, expires)
        return receipt


class RefusalAfterReading(_Leaking):
    """SQL that fails while it runs is refused, and not answered."""

    def leak(self, query: Query, signed: SignedQuery, now: int) -> Receipt:
        receipt = self.honest(signed, now)
        if receipt.outcome == "answered" and self.found(query) is None:
            return self.refuse(query, now, "failed")
        return receipt


def sleeping_after_the_work(
    device: Device, network: RecordingNetwork, cadence: Cadence, clock: ProcessorClock
) -> Iterator[list[Receipt]]:
    """What the client once did: the time between two polls is what the SQL took, and a constant."""
    while True:
        found = device.fetch(network)
        device.upload(network)
        receipts = device.answer_all(found, most=1)
        clock()
        clock.sleep(cadence.every)
        yield receipts


@dataclass(frozen=True)
class Plant:
    """A leak, the part of what is seen that shows it, and a seed from which on it is soon found."""

    conduct: Conduct
    part: str
    seed: int


PLANTS = {
    "buckets found without a deadline": Plant(Conduct(BucketsOnTheMainThread), "rounds", -5),
    "a memory limit that depends on the file": Plant(Conduct(MemoryByTheWholeFile), "reports", 190),
    "a deadline while a copy competes": Plant(Conduct(DeadlineWhileACopyCompetes), "outcomes", 178),
    "a row for each permanent answer": Plant(Conduct(ARowPerPermanentAnswer), "stored", -6),
    "a charge by distinct answers": Plant(Conduct(ChargeByDistinctAnswers), "ledger", 267),
    "silence without a row": Plant(Conduct(SilenceWithoutARow), "sends", 70),
    "an upload as long as the number of rows": Plant(Conduct(UploadPerRow), "sends", 267),
    "a refusal after the data were read": Plant(Conduct(RefusalAfterReading), "outcomes", 764),
    "a sleep after the work": Plant(Conduct(rounds=sleeping_after_the_work), "polls", 137),
}
"""By name."""
