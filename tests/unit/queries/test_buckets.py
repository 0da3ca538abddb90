"""Buckets: ranges, texts and patterns, their refusals, and the same answer one by one and in
bulk."""

from __future__ import annotations

import math
import re
import time
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from deniable.errors import ParameterError
from deniable.queries.buckets import Buckets
from deniable.queries.columns.bucket_index import LONGEST_TEXT, NONE
from deniable.queries.columns.column import Column
from deniable.queries.columns.patterns import compile_pattern, first_overlap
from deniable.queries.columns.ranges import Range

MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("[0,1)", [0, 0.0, -0.0, math.nextafter(1, 0)], [1, -5e-324, math.nan]),
        ("(2.5,3]", [math.nextafter(2.5, 3), 3, 3.0], [2.5, math.nextafter(3, 4)]),
        ("[10,inf)", [10, 1.7976931348623157e308, 10**400], [math.inf, 9]),
        ("(-inf,0)", [-(10**400), -5e-324], [0, -0.0, -math.inf]),
        ("[3,3]", [3, 3.0], [math.nextafter(3, 4)]),
        ("[9007199254740992,9007199254740994)", [2**53, 2**53 + 1], [2**53 + 2, 2**53 - 1]),
        ("(9007199254740992,9007199254740994]", [2**53 + 1, 2**53 + 2], [2**53]),
    ],
)
def test_a_range_holds_what_its_ends_say(
    text: str, inside: list[float], outside: list[float]
) -> None:
    bucket = Range.parse(text)
    assert [bucket.holds(x) for x in inside] == [True] * len(inside)
    assert [bucket.holds(x) for x in outside] == [False] * len(outside)
    column = Column("x", [text])
    assert [column.index(x) for x in inside] == [0] * len(inside)
    assert [column.index(x) for x in outside] == [NONE] * len(outside)


@pytest.mark.parametrize(
    ("buckets", "place", "says"),
    [
        (["[0,1]", "[1,2)"], "buckets[1]", "overlaps '[0,1]': both hold 1"),
        (["[0,5)", "[5,6)", "[5.5,7)"], "buckets[2]", "overlaps '[5,6)': both hold 5.5"),
        (["[5,6)", "[0,1)"], "buckets[1]", "must come before '[5,6)'"),
        ([1, 1], "buckets[1]", "overlaps '1'"),
        (["[0,1)", "[1,0)"], "buckets[1]", "contains no number"),
        (["[3,3)"], "buckets[0]", "contains no number"),
        (["[0,inf]"], "buckets[0]", "open at an infinite end"),
        (["[0;1)", "[1;2)"], "buckets[0]", "must be a range such as"),
        (["[0,1)", "a lot"], "buckets[1]", "must be a range such as"),
        (["[0,9007199254740993)"], "buckets[0]", "a double cannot represent"),
        (["[0,1e999)"], "buckets[0]", "beyond the largest double"),
        (["yes", "no", "yes"], "buckets[2]", "is repeated: it is also buckets[0]"),
        (
            ["New York", {"glob": "New *"}],
            "buckets[1]",
            "overlaps 'New York': both hold 'New York'",
        ),
        ([{"glob": "*"}, "x"], "buckets[1]", "overlaps 'glob:*': both hold 'x'"),
        (
            [{"glob": "a*"}, {"glob": "b*"}, {"regex": ".*z"}],
            "buckets[2]",
            "overlaps 'glob:a*': both hold 'az'",
        ),
        ([{"regex": "(?=a)"}], "buckets[0]", "must not look around"),
        ([{"regex": "(a"}], "buckets[0]", "leaves a group open"),
        ([{"regex": "a{3"}], "buckets[0]", "must count as"),
        ([{"regex": r"(a)\1"}], "buckets[0]", r"uses \1"),
        ([{"regex": "^a$"}], "buckets[0]", "needs no '^'"),
        ([{"regex": "((a{20}){20}){20}"}], "buckets[0]", "is longer than"),
        ([{"sound": "a"}], "buckets[0]", "must be a text"),
        ([], "buckets", "must number between"),
    ],
)
def test_bad_buckets_are_refused_naming_both(buckets: list[Any], place: str, says: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Column("x", buckets)
    assert caught.value.name == place
    assert says in str(caught.value)


def test_columns_combine_with_the_first_counting_most() -> None:
    """The example of Lavengood 2017, 5.3.1."""
    shape = Buckets([Column("letter", ["a", "b", "c"]), Column("other letter", ["d", "e"])])
    found = {pair: shape.index(pair) for pair in product("abc", "de")}
    assert found == {
        ("a", "d"): 0,
        ("a", "e"): 1,
        ("b", "d"): 2,
        ("b", "e"): 3,
        ("c", "d"): 4,
        ("c", "e"): 5,
    }
    assert shape.labels[3] == "letter=b, other letter=e"


@pytest.mark.parametrize("value", [None, math.nan, "text", b"bytes", 11.5, 10**30])
def test_whatever_is_in_no_bucket_goes_to_other_or_nowhere(value: Any) -> None:
    assert Column("x", ["[0,1)", "[1,2)"], other=True).index(value) == 2
    assert Column("x", ["[0,1)", "[1,2)"]).index(value) == NONE
    both = Buckets([Column("x", ["[0,1)", "[1,2)"]), Column("y", ["[0,1)"], other=True)])
    assert both.index([value, 0]) == NONE
    assert both.index([0, value]) == 1


def test_the_empty_text_is_a_text() -> None:
    assert Column("x", ["", "a"]).kind == "text"
    assert Column("x", ["", "a"]).index("") == 0


def test_a_number_is_not_in_a_text_bucket() -> None:
    assert Column("x", ["1", "2"], kind="text").index(1) == NONE


EDGES = [0, 1, 2.5, 3, 1e300, 2**53, 2**53 + 2, 2**62, 2.0**63, -3, -0.5, 0.1, 1e-300]


def random_column(rng: np.random.Generator) -> Column:
    edges = sorted(rng.choice(EDGES, size=int(rng.integers(2, 9)), replace=False).tolist())
    if rng.random() < 0.5:
        edges = [-math.inf, *edges]
    if rng.random() < 0.5:
        edges = [*edges, math.inf]
    buckets: list[Range] = []
    closed = bool(rng.random() < 0.5)
    for low, high in pairwise(edges):
        if rng.random() < 0.2:
            closed = bool(rng.random() < 0.5)
            continue  # a gap
        next_closed = bool(rng.random() < 0.5)
        if not closed and math.nextafter(low, math.inf) == high:
            next_closed = False  # no double lies between the two
        bucket = Range(
            low, high, closed and math.isfinite(low), not next_closed and math.isfinite(high)
        )
        buckets.append(bucket)
        closed = next_closed
    return Column("x", buckets or ["[0,1)"], other=bool(rng.random() < 0.5))


def test_bulk_and_one_by_one_agree_on_numbers_of_every_type() -> None:
    rng = np.random.default_rng(5)
    near = [
        f(x)
        for x in EDGES
        for f in (
            lambda x: x,
            lambda x: math.nextafter(x, math.inf),
            lambda x: math.nextafter(x, -math.inf),
        )
    ]
    doubles = np.array([*near, math.nan, math.inf, -math.inf, -0.0, *rng.normal(0, 3, 50)])
    integers = np.array(
        [0, 1, 2, 3, -3, 2**53, 2**53 + 1, 2**53 + 2, 2**53 + 3, 2**62 + 1, 2**63 - 1, -(2**63)],
        dtype=np.int64,
    )
    for _ in range(200):
        column = random_column(rng)
        for values in (doubles, integers):
            expected = [column.index(value) for value in values.tolist()]
            assert column.index_many(values).tolist() == expected
        objects = np.array([None, "x", 1, 2.5, 2**70, 2**53 + 1], dtype=object)
        assert column.index_many(objects).tolist() == [column.index(value) for value in objects]
        # and each bucket's own rule says the same
        for value in [*doubles.tolist(), *integers.tolist()]:
            holding = [
                i
                for i, bucket in enumerate(column.buckets)
                if isinstance(bucket, Range) and bucket.holds(value)
            ]
            assert [column.index(value)] == (holding or [column.outside])


def test_the_largest_doubles_have_their_buckets_too() -> None:
    edges = [0.0, 1e308, 1.1e308, 1.2e308, 1.3e308, math.inf]
    column = Column("x", [Range(low, high) for low, high in pairwise(edges)])
    largest = math.nextafter(math.inf, 0)
    values = [1e307, 1.05e308, 1.15e308, 1.25e308, largest, math.inf]
    assert [column.index(value) for value in values] == [0, 1, 2, 3, 4, -1]
    assert column.index_many(np.array(values)).tolist() == [0, 1, 2, 3, 4, -1]
    assert [column.index(value) for value in (int(1.25e308), 10**400, -(10**400))] == [3, 4, -1]


def test_bulk_and_one_by_one_agree_on_products() -> None:
    rng = np.random.default_rng(6)
    shape = Buckets(
        [
            Column("d", MILES),
            Column("c", ["a", "b", {"glob": "c*"}], other=True),
            Column("n", [1, 2, 3]),
        ]
    )
    n = 500
    columns = [rng.normal(5, 5, n), rng.choice(["a", "b", "cc", "zz"], n), rng.integers(0, 5, n)]
    rows = zip(*(column.tolist() for column in columns), strict=True)
    assert shape.index_many(columns).tolist() == [shape.index(row) for row in rows]


def random_pattern(rng: np.random.Generator, depth: int = 0) -> str:
    kind = rng.integers(0, 8 if depth < 3 else 3)
    if kind == 0:
        return str(rng.choice(list("ab")))
    if kind == 1:
        return str(rng.choice(["[ab]", "[^a]", ".", r"\w", "[a-c]"]))
    if kind == 2:
        return ""
    if kind == 3:
        return f"({random_pattern(rng, depth + 1)}|{random_pattern(rng, depth + 1)})"
    if kind in (4, 5):
        return random_pattern(rng, depth + 1) + random_pattern(rng, depth + 1)
    return f"(?:{random_pattern(rng, depth + 1)}){rng.choice(['*', '+', '?', '{2}', '{1,}', '{0,2}', '{1,3}'])}"


TEXTS = ["".join(letters) for n in range(5) for letters in product("abc", repeat=n)]


def test_patterns_take_what_the_standard_library_takes() -> None:
    """`re` is the oracle, on patterns and texts short enough for it not to explode."""
    rng = np.random.default_rng(7)
    for _ in range(300):
        pattern = random_pattern(rng)
        automaton, oracle = compile_pattern("regex", pattern), re.compile(pattern)
        for text in TEXTS:
            assert automaton.matches(text) == bool(oracle.fullmatch(text)), (pattern, text)


def test_overlaps_are_found_exactly_when_there_are_any() -> None:
    rng = np.random.default_rng(8)
    n_apart = 0
    for _ in range(300):
        one, two = (compile_pattern("regex", random_pattern(rng)) for _ in range(2))
        found = first_overlap([one, two])
        shared = [text for text in TEXTS if one.matches(text) and two.matches(text)]
        if found is None:
            n_apart += 1
            assert not shared
        else:
            assert one.matches(found[2])
            assert two.matches(found[2])
            assert not shared or len(found[2]) <= len(shared[0])
    assert 20 < n_apart < 280


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+b", "a" * LONGEST_TEXT),
        ("(a|a)*b", "a" * LONGEST_TEXT),
        ("(.*)(.*)(.*)(.*)x", "y" * LONGEST_TEXT),
        ("(a?){60}a{60}", "a" * 60),
        ("((((){9999,}){9999,}){9999,})*", ""),
        ("((((a{0}){9999}){9999,}){9999})+", ""),
    ],
)
def test_patterns_that_explode_elsewhere_are_linear_here(pattern: str, text: str) -> None:
    start = time.process_time()
    compile_pattern("regex", pattern).matches(text)
    assert time.process_time() - start < 1  # backtracking would take longer than the sun has left


def test_a_costly_search_for_overlaps_is_refused_not_run() -> None:
    start = time.process_time()
    hard = [{"regex": f"(a?b?c?d?){{90}}{letter}"} for letter in "uvwxyz"]
    with pytest.raises(ParameterError, match="too complicated"):
        Column("x", hard)
    assert time.process_time() - start < 20


def test_a_crowd_of_patterns_is_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="too many to check for overlaps"):
        Column("x", [{"glob": f"{i}*"} for i in range(600)])


def test_globs_know_stars_question_marks_and_classes() -> None:
    for pattern, takes, leaves in [
        ("New *", ["New York", "New "], ["New", "new York", "Old New York"]),
        ("a?c", ["abc", "a\nc"], ["ac", "abbc"]),
        ("[!a-c]x", ["dx", "!x"], ["ax", "x"]),
        ("[[]x", ["[x"], ["x"]),
        ("a.c", ["a.c"], ["abc"]),
    ]:
        automaton = compile_pattern("glob", pattern)
        assert [automaton.matches(text) for text in takes] == [True] * len(takes), pattern
        assert [automaton.matches(text) for text in leaves] == [False] * len(leaves), pattern


def test_two_buckets_of_one_name_are_refused() -> None:
    with pytest.raises(ParameterError, match="'other' is the name of two buckets"):
        Buckets([Column("x", ["other", "b"], other=True)])
    start = time.process_time()
    with pytest.raises(ParameterError, match="'other' is the name of two buckets"):
        Buckets([Column("x", [*map(str, range(50_000)), "other"], other=True)])
    assert time.process_time() - start < 10  # each with every other would take a minute


def test_a_column_is_made_again_from_its_description() -> None:
    for column in (
        Column("x", [*MILES[:3], 7, "(8,9.25]"]),
        Column("y", ["a", {"glob": "b*"}, {"regex": "c+"}], other=True),
    ):
        assert Column(**column.to_dict()) == column
