"""The `deniable` command: one file a group of commands. The only room that prints."""

from __future__ import annotations

from importlib import import_module

import click

import deniable
from deniable.errors import DeniableError

__all__ = ["cli", "main"]

# Each command lives in the module of its name and is imported when it is called, so that no command pays for another's imports.
_COMMANDS = {
    "plan": "Find sampling and parameters for what you can afford, or what they can show.",
}


class _Commands(click.Group):
    """Commands that are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"deniable.cli.{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an error of ours is one line on standard error and exit code 2, never a traceback."""
        try:
            return super().invoke(ctx)
        except DeniableError as error:
            click.echo(f"deniable: {error}", err=True)
            ctx.exit(2)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deniable.__version__, prog_name="deniable")
def cli() -> None:
    """Ask a crowd a question and learn the crowd's answer, never a person's."""


def main() -> None:
    """Run the command."""
    cli.main()
