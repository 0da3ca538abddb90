"""Settings of a service, written as TOML and read into dataclasses. Errors name file, line, key, value and rule."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from deniable.errors import ParameterError, SettingsError
from deniable.queries.files import line_of
from deniable.queries.schedule import duration

__all__ = ["SettingsFile"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class SettingsFile:
    """Which keys stand for more than the text or number that is written there, at whatever depth they stand."""

    paths: Set[str]
    """Files and folders, relative to where the file with the settings stands."""
    durations: Set[str]
    """Seconds, or texts such as "10 min"."""
    tables: Mapping[str, type]
    """Tables, each with the dataclass it is read into. One that has paths in its own way counts them itself, in `within`."""
    lists: Mapping[str, type] = field(default_factory=dict)
    """Lists of tables."""

    def read(self, path: str | Path, kind: type[_T]) -> _T:
        """The settings in a TOML file."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError("file", str(path), f"cannot be read as UTF-8 text: {error}", path.name) from None
        try:
            tree = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"line (\d+)", str(error))
            line = int(found[1]) if found else None
            raise SettingsError("file", path.name, f"is not TOML: {error}", path.name, line) from None
        except RecursionError:
            raise SettingsError("file", path.name, "nests too deeply to be read", path.name) from None
        try:
            return self._built("", kind, tree, path.parent)
        except RecursionError:
            raise SettingsError("file", path.name, "nests too deeply to be read", path.name) from None
        except ParameterError as error:
            raise SettingsError(error.name, error.value, error.rule, path.name, line_of(text, error.name)) from None

    def _built(self, place: str, kind: type[_T], given: Any, base: Path) -> _T:
        if not isinstance(given, dict):
            raise ParameterError(place.rstrip("."), given, "must be a table")
        fields = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]  # all of them are dataclasses
        for name, value in given.items():
            if name not in fields:
                raise ParameterError(f"{place}{name}", value, f"is not a setting; there are {', '.join(fields)}")
        values = {name: self._value(f"{place}{name}", name, value, base) for name, value in given.items()}
        for name, each in fields.items():
            if name not in values and each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
                raise ParameterError(f"{place}{name}", None, "is missing")
        try:
            return kind(**values)
        except ParameterError as error:
            raise ParameterError(f"{place}{error.name}", error.value, error.rule) from None

    def _value(self, full: str, name: str, value: Any, base: Path) -> Any:
        if name in self.tables:
            built: Any = self._built(f"{full}.", self.tables[name], value, base)
            return built.within(base) if hasattr(built, "within") else built
        if name in self.lists:
            if not isinstance(value, list):
                raise ParameterError(full, value, f"must be tables, [[{name}]]")
            return tuple(self._built(f"{full}[{i}].", self.lists[name], each, base) for i, each in enumerate(value))
        if name in self.paths:
            if not isinstance(value, str) or not value:
                raise ParameterError(full, value, "must be a path")
            return base / value
        return duration(full, value) if name in self.durations else value
