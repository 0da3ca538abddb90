"""Texts of strangers on a person's terminal: shown, never obeyed."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.live import Live
from rich.table import Table
from rich.text import Text

from deniable.cli import cli
from deniable.cli.output import as_json, make_console, plain, say
from deniable.queries.header import SEPARATOR
from deniable.queries.signed import canonical
from deniable.queries.signed.signing import SignedQuery
from toolkit.devices import KEY, asked

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202egnp.exe\u2066\r\x00\u2028"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
COMMANDS = Path(__file__).parents[3] / "src" / "deniable" / "cli"


def test_control_characters_are_shown_and_nothing_else_is_changed() -> None:
    assert not STEERING.search(plain(EVIL))
    assert plain(EVIL).startswith("\\u001b]0;owned\\u0007\\u001b[2J\\u009b31m\\u007f\\u202egnp.exe")
    ordinary = "Größe\t5 %\nпривет 世界 🎲 naïve ± ≥"
    assert plain(ordinary) == ordinary
    assert plain("two\nlines", lines=False) == "two\\nlines"


def test_what_is_printed_as_json_stays_json_and_says_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(as_json({EVIL: [EVIL]}))
    printed = capsys.readouterr().out
    assert not STEERING.search(printed)
    assert json.loads(printed) == {EVIL: [EVIL]}


@pytest.mark.parametrize("live", [False, True])
def test_tables_and_live_views_show_a_hostile_label_and_keep_their_own_colours(live: bool) -> None:
    out = io.StringIO()
    console = make_console(
        file=out, force_terminal=True, color_system="standard", width=200, legacy_windows=False
    )
    table = Table(title=Text(f"title {EVIL}"))
    table.add_column(Text(EVIL))
    table.add_row(Text(EVIL, style="bold red"))
    if live:
        with Live(table, console=console, auto_refresh=False) as view:
            view.update(table, refresh=True)
    else:
        console.print(table)
        console.print(EVIL, markup=False)
    printed = out.getvalue()
    assert "\\u001b]0;owned" in printed
    assert "\x1b[1;31m" in printed, "styles of our own are kept"
    for hostile in ("\x1b]0;owned", "\x9b", "\u202e", "\x07", "\x7f"):
        assert hostile not in printed


def test_every_command_prints_through_the_one_place() -> None:
    for path in COMMANDS.glob("*.py"):
        text = re.sub(r"^ *>>> .*$", "", path.read_text(), flags=re.MULTILINE)  # examples may print
        if path.name != "output.py":
            for own in (
                r"click\.(echo|secho|echo_via_pager)\(",
                r"(?<![\w.])print\(",
                r"rich\.console import .*\bConsole\b",
                r"sys\.stdout\.write",
            ):
                assert not re.search(own, text), (path.name, own)


def hostile_file(folder: Path, where: str) -> Path:
    tree = asked().to_dict()
    if where == "key":
        tree[EVIL] = 1
    elif where == "mechanism":
        tree["mechanism"] = {"name": EVIL}
    else:
        tree["columns"][0]["buckets"] = [EVIL]
    content = canonical.encode(tree)
    path = folder / "query.json"
    path.write_bytes(SignedQuery(content, KEY.public.id, KEY.sign(SEPARATOR + content)).to_bytes())
    return path


@pytest.mark.parametrize("where", ["key", "mechanism", "label"])
@pytest.mark.parametrize("command", ["check", "show"])
def test_a_hostile_query_file_steers_nothing_and_its_error_is_one_line(
    tmp_path: Path, where: str, command: str
) -> None:
    result = CliRunner().invoke(cli, ["query", command, str(hostile_file(tmp_path, where))])
    assert result.exit_code == 2
    assert not STEERING.search(result.output)
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("suffix", ["csv", "toml"])
def test_hostile_files_of_surveys_and_settings_steer_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"file.{suffix}"
    if suffix == "csv":
        path.write_text(f"colour{EVIL}\n{EVIL}\n", encoding="utf-8")
        arguments = ["estimate", str(path)]
    else:
        path.write_text(f'"{json.dumps(EVIL)[1:-1]}" = 1\n', encoding="utf-8")
        arguments = ["proxy", "run", str(path)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2, result.output
    assert not STEERING.search(result.output)
    assert result.output.count("\n") == 1
