"""Deliver shares to their proxies: each is sent its own shares until it acknowledges them.

A share leaves the queue when its proxy has acknowledged it, or when it is too old to be counted.
Sending one twice is harmless: a proxy keeps the first share of a message id and acknowledges the
same bytes again (docs/wire.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from deniable.client.parallel import NamedWorkers
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.errors import UploadError
from deniable.randomness import Source, system_source

__all__ = ["Polled", "Transport", "Uploaded", "backoff", "fetch_queries", "upload"]

FIRST_WAIT = 30
LONGEST_WAIT = 6 * 3600
MOST_RECORDS = 256
REQUEST_SECONDS = 20.0
_SPARE = 5.0  # seconds beyond the time of one request, for recording its outcome
WAIT_IF_EARLY = 5  # as after so many failures: up to 16 minutes


class Transport(Protocol):
    """How bytes travel. `HttpTransport` is one; tests and simulations supply their own."""

    def send(self, proxy: str, token: str, body: bytes) -> None:
        """Deliver the records to the proxy; return once it has them, otherwise raise
        :class:`UploadError`."""

    def queries(self, proxy: str) -> list[bytes]:
        """The signed queries a proxy relays; nothing in them is trusted. The proxy does not learn
        who asks."""

    def skew(self, proxy: str) -> float | None:
        """How many seconds the proxy's clock was ahead of this one when it last answered; None if
        it did not say."""

    def revoked(self, proxy: str) -> frozenset[str]:
        """The ids of the keys the proxy reported as revoked when it last listed its queries."""

    @property
    def concurrent(self) -> bool:
        """Whether several threads may use it at once."""


@dataclass(frozen=True)
class Uploaded:
    """The results of one round of uploads, in shares."""

    sent: int = 0
    refused: int = 0
    """Refused by their proxy for good, and given up."""
    expired: int = 0
    waiting: int = 0
    problems: tuple[str, ...] = ()


def backoff(failures: int, source: Source) -> int:
    """Seconds to wait before contacting a proxy again: uniform up to 30 s, doubled with each
    failure in a row, up to 6 h.

    Uniform from 1 on ("full jitter"), so that a thousand devices that failed together do not come
    back together.
    """
    return 1 + int(source.below(min(LONGEST_WAIT, FIRST_WAIT << min(failures, 20)), 1)[0])


def upload(
    store: Store,
    policy: Policy,
    transport: Transport,
    now: int,
    source: Source | None = None,
    on_step: Callable[[str], None] | None = None,
    lines: NamedWorkers[Uploaded] | None = None,
) -> Uploaded:
    """Deliver what is due to the proxies that are not in a backoff, and give up what is too old.

    With a `concurrent` transport, all proxies are served at once, each on its own thread: one that
    hangs delays no other, and is skipped until its request ends.
    """
    step = on_step or (lambda _: None)
    coins = source or system_source()
    with store.transaction() as transaction:
        transaction.outbox.set_clock(now)
        expired = transaction.outbox.drop_expired(now)
        proxies = transaction.outbox.waiting_proxies(now)
    work = {
        proxy: partial(_upload_to, proxy, store, policy, transport, now, coins, step)
        for proxy in proxies
    }
    if lines is not None and transport.concurrent:
        parts = lines.run(work, REQUEST_SECONDS + _SPARE)
    else:
        parts = {proxy: each() for proxy, each in work.items()}
    problems = [problem for part in parts.values() for problem in part.problems]
    problems += [
        f"{proxy}: still busy with an earlier request" for proxy in proxies if proxy not in parts
    ]
    with store.transaction() as transaction:
        waiting = transaction.outbox.n_queued()
    sent, refused = (
        sum(getattr(part, name) for part in parts.values()) for name in ("sent", "refused")
    )
    return Uploaded(sent, refused, expired, waiting, tuple(problems))


def _upload_to(
    proxy: str,
    store: Store,
    policy: Policy,
    transport: Transport,
    now: int,
    coins: Source,
    step: Callable[[str], None],
) -> Uploaded:
    """Deliver to one proxy what is due for it."""
    sent = refused = 0
    problems = []
    most = MOST_RECORDS
    while True:
        allowed = proxy in policy.proxies
        with store.transaction() as transaction:
            shares = transaction.outbox.due_shares(proxy, now, most)
            # recorded before the first byte leaves, so that a device that is killed here pays
            first_tried = transaction.outbox.mark_tried(shares) if allowed else []
        if not shares:
            break
        try:
            if not allowed:
                raise UploadError(f"{proxy} is no longer among the proxies you allow")
            step("sending")
            transport.send(proxy, policy.proxies[proxy], b"".join(share.record for share in shares))
            step("acknowledged")
        except UploadError as error:
            if error.unsent:
                with store.transaction() as transaction:
                    transaction.outbox.mark_untried(first_tried)
            about_a_share = error.final or error.early
            if about_a_share and len(shares) > 1:
                most = 1  # find out which of them it is
                continue
            problems.append(
                f"{proxy}: {error.detail}, {'given up' if error.final else 'to be tried again'}"
            )
            if not about_a_share:
                _leave_alone(store, proxy, now, error, coins)
                break
            with store.transaction() as transaction:
                if error.final:
                    transaction.outbox.remove(shares)
                    transaction.journal.count("shares dropped: refused by the proxy", len(shares))
                else:
                    transaction.outbox.postpone(shares, now + backoff(WAIT_IF_EARLY, coins))
            refused += error.final * len(shares)
            continue
        with store.transaction() as transaction:
            transaction.outbox.remove(shares)
            transaction.outbox.reached(proxy)
            transaction.journal.count("shares sent", len(shares))
        step("removed")
        sent += len(shares)
    return Uploaded(sent, refused, problems=tuple(problems))


def _leave_alone(store: Store, proxy: str, now: int, error: UploadError, source: Source) -> None:
    with store.transaction() as transaction:
        in_time = max(
            FIRST_WAIT, (transaction.outbox.first_expiry(proxy) - now) // 2
        )  # otherwise what waits would be given up before it is retried
        wait = max(
            min(backoff(transaction.outbox.failures(proxy), source), in_time),
            min(error.retry_after, LONGEST_WAIT),
        )
        transaction.outbox.failed(proxy, now + wait)
        transaction.journal.count("uploads failed")


@dataclass(frozen=True)
class Polled:
    """The results of asking for queries."""

    queries: list[bytes]
    problems: tuple[str, ...] = ()
    """One for each proxy that could not be asked."""
    skews: tuple[float, ...] = ()
    """How many seconds the clocks of the proxies that said the time are ahead of this one."""
    revoked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each proxy that answered, the keys it reports as revoked."""


def fetch_queries(
    policy: Policy, transport: Transport, lines: NamedWorkers[Polled] | None = None
) -> Polled:
    """The signed queries relayed by the allowed proxies, all together.

    All are asked: one alone could hold back a newer version.
    """
    work = {proxy: partial(_poll, proxy, transport) for proxy in policy.proxies}
    if lines is not None and transport.concurrent:
        parts = lines.run(work, REQUEST_SECONDS + _SPARE)
    else:
        parts = {proxy: each() for proxy, each in work.items()}
    found = dict.fromkeys(query for part in parts.values() for query in part.queries)
    problems = [problem for part in parts.values() for problem in part.problems]
    problems += [
        f"{proxy}: still busy with an earlier request" for proxy in work if proxy not in parts
    ]
    revoked = {proxy: keys for part in parts.values() for proxy, keys in part.revoked.items()}
    return Polled(
        list(found),
        tuple(problems),
        tuple(skew for part in parts.values() for skew in part.skews),
        revoked,
    )


def _poll(proxy: str, transport: Transport) -> Polled:
    try:
        queries = transport.queries(proxy)
    except UploadError as error:
        return Polled([], (f"{proxy}: {error.detail}",))
    skew = transport.skew(proxy)
    return Polled(queries, (), () if skew is None else (skew,), {proxy: transport.revoked(proxy)})
