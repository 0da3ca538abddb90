"""Counts of designs in a file: every design by its own arguments, and mistakes in one line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deniable import (
    CheaterDetection,
    Crosswise,
    ExtendedCrosswise,
    ItemCount,
    ItemSum,
    Kuk,
    Scrambling,
)
from deniable.cli import cli
from deniable.survey.design_file import read_design_estimates

COUNTS = """
[questions.used]
design = "Crosswise:p=1/6"
same = 512
n = 730

[questions.anchored]
design = "Crosswise:p=0.15"
same = 1427
anchor_same = 1541
both = 1116
n = 2000

[questions.extended]
design = "ExtendedCrosswise:p=1/4"
same = [325, 175]
n = [500, 500]
random = 0.1

[questions.cheated]
design = "CheaterDetection:p1=1/4,p2=3/4"
yes = [150, 260]
n = [400, 400]

[questions.family]
design = "ItemCount:items=3"
control = [8, 132, 222, 227]
treated = [19, 123, 229, 219, 34]

[questions.both]
design = "ItemCount:items=3"
first = [[2, 1], [1, 1], [3, 2], [2, 2]]
second = [[1, 2], [1, 1], [2, 2], [2, 3]]

[questions.hours]
design = "ItemSum"
means = [11.2, 8.1]
deviations = [6.0, 4.5]
n = [300, 300]

[questions.cards]
design = "Kuk:p1=4/5,p2=3/10,draws=5"
counts = [60, 110, 130, 120, 110, 70]

[questions.income]
design = "Scrambling:addend=-1|0|1"
reports = [20, 31, 52, 49, 31]
"""


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["survey", "estimate", *map(str, arguments)])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "designs.toml"
    path.write_text(COUNTS, encoding="utf-8")
    return path


def test_each_design_is_estimated_by_the_method_that_takes_its_counts(file: Path) -> None:
    expected = {
        "used": Crosswise(1 / 6).estimate_counts(same=512, n=730),
        "anchored": (
            Crosswise(0.15).estimate_with_anchor(same=1427, anchor_same=1541, both=1116, n=2000)
        ),
        "extended": (
            ExtendedCrosswise(1 / 4).estimate_counts(same=(325, 175), n=(500, 500), random=0.1)
        ),
        "cheated": CheaterDetection(1 / 4, 3 / 4).estimate_counts(yes=(150, 260), n=(400, 400)),
        "family": (
            ItemCount(3).estimate_counts(
                control=[8, 132, 222, 227], treated=[19, 123, 229, 219, 34]
            )
        ),
        "both": (
            ItemCount(3).estimate_two_lists(
                first=[[2, 1], [1, 1], [3, 2], [2, 2]], second=[[1, 2], [1, 1], [2, 2], [2, 3]]
            )
        ),
        "hours": ItemSum().estimate_moments(means=[11.2, 8.1], deviations=[6.0, 4.5], n=[300, 300]),
        "cards": Kuk(4 / 5, 3 / 10, draws=5).estimate_counts([60, 110, 130, 120, 110, 70]),
        "income": Scrambling.additive([-1.0, 0.0, 1.0]).estimate([20, 31, 52, 49, 31]),
    }
    assert read_design_estimates(file) == expected
    shown = run(file).output
    assert all(f"{name}\n" in shown for name in expected)
    first = expected["used"]
    limits = " to ".join(f"{100 * end:.2f}" for end in first.interval()[0])
    assert f"{100 * first.values[0]:.2f} %  {limits}" in shown
    document = json.loads(run(file, "--json").output)
    assert document["used"] == json.loads(json.dumps(expected["used"].to_dict()))
    rows = list(csv.DictReader(run(file, "--csv", "--confidence", "0.9").output.splitlines()))
    assert [row["parameter"] for row in rows if row["question"] == "cheated"] == [
        "pi",
        "beta",
        "gamma",
    ]
    assert float(rows[0]["low"]) == pytest.approx(float(expected["used"].interval(0.9)[0, 0]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "must have one table [questions.NAME] per question"),
        (
            "[questions.a]\nn = 3",
            'questions.a must have a design, such as design = "Crosswise:p=1/6"',
        ),
        ('[questions.a]\ndesign = "Foo"', "questions.a: design = 'Foo' must begin with one of"),
        (
            '[questions.a]\ndesign = "ItemSum"\nsame = 3',
            "same does not fit ItemSum(), which has estimate_moments with means",
        ),
        (
            '[questions.a]\ndesign = "Crosswise:p=1/6"\nsame = 900\nn = 730',
            "same = 900 must be at most 730",
        ),
        ('[questions.a]\ndesign = "Crosswise:p=1/6"\nn = ', "line 3"),
    ],
)
def test_mistakes_in_the_file_are_one_line_that_names_the_place(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "d.toml").write_text(content, encoding="utf-8")
    ran = run(tmp_path / "d.toml")
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1
