"""`deniable regress` and `deniable correlate`: what randomized answers depend on, from files."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.checks import check_confidence
from deniable.cli.helping import command
from deniable.cli.output import (
    confidence_option,
    emit,
    flat_rows,
    output_options,
    progress_bar,
    shown_warnings,
)
from deniable.cli.researcher.survey_options import (
    column_options,
    format_options,
    given_mechanisms,
    missing_option,
    sample_options,
)
from deniable.errors import SurveyError, SurveyWarning
from deniable.estimation.regression.linear import LinearRegression
from deniable.mechanisms.designs.text import design_from_text
from deniable.survey.files import Missing
from deniable.survey.regression_file import SampleColumns, correlate_file, regress_file
from deniable.table_file import TableFormat

__all__ = ["correlate", "regress"]

_FILE = click.Path(path_type=Path)


_scores = click.option(
    "--scores",
    multiple=True,
    metavar="NAME=1|2|…",
    help=(
        "Numbers for the labels of a randomized column, in their order; regress needs --linear."
        " Repeatable."
    ),
)


def _parsed_scores(texts: tuple[str, ...]) -> dict[str, list[float]] | None:
    found = {}
    for text in texts:
        name, equals, numbers = text.partition("=")
        try:
            found[name.strip()] = [float(number) for number in numbers.split("|")]
        except ValueError:
            equals = ""
        if not (name.strip() and equals):
            raise SurveyError(f"--scores {text!r} must have the form NAME=1|2|…")
    return found or None


@command()
@click.argument("formula", metavar="'OUTCOME ~ A + B'")
@click.argument("files", metavar="FILE...", type=_FILE, nargs=-1, required=True)
@column_options
@click.option(
    "--linear",
    is_flag=True,
    help="Linear regression of a number or a scored answer, instead of logistic.",
)
@click.option(
    "--design",
    metavar="NAME:PARAMETER=VALUE,…",
    help="The design of the outcome's question: one with two samples, or Scrambling.",
)
@click.option(
    "--group", metavar="COLUMN", help="The sample of each person, 1 or 2, for a design with two."
)
@click.option(
    "--random-intercept",
    metavar="COLUMN",
    help="Clusters whose log-odds differ by a random intercept.",
)
@sample_options
@click.option(
    "--category",
    "categories",
    multiple=True,
    metavar="COLUMN",
    help="Treat a column of numbers as categories. Repeatable.",
)
@click.option(
    "--errors",
    type=click.Choice(["observed", "expected", "scores", "sandwich"]),
    help=(
        "The kind of standard errors. [default: observed, and sandwich with weights, strata or"
        " clusters]"
    ),
)
@click.option(
    "--test",
    "tests",
    multiple=True,
    metavar="A,B,…",
    help="Test whether these coefficients are all 0. Repeatable.",
)
@_scores
@confidence_option
@missing_option
@format_options
@output_options
def regress(
    formula: str,
    files: tuple[Path, ...],
    columns: tuple[str, ...],
    mechanisms: Path | None,
    linear: bool,
    design: str | None,
    group: str | None,
    random_intercept: str | None,
    weights: str | None,
    probabilities: str | None,
    strata: str | None,
    clusters: str | None,
    categories: tuple[str, ...],
    errors: str | None,
    tests: tuple[str, ...],
    scores: tuple[str, ...],
    confidence: float,
    missing: Missing,
    **layout: str | None,
) -> None:
    """Regress an answer on other columns of FILEs, any of which may be randomized.

    The formula names columns: 'used ~ age + region' or 'used ~ age*region' with their product; put
    names with spaces in backticks. Each option of a multiple-choice column predicts; news[web] is
    one option, also as an outcome. FILE.toml, --column or --mechanisms say which columns are
    randomized; all others are used as they are, text as categories. The model is logistic, or
    multinomial for several answers, unless --linear is given. Tests are likelihood-ratio tests, or
    Wald tests with weights, strata, clusters or --linear.
    """
    check_confidence(confidence)
    with shown_warnings(SurveyWarning), progress_bar(f"reading {files[0].name}") as progress:
        fit = regress_file(
            files,
            formula,
            given_mechanisms(columns, mechanisms),
            linear=linear,
            design=None if design is None else design_from_text(design),
            group=group,
            random_intercept=random_intercept,
            sample=SampleColumns(weights, probabilities, strata, clusters),
            errors=errors,
            categories=categories,
            scores=_parsed_scores(scores),
            missing=missing,
            layout=TableFormat(**layout),
            progress=progress,
        )
    asked = [tuple(name.strip() for name in test.split(",")) for test in tests]
    wald = isinstance(fit, LinearRegression) or fit.errors == "sandwich"
    found = [(fit.wald if wald else fit.likelihood_ratio)(*names) for names in asked]  # type: ignore[union-attr]
    emit(
        {**fit.to_dict(confidence), "tests": [vars(test) for test in found]},
        [str(fit), *map(str, found)],
        lambda: flat_rows(fit.rows(confidence)),
    )


@command()
@click.argument("files", metavar="FILE...", type=_FILE, nargs=-1, required=True)
@click.option(
    "--of", "pair", required=True, metavar="A,B,…", help="Two columns, or more for all pairs."
)
@column_options
@sample_options
@_scores
@confidence_option
@missing_option
@format_options
@output_options
def correlate(
    files: tuple[Path, ...],
    pair: str,
    columns: tuple[str, ...],
    mechanisms: Path | None,
    weights: str | None,
    probabilities: str | None,
    strata: str | None,
    clusters: str | None,
    scores: tuple[str, ...],
    confidence: float,
    missing: Missing,
    **layout: str | None,
) -> None:
    """Estimate correlations between columns of FILEs, any of which may be randomized.

    FILE.toml, --column or --mechanisms say which columns are randomized; of these, two labels count
    as 0 and 1, and numeric labels as their values, others by --scores. All other columns must be
    numbers.
    """
    check_confidence(confidence)
    with shown_warnings(SurveyWarning), progress_bar(f"reading {files[0].name}") as progress:
        found = correlate_file(
            files,
            [name.strip() for name in pair.split(",")],
            given_mechanisms(columns, mechanisms),
            sample=SampleColumns(weights, probabilities, strata, clusters),
            scores=_parsed_scores(scores),
            missing=missing,
            layout=TableFormat(**layout),
            progress=progress,
        )
    emit(
        [statistic.to_dict(confidence) for statistic in found],
        [str(statistic) for statistic in found],
        (
            ["name", "correlation", "stderr", "low", "high"],
            [[each.name, each.value, each.stderr, *each.interval(confidence)] for each in found],
        ),
    )
