"""History: randomized reports, kept so that any period can be queried again without asking anyone
(docs/history.md)."""
