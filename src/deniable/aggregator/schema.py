"""The file of an aggregator's state."""

from __future__ import annotations

import sqlite3

from deniable.errors import StateError
from deniable.service.files.schemas import FileSchema

__all__ = ["STATE"]

_MADE_LATER = """
CREATE TABLE IF NOT EXISTS history_files (
    path TEXT PRIMARY KEY, query TEXT NOT NULL, serial INTEGER NOT NULL, day INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, n INTEGER NOT NULL, size INTEGER NOT NULL,
    "groups" TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS history_files_query ON history_files (query, day);
CREATE TABLE IF NOT EXISTS history_staged (
    seq INTEGER PRIMARY KEY, query TEXT NOT NULL, serial INTEGER NOT NULL, epoch INTEGER NOT NULL,
    stratum INTEGER NOT NULL, n INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS history_staged_query ON history_staged (query, epoch);
CREATE TABLE IF NOT EXISTS history_epochs (
    query TEXT, serial INTEGER, epoch INTEGER, n INTEGER NOT NULL,
    PRIMARY KEY (query, epoch, serial)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history_removed (path TEXT PRIMARY KEY, since INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history_receipts (
    seq INTEGER PRIMARY KEY, query TEXT NOT NULL, document TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS losses (
    proxy INTEGER NOT NULL, channel INTEGER NOT NULL, first INTEGER NOT NULL,
    past INTEGER NOT NULL, why TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS capacity (
    size_class INTEGER PRIMARY KEY, answers REAL NOT NULL, seconds REAL NOT NULL,
    updated INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS versions (
    query TEXT, serial INTEGER, number INTEGER NOT NULL, reason TEXT NOT NULL, wish REAL NOT NULL,
    achieved REAL, PRIMARY KEY (query, serial)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS controlled (query TEXT PRIMARY KEY, number INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spark_fronts (
    channel INTEGER, bucket INTEGER, front INTEGER NOT NULL, PRIMARY KEY (channel, bucket))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spark_missing (
    channel INTEGER, epoch INTEGER, proxy INTEGER, PRIMARY KEY (channel, epoch, proxy))
    WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spark_orders (channel TEXT PRIMARY KEY, epoch INTEGER NOT NULL)
    WITHOUT ROWID;
"""
"""Tables that earlier releases created when they first needed them."""


def _earlier_version(connection: sqlite3.Connection) -> int | None:
    """Up to version 5, the version was a row."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone():
        return None
    row = connection.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone()
    return row[0] if row is not None and isinstance(row[0], int) else None


STATE = FileSchema(
    "the aggregator's state",
    application_id=0x64_6E_61_67,  # the letters dnag
    script="""
CREATE TABLE meta (name TEXT PRIMARY KEY, value);
-- for releases up to version 5, which look here and refuse the file
INSERT INTO meta VALUES ('schema', 6);
CREATE TABLE proxies (
    proxy INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, identity TEXT, position TEXT NOT NULL);
CREATE TABLE marks (
    proxy INTEGER, partition INTEGER, channel INTEGER, epoch INTEGER NOT NULL,
    PRIMARY KEY (proxy, partition, channel)) WITHOUT ROWID;
CREATE TABLE queries (
    id TEXT, serial INTEGER, tag INTEGER UNIQUE NOT NULL, channel INTEGER NOT NULL,
    signed BLOB NOT NULL, published INTEGER NOT NULL, stopped INTEGER,
    analyst TEXT NOT NULL DEFAULT '', PRIMARY KEY (id, serial));
CREATE TABLE channels (
    channel INTEGER PRIMARY KEY, first INTEGER NOT NULL, front INTEGER NOT NULL);
CREATE TABLE closures (
    channel INTEGER, epoch INTEGER, missing TEXT NOT NULL, audited INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, epoch)) WITHOUT ROWID;
CREATE TABLE waiting (
    seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, proxy INTEGER,
    words INTEGER, content BLOB);
CREATE INDEX waiting_epoch ON waiting (channel, epoch);
CREATE TABLE joined (
    seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, ids BLOB);
CREATE INDEX joined_epoch ON joined (channel, epoch);
CREATE TABLE panes (
    query TEXT, serial INTEGER, epoch INTEGER, stratum INTEGER, n INTEGER NOT NULL,
    silent INTEGER NOT NULL, counts BLOB NOT NULL, PRIMARY KEY (query, epoch, serial, stratum))
    WITHOUT ROWID;
CREATE TABLE granules (
    query TEXT, epoch INTEGER, serial INTEGER, stratum INTEGER, first INTEGER, last INTEGER,
    n INTEGER NOT NULL, counts BLOB NOT NULL, joined INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (query, epoch, serial, stratum, first, last)) WITHOUT ROWID;
CREATE TABLE sealed (query TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE accounts (
    channel INTEGER, epoch INTEGER, proxy INTEGER, received INTEGER NOT NULL,
    counted INTEGER NOT NULL, orphaned INTEGER NOT NULL, duplicate INTEGER NOT NULL,
    late INTEGER NOT NULL, malformed INTEGER NOT NULL, PRIMARY KEY (channel, epoch, proxy))
    WITHOUT ROWID;
CREATE TABLE totals (
    proxy INTEGER, outcome TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, outcome)) WITHOUT ROWID;
CREATE TABLE refusals (
    proxy INTEGER, reason TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, reason)) WITHOUT ROWID;
CREATE TABLE losses (
    proxy INTEGER NOT NULL, channel INTEGER NOT NULL, first INTEGER NOT NULL,
    past INTEGER NOT NULL, why TEXT NOT NULL);
CREATE TABLE results (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, number INTEGER NOT NULL,
    start INTEGER NOT NULL, condition TEXT NOT NULL, document TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL DEFAULT 1,
    n INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0,
    UNIQUE (query, number, revision));
CREATE TABLE tokens (
    hash BLOB PRIMARY KEY, label TEXT NOT NULL, analyst TEXT NOT NULL, role TEXT NOT NULL,
    made INTEGER NOT NULL, used INTEGER);
CREATE TABLE grants (
    hash BLOB, analyst TEXT, rights TEXT NOT NULL, PRIMARY KEY (hash, analyst)) WITHOUT ROWID;
CREATE TABLE relays (
    id TEXT, serial INTEGER, proxy INTEGER, what TEXT NOT NULL, done INTEGER NOT NULL,
    problem TEXT, PRIMARY KEY (id, proxy)) WITHOUT ROWID;
CREATE TABLE versions (
    query TEXT, serial INTEGER, number INTEGER NOT NULL, reason TEXT NOT NULL,
    margin REAL NOT NULL, achieved REAL, PRIMARY KEY (query, serial)) WITHOUT ROWID;
CREATE TABLE controlled (query TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE capacity (
    size_class INTEGER PRIMARY KEY, answers REAL NOT NULL, seconds REAL NOT NULL,
    updated INTEGER NOT NULL);
CREATE TABLE history_files (
    path TEXT PRIMARY KEY, query TEXT NOT NULL, serial INTEGER NOT NULL, day INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, n INTEGER NOT NULL, size INTEGER NOT NULL,
    "groups" TEXT NOT NULL);
CREATE INDEX history_files_query ON history_files (query, day);
CREATE TABLE history_staged (
    seq INTEGER PRIMARY KEY, query TEXT NOT NULL, serial INTEGER NOT NULL, epoch INTEGER NOT NULL,
    stratum INTEGER NOT NULL, n INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX history_staged_query ON history_staged (query, epoch);
CREATE TABLE history_epochs (
    query TEXT, serial INTEGER, epoch INTEGER, n INTEGER NOT NULL,
    PRIMARY KEY (query, epoch, serial)) WITHOUT ROWID;
CREATE TABLE history_removed (path TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE history_receipts (
    seq INTEGER PRIMARY KEY, query TEXT NOT NULL, document TEXT NOT NULL);
CREATE TABLE spark_fronts (
    channel INTEGER, bucket INTEGER, front INTEGER NOT NULL, PRIMARY KEY (channel, bucket))
    WITHOUT ROWID;
CREATE TABLE spark_missing (
    channel INTEGER, epoch INTEGER, proxy INTEGER, PRIMARY KEY (channel, epoch, proxy))
    WITHOUT ROWID;
CREATE TABLE spark_orders (channel TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
""",
    migrations={
        2: """
CREATE TABLE located (
    proxy INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, identity TEXT, position TEXT NOT NULL);
INSERT INTO located
    SELECT proxy, name, identity, CASE offset WHEN 0 THEN '' ELSE CAST(offset AS TEXT) END
    FROM proxies;
DROP TABLE proxies;
ALTER TABLE located RENAME TO proxies;
CREATE TABLE marks (
    proxy INTEGER, partition INTEGER, channel INTEGER, epoch INTEGER NOT NULL,
    PRIMARY KEY (proxy, partition, channel)) WITHOUT ROWID;
""",
        3: """
CREATE TABLE revised (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, number INTEGER NOT NULL,
    start INTEGER NOT NULL, condition TEXT NOT NULL, document TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL DEFAULT 1,
    n INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0,
    UNIQUE (query, number, revision));
INSERT INTO revised (seq, query, number, start, condition, document)
    SELECT seq, query, number, start, condition, document FROM results;
DROP TABLE results;
ALTER TABLE revised RENAME TO results;
""",
        4: """
ALTER TABLE closures ADD COLUMN audited INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queries ADD COLUMN analyst TEXT NOT NULL DEFAULT '';
UPDATE queries SET analyst =
    json_extract(json_extract(CAST(signed AS TEXT), '$.query'), '$.analyst');
CREATE TABLE grants (
    digest BLOB, analyst TEXT, rights TEXT NOT NULL, PRIMARY KEY (digest, analyst)) WITHOUT ROWID;
INSERT INTO grants
    SELECT digest, name, CASE role WHEN 'analyst' THEN 'read,publish,stop,delete' ELSE 'read' END
    FROM tokens;
INSERT OR IGNORE INTO grants SELECT digest, (SELECT min(analyst) FROM queries),
    CASE role WHEN 'analyst' THEN 'read,publish' ELSE 'read' END FROM tokens
    WHERE (SELECT count(DISTINCT analyst) FROM queries) = 1;
CREATE TABLE holders (
    digest BLOB PRIMARY KEY, label TEXT NOT NULL, analyst TEXT NOT NULL, role TEXT NOT NULL,
    made INTEGER NOT NULL, used INTEGER);
INSERT INTO holders SELECT digest, name, name, 'analyst', made, NULL FROM tokens;
DROP TABLE tokens;
ALTER TABLE holders RENAME TO tokens;
""",
        5: """
CREATE TABLE granules (
    query TEXT, epoch INTEGER, serial INTEGER, stratum INTEGER, first INTEGER, last INTEGER,
    n INTEGER NOT NULL, counts BLOB NOT NULL, joined INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (query, epoch, serial, stratum, first, last)) WITHOUT ROWID;
CREATE TABLE sealed (query TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO granules
    SELECT p.query, p.epoch, p.serial, p.stratum, p.epoch, p.epoch, p.n, p.counts, 0
    FROM panes AS p JOIN queries AS q ON q.id = p.query AND q.serial = p.serial
    JOIN channels AS c ON c.channel = q.channel
    WHERE p.epoch < c.front AND p.n >=
        json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.minimum_cohort');
INSERT INTO sealed SELECT q.id, max(c.front, coalesce((SELECT max((r.start
    + json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.schedule.window')
    - json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.schedule.origin'))
    / json_extract(json_extract(CAST(q.signed AS TEXT), '$.query'), '$.schedule.every'))
    FROM results AS r WHERE r.query = q.id AND NOT r.final), 0))
    FROM queries AS q JOIN channels AS c ON c.channel = q.channel GROUP BY q.id;
""",
        6: f"""{_MADE_LATER}
ALTER TABLE versions RENAME COLUMN wish TO margin;
ALTER TABLE tokens RENAME COLUMN digest TO hash;
ALTER TABLE grants RENAME COLUMN digest TO hash;
UPDATE meta SET value = 6 WHERE name = 'schema';
""",  # noqa: S608 - our own tables
    },
    # An altered share fits no tag, and is counted as such.
    unguarded=("waiting", "joined"),
    error=StateError,
    secure_delete=False,  # shares go by in gigabytes
    earlier_version=_earlier_version,
)
"""2: logs got partitions; marks, which are read again, got a table. 3: windows got revisions;
existing results are final. 4: queries and tokens belong to analysts. A token used to be valid for
all queries; now it is valid for those of the analyst it is named after. If all queries belong to
one analyst, tokens with other names can still read them (and publish them, which takes the
analyst's signature), but can neither stop nor delete them. 5: what is released became granules.
Closed epochs with a cohort are granules; other epochs of which earlier releases published sums are
sealed, because what is new in them cannot be told from what is not. 6: every table exists from the
beginning, and the file has an application id."""
