"""Queries written as TOML. Errors name the file, the line, the key, the value, and what would be
accepted."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError, QueryFileError
from deniable.queries.query import Query
from deniable.renames import current_names
from deniable.toml_file import TomlFile

__all__ = ["parse_query", "query_of_tree", "read_query"]


def read_query(path: str | Path) -> Query:
    """The query in a TOML file."""
    return TomlFile.read(path, QueryFileError).made(query_of_tree)


def parse_query(text: str, file: str = "query") -> Query:
    """The query in a TOML text; `file` is the name that errors give it."""
    return TomlFile.parse(text, file, QueryFileError).made(query_of_tree)


def query_of_tree(tree: dict[str, Any]) -> Query:
    """The query in a table of TOML, in which times may be written as times."""
    schedule = tree.get("schedule")
    if isinstance(schedule, dict):
        times = {
            name: _seconds(f"schedule.{name}", schedule[name])
            for name in ("origin", "expires")
            if name in schedule
        }
        tree = {**tree, "schedule": {**schedule, **times}}
    if isinstance(tree.get("budget"), dict):
        tree = {**tree, "budget": current_names("Budget", tree["budget"])}
    envelope = tree.get("envelope")
    if isinstance(envelope, dict) and "until" in envelope:
        tree = {
            **tree,
            "envelope": {**envelope, "until": _seconds("envelope.until", envelope["until"])},
        }
    # a file is a new query, to be signed
    query = Query.from_dict({"instantaneous": "default", **tree})
    query.check_patterns()
    return query


def _seconds(name: str, given: Any) -> Any:
    if not isinstance(given, datetime.datetime | datetime.date | datetime.time):
        return given
    if not isinstance(given, datetime.datetime) or given.tzinfo is None or given.microsecond:
        raise ParameterError(
            name,
            str(given),
            "must be a time with its offset in whole seconds, such as 2026-01-01T00:00:00Z",
        )
    return (given - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(
        seconds=1
    )
