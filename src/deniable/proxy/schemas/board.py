"""The file of the queries that a proxy relays."""

from __future__ import annotations

from deniable.service.files.schemas import FileSchema

__all__ = ["BOARD"]

BOARD = FileSchema(
    "a proxy's board of queries",
    application_id=0x64_6E_62_64,  # the letters dnbd
    script="""
CREATE TABLE versions (
    id TEXT, serial INTEGER, signed BLOB NOT NULL, stopped INTEGER, PRIMARY KEY (id, serial));
CREATE TABLE revoked (key TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
""",
    migrations={
        2: """
CREATE TABLE revoked (key TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
""",
    },
)
"""2: keys are revoked."""
