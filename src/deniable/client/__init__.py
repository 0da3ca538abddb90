"""What runs on a person's device: the vault of their data, and the sandbox where an analyst's SQL sees what they share."""

from deniable.client.sandbox import Rows, run
from deniable.client.vault import TableInfo, Vault

__all__ = ["Rows", "TableInfo", "Vault", "run"]
