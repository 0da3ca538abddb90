"""Survey designs: exact channels, estimates from counts against exact cases and published analyses,
and what is refused."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import deniable
from deniable import (
    CheaterDetection,
    Crosswise,
    DesignEstimate,
    DirectQuestion,
    ForcedResponse,
    ItemCount,
    Kuk,
    Mangat,
    Reports,
    Scrambling,
    StochasticLieDetector,
    SymmetricCheaterDetection,
    Tally,
    Triangular,
    UnrelatedQuestion,
    UnrelatedQuestionUnknown,
    Warner,
    agreement_test,
    compare,
    seeded_source,
)
from deniable.errors import ParameterError, ReportFormatError, UnknownLabelError
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.mechanisms.registry import from_dict
from deniable.planning.design_power import design_power
from deniable.survey import parse_column
from toolkit.references.laws import chi_square, exact_laws

F = Fraction
DESIGNS: dict[str, tuple[SurveyDesign, list[list[Fraction]]]] = {
    # The design, and P[report][truth] written down by hand.
    "warner": (Warner(F(7, 10)), [[F(7, 10), F(3, 10)], [F(3, 10), F(7, 10)]]),
    "crosswise": (Crosswise(1 / 6), [[F(1, 6), F(5, 6)], [F(5, 6), F(1, 6)]]),
    "forced": (ForcedResponse(3 / 4, 1 / 6), [[F(5, 6), F(1, 12)], [F(1, 6), F(11, 12)]]),
    "unrelated": (UnrelatedQuestion("7/10", 0.25), [[F(37, 40), F(9, 40)], [F(3, 40), F(31, 40)]]),
    "mangat": (Mangat(0.6), [[F(3, 5), F(0)], [F(2, 5), F(1)]]),
    "triangular": (Triangular(0.25), [[F(3, 4), F(0)], [F(1, 4), F(1)]]),
    "kuk": (Kuk(0.8, 0.3), [[F(7, 10), F(1, 5)], [F(3, 10), F(4, 5)]]),
    "kuk, two draws": (
        Kuk(0.8, 0.3, draws=2),
        [[F(49, 100), F(1, 25)], [F(42, 100), F(8, 25)], [F(9, 100), F(16, 25)]],
    ),
    "direct": (DirectQuestion(), [[F(1), F(0)], [F(0), F(1)]]),
}
PRIVATE = [name for name, (design, _) in DESIGNS.items() if math.isfinite(design.epsilon)]


@pytest.mark.parametrize("name", DESIGNS)
def test_the_channel_is_exactly_what_is_drawn(name: str) -> None:
    design, expected = DESIGNS[name]
    assert design.exact_channel() == tuple(map(tuple, expected))
    np.testing.assert_allclose(design.channel(), np.array(expected, dtype=float), rtol=1e-15)
    for truth, law in enumerate(exact_laws(design)):  # every path of the draws
        drawn = {row[0]: probability for row, probability in law.items()}
        assert drawn == {
            report: chances[truth] for report, chances in enumerate(expected) if chances[truth]
        }


@pytest.mark.parametrize("name", DESIGNS)
def test_the_estimator_is_unbiased_without_any_sampling(name: str) -> None:
    design, expected = DESIGNS[name]
    alone = [
        design.solve(np.eye(len(expected), dtype=np.int64)[report], 1)[0]
        for report in range(len(expected))
    ]
    for truth in (0, 1):
        mean = sum(
            float(expected[report][truth]) * alone[report] for report in range(len(expected))
        )
        np.testing.assert_allclose(mean, np.eye(2)[truth], atol=1e-12)
        pi = sum(
            float(expected[report][truth])
            * design.estimate_counts(np.eye(len(expected), dtype=int)[report]).values[0]
            for report in range(len(expected))
        )
        assert pi == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("name", PRIVATE)
def test_bulk_draws_follow_the_channel_and_no_other(name: str) -> None:
    """Chi-square of 200,000 seeded draws at a false-alarm rate of 1e-9; against a channel moved by
    0.02 they are rejected."""
    design, expected = DESIGNS[name]
    reports = design.privatize(["yes"] * 200_000, seeded_source(3))
    counts = np.bincount(reports.data, minlength=len(expected))
    observed: Any = {bytes([i]): int(c) for i, c in enumerate(counts)}
    law = {bytes([i]): chances[1] for i, chances in enumerate(expected)}
    assert chi_square(observed, law, 200_000) > 1e-9
    moved = {
        row: p + (F(1, 50) if i == 0 else -F(1, 50) if i == 1 else 0)
        for i, (row, p) in enumerate(law.items())
    }
    assert chi_square(observed, moved, 200_000) < 1e-9


def test_infinite_losses_are_infinite_and_said() -> None:
    for design in (Mangat(0.6), Triangular(0.25), ForcedResponse(0.5, yes=0.5), DirectQuestion()):
        assert design.epsilon == math.inf
        estimate = design.estimate(design.privatize(["no", "yes"] * 50, seeded_source(1)))
        assert "epsilon infinite per report" in str(estimate)
        assert any("rules out" in note and "epsilon is infinite" in note for note in estimate.notes)
    assert "a report of 'neither' rules out 'yes'" in str(
        Triangular(0.25).estimate_counts(neither=350, n=700)
    )
    for two in (
        CheaterDetection(0.25, 0.75),
        StochasticLieDetector(0.2, 0.8),
        ItemCount(3),
        Scrambling.additive([1, 2]),
    ):
        assert two.epsilon == math.inf
    assert "epsilon infinite" in str(
        StochasticLieDetector(0.2, 0.8).estimate_counts(yes=(300, 180), n=(500, 500))
    )


# Independent cases, exact: estimate, SE with n, SE with n - 1, loss of the instruction.
EXACT: list[tuple[DesignEstimate, str, float, float, float, float]] = [
    (
        Warner(7 / 10).estimate_counts(yes=412, n=1000),
        "pi",
        0.28,
        0.03891143790712,
        0.03893090823004,
        0.8472978603872,
    ),
    (
        Crosswise(1 / 6).estimate_counts(same=512, n=730),
        "pi",
        0.1979452054795,
        0.02540798335081,
        0.02542540397908,
        1.609437912434,
    ),
    (
        ForcedResponse(3 / 4, 1 / 6).estimate_counts(yes=626, n=1525),
        "pi",
        0.3251001821494,
        0.01679581117767,
        0.01680132071076,
        2.302585092994,
    ),
    (
        UnrelatedQuestion(7 / 10, 1 / 4).estimate_counts(yes=301, n=900),
        "pi",
        0.3706349206349,
        0.0224664707608,
        0.02247896254423,
        2.335374915817,
    ),
    (
        Mangat(3 / 5).estimate_counts(yes=520, n=1000),
        "pi",
        0.2,
        0.02633122354418,
        0.02634439903839,
        math.inf,
    ),
    (
        Triangular(1 / 4).estimate_counts(neither=350, n=700),
        "pi",
        0.3333333333333,
        0.02519763153395,
        0.02521564914907,
        math.inf,
    ),
    (
        Kuk(4 / 5, 3 / 10).estimate_counts([400, 400]),
        "pi",
        0.4,
        0.03535533905933,
        0.03537745688386,
        1.252762968495,
    ),
]
UNRELATED = UnrelatedQuestion.unknown(7 / 10, 3 / 10).estimate_counts(yes=(180, 220), n=(400, 500))
CDM = CheaterDetection(1 / 4, 3 / 4).estimate_counts(yes=(150, 260), n=(400, 400))
SYMMETRIC = SymmetricCheaterDetection(3 / 10, 1 / 5, 3 / 5, 1 / 10).estimate_counts(
    yes=(140, 210), n=(400, 400)
)
SLD = StochasticLieDetector(1 / 5, 4 / 5).estimate_counts(yes=(300, 180), n=(500, 500))
EXACT += [
    (UNRELATED, "pi", 0.4575, 0.0466060283118, 0.04666290350646, 1.855514928554),
    (UNRELATED, "u", 0.4325, 0.0430957872071, 0.04314097381643, 1.855514928554),
    (CDM, "pi", 0.2375, 0.03821710186553, 0.03826496300121, math.inf),
    (CDM, "beta", 0.55, 0.06796138609534, 0.06804649744503, math.inf),
    (CDM, "gamma", 0.2125, 0.03776469085005, 0.03781198540941, math.inf),
    (SYMMETRIC, "pi", 0.25, 0.07691019809771, 0.07700651647997, 1.38629436112),
    (SYMMETRIC, "beta", 0.5, 0.1396210858683, 0.1397959401458, 1.38629436112),
    (SYMMETRIC, "gamma", 0.25, 0.06851963569803, 0.06860544617085, 1.38629436112),
    (SLD, "pi", 0.6, 0.05112077203382, 0.05117196961503, math.inf),
    (SLD, "t", 0.4666666666667, 0.02566001196398, 0.02568571053023, math.inf),
]


@pytest.mark.parametrize(
    ("estimate", "name", "value", "by_n", "by_n_less_1", "loss"),
    EXACT,
    ids=lambda x: getattr(x, "design", str(x)),
)
def test_exact_cases_are_met_to_every_digit(
    estimate: DesignEstimate, name: str, value: float, by_n: float, by_n_less_1: float, loss: float
) -> None:
    assert estimate[name].value == pytest.approx(value, rel=1e-12)
    assert estimate[name].stderr == pytest.approx(by_n_less_1, rel=1e-12)
    assert estimate.with_errors("n")[name].stderr == pytest.approx(by_n, rel=1e-12)
    assert estimate.epsilon == pytest.approx(loss, rel=1e-12)


def test_several_draws_of_kuk_have_a_moment_and_a_likeliest_estimate_with_two_errors_each() -> None:
    design, counts = Kuk(4 / 5, 3 / 10, draws=5), [60, 110, 130, 120, 110, 70]
    moment, likeliest = design.estimate_counts(counts), design.estimate_counts(counts, method="ml")
    assert moment["pi"].value == pytest.approx(0.4133333333333, rel=1e-12)
    assert moment["pi"].stderr == pytest.approx(0.02469025327812, rel=1e-12)  # the sample variance
    # Kuk's formula
    assert moment.with_errors("n")["pi"].stderr == pytest.approx(0.02562406276515, rel=1e-12)
    assert likeliest["pi"].value == pytest.approx(0.4109000125727, rel=1e-11)
    assert likeliest["pi"].stderr == pytest.approx(0.02523294956318, rel=1e-11)
    assert "observed information" in str(likeliest)
    assert likeliest.with_errors("expected")["pi"].stderr == pytest.approx(
        0.02444666812349, rel=1e-11
    )
    assert design.epsilon == pytest.approx(6.263814842477, rel=1e-12)
    assert design.estimate(Tally(design, np.array(counts), 600)).proportions[1] == pytest.approx(
        0.4133333333333, rel=1e-12
    )


# --- published analyses, from the counts


def test_rreg_vignette_warner() -> None:
    """RRreg 0.7.5 vignette: pi 0.300500, SE 0.022874 (n - 1)."""
    found = Warner(1 / 6).estimate_counts(yes=633, n=1000)["pi"]
    assert f"{found.value:.6f} {found.stderr:.6f}" == "0.300500 0.022874"


def test_heck_and_moshagen_minarets() -> None:
    """Heck and Moshagen 2018, JSS 85(2), p. 11: SLD, and the direct question."""
    found = StochasticLieDetector(2 / 12, 10 / 12).estimate_counts(yes=(373, 398), n=(564, 692))
    assert [f"{x:.6f}" for x in found.values] == ["0.870695", "0.635806"]
    assert [f"{x:.6f}" for x in found.stderr] == ["0.041118", "0.017344"]
    direct = DirectQuestion().estimate_counts(yes=158, n=365)["pi"]
    assert f"{direct.value:.2f} {direct.stderr:.2f}" == "0.43 0.03"


@pytest.mark.parametrize(
    ("u", "yes", "value", "variance", "low", "high"),
    [
        (1 / 12, 328, 0.8406103, 0.001389716, 0.767545, 0.9136756),
        (2 / 3, 280, 0.1220657, 0.001337415, 0.05038851, 0.1937429),
        (1 / 3, 164, 0.1286385, 0.000991658, 0.06691805, 0.1903589),
    ],
)
def test_rrtcs_vignette_finite_population(
    u: float, yes: int, value: float, variance: float, low: float, high: float
) -> None:
    """RRTCS vignette (copied, bullied, drug): unrelated question, 710 of 10,777 students; Wald
    intervals."""
    found = UnrelatedQuestion(1 / 2, u).estimate_counts(yes=yes, n=710, population=10_777)
    assert found["pi"].value == pytest.approx(value, abs=5e-8)
    assert found.covariance[0, 0] == pytest.approx(variance, rel=5e-7)
    np.testing.assert_allclose(found.interval(method="wald")[0], [low, high], rtol=5e-7)


def test_jann_jerke_and_krumpal_plagiarism_and_the_direct_question() -> None:
    """Jann, Jerke and Krumpal 2012 (counts of GLMMRR's Plagiarism): 22 %, against 7.3 % asked
    directly."""
    crosswise = Crosswise(1 / 4).estimate_counts(same=198, n=310).with_errors("n")
    assert crosswise["pi"].value == pytest.approx(0.2226, abs=5e-5)
    assert crosswise["pi"].stderr == pytest.approx(0.0546, abs=5e-5)
    direct = DirectQuestion().estimate_counts(yes=7, n=96)
    assert direct["pi"].value == pytest.approx(0.073, abs=5e-4)
    test = agreement_test(crosswise, direct)
    assert test.z == pytest.approx(
        (0.2225806 - 0.0729167) / math.hypot(0.0545669, 0.0266736), rel=1e-4
    )
    assert test.p_more == pytest.approx(test.p_value / 2)
    assert test.p_value < 0.05


def test_jensen_dishonesty() -> None:
    """Jensen 2020, JBPA 3(2): 0.673518164, SE 0.03190544 (n)."""
    found = Crosswise(2 / 12).estimate_counts(same=201, n=523).with_errors("n")["pi"]
    assert f"{found.value:.9f} {found.stderr:.8f}" == "0.673518164 0.03190544"


def test_cwise_readme_inattentive_respondents() -> None:
    """cWise README, cmdata: naive 0.1950 (0.01444624), attentive 0.7728571, corrected 0.1053604.

    Its standard error of the corrected estimate, 0.0208, comes from 200 bootstrap draws and does
    not re-derive: the delta method gives 0.02270.
    """
    design = Crosswise(0.15)
    naive = design.estimate_counts(same=1427, n=2000)["pi"]
    assert f"{naive.value:.4f} {naive.stderr:.8f}" == "0.1950 0.01444624"
    found = design.estimate_with_anchor(same=1427, anchor_same=1541, both=1116, n=2000)
    assert [f"{x:.7f}" for x in found.values] == ["0.1053604", "0.7728571"]
    assert found["pi"].stderr == pytest.approx(0.02270, abs=5e-6)


BLACK_FAMILY = {"control": [8, 132, 222, 227], "treated": [19, 123, 229, 219, 34]}


def test_blair_and_imai_black_family() -> None:
    """Blair and Imai 2012, tables 2 and 6. pi_31 is 34/624 = 5.449 %, where 5.5 is printed: that
    one does not re-derive."""
    design = ItemCount(items=3)
    found = design.estimate_counts(**BLACK_FAMILY)["pi"]
    assert f"{100 * found.value:.1f} {found.stderr:.3f}" == "6.8 0.050"
    types = design.types(**BLACK_FAMILY)
    assert [f"{100 * x:.1f}" for x in types.values] == [
        "3.0",
        "21.4",
        "35.7",
        "33.1",
        "-1.7",
        "1.0",
        "2.0",
        "5.4",
    ]
    assert [f"{100 * x:.1f}" for x in types.stderr] == [
        "0.7",
        "1.7",
        "2.6",
        "2.2",
        "0.8",
        "2.4",
        "2.8",
        "0.9",
    ]
    assert types.values.sum() == pytest.approx(1)
    assert sum(types.values[4:]) == pytest.approx(found.value)


def test_aronow_et_al_list_and_direct_question() -> None:
    """Aronow, Coppock, Crawford and Green 2015, tables 3 and 4, Muslim teachers."""
    design = ItemCount(items=3)
    control_no, treated_no = [34, 84, 85, 22], [30, 72, 96, 20, 2]
    control_yes, treated_yes = [3, 9, 15, 5], [0, 1, 10, 7, 5]
    found = design.estimate_with_direct(
        control_no=control_no,
        treated_no=treated_no,
        control_yes=control_yes,
        treated_yes=treated_yes,
    )
    assert [f"{x:.3f}" for x in found.values] == ["0.187", "0.110", "1.008"]
    assert [f"{x:.3f}" for x in found.stderr] == ["0.074", "0.014", "0.237"]
    # Equation 3 by hand: 500 people, 243 treated, 55 said yes.
    s0, s1 = (
        np.average((np.arange(len(c)) - np.average(np.arange(len(c)), weights=c)) ** 2, weights=c)
        for c in (control_no, treated_no)
    )
    gap, admitted, treated = (found.values[0] - 0.11) / 0.89, 55 / 500, 243 / 500
    variance = (
        (1 - gap) ** 2 * admitted * (1 - admitted)
        + (1 - admitted) * (s1 / treated + s0 / (1 - treated))
    ) / 500
    published = found.with_errors("published")
    assert published.stderr[0] == pytest.approx(math.sqrt(variance))
    assert "standard errors as published" in str(published)
    alone = design.estimate_counts(
        control=np.add(control_no, control_yes).tolist(),
        treated=np.add(treated_no, treated_yes).tolist(),
    )["pi"]
    assert f"{alone.value:.3f} {alone.stderr:.3f}" == "0.166 0.081"


def test_kwan_so_and_tams_standard_error_is_a_variance_of_the_mean() -> None:
    """Kwan, So and Tam 2010, table 2, "S.E. (DQ)" 0.0207 for n = 101: that is s^2/n, not the
    standard error 0.1438."""
    counts = np.array([37, 28, 13, 15, 5, 1, 2])
    values = np.repeat(np.arange(7), counts)
    direct = Scrambling(truth=1).estimate(values)
    assert direct["mean"].stderr == pytest.approx(0.1438, abs=5e-5)
    assert direct["mean"].stderr ** 2 == pytest.approx(0.0207, abs=5e-5)


# --- as mechanisms


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_survive_their_description_and_their_bytes(name: str) -> None:
    design, _ = DESIGNS[name]
    again = from_dict(json.loads(json.dumps(design.to_dict())))
    assert again == design
    assert again.epsilon == design.epsilon
    reports = design.privatize(["no", "yes", "yes"], seeded_source(2))
    assert Reports.from_bytes(reports.to_bytes()) == reports
    labels = design.report_labels(reports)
    assert set(labels) <= set(design.report_domain.labels)
    assert design.reports(labels) == reports


@pytest.mark.parametrize(
    "make",
    [
        Warner,
        ForcedResponse,
        Crosswise,
        Kuk,
        lambda epsilon: UnrelatedQuestion(u=0.3, epsilon=epsilon),
    ],
)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_an_epsilon_makes_a_design_that_spends_it_and_no_more(make: Any, epsilon: float) -> None:
    design = make(epsilon=epsilon)
    assert epsilon - 1e-6 < design.epsilon <= epsilon
    again = from_dict(json.loads(json.dumps(design.to_dict())))
    assert isinstance(again, SurveyDesign)
    assert again.exact_channel() == design.exact_channel()


def test_several_draws_share_the_epsilon() -> None:
    assert Kuk(draws=5, epsilon=2.0).epsilon == pytest.approx(2.0, abs=1e-5)
    assert Kuk(draws=5, epsilon=2.0).epsilon <= 2.0


def test_labels_of_ones_own_and_report_labels_apart_from_them() -> None:
    design = Crosswise(1 / 4, labels=["clean", "user"])
    assert design.labels == ("clean", "user")
    assert design.report_domain.labels == ("different", "same")
    estimate = design.estimate(["same"] * 600 + ["different"] * 400)
    assert estimate.labels == ("clean", "user")
    assert estimate.proportions[1] == pytest.approx((0.6 - 0.75) / -0.5)
    with pytest.raises(ReportFormatError, match="labels"):
        design.estimate(["clean"])
    with pytest.raises(UnknownLabelError):
        design.privatize(["same"])
    assert from_dict(design.to_dict()) == design
    binary = deniable.BinaryResponse(epsilon=1.0, labels=["no", "yes"])
    assert binary.epsilon == 1.0
    assert binary.estimate(["yes"] * 60 + ["no"] * 40).labels == ("no", "yes")
    assert from_dict(binary.to_dict()) == binary


def test_the_two_ways_to_an_estimate_agree() -> None:
    for design, _ in DESIGNS.values():
        reports = design.privatize(["yes"] * 400 + ["no"] * 600, seeded_source(5))
        by_reports, by_counts = design.estimate(reports), design.estimate_counts(reports)
        assert by_counts.values[0] == pytest.approx(by_reports.proportions[1], abs=1e-12)
        if len(design.report_domain) == 2:
            assert by_counts.stderr[0] == pytest.approx(by_reports.stderr[1], rel=1e-9)
    # And they meet the rest of the library: groups compared, tables, files.
    one, other = Warner(0.8), DirectQuestion()
    first = one.estimate(one.privatize(["yes"] * 400 + ["no"] * 600, seeded_source(5)))
    second = other.estimate(["yes"] * 300 + ["no"] * 700)
    assert compare(first, second).difference[1] == pytest.approx(first.proportions[1] - 0.3)
    assert parse_column("used=Crosswise:p=1/4")[1] == Crosswise(1 / 4)


def test_small_populations_have_exact_intervals_where_the_report_says_the_contrary() -> None:
    design = Crosswise(0.1)
    estimate = design.estimate(
        design.privatize(["yes"] * 20 + ["no"] * 80, seeded_source(1)), population=100
    )
    low, high = estimate.interval()[1]
    assert low <= 0.2 <= high
    mirrored = Warner(0.9)
    flipped = mirrored.estimate(
        Tally(
            mirrored,
            design.gather(design.privatize(["yes"] * 20 + ["no"] * 80, seeded_source(1)))
            .counts[::-1]
            .copy(),
            100,
        ),
        population=100,
    )
    np.testing.assert_allclose(flipped.interval(), estimate.interval())


@pytest.mark.parametrize("yes", [0, 200])
def test_no_design_claims_certainty_while_its_coins_are_random(yes: int) -> None:
    for name, (design, _) in DESIGNS.items():
        if name == "direct" or len(design.report_domain) > 2:
            continue
        counts = design.estimate_counts([200 - yes, yes])
        assert counts.stderr[0] > 0, name
        assert design.estimate(Tally(design, np.array([200 - yes, yes]), 200)).stderr[1] > 0, name
    assert (
        CheaterDetection(0.25, 0.75).estimate_counts(yes=(yes, yes), n=(200, 200)).stderr.min() > 0
    )


# --- results


@pytest.mark.parametrize(
    "estimate",
    [
        EXACT[0][0],
        UNRELATED,
        CDM,
        SLD,
        ItemCount(3).types(**BLACK_FAMILY),
        Crosswise(0.15).estimate_with_anchor(same=1427, anchor_same=1541, both=1116, n=2000),
    ],
    ids=lambda e: e.design,
)
def test_results_travel_whole_and_show_themselves(estimate: DesignEstimate) -> None:
    again = DesignEstimate.from_dict(json.loads(json.dumps(estimate.to_dict(), allow_nan=False)))
    assert again == estimate
    np.testing.assert_array_equal(again.interval(0.9), estimate.interval(0.9))
    assert str(again) == str(estimate)
    html = estimate._repr_html_()
    assert all(f">{name}</th>" in html for name in estimate.names)
    frame = estimate.to_frame()
    assert list(frame.index) == list(estimate.names)
    assert frame["stderr"].tolist() == estimate.stderr.tolist()


def test_a_parameter_is_tested_against_a_value() -> None:
    test = CDM.test("gamma", method="wald")
    assert test.z == pytest.approx(0.2125 / 0.03781198540941)
    assert test.p_value < 1e-7
    assert "gamma = 0: estimate 0.2125, z = +5.62" in str(test)
    with pytest.raises(ParameterError, match="method = 'exact' must be 'score' or 'wald'"):
        CDM.test("gamma", method="exact")
    with pytest.raises(ParameterError, match="parameter = 'delta' must be one of pi, beta, gamma"):
        CDM.test("delta")


def test_an_estimate_outside_the_possible_is_said_to_be() -> None:
    below = Warner(0.7).estimate_counts(yes=200, n=1000)
    assert below["pi"].value < 0
    assert "pi outside 0 to 100 %" in str(below)
    low, high = below.interval()[0]
    assert low == 0 <= high


SCORED = [  # design, true value, null, people
    # Wald's test: size 6.7 %, power 45.4 % where 61.3 % is promised
    (UnrelatedQuestion(0.7, 0.25), 0.05, 0.0, 300),
    (UnrelatedQuestion(0.7, 0.25), 0.10, 0.05, 300),
    (Crosswise(1 / 4), 0.1, 0.0, 800),
    (ForcedResponse(2 / 3, yes=1 / 6), 0.2, 0.1, 300),
]


@pytest.mark.parametrize(("design", "value", "null", "n"), SCORED, ids=str)
def test_the_score_test_has_the_size_and_the_power_that_are_promised(
    design: Any, value: float, null: float, n: int
) -> None:
    """Exactly: the probabilities of all counts of yes that are rejected, under the null and under
    the value."""
    rejected = [
        design.estimate_counts([n - yes, yes]).test("pi", null).p_value < 0.05
        for yes in range(n + 1)
    ]
    size, power = (
        stats.binom.pmf(np.arange(n + 1), n, design.rates(pi)[1])[rejected].sum()
        for pi in (null, value)
    )
    assert 0.04 <= size <= 0.06
    assert power == pytest.approx(design_power(design, value, n, null=null).power, abs=0.02)


@pytest.mark.parametrize(
    ("design", "values", "parameter", "null"),
    [
        (StochasticLieDetector(0.2, 0.8), (0.3, 0.7), "pi", 0.2),
        (StochasticLieDetector(0.2, 0.8), (0.3, 0.7), "t", 0.5),
        (UnrelatedQuestionUnknown(0.7, 0.3), (0.2, 0.3), "pi", 0.1),
    ],
    ids=str,
)
def test_the_score_test_of_two_samples_has_the_stated_size(
    design: Any, values: Any, parameter: str, null: float
) -> None:
    """500 surveys of 400 + 400 people in which the null is true: four standard errors are 3.9
    points."""
    rng, n = np.random.default_rng(5), (400, 400)
    rates = design.rates(*design.at_null(values, parameter, null)[1])
    counts = np.column_stack(
        [rng.binomial(people, rate, 500) for people, rate in zip(n, rates, strict=True)]
    ).tolist()
    found = [
        design.estimate_counts(yes=yes, n=n).test(parameter, null).p_value < 0.05 for yes in counts
    ]
    assert 0.011 <= np.mean(found) <= 0.089


def test_one_answer_that_the_null_rules_out_is_conclusive_and_none_is_no_evidence() -> None:
    some, none = (DirectQuestion().estimate_counts(yes=yes, n=50).test("pi", 0.0) for yes in (1, 0))
    assert (some.z, some.p_value) == (math.inf, 0.0)
    assert (none.z, none.p_value) == (0.0, 1.0)


def test_a_lie_detector_without_visible_carriers_still_has_intervals() -> None:
    found = StochasticLieDetector(0.2, 0.8).estimate_counts(yes=(90, 10), n=(100, 100))
    assert found.values[0] < 0
    assert math.isnan(found.values[1])
    (low, high), t = found.interval()
    assert low == 0 < high < 0.01  # at the edge, and not a point
    assert t.tolist() == [0, 1]
    assert "t     unknown   0.00 to 100.00" in str(found)
    assert "pi is estimated at or below 0, so t cannot be estimated" in str(found)
    again = DesignEstimate.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert again.interval().tolist() == found.interval().tolist()


@pytest.mark.parametrize(("pi", "t"), [(0.01, 0.8), (0.05, 0.8), (0.05, 0.3), (0.3, 0.6)])
def test_no_survey_of_a_lie_detector_is_left_out_of_its_coverage(pi: float, t: float) -> None:
    """1,200 surveys each, of which up to 45 % had no estimate at all: both intervals cover at least
    95 %, less 1.9 points."""
    design, n, rng = StochasticLieDetector(1 / 6, 5 / 6), 250, np.random.default_rng(8)
    counts = np.column_stack([rng.binomial(n, rate, 1_200) for rate in design.rates(pi, t)])
    pairs, times = np.unique(counts, axis=0, return_counts=True)
    limits = np.array(
        [design.estimate_counts(yes=pair, n=(n, n)).interval() for pair in pairs.tolist()]
    )
    inside = (limits[:, :, 0] <= [pi, t]) & ([pi, t] <= limits[:, :, 1])
    assert (times @ inside / times.sum() >= 0.931).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Warner(0.5), "p = Fraction(1, 2) makes all answers equally likely"),
        (lambda: Warner(1.2), "p = 1.2 must lie strictly between 0 and 1"),
        (lambda: Warner("many"), "p = 'many' must be a probability"),
        (lambda: Warner("1e999999"), "p = '1e999999' must be a probability"),
        (Warner, "give one of p and epsilon"),
        (lambda: Warner(0.7, epsilon=1), "give one of p and epsilon"),
        (lambda: ForcedResponse(0.8, yes=0.3), "yes = 0.3 must be at most 1 - p"),
        (lambda: UnrelatedQuestion(0.5), "u = None must be given"),
        (lambda: UnrelatedQuestion(u=1.0, epsilon=1.0), "u = 1.0 must lie strictly between"),
        (lambda: UnrelatedQuestion.unknown(0.3, 0.3), "p2 = '3/10' makes both samples alike"),
        (lambda: SymmetricCheaterDetection(0.5, 0.5, 0.2, 0.1), "n1 = 0.5 must leave some people"),
        (lambda: Kuk(0.8), "p2 = None must be given"),
        (lambda: Kuk(0.8, 0.3, draws=0), "draws = 0 must be a whole number"),
        (lambda: Warner(0.7, labels=["a"]), "labels = ['a'] must be two"),
        (lambda: Warner(0.7).estimate_counts(yes=12, n=10), "yes = 12 must be at most 10"),
        (lambda: Warner(0.7).estimate_counts(yes=-1, n=10), "yes = -1 must be a whole number"),
        (
            lambda: Warner(0.7).estimate_counts(maybe=1, n=10),
            "maybe = 1 is not a report of this design, which has no, yes",
        ),
        (lambda: Warner(0.7).estimate_counts(yes=1), "must say how many reported no"),
        (
            lambda: Warner(0.7).estimate_counts(yes=1, no=2, n=10),
            "n = 10 must be the sum of the counts, which is 3",
        ),
        (lambda: Kuk(0.8, 0.3, draws=2).estimate_counts([1, 2]), "must be 3, of 0, 1, 2"),
        (
            lambda: CheaterDetection(0.2, 0.8).estimate_counts(yes=(1, 1), n=(5, 1)),
            "at least 2 people",
        ),
        (
            lambda: CheaterDetection(0.2, 0.8).estimate_counts(yes=3, n=5),  # type: ignore[arg-type]
            "yes = 3 must be two numbers",
        ),
        (
            lambda: ItemCount(3).estimate_counts(control=[1, 2], treated=[1] * 5),
            "control = [1, 2] must be 4 numbers",
        ),
        (lambda: Scrambling.multiplicative([-1, 1]), "leaves nothing of the true number"),
        (lambda: Scrambling.additive({1: 0.5, 2: 0.6}), "whose probabilities sum to 1"),
    ],
)
def test_nonsense_is_refused_in_one_clear_line(make: Any, message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        make()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


# --- scrambling


def test_scrambled_reports_have_the_stated_mean_and_variance_exactly() -> None:
    """All paths of a small device: y with 1/4, S in {5, 7} with 1/4, W y + U with 1/2, W in {1, 3},
    U in {0, 2}."""
    device = Scrambling(
        truth=0.25, substituted=0.25, multiplier=[1, 3], addend=[0, 2], substitute=[5, 7]
    )
    for y in (0.0, 2.0, 10.0):
        outcomes = [(y, F(1, 4)), (5.0, F(1, 8)), (7.0, F(1, 8))]
        outcomes += [(w * y + u, F(1, 8)) for w in (1, 3) for u in (0, 2)]
        guesses = device.guesses([z for z, _ in outcomes])
        weights = np.array([float(p) for _, p in outcomes])
        assert weights @ guesses == pytest.approx(y)
        assert weights @ (guesses - y) ** 2 == pytest.approx(device.report_variance(y))
    assert Scrambling(substituted=0, multiplier=1, addend=[0.5, 1.5]).report_variance(
        2.0
    ) == pytest.approx(0.25)


def test_a_plug_in_of_a_persons_own_guess_would_overstate_the_variance() -> None:
    """The plug-in r^2 A + r B + C, which one package uses, is 5/4 on average where the variance is
    1 (W in {1/2, 3/2}, y = 2)."""
    device = Scrambling.multiplicative([0.5, 1.5])
    assert device.report_variance(2.0) == pytest.approx(1.0)
    assert np.mean(
        [device.report_variance(r) for r in device.guesses([1.0, 3.0])]
    ) == pytest.approx(1.25)
