"""How far liars can move an estimate: the stated figure against every report that is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from deniable import (
    BasicRappor,
    BinaryResponse,
    DesignMatrix,
    DirectEncoding,
    DistanceSensitive,
    HadamardResponse,
    LaplaceEncoding,
    LocalHashing,
    Mechanism,
    OptimizedUnary,
    PiecewiseMean,
    RandomProjection,
    Rappor,
    Reports,
    SquareWave,
    SubsetSelection,
    SummedHistogram,
    SymmetricUnary,
    ThresholdHistogram,
    UnaryEncoding,
    seeded_source,
)
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.counts import Counts
from deniable.errors import ParameterError, ReportFormatError
from deniable.queries.query import Query
from deniable.queries.strata import Stratum
from toolkit.queries import make_query

MECHANISMS: list[Mechanism] = [
    BinaryResponse(0.4, 0.7),
    DirectEncoding(4, 1.0),
    DesignMatrix([[0.7, 0.2, 0.1], [0.2, 0.6, 0.3], [0.1, 0.2, 0.6]]),
    LaplaceEncoding(5, 1.0),
    DistanceSensitive(6, 2.0),
    DistanceSensitive(6, 1.0, kernel="full"),
    SquareWave(1.0, bins=5),
    PiecewiseMean(2.0, points=5),
    OptimizedUnary(3, 1.0),
    SymmetricUnary(5, 0.5),
    UnaryEncoding(4, 0.6, 0.3),
    ThresholdHistogram(3, 2.0),
    BasicRappor(4, 0.3, 0.4, 0.8),
    SubsetSelection(5, 0.7),
    HadamardResponse(6, 1.0),
    LocalHashing(4, 1.0),
    RandomProjection(5, 1.0, m=32),
    RandomProjection(9, 1.0, m=8),  # only the paper's estimator is left
    SummedHistogram(2, 1.0, levels=7),
]


def accepted(mechanism: Mechanism) -> np.ndarray[Any, Any]:
    """All rows that the mechanism takes for reports; of hash functions, of which there are 2**64, a
    thousand."""
    dtype, shape = mechanism.layout
    if isinstance(mechanism, LocalHashing):
        seeds = mechanism.seeds(1000, seeded_source(1))
        rows = np.empty((1000, mechanism._family.g), dtype=dtype)
        rows["alpha"], rows["beta"] = seeds[:, :1], seeds[:, 1:]
        rows["y"] = np.arange(mechanism._family.g)
        return rows.reshape(-1)
    every = (
        np.array(list(product(range(256), repeat=shape[0])), dtype=dtype)
        if shape
        else np.arange(256).astype(dtype)
    )

    def taken(row: np.ndarray[Any, Any]) -> bool:
        try:
            mechanism.check(row)
        except ReportFormatError:
            return False
        return True

    return np.concatenate([every[i : i + 1] for i in range(len(every)) if taken(every[i : i + 1])])


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_influence_is_the_largest_change_that_any_accepted_report_makes(
    mechanism: Mechanism,
) -> None:
    rows = accepted(mechanism)
    crowd = mechanism.draw(np.arange(7) % len(mechanism.labels), seeded_source(3))
    rest = mechanism.count(crowd[:6])
    found = np.array(
        [mechanism.solve(rest + mechanism.count(rows[i : i + 1]), 7)[0] for i in range(len(rows))]
    )
    np.testing.assert_allclose(mechanism.influence(7), np.ptp(found, axis=0), rtol=1e-9)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_liars_reach_the_influence_together_and_never_exceed_it(mechanism: Mechanism) -> None:
    n, liars = 500, 25
    rows = accepted(mechanism)
    alone = np.array(
        [mechanism.solve(mechanism.count(rows[i : i + 1]), 1)[0] for i in range(len(rows))]
    )
    honest = mechanism.draw(np.arange(n) % len(mechanism.labels), seeded_source(5))
    bound = mechanism.influence(n, liars=liars)
    for label in (0, len(mechanism.labels) - 1):
        lowest, highest = rows[alone[:, label].argmin()], rows[alone[:, label].argmax()]
        before, after = honest.copy(), honest.copy()
        after[:liars] = highest
        moved, kept = unbiased(mechanism, after), unbiased(mechanism, before)
        assert np.all(np.abs(moved - kept) <= bound * (1 + 1e-9))
        before[:liars] = lowest  # those whose coins fell the other way
        kept = unbiased(mechanism, before)
        assert (moved - kept)[label] == pytest.approx(bound[label], rel=1e-9)


def unbiased(mechanism: Mechanism, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What windows show: the linear estimate, also where the mechanism's own default is another."""
    return (
        mechanism.estimate(mechanism.tally().update(reports(mechanism, rows)))
        .without_bias()
        .proportions
    )


def reports(mechanism: Mechanism, rows: np.ndarray[Any, Any]) -> Reports:
    mechanism.check(rows)
    return Reports(mechanism, rows)


def test_a_liar_reaches_much_further_where_noise_is_summed_or_a_matrix_is_inverted() -> None:
    """One per cent of liars, epsilon 1: a bound of 1/(a - b) a report was stated for all of
    them."""
    direct, laplace, summed = (
        DirectEncoding(8, 1.0),
        LaplaceEncoding(8, 1.0),
        SummedHistogram(8, 1.0),
    )
    assert direct.influence(1000, liars=10).max() < 0.06
    assert laplace.influence(1000, liars=10).max() > 2
    assert summed.influence(1000, liars=10).max() > 0.4


def test_rappors_influence_is_that_of_the_worst_bits_in_the_worst_cohort() -> None:
    mechanism = Rappor(bits=6, hashes=1, cohorts=3, f=0.2, p=0.3, q=0.8)
    texts = ["a", "b", "c"]
    sizes = [40, 25, 10]
    source = seeded_source(2)
    drawn = np.concatenate(
        [mechanism.draw(mechanism.encode([text] * 200), source) for text in texts]
    )
    cohort = mechanism._cohort(drawn)
    crowd = np.concatenate([drawn[cohort == j][:size] for j, size in enumerate(sizes)])
    start = np.cumsum([0, *sizes])
    found: dict[int, list[Any]] = {}
    for j in range(3):
        for bits in range(64):
            changed = crowd.copy()
            changed[start[j], 2] = bits
            found.setdefault(j, []).append(
                mechanism.estimate(reports(mechanism, changed), candidates=texts).proportions
            )
    worst = np.max([np.ptp(np.array(of), axis=0) for of in found.values()], axis=0)
    np.testing.assert_allclose(
        mechanism.influence(75, candidates=texts, sizes=sizes), worst, rtol=1e-9
    )
    assert np.all(mechanism.influence(75, candidates=texts) > 0)
    with pytest.raises(ParameterError, match="candidates"):
        mechanism.influence(75)
    with pytest.raises(ParameterError, match="sizes"):
        mechanism.influence(75, candidates=texts, sizes=[1, 2])


@pytest.mark.parametrize(("n", "liars"), [(0, 1), (10, 11), (10, -1), (2.5, 1), (True, 1)])
def test_nonsense_numbers_of_reports_and_liars_are_refused(n: Any, liars: Any) -> None:
    with pytest.raises(ParameterError):
        DirectEncoding(3, 1.0).influence(n, liars)


def panes_of(query: Query, answers: dict[tuple[int, int], Any]) -> dict[PaneKey, Any]:
    """Rows by epoch and stratum."""
    source = seeded_source(4)
    drawn = {}
    for (epoch, stratum), indices in answers.items():
        drawn[PaneKey(query.id, query.serial, epoch, stratum)] = query.mechanism.draw(
            np.asarray(indices), source
        )
    return drawn


def changed_windows(
    versions: list[Query], rows: dict[PaneKey, Any]
) -> Iterator[np.ndarray[Any, Any]]:
    """The estimates of a window in which one report of one pane is each of all-zeros, all-ones and
    one-hot."""
    of = {query.serial: query for query in versions}
    for key in rows:
        mechanism = of[key.serial].mechanism
        for bits in (0, 0b11111111111, 1):
            lied = {k: r.copy() for k, r in rows.items()}
            lied[key][0] = np.frombuffer(bits.to_bytes(2, "little"), dtype=np.uint8)
            panes = {k: Counts(of[k.serial].mechanism.count(r), len(r)) for k, r in lied.items()}
            mechanism.check(lied[key])
            estimate = assemble(versions, 0, panes).estimate
            assert estimate is not None
            yield estimate.proportions


def test_a_window_states_the_reach_of_a_report_where_it_weighs_the_most() -> None:
    strata = [
        Stratum("town", sampling=0.1, population=9000),
        Stratum("country", sampling=1.0, population=1000),
    ]
    first = make_query(strata=strata, minimum_cohort=1)
    second = first.revised(mechanism={"name": "TwoCoin", "p": 0.6, "q": 0.5})
    for versions in ([first], [first, second]):
        rows: dict[PaneKey, Any] = {}
        for i, query in enumerate(versions):
            rows |= panes_of(
                query, {(2 * i, 0): [0] * 90, (2 * i, 1): [1] * 100, (2 * i + 1, 1): [2] * 30}
            )
        window = assemble(
            versions,
            0,
            {k: Counts(versions[k.serial - 1].mechanism.count(r), len(r)) for k, r in rows.items()},
        )
        found = list(changed_windows(versions, rows))
        worst = max(
            np.abs(one - other).max()
            for group in batched(found, 3)
            for one in group
            for other in group
        )
        assert window.influence == pytest.approx(worst, rel=1e-9)
        assert window.to_dict()["influence"] == window.influence
        assert "one false report can move a proportion by up to" in str(window)


def batched(items: list[Any], size: int) -> Iterator[list[Any]]:
    return (items[i : i + size] for i in range(0, len(items), size))


def test_a_withheld_window_states_no_influence() -> None:
    query = make_query(minimum_cohort=50)
    (key, rows), *_ = panes_of(query, {(0, 0): [0] * 9}).items()
    window = assemble([query], 0, {key: Counts(query.mechanism.count(rows), len(rows))})
    assert window.estimate is None
    assert window.influence is None
    assert window.to_dict()["influence"] is None
