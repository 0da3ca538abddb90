"""The header by which a proxy's worker names the address that a request came from. Whatever a client puts there is dropped."""

__all__ = ["PEER"]

PEER = "x-deniable-peer"
