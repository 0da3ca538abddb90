"""Estimates of a file's columns for a sample in which not everybody was equally likely to be
asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from deniable.errors import SurveyError
from deniable.estimation.surveys.weighted import weighted_estimate
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.survey.estimates import Survey
from deniable.survey.estimating import recorded_questionnaire
from deniable.survey.files import Missing, Paths, check_paths
from deniable.survey.regression_file import SampleColumns, sample_of
from deniable.survey.rows import read_rows
from deniable.table_file import TableFormat

__all__ = ["estimate_weighted_file"]


def estimate_weighted_file(
    path: Paths,
    sample: SampleColumns,
    mechanisms: Mapping[str, Mechanism] | Questionnaire | None = None,
    *,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Callable[[float], None] | None = None,
) -> Survey:
    """Estimate each column with the weights, strata and clusters that other columns of the file
    give.

    As :func:`~deniable.weighted_estimate`, with linearised errors. Every estimate says how many
    people a sample without weights would need for the same error from weighting (Kish's effective
    sample size, (sum w)^2 / sum w^2).
    """
    paths = check_paths(path)
    given = (
        mechanisms
        if isinstance(mechanisms, Questionnaire)
        else Questionnaire(mechanisms)
        if mechanisms
        else None
    )
    questionnaire = recorded_questionnaire(paths) if given is None else given
    if questionnaire.sampled or questionnaire.fake:
        raise SurveyError(
            "weights are for questionnaires in which everybody answers every question"
        )
    columns = [*questionnaire.mechanisms, *sample.names]
    rows = read_rows(
        paths, questionnaire, columns, missing=missing, layout=layout, progress=progress
    )
    people = sample_of(sample, rows.cells)
    if people is None:
        raise SurveyError("name the column of weights, inclusion probabilities, strata or clusters")
    effective = float(people.weights.sum() ** 2 / (people.weights**2).sum())
    note = f"effective sample size {effective:,.0f} of {rows.n:,} (Kish)"
    estimates = {}
    for name, mechanism in questionnaire.mechanisms.items():
        found = weighted_estimate(mechanism, rows.reports[name], people)
        estimates[name] = dataclasses.replace(
            found, exclusive=mechanism.exclusive, notes=(*found.notes, note)
        )
    return Survey(rows.n, estimates)
