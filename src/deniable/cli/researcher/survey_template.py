"""`deniable survey`: prepare a survey."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from deniable.checks import check_confidence
from deniable.cli.helping import group
from deniable.cli.output import (
    Part,
    Rows,
    confidence_option,
    emit,
    output_options,
    save_figure,
    show_display,
    shown_warnings,
    write_new,
)
from deniable.cli.researcher.survey_options import format_options, missing_option
from deniable.errors import SurveyError, SurveyWarning
from deniable.planning.study import compare_designs
from deniable.survey.design_file import read_design_estimates
from deniable.survey.documents.report import write_report
from deniable.survey.files import Missing
from deniable.survey.synthetic import synthesize_file
from deniable.survey.template import propose_columns
from deniable.table_file import TableFormat

_FILE = click.Path(path_type=Path)


@group()
def survey() -> None:
    """Prepare a survey, compare designs for a sensitive question, estimate from counts, write the
    report."""


@survey.command()
@click.argument("pilot", type=_FILE, required=False)
@click.option(
    "--dictionary",
    "-d",
    type=_FILE,
    help="A table with one row per label: column, value and, optionally, label.",
)
@click.option(
    "--epsilon",
    type=float,
    required=True,
    help="The loss of a person's whole row, split equally among its columns.",
)
@click.option(
    "--at-least",
    type=int,
    default=3,
    show_default=True,
    help="Propose a pilot's label if at least this many people gave it.",
)
@click.option(
    "--output", "-o", type=_FILE, metavar="FILE.toml", help="The file to write. [default: print]"
)
@format_options
@output_options
def template(
    pilot: Path | None,
    dictionary: Path | None,
    epsilon: float,
    at_least: int,
    output: Path | None,
    **layout: str | None,
) -> None:
    """Propose a TOML file of mechanisms for `deniable randomize --mechanisms`.

    Labels come from a dictionary of the survey, from a PILOT file of answers, or from both. Check
    the proposal: the file is public, and people can give only the answers it lists.
    """
    text = propose_columns(
        epsilon, pilot=pilot, dictionary=dictionary, at_least=at_least, layout=TableFormat(**layout)
    )
    if output is not None:
        write_new(output, text, SurveyError)
    said = (
        f"Wrote {output}: check its labels and ranges, then give it to deniable randomize"
        " --mechanisms."
    )
    document = (
        tomllib.loads(text) if output is None else {"file": str(output), **tomllib.loads(text)}
    )
    emit(document, text.rstrip("\n").splitlines() if output is None else said)


@survey.command()
@click.option(
    "--prevalence", type=float, required=True, help="The expected proportion of carriers."
)
@click.option(
    "--epsilon", type=float, required=True, help="The loss that all compared designs have."
)
@click.option(
    "--margin", type=float, default=0.03, show_default=True, help="The half-width wanted."
)
@click.option(
    "--direct-denial",
    type=float,
    default=0.0,
    help="The proportion of carriers who would deny it if asked directly.",
)
@click.option(
    "--denial",
    type=float,
    default=0.0,
    help="The proportion of carriers who deny it even behind the design.",
)
@confidence_option
@click.option("--plot", type=_FILE, metavar="OUT.png", help="Plot the people needed.")
@output_options
def designs(plot: Path | None, **options: float) -> None:
    """Compare designs for one sensitive question: which needs how many people, at the same
    protection."""
    found = compare_designs(options.pop("prevalence"), options.pop("epsilon"), **options)
    if plot is not None:
        save_figure(found.plot().figure, plot)
    emit(found.to_dict(), found)


@survey.command("estimate")
@click.argument("file", type=_FILE, metavar="DESIGNS.toml")
@confidence_option
@output_options
def estimate_designs(file: Path, confidence: float) -> None:
    """Estimate from the counts of survey designs: dice, cards, birthdays, lists, scrambled numbers.

    FILE has one table [questions.NAME] per question, with its design and its counts
    (docs/designs.md).
    """
    check_confidence(confidence)
    found = read_design_estimates(file)
    emit(
        {name: estimate.to_dict() for name, estimate in found.items()},
        lambda: _design_parts(found, confidence),
        lambda: _design_rows(found, confidence),
    )


def _design_parts(found: Mapping[str, Any], confidence: float) -> list[Part]:
    parts: list[Part] = []
    for name, estimate in found.items():
        parts += [*([""] if parts else []), *show_display(estimate._display(confidence), name)]
    return parts


def _design_rows(found: Mapping[str, Any], confidence: float) -> Rows:
    rows: list[list[Any]] = []
    for name, estimate in found.items():
        limits = zip(
            estimate.names,
            estimate.values,
            estimate.stderr,
            estimate.interval(confidence),
            strict=True,
        )
        rows += [
            [name, parameter, value, error, low, high]
            for parameter, value, error, (low, high) in limits
        ]
    return ["question", "parameter", "estimate", "stderr", "low", "high"], rows


@survey.command()
@click.argument("file", type=_FILE, metavar="SURVEY.toml")
@click.option(
    "--output",
    "-o",
    type=_FILE,
    required=True,
    help="The report: .html, .docx or .md, by its extension.",
)
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@confidence_option
@output_options
def report(file: Path, output: Path, force: bool, confidence: float) -> None:
    """Write a survey's report: methods, response, estimates, tables, regressions, pictures,
    limitations.

    FILE names the randomized answers, tables and regressions, and may hold counts of designs
    (docs/survey.md).
    """
    if output.exists() and not force:
        raise SurveyError(f"{output} exists already")
    with shown_warnings(SurveyWarning):
        write_report(file, output, confidence)
    emit({"file": str(output)}, f"Wrote {output}.")


@survey.command()
@click.argument("files", metavar="FILE...", type=_FILE, nargs=-1, required=True)
@click.option("--output", "-o", type=_FILE, required=True, help="The file of drawn rows to write.")
@click.option("--rows", type=int, help="How many rows to draw. [default: as many as reports]")
@click.option("--seed", type=int, help="Draw the same rows again.")
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@missing_option
@format_options
@output_options
def synthesize(
    files: tuple[Path, ...],
    output: Path,
    rows: int | None,
    seed: int | None,
    force: bool,
    missing: Missing,
    **layout: str | None,
) -> None:
    """Draw rows that nobody gave from the estimates of randomized FILEs: data that can be shared.

    Says what the rows keep of the estimates and what they lose (docs/survey.md).
    """
    options: dict[str, Any] = {"rows": rows, "seed": seed, "overwrite": force, "missing": missing}
    with shown_warnings(SurveyWarning):
        found = synthesize_file(files, output, layout=TableFormat(**layout), **options)
    emit({"file": str(output), **found.to_dict()}, f"Wrote {output}: {found}")
