"""Where blocks are stored: the proxies' logs in SQLite and in Kafka, and readers for both."""
