"""Enrolment: how a device gets its token from a proxy under the operator's policy, and how floods
of requests are limited.

Each proxy issues its own tokens for its own invitations or tickets, so nothing a device presents to
one proxy is known to another. Addresses are counted in memory, for an hour at most, and never
written to disk.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from deniable.checks import is_whole, whole
from deniable.errors import ParameterError, RefusedError
from deniable.proxy.schemas.enrolment import ENROLMENT
from deniable.service.tokens import Bound, Token, TokenStore, check_bound

__all__ = ["Enrolment", "EnrolmentRules", "RateLimit", "add_invitations", "invite"]

_TICKET = b"deniable ticket 1\0"
_MOST_ADDRESSES = 100_000
_FOR_EVER = (1 << 63) - 1
_LONGEST_TICKET = 86_400
_HOUR = 3600
_LONGEST_CODE = 1000
_OF_CODE = "deniable code\0"
"""Before an invitation or ticket that is a token itself: no header can hold a zero byte, so it is
never a bearer token."""


@dataclass(frozen=True)
class EnrolmentRules:
    """Who gets a token, and how fast."""

    mode: Literal["closed", "open", "invitation", "ticket"] = "closed"
    """`closed`: only `deniable proxy token add` creates tokens. `open`: anyone who asks gets one.
    `invitation`: in exchange for a single-use code from `deniable proxy invite`. `ticket`: in
    exchange for a single-use statement signed by the app's server."""
    per_hour_and_address: int = 20
    """Tokens for one network address (for IPv6, its first 64 bits) with `open`, and wrong codes or
    tickets from it otherwise."""
    per_second: int = 50
    """Tokens for all addresses together."""
    ticket_key: str = ""
    """The public key of the app's server, 64 hexadecimal digits; with `ticket`."""

    def __post_init__(self) -> None:
        whole("per_hour_and_address", self.per_hour_and_address, 1, 1 << 30)
        whole("per_second", self.per_second, 1, 1 << 20)
        if (self.mode == "ticket") != bool(self.ticket_key):
            raise ParameterError(
                "ticket_key",
                self.ticket_key,
                "must be given with mode = 'ticket', and only with it",
            )
        if self.ticket_key and not _is_key(self.ticket_key):
            raise ParameterError(
                "ticket_key",
                self.ticket_key,
                "must be 64 hexadecimal digits: an Ed25519 public key",
            )


def _is_key(text: str) -> bool:
    try:
        return len(bytes.fromhex(text)) == 32
    except ValueError:
        return False


class _Right(NamedTuple):
    """A good invitation or ticket."""

    hash: bytes
    until: int
    bound: Bound | None
    nonce: bytes | None = None
    """A ticket's; None for an invitation."""


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
        self._db = ENROLMENT.connect(folder / "enrolment.db")
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
            self._check_request(request, {"invitation", "ticket", "signature"})
            if self.rules.mode == "open":
                self._limit(address)
                self._take_turn()
                found: _Right | None = None
            else:
                found = self._right(request, address)
                self._take_turn()
                self._use(found, address)
        except RefusedError as error:
            self.counters[error.reason] += 1
            raise
        self.counters["enrolled"] += 1
        return self._tokens.add("device", bound=found.bound if found else None)[0]

    def known(self, request: Mapping[str, Any], address: str) -> Token:
        """The token under which an upload is taken that shows, in its body, a token, an invitation
        or a ticket.

        An invitation or ticket becomes a token itself, so that the same request may be sent again
        until it is answered: it is found again, and what was received before is recognised by its
        message ids.
        """
        try:
            shown = request.get("token")
            if isinstance(shown, str):
                found = self._tokens.find(shown)
                if found is None or found.role != "device":
                    raise RefusedError(
                        "token", 401, "a device's token known to this proxy is required"
                    )
                return found
            self._check_request(request, {"invitation", "ticket", "signature"})
            if self.rules.mode == "open":
                raise RefusedError("token", 401, "a token, an invitation or a ticket is required")
            text = request.get("invitation" if self.rules.mode == "invitation" else "ticket")
            name = _OF_CODE + text if isinstance(text, str) and len(text) <= _LONGEST_CODE else ""
            found = self._tokens.find(name) if name else None
            if found is not None and (
                self.rules.mode == "invitation" or self._signed(text, request.get("signature"))
            ):
                return found
            right = self._right(request, address)
            self._take_turn()
        except RefusedError as error:
            self.counters[error.reason] += 1
            raise
        # before the invitation is used up, or a crash would lose both
        made = self._tokens.know(name, right.bound)
        self._use(right, address)
        self.counters["enrolled"] += 1
        return made

    def rotate(self, token: str, address: str) -> str:
        """A new token that replaces the one a device presents. Its quota goes on: it is still the
        same device."""
        self._limit(address)
        found = self._tokens.find(token)
        fresh = self._tokens.rotate(token) if found is not None and found.role == "device" else None
        if fresh is None:
            raise RefusedError(
                "token", 401, "a device's bearer token known to this proxy is required"
            )
        self.counters["rotated"] += 1
        return fresh

    def _check_request(self, request: Any, known: set[str]) -> None:
        if self.rules.mode == "closed":
            raise RefusedError(
                "enrolment_closed",
                403,
                "enrolment is closed: ask this proxy's operator for a token",
            )
        if not isinstance(request, Mapping) or set(request) - known:
            what = "a JSON object with an invitation, or with a ticket and its signature"
            raise RefusedError("enrolment_request", 400, f"the body must be {what}")

    def _take_turn(self) -> None:
        """Keep to the rate of all devices together: after wrong codes are refused, and before a
        good one is used up."""
        wait = self._all.take()
        if wait:
            raise RefusedError(
                "enrolment_busy",
                429,
                "too many devices are enrolling; retry later",
                retry_after=int(wait) + 1,
            )

    def _right(self, request: Mapping[str, Any], address: str) -> _Right:
        """The invitation or ticket in a request, if it is good.

        Only a wrong one counts against its address: a school is one address, and a guess costs as
        much as a request.
        """
        try:
            if self.rules.mode == "invitation":
                return self._invitation(request.get("invitation"))
            return self._ticket(request.get("ticket"), request.get("signature"))
        except RefusedError:
            self._limit(address)
            raise

    def _use(self, right: _Right, address: str) -> None:
        """Use it up: of two requests that show it at once, one gets nothing."""
        now = self._clock()
        if right.nonce is None:
            used = self._db.execute(
                "DELETE FROM invitations WHERE hash = ?", (right.hash,)
            ).rowcount
            # or a list of codes that is added again would make it good again
            self._db.execute("INSERT OR IGNORE INTO used VALUES (?, ?)", (right.hash, _FOR_EVER))
        else:
            self._db.execute("DELETE FROM used WHERE until <= ?", (now,))
            used = self._db.execute(
                "INSERT OR IGNORE INTO used VALUES (?, ?)", (right.nonce, right.until)
            ).rowcount
        if not used:
            self._limit(address)
            raise _bad_invitation() if right.nonce is None else _bad_ticket()

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
            raise RefusedError(
                "enrolment_rate",
                429,
                "too many requests from this address",
                retry_after=int(wait) + 1,
            )

    def _invitation(self, code: Any) -> _Right:
        found = None
        if isinstance(code, str) and len(code) <= _LONGEST_CODE:
            sql = "SELECT until, query, uses, ends FROM invitations WHERE hash = ? AND until > ?"
            found = self._db.execute(sql, (_hash(code), self._clock())).fetchone()
        if found is None:
            raise _bad_invitation()
        return _Right(_hash(code), found[0], None if found[1] is None else Bound(*found[1:]))

    def _signed(self, ticket: Any, signature: Any) -> bool:
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.rules.ticket_key))
            key.verify(bytes.fromhex(signature), _TICKET + ticket.encode())
        except (AttributeError, InvalidSignature, TypeError, ValueError):
            return False
        return True

    def _ticket(self, ticket: Any, signature: Any) -> _Right:
        if not self._signed(ticket, signature):
            raise _bad_ticket()
        try:
            fields = json.loads(ticket)
            nonce, until = bytes.fromhex(fields["nonce"]), fields["until"]
            bound = None
            if {"query", "uses", "ends"} & set(fields):
                bound = Bound(fields.get("query"), fields.get("uses"), fields.get("ends"))
                check_bound("device", bound)
        except (KeyError, TypeError, ValueError):  # among them, a bound that makes no sense
            raise _bad_ticket() from None
        now = self._clock()
        if not is_whole(until) or not now < until <= now + _LONGEST_TICKET or len(nonce) != 16:
            raise _bad_ticket()
        if self._db.execute("SELECT 1 FROM used WHERE nonce = ?", (nonce,)).fetchone():
            raise _bad_ticket()
        return _Right(b"", until, bound, nonce)


def invite(folder: Path, count: int, until: int, bound: Bound | None = None) -> Sequence[str]:
    """New invitations, each valid for one token until `until`. This is the only time they are
    visible in clear.

    Their tokens are good for what `bound` says.
    """
    whole("count", count, 1, 1 << 20)
    codes = [secrets.token_urlsafe(16) for _ in range(count)]
    add_invitations(folder, codes, until, bound)
    return codes


def add_invitations(
    folder: Path, codes: Sequence[str], until: int, bound: Bound | None = None
) -> int:
    """Take codes that were made elsewhere as invitations, each valid once, until `until`; returns
    how many are new. A code must have as many random bits as one that is made here."""
    check_bound("device", bound)
    for i, code in enumerate(codes):
        if not 22 <= len(code) <= _LONGEST_CODE or not code.isascii() or not code.isprintable():
            rule = "must be 22 to 1000 printable characters: a shorter code could be guessed"
            raise ParameterError(f"codes[{i}]", f"{len(code)} characters", rule)
    limits = bound or (None, None, None)
    connection = ENROLMENT.connect(folder / "enrolment.db")
    try:
        connection.execute("BEGIN IMMEDIATE")
        rows = [(_hash(code), until, *limits) for code in codes]
        sql = (
            "INSERT OR IGNORE INTO invitations SELECT ?1, ?2, ?3, ?4, ?5"
            " WHERE NOT EXISTS (SELECT 1 FROM used WHERE nonce = ?1)"
        )
        added = connection.executemany(sql, rows).rowcount
        connection.execute("COMMIT")
        return added
    finally:
        connection.close()


def _bad_invitation() -> RefusedError:
    return RefusedError("invitation", 403, "the invitation is unknown, already used, or expired")


def _bad_ticket() -> RefusedError:
    return RefusedError(
        "ticket", 403, "the ticket is not one that the app's server signed for now, or was used"
    )


def _hash(code: str) -> bytes:
    return hashlib.sha256(code.encode(errors="surrogatepass")).digest()


def _network(address: str) -> str:
    """What counts as one address: the whole IPv4 address, or the first 64 bits of an IPv6 one, as a
    household shares them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    return (
        str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))
    )
