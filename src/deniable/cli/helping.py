"""The help of commands and groups: whole sentences, examples, and nothing cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import click

from deniable.cli.examples import EXAMPLES
from deniable.cli.tables import wrap_line
from deniable.display import pad, text_width

__all__ = ["CommandGroup", "ExampledCommand", "command", "first_sentence", "group"]

_LONGEST_NAME = 26
"""Columns of an option's name beside which its text begins: 50 remain for the text in a terminal of
80."""
_LONGEST_SENTENCE = 1000
"""More characters than any first sentence has: click cuts a longer one."""


class WholeWords(click.HelpFormatter):
    """Help that is wrapped between words only: click's own breaks `late-phones` in two."""

    def write_text(self, text: str) -> None:
        """Paragraphs, which blank lines separate."""
        paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)]
        start = " " * self.current_indent
        self.write(
            "\n\n".join("\n".join(wrap_line(start + each, self.width)) for each in paragraphs)
            + "\n"
        )

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = _LONGEST_NAME, col_spacing: int = 2
    ) -> None:
        """Names and their texts side by side; a text begins below a name that is too long."""
        rows = list(rows)
        column = min(max(text_width(name) for name, _ in rows), col_max) + col_spacing
        start = " " * self.current_indent
        for name, text in rows:
            lines = wrap_line(" ".join(text.split()), max(self.width - len(start) - column, 10))
            if text_width(name) > column - col_spacing:
                self.write(f"{start}{name}\n")
                name = ""  # noqa: PLW2901 - it is written
            for line in lines:
                self.write(f"{start}{pad(name, column)}{line}".rstrip() + "\n")
                name = ""  # noqa: PLW2901


class HelpContext(click.Context):
    """A context whose help is wrapped between words."""

    formatter_class = WholeWords


def first_sentence(found: click.Command) -> str:
    """What a command does, as its group's help says it."""
    return found.get_short_help_str(limit=_LONGEST_SENTENCE)


def _write_examples(context: click.Context, formatter: click.HelpFormatter) -> None:
    examples = EXAMPLES.get(" ".join(context.command_path.split()[1:]), ())
    if examples:
        with formatter.section("Examples"):
            start = " " * formatter.current_indent
            for example in examples:
                for line in _copyable(example, formatter.width - len(start)):
                    formatter.write(f"{start}{line}\n")


def _copyable(example: str, width: int) -> list[str]:
    """A command line as lines of at most so many columns that a shell reads as one: broken before
    options.

    >>> _copyable("deniable query new query.toml --id commute", 36)
    ['deniable query new query.toml \\\\', '    --id commute']
    """
    lines = [""]
    for part in re.split(r" (?=--?[a-z])", example):
        longer = f"{lines[-1]} {part}".lstrip() if len(lines) == 1 else f"{lines[-1]} {part}"
        if lines[-1] and len(longer) + 2 > width:
            lines[-1] += " \\"
            lines.append(f"    {part}")
        else:
            lines[-1] = longer
    return lines


class ExampledCommand(click.Command):
    """A command whose help ends with examples."""

    context_class = HelpContext

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they can be copied."""
        _write_examples(ctx, formatter)


class CommandGroup(click.Group):
    """A group whose help shows the whole first sentence of each of its commands."""

    context_class = HelpContext
    command_class = ExampledCommand
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands, in the order of their names."""
        with formatter.section("Commands"):
            self.write_commands(ctx, formatter, self.list_commands(ctx))

    def write_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter, names: list[str]
    ) -> None:
        """The named commands, each with its first sentence."""
        found = [(name, self.get_command(ctx, name)) for name in names]
        formatter.write_dl(
            [(name, first_sentence(each)) for name, each in found if each is not None]
        )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they can be copied."""
        _write_examples(ctx, formatter)


def command(name: str | None = None) -> Callable[[Callable[..., Any]], ExampledCommand]:
    """A command that is not in a group of its own."""
    return click.command(name, cls=ExampledCommand)


def group() -> Callable[[Callable[..., Any]], CommandGroup]:
    """A group of commands."""
    return click.group(cls=CommandGroup)
