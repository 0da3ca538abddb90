"""The `deniable` command: one file a group of commands. The only room that prints."""

from __future__ import annotations

import importlib

import click

import deniable
from deniable.errors import DeniableError

__all__ = ["cli", "main"]

COMMANDS = {
    "client": "deniable.cli.client:client",
    "aggregator": "deniable.cli.aggregator:aggregator",
    "demo": "deniable.cli.demo:demo",
    "estimate": "deniable.cli.survey:estimate",
    "kafka": "deniable.cli.kafka:kafka",
    "plan": "deniable.cli.plan:plan",
    "power": "deniable.cli.power:power",
    "proxy": "deniable.cli.proxy:proxy",
    "query": "deniable.cli.query:query",
    "randomize": "deniable.cli.survey:randomize",
    "size": "deniable.cli.size:size",
    "spark": "deniable.cli.spark:spark",
    "up": "deniable.cli.up:up",
    "vault": "deniable.cli.vault:vault",
}
"""Where each command is defined. It is imported when it is run, so that none has to wait for the libraries of another."""


class LazyGroup(click.Group):
    """Commands that are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error of ours is one line on standard error and exit code 2, never a traceback.

        So is a slip in the options; a group without a command still shows its help.
        """
        try:
            return super().invoke(ctx)
        except DeniableError as error:
            raise OneLineError(str(error)) from None
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            where = (error.ctx or ctx).command_path
            raise OneLineError(f"{error.format_message()} (see {where} --help)") from None


class OneLineError(click.ClickException):
    """An error that a person can act on."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """One line, on standard error."""
        click.echo(f"deniable: {self.message}", err=True)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deniable.__version__, prog_name="deniable")
def cli() -> None:
    """Ask a crowd a question and learn the crowd's answer, never a person's."""


def main() -> None:
    """Run the command line."""
    cli.main(prog_name="deniable")
