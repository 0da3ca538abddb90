"""Signed queries: what a device checks before it reads what is asked.

The order of the checks is part of the protection. The signature is verified over the bytes as
received, before anything in them is read; only then is the query parsed, and its expiry and serial
checked. Anyone who relays queries can send a device anything, and it costs the device one signature
check.

A query whose analyst signed an envelope (:mod:`.envelope`) may come with a controller's version.
Then there are two signatures: the analyst's over the query, and that of the controller's key, which
the query names, over the version.

A query on a named channel names the key to which the channel belongs. If that is not the key that
signed it, it must carry the owner's permission (:mod:`.permissions`), which is a second signature
too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from deniable.errors import (
    ChannelError,
    EnvelopeError,
    ExpiredQueryError,
    KeyNotValidError,
    ParameterError,
    QueryError,
    RollbackError,
    SignatureError,
)
from deniable.queries.header import FORMAT_OWNED, SEPARATOR, QueryHeader, digest_of
from deniable.queries.signed import canonical
from deniable.queries.signed.bounded_json import MOST_FIELDS, decode
from deniable.queries.signed.envelope import VERSION_SEPARATOR, Envelope, Version, applied
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.queries.signed.permissions import ChannelPermission

if TYPE_CHECKING:
    from deniable.queries.query import Query

__all__ = [
    "SeenVersion",
    "SignedQuery",
    "authentic",
    "authenticate",
    "authenticate_header",
    "check_version",
    "sign",
    "sign_version",
    "signing_keys",
    "verify",
]

_T = TypeVar("_T")

_FORMAT = "deniable signed query 1"
_FIELDS = (
    {"format", "query", "key", "signature"},
    {"format", "query", "key", "signature", "version", "version_signature"},
)
_LARGEST = 1 << 21
MOST_LISTED = 1000
"""The most queries that a proxy may relay at a time."""
LARGEST_LIST = 1 << 23
"""The most bytes of that list that a device reads."""
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that an unforeseen input may raise: it is then not a query, and no reason to stop."""
_KEY_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


class SeenVersion(NamedTuple):
    """The newest version of a query that a device has accepted."""

    serial: int
    digest: bytes


@dataclass(frozen=True)
class SignedQuery:
    """A query's canonical bytes, the id of the key that signed them, and the signature. Nothing is
    verified yet."""

    content: bytes
    key_id: str
    signature: bytes
    version: bytes | None = None
    """A controller's version, in canonical bytes, if there is one."""
    version_signature: bytes = b""

    def unverified(self) -> Query:
        """The query as it claims to be, for display; use :func:`verify` to trust it."""
        return _read(_parsed, self.effective())

    def header(self) -> QueryHeader:
        """The query's header as it claims to be: all that a proxy reads."""
        return _read(QueryHeader.from_content, self.effective())

    def effective(self) -> bytes:
        """The canonical bytes of what devices are asked: the analyst's query, with the version's
        numbers if there is one."""
        return (
            self.content if self.version is None else _read(_applied, (self.content, self.version))
        )

    def without_version(self) -> SignedQuery:
        """The query as the analyst signed it."""
        return replace(self, version=None, version_signature=b"")

    def to_bytes(self) -> bytes:
        """The file or message that carries it: JSON, with the canonical bytes as one text."""
        fields = {
            "format": _FORMAT,
            "query": self.content.decode(),
            "key": self.key_id,
            "signature": self.signature.hex(),
        }
        if self.version is not None:
            fields |= {
                "version": self.version.decode(),
                "version_signature": self.version_signature.hex(),
            }
        return (json.dumps(fields, indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> SignedQuery:
        """What :meth:`to_bytes` wrote."""
        if len(content) > _LARGEST:
            raise QueryError(f"a signed query has at most {_LARGEST} bytes, not {len(content)}")
        try:
            fields = decode(content, MOST_FIELDS)
        except ValueError as error:
            raise QueryError(f"these bytes are not a signed query: {error}") from None
        if (
            not isinstance(fields, dict)
            or set(fields) not in _FIELDS
            or fields["format"] != _FORMAT
        ):
            raise QueryError(f"these bytes are not a signed query of the format {_FORMAT!r}")
        query, key, signature = fields["query"], fields["key"], fields["signature"]
        if not all(isinstance(part, str) for part in fields.values()):
            raise QueryError("the fields of a signed query must be strings")
        if not _KEY_ID.fullmatch(key):
            raise QueryError(
                "the key id of a signed query must be 16 lower-case hexadecimal digits"
            )
        if "version" not in fields:
            return cls(_encoded(query), key, _unhex(signature))
        return cls(
            _encoded(query),
            key,
            _unhex(signature),
            _encoded(fields["version"]),
            _unhex(fields["version_signature"]),
        )


def _applied(parts: tuple[bytes, bytes]) -> bytes:
    content, version = parts
    return applied(content, Version.from_content(version))


def _read(how: Callable[[Any], _T], content: Any) -> _T:
    try:
        return how(content)
    except ParameterError as error:
        raise QueryError(f"the signed bytes are not a query: {error}") from None
    except _UNREADABLE as error:
        raise QueryError(
            f"the signed bytes are not a query: {type(error).__name__} while reading them"
        ) from None


@lru_cache(maxsize=16)  # the largest queries take some 10 MB each
def _parsed(content: bytes) -> Query:
    """Queries are immutable, so thousands of devices in one process can share a parsed query."""
    from deniable.queries.query import Query  # noqa: PLC0415 - a proxy, which reads headers, must not load mechanisms

    return Query.from_content(content)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise QueryError("the query of a signed query is not valid text") from None


def _unhex(text: Any) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise SignatureError("the signature is not written in hexadecimal digits") from None


def sign(query: Query, key: AnalystKey, permission: ChannelPermission | None = None) -> SignedQuery:
    """The query, signed: Ed25519 over the separator and the canonical bytes.

    A named channel belongs to the key that signs, unless the query or a `permission` names another
    owner; the signed query says so, and therefore has another digest than a query that does not.
    """
    if key.owner != query.analyst:
        raise SignatureError(
            f"the key belongs to {key.owner!r}, but the query is asked by {query.analyst!r}"
        )
    query.check_patterns()
    if permission is not None:
        query = replace(
            query, mechanism=query.recipe, channel_owner=permission.owner, permission=permission
        )
    elif query.channel is not None and query.channel_owner is None:
        query = replace(query, mechanism=query.recipe, channel_owner=key.public.raw.hex())
    if query.permission is not None:
        _check_permission(query.header, key.public)
    return SignedQuery(query.content, key.public.id, key.sign(SEPARATOR + query.content))


def sign_version(signed: SignedQuery, version: Version, key: AnalystKey) -> SignedQuery:
    """An analyst's signed query with a controller's version of it: Ed25519 over the version's
    separator and canonical bytes."""
    if version.query != digest_of(signed.content).hex():
        raise EnvelopeError(f"version {version.serial} belongs to another query")
    return replace(
        signed,
        version=version.content,
        version_signature=key.sign(VERSION_SEPARATOR + version.content),
    )


def authenticate_header(signed: SignedQuery, ring: KeyRing, now: int) -> QueryHeader:
    """The query's header, if its analyst's key, trusted at the time `now`, has signed the query.

    Nothing is read that the key has not signed: without a valid signature, the only cost is
    checking it.
    """
    key = ring.trusted(signed.key_id, now)
    if not key.verifies(signed.signature, SEPARATOR + signed.content):
        raise SignatureError(f"the signature is not that of key {signed.key_id} over this query")
    header = signed.without_version().header()
    if header.analyst != key.owner:
        raise SignatureError(
            f"key {signed.key_id} belongs to {key.owner!r}, but the query says it is asked by"
            f" {header.analyst!r}"
        )
    _check_channel(header, key, ring, now)
    if signed.version is None:
        return header
    try:
        _check_delegated(signed, header, ring, now)
        return signed.header()
    except QueryError as error:
        error.base = header
        raise


def _check_channel(header: QueryHeader, key: PublicKey, ring: KeyRing, now: int) -> None:
    """Refuse a query on a channel of another key, unless the same analyst held that key, or the
    key's owner permits it."""
    owner = header.channel_owner
    if header.permission is not None:
        _check_permission(header, key)
        ring.check_delegate(header.permission.owner_id, now)
    elif owner not in (None, key.raw.hex()) and not any(
        each.key.raw.hex() == owner and each.key.owner == header.analyst for each in ring
    ):
        raise ChannelError(
            f"channel {header.channel!r} belongs to another key, and the query has no permission to"
            " use it"
        )


def _check_permission(header: QueryHeader, key: PublicKey) -> None:
    if header.permission is not None:
        asked = header.most_rows, header.grace or 0, header.schedule.expires
        header.permission.check(header.channel or "", key.raw, *asked)


def _check_delegated(signed: SignedQuery, header: QueryHeader, ring: KeyRing, now: int) -> None:
    """Refuse a version that the key in the query's envelope has not signed, or that is outside the
    envelope."""
    stated = canonical.decode(signed.content).get("envelope")
    if stated is None:
        raise EnvelopeError(f"query {header.id!r} does not allow a controller to change it")
    envelope = _read(Envelope.from_dict, stated)
    controller = PublicKey(
        f"the controller of {header.analyst}"[:200], bytes.fromhex(envelope.controller)
    )
    ring.check_delegate(controller.id, now)
    if envelope.until is not None and now >= envelope.until:
        raise KeyNotValidError(
            f"the controller's key {controller.id} was valid before {envelope.until}; it is now"
            f" {now}"
        )
    content = signed.version or b""
    if not controller.verifies(signed.version_signature, VERSION_SEPARATOR + content):
        raise SignatureError(
            f"the version's signature is not that of the controller's key {controller.id}"
        )
    version: Version = _read(Version.from_content, content)
    if version.query != header.digest.hex():
        raise EnvelopeError(
            f"version {version.serial} belongs to another query, or to another version of this one"
        )
    envelope.check(header.serial, version)


def signing_keys(signed: SignedQuery) -> set[str]:
    """The ids of the keys by which a query stands or falls.

    These are the analyst's, of a controller's version the controller's, and of a guest on a channel
    its owner's.
    """
    keys = {signed.key_id}
    if FORMAT_OWNED.encode() in signed.content:
        permission = signed.without_version().header().permission
        if permission is not None:
            keys.add(permission.owner_id)
    if signed.version is not None:
        stated = _read(canonical.decode, signed.content).get("envelope") or {}
        controller = stated.get("controller")
        if isinstance(controller, str) and re.fullmatch("[0-9a-f]{64}", controller):
            keys.add(PublicKey("controller", bytes.fromhex(controller)).id)
    return keys


def authenticate(signed: SignedQuery, ring: KeyRing, now: int) -> Query:
    """The query, if :func:`authenticate_header` accepts its signatures, and an answer costs what
    its envelope allows."""
    try:
        header = authenticate_header(signed, ring, now)
        if signed.version is None:
            return signed.unverified()
        try:
            # refuses whatever breaks a rule of queries, including the envelope's ceiling on epsilon
            return signed.unverified()
        except QueryError as error:
            raise EnvelopeError(f"version {header.serial}: {error}") from None
    except QueryError as error:
        # the analyst's signature is valid, so it may be read
        if error.base is not None or isinstance(error, EnvelopeError):
            error.base = signed.without_version().unverified()
        raise


def authentic(
    contents: Iterable[SignedQuery | bytes], ring: KeyRing, now: int
) -> tuple[list[tuple[Query, SignedQuery]], list[QueryError]]:
    """The relayed queries that a trusted key signed, newest versions first; and why the others are
    refused."""
    found: dict[bytes, tuple[Query, SignedQuery]] = {}
    refused = []
    for each in contents:
        try:
            signed = SignedQuery.from_bytes(each) if isinstance(each, bytes) else each
            found.setdefault(signed.to_bytes(), (authenticate(signed, ring, now), signed))
        except QueryError as error:
            refused.append(error)
    return sorted(found.values(), key=lambda pair: -pair[0].serial), refused


def check_version(
    query: QueryHeader | Query, now: int, seen: Mapping[tuple[str, str], SeenVersion] | None = None
) -> None:
    """Refuse a query that has expired, or of which a newer version is known.

    `seen` maps (analyst, id) to the newest version accepted so far. The same version again is fine;
    an older one, or a different one with the same serial, is not.
    """
    if now >= query.schedule.expires:
        raise ExpiredQueryError(
            f"query {query.id!r} expired at {query.schedule.expires}; it is now {now}"
        )
    newest = (seen or {}).get((query.analyst, query.id))
    if newest is not None and query.serial < newest.serial:
        raise RollbackError(
            f"query {query.id!r} has serial {query.serial}, but {newest.serial} was already seen"
        )
    if newest is not None and query.serial == newest.serial and query.digest != newest.digest:
        raise RollbackError(
            f"query {query.id!r} came before with serial {query.serial} and different contents"
        )


def verify(
    signed: SignedQuery,
    ring: KeyRing,
    now: int,
    seen: Mapping[tuple[str, str], SeenVersion] | None = None,
) -> Query:
    """The query, if its signature, key, expiry and serial are valid at the time `now`; otherwise an
    error that says why not."""
    query = authenticate(signed, ring, now)
    check_version(query, now, seen)
    return query
