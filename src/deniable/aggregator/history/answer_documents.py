"""The documents of the history's answers, by the types of what is written."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from deniable.documents import WrittenAs, document_type
from deniable.estimation.estimate import Estimate

__all__ = [
    "HISTORY_ANSWER",
    "AgainstDocument",
    "AnswerHead",
    "AnswerRest",
    "DifferenceDocument",
    "PartDifference",
    "PartHead",
]


class _Overall(TypedDict):
    chi_square: float | None
    degrees: float | None
    p: float | None


class DifferenceDocument(TypedDict):
    """One period or part minus another."""

    labels: list[Any]
    difference: list[float | None]
    stderr: list[float | None]
    low: list[float | None]
    high: list[float | None]
    p: list[float | None]
    n: list[int]
    overall: _Overall


class PartDifference(DifferenceDocument):
    """One part minus that of the same name."""

    name: str


class PartHead(TypedDict):
    """Which part it is; with its estimate, unless that is withheld."""

    name: str
    n: int
    condition: Literal["complete", "withheld"]


_ESTIMATE = document_type(Estimate).without("window", "type")
_PART = document_type(PartHead).joined(_ESTIMATE.optional()).named("HistoryPart")
_Described = Annotated[dict[str, Any], WrittenAs(_ESTIMATE.named("HistoryEstimate"))]


class _Scope(TypedDict):
    start: int
    end: int
    n_reports: int
    """Reports of the period."""
    scanned: int
    """Those that were read."""
    fraction: float


class AgainstDocument(_Scope):
    """The first period minus the second, as a whole and part by part."""

    estimate: _Described
    difference: DifferenceDocument
    parts: list[PartDifference]


class AnswerHead(_Scope):
    """What was asked and read."""

    query: str
    serial: int
    source: str
    budget: dict[str, float]
    held_back: int
    reading: list[str]
    by: str | None
    simultaneous: bool


class AnswerRest(TypedDict):
    """What follows the estimate."""

    parts: list[Annotated[dict[str, Any], WrittenAs(_PART)]]
    trend: dict[str, Any] | None
    against: AgainstDocument | None
    epsilon_spent: int
    statement: str


HISTORY_ANSWER = (
    document_type(AnswerHead)
    .joined(_ESTIMATE, document_type(AnswerRest))
    .named("HistoryAnswer", "An answer from stored reports (docs/history.md).")
)
