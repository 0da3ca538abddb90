"""The `deniable` command: one file a group of commands. The only room that prints."""

from __future__ import annotations

from importlib import import_module

import click

import deniable
from deniable.errors import DeniableError

__all__ = ["COMMANDS", "LazyGroup", "cli", "main"]

COMMANDS = {
    "vault": "deniable.cli.vault:vault",
}
"""Each command and where it is; imported when it runs, so that no command waits for another's libraries."""


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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
