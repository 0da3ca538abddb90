"""How much a query may take: SQLite's own limits, as they are set for every connection."""

from __future__ import annotations

import sqlite3

__all__ = ["LARGEST_CELL", "LIMITS", "LONGEST_SQL"]

LARGEST_CELL = 1 << 16
"""The most bytes of a text that a query may read, build or return."""

LONGEST_SQL = 8_192

LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_CELL,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LONGEST_SQL + len("EXPLAIN "),
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 64,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 8,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 256,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 2,  # :epoch_start and :epoch_end
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
