"""The file of a proxy's invitations, and of the tickets that were used."""

from __future__ import annotations

from deniable.service.files.schemas import FileSchema

__all__ = ["ENROLMENT"]

ENROLMENT = FileSchema(
    "a proxy's book of invitations",
    application_id=0x64_6E_65_6E,  # the letters dnen
    script="""
CREATE TABLE invitations (
    hash BLOB PRIMARY KEY, until INTEGER NOT NULL, query TEXT, uses INTEGER, ends INTEGER)
    WITHOUT ROWID;
CREATE TABLE used (nonce BLOB PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;
""",
    migrations={
        2: """
ALTER TABLE invitations ADD COLUMN query TEXT;
ALTER TABLE invitations ADD COLUMN uses INTEGER;
ALTER TABLE invitations ADD COLUMN ends INTEGER;
""",
    },
)
"""2: invitations are bound to a query."""
