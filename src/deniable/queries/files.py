"""Queries written as TOML. Errors name the file, the line, the key, the value, and what would be accepted."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError, QueryFileError
from deniable.queries.query import Query

__all__ = ["line_of", "parse_query", "query_of_tree", "read_query"]

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\- ]+?)\s*\]\]?\s*(?:#.*)?")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_\-]+)\s*=")
_STEP = re.compile(r"([A-Za-z0-9_\-]+)((?:\[\d+\])*)")
_LARGEST_FILE = 1 << 20


def read_query(path: str | Path) -> Query:
    """The query in a TOML file."""
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise QueryFileError("file", str(path), f"cannot be read: {error.strerror}", path.name) from None
    if len(content) > _LARGEST_FILE:
        raise QueryFileError("file", f"{len(content)} bytes", f"must hold at most {_LARGEST_FILE}", path.name)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise QueryFileError("file", str(path), "must be TOML in UTF-8", path.name) from None
    return parse_query(text, path.name)


def parse_query(text: str, file: str = "query") -> Query:
    """The query in a TOML text; `file` is the name that errors give it."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, _, place = str(error).partition(" (at ")
        found = re.match(r"line (\d+)", place)
        line = int(found[1]) if found else len(text.splitlines())
        raise QueryFileError("file", file, f"is not TOML: {message}", file, line) from None
    except RecursionError:
        raise _too_deep(file) from None
    try:
        return query_of_tree(tree)
    except RecursionError:
        raise _too_deep(file) from None
    except ParameterError as error:
        raise QueryFileError(error.name, error.value, error.rule, file, line_of(text, error.name)) from None


def _too_deep(file: str) -> QueryFileError:
    return QueryFileError("file", file, "nests too deeply to be read", file)


def query_of_tree(tree: dict[str, Any]) -> Query:
    """The query in a table of TOML, in which times may be written as times."""
    schedule = tree.get("schedule")
    if isinstance(schedule, dict):
        times = {name: _seconds(f"schedule.{name}", schedule[name]) for name in ("origin", "expires") if name in schedule}
        tree = {**tree, "schedule": {**schedule, **times}}
    return Query.from_dict(tree)


def _seconds(name: str, given: Any) -> Any:
    if not isinstance(given, datetime.datetime | datetime.date | datetime.time):
        return given
    if not isinstance(given, datetime.datetime) or given.tzinfo is None or given.microsecond:
        raise ParameterError(name, str(given), "must be a time with its offset in whole seconds, such as 2026-01-01T00:00:00Z")
    return (given - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(seconds=1)


def line_of(text: str, name: str) -> int | None:
    """The line of a TOML text on which a key such as `columns[1].buckets` is set, or else of the table it would stand in.

    >>> line_of('id = "x"\\n[schedule]\\nevery = 3', "schedule.every")
    3
    """
    wanted: list[str | int] = []
    for key, indices in _STEP.findall(name):
        wanted.append(key)
        wanted.extend(int(i) for i in re.findall(r"\d+", indices))
    table: list[str | int] = []
    seen: dict[str, int] = {}
    best: tuple[int, int | None] = (0, None)
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        assignment = _ASSIGNMENT.match(line)
        if header:
            table = [part.strip() for part in header[2].split(".")]
            if header[1] == "[[":
                seen[header[2]] = seen.get(header[2], -1) + 1
                table.append(seen[header[2]])
            path = table
        elif assignment:
            path = [*table, assignment[1]]
        else:
            continue
        if len(path) > best[0] and wanted[: len(path)] == path:
            best = len(path), number
    return best[1]
