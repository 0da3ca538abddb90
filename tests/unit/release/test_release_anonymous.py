"""k-anonymity and its kin: against pycanon, against a search through everything, and by hand."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pycanon import anonymity

from deniable.errors import ParameterError, ReleaseError
from deniable.release import (
    Categories,
    CodedTable,
    Constraint,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    Numbers,
    RecursiveDiversity,
    Released,
    TCloseness,
    anonymize,
)
from deniable.release.classes import Cube
from deniable.release.constraints import satisfying
from deniable.release.information import Information
from deniable.release.lattice import BestFirst, allowed_levels, lattice
from deniable.release.table import coded_attributes
from toolkit.adults import HIERARCHIES, adults

NAMES = list(HIERARCHIES)


def pycanon_measure(constraint: Constraint, frame: pd.DataFrame) -> float:
    """The independent library's figure for a constraint."""
    if isinstance(constraint, KAnonymity):
        return float(anonymity.k_anonymity(frame, NAMES))
    if isinstance(constraint, DistinctDiversity):
        return float(anonymity.l_diversity(frame, NAMES, [constraint.column]))
    if isinstance(constraint, EntropyDiversity):
        return float(anonymity.entropy_l_diversity(frame, NAMES, [constraint.column]))
    assert isinstance(constraint, TCloseness)
    return float(anonymity.t_closeness(frame, NAMES, [constraint.column]))


def recursive_measure(constraint: RecursiveDiversity, frame: pd.DataFrame) -> float:
    """By the definition; pycanon takes the rarest value where the definition takes the most
    frequent one."""
    worst = math.inf
    for _, rows in frame.groupby(NAMES):
        counts = sorted(Counter(rows[constraint.column]).values(), reverse=True)
        worst = min(worst, constraint.c * sum(counts[constraint.l - 1 :]) / counts[0])
    return worst


SETS: list[list[Constraint]] = [
    [KAnonymity(5)],
    [KAnonymity(3), DistinctDiversity("salary", 3)],
    [KAnonymity(2), EntropyDiversity("salary", 2.5)],
    [KAnonymity(2), TCloseness("salary", 0.3)],
    [KAnonymity(4), TCloseness("hours", 0.1, ordered=True), DistinctDiversity("salary", 2)],
    [RecursiveDiversity("salary", 2, 3.0)],
]


@pytest.mark.parametrize("constraints", SETS)
def test_what_is_released_keeps_its_constraints_by_an_independent_library(
    constraints: list[Constraint],
) -> None:
    made = anonymize(adults(600, 1), HIERARCHIES, constraints, suppress=0.1)
    frame = made.to_frame()
    assert len(frame) >= 540
    for constraint, achieved in made.achieved.items():
        if isinstance(constraint, RecursiveDiversity):
            assert achieved == pytest.approx(recursive_measure(constraint, frame))
            assert achieved > 1
            continue
        theirs = pycanon_measure(constraint, frame)
        if isinstance(constraint, EntropyDiversity):
            assert math.floor(achieved + 1e-9) == theirs  # it rounds down
            assert achieved >= constraint.l
        else:
            assert achieved == pytest.approx(theirs)
            assert constraint.keeps(np.array([theirs]))[0]


@pytest.mark.parametrize("seed", range(4))
def test_measures_agree_with_pycanon_on_a_table_as_it_is(seed: int) -> None:
    table = adults(300, seed)
    fixed = {"age": 4, "sex": 0, "education": 1, "marital": 1}
    constraints = [
        KAnonymity(1),
        DistinctDiversity("salary", 1),
        EntropyDiversity("salary", 1),
        TCloseness("salary", 1),
    ]
    constraints.append(TCloseness("hours", 1, ordered=True))
    made = anonymize(table, HIERARCHIES, constraints, suppress=0, levels=fixed)
    assert made.n == 300
    for constraint, achieved in made.achieved.items():
        theirs = pycanon_measure(constraint, made.to_frame())
        assert (
            math.floor(achieved + 1e-9) if isinstance(constraint, EntropyDiversity) else achieved
        ) == pytest.approx(theirs)


def kept_information(
    table: dict[str, list[Any]], levels: tuple[int, ...], objective: str
) -> list[float]:
    """What each row keeps, cell by cell, by the definition."""
    n = len(table["age"])
    total = [0.0] * n
    whole = 0.0
    for name, level in zip(NAMES, levels, strict=True):
        hierarchy = HIERARCHIES[name]
        labels = [hierarchy.label(value, level) for value in table[name]]
        rows, values = Counter(labels), Counter(table[name])
        for i, value in enumerate(table[name]):
            if objective == "granularity":
                total[i] += 1 - hierarchy.loss(value, level)
                whole += 1
            else:
                total[i] += math.log2(n / rows[labels[i]])
                whole += math.log2(n / values[value])
    return [each / whole for each in total]


def exhaustive(
    table: dict[str, list[Any]], objective: str, suppress: float, good: Callable[[list[int]], bool]
) -> tuple[float, tuple[int, ...]]:
    """The best of all generalisations, by grouping rows in a dictionary; the classes that are not
    good are dropped."""
    n = len(table["age"])
    best: tuple[float, tuple[int, ...]] = (-1.0, ())
    for levels in itertools.product(*(range(HIERARCHIES[name].levels) for name in NAMES)):
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i in range(n):
            key = tuple(
                HIERARCHIES[name].label(table[name][i], level)
                for name, level in zip(NAMES, levels, strict=True)
            )
            groups.setdefault(key, []).append(i)
        kept = [i for rows in groups.values() if good(rows) for i in rows]
        if kept and n - len(kept) <= suppress * n:
            information = kept_information(table, levels, objective)
            best = max(best, (sum(information[i] for i in kept), levels))
    return best


@pytest.mark.parametrize(
    ("seed", "objective", "suppress", "k", "diversity"),
    [
        (1, "granularity", 0.0, 3, 1),
        (2, "granularity", 0.05, 5, 1),
        (3, "granularity", 0.3, 4, 1),
        (4, "entropy", 0.1, 5, 1),
        (5, "granularity", 0.1, 2, 3),
        (6, "entropy", 1.0, 10, 2),
    ],
)
def test_no_generalisation_keeps_more_than_the_one_found(
    seed: int, objective: str, suppress: float, k: int, diversity: int
) -> None:
    table = adults(150, seed)
    constraints: list[Constraint] = [KAnonymity(k), DistinctDiversity("salary", diversity)]
    made = anonymize(table, HIERARCHIES, constraints, suppress=suppress, objective=objective)

    def good(rows: list[int]) -> bool:
        return len(rows) >= k and len({table["salary"][i] for i in rows}) >= diversity

    best, _ = exhaustive(table, objective, suppress, good)
    assert made.found is not None
    assert made.found.optimal
    assert made.found.kept == pytest.approx(best, rel=1e-9)
    lost = made.loss.granularity if objective == "granularity" else made.loss.entropy
    assert lost == pytest.approx(1 - best, abs=1e-9)
    assert made.found.tried < made.found.size


def test_the_search_ends_only_where_nothing_better_is_left() -> None:
    """On made-up values: any that are at most what a row can keep times the rows kept, which no
    finer generalisation exceeds."""
    rng = np.random.default_rng(1)
    nodes = lattice([range(4), range(3), range(3)])
    looks = 0
    for number in range(200):
        jumps = rng.integers(0, 30, len(nodes)) * rng.integers(0, 2, len(nodes))
        jumps[0] += 1000 * (number % 2)  # in every second one all values lie close together
        rows = np.array([jumps[(nodes <= node).all(axis=1)].sum() for node in nodes])
        most = rng.random(len(nodes)) * (0.05 if number % 2 else 1) + number % 2
        values = [
            None if rng.random() < 0.3 else value
            for value in (
                most * rows * rng.random(len(nodes)) ** (0.002 if number % 2 else 0.1)
            ).tolist()
        ]
        place = {tuple(node): i for i, node in enumerate(nodes.tolist())}
        made = BestFirst(
            nodes,
            most * rows.max(),
            lambda levels: (values[place[levels]], int(rows[place[levels]])),  # noqa: B023 - used within this round
            lambda kept, which: most[which] * kept,  # noqa: B023
        )
        assert made.run() is None
        assert (None if made.best is None else made.best[0]) == max(
            (value for value in values if value is not None), default=None
        )
        looks += len(made.looked_at)
    assert looks < 200 * len(nodes) * 0.8


@pytest.mark.parametrize("objective", ["granularity", "entropy"])
def test_the_search_is_never_beaten_by_looking_everywhere(objective: str) -> None:
    for seed in range(9):
        rng = np.random.default_rng(seed)
        suppress, constraints = (
            float(rng.choice([0.0, 0.02, 0.2, 1.0])),
            [KAnonymity(int(rng.integers(2, 12)))],
        )
        kinds: list[list[Constraint]] = [
            [],
            [EntropyDiversity("salary", 2.0)],
            [TCloseness("salary", 0.4)],
        ]
        more = kinds[seed % 3]
        coded = CodedTable.of(adults(int(rng.integers(60, 400)), seed), [*NAMES, "salary"])
        attributes = coded_attributes(coded, HIERARCHIES)
        cube, information = (
            Cube(coded, attributes, ["salary"]),
            Information(coded, attributes, objective),
        )
        best = -1.0
        for node in lattice(allowed_levels(attributes, None)).tolist():
            classes = cube.classes(tuple(node))
            kept = classes.kept(satisfying(classes, [*constraints, *more]))
            if kept.n and coded.n - kept.n <= suppress * coded.n:
                best = max(best, information.kept(kept, tuple(node)))
        made = anonymize(
            coded, HIERARCHIES, [*constraints, *more], suppress=suppress, objective=objective
        )
        assert made.found is not None
        assert made.found.kept == pytest.approx(best, rel=1e-12)


def test_dropping_classes_goes_on_until_the_rest_is_close_to_itself() -> None:
    fixed = {"age": 3, "sex": 0, "education": 2, "marital": 1}
    again = 0
    for seed in range(8):
        coded = CodedTable.of(adults(400, seed), [*NAMES, "salary"])
        classes = Cube(coded, coded_attributes(coded, HIERARCHIES), ["salary"]).classes(
            tuple(fixed.values())
        )
        rule = TCloseness("salary", 0.2)
        at_once = classes.kept(rule.keeps(rule.measure(classes)))
        again += at_once.n > 0 and not rule.keeps(rule.measure(at_once)).all()
        if satisfying(classes, [rule]).any():
            made = anonymize(coded, HIERARCHIES, [rule], suppress=1, levels=fixed)
            assert pycanon_measure(rule, made.to_frame()) <= 0.2 + 1e-12
    # In some of them one round is not enough.
    assert again >= 2


def test_a_search_that_runs_out_of_time_says_what_it_may_have_missed() -> None:
    table = adults(400, 9)
    whole = anonymize(table, HIERARCHIES, [KAnonymity(3)], suppress=0.02).found
    hurried = anonymize(table, HIERARCHIES, [KAnonymity(3)], suppress=0.02, time_limit=1e-9).found
    assert whole is not None
    assert hurried is not None
    assert hurried.tried < whole.tried
    assert not hurried.optimal
    assert hurried.kept <= whole.kept <= hurried.bound


def test_loss_and_risk_are_as_defined_on_a_table_done_by_hand() -> None:
    table = {"age": [31, 33, 38, 39, 52], "sex": ["f", "f", "f", "m", "f"]}
    hierarchies = {"age": Numbers(0, 100, 10, factor=10), "sex": Categories()}
    made = anonymize(table, hierarchies, [KAnonymity(3)], suppress=0.4, levels={"age": 1, "sex": 0})
    # Left are the three women in their thirties: 2 of 5 rows are lost, and of 3 ages a tenth of the
    # domain.
    assert made.combinations() == {"age": ["[30, 40)"], "sex": ["f"], "count": [3]}
    assert made.loss.rows == pytest.approx(2 / 5)
    assert made.loss.granularity == pytest.approx(1 - (3 * 0.9 + 3) / 10)
    # Bits: five different ages hold log2 5 each; sex holds 4 log2(5/4) + log2 5.
    total = 5 * math.log2(5) + 4 * math.log2(5 / 4) + math.log2(5)
    assert made.loss.entropy == pytest.approx(1 - 3 * (math.log2(5 / 4) + math.log2(5 / 4)) / total)
    assert made.loss.discernibility == pytest.approx((9 + 2 * 5) / 25)
    assert made.loss.average_class == 3
    assert made.risk_before.to_dict() == {
        "prosecutor": 1.0,
        "journalist": 1.0,
        "marketer": 1.0,
        "unique": 1.0,
    }
    assert made.risk_after.to_dict() == pytest.approx(
        {"prosecutor": 1 / 3, "journalist": 1 / 3, "marketer": 1 / 3, "unique": 0}
    )


def test_the_order_of_rows_and_of_values_does_not_show() -> None:
    table = adults(500, 3)
    order = np.random.default_rng(0).permutation(500)
    shuffled = {name: [column[i] for i in order] for name, column in table.items()}
    one, other = (
        anonymize(rows, HIERARCHIES, [KAnonymity(4)], sensitive=["salary"])
        for rows in (table, shuffled)
    )
    assert one.rows() == other.rows()
    rows = list(zip(*one.rows().values(), strict=True))
    assert rows == sorted(rows, key=lambda row: [str(label) for label in row])
    ages = list(dict.fromkeys(one.rows()["age"]))
    assert ages == sorted(ages, key=str)


def frames(table: dict[str, list[Any]]) -> list[Any]:
    import polars as pl  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415

    halves = [
        {name: column[part] for name, column in table.items()}
        for part in (slice(0, 200), slice(200, None))
    ]
    return [table, pd.DataFrame(table), pl.DataFrame(table), pa.table(table), iter(halves)]


def test_any_kind_of_frame_gives_the_same_release() -> None:
    released = [
        anonymize(frame, HIERARCHIES, [KAnonymity(5)]).rows() for frame in frames(adults(500, 4))
    ]
    assert all(rows == released[0] for rows in released)


def test_missing_values_are_a_value_of_their_own() -> None:
    made = anonymize(
        {"x": ["a", None, "", float("nan"), "a", "a"]}, {"x": Categories()}, [KAnonymity(2)]
    )
    assert made.combinations() == {"x": ["a", None], "count": [3, 3]}


def anything(**changes: Any) -> Released:
    arguments: dict[str, Any] = {
        "frame": adults(50, 1),
        "hierarchies": HIERARCHIES,
        "constraints": [KAnonymity(2)],
    }
    return anonymize(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"constraints": [KAnonymity(51)]}, "no generalisation satisfies the constraints"),
        ({"suppress": 1.5}, "suppress = 1.5 must lie between 0 and 1"),
        ({"time_limit": 0}, "time_limit = 0 must be above 0 seconds"),
        ({"objective": "beauty"}, "objective = 'beauty' must be one of"),
        ({"levels": {"age": 9}}, "level of age = 9 must lie between 0 and"),
        ({"levels": {"hours": 1}}, "a level is given for column 'hours', which has no hierarchy"),
        ({"sensitive": ["age"]}, "column 'age' is sensitive, so it has no hierarchy"),
        ({"hierarchies": {}}, "there is no column to generalise"),
        ({"hierarchies": {"height": Categories()}}, "the table has no column 'height'"),
        ({"frame": {"age": []}, "hierarchies": {"age": Categories()}}, "the table has no rows"),
        (
            {"frame": {"a": [1, 2], "b": [1]}, "hierarchies": {"a": None, "b": None}},
            "the columns have different lengths: 1, 2",
        ),
        (
            {"frame": {"a": [[1]]}, "hierarchies": {"a": None}},
            "row 1, column 'a': the value is a collection",
        ),
        (
            {"frame": {"a": [1, True]}, "hierarchies": {"a": None}},
            "row 2, column 'a': the value is no int",
        ),
        ({"frame": 5}, "a table must be a mapping of columns"),
    ],
)
def test_bad_input_is_refused_in_one_line(changes: dict[str, Any], text: str) -> None:
    with pytest.raises((ReleaseError, ParameterError)) as error:
        anything(**changes)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: KAnonymity(0), "k"),
        (lambda: DistinctDiversity("x", 0.5), "l"),
        (lambda: EntropyDiversity("x", math.inf), "l"),
        (lambda: RecursiveDiversity("x", 2, 0.0), "c"),
        (lambda: TCloseness("x", 1.5), "t"),
    ],
)
def test_bad_parameters_of_a_constraint_are_refused_by_name(
    make: Callable[[], Constraint], name: str
) -> None:
    with pytest.raises(ParameterError) as error:
        make()
    assert error.value.name == name
