"""Times as people write and read them: ISO 8601 in UTC."""

from __future__ import annotations

import datetime

from deniable.errors import ParameterError

__all__ = ["iso_time", "moment", "spoken_time"]

_RULE = "must be a time such as 2026-01-01, 2026-01-01T08:30 or 2026-01-01T08:30:00Z (UTC unless it gives an offset)"


def moment(name: str, text: str) -> int:
    """The seconds since 1970 UTC of a time as people write it, or of a whole number of seconds.

    >>> moment("--from", "2026-01-01T00:00:10Z") - moment("--from", "2026-01-01")
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
    """A UTC time as programs read it.

    >>> iso_time(0)
    '1970-01-01T00:00:00Z'
    """
    spoken = spoken_time(seconds)
    return spoken if spoken.startswith("second") else f"{spoken[:10]}T{spoken[11:19]}Z"


def spoken_time(seconds: int) -> str:
    """A UTC time as people write it, or as plain seconds if it is beyond the calendar."""
    try:
        found = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return f"second {seconds}"
    return f"{found:%Y-%m-%d %H:%M:%S} UTC"
