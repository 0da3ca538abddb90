"""Signed queries: the file, and a text that a trusted key did sign. A first byte of 0 leaves the
bytes as they are."""

from __future__ import annotations

import json

from deniable.errors import QueryError
from deniable.queries.header import SEPARATOR
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, authenticate, authenticate_header
from fuzz.vectors import vectors

WEIGHT, LONGEST = 1, 2500
DICTIONARY = [
    b'"format":',
    b'"query":',
    b'"version":',
    b'"version_signature":',
    b'"signature":',
    b'"key":',
    b"\\ud800",
    b"\\u0000",
]
KEY = AnalystKey("City of Exampleton", bytes(range(32)))
RING = KeyRing([TrustedKey(KEY.public)])
NOW = 1_750_000_000


def seeds() -> list[bytes]:
    contents = [each["content"].encode() for each in vectors("query")["good"]]
    signed = [json.dumps(each["signed"]).encode() for each in vectors("version")["good"][:2]]
    files = [
        SignedQuery(each, KEY.public.id, KEY.sign(SEPARATOR + each)).to_bytes() for each in contents
    ]
    return [b"\1" + each for each in contents] + [
        b"\0" + each for each in [*files, *signed, b"{}", b"[[[["]
    ]


def check(data: bytes) -> None:
    if data[:1] == b"\1":
        content = data[1:]
        try:
            content.decode()
        except UnicodeDecodeError:
            content = content.decode("latin-1").encode()
        signed = SignedQuery(content, KEY.public.id, KEY.sign(SEPARATOR + content))
        assert SignedQuery.from_bytes(signed.to_bytes()) == signed
    else:
        signed = SignedQuery.from_bytes(data[1:])
        assert SignedQuery.from_bytes(signed.to_bytes()) == signed
    try:
        header = authenticate_header(signed, RING, NOW)
    except QueryError:
        header = None
    query = authenticate(signed, RING, NOW)
    assert header is not None, "a device takes what a proxy would not relay"
    assert (header.id, header.serial, header.digest) == (query.id, query.serial, query.digest)
    assert KEY.public.verifies(signed.signature, SEPARATOR + signed.content), (
        "taken without a signature that holds"
    )
