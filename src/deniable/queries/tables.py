"""Tables of plain values, as a query's file and its canonical bytes hold them."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from deniable.errors import ParameterError
from deniable.queries.columns.column import Column

__all__ = ["arguments_of", "check_table", "read_tables"]


def check_table(name: str, given: Any, known: Iterable[str]) -> Mapping[str, Any]:
    """The table, if it has no key but the known ones; a similar one is suggested."""
    if not isinstance(given, Mapping):
        raise ParameterError(
            name, given, f"must be a table with the keys {', '.join(sorted(known))}"
        )
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(sorted(known))}"
            )
            raise ParameterError(
                key if name == "query" else f"{name}.{key}",
                given[key],
                f"is not a known key: {hint}",
            )
    return given


def arguments_of(name: str, given: Any, kind: type) -> dict[str, Any]:
    """The arguments of a dataclass, with None for required ones that are missing."""
    fields = [field for field in dataclasses.fields(kind) if field.init]
    table = dict(check_table(name, given, [field.name for field in fields]))
    return {
        **{field.name: None for field in fields if field.default is dataclasses.MISSING},
        **table,
    }


def read_tables(name: str, given: Any, kind: type, keys: Iterable[str]) -> list[Any]:
    """One object of `kind` for each table of a list; errors name the table."""
    if not isinstance(given, list):
        raise ParameterError(
            name, given, f"must be a list of tables, [[{name}]], with the keys {', '.join(keys)}"
        )
    out = []
    for i, part in enumerate(given):
        table = {"name": None, **check_table(f"{name}[{i}]", part, keys)}
        if kind is Column:
            table.setdefault("buckets", None)
        try:
            out.append(kind(**table))
        except ParameterError as error:
            raise error.named(f"{name}[{i}].{error.name}") from None
    return out
