"""The counts that an estimate was solved from, so that a document need not store its covariance: it
can be recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import numpy as np

from deniable.counts import Counts
from deniable.errors import ParameterError
from deniable.results import Result, fields_of

__all__ = ["ReportCounts", "check_population", "with_n"]


class WrittenCounts(TypedDict):
    """How a document has the counts."""

    counts: list[int]
    n: int
    nothing: NotRequired[int]
    """Messages with nothing to report, if there were any."""


@dataclass(frozen=True, eq=False)
class ReportCounts(Result):
    """Counts, and how they were solved."""

    mechanism: Mapping[str, Any]
    """The mechanism's description; the labels are those of the estimate."""
    solved: Counts
    population: int | None = None
    """What the reports were a sample of; over several epochs, person-epochs."""
    repeats: float = 1.0
    """How often the same coins were counted."""

    UNWRITTEN = ("solved",)
    COMPUTED = WrittenCounts

    def to_dict(self) -> dict[str, Any]:
        """As JSON data, which :meth:`from_dict` reads."""
        counted: WrittenCounts = {"counts": self.solved.counts.tolist(), "n": self.solved.n}
        if self.solved.nothing:
            counted["nothing"] = self.solved.nothing
        return {**fields_of(self), **counted}

    @classmethod
    def _arguments(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        if "solved" in document:
            return super()._arguments(document)
        solved = {
            "counts": document["counts"],
            "n": document["n"],
            "nothing": document.get("nothing", 0),
        }
        return super()._arguments({**document, "solved": solved})


def with_n(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The document of an estimate, whose counts have their number of reports: before 0.2 only the
    estimate had it."""
    counted = document.get("reports")
    if not isinstance(counted, Mapping) or "n" in counted:
        return document
    return {**document, "reports": {**counted, "n": document["n"]}}


def check_population(population: int | None, n: int) -> int | None:
    """The population, checked to be a whole number that includes everyone who reported."""
    if population is None:
        return None
    if (
        isinstance(population, bool)
        or not isinstance(population, int | float | np.number)
        or not _is_whole(population)
    ):
        raise ParameterError("population", population, "must be a whole number from 1 to 2**63 - 1")
    if population < n:
        raise ParameterError(
            "population", population, f"must be at least the number of reports, {n}"
        )
    return int(population)


def _is_whole(number: Any) -> bool:
    return bool(1 <= number < 1 << 63 and number == int(number))
