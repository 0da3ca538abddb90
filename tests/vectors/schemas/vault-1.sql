CREATE TABLE deniable_shared (table_name TEXT NOT NULL COLLATE NOCASE, column_name TEXT NOT NULL COLLATE NOCASE, PRIMARY KEY (table_name, column_name)) WITHOUT ROWID;
PRAGMA application_id = 1684960886;
PRAGMA user_version = 1;
