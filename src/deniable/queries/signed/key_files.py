"""Files of keys: Deniable's own JSON, and PEM."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from deniable.checksums import FIELD, checked_object, sealed_object
from deniable.errors import (
    EncryptedKeyError,
    KeyFileError,
    ParameterError,
)

__all__ = [
    "from_hex",
    "made_from",
    "pem_public",
    "pem_secret",
    "read_content",
    "read_fields",
    "write_new",
]


_T = TypeVar("_T")


def from_hex(text: Any) -> bytes:
    """The bytes that hexadecimal digits give."""
    if not isinstance(text, str):
        raise ParameterError("key", type(text).__name__, "must be hexadecimal digits")
    try:
        return bytes.fromhex(text)
    except ValueError:  # the message must not show what may be a secret
        raise ParameterError(
            "key", f"{len(text)} characters", "must be hexadecimal digits"
        ) from None


def made_from(path: Path, make: Callable[[], _T]) -> _T:
    """What `make` returns; its errors name the file."""
    try:
        return make()
    except EncryptedKeyError as error:
        raise EncryptedKeyError(f"{path}: {error}") from None
    except ParameterError as error:
        raise KeyFileError(f"{path}: {error}") from None


def write_new(path: Path, fields: dict[str, Any], mode: int) -> None:
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


def read_content(path: Path) -> bytes:
    """The bytes of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"{path} cannot be read: {error.strerror}") from None


def pem_public(content: bytes) -> bytes:
    """The raw Ed25519 public key of a PEM file."""
    try:
        key = serialization.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        raise ParameterError(
            "public", "this PEM file", "must contain an Ed25519 public key"
        ) from None
    if not isinstance(key, Ed25519PublicKey):
        raise ParameterError("public", type(key).__name__, "must be an Ed25519 public key")
    return key.public_bytes_raw()


def pem_secret(content: bytes, password: bytes | None) -> bytes:
    """The raw Ed25519 private key of a PEM file."""
    try:
        key = serialization.load_pem_private_key(content, password)
    except TypeError:
        if password is None:
            raise EncryptedKeyError("password = 'none' is needed: the key is encrypted") from None
        raise ParameterError(
            "password", "one", "must be left out: the key is not encrypted"
        ) from None
    except (ValueError, UnsupportedAlgorithm):  # the message must not show what may be a secret
        raise ParameterError(
            "secret",
            "this PEM file",
            "must be an Ed25519 private key in PKCS#8, with the right password",
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ParameterError("secret", type(key).__name__, "must be an Ed25519 private key")
    return key.private_bytes_raw()


def read_fields(path: Path, expected: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a file of this format."""
    content = read_content(path)
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        raise KeyFileError(f"{path} is not a file of the format {expected!r}") from None
    if (
        not isinstance(fields, dict)
        or fields.get("format") != expected
        or set(fields) - {FIELD} != {"format", *names}
    ):
        raise KeyFileError(f"{path} is not a file of the format {expected!r}")
    try:
        return checked_object(fields)
    except ValueError as error:
        raise KeyFileError(f"{path}: {error}") from None
