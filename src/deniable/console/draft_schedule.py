"""The schedule of a query that is being written: the same for its plan, its checks and what is
signed."""

from __future__ import annotations

import datetime

from deniable.errors import ParameterError
from deniable.queries.schedule import duration

__all__ = ["draft_schedule"]

_DAY = 86_400


def draft_schedule(
    every: str | int, end: str, now: int, window: str | None = None
) -> dict[str, int]:
    """Epochs of length `every` from now until a date, as a query states its schedule. An epoch of
    at most a day begins on a multiple of its length, a longer one at midnight."""
    length = duration("every", every)
    try:
        width = duration("window", window) if window else length
    except ParameterError as error:
        raise ParameterError("every", error.value, error.rule) from None
    if width % length:
        raise ParameterError(
            "window", window, "must be a multiple of every: windows are whole epochs"
        )
    try:
        last = datetime.datetime.fromisoformat(end).replace(tzinfo=datetime.UTC)
    except ValueError:
        raise ParameterError("end", end, "must be a date such as 2027-03-14") from None
    expires, grid = int(last.timestamp()), min(length, _DAY)
    origin = now // grid * grid
    if expires < origin + width:
        raise ParameterError("end", end, "must leave time for one window")
    return {
        "origin": origin,
        "expires": expires,
        "every": length,
        "window": width,
        "slide": length,
    }
