"""Basic RAPPOR: two steps against their exact law, what is kept, and what a thousand reports
reveal."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import (
    BasicRappor,
    DirectEncoding,
    Mechanism,
    PermanentAnswer,
    Rappor,
    Reports,
    combine,
    every_path,
    seeded_source,
    stratified,
)
from deniable.errors import (
    DeniableError,
    MissingAnswerError,
    OutOfDomainError,
    ParameterError,
    ReportFormatError,
    ReportMismatchError,
    UnknownLabelError,
)
from deniable.mechanisms.exact import log_ratio
from toolkit.references.laws import (
    FALSE_ALARM,
    Law,
    assert_bulk_draws_follow_the_channel,
    assert_errors_are_as_stated,
    assert_private_and_unbiased,
    chi_square,
    exact_law,
)

SMALL: list[Mechanism] = [
    BasicRappor(3, 0.5, 0.5, 0.75),
    BasicRappor(["a", "b", "c"], 0.1, 0.05, 0.9),
    BasicRappor(2, 0.9, 0.3, 0.31),
    BasicRappor.from_lifetime_epsilon(3, 1.0, p=0.2, q=0.8),
]


def law_of(draw: Callable[[Any], bytes]) -> Law:
    law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for probability, outcome in every_path(draw):
        law[outcome] += probability
    return dict(law)


def permanent_law(mechanism: BasicRappor, value: Any) -> Law:
    return law_of(lambda source: mechanism.permanent(value, source).data.tobytes())


def worst_ratio(laws: list[Law]) -> Fraction:
    return max(
        Fraction(max(law[o] for law in laws), min(law[o] for law in laws))
        for o in set().union(*laws)
    )


def independent_bits(k: int, value: int, a: Fraction, b: Fraction) -> Law:
    """The law of k independent bits, the one at `value` being 1 with probability a and the others
    with b."""
    law = {}
    for bits in product((0, 1), repeat=k):
        chances = [a if j == value else b for j in range(k)]
        row = np.packbits(np.array(bits, np.uint8), bitorder="little").tobytes()
        law[row] = math.prod(
            (c if bit else 1 - c for bit, c in zip(bits, chances, strict=True)), start=Fraction(1)
        )
    return law


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_a_report_loses_exactly_epsilon_and_is_unbiased(mechanism: Mechanism) -> None:
    assert_private_and_unbiased(mechanism)


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_the_permanent_answer_loses_exactly_the_lifetime_epsilon(mechanism: BasicRappor) -> None:
    laws = [permanent_law(mechanism, label) for label in mechanism.labels]
    assert log_ratio(worst_ratio(laws)) == mechanism.lifetime_epsilon
    assert mechanism.epsilon < mechanism.lifetime_epsilon


def test_both_steps_have_the_papers_probabilities() -> None:
    mechanism = BasicRappor(3, f=0.5, p=0.125, q=0.75)
    # f/2 = 1/4; q* = 3/4 3/4 + 1/4 1/8 = 19/32 and p* = 3/4 1/8 + 1/4 3/4 = 9/32, which is f(p+q)/2
    # + (1-f) q and … p.
    assert permanent_law(mechanism, 1) == independent_bits(3, 1, Fraction(3, 4), Fraction(1, 4))
    assert exact_law(mechanism, 1) == independent_bits(3, 1, Fraction(19, 32), Fraction(9, 32))
    assert mechanism.channel() == (19 / 32, 9 / 32)
    assert mechanism.epsilon == pytest.approx(math.log(19 * 23 / (9 * 13)), rel=1e-15)
    assert mechanism.lifetime_epsilon == pytest.approx(2 * math.log(3), rel=1e-15)


def test_several_replays_lose_more_than_one_report_and_never_more_than_the_lifetime() -> None:
    mechanism = BasicRappor(2, f=0.5, p=0.25, q=0.75)

    def replays(times: int) -> float:
        def draw(value: int) -> Callable[[Any], bytes]:
            def run(source: Any) -> bytes:
                kept = mechanism.permanent(value, source)
                return b"".join(mechanism.replay(kept, source).data.tobytes() for _ in range(times))

            return run

        return log_ratio(worst_ratio([law_of(draw(value)) for value in (0, 1)]))

    one, two = replays(1), replays(2)
    assert one == mechanism.epsilon
    assert one < two < mechanism.lifetime_epsilon
    # Two fresh reports would lose twice as much as one.
    assert two < 2 * one


@pytest.mark.parametrize("lifetime", [1e-6, 0.1, 1.0, math.log(9), 4.0, 20.0])
def test_from_epsilon_spends_the_whole_lifetime_and_no_more(lifetime: float) -> None:
    assert (
        lifetime * (1 - 1e-6)
        < BasicRappor.from_lifetime_epsilon(5, lifetime).lifetime_epsilon
        <= lifetime
    )


@pytest.mark.slow
def test_bulk_reports_follow_the_channel_and_no_other_permanent_step() -> None:
    assert_bulk_draws_follow_the_channel(
        lambda lifetime: BasicRappor.from_lifetime_epsilon(4, lifetime, p=0.05, q=0.95), value=2
    )


@pytest.mark.slow
def test_bulk_reports_follow_the_channel_and_no_other_instantaneous_step() -> None:
    # epsilon is nearly proportional to q - p where that is small.
    assert_bulk_draws_follow_the_channel(
        lambda scale: BasicRappor(4, f=0.2, p=0.3, q=0.3 + 0.3 * scale), value=0
    )


def test_bulk_rows_of_two_bytes_follow_both_laws_and_no_other() -> None:
    n = 200_000
    mechanism = BasicRappor.from_lifetime_epsilon(9, 1.0, p=0.05, q=0.95)
    kept = mechanism.permanent([8] * n, seeded_source(3))
    reports = mechanism.replay(kept, seeded_source(4))
    seen_kept = Counter(row.tobytes() for row in kept.data)
    seen = Counter(row.tobytes() for row in reports.data)
    for factor, expected in ((1.0, True), (0.8, False), (1.2, False)):
        other = BasicRappor.from_lifetime_epsilon(9, factor, p=0.05, q=0.95)
        a, b = (Fraction(x) for x in other.channel())
        flip = Fraction(other.f) / 2
        assert (
            chi_square(seen_kept, independent_bits(9, 8, 1 - flip, flip), n) > FALSE_ALARM
        ) == expected, factor
        assert (chi_square(seen, independent_bits(9, 8, a, b), n) > FALSE_ALARM) == expected, factor


SHARES = np.array([0.5, 0.3, 0.15, 0.05])


@pytest.mark.slow
@pytest.mark.parametrize(("f", "p", "q"), [(0.5, 0.5, 0.75), (0.1, 0.2, 0.9)])
def test_simulated_errors_are_the_stated_ones(f: float, p: float, q: float) -> None:
    mechanism = BasicRappor(4, f, p, q)
    b_star = f * (p + q) / 2 + (1 - f) * p
    a_star = f * (p + q) / 2 + (1 - f) * q
    gap = a_star - b_star
    assert_errors_are_as_stated(
        mechanism,
        lambda share: (
            b_star * (1 - b_star) / gap**2
            + share * (1 - a_star - b_star) / gap
            + share * (1 - share)
        ),
        SHARES,
    )


@pytest.mark.slow
def test_simulated_covariance_is_the_stated_one() -> None:
    mechanism = BasicRappor(4, f=0.02, p=0.01, q=0.99)
    rng, source, n, trials = np.random.default_rng(5), seeded_source(5), 500, 1_500
    estimates = []
    for _ in range(trials):
        estimate = mechanism.estimate(mechanism.privatize(rng.choice(4, size=n, p=SHARES), source))
        estimates.append(estimate.proportions)
    simulated = np.cov(np.array(estimates).T)
    stated = -np.outer(SHARES, SHARES) / n
    off = ~np.eye(4, dtype=bool)
    spread = np.sqrt((np.outer(np.diag(simulated), np.diag(simulated)) + stated**2) / trials)
    z = stats.norm.isf(FALSE_ALARM / 12 / 2)
    np.testing.assert_array_less(np.abs(simulated - stated)[off], z * spread[off])
    assert np.abs(stated[0, 1]) > z * spread[0, 1], (
        "or the test could not tell the covariance from none"
    )
    assert estimate.covariance is not None
    np.testing.assert_allclose(
        estimate.covariance[off],
        -np.outer(estimate.proportions, estimate.proportions)[off] / (n - 1),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("f", "p", "q"), [(0.5, 0.5, 0.75), (0.3, 0.2, 0.8)])
def test_ten_rounds_of_replays_are_estimated_with_the_noise_they_share(
    f: float, p: float, q: float
) -> None:
    """1,500 crowds of 400 people: standard error 0.6 points, whether the replays show that they are
    ten rounds (first row) or it is said (second). As independent reports, they cover 75 to 90 %."""
    mechanism = BasicRappor(4, f, p, q)
    rng, source, trials, n, rounds = np.random.default_rng(8), seeded_source(8), 1_500, 400, 10
    inside, naive, off = np.zeros((2, 4)), np.zeros(4), np.zeros((2, 4))
    for _ in range(trials):
        kept = mechanism.permanent(rng.choice(4, size=n, p=SHARES), source)
        replays = [mechanism.replay(kept, source) for _ in range(rounds)]
        alone = mechanism.gather([Reports(mechanism, part.data) for part in replays])
        shown, told = mechanism.estimate(replays), mechanism.estimate(alone, rounds=rounds)
        for row, found in enumerate((shown, told)):
            assert found.n == n
            low, high = found.interval().T
            inside[row] += (low <= SHARES) & (high >= SHARES)
            off[row] += (found.proportions - SHARES) ** 2 / found.variance
        low, high = mechanism.estimate(alone).interval().T
        naive += (low <= SHARES) & (high >= SHARES)
    assert (np.abs(inside / trials - 0.95) < 0.02).all()  # 3.5 standard errors
    assert (np.abs(off / trials - 1) < 0.15).all()
    assert naive.max() / trials < 0.92


def test_estimates_of_replays_are_not_pooled_as_if_of_different_people() -> None:
    """Ten rounds of the same people, combined as if of others, covered 85 to 88 %."""
    mechanism, source = BasicRappor(3, 0.5, 0.25, 0.75), seeded_source(9)
    first, second = (mechanism.permanent([0, 1, 2] * 50, source) for _ in range(2))
    one, again = (mechanism.estimate(mechanism.replay(first, source)) for _ in range(2))
    other = mechanism.estimate(mechanism.replay(second, source))
    both = combine([one, other])
    assert both.n == 300
    for parts in ([one, again], [both, again]):
        with pytest.raises(ParameterError, match="replays of the same permanent answers"):
            combine(parts)
        with pytest.raises(ParameterError, match="replays of the same permanent answers"):
            stratified(parts, [1_000, 1_000])


def test_replays_are_recognized_however_they_are_collected() -> None:
    mechanism, source = BasicRappor(3, 0.5, 0.25, 0.75), seeded_source(9)
    first, second = (mechanism.permanent([0, 1, 2] * 50, source) for _ in range(2))
    replays = [mechanism.replay(first, source) for _ in range(4)]
    whole = mechanism.estimate(replays)
    assert "600 replays of permanent answers, 4 per person" in whole.notes[0]
    assert (whole.n, whole.epsilon) == (150, mechanism.lifetime_epsilon)
    left, right = (
        mechanism.tally().update(replays[0]).update(replays[1]),
        mechanism.gather(replays[2:]),
    )
    assert left.merge(right).estimate() == whole
    # Two sets of people, one replay each, are as many independent reports.
    apart = mechanism.estimate([mechanism.replay(first, source), mechanism.replay(second, source)])
    assert (apart.n, apart.notes) == (300, ())
    # One set four times, the other once: the average over the reports.
    mixed = mechanism.gather([*replays, mechanism.replay(second, source)])
    assert mechanism.rounds(mixed) == pytest.approx((4 * 600 + 150) / 750)
    with pytest.raises(ParameterError, match="rounds = 0 must be"):
        mechanism.estimate(replays, rounds=0)
    cohorts = Rappor(bits=8, hashes=1, cohorts=2, f=0.5, p=0.25, q=0.75)
    texts = cohorts.permanent(["a", "b"] * 20, source)
    with pytest.raises(ParameterError, match="several replays of the same permanent answers"):
        cohorts.estimate([cohorts.replay(texts, source) for _ in range(2)], candidates=["a"])


def test_a_thousand_replays_reveal_the_permanent_answer_and_fresh_reports_reveal_everybody() -> (
    None
):
    k, n, times = 8, 400, 1_000
    mechanism = BasicRappor(k, f=0.5, p=0.5, q=0.75)
    values = np.random.default_rng(6).integers(0, k, n)
    source = seeded_source(6)
    kept = mechanism.permanent(values, source)

    def average(draw: Callable[[], Reports]) -> np.ndarray[Any, Any]:
        total = np.zeros((n, k))
        for _ in range(times):
            total += np.unpackbits(draw().data, axis=1, bitorder="little")
        return total / times

    replayed = average(lambda: mechanism.replay(kept, source))
    permanent = np.unpackbits(kept.data, axis=1, bitorder="little")
    np.testing.assert_array_equal(replayed > (0.5 + 0.75) / 2, permanent == 1)
    # All that is known now are bits of which a quarter, f/2, was turned over once and for all.
    truth = np.eye(k, dtype=np.uint8)[values]
    turned = (permanent != truth).sum()
    assert stats.binom.cdf(turned, n * k, 0.25) > FALSE_ALARM
    assert stats.binom.sf(turned, n * k, 0.25) > FALSE_ALARM
    fresh = average(lambda: mechanism.privatize(values, source))
    np.testing.assert_array_equal(fresh.argmax(axis=1), values)


def test_a_stored_permanent_answer_is_replayed_as_if_it_had_never_been_away() -> None:
    mechanism = BasicRappor(["never", "once", "often"], 0.3, 0.2, 0.7)
    kept = mechanism.permanent(["once", "never", "often", "often"], seeded_source(1))
    again = PermanentAnswer.from_bytes(kept.to_bytes())
    assert again == kept
    assert again.to_bytes() == kept.to_bytes()
    assert mechanism.replay(again, seeded_source(2)) == mechanism.replay(kept, seeded_source(2))
    assert again.mechanism.lifetime_epsilon == mechanism.lifetime_epsilon


def test_privatize_is_one_step_after_the_other() -> None:
    mechanism = BasicRappor(11, 0.3, 0.2, 0.7)
    one, other = seeded_source(1), seeded_source(1)
    values = list(range(11)) * 9
    assert mechanism.privatize(values, one) == mechanism.replay(
        mechanism.permanent(values, other), other
    )


@pytest.mark.parametrize(
    ("f", "p", "q"), [(Fraction(1, 3), Fraction(1, 7), Fraction(5, 7)), (0.1, 0.2, 0.3)]
)
def test_a_mechanism_that_was_read_back_draws_the_same_coins(f: float, p: float, q: float) -> None:
    mechanism = BasicRappor(5, f, p, q)
    again = Reports.from_bytes(mechanism.privatize(3).to_bytes()).mechanism
    assert isinstance(again, BasicRappor)
    assert again == mechanism
    assert again._steps == mechanism._steps


def test_a_permanent_answer_shows_nothing_when_printed() -> None:
    mechanism = BasicRappor(64, 0.01, 0.2, 0.7)
    kept = [mechanism.permanent(value, seeded_source(value)) for value in (3, 60)]
    assert kept[0] != kept[1]
    assert repr(kept[0]) == repr(kept[1]) == str(kept[1])


def test_a_permanent_answer_of_other_parameters_is_refused() -> None:
    mechanism = BasicRappor(4, 0.3, 0.2, 0.7)
    for other in (
        BasicRappor(4, 0.31, 0.2, 0.7),
        BasicRappor(4, 0.3, 0.21, 0.7),
        BasicRappor(["a", "b", "c", "d"], 0.3, 0.2, 0.7),
    ):
        with pytest.raises(ReportMismatchError, match="permanent answers of"):
            mechanism.replay(other.permanent([other.labels[0]]))
    with pytest.raises(ReportMismatchError, match="not Reports"):
        mechanism.replay(mechanism.privatize([1]))  # type: ignore[arg-type]


def test_bytes_that_are_no_permanent_answer_are_refused() -> None:
    mechanism = BasicRappor(4, 0.3, 0.2, 0.7)
    good = mechanism.permanent([1, 2], seeded_source(1)).to_bytes()
    reports = mechanism.privatize([1, 2], seeded_source(1)).to_bytes()
    direct = DirectEncoding(4, 1.0).privatize([1, 2]).to_bytes()
    bad = {
        "too few for permanent answers": good[:5],
        "need 2 bytes, and 1 follow": good[:-1],
        "need 2 bytes, and 3 follow": good + b"\0",
        "they start with b'dnr'": reports,
        "of version 9": good[:3] + b"\x09" + good[4:],
        "bits set beyond": good[:-1] + b"\x10",
        "has no permanent answers": b"dnp" + direct[3:],
        "is not JSON": good[:8] + b"?" + good[9:],
        "not usable": good.replace(b'"f":0.3', b'"f":1.3'),
    }
    for message, content in bad.items():
        with pytest.raises(ReportFormatError, match=message):
            PermanentAnswer.from_bytes(content)
    with pytest.raises(ReportFormatError, match="not reports"):
        Reports.from_bytes(good)


def test_reports_and_tallies_survive_their_bytes() -> None:
    mechanism = BasicRappor(12, 0.3, 0.2, 0.7)
    reports = mechanism.privatize(list(range(12)) * 5, seeded_source(1))
    assert Reports.from_bytes(reports.to_bytes()) == reports
    half = mechanism.tally().update(reports[:30]).merge(mechanism.tally().update(reports[30:]))
    whole = type(half).from_bytes(half.to_bytes())
    np.testing.assert_array_equal(
        mechanism.estimate(whole).proportions, mechanism.estimate(reports).proportions
    )
    with pytest.raises(ReportMismatchError):
        BasicRappor(12, 0.3, 0.2, 0.8).estimate(reports)


def test_a_known_population_narrows_the_error_by_what_sampling_adds() -> None:
    mechanism = BasicRappor(2, f=0.1, p=0.1, q=0.9)
    reports = mechanism.privatize([0, 1] * 500, seeded_source(1))
    wide, narrow = mechanism.estimate(reports), mechanism.estimate(reports, population=1_000)
    share = wide.proportions
    np.testing.assert_allclose(wide.variance - narrow.variance, share * (1 - share) / 1_000)


@pytest.mark.parametrize("name", ["f", "p", "q"])
@pytest.mark.parametrize("value", [0, 1, -0.1, 1.2, math.nan, math.inf, None, "much", True])
def test_probabilities_outside_the_open_interval_are_refused(name: str, value: object) -> None:
    parameters: dict[str, Any] = {"f": 0.5, "p": 0.5, "q": 0.75, name: value}
    with pytest.raises(ParameterError, match=rf"^{name} = .* must lie strictly between 0 and 1"):
        BasicRappor(4, **parameters)


def test_an_instantaneous_step_that_does_not_favour_the_truth_is_refused() -> None:
    for p, q in ((0.5, 0.5), (0.75, 0.5)):
        with pytest.raises(ParameterError, match=rf"q = {q} must exceed p = {p}"):
            BasicRappor(4, 0.5, p, q)


@pytest.mark.parametrize("k", [0, 1, "ab", ["a"], ["a", "a"], None, 2.5])
def test_domains_without_two_values_are_refused(k: Any) -> None:
    with pytest.raises(ParameterError, match=r"^values = "):
        BasicRappor(k, 0.5, 0.5, 0.75)


@pytest.mark.parametrize("lifetime", [0, -1, math.inf, math.nan, "one", 1e9])
def test_a_lifetime_epsilon_that_cannot_be_is_refused(lifetime: Any) -> None:
    with pytest.raises(ParameterError, match=r"^lifetime_epsilon = "):
        BasicRappor.from_lifetime_epsilon(4, lifetime)


def test_bad_values_are_refused_without_being_shown() -> None:
    named, numbered = BasicRappor(["a", "b"], 0.5, 0.5, 0.75), BasicRappor(4, 0.5, 0.5, 0.75)
    cases: list[tuple[BasicRappor, Any, type[DeniableError]]] = [
        (named, ["a", "SECRET"], UnknownLabelError),
        (named, ["a", None], MissingAnswerError),
        (numbered, [1, 4242], OutOfDomainError),
        (numbered, [1.0, math.nan], MissingAnswerError),
    ]
    for mechanism, values, error in cases:
        for step in (mechanism.permanent, mechanism.privatize):
            with pytest.raises(error, match=r"values\[1\]") as caught:
                step(values)
            assert "SECRET" not in str(caught.value)
            assert "4242" not in str(caught.value)
