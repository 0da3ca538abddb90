"""What every service stands on: settings files, SQLite files, tokens, problem documents, HTTP, limits, metrics, log lines."""
