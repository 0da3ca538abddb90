"""What all services build on: settings files, SQLite files, tokens, problem documents, HTTP,
limits, metrics, log lines."""
