"""RAPPOR with Bloom filters: the exact law of tiny filters, the hash, what is kept, and the
bytes."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from deniable import BasicRappor, PermanentAnswer, Rappor, Reports, Tally, every_path, seeded_source
from deniable.errors import (
    AnswerTypeError,
    DeniableError,
    MissingAnswerError,
    NoReportsError,
    ParameterError,
    ReportFormatError,
    ReportMismatchError,
)
from deniable.mechanisms.exact import log_ratio
from deniable.mechanisms.protocols import rappor
from deniable.mechanisms.protocols.rappor import bloom_positions
from toolkit.references.laws import FALSE_ALARM, Law, chi_square, exact_law

TINY = Rappor(bits=4, hashes=2, cohorts=2, f=0.5, p=0.125, q=0.75)
# f/2 = 1/4; q* = 3/4 3/4 + 1/4 1/8 and p* = 3/4 1/8 + 1/4 3/4
TRUE, FALSE = Fraction(19, 32), Fraction(9, 32)
TEXTS = [f"text {i}" for i in range(40)]


def bits_of(text: str, cohort: int, mechanism: Rappor = TINY) -> frozenset[int]:
    return frozenset(bloom_positions(text, cohort, mechanism.hashes, mechanism.bits))


def a_text(rule: Callable[[str], bool]) -> str:
    return next(text for text in TEXTS if rule(text))


def filter_law(text: str, if_set: Fraction, if_clear: Fraction) -> Law:
    """A uniform cohort, then independent bits."""
    law: Law = {}
    for cohort, row in product(range(2), product((0, 1), repeat=4)):
        chance = Fraction(1, 2)
        for bit, value in enumerate(row):
            one = if_set if bit in bits_of(text, cohort) else if_clear
            chance *= one if value else 1 - one
        law[
            bytes([cohort, 0]) + np.packbits(np.array(row, np.uint8), bitorder="little").tobytes()
        ] = chance
    return law


def permanent_law(mechanism: Rappor, text: str) -> Law:
    law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for probability, data in every_path(lambda source: mechanism.permanent(text, source).data):
        law[data.tobytes()] += probability
    return dict(law)


def loss(one: Law, other: Law) -> float:
    return log_ratio(max(max(one[o] / other[o], other[o] / one[o]) for o in one))


def test_the_hash_is_the_documented_one() -> None:
    for text, cohort in (("", 0), ("www.example.com", 7), ("ünïcödé \N{SNOWMAN}", 1023)):
        digest = hashlib.blake2b(
            text.encode("utf-8"),
            digest_size=64,
            person=b"deniable rappor1",
            salt=cohort.to_bytes(8, "little"),
        ).digest()
        words = np.frombuffer(digest, dtype="<u8")
        assert bloom_positions(text, cohort, 8, 1000) == tuple(int(word) % 1000 for word in words)
        assert bloom_positions(text, cohort, 2, 1000) == bloom_positions(text, cohort, 8, 1000)[:2]


def test_the_hash_spreads_texts_evenly_and_differently_in_each_cohort() -> None:
    places = np.array(
        [[bloom_positions(text, cohort, 2, 16) for cohort in range(50)] for text in TEXTS]
    )
    seen = np.bincount(places.reshape(-1), minlength=16)
    statistic = ((seen - seen.mean()) ** 2 / seen.mean()).sum()
    assert statistic < 80  # chi-square with 15 degrees of freedom exceeds 80 once in 10**10
    assert len({tuple(row) for row in places[0].tolist()}) > 40  # of 50 draws from 256 pairs


@pytest.mark.parametrize("kind", ["two bits", "one bit"])
def test_a_tiny_filter_is_drawn_with_exactly_the_papers_probabilities(kind: str) -> None:
    text = a_text(lambda t: len(bits_of(t, 0)) == (1 if kind == "one bit" else 2))
    assert permanent_law(TINY, text) == filter_law(text, Fraction(3, 4), Fraction(1, 4))
    assert exact_law(TINY, text) == filter_law(text, TRUE, FALSE)
    assert TINY.channel() == (float(TRUE), float(FALSE))


def test_one_report_loses_exactly_epsilon_at_worst() -> None:
    # equal to what is drawn, by the test above
    laws = {text: filter_law(text, TRUE, FALSE) for text in TEXTS}
    losses = {pair: loss(laws[pair[0]], laws[pair[1]]) for pair in combinations(TEXTS, 2)}
    assert max(losses.values()) == TINY.epsilon
    # The worst pairs are those with two bits each and none in common; colliding hashes only lose
    # less.
    for (one, other), lost in losses.items():
        apart = any(len(bits_of(one, j) | bits_of(other, j)) == 4 for j in range(2))
        assert (lost == TINY.epsilon) == apart


def test_the_permanent_answer_loses_exactly_the_lifetime_epsilon_at_worst() -> None:
    laws = [permanent_law(TINY, text) for text in TEXTS[:20]]
    assert max(loss(one, other) for one, other in combinations(laws, 2)) == TINY.lifetime_epsilon
    assert TINY.lifetime_epsilon == pytest.approx(4 * math.log(3), rel=1e-15)


def test_with_one_hash_the_loss_is_that_of_basic_rappor() -> None:
    one, basic = Rappor(8, 1, 3, 0.3, 0.2, 0.7), BasicRappor(8, 0.3, 0.2, 0.7)
    assert (one.epsilon, one.lifetime_epsilon) == (basic.epsilon, basic.lifetime_epsilon)
    three = Rappor(8, 3, 3, 0.3, 0.2, 0.7)
    assert three.epsilon == pytest.approx(3 * basic.epsilon, rel=1e-15)
    assert three.lifetime_epsilon == pytest.approx(3 * basic.lifetime_epsilon, rel=1e-15)


@pytest.mark.parametrize("lifetime", [0.01, 1.0, 4.0, 20.0])
def test_from_epsilon_spends_the_whole_lifetime_and_no_more(lifetime: float) -> None:
    assert (
        lifetime * (1 - 1e-6)
        < Rappor.from_lifetime_epsilon(64, 3, 8, lifetime).lifetime_epsilon
        <= lifetime
    )


def test_bulk_reports_follow_the_law_and_no_other() -> None:
    n, text = 200_000, TEXTS[0]

    def make(lifetime: float) -> Rappor:
        return Rappor.from_lifetime_epsilon(4, 2, 2, lifetime, p=0.05, q=0.95)

    def flips(lifetime: float) -> tuple[Fraction, Fraction]:
        flip = Fraction(make(lifetime).f) / 2
        return 1 - flip, flip

    mechanism = make(2.0)
    kept = mechanism.permanent([text] * n, seeded_source(1))
    reports = mechanism.replay(kept, seeded_source(2))
    seen_kept, seen = (Counter(row.tobytes() for row in rows.data) for rows in (kept, reports))
    for lifetime, expected in ((2.0, True), (1.6, False), (2.4, False)):
        a, b = (Fraction(x) for x in make(lifetime).channel())
        assert (
            chi_square(seen_kept, filter_law(text, *flips(lifetime)), n) > FALSE_ALARM
        ) == expected, lifetime
        assert (chi_square(seen, filter_law(text, a, b), n) > FALSE_ALARM) == expected, lifetime


def test_a_column_of_texts_sets_the_bits_of_each() -> None:
    # With next to no noise a report is the true filter, of a width that is no multiple of 8.
    mechanism = Rappor(bits=21, hashes=3, cohorts=5, f=1e-15, p=1e-15, q=1 - 1e-15)
    texts = TEXTS * 3
    data = mechanism.privatize(texts, seeded_source(1)).data
    cohorts = data[:, :2].copy().view("<u2")[:, 0]
    assert set(cohorts) == set(range(5))
    for text, cohort, row in zip(texts, cohorts.tolist(), data[:, 2:], strict=True):
        ones = np.flatnonzero(np.unpackbits(row, bitorder="little"))
        assert set(ones.tolist()) == bits_of(text, cohort, mechanism)


def test_a_text_is_hashed_once_a_cohort_however_often_it_occurs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[tuple[bytes, int]] = []
    real = rappor._positions

    def counting(content: bytes, cohort: int, hashes: int, bits: int) -> tuple[int, ...]:
        hashed.append((content, cohort))
        return real(content, cohort, hashes, bits)

    monkeypatch.setattr(rappor, "_positions", counting)
    Rappor(32, 2, 4, 0.5, 0.5, 0.75).privatize(["a", "b"] * 500)
    assert sorted(hashed) == [(text, cohort) for text in (b"a", b"b") for cohort in range(4)]


@pytest.mark.parametrize(
    "kind",
    [list, tuple, np.array, pd.Series, pl.Series, pa.array, lambda x: pa.chunked_array([x, []])],
)
def test_columns_of_any_library_give_the_same_reports(kind: Any) -> None:
    mechanism = Rappor(32, 2, 4, 0.5, 0.5, 0.75)
    texts = ["a", "", "ünïcödé", "a"]
    assert mechanism.privatize(kind(texts), seeded_source(1)) == mechanism.privatize(
        texts, seeded_source(1)
    )


def test_one_text_is_one_report_and_no_texts_are_none() -> None:
    mechanism = Rappor(32, 2, 4, 0.5, 0.5, 0.75)
    assert len(mechanism.privatize("hello")) == 1
    assert len(mechanism.privatize([])) == 0


def test_a_thousand_replays_reveal_the_permanent_bits_in_a_cohort_that_stays() -> None:
    mechanism = Rappor(bits=32, hashes=2, cohorts=16, f=0.5, p=0.5, q=0.75)
    texts, source = TEXTS * 5, seeded_source(7)
    kept = PermanentAnswer.from_bytes(mechanism.permanent(texts, source).to_bytes())
    total = np.zeros((len(texts), 32))
    for _ in range(1_000):
        data = mechanism.replay(kept, source).data
        np.testing.assert_array_equal(data[:, :2], kept.data[:, :2])
        total += np.unpackbits(data[:, 2:], axis=1, bitorder="little")
    permanent = np.unpackbits(kept.data[:, 2:], axis=1, bitorder="little")
    np.testing.assert_array_equal(total / 1_000 > 0.625, permanent == 1)
    truth = np.zeros_like(permanent)
    for row, text, cohort in zip(
        truth, texts, kept.data[:, :2].copy().view("<u2")[:, 0].tolist(), strict=True
    ):
        row[list(bits_of(text, cohort, mechanism))] = 1
    # A quarter of the bits, f/2, stays wrong for good: 0.25 ± 6.2 standard errors.
    assert abs((permanent != truth).mean() - 0.25) < 6.2 * math.sqrt(0.25 * 0.75 / truth.size)


def test_a_report_is_a_cohort_and_bits_of_fixed_length() -> None:
    mechanism = Rappor(21, 2, 300, 0.5, 0.5, 0.75)
    reports = mechanism.privatize(["a", "a much longer text than that"], seeded_source(1))
    assert reports.data.shape == (2, 2 + 3)
    assert Reports.from_bytes(reports.to_bytes()) == reports
    assert "longer" not in repr(mechanism.permanent("a much longer text"))


def test_counting_is_the_same_at_once_in_parts_and_through_bytes() -> None:
    mechanism = Rappor(21, 2, 5, 0.5, 0.5, 0.75)
    reports = mechanism.privatize(TEXTS, seeded_source(1))
    counts = mechanism.count(reports.data).reshape(5, 22)
    for cohort in range(5):
        rows = reports.data[reports.data[:, 0] == cohort, 2:]
        assert counts[cohort, 0] == len(rows)
        np.testing.assert_array_equal(
            counts[cohort, 1:], np.unpackbits(rows, axis=1, bitorder="little")[:, :21].sum(axis=0)
        )
    parts = mechanism.tally().update(reports[:7]).merge(mechanism.tally().update(reports[7:]))
    assert Tally.from_bytes(parts.to_bytes()) == mechanism.tally().update(reports)


def test_bytes_that_are_no_reports_are_refused() -> None:
    mechanism = Rappor(21, 2, 5, 0.5, 0.5, 0.75)
    good = mechanism.privatize(["a", "b"], seeded_source(1)).to_bytes()
    for message, content in {
        "cohort lies outside 0 to 4": good[:-5] + b"\x05\0" + good[-3:],
        "bits set beyond": good[:-1] + b"\xff",
        "need 10 bytes, and 9 follow": good[:-1],
        "not usable: hashes = 9": good.replace(b'"hashes":2', b'"hashes":9'),
        "do not fit Rappor": good.replace(b'"hashes":2', b'"rashes":2'),
    }.items():
        with pytest.raises(ReportFormatError, match=message):
            Reports.from_bytes(content)
        with pytest.raises(ReportFormatError, match=message):
            PermanentAnswer.from_bytes(b"dnp" + content[3:])


def test_reports_and_permanent_answers_of_others_are_refused() -> None:
    mechanism, other = Rappor(21, 2, 5, 0.5, 0.5, 0.75), Rappor(21, 2, 6, 0.5, 0.5, 0.75)
    with pytest.raises(ReportMismatchError):
        mechanism.estimate(other.privatize("a"), candidates=["a"])
    with pytest.raises(ReportMismatchError):
        mechanism.replay(other.permanent("a"))
    with pytest.raises(NoReportsError):
        mechanism.estimate(mechanism.privatize([]), candidates=["a"])


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (["a", None], MissingAnswerError),
        (["a", math.nan], MissingAnswerError),
        (pd.Series(["a", None]), MissingAnswerError),
        (pl.Series(["a", None]), MissingAnswerError),
        (pa.array(["a", None]), MissingAnswerError),
        (["a", 4242], AnswerTypeError),
        (["a", b"SECRET"], AnswerTypeError),
        (["a", ["SECRET"]], AnswerTypeError),
        (["a", "SECRET \udc00"], AnswerTypeError),
    ],
)
def test_values_that_are_no_text_are_refused_without_being_shown(
    values: Any, error: type[DeniableError]
) -> None:
    mechanism = Rappor(21, 2, 5, 0.5, 0.5, 0.75)
    for step in (mechanism.permanent, mechanism.privatize):
        with pytest.raises(error, match=r"values\[1\]") as caught:
            step(values)
        assert "SECRET" not in str(caught.value)
        assert "4242" not in str(caught.value)
        assert caught.value.__context__ is None, "an error behind the error would carry the text"


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        *(
            (name, value, "whole number from")
            for name in ("bits", "hashes", "cohorts")
            for value in (0, -1, 1.5, "8", None, True)
        ),
        ("bits", 1, "whole number from"),
        ("bits", 8193, "whole number from"),
        ("hashes", 9, "whole number from"),
        ("cohorts", 1025, "whole number from"),
        ("hashes", 5, "at most half of bits = 8"),
        *(
            (name, value, "strictly between 0 and 1")
            for name in ("f", "p", "q")
            for value in (0, 1, -1, 1.2, math.nan, None)
        ),
        ("q", 0.5, "must exceed p = 0.5"),
        ("q", 0.4, "must exceed p = 0.5"),
    ],
)
def test_parameters_that_break_their_rule_are_refused(name: str, value: Any, rule: str) -> None:
    parameters: dict[str, Any] = {
        "bits": 8,
        "hashes": 2,
        "cohorts": 4,
        "f": 0.5,
        "p": 0.5,
        "q": 0.75,
        name: value,
    }
    with pytest.raises(ParameterError, match=rule) as caught:
        Rappor(**parameters)
    assert caught.value.name == name
