"""What is drawn is what is estimated: heights, error bars, truth, cells."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest

import deniable
from deniable import seeded_source
from deniable.errors import ParameterError
from deniable.estimation.plots import draw_survey, plot_table

mpl.use("agg")
import matplotlib.pyplot as plt

CITY = deniable.DirectEncoding(["Oslo", "Paris", "Rome"], 2.0)


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def estimate() -> deniable.Estimate:
    return CITY.estimate(CITY.privatize(["Oslo"] * 500 + ["Rome"] * 50, seeded_source(1)))


def table() -> deniable.Table:
    smokes = deniable.BinaryResponse(0.5, 0.5)
    values = np.arange(600)
    return deniable.joint(
        {"city": CITY, "smokes": smokes},
        {
            "city": CITY.privatize([CITY.labels[v % 3] for v in values], seeded_source(1)),
            "smokes": smokes.privatize(values % 2, seeded_source(2)),
        },
    )


def test_bars_are_as_high_as_the_shares_and_error_bars_as_long_as_the_intervals() -> None:
    shares = estimate()
    ax = shares.plot(confidence=0.9)
    assert [bar.get_height() for bar in ax.patches] == pytest.approx(100 * shares.proportions)
    (bars,) = (c for c in ax.collections if len(c.get_segments()) == 3)
    drawn = np.array([[segment[0][1], segment[1][1]] for segment in bars.get_segments()])
    np.testing.assert_allclose(drawn, 100 * shares.interval(0.9), atol=1e-9)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["Oslo", "Paris", "Rome"]


def test_the_truth_is_laid_over_where_it_is_given() -> None:
    ax = estimate().plot(truth=[0.9, 0.0, 0.1])
    marks = next(line for line in ax.lines if line.get_label() == "truth")
    assert marks.get_ydata() == pytest.approx([90, 0, 10])
    with pytest.raises(ParameterError, match="truth"):
        estimate().plot(truth=[0.5, 0.5])


def test_a_heat_map_has_the_tables_cells() -> None:
    shares = table()
    ax = shares.plot()
    np.testing.assert_allclose(ax.images[0].get_array(), 100 * shares.proportions)
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("city", "smokes")
    assert f"{100 * shares.proportions[0, 0]:.1f}" in ax.texts[0].get_text()
    with pytest.raises(ParameterError, match="two axes"):
        plot_table(shares.marginal("city"))


def test_many_labels_are_named_in_part() -> None:
    many = deniable.OptimizedUnary(200, 3.0)
    ax = many.estimate(many.privatize(np.arange(1000) % 200, seeded_source(1))).plot()
    names = [tick.get_text() for tick in ax.get_xticklabels()]
    assert len(names) <= 40
    assert names[1] == str(int(ax.get_xticks()[1]))


def test_a_survey_has_a_panel_for_each_column_and_table_of_two_axes() -> None:
    figure = draw_survey({"city": estimate()}, [table(), table().marginal("city")])
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert len(titles) == 2
    assert titles[0].startswith("city: 550 reports")
    assert titles[1].startswith("city by smokes: 600 reports")


def pictured(k: int, long: bool) -> deniable.Estimate:
    labels = [f"an answer of some length, {i}" if long else f"v{i}" for i in range(k)]
    asked = deniable.OptimizedUnary(labels, 4.0)
    # bars of the same height leave no place between them
    return asked.estimate(asked.privatize(labels * (6_000 // k), seeded_source(1)))


@pytest.mark.parametrize(("k", "long"), [(2, False), (5, False), (24, False), (30, True)])
def test_no_name_hides_a_bar_or_another_name(k: int, long: bool) -> None:
    ax = pictured(k, long).plot(truth=[1 / k] * k)
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert ax.figure.bbox.x0 <= legend.x0 < legend.x1 <= ax.figure.bbox.x1
    assert not any(legend.overlaps(bar.get_window_extent()) for bar in ax.patches)
    for axis in (ax.xaxis, ax.yaxis):
        names = [label for label in axis.get_ticklabels() if label.get_text()]
        boxes = [label.get_window_extent() for label in names if label.get_rotation() == 0]
        inside = [box.padded(-1) for box in boxes]
        assert not any(a.overlaps(b) for a, b in pairwise(inside))
