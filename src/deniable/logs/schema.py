"""The file of a proxy's log."""

from __future__ import annotations

from deniable.errors import DamagedLogError
from deniable.service.files.schemas import FileSchema

__all__ = ["LOG"]

LOG = FileSchema(
    "a proxy's log",
    damaged_error=DamagedLogError,
    application_id=0x64_6E_6C_67,  # the letters dnlg
    script="""
CREATE TABLE blocks (
    offset INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, epoch INTEGER NOT NULL,
    size_class INTEGER NOT NULL, prefix_bits INTEGER NOT NULL, prefix INTEGER NOT NULL,
    n INTEGER NOT NULL, appended INTEGER NOT NULL, block BLOB NOT NULL);
CREATE INDEX blocks_of_epoch ON blocks (channel, epoch);
CREATE TABLE marks (
    channel TEXT PRIMARY KEY, epoch INTEGER NOT NULL, offset INTEGER NOT NULL,
    declared INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE moved (segment INTEGER PRIMARY KEY);
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO facts VALUES ('identity', lower(hex(randomblob(16)))), ('dropped', 0);
""",
    unguarded=("blocks",),  # a changed share fails its tag check when shares are joined
)
