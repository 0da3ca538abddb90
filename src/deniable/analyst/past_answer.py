"""What the history answered, on the analyst's side: estimates, parts, differences and trends, as
objects and as tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deniable.aggregator.windows.estimate_documents import read_estimate
from deniable.display import pandas
from deniable.errors import MissingExtraError
from deniable.estimation.estimate import Estimate
from deniable.estimation.intervals import p_text
from deniable.queries.times import iso_time

__all__ = ["COLUMNS", "PastAnswer", "closing_lines"]

COLUMNS = ("part", "label", "estimate", "stderr", "low", "high", "n")
DIFFERENCES = ("part", "label", "difference", "stderr", "low", "high", "p")
_ALL = "all"


@dataclass(frozen=True)
class PastAnswer:
    """An answer from the history of a query. Printed, it is a table with its basis below it."""

    document: Mapping[str, Any]
    """As the aggregator sent it (docs/history.md)."""

    @cached_property
    def estimate(self) -> Estimate:
        """The estimate of the whole period."""
        return read_estimate(self.document, self.period)

    @cached_property
    def parts(self) -> dict[str, Estimate | None]:
        """The estimates of its parts by their names; None for one that is withheld because it rests
        on too few answers."""
        return {
            part["name"]: read_estimate(part, self.period) if "estimate" in part else None
            for part in self.document["parts"]
        }

    @property
    def period(self) -> tuple[int, int]:
        """When it begins, and the first second after it (UTC)."""
        return self.document["start"], self.document["end"]

    @property
    def n_reports(self) -> int:
        """How many reports of the period are stored."""
        return int(self.document["n_reports"])

    @property
    def scanned(self) -> int:
        """How many of them were read."""
        return int(self.document["scanned"])

    @property
    def fraction(self) -> float:
        """With what probability each of them was read."""
        return float(self.document["fraction"])

    @property
    def difference(self) -> Mapping[str, Any] | None:
        """This period minus the one it was compared with, label by label."""
        against = self.document["against"]
        return None if against is None else against["difference"]

    @property
    def trend(self) -> Mapping[str, Any] | None:
        """The change per day, label by label, where it was cut by day."""
        trend: Mapping[str, Any] | None = self.document["trend"]
        return trend

    def to_dict(self) -> dict[str, Any]:
        """A JSON document."""
        return dict(self.document)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """One row per part and label, as `COLUMNS` names them; the whole period's part is called
        `all`."""
        for name, source in [
            (_ALL, self.document),
            *((part["name"], part) for part in self.document["parts"]),
        ]:
            if "estimate" in source:
                columns = (
                    source[column] for column in ("labels", "estimate", "stderr", "low", "high")
                )
                for label, *figures in zip(*columns, strict=True):
                    yield (name, _label(label), *figures, source["n"])

    def difference_rows(self) -> Iterator[tuple[Any, ...]]:
        """One row per part and label of the difference between two periods, as `DIFFERENCES` names
        them."""
        against = self.document["against"]
        if against is None:
            return
        for name, found in [
            (_ALL, against["difference"]),
            *((part["name"], part) for part in against["parts"]),
        ]:
            columns = (
                found[column] for column in ("labels", "difference", "stderr", "low", "high", "p")
            )
            for label, *figures in zip(*columns, strict=True):
                yield (name, _label(label), *figures)

    def to_frame(self) -> Any:
        """A pandas DataFrame of :meth:`rows`."""
        return pandas().DataFrame(list(self.rows()), columns=list(COLUMNS))

    def to_arrow(self) -> Any:
        """A PyArrow table of :meth:`rows`."""
        try:
            import pyarrow as pa  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("pyarrow", "history", "to_arrow()") from None
        rows = list(self.rows())
        kinds = [pa.string(), pa.string(), *[pa.float64()] * 4, pa.int64()]
        columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
        return pa.Table.from_arrays(columns, names=list(COLUMNS))

    def to_polars(self) -> Any:
        """A Polars DataFrame of :meth:`rows`."""
        try:
            import polars as pl  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("polars", "frames", "to_polars()") from None
        return pl.from_arrow(self.to_arrow())

    def __str__(self) -> str:
        return "\n".join([*_table(self), "", *closing_lines(self)])

    def __repr__(self) -> str:
        return (
            f"<answer from the history of {self.document['query']!r}: {self.scanned:,} of"
            f" {self.n_reports:,} reports>"
        )


def _label(label: Any) -> str:
    return ", ".join(map(str, label)) if isinstance(label, list) else str(label)


def _table(answer: PastAnswer) -> list[str]:
    rows = list(answer.rows())
    parted = any(row[0] != _ALL for row in rows)
    if parted:
        rows = [row for row in rows if row[0] != _ALL]
    name_width = max((len(row[0]) for row in rows), default=0)
    label_width = max((len(row[1]) for row in rows), default=0)
    lines = []
    for part, label, estimate, _, low, high, _ in rows:
        start = f"{part:<{name_width}}  " if parted else ""
        lines.append(
            f"{start}{label:<{label_width}}  {100 * estimate:7.2f} %   {_percent(low)} to"
            f" {_percent(high)}"
        )
    lines += [
        f"{part['name']}  withheld: too few answers"
        for part in answer.document["parts"]
        if "estimate" not in part
    ]
    changes = list(answer.difference_rows())
    if changes:
        against = answer.document["against"]
        lines += ["", f"less {iso_time(against['start'])} to {iso_time(against['end'])}:"]
        changed = any(row[0] != _ALL for row in changes)
        for part, label, difference, _, low, high, p in changes:
            if changed and part == _ALL:
                continue
            start = f"{part:<{name_width}}  " if changed else ""
            lines.append(
                f"{start}{label:<{label_width}}  {100 * difference:+7.2f} %   {_percent(low)} to"
                f" {_percent(high)}   {p_text(p)}"
            )
        overall = against["difference"]["overall"]
        lines.append(f"all labels together: {p_text(overall['p'])}")
    if answer.trend is not None:
        lines += ["", "per day:"]
        columns = (answer.trend[name] for name in ("labels", "slope_per_day", "low", "high", "p"))
        for label, slope, low, high, p in zip(*columns, strict=True):
            lines.append(
                f"{_label(label):<{label_width}}  {100 * slope:+8.3f} %   {_percent(low, 3)} to"
                f" {_percent(high, 3)}   {p_text(p)}"
            )
    return lines


def _percent(limit: float | None, digits: int = 2) -> str:
    return "?" if limit is None or not math.isfinite(limit) else f"{100 * limit:.{digits}f}"


def closing_lines(answer: PastAnswer) -> list[str]:
    """What an answer rests on: period, reports, intervals, and what was spent."""
    document = answer.document
    start, end = answer.period
    proportion = (
        "all read"
        if answer.fraction == 1.0
        else f"of which {answer.scanned:,} ({100 * answer.fraction:.3g} %) were read"
    )
    read = (
        f"{answer.n_reports:,} reports, {proportion}"
        if document["source"] == "reports"
        else f"counts of {answer.n_reports:,} reports"
    )
    together = " all together" if document["simultaneous"] else ""
    intervals = (
        f"{100 * document['confidence']:g} % intervals{together}, which cover the sampling of"
        " people"
    )
    intervals += " and of reports, and the coins" if answer.fraction < 1.0 else " and the coins"
    return [
        f"{document['query']}, {iso_time(start)} to {iso_time(end)}: {read}; {intervals}.",
        *document["reading"],
        *document["notes"],
        f"epsilon spent: {document['epsilon_spent']}. {document['statement']}",
    ]
