"""The protocols, one per file."""
