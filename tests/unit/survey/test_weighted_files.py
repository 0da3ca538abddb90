"""Weights, strata and clusters of a file: the command gives what Python gives for the same
columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deniable import MultipleChoice, Sample, Warner, seeded_source, weighted_estimate
from deniable.cli import cli
from deniable.survey import randomize_file
from deniable.survey.rows import read_rows

USED, NEWS = Warner(0.8), MultipleChoice(["paper", "web"], 3.0)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["estimate", *map(str, arguments)])


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("weights"), np.random.default_rng(1)
    rows = [
        [
            "yes" if rng.random() < 0.3 else "no",
            "web" if rng.random() < 0.5 else "",
            weight,
            stratum,
            rng.integers(0, 12),
        ]
        for weight, stratum in ((1.0, "a"), (3.0, "b"))
        for _ in range(300)
    ]
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["used", "news", "weight", "stratum", "school"], *rows])
    kept = ["weight", "stratum", "school"]
    randomize_file(
        folder / "a.csv",
        folder / "r.csv",
        {"used": USED, "news": NEWS},
        keep=kept,
        source=seeded_source(1),
    )
    return folder / "r.csv"


def test_weights_strata_and_clusters_give_what_python_gives(survey: Path) -> None:
    rows = read_rows(survey, None, ["used", "news", "weight", "stratum", "school"])
    weights = [float(cell) for cell in rows.cells["weight"]]
    sample = Sample(weights=weights, strata=rows.cells["stratum"], clusters=rows.cells["school"])
    ran = run(
        survey, "--weights", "weight", "--strata", "stratum", "--clusters", "school", "--json"
    )
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.output)
    for name, mechanism in (("used", USED), ("news", NEWS)):
        expected = weighted_estimate(mechanism, rows.reports[name], sample)
        assert document["columns"][name]["estimate"] == pytest.approx(expected.proportions.tolist())
        assert document["columns"][name]["stderr"] == pytest.approx(expected.stderr.tolist())
    assert document["columns"]["news"]["exclusive"] is False
    # Half of the people with weight 1, half with 3: (1 + 3)^2/(1 + 9) * 300.
    assert document["columns"]["used"]["notes"][-1] == "effective sample size 480 of 600 (Kish)"
    shown = run(survey, "--weights", "weight").output
    assert "effective sample size 480 of 600 (Kish)" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--weights", "weight", "--by", "stratum"], "cannot be combined with tables, groups"),
        (["--weights", "weight", "--population", "9000"], "cannot be combined with tables, groups"),
        (["--weights", "stratum"], "column 'stratum' must hold numbers"),
        (["--weights", "nothing"], "has no column 'nothing'"),
    ],
)
def test_what_does_not_go_with_weights_is_refused(
    survey: Path, options: list[str], message: str
) -> None:
    ran = run(survey, *options)
    assert ran.exit_code == 2
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1
