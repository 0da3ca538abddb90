"""Every result shows itself: in a notebook, as a frame and as a picture; and a class that does not
is found here."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from deniable import (
    DirectEncoding,
    MultipleChoice,
    OptimizedUnary,
    SquareWave,
    Statistic,
    Table,
    joint,
    seeded_source,
    statistics,
)
from deniable.display import Display, Displayed, pad, text_width
from deniable.errors import ParameterError
from toolkit.displayed import classes, examples

mpl.use("Agg")


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
