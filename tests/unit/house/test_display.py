"""Every result shows itself: in a notebook, as a frame and as a picture; and a class that does not
is found here."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

import deniable
from deniable import (
    BinaryResponse,
    Crosswise,
    DirectEncoding,
    DirectQuestion,
    MultipleChoice,
    OptimizedUnary,
    Rappor,
    SquareWave,
    Statistic,
    Table,
    agreement_test,
    compare,
    compare_groups,
    fit_test,
    guess,
    independence_test,
    joint,
    regress,
    seeded_source,
    statistics,
)
from deniable.aggregator.windows.window import Window
from deniable.audit.deployed.attempts import Attempt, ServiceAudit
from deniable.audit.mechanisms import audit_mechanism
from deniable.audit.rehearsal.rehearsal import Rehearsal, ScenarioOutcome
from deniable.audit.rehearsal.scoring import Accuracy
from deniable.curator.error_laws import NoError
from deniable.curator.law import DiscreteLaplace
from deniable.curator.protection import Protection
from deniable.curator.results import Choice, Grouped, Histogram, Preview, Release
from deniable.display import Display, Displayed, pad, text_width
from deniable.errors import ParameterError
from deniable.estimation.regression.linear import regress_linear
from deniable.graphs import EdgeResponse, Graph, plan_graph
from deniable.graphs.baselines import CuratorRelease
from deniable.planning import Question, compare_designs, design_power, plan_questionnaire
from deniable.release.guarantee import Guarantee
from deniable.release.histogram import ReleasedHistogram
from deniable.reproduce.models import compare_models
from deniable.reproduce.protocols import compare_protocols
from deniable.survey import Survey
from deniable.survey.synthetic import SyntheticSummary

mpl.use("Agg")

ROOMS = (
    "estimation",
    "planning",
    "survey",
    "curator",
    "graphs",
    "release",
    "reproduce",
    "audit",
    "sizing",
    "aggregator.windows",
)
NOT_RESULTS = {"Filter", "Protection", "ExactCheck", "Attempt", "PublishedFigure"}
"""Parts of what was asked or of a result, which print themselves but are not results."""
NASTY = '<script>alert("x")</script> & co'


def classes() -> list[type]:
    """Every public class of these rooms that prints itself."""
    found: list[Any] = []
    for room in ROOMS:
        package = importlib.import_module(f"deniable.{room}")
        names = [package.__name__]
        if hasattr(package, "__path__"):
            names += [
                module.name
                for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
            ]
        for name in names:
            for label, kind in vars(importlib.import_module(name)).items():
                own = (
                    inspect.isclass(kind) and kind.__module__ == name and not label.startswith("_")
                )
                if (
                    own
                    and any("__str__" in vars(base) for base in kind.__mro__[:-1])
                    and dataclasses.is_dataclass(kind)
                ):
                    found.append(kind)
    return [kind for kind in found if kind.__name__ not in NOT_RESULTS]


@cache
def examples() -> dict[type, Any]:
    return {type(example): example for example in made_examples()}


def made_examples() -> list[Any]:
    coins = seeded_source(1)
    survey = DirectEncoding([NASTY, "b", "c"], 2.0)
    answers = [NASTY] * 300 + ["b"] * 500 + ["c"] * 200
    reports = survey.privatize(answers, coins)
    estimate = survey.estimate(reports)
    yes_no = BinaryResponse(epsilon=2.0, labels=("no", NASTY))
    smokes = yes_no.privatize(["no", NASTY] * 500, coins)
    table = joint({"answer": survey, NASTY: yes_no}, {"answer": reports, NASTY: smokes})
    rappor = Rappor(16, 2, 4, 0.25, 0.25, 0.75)
    texts = rappor.privatize([NASTY, "other"] * 300, coins)
    design = Crosswise(p=0.25).estimate_counts([520, 480])
    rng = np.random.default_rng(1)
    age = rng.normal(size=1000)
    protection = Protection()
    release = Release(NASTY, 10.0, 1.0, 100, epsilon=1.0, protection=protection, error=NoError())
    histogram = Histogram(
        labels=(NASTY, "b"),
        proportions=np.array([0.6, 0.4]),
        variance=np.array([1e-4, 1e-4]),
        n=1000,
        mechanism="Laplace",
        epsilon=1.0,
        noisy_counts=np.array([600.0, 400.0]),
        law=DiscreteLaplace(1.0),
        total=1000,
    )
    window = Window(
        NASTY, 1, 0, 1_700_000_000, 1_700_000_060, "complete", 1000, 0, estimate, influence=0.01
    )
    graph = Graph.of([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 0)], nodes=5)
    edges = EdgeResponse(2.0)
    graph_reports = edges.privatize(graph, coins)
    graph_estimate = graph_reports.estimate()
    guarantee = Guarantee.of(1.0, 1e-5, sampling=0.5)
    released = ReleasedHistogram(
        labels=(NASTY, "b"),
        proportions=np.array([0.6, 0.4]),
        variance=np.array([1e-4, 1e-4]),
        n=500,
        population=1000,
        mechanism="release",
        epsilon=1.0,
        kept=np.array([300, 200]),
        guarantee=guarantee,
    )
    questions = [Question(NASTY, ("no", "yes")), Question("age", low=18, high=95, integers=True)]
    regression = regress(yes_no, smokes, age, names=[NASTY])
    accuracy = Accuracy(2, 4, 0.75, 0.11, 0.01, 0.02, NASTY, False, False, False)
    played = ScenarioOutcome(
        "honest",
        NASTY,
        100,
        99,
        1,
        0.0,
        0,
        0,
        {"complete": 2},
        0,
        600,
        {NASTY: 1},
        accuracy,
        None,
        (NASTY,),
    )
    return [
        estimate,
        rappor.estimate(texts, candidates=[NASTY, "other", "absent"]),
        table,
        statistics.mean(
            SquareWave(2.0, 8).estimate(SquareWave(2.0, 8).privatize(rng.random(500), coins))
        ),
        design,
        design.test("pi", 0.5),
        deniable.prevalence_posterior(Crosswise(p=0.25), same=520, n=1000),
        agreement_test(design, DirectQuestion().estimate_counts([900, 100])),
        fit_test(yes_no, smokes),
        independence_test(table),
        compare(estimate, survey.estimate(survey.privatize(answers, coins))),
        compare_groups({NASTY: estimate, "b": estimate}, NASTY),
        SyntheticSummary(
            9, 9, 2.0, {NASTY: "b"}, {NASTY: 0.1, "b": 0.2}, {f"{NASTY} by b": 0.1}, 2.0
        ),
        guess(survey),
        regression,
        regression.wald(NASTY),
        regress_linear((yes_no, smokes), age, names=[NASTY]),
        deniable.plan(population=5000, epsilon=1.0),
        design_power(Crosswise(p=0.25), 0.2, 500),
        compare_designs(0.1, 1.5, direct_denial=0.4),
        deniable.ExtendedCrosswise(0.25).fit(same=(330, 180), n=(500, 500)),
        deniable.pool_imputations([0.3, 0.32], [1e-4, 1e-4], name=NASTY),
        plan_questionnaire(questions, population=5000, epsilon=3.0),
        Survey(1000, {NASTY: estimate}, (table,)),
        release,
        histogram,
        Choice("most frequent", NASTY, 1.0, protection, 2.0, 5),
        Grouped("region", {NASTY: release, "south": release}, 1.0),
        Preview(NASTY, 1.0, 2.0, protection, "Laplace", NoError()),
        CuratorRelease(np.array([3, 5]), Fraction(2), 1.0),
        graph_estimate,
        graph_estimate.edges,
        graph_reports.degree_distribution(),
        plan_graph(500, 2.0, mean_degree=10),
        released,
        compare_protocols(
            [0.5, 0.5], 50, [1.0], trials=2, protocols=["DirectEncoding", "OptimizedUnary"]
        ),
        compare_models(
            {"city": [NASTY] * 600 + ["b"] * 400}, "city", labels=[NASTY, "b"], trials=2
        ),
        audit_mechanism(DirectEncoding(2, 1.0), n=40_000, source=seeded_source(1)),
        window,
        ServiceAudit(
            NASTY,
            (
                Attempt(NASTY, "two tokens", "400", "holds"),
                Attempt("headers", "none", "nothing", "not tried"),
            ),
        ),
        Rehearsal(NASTY, 100, 2, 1, (NASTY, "b"), np.array([0.6, 0.4]), 1, (), (played,)),
    ]


class Reader(HTMLParser):
    """The elements and texts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        assert not any("color" in str(value) or "background" in str(value) for _, value in attrs), (
            "dark pages have other colours"
        )

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_walk_finds_the_results_there_are() -> None:
    names = {kind.__name__ for kind in classes()}
    assert {
        "Estimate",
        "Table",
        "Statistic",
        "DesignEstimate",
        "Regression",
        "Plan",
        "Window",
        "Survey",
    } <= names


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_result_shows_itself(kind: type) -> None:
    assert issubclass(kind, Displayed), (
        f"{kind.__name__} prints itself: let it inherit from Displayed, and say what it shows"
    )
    assert kind in examples(), f"{kind.__name__} has no example here"
    example = examples()[kind]
    page = Reader()
    page.feed(example._repr_html_())
    assert page.tags.count("table") == 1
    assert page.tags.count("tr") >= 2
    assert "script" not in page.tags, "a label was not escaped"
    assert len(example._repr_html_()) < 20_000
    frame = example.to_frame()
    assert len(frame) >= 1
    assert len(example.to_frame(confidence=0.5)) == len(frame)
    figure, ax = plt.subplots()
    try:
        assert example.plot(ax) is ax
        assert ax.has_data()
        figure.canvas.draw()  # which lays out all texts
    finally:
        plt.close("all")


@pytest.mark.parametrize(
    "kind",
    [kind for kind in classes() if hasattr(kind, "interval")],
    ids=lambda kind: kind.__name__,
)
def test_the_limits_of_a_frame_are_those_of_the_confidence(kind: type) -> None:
    wide, narrow = (examples()[kind].to_frame(confidence=confidence) for confidence in (0.99, 0.5))
    if "low" in wide and not wide["low"].equals(wide["high"]):
        assert (wide["high"] - wide["low"] >= narrow["high"] - narrow["low"]).all()
        assert not wide["high"].equals(narrow["high"])


def test_a_label_of_an_estimate_is_a_statistic_with_the_same_interval() -> None:
    survey = OptimizedUnary(["no", "yes"], 2.0)
    estimate = survey.estimate(
        survey.privatize(["yes"] * 30 + ["no"] * 70, seeded_source(1)), population=100
    )
    for made in (estimate, estimate.projected()):
        share = made["yes"]
        assert float(share) == made.proportions[1]
        assert share.interval(0.9) == tuple(made.interval(0.9)[1])
        again = Statistic.from_dict(share.to_dict())
        assert again.interval(0.99) == pytest.approx(share.interval(0.99), rel=1e-12)
    with pytest.raises(ParameterError, match="must be one of no, yes"):
        estimate["maybe"]


def test_of_many_labels_the_largest_come_first() -> None:
    k = 40
    survey = DirectEncoding([f"label {i}" for i in range(k)], 6.0)
    shares = np.arange(1, k + 1) / np.arange(1, k + 1).sum()
    people = np.random.default_rng(1).choice(k, 20_000, p=shares)
    estimate = survey.estimate(survey.privatize([f"label {i}" for i in people], seeded_source(1)))
    lines = str(estimate).splitlines()
    shown = [float(line.split("%")[0].split()[-1]) for line in lines[:20]]
    assert shown == sorted(shown, reverse=True)
    left = np.sort(estimate.proportions)[::-1][20]
    assert lines[20] == f"… and 20 more, each at most {100 * left:.2f} %"
    few = DirectEncoding(["b", "a"], 1.0)
    assert str(few.estimate(["b", "a", "a"] * 20)).startswith("b ")  # a scale keeps its order


def test_a_page_has_every_row_in_a_box_that_scrolls_and_thousands_are_left_to_the_frame() -> None:
    def page(n: int) -> str:
        return Display(("label", "n"), [(f"label {i}", i) for i in range(n)]).to_html()

    assert "overflow" not in page(24)
    reader = Reader()
    reader.feed(page(60))
    assert reader.tags.count("tr") == 61
    assert "label 59" in page(60)
    assert "overflow-y:auto" in page(60)
    assert "more" not in page(2_000)
    assert "… and 500 more, which to_frame() has" in page(2_500)


def test_columns_stay_aligned_whatever_the_script() -> None:
    assert [
        text_width(text)
        for text in ("Oslo", "東京", "ﾄｳｷｮｳ", "e\u0301te\u0301", "한국어", "\u200bx", "👍")
    ] == [
        4,
        4,
        5,
        3,
        6,
        1,
        2,
    ]
    assert pad("東京", 6) == "東京  "
    assert pad("東京", 6, right=True) == "  東京"
    survey = DirectEncoding(["Oslo", "東京", "Me\u0301xico"], 2.0)
    estimate = survey.estimate(["Oslo", "東京", "Me\u0301xico"] * 50)
    lines = str(estimate).splitlines()[:3]
    assert len({text_width(line[: line.index("%")]) for line in lines}) == 1
    table = joint(
        {"city": survey, "town": survey},
        {"city": ["Oslo", "東京"] * 50, "town": ["Me\u0301xico", "東京"] * 50},
    )
    assert len({text_width(line) for line in str(table).splitlines()[1:5]}) == 1


def test_a_table_of_three_axes_is_read_as_tables_of_two() -> None:
    survey = DirectEncoding(["x", "y"], 3.0)
    coins = seeded_source(2)
    columns = {
        name: survey.privatize(["x", "y"] * 500, coins) for name in ("first", "second", "third")
    }
    table = joint(dict.fromkeys(columns, survey), columns)
    lines = str(table).splitlines()
    assert lines[0] == "first = x"
    assert lines[1].strip() == "third, %"
    assert lines[5] == "first = y"
    assert lines[3].split()[1] == f"{100 * table.proportions[0, 0, 0]:.2f}"
    assert lines[9].split()[5] == f"{100 * table.proportions[1, 1, 1]:.2f}"


def test_numbers_are_shown_as_mean_median_and_quartiles() -> None:
    ages = SquareWave.of_integers(4.0, 18, 95)
    people = np.random.default_rng(1).integers(18, 96, 3000)
    estimate = ages.estimate(ages.privatize(people, seeded_source(1)))
    mean, median, *_ = estimate.summary()
    assert mean.value == statistics.mean(estimate).value
    assert median.interval() == statistics.quantile(estimate, 0.5).interval()
    lines = str(estimate).splitlines()
    assert [line.split("  ")[0] for line in lines[:4]] == [
        "mean",
        "median",
        "lower quartile",
        "upper quartile",
    ]
    assert f"{mean.value:.2f}" in lines[0]
    assert estimate.to_frame().shape == (78, 4)  # the frame has every place
    with pytest.raises(ParameterError, match="numbers of a scale"):
        DirectEncoding(2, 1.0).estimate([0, 1]).summary()


def test_long_texts_lie_beside_their_bars() -> None:
    long = ["I agree with all of the above and would say so again", "no"]
    survey = DirectEncoding(long, 2.0)
    upright = DirectEncoding(["yes", "no"], 2.0)
    lying = survey.estimate(long * 50).plot()
    standing = upright.estimate(["yes", "no"] * 50).plot()
    assert [tick.get_text().replace("\n", " ") for tick in lying.get_yticklabels()] == long
    assert [tick.get_text() for tick in standing.get_xticklabels()] == ["yes", "no"]
    widths = [patch.get_width() for patch in lying.patches]
    assert widths == pytest.approx((100 * survey.estimate(long * 50).proportions).tolist())
    plt.close("all")


def test_multiple_choice_is_no_attribute_of_a_table() -> None:
    news = MultipleChoice(["web", "radio"], 2.0)
    survey = DirectEncoding(2, 2.0)
    reports = {"news": news.privatize([["web"]] * 10), "x": survey.privatize([0] * 10)}
    with pytest.raises(ParameterError, match="a person may have several of its labels"):
        joint({"news": news, "x": survey}, reports)
    assert isinstance(Table.of(survey.estimate(reports["x"])), Table)
