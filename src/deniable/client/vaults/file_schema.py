"""The file of a person's vault: what it has in it beside the owner's own tables."""

from __future__ import annotations

from deniable.client.vaults.schema import APPLICATION_ID
from deniable.errors import VaultError
from deniable.service.files.schemas import FileSchema

__all__ = ["VAULT"]

VAULT = FileSchema(
    "a vault",
    application_id=APPLICATION_ID,
    script="""
CREATE TABLE deniable_shared (
    table_name TEXT NOT NULL COLLATE NOCASE, column_name TEXT NOT NULL COLLATE NOCASE,
    PRIMARY KEY (table_name, column_name)) WITHOUT ROWID;
CREATE TABLE deniable_keeping (table_name TEXT PRIMARY KEY, age INTEGER, rows INTEGER NOT NULL)
    WITHOUT ROWID;
""",
    migrations={
        2: """
CREATE TABLE IF NOT EXISTS deniable_keeping (
    table_name TEXT PRIMARY KEY, age INTEGER, rows INTEGER NOT NULL) WITHOUT ROWID;
""",
    },
    guarded=False,  # the owner's other programs write to it
    error=VaultError,
    keeps_copy=False,  # a copy would keep what the owner deletes
)
"""2: how long rows are kept is in every vault; before, a vault had that table once it was needed."""
