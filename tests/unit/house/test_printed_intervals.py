"""What is printed is the interval, and it covers as often as the line below it says.

Coverage is computed without sampling: every possible count is printed, the limits are read from the
text, and the probabilities of the counts whose limits contain the truth are added up.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from deniable import (
    BinaryResponse,
    Crosswise,
    DirectEncoding,
    DirectQuestion,
    Estimate,
    ExtendedCrosswise,
    ItemCount,
    ItemSum,
    Kuk,
    LocalHashing,
    Mangat,
    Mechanism,
    OptimizedUnary,
    SquareWave,
    Tally,
    Triangular,
    UnrelatedQuestion,
    Warner,
    agreement_test,
    combine,
    compare,
    joint,
    regress,
    regress_linear,
    seeded_source,
    stratified,
)
from deniable.curator import Curator
from deniable.curator.results import Histogram
from deniable.estimation.regression.result import Regression
from deniable.estimation.tables.statistics import mean
from deniable.graphs import EdgeResponse

LIMITS = re.compile(r"([-+]?[\d,]+\.?\d*) to ([-+]?[\d,]+\.?\d*)")
HALF_A_DIGIT = 0.5e-4 + 1e-12  # two decimals of a percentage


def printed_limits(text: str) -> list[tuple[float, float]]:
    return [
        (float(low.replace(",", "")), float(high.replace(",", "")))
        for low, high in LIMITS.findall(text)
    ]


def covered(texts: Sequence[str], chances: Any, truth: float, row: int = 0) -> tuple[float, bool]:
    """The coverage of the printed limits, and whether "at least" is said."""
    limits = np.array([printed_limits(text)[row] for text in texts]) / 100
    inside = (limits[:, 0] - HALF_A_DIGIT <= truth) & (truth <= limits[:, 1] + HALF_A_DIGIT)
    said = {"cover at least 95 %" in text for text in texts}
    assert len(said) == 1, "what is said must not depend on the counts"
    return float(np.asarray(chances)[inside].sum()), said.pop()


def holds(coverage: float, at_least: bool) -> bool:
    return coverage >= 0.945 if at_least else 0.935 <= coverage <= 0.97


DESIGNS = [
    (Triangular("1/4"), 200, 0.98),  # 80.0 % when ± was the normal one
    (Triangular("1/4"), 200, 0.99),  # 77.7 %
    (Mangat("3/5"), 500, 0.99),  # 79.8 %
    (DirectQuestion(), 500, 0.01),  # 87.1 %
    (DirectQuestion(), 30, 0.05),  # 78 %
    (UnrelatedQuestion("7/10", "1/4"), 30, 0.05),  # 85.3 %
    (Warner("7/10"), 300, 0.02),
    (Crosswise("1/6"), 120, 0.5),
]


@pytest.mark.parametrize(("design", "n", "pi"), DESIGNS, ids=str)
def test_a_design_prints_limits_that_cover_as_often_as_it_says(
    design: Any, n: int, pi: float
) -> None:
    chances = stats.binom.pmf(np.arange(n + 1), n, design.rates(pi)[1])
    texts = [str(design.estimate_counts([n - count, count])) for count in range(n + 1)]
    assert holds(*covered(texts, chances, pi))


ESTIMATES = [
    (OptimizedUnary(4, 8.0), 30, 0.02),  # 26 to 46 % when ± was the normal one
    (LocalHashing(4, 8.0), 30, 0.02),
    (DirectEncoding(4, 8.0), 30, 0.02),
    (DirectEncoding(4, 8.0), 30, 0.2),  # 67 to 80 %
    (DirectEncoding(3, 6.0), 200, 0.005),  # 77.5 %
    (OptimizedUnary(8, 6.0), 200, 0.0),
    (OptimizedUnary(4, 3.0), 60, 0.01),  # 85 %
    (OptimizedUnary(4, 1.0), 300, 0.01),
    (BinaryResponse(0.5, 0.5), 120, 0.3),
]


@pytest.mark.parametrize(("mechanism", "n", "share"), ESTIMATES, ids=str)
def test_an_estimate_prints_limits_that_cover_as_often_as_it_says(
    mechanism: Mechanism, n: int, share: float
) -> None:
    support = mechanism.support()
    assert support is not None
    a, b = float(support[0][0]), float(support[1][0])
    chances = stats.binom.pmf(np.arange(n + 1), n, b + (a - b) * share)
    others = len(mechanism.labels) - 1
    texts = []
    for count in range(n + 1):
        rest = [(n - count) // others] * others
        texts.append(str(Tally(mechanism, np.array([count, *rest]), n).estimate()))
    coverage, at_least = covered(texts, chances, share)
    # nobody is below 0: one side cannot miss
    assert holds(coverage, at_least) or (share == 0 and coverage >= 0.97)


@pytest.mark.parametrize("population", [300, 1_000, 5_000])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.05, 0.5])
def test_rare_reports_of_a_finite_population_cover_at_least_as_stated(
    population: int, share: float
) -> None:
    """Everybody is asked and the coins rarely lie: only the coins' few errors are left."""
    mechanism, holders = OptimizedUnary(4, 5.0), round(share * population)
    support = mechanism.support()
    assert support is not None
    a, b = float(support[0][0]), float(support[1][0])
    honest = stats.binom.pmf(np.arange(holders + 1), holders, a)
    lying = stats.binom.pmf(np.arange(population - holders + 1), population - holders, b)
    chances = np.convolve(honest, lying)
    counts = np.flatnonzero(chances > 1e-9)
    tallies = [
        Tally(mechanism, np.array([count, 0, 0, 0]), population).estimate(population=population)
        for count in counts
    ]
    limits = np.array([estimate.interval()[0] for estimate in tallies])
    inside = (limits[:, 0] <= holders / population) & (holders / population <= limits[:, 1])
    assert bool(tallies[0].covers_more()[0]) == (population * b * (1 - b) < 10)
    assert chances[counts][inside].sum() >= (0.945 if tallies[0].covers_more()[0] else 0.935)


# --- where reports do not simply support labels


def matrix_coverage(mechanism: Any, shares: Any, n: int, trials: int) -> tuple[Any, Any]:
    """How often the interval of each label holds its share, and whether it says "at least"."""
    rng, channel, true = np.random.default_rng(3), mechanism.channel(), np.array(shares)
    held = np.zeros(true.size)
    for counts in rng.multinomial(n, channel @ true, trials):
        estimate = Tally(mechanism, counts, n).estimate()
        low, high = estimate.interval().T
        held += (low <= true) & (true <= high)
    return held / trials, estimate.covers_more()


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_empty_cells_of_a_matrix_are_covered(epsilon: float) -> None:
    """89.6 % by the normal interval at epsilon 4. 800 crowds: three standard errors are 2.3
    points."""
    covered, at_least = matrix_coverage(
        SquareWave(epsilon, 8), [0, 0, 0.1, 0.4, 0.4, 0.1, 0, 0], 500, 800
    )
    assert (covered >= 0.927).all()
    assert (covered[2:6][~at_least[2:6]] <= 0.973).all()
    assert at_least.all() == (epsilon == 4.0)


@pytest.mark.parametrize("method", ["moment", "ml"])
@pytest.mark.parametrize(("n", "pi"), [(200, 0.05), (500, 0.95)])
def test_several_draws_from_kuks_decks_cover_near_the_edge(method: str, n: int, pi: float) -> None:
    """92.1 % at 5 % of 200 people, by maximum likelihood. 800 surveys: three standard errors are
    2.3 points."""
    design, rng = Kuk(0.8, 0.3, draws=5), np.random.default_rng(4)
    found = [
        design.estimate_counts(row, method=method).interval()[0]
        for row in rng.multinomial(n, design.rates(pi), 800)
    ]
    low, high = np.array(found).T
    assert 0.927 <= ((low <= pi) & (pi <= high)).mean() <= 0.973


def test_combined_batches_of_few_people_cover_rare_labels() -> None:
    """60 + 60 people: 93.2 %, a label of 5 % 89.2 %. 800 pairs of batches: three standard errors
    are 2.3 points."""
    mechanisms, rng, true = (
        (OptimizedUnary(4, 2.0), OptimizedUnary(4, 3.0)),
        np.random.default_rng(5),
        np.array([0.5, 0.3, 0.15, 0.05]),
    )
    held = np.zeros(4)
    for _ in range(800):
        parts = []
        for mechanism in mechanisms:
            a, b = mechanism.support()
            having = rng.multinomial(60, true)
            parts.append(
                Tally(
                    mechanism, rng.binomial(having, a) + rng.binomial(60 - having, b), 60
                ).estimate()
            )
        both = combine(parts)
        low, high = both.interval().T
        held += (low <= true) & (true <= high)
    assert both.covers_more().all()
    assert (held / 800 >= 0.927).all()


@pytest.mark.parametrize("unequal", [False, True], ids=["equal strata", "unequal strata"])
@pytest.mark.parametrize(
    ("strata", "people", "epsilon", "share"),
    [
        (40, 2, 40.0, 0.005),
        (40, 5, 6.0, 0.0),
        (10, 10, 6.0, 0.005),
        (2, 40, 6.0, 0.02),
        (200, 2, 1.0, 0.1),
        (40, 5, 1.0, 0.01),
    ],
)
def test_a_rare_label_of_small_strata_is_covered(
    strata: int, people: int, epsilon: float, share: float, unequal: bool
) -> None:
    """The score interval of the sum alone covers down to 79 %. 4,000 surveys: four standard errors
    are 1.4 points."""
    rng, trials, a = np.random.default_rng(8), 4_000, 1 / (1 + math.exp(-epsilon))
    sizes = np.round(1e4 * np.exp(rng.normal(0, 0.8 * unequal, strata)))
    truths = share * np.linspace(0.1, 1.9, strata)
    support, parts = (np.full(trials, a), np.full(trials, 1 - a)), []
    for truth in truths:
        rate = rng.binomial(people, (1 - a) + (2 * a - 1) * truth, trials) / people
        found, variance = (
            (rate - (1 - a)) / (2 * a - 1),
            rate * (1 - rate) / (people - 1) / (2 * a - 1) ** 2,
        )
        parts.append(Estimate(tuple(range(trials)), found, variance, people, support=support))
    whole = stratified(parts, sizes.tolist())
    (low, high), truth = whole.interval().T, sizes @ truths / sizes.sum()
    covered, at_least = ((low <= truth) & (truth <= high)).mean(), whole.covers_more()
    assert at_least.all() if epsilon > 2 else not at_least.any()
    assert 0.936 <= covered <= (1.0 if epsilon > 2 else 0.964)


# --- every printed form


def a_graph() -> Any:
    return EdgeResponse(2.0).privatize(nx.karate_club_graph(), seeded_source(4)).estimate()


def coins(seed: int = 3) -> Any:
    return seeded_source(seed)


def an_estimate() -> Any:
    drinks = DirectEncoding(["tea", "coffee", "none"], 2.0)
    return drinks.estimate(
        drinks.privatize(["tea"] * 300 + ["coffee"] * 500 + ["none"] * 200, coins())
    )


def a_binary(yes: int, seed: int) -> Any:
    survey = BinaryResponse(0.5, 0.5)
    return survey.estimate(survey.privatize([1] * yes + [0] * (800 - yes), coins(seed)))


def a_regression(linear: bool) -> Any:
    rng = np.random.default_rng(3)
    age, survey = rng.normal(size=600), BinaryResponse(0.8, 0.5)
    reports = survey.privatize((rng.random(600) < 1 / (1 + np.exp(-age))).astype(int), coins())
    if linear:
        return regress_linear(age + rng.normal(size=600), randomized={"used": (survey, reports)})
    return regress(survey, reports, age[:, None], names=["age"])


def a_table() -> Any:
    first, second = BinaryResponse(0.7, 0.5), DirectEncoding(["a", "b"], 2.0)
    people = [0] * 400 + [1] * 400
    reports = {
        "one": first.privatize(people, coins(1)),
        "two": second.privatize(["a", "b"] * 400, coins(2)),
    }
    return joint({"one": first, "two": second}, reports)


def a_curator() -> Any:
    return Curator({"age": [20.0, 30.0, 40.0] * 100, "city": ["Oslo", "Rome", "Bern"] * 100}, 10)


RESULTS: dict[str, Callable[[], Any]] = {
    "estimate": an_estimate,
    "projected": lambda: an_estimate().projected(),
    "share": lambda: an_estimate()["tea"],
    "numbers": (
        lambda: SquareWave(2.0, 16).estimate(
            SquareWave(2.0, 16).privatize([0.3, 0.7] * 500, coins())
        )
    ),
    "mean": lambda: mean(
        SquareWave(2.0, 16).estimate(SquareWave(2.0, 16).privatize([0.3, 0.7] * 500, coins()))
    ),
    "comparison": lambda: compare(a_binary(300, 1), a_binary(200, 2)),
    "design": lambda: Crosswise("1/6").estimate_counts(same=512, n=730),
    "parameter": lambda: Crosswise("1/6").estimate_counts(same=512, n=730)["pi"],
    "extended crosswise": (
        lambda: ExtendedCrosswise("1/4").estimate_counts(same=(325, 175), n=(500, 500))
    ),
    "item sum": (
        lambda: ItemSum().estimate(
            long=[12, 9, 15, 20, 7, 11] * 20, short=[8, 10, 9, 6, 12, 7] * 20
        )
    ),
    "two lists": (
        lambda: ItemCount(3).estimate_two_lists(
            first=[[2, 1], [3, 2], [1, 1]] * 20, second=[[1, 2], [2, 2]] * 30
        )
    ),
    "strata": lambda: stratified([a_binary(300, 1), a_binary(200, 2)], [4_000, 1_000]),
    "agreement": lambda: agreement_test(
        Crosswise("1/4").estimate_counts(same=198, n=310),
        DirectQuestion().estimate_counts(yes=7, n=96),
    ),
    "logistic regression": lambda: a_regression(linear=False),
    "linear regression": lambda: a_regression(linear=True),
    "table": a_table,
    "graph": a_graph,
    "curated mean": lambda: a_curator().mean("age", epsilon=1, bounds=(0, 100)),
    "curated histogram": (
        lambda: a_curator().histogram("city", epsilon=1, labels=["Oslo", "Rome", "Bern"])
    ),
}


def limits_of(result: Any) -> np.ndarray[Any, Any]:
    """All limits of a result, one row each."""
    display = result._display()
    rows = [dict(zip(display.columns, row, strict=True)) for row in display.rows]
    return np.array(
        [(row["low"], row["high"]) for row in rows if row["low"] is not None], dtype=float
    )


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_every_result_prints_the_ends_of_its_interval_in_text_page_and_plot(
    make: Callable[[], Any],
) -> None:
    result = make()
    limits, text = limits_of(result), str(result)
    assert "±" not in text + result._repr_html_()
    counted = isinstance(result, Histogram)  # prints counts, where the frame has proportions
    expected = result.count_interval() if counted else limits
    shown = printed_limits(text)
    assert shown
    for pair in shown:  # each printed pair is an interval of the result, in its unit or in percent
        digits = 10.0 ** (math.floor(math.log10(max(np.ptp(pair), 1e-6))) - 1)
        assert min(np.abs(f * expected - pair).max(axis=1).min() for f in (1, 100)) <= digits
    drawn = np.array([[bar.low, bar.high] for bar in result._display().bars if bar.low is not None])
    assert any(np.allclose(drawn, f * limits) for f in (1, 100))


@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_every_document_has_the_same_limits_and_says_whether_they_cover_more(
    make: Callable[[], Any],
) -> None:
    result = make()
    described = result.summary() if getattr(result, "numeric", False) else [result]
    document = json.loads(json.dumps([part.to_dict() for part in described]))
    assert [
        type(part).from_dict(read) for part, read in zip(described, document, strict=True)
    ] == list(described)
    found = [part for part in _parts(document) if {"low", "high"} <= set(part)]
    assert found
    ends = np.concatenate([np.ravel([part["low"], part["high"]]) for part in found]).astype(float)
    assert np.isclose(limits_of(result).ravel()[:, None], ends, rtol=1e-9).any(axis=1).all()
    # whose document has `conservative`
    if "at least 95 %" in str(result) and not isinstance(result, Regression):
        assert any(
            np.any(part.get("covers_more", part.get("conservative", False))) for part in found
        )


def _parts(document: Any) -> list[dict[str, Any]]:
    """All objects in a document."""
    if isinstance(document, list):
        return [part for each in document for part in _parts(each)]
    if isinstance(document, dict):
        return [document, *(part for each in document.values() for part in _parts(each))]
    return []


def test_a_table_is_drawn_with_the_limits_of_its_cells() -> None:
    table = a_table()
    texts = [printed_limits(text.get_text())[0] for text in table.plot().texts]
    np.testing.assert_allclose(texts, 100 * table.interval().reshape(-1, 2), atol=0.051)
