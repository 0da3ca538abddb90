CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE versions (analyst TEXT, query TEXT, serial INTEGER NOT NULL, digest BLOB NOT NULL, signed BLOB NOT NULL,
                       PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE epochs (analyst TEXT, query TEXT, epoch INTEGER NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE spent (analyst TEXT, query TEXT, epsilon TEXT NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE charges (time INTEGER NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL, epsilon TEXT NOT NULL);
CREATE INDEX charges_by_time ON charges (time);
CREATE TABLE memo (place INTEGER PRIMARY KEY, scope BLOB NOT NULL, answer BLOB NOT NULL UNIQUE, permanent BLOB NOT NULL);
CREATE INDEX memo_by_scope ON memo (scope);
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
PRAGMA application_id = 1684960867;
PRAGMA user_version = 1;
