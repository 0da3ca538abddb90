"""Reading a signing key for a command."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.errors import EncryptedKeyError
from deniable.queries.signed.keys import AnalystKey

__all__ = ["signing_key"]


def signing_key(path: Path, owner: str | None) -> AnalystKey:
    """The key in a file; prompts for the password of an encrypted PEM file."""
    try:
        return AnalystKey.load(path, owner)
    except EncryptedKeyError:
        password = click.prompt("Password of the key", hide_input=True, err=True)
    return AnalystKey.load(path, owner, password.encode())
