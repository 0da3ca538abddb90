"""Analysts' keys: Ed25519, kept in files of mode 0600, identified by a digest, trusted for a period, and revocable."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from deniable.checksums import FIELD, checked_object, sealed_object
from deniable.errors import KeyFileError, KeyNotValidError, ParameterError, RevokedKeyError, UnknownKeyError
from deniable.queries.schedule import LATEST, moment
from deniable.queries.texts import check_text

__all__ = ["AnalystKey", "KeyRing", "PublicKey", "TrustedKey"]

_T = TypeVar("_T")

_PRIVATE_FORMAT = "deniable private key 1"
_PUBLIC_FORMAT = "deniable public key 1"
_RING_FORMAT = "deniable key ring 1"
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
        """16 hexadecimal digits that identify the key: the start of SHA-256 over a separator and the key."""
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
        _write_new(Path(path), {"format": _PUBLIC_FORMAT, "owner": self.owner, "public": self.raw.hex()}, 0o644)

    @classmethod
    def load(cls, path: str | Path, owner: str | None = None) -> PublicKey:
        """The key in a file that :meth:`save` wrote, or in a PEM file (`openssl pkey -pubout`), for which `owner` must be
        given."""
        path = Path(path)
        content = _content(path)
        if content.startswith(_PEM):
            return _made(path, lambda: cls(_named(owner), _pem_public(content)))
        fields = _read(path, _PUBLIC_FORMAT, ("owner", "public"))
        return _made(path, lambda: cls(_same(owner, fields["owner"]), _unhex(fields["public"])))


class AnalystKey:
    """A key that signs queries. Its repr and its pickles never show the secret."""

    def __init__(self, owner: str, secret: bytes) -> None:
        check_text("owner", owner, 200, "whose key it is")
        if len(secret) != 32:
            raise ParameterError("secret", f"{len(secret)} bytes", "must be the 32 bytes of an Ed25519 key")
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
        _write_new(Path(path), {"format": _PRIVATE_FORMAT, "owner": self.owner, "secret": self._secret.hex()}, 0o600)

    @classmethod
    def load(cls, path: str | Path, owner: str | None = None, password: bytes | None = None) -> AnalystKey:
        """The key in a file that :meth:`save` wrote, or in a PKCS#8 PEM file (`openssl genpkey -algorithm ed25519`).

        A PEM file does not say whose key it is, so `owner` must; `password` decrypts it. A file that others can read is refused.
        """
        path = Path(path)
        if path.exists() and path.stat().st_mode & 0o077:
            mode = path.stat().st_mode & 0o777
            raise KeyFileError(f"{path} has mode {mode:04o} and must have 0600: others could sign as you (chmod 600 {path})")
        content = _content(path)
        if content.startswith(_PEM):
            return _made(path, lambda: cls(_named(owner), _pem_secret(content, password)))
        fields = _read(path, _PRIVATE_FORMAT, ("owner", "secret"))
        return _made(path, lambda: cls(fields["owner"], _unhex(fields["secret"])))

    def __repr__(self) -> str:
        return f"<signing key {self.public.id} of {self.owner!r}>"

    def __reduce__(self) -> Any:
        raise TypeError("a signing key is not pickled: its secret would travel with it")


@dataclass(frozen=True)
class TrustedKey:
    """A public key on a ring, with the time it is trusted: from `valid_from` to before `valid_until`, in seconds of UTC."""

    key: PublicKey
    valid_from: int = 0
    valid_until: int = LATEST
    revoked: bool = False
    """Nothing a revoked key ever signed is trusted: a thief can write any date into a query."""

    def __post_init__(self) -> None:
        for name in ("valid_from", "valid_until"):
            object.__setattr__(self, name, moment(name, getattr(self, name)))
        if self.valid_from >= self.valid_until:
            raise ParameterError("valid_until", self.valid_until, f"must come after valid_from = {self.valid_from}")
        if not isinstance(self.revoked, bool):
            raise ParameterError("revoked", self.revoked, "must be true or false")


class KeyRing:
    """The keys a device trusts. Immutable: adding, rotating and revoking give a new ring.

    >>> old, new = AnalystKey.generate("City"), AnalystKey.generate("City")
    >>> ring = KeyRing([TrustedKey(old.public)]).rotate(old.public.id, new.public, at=1000, overlap=100)
    >>> ring.trusted(old.public.id, now=1050).owner, ring.trusted(new.public.id, now=1050).owner
    ('City', 'City')
    >>> ring.trusted(old.public.id, now=1100)
    Traceback (most recent call last):
    deniable.errors.KeyNotValidError: ...
    """

    def __init__(self, keys: Iterable[TrustedKey] = ()) -> None:
        self._keys = {trusted.key.id: trusted for trusted in keys}

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[TrustedKey]:
        return iter(self._keys.values())

    def __repr__(self) -> str:
        return f"<ring of {len(self)} keys>"

    def trusted(self, key_id: str, now: int) -> PublicKey:
        """The key with this id, if it is trusted now; otherwise an error that says why not."""
        found = self._keys.get(key_id)
        if found is None:
            raise UnknownKeyError(f"key {key_id} is not on the ring")
        if found.revoked:
            raise RevokedKeyError(f"key {key_id} of {found.key.owner!r} was revoked")
        if now < found.valid_from:
            raise KeyNotValidError(f"key {key_id} of {found.key.owner!r} is valid from {found.valid_from} on; it is now {now}")
        if now >= found.valid_until:
            raise KeyNotValidError(f"key {key_id} of {found.key.owner!r} was valid before {found.valid_until}; it is now {now}")
        return found.key

    def check_delegate(self, key_id: str, now: int) -> None:
        """Refuse a controller's key that is on the ring and not trusted now. For one that is not on it, the analyst vouches."""
        if key_id in self._keys:
            self.trusted(key_id, now)

    def add(self, key: PublicKey, valid_from: int = 0, valid_until: int = LATEST) -> KeyRing:
        """The ring with one more key. A key already on the ring is refused, revoked or not."""
        if key.id in self._keys:
            raise ParameterError("key", key.id, "is already on the ring")
        return KeyRing([*self, TrustedKey(key, valid_from, valid_until)])

    def rotate(self, old_id: str, new: PublicKey, at: int, overlap: int = 0) -> KeyRing:
        """The ring with `new` trusted from `at` on, and the old key of the same owner until `at` + `overlap`."""
        old = self._get(old_id)
        if new.owner != old.key.owner:
            raise ParameterError("owner", new.owner, f"must be {old.key.owner!r}: a key is replaced by one of the same owner")
        kept = dataclasses.replace(old, valid_until=min(old.valid_until, at + overlap))
        return KeyRing([kept if trusted is old else trusted for trusted in self]).add(new, valid_from=at)

    def revoke(self, key_id: str) -> KeyRing:
        """The ring with this key revoked. It stays on the ring, so that it cannot be added again."""
        lost = self._get(key_id)
        return KeyRing([dataclasses.replace(lost, revoked=True) if trusted is lost else trusted for trusted in self])

    def ban(self, key: PublicKey) -> KeyRing:
        """The ring with this key revoked, whether or not it was on it: a controller's key never is."""
        return (self if key.id in self._keys else self.add(key)).revoke(key.id)

    def _get(self, key_id: str) -> TrustedKey:
        if key_id not in self._keys:
            raise UnknownKeyError(f"key {key_id} is not on the ring")
        return self._keys[key_id]

    def save(self, path: str | Path) -> None:
        """Write the ring atomically, replacing an older one."""
        path = Path(path)
        keys = [
            {
                "owner": t.key.owner,
                "public": t.key.raw.hex(),
                "valid_from": t.valid_from,
                "valid_until": t.valid_until,
                "revoked": t.revoked,
            }
            for t in self
        ]
        fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
        _write_new(fresh, {"format": _RING_FORMAT, "keys": keys}, 0o644)
        fresh.replace(path)

    @classmethod
    def load(cls, path: str | Path) -> KeyRing:
        """The ring in a file that :meth:`save` wrote."""
        path = Path(path)
        entries = _read(path, _RING_FORMAT, ("keys",))["keys"]
        wanted = {"owner", "public", "valid_from", "valid_until", "revoked"}
        if not isinstance(entries, list) or not all(isinstance(e, dict) and set(e) == wanted for e in entries):
            raise KeyFileError(f"{path}: each key of a ring has the fields {', '.join(sorted(wanted))}")
        times = [(e["valid_from"], e["valid_until"], e["revoked"]) for e in entries]
        keys = [(e["owner"], e["public"]) for e in entries]
        return _made(
            path,
            lambda: cls(TrustedKey(PublicKey(o, _unhex(p)), *time) for (o, p), time in zip(keys, times, strict=True)),
        )


def _unhex(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ParameterError("key", type(text).__name__, "must be hexadecimal digits")
    try:
        return bytes.fromhex(text)
    except ValueError:  # the message must not show what may be a secret
        raise ParameterError("key", f"{len(text)} characters", "must be hexadecimal digits") from None


def _made(path: Path, make: Callable[[], _T]) -> _T:
    try:
        return make()
    except ParameterError as error:
        raise KeyFileError(f"{path}: {error}") from None


def _write_new(path: Path, fields: dict[str, Any], mode: int) -> None:
    """Create the file with its final mode from the start, so that others can never open it."""
    content = (json.dumps(sealed_object(fields), indent=1, ensure_ascii=False) + "\n").encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise KeyFileError(f"{path} already exists and is not overwritten") from None
    except OSError as error:
        raise KeyFileError(f"{path} cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None


def _named(owner: str | None) -> str:
    if owner is None:
        raise ParameterError("owner", None, "is missing: a PEM file does not say whose key it is")
    return owner


def _same(requested: str | None, stated: str) -> str:
    if requested is not None and requested != stated:
        raise ParameterError("owner", requested, f"must be {stated!r}, as the file says")
    return stated


def _pem_public(content: bytes) -> bytes:
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise ParameterError("public", "this PEM file", "must contain an Ed25519 public key") from None
    if not isinstance(key, Ed25519PublicKey):
        raise ParameterError("public", type(key).__name__, "must be an Ed25519 public key")
    return key.public_bytes_raw()


def _pem_secret(content: bytes, password: bytes | None) -> bytes:
    try:
        key = serialization.load_pem_private_key(content, password)
    except TypeError:
        wanted = "is needed: the key is encrypted" if password is None else "must be left out: the key is not encrypted"
        raise ParameterError("password", "none" if password is None else "one", wanted) from None
    except (ValueError, UnsupportedAlgorithm):  # the message must not show what may be a secret
        raise ParameterError(
            "secret", "this PEM file", "must be an Ed25519 private key in PKCS#8, with the right password"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ParameterError("secret", type(key).__name__, "must be an Ed25519 private key")
    return key.private_bytes_raw()


def _read(path: Path, expected: str, names: tuple[str, ...]) -> dict[str, Any]:
    content = _content(path)
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path} is not a file of the format {expected!r}") from None
    if not isinstance(fields, dict) or fields.get("format") != expected or set(fields) - {FIELD} != {"format", *names}:
        raise KeyFileError(f"{path} is not a file of the format {expected!r}")
    try:
        return checked_object(fields)
    except ValueError as error:
        raise KeyFileError(f"{path}: {error}") from None
