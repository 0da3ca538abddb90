CREATE TABLE meta (name TEXT PRIMARY KEY, value);
CREATE TABLE proxies (proxy INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, identity TEXT, position TEXT NOT NULL);
CREATE TABLE marks (proxy INTEGER, partition INTEGER, channel INTEGER, epoch INTEGER NOT NULL,
    PRIMARY KEY (proxy, partition, channel)) WITHOUT ROWID;
CREATE TABLE queries (id TEXT, serial INTEGER, tag INTEGER UNIQUE NOT NULL, channel INTEGER NOT NULL, signed BLOB NOT NULL,
    published INTEGER NOT NULL, stopped INTEGER, analyst TEXT NOT NULL DEFAULT '', PRIMARY KEY (id, serial));
CREATE TABLE channels (channel INTEGER PRIMARY KEY, first INTEGER NOT NULL, front INTEGER NOT NULL);
CREATE TABLE closures (channel INTEGER, epoch INTEGER, missing TEXT NOT NULL, audited INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (channel, epoch)) WITHOUT ROWID;
CREATE TABLE waiting (seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, proxy INTEGER, words INTEGER,
    content BLOB);
CREATE INDEX waiting_epoch ON waiting (channel, epoch);
CREATE TABLE joined (seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, ids BLOB);
CREATE INDEX joined_epoch ON joined (channel, epoch);
CREATE TABLE panes (query TEXT, serial INTEGER, epoch INTEGER, stratum INTEGER, n INTEGER NOT NULL, silent INTEGER NOT NULL,
    counts BLOB NOT NULL, PRIMARY KEY (query, epoch, serial, stratum)) WITHOUT ROWID;
CREATE TABLE granules (query TEXT, epoch INTEGER, serial INTEGER, stratum INTEGER, first INTEGER, last INTEGER,
    n INTEGER NOT NULL, counts BLOB NOT NULL, joined INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (query, epoch, serial, stratum, first, last)) WITHOUT ROWID;
CREATE TABLE sealed (query TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE accounts (channel INTEGER, epoch INTEGER, proxy INTEGER, received INTEGER NOT NULL, counted INTEGER NOT NULL,
    orphaned INTEGER NOT NULL, duplicate INTEGER NOT NULL, late INTEGER NOT NULL, malformed INTEGER NOT NULL,
    PRIMARY KEY (channel, epoch, proxy)) WITHOUT ROWID;
CREATE TABLE totals (proxy INTEGER, outcome TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, outcome)) WITHOUT ROWID;
CREATE TABLE refusals (proxy INTEGER, reason TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, reason)) WITHOUT ROWID;
CREATE TABLE results (seq INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, number INTEGER NOT NULL, start INTEGER NOT NULL,
    condition TEXT NOT NULL, document TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL DEFAULT 1,
    n INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0, UNIQUE (query, number, revision));
CREATE TABLE tokens (digest BLOB PRIMARY KEY, label TEXT NOT NULL, analyst TEXT NOT NULL, role TEXT NOT NULL,
    made INTEGER NOT NULL, used INTEGER);
CREATE TABLE grants (digest BLOB, analyst TEXT, rights TEXT NOT NULL, PRIMARY KEY (digest, analyst)) WITHOUT ROWID;
CREATE TABLE relays (id TEXT, serial INTEGER, proxy INTEGER, what TEXT NOT NULL, done INTEGER NOT NULL, problem TEXT,
    PRIMARY KEY (id, proxy)) WITHOUT ROWID;
CREATE TABLE spark_fronts (channel INTEGER, bucket INTEGER, front INTEGER NOT NULL, PRIMARY KEY (channel, bucket)) WITHOUT ROWID;
CREATE TABLE spark_missing (channel INTEGER, epoch INTEGER, proxy INTEGER, PRIMARY KEY (channel, epoch, proxy)) WITHOUT ROWID;
CREATE TABLE spark_orders (channel TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE capacity (size_class INTEGER PRIMARY KEY, answers REAL NOT NULL, seconds REAL NOT NULL, updated INTEGER NOT NULL);
CREATE TABLE versions (query TEXT, serial INTEGER, number INTEGER NOT NULL, reason TEXT NOT NULL, wish REAL NOT NULL, achieved REAL, PRIMARY KEY (query, serial)) WITHOUT ROWID;
CREATE TABLE controlled (query TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE losses (proxy INTEGER NOT NULL, channel INTEGER NOT NULL, first INTEGER NOT NULL, past INTEGER NOT NULL, why TEXT NOT NULL);
CREATE TABLE history_files (path TEXT PRIMARY KEY, query TEXT NOT NULL, serial INTEGER NOT NULL, day INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, n INTEGER NOT NULL, size INTEGER NOT NULL, "groups" TEXT NOT NULL);
CREATE INDEX history_files_query ON history_files (query, day);
CREATE TABLE history_staged (seq INTEGER PRIMARY KEY, query TEXT NOT NULL, serial INTEGER NOT NULL, epoch INTEGER NOT NULL, stratum INTEGER NOT NULL, n INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX history_staged_query ON history_staged (query, epoch);
CREATE TABLE history_epochs (query TEXT, serial INTEGER, epoch INTEGER, n INTEGER NOT NULL, PRIMARY KEY (query, epoch, serial)) WITHOUT ROWID;
CREATE TABLE history_removed (path TEXT PRIMARY KEY, since INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE history_receipts (seq INTEGER PRIMARY KEY, query TEXT NOT NULL, document TEXT NOT NULL);
INSERT INTO meta VALUES ('schema', 5);
PRAGMA application_id = 0;
PRAGMA user_version = 0;
