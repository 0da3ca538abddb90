"""Signatures and keys: what is refused, and why."""

from __future__ import annotations

import hashlib
import json
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from deniable import errors
from deniable.errors import (
    ExpiredQueryError,
    KeyFileError,
    KeyNotValidError,
    ParameterError,
    QueryError,
    RevokedKeyError,
    RollbackError,
    SignatureError,
    UnknownKeyError,
)
from deniable.queries.header import SEPARATOR
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey, PublicKey
from deniable.queries.signed.signing import SeenVersion, SignedQuery, sign, verify
from toolkit.queries import make_query

NOW = 1_750_000_000
KEY = AnalystKey("City of Exampleton", bytes(range(32)))
RING = KeyRing([TrustedKey(KEY.public)])
QUERY = make_query()
SIGNED = sign(QUERY, KEY)


def test_a_signed_query_is_trusted_as_it_was_written() -> None:
    assert verify(SignedQuery.from_bytes(SIGNED.to_bytes()), RING, NOW) == QUERY


def test_the_key_id_and_signature_are_those_of_the_rfc() -> None:
    """RFC 8032, 7.1, test 2: our files hold plain Ed25519 seeds."""
    seed = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
    key = AnalystKey("x", seed)
    assert (
        key.public.raw.hex() == "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
    )
    assert (
        key.sign(b"\x72").hex()
        == "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"  # noqa: E501
    )


def test_any_changed_byte_of_the_query_or_signature_is_refused() -> None:
    for i in range(0, len(SIGNED.content), 7):
        content = bytearray(SIGNED.content)
        content[i] ^= 1
        with pytest.raises(SignatureError):
            verify(SignedQuery(bytes(content), SIGNED.key_id, SIGNED.signature), RING, NOW)
    for i in range(64):
        signature = bytearray(SIGNED.signature)
        signature[i] ^= 1
        with pytest.raises(SignatureError):
            verify(SignedQuery(SIGNED.content, SIGNED.key_id, bytes(signature)), RING, NOW)


def test_a_signature_without_the_separator_is_none() -> None:
    with pytest.raises(SignatureError):
        verify(SignedQuery(QUERY.content, SIGNED.key_id, KEY.sign(QUERY.content)), RING, NOW)


def test_the_signature_is_checked_before_the_bytes_are_read() -> None:
    with pytest.raises(SignatureError):
        verify(SignedQuery(b"not a query", SIGNED.key_id, SIGNED.signature), RING, NOW)
    with pytest.raises(QueryError, match="are not a query"):
        verify(
            SignedQuery(b"not a query", SIGNED.key_id, KEY.sign(SEPARATOR + b"not a query")),
            RING,
            NOW,
        )


def test_an_unknown_expired_early_or_revoked_key_is_refused_for_its_own_reason() -> None:
    with pytest.raises(UnknownKeyError):
        verify(SIGNED, KeyRing(), NOW)
    with pytest.raises(KeyNotValidError, match="is valid from"):
        verify(SIGNED, KeyRing([TrustedKey(KEY.public, valid_from=NOW + 1)]), NOW)
    with pytest.raises(KeyNotValidError, match="was valid before"):
        verify(SIGNED, KeyRing([TrustedKey(KEY.public, valid_until=NOW)]), NOW)
    with pytest.raises(RevokedKeyError):
        verify(SIGNED, RING.revoke(KEY.public.id), NOW)
    assert (
        verify(SIGNED, KeyRing([TrustedKey(KEY.public, valid_from=NOW, valid_until=NOW + 1)]), NOW)
        == QUERY
    )


def test_a_trusted_key_signs_only_in_its_owners_name() -> None:
    other = AnalystKey("Somebody Else", bytes(32))
    with pytest.raises(SignatureError, match="asked by"):
        sign(QUERY, other)
    forged = SignedQuery(QUERY.content, other.public.id, other.sign(SEPARATOR + QUERY.content))
    with pytest.raises(SignatureError, match="Somebody Else"):
        verify(forged, RING.add(other.public), NOW)


def test_an_expired_query_is_refused() -> None:
    assert verify(SIGNED, RING, QUERY.schedule.expires - 1) == QUERY
    with pytest.raises(ExpiredQueryError):
        verify(SIGNED, RING, QUERY.schedule.expires)


def test_an_older_version_or_another_one_of_the_same_serial_is_refused() -> None:
    newer = QUERY.revised(sampling=0.9)
    place = (QUERY.analyst, QUERY.id)
    with pytest.raises(RollbackError, match="serial 1, but 2 was already seen"):
        verify(SIGNED, RING, NOW, {place: SeenVersion(newer.serial, newer.digest)})
    twin = make_query(sampling=0.61)
    with pytest.raises(RollbackError, match="and different contents"):
        verify(sign(twin, KEY), RING, NOW, {place: SeenVersion(QUERY.serial, QUERY.digest)})
    assert verify(SIGNED, RING, NOW, {place: SeenVersion(QUERY.serial, QUERY.digest)}) == QUERY
    assert (
        verify(sign(newer, KEY), RING, NOW, {place: SeenVersion(QUERY.serial, QUERY.digest)})
        == newer
    )
    assert verify(SIGNED, RING, NOW, {("Another", QUERY.id): SeenVersion(9, b"")}) == QUERY


def test_every_reason_is_a_word_of_its_own() -> None:
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, QueryError)
    ]
    assert len(kinds) > 8
    assert len({kind.reason for kind in kinds}) == len(kinds)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: f.update(format="deniable signed query 2"), "not a signed query of the format"),
        (lambda f: f.update(more=1), "not a signed query of the format"),
        (lambda f: f.update(query=3), "must be strings"),
        (lambda f: f.update(signature="zz"), "hexadecimal"),
        (lambda f: f.update(key="\x1b[2J"), "key id"),
        (lambda f: f.update(query="\ud800"), "not valid text"),
    ],
)
def test_a_malformed_signed_file_is_refused(spoil: Any, says: str) -> None:
    fields = json.loads(SIGNED.to_bytes())
    spoil(fields)
    with pytest.raises(QueryError, match=says):
        SignedQuery.from_bytes(json.dumps(fields).encode())


def test_rotation_overlaps_and_then_the_old_key_ends() -> None:
    new = AnalystKey(KEY.owner, bytes(31) + b"\1")
    ring = RING.rotate(KEY.public.id, new.public, at=NOW, overlap=100)
    with pytest.raises(KeyNotValidError):
        ring.trusted(new.public.id, NOW - 1)
    assert [ring.trusted(k.public.id, NOW + 99) for k in (KEY, new)] == [KEY.public, new.public]
    with pytest.raises(KeyNotValidError):
        ring.trusted(KEY.public.id, NOW + 100)
    with pytest.raises(ParameterError, match="same owner"):
        RING.rotate(KEY.public.id, AnalystKey("Another", bytes(32)).public, at=NOW)


def test_a_revoked_key_cannot_come_back() -> None:
    revoked = RING.revoke(KEY.public.id)
    with pytest.raises(ParameterError, match="already on the ring"):
        revoked.add(KEY.public)


def test_key_files_are_private_never_overwritten_and_read_back(tmp_path: Path) -> None:
    secret, public, ring = tmp_path / "key", tmp_path / "key.pub", tmp_path / "ring"
    KEY.save(secret)
    KEY.public.save(public)
    RING.revoke(KEY.public.id).save(ring)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert AnalystKey.load(secret).public == KEY.public == PublicKey.load(public)
    with pytest.raises(RevokedKeyError):
        KeyRing.load(ring).trusted(KEY.public.id, NOW)
    RING.save(ring)  # a ring is replaced as a whole
    assert KeyRing.load(ring).trusted(KEY.public.id, NOW) == KEY.public
    with pytest.raises(KeyFileError, match="not overwritten"):
        KEY.save(secret)
    secret.chmod(0o640)
    with pytest.raises(KeyFileError, match="mode 0640 and must have 0600"):
        AnalystKey.load(secret)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"format": "deniable private key 1", "owner": "x", "secret": "beefbeef"}',
    ],
)
def test_a_bad_key_file_is_refused_without_showing_what_is_in_it(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError) as caught:
        AnalystKey.load(path)
    assert "beef" not in str(caught.value)
    with pytest.raises(KeyFileError):
        AnalystKey.load(tmp_path / "absent")


def test_a_signing_key_shows_and_pickles_no_secret() -> None:
    assert KEY._secret.hex()[:8] not in repr(KEY) + str(vars(KEY.public))
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(KEY)


# --- vectors

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "query-v1.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", VECTORS["good"], ids=lambda case: case["name"])
def test_good_vectors_hold_by_the_formulas_of_the_documentation_and_in_the_library(
    case: dict[str, Any],
) -> None:
    content = case["content"].encode()
    tree = json.loads(content)
    assert (
        json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        == content
    )
    assert hashlib.sha256(b"deniable query 1\0" + content).hexdigest() == case["digest"]
    channel = {
        "every": tree["schedule"]["every"],
        "name": tree["channel"] or f"{tree['analyst']}/{tree['id']}",
        "origin": tree["schedule"]["origin"],
        "size_class": tree["size_class"],
    }
    named = json.dumps(channel, separators=(",", ":"), ensure_ascii=False).encode()
    tag = hashlib.sha256(b"deniable channel 1\0" + named).digest()[:8]
    assert tag[::-1].hex() == case["channel_tag"]
    assert (
        hashlib.sha256(b"deniable key 1\0" + bytes.fromhex(case["public"])).hexdigest()[:16]
        == case["key"]
    )
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(case["public"]))
    public.verify(bytes.fromhex(case["signature"]), b"deniable query 1\0" + content)

    ring = KeyRing([TrustedKey(PublicKey(tree["analyst"], bytes.fromhex(case["public"])))])
    query = verify(
        SignedQuery(content, case["key"], bytes.fromhex(case["signature"])), ring, VECTORS["now"]
    )
    assert query.digest.hex() == case["digest"]
    assert f"{query.tag:016x}" == bytes.fromhex(case["digest"])[7::-1].hex() == case["query_tag"]
    assert f"{query.channel_tag:016x}" == case["channel_tag"]
    assert list(query.labels) == case["labels"]
    assert query.report_bytes == case["report_bytes"]
    key = AnalystKey(query.analyst, bytes.fromhex(case["seed"]))
    assert key.sign(b"deniable query 1\0" + content).hex() == case["signature"]
    again = sign(query, key)
    if tree["channel"] is None:
        assert again.signature.hex() == case["signature"]
    else:  # signed anew, a named channel belongs to the key
        assert again.header().channel_owner == case["public"]


@pytest.mark.parametrize("case", VECTORS["bad"], ids=lambda case: case["name"])
def test_bad_vectors_are_refused_for_the_stated_reason(case: dict[str, str]) -> None:
    ring = KeyRing([TrustedKey(PublicKey("City of Exampleton", bytes.fromhex(case["public"])))])
    signed = SignedQuery(case["content"].encode(), case["key"], bytes.fromhex(case["signature"]))
    with pytest.raises(QueryError) as caught:
        verify(signed, ring, VECTORS["now"])
    assert caught.value.reason == case["reason"]
