"""Rehearsals: what is planted is reported, what is right is not, and liars reach what the bound
says and no more."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.aggregator.counting.join import IdSet
from deniable.aggregator.windows.window import Window
from deniable.audit.rehearsal.liars import flagged_from, poisoning_bound
from deniable.audit.rehearsal.people import assumed_proportions, rehearsed_query
from deniable.audit.rehearsal.rehearsal import Rehearsal, ScenarioOutcome, rehearse
from deniable.audit.rehearsal.scenario_run import Parts, play, target_label
from deniable.audit.rehearsal.scenarios import SCENARIOS, Faults
from deniable.audit.rehearsal.scoring import accuracy, window_notes
from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.local.system import LocalSystem
from deniable.mechanisms.protocols.unary import UnaryReports
from deniable.proxy.intake.seen import EpochIds
from deniable.proxy.intake.uploads import Intake
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN
from toolkit.queries import make_query

ONE_EPOCH = Schedule(ORIGIN, ORIGIN + 86400, 600, 600, 600)
TWO_EPOCHS = Schedule(ORIGIN, ORIGIN + 86400, 600, 1200, 600)
WITH_OTHER = Column("distance", ["[0,1)", "[1,2)"], other=True)


def small(**changes: Any) -> Query:
    return make_query(
        **{"schedule": TWO_EPOCHS, "minimum_cohort": 10, "population": 300, **changes}
    )


def outcome(query: Query, scenario: str, **how: Any) -> ScenarioOutcome:
    return rehearse(query, **{"windows": 4, "scenarios": [scenario], **how}).outcomes[0]


@pytest.fixture(scope="module")
def outcomes() -> dict[str, ScenarioOutcome]:
    """All scenarios without liars, played once."""
    names = [name for name in SCENARIOS if not name.startswith("liars")]
    return {each.name: each for each in rehearse(small(), windows=4, scenarios=names).outcomes}


# --- what the scenarios do


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if not name.startswith("liars")])
def test_whatever_goes_wrong_outside_no_answer_is_counted_twice_and_none_is_lost_without_a_word(
    scenario: str, outcomes: dict[str, ScenarioOutcome]
) -> None:
    found = outcomes[scenario]
    assert found.defects == ()
    assert found.sent >= found.counted > 0


def test_a_dead_proxy_shows_in_the_windows_and_in_what_is_lost() -> None:
    found = outcome(small(), "dead-proxy", windows=12)
    assert found.conditions["proxy down"] >= 2
    assert found.conditions["complete"] + found.conditions["incomplete"] >= 8
    assert found.lost >= found.late > 0.25 * found.sent


def test_a_proxy_that_is_back_before_it_is_missed_leaves_windows_without_answers_and_they_say_so() -> (
    None
):
    # down for longer than its grace, shorter than the patience
    found = outcome(small(minimum_cohort=1), "dead-proxy", windows=6)
    assert found.conditions["incomplete"] >= 1
    assert found.thin == 0


def test_a_slow_proxy_delays_results_and_loses_nothing(
    outcomes: dict[str, ScenarioOutcome],
) -> None:
    honest, slow = outcomes["honest"], outcomes["slow-proxy"]
    assert slow.lost == 0
    assert honest.released == 600 < slow.released < 1800
    assert slow.accuracy == honest.accuracy


def test_replays_and_resends_are_recognised(outcomes: dict[str, ScenarioOutcome]) -> None:
    replays, resends = outcomes["replays"], outcomes["lost-responses"]
    assert (replays.lost, replays.resent) == (0, 0)
    assert replays.duplicates > replays.sent  # a third of all shares, three times, for two proxies
    assert resends.resent > resends.duplicates > 0


def test_wrong_clocks_silence_some_and_late_phones_come_too_late(
    outcomes: dict[str, ScenarioOutcome],
) -> None:
    clocks, late = outcomes["clock-skew"], outcomes["late-phones"]
    assert 0.05 < clocks.silent < 0.13
    assert clocks.lost == 0
    assert late.late == pytest.approx(late.lost, abs=3)
    assert 0.05 < late.lost / late.sent < 0.2


def test_a_query_with_a_grace_of_its_own_loses_fewer_late_answers(
    outcomes: dict[str, ScenarioOutcome],
) -> None:
    patient = outcome(small(grace="1 h"), "late-phones")
    assert patient.late < outcomes["late-phones"].late
    assert patient.released == 3600


def test_restarts_lose_nothing(outcomes: dict[str, ScenarioOutcome]) -> None:
    found = outcomes["restarts"]
    assert (found.lost, found.duplicates) == (0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "memoize": True,
            "mechanism": {"name": "BasicRappor", "f": 0.5, "p": 0.4, "q": 0.7},
            "columns": [WITH_OTHER],
        },
        {"rows": "several", "most_rows": 2},
        {"rows": "all", "ones": 3},
        {"cover": True, "sampling": 0.5},
        {"strata": [Stratum("town", 0.9, 200), Stratum("land", None, 100)]},
        {"columns": [WITH_OTHER], "mechanism": {"name": "DirectEncoding", "epsilon": 1.0}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_every_kind_of_query_can_be_rehearsed(changes: dict[str, Any]) -> None:
    found = rehearse(small(**changes), windows=4, scenarios=["honest", "churn", "liars-maximal"])
    assert found.holds
    assert all(each.accuracy is not None for each in found.outcomes)
    assert Rehearsal.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_the_same_seed_gives_the_same_rehearsal(outcomes: dict[str, ScenarioOutcome]) -> None:
    assert (
        outcome(small(), "late-phones")
        == outcomes["late-phones"]
        != outcome(small(), "late-phones", seed=1)
    )


# --- what is planted is reported


def test_answers_that_are_counted_twice_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EpochIds, "add", lambda *_: None)  # proxies forget what they had
    monkeypatch.setattr(IdSet, "add", lambda *_: None)  # and so does the aggregator
    found = outcome(small(), "replays")
    assert any(text.endswith("answers were counted more than once") for text in found.defects)
    assert any(
        "more answers were counted than had reached every proxy" in text for text in found.defects
    )
    assert not found.holds
    assert (
        found.verdict.startswith("Proxies took")
        or "counted" in found.verdict.split(".", maxsplit=1)[0]
    )


class LosingIntake(Intake):
    """A proxy that acknowledges everything and drops every fiftieth share that it should keep."""

    def _store(self, group: Any, rows: Any, now: int) -> None:
        super()._store(group, [part[:, np.arange(part.shape[1]) % 50 != 0] for part in rows], now)


def test_a_proxy_that_loses_shares_silently_is_reported() -> None:
    found = outcome(
        small(), "honest", parts=Parts(system=partial(LocalSystem, make_intake=LosingIntake))
    )
    assert any("that every proxy had taken were not counted" in text for text in found.defects)
    assert not found.holds
    assert set(found.conditions) == {"complete"}  # the windows alone do not show it


def test_a_biased_estimator_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = UnaryReports.solve

    def shifted(self: Any, counts: Any, n: int) -> Any:
        proportions, variance, covariance = honest(self, counts, n)
        return proportions + 0.05 * (np.arange(len(proportions)) == 2), variance, covariance

    monkeypatch.setattr(UnaryReports, "solve", shifted)
    found = outcome(small(population=4000), "honest", windows=16)
    assert found.accuracy is not None
    assert found.accuracy.biased
    assert found.accuracy.bias_label == "[2,3)"
    assert found.accuracy.bias == pytest.approx(0.05, abs=4 * found.accuracy.bias_error)
    assert not found.holds
    assert "CANNOT be believed" in found.verdict


def test_intervals_that_are_too_narrow_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = UnaryReports.solve

    def proud(self: Any, counts: Any, n: int) -> Any:
        proportions, variance, covariance = honest(self, counts, n)
        return proportions, variance / 2, None if covariance is None else covariance / 2

    monkeypatch.setattr(UnaryReports, "solve", proud)
    found = outcome(small(), "honest", windows=16)
    assert found.accuracy is not None
    assert found.accuracy.covers_too_seldom
    assert not found.holds


@pytest.mark.slow
def test_intervals_of_an_honest_run_hold_the_truth_in_94_to_96_of_100() -> None:
    # No label is so rare that its interval ends at 0, where intervals cover more often.
    columns = [Column("number", [f"[{i},{i + 1})" for i in range(30)])]
    coins = {"name": "TwoCoin", "p": 0.5, "q": 0.5}
    asked = make_query(schedule=ONE_EPOCH, columns=columns, mechanism=coins, population=6000)
    query, _ = rehearsed_query(asked, 6000, 200)
    found = accuracy(play(query, np.full(30, 1 / 30), 6000, Faults(), seed=5))
    assert found is not None
    assert found.intervals == 6000
    assert found.coverage_error < 0.0029  # 94 and 96 are three and a half errors away from 95
    assert 0.94 <= found.coverage <= 0.96
    assert not found.biased


@pytest.mark.slow
def test_the_coefficient_of_variation_over_the_windows_is_that_of_the_textbook() -> None:
    """With p = q = 1/2 a bit says 1 with lambda = 1/4 + pi/2, and n reports estimate pi with the
    standard deviation sqrt(lambda (1 - lambda) / n) / (1/2), less what a whole population
    spares."""
    columns = [Column("number", ["[0,1)", "[1,2)", "[2,3)", "[3,4)"])]
    coins = {"name": "TwoCoin", "p": 0.5, "q": 0.5}
    asked = make_query(
        schedule=ONE_EPOCH, columns=columns, mechanism=coins, population=500, sampling=1.0
    )
    query, _ = rehearsed_query(asked, 500, 100)
    assumed = np.array([0.5, 0.3, 0.15, 0.05])
    found = accuracy(play(query, assumed, 500, Faults(), seed=3))
    assert found is not None
    lam = 0.25 + assumed / 2
    expected = np.sqrt((lam * (1 - lam) * 4 - assumed * (1 - assumed)) / 500) / assumed
    chance = 4.5 / math.sqrt(2 * found.windows)
    for label, theory in zip(columns[0].labels, expected, strict=True):
        assert found.cv[label] == pytest.approx(theory, rel=chance)
        assert found.stated_cv[label] == pytest.approx(theory, rel=0.1)


# --- liars

MECHANISMS = [
    {"name": "TwoCoin", "p": 0.3, "q": 0.6},
    {"name": "DirectEncoding", "epsilon": 1.0},
    {"name": "SubsetSelection", "epsilon": 1.0},
    {"name": "LocalHashing", "epsilon": 1.0},
    {"name": "HadamardResponse", "epsilon": 1.0},
    {"name": "SummedHistogram", "epsilon": 1.0},
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: mechanism["name"])
def test_the_most_that_liars_gain_equals_the_bound(mechanism: dict[str, Any]) -> None:
    columns = [Column("distance", ["[0,1)", "[1,2)", "[2,3)"], other=True)]
    asked, _ = rehearsed_query(
        small(schedule=ONE_EPOCH, columns=columns, mechanism=mechanism), 200, 2
    )
    weights = assumed_proportions(asked, None)
    target = target_label(weights)
    faults = Faults(liars=0.1, lie="maximal")
    up, down = (
        play(asked, weights, 200, replace(faults, downwards=downwards), seed=3)
        for downwards in (False, True)
    )
    for high, low in zip(up.windows, down.windows, strict=True):
        assert high.estimate is not None
        assert low.estimate is not None
        assert high.n == low.n
        gained = high.estimate.proportions[target] - low.estimate.proportions[target]
        assert gained == pytest.approx(poisoning_bound(asked, high, up.n_liars, target), rel=1e-9)
        assert poisoning_bound(asked, high, up.n_liars, target) == pytest.approx(
            asked.mechanism.influence(high.n, 20)[target], rel=1e-12
        )


def test_lies_move_an_estimate_the_more_the_better_they_are_made_and_never_beyond_the_bound() -> (
    None
):
    found = rehearse(
        small(population=2000),
        windows=6,
        scenarios=[name for name in SCENARIOS if name.startswith("liars")],
    )
    random, targeted, maximal = (each.liars for each in found.outcomes)
    assert random is not None
    assert targeted is not None
    assert maximal is not None
    assert random.moved < targeted.moved < maximal.moved < maximal.bound
    # Each lie says b + (a - b) 1 = a on average, the crafted ones 1: in proportions, 1 and (1 -
    # b)/(a - b) for each lie.
    part = maximal.reports / maximal.n
    assert targeted.moved == pytest.approx(part, abs=4 * targeted.moved_error + 0.1 * part)
    assert maximal.moved == pytest.approx(
        part * 0.58 / 0.3, abs=4 * maximal.moved_error + 0.1 * part
    )
    # they follow the protocol: no count can tell them from people who have that label
    assert targeted.flagged_from is None


def test_the_number_of_liars_that_is_flagged_is_flagged_and_half_of_it_is_not() -> None:
    asked, _ = rehearsed_query(small(schedule=ONE_EPOCH, population=4000), 4000, 12)
    weights = assumed_proportions(asked, None)
    liars, n = flagged_from(
        asked, weights, 2400, "random", 10, np.random.default_rng(1), seeded_source(1)
    )
    assert liars is not None
    assert n == 2400
    for factor, expected in ((0.5, 0.0), (1.5, 1.0)):
        # As many lies among as many reports: liars answer always, the others in three of five
        # epochs.
        lies = factor * liars
        people = lies + (n - lies) / 0.6
        run = play(asked, weights, round(people), Faults(liars=lies / people, lie="random"), seed=4)
        flagged = [
            any("improbable" in note for note in window.estimate.notes)
            for window in run.windows
            if window.estimate
        ]
        assert abs(np.mean(flagged) - expected) <= 0.1


# --- what one may ask for


def test_assumed_proportions_are_those_given_and_the_rest_is_in_no_bucket() -> None:
    query = make_query()
    assert assumed_proportions(query, None)[0] == pytest.approx(
        2 * assumed_proportions(query, None)[1]
    )
    assert assumed_proportions(query, {"[0,1)": 0.5}).sum() == 0.5
    with_other = make_query(columns=[WITH_OTHER])
    assert assumed_proportions(with_other, [0.25, 0.25, 0.0]).tolist() == [0.25, 0.25, 0.5]
    for given, problem in (
        ([0.5], "must number 11"),
        ({"far": 0.5}, "is not a label"),
        ([1.0] * 11, "at most 1"),
    ):
        with pytest.raises(ParameterError, match=problem):
            assumed_proportions(query, given)


def test_what_is_different_from_the_query_is_said() -> None:
    _, notes = rehearsed_query(make_query(population=1_000_000), 500, 3)
    assert notes == [
        "windows follow each other, while those of the query slide by 20 min",
        "500 people are simulated, of the 1,000,000 that the query states",
    ]
    daily = Schedule(ORIGIN, ORIGIN + 86400 * 60, 3600, 86400 * 30, 86400)
    asked, notes = rehearsed_query(make_query(schedule=daily), 500, 3)
    assert asked.schedule.window == 12 * 3600
    assert (
        notes[0]
        == "a window has 720 epochs, and is rehearsed with 12 of them, so its ± is wider here"
    )


def test_a_rehearsal_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    run = CliRunner().invoke
    assert run(cli, ["query", "new", str(file)]).exit_code == 0
    few = ["rehearse", str(file), "--population", "300", "--windows", "3"]
    (tmp_path / "truth.toml").write_text('"[0,1)" = 0.7\n"[1,2)" = 0.2\n')
    done = run(
        cli, [*few, "--scenario", "honest", "--proportions", str(tmp_path / "truth.toml"), "--json"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["holds"], told["people"], told["assumed"][:2]) == (True, 300, [0.7, 0.2])
    text = run(cli, [*few, "--scenario", "dead-proxy"])
    assert text.exit_code == 0
    assert "dead-proxy: One proxy is down for the middle third of the time." in text.output
    for wrong, problem in (
        (["--scenario", "dead-proxies"], "did you mean 'dead-proxy'?"),
        (["--proportions", "0.5,0.6"], "must number 5"),
        (["--proportions", "nowhere.toml"], "No such file"),
        (["--liars", "0.9"], "liars = 0.9"),
        (["--windows", "1"], "windows = 1"),
    ):
        refused = run(cli, [*few, *wrong])
        assert refused.exit_code == 2, refused.output
        assert problem in refused.output
        assert refused.output.count("\n") == 1


def test_notes_of_windows_are_counted_by_kind_and_shown_as_they_stand() -> None:
    def noted(*notes: str) -> Window:
        return cast(Window, SimpleNamespace(estimate=SimpleNamespace(notes=notes)))

    windows = [
        noted("12 of 340 shares are missing"),
        noted("7 of 1,200 shares are missing", "few answers"),
        noted(),
    ]
    windows.append(cast(Window, SimpleNamespace(estimate=None)))
    assert window_notes(windows) == {"12 of 340 shares are missing": 2, "few answers": 1}
