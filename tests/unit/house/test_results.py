"""Results travel whole: every result has `to_dict` and `from_dict`, through JSON and back it is
equal, and prints the same."""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import inspect
import json
import math
import pkgutil
from collections.abc import Hashable, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import deniable
from deniable import BinaryResponse, DirectEncoding, joint, plan, seeded_source
from deniable.audit.mechanisms import audit_mechanism
from deniable.curator import Curator
from deniable.errors import DocumentError, ParameterError
from deniable.estimation.comparison import compare
from deniable.estimation.estimate import Estimate
from deniable.estimation.regression.logistic import regress
from deniable.estimation.surveys.one_person import guess
from deniable.estimation.tables.cell_errors import CellErrors
from deniable.estimation.tables.independence import independence_test
from deniable.estimation.tables.table import Table
from deniable.graphs import EdgeResponse, Graph, curator_degrees, plan_graph
from deniable.mechanisms.mechanism import Mechanism
from deniable.release import Categories, KAnonymity, Numbers, anonymize, histogram, release
from deniable.reproduce.models import compare_models
from deniable.results import Result, decode, encode

ANALYSIS = (
    "estimation",
    "planning",
    "aggregator",
    "audit",
    "curator",
    "graphs",
    "release",
    "reproduce",
    "sizing",
    "survey",
)
"""The rooms whose functions return results."""
NO_RESULT = {
    "Account": "counters of shares, part of a window's conservation",
    "ShareAccount": "counters of shares, part of a window's conservation",
    "EdgeResponse": "a mechanism, which graph reports carry in their own format",
    "TwoRounds": "a protocol, which graph reports carry in their own format",
    "Trend": "part of an answer from the history, which travels as the service's own document",
    "Filter": "a condition on rows, given by the user",
    "Demand": "what a size is asked for: its fields are the arguments",
    "Sizing": "recomputed from a Demand in milliseconds",
    "Run": "recomputed from a Demand in milliseconds",
}
"""Public classes of these rooms that print themselves or have `to_dict`, and why they are no
results."""


@cache
def public_classes() -> dict[str, type]:
    found: dict[str, type] = {}
    for room in ANALYSIS:
        package = importlib.import_module(f"deniable.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "spark" not in module.name:
                names = vars(importlib.import_module(module.name))
                found |= {
                    n: c
                    for n, c in names.items()
                    if inspect.isclass(c) and c.__module__ == module.name and n[0] != "_"
                }
    return found


def is_a_result(kind: type) -> bool:
    """What prints itself, has an interval, or is written as a document."""
    own = {name for each in kind.__mro__[:-1] for name in vars(each)}
    says = bool(own & {"to_dict", "interval"}) or "__str__" in own
    return dataclasses.is_dataclass(kind) and says and not issubclass(kind, BaseException)


def test_every_result_in_the_package_has_the_pair() -> None:
    lacking = [
        name
        for name, kind in public_classes().items()
        if is_a_result(kind)
        and name not in NO_RESULT
        and not (hasattr(kind, "to_dict") and hasattr(kind, "from_dict"))
    ]
    assert lacking == [], "derive them from deniable.results.Result"


def test_no_exception_to_the_rule_is_out_of_date() -> None:
    for name in set(NO_RESULT) & set(public_classes()):
        assert not issubclass(public_classes()[name], Result), name


# --- any values of the fields' types


def kinds() -> dict[str, type[Result]]:
    return dict(Result._registry.items())


FLOATS = st.floats(allow_nan=True, allow_infinity=True)
LABELS = st.recursive(
    st.one_of(
        st.text(max_size=5), st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), st.none(),
        st.dates(), st.datetimes(), st.times(), st.binary(max_size=4), st.fractions(),
        st.decimals(allow_nan=False, allow_infinity=False),
    ),
    lambda label: st.tuples(label, label),
    max_leaves=4,
)  # fmt: skip
JSON = st.recursive(
    st.one_of(st.text(max_size=5), st.integers(), st.booleans(), st.none()),
    lambda value: (
        st.lists(value, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b"]), value, max_size=2)
    ),
    max_leaves=4,
)
MECHANISMS = st.sampled_from([DirectEncoding(["a", "b"], 1.0), BinaryResponse(0.5, 0.25)])
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    float: FLOATS,
    int: st.integers(),
    bool: st.booleans(),
    str: st.text(max_size=8),
    Hashable: LABELS,
    Any: JSON,
    Fraction: st.fractions(),
    Mechanism: MECHANISMS,
}


def values(hint: Any) -> st.SearchStrategy[Any]:  # noqa: PLR0911 - one return for each kind of type
    """Values of a type: of classes of the package, made by their own constructors."""
    kind = get_origin(hint) or hint
    if kind in {Union, UnionType}:
        parts = [part for part in get_args(hint) if part is not NoneType]
        # Of "a number or None", null is None; so NaN, which is also written as null, is not among
        # the numbers.
        some = [st.floats(allow_nan=False) if part is float else values(part) for part in parts]
        return st.one_of(*some, st.none()) if NoneType in get_args(hint) else st.one_of(*some)
    if kind is np.ndarray:
        (dtype,) = get_args(get_args(hint)[1])
        elements = {"f": FLOATS, "i": st.integers(-(2**62), 2**62), "b": st.booleans()}[
            np.dtype(dtype).kind
        ]
        return arrays.arrays(dtype, st.sampled_from([(1,), (3,), (2, 2)]), elements=elements)
    if kind is Literal:
        return st.sampled_from(get_args(hint))
    if kind is tuple:
        of = get_args(hint)
        return (
            st.lists(values(of[0]), max_size=3).map(tuple)
            if of[-1] is ...
            else st.tuples(*map(values, of))
        )
    if kind is list:
        return st.lists(values(get_args(hint)[0]), max_size=3)
    if isinstance(kind, type) and issubclass(kind, Mapping):
        of_key, of_value = get_args(hint)
        return st.dictionaries(values(of_key), values(of_value), max_size=3)
    if hint in SCALARS:
        return SCALARS[hint]
    if isinstance(kind, type) and getattr(kind, "_is_protocol", False):  # a law, of whichever kind
        return st.one_of(
            [made(each) for each in kinds().values() if simple(each) and fits(each, kind)]
        )
    if inspect.isabstract(kind):
        return st.one_of(
            [made(each) for each in kinds().values() if issubclass(each, kind) and each is not kind]
        )
    return made(kind)


def fits(kind: type, protocol: type) -> bool:
    return (
        all(hasattr(kind, name) for name in vars(protocol) if not name.startswith("_"))
        and "Statistic" not in kind.__name__
    )


def simple(kind: type) -> bool:
    return kind.__module__.endswith(("laws", "law"))


@st.composite
def made(draw: st.DrawFn, kind: Any) -> Any:
    """An object of the class from any values of its fields; those that the class refuses are drawn
    again."""
    hints = get_type_hints(kind)
    names = (
        [field.name for field in dataclasses.fields(kind) if field.init]
        if dataclasses.is_dataclass(kind)
        else list(hints)
    )
    arguments = {}
    for name in names:
        if (kind.__name__, name) in HARD:
            arguments[name] = draw(HARD[kind.__name__, name])
        else:
            arguments[name] = draw(values(hints[name]))
    return kind(**arguments)


PART = Estimate(("a", "b"), np.array([0.25, 0.75]), np.array([0.01, 0.02]), 10, strata=())
HARD: dict[tuple[str, str], st.SearchStrategy[Any]] = {
    ("PlanRequest", name): st.none()
    for name in ("population", "cv", "margin", "rate", "report_bytes", "mechanism")
} | {
    ("PlanRequest", "share"): st.floats(0.01, 0.5),
    ("PlanRequest", "epsilon"): st.floats(0.5, 4.0),
    ("PlanRequest", "sampled_epsilon"): st.none(),
    ("PlanRequest", "population"): st.integers(10_000, 10**9),
    ("PlanRequest", "buckets"): st.integers(1, 50),
    ("PlanRequest", "epochs"): st.just(1),
    ("PlanRequest", "distinct"): st.just(1),
    ("PlanRequest", "memoized"): st.just(False),
    ("PlanRequest", "every"): st.just(1.0),
    ("PlanRequest", "confidence"): st.floats(0.5, 0.99),
    ("Protection", "neighbours"): st.sampled_from(["add-remove", "replace-one"]),
    ("Protection", "rows"): st.integers(1, 5),
    ("KAnonymity", "k"): st.integers(1, 9),
    ("WidenedLaw", "law"): st.none(),
    ("Comparison", "groups"): st.none(),
    ("AgreementTest", "parts"): st.none(),
    ("RootError", "error"): st.none(),
    ("Estimate", "strata"): st.sampled_from([(), ((0.5, PART), (0.5, PART))]),
    ("Released", "found"): st.none(),
    ("EdgeResponse", "reporting"): st.sampled_from(["once", "both"]),
}
BUILT = {
    "GraphEstimate",
    "GraphPlan",
    "GraphStatistic",
    "Grouped",
    "ModelComparison",
    "ModelErrors",
    "Plan",
    "Question",
    "QuestionnairePlan",
    "Released",
    "Survey",
    "Table",
    "Window",
}
"""Results whose fields depend on each other: they are made by the functions that return them, below
or in their own tests."""


def generated() -> list[str]:
    public_classes()
    own = {
        name: kind
        for name, kind in Result._registry.items()
        if kind.__module__.startswith("deniable.")
    }
    left_out = {
        name for name, kind in own.items() if inspect.isabstract(kind) or issubclass(kind, Estimate)
    }
    return sorted(set(own) - left_out - BUILT)


@pytest.mark.parametrize("name", [*generated(), "Estimate"])
def test_any_result_is_equal_after_a_journey_through_json(name: str) -> None:
    kind = kinds()[name]

    @settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def journey(data: st.DataObject) -> None:
        try:
            result = data.draw(made(kind))
            # the fields; what is derived from them needs fields that fit each other
            document = Result.to_dict(result)
        except ParameterError:
            return
        again = kind.from_dict(json.loads(json.dumps(document, allow_nan=False)))
        assert again == result
        assert hash(again) == hash(result)
        assert Result.to_dict(again) == document

    journey()


@given(LABELS)
@settings(max_examples=200, deadline=None, derandomize=True, database=None)
def test_labels_keep_their_types(label: Hashable) -> None:
    again = decode(Hashable, json.loads(json.dumps(encode(label), allow_nan=False)))
    assert again == label
    assert type(again) is type(label)


# --- results as the library makes them


NAMES = [
    "estimate", "projected", "stratified", "combined", "yes and no", "comparison", "table", "marginal", "conditional",
    "slice", "given", "flat", "independence", "regression", "guess", "mean", "plan", "infinite", "preview", "released mean",
    "released median", "released deviation", "curated", "choice", "groups", "released table", "anonymous table",
    "released histogram", "graph", "degrees", "graph plan", "curator's degrees", "models", "audit", "texts", "crosswise",
]  # fmt: skip


def some_table() -> Table:
    rr, letters, coins = (
        BinaryResponse(0.5, 0.5),
        DirectEncoding(["a", "b", "c"], 1.5),
        seeded_source(4),
    )
    reports = {
        "left": rr.privatize([0, 1, 1] * 200, coins),
        "right": letters.privatize(["a", "c", "b"] * 200, coins),
    }
    return joint({"left": rr, "right": letters}, reports, population=2000)


def some_results() -> dict[str, Any]:
    letters, coins = (
        DirectEncoding([("a", 1), datetime.date(2026, 1, 2), Decimal("1.5")], 1.5),
        seeded_source(7),
    )
    first, second = (
        letters.estimate(letters.privatize(list(letters.labels) * n, coins), population=5000)
        for n in (50, 80)
    )
    yes, texts = BinaryResponse(0.5, 0.5), deniable.Rappor(32, 2, 4, 0.25, 0.35, 0.65)
    table = some_table()
    answers = yes.privatize([0, 1] * 300, coins)
    return {
        "estimate": first,
        "projected": first.projected(),
        "stratified": deniable.stratified([first, second], [5000, 5000]),
        "combined": deniable.combine([first, second]),
        "yes and no": yes.estimate(answers),
        "comparison": compare(first, second),
        "table": table,
        "marginal": table.marginal("right"),
        "conditional": table.conditional("right", given="left"),
        "slice": table.select(left=1),
        "given": table.given(left=1),
        "flat": Table.of(second),
        "independence": independence_test(table),
        "regression": regress(yes, answers, np.tile([[0.0], [1.0], [2.0]], (200, 1))),
        "guess": guess(letters),
        "mean": deniable.statistics.mean(
            DirectEncoding(5, 2.0).estimate(DirectEncoding(5, 2.0).privatize([1, 2, 3] * 99, coins))
        ),
        "plan": plan(population=100_000, proportion=0.05, epsilon=2.0, buckets=8),
        "infinite": dataclasses.replace(
            first, epsilon=math.inf, degrees=np.array([math.inf, 3.0, math.nan])
        ),
        **curated(),
        **released(),
        **of_graphs(),
        "models": compare_models(
            {"city": ["Oslo"] * 600 + ["Rome"] * 400}, "city", epsilon=1.0, trials=3, seed=1
        ),
        "audit": audit_mechanism(DirectEncoding(4, 1.0), n=20_000, source=seeded_source(1)),
        "texts": texts.estimate(
            texts.privatize(["a"] * 900 + ["b"] * 100, coins), candidates=["a", "c"]
        ),
        "crosswise": deniable.Crosswise(p=0.25).estimate_counts(same=300, n=1000),
    }


def curated() -> dict[str, Any]:
    curator = Curator({"age": [20, 30, 40, 50] * 50, "sex": ["f", "m"] * 100}, budget=50)
    return {
        "preview": curator.preview("mean", "age", epsilon=0.5, bounds=(18, 95), size=200),
        "released mean": curator.mean("age", epsilon=1, bounds=(18, 95)),
        "released median": curator.median("age", epsilon=1, bounds=(18, 95)),
        "released deviation": curator.std("age", epsilon=1, bounds=(18, 95)),
        "curated": curator.histogram("sex", epsilon=1, labels=["f", "m"]),
        "choice": curator.most_frequent("sex", epsilon=1, labels=["f", "m"]),
        "groups": curator.group_by("sex", ["f", "m"]).mean("age", epsilon=1, bounds=(18, 95)),
    }


def released() -> dict[str, Any]:
    table = {"age": [20, 33, 47, 61] * 100, "sex": ["f", "m"] * 200}
    hierarchies = {"age": Numbers(0, 100, 10), "sex": Categories()}
    return {
        "released table": release(
            table, hierarchies, 1.0, 1e-5, levels={"age": 3, "sex": 0}, source=seeded_source(1)
        ),
        "anonymous table": anonymize(
            {"age": [31, 33, 38, 39, 52]}, {"age": Numbers(0, 80, 5)}, [KAnonymity(2)], suppress=0.2
        ),
        "released histogram": histogram(
            table, "sex", 1.0, 1e-5, labels=["f", "m"], source=seeded_source(1)
        ),
    }


def of_graphs() -> dict[str, Any]:
    friends = [(i, (i * i + 1) % 60) for i in range(60) if i != (i * i + 1) % 60]
    reports = EdgeResponse(3.0).privatize(Graph.of(friends, nodes=60), seeded_source(1))
    return {
        "graph": reports.estimate(),
        "degrees": reports.degree_distribution(),
        "graph plan": plan_graph(1_000, 1.0, mean_degree=20, clustering=0.4),
        "curator's degrees": curator_degrees(Graph.of(friends, nodes=60), 1.0, seeded_source(2)),
    }


RESULTS = cache(some_results)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_library_returns_is_equal_and_prints_the_same_at_the_other_end(name: str) -> None:
    result = RESULTS()[name]
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    again = type(result).from_dict(document)
    assert again == result
    assert str(again) == str(result)
    if hasattr(result, "interval"):
        np.testing.assert_array_equal(again.interval(0.9), result.interval(0.9))
    assert again != dataclasses.replace(result, **{dataclasses.fields(result)[0].name: None})


def test_tables_at_the_other_end_go_on_as_here() -> None:
    for table in (
        some_table(),
        some_table().conditional("right", given="left"),
        some_table().select(left=0),
    ):
        again = Table.from_dict(json.loads(json.dumps(table.to_dict())))
        np.testing.assert_array_equal(again.covariance, table.covariance)
        weights = np.random.default_rng(1).normal(size=(4, *table.shape))
        np.testing.assert_array_equal(again.covariance_of(weights), table.covariance_of(weights))
        np.testing.assert_array_equal(
            again.marginal("right").stderr, table.marginal("right").stderr
        )
    again = Table.from_dict(some_table().to_dict())
    assert again.spread.crossed
    assert independence_test(again) == independence_test(some_table())


def test_a_table_that_was_read_does_not_let_an_empty_condition_spoil_the_others() -> None:
    table = some_table()
    empty = dataclasses.replace(table, spread=_Emptied(table.spread))
    rows = empty.conditional("right", given="left")
    assert np.isnan(rows.proportions[0]).all()
    again = Table.from_dict(json.loads(json.dumps(rows.to_dict(), allow_nan=False)))
    assert again == rows
    # The covariances of single cells were stated, in which no sampling variance is below 0; of
    # their sums they differ by a hair.
    np.testing.assert_allclose(again.select(left=1).stderr, rows.select(left=1).stderr, rtol=1e-4)
    assert np.isfinite(again.select(left=1).stderr).all()


class _Emptied(CellErrors):
    """Of a table whose first row nobody is in."""

    def __init__(self, parent: CellErrors) -> None:
        self.parent = parent
        self.proportions = parent.proportions.copy()
        self.proportions[0] = 0.0

    def covariance(self, weights: Any, population: int | None = None) -> Any:
        return self.parent.covariance(weights, population)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({}, "'labels' is missing"),
        ({"labels": ["a"], "estimate": "x", "variance": [1.0], "n": 1}, "could not convert"),
        ({"labels": 5, "estimate": [1.0], "variance": [1.0], "n": 1}, "int"),
    ],
)
def test_a_document_of_something_else_is_refused_in_one_line(
    document: dict[str, Any], text: str
) -> None:
    with pytest.raises(DocumentError, match=f"^not a document of Estimate: .*{text}") as caught:
        Estimate.from_dict(document)
    assert "\n" not in str(caught.value)


def test_the_house_has_one_spelling_of_p_values_and_standard_errors() -> None:
    for name, kind in public_classes().items():
        own = set(vars(kind)) | {
            field.name
            for field in (dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ())
        }
        assert (
            not own
            & {"pvalue", "p_values", "pvalues", "std_err", "standard_error", "se", "stderrs"}
            or name == "Decoded"
        ), name
        if is_a_result(kind) and "interval" in vars(kind):
            assert "confidence" in inspect.signature(vars(kind)["interval"]).parameters, name
