"""Tables of several attributes, against the Kronecker product and the per-report contributions they
are defined by."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from deniable import (
    BasicRappor,
    BinaryResponse,
    DesignMatrix,
    DirectEncoding,
    HadamardResponse,
    LocalHashing,
    Mechanism,
    OptimizedUnary,
    Reports,
    SubsetSelection,
    SymmetricUnary,
    Table,
    joint,
    seeded_source,
    statistics,
)
from deniable.errors import NoReportsError, ParameterError, ReportError, ReportFormatError
from deniable.estimation.tables.counted_cells import CountedCellErrors, ListedCellErrors
from toolkit.tables import Crowds, Floats, Outcomes, covariance

THREE = [[0.7, 0.2, 0.25], [0.2, 0.6, 0.25], [0.1, 0.2, 0.5]]
MATRICES: dict[str, Mechanism] = {
    "a": BinaryResponse(0.6, 0.3),
    "b": DesignMatrix(THREE, values=["x", "y", "z"]),
    "c": DirectEncoding(4, 1.5),
}
MIXED: dict[str, Mechanism] = {
    "a": BinaryResponse(0.6, 0.3),
    "b": OptimizedUnary(["x", "y", "z"], 1.0),
    "c": SymmetricUnary(4, 2.0),
}


def collect(mechanisms: dict[str, Mechanism], n: int, seed: int = 1) -> dict[str, Reports]:
    """Reports of people whose attributes depend on each other."""
    rng, source = np.random.default_rng(seed), seeded_source(seed)
    hidden = rng.random(n)
    out = {}
    for name, mechanism in mechanisms.items():
        k = len(mechanism.labels)
        places = np.minimum((k * (0.7 * hidden + 0.3 * rng.random(n))).astype(int), k - 1)
        out[name] = mechanism.privatize([mechanism.labels[i] for i in places], source)
    return out


def contributions(mechanisms: dict[str, Mechanism], reports: dict[str, Reports]) -> Floats:
    """(reports, cells): what each report adds to each cell, one after the other."""
    rows: Any = np.ones((len(next(iter(reports.values()))), 1))
    for name, mechanism in mechanisms.items():
        outcomes = Outcomes(mechanism)
        data = reports[name].data
        codes = data if data.ndim == 1 else data[:, 0]  # up to 8 bits: the byte is the outcome
        rows = np.einsum("nc,nk->nck", rows, outcomes.inverse.T[codes]).reshape(len(rows), -1)
    return np.asarray(rows)


# --- cells and their covariance


def test_the_joint_distribution_is_what_the_kronecker_product_gives() -> None:
    reports = collect(MATRICES, 3_000)
    table = joint(MATRICES, reports)
    whole: Any = np.ones((1, 1))
    for mechanism in MATRICES.values():
        whole = np.kron(whole, mechanism.channel())
    counts = np.zeros((2, 3, 4))
    np.add.at(counts, tuple(reports[name].data for name in MATRICES), 1)
    rate = counts.reshape(-1) / 3_000
    inverse = np.linalg.inv(whole)
    expected = inverse @ (np.diag(rate) - np.outer(rate, rate)) @ inverse.T / 2_999
    np.testing.assert_allclose(table.proportions.reshape(-1), inverse @ rate, atol=1e-12)
    np.testing.assert_allclose(covariance(table), expected, atol=1e-14)
    np.testing.assert_allclose(table.variance.reshape(-1), np.diag(expected), atol=1e-14)
    assert table.proportions.sum() == pytest.approx(1)


@pytest.mark.parametrize("mechanisms", [MATRICES, MIXED], ids=["matrices", "mixed"])
def test_the_covariance_is_that_of_the_contributions_of_the_reports(
    mechanisms: dict[str, Mechanism],
) -> None:
    reports = collect(mechanisms, 700)
    table = joint(mechanisms, reports)
    each = contributions(mechanisms, reports)
    assert isinstance(
        table.spread, CountedCellErrors if mechanisms is MATRICES else ListedCellErrors
    )
    np.testing.assert_allclose(table.proportions.reshape(-1), each.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(covariance(table), np.cov(each.T) / 700, atol=1e-12)
    np.testing.assert_allclose(
        table.stderr.reshape(-1), each.std(axis=0, ddof=1) / math.sqrt(700), atol=1e-12
    )
    weights = np.random.default_rng(2).normal(size=(3, *table.shape))
    scores = each @ weights.reshape(3, -1).T
    np.testing.assert_allclose(table.covariance_of(weights), np.cov(scores.T) / 700, rtol=1e-9)


def test_reports_in_many_chunks_give_what_one_chunk_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = collect(MIXED, 1_000)
    table = joint(MIXED, reports)
    monkeypatch.setattr("deniable.estimation.tables.counted_cells._CHUNK_NUMBERS", 500)
    chunked = joint(MIXED, reports)
    np.testing.assert_allclose(chunked.proportions, table.proportions, atol=1e-12)
    np.testing.assert_allclose(covariance(chunked), covariance(table), atol=1e-12)
    monkeypatch.setattr("deniable.estimation.tables.joint._COUNTING_ROWS", 11)
    np.testing.assert_array_equal(
        joint(MATRICES, collect(MATRICES, 100)).proportions,
        _counted(MATRICES, collect(MATRICES, 100)).proportions,
    )


def _counted(mechanisms: dict[str, Mechanism], reports: dict[str, Reports]) -> CountedCellErrors:
    counts = np.zeros([len(m.labels) for m in mechanisms.values()], dtype=np.int64)
    np.add.at(counts, tuple(reports[name].data for name in mechanisms), 1)
    return CountedCellErrors(counts, [Outcomes(m).inverse for m in mechanisms.values()])


@pytest.mark.parametrize("mechanism", [OptimizedUnary(4, 1.0), SymmetricUnary(3, 2.0)], ids=repr)
def test_contributions_of_bits_are_unbiased_and_sum_to_one(mechanism: Mechanism) -> None:
    outcomes = Outcomes(mechanism)
    np.testing.assert_allclose(
        outcomes.inverse @ outcomes.channel, np.eye(len(mechanism.labels)), atol=1e-12
    )
    np.testing.assert_allclose(outcomes.inverse.sum(axis=0), 1)
    every = Reports(mechanism, np.arange(2 ** len(mechanism.labels), dtype=np.uint8)[:, None])
    table = joint({"a": mechanism}, {"a": every})
    assert isinstance(table.spread, ListedCellErrors)
    np.testing.assert_allclose(
        table.spread.attributes[0].contributions(slice(None)), outcomes.inverse.T, atol=1e-12
    )


def test_bits_whose_noise_cannot_move_the_total_have_smaller_errors_than_each_on_its_own() -> None:
    """In a population that is spread evenly, a cell's variance falls by about 1/k of it, and the
    total has none."""
    mechanism = OptimizedUnary(4, 1.0)
    reports = mechanism.privatize(np.arange(40_000) % 4, seeded_source(5))
    table, alone = joint({"a": mechanism}, {"a": reports}), mechanism.estimate(reports)
    np.testing.assert_allclose(table.variance / alone.variance, 0.75, rtol=0.03)
    assert table.covariance_of(np.ones((1, 4)))[0, 0] == pytest.approx(0, abs=1e-18)


def test_a_large_table_has_exact_errors_for_whatever_is_asked_of_it() -> None:
    names = [f"q{i}" for i in range(10)]
    mechanisms: dict[str, Mechanism] = {name: BinaryResponse(0.8, 0.4) for name in names}
    reports = collect(mechanisms, 400)
    table = joint(mechanisms, reports)
    each = contributions(mechanisms, reports)
    np.testing.assert_allclose(table.stderr.reshape(-1), each.std(axis=0, ddof=1) / 20, rtol=1e-7)
    weights = np.random.default_rng(3).normal(size=(2, 1024))
    np.testing.assert_allclose(
        table.covariance_of(weights.reshape(2, *table.shape)),
        np.cov((each @ weights.T).T) / 400,
        rtol=1e-7,
    )
    assert table.covariance is not None
    eleven = {**mechanisms, "q10": BinaryResponse(0.8, 0.4)}
    assert joint(eleven, collect(eleven, 400)).covariance is None  # 2,048 cells: variances only


# --- marginals, slices, conditionals


@pytest.mark.parametrize("population", [None, 2_000])
@pytest.mark.parametrize("mechanisms", [MATRICES, MIXED], ids=["matrices", "mixed"])
def test_a_marginal_is_the_table_of_those_attributes_alone(
    mechanisms: dict[str, Mechanism], population: int | None
) -> None:
    reports = collect(mechanisms, 1_500)
    table = joint(mechanisms, reports, population)
    alone = joint({name: mechanisms[name] for name in ("c", "a")}, reports, population)
    turned = table.marginal("c", "a")
    assert (turned.axes, turned.labels) == (alone.axes, alone.labels)
    np.testing.assert_allclose(turned.proportions, alone.proportions, atol=1e-12)
    np.testing.assert_allclose(turned.proportions, table.proportions.sum(axis=1).T, atol=1e-12)
    np.testing.assert_allclose(turned.stderr, alone.stderr, atol=1e-12)
    np.testing.assert_allclose(covariance(turned), covariance(alone), atol=1e-12)


@pytest.mark.parametrize("population", [None, 2_000])
@pytest.mark.parametrize("name", list(MATRICES))
def test_the_marginal_of_one_attribute_is_its_mechanisms_own_estimate(
    name: str, population: int | None
) -> None:
    reports = collect(MATRICES, 1_500)
    found = joint(MATRICES, reports, population).marginal(name).estimate()
    expected = MATRICES[name].estimate(reports[name], population)
    assert (found.labels, found.n, found.population) == (expected.labels, 1_500, population)
    np.testing.assert_allclose(found.proportions, expected.proportions, atol=1e-12)
    np.testing.assert_allclose(found.variance, expected.variance, atol=1e-12)
    np.testing.assert_allclose(covariance(found), covariance(expected), atol=1e-12)


def test_in_a_finite_population_a_cells_variance_is_that_of_the_coins_and_of_who_was_asked() -> (
    None
):
    """V = (V_rr + (1 - n/U) V_s)/n, with V_rr the expected variance of a contribution given the
    truth (MATHS 1)."""
    truth = np.array([[0.4, 0.2], [0.1, 0.3]])
    mechanisms: dict[str, Mechanism] = {"a": BinaryResponse(0.6, 0.3), "b": DirectEncoding(2, 1.0)}
    crowds = Crowds(mechanisms, truth, n=10**7, seed=1)
    # the expected counts: no noise but rounding
    exact = np.round(crowds.n * crowds.rate).astype(np.int64)
    n = int(exact.sum())
    channel = np.kron(crowds.outcomes[0].channel, crowds.outcomes[1].channel)
    inverse = np.linalg.inv(channel)
    # sum over truths of the variance given the truth
    coins = (inverse**2 @ channel - np.eye(4)) @ truth.reshape(-1)
    for population in (n, 2 * n, 10 * n):
        table = Table(
            crowds.axes,
            crowds.labels,
            CountedCellErrors(exact, [o.inverse for o in crowds.outcomes]),
            n,
            population,
        )
        sampling = truth.reshape(-1) * (1 - truth.reshape(-1))
        np.testing.assert_allclose(
            table.variance.reshape(-1), (coins + (1 - n / population) * sampling) / n, rtol=1e-5
        )
        np.testing.assert_allclose(
            np.diag(covariance(table)), table.variance.reshape(-1), rtol=1e-9
        )


def test_a_slice_holds_the_shares_of_everybody_in_it() -> None:
    table = joint(MATRICES, collect(MATRICES, 1_500), population=9_000)
    part = table.select(b="y")
    assert part.axes == ("a", "c")
    np.testing.assert_array_equal(part.proportions, table.proportions[:, 1, :])
    np.testing.assert_allclose(part.stderr, table.stderr[:, 1, :], atol=1e-15)
    line = table.select(b="y", c=2)
    np.testing.assert_allclose(
        covariance(line), covariance(part)[np.ix_([2, 6], [2, 6])], atol=1e-15
    )


@pytest.mark.parametrize("mechanisms", [MATRICES, MIXED], ids=["matrices", "mixed"])
def test_a_conditional_is_a_ratio_with_the_error_of_a_ratio(
    mechanisms: dict[str, Mechanism],
) -> None:
    table = joint(mechanisms, collect(mechanisms, 20_000), population=50_000)
    rows = table.conditional("c", given="b")
    pair = table.marginal("b", "c")
    assert rows.axes == ("b", "c")
    np.testing.assert_allclose(
        rows.proportions, pair.proportions / pair.proportions.sum(axis=1, keepdims=True)
    )
    for i, j in np.ndindex(3, 4):
        share = statistics.ratio(
            table, {"b": table.labels[1][i], "c": j}, {"b": table.labels[1][i]}
        )
        assert rows.stderr[i, j] == pytest.approx(share.stderr, rel=1e-9)
    # The cells of a row sum to 1 whatever the reports, so their sum has no error; two rows' cells
    # covary as ratios do.
    assert rows.covariance_of(np.eye(3)[:, :, None] * np.ones(4)) == pytest.approx(
        np.zeros((3, 3)), abs=1e-15
    )
    one, other = np.eye(12).reshape(12, 3, 4)[[1, 6]]
    both = statistics.derived(
        pair, lambda p: p[0, 1] / p[0].sum() + p[1, 2] / p[1].sum(), "sum of two conditionals"
    )
    assert math.sqrt(rows.covariance_of((one + other)[None])[0, 0]) == pytest.approx(
        both.stderr, rel=1e-5
    )


def test_what_holds_among_some_people_is_a_row_of_the_conditional() -> None:
    table = joint(MATRICES, collect(MATRICES, 20_000))
    some = table.given(b="y")
    rows = table.conditional(("a", "c"), given="b")
    np.testing.assert_allclose(some.proportions, rows.proportions[1])
    np.testing.assert_allclose(some.stderr, rows.stderr[1])
    assert some.proportions.sum() == pytest.approx(1)
    assert some.proportion == pytest.approx(table.marginal("b").proportions[1])
    assert statistics.chi_square(some).value == pytest.approx(
        20_000 * some.proportion * statistics.phi_square(some).value
    )
    np.testing.assert_allclose(
        some.marginal("c").stderr, table.conditional("c", given="b").stderr[1]
    )


def test_nothing_is_said_given_what_seems_not_to_happen() -> None:
    mechanisms: dict[str, Mechanism] = {
        "now": DirectEncoding(["a", "b", "c"], 1.0),
        "next": DirectEncoding(2, 1.0),
    }
    crowds = Crowds(mechanisms, np.array([[0.5, 0.2], [0.1, 0.2], [0.0, 0.0]]), 20_000, seed=1)
    table = next(t for t in crowds.tables(50) if t.marginal("now").proportions[2] < 0)
    rows = table.conditional("next", given="now")
    assert np.isnan(rows.proportions[2]).all()
    assert np.isnan(rows.stderr[2]).all()
    assert np.isfinite(rows.stderr[:2]).all()
    assert rows.notes == (
        "nothing is known given now = c: its estimated proportion is not positive",
    )
    np.testing.assert_allclose(rows.select(now="a").stderr, rows.stderr[0])
    with pytest.raises(ParameterError, match="only a positive one can be a condition"):
        table.given(now="c")
    rare = next(t for t in crowds.tables(50) if t.marginal("now").proportions[2] > 0)
    assert "intervals are rough given now = c" in rare.conditional("next", given="now").notes[0]


# --- other forms


def test_a_table_prints_as_a_grid_or_as_a_list() -> None:
    mechanisms: dict[str, Mechanism] = {
        "pet": DirectEncoding(["cat", "dog"], 30.0),
        "age": DirectEncoding(["young", "old"], 30.0),
    }
    answers = {"pet": ["cat"] * 3 + ["dog"], "age": ["young", "old", "old", "young"]}
    lines = str(joint(mechanisms, answers, population=40)).splitlines()
    assert [line.split() for line in lines[:2]] == [["age,", "%"], ["pet", "young", "old"]]
    assert lines[2].split()[:2] == ["cat", "25.00"]
    assert (
        lines[4]
        == "4 reports of 40 people; epsilon 60 per person, all attributes together; intervals cover"
        " 95 %"
    )
    single = str(joint(mechanisms, answers).marginal("pet")).splitlines()
    assert single[0].split()[:3] == ["cat", "75.00", "%"]


def test_a_table_becomes_a_frame_and_json_that_say_the_same() -> None:
    table = joint(MATRICES, collect(MATRICES, 1_000))
    frame = table.to_frame(0.9)
    assert frame.index.names == ["a", "b", "c"]
    assert frame.loc[(1, "z", 3), "estimate"] == table.proportions[1, 2, 3]
    assert frame.loc[(1, "z", 3), "high"] == pytest.approx(
        table.proportions[1, 2, 3] + 1.644854 * table.stderr[1, 2, 3]
    )
    told = json.loads(json.dumps(table.to_dict(0.9)))
    assert told["labels"][1] == ["x", "y", "z"]
    assert told["low"][1][2][3] == frame.loc[(1, "z", 3), "low"]
    assert table.estimate().labels[-1] == (1, "z", 3)


def test_epsilon_is_what_all_reports_of_a_person_tell_together() -> None:
    assert joint(MATRICES, collect(MATRICES, 10)).epsilon == pytest.approx(
        sum(m.epsilon for m in MATRICES.values())
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_columns_of_randomized_labels_can_be_read_from_a_frame(frame: Any) -> None:
    mechanisms = {name: MATRICES[name] for name in ("a", "b")}
    reports = collect(mechanisms, 200)
    columns = {
        "a": reports["a"].data,
        "b": MATRICES["b"].report_labels(reports["b"]),  # type: ignore[attr-defined]
        "unrelated": ["-"] * 200,
    }
    np.testing.assert_array_equal(
        joint(mechanisms, frame(columns)).proportions, joint(mechanisms, reports).proportions
    )


# --- refusals


def test_bad_input_is_refused_with_its_name() -> None:
    reports = collect(MATRICES, 50)
    with pytest.raises(ReportError, match="no reports of the attribute 'c'"):
        joint(MATRICES, {"a": reports["a"], "b": reports["b"]})
    with pytest.raises(ReportError, match="'a' has 50 reports and 'b' has 49"):
        joint(MATRICES, {**reports, "b": reports["b"][:49]})
    with pytest.raises(NoReportsError):
        joint({"a": MATRICES["a"]}, {"a": []})
    with pytest.raises(ReportFormatError, match=r"values\[1\]"):
        joint({"b": MATRICES["b"]}, {"b": ["x", "unheard"]})
    with pytest.raises(ParameterError, match="mechanisms"):
        joint({}, reports)
    with pytest.raises(ParameterError, match="population = 49"):
        joint(MATRICES, reports, population=49)
    with pytest.raises(ParameterError, match="cells = 33554432"):
        joint(
            {str(i): BinaryResponse(0.5, 0.5) for i in range(25)},
            {str(i): [0, 1] for i in range(25)},
        )
    with pytest.raises(ReportFormatError, match="missing"):
        joint({"a": MATRICES["a"]}, {"a": [0, None]})


def test_axes_and_labels_that_are_not_there_are_refused() -> None:
    table = joint(MATRICES, collect(MATRICES, 50))
    with pytest.raises(ParameterError, match="axis = 'd' must be one of a, b, c"):
        table.marginal("d")
    with pytest.raises(ParameterError, match="none twice"):
        table.conditional("a", given="a")
    with pytest.raises(ParameterError, match="b = 'w' must be one of"):
        table.select(b="w")
    with pytest.raises(ParameterError, match="must leave at least one axis"):
        table.select(a=0, b="x", c=1)
    with pytest.raises(ParameterError, match="must leave at least one axis"):
        table.given(a=0, b="x", c=1)
    with pytest.raises(ParameterError, match="weights"):
        table.covariance_of(np.ones((2, 3, 4)))


class Opaque(DirectEncoding):
    """Reports that support labels in no way a table could read."""

    def channel(self) -> Any:
        return (0.5, 0.25)


def test_a_mechanism_whose_reports_a_table_cannot_read_is_refused() -> None:
    mechanism = Opaque(3, 1.0)
    with pytest.raises(
        ParameterError, match="neither outcomes of a matrix nor sets of supported labels"
    ):
        joint({"a": mechanism}, {"a": mechanism.privatize([0, 1, 2], seeded_source(1))})


SUPPORTING = [
    LocalHashing(6, 2.0),
    HadamardResponse(6, 2.0),
    SubsetSelection(6, 2.0),
    OptimizedUnary(6, 2.0),
    BasicRappor(6, 0.2, 0.3, 0.7),
]


@pytest.mark.parametrize("mechanism", SUPPORTING, ids=lambda m: type(m).__name__)
def test_every_protocol_whose_reports_support_labels_joins_a_table(mechanism: Mechanism) -> None:
    n = 30_000
    values = np.random.default_rng(3).choice(6, n, p=[0.3, 0.25, 0.2, 0.15, 0.1, 0.0])
    reports = mechanism.privatize(values, seeded_source(1))
    other = DirectEncoding(2, 1.0)
    table = joint(
        {"a": mechanism, "b": other},
        {"a": reports, "b": other.privatize(values % 2, seeded_source(2))},
        population=n,
    )
    truth = np.zeros((6, 2))
    np.add.at(truth, (values, values % 2), 1 / n)
    # Twelve cells, each beyond 6.5 standard errors once in 1e10.
    assert (np.abs(table.proportions - truth) < 6.5 * table.stderr).all()
    assert (table.stderr < 0.1).all()


@pytest.mark.parametrize(
    "mechanism",
    [m for m in SUPPORTING if not isinstance(m, HadamardResponse)],
    ids=lambda m: type(m).__name__,
)
def test_a_tally_counts_the_reports_that_support_a_label(mechanism: Any) -> None:
    data = mechanism.privatize(np.arange(600) % 6, seeded_source(1)).data
    assert mechanism.supports(data).sum(axis=0).tolist() == mechanism.count(data).tolist()


def test_hadamard_responses_support_what_their_transform_says() -> None:
    mechanism = HadamardResponse(6, 2.0)
    data = mechanism.privatize(np.arange(600) % 6, seeded_source(1)).data
    a, b = mechanism.channel()
    shares = (mechanism.supports(data).mean(axis=0) - b) / (a - b)
    np.testing.assert_allclose(shares, mechanism.solve(mechanism.count(data), 600)[0], atol=1e-12)


def test_a_mechanism_whose_matrix_would_be_too_large_is_refused() -> None:
    with pytest.raises(ParameterError, match="more labels than a table allows"):
        joint({"a": DirectEncoding(5_000, 1.0)}, {"a": [1, 2]})


def test_reports_in_place_of_the_mechanisms_are_refused_with_the_rule() -> None:
    first = DirectEncoding(2, 1.0)
    reports = first.privatize([0, 1], seeded_source(1))
    with pytest.raises(
        ParameterError,
        match="mechanisms = 'Reports' must be a mapping from attributes to mechanisms",
    ):
        joint(reports, reports)  # type: ignore[arg-type]
    for missing, shown in ((None, "None"), (5, "'int'"), (reports, "'Reports'")):
        with pytest.raises(
            ParameterError,
            match=f"reports = {shown} must be a mapping or a data frame with the reports of each",
        ):
            joint({"a": first}, missing)
    with pytest.raises(ParameterError, match="reports = None must be a mapping or a data frame"):
        joint({"a": first})
