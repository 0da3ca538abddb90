"""`deniable randomize` and `deniable estimate`: files of answers and files of reports."""

from __future__ import annotations

import math
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import click

from deniable.cli.output import as_csv, as_json, output_options, progress_bar, save_figure, say
from deniable.errors import SurveyError, WholeNumbersWarning
from deniable.estimation.intervals import check_confidence
from deniable.estimation.tables import Table
from deniable.mechanisms.mechanism import Mechanism
from deniable.survey import Survey, estimate_file, parse_column, randomize_file, read_columns
from deniable.survey.files import columns_file

_FILE = click.Path(path_type=Path)
_columns = click.option(
    "--column",
    "-c",
    "columns",
    multiple=True,
    metavar="NAME=MECHANISM:…",
    help="A column and how it is randomized, e.g. 'city=DirectEncoding:k=Oslo|Paris|Rome,epsilon=1'. Repeatable.",
)
_mechanisms = click.option(
    "--mechanisms", "-m", type=_FILE, metavar="FILE.toml", help="The same as a TOML file with a table [columns.NAME] a column."
)


def _given(columns: tuple[str, ...], mechanisms: Path | None) -> dict[str, Mechanism]:
    given = read_columns(mechanisms) if mechanisms else {}
    return given | dict(parse_column(text) for text in columns)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--output", "-o", type=_FILE, required=True, help="The file to write: CSV, or Parquet by its name.")
@_columns
@_mechanisms
@click.option("--keep", multiple=True, metavar="NAME", help="A column to copy as it is. All others are left out. Repeatable.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
def randomize(
    file: Path, output: Path, columns: tuple[str, ...], mechanisms: Path | None, keep: tuple[str, ...], force: bool
) -> None:
    """Randomize columns of a CSV or Parquet FILE, as each person's device would.

    Columns that are neither randomized nor kept are left out. Beside the output stands OUTPUT.toml, which says how each column
    was randomized, so that `deniable estimate OUTPUT` needs no options.
    """
    given = _given(columns, mechanisms)
    with progress_bar(f"randomizing {file.name}") as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", WholeNumbersWarning)
        rows = randomize_file(file, output, given, keep=keep, overwrite=force, progress=progress)
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"deniable: warning: {text}", err=True)
    say(f"Wrote {rows:,} randomized rows to {output}; the mechanisms are recorded in {columns_file(output).name}.")
    for name, mechanism in given.items():
        say(f"  {name}: {mechanism!r}, epsilon {_loss(mechanism.epsilon)}")
    say(_row_loss(given, keep))


def _loss(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.4g}"


def _row_loss(given: dict[str, Mechanism], keep: tuple[str, ...]) -> str:
    """What a person's row tells as a whole, and what of it has no protection at all."""
    total = _loss(sum(mechanism.epsilon for mechanism in given.values()))
    if not keep:
        return f"A person's row as a whole: epsilon {total}."
    kept = ", ".join(keep)
    return (
        f"NOT PROTECTED: {kept} {'is' if len(keep) == 1 else 'are'} copied as in the input. Anyone who reads the file learns "
        f"{'it' if len(keep) == 1 else 'them'}, and may recognize people by {'it' if len(keep) == 1 else 'them'}.\n"
        f"The randomized columns of a person's row together: epsilon {total}, about those columns only."
    )


@click.command()
@click.argument("file", type=_FILE)
@_columns
@_mechanisms
@click.option(
    "--table", "-t", "tables", multiple=True, metavar="A,B,…", help="Estimate the joint table of these columns. Repeatable."
)
@click.option(
    "--estimator", "estimators", multiple=True, metavar="NAME=ESTIMATOR", help="How to estimate a column, e.g. 'age=ems'."
)
@click.option("--candidates", multiple=True, metavar="NAME=A|B|…", help="The texts to look for in a column of RAPPOR reports.")
@click.option("--population", type=int, help="How many people there are, if all who reported are a part of so many.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="What the intervals of --json and --csv cover.")
@click.option("--plot", type=_FILE, metavar="OUT.png", help="Draw the estimates with their error bars.")
@output_options
def estimate(
    file: Path,
    columns: tuple[str, ...],
    mechanisms: Path | None,
    tables: tuple[str, ...],
    estimators: tuple[str, ...],
    candidates: tuple[str, ...],
    population: int | None,
    confidence: float,
    plot: Path | None,
    as_json_: bool,
    as_csv_: bool,
) -> None:
    """Estimate what a crowd answered from a CSV or Parquet FILE of already randomized answers.

    Without --column or --mechanisms, FILE.toml says how the columns were randomized.
    """
    check_confidence(confidence)
    given = _given(columns, mechanisms) or None
    axes = [tuple(part.strip() for part in table.split(",")) for table in tables]
    options = _options(estimators, candidates)
    with progress_bar(f"reading {file.name}") as progress:
        survey = estimate_file(file, given, population=population, tables=axes, options=options, progress=progress)
    if plot:
        from deniable.estimation.plots import draw_survey  # noqa: PLC0415 - matplotlib is slow to import

        save_figure(draw_survey(survey.estimates, survey.tables), plot)
    if as_json_:
        say(as_json(_to_dict(survey, confidence)))
    elif as_csv_:
        say(as_csv(["column", "label", "estimate", "stderr", "low", "high"], _rows(survey, confidence)))
    else:
        say(_readable(survey))


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
    return {
        "n": survey.n,
        "columns": {name: estimate.to_dict(confidence) for name, estimate in survey.estimates.items()},
        "tables": [table.to_dict(confidence) for table in survey.tables],
    }


def _rows(survey: Survey, confidence: float) -> list[list[Any]]:
    rows = []
    for name, estimate in survey.estimates.items():
        shown = zip(estimate.labels, estimate.proportions, estimate.stderr, estimate.interval(confidence), strict=True)
        rows += [[name, label, share, stderr, low, high] for label, share, stderr, (low, high) in shown]
    for table in survey.tables:
        rows += _table_rows(table, confidence)
    return rows


def _table_rows(table: Table, confidence: float) -> list[list[Any]]:
    name = " × ".join(table.axes)
    labels = (" × ".join(map(str, combination)) for combination in product(*table.labels))
    bounds = table.interval(confidence).reshape(-1, 2)
    shown = zip(labels, table.proportions.reshape(-1), table.stderr.reshape(-1), bounds, strict=True)
    return [[name, label, share, stderr, low, high] for label, share, stderr, (low, high) in shown]


def _readable(survey: Survey) -> str:
    parts = [f"{name}\n{_indented(str(estimate))}" for name, estimate in survey.estimates.items()]
    parts += [str(table) for table in survey.tables]
    return "\n\n".join(parts)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
