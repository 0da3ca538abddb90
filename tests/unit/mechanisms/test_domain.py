from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deniable import BinaryResponse, DirectEncoding, seeded_source
from deniable.errors import (
    AnswerError,
    AnswerTypeError,
    MissingAnswerError,
    OutOfDomainError,
    ParameterError,
    UnknownLabelError,
)
from deniable.mechanisms.domain import Domain

NUMBERS: list[Any] = [
    [0, 2, 1],
    (0, 2, 1),
    (x for x in [0, 2, 1]),
    np.array([0, 2, 1]),
    np.array([0, 2, 1], dtype=np.uint8),
    np.array([0.0, 2.0, 1.0]),
    [0, 2.0, np.int64(1)],
    pd.Series([0, 2, 1]),
    pd.Series([0, 2, 1], dtype="Int64"),
    pl.Series([0, 2, 1]),
    pa.array([0, 2, 1]),
    pa.chunked_array([[0, 2], [1]]),
]
WORDS: list[Any] = [
    ["a", "c", "b"],
    np.array(["a", "c", "b"]),
    pd.Series(["a", "c", "b"]),
    pd.Series(["a", "c", "b"], dtype="category"),
    pl.Series(["a", "c", "b"]),
    pa.array(["a", "c", "b"]),
    pa.chunked_array([["a"], ["c", "b"]]),
    pa.array(["a", "c", "b"]).dictionary_encode(),
]


@pytest.mark.parametrize(
    "values", NUMBERS, ids=lambda v: type(v).__module__ + "." + type(v).__name__
)
def test_numbers_come_in_any_common_column(values: Any) -> None:
    assert Domain.of(3).indices(values).tolist() == [0, 2, 1]


@pytest.mark.parametrize("values", WORDS, ids=lambda v: type(v).__module__ + "." + type(v).__name__)
def test_labels_come_in_any_common_column(values: Any) -> None:
    assert Domain.of(["a", "b", "c"]).indices(values).tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("k", "value", "index"),
    [
        (3, 2, 2),
        (["x", "y"], "y", 1),
        (3, np.int8(1), 1),
        (3, pa.scalar(1), 1),
        (["é", b"x"], b"x", 1),
    ],
)
def test_a_single_value_is_a_column_of_one(k: Any, value: Any, index: int) -> None:
    assert Domain.of(k).indices(value).tolist() == [index]


def test_any_hashable_label_will_do() -> None:
    day = datetime.date(2026, 1, 1)
    domain = Domain.of([day, (1, 2), 2.5, True])
    assert domain.indices([(1, 2), 2.5, day, True]).tolist() == [1, 2, 0, 3]


def test_booleans_answer_a_yes_no_question() -> None:
    response = BinaryResponse(0.5, 0.5)
    yes = response.privatize(np.array([True, False]), seeded_source(1))
    assert (
        yes
        == response.privatize([True, False], seeded_source(1))
        == response.privatize([1, 0], seeded_source(1))
    )


PRIVATE = "hepatitis"


@pytest.mark.parametrize(
    ("k", "values", "error", "position"),
    [
        (3, [0, 3], OutOfDomainError, 1),
        (3, [0, -1], OutOfDomainError, 1),
        (3, np.array([5], dtype=np.uint8), OutOfDomainError, 0),
        (3, [0, 10**30], OutOfDomainError, 1),
        (3, [0.5], OutOfDomainError, 0),
        (3, [math.inf], OutOfDomainError, 0),
        (3, [1, math.nan], MissingAnswerError, 1),
        (3, [1, None], MissingAnswerError, 1),
        (3, np.array([1.0, np.nan]), MissingAnswerError, 1),
        (3, pd.Series([1, None]), MissingAnswerError, 1),
        (3, pd.Series([1, None], dtype="Int64"), MissingAnswerError, 1),
        (3, pl.Series([1, None]), MissingAnswerError, 1),
        (3, pa.array([1, None]), MissingAnswerError, 1),
        (3, pa.chunked_array([[1], [None]]), MissingAnswerError, 1),
        (3, [1, PRIVATE], AnswerTypeError, 1),
        (3, PRIVATE, AnswerTypeError, 0),
        (3, np.array([PRIVATE]), AnswerTypeError, 0),
        (3, np.zeros((2, 2)), AnswerTypeError, None),
        (["a", "b"], ["a", PRIVATE], UnknownLabelError, 1),
        (["a", "b"], PRIVATE, UnknownLabelError, 0),
        (["a", "b"], ["a", None], MissingAnswerError, 1),
        (["a", "b"], ["a", math.nan], MissingAnswerError, 1),
        (["a", "b"], pl.Series(["a", None]), MissingAnswerError, 1),
        (["a", "b"], [["a"]], UnknownLabelError, 0),
        (["a", "b"], ["a", pd.NA], MissingAnswerError, 1),
        (["a", "b"], ["a", pd.NaT], MissingAnswerError, 1),
        (3, [0, pd.NA], MissingAnswerError, 1),
        (3, np.ma.array([0, 1], mask=[False, True]), MissingAnswerError, 1),
        (["a", "b"], [np.array(["a", "b"])], UnknownLabelError, 0),
        (3, [np.array([1, 2])], AnswerTypeError, 0),
        (["a", "b"], pd.DataFrame({PRIVATE: ["a"]}), AnswerTypeError, None),
        (["a", "b"], pl.DataFrame({PRIVATE: ["a"]}), AnswerTypeError, None),
        (["a", "b"], pl.LazyFrame({PRIVATE: ["a"]}), UnknownLabelError, 0),
    ],
)
def test_a_bad_value_is_named_by_its_place_and_never_shown(
    k: Any, values: Any, error: type, position: int | None
) -> None:
    with pytest.raises(error) as caught:
        DirectEncoding(k, 1.0).privatize(values)
    assert isinstance(caught.value, AnswerError)
    assert caught.value.position == position
    assert PRIVATE not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None, (
        "a traceback would show the value"
    )


@pytest.mark.parametrize(
    "k",
    [
        *(1, 0, -2, 2**40, True, 2.5, "ab", None, 2j, object(), np.array(3), np.zeros((2, 2))),
        *(["a"], ["a", "a"], ["a", None], ["a", math.nan], ["a", pd.NA], [1, 1.0]),
        *([{}, {"a": 1}], [("a", {}), ("b", {})], [("a", ["b"]), ("a", ("b",))]),
    ],
)
def test_a_domain_has_two_or_more_different_labels(k: Any) -> None:
    with pytest.raises(ParameterError, match=r"^values = "):
        Domain.of(k)


def test_numbered_labels_are_the_same_domain_as_their_number() -> None:
    assert Domain.of([0, 1, 2]) == Domain.of(3)
    assert Domain.of([1, 0]) != Domain.of(2)


@pytest.mark.parametrize(
    "values",
    [
        [True, False, True],
        [1, 0, 1],
        [1.0, 0.0, 1.0],
        ["TRUE", "0", "y"],
        ["True", "n", "YES"],
        np.array([True, False, True]),
        pd.Series([1, 0, 1]),
    ],
)
def test_true_and_one_are_yes_in_python_as_in_files(values: Any) -> None:
    assert Domain.of(["no", "yes"]).indices(values).tolist() == [1, 0, 1]
    assert Domain.of(["Yes", "No", "don't know"]).indices(values).tolist() == [0, 1, 0]


def test_labels_that_are_not_yes_and_no_take_no_truth_values() -> None:
    for labels in (["a", "b"], ["yes", "maybe"], ["yes", "YES", "no"]):
        with pytest.raises(UnknownLabelError):
            Domain.of(labels).indices([True])
    assert Domain.of(["no", "yes", 1]).indices([1]).tolist() == [2]  # a label of its own
