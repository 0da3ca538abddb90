"""Bytes: messages, shares and blocks, one answer at a time or many at once, with the same bytes
(docs/wire.md)."""
