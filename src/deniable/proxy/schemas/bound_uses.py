"""The file that counts the messages sent under tokens that are good for so many."""

from __future__ import annotations

from deniable.service.files.schemas import FileSchema

__all__ = ["BOUND_USES"]

BOUND_USES = FileSchema(
    "a proxy's count of messages under bound tokens",
    application_id=0x64_6E_62_75,  # the letters dnbu
    script="""
CREATE TABLE uses (client BLOB PRIMARY KEY, used INTEGER NOT NULL) WITHOUT ROWID;
""",
)
