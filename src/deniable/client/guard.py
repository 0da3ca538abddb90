"""The inner wall of the sandbox: one guarded SELECT on one SQLite file, with nothing but the standard library.

It imports nothing of this package, so that it can also run as a script of its own, in a process that starts in some ten
milliseconds and is thrown away (`sandbox.py` does that). Whatever it refuses, it refuses as a :class:`RefusedError` with a reason
that `sandbox.py` turns into an error of the tree.

What each guard is for:

* the authorizer decides what may be read and called; everything it does not know, it denies;
* the limits bound what one statement, one cell and one instruction of SQLite's machine can grow to;
* the progress handler, called every few hundred instructions, ends what passes the deadline or the memory cap;
* `mode=ro` and `query_only` mean that even a hole in the above could not write.
"""

from __future__ import annotations

import json
import re
import sqlite3
import string
import sys
from collections.abc import Callable
from time import monotonic
from typing import Any

if sys.platform != "win32":  # there only the isolated process caps memory, by SQLite's own heap limit
    import resource

__all__ = [
    "APPLICATION_ID",
    "CALENDAR",
    "DECLARATION",
    "FUNCTIONS",
    "LARGEST_CELL",
    "RefusedError",
    "fold",
    "grants",
    "ordered_by_others",
    "query",
]

APPLICATION_ID = 0x646E7676
"""Marks an SQLite file as a vault: `dnvv` in the file's header."""

DECLARATION = "deniable_shared"
"""The table inside the vault that holds what the owner shares. It cannot itself be shared."""

LARGEST_CELL = 1 << 16
"""Bytes in the longest text that a query may read, build or return: `instr` on two such texts takes under 0.1 s."""

LONGEST_SQL = 8_192
_LONGEST_TRIM = 2  # arguments: trim(x, characters) compares every character with every other, in one instruction
_PROGRESS_EVERY = 400  # instructions; about 20 microseconds

# Deterministic, and at most linear in their arguments (`instr` excepted: LARGEST_CELL bounds it). Not here on purpose: whatever
# draws, looks at the clock, the file, the connection or the build, makes blobs, or makes long texts out of short ones.
# fmt: off
FUNCTIONS = frozenset(
    [
        "abs", "avg", "ceil", "ceiling", "coalesce", "count", "dense_rank", "exp", "first_value", "floor", "glob", "ifnull",
        "iif", "instr", "lag", "last_value", "lead", "length", "like", "ln", "lower", "ltrim", "max", "min", "mod", "nullif",
        "pow", "power", "rank", "round", "row_number", "rtrim", "sign", "sqrt", "substr", "substring", "sum", "total", "trim",
        "trunc", "typeof", "upper",
    ]
)
# fmt: on
# Replaced by versions that cannot see the device's clock or time zone.
CALENDAR = ("date", "time", "datetime", "julianday", "strftime", "unixepoch")

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_CELL,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LONGEST_SQL,
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 64,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 8,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 16,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 256,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_LIMIT_WORDS = ("too many", "too large", "too big", "too complex", "at most", "stack overflow", "too long", "variable number")
_UNREADABLE = "a cell cannot be read as a number or as UTF-8 text"
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

Cell = int | float | str | None


class RefusedError(Exception):
    """The query was refused or stopped: `reason` is a key of `sandbox.REASONS`, `detail` one sentence without any data."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


def fold(name: str) -> str:
    """The name as SQLite compares names: ASCII letters without case, all others as they are."""
    return name.translate(_ASCII_LOWER)


class _Watch:
    """Why a query is to be stopped, and what has been refused so far: the callbacks' common memory."""

    def __init__(self, deadline: float, max_memory: int) -> None:
        self.deadline, self.max_memory = deadline, max_memory
        self.ends = monotonic() + deadline
        self.refused: RefusedError | None = None
        self._ceiling = _peak() + max_memory
        self._clock: sqlite3.Connection | None = None

    def refuse(self, reason: str, detail: str) -> RefusedError:
        """Note why; the first reason stands."""
        self.refused = self.refused or RefusedError(reason, detail)
        return self.refused

    def stop(self) -> int:
        """SQLite's progress handler: not zero ends the query."""
        if monotonic() > self.ends:
            self.refuse("deadline", f"the query ran longer than its deadline of {self.deadline:g} s")
        elif _peak() > self._ceiling:
            self.refuse("memory", f"the query needs more than max_memory = {self.max_memory} bytes")
        return self.refused is not None

    def clock(self) -> sqlite3.Connection:
        """An empty database that does the arithmetic of dates; made when first needed."""
        if self._clock is None:
            self._clock = sqlite3.connect(":memory:")
        return self._clock

    def close(self) -> None:
        if self._clock is not None:
            self._clock.close()


def _peak() -> int:
    """The process's largest resident size so far, in bytes. It never falls: memory once held and given back may be used again."""
    if sys.platform == "win32":
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def grants(connection: sqlite3.Connection) -> tuple[dict[str, set[str]], set[str]]:
    """What is shared, as {table: columns}, and the names of all tables and views there are.

    A share counts only as long as it names a real column of an ordinary table (root page > 0): a view or a virtual table
    that took its place, or a generated column, would show what was never shared.
    """
    objects: dict[str, bool] = {}
    for kind, name, root in connection.execute("SELECT type, name, rootpage FROM sqlite_master WHERE type IN ('table', 'view')"):
        objects[fold(name)] = kind == "table" and bool(root)
    shared: dict[str, set[str]] = {}
    for table, column in connection.execute(f"SELECT table_name, column_name FROM {DECLARATION}"):  # noqa: S608 - a constant
        shared.setdefault(fold(table), set()).add(fold(column))
    granted = {}
    for table, columns in shared.items():
        if objects.get(table) and table != DECLARATION:
            info = connection.execute(f"PRAGMA table_xinfo({_quoted(table)})")
            real = columns & {fold(name) for _, name, _, _, _, _, hidden in info if not hidden}
            if ordered_by_others(connection, table, real) is None:
                granted[table] = real | {""}  # "" is how SQLite names a table of which no column is read: count(*)
    return granted, set(objects)


def ordered_by_others(connection: sqlite3.Connection, table: str, columns: set[str]) -> str | None:
    """An index of the table that holds more than these columns, if there is one.

    SQLite may walk it in place of the table, and rows in the order of an unshared column tell much of that column:
    `SELECT age FROM t LIMIT 1` is then the age of whoever earns least.
    """
    for _, index, _, _, partial in connection.execute(f"PRAGMA index_list({_quoted(table)})").fetchall():
        keys = connection.execute(f"PRAGMA index_info({_quoted(index)})")
        if partial or any(name is None or fold(name) not in columns for _, _, name in keys):
            return str(index)
    return None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _authorizer(granted: dict[str, set[str]], objects: set[str], watch: _Watch) -> Callable[..., int]:
    allowed = FUNCTIONS | set(CALENDAR)

    def authorize(action: int, first: str | None, second: str | None, schema: str | None, source: str | None) -> int:
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            table, column = fold(first or ""), fold(second or "")
            if column in granted.get(table, ()):
                return sqlite3.SQLITE_OK
            # SQLite also asks about a common table expression of which no column is read. A name that no table of the file has
            # can be nothing else: virtual tables that need no CREATE are refused when they are made, under this same authorizer.
            if not column and table not in objects and not table.startswith(("sqlite_", "pragma_")):
                return sqlite3.SQLITE_OK
            watch.refuse("not shared", f"{first}.{second} is not shared" if second else f"{first} is not shared")
        elif action == sqlite3.SQLITE_FUNCTION:
            if fold(second or "") in allowed:
                return sqlite3.SQLITE_OK
            watch.refuse("forbidden", f"the function {second} is not on the list of allowed functions")
        elif action == sqlite3.SQLITE_RECURSIVE:
            watch.refuse("forbidden", "recursive queries are not allowed")
        else:
            watch.refuse("forbidden", "only SELECT on shared tables is allowed")
        return sqlite3.SQLITE_DENY

    return authorize


# Written-out times, and the modifiers that only do arithmetic on them. Whatever matches neither is not passed on to SQLite.
_TIME_VALUE = re.compile(r"[\s\d:.+TZ-]*", re.ASCII)
_MODIFIER = re.compile(
    r"[+-]?[\d.:-]+( [\d.:]+)?( *(second|minute|hour|day|month|year)s?)?"
    r"|start of (month|year|day)|weekday \d|unixepoch|julianday|auto",
    re.ASCII | re.IGNORECASE,
)
_CLOCK = ("now", "localtime", "utc", "subsec", "subsecond")


def _calendar(name: str, watch: _Watch) -> Callable[..., Cell]:
    """SQLite's own date function, without the words that would show the device's clock or time zone."""

    def function(*arguments: Cell) -> Cell:
        times = arguments[1:] if name == "strftime" else arguments
        texts = [each.strip() for each in times if isinstance(each, str)]
        # A blob of those words would be read as text: no answer needs a time in a blob.
        if not times or any(isinstance(each, bytes) for each in times) or any(fold(text) in _CLOCK for text in texts):
            raise watch.refuse("forbidden", f"{name}() may not look at the device's clock or time zone")
        modifiers = texts[1:] if isinstance(times[0], str) else texts
        if len(modifiers) != len(times) - 1 or not all(_MODIFIER.fullmatch(text) for text in modifiers):
            return None  # as SQLite does with what it cannot read as a time
        if isinstance(times[0], str) and not _TIME_VALUE.fullmatch(times[0]):
            return None
        marks = ", ".join("?" * len(arguments))
        return watch.clock().execute(f"SELECT {name}({marks})", arguments).fetchone()[0]  # type: ignore[no-any-return]

    return function


def _connect(uri: str, deadline: float) -> sqlite3.Connection:
    """A connection that cannot write. `immutable=1` is not used: it would skip the locks that keep a writing owner out."""
    connection = sqlite3.connect(uri, uri=True, timeout=deadline, isolation_level=None, cached_statements=0)
    for pragma in ("query_only=1", "trusted_schema=0", "cell_size_check=1", "temp_store=MEMORY", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _lock_down(connection: sqlite3.Connection, watch: _Watch) -> None:
    """Everything that must hold before the first word of the analyst's SQL is read. The order matters: what the file
    declares is read first, in the transaction the query will run in, so an owner who shares less meanwhile is obeyed."""
    connection.execute("BEGIN")
    granted, objects = grants(connection)
    for category, limit in _LIMITS.items():
        connection.setlimit(category, limit)
    if sys.version_info >= (3, 12):  # Python 3.11 cannot set these; a read-only default-deny connection does not rest on them
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
        connection.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, False)
    for name in CALENDAR:
        connection.create_function(name, -1, _calendar(name, watch), deterministic=True)

    def quadratic(*_: Cell) -> Cell:
        raise watch.refuse("forbidden", "trim with a list of characters is not allowed")

    for name in ("trim", "ltrim", "rtrim"):
        connection.create_function(name, _LONGEST_TRIM, quadratic, deterministic=True)
    connection.set_progress_handler(watch.stop, _PROGRESS_EVERY)
    connection.set_authorizer(_authorizer(granted, objects, watch))


def _fetch(cursor: sqlite3.Cursor, max_rows: int, watch: _Watch) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for row in cursor:
        if len(rows) == max_rows:
            raise watch.refuse("rows", f"the query gives more than max_rows = {max_rows} rows")
        if any(isinstance(cell, bytes) for cell in row):
            raise watch.refuse("cell", "the query gives a blob; only numbers, text and NULL can be answers")
        if watch.stop():
            break
        rows.append(row)
    return rows


def query(uri: str, sql: str, *, deadline: float, max_rows: int, max_memory: int) -> tuple[list[str], list[tuple[Cell, ...]]]:
    """The column names and rows of one SELECT, or :class:`RefusedError`. The text must have passed `sqltext.check`."""
    watch = _Watch(deadline, max_memory)
    connection = None
    try:
        connection = _connect(uri, deadline)
        _lock_down(connection, watch)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise RefusedError(
            "vault", f"the vault cannot be read ({getattr(error, 'sqlite_errorname', 'no SQLite file')})"
        ) from None
    cursor = connection.cursor()
    try:
        cursor.execute(sql)
        rows = _fetch(cursor, max_rows, watch)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise watch.refused or _explain(error) from None
    except MemoryError:
        raise watch.refuse("memory", f"the query needs more than max_memory = {max_memory} bytes") from None
    finally:
        cursor.close()  # or a statement cut short would hold the file's lock for as long as someone keeps the error
        connection.close()
        watch.close()
    if watch.refused is not None:
        raise watch.refused
    return [column[0] for column in cursor.description], rows


def _explain(error: Exception) -> RefusedError:  # noqa: PLR0911 - one return for each kind of error
    """Why SQLite itself refused. Its message is passed on only where it speaks of the query's text and never of the data."""
    name = getattr(error, "sqlite_errorname", "")
    message = str(error)
    if "one statement at a time" in message:
        return RefusedError("forbidden", "only one statement is allowed")
    if not name:  # not SQLite's words but Python's, which quote the text that they cannot decode
        return RefusedError("cell", _UNREADABLE)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CORRUPT", "SQLITE_IOERR", "SQLITE_NOTADB", "SQLITE_READONLY")):
        return RefusedError("vault", f"the vault cannot be read ({name})")
    if name == "SQLITE_TOOBIG" and "statement" not in message:
        return RefusedError("cell", f"a text or blob is longer than {LARGEST_CELL} bytes")
    if any(words in message for words in _LIMIT_WORDS):
        return RefusedError("complex", f"the query is too large: {message}")
    if message.startswith(("no such table", "no such column")):
        # The same words as for what exists and is not shared: which of the two it is, is the owner's business.
        return RefusedError("not shared", f"{message.partition(': ')[2]} is not shared")
    if message.startswith("no such function"):
        return RefusedError("forbidden", f"the function {message.partition(': ')[2]} is not on the list of allowed functions")
    if name.startswith("SQLITE_ERROR") or name == "SQLITE_AUTH":
        return RefusedError("bad sql", f"SQLite cannot run the query: {message}")
    return RefusedError("cell", _UNREADABLE)


def _confine(deadline: float, max_memory: int) -> None:
    """Bind this process for good: it will never need more, and dies rather than take more."""
    limiter = sqlite3.connect(":memory:")
    limiter.execute(f"PRAGMA hard_heap_limit={max_memory}")
    limiter.close()
    if sys.platform == "win32":
        return
    # The interpreter has its address space already; SQLite, the rows and their JSON get the cap each.
    seconds = int(deadline) + 2
    for what, bound in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0)):
        resource.setrlimit(what, (bound, bound))
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as statm:  # noqa: PTH123 - pathlib takes longer to import than all else here
            used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 3 * max_memory, used + 3 * max_memory))


def _main() -> None:
    """Answer one query from standard input to standard output, both JSON."""
    task: dict[str, Any] = json.load(sys.stdin)
    _confine(task["deadline"], task["max_memory"])
    try:
        columns, rows = query(**task)
        answer = json.dumps({"columns": columns, "rows": rows})
    except RefusedError as refused:
        answer = json.dumps({"reason": refused.reason, "detail": refused.detail})
    except MemoryError:
        answer = json.dumps({"reason": "memory", "detail": f"the query needs more than max_memory = {task['max_memory']} bytes"})
    sys.stdout.write(answer)


if __name__ == "__main__":
    _main()
