"""`deniable survey`: prepare a survey."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.cli.output import say, write_new
from deniable.cli.survey import format_options
from deniable.errors import SurveyError
from deniable.survey.template import propose_columns
from deniable.table_file import TableFormat

_FILE = click.Path(path_type=Path)


@click.group()
def survey() -> None:
    """Prepare a survey: propose the mechanisms of its columns."""


@survey.command()
@click.argument("pilot", type=_FILE, required=False)
@click.option("--dictionary", "-d", type=_FILE, help="A table with one row per label: column, value and, optionally, label.")
@click.option("--epsilon", type=float, required=True, help="The loss of a person's whole row, split equally among its columns.")
@click.option(
    "--at-least", type=int, default=3, show_default=True, help="Propose a pilot's label if at least this many people gave it."
)
@click.option("--output", "-o", type=_FILE, metavar="FILE.toml", help="The file to write. [default: print]")
@format_options
def template(
    pilot: Path | None, dictionary: Path | None, epsilon: float, at_least: int, output: Path | None, **layout: str | None
) -> None:
    """Propose a TOML file of mechanisms for `deniable randomize --mechanisms`.

    Labels come from a dictionary of the survey, from a PILOT file of answers, or from both. Check the proposal: the file is
    public, and people can give only the answers it lists.
    """
    text = propose_columns(epsilon, pilot=pilot, dictionary=dictionary, at_least=at_least, layout=TableFormat(**layout))
    if output is None:
        say(text.rstrip("\n"))
        return
    write_new(output, text, SurveyError)
    say(f"Wrote {output}: check its labels and ranges, then give it to deniable randomize --mechanisms.")
