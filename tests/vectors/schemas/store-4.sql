CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE versions (analyst TEXT, query TEXT, serial INTEGER NOT NULL, digest BLOB NOT NULL, signed BLOB NOT NULL,
                       PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE epochs (analyst TEXT, query TEXT, epoch INTEGER NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE spent (analyst TEXT, query TEXT, epsilon TEXT NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE charges (time INTEGER NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL, epsilon TEXT NOT NULL, scope BLOB);
CREATE INDEX charges_by_time ON charges (time);
CREATE TABLE queue (place INTEGER PRIMARY KEY AUTOINCREMENT, proxy TEXT NOT NULL, due INTEGER NOT NULL,
                    expires INTEGER NOT NULL, record BLOB NOT NULL, answer INTEGER, tried INTEGER NOT NULL DEFAULT 1);
CREATE INDEX queue_by_proxy ON queue (proxy, due);
CREATE TABLE proxies (proxy TEXT PRIMARY KEY, failures INTEGER NOT NULL, retry_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE receipts (place INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, outcome TEXT NOT NULL,
                       reason TEXT NOT NULL, detail TEXT NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL,
                       serial INTEGER NOT NULL, question TEXT NOT NULL, epoch INTEGER, epsilon TEXT NOT NULL, left TEXT,
                       verified INTEGER NOT NULL, first INTEGER NOT NULL, times INTEGER NOT NULL);
CREATE INDEX receipts_by_query ON receipts (analyst, query);
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE memo (place INTEGER PRIMARY KEY, scope BLOB NOT NULL, slot INTEGER NOT NULL, answer BLOB NOT NULL,
                   permanent BLOB NOT NULL, spoke INTEGER NOT NULL, UNIQUE (scope, slot, answer));
CREATE TABLE reserves (scope BLOB, slot INTEGER, answers INTEGER NOT NULL, PRIMARY KEY (scope, slot)) WITHOUT ROWID;
CREATE UNIQUE INDEX charges_by_scope ON charges (scope);
CREATE TABLE state (changes INTEGER NOT NULL, clock INTEGER NOT NULL);
CREATE TABLE shared (shape TEXT NOT NULL);
CREATE TABLE decided (analyst TEXT, query TEXT, epoch INTEGER, PRIMARY KEY (analyst, query, epoch)) WITHOUT ROWID;
CREATE TABLE answers (place INTEGER PRIMARY KEY, charge INTEGER NOT NULL, serial INTEGER NOT NULL, question TEXT NOT NULL,
                      epoch INTEGER NOT NULL, messages INTEGER NOT NULL);
CREATE INDEX queue_by_answer ON queue (answer);
INSERT INTO state VALUES (0, 0);
PRAGMA application_id = 1684960867;
PRAGMA user_version = 4;
