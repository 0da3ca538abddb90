"""The file of a device's store."""

from __future__ import annotations

from deniable.errors import StoreError
from deniable.service.files.schemas import FileSchema

__all__ = ["CHECKED_TABLES", "EPOCH_ZERO", "LONG_TABLES", "STORE"]

EPOCH_ZERO = 1 << 40
"""What is added to the epochs in `memo`, so that all of them, and -1, take the same six bytes in
the file."""
STORE = FileSchema(
    "the store of a device",
    application_id=0x64_6E_76_63,  # the letters dnvc
    script="""
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE versions (
    analyst TEXT, query TEXT, serial INTEGER NOT NULL, digest BLOB NOT NULL, signed BLOB NOT NULL,
    PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE epochs (
    analyst TEXT, query TEXT, epoch INTEGER NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE spent (
    analyst TEXT, query TEXT, epsilon TEXT NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE charges (
    time INTEGER NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL, epsilon TEXT NOT NULL,
    scope BLOB);
CREATE INDEX charges_by_time ON charges (time);
CREATE UNIQUE INDEX charges_by_scope ON charges (scope);
CREATE TABLE queue (
    place INTEGER PRIMARY KEY AUTOINCREMENT, proxy TEXT NOT NULL, due INTEGER NOT NULL,
    expires INTEGER NOT NULL, record BLOB NOT NULL, answer INTEGER,
    tried INTEGER NOT NULL DEFAULT 1);
CREATE INDEX queue_by_proxy ON queue (proxy, due);
CREATE INDEX queue_by_answer ON queue (answer);
CREATE TABLE proxies (
    proxy TEXT PRIMARY KEY, failures INTEGER NOT NULL, retry_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE receipts (
    place INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, outcome TEXT NOT NULL,
    reason TEXT NOT NULL, detail TEXT NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL,
    serial INTEGER NOT NULL, question TEXT NOT NULL, epoch INTEGER, epsilon TEXT NOT NULL,
    left TEXT, verified INTEGER NOT NULL, first INTEGER NOT NULL, times INTEGER NOT NULL);
CREATE INDEX receipts_by_query ON receipts (analyst, query);
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE memo (
    place INTEGER PRIMARY KEY, scope BLOB NOT NULL, slot INTEGER NOT NULL, answer BLOB NOT NULL,
    permanent BLOB NOT NULL, spoke INTEGER NOT NULL, UNIQUE (scope, slot, answer));
CREATE TABLE reserves (
    scope BLOB, slot INTEGER, answers INTEGER NOT NULL, PRIMARY KEY (scope, slot)) WITHOUT ROWID;
CREATE TABLE state (changes INTEGER NOT NULL, clock INTEGER NOT NULL);
INSERT INTO state VALUES (0, 0);
CREATE TABLE shared (shape TEXT NOT NULL);
CREATE TABLE decided (
    analyst TEXT, query TEXT, epoch INTEGER, PRIMARY KEY (analyst, query, epoch)) WITHOUT ROWID;
CREATE TABLE answers (
    place INTEGER PRIMARY KEY, charge INTEGER NOT NULL, serial INTEGER NOT NULL,
    question TEXT NOT NULL, epoch INTEGER NOT NULL, messages INTEGER NOT NULL);
CREATE TABLE revoked (proxy TEXT, key TEXT, PRIMARY KEY (proxy, key)) WITHOUT ROWID;
CREATE TABLE asked (
    analyst TEXT, query TEXT, serial INTEGER, digest BLOB, proxies TEXT NOT NULL,
    PRIMARY KEY (analyst, query, serial, digest)) WITHOUT ROWID;
CREATE TABLE feed_heads (
    address TEXT PRIMARY KEY, lines INTEGER NOT NULL, hash TEXT NOT NULL) WITHOUT ROWID;
""",
    migrations={
        2: """
ALTER TABLE memo RENAME TO memo_1;
CREATE TABLE memo (
    place INTEGER PRIMARY KEY, scope BLOB NOT NULL, slot INTEGER NOT NULL, answer BLOB NOT NULL,
    permanent BLOB NOT NULL, spoke INTEGER NOT NULL, UNIQUE (scope, slot, answer));
CREATE TABLE reserves (
    scope BLOB, slot INTEGER, answers INTEGER NOT NULL, PRIMARY KEY (scope, slot)) WITHOUT ROWID;
ALTER TABLE charges ADD COLUMN scope BLOB;
CREATE UNIQUE INDEX charges_by_scope ON charges (scope);
CREATE TABLE state (changes INTEGER NOT NULL, clock INTEGER NOT NULL);
INSERT INTO state VALUES (0, 0);
INSERT INTO memo SELECT place, scope, 0, answer, permanent, 0 FROM memo_1;
DROP TABLE memo_1;
""",
        3: """
CREATE TABLE shared (shape TEXT NOT NULL);
""",
        4: """
CREATE TABLE decided (
    analyst TEXT, query TEXT, epoch INTEGER, PRIMARY KEY (analyst, query, epoch)) WITHOUT ROWID;
CREATE TABLE answers (
    place INTEGER PRIMARY KEY, charge INTEGER NOT NULL, serial INTEGER NOT NULL,
    question TEXT NOT NULL, epoch INTEGER NOT NULL, messages INTEGER NOT NULL);
ALTER TABLE queue ADD COLUMN answer INTEGER;
ALTER TABLE queue ADD COLUMN tried INTEGER NOT NULL DEFAULT 1;
CREATE INDEX queue_by_answer ON queue (answer);
""",
        5: """
CREATE TABLE revoked (proxy TEXT, key TEXT, PRIMARY KEY (proxy, key)) WITHOUT ROWID;
CREATE TABLE asked (
    analyst TEXT, query TEXT, serial INTEGER, digest BLOB, proxies TEXT NOT NULL,
    PRIMARY KEY (analyst, query, serial, digest)) WITHOUT ROWID;
CREATE TABLE feed_heads (
    address TEXT PRIMARY KEY, lines INTEGER NOT NULL, hash TEXT NOT NULL) WITHOUT ROWID;
""",
        6: f"""
UPDATE memo SET spoke = spoke + {EPOCH_ZERO};
""",  # noqa: S608 - our own number
    },
    error=StoreError,
    keeps_copy=False,  # a copy would keep what is deleted from the store
)
"""2: a permanent answer belongs to a slot, and is paid for in advance. In version 1, slots shared
their permanent answers, and each was charged when it was drawn. Those answers become the first
slot's, so that an answer already given is not drawn again. Their charges stay, and what version 2
reserves is charged in full on top: deducting what was paid would deduct more for people whose
answers changed more often. 3: the names that were granted when the vault could last be read. 4:
each decided epoch (`epochs` has the newest one up to which all are decided) and, for each waiting
share, the charge it belongs to and whether it may have left; shares of earlier versions may have.
5: the keys each proxy reported as revoked when last asked; every accepted version; and how far the
public feeds extended when they were last compared with those versions. 6: `memo` has rows in which
no permanent answer was kept yet (`spoke` is that of epoch -1): an earlier program would take them
for permanent answers."""
LONG_TABLES = ("receipts", "counters", "asked", "feed_heads")
"""Checked when they are read, because no decision depends on them. All others are checked in every
transaction."""
CHECKED_TABLES = tuple(table for table in STORE.tables if table not in LONG_TABLES)
