"""The posterior of a prevalence: closed forms, quadrature, and credible intervals that hold on
average over the prior."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from deniable import (
    CheaterDetection,
    DirectEncoding,
    DirectQuestion,
    ForcedResponse,
    Kuk,
    PrevalencePosterior,
    StochasticLieDetector,
    UnrelatedQuestion,
    Warner,
    prevalence_posterior,
)
from deniable.errors import ParameterError


@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 0.5), (2.0, 8.0)])
def test_of_a_direct_question_it_is_a_beta_distribution(prior: tuple[float, float]) -> None:
    found = prevalence_posterior(DirectQuestion(), yes=7, n=96, prior=prior)
    law = stats.beta(7 + prior[0], 89 + prior[1])
    assert found.mean[0] == pytest.approx(law.mean(), rel=1e-9)
    assert found.sd[0] == pytest.approx(law.std(), rel=1e-8)
    assert found.credible_interval(0.9) == pytest.approx(law.interval(0.9), rel=1e-5)
    assert found.probability(0.05, 0.1) == pytest.approx(law.cdf(0.1) - law.cdf(0.05), rel=1e-5)


@pytest.mark.parametrize(("yes", "n"), [(412, 1_000), (20, 100), (412_000, 1_000_000), (0, 12)])
def test_of_warners_question_the_rate_has_a_beta_distribution_cut_to_what_can_be(
    yes: int, n: int
) -> None:
    found = prevalence_posterior(Warner(0.7), yes=yes, n=n)
    law = stats.beta(yes + 1, n - yes + 1)
    low, high = law.cdf([0.3, 0.7])
    for level in (0.025, 0.5, 0.975):
        expected = (float(law.ppf(low + level * (high - low))) - 0.3) / 0.4
        assert found.quantile(level) == pytest.approx(expected, abs=1e-5)
    assert 0 <= found.quantiles.min() <= found.quantiles.max() <= 1


def test_of_several_draws_it_is_what_quadrature_gives() -> None:
    counts = [60, 110, 130, 120, 110, 70]
    found = prevalence_posterior(Kuk(0.8, 0.3, draws=5), counts, prior=(2.0, 3.0))
    one, other = (stats.binom.pmf(np.arange(6), 5, p) for p in (0.8, 0.3))

    def height(pi: float) -> float:
        return math.exp(
            float(np.array(counts) @ np.log(pi * one + (1 - pi) * other))
            + 1050
            + math.log(pi * (1 - pi) ** 2)
        )

    total = integrate.quad(height, 0.2, 0.7, epsabs=0)[0]
    assert found.mean[0] == pytest.approx(
        integrate.quad(lambda pi: pi * height(pi), 0.2, 0.7, epsabs=0)[0] / total, rel=1e-7
    )
    low, high = found.credible_interval()
    assert integrate.quad(height, low, high, epsabs=0)[0] / total == pytest.approx(0.95, abs=1e-5)


@pytest.mark.parametrize(
    ("design", "yes", "chance"),
    [
        (StochasticLieDetector(0.2, 0.8), (30, 18), lambda p, pi, t: pi * t + (1 - pi) * (1 - p)),
        (UnrelatedQuestion.unknown(0.7, 0.3), (22, 25), lambda p, pi, u: p * pi + (1 - p) * u),
        (CheaterDetection(0.25, 0.75), (19, 32), lambda p, s, g: (1 - g) * (s + (1 - s) * p)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_of_two_samples_it_is_what_quadrature_over_both_parameters_gives(
    design: Any, yes: tuple[int, int], chance: Callable[[float, float, float], float]
) -> None:
    """By 200 x 200 Gauss-Legendre points over the unit square; of cheaters all shares are as
    probable beforehand."""
    found = prevalence_posterior(design, yes=yes, n=(50, 50))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    at, mass = (nodes + 1) / 2, weights / 2
    share, rate = np.meshgrid(at, at, indexing="ij")
    density = np.outer(mass, mass)
    cheats = isinstance(design, CheaterDetection)
    if cheats:
        density = density * 2 * (1 - rate)
    for p, count in zip((float(design.p1), float(design.p2)), yes, strict=True):
        density = density * stats.binom.pmf(count, 50, chance(p, share, rate))  # type: ignore[arg-type]
    density /= density.sum()
    first = (1 - rate) * share if cheats else share
    assert found.mean[0] == pytest.approx(float((density * first).sum()), rel=1e-4)
    assert found.mean[-1] == pytest.approx(float((density * rate).sum()), rel=1e-4)
    mean = float((density * first).sum())
    assert found.sd[0] == pytest.approx(
        math.sqrt(float((density * (first - mean) ** 2).sum())), rel=1e-3
    )


def test_the_shortest_interval_is_shorter_and_holds_as_much() -> None:
    found = prevalence_posterior(DirectQuestion(), yes=2, n=40)
    tails, shortest = found.credible_interval(), found.credible_interval(kind="highest-density")
    law = stats.beta(3, 39)
    assert shortest[1] - shortest[0] < tails[1] - tails[0]
    assert law.cdf(shortest[1]) - law.cdf(shortest[0]) == pytest.approx(0.95, abs=1e-5)
    # equally dense at both ends
    assert law.pdf(shortest[0]) == pytest.approx(law.pdf(shortest[1]), rel=0.02)


@pytest.mark.parametrize("design", [Warner(0.7), ForcedResponse(0.75, 1 / 8)], ids=repr)
def test_credible_intervals_hold_the_truth_as_often_as_they_say_over_the_prior(design: Any) -> None:
    """By the exact law of the count of 200 people at 2,000 prevalences from Beta(2, 5): no sampling
    at all."""
    yes, truth = np.arange(201), (np.arange(2_000) + 0.5) / 2_000
    limits = np.array(
        [
            prevalence_posterior(design, [200 - k, k], prior=(2.0, 5.0)).credible_interval()
            for k in yes.tolist()
        ]
    )
    chances = stats.binom.pmf(
        yes, 200, np.array([design.rates(pi)[1] for pi in truth.tolist()])[:, None]
    )
    inside = (limits[:, 0] <= truth[:, None]) & (truth[:, None] <= limits[:, 1])
    prior = stats.beta(2, 5).pdf(truth)
    assert prior @ (chances * inside).sum(axis=1) / prior.sum() == pytest.approx(0.95, abs=5e-4)


def test_it_is_said_to_be_a_credible_interval_and_travels_as_json() -> None:
    found = prevalence_posterior(CheaterDetection(0.25, 0.75), yes=(150, 260), n=(400, 400))
    assert "95 % credible interval (equal tails), prior Beta(1, 1), of gamma Beta(1, 2)" in str(
        found
    )
    np.testing.assert_allclose(found.mean.sum(), 1)
    document = found.to_dict(0.9)
    assert document["names"] == ["pi", "beta", "gamma"]
    again = PrevalencePosterior.from_dict(json.loads(json.dumps(document)))
    assert again == found
    assert str(again) == str(found)
    assert list(found.to_frame().index) == ["pi", "beta", "gamma"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: prevalence_posterior(Warner(0.7), yes=1, n=10, prior=(0.1, 1)),
            "prior = [0.1, 1] must be two numbers",
        ),
        (
            lambda: prevalence_posterior(Warner(0.7), yes=1, n=10, rate_prior=(1, 1)),
            "is for designs with two samples",
        ),
        (lambda: prevalence_posterior(DirectEncoding(3, 1.0), [0, 1, 2]), "must have two labels"),
        (
            lambda: prevalence_posterior(StochasticLieDetector(0.2, 0.8), n=(5, 5)),
            "yes and n must both be given",
        ),
        (
            lambda: prevalence_posterior(StochasticLieDetector(0.2, 0.8), yes=(9, 1), n=(5, 5)),
            "yes[0] = 9 must be at most 5",
        ),
        (
            lambda: prevalence_posterior(Warner(0.7), yes=1, n=10).quantile(1.5),
            "level = 1.5 must lie",
        ),
        (
            lambda: prevalence_posterior(Warner(0.7), yes=1, n=10).quantile(0.5, "t"),
            "name = 't' must be one of pi",
        ),
        (
            lambda: prevalence_posterior(Warner(0.7), yes=1, n=10).credible_interval(kind="wald"),
            "kind = 'wald' must be",
        ),
    ],
)
def test_nonsense_is_refused_in_one_clear_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        call()
    assert message in str(refused.value)
