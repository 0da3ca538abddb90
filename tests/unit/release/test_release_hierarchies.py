"""Generalisation hierarchies: what they make of a value, and which ones are refused."""

from __future__ import annotations

from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from deniable.errors import ParameterError, ReleaseError
from deniable.release import (
    Categories,
    Dates,
    Hierarchy,
    KAnonymity,
    Masked,
    Numbers,
    Tree,
    anonymize,
    automatic_hierarchy,
    parse_hierarchy,
    read_hierarchy,
)

JOBS = [
    ("nurse", "care", "services"),
    ("midwife", "care", "services"),
    ("cook", "food", "services"),
    ("smith", "craft", "making"),
]
CASES: list[tuple[Hierarchy, list[Any]]] = [
    (Numbers(0, 100, 3, factor=2), [-4, 0, 0.1, 2.9, 3, 50, 95.9, 96, 99.99, 100, 1e9, "17", None]),
    (Numbers(-1, 1, 0.1, factor=3), [x / 40 for x in range(-45, 46)]),
    (
        Dates(date(1900, 1, 1), date(2019, 12, 31)),
        ["1899-12-31", "1987-06-05", date(1987, 6, 5), datetime(2001, 2, 3, 4), ""],
    ),
    (Dates(date(2001, 1, 1), date(2001, 3, 1)), ["2001-02-28", "2001-03-01"]),
    (Masked(5), ["80331", "80335", "10115", None]),
    (Categories(("a", "b")), ["a", "b", None]),
    (Tree.from_paths(JOBS), ["nurse", "midwife", "cook", "smith", ""]),
]


@pytest.mark.parametrize(("hierarchy", "values"), CASES)
def test_levels_nest_and_losses_grow_from_nothing_to_everything(
    hierarchy: Hierarchy, values: list[Any]
) -> None:
    for value in values:
        hierarchy.check(value)
        losses = [hierarchy.loss(value, level) for level in range(hierarchy.levels)]
        assert losses[0] == 0
        assert losses[-1] == 1
        assert all(low <= high for low, high in pairwise(losses))
        assert hierarchy.label(value, hierarchy.levels - 1) == "*"
    for level in range(hierarchy.levels - 1):
        above: dict[Any, Any] = {}
        for value in values:
            # Values that share a label share all wider ones and the loss.
            wider = (hierarchy.label(value, level + 1), hierarchy.loss(value, level))
            assert above.setdefault(hierarchy.label(value, level), wider) == wider
        domain = hierarchy.domain(level)
        if domain is not None:
            assert {hierarchy.label(value, level) for value in values} - {None, ""} <= set(domain)
            assert len(set(domain)) == len(domain)


def test_the_labels_are_the_expected_ones() -> None:
    ages = Numbers(0, 100, 10, factor=5)
    assert [ages.label(73, level) for level in range(4)] == [73, "[70, 80)", "[50, 100)", "*"]
    assert ages.loss(73, 2) == 0.5
    assert ages.domain(2) == ["<0", "[0, 50)", "[50, 100)", "≥100"]
    jobs = Tree.from_paths(JOBS)
    assert [jobs.label("cook", level) for level in range(4)] == ["cook", "food", "services", "*"]
    assert [jobs.loss("nurse", level) for level in range(4)] == [0, 1 / 3, 2 / 3, 1]
    born = Dates(date(1950, 1, 1), date(1989, 12, 31))
    assert [born.label("1977-03-09", level) for level in range(5)] == [
        "1977-03-09",
        "1977-03",
        "1977",
        "1970s",
        "*",
    ]
    # A shorter range leaves out what would cover all of it.
    assert Dates(date(2001, 1, 1), date(2001, 3, 1)).levels == 3


def test_parents_and_paths_say_the_same() -> None:
    parents = [
        ("care", "services"),
        ("nurse", "care"),
        ("midwife", "care"),
        ("food", "services"),
        ("cook", "food"),
        ("services", ""),
    ]
    parents += [("craft", "making"), ("smith", "craft")]
    one, other = Tree.from_parents(parents), Tree.from_paths(JOBS)
    for job in ("nurse", "midwife", "cook", "smith"):
        assert [one.label(job, level) for level in range(4)] == [
            other.label(job, level) for level in range(4)
        ]
    # A value nearer to the root stays itself until the others have caught up.
    ragged = Tree.from_parents([*parents, ("priest", "services")])
    assert [ragged.label("priest", level) for level in range(4)] == [
        "priest",
        "priest",
        "services",
        "*",
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a;x\nb;x\na;y\n", "row 3: the value 'a' stands in the hierarchy twice"),
        ("a,x,m\nb,x,m\nc,x,n\n", "row 3: not a tree: 'x' lies in 'n', and in 'm' by row 1"),
        ("a,b,a\n", "row 1: a cycle: 'b' lies in itself"),
        ("a,b,c\nb,d,e\nx,c,b\n", "row 3: a cycle"),
        ("a,x\nb\n", "row 2: 1 labels where row 1 has 2"),
        ("a,\n", "row 1: a label is empty"),
        ("", "is empty"),
        ("value,parent\na,b\nb,c\nc,a\n", "row 3: a cycle: 'c' lies in itself"),
        (
            "value,parent\na,b\na,c\n",
            "row 2: not a tree: 'a' lies in 'c', and has a parent by row 1",
        ),
        ("value,parent\na,a\n", "row 1: a cycle"),
        ("value,parent\na\n", "row 1: must hold a value and its parent"),
    ],
)
def test_what_is_no_tree_is_named_with_its_row(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(content)
    with pytest.raises(ReleaseError) as error:
        read_hierarchy(path)
    assert str(error.value).startswith(str(path))
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("hierarchy", "values", "rule"),
    [
        (Tree.from_paths(JOBS), ["cook", "smith", "cook", "spy"], "is not in its hierarchy"),
        (
            Tree.from_paths(JOBS),
            ["cook", "smith", "cook", "spy", "agent"],
            "is not in its hierarchy",
        ),
        (Numbers(0, 10, 1), [3, 4, 3, "seven"], "is no int"),
        (Numbers(0, 10, 1), ["3", "4", "3", "seven"], "is not a number"),
        (Numbers(0, 10, 1), ["3", "4", "3", "inf"], "is not a finite number"),
        (Masked(2), ["12", "13", "12", "134"], "does not have 2 characters"),
        (
            Dates(date(1900, 1, 1), date(2000, 1, 1)),
            ["1950-01-01", "", "1950-01-02", "yesterday"],
            "is not a date",
        ),
        (Categories(("a", "b")), ["a", "b", "a", "secret"], "is not one of the 2 labels"),
    ],
)
def test_a_value_without_a_label_is_named_by_its_row_and_never_shown(
    hierarchy: Hierarchy, values: list[Any], rule: str
) -> None:
    with pytest.raises(ReleaseError) as error:
        anonymize({"x": values}, {"x": hierarchy}, [KAnonymity(1)])
    assert "row 4, column 'x': the value" in str(error.value)
    assert rule in str(error.value)
    assert str(values[3]) not in str(error.value)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Numbers(0, 0, 1), "high"),
        (lambda: Numbers(0, 10, 0), "width"),
        (lambda: Numbers(0, 10, 11), "width"),
        (lambda: Numbers(0, 10, 1, factor=1), "factor"),
        (lambda: Numbers(0, float("nan"), 1), "high"),
        (lambda: Numbers(0, 1e30, 1e-9), "width"),
        (lambda: Dates(date(2000, 1, 1), date(1999, 1, 1)), "high"),
        (lambda: Dates("someday", date(1999, 1, 1)), "low"),  # type: ignore[arg-type]
        (lambda: Masked(0), "length"),
    ],
)
def test_bad_parameters_of_a_hierarchy_are_refused_by_name(make: Any, name: str) -> None:
    with pytest.raises(ParameterError) as error:
        make()
    assert error.value.name == name


def test_a_hierarchy_is_found_for_a_column() -> None:
    assert isinstance(automatic_hierarchy(["1", "2.5", "", "40"]), Numbers)
    assert isinstance(automatic_hierarchy(["01067", "80331"]), Masked)
    assert isinstance(automatic_hierarchy(["red", "green"]), Categories)
    assert isinstance(automatic_hierarchy([True, False]), Categories)
    assert isinstance(automatic_hierarchy([None]), Categories)
    dates = automatic_hierarchy([date(1987, 6, 5), date(1990, 1, 1)])
    assert dates == Dates(date(1987, 6, 5), date(1990, 1, 1))
    numbers = automatic_hierarchy([3, 17, 1003])
    assert isinstance(numbers, Numbers)
    # Every value lies inside the bounds, and there are at most 64 intervals and one.
    assert numbers.low == 3
    assert numbers.high > 1003
    assert len(numbers.domain(1) or []) <= 65 + 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("age", "must have the form"),
        ("age=years", "neither a CSV file nor one of"),
        ("age=numbers:low=0", "numbers needs low=…, high=…, width=…"),
        ("age=numbers:low=x,high=1,width=1", "low = 'x' must be a number"),
        ("age=numbers:size=3", "must be one of low=…"),
        ("age=numbers:low=5,high=1,width=1", "high = 1.0 must be above low"),
        ("age=nowhere.csv", "nowhere.csv cannot be read: No such file"),
    ],
)
def test_the_text_of_a_hierarchy_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ReleaseError) as error:
        parse_hierarchy(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
