"""Checks of what `deniable up` reads: tables, names, texts and paths."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError

__all__ = ["check_keys", "checked_name", "checked_path", "checked_table", "checked_text"]


def check_keys(place: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse a key that is not a setting of the table at a place, and name a similar one."""
    for name, value in table.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}? There" if near else "there"
            raise ParameterError(
                f"{place}{name}", value, f"is not a setting here; {hint} are {', '.join(known)}"
            )


def checked_table(name: str, given: Any) -> dict[str, Any]:
    """A table of settings."""
    if not isinstance(given, dict):
        raise ParameterError(name, given, f"must be a table, [{name}]")
    return given


def checked_text(name: str, given: Any) -> str:
    """A text that is not empty."""
    if not isinstance(given, str) or not given:
        raise ParameterError(name, given, "must be a non-empty text")
    return given


def checked_name(name: str, given: Any) -> str:
    """The name of a service."""
    if (
        not isinstance(given, str)
        or not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,30}", given)
        or given == "aggregator"
    ):
        raise ParameterError(
            name, given, "must be a short name of a-z, 0-9, - and _, such as 'proxy-1'"
        )
    return given


def checked_path(name: str, given: Any, base: Path) -> Path:
    """A path, relative to the folder of the settings file."""
    return (base / checked_text(name, given)).absolute()
