"""Rows drawn from the estimates of a survey: close to them, nobody's, with what they lose said."""

from __future__ import annotations

import csv
import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from deniable import Crosswise, DirectEncoding, MultipleChoice, SquareWave, seeded_source
from deniable.cli import cli
from deniable.errors import DeniableError
from deniable.survey import estimate_file, randomize_file, synthesize_file
from deniable.survey.synthetic import SyntheticSummary

CITY = DirectEncoding(["Oslo", "Paris", "Rome"], 3.0)
MOOD = DirectEncoding([1, 2, 3], 3.0)
USED = Crosswise(1 / 6)
COLUMNS = {
    "city": CITY,
    "mood": MOOD,
    "used": USED,
    "age": SquareWave(2.0, 39, 18, 95, integers=True),
    "news": MultipleChoice(["radio", "web"], 2.0, most=2),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mood goes with the city, and use with the mood."""
    folder, rng = tmp_path_factory.mktemp("synthetic"), np.random.default_rng(2)
    lines = ["city,mood,used,age,news,ward"]
    for _ in range(8_000):
        city = int(rng.integers(0, 3))
        mood = city + 1 if rng.random() < 0.6 else int(rng.integers(1, 4))
        used = "yes" if rng.random() < 0.2 * mood - 0.1 else "no"
        lines.append(f"{CITY.labels[city]},{mood},{used},{rng.integers(18, 95)},web,w{city}")
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    randomize_file(
        folder / "a.csv", folder / "r.csv", COLUMNS, keep=["ward"], source=seeded_source(3)
    )
    return folder / "r.csv"


def drawn(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_rows_have_the_proportions_and_the_pairs_of_the_estimates(
    reports: Path, tmp_path: Path
) -> None:
    found = synthesize_file(reports, tmp_path / "s.csv", rows=60_000, seed=1)
    rows = drawn(tmp_path / "s.csv")
    assert len(rows) == found.rows == 60_000
    assert list(rows[0]) == ["city", "mood", "used"]  # nothing of what was kept in clear
    survey = estimate_file(reports, tables=list(combinations(["city", "mood", "used"], 2)))
    for name in ("city", "mood", "used"):
        said = np.array([row[name] for row in rows])
        shares = [(said == str(label)).mean() for label in survey[name].labels]
        gap = np.abs(shares - survey[name].proportions).max()
        # the margins of two tables of a column differ by their coins
        assert gap < 3 * survey[name].stderr.max()
        assert found.error[name] == pytest.approx(gap, abs=1e-12)
    for table in survey.tables:
        one, other = table.axes
        counts = Counter((row[one], row[other]) for row in rows)
        cells = np.array(
            [[counts[str(a), str(b)] / len(rows) for b in table.labels[1]] for a in table.labels[0]]
        )
        gap = np.abs(cells - table.proportions).max()
        assert found.pairs[f"{one} by {other}"] == pytest.approx(gap, abs=1e-12)
        assert gap < 4 * table.stderr.max()
    assert found.depends == {"mood": "city", "used": "mood"}


def test_what_is_lost_is_said_and_computed(reports: Path, tmp_path: Path) -> None:
    found = synthesize_file(reports, tmp_path / "s.csv", seed=1)
    survey = estimate_file(reports)
    rows = drawn(tmp_path / "s.csv")
    assert len(rows) == found.reports == 8_000
    assert found.epsilon == pytest.approx(sum(m.epsilon for m in COLUMNS.values()))
    ratios = []
    for name in found.error:
        said = np.array([row[name] for row in rows])
        for label, error in zip(survey[name].labels, survey[name].stderr, strict=True):
            share = (said == str(label)).mean()
            ratios.append(error / np.sqrt(share * (1 - share) / 8_000))
    assert found.inflation == pytest.approx(max(ratios))
    assert found.inflation > 1.2
    assert found.left_out == ("age", "news")
    text = str(found)
    for words in ("No row is a person's", "mood was drawn by city", "too small", "age, news"):
        assert words in text
    assert SyntheticSummary.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_dependence_that_is_not_in_the_answers_is_not_in_the_rows(tmp_path: Path) -> None:
    """The planted mistake of a model that draws each column alone would fail the test above; one
    that invents dependences fails this one."""
    rng = np.random.default_rng(4)
    said = zip(rng.choice(CITY.labels, 20_000), rng.integers(1, 4, 20_000), strict=True)
    lines = [f"{city},{mood}" for city, mood in said]
    (tmp_path / "a.csv").write_text("\n".join(["city,mood", *lines]) + "\n")
    columns = {"city": CITY, "mood": MOOD}
    randomize_file(tmp_path / "a.csv", tmp_path / "r.csv", columns, source=seeded_source(3))
    synthesize_file(tmp_path / "r.csv", tmp_path / "s.csv", rows=40_000, seed=1)
    rows = drawn(tmp_path / "s.csv")
    oslo = np.array([row["city"] == "Oslo" for row in rows])
    good = np.array([row["mood"] == "3" for row in rows])
    assert abs(good[oslo].mean() - good[~oslo].mean()) < 0.05


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_the_command_writes_rows_and_refuses_what_cannot_be(reports: Path, tmp_path: Path) -> None:
    output = tmp_path / "s.csv"
    shown = run("survey", "synthesize", reports, "-o", output, "--seed", "1", "--rows", "50")
    assert shown.exit_code == 0, shown.output
    assert "50 rows drawn from 8,000 reports" in shown.output
    assert run("survey", "synthesize", reports, "-o", output).exit_code == 2
    assert len(drawn(output)) == 50
    again = run("survey", "synthesize", reports, "-o", output, "--force", "--json")
    assert json.loads(again.output)["rows"] == 8_000
    refused = run("survey", "synthesize", reports, "-o", output, "--force", "--rows", "0")
    assert refused.exit_code == 2
    assert "rows = 0 must be" in refused.stderr
    (tmp_path / "n.csv").write_text("age\n" + "30\n40\n" * 9)
    randomize_file(tmp_path / "n.csv", tmp_path / "m.csv", {"age": COLUMNS["age"]})
    with pytest.raises(DeniableError, match="has 0 randomized columns of labels"):
        synthesize_file(tmp_path / "m.csv", tmp_path / "x.csv")
