"""Reports and tallies: canonical bytes, merging, and refusing what does not belong."""

from __future__ import annotations

import datetime
import json
import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import deniable
from deniable import Mechanism, OptimizedUnary, Reports, Tally, seeded_source
from deniable.errors import (
    NoReportsError,
    ParameterError,
    ReportError,
    ReportFormatError,
    ReportMismatchError,
    SurveyWarning,
)
from deniable.mechanisms.registry import from_dict

MECHANISMS: list[Mechanism] = [
    deniable.BinaryResponse(0.5, 0.25),
    deniable.DirectEncoding(["a", "b", "ü"], 1.0),
    deniable.DirectEncoding(300, 1.0),
    deniable.DesignMatrix([[0.7, 0.4], [0.3, 0.6]]),
    deniable.UnaryEncoding(11, 0.6, 0.2),
    deniable.SymmetricUnary(8, 0.1),
    deniable.OptimizedUnary(70, 3.0),
    deniable.ThresholdHistogram(5, 1.0),
]


def some_reports(mechanism: Mechanism, n: int = 50, seed: int = 1) -> Reports:
    labels = [mechanism.labels[i % len(mechanism.labels)] for i in range(n)]
    return mechanism.privatize(labels, seeded_source(seed))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_reports_survive_their_bytes(mechanism: Mechanism) -> None:
    reports = some_reports(mechanism)
    again = Reports.from_bytes(reports.to_bytes())
    assert again == reports
    assert again.mechanism.epsilon == mechanism.epsilon
    assert again.to_bytes() == reports.to_bytes()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_report_has_the_same_length(mechanism: Mechanism) -> None:
    assert len({len(report.to_bytes()) for report in some_reports(mechanism)}) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_tallies_add_up_however_the_reports_are_split(mechanism: Mechanism) -> None:
    reports = some_reports(mechanism, 100)
    whole = mechanism.tally().update(reports)
    left, right = mechanism.tally().update(reports[:37]), mechanism.tally().update(reports[37:])
    assert Tally.from_bytes(left.to_bytes()).merge(right) == whole
    assert whole.n == len(whole) == 100
    for given in (reports, whole, [reports[:10], mechanism.tally().update(reports[10:])]):
        assert (
            mechanism.estimate(given).proportions.tolist() == whole.estimate().proportions.tolist()
        )
    assert left.n == 37, "merging must not change what is merged into another"


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_mechanism_survives_its_description(mechanism: Mechanism) -> None:
    again = from_dict(json.loads(json.dumps(mechanism.to_dict())))
    assert again == mechanism
    assert hash(again) == hash(mechanism)
    assert again.epsilon == mechanism.epsilon


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_a_mechanism_cannot_be_changed(mechanism: Mechanism) -> None:
    with pytest.raises(AttributeError):
        mechanism.epsilon = 9.0


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_nothing_can_be_estimated_from_no_reports(mechanism: Mechanism) -> None:
    with pytest.raises(NoReportsError):
        mechanism.estimate(mechanism.privatize([]))
    with pytest.raises(NoReportsError):
        mechanism.tally().estimate()


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_reports_of_another_mechanism_are_refused(mechanism: Mechanism) -> None:
    other = deniable.OptimizedUnary(70, 3.0000001)
    with pytest.raises(ReportMismatchError, match="OptimizedUnary"):
        mechanism.estimate(some_reports(other))
    with pytest.raises(ReportMismatchError):
        mechanism.tally().merge(other.tally())
    with pytest.raises(ReportMismatchError):
        mechanism.tally().merge(some_reports(mechanism))  # type: ignore[arg-type]


def test_the_same_probabilities_under_other_labels_are_another_mechanism() -> None:
    reports = deniable.DirectEncoding(["a", "b"], 1.0).privatize("a")
    with pytest.raises(ReportMismatchError):
        deniable.DirectEncoding(["b", "a"], 1.0).estimate(reports)


def description_of(mechanism: Mechanism) -> bytes:
    return json.dumps(mechanism.to_dict()).encode()


def packed(magic: bytes, version: int, description: bytes, body: bytes) -> bytes:
    return struct.pack("<3sBI", magic, version, len(description)) + description + body


NINE = deniable.OptimizedUnary(9, 1.0)
FIVE = deniable.DirectEncoding(5, 1.0)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "too few"),
        (b"dnr", "too few"),
        (packed(b"xyz", 1, description_of(NINE), bytes(10)), "not reports"),
        (packed(b"dnr", 2, description_of(NINE), bytes(10)), "version 2"),
        (packed(b"dnr", 1, b"{", bytes(8)), "not JSON"),
        (packed(b"dnr", 1, b"[" * 100_000, bytes(8)), "not JSON"),
        (
            packed(
                b"dnr",
                1,
                b'{"mechanism": "OptimizedUnary", "values": 9, "epsilon": 1%s}' % (b"0" * 400),
                bytes(8),
            ),
            "epsilon = 1",
        ),
        (packed(b"dnr", 1, b"[]", bytes(8)), "'mechanism'"),
        (packed(b"dnr", 1, b'{"mechanism": "Nope"}', bytes(8)), "'Nope'"),
        (packed(b"dnr", 1, b'{"mechanism": ["x"]}', bytes(8)), "mechanism"),
        (
            packed(b"dnr", 1, b'{"mechanism": "IndexReports"}', bytes(8)),
            "knows: BasicRappor, BinaryResponse, Crosswise",
        ),
        (
            packed(b"dnr", 1, b'{"mechanism": "OptimizedUnary", "values": 9}', bytes(8)),
            "do not fit OptimizedUnary",
        ),
        (
            packed(
                b"dnr", 1, b'{"mechanism": "OptimizedUnary", "values": 9, "epsilon": -1}', bytes(8)
            ),
            "epsilon = -1",
        ),
        (packed(b"dnr", 1, description_of(NINE), b"\1"), "end before"),
        (packed(b"dnr", 1, description_of(NINE), struct.pack("<Q", 1) + b"\0"), "need 2 bytes"),
        (packed(b"dnr", 1, description_of(NINE), struct.pack("<Q", 1) + b"\0\0\0"), "need 2 bytes"),
        (
            packed(b"dnr", 1, description_of(NINE), struct.pack("<Q", 1) + b"\0\2"),
            "bits set beyond",
        ),
        (packed(b"dnr", 1, description_of(FIVE), struct.pack("<Q", 1) + b"\5"), "outside 0 to 4"),
    ],
)
def test_bytes_that_are_no_reports_are_refused_with_the_reason(content: bytes, reason: str) -> None:
    with pytest.raises(ReportFormatError, match=reason):
        Reports.from_bytes(content)


def test_bytes_that_are_no_tally_are_refused_with_the_reason() -> None:
    good = FIVE.tally().update(some_reports(FIVE)).to_bytes()
    assert Tally.from_bytes(good).n == 50
    for bad in (good[:-1], good + b"\0" * 8, some_reports(FIVE).to_bytes()):
        with pytest.raises(ReportFormatError):
            Tally.from_bytes(bad)


def forged(mechanism: Mechanism, n: int, *counts: int) -> bytes:
    return packed(
        b"dnt", 1, description_of(mechanism), struct.pack(f"<Q{len(counts)}q", n, *counts)
    )


@pytest.mark.parametrize(
    "content",
    [
        forged(FIVE, 3, 4, -1, 0, 0, 0),
        forged(FIVE, 3, 1, 1, 0, 0, 0),
        forged(FIVE, 2**63, 2**62, 2**62, 2**62, 2**62, 2**62),
        forged(NINE, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0),
        forged(deniable.SummedHistogram(2, 1.0, levels=4), 3, 10, 0),
        forged(deniable.SummedHistogram(2, 1.0, levels=4), 3, -1, 0),
        forged(deniable.Rappor(2, 1, 2, 0.5, 0.25, 0.75), 3, 1, 0, 0, 1, 0, 0),
        forged(deniable.Rappor(2, 1, 2, 0.5, 0.25, 0.75), 3, 1, 2, 0, 2, 0, 0),
    ],
)
def test_counts_to_which_no_reports_add_up_are_no_tally(content: bytes) -> None:
    with pytest.raises(ReportFormatError, match=r"a tally of \d+ reports"):
        Tally.from_bytes(content)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_is_read(kind: type) -> None:
    reports = some_reports(FIVE)
    assert Reports.from_bytes(kind(reports.to_bytes())) == reports
    tally = FIVE.tally().update(reports)
    assert Tally.from_bytes(kind(tally.to_bytes())) == tally


@pytest.mark.parametrize(
    "labels",
    [[("a", ("b", 1)), ("a", ("b", 2))], [(np.int64(1), np.str_("x")), (2, "y")], [True, False]],
)
def test_labels_survive_the_bytes_of_their_reports(labels: Any) -> None:
    mechanism = deniable.DirectEncoding(labels, 1.0)
    reports = Reports.from_bytes(mechanism.privatize(labels, seeded_source(1)).to_bytes())
    assert reports.mechanism.labels == mechanism.labels == tuple(labels)


def test_labels_that_bytes_cannot_describe_are_refused_when_bytes_are_asked_for() -> None:
    days = deniable.DirectEncoding([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], 1.0)
    with pytest.raises(ParameterError, match=r"labels = .* must be strings, numbers"):
        days.privatize(days.labels).to_bytes()


@pytest.mark.parametrize("probability", [Fraction(1, 3), Decimal("0.3"), np.float32(0.3)])
def test_probabilities_of_any_type_of_number_survive_the_bytes(probability: Any) -> None:
    for mechanism in (
        deniable.UnaryEncoding(3, 0.6, probability),
        deniable.BinaryResponse(probability, 0.5),
        deniable.ThresholdHistogram(3, 1.0, 1 - probability),
    ):
        read = Reports.from_bytes(mechanism.privatize([0]).to_bytes()).mechanism
        assert read == mechanism
        assert read.epsilon == mechanism.epsilon


def test_many_reports_share_the_mechanism_that_was_built_once() -> None:
    first, second = (Reports.from_bytes(report.to_bytes()) for report in some_reports(FIVE)[:2])
    assert first.mechanism is second.mechanism


def test_a_column_of_randomized_labels_can_be_estimated() -> None:
    survey = deniable.DirectEncoding(["yes", "no"], 1.0)
    reports = survey.privatize(["yes"] * 60 + ["no"] * 40, seeded_source(2))
    labels = survey.report_labels(reports)
    assert set(labels) == {"yes", "no"}
    assert (
        survey.estimate(labels).proportions.tolist()
        == survey.estimate(reports).proportions.tolist()
    )
    with pytest.raises(ReportFormatError, match=r"values\[1\]"):
        survey.estimate(["yes", "maybe"])


def test_what_is_no_report_at_all_is_refused() -> None:
    with pytest.raises(ReportError, match="privatize"):
        NINE.estimate([1, 2, 3])
    for mechanism in (NINE, FIVE):
        with pytest.raises(ReportError, match="a tally contains counts"):
            mechanism.tally().update(mechanism.tally())


def test_reports_are_read_like_a_sequence_and_printed_without_their_content() -> None:
    reports = some_reports(FIVE)
    assert reports[-1] == reports[49:50]
    assert [len(r) for r in reports][:3] == [1, 1, 1]
    assert repr(reports) == "<50 reports of DirectEncoding(values=5, epsilon=1.0)>"
    assert (
        repr(FIVE.tally().update(reports))
        == "<tally of 50 reports of DirectEncoding(values=5, epsilon=1.0)>"
    )
    with pytest.raises(IndexError):
        reports[50]


@pytest.mark.parametrize(
    "population", [0, -5, 49, 2.5, True, "50", "x", math.nan, math.inf, 10**400, [50]]
)
def test_a_population_holds_all_who_reported(population: Any) -> None:
    with pytest.raises(ParameterError, match="population"):
        FIVE.estimate(some_reports(FIVE), population=population)


def test_a_finite_population_takes_away_only_the_error_of_sampling() -> None:
    survey = deniable.DirectEncoding(4, 2.0)
    reports = survey.privatize(np.arange(4000) % 4, seeded_source(5))
    infinite, all_of_them = survey.estimate(reports), survey.estimate(reports, population=4000)
    share = infinite.proportions
    np.testing.assert_allclose(infinite.variance - all_of_them.variance, share * (1 - share) / 4000)
    assert infinite.covariance is not None
    assert all_of_them.covariance is not None
    difference = infinite.covariance - all_of_them.covariance
    assert difference[0, 1] == pytest.approx(-share[0] * share[1] / 4000)


@pytest.mark.parametrize(
    "mechanism",
    [
        *MECHANISMS,
        deniable.RandomProjection(16, 1.0),
        deniable.SquareWave(1.0, 8),
        deniable.DistanceSensitive(8, 2.0),
    ],
    ids=repr,
)
def test_one_report_has_an_estimate_that_json_can_hold(mechanism: Mechanism) -> None:
    for seed in range(20):
        estimate = mechanism.estimate(some_reports(mechanism, n=1, seed=seed))
        assert np.all(estimate.variance >= 0)
        described = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
        assert described["n"] == 1
        low, high = estimate.interval().T
        assert np.all(low <= high)


def test_labels_of_any_kind_are_told_in_json_and_in_frames() -> None:
    labels = [("a", 1), datetime.date(2026, 1, 2), 2.5, "x", b"y", math.inf]
    mechanism = deniable.DirectEncoding(labels, 1.0)
    estimate = mechanism.estimate(mechanism.privatize(labels, seeded_source(1)))
    assert json.loads(json.dumps(estimate.to_dict(), allow_nan=False))["labels"] == [
        ["a", 1],
        {"date": "2026-01-02"},
        2.5,
        "x",
        {"bytes": "79"},
        "inf",
    ]
    assert estimate.to_frame().index.tolist() == labels
    table = deniable.Table.of(estimate)
    assert json.loads(json.dumps(table.to_dict(), allow_nan=False))["labels"] == [
        estimate.to_dict()["labels"]
    ]


def test_tuples_alone_are_labels_of_a_frame() -> None:
    mechanism = deniable.DirectEncoding([("a", 1), ("b", 2)], 1.0)
    frame = mechanism.estimate(mechanism.privatize(mechanism.labels, seeded_source(1))).to_frame()
    assert frame.index.tolist() == [("a", 1), ("b", 2)]
    assert frame.index.name == "label"


@pytest.mark.parametrize("size", [0, -5, math.nan, math.inf, "x", True])
def test_counts_are_of_a_number_of_people(size: Any) -> None:
    with pytest.raises(ParameterError, match="size"):
        FIVE.estimate(some_reports(FIVE)).counts(size)


def test_descriptions_of_earlier_versions_which_call_the_values_k_are_read() -> None:
    assert from_dict({"mechanism": "DirectEncoding", "k": 5, "epsilon": 1.0}) == FIVE
    described = {"mechanism": "DesignMatrix", "P": [[0.8, 0.3], [0.2, 0.7]], "k": ["sick", "well"]}
    assert from_dict(described) == deniable.DesignMatrix(
        [[0.8, 0.3], [0.2, 0.7]], values=["sick", "well"]
    )
    with pytest.raises(ReportFormatError, match="'k'"):
        from_dict({"mechanism": "BinaryResponse", "p": 0.5, "q": 0.5, "k": 2})
    with pytest.raises(ReportFormatError, match="at most 1024"):
        Reports.from_bytes(
            packed(
                b"dnr", 1, b'{"mechanism": "LaplaceEncoding", "k": 5000, "epsilon": 1.0}', bytes(8)
            )
        )


@pytest.mark.parametrize("kind", [list, np.asarray, pd.Series])
def test_a_column_that_is_randomized_in_blocks_is_counted_whole(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of 100 reports with 20 bits each; every block is seen, and none is larger."""
    monkeypatch.setattr("deniable.mechanisms.reports._BLOCK_BYTES", 300)
    mechanism, sizes = OptimizedUnary(20, 12.0), list[int]()
    drawn = mechanism.draw

    def noted(self: OptimizedUnary, indices: Any, source: Any) -> Any:
        sizes.append(indices.size)
        return drawn(indices, source)

    monkeypatch.setattr(OptimizedUnary, "draw", noted)
    values = kind([1] * 150 + [7] * 120)
    tally = mechanism.tally().randomize(values, seeded_source(1))
    assert (sizes, tally.n) == ([100, 100, 70], 270)
    assert tally.counts[[1, 7]].tolist() == pytest.approx([75, 60], abs=35)  # 5 deviations
    assert tally.counts.sum() < 270, "others are hardly ever supported"


def test_reports_that_fill_memory_are_announced_before_they_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("deniable.mechanisms.reports._MOST_UNHINTED", 1_000)
    mechanism = OptimizedUnary(80, 1.0)
    mechanism.privatize([1] * 100)
    with pytest.warns(SurveyWarning, match=r"101 reports of 10 bytes take .*randomize\(values\)"):
        mechanism.privatize([1] * 101)
