"""The kinds of SQLite files that services have in common, one module each."""
