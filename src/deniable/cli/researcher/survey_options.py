"""Options about files of answers and reports: their columns, layout and sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from deniable.mechanisms.questionnaire import Questionnaire
from deniable.survey import parse_columns, read_questionnaire
from deniable.survey.files import Missing

__all__ = [
    "FILE",
    "column_options",
    "columns_option",
    "format_options",
    "given_mechanisms",
    "mechanisms_option",
    "missing_option",
    "sample_options",
]


FILE = click.Path(path_type=Path)
columns_option = click.option(
    "--column",
    "-c",
    "columns",
    multiple=True,
    metavar="NAME=MECHANISM:…",
    help=(
        "A column and how it is randomized, such as"
        " 'city=DirectEncoding:values=Oslo|Rome,epsilon=1'. Repeatable."
    ),
)
mechanisms_option = click.option(
    "--mechanisms",
    "-m",
    type=FILE,
    metavar="FILE.toml",
    help="The same as a TOML file, with one table [columns.NAME] per column.",
)


missing_option = click.option(
    "--missing",
    type=click.Choice(get_args(Missing)),
    default="refuse",
    show_default=True,
    help=(
        "What to do with missing values: refuse the file, drop the row, or use the label 'missing'."
    ),
)


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for what a file's name does not say."""
    for option in (
        click.option(
            "--sheet", metavar="NAME", help="The sheet of an Excel file. [default: the first]"
        ),
        click.option(
            "--encoding",
            metavar="NAME",
            help="The encoding of text files, such as latin-1. [default: UTF-8]",
        ),
        click.option(
            "--delimiter",
            metavar="CHARACTER",
            help="The field separator of text files. [default: detected]",
        ),
    ):
        command = option(command)
    return command


def column_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how columns were randomized."""
    return columns_option(mechanisms_option(command))


def sample_options(command: Any) -> Any:
    """The columns that say how people were sampled."""
    for option in (
        click.option(
            "--clusters",
            metavar="COLUMN",
            help="The cluster each person was sampled in, such as a school.",
        ),
        click.option(
            "--strata", metavar="COLUMN", help="The stratum each person was sampled from."
        ),
        click.option(
            "--probabilities", metavar="COLUMN", help="Inclusion probabilities, instead of weights."
        ),
        click.option(
            "--weights",
            metavar="COLUMN",
            help="How many people in the population each person represents.",
        ),
    ):
        command = option(command)
    return command


def given_mechanisms(columns: tuple[str, ...], mechanisms: Path | None) -> Questionnaire | None:
    """How the columns named in the options were randomized; None if no column is named."""
    named = parse_columns(columns)
    if mechanisms is None:
        return Questionnaire(named) if named else None
    given = read_questionnaire(mechanisms)
    return dataclasses.replace(given, mechanisms={**given.mechanisms, **named}) if named else given
