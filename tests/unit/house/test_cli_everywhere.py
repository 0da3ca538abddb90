"""What holds for every command: the same options, whole help at every width, examples that parse,
tables that fit."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from deniable.analyst.past_answer import PastAnswer
from deniable.cli import cli
from deniable.cli.analyst.history_view import history_parts
from deniable.cli.examples import EXAMPLES
from deniable.cli.tables import TextTable, whisker, wrap_line
from deniable.display import text_width

ROOT = Path(__file__).parents[3]
ENDLESS = {
    "aggregator run",
    "client run",
    "client ui",
    "collector run",
    "poll ask",
    "poll serve",
    "proxy run",
}
"""Services and pages that run until they are stopped, and print where they listen: no result."""


def walk(
    group: click.Group = cli, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """All commands and groups, by their words after `deniable`."""
    yield " ".join(words), group
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from walk(found, (*words, name))
        else:
            yield " ".join((*words, name)), found


EVERYTHING = dict(walk())
COMMANDS = {name: found for name, found in EVERYTHING.items() if not isinstance(found, click.Group)}


def options_of(found: click.Command) -> dict[str, click.Option]:
    return {
        name: option
        for option in found.params
        if isinstance(option, click.Option)
        for name in option.opts
    }


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_that_prints_a_result_takes_the_same_two_options(name: str) -> None:
    options = options_of(COMMANDS[name])
    found = {option: options[option].help for option in ("--json", "--csv") if option in options}
    assert found == (
        {}
        if name in ENDLESS
        else {"--json": "Print JSON.", "--csv": "Print comma-separated values."}
    )


def test_no_command_formats_its_own_json_or_csv() -> None:
    for path in (ROOT / "src" / "deniable" / "cli").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name != "output.py":
            assert not re.search(
                r"say\((as_json|json\.dumps)\(|\"--json\"|\"--csv\"|import csv", text
            ), path.name


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_help_cuts_no_word_and_fits(name: str, width: int) -> None:
    found = EVERYTHING[name]
    result = CliRunner(env={"COLUMNS": str(width)}).invoke(
        cli, [*name.split(), "--help"], terminal_width=width
    )
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert max(map(text_width, lines)) <= width
    assert "..." not in result.output.replace("COMMAND [ARGS]...", "").replace(
        "FILE...", ""
    ).replace("...", "", _dots(found))
    said = " ".join(result.output.split())
    assert " ".join((found.help or "").split()) in said.replace("\b", "")
    for option in found.params:
        if isinstance(option, click.Option):
            assert " ".join((option.help or "").split()) in said, option.opts
    if isinstance(found, click.Group):
        context = click.Context(found)
        for inner in found.list_commands(context):
            each = found.get_command(context, inner)
            assert each is not None
            first = (
                " ".join((each.help or "").split("\n\n")[0].split()).partition(". ")[0].rstrip(".")
            )
            assert first in said, inner


def _dots(found: click.Command) -> int:
    """How many dots of repeated arguments the usage line has."""
    return sum(isinstance(each, click.Argument) and each.nargs == -1 for each in found.params)


@pytest.mark.parametrize("name", sorted(EVERYTHING))
def test_every_help_has_examples_that_the_command_itself_would_take(name: str) -> None:
    assert EXAMPLES.get(name), "no example"
    printed = (
        CliRunner(env={"COLUMNS": "80"})
        .invoke(cli, [*name.split(), "--help"], terminal_width=80)
        .output
    )
    joined = " ".join(printed.partition("Examples:")[2].replace("\\\n", " ").split())
    for example in EXAMPLES[name]:
        assert " ".join(example.split()) in joined
        words = shlex.split(example.partition(" > ")[0])
        assert words[0] == "deniable"
        step: click.Command = cli
        rest, info = words[1:], "deniable"
        while isinstance(step, click.Group):
            info, rest = rest[0], rest[1:]
            found = step.get_command(click.Context(step), info)
            assert found is not None, example
            step = found
        # refuses an option that is not there, or a value of the wrong kind
        step.make_context(info, rest, parent=None)


# --- tables

SURVEY = "city,used\n" + "Oslo,yes\nParis,no\nRome,no\n東京,yes\n" * 250
MECHANISMS = [
    "-c",
    "city=DirectEncoding:values=Oslo|Paris|Rome|東京,epsilon=2",
    "-c",
    "used=DirectEncoding:values=yes|no,epsilon=2",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a query, a survey, its reports, a vault, settings, a key ring: what commands
    show without a server."""
    place = tmp_path_factory.mktemp("shown")
    (place / "answers.csv").write_text(SURVEY, encoding="utf-8")
    (place / "numbers.csv").write_text(
        "salary\n" + "".join(f"{1000 + i}\n" for i in range(50)), encoding="utf-8"
    )
    (place / "questions.toml").write_text(
        "".join(f'[questions.{name}]\nlabels = ["yes", "no"]\n' for name in ("smokes", "drinks")),
        encoding="utf-8",
    )
    for made in (
        ["randomize", "answers.csv", "-o", "reports.csv", *MECHANISMS],
        ["query", "new", "query.toml"],
        ["query", "keygen", "my.key", "--owner", "City of Exampleton"],
        ["ring", "add", "ring.json", "my.key.pub"],
        ["vault", "init", "my.vault"],
        ["vault", "import", "my.vault", "--table", "answers", "answers.csv"],
        ["proxy", "new", "proxy.toml"],
        ["proxy", "token", "add", "proxy.toml", "--label", "the aggregator of the city"],
        ["aggregator", "new", "aggregator.toml"],
    ):
        result = run(place, 80, *made)
        assert result.exit_code == 0, (made, result.output)
    return place


def run(place: Path, width: int | None, *arguments: str) -> click.testing.Result:
    before = Path.cwd()
    os.chdir(place)
    try:
        return CliRunner(env={"COLUMNS": None if width is None else str(width)}).invoke(
            cli, list(arguments)
        )
    finally:
        os.chdir(before)


SHOWN = {
    "plan": "plan --population 20000 --proportion 0.1 --margin 0.02",
    "plan of several": "plan --population 2000 --epsilon 2 --questions questions.toml",
    "privacy": "privacy --epsilon 1 --sampling 0.5 --population 10000 --answers 4",
    "size": "size --population 1e5 --sources",
    "power": "power Crosswise:p=1/4 --value 0.1",
    "estimate": "estimate reports.csv --table city,used",
    "compare": "compare --values 4 --population 500 --epsilon 0.5:4 --trials 2 --protocol DirectEncoding",
    "coverage": "coverage Warner:p=0.7 DirectEncoding --n-reports 100 --trials 50",
    "query check": "query check query.toml",
    "query show": "query show query.toml",
    "ring show": "ring show ring.json",
    "vault show": "vault show my.vault",
    "vault sandbox": "vault sandbox",
    "proxy show": "proxy show proxy.toml",
    "proxy token list": "proxy token list proxy.toml",
    "proxy audit": "proxy audit proxy.toml",
    "rehearse": "rehearse query.toml --population 60 --windows 2 --scenario honest",
    "reproduce": "reproduce --list",
    "curate": (
        "curate numbers.csv --epsilon 1 --count --mean salary --bounds salary=0,2000 --preview"
        " --size 50"
    ),
    "survey designs": "survey designs --prevalence 0.1 --epsilon 1",
}


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("name", sorted(SHOWN))
def test_what_a_command_shows_fits_the_terminal_and_cuts_no_word(
    folder: Path, name: str, width: int
) -> None:
    whole, fitted = (run(folder, given, *SHOWN[name].split()) for given in (None, width))
    assert whole.exit_code == fitted.exit_code
    long_words = {word for word in whole.output.split() if text_width(word) > width - 4}
    for line in fitted.output.splitlines():
        assert text_width(line) <= width or set(line.split()) & long_words, line
        assert line == line.rstrip()
    drawn = re.compile("[█▒┃ ]+")
    words = set(drawn.sub(" ", fitted.output).replace("東京", " 東京 ").split())
    missing = {
        word.strip(":;,") for word in drawn.sub(" ", whole.output).replace("東京", " 東京 ").split()
    }
    missing -= {word.strip(":;,") for word in words}
    timings = re.compile(r"[\d.]+(e-?\d+)?|-")  # of a run, or of an axis that has another length
    assert {word for word in missing if not timings.fullmatch(word)} == set()


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_what_a_command_shows_it_also_prints_as_json_and_as_csv(folder: Path, name: str) -> None:
    document = json.loads(run(folder, 80, *SHOWN[name].split(), "--json").stdout)
    assert document
    rows = list(csv.reader(io.StringIO(run(folder, 80, *SHOWN[name].split(), "--csv").stdout)))
    assert len(rows) > 1
    assert {len(row) for row in rows} == {len(rows[0])}
    both = run(folder, 80, *SHOWN[name].split(), "--json", "--csv")
    assert both.exit_code == 2
    assert "--json and --csv cannot be combined" in both.stderr


def test_wide_characters_are_aligned_and_words_are_kept_whole() -> None:
    table = TextTable(
        ("city", "people", "note"),
        [("東京", "9", "the largest of them"), ("Reykjavík", "10", "small")],
    )
    lines = table.plain_lines(32)
    ends = [
        text_width(line.partition(figure)[0] + figure)
        for figure in ("9", "10")
        for line in lines
        if f" {figure} " in line
    ]
    assert len(set(ends)) == 1
    assert "largest" in " ".join(lines).split()
    listed = table.plain_lines(12)
    assert listed[0] == "city: 東京"
    assert "largest" in " ".join(listed).split()


@pytest.mark.parametrize("width", range(5, 60))
def test_wrapped_text_holds_every_word_once_and_only_longer_words_stick_out(width: int) -> None:
    text = "  about 5 ± 2 % of 東京都民 answered Donaudampfschifffahrtsgesellschaft yesterday"
    lines = wrap_line(text, width)
    assert " ".join(" ".join(lines).split()).replace("東 京", "東京").replace(
        " ", ""
    ) == text.replace(" ", "")
    for line in lines:
        assert text_width(line) <= width or len(re.split(r"(?<!±) +(?![%±])", line.strip())) == 1
        assert line.startswith("  ")


def test_a_bar_ends_where_its_interval_begins_and_marks_the_estimate() -> None:
    bar = "".join(piece.text for piece in whisker(0.2, 0.6, 0.4, (0.0, 1.0), 10))
    assert bar == "██▒▒┃▒    "
    below = "".join(piece.text for piece in whisker(-0.6, -0.2, -0.4, (-1.0, 1.0), 20))
    assert below == "    ▒▒┃▒██          "


def test_colour_is_for_terminals_that_have_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from deniable.cli import output  # noqa: PLC0415

    table = TextTable(("a", "b"), [("one", "2")])
    for is_terminal, no_colour, coloured in (
        (True, "", True),
        (True, "1", False),
        (False, "", False),
    ):
        monkeypatch.setattr(sys.stdout, "isatty", lambda on=is_terminal: on)
        monkeypatch.setenv("NO_COLOR", no_colour)
        monkeypatch.setenv("TERM", "xterm")
        assert (
            "\x1b[" in "".join(output._painted(piece) for line in table.lines(80) for piece in line)
        ) is coloured


# --- completion

PROGRAM = "from deniable.cli import main; main()"


def completed(shell: str, *words: str) -> str:
    environment = {
        **os.environ,
        "_DENIABLE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": shlex.join(words),
    }
    environment |= {"COMP_CWORD": words[-1] if shell == "fish" else str(len(words) - 1)}
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_and_options(shell: str) -> None:
    separator = {"bash": ",", "zsh": "\n", "fish": ","}[shell]
    assert f"plain{separator}plan" in completed(shell, "deniable", "pl")
    assert f"plain{separator}keygen" in completed(shell, "deniable", "query", "key")
    assert "--epsilon" in completed(shell, "deniable", "plan", "--eps")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_line_writes_a_script_that_the_shell_itself_accepts(
    shell: str, tmp_path: Path
) -> None:
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert f"_DENIABLE_COMPLETE={shell}_source deniable" in page
    environment = {**os.environ, "_DENIABLE_COMPLETE": f"{shell}_source"}
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert f"_DENIABLE_COMPLETE={shell}_complete" in done.stdout
    script = tmp_path / f"deniable.{shell}"
    script.write_text(done.stdout, encoding="utf-8")
    program = shutil.which(shell)
    if program is not None:  # each machine tries the shells it has; bash is everywhere
        subprocess.run([program, "-n", str(script)], check=True)  # noqa: S603


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_itself_offers_what_can_follow(tmp_path: Path) -> None:
    program = tmp_path / "deniable"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\n{PROGRAM}\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    script = (
        f'export PATH="{tmp_path}:$PATH"; eval "$(_DENIABLE_COMPLETE=bash_source deniable)";'
        " COMP_WORDS=(deniable query si); COMP_CWORD=2; _deniable_completion deniable; echo"
        ' "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)  # noqa: S603, S607
    assert done.stdout.split() == ["sign"]


# --- looking back


def test_history_draws_estimates_changes_and_trends_with_their_whiskers() -> None:
    figures = {"labels": ["[0,1)", "東京"], "stderr": [0.01, 0.01]}
    difference = {
        **figures,
        "difference": [0.1, -0.1],
        "low": [0.06, -0.14],
        "high": [0.14, -0.06],
        "p": [0.001, 0.001],
    }
    document = {
        "query": "trips",
        "start": 0,
        "end": 86400,
        "n_reports": 1000,
        "scanned": 1000,
        "fraction": 1.0,
        "source": "reports",
        "simultaneous": False,
        "confidence": 0.9,
        "epsilon_spent": 0,
        "statement": "Nobody was asked again.",
        "reading": [],
        "notes": [],
        "n": 1000,
        "estimate": [0.6, 0.4],
        **figures,
        "low": [0.58, 0.38],
        "high": [0.62, 0.42],
        "parts": [{"name": "Monday"}],
        "against": {
            "start": 0,
            "end": 3600,
            "difference": {**difference, "overall": {"p": 0.002}},
            "parts": [],
        },
        "trend": {
            **figures,
            "slope_per_day": [0.01, -0.01],
            "low": [0.0, -0.02],
            "high": [0.02, 0.0],
            "p": [0.05, 0.05],
        },
    }
    shown = "\n".join(
        "\n".join(part.plain_lines(100)) if isinstance(part, TextTable) else part
        for part in history_parts(PastAnswer(document))
    )
    assert "90 % interval" in shown
    lines = [line for line in shown.splitlines() if line.strip().startswith(("[0,1)", "東京"))]
    assert len(lines) == 6
    assert all("┃" in line for line in lines)
    assert ("+10.00 %" in lines[2], "-10.00 %" in lines[3]) == (True, True)
    assert "Monday: withheld, because it has too few answers" in shown
    assert "trips, 1970-01-01T00:00:00Z to 1970-01-02T00:00:00Z: 1,000 reports, all read" in shown
