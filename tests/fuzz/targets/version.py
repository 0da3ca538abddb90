"""Versions that a controller signs, and envelopes: whatever is allowed lies inside, and changes
nothing else of the query."""

from __future__ import annotations

import json

from deniable.queries.signed import canonical
from deniable.queries.signed.envelope import Envelope, Version, applied
from deniable.queries.signed.signing import SignedQuery
from fuzz.vectors import vectors

WEIGHT, LONGEST = 3, 1000
DICTIONARY = [
    b'"sampling":',
    b'"p":',
    b'"q":',
    b'"epsilon":',
    b'"inverted":true',
    b'"strata":[',
    b'{"f64":"3fe0000000000000"}',
]
DICTIONARY += [
    b"null",
    b'"serial":',
    b'{"f64":"7ff0000000000000"}',
    b'{"f64":"0000000000000001"}',
    b'"controller":',
    b'"until":',
    b"1",
]


def _signed() -> list[dict[str, str]]:
    return [
        each["signed"]
        for each in [*vectors("version")["good"], *vectors("version")["bad"]]
        if "version" in each["signed"]
    ]


def seeds() -> list[bytes]:
    found = [b"v" + each["version"].encode() for each in _signed()]
    return found + [
        b"e" + json.dumps(json.loads(each["query"])["envelope"]).encode() for each in _signed()[:2]
    ]


BASE = _signed()[0]["query"].encode()


def check(data: bytes) -> None:
    try:
        spelled = canonical.encode(canonical._without_doubles(json.loads(data[1:])))
    except (ValueError, RecursionError):
        spelled = data[1:]
    if data[:1] == b"e":
        envelope = Envelope.from_dict(canonical.decode(spelled))
        assert Envelope.from_dict(envelope.to_dict()) == envelope
        for low, high in envelope.ranges().values():
            assert 0 < low <= high
        return
    version = Version.from_content(spelled)
    assert version.content == spelled
    tree = canonical.decode(BASE)
    envelope = Envelope.from_dict(tree["envelope"])
    envelope.check(tree["serial"], version)
    assert tree["serial"] < version.serial <= tree["serial"] + envelope.versions
    assert all(
        envelope.sampling[0] <= s <= envelope.sampling[1]
        for s in (version.sampling, *(version.strata or ()))
    )
    changed = canonical.decode(applied(BASE, version))
    for name in set(tree) - {"serial", "sampling", "mechanism", "strata"}:
        assert changed[name] == tree[name], f"a version changed {name}"
    assert {**changed["mechanism"], "p": 0, "q": 0, "inverted": 0} == {
        **tree["mechanism"],
        "p": 0,
        "q": 0,
        "inverted": 0,
    }
    SignedQuery(BASE, "0" * 16, b"", spelled).unverified()
