"""Settings of a service: dataclasses, read from TOML and checked by pydantic. Errors name file,
line, key, value and rule.

A setting's type determines how it is written: :data:`Seconds` as "10 min", :data:`Bytes` as "64
MiB", :data:`FilePath` relative to the settings file. What a type cannot express, a dataclass checks
in its `__post_init__`, however it is constructed.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

from deniable.errors import MissingExtraError, ParameterError
from deniable.queries.schedule import duration
from deniable.toml_file import TomlFile

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

__all__ = [
    "SIZE_UNITS",
    "WITHIN",
    "Bytes",
    "FilePath",
    "Seconds",
    "checked_settings",
    "read_settings_file",
    "settings_of",
]

_T = TypeVar("_T")
_SIZE = re.compile(r"\s*(\d{1,12})\s*(B|KiB|MiB|GiB|TiB)\s*", re.ASCII)
SIZE_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_RULES = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "list_type": "must be a list",
    "is_instance_of": "must be a list",
    "dict_type": "must be a table",
    "dataclass_type": "must be a table",
    "missing": "is missing",
}
"""Our messages for pydantic's errors."""


class _WrittenAs:
    """How a setting is written: converts the value in the file to that of the field."""

    def __init__(self, read: Callable[[Any, Path], Any]) -> None:
        self._read = read

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415 - an extra

        return core_schema.with_info_plain_validator_function(
            lambda value, info: self._read(value, info.context)
        )


class _Within:
    """A table that knows which of its entries are paths: its `within` resolves them against the
    file's folder."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # noqa: PLC0415 - an extra

        def within(value: Any, info: Any) -> Any:
            return None if value is None else value.within(info.context)

        return core_schema.with_info_after_validator_function(within, handler(source))


def _byte_size(value: Any, _: Path) -> int:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found:
        return int(found[1]) * SIZE_UNITS[found[2]]
    if isinstance(value, bool) or not isinstance(value, int):
        raise ParameterError(
            "", value, "must be a whole number of bytes or a text such as '64 MiB'"
        )
    return value


def _file_path(value: Any, folder: Path) -> Path:
    if not isinstance(value, str) or not value:
        raise ParameterError("", value, "must be a path")
    return folder / value


Seconds = Annotated[int, _WrittenAs(lambda value, _: duration("", value))]
"""A duration: whole seconds, or a string such as "10 min"."""
Bytes = Annotated[int, _WrittenAs(_byte_size)]
"""A size: whole bytes, or a string such as "64 MiB"."""
FilePath = Annotated[Path, _WrittenAs(_file_path)]
"""A file or folder, relative to the settings file."""
WITHIN = _Within()


def read_settings_file(path: str | Path, kind: type[_T]) -> _T:
    """A settings dataclass, read from a TOML file."""
    path = Path(path)
    return TomlFile.read(path).made(lambda tree: settings_of(tree, kind, path.parent))


def settings_of(tree: Any, kind: type[_T], folder: Path) -> _T:
    """The settings in a TOML table whose paths are relative to a folder."""
    made, problems = checked_settings(tree, kind, folder)
    if made is None:
        raise problems[0]
    return made


def checked_settings(
    tree: Any, kind: type[_T], folder: Path
) -> tuple[_T | None, list[ParameterError]]:
    """The same, or None with all errors that can be found in one pass."""
    try:
        from pydantic import ValidationError  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("pydantic", "service", "a file of settings") from None
    try:
        # As JSON, because only there is pydantic strict about numbers and strings yet still accepts
        # tables for dataclasses.
        reader: Any = kind
        made: _T = _adapter(reader).validate_json(json.dumps(tree, default=str), context=folder)
    except ValidationError as error:
        return None, [_refusal(each, kind) for each in error.errors(include_url=False)]
    return made, []


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Pydantic's reader for a dataclass: no unknown keys and no type conversion, in it and in its
    nested tables."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - an extra

    for each in {kind, *_tables(kind)}:
        each.__pydantic_config__ = {"strict": True, "extra": "forbid"}
    return TypeAdapter(kind)


def _tables(kind: Any) -> Iterator[Any]:
    """The dataclasses in the fields of a dataclass, recursively."""
    for part in get_type_hints(kind).values():
        for inner in (part, *get_args(part)):
            if is_dataclass(inner):
                yield inner
                yield from _tables(inner)


def _refusal(error: ErrorDetails, kind: Any) -> ParameterError:
    place = error["loc"]
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, ParameterError):
        return cause.named(_key([*place, cause.name] if cause.name else place))
    if error["type"] == "unexpected_keyword_argument":
        known = [each.name for each in fields(_table_at(kind, place[:-1])) if each.init]
        near = difflib.get_close_matches(str(place[-1]), known, 1)
        hint = f"did you mean {near[0]!r}? There" if near else "there"
        return ParameterError(
            _key(place), error["input"], f"is not a setting; {hint} are {', '.join(known)}"
        )
    value = None if error["type"] == "missing" else error["input"]
    return ParameterError(
        _key(place), value, _RULES.get(error["type"], f"is not usable: {error['msg']}")
    )


def _table_at(kind: Any, place: Sequence[int | str]) -> Any:
    """The dataclass of the table at a key path."""
    for step in place:
        if isinstance(step, str):
            part = get_type_hints(kind)[step]
            kind = next(inner for inner in (part, *get_args(part)) if is_dataclass(inner))
    return kind


def _key(place: Sequence[int | str]) -> str:
    """The name of a key, such as `proxies[1].kafka.topic`."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" for step in place
    ).removeprefix(".")
