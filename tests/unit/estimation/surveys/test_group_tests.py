"""Do several groups differ: against Pearson, Hotelling and Welch, and how often alike groups are
rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy import stats
from statsmodels.multivariate.manova import MANOVA

from deniable import (
    Crosswise,
    DirectEncoding,
    Mechanism,
    MultipleChoice,
    OptimizedUnary,
    SquareWave,
    Tally,
    compare,
    compare_groups,
    seeded_source,
    statistics,
)
from deniable.cli import cli
from deniable.errors import DeniableError
from deniable.estimation.surveys.group_tests import GroupTest
from deniable.survey import Survey, estimate_file, randomize_file

CITY = DirectEncoding(["Oslo", "Paris", "Rome"], 2.0)
USED = Crosswise(1 / 6)
AGE = SquareWave(2.0, 39, 18, 95, integers=True)
RNG = np.random.default_rng(5)


def asked(mechanism: Mechanism, answers: Any, seed: int = 1) -> Any:
    return mechanism.estimate(mechanism.privatize(answers, seeded_source(seed)))


def test_with_two_reports_it_is_pearsons_chi_square_of_the_table_of_reports() -> None:
    said = np.array([[30, 70], [55, 45], [80, 140]])
    found = compare_groups(
        {g: USED.estimate(Tally(USED, row, row.sum())) for g, row in enumerate(said)}
    )
    n = said.sum()
    trace = stats.chi2_contingency(said, correction=False).statistic / n
    # with one dimension Pillai's approximation is the F of an analysis of variance
    assert found.statistic == pytest.approx(trace / (1 - trace) * (n - 3) / 2, rel=1e-9)
    assert found.n == (100, 100, 220)
    assert found.degrees == (2, n - 3)


def test_it_is_the_analysis_of_variance_of_what_reports_contribute() -> None:
    sizes, answers = (60, 90, 200), RNG.choice(CITY.labels, 350, p=[0.5, 0.3, 0.2])
    reports = CITY.privatize(answers, seeded_source(1))
    ward = np.repeat(["north", "south", "west"], sizes)
    parts = {name: CITY.estimate(reports[ward == name]) for name in ("north", "south", "west")}
    found = compare_groups(parts, "city by ward")
    # a report contributes a linear function of which report it is: Pillai's trace does not see it
    said = pd.DataFrame({f"r{at}": reports.data == at for at in range(2)}, dtype=float)
    table = MANOVA.from_formula("r0 + r1 ~ ward", said.assign(ward=ward)).mv_test()
    pillai = table.results["ward"]["stat"].loc["Pillai's trace"]
    assert found.statistic == pytest.approx(float(pillai["F Value"]), rel=1e-6)
    assert found.degrees == pytest.approx((pillai["Num DF"], pillai["Den DF"]))
    assert found.p_value == pytest.approx(float(pillai["Pr > F"]), rel=1e-6)
    assert str(found).startswith("city by ward: F(")
    assert str(found).endswith("(3 groups)")


@pytest.mark.parametrize("mechanism", [CITY, OptimizedUnary(CITY.labels, 2.0)])
def test_with_two_groups_it_says_what_their_comparison_says(mechanism: Mechanism) -> None:
    north = asked(mechanism, ["Oslo"] * 600 + ["Paris"] * 400 + ["Rome"] * 200)
    south = asked(mechanism, ["Oslo"] * 620 + ["Paris"] * 300 + ["Rome"] * 280, 2)
    found = compare_groups({"north": north, "south": south}).p_value
    assert found == pytest.approx(compare(north, south).overall()[2], rel=0.05)


def test_numbers_are_compared_by_welchs_f_of_their_means() -> None:
    drawn = [
        np.clip(RNG.normal(m, 15, n).round(), 18, 95) for m, n in ((40, 80), (45, 300), (60, 90))
    ]
    parts = [asked(AGE, ages, seed) for seed, ages in enumerate(drawn)]
    means = [statistics.mean(part) for part in parts]
    found = compare_groups(dict(enumerate(parts)), "age by ward")
    # Welch's statistic, of samples with these means and standard errors
    made = []
    for mean, part in zip(means, parts, strict=True):
        unit = stats.zscore(np.arange(part.n), ddof=1)
        made.append(mean.value + unit * mean.stderr * np.sqrt(part.n))
    reference = stats.f_oneway(*made, equal_var=False)
    assert found.statistic == pytest.approx(reference.statistic, rel=1e-9)
    assert found.p_value == pytest.approx(reference.pvalue, rel=1e-6)


ALIKE: list[tuple[Mechanism, Callable[[int], Any], tuple[int, ...]]] = [
    (CITY, lambda n: RNG.choice(CITY.labels, n, p=[0.6, 0.3, 0.1]), (60, 100, 200)),
    (USED, lambda n: np.where(RNG.random(n) < 0.05, "yes", "no"), (40, 40, 40, 40)),
    (OptimizedUnary(5, 2.0), lambda n: RNG.integers(0, 5, n), (60, 60, 200)),
    (AGE, lambda n: np.clip(RNG.normal(45, 15, n).round(), 18, 95), (60, 100, 40)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "draw", "sizes"), ALIKE, ids=lambda value: str(value)[:24])
def test_alike_groups_are_rejected_in_at_most_5_of_100_and_different_ones_nearly_always(
    mechanism: Mechanism, draw: Callable[[int], Any], sizes: tuple[int, ...]
) -> None:
    """2,000 surveys: a rate of 5 % has a standard error of 0.5 points; 5 % and 3.5 of them."""
    surveys, people = 2_000, sum(sizes)
    data = mechanism.privatize(draw(surveys * people), seeded_source(3)).data
    data = data.reshape(surveys, people, *data.shape[1:])
    edges = [int(edge) for edge in np.cumsum([0, *sizes])]

    def p_value(rows: Any) -> float:
        parts = [rows[low:high] for low, high in pairwise(edges)]
        tallies = [Tally(mechanism, mechanism.count(part), len(part)) for part in parts]
        return compare_groups({g: mechanism.estimate(t) for g, t in enumerate(tallies)}).p_value

    rejected = np.mean([p_value(rows) < 0.05 for rows in data])
    assert 0.02 <= rejected <= 0.067
    # and of the same reports, sorted, the groups do differ
    order = np.argsort(data[0].reshape(people, -1).astype(np.int64).sum(axis=1), kind="stable")
    assert p_value(data[0][order]) < 1e-4


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    rng = np.random.default_rng(7)
    rows = ["city,used,news,age,ward"]
    for ward, first, reads in (
        ("north", 0.8, "web"),
        ("south", 0.3, "radio"),
        ("west", 0.3, "web"),
    ):
        for _ in range(400):
            city = rng.choice(CITY.labels, p=[first, (1 - first) / 2, (1 - first) / 2])
            rows.append(f"{city},{rng.choice(['yes', 'no'])},{reads},{rng.integers(18, 95)},{ward}")
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n")
    news = MultipleChoice(["paper", "radio", "web"], 4.0, most=2)
    columns = {"city": CITY, "used": USED, "news": news, "age": AGE}
    randomize_file(
        tmp_path / "a.csv", tmp_path / "r.csv", columns, keep=["ward"], source=seeded_source(9)
    )
    return tmp_path / "r.csv"


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_groups_of_a_file_are_tested_in_every_form_of_output(reports: Path) -> None:
    found = estimate_file(reports, by="ward")
    assert list(found.tests) == ["city", "used", "news", "age"]
    p = {name: test.p_value for name, test in found.tests.items()}
    assert max(p["city"], p["news"]) < 1e-6
    assert min(p["used"], p["age"]) > 0.01
    alone = {group: parts["city"] for group, parts in found.groups.items()}
    assert found.tests["city"] == compare_groups(alone, "city by ward")
    again = Survey.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert again.tests["city"] == found.tests["city"]
    assert isinstance(again.tests["age"], GroupTest)
    shown = run("estimate", reports, "--by", "ward").output
    assert str(found.tests["city"]) in shown
    document = json.loads(run("estimate", reports, "--by", "ward", "--json").output)
    assert document["tests"]["city"]["p_value"] == pytest.approx(p["city"])
    (reports.parent / "s.toml").write_text('file = "r.csv"\nby = "ward"\n')
    assert (
        run("survey", "report", reports.parent / "s.toml", "-o", reports.parent / "s.md").exit_code
        == 0
    )
    assert str(found.tests["news"]) in (reports.parent / "s.md").read_text()


def test_by_a_randomized_column_independence_is_tested(reports: Path) -> None:
    with pytest.warns(UserWarning, match="cannot be estimated by it"):
        found = estimate_file(reports, by="used")
    assert list(found.tests) == ["city"]
    assert str(found.tests["city"]).startswith("independence of used and city: chi-square")
    assert found.tests["city"].p_value > 0.001


def test_a_column_with_an_estimator_of_its_own_is_not_tested(reports: Path) -> None:
    found = estimate_file(reports, by="ward", options={"age": {"estimator": "ems"}})
    assert "age" not in found.tests
    assert "city" in found.tests


def test_groups_that_cannot_be_compared_are_refused_with_the_rule() -> None:
    north = asked(CITY, ["Oslo", "Paris"] * 30)
    refused = [
        ({"north": north}, "must be two groups or more"),
        (
            {"north": north, "south": CITY.estimate(["Oslo"] * 9, population=50)},
            "without population",
        ),
        ({"north": north, "south": asked(USED, ["no"] * 9)}, "labels"),
    ]
    for groups, rule in refused:
        with pytest.raises(DeniableError, match=rule):
            compare_groups(groups)
