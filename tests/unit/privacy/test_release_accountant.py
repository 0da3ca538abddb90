"""One accountant for every stated loss: over a life, in a crowd, in a revision; and every printed
form goes through it."""

from __future__ import annotations

import ast
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import deniable
from deniable import OptimizedUnary, SymmetricUnary
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.aggregator.windows.window import Window
from deniable.cli import cli
from deniable.counts import Counts
from deniable.privacy import (
    Releases,
    StatedLoss,
    crowd_epsilon,
    participation,
    sampled_epsilon,
    zero_knowledge_epsilon,
)
from deniable.privacy.release_accountant import smallest_release
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.lasting import lifetime_epsilon, worst_releases
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.envelope import Envelope
from deniable.queries.strata import Stratum
from deniable.queries.summary import summary
from deniable.randomness import seeded_source
from deniable.sizing.query_costs import Costs, assess
from toolkit.queries import make_query

SOURCE = Path(deniable.__file__).parent
DAY = 86_400
YEAR = Schedule(origin=0, expires=365 * DAY, every=DAY, window=7 * DAY, slide=DAY)
RAPPOR = {
    "mechanism": {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75},
    "columns": [Column("d", ["a", "b"], other=True)],
}


def yearly(**changes: Any) -> Query:
    """Asked every day for a year of one person in twenty, who replays a permanent answer."""
    given = {
        "schedule": YEAR,
        "sampling": 0.05,
        "memoize": True,
        "population": 100_000,
        "budget": Budget(),
    }
    return make_query(**{**given, **changes})


# --- over a life


def test_over_a_year_a_person_in_twenty_is_every_person() -> None:
    query = yearly()
    assert query.releases.heard == pytest.approx(1 - 0.95**365)
    life = query.releases.sampled_life(query.crowd).epsilon
    assert life == pytest.approx(query.epsilon_local, rel=1e-6)
    assert life > 3 * query.epsilon_sampled  # what was stated before: the coin tossed once


@pytest.mark.parametrize("epochs", [1, 2, 20, 365])
def test_the_life_of_replays_counts_the_epochs_in_which_one_may_be_heard(epochs: int) -> None:
    releases = Releases(2.0, 0.05, epochs, permanent=2.0)
    heard = 1 - 0.95**epochs
    assert participation(0.05, epochs) == pytest.approx(heard, rel=1e-9)
    assert releases.sampled_life(10**6).epsilon == pytest.approx(
        math.log1p(heard * math.expm1(2.0)), rel=1e-9
    )
    assert releases.zero_knowledge_life == pytest.approx(
        zero_knowledge_epsilon(2.0, participation(0.05, epochs))
    )


def test_one_coin_gives_away_all_permanent_answers_of_a_person() -> None:
    """Heard in one epoch or in none: what counts is the loss of all of them at once, not a sum of
    sampled losses."""
    releases = Releases(1.0, 0.1, 5, rows=2, permanent=1.0, distinct=3)
    assert releases.life.epsilon == 6.0
    whole = sampled_epsilon(6.0, participation(0.1, 5))
    assert releases.sampled_life(10**9).epsilon == pytest.approx(whole)
    assert whole > 6 * sampled_epsilon(1.0, participation(0.1, 5))


def test_fresh_answers_and_their_deltas_add_up() -> None:
    releases = Releases(SymmetricUnary(4, 1.0), 0.2, 10)
    each = max(sampled_epsilon(1.0, 0.2), crowd_epsilon(SymmetricUnary(4, 1.0), 0.2, 40, 1e-7))
    assert releases.sampled_life(40, 1e-6).epsilon == pytest.approx(10 * each, rel=1e-3)
    assert releases.life.epsilon == 10.0
    alone = Releases(1.0, 0.2, 10)
    assert alone.sampled_life(1).epsilon == alone.life.epsilon == 10.0


def test_of_basic_rappor_the_permanent_bits_count_for_life() -> None:
    query = yearly(**RAPPOR)
    permanent = query.mechanism.lifetime_epsilon
    assert query.epsilon_local < permanent / 2
    assert query.releases.life.epsilon == lifetime_epsilon(query) == permanent
    assert query.releases.sampled_life(query.crowd).epsilon == pytest.approx(permanent, rel=1e-6)


@pytest.mark.parametrize(
    "changes",
    [{}, RAPPOR, {"instantaneous": {"p": 0.25, "q": 0.75}}],
    ids=["replays", "rappor", "two"],
)
def test_a_ceiling_on_the_sampled_loss_of_a_life_is_checked_for_a_life(
    changes: dict[str, Any],
) -> None:
    query = yearly(**changes, budget=Budget(sampled=0.6, zero_knowledge=3.0))
    found = {each.name: each for each in assess(query, Costs(100_000))}
    life = query.releases.life.epsilon
    assert found["sampled"].reached == pytest.approx(life, rel=1e-6)
    assert not found["sampled"].met
    assert not found["zero_knowledge"].met
    assert sampled_epsilon(query.epsilon_local, 0.05) < 0.6  # with one toss it would have been


def test_in_an_envelope_the_worst_that_the_controller_may_choose_counts() -> None:
    ranges: dict[str, Any] = {"p": (0.2, 0.4), "q": (0.5, 0.7)}
    budget = Budget(epsilon=20.0, sampled_per_answer=0.5)
    envelope = Envelope("00" * 32, (0.05, 0.8), 3.0, **ranges)
    query = make_query(sampling=0.1, envelope=envelope, population=10**6, budget=budget)
    worst = worst_releases(query)
    assert (worst.sampling, worst.local.epsilon) == (0.8, 3.0)
    reached = {each.name: each.reached for each in assess(query, Costs(10**6))}
    assert reached["sampled_per_answer"] == pytest.approx(sampled_epsilon(3.0, 0.8))
    assert "whatever the controller chooses" in summary(query)
    fixed: dict[str, Any] = {"p": (0.3, 0.3), "q": (0.6, 0.6)}
    kept = make_query(
        sampling=0.1, memoize=True, envelope=Envelope("00" * 32, (0.05, 0.8), 3.0, **fixed)
    )
    assert worst_releases(kept).life == kept.releases.life
    inverting = make_query(
        memoize=True, envelope=Envelope("00" * 32, (0.05, 0.8), 3.0, **fixed, inversion=True)
    )
    # inverted coins draw anew
    assert worst_releases(inverting).life.epsilon == 2 * kept.releases.life.epsilon


# --- in a crowd


def test_a_stated_loss_is_never_below_the_formula_nor_below_its_crowd() -> None:
    mechanism = OptimizedUnary(16, 2.0)
    for crowd in (1, 10, 100, 10_000):
        stated = Releases(mechanism, 0.05).sampled(crowd)
        bound = crowd_epsilon(mechanism, 0.05, crowd, 1e-6)
        assert stated.epsilon == pytest.approx(max(sampled_epsilon(2.0, 0.05), bound), rel=0.02)
        assert (stated.crowd, stated.delta) == (crowd, 1e-6)


def test_the_crowd_of_a_query_is_its_smallest_stratum_or_else_the_minimum_cohort() -> None:
    assert make_query(population=5000).crowd == 5000
    assert make_query().crowd == make_query().minimum_cohort == 100
    parts = [Stratum("north", population=4000), Stratum("south", population=300)]
    assert make_query(population=5000, strata=parts).crowd == 300
    assert make_query(population=5000, strata=[*parts, Stratum("west")]).crowd == 100


# --- in windows and their revisions


def window_of(query: Query, *sizes: int) -> Window:
    panes = {}
    for epoch, n in enumerate(sizes):
        reports = query.mechanism.draw(np.arange(n) % len(query.buckets), seeded_source(n))
        panes[PaneKey(query.id, query.serial, epoch, 0)] = Counts(query.mechanism.count(reports), n)
    return assemble([query], 0, panes)


def test_a_window_states_its_sampled_loss_in_the_smallest_crowd_that_is_certain() -> None:
    estimate = window_of(make_query(sampling=0.05), 400, 150).estimate
    assert estimate is not None
    assert (estimate.sampled_crowd, estimate.sampled_delta) == (150, 1e-6)
    assert estimate.sampled_epsilon == make_query(sampling=0.05).releases.sampled(150).epsilon
    assert "in a crowd of 150, delta 1e-06)" in str(estimate)
    bare = dataclasses.replace(estimate, sampled_crowd=None)
    assert "sampled" not in str(bare)  # as in a document of an earlier release


def test_a_window_of_replays_states_the_loss_of_all_of_them() -> None:
    query = yearly()
    estimate = window_of(query, 3000, 3000).estimate
    assert estimate is not None
    assert estimate.sampled_epsilon == pytest.approx(query.releases.life.epsilon, rel=1e-6)


def test_a_revision_hides_nobody_in_more_than_the_minimum_cohort() -> None:
    """Late answers are published as a difference: theirs is the smallest crowd, and it has at least
    the minimum cohort."""
    assert smallest_release([4000, 700, 0]) == 700
    assert smallest_release([4000, 700], cohort=100) == 100
    assert smallest_release([40], cohort=100) == 40
    assert smallest_release([0, 0], cohort=100) is None
    once, revised = (window_of(make_query(grace=grace), 4000, 2000) for grace in (None, 86_400))
    assert (once.shuffled_among, revised.shuffled_among) == (2000, 100)
    assert once.epsilon_shuffled is not None
    assert revised.epsilon_shuffled is not None
    assert revised.epsilon_shuffled > 2 * once.epsilon_shuffled


# --- what is printed

TEXT = """
id = "trips"
analyst = "City"
sql = "SELECT distance FROM trips"
proxies = ["https://one.example", "https://two.example"]
sampling = 0.05
population = 20000
memoize = true

[schedule]
origin = 2026-01-01T00:00:00Z
expires = 2027-01-01T00:00:00Z
every = "1 d"
window = "7 d"
slide = "1 d"

[mechanism]
name = "TwoCoin"
p = 0.5
q = 0.5

[[columns]]
name = "distance"
buckets = ["[0,1)", "[1,2)", "[2,inf)"]
"""


def run(*arguments: str) -> str:
    done = CliRunner().invoke(cli, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def documents(tmp_path: Path) -> dict[str, str]:
    """Every printed form that states a sampled loss, by name."""
    file = tmp_path / "trips.toml"
    file.write_text(TEXT, encoding="utf-8")
    query = yearly()
    window = window_of(query, 3000, 2000)
    made = deniable.plan(population=20_000, epsilon=2.0, sampled_epsilon=0.5, buckets=4)
    few = ["--epsilon", "2", "--sampling", "0.05", "--population", "40"]
    return {
        "summary": summary(query),
        "query check": run("query", "check", str(file)),
        "query show": run("query", "show", str(file)),
        "query show --json": run("query", "show", str(file), "--json"),
        "plan": str(made),
        "plan risk": " ".join(made.risk),
        "plan --json": json.dumps(made.to_dict()),
        "deniable plan": run(
            "plan", "--population", "20000", "--sampled-epsilon", "0.5", "--epsilon", "2"
        ),
        "privacy": run("privacy", *few),
        "privacy --json": run("privacy", *few, "--json"),
        "window": str(window),
        "window --json": json.dumps(window.to_dict()),
        "loss": str(StatedLoss(0.3, 1e-6, 100)) + " sampled",
    }


def test_every_printed_sampled_loss_has_its_crowd_and_its_delta(tmp_path: Path) -> None:
    for name, text in documents(tmp_path).items():
        assert "sampled" in text or "cannot tell whether" in text, name
        assert "crowd" in text or " people" in text, name
        assert "delta" in text or "except with probability 1e-06" in text, name
        for line in text.splitlines():
            if "epsilon_sampled" in line and name.endswith("json"):
                continue
            if "(sampled" in line or line.strip().startswith(
                ("epsilon, sampled", "Sampled epsilon", "sampled ")
            ):
                assert "crowd of" in line or "people took part" in line, (name, line)


def test_json_that_states_a_sampled_loss_states_all_of_it(tmp_path: Path) -> None:
    def walk(tree: Any, where: str) -> int:
        found = 0
        if isinstance(tree, dict):
            # a plan states them once for its alternatives
            if tree.get("epsilon_sampled") is not None and "figure" not in tree:
                assert tree["delta_sampled"] == 1e-6, where
                assert tree["sampled_crowd"] >= 1, where
                found += 1
            found += sum(walk(value, f"{where}.{name}") for name, value in tree.items())
        elif isinstance(tree, list):
            found += sum(walk(value, where) for value in tree)
        return found

    stated = {
        name: walk(json.loads(text), name)
        for name, text in documents(tmp_path).items()
        if name.endswith("json")
    }
    assert stated["query show --json"] == stated["window --json"] == 1


def test_query_check_says_what_a_year_of_replays_gives_away(tmp_path: Path) -> None:
    file = tmp_path / "trips.toml"
    file.write_text(
        TEXT.replace("memoize = true", "memoize = true\ninstantaneous = false"), encoding="utf-8"
    )
    said = run("query", "check", str(file))
    assert (
        "Over the query's life it is 2.198 in a crowd of 20,000 (delta 1e-06): 100 % of the devices"
        " answer at least once" in said
    )
    assert "Equal reports link a device's messages over epochs" in said
    file.write_text(TEXT, encoding="utf-8")
    said = run("query", "check", str(file))
    assert "One report loses 1.022; all reports together lose 2.198, paid with the first." in said
    assert "Every report randomizes the permanent answer once more" in said


FORMULAS = {
    "sampled_epsilon",
    "zero_knowledge_epsilon",
    "blanket_epsilon",
    "shuffled_epsilon",
    "crowd_epsilon",
}
ALLOWED = {"privacy", "reproduce"}
"""Where losses are computed; and where the papers' figures are reproduced as they are stated
there."""


@pytest.mark.slow
def test_no_other_room_computes_a_stated_loss_itself() -> None:
    """Imports of the formulas outside `privacy`: `deniable privacy` alone may show the bound of one
    shuffled mechanism."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0]
        if room in ALLOWED:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "deniable.privacy"
            ):
                found |= {
                    (path.relative_to(SOURCE).as_posix(), name.name)
                    for name in node.names
                    if name.name in FORMULAS
                }
    assert found == set()
