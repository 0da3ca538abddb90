"""Deliver shares to their proxies: each is sent its own shares until it acknowledges them.

A share leaves the queue when its proxy has acknowledged it, or when it is too old to be counted. Sending one twice is harmless: a
proxy keeps the first share of a message id and acknowledges the same bytes again (docs/wire.md).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Protocol

from deniable.client.parallel import Lines
from deniable.client.policy import Policy
from deniable.client.store import Store
from deniable.errors import ResponseError, UploadError
from deniable.queries.bounded_json import MOST_FIELDS, decode
from deniable.queries.signing import LARGEST_LIST, MOST_LISTED
from deniable.randomness import Source, system_source
from deniable.service.http_reading import Answer, ask

__all__ = ["HttpTransport", "Polled", "Transport", "Uploaded", "backoff", "fetch_queries", "read_list", "refusal", "upload"]

FIRST_WAIT = 30
LONGEST_WAIT = 6 * 3600
MOST_RECORDS = 256
_TIMEOUT = 20.0
_SPARE = 5.0  # seconds beyond the time of one request, for recording its outcome
_FINAL = frozenset({400, 409, 410, 413, 415})
"""A proxy's problems for shares it will never accept: not records, changed, closed epoch, too long, not bytes."""
_EARLY = frozenset({404, 422})
"""Its problems for shares it does not accept yet: unknown query, or an epoch its clock has not reached."""
_NOT_MODIFIED = 304
_LONGEST_REASON = 200
WAIT_IF_EARLY = 5  # as after so many failures: up to 16 minutes
_KEY_ID = re.compile(r"(?<![0-9a-f])[0-9a-f]{16}(?![0-9a-f])", re.ASCII)
_MOST_REVOKED = 1024


class Transport(Protocol):
    """How bytes travel. `HttpTransport` is one; tests and simulations supply their own."""

    def send(self, proxy: str, token: str, body: bytes) -> None:
        """Deliver the records to the proxy; return once it has them, otherwise raise :class:`UploadError`."""

    def queries(self, proxy: str) -> list[bytes]:
        """The signed queries a proxy relays; nothing in them is trusted. The proxy does not learn who asks."""

    def skew(self, proxy: str) -> float | None:
        """How many seconds the proxy's clock was ahead of this one when it last answered; None if it did not say."""

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
    """Seconds to wait before contacting a proxy again: uniform up to 30 s, doubled with each failure in a row, up to 6 h.

    Uniform from 1 on ("full jitter"), so that a thousand devices that failed together do not come back together.
    """
    return 1 + int(source.below(min(LONGEST_WAIT, FIRST_WAIT << min(failures, 20)), 1)[0])


def upload(
    store: Store,
    policy: Policy,
    transport: Transport,
    now: int,
    source: Source | None = None,
    on_step: Callable[[str], None] | None = None,
    lines: Lines[Uploaded] | None = None,
) -> Uploaded:
    """Deliver what is due to the proxies that are not in a backoff, and give up what is too old.

    With a `concurrent` transport, all proxies are served at once, each on its own thread: one that hangs delays no other, and is
    skipped until its request ends.
    """
    step = on_step or (lambda _: None)
    coins = source or system_source()
    with store.transaction() as book:
        book.set_clock(now)
        expired = book.drop_expired(now)
        proxies = book.waiting_proxies(now)
    work = {proxy: partial(_upload_to, proxy, store, policy, transport, now, coins, step) for proxy in proxies}
    if lines is not None and transport.concurrent:
        parts = lines.run(work, _TIMEOUT + _SPARE)
    else:
        parts = {proxy: each() for proxy, each in work.items()}
    problems = [problem for part in parts.values() for problem in part.problems]
    problems += [f"{proxy}: still busy with an earlier request" for proxy in proxies if proxy not in parts]
    with store.transaction() as book:
        waiting = book.n_queued()
    sent, refused = (sum(getattr(part, name) for part in parts.values()) for name in ("sent", "refused"))
    return Uploaded(sent, refused, expired, waiting, tuple(problems))


def _upload_to(
    proxy: str, store: Store, policy: Policy, transport: Transport, now: int, coins: Source, step: Callable[[str], None]
) -> Uploaded:
    """Deliver to one proxy what is due for it."""
    sent = refused = 0
    problems = []
    most = MOST_RECORDS
    while True:
        allowed = proxy in policy.proxies
        with store.transaction() as book:
            shares = book.due_shares(proxy, now, most)
            if shares and allowed:
                book.mark_tried(shares)  # recorded before the first byte leaves
        if not shares:
            break
        try:
            if not allowed:
                raise UploadError(f"{proxy} is no longer among the proxies you allow")
            step("sending")
            transport.send(proxy, policy.proxies[proxy], b"".join(share.record for share in shares))
            step("acknowledged")
        except UploadError as error:
            about_a_share = error.final or error.early
            if about_a_share and len(shares) > 1:
                most = 1  # find out which of them it is
                continue
            problems.append(f"{proxy}: {error.detail}, {'given up' if error.final else 'to be tried again'}")
            if not about_a_share:
                _leave_alone(store, proxy, now, error, coins)
                break
            with store.transaction() as book:
                if error.final:
                    book.remove(shares)
                    book.count("shares dropped: refused by the proxy", len(shares))
                else:
                    book.postpone(shares, now + backoff(WAIT_IF_EARLY, coins))
            refused += error.final * len(shares)
            continue
        with store.transaction() as book:
            book.remove(shares)
            book.reached(proxy)
            book.count("shares sent", len(shares))
        step("removed")
        sent += len(shares)
    return Uploaded(sent, refused, problems=tuple(problems))


def _leave_alone(store: Store, proxy: str, now: int, error: UploadError, source: Source) -> None:
    with store.transaction() as book:
        in_time = max(
            FIRST_WAIT, (book.first_expiry(proxy) - now) // 2
        )  # otherwise what waits would be given up before it is retried
        wait = max(min(backoff(book.failures(proxy), source), in_time), min(error.retry_after, LONGEST_WAIT))
        book.failed(proxy, now + wait)
        book.count("uploads failed")


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


def fetch_queries(policy: Policy, transport: Transport, lines: Lines[Polled] | None = None) -> Polled:
    """The signed queries relayed by the allowed proxies, all together.

    All are asked: one alone could hold back a newer version.
    """
    work = {proxy: partial(_poll, proxy, transport) for proxy in policy.proxies}
    if lines is not None and transport.concurrent:
        parts = lines.run(work, _TIMEOUT + _SPARE)
    else:
        parts = {proxy: each() for proxy, each in work.items()}
    found = dict.fromkeys(query for part in parts.values() for query in part.queries)
    problems = [problem for part in parts.values() for problem in part.problems]
    problems += [f"{proxy}: still busy with an earlier request" for proxy in work if proxy not in parts]
    revoked = {proxy: keys for part in parts.values() for proxy, keys in part.revoked.items()}
    return Polled(list(found), tuple(problems), tuple(skew for part in parts.values() for skew in part.skews), revoked)


def _poll(proxy: str, transport: Transport) -> Polled:
    try:
        queries = transport.queries(proxy)
    except UploadError as error:
        return Polled([], (f"{proxy}: {error.detail}",))
    skew = transport.skew(proxy)
    return Polled(queries, (), () if skew is None else (skew,), {proxy: transport.revoked(proxy)})


class HttpTransport:
    """HTTP with httpx: `POST /v1/shares` with the device's token as bearer, and `GET /v1/queries` without.

    Polls use separate connections, so that a connection that has carried a token never carries a poll.
    """

    def __init__(self, timeout: float = _TIMEOUT, client: Any = None) -> None:
        import httpx  # noqa: PLC0415 - slow to import

        if client is None:
            authorities = httpx.create_ssl_context()  # takes 40 ms: once for both
            self._client = httpx.Client(timeout=timeout, follow_redirects=False, verify=authorities)
            self._polling = httpx.Client(timeout=timeout, follow_redirects=False, verify=authorities)
        else:
            self._client = self._polling = client
        self._known: dict[str, tuple[str, list[bytes]]] = {}
        """For each proxy, the tag and the list of queries it last sent: while they are unchanged, it need not send them again."""
        self._skews: dict[str, float] = {}
        self._revoked: dict[str, frozenset[str]] = {}

    def __enter__(self) -> HttpTransport:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._polling.close()

    concurrent = True

    def skew(self, proxy: str) -> float | None:
        """From the `Date` header of the proxy's last list of queries, which is in whole seconds."""
        return self._skews.get(proxy)

    def revoked(self, proxy: str) -> frozenset[str]:
        """From the `Revoked-Keys` header of the proxy's last list of queries."""
        return self._revoked.get(proxy, frozenset())

    def enrol(self, proxy: str, request: Mapping[str, str], token: str | None = None) -> str:
        """A token from a proxy: a first one or, given `token`, its replacement."""
        path = "/v1/enrol/rotate" if token else "/v1/enrol"
        answer = self._ask("POST", proxy, path, token, json.dumps(dict(request)).encode(), {"Content-Type": "application/json"})
        try:
            said = decode(answer.content, MOST_FIELDS)["token"]
        except (KeyError, TypeError, ValueError):
            said = None
        if not isinstance(said, str) or not said.isascii() or not said.isprintable() or not 16 <= len(said) <= 200:
            raise UploadError("its response contains no token")
        return said

    def send(self, proxy: str, token: str, body: bytes) -> None:
        """Post the records."""
        self._ask("POST", proxy, "/v1/shares", token, body, {"Content-Type": "application/octet-stream"})

    def queries(self, proxy: str) -> list[bytes]:
        """Get the list of signed queries."""
        tag, known = self._known.get(proxy, ("", []))
        self._skews.pop(proxy, None)
        response = self._ask("GET", proxy, "/v1/queries", None, headers={"If-None-Match": tag} if tag else {})
        said = _date(response.headers.get("Date", ""))
        if said is not None:
            self._skews[proxy] = said - time.time()
        self._revoked[proxy] = frozenset(_KEY_ID.findall(response.headers.get("Revoked-Keys", ""))[:_MOST_REVOKED])
        if tag and response.status == _NOT_MODIFIED:
            return known
        listed = read_list(response.content)
        self._known[proxy] = (response.headers.get("ETag", ""), listed)
        return listed

    def _ask(
        self, method: str, proxy: str, path: str, token: str | None, body: bytes | None = None, headers: Any = None
    ) -> Answer:
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        client = self._client if token else self._polling
        try:
            response = ask(client, method, proxy.rstrip("/") + path, LARGEST_LIST, content=body, headers=headers)
        except ResponseError as error:
            raise UploadError(error.detail) from None
        if response.is_success or (response.status == _NOT_MODIFIED and "If-None-Match" in headers):
            return response
        after = response.headers.get("Retry-After", "")
        wait = int(after) if after.isascii() and after.isdecimal() and len(after) < 8 else 0
        raise refusal(response.status, _reason(response), wait)


def refusal(status: int, reason: str = "", retry_after: int = 0) -> UploadError:
    """What a proxy's status means for the shares it did not accept."""
    return UploadError(f"answered {status}{reason}", retry_after, final=status in _FINAL, early=status in _EARLY)


def _reason(response: Answer) -> str:
    """What a proxy's problem document says, shortened: it is shown to the owner."""
    try:
        problem = decode(response.content, MOST_FIELDS)
    except ValueError:
        return ""
    said = problem.get("detail") or problem.get("title") if isinstance(problem, dict) else None
    return f" ({said[:_LONGEST_REASON]})" if isinstance(said, str) and said else ""


def _date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def read_list(content: bytes) -> list[bytes]:
    """The signed queries in a proxy's list, each as bytes. They are not parsed here."""
    try:
        tree = decode(content, MOST_LISTED * MOST_FIELDS)
    except ValueError as error:
        raise UploadError(f"its list of queries is unusable: {error}") from None
    listed = tree.get("queries") if isinstance(tree, dict) else tree
    if not isinstance(listed, list) or len(listed) > MOST_LISTED:
        raise UploadError(f"its list of queries is not a list of at most {MOST_LISTED}")
    return [each.encode(errors="replace") if isinstance(each, str) else json.dumps(each).encode() for each in listed]
