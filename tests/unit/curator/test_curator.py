"""A curator's answers: from any frame, with declared bounds and labels, bounded rows per person and
named neighbours."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

from deniable.curator import Curator, CuratorBudget, curator_histogram
from deniable.curator.noise import LaplaceNoise, NoisyChoice
from deniable.errors import BudgetExceededError, CuratorError, MissingExtraError, ParameterError
from deniable.estimation.distances import euclidean, kantorovich
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables.statistic import Statistic
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.randomness import seeded_source

FRAME: dict[str, list[Any]] = {
    "id": ["a", "a", "b", "c", "c", "d"],
    "age": [20, 30, 40, 50, 60, 91],
    "pay": [1.5, 2.25, 3.0, 4.5, 0.0, 10.0],
    "city": ["Oslo", "Paris", "Oslo", "Rome", "Oslo", "Paris"],
}
BOUNDS: tuple[float, float] = (18, 95)


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of 0, and the best choice: what is left is the arithmetic."""
    monkeypatch.setattr(LaplaceNoise, "add", lambda self, numbers: list(numbers))
    monkeypatch.setattr(NoisyChoice, "largest", lambda self, scores: int(np.argmax(scores)))


FRAMES: dict[str, Callable[[], Any]] = {
    "mapping": lambda: FRAME,
    "pandas": lambda: pd.DataFrame(FRAME),
    "Polars": lambda: pl.DataFrame(FRAME),
    "Arrow": lambda: pa.table(FRAME),
    "texts, as of CSV": lambda: {
        name: [str(value) for value in values] for name, values in FRAME.items()
    },
}


@pytest.mark.usefixtures("without_noise")
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", FRAMES)
def test_without_noise_every_statistic_is_that_of_the_rows(kind: str, neighbours: Any) -> None:
    curator = Curator(FRAMES[kind](), 100, neighbours=neighbours)
    age, pay = np.array(FRAME["age"]), np.array(FRAME["pay"])
    assert curator.count(epsilon=1).value == 6
    assert curator.sum("age", epsilon=1, bounds=BOUNDS).value == pytest.approx(age.sum(), abs=1e-4)
    assert curator.sum("pay", epsilon=1, bounds=(0, 10), step=0.25).value == pay.sum()
    assert curator.mean("age", epsilon=1, bounds=BOUNDS).value == pytest.approx(
        age.mean(), abs=1e-5
    )
    assert curator.mean("age", epsilon=1, bounds=(30, 60)).value == pytest.approx(
        age.clip(30, 60).mean(), abs=1e-5
    )
    assert curator.variance("age", epsilon=1, bounds=BOUNDS).value == pytest.approx(
        age.var(), rel=1e-4
    )
    assert curator.std("age", epsilon=1, bounds=BOUNDS).value == pytest.approx(age.std(), rel=1e-4)
    assert curator.noisy_max("age", epsilon=1, bounds=BOUNDS).value == pytest.approx(91, abs=1e-5)
    assert curator.median("age", epsilon=1, bounds=BOUNDS, step=1).value in range(40, 51)
    assert curator.quantile("age", 0.9, epsilon=1, bounds=BOUNDS, step=1).value == 91
    histogram = curator.histogram("city", epsilon=1, labels=["Oslo", "Paris"])
    assert histogram.labels == ("Oslo", "Paris", "other")
    assert histogram.counts().tolist() == [3, 2, 1]
    assert histogram.proportions == pytest.approx([1 / 2, 1 / 3, 1 / 6])
    binned = curator.histogram("age", epsilon=1, bins=[30, 40, 60])
    assert binned.labels == ("[30, 40)", "[40, 60]")
    assert binned.counts().tolist() == [2, 4]
    assert (
        curator.most_frequent("city", epsilon=1, labels=["Oslo", "Paris", "Rome"]).label == "Oslo"
    )
    assert curator.where("age", ">=", 40).where("city", "!=", "Rome").count(epsilon=1).value == 3
    assert curator.where("city", "in", ["Rome", "Paris"]).count(epsilon=1).value == 3
    assert (
        curator.where("city", "==", "Bergen").mean("age", epsilon=1, bounds=BOUNDS).interval()
        == BOUNDS
    )
    groups = curator.group_by("city", ["Oslo", "Paris", "Bergen"])
    counted = groups.count(epsilon=1)
    assert [counted[key].value for key in ("Oslo", "Paris", "Bergen")] == [3, 2, 0]
    assert groups.mean("age", epsilon=1, bounds=BOUNDS)["Oslo"].value == pytest.approx(40, abs=1e-5)


@pytest.mark.usefixtures("without_noise")
def test_numbers_dates_and_booleans_are_labels_and_filters_too() -> None:
    days = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)]
    for frame in (pd.DataFrame, pl.DataFrame, pa.table, dict):
        curator = Curator(frame({"n": [1, 2, 2], "yes": [True, False, True], "day": days}), 100)
        assert curator.histogram("n", epsilon=1, labels=[1, 2], other=None).counts().tolist() == [
            1,
            2,
        ]
        assert curator.histogram(
            "yes", epsilon=1, labels=[True, False], other=None
        ).counts().tolist() == [2, 1]
        assert curator.where("day", ">", days[0]).count(epsilon=1).value == 2
        assert curator.mean("yes", epsilon=1, bounds=(0, 1), step=1).value == pytest.approx(2 / 3)


@pytest.mark.usefixtures("without_noise")
def test_the_largest_and_smallest_value_are_those_that_enough_people_have() -> None:
    ages = [20] * 500 + [60] * 400 + [61] * 3 + [94]
    curator = Curator({"age": ages}, 100)
    largest = curator.maximum("age", epsilon=1, bounds=BOUNDS, step=1)
    assert largest.value == 60
    assert largest.interval() == (59.5, 95)
    assert curator.minimum("age", epsilon=1, bounds=BOUNDS, step=1).interval() == (18, 20.5)
    # six people are too few
    hidden = str(Curator(FRAME, 1).minimum("age", epsilon=1, bounds=BOUNDS))
    assert (
        hidden
        == "minimum of age: 95, 18 to 95 (at least 95 %); epsilon 1, add-remove neighbours, one row"
        " per person"
    )


def test_each_result_names_its_cost_and_whom_it_protects() -> None:
    curator = Curator(FRAME, 10, neighbours="replace-one", person="id", rows=2)
    results: list[Any] = [
        curator.mean("age", epsilon=0.5, bounds=BOUNDS),
        curator.histogram("city", epsilon=0.5, labels=["Oslo"]),
        curator.most_frequent("city", epsilon=0.5, labels=["Oslo", "Paris"]),
        curator.median("age", epsilon=0.5, bounds=BOUNDS),
        curator.preview("mean", "age", epsilon=0.5, bounds=BOUNDS, size=6),
    ]
    for result in results:
        assert "replace-one neighbours, up to 2 rows per person" in str(result)
        document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert (document["epsilon"], document["neighbours"], document["rows_per_person"]) == (
            0.5,
            "replace-one",
            2,
        )
    assert isinstance(results[0], Statistic)
    assert isinstance(results[1], Estimate)


def test_results_print_their_error() -> None:
    curator = Curator(FRAME, 10)
    released = curator.sum("age", epsilon=1, bounds=BOUNDS, step=1)
    limits = f"{released.value - 285:,.0f} to {released.value + 285:,.0f} (at least 95 %)"
    terms = "epsilon 1, add-remove neighbours, one row per person"
    assert str(released) == f"sum of age: {released.value:,.0f}, {limits}; {terms}"
    assert (
        str(Curator(FRAME, 1, neighbours="replace-one").count(epsilon=1))
        == "count: 6; public, replace-one neighbours, one row per person"
    )
    lines = str(curator.group_by("city", ["Oslo", "Rome"]).count(epsilon=1)).splitlines()
    assert lines[0] == "city = Oslo"
    assert lines[3].startswith("  count: ")


def test_a_histogram_stands_beside_a_randomized_one() -> None:
    cities = FRAME["city"] * 2000
    labels = ["Oslo", "Paris", "Rome"]
    curated = curator_histogram({"city": cities}, "city", 1, labels=labels)
    survey = DirectEncoding(labels, epsilon=1.0)
    local = survey.estimate(survey.privatize(cities, seeded_source(5)), population=len(cities))
    assert curated.labels == local.labels
    assert np.all(curated.stderr < local.stderr / 20)
    truth = np.array([1 / 2, 1 / 3, 1 / 6])
    assert euclidean(curated, truth) < euclidean(local, truth)
    assert kantorovich(curated.projected(), truth) < 0.01
    assert curated.projected().proportions.sum() == pytest.approx(1)
    wide = curated.interval(0.95, simultaneous=True)
    assert np.all(wide[:, 0] <= curated.interval()[:, 0])
    assert np.all(wide[:, 1] >= curated.interval()[:, 1])
    assert (
        curated.plot(Figure().subplots()).get_title()
        == f"about {curated.n:,} rows, epsilon 1 (curator)"
    )
    low, high = curated.count_interval().T
    assert (high - low).tolist() == [6.0, 6.0, 6.0]
    with pytest.raises(ParameterError, match="method = 'normal' must be None"):
        curated.interval(method="normal")


def test_a_thousand_labels_have_errors_too() -> None:
    numbers = list(range(1000)) * 5
    curated = curator_histogram({"x": numbers}, "x", 1, labels=list(range(1000)))
    assert curated.covariance is None
    assert str(curated).splitlines()[20] == "… and 980 more"
    assert np.all(np.isfinite(curated.interval()))
    assert curated.plus_minus() == pytest.approx(np.full(1000, 3.4 / curated.n), rel=0.1)


# Previews


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("statistic", "arguments", "options"),
    [
        ("count", (), {}),
        ("sum", ("age",), {"bounds": BOUNDS}),
        ("mean", ("age",), {"bounds": BOUNDS}),
        ("variance", ("age",), {"bounds": BOUNDS}),
        ("noisy_max", ("age",), {"bounds": BOUNDS}),
    ],
)
def test_the_error_that_was_previewed_is_the_one_that_is_bought(
    statistic: str, arguments: tuple[str, ...], options: dict[str, Any], neighbours: Any
) -> None:
    rng = np.random.default_rng(3)
    curator = Curator({"age": rng.integers(18, 95, 4000)}, 1, neighbours=neighbours)
    seen = curator.preview(statistic, *arguments, epsilon=0.5, size=4000, **options)
    assert curator.budget.spent == 0
    released = getattr(curator, statistic)(*arguments, epsilon=0.5, **options)
    low, high = released.interval()
    if seen.bound:  # at most, whatever the data
        assert 0.3 * seen.plus_minus() < (high - low) / 2 <= seen.plus_minus() * 1.01
    else:
        assert (high - low) / 2 == pytest.approx(seen.plus_minus(), rel=1e-6)
        assert released.stderr == pytest.approx(seen.stderr)
    assert (seen.epsilon, released.epsilon) == (
        (0, 0) if (statistic, neighbours) == ("count", "replace-one") else (0.5, 0.5)
    )
    assert seen.left == float(curator.budget.left)


def test_a_preview_says_what_would_be_left_or_that_it_would_be_refused() -> None:
    curator = Curator(FRAME, 1)
    assert "epsilon 0.75, 0.25 left" in str(curator.preview("count", epsilon=0.75))
    assert "epsilon 1.5: refused" in str(curator.preview("count", epsilon=1.5))
    assert "± 3 rows per label" in str(
        curator.preview("histogram", "city", epsilon=1, labels=["Oslo"])
    )
    assert "rows in rank" in str(curator.preview("median", "age", epsilon=1, bounds=BOUNDS))
    assert "rows short of the most frequent" in str(
        curator.preview("most_frequent", "city", epsilon=1, labels=["Oslo", "Rome"])
    )
    assert "of the variance" in str(curator.preview("std", "age", epsilon=1, bounds=BOUNDS, size=9))
    with pytest.raises(ParameterError, match="size = None must be given"):
        curator.preview("mean", "age", epsilon=1, bounds=BOUNDS)
    with pytest.raises(ParameterError, match="statistic = 'mode' must be one of count, sum, mean"):
        curator.preview("mode", "age", epsilon=1)


def test_a_preview_looks_at_no_data_where_the_size_is_private() -> None:
    one, other = Curator({"x": [1, 2]}, 1), Curator({"x": [5.0] * 999}, 1)
    for statistic, arguments, options in (
        ("count", (), {}),
        ("mean", ("x",), {"bounds": (0, 9), "size": 50}),
        ("std", ("x",), {"bounds": (0, 9), "size": 50}),
        ("maximum", ("x",), {"bounds": (0, 9)}),
        ("histogram", ("x",), {"bins": 3, "bounds": (0, 9)}),
    ):
        assert one.preview(statistic, *arguments, epsilon=1, **options).to_dict() == (
            other.preview(statistic, *arguments, epsilon=1, **options).to_dict()
        )
    assert (
        repr(one)
        == repr(other)
        == "<Curator of a table: add-remove neighbours, one row per person; <Budget of epsilon 1, 0"
        " spent>>"
    )


# Filters and groups


@pytest.mark.usefixtures("without_noise")
def test_a_filter_hides_who_is_in_it_even_if_the_size_of_the_table_is_public() -> None:
    """One row left, or none: the noise is that of any other filter, where dividing by the public
    size would give it away."""
    curator = Curator(FRAME, 10, neighbours="replace-one")
    whole = curator.preview("mean", "age", epsilon=1, bounds=BOUNDS)
    nobody, one = curator.where("age", ">", 93), curator.where("age", ">", 90)
    assert whole.protection.size == 6
    for part in (nobody, one):
        with pytest.raises(ParameterError, match="size = None must be given"):
            part.preview("mean", "age", epsilon=1, bounds=BOUNDS)
        assert part.count(epsilon=1).stderr > 0
        assert part.mean("age", epsilon=1, bounds=BOUNDS).interval() == BOUNDS


def test_groups_cost_what_one_costs_and_each_has_the_noise_that_this_needs() -> None:
    """A row that is replaced may change groups, so the noise is twice a filter's; one that comes or
    goes is in one group."""
    for neighbours, factor in (("add-remove", 1), ("replace-one", 2)):
        curator = Curator(FRAME, 4, neighbours=neighbours)  # type: ignore[arg-type]
        one = curator.where("city", "==", "Oslo").preview("count", epsilon=1)
        groups = curator.group_by("city", ["Oslo", "Paris", "Rome"])
        assert groups.preview("count", epsilon=1).stderr == pytest.approx(
            factor * one.stderr, rel=0.1
        )
        result = groups.count(epsilon=1)
        assert result.epsilon == 1
        assert curator.budget.spent == 1
        assert result.to_dict()["group_by"] == "city"
        assert [group["group"] for group in result.to_dict()["groups"]] == ["Oslo", "Paris", "Rome"]


def test_filters_and_groups_tell_nothing_before_they_are_paid_for() -> None:
    curator = Curator(FRAME, 1)
    part = curator.where("age", ">", 90)
    assert not hasattr(part, "__len__")
    assert repr(part) == repr(Curator(FRAME | {"age": [0] * 6}, 1).where("age", ">", 90))
    assert curator.budget.spent == 0
    with pytest.raises(BudgetExceededError):
        part.mean("age", epsilon=2, bounds=BOUNDS)


# People with several rows


def test_a_person_with_more_rows_than_declared_is_refused_and_not_named() -> None:
    with pytest.raises(
        CuratorError, match="column 'id': somebody has more than the declared one row"
    ) as refused:
        Curator(FRAME, 1, person="id")
    assert "'a'" not in str(refused.value)
    with pytest.raises(CuratorError, match="somebody has more than the declared 2 rows"):
        Curator(FRAME | {"id": ["a"] * 3 + ["b"] * 3}, 1, person="id", rows=2)
    with pytest.raises(CuratorError, match="column 'id', row 2: the person is missing"):
        Curator(FRAME | {"id": ["a", None, "b", "c", "d", "e"]}, 1, person="id", rows=2)
    with pytest.raises(ParameterError, match="rows = 2 needs `person`"):
        Curator(FRAME, 1, rows=2)


def test_more_rows_per_person_mean_as_much_more_noise() -> None:
    one, three = (
        Curator(FRAME | {"id": list("abcdef")}, 1, person="id"),
        Curator(FRAME, 1, person="id", rows=3),
    )
    for statistic, arguments, options in (
        ("sum", ("age",), {"bounds": BOUNDS}),
        ("mean", ("age",), {"bounds": BOUNDS, "size": 6}),
        ("median", ("age",), {"bounds": BOUNDS}),
    ):
        wide = three.preview(statistic, *arguments, epsilon=1, **options).plus_minus()
        assert wide == pytest.approx(
            3 * one.preview(statistic, *arguments, epsilon=1, **options).plus_minus(), rel=1e-3
        )


# What is refused


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA])
def test_missing_values_are_refused_wherever_they_stand_or_left_out_if_that_was_said(
    value: Any,
) -> None:
    frame = pd.DataFrame({"x": pd.Series([1.0, value, 3.0], dtype=object), "y": [1, 2, 3]})
    curator = Curator(frame, 100)
    for ask in (
        lambda: curator.mean("x", epsilon=1, bounds=(0, 3)),
        lambda: curator.where("x", ">", 0).count(epsilon=1),
        lambda: curator.where("y", "==", 3).sum("x", epsilon=1, bounds=(0, 3)),
        lambda: curator.group_by("x", [1.0]).count(epsilon=1),
        lambda: curator.histogram("x", epsilon=1, labels=[1.0]),
    ):
        with pytest.raises(CuratorError, match="column 'x', row 2: the value is missing"):
            ask()
    assert curator.budget.spent == 0
    dropping = Curator(frame, 100, neighbours="replace-one", missing="drop")
    # who has no value is private
    assert dropping.sum("x", epsilon=1, bounds=(0, 3)).protection.size is None
    assert dropping.sum("y", epsilon=1, bounds=(0, 3)).protection.size is None
    assert dropping.count(epsilon=1).value == 3


def test_the_same_refusal_comes_whatever_the_filter_is() -> None:
    """Or refusals would say, for nothing, whether a person chosen by a filter has a value."""
    curator = Curator({"x": [1.0, None, 3.0], "id": [1, 2, 3]}, 1)
    refusals = set()
    for person in (1, 2, 3):
        with pytest.raises(CuratorError) as refused:
            curator.where("id", "==", person).mean("x", epsilon=1, bounds=(0, 3))
        refusals.add(str(refused.value))
    assert len(refusals) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Curator({}, 1), "the table has no rows"),
        (lambda: Curator({"x": []}, 1), "the table has no rows"),
        (lambda: Curator(pd.DataFrame({"x": []}), 1), "the table has no rows"),
        (lambda: Curator([1, 2, 3], 1), "frame = 'list' must be a pandas or Polars DataFrame"),
        (
            lambda: Curator({"x": [1], "y": [1, 2]}, 1),
            "columns of the table have different lengths: 1, 2",
        ),
        (lambda: Curator({"x": "text"}, 1), "a column must be a sequence of values, not str"),
        (lambda: Curator({3: [1]}, 1), "must have different texts as names, not 3"),
        (
            lambda: Curator(FRAME, 1, neighbours="swap"),  # type: ignore[arg-type]
            "neighbours = 'swap' must be one of",
        ),
        (lambda: Curator(FRAME, 1, missing="zero"), "missing = 'zero' must be 'refuse' or 'drop'"),
        (
            lambda: Curator(FRAME, 1, person="id", rows=0),
            "rows = 0 must be a whole number of at least 1",
        ),
        (lambda: Curator(FRAME, 1, person="name"), "the table has no column 'name'"),
        (lambda: Curator(FRAME, 1).where("age", "~", 3), "operator = '~' must be one of"),
        (lambda: Curator(FRAME, 1).where("age", "in", 3), "value = 3 must be a list of values"),
        (
            lambda: Curator(FRAME, 1).where("age", "in", [[3]]),
            r"value = \[3\] must be a text, a number",
        ),
        (
            lambda: Curator(FRAME, 1).where("age", "==", None),
            "value = None must be a text, a number",
        ),
        (
            lambda: Curator(FRAME, 1).where("age", "==", "20"),
            "column 'age' cannot be compared with '20'",
        ),
        (
            lambda: Curator(FRAME, 1).where("city", "<", 3),
            "column 'city', row 1: the value is not a number",
        ),
        (
            lambda: Curator(FRAME, 1).where("city", "<", date(2024, 1, 1)),
            "column 'city' cannot be compared with",
        ),
        (lambda: Curator(FRAME, 1).where("town", "==", "Oslo"), "the table has no column 'town'"),
        (lambda: Curator(FRAME, 1).group_by("city"), "keys of city = None must be declared"),
        (
            lambda: Curator(FRAME, 1).group_by("city", []),
            r"keys of city = \[\] must hold at least one value",
        ),
        (
            lambda: Curator(FRAME, 1).group_by("city", "Oslo"),
            "keys of city = 'Oslo' must be a list of values",
        ),
        (lambda: Curator(FRAME, 1).group_by("city", ["Oslo", "Oslo"]), "must be different values"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(make: Callable[[], Any], message: str) -> None:
    with pytest.raises((CuratorError, ParameterError), match=message) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("statistic", "arguments", "options", "message"),
    [
        ("mean", ("age",), {}, "bounds of age = None must be declared"),
        ("mean", ("age",), {"bounds": 3}, "bounds of age = 3 must be two numbers"),
        (
            "mean",
            ("age",),
            {"bounds": (3, 3)},
            r"bounds of age = \(3, 3\) must be two finite numbers, the lower first",
        ),
        ("mean", ("age",), {"bounds": (0, math.inf)}, "must be two finite numbers"),
        ("mean", ("age",), {"bounds": (0, math.nan)}, "must be two finite numbers"),
        ("mean", ("age",), {"bounds": (-1e308, 1e308)}, "must be two finite numbers"),
        ("mean", ("age",), {"bounds": (1e15, 1e15 + 1)}, "must be further apart"),
        ("sum", ("age",), {"bounds": (1e6, 1e6 + 1)}, "must be further apart for a sum"),
        (
            "mean",
            ("age",),
            {"bounds": (0, 10), "step": 3},
            "step = 3 must divide both bounds, 0 and 10",
        ),
        ("mean", ("age",), {"bounds": (0, 10), "step": 0}, "step = 0 must be finite and above 0"),
        (
            "sum",
            ("age",),
            {"bounds": (0, 10), "step": 1e-12},
            "must divide the bounds into at most",
        ),
        ("variance", ("age",), {"bounds": (0, 10), "step": 1e-6}, "into at most 65,536 steps"),
        ("median", ("age",), {"bounds": (0, 10), "step": 1e-6}, "into at most 65,536 steps"),
        ("quantile", ("age", 1.5), {"bounds": (0, 10)}, "level = 1.5 must lie between 0 and 1"),
        (
            "quantile",
            ("age", 0.5),
            {"bounds": (0, 10), "bracket": 1},
            "bracket = 1 must be at least 0 and below 1",
        ),
        ("histogram", ("city",), {}, "needs labels or bins, but not both"),
        ("histogram", ("city",), {"labels": ["a"], "bins": [1, 2]}, "but not both"),
        ("histogram", ("city",), {"labels": []}, "must hold at least one value"),
        (
            "histogram",
            ("city",),
            {"labels": ["a", None]},
            "must be a text, a number or another value that is not missing",
        ),
        ("histogram", ("city",), {"labels": [1, "1"]}, "must be different values"),
        (
            "histogram",
            ("city",),
            {"labels": ["a"], "other": "a"},
            "other = 'a' must be none of the labels",
        ),
        (
            "histogram",
            ("age",),
            {"bins": [3, 2]},
            "bins = .* must be their number, or at least two increasing edges",
        ),
        ("histogram", ("age",), {"bins": 0, "bounds": BOUNDS}, "bins = 0 must be from 1"),
        ("histogram", ("age",), {"bins": 3}, "bounds of age = None must be declared"),
        ("histogram", ("age",), {"bins": [1, 2], "bounds": BOUNDS}, "must not be given together"),
        ("most_frequent", ("city",), {}, "labels of city = None must be declared"),
        (
            "sum",
            ("height",),
            {"bounds": BOUNDS},
            "the table has no column 'height'; it has 'id', 'age', 'pay', 'city'",
        ),
        ("sum", ("city",), {"bounds": BOUNDS}, "column 'city', row 1: the value is not a number"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_in_one_line_and_costs_nothing(
    statistic: str, arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    curator = Curator(FRAME, 1)
    with pytest.raises((CuratorError, ParameterError), match=message) as refused:
        getattr(curator, statistic)(*arguments, epsilon=1, **options)
    assert "\n" not in str(refused.value)
    assert not any(city in str(refused.value) for city in FRAME["city"])
    assert curator.budget.spent == 0


def test_a_table_is_what_it_was_when_it_was_given() -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0]})
    curator = Curator(frame, 10**6)
    frame["x"] = 0.0
    # noise of 1 or more: once in e^333
    assert curator.sum("x", epsilon=1000, bounds=(0, 3), step=1).value == 6


def test_the_same_table_from_pandas_and_polars_has_one_budget() -> None:
    budget = CuratorBudget(3)
    for frame in (pd.DataFrame, pl.DataFrame, pa.table, dict):
        Curator(frame(FRAME), budget).count(epsilon=Fraction(1, 2))
    assert budget.spent == 2


def test_without_opendp_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opendp.domains", None)
    with pytest.raises(
        MissingExtraError,
        match=r"a curator's noise needs opendp: pip install 'deniable\[curator\]'",
    ):
        Curator(FRAME, 1).count(epsilon=1)
