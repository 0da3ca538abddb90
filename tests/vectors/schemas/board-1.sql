CREATE TABLE versions (id TEXT, serial INTEGER, signed BLOB NOT NULL, stopped INTEGER, PRIMARY KEY (id, serial));
PRAGMA application_id = 1684955748;
PRAGMA user_version = 1;
