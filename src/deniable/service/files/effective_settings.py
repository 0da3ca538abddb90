"""The effective settings, including defaults, and where each comes from: what `show` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from deniable.queries.schedule import spoken_duration
from deniable.service.files.settings import SIZE_UNITS, Bytes, Seconds
from deniable.toml_file import TomlFile, line_of

__all__ = ["EffectiveSetting", "effective_settings"]


@dataclass(frozen=True)
class EffectiveSetting:
    """An effective setting, and where it comes from."""

    key: str
    value: Any
    """As it would be written in the file; None if it is not set."""
    line: int | None
    """Its line in the file; None for a default."""


_SECRET_KEY = re.compile(r"password|secret|token|credential|private", re.IGNORECASE)
_USER_IN_URL = re.compile(r"(?<=://)[^/@]*@")


def effective_settings(file: TomlFile, settings: Any) -> list[EffectiveSetting]:
    """Every setting of a file, with defaults, in the order the service declares them. Secrets are
    hidden."""
    return [
        EffectiveSetting(
            key, _hidden(key, value), line_of(file.text, key) if _stands(file.tree, key) else None
        )
        for key, value in _entries("", settings)
    ]


def _entries(place: str, settings: Any) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(type(settings), include_extras=True)
    for each in fields(settings):
        if not each.init:
            continue
        key, value = f"{place}{each.name}", getattr(settings, each.name)
        if is_dataclass(value):
            yield from _entries(f"{key}.", value)
        elif isinstance(value, Mapping):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        elif (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and value
            and all(map(is_dataclass, value))
        ):
            for i, inner in enumerate(value):
                yield from _entries(f"{key}[{i}].", inner)
        else:
            yield key, _as_written(value, hints[each.name])


def _as_written(value: Any, hint: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if hint == Seconds:
            return spoken_duration(value) if value else "0 s"
        if hint == Bytes:
            unit = next(unit for unit in reversed(SIZE_UNITS) if value % SIZE_UNITS[unit] == 0)
            return f"{value // SIZE_UNITS[unit]} {unit}"
    return list(value) if isinstance(value, tuple) else value


def _hidden(key: str, value: Any) -> Any:
    """The value with secrets hidden; the name of a file or variable that holds a secret is
    shown."""
    if not isinstance(value, str):
        return value
    if (
        _SECRET_KEY.search(key.rpartition(".")[2])
        and not key.endswith("_file")
        and not value.startswith(("file:", "env:"))
    ):
        return "(hidden)"
    return _USER_IN_URL.sub("(hidden)@", value)


def _stands(tree: Any, key: str) -> bool:
    """Whether a key is in the file."""
    found = tree
    for name, index in re.findall(r"([^.\[\]]+)((?:\[\d+\])?)", key):
        if not isinstance(found, Mapping) or name not in found:
            return _dotted_key(found, key)
        found = found[name]
        if index:
            found = found[int(index[1:-1])]
    return True


def _dotted_key(table: Any, key: str) -> bool:
    """Whether the table has the rest of a key as one dotted name, as Kafka and Spark options do."""
    parts = key.split(".")
    return isinstance(table, Mapping) and any(
        ".".join(parts[i:]) in table for i in range(len(parts))
    )
