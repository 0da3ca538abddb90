"""History: randomized reports, kept so that any period can be asked again without asking anyone (docs/history.md)."""
