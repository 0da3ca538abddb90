"""Queries as they are signed. JSON in any spelling is put into canonical form first, so that
mutations get past the spelling."""

from __future__ import annotations

import json

from deniable.errors import DeniableError
from deniable.queries.header import QueryHeader
from deniable.queries.query import Query
from deniable.queries.signed import canonical
from deniable.queries.signed.signing import SignedQuery
from fuzz.vectors import vectors

WEIGHT, LONGEST = 2, 2500
DICTIONARY = [
    *(f'"{name}":'.encode() for name in json.loads(vectors("query")["good"][0]["content"])),
    *(
        b"null",
        b"true",
        b"false",
        b"-1",
        b'{"f64":"3fe0000000000000"}',
        b'{"f64":"7ff8000000000000"}',
        b"[]",
        b"{}",
        b'""',
    ),
    *(
        b'"glob:a*"',
        b'"regex:[a-c]+"',
        b'"[0,1)"',
        b'"[1,inf)"',
        b'"OptimizedUnary"',
        b'"DirectEncoding"',
        b'"epsilon":',
    ),
    *(b'"distinct":2', b'"ones":3', b'"grace":60', b'"overlapping":true', b"18446744073709551616"),
]


def seeds() -> list[bytes]:
    found = [each["content"].encode() for each in vectors("query")["good"]]
    found += [
        json.loads(json.dumps(each["signed"]))["query"].encode()
        for each in vectors("version")["good"][:2]
    ]
    client = {
        text["query"] if isinstance(text, dict) else text
        for text in vectors("client")["queries"].values()
    }
    return [*found, *(text.encode() for text in sorted(client, key=len)[:6] if len(text) < LONGEST)]


def check(data: bytes) -> None:
    try:
        spelled = canonical.encode(canonical._without_doubles(json.loads(data)))
    except (ValueError, RecursionError):
        spelled = data
    # as a device reads it; a query it cannot read is a `QueryError`
    query = SignedQuery(spelled, "0" * 16, b"").unverified()
    assert query.content == spelled
    assert Query.from_dict(query.to_dict()) == query
    header = QueryHeader.from_content(spelled)
    assert (header.id, header.serial, header.channel_tag, header.digest) == (
        query.id,
        query.serial,
        query.channel_tag,
        query.digest,
    )
    assert 0 < query.epsilon <= query.epsilon_local
    assert query.report_bytes <= 64 * 2 ** (query.size_class or 0)
    if spelled != data:
        try:
            Query.from_content(data)
        except DeniableError:
            return
        raise AssertionError("two spellings of one query are both accepted")
