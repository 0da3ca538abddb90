CREATE TABLE blocks (
    offset INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, epoch INTEGER NOT NULL, size_class INTEGER NOT NULL,
    prefix_bits INTEGER NOT NULL, prefix INTEGER NOT NULL, n INTEGER NOT NULL, appended INTEGER NOT NULL, block BLOB NOT NULL);
CREATE INDEX blocks_of_epoch ON blocks (channel, epoch);
CREATE TABLE marks (
    channel TEXT PRIMARY KEY, epoch INTEGER NOT NULL, offset INTEGER NOT NULL, declared INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE moved (segment INTEGER PRIMARY KEY);
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO facts VALUES ('identity', 'a log'), ('dropped', 0);
PRAGMA application_id = 1684958311;
PRAGMA user_version = 1;
