"""`deniable power`, as called from a shell."""

from __future__ import annotations

import json
from inspect import isabstract
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from matplotlib.figure import Figure

from deniable import CheaterDetection, Crosswise, DirectQuestion, Kuk
from deniable.cli import cli
from deniable.mechanisms import designs
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
        "--n-reports",
        "250,250",
        "--alternative",
        "greater",
        "--significance",
        "0.01",
    ]
    found = json.loads(run("CheaterDetection:p1=1/4,p2=3/4", *options, "--json").stdout)
    expected = design_power(
        CheaterDetection(1 / 4, 3 / 4),
        (0.2, 0.6),
        (250, 250),
        parameter="gamma",
        alternative="greater",
        significance=0.01,
    )
    assert found == json.loads(json.dumps(expected.to_dict()))


def test_designs_are_read_from_a_text() -> None:
    assert design_from_text("Kuk:p1=4/5,p2=3/10,draws=5") == Kuk(4 / 5, 3 / 10, draws=5)
    assert design_from_text("Warner:epsilon=1.5").epsilon == pytest.approx(1.5, abs=1e-6)
    assert design_from_text("Scrambling:addend=-1|0|1").addend.numbers == (-1.0, 0.0, 1.0)


def test_no_legend_of_a_plot_is_inside_its_axes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []

    def keep(figure: Figure, path: Path, **_: object) -> None:
        figure.canvas.draw()
        drawn.append(figure)

    monkeypatch.setattr(Figure, "savefig", keep)
    plot = ["--plot", str(tmp_path / "p.png")]
    assert run("Crosswise:p=1/4", "--value", "0.1", *plot).exit_code == 0
    plan = ["plan", "--population", "100000", "--sampled-epsilon", "0.7", "--cv", "0.05"]
    assert CliRunner().invoke(cli, [*plan, *plot]).exit_code == 0
    for figure in drawn:
        (legend,) = figure.legends
        assert all(axes.get_legend() is None for axes in figure.axes)
        for axes in figure.axes:
            assert not legend.get_window_extent().overlaps(axes.get_window_extent())
        assert "'" not in figure.axes[0].get_title()
    assert len(drawn) == 2


def test_a_pilot_gives_the_value_and_both_ends_of_its_interval() -> None:
    estimate = Crosswise(1 / 6).estimate_counts(same=441, n=600)
    ran = run("Crosswise:p=1/6", "--pilot", "same=441,n=600", "--null", "0.05", "--json")
    document = json.loads(ran.output)
    low, high = document["pilot"]
    assert document["value"] == pytest.approx(0.1475)
    for end, limit in zip((low, high), estimate.interval()[0], strict=True):
        needed = design_sample_size(Crosswise(1 / 6), float(limit), null=0.05)
        assert (end["value"], end["n"]) == (pytest.approx(limit), list(needed.n))
    # an end beyond the null
    text = run("Crosswise:p=1/6", "--pilot", "same=441,n=600", "--null", "0.1").output
    assert "At 0.09632, an end of the pilot's 95 % interval: no number of people" in text
    for arguments, message in (
        ([], "value = None or a pilot must be given"),
        (["--pilot", "same=441,n=600", "--value", "0.1"], "and not both"),
        (["--pilot", "same=many,n=600"], "must have the form REPORT=COUNT"),
        (["--pilot", "yes=441,n=600"], "yes = 441 is not a report of this design"),
    ):
        refused = run("Crosswise:p=1/6", *arguments)
        assert refused.exit_code != 0
        assert message in refused.output + str(refused.exception)
    two = run("CheaterDetection:p1=1/4,p2=3/4", "--pilot", "yes=3,n=9")
    assert "needs a design with one sample" in two.output + str(two.exception)


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "power.png"
    assert run("Crosswise:p=1/4", "--value", "0.1", "--plot", str(picture)).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["Foo", "--value", "0.1"],
            "design = 'Foo' must begin with one of CheaterDetection, Crosswise",
        ),
        (
            ["Warner:q=3", "--value", "0.1"],
            "does not fit Warner, whose parameters are p, epsilon, labels",
        ),
        (["Warner:p", "--value", "0.1"], "holds 'p', which must have the form PARAMETER=VALUE"),
        (["Kuk:p1=0.8,p2=0.3,draws=x", "--value", "0.1"], "holds draws=x, which is not a number"),
        (["Warner:p=0.7", "--value", "x"], "value = 'x' must be a number"),
        (["Warner:p=0.7", "--value", "0.1,0.2"], "must be 1 number for this design"),
        (
            ["Warner:p=0.7", "--value", "0.1", "--n-reports", "10,20"],
            "len(n) = 2 must be the design's number of samples, 1",
        ),
        (["Warner:p=0.7", "--value", "0.1", "--null", "0.1"], "value = 0.1 must differ from null"),
        (
            ["Warner:p=0.7", "--value", "0.1", "--alternative", "less"],
            "alternative = 'less' does not fit a value of 0.1 against 0",
        ),
        (
            ["Warner:p=0.7", "--value", "0.1", "--parameter", "t"],
            "parameter = 't' must be one of pi",
        ),
        (["Warner:p=0.7", "--value", "0.1", "--plot", "power.foo"], "cannot be drawn"),
    ],
)
def test_nonsense_is_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


EVERY = {
    "Warner:p=7/10": "0.1",
    "ForcedResponse:p=3/4,yes=1/6": "0.1",
    "UnrelatedQuestion:p=7/10,u=1/4": "0.1",
    "UnrelatedQuestionUnknown:p1=7/10,p2=3/10": "0.1,0.3",
    "Mangat:p=3/5": "0.1",
    "Kuk:p1=4/5,p2=3/10,draws=5": "0.1",
    "Crosswise:p=1/4": "0.1",
    "Triangular:p=1/4": "0.1",
    "CheaterDetection:p1=1/4,p2=3/4": "0.2,0.6",
    "SymmetricCheaterDetection:y1=3/10,n1=1/5,y2=3/5,n2=1/10": "0.2,0.6",
    "StochasticLieDetector:p1=1/5,p2=4/5": "0.3,0.7",
    "ItemCount:items=3": "0.1,0.9",
    "Scrambling:addend=-5|0|5": "0.5,3",
    "DirectQuestion": "0.1",
    "ExtendedCrosswise:p=1/4": "0.1",
    "ItemSum": "1,4,6",
}


def test_every_design_has_a_power_and_a_sample_size() -> None:
    named = {text.partition(":")[0] for text in EVERY}
    assert named == {
        name
        for name in designs.__all__
        if not isabstract(getattr(designs, name)) and name != "Deck"
    }
    for text, value in EVERY.items():
        needed = json.loads(run(text, "--value", value, "--power", "0.8", "--json").stdout)
        fewer = ",".join(str(n // 2) for n in needed["n"])
        half = json.loads(run(text, "--value", value, "--n-reports", fewer, "--json").stdout)
        assert 0.05 < half["power"] < 0.8 <= needed["power"] < 0.9, text


def test_without_coins_one_yes_is_enough_against_nobody() -> None:
    """Seven people of whom one in ten has it: with 1 - 0.9^7 there is a yes. The normal law would
    say 100 %."""
    assert design_power(DirectQuestion(), 0.1, 7).power == pytest.approx(1 - 0.9**7)
    needed = design_sample_size(DirectQuestion(), 0.1, power=0.8)
    assert needed.n == (16,)
    assert design_power(DirectQuestion(), 0.9, 7, null=1.0).power == pytest.approx(1 - 0.9**7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["Crosswise:p=1/4", "--value", "20"],
            "value = 20.0 must lie between 0 and 1: it is a proportion of people",
        ),
        (["Crosswise:p=1/4", "--value", "1.5"], "value = 1.5 must lie between 0 and 1"),
        (["Crosswise:p=1/4", "--value=-0.1"], "value = -0.1 must lie between 0 and 1"),
        (
            ["Crosswise:p=1/4", "--value", "0.1", "--null", "5"],
            "null = 5.0 must lie between 0 and 1",
        ),
        (
            ["Crosswise:p=1/4", "--value", "0.1", "--null=-1", "--n-reports", "50"],
            "null = -1.0 must lie between 0 and 1",
        ),
        (["Crosswise:p=1/4", "--value", "nan"], "value = nan must be finite"),
        (["DirectQuestion", "--value", "2"], "value = 2.0 must lie between 0 and 1"),
        (
            ["ItemCount:items=3", "--value", "1.2,0.5"],
            "value = (1.2, 0.5) must lie between 0 and 1",
        ),
        (
            ["ItemCount:items=3", "--value", "0.2,-1"],
            "must have a standard deviation of at least 0 as its second number",
        ),
        (
            ["Scrambling:addend=-1|0|1", "--value", "5,-1"],
            "must have a standard deviation of at least 0",
        ),
        (
            ["CheaterDetection:p1=1/4,p2=3/4", "--value", "0.8,0.6"],
            "must leave a proportion of at least 0 to every kind",
        ),
        (
            ["CheaterDetection:p1=1/4,p2=3/4", "--value", "0.2,0.6", "--null", "0.9"],
            "null = 0.9 must",
        ),
        (
            ["StochasticLieDetector:p1=1/6,p2=5/6", "--value", "0.2,1.6"],
            "value = (0.2, 1.6) must lie between 0 and 1",
        ),
        (
            ["UnrelatedQuestionUnknown:p1=0.7,p2=0.3", "--value", "0.2,-0.6"],
            "must lie between 0 and 1",
        ),
    ],
)
@pytest.mark.parametrize("plotted", [False, True])
def test_values_that_no_proportion_can_have_are_refused_in_one_line(
    tmp_path: Path, arguments: list[str], message: str, plotted: bool
) -> None:
    ran = run(*arguments, *(["--plot", str(tmp_path / "power.png")] if plotted else []))
    assert ran.exit_code == 2, ran.output
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_means_of_scrambled_numbers_may_be_any_number() -> None:
    assert run("Scrambling:addend=-1|0|1", "--value", "20,3", "--null", "-5").exit_code == 0
