"""Published figures as an adversary keeps them: of which answers each is, and which differences
isolate too few of them.

A figure is a sum over whole groups of answers (:mod:`deniable.aggregator.windows.granules`).
Whether one figure contains another follows from public facts: a longer period contains a shorter
one, a larger fraction a smaller one, the whole its parts, and what is published later what was
published earlier. Then the difference of both is a figure too, of as many answers as their sizes
differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from deniable.queries.times import iso_time
from deniable.results import Result

__all__ = [
    "FigureDifference",
    "Kind",
    "PublishedFigure",
    "contradictions",
    "differences",
    "isolated",
    "too_small",
]

Kind = Literal["window", "period", "pane"]
_SAME = 1e-9


@dataclass(frozen=True, eq=False)
class PublishedFigure(Result):
    """A published estimate or count, without its values except to recognise it again."""

    query: str
    kind: Kind
    start: int
    end: int
    n: int
    """How many answers it is made of."""
    seen: int
    """In which reading it was first seen. Periods are read last, so that they contain what was
    released before."""
    part: str = ""
    """The hour, day or stratum, or for a pane the version and stratum; empty for the whole."""
    fraction: float = 1.0
    revision: int = 0
    labels: str = ""
    """A digest of its labels: answers to versions with other labels are not in it."""
    values: tuple[float, ...] = ()

    def __str__(self) -> str:
        what = f"{self.kind} from {iso_time(self.start)} to {iso_time(self.end)}"
        notes = [self.part] if self.part else []
        notes += [f"{100 * self.fraction:g} % of the reports"] if self.fraction < 1 else []
        notes += [f"revision {self.revision}"] if self.kind == "window" else []
        return (
            f"{what} ({', '.join(notes)}; {self.n:,} answers)"
            if notes
            else f"{what} ({self.n:,} answers)"
        )

    def contains(self, other: PublishedFigure) -> bool:
        """Whether all answers of the other figure must be in this one."""
        if not (self.start <= other.start and other.end <= self.end) or self.part not in (
            "",
            other.part,
        ):
            return False
        if (self.part or self.kind == "window") and self.labels != other.labels:
            return False
        if self.kind == "window":
            same = other.kind == "window" and (self.start, self.end) == (other.start, other.end)
            return same and self.revision > other.revision
        return self.kind == "period" and self.fraction >= other.fraction and self.seen >= other.seen


@dataclass(frozen=True)
class FigureDifference:
    """Answers that can be isolated: those of some figures less those of others."""

    n: int | None
    """How many; None if that cannot be said, but there are some."""
    text: str


def too_small(
    figures: Iterable[PublishedFigure], cohorts: Mapping[str, int], cohort: int
) -> Iterator[FigureDifference]:
    """Figures that are themselves of fewer answers than the minimum cohort; `cohorts` are those of
    panes by their part."""
    for figure in figures:
        if 0 < figure.n < cohorts.get(figure.part, cohort):
            yield FigureDifference(figure.n, str(figure))


def differences(
    figures: Sequence[PublishedFigure],
) -> Iterator[tuple[PublishedFigure, PublishedFigure, FigureDifference]]:
    """All pairs of which one figure contains the other, and what is isolated by subtracting it."""
    for one, other in combinations(figures, 2):
        for whole, part in ((one, other), (other, one)):
            if whole.contains(part):
                yield whole, part, FigureDifference(whole.n - part.n, f"{whole} less {part}")
                break


def isolated(figures: Iterable[PublishedFigure], every: int) -> Iterator[FigureDifference]:
    """What exactly spans each run of epochs: the period less both that are an epoch shorter, and
    more what these have in common.

    The figures are those of whole periods from one reading. With all periods known, these are all
    the groups there are.
    """
    sizes = {(each.start, each.end): each.n for each in figures}
    for (start, end), n in sizes.items():
        if end - start <= every:
            continue
        shorter = [(start + every, end), (start, end - every)]
        common = sizes.get((start + every, end - every)) if end - start > 2 * every else 0
        if common is not None and all(each in sizes for each in shorter):
            left, right = (sizes[each] for each in shorter)
            text = (
                f"what spans {iso_time(start)} to {iso_time(end)}: {n:,} - {left:,} - {right:,} +"
                f" {common:,} answers"
            )
            yield FigureDifference(n - left - right + common, text)


def contradictions(figures: Iterable[PublishedFigure]) -> Iterator[FigureDifference]:
    """Pairs of answers to one question, of equally many answers in one reading, that are not the
    same answers."""
    known: dict[tuple[object, ...], PublishedFigure] = {}
    for figure in figures:
        bounds = (figure.kind, figure.start, figure.end, figure.part, figure.fraction)
        place = (*bounds, figure.revision, figure.labels, figure.n, figure.seen)
        before = known.setdefault(place, figure)
        if any(abs(a - b) > _SAME for a, b in zip(before.values, figure.values, strict=True)):
            yield FigureDifference(None, f"{figure}: asked twice, it is of other answers")
