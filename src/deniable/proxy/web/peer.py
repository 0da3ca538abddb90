"""The header in which a proxy's worker names the address a request came from. A value sent by a
client is dropped."""

__all__ = ["PEER"]

PEER = "x-deniable-peer"
