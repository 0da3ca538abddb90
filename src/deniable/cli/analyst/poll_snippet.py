"""`deniable poll snippet`: a question of a poll inside somebody else's survey software."""

from __future__ import annotations

from pathlib import Path

import click

from deniable.cli.helping import command
from deniable.cli.output import emit, output_options, write_new
from deniable.errors import ServiceError
from deniable.poll.files import read_poll
from deniable.poll.hosted.platforms import PLATFORMS
from deniable.poll.hosted.snippet import instructions
from deniable.poll.hosted.snippet import snippet as snippet_text

__all__ = ["snippet"]


@command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--for", "platform", type=click.Choice(sorted(PLATFORMS)), required=True, help="The software."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="The folder to write, which must not exist yet. [default: the poll's id and the software]",
)
@output_options
def snippet(file: Path, platform: str, output: Path | None) -> None:
    """Write snippets that ask the questions of the poll in FILE inside other survey software.

    The respondent's browser randomizes, and the survey's own field stores what the coins said;
    instructions.html says what to do. `deniable estimate EXPORT --poll FILE` reads the exports.
    """
    found, chosen = read_poll(file), PLATFORMS[platform]
    output = output or file.parent / f"{found.id}-{platform}"
    texts = {
        f"{question.id}.{chosen.ending}": snippet_text(found, question, chosen)
        for question in found.questions
    }
    names = dict(zip((each.id for each in found.questions), texts, strict=True))
    texts["instructions.html"] = instructions(found, names, chosen, file.name)
    try:
        output.mkdir()
    except OSError as error:
        raise ServiceError(f"{output} cannot be created: {error.strerror}") from None
    for name, text in texts.items():
        write_new(output / name, text, ServiceError)
    emit(
        {"written": [str(output / name) for name in texts]},
        f"Wrote {', '.join(texts)} to {output}: read instructions.html.",
    )
