"""What is stated for a life, for links between reports and for small crowds is attacked, and wrong
figures are refuted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from deniable import seeded_source
from deniable.audit.game import play
from deniable.audit.lifetimes import crowd_check, life_game, linkability_check
from deniable.mechanisms.mechanism import Mechanism
from deniable.privacy.release_accountant import Releases, StatedLoss
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from toolkit.queries import make_query

N, ERROR = 40_000, 1e-6
PLACES = np.array([0, 1, 2])
FIVE = [Column("a", ["v", "w", "x", "y"], other=True)]
"""Two answers of two labels can differ in four."""


def daily(**changes: Any) -> Query:
    given: dict[str, Any] = {
        "columns": [Column("a", ["x", "y"], other=True)],
        "schedule": Schedule(0, 60 * 600, 600, 6 * 600, 600),
        "mechanism": {"name": "SymmetricUnary", "epsilon": 2.0},
        "memoize": True,
        "sampling": 0.3,
    }
    return make_query(**{**given, **changes})


STEPS = {"instantaneous": {"p": 0.25, "q": 0.75}}
KINDS: dict[str, dict[str, Any]] = {
    "replays": {},
    "two steps": STEPS,
    "BasicRappor": {"mechanism": {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75}},
    "replays of an index": {"mechanism": {"name": "DirectEncoding", "epsilon": 1.5}},
    "several rows": {**STEPS, "rows": "several", "most_rows": 2},
    "several labels": {"rows": "all", "ones": 2, "columns": FIVE},
    "several labels, two steps": {**STEPS, "rows": "all", "ones": 2, "columns": FIVE},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_life_and_its_links_are_as_stated(kind: str) -> None:
    query = daily(**KINDS[kind])
    verdict = play(life_game(query, PLACES, seeded_source(1)), 4 * N, ERROR)
    assert verdict.holds
    assert verdict.tightness > 0.8
    link = linkability_check(query, PLACES, N, ERROR, seeded_source(2))
    assert link is not None
    assert link.holds, str(link)


def test_where_answers_cannot_differ_in_all_labels_the_game_says_how_much_it_can_show() -> None:
    query = daily(rows="all", ones=2)  # of three labels: two answers of two share one
    game = life_game(query, PLACES, seeded_source(1))
    assert game.name.endswith(
        "answers that differ in 2 of 4 labels can show at most 50% of the claim"
    )
    verdict = play(game, 4 * N, ERROR)
    assert verdict.holds
    # It ends as soon as the event surely stays below the claim, so that it shows less than it
    # could.
    assert 0.3 < verdict.tightness <= 0.5


def test_a_claim_for_several_labels_that_is_too_low_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = daily(**KINDS["several labels"])
    claim = query.releases.life.epsilon
    monkeypatch.setattr(
        Releases,
        "life",
        property(lambda self: dataclasses.replace(self.local, epsilon=0.75 * claim)),
    )
    assert not play(life_game(query, PLACES, seeded_source(1)), 4 * N, ERROR).holds


def test_the_loss_of_one_report_stated_for_a_life_is_refuted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query = daily(**STEPS)
    monkeypatch.setattr(Releases, "life", property(lambda self: self.local))
    assert not play(life_game(query, PLACES, seeded_source(1)), N, ERROR).holds


@pytest.mark.parametrize("factors", [(0.9, 1.0), (1.1, 1.0), (1.0, 1.2), (1.0, 0.8)])
def test_wrong_figures_for_links_are_refuted(
    factors: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    query = daily(**STEPS)
    same, other = query.mechanism.equal_reports() or (0.0, 0.0)
    wrong = (same * factors[0], other * factors[1])
    monkeypatch.setattr(type(query.mechanism), "equal_reports", lambda _: wrong)
    found = linkability_check(query, PLACES, N, ERROR, seeded_source(3))
    assert found is not None
    assert not found.holds
    monkeypatch.setattr(type(query.mechanism), "equal_reports", Mechanism.equal_reports)
    assert linkability_check(query, PLACES, N, ERROR, seeded_source(3)) is None


CROWDS: dict[str, dict[str, Any]] = {
    "an index": {"mechanism": {"name": "DirectEncoding", "epsilon": 2.0}, "sampling": 0.05},
    "bits": {"sampling": 0.2},
}


@pytest.mark.parametrize("kind", CROWDS)
def test_the_formula_for_large_crowds_is_refuted_in_a_small_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = daily(memoize=False, **CROWDS[kind])
    honest = crowd_check(query)
    assert honest is not None
    assert honest.holds, str(honest)

    def formula(self: Releases, crowd: int, delta: float = 1e-6) -> StatedLoss:
        return StatedLoss(self.planned_sampled, delta, crowd)

    monkeypatch.setattr(Releases, "sampled", formula)
    found = crowd_check(query)
    assert found is not None
    assert not found.holds
    assert "in a crowd of 2" in found.detail


def test_crowds_that_cannot_be_enumerated_are_not_claimed() -> None:
    many = Column("a", [f"[{i},{i + 1})" for i in range(20)], other=True)
    assert crowd_check(daily(memoize=False, columns=[many])) is None
    assert crowd_check(daily(memoize=False, rows="several", most_rows=2)) is None
