"""Attacks on what an aggregator publishes: subtract everything that a token may read from
everything else.

The difference of two published figures is a figure too (docs/threat-model.md). All windows, the
counts of epochs and the history over every period, cut and fraction are read; verdicts are "broken"
if two figures, of which one must contain the other, differ by fewer answers than the query's
minimum cohort, and not by none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

from deniable.analyst.analyst import Analyst
from deniable.audit.deployed.attempts import Attempt, ServiceAudit
from deniable.audit.deployed.released_figures import (
    FigureDifference,
    Kind,
    PublishedFigure,
    contradictions,
    differences,
    isolated,
    too_small,
)
from deniable.checks import check_count
from deniable.errors import DocumentError, ParameterError, ResponseError

__all__ = ["MOST_EPOCHS", "audit_releases", "read_figures", "write_figures"]

MOST_EPOCHS = 12
"""Epochs of which all periods are asked for unless another number is given: 78 requests per
query."""
_FRACTIONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_CUTS = ("hour", "weekday", "day", "stratum")
_FORMAT = 1


def audit_releases(
    analyst: Analyst,
    queries: Sequence[str] = (),
    epochs: int = MOST_EPOCHS,
    known: Iterable[PublishedFigure] = (),
) -> tuple[ServiceAudit, list[PublishedFigure]]:
    """Read all figures of some queries (of all that the token may read, by default), and subtract
    them from each other.

    All periods within the newest `epochs` closed epochs are asked for. `known` are figures of
    earlier readings: an aggregator shows the newest revision of a window only, and an adversary who
    has looked before knows the others. Returns the findings, and all figures known now.
    """
    epochs, earlier = check_count("epochs", epochs), list(known)
    documents = {each["id"]: each for each in analyst.queries()}
    for name in queries:
        if name not in documents:
            raise ParameterError(
                "query",
                name,
                f"must be one that the token may read: {', '.join(documents) or 'there is none'}",
            )
    attempts: list[Attempt] = []
    for name in queries or documents:
        mine = [each for each in earlier if each.query == name]
        reading = _Reading(
            analyst, documents[name], 1 + max((each.seen for each in mine), default=0)
        )
        reading.read(epochs)
        attempts += _attempts(reading, mine)
        earlier += reading.figures
    if not attempts:
        attempts = [Attempt("releases", "nothing", "the token may read no query", "not tried")]
    return ServiceAudit(analyst.url, tuple(attempts)), earlier


def write_figures(file: Path, figures: Iterable[PublishedFigure]) -> None:
    """Keep figures for a later reading. A figure that was there before is kept once."""
    kept = {_place(each): each for each in reversed(list(figures))}
    text = json.dumps(
        {"format": _FORMAT, "figures": [each.to_dict() for each in reversed(kept.values())]}
    )
    file.write_text(text + "\n", encoding="utf-8")


def read_figures(file: Path) -> list[PublishedFigure]:
    """The figures kept in a file; none if there is no such file."""
    if not file.exists():
        return []
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["format"] != _FORMAT:
            raise ValueError(f"format = {document['format']!r} must be {_FORMAT}")
        return [PublishedFigure.from_dict(each) for each in document["figures"]]
    except (ValueError, KeyError, TypeError, DocumentError) as error:
        raise DocumentError(f"{file.name} is not a file of published figures: {error}") from None


def _place(figure: PublishedFigure) -> tuple[object, ...]:
    bounds = (figure.query, figure.kind, figure.start, figure.end, figure.part, figure.fraction)
    return (*bounds, figure.revision, figure.n, figure.labels, figure.values)


# --- reading -------------------------------------------------------------------------------------


@dataclass
class _Reading:
    """All figures of one query that a token may read now."""

    analyst: Analyst
    query: dict[str, Any]
    seen: int
    figures: list[PublishedFigure] = field(default_factory=list)
    cohorts: dict[str, int] = field(default_factory=dict)
    """The minimum cohorts of panes, by their part."""
    cohort: int = 0
    """The smallest one of all versions: a figure may have answers to several."""
    unkept: str = ""
    """Why there are no figures of fractions."""
    is_stable: bool = True
    """Whether nothing was published while the periods were read."""

    @property
    def every(self) -> int:
        return int(self.query["schedule"]["every"])

    def read(self, epochs: int) -> None:
        before = self._panes()
        newest = self.query["latest"]
        ends = [row["end"] for row in before["panes"]] + ([] if newest is None else [newest["end"]])
        if not ends:
            return
        last = max(ends)
        first = max(int(self.query["schedule"]["origin"]), last - epochs * self.every)
        for window in self.analyst.range(self.query["id"], start=first):
            if window.estimate is not None:
                values, labels = window.estimate.proportions, window.estimate.labels
                how = {"n": window.n, "values": values, "revision": window.revision}
                self._add("window", window.start, window.end, labels=labels, **how)
        bounds = range(first, last + 1, self.every)
        for start, end in combinations(bounds, 2):
            self._ask(start, end, source="panes")
        middle = bounds[len(bounds) // 2]
        periods = list(
            dict.fromkeys([(first, last), (first, middle), (middle, last), (bounds[-2], last)])
        )
        for start, end in [period for period in periods if period[0] < period[1]]:
            for cut in _CUTS:
                self._ask(start, end, source="panes", by=cut)
            # one of them again: it must be the same answers
            for fraction in (*_FRACTIONS, _FRACTIONS[0]):
                self._ask(start, end, fraction=fraction)
        self.is_stable = self._panes() == before

    def _panes(self) -> dict[str, Any]:
        """The counts of epochs, which are figures too."""
        name = self.query["id"]
        told = {each["serial"]: each.get("minimum_cohort") for each in self.analyst.versions(name)}
        cohorts = {
            serial: int(cohort or self.query["minimum_cohort"]) for serial, cohort in told.items()
        }
        self.cohort = min(cohorts.values(), default=int(self.query["minimum_cohort"]))
        found = self.analyst.panes(name)
        for row in found["panes"] if not self.cohorts else ():
            part = f"version {row['serial']}" + (f", {row['stratum']}" if row["stratum"] else "")
            self.cohorts[part] = cohorts.get(row["serial"], self.cohort)
            self._add("pane", row["start"], row["end"], n=row["n"], values=row["counts"], part=part)
        return found

    def _ask(self, start: int, end: int, **how: Any) -> None:
        """The figures of an answer of the history; none if it is withheld or cannot be cut like
        this."""
        try:
            told = self.analyst.history(self.query["id"], start, end, **how).document
        except ResponseError as error:
            if error.status not in (404, 409, 422):
                raise
            self.unkept = error.detail if "fraction" in how else self.unkept
            return
        same = {"labels": told["labels"], "fraction": float(told["fraction"])}
        self._add(
            "period", told["start"], told["end"], n=told["scanned"], values=told["estimate"], **same
        )
        for part in told["parts"]:
            if "estimate" in part:
                cut = {
                    "n": part["n"],
                    "values": part["estimate"],
                    "part": f"{how['by']} {part['name']}",
                }
                self._add("period", told["start"], told["end"], **cut, **same)

    def _add(
        self, kind: Kind, start: int, end: int, *, values: Any, labels: Any = (), **more: Any
    ) -> None:
        told = json.dumps([str(label) for label in labels])
        figures = tuple(float(value) for value in values)
        digest = hashlib.sha256(told.encode()).hexdigest()[:16] if labels else ""
        given = {"seen": self.seen, "labels": digest, "values": figures, **more}
        self.figures.append(PublishedFigure(self.query["id"], kind, start, end, **given))


# --- subtracting ---------------------------------------------------------------------------------


def _attempts(reading: _Reading, known: Sequence[PublishedFigure]) -> Iterator[Attempt]:
    figures, name, cohort = [*known, *reading.figures], reading.query["id"], reading.cohort
    n_earlier = f", {len(known):,} of earlier readings" if known else ""
    small = list(too_small(figures, reading.cohorts, cohort))
    tried = f"read every figure of the query ({len(figures):,}{n_earlier})"
    sizes = [FigureDifference(each.n, str(each)) for each in figures]
    yield _judged(f"{name}: figures of too few answers", tried, sizes, cohort, small)
    groups: dict[str, list[FigureDifference]] = {each: [] for each in _GROUPS}
    for whole, part, difference in differences(figures):
        groups[next(group for group, is_it in _GROUPS.items() if is_it(whole, part))].append(
            difference
        )
    whole_periods = [
        each
        for each in reading.figures
        if each.kind == "period" and not each.part and each.fraction == 1
    ]
    if reading.is_stable:
        groups[_PERIODS] += isolated(whole_periods, reading.every)
    for group, found in groups.items():
        wrong = list(contradictions(figures)) if group == _FRACTIONS_OF else []
        because = reading.unkept if group == _FRACTIONS_OF else ""
        tried = f"subtracted figures from those that contain them, in {len(found):,} ways"
        yield _judged(f"{name}: {group}", tried, found, cohort, wrong, because)


def _judged(
    name: str,
    tried: str,
    found: Sequence[FigureDifference],
    cohort: int,
    wrong: Sequence[FigureDifference],
    because: str = "",
) -> Attempt:
    few = [each for each in found if each.n is not None and 0 < abs(each.n) < cohort]
    exposed = [*wrong, *sorted(few, key=lambda each: abs(each.n or 0))]
    if exposed:
        worst = exposed[0]
        size = (
            "some answers"
            if worst.n is None
            else f"{abs(worst.n):,} answer{'s'[: abs(worst.n) != 1]}"
        )
        seen = f"{size} can be isolated, and the minimum cohort is {cohort:,}: {worst.text}"
        return Attempt(name, tried, seen, "broken")
    if not found:
        return Attempt(name, tried, because or "there are no two such figures", "not tried")
    least = min((abs(each.n) for each in found if each.n), default=None)
    seen = "all are of no answers" if least is None else f"none is of fewer than {least:,} answers"
    return Attempt(name, tried, f"{seen}; the minimum cohort is {cohort:,}", "holds")


def _is_revision(whole: PublishedFigure, part: PublishedFigure) -> bool:
    return (whole.start, whole.end, whole.part, whole.fraction) == (
        part.start,
        part.end,
        part.part,
        part.fraction,
    )


_REVISIONS, _PERIODS = "revisions and later readings", "overlapping windows and periods"
_PARTS, _FRACTIONS_OF = "versions, strata and parts", "fractions of the stored reports"
_GROUPS: dict[str, Callable[[PublishedFigure, PublishedFigure], bool]] = {
    _FRACTIONS_OF: lambda whole, part: min(whole.fraction, part.fraction) < 1,
    _PARTS: lambda whole, part: whole.part != part.part,
    _REVISIONS: _is_revision,
    _PERIODS: lambda whole, part: True,
}
"""What a difference is about: the first that fits."""
