"""The `deniable` command: one file per command group. The only package that prints."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

import deniable
from deniable.cli.helping import CommandGroup
from deniable.cli.output import plain, say
from deniable.errors import DeniableError
from deniable.renames import RenamedWarning, current_command_line

__all__ = ["cli", "main"]

ROLES = {
    "person, whose data it is": {
        "vault": "deniable.cli.person.vault:vault",
        "client": "deniable.cli.person.client:client",
    },
    "analyst, who asks": {
        "history": "deniable.cli.analyst.history:history",
        "plan": "deniable.cli.researcher.plan:plan",
        "poll": "deniable.cli.analyst.poll:poll",
        "query": "deniable.cli.analyst.query:query",
        "rehearse": "deniable.cli.analyst.rehearse:rehearse_query",
        "results": "deniable.cli.analyst.results:results",
    },
    "operator, who runs the services": {
        "aggregator": "deniable.cli.operator.aggregator:aggregator",
        "collector": "deniable.cli.operator.collector:collector",
        "kafka": "deniable.cli.operator.kafka:kafka",
        "proxy": "deniable.cli.operator.proxy:proxy",
        "ring": "deniable.cli.analyst.ring:ring",
        "size": "deniable.cli.operator.size:size",
        "spark": "deniable.cli.operator.spark:spark",
        "up": "deniable.cli.operator.up:up",
    },
    "researcher, with a survey or a protocol": {
        "audit": "deniable.cli.operator.audit:audit",
        "compare": "deniable.cli.researcher.compare:compare",
        "correlate": "deniable.cli.researcher.regress:correlate",
        "coverage": "deniable.cli.researcher.coverage:coverage",
        "curate": "deniable.cli.researcher.curate:curate",
        "demo": "deniable.cli.demonstration.demo:demo",
        "estimate": "deniable.cli.researcher.survey:estimate",
        "graph": "deniable.cli.researcher.graph:graph",
        "models": "deniable.cli.researcher.models:models",
        "power": "deniable.cli.researcher.power:power",
        "privacy": "deniable.cli.researcher.privacy:privacy",
        "randomize": "deniable.cli.researcher.survey:randomize",
        "regress": "deniable.cli.researcher.regress:regress",
        "release": "deniable.cli.researcher.release:release",
        "reproduce": "deniable.cli.researcher.reproduce:reproduce",
        "survey": "deniable.cli.researcher.survey_template:survey",
    },
}
"""Where each command is defined, by the role of the people who use it. A command is imported only
when it is run, so that no command waits for another's libraries."""
_WIDEST = 100
"""Columns of help, if the terminal has them: longer lines are hard to read."""
COMMANDS = {name: place for commands in ROLES.values() for name, place in commands.items()}


_EXTRAS = {
    "scipy": "estimation",
    **dict.fromkeys(("fastapi", "uvicorn", "pydantic", "prometheus_client"), "service"),
    "pandas": "frames",
    "pyarrow": "frames",
}
"""The extra that installs a package a command may find missing."""


class LazyGroup(CommandGroup):
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
                self.write_commands(ctx, formatter, sorted(commands))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; old names in it are still understood."""
        ctx.with_resource(_renames_told())
        return super().parse_args(ctx, current_command_line(args))

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. A `DeniableError` or a usage error is one line on standard error and
        exit code 2, never a traceback.

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
            raise OneLineError(
                f"this command needs {error.name}: pip install 'deniable[{extra}]'"
            ) from None
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            where = (error.ctx or ctx).command_path
            raise OneLineError(f"{error.format_message()} (see {where} --help)") from None


@contextmanager
def _renames_told() -> Iterator[None]:
    """Each old name that is used, on the command line or in a file, is one line on standard
    error."""
    told: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if not issubclass(category, RenamedWarning):
            others(message, category, *rest)
        elif str(message) not in told:
            told.add(str(message))
            say(f"deniable: {plain(str(message), lines=False)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", RenamedWarning)
        others = warnings.showwarning
        warnings.showwarning = show  # type: ignore[assignment]
        yield


class OneLineError(click.ClickException):
    """An error that a person can act on."""

    exit_code = 2

    def show(self, file: object = None) -> None:
        """One line, on standard error."""
        say(f"deniable: {plain(self.message, lines=False)}", err=True)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST},
)
@click.version_option(deniable.__version__, prog_name="deniable")
def cli() -> None:
    """Ask a crowd a question and learn the crowd's answer, never a person's.

    Exit codes: 0, success; 1, a check failed; 2, bad input or a refusal, explained in one line on
    standard error; 130, interrupted.
    """


def main() -> None:
    """Run the command line."""
    cli.main(prog_name="deniable")
