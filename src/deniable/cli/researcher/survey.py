"""`deniable randomize` and `deniable estimate`: files of answers and files of reports."""

from __future__ import annotations

import math
import sys
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

import click

from deniable.checks import check_confidence
from deniable.cli.analyst.poll_exports import estimate_exports, refuse_other_options
from deniable.cli.helping import command
from deniable.cli.output import (
    Part,
    confidence_option,
    emit,
    output_options,
    progress_bar,
    save_figure,
    show_display,
    shown_warnings,
)
from deniable.cli.researcher.survey_options import (
    FILE,
    columns_option,
    format_options,
    given_mechanisms,
    mechanisms_option,
    missing_option,
    sample_options,
)
from deniable.errors import SurveyError, SurveyWarning
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables.table import Table
from deniable.mechanisms.designs.text import mechanism_in_words
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.survey import Survey, estimate_file, randomize_file
from deniable.survey.files import Missing, columns_file
from deniable.survey.regression_file import SampleColumns
from deniable.survey.weighted_file import estimate_weighted_file
from deniable.table_file import STANDARD_STREAM, TableFormat


@command()
@click.argument("files", metavar="FILE...", type=FILE, nargs=-1, required=True)
@click.option(
    "--output",
    "-o",
    type=FILE,
    required=True,
    help="The file to write: CSV, TSV, gzip or Parquet, by its extension; - is standard output.",
)
@columns_option
@mechanisms_option
@click.option(
    "--keep", multiple=True, metavar="NAME", help="A column to copy unchanged. Repeatable."
)
@click.option(
    "--keep-order",
    is_flag=True,
    help="Keep the rows' order, which can identify people. [default: random order]",
)
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@click.option("--again", is_flag=True, help="Randomize even what was randomized before.")
@missing_option
@format_options
@output_options
def randomize(
    files: tuple[Path, ...],
    output: Path,
    columns: tuple[str, ...],
    mechanisms: Path | None,
    keep: tuple[str, ...],
    keep_order: bool,
    force: bool,
    again: bool,
    missing: Missing,
    **layout: str | None,
) -> None:
    """Randomize columns of CSV, TSV, Excel or Parquet FILEs (- is standard input), as each person's
    device would.

    Columns that are neither randomized nor kept are left out, and rows come out in random order.
    OUTPUT.toml, written beside the output, records how each column was randomized, so that
    `deniable estimate OUTPUT` needs no options. What was randomized before is refused without
    --again: a randomized file (which has the column randomized_by_deniable), and answers of which
    another file was made.
    """
    given = given_mechanisms(columns, mechanisms)
    if given is None:
        raise SurveyError("no column to randomize: name at least one with --column or --mechanisms")
    options: dict[str, Any] = {"keep": keep, "overwrite": force, "again": again, "missing": missing}
    with shown_warnings(SurveyWarning), progress_bar(f"randomizing {files[0].name}") as progress:
        rows = randomize_file(
            files,
            output,
            given,
            keep_order=keep_order,
            layout=TableFormat(**layout),
            progress=progress,
            **options,
        )
    if output == STANDARD_STREAM:  # which holds the rows
        click.get_current_context().with_resource(redirect_stdout(sys.stderr))
    document = {
        "output": str(output),
        "rows": rows,
        "columns": {name: mechanism.to_dict() for name, mechanism in given.mechanisms.items()},
        "epsilon_row": None if math.isinf(given.epsilon) else given.epsilon,
        "unprotected": [*keep, *(["row order"] if keep_order else [])],
    }
    emit(document, _randomized_lines(given, output, rows, keep, keep_order))


def _randomized_lines(
    given: Questionnaire, output: Path, rows: int, keep: tuple[str, ...], keep_order: bool
) -> list[str]:
    recorded = f"{output}; the mechanisms are recorded in {columns_file(output).name}"
    lines = [
        f"Wrote {rows:,} randomized rows to"
        f" {'standard output' if output == STANDARD_STREAM else recorded}."
    ]
    for name, mechanism in given.mechanisms.items():
        about = f" (of one answer {_loss(given.answer_epsilon(name))})" if given.fake else ""
        lines.append(
            f"  {name}: {mechanism_in_words(mechanism)}, epsilon {_loss(mechanism.epsilon)}{about}"
        )
    if given.fake or given.sampled:
        lines.append(f"{given.kind[0].upper()}{given.kind[1:]}.")
    lines.append(_row_loss(given, keep))
    if keep_order:
        lines.append(
            "NOT PROTECTED: the rows are in the order of the input. Anyone who knows that order,"
            " from a list of names or times, can tell whose row is whose. What a row reveals of its"
            " answers is still bounded by its epsilon."
        )
    return lines


def _loss(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"


def _row_loss(given: Questionnaire, keep: tuple[str, ...]) -> str:
    """The loss of a person's whole row, and which columns are not protected at all."""
    total = _loss(given.epsilon)
    if not keep:
        return f"A person's row as a whole: epsilon {total}."
    kept = ", ".join(keep)
    return (
        f"NOT PROTECTED: {kept} {'is' if len(keep) == 1 else 'are'} copied unchanged. Anyone who"
        f" reads the file learns {'it' if len(keep) == 1 else 'them'}, and may recognize people by"
        f" {'it' if len(keep) == 1 else 'them'}.\nThe randomized columns of a person's row"
        f" together: epsilon {total}, about those columns only."
    )


@command()
@click.argument("files", metavar="FILE...", type=FILE, nargs=-1, required=True)
@columns_option
@mechanisms_option
@click.option(
    "--table",
    "-t",
    "tables",
    multiple=True,
    metavar="A,B,…",
    help="Estimate the joint table of these columns. Repeatable.",
)
@click.option(
    "--estimator",
    "estimators",
    multiple=True,
    metavar="NAME=ESTIMATOR",
    help="How to estimate a column, e.g. 'age=ems'.",
)
@click.option(
    "--candidates",
    multiple=True,
    metavar="NAME=A|B|…",
    help="The strings to look for in a column of RAPPOR reports.",
)
@click.option(
    "--conditional",
    "conditions",
    multiple=True,
    metavar="OF|GIVEN",
    help=(
        "Estimate the distribution of OF given each answer to GIVEN, e.g. 'smokes|city'."
        " Repeatable."
    ),
)
@click.option(
    "--by",
    metavar="NAME",
    help=(
        "Estimate separately per group of a column that is not randomized; for a randomized one,"
        " conditionally on it."
    ),
)
@click.option(
    "--population",
    type=int,
    help="The size of the population, if those who reported are part of it.",
)
@sample_options
@confidence_option
@click.option("--plot", type=FILE, metavar="OUT.png", help="Plot the estimates with error bars.")
@click.option(
    "--poll",
    type=FILE,
    metavar="POLL.toml",
    help="The poll whose snippets asked, for exports of survey software.",
)
@missing_option
@format_options
@output_options
def estimate(
    files: tuple[Path, ...],
    columns: tuple[str, ...],
    mechanisms: Path | None,
    tables: tuple[str, ...],
    estimators: tuple[str, ...],
    candidates: tuple[str, ...],
    conditions: tuple[str, ...],
    by: str | None,
    population: int | None,
    weights: str | None,
    probabilities: str | None,
    strata: str | None,
    clusters: str | None,
    confidence: float,
    plot: Path | None,
    poll: Path | None,
    missing: Missing,
    **layout: str | None,
) -> None:
    """Estimate what a crowd answered from CSV, TSV, Excel or Parquet FILEs of already randomized
    answers (- is standard input).

    Several files are combined. --weights, --probabilities, --strata and --clusters name columns
    that say how people were sampled. Without --column or --mechanisms, FILE.toml says how the
    columns were randomized. With --poll, FILEs are exports of survey software (CSV or JSON) in
    which the poll's snippets asked.
    """
    check_confidence(confidence)
    if poll is not None:
        refuse_other_options()
        estimate_exports(files, poll, confidence)
        return
    given = given_mechanisms(columns, mechanisms)
    wanted: dict[str, Any] = {
        "tables": [_names(table) for table in tables],
        "conditional": _conditions(conditions),
        "by": by,
    }
    options = _options(estimators, candidates)
    reading: dict[str, Any] = {"missing": missing, "layout": TableFormat(**layout)}
    sample = SampleColumns(weights, probabilities, strata, clusters)
    if sample.names and (any(wanted.values()) or options or population is not None):
        raise SurveyError(
            "weights, strata and clusters cannot be combined with tables, groups, estimators or a"
            " population"
        )
    with shown_warnings(SurveyWarning), progress_bar(f"reading {files[0].name}") as progress:
        if sample.names:
            survey = estimate_weighted_file(files, sample, given, progress=progress, **reading)
        else:
            survey = estimate_file(
                files,
                given,
                population=population,
                options=options,
                progress=progress,
                **wanted,
                **reading,
            )
    if plot:
        save_figure(survey.plot(), plot)
    header = ["column", "label", "estimate", "stderr", "low", "high"]
    emit(
        _to_dict(survey, confidence),
        lambda: _parts(survey, confidence),
        lambda: (header, _rows(survey, confidence)),
    )


def _parts(survey: Survey, confidence: float) -> list[Part]:
    """What a person reads: a table with whiskers per column and group, then the joint tables."""
    parts: list[Part] = []
    for name, found in survey.parts():
        parts += [*([""] if parts else []), *show_display(found._display(confidence), name)]
    for table in survey.tables:
        parts += [*([""] if parts else []), *show_display(table._display(confidence))]
    if survey.tests:
        parts += ["", *map(str, survey.tests.values())]
    return parts


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _conditions(texts: tuple[str, ...]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    pairs = []
    for text in texts:
        of, bar, given = text.partition("|")
        if not (of.strip() and bar and given.strip()):
            raise SurveyError(
                f"--conditional {text!r} must have the form OF|GIVEN, as in 'smokes|city'"
            )
        pairs.append((_names(of), _names(given)))
    return pairs


def _options(estimators: tuple[str, ...], candidates: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    options: dict[str, dict[str, Any]] = {}
    for kind, texts in (("estimator", estimators), ("candidates", candidates)):
        for text in texts:
            name, equals, value = text.partition("=")
            if not (name and equals and value):
                raise SurveyError(f"--{kind} {text!r} must have the form NAME=VALUE")
            options.setdefault(name, {})[kind] = value.split("|") if kind == "candidates" else value
    return options


def _to_dict(survey: Survey, confidence: float) -> dict[str, Any]:
    document: dict[str, Any] = {
        "n": survey.n,
        "columns": {
            name: _described(estimate, confidence) for name, estimate in survey.estimates.items()
        },
        "tables": [table.to_dict(confidence) for table in survey.tables],
    }
    if survey.tests:
        document["tests"] = {
            name: {**test.to_dict(), "p_value": test.p_value} for name, test in survey.tests.items()
        }
    if survey.by is not None:
        document["by"] = survey.by
        document["groups"] = {
            group: {name: _described(estimate, confidence) for name, estimate in estimates.items()}
            for group, estimates in survey.groups.items()
        }
    return document


def _described(estimate: Estimate, confidence: float) -> dict[str, Any]:
    document = estimate.to_dict(confidence)
    if estimate.numeric:
        document["summary"] = [
            _without_law(part.to_dict(confidence)) for part in estimate.summary()
        ]
    return document


def _without_law(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "law"}


def _rows(survey: Survey, confidence: float) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for name, estimate in survey.parts():
        if estimate.numeric:
            for part in estimate.summary():
                low, high = (None, None) if part.biased else part.interval(confidence)
                rows.append([name, part.name, part.value, part.stderr, low, high])
        shown = zip(
            estimate.labels,
            estimate.proportions,
            estimate.stderr,
            estimate.interval(confidence),
            strict=True,
        )
        rows += [
            [name, label, proportion, stderr, low, high]
            for label, proportion, stderr, (low, high) in shown
        ]
    for table in survey.tables:
        rows += _table_rows(table, confidence)
    return rows


def _table_rows(table: Table, confidence: float) -> list[list[Any]]:
    name = " × ".join(table.axes)
    labels = (" × ".join(map(str, combination)) for combination in product(*table.labels))
    bounds = table.interval(confidence).reshape(-1, 2)
    shown = zip(
        labels, table.proportions.reshape(-1), table.stderr.reshape(-1), bounds, strict=True
    )
    return [
        [name, label, proportion, stderr, low, high]
        for label, proportion, stderr, (low, high) in shown
    ]
