"""The kinds of SQLite files that only a proxy has, one module each."""
