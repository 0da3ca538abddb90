"""The tables of a device's store, and the migrations from earlier versions."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from deniable.errors import StoreError
from deniable.service import row_checks

__all__ = ["APPLICATION_ID", "CHECKED_TABLES", "LONG_TABLES", "SCHEMA_VERSION", "check_rows", "ensure_schema"]

SCHEMA_VERSION = 5
APPLICATION_ID = 0x646E7663  # "dnvc"
_FIRST = """
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE versions (analyst TEXT, query TEXT, serial INTEGER NOT NULL, digest BLOB NOT NULL, signed BLOB NOT NULL,
                       PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE epochs (analyst TEXT, query TEXT, epoch INTEGER NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE spent (analyst TEXT, query TEXT, epsilon TEXT NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE charges (time INTEGER NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL, epsilon TEXT NOT NULL);
CREATE INDEX charges_by_time ON charges (time);
CREATE TABLE queue (place INTEGER PRIMARY KEY AUTOINCREMENT, proxy TEXT NOT NULL, due INTEGER NOT NULL,
                    expires INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX queue_by_proxy ON queue (proxy, due);
CREATE TABLE proxies (proxy TEXT PRIMARY KEY, failures INTEGER NOT NULL, retry_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE receipts (place INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, outcome TEXT NOT NULL,
                       reason TEXT NOT NULL, detail TEXT NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL,
                       serial INTEGER NOT NULL, question TEXT NOT NULL, epoch INTEGER, epsilon TEXT NOT NULL, left TEXT,
                       verified INTEGER NOT NULL, first INTEGER NOT NULL, times INTEGER NOT NULL);
CREATE INDEX receipts_by_query ON receipts (analyst, query);
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
"""
_MEMO = """
CREATE TABLE memo (place INTEGER PRIMARY KEY, scope BLOB NOT NULL, slot INTEGER NOT NULL, answer BLOB NOT NULL,
                   permanent BLOB NOT NULL, spoke INTEGER NOT NULL, UNIQUE (scope, slot, answer));
CREATE TABLE reserves (scope BLOB, slot INTEGER, answers INTEGER NOT NULL, PRIMARY KEY (scope, slot)) WITHOUT ROWID;
ALTER TABLE charges ADD COLUMN scope BLOB;
CREATE UNIQUE INDEX charges_by_scope ON charges (scope);
CREATE TABLE state (changes INTEGER NOT NULL, clock INTEGER NOT NULL);
INSERT INTO state VALUES (0, 0);
"""
"""Added in version 2: a permanent answer belongs to a slot, and is paid for in advance."""
_SHARED = """
CREATE TABLE shared (shape TEXT NOT NULL);
"""
"""Added in version 3: the names that were shared when the vault could last be read."""
_COPY = """
INSERT INTO memo SELECT place, scope, 0, answer, permanent, 0 FROM memo_1;
DROP TABLE memo_1;
"""
_DELIVERY = """
CREATE TABLE decided (analyst TEXT, query TEXT, epoch INTEGER, PRIMARY KEY (analyst, query, epoch)) WITHOUT ROWID;
CREATE TABLE answers (place INTEGER PRIMARY KEY, charge INTEGER NOT NULL, serial INTEGER NOT NULL, question TEXT NOT NULL,
                      epoch INTEGER NOT NULL, messages INTEGER NOT NULL);
ALTER TABLE queue ADD COLUMN answer INTEGER;
ALTER TABLE queue ADD COLUMN tried INTEGER NOT NULL DEFAULT 1;
CREATE INDEX queue_by_answer ON queue (answer);
"""
"""Added in version 4: each decided epoch (`epochs` has the newest one up to which all are decided) and, for each waiting share,
the charge it belongs to and whether it may have left. Shares of earlier versions may have."""
_REVOKED = """
CREATE TABLE revoked (proxy TEXT, key TEXT, PRIMARY KEY (proxy, key)) WITHOUT ROWID;
CREATE TABLE asked (analyst TEXT, query TEXT, serial INTEGER, digest BLOB, proxies TEXT NOT NULL,
                    PRIMARY KEY (analyst, query, serial, digest)) WITHOUT ROWID;
CREATE TABLE feed_heads (address TEXT PRIMARY KEY, lines INTEGER NOT NULL, hash TEXT NOT NULL) WITHOUT ROWID;
"""
"""Added in version 5: the keys each proxy reported as revoked when last asked; every accepted version; and how far the public
feeds extended when they were last compared with those versions."""
_UPGRADES = {
    1: "".join(["ALTER TABLE memo RENAME TO memo_1;", _MEMO, _COPY.lstrip()]),
    2: _SHARED,
    3: _DELIVERY,
    4: _REVOKED,
}
"""From each earlier version to the next.

In version 1, slots shared their permanent answers, and each was charged when it was drawn. Those answers become the first slot's,
so that an answer already given is not drawn again. Their charges stay, and what version 2 reserves is charged in full on top:
deducting what was paid would deduct more for people whose answers changed more often."""


_TABLES = re.findall(r"CREATE TABLE (\w+)", _FIRST + _MEMO + _SHARED + _DELIVERY + _REVOKED)
LONG_TABLES = ("receipts", "counters", "asked", "feed_heads")
"""Checked when they are read, because no decision depends on them. All others are checked in every transaction."""
CHECKED_TABLES = [table for table in _TABLES if table not in LONG_TABLES]


def ensure_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file, or migrate an older one; refuse a file of another program or of a later version."""
    application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if application == APPLICATION_ID and version == SCHEMA_VERSION:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'row_checks'").fetchone():
            row_checks.guard(connection, _TABLES)  # a file from before there were check sums
        return
    if application == APPLICATION_ID and version not in _UPGRADES:
        raise StoreError(f"{path} has schema version {version}; this program knows up to version {SCHEMA_VERSION}")
    if not application and (version or connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]):
        raise StoreError(f"{path} is not the store of a device")
    if application not in (0, APPLICATION_ID):
        raise StoreError(f"{path} is not the store of a device")
    row_checks.unguard(connection)
    upgrades = [_UPGRADES[each] for each in range(version, SCHEMA_VERSION)] if application else []
    for statements in upgrades or [_FIRST, _MEMO, _SHARED, _DELIVERY, _REVOKED]:
        for statement in statements.strip().split(";\n"):
            connection.execute(statement)
    if not application:
        connection.execute("INSERT INTO secret VALUES (?)", (os.urandom(32),))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    row_checks.guard(connection, _TABLES)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def check_rows(connection: sqlite3.Connection, path: Path, tables: Iterable[str]) -> None:
    """Refuse a store whose rows are not those that were written: with it, more could be spent, or answers drawn again."""
    table = row_checks.damaged(connection, tables)
    if table is not None:
        raise StoreError(f"{path} is damaged: the rows of {table} do not fit their check sum. Restore the file from a backup")
