"""New cuts of old answers: each is what the direct way gives, exactly, and nobody pays for any of
them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.answer import STATEMENT
from deniable.aggregator.history.report_files import STEPS
from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.step import Step
from deniable.aggregator.windows.granules import form_granules
from deniable.counts import Counts
from deniable.errors import DeniableError, NoReportsError, ParameterError
from deniable.estimation.tables.merging import merged
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from deniable.queries.times import iso_time
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, minute_query
from toolkit.devices import asked, at, make_device, opened, signed
from toolkit.histories import FiledHistory

DAY = 86400
MIDNIGHT = ORIGIN // DAY * DAY  # a Tuesday, 2023-11-14
HOURS = Schedule(origin=MIDNIGHT, expires=MIDNIGHT + 90 * DAY, every=3600, window=DAY, slide=DAY)
COLUMNS = [
    Column("colour", ["red", "blue"], other=True),
    Column("miles", ["[0,1)", "[1,2)", "[2,5)"], other=True),
]
DAYS = 14


def two_weeks() -> Query:
    strata = [Stratum("town", population=4000), Stratum("land", population=1000)]
    return minute_query(
        schedule=HOURS,
        columns=COLUMNS,
        mechanism={"name": "TwoCoin", "p": 0.8, "q": 0.5},
        strata=strata,
        minimum_cohort=1,
    )


@pytest.fixture(scope="module")
def filed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FiledHistory]:
    """Two weeks of hourly epochs, 60,000 reports: more red on weekends, more miles at noon. Half in
    files. Seed 8."""
    found = FiledHistory(tmp_path_factory.mktemp("weeks"), [two_weeks()])
    rng, source = np.random.default_rng(8), seeded_source(8)
    for half, days in enumerate((range(7), range(7, 14))):
        epochs = np.sort(rng.integers(days[0] * 24, (days[-1] + 1) * 24, 30_000))
        weekend, noon = (epochs // 24 + 1) % 7 >= 5, abs(epochs % 24 - 12) < 3
        colour = (rng.random(30_000) > np.where(weekend, 0.7, 0.4)) * rng.integers(1, 3, 30_000)
        miles = np.where(noon, rng.integers(2, 4, 30_000), rng.integers(0, 4, 30_000))
        found.file(
            found.versions[0], colour * 4 + miles, epochs, rng.integers(0, 2, 30_000), source
        )
        if not half:
            found.publish()
    found.now = MIDNIGHT + DAYS * DAY
    yield found
    found.close()


def day(n: int) -> str:
    return str(MIDNIGHT + n * DAY)


def test_an_answer_is_that_of_the_counts_and_says_what_it_rests_on_and_costs(
    filed: FiledHistory,
) -> None:
    found, counts = filed.ask(), filed.ask(source="panes")
    assert (found["n_reports"], found["scanned"], found["fraction"]) == (60_000, 60_000, 1.0)
    assert (found["epsilon_spent"], found["statement"]) == (0, STATEMENT)
    assert "nobody's epsilon grew" in STATEMENT
    for name in ("labels", "estimate", "stderr", "low", "high", "n", "covariance"):
        assert found[name] == counts[name]
    assert (found["start"], found["end"]) == (MIDNIGHT, MIDNIGHT + DAYS * DAY)


def test_a_period_is_cut_to_whole_epochs_and_the_answer_names_them(filed: FiledHistory) -> None:
    found = filed.ask(**{"from": str(MIDNIGHT + 1800), "to": str(MIDNIGHT + 3 * 3600 + 59)})
    assert (found["start"], found["end"]) == (MIDNIGHT + 3600, MIDNIGHT + 3 * 3600)
    panes = filed.counted()
    assert (
        found["n_reports"]
        == found["scanned"]
        == sum(pane.n for key, pane in panes.items() if key.epoch in (1, 2))
    )


def test_merged_buckets_are_what_a_mechanism_of_the_coarser_ones_would_estimate() -> None:
    """DirectEncoding's unbiased estimate of a union is linear in its counts: the variance of the
    rest of 1 must be the same."""
    mechanism = DirectEncoding(["a", "b", "c", "d"], 1.5)
    estimate = mechanism.estimate(
        mechanism.privatize(["a", "b", "c", "d"] * 500, seeded_source(2)), population=5000
    )
    three = merged(estimate, [("abc", [0, 1, 2]), ("d", [3])])
    assert three.proportions == pytest.approx(
        [1 - estimate.proportions[3], estimate.proportions[3]], abs=1e-12
    )
    assert three.variance == pytest.approx([estimate.variance[3]] * 2, rel=1e-9)
    assert (
        merged(estimate, [("D", [3]), ("A", [0])]).interval().tolist()
        == estimate.interval()[[3, 0]].tolist()
    )
    with pytest.raises(ParameterError, match="must merge at least one of the 4 labels"):
        merged(estimate, [("x", [4])])


@pytest.mark.slow
def test_coarser_buckets_add_up_and_marginals_are_sums_over_the_other_column(
    filed: FiledHistory,
) -> None:
    whole, miles = filed.ask(), filed.ask(marginal="miles")
    assert miles["labels"] == ["[0,1)", "[1,2)", "[2,5)", "other"]
    table = np.array(whole["estimate"]).reshape(3, 4)
    assert miles["estimate"] == pytest.approx(table.sum(axis=0), abs=1e-12)
    covariance = np.array(whole["covariance"]).reshape(3, 4, 3, 4)
    assert np.square(miles["stderr"]) == pytest.approx(np.einsum("ijkj->j", covariance), rel=1e-9)
    short = filed.ask(marginal="miles", merge=["[0,2)"])
    assert short["labels"] == ["[0,2)", "[2,5)", "other"]
    assert short["estimate"][0] == pytest.approx(sum(miles["estimate"][:2]), abs=1e-12)
    named = filed.ask(marginal="colour", merge=["cold=blue|other"])
    assert named["labels"] == ["red", "cold"]
    pairs = filed.ask(marginal="miles", merge="2")
    assert pairs["labels"] == ["[0,2)", "[2,5)", "other"]


def test_conditionals_are_ratios_with_the_error_of_a_ratio(filed: FiledHistory) -> None:
    """The delta method against 20,000 draws from the estimate's own law (seed 4): 5 % off at most,
    the draws' own error 1 %."""
    whole, found = filed.ask(), filed.ask(given="colour")
    assert [part["name"] for part in found["parts"]] == [
        "colour = red",
        "colour = blue",
        "colour = other",
    ]
    table = np.array(whole["estimate"]).reshape(3, 4)
    draws = (
        np.random.default_rng(4)
        .multivariate_normal(whole["estimate"], whole["covariance"], 20_000)
        .reshape(-1, 3, 4)
    )
    for row, part in enumerate(found["parts"]):
        assert part["estimate"] == pytest.approx(table[row] / table[row].sum(), abs=1e-12)
        ratios = draws[:, row] / draws[:, row].sum(axis=1, keepdims=True)
        assert np.array(part["stderr"]) == pytest.approx(ratios.std(axis=0), rel=0.05)


@pytest.mark.parametrize(("by", "n"), [("hour", 24), ("weekday", 7), ("day", 14), ("stratum", 2)])
def test_parts_of_a_period_hold_its_reports_between_them_and_no_others(
    filed: FiledHistory, by: str, n: int
) -> None:
    found = filed.ask(by=by)
    assert len(found["parts"]) == n
    assert sum(part["n"] for part in found["parts"]) == 60_000
    for part in found["parts"]:
        assert part["condition"] == "complete"
    first = found["parts"][0]
    keys = {
        "hour": lambda key: key.epoch % 24 == 0,
        "weekday": lambda key: key.epoch // 24 % 7 == 6,  # Monday; the first day is a Tuesday
        "day": lambda key: key.epoch < 24,
        "stratum": lambda key: key.stratum == 0,
    }
    names = {"hour": "00:00", "weekday": "Monday", "day": "2023-11-14", "stratum": "town"}
    assert first["name"] == names[by]
    assert first["n"] == sum(pane.n for key, pane in filed.counted().items() if keys[by](key))
    if by == "day":
        alone = filed.ask(**{"from": day(0), "to": day(1)})
        assert first["estimate"] == alone["estimate"]
        assert first["low"] == alone["low"]


def test_a_part_of_too_few_answers_is_withheld(tmp_path: Path) -> None:
    query = minute_query(schedule=HOURS, minimum_cohort=50)
    found = FiledHistory(tmp_path, [query])
    found.file(query, np.full(60, 3), np.repeat([0, 24], [55, 5]), 0, seeded_source(1))
    parts = found.ask(by="day")["parts"]
    assert [(part["n"], part["condition"], "estimate" in part) for part in parts] == [
        (55, "complete", True),
        (0, "withheld", False),
    ]
    with pytest.raises(
        NoReportsError,
        match=r"0 answers from 2023-11-15T.*; at least 50 are needed: 5 reports are held",
    ):
        found.ask(**{"from": day(1)})
    found.close()


@pytest.mark.slow
def test_a_difference_between_periods_is_the_comparison_of_their_estimates(
    filed: FiledHistory,
) -> None:
    parameters = {
        "from": day(7),
        "to": day(14),
        "against_from": day(0),
        "against_to": day(7),
        "marginal": "colour",
    }
    found = filed.ask(**parameters)
    reader = filed.reader()
    first = reader.answer(
        HistoryRequest.from_parameters({"from": day(7), "to": day(14), "marginal": "colour"})
    )
    second = reader.answer(
        HistoryRequest.from_parameters({"from": day(0), "to": day(7), "marginal": "colour"})
    )
    difference = found["against"]["difference"]
    assert difference["difference"] == pytest.approx(
        np.array(first["estimate"]) - second["estimate"], abs=1e-12
    )
    assert np.square(difference["stderr"]) == pytest.approx(
        np.square(first["stderr"]) + np.square(second["stderr"]), rel=1e-9
    )
    assert difference["n"] == [30_000, 30_000]
    assert 0 <= difference["overall"]["p"] <= 1
    wider = filed.ask(**parameters, simultaneous="true")["against"]["difference"]
    assert np.all(np.array(wider["high"]) > np.array(difference["high"]))
    by_weekday = filed.ask(**parameters, by="weekday")["against"]["parts"]
    assert [part["name"] for part in by_weekday][:2] == ["Monday", "Tuesday"]


def test_a_trend_is_the_weighted_line_through_the_days(filed: FiledHistory) -> None:
    found = filed.ask(by="day", marginal="colour")
    days, n = np.arange(DAYS), np.array([part["n"] for part in found["parts"]])
    for label in range(3):
        estimates = [part["estimate"][label] for part in found["parts"]]
        line = np.polynomial.polynomial.polyfit(days, estimates, 1, w=np.sqrt(n))
        assert found["trend"]["slope_per_day"][label] == pytest.approx(line[1], rel=1e-6)
    assert filed.ask(by="hour")["trend"] is None


@pytest.mark.slow
def test_a_fraction_a_time_and_a_margin_read_as_much_as_they_say(filed: FiledHistory) -> None:
    tenth = filed.ask(fraction="0.1")
    assert tenth["fraction"] == pytest.approx(0.1)
    # binomial, six standard errors
    assert abs(tenth["scanned"] - 6000) < 6 * np.sqrt(60_000 * 0.09)
    whole = filed.ask()
    assert np.mean(np.array(tenth["stderr"]) / whole["stderr"]) == pytest.approx(
        np.sqrt(10), rel=0.1
    )
    assert filed.ask(seconds="60")["fraction"] == 1.0
    reach = (np.array(whole["high"]) - whole["low"]).max() / 2
    wanted = filed.ask(margin=str(2 * reach))
    assert (np.array(wanted["high"]) - wanted["low"]).max() / 2 <= 2 * reach * 1.001
    assert 0.15 < wanted["fraction"] < 0.6  # a quarter of the reports would do
    parts = filed.ask(margin="0.05", by="weekday", marginal="colour")["parts"]
    assert max((np.array(part["high"]) - part["low"]).max() / 2 for part in parts) <= 0.05 * 1.001
    missed = filed.ask(margin=str(reach / 2))
    assert missed["fraction"] == 1.0
    assert "all reports were read, and give ±" in missed["reading"][0]


def test_no_two_fractions_differ_by_fewer_reports_than_the_minimum_cohort(tmp_path: Path) -> None:
    """Three hours of 1,000 reports and a cohort of 50: a part of 1 % would be ten, and so would the
    next 1 %."""
    query = minute_query(
        schedule=dataclasses.replace(HOURS, window=3600, slide=3600), minimum_cohort=50
    )
    found = FiledHistory(tmp_path, [query])
    found.file(
        query, np.zeros(3000, dtype=np.intp), np.repeat(np.arange(3), 1000), 0, seeded_source(6)
    )
    periods = [
        {"from": str(MIDNIGHT + a * 3600), "to": str(MIDNIGHT + b * 3600)}
        for a, b in ((0, 1), (1, 2), (2, 3), (0, 3))
    ]
    for period in periods:
        answers = [
            found.ask(**period, fraction=str(percent / 100)) for percent in (*STEPS, 1.1, 3, 99)
        ]
        sizes = sorted({0, *(answer["scanned"] for answer in answers)})
        assert sizes[-1] == answers[0]["n_reports"]
        assert np.diff(sizes).min() >= 50
        assert answers[0]["fraction"] >= 0.05
        assert "where 1 % were asked for" in answers[0]["reading"][0]
        # 200 of 1,000 and so on are enough
        assert [answer["fraction"] for answer in answers[4:7]] == [0.2, 0.5, 1.0]
    found.close()


def test_parts_and_periods_that_cut_a_group_of_small_epochs_leave_it_out(tmp_path: Path) -> None:
    """
    hour       0    1    2    3         cohort 50
    reports   30   30   70   80
    granules  [-------) [--) [--)
    """
    query = minute_query(schedule=HOURS, minimum_cohort=50)
    found = FiledHistory(tmp_path, [query])
    found.file(
        query, np.arange(210) % 12, np.repeat(np.arange(4), [30, 30, 70, 80]), 0, seeded_source(6)
    )
    parts = found.ask(by="hour")["parts"]
    assert [(part["n"], part["condition"]) for part in parts] == [
        *((0, "withheld"), (0, "withheld"), (70, "complete"), (80, "complete")),
    ]
    late = found.ask(**{"from": str(MIDNIGHT + 3600)})
    assert (late["n_reports"], late["scanned"], late["held_back"]) == (150, 150, 30)
    assert "30 reports are held back" in late["reading"][0]
    assert found.ask()["held_back"] == 0
    found.close()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"fraction": "0"}, r"fraction = 0\.0 must be a number above 0 and at most 1"),
        ({"fraction": "nan"}, "fraction = nan must be"),
        ({"fraction": "x"}, "fraction = 'x' must be a number"),
        ({"seconds": "-1"}, r"seconds = -1\.0 must be"),
        ({"margin": "1"}, r"margin = 1\.0 must be a number strictly between"),
        ({"fraction": "0.5", "margin": "0.1"}, "fraction and margin = .* cannot be combined"),
        ({"confidence": "1"}, "confidence = 1.0 must lie strictly between 0 and 1"),
        ({"from": "yesterday"}, "from = 'yesterday' must be a time such as"),
        ({"from": "2024-01-02", "to": "2024-01-01"}, "to = .* must come after from"),
        ({"from": "2030-01-01", "to": "2030-02-01"}, "no reports of"),
        (
            {"from": "2023-11-14T00:10", "to": "2023-11-14T00:50"},
            "only whole epochs that are closed count, and they take 1 h each",
        ),
        ({"by": "minute"}, "by = 'minute' must be one of hour, weekday, day, stratum"),
        ({"marginal": "size"}, "marginal = 'size' must be one of the columns colour, miles"),
        ({"given": "size"}, "given = 'size' must be one of the columns colour, miles"),
        ({"given": "colour", "by": "day"}, "given = 'colour' cannot be combined with by"),
        (
            {"given": "colour", "marginal": "colour"},
            "must be one of the columns miles beside given = colour",
        ),
        ({"marginal": "miles", "merge": ["[0,1.5)"]}, r"splits the stored bucket '\[1,2\)'"),
        ({"marginal": "miles", "merge": ["[7,9)"]}, "holds none of the stored buckets"),
        (
            {"marginal": "miles", "merge": ["[0,2)", "[1,2)"]},
            r"includes '\[1,2\)', which is already in '\[0,2\)'",
        ),
        ({"marginal": "colour", "merge": ["x=green"]}, "names 'green', which is no stored bucket"),
        ({"marginal": "colour", "merge": ["[0,1)"]}, "must be name=label|label"),
        ({"merge": ["0"]}, "merge = 0 must be at least 1"),
        ({"against_from": "2023-11-14"}, "against_to = None is missing"),
        (
            {"against_from": "2023-11-14", "against_to": "2023-11-15"},
            "must not overlap the first period",
        ),
        ({"source": "tea"}, "source = 'tea' must be one of reports, panes"),
        ({"source": "panes", "fraction": "0.5"}, "reads everything"),
        ({"colour": "red"}, "colour = 'red' is not a parameter here"),
    ],
)
def test_a_bad_question_gets_one_clear_line(
    filed: FiledHistory, parameters: dict[str, Any], match: str
) -> None:
    with pytest.raises(DeniableError, match=match) as caught:
        filed.ask(**parameters)
    assert "\n" not in str(caught.value)


def test_a_request_survives_its_parameters() -> None:
    given = {
        "from": "2023-11-14",
        "to": "2023-11-15",
        "fraction": 0.25,
        "merge": ["[0,2)"],
        "simultaneous": "true",
        "by": "day",
    }
    request = HistoryRequest.from_parameters(given)
    assert HistoryRequest.from_parameters(request.to_parameters()) == request
    assert HistoryRequest().to_parameters() == {}
    assert iso_time(request.start or 0) == "2023-11-14T00:00:00Z"


def test_a_hundred_cuts_of_a_month_leave_every_device_as_it_was(tmp_path: Path) -> None:
    """Five devices answer six epochs each; then their reports are asked a hundred different
    things."""
    query = asked(minimum_cohort=1, mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5})
    devices, step = [], Step()
    for number in range(5):
        folder = tmp_path / f"device{number}"
        folder.mkdir()
        device = make_device(folder, query, [float(number)])
        devices.append(device)
        for epoch in range(6):
            device.answer(signed(query), at(epoch))
        for message in opened(device):
            key = PaneKey(query.id, query.serial, message.epoch, 0)
            dtype, shape = query.mechanism.layout
            rows = np.frombuffer(message.report[: query.report_bytes], dtype=np.uint8).reshape(
                1, -1
            )
            pane = step.panes.setdefault(key, Counts.empty(query.mechanism.cells))
            pane += Counts(query.mechanism.count(rows.view(dtype).reshape(1, *shape)), 1)
            step.reports.append((key, rows))
    (tmp_path / "aggregator").mkdir()
    filed = FiledHistory(tmp_path / "aggregator", [query])
    with filed.state.transaction():
        filed.state.apply(step)
        filed.state.connection.execute("UPDATE channels SET front = 6")
        form_granules(filed.state.connection, [query], range(6))
    filed.publish()

    def content() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in sorted(tmp_path.glob("device*/*"))
            if path.is_file()
        }

    def spent() -> list[float]:
        out = []
        for device in devices:
            with device.store.transaction() as transaction:
                out.append(float(transaction.charges.spent_on(query.analyst, query.id)))
        return out

    before, charged = content(), spent()
    assert charged == pytest.approx([6 * query.epsilon_charged] * 5)
    starts = [str(at(epoch)) for epoch in range(5)]
    cuts = itertools.product(starts, ["0.5", "0.8", "1.0", "0.95"], ["1", "2", "3", "4", "5"])
    n_cuts = 0
    for start, confidence, merge in cuts:
        answer = filed.ask(
            **{"from": start, "confidence": str(max(0.1, float(confidence) - 0.05)), "merge": merge}
        )
        assert answer["epsilon_spent"] == 0
        n_cuts += 1
    assert n_cuts == 100
    assert content() == before
    assert spent() == charged
    filed.close()
