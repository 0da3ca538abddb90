"""What the commands of `deniable client` share: the vault, the policy beside it, and the device
that they make."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deniable.client.device import Device
from deniable.client.policy import Policy, read_policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault

__all__ = [
    "VAULT",
    "counted",
    "open_device",
    "open_store",
    "policy_option",
    "policy_path",
    "read_vault_policy",
]

VAULT = click.argument("vault", type=click.Path(path_type=Path))


def policy_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--policy`."""
    text = "Your settings [default: VAULT.policy.toml]."
    return click.option("--policy", "policy_file", type=click.Path(path_type=Path), help=text)(
        command
    )


def policy_path(vault: Path) -> Path:
    """Where the policy of a vault is, unless another file is named."""
    return vault.with_name(vault.name + ".policy.toml")


def read_vault_policy(vault: Path, given: Path | None) -> Policy:
    """The policy in the named file, or in the one beside the vault."""
    return read_policy(given or policy_path(vault))


def open_device(vault: Path, policy_file: Path | None) -> Device:
    """The device that answers for a vault."""
    return Device(Vault.open(vault), read_vault_policy(vault, policy_file))


def open_store(vault: Path) -> Store:
    """What the device remembers: a file beside the vault."""
    return Store.beside(Vault.open(vault).path)


def counted(n: int, noun: str) -> str:
    """A number and its noun.

    >>> counted(1, "share"), counted(2, "share")
    ('1 share', '2 shares')
    """
    return f"{n} {noun}{'' if n == 1 else 's'}"
