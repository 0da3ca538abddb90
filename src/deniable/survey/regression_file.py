"""Regressions of the columns of a file, some of which are randomized."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from deniable.errors import SurveyError
from deniable.estimation.regression.correlation import correlate
from deniable.estimation.regression.linear import LinearRegression, regress_linear
from deniable.estimation.regression.logistic import Regression, regress
from deniable.estimation.surveys.sampling import Sample
from deniable.estimation.tables.statistic import Statistic
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.survey.files import Missing, Paths
from deniable.survey.formula import Formula, code_terms, parse_formula
from deniable.survey.options import refuse_whole
from deniable.survey.rows import read_rows
from deniable.survey.spelling import cell_text, spell
from deniable.table_file import TableFormat

__all__ = ["SampleColumns", "correlate_file", "regress_file", "sample_of"]


@dataclass(frozen=True)
class SampleColumns:
    """The columns that say how people were sampled."""

    weights: str | None = None
    probabilities: str | None = None
    strata: str | None = None
    clusters: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are named."""
        return tuple(name for name in vars(self).values() if name is not None)


def sample_of(columns: SampleColumns, cells: Mapping[str, Sequence[Any]]) -> Sample | None:
    """The sample that these columns describe; None if none is named."""
    if not columns.names:
        return None
    given: dict[str, Any] = {}
    for role, name in vars(columns).items():
        if name is None:
            continue
        given[role] = (
            _numbers(name, cells[name])
            if role in {"weights", "probabilities"}
            else [cell_text(c) for c in cells[name]]
        )
    return Sample(**given)


def regress_file(
    path: Paths,
    formula: str | Formula,
    mechanisms: Mapping[str, Mechanism] | Questionnaire | None = None,
    *,
    linear: bool = False,
    design: Any = None,
    group: str | None = None,
    random_intercept: str | None = None,
    sample: SampleColumns | None = None,
    errors: str | None = None,
    categories: Sequence[str] = (),
    scores: Mapping[str, Sequence[float]] | None = None,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Callable[[float], None] | None = None,
) -> Regression | LinearRegression:
    """How one column depends on others, by a formula such as "used ~ age + region".

    `mechanisms`, or the file that `randomize_file` wrote, says which columns are randomized and
    how; they may be on either side. A multiple-choice column has a predictor per option;
    `news[web]` is one option, on either side. All other columns are used as they are: numbers, or
    categories, the first of which in order is the reference. `design` is how the outcome was asked
    if no mechanism says so: a design with two samples, whose number is in the column `group`, or
    scrambled numbers. The model is logistic (multinomial for several answers) unless `linear`.
    """
    model = parse_formula(formula) if isinstance(formula, str) else formula
    drawn = sample or SampleColumns()
    others = _named_roles(drawn, group, random_intercept)
    rows = read_rows(
        path,
        mechanisms,
        [*model.columns, *others],
        missing=missing,
        layout=layout,
        progress=progress,
    )
    hidden = {name: (report.mechanism, report) for name, report in rows.reports.items()}
    outcome = hidden.pop(model.outcome, None)
    _check_randomized(model, set(others) & set(rows.reports), hidden)
    names, covariates = code_terms(
        [term for term in model.terms if term[0] not in hidden], rows.cells, categories
    )
    predictors = {term[0]: hidden[term[0]] for term in model.terms if term[0] in hidden}
    options: dict[str, Any] = {
        "randomized": predictors,
        "intercept": model.intercept,
        "names": names,
    }
    options["sample"] = sample_of(drawn, rows.cells)
    covariates = covariates if names else np.zeros((rows.n, 0))
    if outcome is not None:
        refuse_whole(model.outcome, outcome[0])
        if design is not None:
            raise SurveyError(
                f"column {model.outcome!r} already has a mechanism, so it cannot have a design as"
                " well"
            )
    if linear:
        if group or random_intercept or (errors not in {None, "sandwich"}):
            raise SurveyError(
                "a linear regression has no group, no random intercept and only one kind of errors"
            )
        answers = _linear_outcome(outcome, design, model.outcome, rows.cells)
        return regress_linear(
            answers, covariates, outcome_name=model.outcome, scores=scores, **options
        )
    if scores:
        raise SurveyError(
            "scores are for a linear regression (--linear): a logistic one explains the labels"
            " themselves"
        )
    if random_intercept is not None:
        options["random_intercept"] = [cell_text(cell) for cell in rows.cells[random_intercept]]
    if group is not None:
        options["group"] = _numbers(group, rows.cells[group]).astype(int)
    if outcome is None:
        outcome = (design, _answers(model.outcome, rows.cells[model.outcome], design))
    return regress(*outcome, covariates, errors=errors, **options)


def _linear_outcome(
    outcome: Any, design: Any, name: str, cells: Mapping[str, Sequence[Any]]
) -> Any:
    """What a linear regression explains: reports, scrambled numbers, or numbers as they are."""
    if outcome is not None:
        return outcome
    numbers = _numbers(name, cells[name])
    return numbers if design is None else (design, numbers)


def _named_roles(drawn: SampleColumns, *others: str | None) -> list[str]:
    return [name for name in (*others, *drawn.names) if name is not None]


def _check_randomized(model: Formula, used: Collection[str], hidden: Collection[str]) -> None:
    """Refuse randomized columns where a column must be known row by row."""
    if used:
        raise SurveyError(
            f"column {min(used)!r} is randomized, so it cannot say how people were sampled"
        )
    for term in model.terms:
        if len(term) > 1 and set(term) & set(hidden):
            raise SurveyError(
                f"term {':'.join(term)!r} multiplies a randomized column, which can only be a term"
                " by itself"
            )


def _answers(name: str, cells: Sequence[Any], design: Any) -> Any:
    if design is not None:
        labels = ["no", "yes"]
        try:
            return np.array(spell(labels, cells))
        except ValueError:
            raise SurveyError(
                f"column {name!r} must hold yes and no, or 1 and 0, for {type(design).__name__}"
            ) from None
    texts = np.array([cell_text(cell) for cell in cells])
    if np.unique(texts).size > 20:
        raise SurveyError(
            f"column {name!r} has more than 20 different answers: use a linear regression"
            " (--linear) for numbers"
        )
    return texts


def _numbers(name: str, cells: Sequence[Any]) -> Any:
    try:
        return np.array([float(cell) for cell in cells])
    except (TypeError, ValueError):
        raise SurveyError(f"column {name!r} must hold numbers") from None


def correlate_file(
    path: Paths,
    columns: Sequence[str],
    mechanisms: Mapping[str, Mechanism] | Questionnaire | None = None,
    *,
    sample: SampleColumns | None = None,
    scores: Mapping[str, Sequence[float]] | None = None,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Callable[[float], None] | None = None,
) -> list[Statistic]:
    """The correlation of each pair of these columns; columns that are not randomized must hold
    numbers.

    `scores` are numbers for the labels of randomized columns, in the order of the labels.
    """
    if unknown := set(scores or {}) - set(columns):
        raise SurveyError(
            f"scores are given for {', '.join(sorted(unknown))}, of which no correlation is asked"
        )
    if len(set(columns)) != len(columns) or len(columns) < 2:
        raise SurveyError(
            f"a correlation needs two different columns or more, not {', '.join(columns)}"
        )
    drawn = sample or SampleColumns()
    rows = read_rows(
        path,
        mechanisms,
        [*columns, *drawn.names],
        missing=missing,
        layout=layout,
        progress=progress,
    )
    for name in columns:
        refuse_whole(name, rows.reports[name].mechanism if name in rows.reports else None)
    values: dict[str, Any] = {
        name: (
            (rows.reports[name].mechanism, rows.reports[name])
            if name in rows.reports
            else _numbers(name, rows.cells[name])
        )
        for name in columns
    }
    people = sample_of(drawn, rows.cells)
    return [
        correlate(values[a], values[b], names=(a, b), sample=people, scores=scores)
        for a, b in combinations(columns, 2)
    ]
