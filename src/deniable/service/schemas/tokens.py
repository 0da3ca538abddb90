"""The file of a proxy's or collector's tokens."""

from __future__ import annotations

from deniable.service.files.schemas import FileSchema

__all__ = ["TOKENS"]

TOKENS = FileSchema(
    "a proxy's book of tokens",
    application_id=0x64_6E_74_6B,  # the letters dntk
    script="""
CREATE TABLE tokens (
    hash BLOB PRIMARY KEY, role TEXT NOT NULL, quota INTEGER, label TEXT NOT NULL DEFAULT '',
    made INTEGER, used INTEGER, first BLOB, query TEXT, uses INTEGER, ends INTEGER) WITHOUT ROWID;
""",
    migrations={
        2: """
ALTER TABLE tokens ADD COLUMN label TEXT NOT NULL DEFAULT '';
ALTER TABLE tokens ADD COLUMN made INTEGER;
ALTER TABLE tokens ADD COLUMN used INTEGER;
""",
        3: """
ALTER TABLE tokens ADD COLUMN first BLOB;
""",
        4: """
ALTER TABLE tokens ADD COLUMN query TEXT;
ALTER TABLE tokens ADD COLUMN uses INTEGER;
ALTER TABLE tokens ADD COLUMN ends INTEGER;
""",
    },
)
"""2: tokens got labels and dates. 3: tokens are rotated. 4: tokens are bound to a query."""
