"""Where blocks lie: the proxies' logs in SQLite and in Kafka, and the readers of both."""
