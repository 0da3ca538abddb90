"""Survey designs over 5,000 simulated surveys of 500 people: unbiased, with intervals that cover 94
to 96 %.

The standard error of a coverage of 95 % is then 0.3 points; seeds are fixed. For one sample the
coverage is computed as well, from the law of the count: no sampling at all.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from deniable import (
    CheaterDetection,
    Crosswise,
    DesignEstimate,
    ForcedResponse,
    ItemCount,
    Kuk,
    Mangat,
    Scrambling,
    StochasticLieDetector,
    SymmetricCheaterDetection,
    Triangular,
    UnrelatedQuestion,
    Warner,
    agreement_test,
    seeded_source,
)
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.mechanisms.designs.two_group import TwoGroupDesign
from deniable.planning import design_power, design_sample_size

SURVEYS, PEOPLE = 5_000, 500
Floats = NDArray[np.float64]
FALSE_ALARM = stats.norm.isf(1e-9 / 2)

ONE_SAMPLE: list[SurveyDesign] = [
    Warner(0.7),
    Crosswise(1 / 6),
    ForcedResponse(0.75, 1 / 6),
    UnrelatedQuestion(0.7, 0.25),
    Mangat(0.6),
    Triangular(0.25),
    Kuk(0.8, 0.3),
    Kuk(0.8, 0.3, draws=5),
    Kuk(epsilon=1.0, draws=3),
]
TWO_SAMPLES: list[tuple[TwoGroupDesign, tuple[float, float]]] = [
    (UnrelatedQuestion.unknown(0.7, 0.3), (0.2, 0.3)),
    (UnrelatedQuestion.unknown(0.7, 0.3), (0.5, 0.5)),
    (CheaterDetection(0.25, 0.75), (0.2, 0.6)),
    (CheaterDetection(0.25, 0.75), (0.3, 0.4)),
    (SymmetricCheaterDetection(0.3, 0.2, 0.6, 0.1), (0.2, 0.6)),
    (StochasticLieDetector(0.2, 0.8), (0.6, 0.5)),
    (StochasticLieDetector(0.2, 0.8), (0.3, 0.7)),
]


def most_of(estimate: DesignEstimate) -> float:
    """The largest coverage that an estimate may have, by what it says.

    Where it says "at least", its limits are exact: each misses with 2.5 % at most, and near an end
    of the scale one of them cannot miss at all, so that 97.5 % and a step of the counts' law are
    covered.
    """
    return 0.98 if estimate.covers_more().any() else 0.96


def held(limits: Floats, truth: float) -> float:
    return float(((limits[:, 0] <= truth) & (truth <= limits[:, 1])).mean())


@pytest.mark.parametrize("pi", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("design", ONE_SAMPLE, ids=repr)
def test_a_design_is_unbiased_and_covers(design: SurveyDesign, pi: float) -> None:
    rng = np.random.default_rng(2)
    counts, which = np.unique(
        rng.multinomial(PEOPLE, design.rates(pi), SURVEYS), axis=0, return_inverse=True
    )
    estimates = [design.estimate_counts(row) for row in counts]
    values = np.array([e.values[0] for e in estimates])[which.reshape(-1)]
    stderr = np.array([e.stderr[0] for e in estimates])[which.reshape(-1)]
    limits = np.array([e.interval()[0] for e in estimates])[which.reshape(-1)]
    assert abs(values.mean() - pi) < FALSE_ALARM * values.std() / math.sqrt(SURVEYS)
    assert stderr.mean() == pytest.approx(values.std(), rel=FALSE_ALARM / math.sqrt(2 * SURVEYS))
    assert design.expected_stderr(PEOPLE, pi) == pytest.approx(
        values.std(), rel=FALSE_ALARM / math.sqrt(2 * SURVEYS)
    )
    assert 0.94 <= held(limits, pi) <= most_of(estimates[0])


@pytest.mark.parametrize("design", [d for d in ONE_SAMPLE if len(d.report_domain) == 2], ids=repr)
def test_the_coverage_of_one_sample_is_right_at_every_prevalence_by_the_exact_law(
    design: SurveyDesign,
) -> None:
    yes = np.arange(PEOPLE + 1)
    limits = np.array(
        [design.estimate_counts([PEOPLE - count, count]).interval()[0] for count in yes.tolist()]
    )
    most = most_of(design.estimate_counts([PEOPLE, 0]))
    for pi in np.linspace(0.05, 0.95, 91):
        rate = design.rates(float(pi))[1]
        if 0.05 <= rate <= 0.95:
            inside = (limits[:, 0] <= pi) & (pi <= limits[:, 1])
            assert 0.94 <= stats.binom.pmf(yes, PEOPLE, rate) @ inside <= most, (pi, rate)


@pytest.mark.parametrize(("design", "truth"), TWO_SAMPLES, ids=str)
def test_a_compliance_model_is_unbiased_and_covers_in_every_parameter(
    design: TwoGroupDesign, truth: tuple[float, float]
) -> None:
    rng = np.random.default_rng(3)
    rates = design.rates(*truth)
    n = (PEOPLE // 2, PEOPLE // 2)
    yes, which = np.unique(rng.binomial(n, rates, (SURVEYS, 2)), axis=0, return_inverse=True)
    estimates = [design.estimate_counts(yes=row, n=n) for row in yes.tolist()]
    limits = np.array([e.interval() for e in estimates])[which.reshape(-1)]
    values = np.array([e.values for e in estimates])[which.reshape(-1)]
    expected = [*truth, 1 - sum(truth)][: len(design.names)]
    for at, (name, true) in enumerate(zip(design.names, expected, strict=True)):
        assert 0.94 <= held(limits[:, at], true) <= most_of(estimates[0]), name
        error = FALSE_ALARM * values[:, at].std() / math.sqrt(SURVEYS)
        # a ratio, biased by the order of its variance: a tenth of a standard error allows for it
        if name != "t":
            assert abs(values[:, at].mean() - true) < error, name
            stated = design.expected_stderr(n, *truth, parameter=name)
            assert stated == pytest.approx(
                values[:, at].std(), rel=FALSE_ALARM / math.sqrt(2 * SURVEYS)
            ), name
        else:
            assert abs(np.median(values[:, at]) - true) < 0.1 * values[:, at].std(), name


@pytest.mark.parametrize(("design", "truth"), TWO_SAMPLES[::2], ids=str)
def test_answers_of_every_class_are_drawn_by_the_stated_chances(
    design: TwoGroupDesign, truth: tuple[float, float]
) -> None:
    rng = np.random.default_rng(4)
    n = 100_000
    for index in (0, 1):
        classes = rng.choice(design.classes, n, p=design.class_proportions(*truth))
        said = design.privatize(classes.tolist(), index, seeded_source(index))
        rate = float(design.rates(*truth)[index])
        assert abs(said.mean() - rate) < FALSE_ALARM * math.sqrt(rate * (1 - rate) / n)
        for place, name in enumerate(design.classes):
            chance = float(design.class_channel(index)[place][1])
            own = said[classes == name]
            assert (
                abs(own.mean() - chance)
                <= FALSE_ALARM * math.sqrt(chance * (1 - chance) / own.size) + 1e-12
            ), name


def test_an_anchor_corrects_for_people_who_answer_at_random() -> None:
    """pi = 0.15, three in four follow the instructions; without the anchor the estimate is off by a
    factor of more than 1.5."""
    rng = np.random.default_rng(5)
    design, p, t, pi = Crosswise(0.15), 0.15, 0.75, 0.15
    same = {True: p * pi + (1 - p) * (1 - pi), False: 0.5}
    anchor = {True: 1 - p, False: 0.5}
    cells = sum(
        proportion * np.outer([same[kind], 1 - same[kind]], [anchor[kind], 1 - anchor[kind]])
        for kind, proportion in ((True, t), (False, 1 - t))
    )
    naive, found = [], []
    for both, first, second, _ in rng.multinomial(
        2_000, np.asarray(cells).reshape(-1), 2_000
    ).tolist():
        naive.append(design.estimate_counts(same=both + first, n=2_000).values[0])
        estimate = design.estimate_with_anchor(
            same=both + first, anchor_same=both + second, both=both, n=2_000
        )
        found.append([estimate.values[0], *estimate.interval()[0]])
    values = np.array(found)
    assert np.mean(naive) > 1.5 * pi
    assert abs(np.median(values[:, 0]) - pi) < 0.1 * values[:, 0].std()
    assert 0.94 <= held(values[:, 1:], pi) <= 0.96


def test_a_list_experiment_is_unbiased_and_covers() -> None:
    rng = np.random.default_rng(6)
    design, harmless, pi = ItemCount(3), np.array([0.1, 0.3, 0.4, 0.2]), 0.2
    treated = np.append(harmless * (1 - pi), 0) + np.insert(harmless * pi, 0, 0)
    found = [
        design.estimate_counts(control=a, treated=b)
        for a, b in zip(
            rng.multinomial(250, harmless, SURVEYS).tolist(),
            rng.multinomial(250, treated, SURVEYS).tolist(),
            strict=True,
        )
    ]
    values = np.array([e.values[0] for e in found])
    assert abs(values.mean() - pi) < FALSE_ALARM * values.std() / math.sqrt(SURVEYS)
    assert 0.94 <= held(np.array([e.interval()[0] for e in found]), pi) <= 0.96
    spread = math.sqrt(float((np.arange(4) ** 2) @ harmless - (np.arange(4) @ harmless) ** 2))
    assert design.expected_stderr((250, 250), pi, spread) == pytest.approx(
        values.std(), rel=FALSE_ALARM / math.sqrt(2 * SURVEYS)
    )


@pytest.mark.parametrize(
    "device",
    [
        Scrambling.additive([-10, -5, 0, 5, 10]),
        Scrambling.multiplicative({0.5: "1/4", 1.0: "1/2", 1.5: "1/4"}),
        Scrambling.optional(0.7, [10, 20, 30, 40]),
        Scrambling(
            truth=0.3, substituted=0.2, multiplier=[0.8, 1.2], addend=[-3, 13], substitute=[20, 40]
        ),
    ],
    ids=["additive", "multiplicative", "optional", "general"],
)
def test_scrambled_numbers_have_unbiased_means_and_variances_that_cover(device: Scrambling) -> None:
    rng = np.random.default_rng(7)
    true = rng.gamma(4.0, 8.0, 200_000)  # a population from which each survey draws
    reports = device.privatize(rng.choice(true, SURVEYS * PEOPLE), seeded_source(7)).reshape(
        SURVEYS, PEOPLE
    )
    found = [device.estimate(row) for row in reports]
    values = np.array([e.values for e in found])
    limits = np.array([e.interval() for e in found])
    assert abs(values[:, 0].mean() - true.mean()) < FALSE_ALARM * values[:, 0].std() / math.sqrt(
        SURVEYS
    )
    # The moments' plug-in lacks the variance of the mean.
    expected = true.var() - values[:, 0].var()
    assert abs(values[:, 1].mean() - expected) < FALSE_ALARM * values[:, 1].std() / math.sqrt(
        SURVEYS
    )
    assert 0.94 <= held(limits[:, 0], float(true.mean())) <= 0.96
    assert 0.94 <= held(limits[:, 1], float(true.var())) <= 0.96
    # What was printed before: the variance ± 1.96 standard errors, of numbers as skewed as incomes.
    wald = np.array([e.interval(method="wald")[1] for e in found])
    assert held(wald, float(true.var())) < 0.94
    stated = device.expected_stderr(PEOPLE, float(true.mean()), float(true.std()))
    assert stated == pytest.approx(values[:, 0].std(), rel=FALSE_ALARM / math.sqrt(2 * SURVEYS))


@pytest.mark.parametrize("pi", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("errors", ["observed", "expected"])
def test_the_likeliest_prevalence_of_several_draws_covers_by_both_informations(
    pi: float, errors: str
) -> None:
    """5,000 surveys at prevalences of which few estimates end at the edge."""
    rng, design = np.random.default_rng(12), Kuk(0.8, 0.3, draws=5)
    counts = rng.multinomial(PEOPLE, design.rates(pi), SURVEYS)
    found = [
        design.estimate_counts(row, method="ml").with_errors(errors) for row in counts.tolist()
    ]
    values = np.array([e.values[0] for e in found])
    assert 0.94 <= held(np.array([e.interval()[0] for e in found]), pi) <= 0.96
    assert np.mean([e.stderr[0] for e in found]) == pytest.approx(values.std(), rel=0.05)
    moments = np.array([design.estimate_counts(row).values[0] for row in counts[:500].tolist()])
    assert values[:500].std() < moments.std()


def test_a_list_with_a_direct_question_covers() -> None:
    """20 % have it and half of them say so; of those who do not admit it, the list tells."""
    rng, design = np.random.default_rng(13), ItemCount(3)
    harmless, direct, pi = np.array([0.1, 0.3, 0.4, 0.2]), 0.1, 0.2
    hidden = (pi - direct) / (1 - direct)
    treated = {
        "no": np.append(harmless * (1 - hidden), 0) + np.insert(harmless * hidden, 0, 0),
        "yes": np.insert(harmless, 0, 0),
    }
    cells = np.concatenate([
        0.5 * (1 - direct) * harmless, 0.5 * (1 - direct) * treated["no"], 0.5 * direct * harmless, 0.5 * direct * treated["yes"],
    ])  # fmt: skip
    inside = []
    for row in rng.multinomial(PEOPLE, cells, SURVEYS).tolist():
        found = design.estimate_with_direct(
            control_no=row[:4], treated_no=row[4:9], control_yes=row[9:13], treated_yes=row[13:]
        )
        low, high = found.interval()[0]
        inside.append(low <= pi <= high)
    assert 0.94 <= np.mean(inside) <= 0.96


def _from_yes(design: SurveyDesign, n: int, yes: int) -> DesignEstimate:
    return design.estimate_counts(yes=yes, n=n)


def test_agreement_is_rejected_as_often_as_claimed_and_disagreement_as_often_as_planned() -> None:
    rng = np.random.default_rng(8)
    survey, n = ForcedResponse(0.75, 1 / 8), 500
    direct = Mangat(0.999999)  # practically direct, with the same code

    asked, told = (cache(partial(_from_yes, design, n)) for design in (survey, direct))

    def estimates(a: int, b: int) -> tuple[DesignEstimate, DesignEstimate]:
        return asked(a), told(b)

    def rejected(first: float, second: float) -> float:
        ones, others = (
            rng.binomial(n, survey.rates(first)[1], 4_000),
            rng.binomial(n, direct.rates(second)[1], 4_000),
        )
        tests = [
            agreement_test(*estimates(a, b)).p_value
            for a, b in zip(ones.tolist(), others.tolist(), strict=True)
        ]
        return float((np.array(tests) < 0.05).mean())

    assert abs(rejected(0.2, 0.2) - 0.05) < 0.015
    gap = 0.1 / math.hypot(survey.expected_stderr(n, 0.3), direct.expected_stderr(n, 0.2))
    assert (
        abs(rejected(0.3, 0.2) - (stats.norm.sf(1.96 - gap) + stats.norm.cdf(-1.96 - gap))) < 0.03
    )


POWER: list[tuple[Any, Any, Any, float, str]] = [
    (Warner(0.75), 0.1, 600, 0.0, "pi"),
    (Crosswise(0.2), 0.3, 400, 0.2, "pi"),
    (Kuk(0.8, 0.3, draws=3), 0.15, 500, 0.1, "pi"),
    (UnrelatedQuestion.unknown(0.7, 0.3), (0.2, 0.4), (300, 300), 0.0, "pi"),
    (CheaterDetection(0.25, 0.75), (0.3, 0.6), (250, 250), 0.0, "gamma"),
    # a ratio is normal only from many on
    (StochasticLieDetector(0.2, 0.8), (0.6, 0.94), (2_000, 2_000), 1.0, "t"),
]


@pytest.mark.parametrize(("design", "value", "n", "null", "parameter"), POWER, ids=str)
def test_the_power_is_how_often_the_null_is_rejected(
    design: Any, value: Any, n: Any, null: float, parameter: str
) -> None:
    """The test with the null's standard error in its threshold, over 20,000 surveys; 2 points allow
    for the normal law."""
    rng = np.random.default_rng(9)
    planned = design_power(design, value, n, null=null, parameter=parameter)
    if isinstance(design, SurveyDesign):
        estimates = rng.multinomial(n, design.rates(value), 20_000) / n @ design._inverse[1]
    else:
        rates = rng.binomial(n, design.rates(*value), (20_000, 2)) / np.array(n)
        unknowns = (rates - design._shift) @ design._inverse.T
        estimates = {
            "pi": unknowns[:, 0],
            "gamma": 1 - unknowns.sum(axis=1),
            "t": unknowns[:, 1] / unknowns[:, 0],
        }[parameter]
    rejected = float(
        (np.abs(estimates - null) > stats.norm.ppf(0.975) * planned.null_stderr).mean()
    )
    assert rejected == pytest.approx(planned.power, abs=0.02)


@pytest.mark.parametrize(("design", "value", "n", "null", "parameter"), POWER, ids=str)
def test_the_sample_size_has_the_power_and_one_person_less_has_not(
    design: Any, value: Any, n: Any, null: float, parameter: str
) -> None:
    found = design_sample_size(design, value, null=null, parameter=parameter, power=0.85)
    fewer = tuple(size - 1 for size in found.n)
    options: dict[str, Any] = {"null": null, "parameter": parameter}
    least = design_power(design, value, fewer if len(fewer) > 1 else fewer[0], **options)
    # the formula leaves it out
    other_side = stats.norm.cdf(-abs(found.value - null) / found.stderr - 1.5)
    assert least.power - other_side < 0.85 <= found.power
