"""The reader's map, docs/papers.md: it names every experiment, and every command in it works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.reproduce.catalogue import EXPERIMENTS

MAP = Path(__file__).parents[3] / "docs" / "papers.md"
REPRODUCE = "deniable reproduce "


def rows() -> list[list[str]]:
    """The rows of the tables of the papers: section, command, status, place and what was
    changed."""
    text = MAP.read_text().split("## Quoc, Beck")[1]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]
    return [row for row in cells if row[0] != "section"]


def commands() -> list[str]:
    return [command for row in rows() for command in re.findall(r"`(deniable [^`]+)`", row[1])]


def test_the_map_names_every_experiment_and_every_row_has_a_status() -> None:
    named = {each.removeprefix(REPRODUCE) for each in commands() if each.startswith(REPRODUCE)}
    assert named == set(EXPERIMENTS)
    for section, command, status, _, _ in rows():
        assert status in ("works", "in part", "not built"), section
        assert (command == "") == (status == "not built"), f"{section}: what works has a command"


@pytest.mark.slow
def test_every_command_of_the_map_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of `deniable reproduce` are run in test_reproduce, one by one."""
    monkeypatch.chdir(tmp_path)
    Path("salaries.csv").write_text("salary\n" + "".join(f"{1000 * i}\n" for i in range(1, 200)))
    Path("people.csv").write_text("age\n" + "".join(f"{i}\n" for i in range(100)))
    Path("friends.csv").write_text("a,b\nb,c\nc,d\nd,a\na,c\n")
    Path("worth.csv").write_text("report,low,high\nlow,1,-1\nhigh,-1,1\n")
    rest = [each for each in commands() if not each.startswith(REPRODUCE)]
    # a query is planned after it is written
    for command in sorted(rest, key=lambda each: not each.startswith("deniable query new")):
        run = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert run.exit_code == 0, f"{command}\n{run.output}"
