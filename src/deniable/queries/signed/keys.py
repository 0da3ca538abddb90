"""Analysts' keys: Ed25519, kept in files of mode 0600, identified by a digest, trusted for a
period, and revocable."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from deniable.errors import (
    KeyFileError,
    ParameterError,
)
from deniable.queries.signed.key_files import (
    from_hex,
    made_from,
    pem_public,
    pem_secret,
    read_content,
    read_fields,
    write_new,
)
from deniable.queries.texts import check_text

__all__ = ["AnalystKey", "PublicKey"]

_PRIVATE_FORMAT = "deniable private key 1"
_PUBLIC_FORMAT = "deniable public key 1"
_ID_SEPARATOR = b"deniable key 1\0"
_PEM = b"-----BEGIN "


@dataclass(frozen=True)
class PublicKey:
    """The public part of an analyst's key."""

    owner: str
    raw: bytes

    def __post_init__(self) -> None:
        check_text("owner", self.owner, 200, "whose key it is")
        if not isinstance(self.raw, bytes) or len(self.raw) != 32:
            raise ParameterError("public", len(self.raw), "must be the 32 bytes of an Ed25519 key")

    @property
    def id(self) -> str:
        """16 hexadecimal digits that identify the key: the start of SHA-256 over a separator and
        the key."""
        return hashlib.sha256(_ID_SEPARATOR + self.raw).hexdigest()[:16]

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Whether this is this key's signature of the content."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, content)
        except InvalidSignature:
            return False
        return True

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that anyone may read."""
        write_new(
            Path(path),
            {"format": _PUBLIC_FORMAT, "owner": self.owner, "public": self.raw.hex()},
            0o644,
        )

    @classmethod
    def load(cls, path: str | Path, owner: str | None = None) -> PublicKey:
        """The key in a file that :meth:`save` wrote, or in a PEM file (`openssl pkey -pubout`), for
        which `owner` must be given."""
        path = Path(path)
        content = read_content(path)
        if content.startswith(_PEM):
            return made_from(path, lambda: cls(_named(owner), pem_public(content)))
        fields = read_fields(path, _PUBLIC_FORMAT, ("owner", "public"))
        return made_from(
            path, lambda: cls(_same(owner, fields["owner"]), from_hex(fields["public"]))
        )


class AnalystKey:
    """A key that signs queries. Its repr and its pickles never show the secret."""

    def __init__(self, owner: str, secret: bytes) -> None:
        check_text("owner", owner, 200, "whose key it is")
        if len(secret) != 32:
            raise ParameterError(
                "secret", f"{len(secret)} bytes", "must be the 32 bytes of an Ed25519 key"
            )
        self.owner, self._secret = owner, secret
        self._key = Ed25519PrivateKey.from_private_bytes(secret)

    @classmethod
    def generate(cls, owner: str) -> AnalystKey:
        """A fresh key from the operating system's randomness."""
        return cls(owner, os.urandom(32))

    @property
    def public(self) -> PublicKey:
        """The key's public half."""
        return PublicKey(self.owner, self._key.public_key().public_bytes_raw())

    def sign(self, content: bytes) -> bytes:
        """64 bytes of signature."""
        return self._key.sign(content)

    def save(self, path: str | Path) -> None:
        """Write the key to a new file that only its owner may read (mode 0600)."""
        write_new(
            Path(path),
            {"format": _PRIVATE_FORMAT, "owner": self.owner, "secret": self._secret.hex()},
            0o600,
        )

    @classmethod
    def load(
        cls, path: str | Path, owner: str | None = None, password: bytes | None = None
    ) -> AnalystKey:
        """The key in a file that :meth:`save` wrote, or in a PKCS#8 PEM file (`openssl genpkey
        -algorithm ed25519`).

        A PEM file does not say whose key it is, so `owner` must; `password` decrypts it. A file
        that others can read is refused.
        """
        path = Path(path)
        if os.name == "posix" and path.exists() and path.stat().st_mode & 0o077:
            mode = path.stat().st_mode & 0o777
            raise KeyFileError(
                f"{path} has mode {mode:04o} and must have 0600: others could sign as you (chmod"
                f" 600 {path})"
            )
        content = read_content(path)
        if content.startswith(_PEM):
            return made_from(path, lambda: cls(_named(owner), pem_secret(content, password)))
        fields = read_fields(path, _PRIVATE_FORMAT, ("owner", "secret"))
        return made_from(path, lambda: cls(fields["owner"], from_hex(fields["secret"])))

    def __repr__(self) -> str:
        return f"<signing key {self.public.id} of {self.owner!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a signing key is not pickled: its secret would travel with it")


def _named(owner: str | None) -> str:
    if owner is None:
        raise ParameterError("owner", None, "is missing: a PEM file does not say whose key it is")
    return owner


def _same(requested: str | None, stated: str) -> str:
    if requested is not None and requested != stated:
        raise ParameterError("owner", requested, f"must be {stated!r}, as the file says")
    return stated
