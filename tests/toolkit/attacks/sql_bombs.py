"""Short texts of SQL that take long to compile: SQLite's compiler doubles its work at each
level."""

from __future__ import annotations

from deniable.audit.deployed.service_attacks import compile_bomb as doubling

__all__ = ["comments", "doubling"]


def comments(n: int) -> str:
    """Comments before what is no SELECT: a pattern that backtracks tries every end for every one of
    them."""
    return "/**/" * n + "DROP"
