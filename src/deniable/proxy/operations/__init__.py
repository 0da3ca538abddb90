"""Running a proxy: its process, checks, metrics and backups."""
