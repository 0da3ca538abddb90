"""What a file of reports says: an estimate per column, tables, groups, and tests of whether groups
differ."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from deniable.display import Bar, Display, draw_bars
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.surveys.group_tests import GroupTest, compare_groups
from deniable.estimation.tables.independence import IndependenceTest
from deniable.estimation.tables.table import Table
from deniable.results import Result

__all__ = ["Survey", "group_tests"]


@dataclass(frozen=True, eq=False)
class Survey(Result):
    """The estimates from a file of reports."""

    n: int
    estimates: dict[str, Estimate]
    """One per column."""
    tables: tuple[Table, ...] = ()
    """The requested joint and conditional tables."""
    by: str | None = None
    """The column that people were grouped by."""
    groups: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    """The estimate of each column, per group."""
    tests: dict[str, GroupTest | IndependenceTest] = field(default_factory=dict)
    """For each column, whether it differs between groups; of a randomized column, whether it is
    independent of it."""

    def __getitem__(self, column: str) -> Estimate:
        """The estimate of one column."""
        if column not in self.estimates:
            raise ParameterError("column", column, f"must be one of {', '.join(self.estimates)}")
        return self.estimates[column]

    def parts(self) -> list[tuple[str, Estimate]]:
        """All estimates with what they are about: a column, or a column in one group."""
        parts = list(self.estimates.items())
        for group, estimates in self.groups.items():
            parts += [
                (f"{name}, {self.by} = {group}", estimate) for name, estimate in estimates.items()
            ]
        return parts

    def _display(self, confidence: float = 0.95) -> Display:
        rows: list[tuple[Any, ...]] = []
        bars: list[Bar] = []
        notes: list[str] = []
        texts: list[tuple[str, ...]] = [("", "", "estimate", f"{100 * confidence:g} % interval")]
        for name, estimate in self.parts():
            shown = estimate._display(confidence)
            rows += [(name, *row) for row in shown.rows]
            bars += [
                bar._replace(label=f"{name}: {bar.label}")
                for bar in shown.bars
                if not estimate.numeric
            ]
            texts += [(name, row[0], row[1], row[-1]) for row in (shown.texts or [])[1:]]
            notes += [f"{name}: {line}" for line in shown.notes]
        notes += map(str, self.tests.values())
        columns = ("column", "label", "estimate", "stderr", "low", "high")
        return Display(columns, rows, tuple(notes), bars, "proportion (%)", texts=texts)

    def plot(self, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw a panel per column and table; returns matplotlib's figure. With `ax`, all
        proportions go there, and it is returned."""
        if ax is not None:
            return draw_bars(self._display(confidence), ax)
        from deniable.estimation.plots import draw_survey  # noqa: PLC0415 - an extra

        return draw_survey(dict(self.parts()), self.tables)

    def __str__(self) -> str:
        parts = [f"{name}\n{_indented(str(estimate))}" for name, estimate in self.parts()]
        tests = ["\n".join(map(str, self.tests.values()))] if self.tests else []
        return "\n\n".join([*parts, *map(str, self.tables), *tests])


def group_tests(
    by: str | None, groups: dict[str, dict[str, Estimate]], without: Collection[str] = ()
) -> dict[str, GroupTest]:
    """For each column but some, whether the groups differ: where at least two of them have reports,
    and the covariance of the labels is known."""
    columns: dict[str, dict[str, Estimate]] = {}
    for group, estimates in groups.items():
        for name, estimate in estimates.items():
            if name in without:
                continue
            if estimate.n > 1 and (estimate.numeric or estimate.covariance is not None):
                columns.setdefault(name, {})[group] = estimate
    return {
        name: compare_groups(parts, f"{name} by {by}")
        for name, parts in columns.items()
        if len(parts) > 1
    }


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
