"""`deniable poll kit` and `deniable poll poster`: what an organiser prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import command
from deniable.cli.output import emit, output_options, write_new
from deniable.errors import ParameterError, ServiceError
from deniable.poll.paper.kit import kit as kit_page
from deniable.poll.paper.paper_designs import DESIGNS, PaperDesign, paper_design
from deniable.poll.paper.poster import poster as poster_page
from deniable.poll.paper.signed_file import PrintedPoll, read_printed_poll

__all__ = ["kit", "poster"]

_FILE = click.argument("file", type=click.Path(path_type=Path))
_LANGUAGE = click.option(
    "--language", help="The language of the poll's texts. [default: the first]"
)


def _output(name: str) -> Callable[..., Any]:
    return click.option(
        "--output",
        "-o",
        type=click.Path(path_type=Path),
        help=f"The file to write. [default: FILE with the ending .{name}.html]",
    )


def _chosen(found: PrintedPoll, language: str | None) -> str:
    languages = found.poll.languages
    if language is None:
        return languages[0]
    if language not in languages:
        raise ParameterError("--language", language, f"must be one of {', '.join(languages)}")
    return language


@command()
@_FILE
@_LANGUAGE
@_output("poster")
@output_options
def poster(file: Path, language: str | None, output: Path | None) -> None:
    """Write a poster with a QR code for the poll in FILE, which was opened: one page of HTML that
    prints on A4 and Letter."""
    found = read_printed_poll(file)
    output = output or file.with_suffix(".poster.html")
    write_new(output, poster_page(found, _chosen(found, language)), ServiceError)
    emit({"written": str(output), "link": str(found.link)}, f"Wrote {output}: open it, and print.")


@command()
@_FILE
@_LANGUAGE
@click.option(
    "--design",
    type=click.Choice(DESIGNS),
    default="coins",
    show_default=True,
    help="How the question is asked on paper or by telephone.",
)
@_output("kit")
@output_options
def kit(file: Path, language: str | None, design: str, output: Path | None) -> None:
    """Write the kit of the poll in FILE: consent, the statement for an ethics board or a data
    protection officer, and the card and script to ask it on paper or by telephone.

    HTML without script, which prints on A4 and Letter. Before the poll is opened, it is marked as a
    draft.
    """
    found = read_printed_poll(file)
    chosen = _chosen(found, language)
    designs: dict[str, PaperDesign] = {}
    without: dict[str, str] = {}
    for question, query in zip(found.poll.questions, found.queries, strict=True):
        options = question.options[chosen]
        try:
            designs[question.id] = paper_design(design, question, options, query.epsilon)
        except ParameterError as error:
            without[question.id] = str(error)
    output = output or file.with_suffix(".kit.html")
    write_new(output, kit_page(found, chosen, designs), ServiceError)
    emit(
        {
            "written": str(output),
            "signed": found.link is not None,
            "epsilon": found.epsilon,
            "paper": {name: each.epsilon for name, each in designs.items()},
            "without_paper": without,
        },
        [
            f"Wrote {output}: open it, and print."
            + ("" if found.link else " It is a draft until the poll is opened."),
            *(f"{name} has no card: {why}" for name, why in without.items()),
        ],
    )
