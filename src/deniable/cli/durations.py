"""Options that take a duration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from deniable.queries.schedule import duration, spoken_duration

__all__ = ["time_option"]

Command = Callable[..., Any]


def _seconds(name: str) -> Any:
    """A duration, as seconds or as '10 min'; 0 means none."""

    def read(_: click.Context, __: click.Parameter, given: str | None) -> int | None:
        if given is None or given == "0":
            return None if given is None else 0
        return duration(name, int(given) if given.isdecimal() else given)

    return read


def time_option(name: str, text: str, default: int | None = None) -> Callable[[Command], Command]:
    """An option that takes a duration; `default` is in seconds."""
    shown = None if default is None else spoken_duration(default)
    return click.option(
        f"--{name}",
        callback=_seconds(name),
        default=shown,
        show_default=shown is not None,
        help=text,
    )
