"""The `deniable` command: one file a group of commands. The only room that prints."""

from __future__ import annotations

import click

import deniable
from deniable.errors import DeniableError

__all__ = ["cli", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deniable.__version__, prog_name="deniable")
def cli() -> None:
    """Ask a crowd a question and learn the crowd's answer, never a person's."""


def main() -> None:
    """Run the command; an error of ours is one line on standard error and exit code 2, never a traceback."""
    try:
        cli.main(standalone_mode=True)
    except DeniableError as error:
        click.echo(f"deniable: {error}", err=True)
        raise SystemExit(2) from None
