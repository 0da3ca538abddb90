"""The walk of one answer on a person's device: from a signed query to shares that wait for their proxies.

Signature, policy, epoch, ledger, sampling coin, sandboxed SQL, bucket, randomizing, splitting, queue: all that this changes on
the disk changes in one transaction, at its end. A device that is killed on the way has done nothing; it draws afresh, and what it
drew before was never seen by anybody.

What shows outside never depends on the data beyond what the mechanism's epsilon pays for:

* the coin that decides whether to answer is flipped before the data are read;
* SQL that does not compile on what is shared is refused before that, by a process that has no data;
* whoever has no row, too many rows, or SQL that fails while it runs, answers `other` or "in no bucket", randomized like all
  answers (SQL can be made to fail on purpose for some data, so a failure is data too);
* the number of messages is the query's `most_rows`, not that of the rows there are;
* when shares are sent is drawn before the data are read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable.client import encoding, sandbox
from deniable.client.policy import Policy
from deniable.client.receipts import Receipt
from deniable.client.store import Store, StoreTransaction
from deniable.client.upload import Transport, Uploaded, fetch_queries, upload
from deniable.client.vault import Vault
from deniable.errors import NotSharedError, QueryError, SandboxError, VaultError
from deniable.privacy.ledger import Accountant, PrivacyEvent
from deniable.queries import canonical
from deniable.queries.query import Query
from deniable.queries.signing import Seen, SignedQuery, verify
from deniable.randomness import Source, system_source

__all__ = ["STEPS", "Device"]

STEPS = ("verified", "allowed", "sampled", "read", "charged", "randomized", "queued", "written", "committed")
"""The stations of the walk, in order: what `on_step` is told."""


class _Stop(Exception):  # noqa: N818 - not an error: the walk ends here, with a receipt
    def __init__(self, outcome: str, reason: str, detail: str) -> None:
        self.outcome, self.reason, self.detail = outcome, reason, detail
        super().__init__(outcome, reason, detail)


class Device:
    """One person's device: a vault, the owner's policy, and a store beside the vault.

    It holds no thread, connection or file open, so that a process may hold thousands. With `isolated=False` their vaults take
    turns in one process of the sandbox (:func:`deniable.client.sandbox.run`): for simulated devices.
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
        self.vault, self.policy = vault, policy
        self.store = store or Store(vault.path.with_name(vault.path.name + ".client"))
        self.clock = clock
        self.source = source or system_source()
        self._isolated = isolated
        self._on_step = on_step

    def __repr__(self) -> str:
        return f"<device of {self.vault.path.name}>"

    def answer(self, signed: SignedQuery | bytes, now: int | None = None) -> Receipt:
        """Answer a query for the present epoch, if all checks let it, and give the receipt. At most once an epoch."""
        now = int(self.clock()) if now is None else now
        with self.store.transaction() as book:
            receipt = self._receipt(book, signed, now)
            if receipt.outcome not in ("again", "waiting"):
                book.write(receipt)
                book.count(f"epochs {receipt.outcome}" if receipt.outcome != "refused" else f"refused: {receipt.reason}")
            self._step("written")
        self._step("committed")
        return receipt

    def answer_all(self, queries: Iterable[SignedQuery | bytes] | None = None, now: int | None = None) -> list[Receipt]:
        """Answer many queries, or all those accepted before. Of several versions of one, the newest that holds.

        Whoever relays queries may mix old and forged ones in: the newest are tried first, and those that a verified one replaces
        are passed over.
        """
        if queries is None:
            with self.store.transaction() as book:
                queries = book.signed_queries()
        known: dict[bytes, SignedQuery | bytes] = {}
        for each in queries:
            known.setdefault(each if isinstance(each, bytes) else each.to_bytes(), each)
        receipts: list[Receipt] = []
        done: set[tuple[str, str]] = set()
        for each in sorted(known.values(), key=_claimed_serial, reverse=True):
            claim = _claim(each)
            if claim is not None and (claim.analyst, claim.id) in done:
                continue
            receipt = self.answer(each, now)
            receipts.append(receipt)
            if receipt.verified:
                done.add((receipt.analyst, receipt.query))
        return receipts

    def once(self, transport: Transport, now: int | None = None) -> tuple[list[Receipt], Uploaded]:
        """Ask the proxies for queries, answer them, and upload what is due. Without a network, go on with the queries known."""
        now = int(self.clock()) if now is None else now
        found, problems = fetch_queries(self.policy, transport)
        unreachable = len(problems) == len(self.policy.proxies)
        receipts = self.answer_all(None if unreachable else found, now)
        return receipts, self.upload(transport, now)

    def upload(self, transport: Transport, now: int | None = None) -> Uploaded:
        """Bring what is due to the proxies."""
        now = int(self.clock()) if now is None else now
        return upload(self.store, self.policy, transport, now, self.source, self._on_step)

    def _step(self, name: str) -> None:
        if self._on_step is not None:
            self._on_step(name)

    # --- the walk ---------------------------------------------------------------------------------------------------

    def _receipt(self, book: StoreTransaction, signed: SignedQuery | bytes, now: int) -> Receipt:
        query: Query | None = None
        epoch: int | None = None
        try:
            parsed = SignedQuery.from_bytes(signed) if isinstance(signed, bytes) else signed
            seen = book.seen()
            query = verify(parsed, self.policy.ring, now, seen)
            version = Seen(query.serial, query.digest)
            if seen.get((query.analyst, query.id)) != version:
                book.accept(query.analyst, query.id, version, parsed.to_bytes())
            self._step("verified")
            refusal = self.policy.check(query)
            if refusal is not None:
                raise _Stop("refused", *refusal)
            epoch = self._epoch(book, query, now)
            self._step("allowed")
            cost, accountant = self._answer(book, query, epoch, now)
        except QueryError as error:
            claim = _claim(signed)
            names = ("", "", 0, "") if claim is None else (claim.analyst, claim.id, claim.serial, claim.question)
            return Receipt(now, "refused", error.reason, str(error), *names, verified=False)
        except _Stop as stop:
            assert query is not None  # noqa: S101 - a stop comes after the signature was verified
            names = query.analyst, query.id, query.serial, query.question
            left = book.accountant(self.policy.limits, now).left(query.analyst, now)
            return Receipt(now, stop.outcome, stop.reason, stop.detail, *names, epoch, left=left)
        names = query.analyst, query.id, query.serial, query.question
        return Receipt(now, "answered", "", "", *names, epoch, cost, accountant.left(query.analyst, now))

    def _epoch(self, book: StoreTransaction, query: Query, now: int) -> int:
        epoch = (now - query.schedule.origin) // query.schedule.every
        if epoch < 0:
            raise _Stop("waiting", "", "the query has not begun")
        if epoch >= query.schedule.n_epochs:
            raise _Stop("waiting", "", "the query's last epoch has passed")
        last = book.last_epoch(query.analyst, query.id)
        if epoch == last:
            raise _Stop("again", "", f"epoch {epoch} is decided already")
        if epoch < last:
            raise _Stop("again", "", f"the clock was set back: epoch {last} is decided, and this is {epoch}")
        return epoch

    def _answer(self, book: StoreTransaction, query: Query, epoch: int, now: int) -> tuple[Fraction, Accountant]:
        """Draw, charge and queue one epoch's answer; gives what it cost, and the accountant after it."""
        policy = self.policy
        book.drop_expired(now)
        if book.n_queued() + query.most_rows * len(query.proxies) > policy.queue_messages * len(query.proxies):
            book.decide(query.analyst, query.id, epoch)  # so that each epoch that is lost is counted once
            raise _Stop("refused", "queue full", f"{policy.queue_messages} messages wait for their proxies already")
        accountant = book.accountant(policy.limits, now)
        scope = _scope(query) if query.memoize else b""
        may_draw = self._affordable(book, accountant, query, now)
        if may_draw is not None and (not query.memoize or book.oldest_permanent(scope) is None):
            raise _Stop("refused", "budget", may_draw)
        self._check_sql(query)
        stratum = policy.stratum(query) or 0
        end = query.schedule.end_of_epoch(epoch)
        due = now + int(self.source.below(max(1, min(policy.upload_within, end - now)), 1)[0])
        book.decide(query.analyst, query.id, epoch)
        chosen = bool(encoding.sample(query, 1, stratum, self.source)[0])
        self._step("sampled")
        cost = Fraction(0)
        reports = None
        if chosen:
            truth = self._truth(query)
            self._step("read")
            if query.memoize:
                reports, cost = self._memoized(book, accountant, query, scope, truth, now, may_draw is None)
            else:
                cost = self._charge(book, accountant, query, query.most_rows, now)
                reports = encoding.randomize(query, truth, self.source)
            self._step("randomized")
        if chosen or query.cover:
            for records in encoding.share_records(query, epoch, reports, query.most_rows, stratum, self.source):
                for proxy, record in zip(query.proxies, records, strict=True):
                    book.enqueue(proxy, record, due, end + policy.queue_age)
            self._step("queued")
        if not chosen:
            raise _Stop("sampled out", "", "")
        return cost, accountant

    def _affordable(self, book: StoreTransaction, accountant: Accountant, query: Query, now: int) -> str | None:
        """Why the most that this epoch can cost may not be spent, or None. Decided before the data are read."""
        cost = encoding.cost_of_row(query) * query.most_rows
        if query.budget.epsilon is not None:
            spent = book.spent_on(query.analyst, query.id)
            if spent + cost > Fraction(repr(query.budget.epsilon)):
                return (
                    f"the query may cost {query.budget.epsilon:g} by its own word, {float(spent):.6g} is spent,"
                    f" and an answer costs {float(cost):.6g}"
                )
        return accountant.check(PrivacyEvent(query.analyst, query.id, now, cost))

    def _charge(self, book: StoreTransaction, accountant: Accountant, query: Query, n_rows: int, now: int) -> Fraction:
        event = PrivacyEvent(query.analyst, query.id, now, encoding.cost_of_row(query) * n_rows)
        accountant.record(event)
        book.charge(event)
        self._step("charged")
        return event.cost

    def _check_sql(self, query: Query) -> None:
        """Refuse SQL that does not compile on what is shared: the last that can be refused, and before the data are read."""
        policy = self.policy
        try:
            n_columns = sandbox.check(
                self.vault, query.sql, deadline=policy.deadline, max_memory=policy.max_memory, isolated=self._isolated
            )
        except NotSharedError as error:
            raise _Stop("refused", "not shared", str(error)) from None
        except SandboxError as error:
            raise _Stop("refused", "forbidden SQL", str(error)) from None
        except VaultError as error:
            raise _Stop("refused", "vault", str(error)) from None
        if n_columns not in (None, len(query.columns)):
            detail = f"the SQL gives {n_columns} columns, and the query has buckets for {len(query.columns)}"
            raise _Stop("refused", "columns", detail)

    def _truth(self, query: Query) -> NDArray[np.intp]:
        """The buckets of the true answer, `most_rows` of them whatever the data are, and whatever goes wrong with them."""
        policy = self.policy
        try:
            rows = sandbox.run(
                self.vault,
                query.sql,
                deadline=policy.deadline,
                max_rows=policy.max_rows,
                max_memory=policy.max_memory,
                isolated=self._isolated,
            )
        except (SandboxError, VaultError):
            return np.full(query.most_rows, encoding.no_answer(query), dtype=np.intp)
        wrong = len(rows.columns) != len(query.columns) or (query.rows == "aggregate" and len(rows) > 1)
        chosen = [] if wrong else self._some(len(rows), query.most_rows)
        found = [query.buckets.index(rows[i]) for i in chosen]
        found += [encoding.no_answer(query)] * (query.most_rows - len(found))
        return np.array(found, dtype=np.intp)

    def _some(self, n: int, most: int) -> list[int]:
        """Up to `most` of `n` rows, every choice of them equally likely (the first steps of a Fisher-Yates shuffle)."""
        places = list(range(n))
        for i in range(min(n, most)):
            if n - i > 1:
                j = i + int(self.source.below(n - i, 1)[0])
                places[i], places[j] = places[j], places[i]
        return places[:most]

    def _memoized(
        self,
        book: StoreTransaction,
        accountant: Accountant,
        query: Query,
        scope: bytes,
        truth: NDArray[np.intp],
        now: int,
        may_draw: bool,
    ) -> tuple[NDArray[np.uint8], Fraction]:
        """Reports made from permanent answers, and what the permanent answers drawn for them cost.

        Where the budget pays for no new one, a new true answer is given the oldest permanent answer there is: silence would tell
        that the answer is new.
        """
        keys = [book.answer_key(scope, int(index)) for index in truth]
        fresh = [i for i, key in enumerate(keys) if key not in keys[:i] and book.permanent(key) is None] if may_draw else []
        cost = Fraction(0)
        if fresh:
            cost = self._charge(book, accountant, query, len(fresh), now)
            drawn = encoding.permanent_rows(query, truth[fresh], self.source)
            for i, row in zip(fresh, drawn, strict=True):
                book.keep_permanent(scope, keys[i], row.tobytes())
        kept = [book.permanent(key) or book.oldest_permanent(scope) or b"" for key in keys]
        rows = np.frombuffer(b"".join(kept), dtype=np.uint8).reshape(len(keys), query.report_bytes)
        return encoding.replay_rows(query, rows, self.source), cost


def _claim(signed: SignedQuery | bytes) -> Query | None:
    """The query as it claims to be, if it can be read at all."""
    try:
        return (SignedQuery.from_bytes(signed) if isinstance(signed, bytes) else signed).unverified()
    except QueryError:
        return None


def _claimed_serial(signed: SignedQuery | bytes) -> int:
    claim = _claim(signed)
    return 0 if claim is None else claim.serial


def _scope(query: Query) -> bytes:
    """What a permanent answer belongs to: the question and its mechanism, over all versions that leave these as they are."""
    fields = query.to_dict()
    return canonical.encode([fields[name] for name in ("analyst", "id", "sql", "columns", "mechanism")])
