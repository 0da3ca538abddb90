"""The walk of one answer on a person's device: from a signed query to shares that wait for their
proxies.

Signature, policy, epoch, ledger, sampling coin, confined reading, charge, randomizing, splitting,
queue: everything this changes on disk changes in one transaction at the end. A device that is
killed on the way has done nothing; it draws again, and nobody has seen what it drew before.

Whether a device sends, when, how much, to whom, what it charges and what it refuses next depend
only on the query, the owner's policy, the clock and coins (docs/threat-model.md). Only the report
depends on the data:

* whether to answer, when to send and what to charge are decided before the data are read;
* SQL that does not compile on what is granted is refused before that, by a process without data;
* from there on nothing ends in silence: anyone who has no row, too many rows, or SQL that fails
  while it runs, answers `other` or "in no bucket", randomized like all answers (SQL can be made to
  fail on purpose for some data, so a failure is data too);
* the number of messages is the query's `most_rows`, not the number of rows;
* SQL, choosing rows, finding their buckets and looking up permanent answers happen in one confined
  process, under one deadline, and are over at a time that is fixed before
  (:func:`deniable.client.sandbox.interface.answer`); what is drawn and written here afterwards is
  as much for all of them;
* nothing is sent before the answer's time slot is over, however long the SQL took.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.client import encoding
from deniable.client.parallel import NamedWorkers
from deniable.client.payment import Payment
from deniable.client.permanent_answers import PermanentAnswers
from deniable.client.policy import Policy
from deniable.client.reading import ConfinedReader, Stop
from deniable.client.receipts import Receipt, fault_words
from deniable.client.sandbox import interface as sandbox
from deniable.client.storage.store import Store, StoreTransaction
from deniable.client.upload import Polled, Transport, Uploaded, fetch_queries, upload
from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError, QueryError, RevokedKeyError, StoreError
from deniable.privacy.ledger import Accountant
from deniable.queries.lasting import replay_words
from deniable.queries.query import Query
from deniable.queries.schedule import spoken_duration
from deniable.queries.signed.signing import (
    SeenVersion,
    SignedQuery,
    authentic,
    authenticate,
    check_version,
    signing_keys,
)
from deniable.randomness import Source, system_source

__all__ = ["STEPS", "Device"]

STEPS = (
    *("verified", "allowed", "sampled", "read", "charged"),
    *("randomized", "queued", "written", "committed"),
)
"""The steps of the walk, in order, as passed to `on_step`."""
_OF_SQL = frozenset({"not shared", "forbidden SQL", "columns", "vault"})
"""Reasons for refusing a query after its SQL was examined, which takes a slot like an answer."""


class Device(ConfinedReader):
    """One person's device: a vault, the owner's policy, and a store beside the vault.

    It keeps no thread, connection or file open, so that one process can hold thousands. With
    `isolated=False`, for simulated devices, their vaults take turns in one sandbox process
    (:func:`deniable.client.sandbox.interface.run`).
    """

    def __init__(
        self,
        vault: Vault,
        policy: Policy,
        store: Store | None = None,
        *,
        source: Source | None = None,
        clock: Callable[[], float] = time.time,
        isolated: bool = True,
        on_step: Callable[[str], None] | None = None,
    ) -> None:
        source = source or system_source()
        super().__init__(vault, policy, source=source, clock=clock, isolated=isolated)
        self.store = store or Store.beside(vault.path)
        self._on_step = on_step
        self._polls: NamedWorkers[Polled] = NamedWorkers()
        self._uploads: NamedWorkers[Uploaded] = NamedWorkers()
        self._revoked: dict[str, frozenset[str]] = {}
        """What each proxy said of revoked keys, as it is written down."""
        self.skew: float | None = None
        """How many seconds the proxies' clocks were ahead when last asked; None if not known."""
        self.poll_problems: tuple[str, ...] = ()
        """Why proxies could not be asked for queries, the last time."""

    def __repr__(self) -> str:
        return f"<device of {self.vault.path.name}>"

    def answer(self, signed: SignedQuery | bytes, now: int | None = None) -> Receipt:
        """Answer a query for the current epoch, if all checks pass, and return the receipt. At most
        once per epoch."""
        now = int(self.clock()) if now is None else now
        with self.store.transaction() as transaction:
            receipt = self._receipt(transaction, signed, now)
            if receipt.outcome not in ("again", "waiting"):
                transaction.journal.write(receipt)
                transaction.journal.count(
                    f"epochs {receipt.outcome}"
                    if receipt.outcome != "refused"
                    else f"refused: {receipt.reason}"
                )
            self._step("written")
        self._step("committed")
        if receipt.outcome in ("answered", "sampled out"):
            self.forms.forget_sent(signed)
        return receipt

    def fill(self, signed: SignedQuery | bytes, rows: Sequence[Mapping[str, Any]]) -> None:
        """Hand over what a person chose in the form of a query; it is sent with the next answer,
        and then deleted.

        Each row gives a bucket of each column, or None. Only a query that is trusted may be filled
        in.
        """
        parsed = SignedQuery.from_bytes(signed) if isinstance(signed, bytes) else signed
        self.forms.fill(authenticate(parsed, self.policy.ring, int(self.clock())), rows)

    def answer_all(
        self,
        queries: Iterable[SignedQuery | bytes] | None = None,
        now: int | None = None,
        most: int | None = None,
    ) -> list[Receipt]:
        """Answer many queries, or all those accepted before. Of several versions of one, the newest
        valid one.

        Anyone who relays queries may mix in old and forged ones. Signatures are checked first, and
        nothing else of a forged query is read; of the others the newest are tried first, and those
        replaced by a verified one are skipped. A query that cannot be answered does not stop the
        others. Each query that runs SQL takes a slot of the policy's length and is answered as of
        the beginning of its slot; after `most` of them the rest is left for the next call.
        """
        now = int(self.clock()) if now is None else now
        if queries is None:
            with self.store.transaction() as transaction:
                queries = transaction.versions.signed_queries()
        signed_ones, refused = authentic(queries, self.policy.ring, now)
        receipts = self._refusals(refused, now)
        done: set[tuple[str, str]] = set()
        slots = 0
        for query, signed in signed_ones:
            if (query.analyst, query.id) in done:
                continue
            if slots == most:
                break
            at = now + slots * self.policy.slot
            try:
                receipt = self.answer(signed, at)
            except (StoreError, SystemError):
                raise  # not the query's fault: nothing could be stored for the others either
            except Exception as error:
                names = query.analyst, query.id, query.serial, query.question
                receipt = Receipt(
                    at, "refused", "failed", f"{type(error).__name__} while answering", *names
                )
            receipts.append(receipt)
            if receipt.verified:
                done.add((receipt.analyst, receipt.query))
            slots += receipt.outcome in ("answered", "sampled out") or receipt.reason in _OF_SQL
        return receipts

    def _refusals(self, errors: Sequence[QueryError], now: int) -> list[Receipt]:
        """One receipt per reason for refusing unread queries: anyone who relays queries can send
        thousands of them."""
        if not errors:
            return []
        receipts = {}
        for error in errors:
            receipt = Receipt.of_refusal(error, None, now)
            receipts[receipt.analyst, receipt.query, receipt.reason] = receipt
        with self.store.transaction() as transaction:
            for receipt in receipts.values():
                transaction.journal.write(receipt)
            for reason, n in Counter(error.reason for error in errors).items():
                transaction.journal.count(f"refused: {reason}", n)
        return list(receipts.values())

    def once(self, transport: Transport, now: int | None = None) -> tuple[list[Receipt], Uploaded]:
        """Ask the proxies for queries, upload what is due, and answer the queries. Without a
        network, continue with the known ones.

        Uploads come before answers, because otherwise the time between a poll and an upload would
        reveal how long the SQL took; they come after them if the policy sends answers at once.
        """
        found = self.fetch(transport)
        if not self.policy.upload_within:
            return self.answer_all(found, now), self.upload(transport, now)
        uploaded = self.upload(transport, now)
        # the network may have been slow: the epoch is determined afterwards
        return self.answer_all(found, now), uploaded

    def fetch(self, transport: Transport) -> list[bytes] | None:
        """The signed queries that the proxies relay; None if none of them can be reached.

        The difference to the proxies' clocks is recorded before the clock decides an epoch: the
        smallest difference counts, so that one proxy with a wrong clock, or a lying one, stops
        nobody.
        """
        fetched = fetch_queries(self.policy, transport, self._polls)
        self.skew = min(fetched.skews, key=abs, default=None)
        self.poll_problems = fetched.problems
        if any(self._revoked.get(proxy) != keys for proxy, keys in fetched.revoked.items()):
            with self.store.transaction() as transaction:
                for proxy, keys in fetched.revoked.items():
                    transaction.versions.set_revoked(proxy, keys)
            self._revoked.update(fetched.revoked)
        return None if len(fetched.problems) >= len(self.policy.proxies) else fetched.queries

    def upload(self, transport: Transport, now: int | None = None) -> Uploaded:
        """Upload what is due to the proxies."""
        now = int(self.clock()) if now is None else now
        return upload(
            self.store, self.policy, transport, now, self.source, self._on_step, self._uploads
        )

    def _step(self, name: str) -> None:
        if self._on_step is not None:
            self._on_step(name)

    # --- the walk

    def _receipt(
        self, transaction: StoreTransaction, signed: SignedQuery | bytes, now: int
    ) -> Receipt:
        query: Query | None = None
        epoch: int | None = None
        try:
            parsed = SignedQuery.from_bytes(signed) if isinstance(signed, bytes) else signed
            seen = transaction.versions.seen()
            query = authenticate(parsed, self.policy.ring, now)
            for key in signing_keys(parsed) & transaction.versions.revoked():
                # No signature is needed: a proxy that lies here could as well drop the shares of
                # this query that it is sent.
                raise RevokedKeyError(
                    f"key {key} of {query.analyst!r} was revoked, as a proxy says"
                )
            check_version(query, now, seen)
            version = SeenVersion(query.serial, query.digest)
            if seen.get((query.analyst, query.id)) != version:
                transaction.versions.accept(
                    query.analyst, query.id, version, parsed.to_bytes(), query.proxies
                )
                self.forms.forget(query, others=True)
            self._step("verified")
            refusal = self.policy.check(query)
            if refusal is not None:
                raise Stop("refused", *refusal)
            try:
                query.check_patterns()
            except ParameterError as error:
                raise Stop("refused", "patterns", str(error)) from None
            epoch = self._epoch(transaction, query, now)
            self._step("allowed")
            cost, accountant, fault = self._answer(transaction, query, epoch, now)
        except QueryError as error:
            return Receipt.of_refusal(error, query, now)
        except Stop as stop:
            assert query is not None  # noqa: S101 - a stop comes after the signature was verified
            names = query.analyst, query.id, query.serial, query.question
            left = transaction.charges.accountant(self.policy.limits, now).left(query.analyst, now)
            return Receipt(now, stop.outcome, stop.reason, stop.detail, *names, epoch, left=left)
        names = query.analyst, query.id, query.serial, query.question
        return Receipt(
            now,
            "answered",
            "",
            ". ".join(words for words in (replay_words(query), fault_words(fault)) if words),
            *names,
            epoch,
            cost,
            accountant.left(query.analyst, now),
        )

    def _epoch(self, transaction: StoreTransaction, query: Query, now: int) -> int:
        epoch = (now - query.schedule.origin) // query.schedule.every
        if epoch < 0:
            raise Stop("waiting", "", "the query has not begun")
        if epoch >= query.schedule.n_epochs:
            raise Stop("waiting", "", "the query's last epoch has passed")
        if transaction.versions.is_decided(query.analyst, query.id, epoch):
            raise Stop("again", "", f"epoch {epoch} is already decided")
        if query.ask == "form" and not self.forms.filled(query):
            raise Stop("waiting", "", "the form has not been filled in")
        if self.skew is not None and abs(self.skew) > self.policy.clock_tolerance:
            side = "behind" if self.skew > 0 else "ahead of"
            differs = (
                f"your clock is {spoken_duration(round(abs(self.skew)))} {side} the clock of every"
                " proxy that answered"
            )
            raise Stop("refused", "clock", f"{differs}, so the current epoch is uncertain")
        return epoch

    def _answer(
        self, transaction: StoreTransaction, query: Query, epoch: int, now: int
    ) -> tuple[Fraction, Accountant, str]:
        """Draw, charge and queue one epoch's answer; returns its cost, the accountant afterwards,
        and which fault of the device's own kept it from reading its data, if any."""
        policy = self.policy
        transaction.outbox.drop_expired(now)
        if transaction.outbox.n_queued() + query.most_rows * len(
            query.proxies
        ) > policy.queue_messages * len(query.proxies):
            transaction.versions.decide(
                query.analyst, query.id, epoch
            )  # so that each lost epoch is counted once
            raise Stop(
                "refused",
                "queue full",
                f"{policy.queue_messages} messages are already waiting for their proxies",
            )
        payment = Payment(transaction, policy, query, now)
        if payment.refusal is not None:
            raise Stop("refused", "budget", payment.refusal)
        try:
            self._check_sql(transaction, query)
        except Stop:
            # it took a slot, and must not take another in this epoch
            transaction.versions.decide(query.analyst, query.id, epoch)
            raise
        stratum = policy.stratum(query) or 0
        end, ready = query.schedule.end_of_epoch(epoch), now + policy.slot
        due = ready + int(self.source.below(max(1, min(policy.upload_within, end - ready)), 1)[0])
        if query.once:
            transaction.versions.decide_all(query.analyst, query.id)
        else:
            transaction.versions.decide(query.analyst, query.id, epoch)
        chosen = bool(encoding.sample(query, 1, stratum, self.source)[0])
        self._step("sampled")
        reports = charge = None
        fault = ""
        if chosen:
            kept = PermanentAnswers.of(transaction, query) if query.memoize else None
            found = self._found(query, kept, epoch)
            if fault := found.fault:
                transaction.journal.count(f"answers without data: {fault}")
            self._step("read")
            charge = payment.make()
            self._step("charged")
            reports = self._reports(transaction, query, kept, found, epoch)
            self._step("randomized")
        if chosen or query.cover:
            answer = (
                None
                if charge is None
                else transaction.outbox.new_answer(
                    charge, query.serial, query.question, epoch, query.most_rows
                )
            )
            for records in encoding.share_records(
                query, epoch, reports, query.most_rows, stratum, self.source
            ):
                for proxy, record in zip(query.proxies, records, strict=True):
                    transaction.outbox.enqueue(
                        proxy, record, due, end + policy.keeps(query), answer
                    )
            self._step("queued")
        if not chosen:
            raise Stop("sampled out", "", "")
        return payment.cost, payment.accountant, fault

    def _reports(
        self,
        transaction: StoreTransaction,
        query: Query,
        kept: PermanentAnswers | None,
        found: sandbox.SandboxAnswer,
        epoch: int,
    ) -> NDArray[np.uint8]:
        """The reports of what was found. The same work whatever that is: draws do not branch on the
        answer."""
        if kept is not None:
            return kept.reports(transaction, found, epoch, self.source)
        truth = np.array(found.buckets, dtype=np.intp)
        return encoding.randomize(
            query, truth[np.newaxis] if query.ones > 1 else truth, self.source
        )
