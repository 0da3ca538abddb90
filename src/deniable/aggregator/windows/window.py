"""A window: the result of some panes added up, in the one form that it is stored, served, read and
shown in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, Literal, TypedDict

import numpy as np

from deniable.aggregator.counting.conservation import ConservationStatement
from deniable.aggregator.windows.estimate_documents import describe_estimate, read_estimate
from deniable.display import Display, loss_text
from deniable.documents import DocumentType, Timestamp, WrittenAs, document_type
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables.table import Table
from deniable.queries.times import iso_time
from deniable.renames import reads_old_names
from deniable.results import Result, encode, fields_of

__all__ = [
    "COMPLETE",
    "INCOMPLETE",
    "MALFORMED",
    "PROXY_DOWN",
    "WITHHELD",
    "Condition",
    "Window",
    "widest",
]

COMPLETE: Final = "complete"
WITHHELD: Final = "withheld"
"""Fewer answers than the query's minimum cohort can be released: there is no estimate."""
PROXY_DOWN: Final = "proxy down"
"""Some epochs were closed without one of the proxies: answers are missing, and it is not known
whose."""
MALFORMED: Final = "malformed"
"""So many shares were malformed that the answers behind them could move a proportion beyond its 95
% interval."""
INCOMPLETE: Final = "incomplete"
"""So many shares have no counterpart at another proxy that the answers behind them could move a
proportion beyond its 95 % interval."""
Condition = Literal["complete", "withheld", "proxy down", "malformed", "incomplete"]


class _WindowFields(TypedDict):
    error: float
    """The half-width of the widest interval."""


_ESTIMATED: DocumentType = (
    document_type(Estimate)
    .where(labels=list[str])
    .without("window", "type")
    .joined(document_type(_WindowFields))
    .optional()
)
"""What only a window with an estimate has."""
_Conservation = Annotated[Mapping[str, Any], WrittenAs(ConservationStatement)]


@reads_old_names
@dataclass(frozen=True, eq=False)
class Window(Result):
    """The result of one window. Printed, it is the estimate under a line with its time and what is
    missing."""

    query: str
    serial: int
    """The newest version counted in it."""
    index: int
    start: Timestamp
    end: Timestamp
    """In seconds of UTC; the first second after the window."""
    condition: Condition
    n: int
    """The answers that the estimate is based on."""
    nothing: int
    """Messages that said there was nothing to report."""
    estimate: Estimate | None
    missing: tuple[str, ...] = ()
    """The proxies without which some of its epochs were closed."""
    conservation: _Conservation = dataclasses.field(default_factory=dict)
    """What became of the shares of its channel and epochs, per proxy."""
    influence: float | None = None
    """The largest change that one lying report can make to the estimate of any label; the changes
    of several liars add up."""
    revision: int = 0
    """Which result of the window it is, counted from 0. Each is based on all answers that had
    arrived by then."""
    final: bool = True
    """Whether no later answer can count."""
    open_until: int | None = None
    """Until which second answers may still arrive, while it is not final."""
    expected: int | None = None
    """How many more answers to expect, judging by those that came late in an earlier window; None
    if there is none yet."""
    margin: float | None = None
    """The half-width of the 95 % interval that the analyst wants for each proportion; `wish` in
    documents, as stored and served by release 0.1.0."""
    silent_from: int | None = None
    """When devices that answer as often as expected will have used up the query's budget; None if
    it lasts to the end."""
    columns: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """The buckets of each column of the answer; labels are their combinations, with the first
    column most significant."""
    complete: bool = True
    """Whether every answer is in some bucket, so that proportions make up a whole."""
    epsilon_shuffled: float | None = None
    """An upper bound for one answer, to anyone who sees only the shuffled reports, except with
    probability `delta_shuffled`. None where no such claim is made: without an estimate, and for
    memoized answers."""
    delta_shuffled: float | None = None
    shuffled_among: int | None = None
    """How many reports the least hidden answer was shuffled among: those of its epoch, stratum and
    version."""
    held_back: int = 0
    """Answers of its epochs that it does not have: too few to be released by themselves, or
    released together with epochs outside the window."""

    KEYS: ClassVar[Mapping[str, str]] = {"margin": "wish"}
    UNWRITTEN = ("estimate",)
    COMPUTED = _ESTIMATED

    def table(
        self, of: str | Sequence[str] | None = None, given: str | Sequence[str] | None = None
    ) -> Table:
        """The joint table of the query's columns or, with `of` and `given`, the conditional one,
        P(of | given).

        Its cells have the covariance of the estimate, so that marginals, slices, conditionals and
        what :mod:`deniable.statistics` derives from them have honest errors.
        `window.table(of="next", given="current")` is an event chain's step.
        """
        if self.estimate is None:
            n = self.n + self.held_back
            raise ParameterError(
                "window", self.index, f"has no estimate: {self.condition}, {n:,} answers"
            )
        if not self.columns:
            raise ParameterError(
                "window", self.index, "does not list its columns: it comes from an older aggregator"
            )
        if not self.complete:
            rule = (
                "must have other = true: without it some answers are in no bucket, and the buckets"
                " make up no whole"
            )
            raise ParameterError("columns", list(self.columns), rule)
        whole = Table.of(self.estimate, next(iter(self.columns)))
        if len(self.columns) > 1:
            whole = whole.unfolded({name: tuple(labels) for name, labels in self.columns.items()})
        if given is None:
            return whole if of is None else whole.marginal(*_several(of))
        others = [name for name in self.columns if name not in _several(given)]
        return whole.conditional(
            tuple(others if of is None else _several(of)), tuple(_several(given))
        )

    def chain(self, *columns: str) -> list[Table]:
        """The steps of an event chain: P(second | first), P(third | second), … for the named
        columns, or for all in order."""
        names = columns or tuple(self.columns)
        return [self.table(after, before) for before, after in pairwise(names)]

    @property
    def half_width(self) -> float | None:
        """The half-width of the widest 95 % interval, which is compared with `margin`; None without
        an estimate. It is `error` in documents."""
        return None if self.estimate is None else widest(self.estimate)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """As JSON data, which :meth:`from_dict` reads. Covariances of many labels are left out if
        the counts determine them."""
        out = fields_of(self)
        if self.estimate is not None:
            computed: _WindowFields = {"error": encode(widest(self.estimate))}
            out |= describe_estimate(self.estimate, confidence) | computed
        return out

    @classmethod
    def _arguments(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        known = {
            name: value
            for name, value in document.items()
            if name not in ("estimate", "half_width")
        }
        arguments = super()._arguments({**known, "estimate": None})
        if "estimate" in document:
            arguments["estimate"] = read_estimate(document, (document["start"], document["end"]))
        return arguments

    @property
    def headline(self) -> str:
        """Which window it is, how complete, and whether it may still change."""
        head = (
            f"{self.query}, window {self.index}, {iso_time(self.start)} to {iso_time(self.end)}:"
            f" {self.condition}"
        )
        if self.missing:
            head += f", closed without {', '.join(self.missing)}"
        return head if self.final and not self.revision else f"{head}\n{self._spoken_revision()}"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What else there is to say of its estimate: shuffling, liars, and when devices fall
        silent."""
        found = [self._spoken_shuffled()]
        if self.influence is not None:
            found.append(
                "one false report can move a proportion by up to"
                f" {_two_digits(100 * self.influence)} points"
            )
        if self.silent_from is not None:
            end = iso_time(self.silent_from)
            found.append(
                f"at this schedule the query's budget is used up about {end}, and devices fall"
                " silent"
            )
        return tuple(text for text in found if text)

    def _display(self, confidence: float = 0.95) -> Display:
        if self.estimate is None:
            return Display(("label", "estimate", "stderr", "low", "high"), [], (str(self),))
        shown = self.estimate._display(confidence)
        return dataclasses.replace(shown, notes=(self.headline, *shown.notes, *self.remarks))

    def __str__(self) -> str:
        if self.estimate is None:
            return f"{self.headline}, no estimate ({self.n + self.held_back:,} answers)"
        return "\n".join([self.headline, str(self.estimate), *self.remarks])

    def _spoken_shuffled(self) -> str:
        if self.epsilon_shuffled is None:
            return ""
        shown = loss_text(self.epsilon_shuffled)
        crowd = f"shuffled among {self.shuffled_among:,} or more"
        return (
            f"epsilon {shown} per answer for anyone who sees only the reports, {crowd} (delta"
            f" {self.delta_shuffled:g})"
        )

    def _spoken_revision(self) -> str:
        if self.final:
            return f"revision {self.revision}, final: no later answer counts"
        until = "" if self.open_until is None else f" until {iso_time(self.open_until)}"
        more = (
            "how many is not known yet"
            if self.expected is None
            else f"some {self.expected:,} more, as in an earlier window"
        )
        return f"revision {self.revision}, not final: answers may come{until} ({more})"

    def __repr__(self) -> str:
        n = self.n if self.estimate is not None else self.n + self.held_back
        return f"<window {self.index} of {self.query!r}: {self.condition}, {n:,} answers>"


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def widest(estimate: Estimate, confidence: float = 0.95) -> float:
    """The half-width of the widest interval of an estimate."""
    low, high = estimate.interval(confidence).T
    return float((high - low).max() / 2)


def _two_digits(number: float) -> str:
    """Two digits that count, never as a power of ten.

    >>> [_two_digits(x) for x in (220.4, 3.14159, 0.0123)]
    ['220', '3.1', '0.012']
    """
    return np.format_float_positional(number, precision=2, fractional=False, trim="-")
