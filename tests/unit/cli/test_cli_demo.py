"""`deniable demo`: what it prints, and what it refuses."""

from __future__ import annotations

import io
import json
import sys
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.cli import cli
from deniable.cli.demonstration.live import _bar, _window
from deniable.cli.output import make_console
from deniable.counts import Counts
from deniable.local.datasets import DATASETS
from deniable.local.people import Answers
from deniable.local.simulation import Simulation, demo_query
from deniable.queries.columns.column import Column
from deniable.randomness import seeded_source


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["demo", *arguments])


@pytest.fixture(scope="module")
def told() -> Result:
    """A demonstration of four seconds with three proxies: one run for all tests of what it says."""
    return run(
        "--json",
        "--seconds",
        "4",
        "--population",
        "600",
        "--proxies",
        "3",
        "--dataset",
        "electricity",
    )


@pytest.mark.slow
def test_json_is_exactly_one_object_with_windows_and_the_conservation_statement(
    told: Result,
) -> None:
    assert told.exit_code == 0, told.output
    assert told.stderr == ""
    out = json.loads(told.stdout)
    assert out["epsilon_local"] == pytest.approx(np.log(9))
    assert out["epsilon_sampled"] == pytest.approx(np.log(1 + 0.6 * 8))
    assert out["windows"]
    for window in out["windows"]:
        assert window["end"] - window["start"] == 2
        # of 600 six in ten answer: ten standard deviations on both sides
        assert 600 * 0.4 < window["n"] < 600 * 0.8
        lengths = {
            len(window[name]) for name in ("labels", "estimate", "stderr", "low", "high", "truth")
        }
        assert lengths == {6}
        for low, estimate, high in zip(
            window["low"], window["estimate"], window["high"], strict=True
        ):
            assert low <= min(max(estimate, 0), 1) <= high
        accounts = window["conservation"]["proxies"]
        assert window["conservation"]["balanced"] is True
        assert [account["counted"] for account in accounts.values()] == [window["n"]] * 3
    total = sum(window["n"] for window in out["windows"])
    assert [account["received"] for account in out["conservation"]["proxies"].values()] == [
        total
    ] * 3
    assert out["conservation"]["balanced"] is True


@pytest.mark.slow
def test_the_truth_beside_the_estimates_is_that_of_the_same_people(told: Result) -> None:
    out = json.loads(told.stdout)
    electricity = DATASETS["electricity"]
    newest = np.array([rows[-1][1] for rows in electricity.rows(600, seed=2013)])
    edges = [0, 0.5, 1, 1.5, 2, 2.5, 3]
    counted = [np.mean((newest > low) & (newest <= high)) for low, high in pairwise(edges)]
    counted[0] += np.mean(newest == 0)
    for window in out["windows"]:
        assert window["truth"] == pytest.approx(counted)
        far = np.abs(np.array(window["estimate"]) - counted) / np.array(window["stderr"])
        assert far.max() < 6.5  # false alarm once in 10 billion buckets


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--population", "0"],
            "deniable: --population = 0 must be a whole number from 10 to 1000000\n",
        ),
        (["--seconds", "0"], "deniable: --seconds = 0 must be a whole number from 1 to 86400\n"),
        (["--proxies", "1"], "deniable: --proxies = 1 must be a whole number from 2 to 3\n"),
        (
            ["--dataset", "ships"],
            "deniable: dataset = 'ships' must be one of taxi, electricity, tweets\n",
        ),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)


def test_without_the_services_it_says_which_extra_brings_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run()
    assert result.exit_code == 2
    assert (
        result.stderr == "deniable: deniable demo needs uvicorn: pip install 'deniable[service]'\n"
    )


@pytest.mark.parametrize("name", DATASETS)
def test_every_answer_of_a_dataset_has_a_bucket_and_every_bucket_an_answer(name: str) -> None:
    dataset = DATASETS[name]
    query = demo_query(dataset, 5000)(["one", "two"], 0)
    newest = np.array([rows[-1][1] for rows in dataset.rows(5000, seed=1)])
    indices = query.buckets.index_many([newest])
    assert set(indices.tolist()) == set(range(len(query.buckets)))
    assert Answers(query, indices.reshape(-1, 1).tolist()).truth == pytest.approx(
        np.bincount(indices) / 5000
    )


def test_the_taxis_are_asked_the_papers_eleven_buckets() -> None:
    query = demo_query(DATASETS["taxi"], 10_000)(["one", "two"], 0)
    assert query.labels == (*(f"[{mile},{mile + 1})" for mile in range(10)), "[10,inf)")


def test_a_bar_is_full_to_the_interval_shaded_along_it_and_marked_at_the_truth() -> None:
    assert str(_bar(0.2, 0.5, 0.45, 1.0, 10)) == "██▒▒┃     "
    assert str(_bar(0.0, 0.19, 0.31, 1.0, 10)) == "▒▒ ┃      "
    assert str(_bar(0.9, 1.0, 1.0, 1.0, 10)) == "█████████┃"


def simulated(n: int, clients: int = 1_000_000) -> Simulation:
    """A simulation with one window of so many answers; nothing of it runs."""
    ask = demo_query(DATASETS["taxi"], clients)
    simulation = Simulation(ask, lambda *_: (_ for _ in ()).throw(AssertionError), 2)
    simulation.query, simulation.n_people = (
        ask(["https://one.example", "https://two.example"], 1_700_000_000),
        clients,
    )
    query = simulation.query
    counts = query.mechanism.count(
        query.mechanism.draw(np.zeros(min(n, 1000), dtype=np.intp), seeded_source(1))
    )
    simulation.windows = [
        assemble([query], 0, {PaneKey(query.id, 1, 0, 0): Counts(counts * max(n // 1000, 1), n)})
    ]
    return simulation


@pytest.mark.parametrize("n", [73_000, 491_000, 596_000])
def test_windows_that_the_simulation_was_too_slow_for_are_not_called_complete(n: int) -> None:
    simulation = simulated(n)
    (window,) = simulation.windows
    assert window.condition == "complete"  # to the aggregator, they are people who did not answer
    assert simulation.condition(window) == "short"
    assert simulation.expected(window) == 600_000
    assert (
        "cannot keep up with 1,000,000 clients: 1 of 1 windows are short, by"
        f" {100 * (1 - n / 6e5):.0f} %" in simulation.overload
    )


@pytest.mark.parametrize("n", [598_000, 600_000, 602_000])  # a standard deviation is 490
def test_windows_that_lack_no_more_answers_than_chance_explains_are_complete(n: int) -> None:
    simulation = simulated(n)
    assert simulation.condition(simulation.windows[0]) == "complete"
    assert simulation.overload == ""


@pytest.mark.parametrize("width", [60, 80, 100])
def test_long_labels_are_never_cut_until_they_look_the_same(width: int) -> None:
    places = ("in the city, near the old harbour", "in the city, near the new harbour")
    answers = [
        f"{age} years, {place}, mostly by {way}"
        for age in ("0 to 29", "30 to 99")
        for place in places
        for way in ("car", "bus")
    ]
    simulation = simulated(10_000, 10_000)
    simulation.query = simulation.query.revised(columns=[Column("answer", answers)])
    simulation.truth = np.full(8, 1 / 8)
    mechanism = simulation.query.mechanism
    counts = mechanism.count(mechanism.draw(np.arange(6000) % 8, seeded_source(1)))
    window = assemble(
        [simulation.query],
        0,
        {PaneKey(simulation.query.id, simulation.query.serial, 0, 0): Counts(counts, 6000)},
    )
    out = io.StringIO()
    make_console(file=out, width=width, color_system=None, force_terminal=False).print(
        _window(simulation, window, width)
    )
    _, header, *lines = out.getvalue().splitlines()
    end = header.index("truth") - 2
    shown: list[str] = []
    for line in lines:  # a row begins where there are figures; a folded label goes on below
        label = line[:end].rstrip()
        if "%" in line[end:]:
            shown.append(label)
        else:
            shown[-1] += label
    assert len(shown) == len(set(shown)) == 8
    assert all(text[:7] in answer for text, answer in zip(shown, answers, strict=True))
