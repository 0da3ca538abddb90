"""The database that an analyst's SQL runs on: an in-memory copy of what the owner grants, and
nothing else.

It imports nothing from this package and runs in its own process (`worker.py`), which is given
the names of the granted tables and columns, the affinity of each column, and the cells. So there is
nothing else to read there, whatever the text of a query says: no other table or column, no row
number, index, default or type of the vault. Rows are sorted by their own cells, which reveals
nothing about their order in the vault.

Further protections limit what a query may *do*:

* the authorizer allows SELECT, granted columns and a list of functions; everything else is denied;
* the limits bound what one statement, one cell and one instruction of SQLite's machine can grow to;
* the progress handler, called every few hundred instructions, ends what passes the deadline; a
  timer of the kernel ends what passes it inside one instruction, or before the first
  (`worker.py`). Both count this process's own processor time, so that neither depends on what
  else the machine does.
"""

from __future__ import annotations

import re
import sqlite3
import string
import sys
from collections.abc import Callable, Iterable, Sequence
from time import process_time

from deniable.sql.limits import LARGEST_CELL, LIMITS, LONGEST_SQL

__all__ = [
    "CALENDAR",
    "FUNCTIONS",
    "LARGEST_CELL",
    "REASONS",
    "Cell",
    "DisallowedSqlError",
    "Epoch",
    "GrantedCopy",
    "Shape",
    "check_text",
    "fold",
    "quoted",
    "too_much",
]

_PROGRESS_EVERY = 400  # instructions; about 20 microseconds
_CELL_BYTES = 64  # what a cell of a result costs besides its text, at least
# what an empty database takes in memory, and a page besides its own size
_EMPTY_BYTES, _PAGE_BYTES = 1 << 18, 320

# Deterministic functions. Deliberately absent: any that draw, read the clock, the connection or the
# build, or make blobs.
FUNCTIONS = frozenset(
    (  # noqa: SIM905 - one name per line would be a page
        "abs avg ceil ceiling coalesce count dense_rank exp first_value floor glob ifnull iif "
        "instr lag last_value lead length like ln lower ltrim max min mod nullif pow power rank "
        "round row_number rtrim sign sqrt substr substring sum total trim trunc typeof upper"
    ).split()
)
# Replaced by versions that cannot see the device's clock or time zone.
CALENDAR = ("date", "time", "datetime", "julianday", "strftime", "unixepoch")

_LIMIT_WORDS = (
    "too many",
    "too large",
    "too big",
    "too complex",
    "at most",
    "stack overflow",
    "too long",
    "variable number",
)
_PARAMETERS = ("epoch_start", "epoch_end")
_UNREADABLE = "a cell cannot be read as a number or as UTF-8 text"
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
# Possessive: a comment that ended is not tried again with a later end, which would double the time
# with each comment.
_START = re.compile(
    r"(?:[ \t\n\f\r\ufeff]|--[^\n]*\n|/\*.*?\*/)*+(?:select|with)(?![\w$])",
    re.DOTALL | re.IGNORECASE,
)

Cell = int | float | str | None
Shape = tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
"""What is granted: tables, each with its columns, each with its affinity."""
Epoch = tuple[int, int]
"""When the epoch that a query is answered for begins and ends, in Unix seconds: `:epoch_start` and
`:epoch_end` in its SQL. The query and the clock decide them, for all devices alike."""
_NO_EPOCH = (0, 0)


REASONS = ("not shared", "forbidden", "bad sql", "complex", "deadline", "rows", "memory", "cell")


class DisallowedSqlError(Exception):
    """The query was refused or stopped: `reason` is one of `REASONS`, `detail` one sentence without
    any data."""

    def __init__(self, reason: str, detail: str) -> None:
        self.reason, self.detail = reason, detail
        super().__init__(reason, detail)


def fold(name: str) -> str:
    """The name as SQLite compares names: ASCII letters without case, all others as they are."""
    return name.translate(_ASCII_LOWER)


def quoted(name: str) -> str:
    """The name quoted for SQL, whatever it contains."""
    return '"' + name.replace('"', '""') + '"'


def check_text(sql: str) -> None:
    """Refuse anything but the text of one SELECT of limited length. No protection depends on what
    the text *means*."""
    if not isinstance(sql, str):
        raise DisallowedSqlError("bad sql", "the query must be a text")
    if "\0" in sql:
        raise DisallowedSqlError("bad sql", "the query contains a NUL character")
    try:
        size = len(sql.encode())
    except UnicodeEncodeError:
        raise DisallowedSqlError("bad sql", "the query is not valid Unicode text") from None
    if size > LONGEST_SQL:
        raise DisallowedSqlError(
            "complex", f"the query has {size} bytes; at most {LONGEST_SQL} are allowed"
        )
    if not _START.match(sql):
        raise DisallowedSqlError("forbidden", "a query must begin with SELECT or WITH")


class GrantedCopy:
    """What is granted, and the queries on it: made of a shape, then filled, then sealed, then
    asked."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._granted = {
            fold(table): {"", *(fold(name) for name, _ in columns)} for table, columns in shape
        }
        self._deadline = self._ends = 0.0
        self._refused: DisallowedSqlError | None = None
        # an empty database that does the arithmetic of dates
        self._clock = sqlite3.connect(":memory:")
        self._db = sqlite3.connect(":memory:", isolation_level=None, cached_statements=0)
        for pragma in ("trusted_schema=0", "temp_store=MEMORY", "journal_mode=OFF"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("ATTACH ':memory:' AS unsorted")
        self._db.execute("PRAGMA unsorted.journal_mode=OFF")
        for table, columns in shape:
            fields = ", ".join(f"{quoted(name)} {affinity}" for name, affinity in columns)
            for schema in ("main", "unsorted"):
                self._db.execute(f"CREATE TABLE {schema}.{quoted(table)} ({fields})")
        self._db.execute("BEGIN")

    def add(self, table: int, rows: Iterable[Sequence[object]]) -> None:
        """Put rows into a table, named by its place in the shape."""
        name, columns = self._shape[table]
        marks = ", ".join("?" * len(columns))
        self._db.executemany(f"INSERT INTO unsorted.{quoted(name)} VALUES ({marks})", rows)  # noqa: S608 - quoted

    def seal(self, pause: Callable[[], int] | None = None) -> int:
        """Sort the rows, and allow only guarded queries from now on; returns about how many bytes
        the copy takes.

        Rows that compare as equal are equal: of 1 and 1.0 the type decides, and -0.0 becomes 0.0.
        `pause` is called now and then while they are sorted, and ends the sorting if it returns
        something other than 0.
        """
        if pause is not None:
            self._db.set_progress_handler(pause, _PROGRESS_EVERY)
        for table, columns in self._shape:
            names = [quoted(name) for name, _ in columns]
            cells = ", ".join(
                f"iif(typeof({name}) = 'real', {name} + 0.0, {name})" for name in names
            )
            order = ", ".join(f"{name}, typeof({name})" for name in names)
            self._db.execute(
                f"INSERT INTO main.{quoted(table)} SELECT {cells} FROM unsorted.{quoted(table)}"  # noqa: S608
                f" ORDER BY {order}"
            )
        self._db.execute("COMMIT")
        self._db.execute("DETACH unsorted")
        pages, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        self._db.execute("PRAGMA query_only=1")
        for category, limit in LIMITS.items():
            self._db.setlimit(category, limit)
        if sys.version_info >= (3, 12):  # Python 3.11 cannot set these, and no wall rests on them
            self._db.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
            self._db.setconfig(sqlite3.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, False)
            self._db.setconfig(sqlite3.SQLITE_DBCONFIG_DQS_DML, False)
        for name in CALENDAR:
            self._db.create_function(name, -1, self._calendar(name), deterministic=True)
        self._db.set_progress_handler(self._stop, _PROGRESS_EVERY)
        self._db.set_authorizer(self._authorize)
        return int(_EMPTY_BYTES + pages * (size + _PAGE_BYTES))

    def close(self) -> None:
        """Forget everything."""
        self._db.close()
        self._clock.close()

    def query(
        self, sql: str, epoch: Epoch, max_rows: int, max_memory: int, deadline: float
    ) -> tuple[list[str], list[tuple[Cell, ...]]]:
        """The column names and rows of one SELECT, or :class:`DisallowedSqlError`."""
        cursor = self._execute(sql, epoch, max_memory, deadline)
        try:
            rows = self._fetch(cursor, max_rows, max_memory)
            return [column[0] for column in cursor.description], rows
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            raise self._refused or _explain(error, max_memory) from None
        finally:
            cursor.close()

    def check_time(self) -> None:
        """Raise :class:`DisallowedSqlError` if the last query's deadline is over: what is done with
        its rows counts too."""
        if self._stop():
            raise self._refuse("deadline", "")

    def compile(self, sql: str, max_memory: int, deadline: float) -> int | None:
        """How many columns the SELECT returns, or :class:`DisallowedSqlError` if it cannot be
        compiled. It is not run.

        SQLite lists its program instead: `ResultRow` gives out a row, of p2 columns.
        """
        cursor = self._execute("EXPLAIN " + sql, _NO_EPOCH, max_memory, deadline)
        counts = [row[3] for row in cursor if row[1] == "ResultRow"]
        cursor.close()
        return counts[0] if counts else None

    def _execute(self, sql: str, epoch: Epoch, max_memory: int, deadline: float) -> sqlite3.Cursor:
        self._refused = None
        self._deadline, self._ends = deadline, process_time() + deadline
        cursor = self._db.cursor()
        try:
            return cursor.execute(sql, dict(zip(_PARAMETERS, epoch, strict=True)))
        except (sqlite3.Error, sqlite3.Warning, MemoryError) as error:
            cursor.close()
            raise self._refused or _explain(error, max_memory) from None

    def _fetch(
        self, cursor: sqlite3.Cursor, max_rows: int, max_memory: int
    ) -> list[tuple[Cell, ...]]:
        rows: list[tuple[Cell, ...]] = []
        size = 0
        for row in cursor:
            if len(rows) == max_rows:
                raise self._refuse(
                    "rows", f"the query returns more than max_rows = {max_rows} rows"
                )
            if any(isinstance(cell, bytes) for cell in row):
                raise self._refuse(
                    "cell", "the query returns a blob; only numbers, text and NULL can be answers"
                )
            size += sum(
                _CELL_BYTES + (len(cell.encode()) if isinstance(cell, str) else 0) for cell in row
            )
            if size > max_memory:
                raise self._refuse("memory", too_much(max_memory))
            rows.append(row)
        self.check_time()
        return rows

    def _refuse(self, reason: str, detail: str) -> DisallowedSqlError:
        """Record the reason; the first one counts."""
        self._refused = self._refused or DisallowedSqlError(reason, detail)
        return self._refused

    def _stop(self) -> int:
        """SQLite's progress handler: not zero ends the query."""
        if process_time() > self._ends:
            self._refuse(
                "deadline", f"the query ran longer than its deadline of {self._deadline:g} s"
            )
        return self._refused is not None

    def _authorize(
        self,
        action: int,
        first: str | None,
        second: str | None,
        schema: str | None,
        source: str | None,
    ) -> int:
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ:
            table, column = fold(first or ""), fold(second or "")
            # "" is how SQLite names the column when none is read, as by count(*). It asks so about
            # common table expressions too.
            if column in self._granted.get(table, ("",)) and not table.startswith(
                ("sqlite_", "pragma_")
            ):
                return sqlite3.SQLITE_OK
            self._refuse(
                "not shared",
                f"{first}.{second} is not granted" if second else f"{first} is not granted",
            )
        elif action == sqlite3.SQLITE_FUNCTION:
            if fold(second or "") in FUNCTIONS or fold(second or "") in CALENDAR:
                return sqlite3.SQLITE_OK
            self._refuse(
                "forbidden", f"the function {second} is not on the list of allowed functions"
            )
        elif action == sqlite3.SQLITE_RECURSIVE:
            self._refuse("forbidden", "recursive queries are not allowed")
        else:
            self._refuse("forbidden", "only SELECT on granted tables is allowed")
        return sqlite3.SQLITE_DENY

    def _calendar(self, name: str) -> Callable[..., Cell]:
        """SQLite's own date function, without the modifiers that would reveal the device's clock or
        time zone."""

        def function(*arguments: Cell) -> Cell:
            times = arguments[1:] if name == "strftime" else arguments
            texts = [each.strip() for each in times if isinstance(each, str)]
            # A blob of those words would be read as text: no answer needs a time in a blob.
            if (
                not times
                or any(isinstance(each, bytes) for each in times)
                or any(fold(text) in _CLOCK for text in texts)
            ):
                raise self._refuse(
                    "forbidden", f"{name}() must not use the device's clock or time zone"
                )
            modifiers = texts[1:] if isinstance(times[0], str) else texts
            if len(modifiers) != len(times) - 1 or not all(
                _MODIFIER.fullmatch(text) for text in modifiers
            ):
                return None  # as SQLite does with what it cannot read as a time
            if isinstance(times[0], str) and not _TIME_VALUE.fullmatch(times[0]):
                return None
            marks = ", ".join("?" * len(arguments))
            return self._clock.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]  # type: ignore[no-any-return]

        return function


# Written-out times, and the modifiers that only do arithmetic on them. Whatever matches neither is
# not passed on to SQLite.
_TIME_VALUE = re.compile(r"[\s\d:.+TZ-]*", re.ASCII)
_MODIFIER = re.compile(
    r"[+-]?[\d.:-]+( [\d.:]+)?( *(second|minute|hour|day|month|year)s?)?"
    r"|start of (month|year|day)|weekday \d|unixepoch|julianday|auto",
    re.ASCII | re.IGNORECASE,
)
_CLOCK = ("now", "localtime", "utc", "subsec", "subsecond")


def too_much(max_memory: int) -> str:
    """What is said of a query that needs too much memory."""
    return f"the query needs more than max_memory = {max_memory} bytes"


def _explain(error: Exception, max_memory: int) -> DisallowedSqlError:  # noqa: PLR0911 - one return for each kind of error
    """Why SQLite itself refused. Its message is passed on only if it is about the query's text and
    never about the data."""
    name = getattr(error, "sqlite_errorname", "")
    message = str(error)
    if isinstance(error, MemoryError) or name == "SQLITE_NOMEM":
        return DisallowedSqlError("memory", too_much(max_memory))
    if "one statement at a time" in message:
        return DisallowedSqlError("forbidden", "only one statement is allowed")
    if isinstance(error, sqlite3.ProgrammingError):  # Python's, about the text's parameters
        return DisallowedSqlError(
            "forbidden", "the only parameters are :epoch_start and :epoch_end"
        )
    if not name:  # not SQLite's words but Python's, which quote the text that they cannot decode
        return DisallowedSqlError("cell", _UNREADABLE)
    if name == "SQLITE_TOOBIG" and "statement" not in message:
        return DisallowedSqlError("cell", f"a text or blob is longer than {LARGEST_CELL} bytes")
    if any(words in message for words in _LIMIT_WORDS):
        return DisallowedSqlError("complex", f"the query is too large: {message}")
    if message.startswith(("no such table", "no such column")):
        return DisallowedSqlError(
            "not shared", f"{message.partition(': ')[2].partition(' - ')[0]} is not granted"
        )
    if message.startswith("no such function"):
        return DisallowedSqlError(
            "forbidden",
            f"the function {message.partition(': ')[2]} is not on the list of allowed functions",
        )
    if name.startswith("SQLITE_ERROR") or name == "SQLITE_AUTH":
        return DisallowedSqlError("bad sql", f"SQLite cannot run the query: {message}")
    return DisallowedSqlError("cell", _UNREADABLE)
