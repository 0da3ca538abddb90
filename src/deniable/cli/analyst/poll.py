"""`deniable poll`: a question asked by a link."""

from __future__ import annotations

import importlib

import click

from deniable.cli.helping import CommandGroup

__all__ = ["poll"]

_COMMANDS = {
    "ask": "poll_trial:ask",
    "serve": "poll_serve:serve",
    "open": "poll_commands:open_command",
    "kit": "poll_paper:kit",
    "poster": "poll_paper:poster",
    "snippet": "poll_snippet:snippet",
    **{
        name: f"poll_commands:{name}"
        for name in ("new", "check", "close", "codes", "results", "verify")
    },
}
"""Where each command is defined. It is imported only when it is run: the page's own process loads
nothing that could read an answer."""


class _PollGroup(CommandGroup):
    """A group in which a question in place of a command asks it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        found = importlib.import_module(f"deniable.cli.analyst.{module}")
        command: click.Command = getattr(found, name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            args = ["ask", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_PollGroup)
def poll() -> None:
    """Ask a sensitive question by a link: each browser randomizes its answer, and you learn what
    the crowd says.

    `deniable poll "Have you ever driven drunk?" yes no` runs a whole poll on this machine; the
    commands are for one whose services are run by others. docs/poll.md is the tutorial.
    """
