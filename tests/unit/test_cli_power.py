"""`deniable power`, as called from a shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deniable import CheaterDetection, Crosswise, Kuk
from deniable.cli import cli
from deniable.mechanisms.designs.text import design_from_text
from deniable.planning import design_power, design_sample_size


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["power", *arguments])


def test_the_people_needed_and_the_power_of_those_there_are() -> None:
    needed = design_sample_size(Crosswise(1 / 4), 0.1, power=0.9)
    assert run("Crosswise:p=1/4", "--value", "0.1", "--power", "0.9").stdout == f"{needed}\n"
    options = [
        "--value",
        "0.2,0.6",
        "--parameter",
        "gamma",
        "--n",
        "250,250",
        "--alternative",
        "greater",
        "--significance",
        "0.01",
    ]
    found = json.loads(run("CheaterDetection:p1=1/4,p2=3/4", *options, "--json").stdout)
    expected = design_power(
        CheaterDetection(1 / 4, 3 / 4), (0.2, 0.6), (250, 250), parameter="gamma", alternative="greater", significance=0.01
    )
    assert found == json.loads(json.dumps(expected.to_dict()))


def test_designs_are_read_from_a_text() -> None:
    assert design_from_text("Kuk:p1=4/5,p2=3/10,draws=5") == Kuk(4 / 5, 3 / 10, draws=5)
    assert design_from_text("Warner:epsilon=1.5").epsilon == pytest.approx(1.5, abs=1e-6)
    assert design_from_text("Scrambling:addend=-1|0|1").addend.numbers == (-1.0, 0.0, 1.0)


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "power.png"
    assert run("Crosswise:p=1/4", "--value", "0.1", "--plot", str(picture)).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Foo", "--value", "0.1"], "design = 'Foo' must begin with one of CheaterDetection, Crosswise"),
        (["Warner:q=3", "--value", "0.1"], "does not fit Warner, whose parameters are p, epsilon, labels"),
        (["Warner:p", "--value", "0.1"], "holds 'p', which must have the form PARAMETER=VALUE"),
        (["Kuk:p1=0.8,p2=0.3,draws=x", "--value", "0.1"], "holds draws=x, which is not a number"),
        (["Warner:p=0.7", "--value", "x"], "value = 'x' must be a number"),
        (["Warner:p=0.7", "--value", "0.1,0.2"], "must be 1 number for this design"),
        (["Warner:p=0.7", "--value", "0.1", "--n", "10,20"], "n = 2 is the number of samples, and this design has 1"),
        (["Warner:p=0.7", "--value", "0.1", "--null", "0.1"], "value = 0.1 must differ from null"),
        (
            ["Warner:p=0.7", "--value", "0.1", "--alternative", "less"],
            "alternative = 'less' does not fit a value of 0.1 against 0",
        ),
        (["Warner:p=0.7", "--value", "0.1", "--parameter", "t"], "parameter = 't' must be one of pi"),
        (["Warner:p=0.7", "--value", "0.1", "--plot", "power.foo"], "cannot be drawn"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
