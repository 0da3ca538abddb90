"""Decoding RAPPOR: proportions of candidate texts, their errors, and how often a text that nobody sent
is found."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import CandidateEstimate, Rappor, seeded_source
from deniable.errors import ParameterError
from deniable.estimation.candidates import adjust, decode
from toolkit.references.laws import FALSE_ALARM

Array = np.ndarray[Any, np.dtype[np.float64]]


def crowd(rng: np.random.Generator, texts: list[str], proportions: Any, n: int) -> list[str]:
    weights = np.asarray(proportions, dtype=float)
    return [texts[i] for i in rng.choice(len(texts), size=n, p=weights / weights.sum())]


def test_expected_bits_decode_to_the_very_shares_they_came_from() -> None:
    rng = np.random.default_rng(1)
    cohorts, bits, truth = 6, 16, np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    positions = rng.integers(0, bits, (5, cohorts, 2))
    proportions = np.zeros((cohorts, bits))
    for proportion, text in zip(truth, positions, strict=True):
        for cohort, places in enumerate(text):
            proportions[cohort, np.unique(places)] += proportion
    sizes = np.array([50, 10, 0, 80, 20, 7])
    proportions[2] = np.nan  # no reports, so nothing is known of this cohort
    found = decode(proportions, sizes, positions, 0.7, 0.2)
    np.testing.assert_allclose(found.proportions, truth, atol=1e-12)


class Simulation:
    """Many crowds with the same proportions, each with texts, hence hashes, of its own."""

    def __init__(
        self,
        mechanism: Rappor,
        sent: Any,
        absent: int,
        others: Any,
        n: int,
        trials: int,
        seed: int = 1,
    ) -> None:
        rng, source = np.random.default_rng(seed), seeded_source(seed)
        self.truth = np.concatenate([sent, np.zeros(absent)])
        estimates = []
        for trial in range(trials):
            candidates = [f"{trial} candidate {i}" for i in range(len(self.truth))]
            texts = candidates[: len(sent)] + [f"{trial} other {i}" for i in range(len(others))]
            reports = mechanism.privatize(crowd(rng, texts, [*sent, *others], n), source)
            estimates.append(mechanism.estimate(reports, candidates=candidates))
        self.proportions = np.array([e.proportions for e in estimates])
        self.covariance = np.array([e.covariance for e in estimates])
        self.p_values = np.array([e.p_value[len(sent) :] for e in estimates])
        self.false_finds = np.array([e.detected[len(sent) :].sum() for e in estimates])
        self.others = np.array([e.others for e in estimates])
        self.misfit = np.array([e.misfit for e in estimates])
        intervals = np.array([e.interval(0.95) for e in estimates])
        self.covered = (intervals[..., 0] <= self.truth) & (self.truth <= intervals[..., 1])


QUIET = Rappor(bits=32, hashes=2, cohorts=16, f=0.05, p=0.05, q=0.95)
NOISY = Rappor(bits=32, hashes=2, cohorts=16, f=0.5, p=0.5, q=0.75)


@pytest.fixture(scope="module")
def complete() -> Simulation:
    return Simulation(QUIET, sent=[0.5, 0.3, 0.15, 0.05], absent=1, others=[], n=1_000, trials=400)


@pytest.mark.slow
def test_shares_are_unbiased_when_all_texts_are_candidates(complete: Simulation) -> None:
    z = stats.norm.isf(FALSE_ALARM / 5 / 2)
    error = complete.proportions.mean(axis=0) - complete.truth
    np.testing.assert_array_less(
        np.abs(error),
        z * complete.proportions.std(axis=0, ddof=1) / np.sqrt(len(complete.proportions)),
    )


@pytest.mark.slow
def test_the_stated_covariance_is_the_simulated_one(complete: Simulation) -> None:
    trials = len(complete.proportions)
    simulated, stated = np.cov(complete.proportions.T), complete.covariance.mean(axis=0)
    deviation = np.sqrt(np.diag(simulated))
    # Of a sample covariance of normal variables, and the few per cent that "at least 1" adds to
    # misfit on average.
    spread = np.sqrt((np.outer(deviation, deviation) ** 2 + simulated**2) / trials)
    z = stats.norm.isf(FALSE_ALARM / 25 / 2)
    np.testing.assert_array_less(np.abs(simulated - stated), z * spread)
    ratio = np.diag(simulated) / np.diag(stated)
    assert abs(ratio.mean() - 1) < 6 * np.sqrt(2 / trials / 5) + 0.03
    # People differ, and not only coins: -pi_u pi_v / n is there, and far from nothing.
    assert stated[0, 1] < -0.5 * 0.5 * 0.3 / 1_000
    assert stated[0, 1] + z * spread[0, 1] < 0


@pytest.mark.slow
def test_intervals_cover_what_they_claim(complete: Simulation) -> None:
    hits = int(complete.covered.sum())
    assert stats.binom.cdf(hits, complete.covered.size, 0.95) > FALSE_ALARM
    assert stats.binom.sf(hits, complete.covered.size, 0.975) > FALSE_ALARM


@pytest.mark.slow
def test_nothing_is_left_for_others_when_all_texts_are_candidates(complete: Simulation) -> None:
    proportion, stderr = complete.others.T
    assert abs(proportion.mean()) < 6.2 * proportion.std() / np.sqrt(proportion.size)
    assert (
        abs(np.mean(stderr**2) / proportion.var() - 1) < 6.2 * np.sqrt(2 / proportion.size) + 0.03
    )
    assert abs(complete.misfit.mean() - 1) < 0.02


ZIPF = (1 / np.arange(1, 31)).tolist()
INCOMPLETE: dict[str, tuple[Rappor, list[float], list[float]]] = {
    "noisy, many others": (NOISY, [], ZIPF),
    "quiet, many others": (QUIET, [], ZIPF),
    "quiet, one other": (QUIET, [], [1.0]),
    "quiet, half others": (QUIET, [0.3, 0.2], [0.3, 0.1, 0.1]),
}


@pytest.fixture(scope="module", params=INCOMPLETE)
def absent(request: pytest.FixtureRequest) -> Simulation:
    mechanism, sent, others = INCOMPLETE[request.param]
    return Simulation(mechanism, sent, absent=20, others=others, n=2_000, trials=150)


@pytest.mark.slow
def test_texts_that_nobody_sent_are_found_no_more_often_than_claimed(absent: Simulation) -> None:
    trials, each = absent.p_values.shape
    for level in (0.001, 0.01, 0.05):
        false = int((absent.p_values <= level).sum())
        assert stats.binom.sf(false - 1, trials * each, level) > 1e-6, level
    assert stats.binom.sf((absent.false_finds > 0).sum() - 1, trials, 0.05) > 1e-6


@pytest.mark.slow
def test_texts_that_are_no_candidates_neither_bias_the_shares_nor_narrow_their_intervals(
    absent: Simulation,
) -> None:
    average = (absent.proportions - absent.truth).mean(axis=1)  # one independent figure a crowd
    assert abs(average.mean()) < 6.2 * average.std(ddof=1) / np.sqrt(average.size)
    assert absent.covered.mean() > 0.93
    proportion, stderr = absent.others.T
    left = 1 - absent.truth.sum()
    assert abs(proportion.mean() - left) < 6.2 * proportion.std(ddof=1) / np.sqrt(proportion.size)
    assert np.mean(np.abs(proportion - left) < 2 * stderr) > 0.85


@pytest.mark.slow
def test_misfit_tells_that_frequent_texts_are_missing_from_the_candidates(
    complete: Simulation,
) -> None:
    rng = np.random.default_rng(2)
    reports = QUIET.privatize(crowd(rng, ["a", "b"], [0.5, 0.5], 2_000), seeded_source(2))
    assert QUIET.estimate(reports, candidates=["a"]).misfit > 3 > complete.misfit.max()


def test_a_text_of_five_per_cent_among_a_hundred_thousand_is_found_and_no_absent_one() -> None:
    mechanism = Rappor(bits=128, hashes=2, cohorts=64, f=0.25, p=0.35, q=0.65)
    others = [f"other {i}" for i in range(200)]
    rng = np.random.default_rng(3)
    texts = crowd(rng, ["wanted", *others], [0.05, *(0.95 * rng.dirichlet(np.ones(200)))], 100_000)
    candidates = ["wanted", *(f"absent {i}" for i in range(99))]
    estimate = mechanism.estimate(
        mechanism.privatize(texts, seeded_source(3)), candidates=candidates
    )
    assert estimate.detected.tolist() == [True] + [False] * 99
    low, high = estimate.interval(0.999)[0]
    assert low < 0.05 < high


def test_a_share_on_a_few_of_its_bits_only_is_no_find() -> None:
    """A text that is no candidate has half of the crowd, and 3 of the candidate's 16 bits are its
    bits too."""
    rng = np.random.default_rng(4)
    cohorts, bits, proportion = 8, 32, 0.5
    candidate = rng.permuted(np.tile(np.arange(bits), (cohorts, 1)), axis=1)[:, :2]
    raised = np.zeros((cohorts, bits), dtype=bool)
    for cohort, places in enumerate(candidate):
        free = np.setdiff1d(np.arange(bits), places)
        raised[cohort, free[: 1 if cohort < 3 else 2]] = True
        raised[cohort, places[0]] = cohort < 3
    proportions = proportion * raised + rng.normal(scale=1e-3, size=raised.shape)
    sizes = np.full(cohorts, 10_000)
    assert decode(proportions, sizes, candidate[None], 0.99, 0.01).p_values[0] > 0.01
    for cohort, places in enumerate(candidate):  # a smaller proportion, but on all of its bits
        proportions[cohort, places] = 0.3 + rng.normal(scale=1e-3, size=2)
    assert decode(proportions, sizes, candidate[None], 0.99, 0.01).p_values[0] < 1e-6


def test_candidates_that_share_all_their_bits_are_refused() -> None:
    mechanism = Rappor(bits=2, hashes=1, cohorts=1, f=0.5, p=0.5, q=0.75)
    reports = mechanism.privatize(["a"] * 10, seeded_source(1))
    with pytest.raises(ParameterError, match="3 texts' cannot be distinguished"):
        mechanism.estimate(reports, candidates=["a", "b", "c"])


def test_as_many_candidates_as_bits_still_have_proper_errors_and_nothing_is_found() -> None:
    mechanism = Rappor(bits=32, hashes=2, cohorts=2, f=0.5, p=0.5, q=0.75)
    texts = [f"text {i}" for i in range(55)]
    reports = mechanism.privatize(texts[:3] * 300, seeded_source(1))
    estimate = mechanism.estimate(reports, candidates=texts)
    assert (estimate.variance > 0).all()
    assert not estimate.detected.any()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_handful_of_reports_has_at_least_the_error_of_the_coins(n: int) -> None:
    estimate = QUIET.estimate(QUIET.privatize(["a"] * n, seeded_source(n)), candidates=["a", "b"])
    least = (
        QUIET.channel().b * (1 - QUIET.channel().b) / (QUIET.channel().a - QUIET.channel().b) ** 2
    )
    # each of two bits a report has at least the coins' variance
    assert (estimate.variance > least / (n * 2)).all()
    assert not estimate.detected[1]


@pytest.mark.slow
def test_cohorts_of_about_one_report_have_their_due_error() -> None:
    mechanism = Rappor(bits=16, hashes=2, cohorts=400, f=0.5, p=0.25, q=0.75)
    simulation = Simulation(mechanism, sent=[0.7, 0.3], absent=1, others=[], n=400, trials=60)
    ratio = np.trace(simulation.covariance.mean(axis=0)) / np.trace(
        np.cov(simulation.proportions.T)
    )
    assert abs(ratio - 1) < 6.2 * np.sqrt(2 / 60 / 3)


@pytest.mark.parametrize("correction", ["bonferroni", "holm", "fdr"])
def test_corrections_are_those_of_the_textbooks(correction: str) -> None:
    rng = np.random.default_rng(5)
    p_values = rng.uniform(size=50) ** 3
    adjusted = adjust(p_values, correction)
    m = len(p_values)
    for level in (0.01, 0.05, 0.2, 0.9):
        order = np.sort(p_values)
        if correction == "bonferroni":
            limit = level / m
        elif correction == "holm":  # step down: stop at the first that is too large
            passed = [i for i in range(m) if all(order[: i + 1] <= level / (m - np.arange(i + 1)))]
            limit = order[passed[-1]] if passed else -1.0
        else:  # step up: the last that is small enough
            passed = [i for i in range(m) if order[i] <= level * (i + 1) / m]
            limit = order[passed[-1]] if passed else -1.0
        np.testing.assert_array_equal(adjusted <= level, p_values <= limit)


def test_the_correction_decides_what_counts_as_found() -> None:
    rng = np.random.default_rng(6)
    texts = [f"text {i}" for i in range(20)]
    reports = NOISY.privatize(crowd(rng, texts, ZIPF[:20], 60_000), seeded_source(6))
    results = {
        c: NOISY.estimate(reports, candidates=texts, correction=c)
        for c in ("bonferroni", "holm", "fdr")
    }
    for name, result in results.items():
        np.testing.assert_array_equal(result.detected, adjust(result.p_value, name) <= 0.05)
    assert results["bonferroni"].detected.sum() < results["fdr"].detected.sum()
    strict = NOISY.estimate(reports, candidates=texts, significance=1e-6)
    assert strict.detected.sum() < results["bonferroni"].detected.sum()


@pytest.fixture(scope="module")
def estimate() -> CandidateEstimate:
    reports = QUIET.privatize(["a"] * 700 + ["b"] * 300, seeded_source(1))
    return QUIET.estimate(reports, candidates=["a", "b", "c"])


def test_an_estimate_says_what_was_found(estimate: CandidateEstimate) -> None:
    assert estimate.labels == ("a", "b", "c")
    assert estimate.detected.tolist() == [True, True, False]
    assert "2 of 3 candidates found (significance 0.05, bonferroni)" in str(estimate)
    described = json.loads(json.dumps(estimate.to_dict()))
    assert described["detected"] == [True, True, False]
    assert described["p_value"] == estimate.p_value.tolist()
    frame = estimate.to_frame()
    assert frame.loc["b", "detected"]
    assert frame.loc["c", "p_value"] == estimate.p_value[2]


def test_projected_shares_are_proper_and_leave_room_for_other_texts(
    estimate: CandidateEstimate,
) -> None:
    alone = QUIET.estimate(
        QUIET.privatize(["a"] * 300 + ["x"] * 700, seeded_source(2)), candidates=["a", "b", "c"]
    ).projected()
    assert alone.proportions.min() >= 0
    assert alone.proportions.sum() < 0.5
    full = estimate.projected()
    assert full.proportions.min() >= 0
    assert full.proportions.sum() <= 1 + 1e-12


def test_a_tally_decodes_like_its_reports_and_a_population_narrows_the_error() -> None:
    reports = QUIET.privatize(["a"] * 700 + ["b"] * 300, seeded_source(1))
    whole = QUIET.estimate(reports, candidates=["a", "b"])
    tally = QUIET.tally().update(reports)
    np.testing.assert_array_equal(
        tally.estimate(candidates=["a", "b"]).proportions, whole.proportions
    )
    narrow = tally.estimate(population=1_000, candidates=["a", "b"])
    proportion = whole.proportions
    np.testing.assert_allclose(
        whole.variance - narrow.variance, proportion * (1 - proportion) / 1_000
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "candidates = None must be a list of the texts to look for"),
        ({"candidates": "abc"}, "candidates = 'abc' must be a list"),
        ({"candidates": 3}, "candidates = 3 must be a list"),
        ({"candidates": []}, "at least 1 text"),
        ({"candidates": ["a", 1]}, "candidates = 1 must be texts"),
        ({"candidates": ["a", "\udc00"]}, "must be texts"),
        ({"candidates": ["a", "b", "a"]}, "candidates = 'a' must not be listed twice"),
        (
            {"candidates": ["a"], "significance": 0},
            "significance = 0 must lie strictly between 0 and 1",
        ),
        (
            {"candidates": ["a"], "significance": 1.0},
            "significance = 1.0 must lie strictly between 0 and 1",
        ),
        (
            {"candidates": ["a"], "significance": None},
            "significance = None must lie strictly between 0 and 1",
        ),
        (
            {"candidates": ["a"], "correction": "none"},
            "correction = 'none' must be one of bonferroni, holm, fdr",
        ),
        (
            {"candidates": ["a"], "population": 2},
            "population = 2 must be at least the number of reports, 3",
        ),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(
    options: dict[str, Any], message: str
) -> None:
    reports = QUIET.privatize(["a"] * 3, seeded_source(1))
    with pytest.raises(ParameterError, match=message):
        QUIET.estimate(reports, **options)
