"""`deniable ring` as an operator uses it, and keys that openssl made."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deniable.cli import cli
from deniable.errors import KeyFileError, KeyNotValidError, RevokedKeyError
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey, PublicKey

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["ring", *arguments])


@pytest.fixture
def keys(tmp_path: Path) -> list[AnalystKey]:
    made = [AnalystKey.generate("City") for _ in range(2)]
    for i, key in enumerate(made):
        key.public.save(tmp_path / f"{i}.pub")
    return made


def test_a_ring_is_made_extended_rotated_and_revoked(
    tmp_path: Path, keys: list[AnalystKey]
) -> None:
    ring, old, new = tmp_path / "ring.json", keys[0].public.id, keys[1].public.id
    assert run("add", str(ring), str(tmp_path / "0.pub")).exit_code == 0
    now = int(time.time())
    assert run("rotate", str(ring), old, str(tmp_path / "1.pub"), "--overlap", "1 d").exit_code == 0
    known = KeyRing.load(ring)
    assert known.trusted(new, now + 10).owner == "City"
    assert known.trusted(old, now + 86390).owner == "City"
    with pytest.raises(KeyNotValidError):
        known.trusted(old, now + 86500)
    assert run("revoke", str(ring), new).exit_code == 0
    with pytest.raises(RevokedKeyError):
        KeyRing.load(ring).trusted(new, now + 10)
    rows = json.loads(run("show", str(ring), "--json").output)
    assert [(row["id"], row["revoked"]) for row in rows] == [(old, False), (new, True)]
    assert "revoked" in run("show", str(ring)).output
    assert (
        run("show", str(ring), "--csv").output.splitlines()[0]
        == "id,owner,valid_from,valid_until,revoked"
    )


def test_a_key_can_be_trusted_for_a_time_only(tmp_path: Path, keys: list[AnalystKey]) -> None:
    ring = tmp_path / "ring.json"
    added = run(
        "add",
        str(ring),
        str(tmp_path / "0.pub"),
        "--start",
        "2026-01-01",
        "--end",
        "2026-02-01T00:00:00Z",
    )
    assert added.exit_code == 0, added.output
    (trusted,) = KeyRing.load(ring)
    assert (trusted.valid_from, trusted.valid_until) == (1767225600, 1769904000)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["add", "ring.json", "missing.pub"], "missing.pub cannot be read"),
        (["add", "ring.json", "0.pub", "--start", "soon"], "--start = 'soon' must be a time"),
        (["add", "ring.json", "0.pub", "--owner", "Other"], "must be 'City'"),
        (["revoke", "0.pub", "0123"], "is not a file of the format"),
        (["rotate", "none.json", "0123", "0.pub"], "none.json cannot be read"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(
    tmp_path: Path,
    keys: list[AnalystKey],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run(*arguments)
    assert result.exit_code == 2
    assert expected in result.output
    assert len(result.output.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def pem_files(folder: Path, password: bytes | None = None) -> tuple[Path, Path, Ed25519PrivateKey]:
    key = Ed25519PrivateKey.generate()
    lock = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    private, public = folder / "key.pem", folder / "key.pub.pem"
    private.write_bytes(key.private_bytes(PEM, PKCS8, lock))
    private.chmod(0o600)
    public.write_bytes(key.public_key().public_bytes(PEM, SPKI))
    return private, public, key


@pytest.mark.parametrize("password", [None, b"correct horse"])
def test_a_key_in_pem_signs_what_its_public_half_verifies(
    tmp_path: Path, password: bytes | None
) -> None:
    private, public, _ = pem_files(tmp_path, password)
    signature = AnalystKey.load(private, "City", password).sign(b"content")
    assert PublicKey.load(public, "City").verifies(signature, b"content")
    assert not PublicKey.load(public, "City").verifies(signature, b"another content")


def test_a_pem_key_is_refused_with_the_reason_and_without_the_secret(tmp_path: Path) -> None:
    private, public, key = pem_files(tmp_path, b"correct horse")
    secret = key.private_bytes_raw().hex()
    for how, expected in (
        ((None,), "does not say whose key it is"),
        (("City",), "the key is encrypted"),
        (("City", b"wrong"), "must be an Ed25519 private key"),
    ):
        with pytest.raises(KeyFileError, match=expected) as refused:
            AnalystKey.load(private, *how)
        assert secret not in str(refused.value)
    with pytest.raises(KeyFileError, match="does not say whose key it is"):
        PublicKey.load(public)
    other = tmp_path / "ec.pem"
    curve = generate_private_key(SECP256R1())
    other.write_bytes(curve.private_bytes(PEM, PKCS8, serialization.NoEncryption()))
    other.chmod(0o600)
    with pytest.raises(KeyFileError, match="must be an Ed25519 private key"):
        AnalystKey.load(other, "City")
    private.chmod(0o644)
    with pytest.raises(KeyFileError, match="must have 0600"):
        AnalystKey.load(private, "City", b"correct horse")
