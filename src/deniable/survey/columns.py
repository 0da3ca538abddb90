"""Which column of a file holds reports of which mechanism: as TOML, or as the text of an option.

[columns.smokes]
mechanism = "BinaryResponse"
p = 0.5
q = 0.5

[columns.city]
mechanism = "DirectEncoding"
k = ["Oslo", "Paris", "Rome"]
epsilon = 1.0
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deniable.errors import ReportFormatError, SurveyError
from deniable.mechanisms.mechanism import Mechanism, from_dict

__all__ = ["parse_column", "read_columns", "write_columns"]


def read_columns(path: Path | str) -> dict[str, Mechanism]:
    """The mechanism of each column, from a TOML file."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SurveyError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SurveyError(f"{path} is not TOML: {error}") from None
    columns = content.get("columns")
    if not isinstance(columns, dict) or not columns:
        raise SurveyError(f"{path} must hold a table [columns.NAME] for each column")
    return {name: _mechanism(f"{path}: columns.{name}", description) for name, description in columns.items()}


def parse_column(text: str) -> tuple[str, Mechanism]:
    """A column and its mechanism from `NAME=MECHANISM:PARAMETER=VALUE,…`, labels separated by `|`.

    >>> parse_column("city=DirectEncoding:k=Oslo|Paris|Rome,epsilon=1")
    ('city', DirectEncoding(k=['Oslo', 'Paris', 'Rome'], epsilon=1.0))
    """
    name, equals, rest = text.partition("=")
    kind, _, arguments = rest.partition(":")
    if not (name and equals and kind):
        raise SurveyError(f"{text!r} must have the form NAME=MECHANISM:PARAMETER=VALUE,…")
    description: dict[str, Any] = {"mechanism": kind}
    for argument in filter(None, arguments.split(",")):
        parameter, equals, value = argument.partition("=")
        if not equals:
            raise SurveyError(f"{argument!r} in {text!r} must have the form PARAMETER=VALUE")
        description[parameter.strip()] = [_value(v) for v in value.split("|")] if "|" in value else _value(value)
    return name, _mechanism(name, description)


def write_columns(mechanisms: Mapping[str, Mechanism]) -> str:
    """The TOML that :func:`read_columns` reads."""
    lines: list[str] = []
    for name, mechanism in mechanisms.items():
        lines.append(f"[columns.{json.dumps(name, ensure_ascii=False)}]")
        described = {key: value for key, value in mechanism.to_dict().items() if value is not None}
        try:
            lines += [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in described.items()]
        except TypeError:
            raise SurveyError(f"column {name!r}: labels must be texts, numbers or booleans to be written to a file") from None
        lines.append("")
    return "\n".join(lines)


def _mechanism(where: str, description: Any) -> Mechanism:
    try:
        return from_dict(description)
    except ReportFormatError as error:
        raise SurveyError(f"{where}: {error}") from None


def _value(text: str) -> Any:
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
