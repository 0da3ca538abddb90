"""The `deniable` command: one file per command group. The only package that prints."""

from __future__ import annotations

import importlib

import click

import deniable
from deniable.cli.output import plain, say
from deniable.errors import DeniableError

__all__ = ["cli", "main"]

ROLES = {
    "person, whose data it is": {
        "vault": "deniable.cli.vault:vault",
        "client": "deniable.cli.client:client",
    },
    "analyst, who asks": {
        "history": "deniable.cli.history:history",
        "plan": "deniable.cli.plan:plan",
        "query": "deniable.cli.query:query",
        "rehearse": "deniable.cli.rehearse:rehearse_query",
        "results": "deniable.cli.results:results",
    },
    "operator, who runs the services": {
        "aggregator": "deniable.cli.aggregator:aggregator",
        "collector": "deniable.cli.collector:collector",
        "kafka": "deniable.cli.kafka:kafka",
        "proxy": "deniable.cli.proxy:proxy",
        "ring": "deniable.cli.ring:ring",
        "size": "deniable.cli.size:size",
        "spark": "deniable.cli.spark:spark",
        "up": "deniable.cli.up:up",
    },
    "researcher, with a survey or a protocol": {
        "audit": "deniable.cli.audit:audit",
        "compare": "deniable.cli.compare:compare",
        "correlate": "deniable.cli.regress:correlate",
        "curate": "deniable.cli.curate:curate",
        "demo": "deniable.cli.demo:demo",
        "estimate": "deniable.cli.survey:estimate",
        "graph": "deniable.cli.graph:graph",
        "models": "deniable.cli.models:models",
        "power": "deniable.cli.power:power",
        "privacy": "deniable.cli.privacy:privacy",
        "randomize": "deniable.cli.survey:randomize",
        "regress": "deniable.cli.regress:regress",
        "release": "deniable.cli.release:release",
        "reproduce": "deniable.cli.reproduce:reproduce",
        "survey": "deniable.cli.survey_template:survey",
    },
}
"""Where each command is defined, by the role of the people who use it. A command is imported only when it is run, so that no
command waits for another's libraries."""
COMMANDS = {name: place for commands in ROLES.values() for name, place in commands.items()}


_LONGEST_SENTENCE = 200
"""Characters of a first sentence that help shows: enough for every command, as a test checks."""


_EXTRAS = {
    "scipy": "estimation",
    **dict.fromkeys(("fastapi", "uvicorn", "pydantic", "prometheus_client"), "service"),
    "pandas": "frames",
    "pyarrow": "frames",
}
"""The extra that installs a package a command may find missing."""


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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands of each role, with whole first sentences."""
        for role, commands in ROLES.items():
            with formatter.section(f"Commands for the {role}"):
                rows = [(name, self._first_sentence(ctx, name)) for name in sorted(commands)]
                formatter.write_dl(rows)

    def _first_sentence(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(limit=_LONGEST_SENTENCE)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. A `DeniableError` or a usage error is one line on standard error and exit code 2, never a traceback.

        A group without a command still shows its help.
        """
        try:
            return super().invoke(ctx)
        except DeniableError as error:
            raise OneLineError(str(error)) from None
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get((error.name or "").partition(".")[0])
            if extra is None:
                raise
            raise OneLineError(f"this command needs {error.name}: pip install 'deniable[{extra}]'") from None
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
        say(f"deniable: {plain(self.message, lines=False)}", err=True)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(deniable.__version__, prog_name="deniable")
def cli() -> None:
    """Ask a crowd a question and learn the crowd's answer, never a person's.

    Exit codes: 0, success; 1, a check failed; 2, bad input or a refusal, explained in one line on standard error; 130,
    interrupted.
    """


def main() -> None:
    """Run the command line."""
    cli.main(prog_name="deniable")
