"""Short texts of SQL that take long to compile: SQLite's compiler doubles its work at each level."""

from __future__ import annotations

__all__ = ["comments", "doubling"]


def doubling(levels: int) -> str:
    """Common table expressions, each of which names the one before twice."""
    parts = ["a0 AS (SELECT 1 AS x)"]
    parts += [f"a{i} AS (SELECT x FROM a{i - 1} UNION ALL SELECT x FROM a{i - 1})" for i in range(1, levels)]  # noqa: S608
    return f"WITH {', '.join(parts)} SELECT x FROM a{levels - 1}"  # noqa: S608


def comments(n: int) -> str:
    """Comments before what is no SELECT: a pattern that backtracks tries every end for every one of them."""
    return "/**/" * n + "DROP"
