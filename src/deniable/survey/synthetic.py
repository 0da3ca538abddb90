"""A data set that can be shared, drawn from the model that was fitted to randomized answers.

The rows are nobody's: they are drawn from estimates, and whatever is computed from reports loses no
more than the reports did. The model is a tree of tables of two columns, each column depending on
one other, so that what three columns have to do with each other beyond that is not in it. Chow and
Liu, "Approximating discrete probability distributions with dependence trees", IEEE Transactions on
Information Theory 14, 1968.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import whole
from deniable.display import Bar, Display, loss_text
from deniable.errors import SurveyError
from deniable.estimation.simplex import project
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.results import Result
from deniable.survey.estimates import Survey
from deniable.survey.estimating import estimate_file, recorded_questionnaire
from deniable.survey.files import Missing, Paths, check_paths, refuse_existing
from deniable.survey.writing import table_writer
from deniable.table_file import TableFormat

__all__ = ["SyntheticSummary", "synthesize_file"]

_Floats = NDArray[np.float64]
_MOST_COLUMNS = 40


@dataclass(frozen=True, eq=False)
class SyntheticSummary(Result):
    """What a synthetic data set keeps of the survey, and what it loses."""

    rows: int
    reports: int
    epsilon: float
    """Of a person's row of reports: the rows drawn from them lose no more."""
    depends: dict[str, str]
    """The column that each column but the first was drawn by."""
    error: dict[str, float]
    """Per column, the largest difference between a proportion of the file and its estimate."""
    pairs: dict[str, float]
    """Per pair of columns, the largest difference between a cell of the file and its estimate."""
    inflation: float
    """By how much a standard error of the survey is larger than one computed from the file as if
    its rows had been asked directly."""
    left_out: tuple[str, ...] = ()

    def _display(self, confidence: float = 0.95) -> Display:
        rows = [(name, 100 * error) for name, error in {**self.error, **self.pairs}.items()]
        bars = [Bar(name, error) for name, error in rows]
        unit = "largest difference (percentage points)"
        return Display(("of", "points"), rows, tuple(self.notes), bars, unit)

    @property
    def notes(self) -> list[str]:
        """What to tell people who get the file."""
        bounded = np.isfinite(self.epsilon)
        lines = [
            "No row is a person's. The file loses no more than the reports: epsilon"
            f" {loss_text(self.epsilon) if bounded else 'infinite'} per person.",
            *(f"{name} was drawn by {other}." for name, other in self.depends.items()),
            "What three columns have to do with each other beyond these pairs is not in the file.",
            f"Standard errors computed from the file are too small, by a factor of up to"
            f" {self.inflation:.3g}: give those of the survey.",
        ]
        if self.left_out:
            lines.append(f"Not in the file: {', '.join(self.left_out)}.")
        return lines

    def __str__(self) -> str:
        worst = max(self.error.values())
        lines = [
            f"{self.rows:,} rows drawn from {self.reports:,} reports",
            f"largest difference from the estimates: {100 * worst:.2f} points of a column",
        ]
        if self.pairs:
            pair = max(self.pairs, key=self.pairs.__getitem__)
            lines[-1] += f", {100 * self.pairs[pair]:.2f} points of a pair ({pair})"
        return "\n".join([*lines, *self.notes])


def synthesize_file(
    path: Paths,
    output: Path | str,
    mechanisms: Questionnaire | None = None,
    *,
    rows: int | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
) -> SyntheticSummary:
    """Write rows drawn from the estimates of a file of reports, as many as it has unless `rows` is
    given.

    Columns of labels are drawn; numbers, multiple choice and columns that were not randomized are
    left out.
    """
    paths, output = check_paths(path), Path(output)
    asked = recorded_questionnaire(paths) if mechanisms is None else mechanisms
    names = [name for name, mechanism in asked.mechanisms.items() if _is_drawn(mechanism)]
    if not names or len(names) > _MOST_COLUMNS:
        raise SurveyError(
            f"{paths[0]} has {len(names)} randomized columns of labels; a synthetic file needs 1 to"
            f" {_MOST_COLUMNS}"
        )
    whole("rows", 1 if rows is None else rows, 1, 10**7)
    refuse_existing(paths[0], output, overwrite)
    pairs = list(combinations(names, 2))
    survey = estimate_file(paths, asked, tables=pairs, missing=missing, layout=layout)
    model = _Model(names, survey)
    drawn = model.draw(survey.n if rows is None else rows, np.random.default_rng(seed))
    with table_writer(output, names, {name: survey[name].labels for name in names}) as write:
        write({name: [survey[name].labels[at] for at in drawn[name]] for name in names})
    left_out = tuple(name for name in asked.mechanisms if name not in names)
    return model.summary(drawn, asked.epsilon, left_out)


def _is_drawn(mechanism: Mechanism) -> bool:
    return bool(mechanism.exclusive and not mechanism.numeric and mechanism.labels)


class _Model:
    """Proportions of each column and of each pair, made possible, and the tree of the pairs that
    tell most."""

    def __init__(self, names: list[str], survey: Survey) -> None:
        self._names, self._survey = names, survey
        self._alone = {name: project(survey[name].proportions) for name in names}
        self._both = {
            tuple(table.axes): project(table.proportions.ravel()).reshape(table.shape)
            for table in survey.tables
        }
        told = {pair: _information(joint) for pair, joint in self._both.items()}
        self.parents: dict[str, str] = {}
        inside = {names[0]}
        while len(inside) < len(names):
            edges = [pair for pair in told if len(inside & set(pair)) == 1]
            best = max(edges, key=told.__getitem__)
            parent, child = best if best[0] in inside else best[::-1]
            self.parents[child] = parent
            inside.add(child)

    def draw(self, rows: int, rng: np.random.Generator) -> dict[str, NDArray[np.intp]]:
        """The places of labels, column by column."""
        root = self._names[0]
        found = {root: rng.choice(len(self._alone[root]), rows, p=self._alone[root])}
        for child, parent in self.parents.items():
            law = self._conditional(child, parent)
            below = np.cumsum(law, axis=1)[found[parent], :-1]
            found[child] = (rng.random(rows)[:, None] > below).sum(axis=1)
        return found

    def _conditional(self, child: str, parent: str) -> _Floats:
        joint = self._joint(parent, child)
        rows = joint.sum(axis=1, keepdims=True)
        return np.where(rows > 0, joint / np.where(rows > 0, rows, 1), self._alone[child])

    def _joint(self, first: str, second: str) -> _Floats:
        if (first, second) in self._both:
            return self._both[first, second]
        return self._both[second, first].T

    def summary(
        self, drawn: dict[str, NDArray[np.intp]], epsilon: float, left_out: tuple[str, ...]
    ) -> SyntheticSummary:
        n = len(drawn[self._names[0]])
        error, inflation = {}, 1.0
        for name, law in self._alone.items():
            found = np.bincount(drawn[name], minlength=law.size) / n
            estimate = self._survey[name]
            error[name] = float(np.abs(found - estimate.proportions).max())
            naive = np.sqrt(np.maximum(found * (1 - found), 1e-12) / n)
            inflation = max(
                inflation, float(np.max(np.where(found > 0, estimate.stderr / naive, 0)))
            )
        pairs = {}
        for table in self._survey.tables:
            one, other = (drawn[axis] for axis in table.axes)
            cells = np.bincount(one * table.shape[1] + other, minlength=table.proportions.size) / n
            gap = np.abs(cells.reshape(table.shape) - table.proportions).max()
            pairs[" by ".join(table.axes)] = float(gap)
        reports = self._survey.n
        return SyntheticSummary(
            n, reports, epsilon, self.parents, error, pairs, inflation, left_out
        )


def _information(joint: _Floats) -> float:
    """What two columns tell of each other, in nats."""
    alike = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    used: Any = joint > 0
    return float((joint[used] * np.log(joint[used] / alike[used])).sum())
