"""The relay between devices and the aggregator: HTTP in, blocks in a log out. It cannot read what
it carries (docs/proxy.md)."""
