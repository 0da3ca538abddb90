"""Files of a service: SQLite, settings, rings, logs of chained lines, and backups."""
