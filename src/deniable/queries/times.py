"""Times as people write and read them: ISO 8601 in UTC."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from deniable.errors import ParameterError

__all__ = ["iso_time", "moment", "with_times"]

_RULE = (
    "must be a time such as 2026-01-01, 2026-01-01T08:30 or 2026-01-01T08:30:00Z (UTC unless it"
    " gives an offset), or whole seconds since 1970"
)


def moment(name: str, text: str) -> int:
    """The seconds since 1970 UTC of a time as people write it, or of a whole number of seconds.

    >>> moment("--start", "2026-01-01T00:00:10Z") - moment("--start", "2026-01-01")
    10
    """
    if text.isascii() and text.isdecimal() and 6 < len(text) < 13:
        return int(text)
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ParameterError(name, text, _RULE) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=datetime.UTC)
    seconds = int(found.timestamp())
    if seconds < 0:
        raise ParameterError(name, text, "must not be before 1970")
    return seconds


def iso_time(seconds: int) -> str:
    """A time of UTC in ISO 8601, or as plain seconds where it lies beyond the calendar.

    >>> iso_time(0)
    '1970-01-01T00:00:00Z'
    """
    try:
        found = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"second {seconds}"
    return f"{found:%Y-%m-%dT%H:%M:%SZ}"


def with_times(document: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A document whose times (seconds since 1970 UTC, or None) also stand in ISO 8601 beside them,
    for people.

    >>> with_times({"n": 3, "start": 0, "end": None}, "start", "end")
    {'n': 3, 'start': 0, 'start_time': '1970-01-01T00:00:00Z', 'end': None, 'end_time': None}
    """
    out: dict[str, Any] = {}
    for name, value in document.items():
        out[name] = value
        if name in names:
            out[f"{name}_time"] = None if value is None else iso_time(value)
    return out
