CREATE TABLE meta (name TEXT PRIMARY KEY, value);
CREATE TABLE proxies (proxy INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, identity TEXT, position TEXT NOT NULL);
CREATE TABLE marks (proxy INTEGER, partition INTEGER, channel INTEGER, epoch INTEGER NOT NULL,
    PRIMARY KEY (proxy, partition, channel)) WITHOUT ROWID;
CREATE TABLE queries (id TEXT, serial INTEGER, tag INTEGER UNIQUE NOT NULL, channel INTEGER NOT NULL, signed BLOB NOT NULL,
    published INTEGER NOT NULL, stopped INTEGER, PRIMARY KEY (id, serial));
CREATE TABLE channels (channel INTEGER PRIMARY KEY, first INTEGER NOT NULL, front INTEGER NOT NULL);
CREATE TABLE closures (channel INTEGER, epoch INTEGER, missing TEXT NOT NULL, PRIMARY KEY (channel, epoch)) WITHOUT ROWID;
CREATE TABLE waiting (seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, proxy INTEGER, words INTEGER,
    content BLOB);
CREATE INDEX waiting_epoch ON waiting (channel, epoch);
CREATE TABLE joined (seq INTEGER PRIMARY KEY, channel INTEGER, epoch INTEGER, bucket INTEGER, ids BLOB);
CREATE INDEX joined_epoch ON joined (channel, epoch);
CREATE TABLE panes (query TEXT, serial INTEGER, epoch INTEGER, stratum INTEGER, n INTEGER NOT NULL, silent INTEGER NOT NULL,
    counts BLOB NOT NULL, PRIMARY KEY (query, epoch, serial, stratum)) WITHOUT ROWID;
CREATE TABLE accounts (channel INTEGER, epoch INTEGER, proxy INTEGER, received INTEGER NOT NULL, counted INTEGER NOT NULL,
    orphaned INTEGER NOT NULL, duplicate INTEGER NOT NULL, late INTEGER NOT NULL, malformed INTEGER NOT NULL,
    PRIMARY KEY (channel, epoch, proxy)) WITHOUT ROWID;
CREATE TABLE totals (proxy INTEGER, outcome TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, outcome)) WITHOUT ROWID;
CREATE TABLE refusals (proxy INTEGER, reason TEXT, n INTEGER NOT NULL, PRIMARY KEY (proxy, reason)) WITHOUT ROWID;
CREATE TABLE results (seq INTEGER PRIMARY KEY AUTOINCREMENT, query TEXT NOT NULL, number INTEGER NOT NULL, start INTEGER NOT NULL,
    condition TEXT NOT NULL, document TEXT NOT NULL, revision INTEGER NOT NULL DEFAULT 0, final INTEGER NOT NULL DEFAULT 1,
    n INTEGER NOT NULL DEFAULT 0, made INTEGER NOT NULL DEFAULT 0, UNIQUE (query, number, revision));
CREATE TABLE tokens (digest BLOB PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, made INTEGER NOT NULL);
CREATE TABLE relays (id TEXT, serial INTEGER, proxy INTEGER, what TEXT NOT NULL, done INTEGER NOT NULL, problem TEXT,
    PRIMARY KEY (id, proxy)) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema', 3);
PRAGMA application_id = 0;
PRAGMA user_version = 0;
