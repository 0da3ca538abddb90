"""Enrolment: how a device gets its token from a proxy under the operator's policy, and how floods of requests are limited.

Each proxy issues its own tokens for its own invitations or tickets, so nothing a device presents to one proxy is known to
another. Addresses are counted in memory, for an hour at most, and never written to disk.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from deniable.checks import is_whole, whole
from deniable.errors import ParameterError, RefusedError
from deniable.service.database import Layout
from deniable.service.tokens import TokenStore

__all__ = ["Enrolment", "EnrolmentRules", "RateLimit", "invite"]

_LAYOUT = Layout(
    "a proxy's book of invitations",
    application_id=0x64_6E_65_6E,  # the letters dnen
    version=1,
    schema=(
        "CREATE TABLE invitations (hash BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE used (nonce BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;"
    ),
)
_TICKET = b"deniable ticket 1\0"
_MOST_ADDRESSES = 100_000
_LONGEST_TICKET = 86_400
_HOUR = 3600


@dataclass(frozen=True)
class EnrolmentRules:
    """Who gets a token, and how fast."""

    mode: Literal["closed", "open", "invitation", "ticket"] = "closed"
    """`closed`: only `deniable proxy token add` creates tokens. `open`: anyone who asks gets one. `invitation`: in exchange for a
    single-use code from `deniable proxy invite`. `ticket`: in exchange for a single-use statement signed by the app's server."""
    per_hour_and_address: int = 20
    """Tokens for one network address (for IPv6, its first 64 bits)."""
    per_second: int = 50
    """Tokens for all addresses together."""
    ticket_key: str = ""
    """The public key of the app's server, 64 hexadecimal digits; with `ticket`."""

    def __post_init__(self) -> None:
        whole("enrolment.per_hour_and_address", self.per_hour_and_address, 1, 1 << 30)
        whole("enrolment.per_second", self.per_second, 1, 1 << 20)
        if (self.mode == "ticket") != bool(self.ticket_key):
            raise ParameterError("enrolment.ticket_key", self.ticket_key, "must be given with mode = 'ticket', and only with it")
        if self.ticket_key and not _is_key(self.ticket_key):
            raise ParameterError("enrolment.ticket_key", self.ticket_key, "must be 64 hexadecimal digits: an Ed25519 public key")


def _is_key(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) == 32
    except ValueError:
        return False


class RateLimit:
    """A token bucket: it refills steadily up to `most`, and each request takes one.

    >>> now = [0.0]
    >>> limit = RateLimit(per_second=2, most=3, clock=lambda: now[0])
    >>> [limit.take() for _ in range(4)]
    [0.0, 0.0, 0.0, 0.5]
    """

    def __init__(self, per_second: float, most: float, clock: Callable[[], float]) -> None:
        self._rate, self._most, self._clock = per_second, most, clock
        self._level, self._at = most, clock()

    def take(self) -> float:
        """0 if the request may proceed, otherwise the seconds until it may."""
        now = self._clock()
        self._level = min(self._most, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level >= 1:
            self._level -= 1
            return 0.0
        return (1 - self._level) / self._rate


class Enrolment:
    """Issues tokens to devices."""

    def __init__(
        self,
        folder: Path,
        rules: EnrolmentRules,
        tokens: TokenStore,
        clock: Callable[[], int],
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules, self._tokens, self._clock, self._ticks = rules, tokens, clock, ticks
        self._db = _LAYOUT.connect(folder / "enrolment.db")
        self._all = RateLimit(rules.per_second, rules.per_second, ticks)
        self._addresses: OrderedDict[str, RateLimit] = OrderedDict()
        self.counters: Counter[str] = Counter()
        """Tokens issued and requests refused, by reason."""

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def enrol(self, request: Any, address: str) -> str:
        """A new token for a device, if the rules allow it."""
        try:
            self._check(request, address)
        except RefusedError as error:
            self.counters[error.reason] += 1
            raise
        self.counters["enrolled"] += 1
        return self._tokens.add("device")[0]

    def rotate(self, token: str, address: str) -> str:
        """A new token that replaces the one a device presents. Its quota goes on: it is still the same device."""
        self._limit(address)
        found = self._tokens.find(token)
        fresh = self._tokens.rotate(token) if found is not None and found.role == "device" else None
        if fresh is None:
            raise RefusedError("token", 401, "a device's bearer token known to this proxy is required")
        self.counters["rotated"] += 1
        return fresh

    def _check(self, request: Any, address: str) -> None:
        mode = self.rules.mode
        if mode == "closed":
            raise RefusedError("enrolment_closed", 403, "enrolment is closed: ask this proxy's operator for a token")
        if not isinstance(request, dict) or set(request) - {"invitation", "ticket", "signature"}:
            what = "a JSON object with an invitation, or with a ticket and its signature"
            raise RefusedError("enrolment_request", 400, f"the body must be {what}")
        self._limit(address)  # before anything is looked up, so that a guess costs as much as a request
        if mode == "invitation":
            self._use_invitation(request.get("invitation"))
        elif mode == "ticket":
            self._use_ticket(request.get("ticket"), request.get("signature"))
        wait = self._all.take()  # last: a flood without invitations does not use it up
        if wait:
            raise RefusedError("enrolment_busy", 429, "too many devices are enrolling; retry later", retry_after=int(wait) + 1)

    def _limit(self, address: str) -> None:
        name = _network(address)
        limit = self._addresses.get(name)
        if limit is None:
            most = self.rules.per_hour_and_address
            limit = self._addresses[name] = RateLimit(most / _HOUR, most, self._ticks)
            while len(self._addresses) > _MOST_ADDRESSES:
                self._addresses.popitem(last=False)
        self._addresses.move_to_end(name)
        wait = limit.take()
        if wait:
            raise RefusedError("enrolment_rate", 429, "too many requests from this address", retry_after=int(wait) + 1)

    def _use_invitation(self, code: Any) -> None:
        found = 0
        if isinstance(code, str) and len(code) <= 200:
            sql = "DELETE FROM invitations WHERE hash = ? AND until > ?"
            found = self._db.execute(sql, (_hash(code), self._clock())).rowcount
        if not found:
            raise RefusedError("invitation", 403, "the invitation is unknown, already used, or expired")

    def _use_ticket(self, ticket: Any, signature: Any) -> None:
        refused = RefusedError("ticket", 403, "the ticket is not one that the app's server signed for now, or was used")
        try:
            content = ticket.encode()
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.rules.ticket_key))
            key.verify(bytes.fromhex(signature), _TICKET + content)
            fields = json.loads(content)
            nonce, until = bytes.fromhex(fields["nonce"]), fields["until"]
        except (AttributeError, InvalidSignature, KeyError, TypeError, ValueError):
            raise refused from None
        now = self._clock()
        if not is_whole(until) or not now < until <= now + _LONGEST_TICKET or len(nonce) != 16:
            raise refused
        self._db.execute("DELETE FROM used WHERE until <= ?", (now,))
        if not self._db.execute("INSERT OR IGNORE INTO used VALUES (?, ?)", (nonce, until)).rowcount:
            raise refused


def invite(folder: Path, count: int, until: int) -> Sequence[str]:
    """New invitations, each valid for one token until `until`. This is the only time they are visible in clear."""
    whole("count", count, 1, 1 << 20)
    codes = [secrets.token_urlsafe(16) for _ in range(count)]
    connection = _LAYOUT.connect(folder / "enrolment.db")
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO invitations VALUES (?, ?)", [(_hash(code), until) for code in codes])
        connection.execute("COMMIT")
    finally:
        connection.close()
    return codes


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="surrogatepass")).digest()


def _network(address: str) -> str:
    """What counts as one address: the whole IPv4 address, or the first 64 bits of an IPv6 one, as a household shares them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))
