"""Budgets: what is planned from them, what is refused with the nearest that can be had, and who
falls silent when."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deniable.aggregator.operations.capacity import CapacityMeter, capacity
from deniable.cli import cli
from deniable.errors import InfeasiblePlanError, ParameterError, PlanError
from deniable.privacy.ledger import Limit
from deniable.queries.budget import Budget
from deniable.queries.files import read_query
from deniable.queries.lasting import silence, silence_words, spending_words
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.sizing.query_costs import Costs, assess
from deniable.sizing.query_planning import STEPS, initialize
from toolkit.crowds import ORIGIN, Crowd, minute_query
from toolkit.devices import asked, at, make_device, make_policy, signed
from toolkit.queries import make_query

DAYS = Schedule(ORIGIN, ORIGIN + 60 * 86_400, 86_400, 86_400, 86_400)


def draft(**budget: Any) -> Query:
    """Asked once a day for sixty days of 500,000 people."""
    given = {"margin": 0.02, **budget}
    coins = {"name": "TwoCoin", "p": 0.02, "q": 0.5}
    return make_query(
        schedule=DAYS,
        population=500_000,
        mechanism=coins,
        sampling=1.0,
        budget=Budget(**given),
        serial=3,
    )


COSTS = Costs(500_000)


def test_the_bytes_of_a_budget_without_new_keys_are_what_they_were() -> None:
    assert Budget(epsilon=20.0).to_dict() == {"epsilon": 20.0, "error": None}
    query = make_query(budget=Budget(epsilon=20.0, margin=0.1))
    assert (
        b'"budget":{"epsilon":{"f64":"4034000000000000"},"error":{"f64":"3fb999999999999a"}}'
        in query.content
    )
    full = make_query(
        budget=Budget(epsilon=20.0, sampled_per_answer=2.0, latency="1 h", money_per_month=7)  # type: ignore[arg-type]
    )
    assert Query.from_content(full.content) == full
    assert full.budget.latency == 3600


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"epsilon": 0}, "budget.epsilon"),
        ({"sampled_per_answer": True}, "budget.sampled_per_answer"),
        ({"margin": 0.1, "relative_error": 0.1, "proportion": 0.1}, "budget.relative_error"),
        ({"relative_error": 0.1}, "budget.proportion"),
        ({"latency": "soon"}, "budget.latency"),
        ({"money_per_month": -1}, "budget.money_per_month"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_by_its_name(
    given: dict[str, Any], name: str
) -> None:
    with pytest.raises(ParameterError) as caught:
        Budget(**given)
    assert caught.value.name == name


@pytest.mark.parametrize(
    "budget",
    [
        {},
        {"epsilon_per_answer": 0.9},
        {"epsilon": 25.0},
        {"sampled_per_answer": 0.14},
        {"sampled": 15.0},
        {"zero_knowledge_per_answer": 0.4},
        {"zero_knowledge": 30.0},
        {"answers_per_second": 50.0},
        {"bytes_per_day": 200.0},
        {"latency": 900},
        {"money_per_month": 4_000},
        {"margin": None, "relative_error": 0.2, "proportion": 0.1},
        {
            "epsilon": 30.0,
            "epsilon_per_answer": 1.5,
            "sampled_per_answer": 0.5,
            "answers_per_second": 40.0,
        },
    ],
    ids=str,
)
def test_a_plan_keeps_every_budget_and_fulfils_the_wish(budget: dict[str, Any]) -> None:
    query = initialize(draft(**budget), COSTS)
    found = assess(query, COSTS)
    stated = {name for name, value in vars(query.budget).items() if value is not None} - {
        "relative_error",
        "proportion",
    }
    assert {each.name for each in found} == stated | {"margin"}
    assert all(each.met for each in found), [each.words() for each in found]
    assert query.serial == 3, "a plan is not a new version"
    assert query.recipe["name"] == "TwoCoin"


def test_tighter_budgets_make_the_parameters_tighter_and_in_the_end_are_refused_with_the_nearest_error() -> (
    None
):
    free = initialize(draft(), COSTS)
    capped = initialize(draft(epsilon_per_answer=0.5 * free.epsilon_local), COSTS)
    assert capped.epsilon_local <= 0.5 * free.epsilon_local
    assert capped.sampling > free.sampling
    with pytest.raises(InfeasiblePlanError) as caught:
        initialize(draft(margin=0.0005, epsilon=3.0), COSTS)
    nearest = caught.value.nearest["budget.margin"]
    assert nearest > 0.0005
    assert all(
        each.met
        for each in assess(initialize(draft(margin=nearest * 1.06, epsilon=3.0), COSTS), COSTS)
    )
    with pytest.raises(InfeasiblePlanError):
        initialize(draft(margin=nearest * 0.99, epsilon=3.0), COSTS)
    with pytest.raises(PlanError, match="must be given"):
        initialize(draft(margin=None), COSTS)


def test_what_is_assessed_is_what_the_formulas_give() -> None:
    """By hand: p = q = 1/2 gives a = 3/4, b = 1/4, E = 9; s = 0.3 of 500,000 people, one epoch a
    window, at 10 %."""
    budget = {
        "epsilon": 900.0,
        "sampled_per_answer": 9.0,
        "zero_knowledge_per_answer": 9.0,
        "proportion": 0.1,
    }
    query = dataclasses.replace(
        draft(**budget),
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
        sampling=0.3,
        population=None,
    )
    found = {each.name: each.reached for each in assess(query, COSTS)}
    assert found["epsilon"] == pytest.approx(60 * 0.3 * math.log(9))
    assert found["sampled_per_answer"] == pytest.approx(math.log(1 + 0.3 * 8))
    assert found["zero_knowledge_per_answer"] == pytest.approx(math.log(0.3 * 1.7 / 0.7 * 9 + 0.7))
    assert found["margin"] == pytest.approx(
        1.959963984540054 * math.sqrt(0.3 * 0.7 / 0.25 / 150_000)
    )


# --- who falls silent when


def test_a_schedule_that_outlasts_a_budget_says_when_devices_fall_silent() -> None:
    """An answer costs ln 9 = 2.197; 20 pays for 9, which a device gives in 15 epochs of a minute if
    it answers in 3 of 5."""
    query = minute_query(
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5}, sampling=0.6, budget=Budget(epsilon=20.0)
    )
    found = silence(query, [(20.0, None, "the budget")])
    assert found is not None
    assert (found.answers, found.epochs, found.at) == (9, 15, ORIGIN + 15 * 60)
    assert (
        "falls silent about 2023-11-14T22:28:20Z, after 1.0 % of the query's life"
        in silence_words(query)[0]
    )
    assert silence(query, [(20_000.0, None, "the budget")]) is None
    monthly = silence(query, [(20.0, 86_400, "a day's limit")])
    assert monthly is not None
    assert str(monthly).endswith("until earlier answers are 1 d old")
    assert silence(query, [(20.0, 600, "a limit that comes back before it is used up")]) is None
    assert silence(dataclasses.replace(query, memoize=True), [(3.0, None, "")]) is None
    assert "864.0 answers per day" in " ".join(spending_words(query))


def test_simulated_devices_fall_silent_when_it_was_said() -> None:
    """10,000 devices, seed 4: the mean epoch of the last answer that is paid for is within 2 % of
    what is said."""
    query = minute_query(
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5}, sampling=0.4, budget=Budget(epsilon=90.0)
    )
    found = silence(query, [(90.0, None, "")])
    assert found is not None
    coins = np.random.default_rng(4).random((10_000, 400)) < 0.4
    last = np.argmax(np.cumsum(coins, axis=1) == found.answers, axis=1) + 1
    assert last.mean() == pytest.approx(found.epochs, rel=0.02)


def test_a_window_and_an_owner_s_log_say_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = minute_query(
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5}, budget=Budget(epsilon=20.0)
    )
    crowd = Crowd(tmp_path, query)
    engine = crowd.engine()
    for epoch in range(3):
        crowd.answer([1] * 50, epoch)
    crowd.mark(3)
    crowd.now = ORIGIN + 180
    engine.drain()
    [window] = crowd.windows()
    assert window.silent_from == ORIGIN + 9 * 60
    assert "used up about 2023-11-14T22:22:20Z, and devices fall silent" in str(window)
    crowd.close_all()

    owner = asked(budget=Budget(), schedule=Schedule(at(0), at(10_000), 600, 3600, 600))
    device = make_device(tmp_path, owner, policy=make_policy(owner, limits=(Limit(10),)))
    device.answer_all([signed(owner)], at(0))
    ring, policy = tmp_path / "ring.json", tmp_path / "policy.toml"
    device.policy.ring.save(ring)
    proxies = "".join(f'[[proxies]]\naddress = "{proxy}"\ntoken = "x"\n' for proxy in owner.proxies)
    policy.write_text(f'ring = "ring.json"\n{proxies}[[limits]]\nepsilon = 10\n')
    policy.chmod(0o600)
    monkeypatch.setattr("time.time", lambda: float(at(0)))
    monkeypatch.setattr("deniable.cli.person.client_records.open_store", lambda _: device.store)
    result = CliRunner().invoke(
        cli, ["client", "log", str(device.vault.path), "--policy", str(policy)]
    )
    assert result.exit_code == 0, result.output
    # 10 less one answer of 1.267 pays for 6 more, one per epoch
    assert "taxi-distance: what is left of your limits pays for 6 answers" in result.output
    assert "falls silent about 2023-11-14T23:13:20Z" in result.output


# --- commands

FILE = """\
id = "x"
analyst = "City"
sql = "SELECT x FROM t"
proxies = ["one", "two"]
population = 10000      # devices
columns = [{ name = "x", buckets = ["[0,1)", "[1,2)"] }]

[budget]
epsilon = 60.0          # for life
margin = 0.03

[schedule]
origin = 2026-01-01T00:00:00Z
expires = 2026-02-01T00:00:00Z
every = "6 h"
window = "1 d"
slide = "6 h"
"""


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(
        cli, list(arguments), env={"DENIABLE_AGGREGATOR": "", "DENIABLE_TOKEN_FILE": ""}
    )


def test_a_file_is_planned_in_place_and_all_else_stays_as_written(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    file.write_text(FILE)
    refused = invoke("query", "check", str(file))
    assert refused.exit_code == 2
    assert "deniable query plan" in refused.output
    done = invoke("query", "plan", str(file))
    assert done.exit_code == 0, done.output
    assert "answer in" in done.output or "answers per day" in done.output
    assert "Until the end of the query" in done.output
    text = file.read_text()
    for line in FILE.splitlines():
        assert line in text.splitlines()
    query = read_query(file)
    assert all(each.met for each in assess(query, Costs(10_000)))
    again = invoke("query", "plan", str(file), "--json")
    assert again.exit_code == 0
    assert file.read_text() == text, "planning what is planned changes nothing"
    checked = invoke("query", "check", str(file))
    assert "points; 3 is requested" in checked.output


def test_a_check_refuses_what_cannot_be_met_and_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "q.toml"
    coins = '[mechanism]\nname = "TwoCoin"\np = 0.1\nq = 0.5\n'
    file.write_text(FILE + coins)
    other = invoke("query", "check", str(file))
    assert other.exit_code == 2
    assert "budget.margin = 0.03 cannot be met with these parameters" in other.output
    assert "all budgets are (deniable query plan)" in other.output
    file.write_text(FILE.replace("0.03", "0.001") + coins)
    never = invoke("query", "check", str(file))
    assert never.exit_code == 2
    assert "nor with others" in never.output
    assert "feasible would be budget.margin = " in never.output
    assert never.output.count("\n") == 1
    file.write_text(FILE.replace("population = 10000      # devices\n", "") + coins)
    unknown = invoke("query", "check", str(file))
    assert unknown.exit_code == 0
    assert "The error is not known" in unknown.output


def test_a_plan_is_written_as_a_query(tmp_path: Path) -> None:
    file = tmp_path / "planned.toml"
    wishes = [
        "--population",
        "200000",
        "--margin",
        "0.03",
        "--epsilon",
        "30",
        "--buckets",
        "5",
        "--epochs",
        "20",
    ]
    done = invoke("plan", *wishes, "--mechanism", "OptimizedUnary", "--query", str(file))
    assert done.exit_code == 0, done.output
    query = read_query(file)
    assert query.population == 200_000
    assert query.schedule.n_epochs == 20
    assert query.budget.margin == 0.03
    assert all(each.met for each in assess(query, Costs(200_000)))
    again = invoke("plan", *wishes, "--mechanism", "OptimizedUnary", "--query", str(file))
    assert again.exit_code == 2
    assert "already exists" in again.output


# --- what the aggregator measures of itself


def test_an_engine_measures_what_it_sustains_and_a_restart_goes_on_from_it(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    engine = crowd.engine()
    crowd.answer([1] * 5_000)
    engine.drain()
    crowd.answer([2] * 5_000)
    engine.drain()
    assert crowd.state is not None
    [measured] = capacity(crowd.state.connection)
    assert measured["size_class"] == 0
    assert measured["answers"] == pytest.approx(5_000), "what a step measured is stored by the next"
    assert 1_000 < measured["answers_per_second"] < 1e9
    engine = crowd.engine(publish_query=False)
    assert engine._meter._measured[0][0] == pytest.approx(5_000)
    crowd.close_all()


def test_small_steps_say_nothing_about_capacity() -> None:
    meter = CapacityMeter(2)
    with meter.step():
        meter._answers = {0: 999.0}
    assert meter._measured == {}
    for _ in range(2):
        with meter.step():
            meter._answers = {0: 3_000.0, 2: 1_000.0}
    answers, seconds = meter._measured[0]
    assert answers == pytest.approx(3_000 * 1.98)
    assert meter._measured[2][1] == pytest.approx(seconds / 3)


# --- permanent answers


def kept(**budget: Any) -> Query:
    coins = {"name": "TwoCoin", "p": 0.02, "q": 0.5}
    return dataclasses.replace(draft(**budget), memoize=True, mechanism=coins, population=None)


def test_both_steps_of_permanent_answers_are_planned_for_the_target() -> None:
    """The step that hides most, if the target allows it; and the error is that of both steps."""
    easy, hard = (
        initialize(kept(margin=error, epsilon=2.0), COSTS, STEPS) for error in (0.02, 0.004)
    )
    assert easy.instantaneous == STEPS[0]
    assert hard.instantaneous in STEPS[1:]
    for planned, target in ((easy, 0.02), (hard, 0.004)):
        assert planned.releases.life.epsilon <= 2.0
        assert planned.epsilon_local < planned.releases.life.epsilon
        a, b = planned.mechanism.channel()
        worst = 1.96 * math.sqrt(0.25 / (planned.sampling * 500_000)) / (a - b)
        assert 0.5 * target < worst <= target * 1.01
    with pytest.raises(InfeasiblePlanError):
        initialize(kept(margin=0.0005, epsilon=2.0), COSTS, STEPS)


def test_a_planned_ceiling_on_the_sampled_loss_of_a_life_holds_for_a_life() -> None:
    planned = initialize(kept(margin=0.02, sampled=0.8), COSTS, STEPS)
    assert planned.schedule.n_epochs == 60
    heard = 1 - (1 - planned.sampling) ** 60
    assert math.log1p(heard * math.expm1(planned.releases.life.epsilon)) <= 0.8
    assert all(each.met for each in assess(planned, COSTS))


def test_a_planned_file_has_both_steps_and_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "kept.toml"
    text = """
id = "kept"
analyst = "City"
sql = "SELECT distance FROM trips"
proxies = ["https://one.example", "https://two.example"]
population = 500000
memoize = true

[schedule]
origin = 2026-01-01T00:00:00Z
expires = 2026-03-01T00:00:00Z
every = "1 d"
window = "1 d"
slide = "1 d"

[budget]
epsilon = 2.0
margin = 0.02

[[columns]]
name = "distance"
buckets = ["[0,1)", "[1,inf)"]
"""
    file.write_text(text, encoding="utf-8")
    for _ in range(2):  # a planned file can be planned again
        done = CliRunner().invoke(cli, ["query", "plan", str(file)])
        assert done.exit_code == 0, done.output
        assert "then 0.25 and 0.75 in each report" in done.output
        assert read_query(file).instantaneous == STEPS[0]
        assert file.read_text(encoding="utf-8").count("[instantaneous]") == 1
    file.write_text(
        text.replace("memoize = true", "memoize = true\ninstantaneous = false"), encoding="utf-8"
    )
    assert CliRunner().invoke(cli, ["query", "plan", str(file)]).exit_code == 0
    assert read_query(file).instantaneous is None


def alone(**budget: Any) -> Query:
    """A draft with nothing but these budgets."""
    return draft(margin=None, **budget)


@pytest.mark.parametrize(
    "budget",
    [
        {"zero_knowledge_per_answer": 0.4},
        {"answers_per_second": 50.0},
        {"bytes_per_day": 40.0},
        {"latency": 601},
        {"money_per_month": 3_500.0},
        {"epsilon": 25.0},
        {"sampled_per_answer": 0.14},
    ],
    ids=str,
)
def test_each_budget_decides_alone_and_no_other_parameters_within_it_err_less(
    budget: dict[str, float],
) -> None:
    """Beside random parameters within the same budget, judged by textbook formulas."""
    query = initialize(alone(**budget), COSTS)
    assert all(each.met for each in assess(query, COSTS))
    assert query.epsilon_local <= 3.0, "devices accept no more by default"

    def error(s: float, p: float, q: float) -> float:
        b = (1 - p) * q
        lam = np.linspace(b, b + p, 21)
        pi = np.linspace(0, 1, 21)
        return float(((lam * (1 - lam) / p**2 - s * pi * (1 - pi)) / s).max())

    planned = error(query.sampling, query.recipe["p"], query.recipe["q"])
    rng = np.random.default_rng(3)
    kept = 0
    for s, p, q in zip(
        rng.uniform(0.02, 1, 60), rng.uniform(0.02, 0.7, 60), rng.uniform(0.2, 0.8, 60), strict=True
    ):
        other = dataclasses.replace(
            query, sampling=float(s), mechanism={"name": "TwoCoin", "p": float(p), "q": float(q)}
        )
        # a device's spending varies: the budget for life pays for 97.5 % of people
        mean = 60 * s * other.epsilon_local
        spent = mean + 2 * math.sqrt(mean * other.epsilon_local)
        lasts = spent <= budget.get("epsilon", math.inf)
        if lasts and other.epsilon_local <= 3.0 and all(each.met for each in assess(other, COSTS)):
            kept += 1
            assert error(s, p, q) >= planned * 0.97
    assert kept


@pytest.mark.parametrize(
    "budget",
    [
        {"latency": 30},
        {"money_per_month": 1.0},
        {"answers_per_second": 1e-6},
        {"bytes_per_day": 1e-4},
        {"epsilon_per_answer": 0.001},
        {"sampled_per_answer": 1e-7},
        {"zero_knowledge_per_answer": 1e-7, "latency": 3600},
    ],
    ids=str,
)
def test_an_infeasible_budget_names_the_nearest_with_which_there_is_a_plan(
    budget: dict[str, float],
) -> None:
    with pytest.raises(InfeasiblePlanError) as caught:
        initialize(alone(**budget), COSTS)
    ((name, nearest),) = caught.value.nearest.items()
    key = name.removeprefix("budget.")
    assert nearest > budget[key]
    assert initialize(alone(**{**budget, key: nearest}), COSTS)
    with pytest.raises(InfeasiblePlanError):
        initialize(
            alone(**{**budget, key: int(nearest) - 1 if key == "latency" else 0.99 * nearest}),
            COSTS,
        )


def test_latency_follows_from_the_schedule_and_answers_that_come_too_late_are_counted_as_lost() -> (
    None
):
    """The result is there once the proxies have closed the epoch: `grace` after its end. Of devices
    that look every 60 seconds and draw a second of 600, those that drew one of the last 60 - 5 s of
    an epoch of 600 s find it closed, on average those of half a round."""
    quick = dataclasses.replace(minute_query(), population=None, budget=Budget(latency=20))
    near = Costs(50_000, grace=5, poll=5, within=30)
    planned = initialize(quick, near)
    (latency,) = (each for each in assess(planned, near) if each.name == "latency")
    assert 5 < latency.reached <= 7
    assert near.late(planned) == 0
    with pytest.raises(InfeasiblePlanError) as caught:
        initialize(quick, Costs(50_000))
    assert 600 < caught.value.nearest["budget.latency"] <= 602

    every, poll, grace, within = 60, 30, 5, 60
    slow = Costs(50_000, grace=grace, poll=poll, within=within)
    rng = np.random.default_rng(1)
    first = rng.integers(0, poll, 200_000)
    drawn = first + rng.integers(0, np.minimum(within, every - first))
    sent = first + -(-(drawn - first) // poll) * poll
    simulated = (sent >= every + grace).mean()
    assert slow.late(quick) == pytest.approx(simulated, abs=4 * math.sqrt(0.25 / 200_000))
    assert simulated > 0.1
