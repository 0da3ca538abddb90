"""One word for one meaning on the command line, and old words that are still read."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.renames import OPTIONS, RenamedWarning, current_command_line

WORDS = {
    "--proportion": ("--share", "--shares"),
    "--margin": ("--wish", "--error"),
    "--start": ("--from", "--since"),
    "--end": ("--to", "--until"),
    "--population": ("--users", "--people", "--clients"),
    "--n-reports": ("--n",),
    "--trials": ("--runs", "--repetitions"),
    "--output": ("--out", "--export"),
    "--memoize": ("--memoized", "--permanent"),
    "--sampled-epsilon": ("--epsilon-sampled",),
}
FORBIDDEN = {old: word for word, others in WORDS.items() for old in others}


def options(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """All options of a command and of those below it."""
    for option in command.params:
        if isinstance(option, click.Option):
            yield from ((" ".join(path), name) for name in option.opts)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from options(inner, (*path, name))


def forbidden(command: click.Command) -> list[str]:
    """The options whose meaning has another word."""
    return [
        f"{path} {name}: {FORBIDDEN[name]}" for path, name in options(command) if name in FORBIDDEN
    ]


def test_every_option_has_the_word_of_its_meaning() -> None:
    assert forbidden(cli) == []


def test_another_word_is_seen() -> None:
    planted = click.Command("plan", params=[click.Option(["--share"])])
    assert forbidden(click.Group("deniable", {"plan": planted})) == ["plan --share: --proportion"]


def test_each_old_option_is_read_as_one_that_exists() -> None:
    known = set(options(cli))
    for path, renamed in OPTIONS.items():
        below = {name for at, name in known if f"{at} ".startswith(f"{path} ")}
        assert set(renamed.values()) <= below
        assert not below & set(renamed)


def test_an_old_option_works_and_one_line_says_its_new_name() -> None:
    old = CliRunner().invoke(cli, ["plan", "--population=20000", "--share=0.1", "--margin", "0.02"])
    new = CliRunner().invoke(
        cli, ["plan", "--population=20000", "--proportion=0.1", "--margin", "0.02"]
    )
    assert old.exit_code == new.exit_code == 0
    assert old.stdout == new.stdout
    assert new.stderr == ""
    assert old.stderr == (
        "deniable: --share is now called --proportion; the next release will not read the old"
        " name\n"
    )


def test_other_commands_and_words_after_a_double_dash_are_left_alone() -> None:
    with pytest.warns(RenamedWarning, match="--from is now called --start"):
        line = current_command_line(["history", "q", "--from=2026-01-01", "--", "--to"])
    assert line == ["history", "q", "--start=2026-01-01", "--", "--to"]
    assert current_command_line(["vault", "show", "--from", "x"]) == [
        "vault",
        "show",
        "--from",
        "x",
    ]
