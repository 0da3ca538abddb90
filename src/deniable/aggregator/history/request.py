"""A request to the history: a period, how much of it to read, and how to cut it. Checked once, in
one place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deniable.checks import check_confidence
from deniable.errors import ParameterError
from deniable.queries.times import moment

__all__ = ["CUTS", "HISTORY_PARAMETERS", "HistoryRequest", "ReadBudget"]

CUTS = ("hour", "weekday", "day", "stratum")
_SOURCES = ("reports", "panes")
_NAMES = {
    "start": "from",
    "end": "to",
    "against_start": "against_from",
    "against_end": "against_to",
}
"""Fields whose HTTP parameter has a different name."""


HISTORY_PARAMETERS = (
    "against_from",
    "against_to",
    "by",
    "confidence",
    "fraction",
    "from",
    "given",
    "margin",
    "marginal",
    "merge",
    "seconds",
    "simultaneous",
    "source",
    "to",
)
"""The query parameters of a request; `merge` may be repeated."""


@dataclass(frozen=True)
class ReadBudget:
    """How much of a period is read: a fraction of its reports, as much as a time limit allows, or
    as little as a margin needs.

    At most one of them; without any, everything is read.
    """

    fraction: float | None = None
    seconds: float | None = None
    margin: float | None = None
    """The largest acceptable half-width of a proportion's interval."""

    def __post_init__(self) -> None:
        given = {name: value for name, value in vars(self).items() if value is not None}
        if len(given) > 1:
            raise ParameterError(
                " and ".join(given), list(given.values()), "cannot be combined: give one of them"
            )
        _number(
            "fraction",
            self.fraction,
            "must be a number above 0 and at most 1: the part of the reports to read",
            1.0,
            True,
        )
        _number(
            "seconds",
            self.seconds,
            "must be a number of seconds above 0 and at most 86400",
            86400.0,
            True,
        )
        _number(
            "margin",
            self.margin,
            "must be a number strictly between 0 and 1: the half-width of an interval",
            1.0,
            False,
        )


def _number(name: str, value: Any, rule: str, most: float, closed: bool) -> None:
    if value is None:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not 0 < value <= most
    ):
        raise ParameterError(name, value, rule)
    if not closed and value == most:
        raise ParameterError(name, value, rule)


@dataclass(frozen=True)
class HistoryRequest:
    """A question to the history of a query. Times are in seconds of UTC; None means the first or
    the last report."""

    start: int | None = None
    end: int | None = None
    budget: ReadBudget = ReadBudget()
    confidence: float = 0.95
    simultaneous: bool = False
    """Whether all intervals of the answer jointly have the confidence."""
    merge: tuple[str, ...] = ()
    """Coarser buckets: ranges, `name=label|label`, or how many neighbours are merged into one."""
    by: str | None = None
    """How to divide the period into parts."""
    marginal: str | None = None
    """The column of composite buckets to estimate, whatever the others are."""
    given: str | None = None
    """The column of composite buckets to condition on: the others are estimated for each of its
    values."""
    against_start: int | None = None
    against_end: int | None = None
    """A second period, which is subtracted from the first."""
    source: str = "reports"
    """`panes` answers from the counts kept for each epoch: the same figures, at once, but only from
    all reports."""

    def __post_init__(self) -> None:
        check_confidence(self.confidence)
        for name, value, choices in (("by", self.by, CUTS), ("source", self.source, _SOURCES)):
            if value is not None and value not in choices:
                raise ParameterError(name, value, f"must be one of {', '.join(choices)}")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ParameterError("to", self.end, f"must come after from = {self.start}")
        if (self.against_start is None) != (self.against_end is None):
            missing = "against_from" if self.against_start is None else "against_to"
            raise ParameterError(
                missing, None, "is missing: a second period has a beginning and an end"
            )
        if (
            self.against_start is not None
            and self.against_end is not None
            and self.against_start >= self.against_end
        ):
            raise ParameterError(
                "against_to",
                self.against_end,
                f"must come after against_from = {self.against_start}",
            )
        if self.given is not None and self.by is not None:
            raise ParameterError(
                "given", self.given, "cannot be combined with by: both cut the answer into parts"
            )
        if self.source == "panes" and self.budget != ReadBudget():
            raise ParameterError(
                "source", self.source, "reads everything: leave fraction, seconds and margin out"
            )

    @classmethod
    def from_parameters(cls, given: Mapping[str, Any]) -> HistoryRequest:
        """The request described by query parameters or command options: all of them strings,
        `merge` a list."""
        for name in given:
            if name not in HISTORY_PARAMETERS:
                raise ParameterError(
                    name,
                    given[name],
                    f"is not a parameter here; there are {', '.join(HISTORY_PARAMETERS)}",
                )
        given_values = {
            name: value for name, value in given.items() if value not in (None, "", [], ())
        }
        times: dict[str, Any] = {
            field: moment(name, str(given_values[name]))
            for field, name in _NAMES.items()
            if name in given_values
        }
        numbers = {
            name: _float(name, given_values[name])
            for name in ("fraction", "seconds", "margin")
            if name in given_values
        }
        kept: dict[str, Any] = {
            name: str(given_values[name])
            for name in ("by", "marginal", "given", "source")
            if name in given_values
        }
        if "confidence" in given_values:
            kept["confidence"] = _float("confidence", given_values["confidence"])
        if "simultaneous" in given_values:
            kept["simultaneous"] = _flag("simultaneous", given_values["simultaneous"])
        merge = given_values.get("merge", ())
        kept["merge"] = (
            tuple(map(str, merge))
            if not isinstance(merge, str) and isinstance(merge, Sequence)
            else (str(merge),)
        )
        return cls(**times, budget=ReadBudget(**numbers), **kept)

    def to_parameters(self) -> dict[str, Any]:
        """What :meth:`from_parameters` reads, without defaults."""
        out: dict[str, Any] = {}
        for field, value in vars(self).items():
            if field != "budget" and value != HistoryRequest.__dataclass_fields__[field].default:
                out[_NAMES.get(field, field)] = list(value) if field == "merge" else value
        out |= {name: value for name, value in vars(self.budget).items() if value is not None}
        if "simultaneous" in out:
            out["simultaneous"] = "true"
        return {
            name: value if isinstance(value, list) else str(value) for name, value in out.items()
        }


def _float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ParameterError(name, value, "must be a number") from None


def _flag(name: str, value: Any) -> bool:
    spelled = str(value).lower()
    if spelled not in ("true", "false", "1", "0"):
        raise ParameterError(name, value, "must be true or false")
    return spelled in ("true", "1")
