"""Distinguishing games: bounds that hold, that are tight for every mechanism, and that catch
planted bugs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from deniable import (
    DirectEncoding,
    LocalHashing,
    Mechanism,
    OptimizedUnary,
    Rappor,
    SubsetSelection,
    seeded_source,
)
from deniable.audit.bounds import best_event, invisible_below, loss_bounds
from deniable.audit.game import Game, play
from deniable.audit.mechanisms import audit_mechanism
from deniable.audit.views import ItemScores, WholeReport
from deniable.errors import ParameterError
from deniable.mechanisms.registry import mechanism_by_name, mechanisms_by_epsilon
from deniable.randomness import Source


def make(name: str, epsilon: float = 1.0) -> Mechanism:
    return mechanism_by_name(name, epsilon, 2 if name == "BinaryResponse" else 8)


@pytest.mark.parametrize("name", mechanisms_by_epsilon())
def test_of_a_million_reports_the_bound_is_at_most_the_claim_and_at_least_85_per_cent_of_it(
    name: str,
) -> None:
    """A true claim is refuted with probability 1e-3; the seed is fixed."""
    audit = audit_mechanism(make(name), n=1_000_000, source=seeded_source(f"audit of {name}"))
    assert audit.holds
    assert audit.n <= 1_000_000
    for verdict in audit.verdicts[:-1]:  # the last is about coins that are used again
        assert 0.85 <= verdict.tightness <= 1


class WrongCoin(DirectEncoding):
    """Tells the truth too often: coins for an epsilon that is an eighth larger than the one it
    states."""

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        return DirectEncoding(len(self.domain), 1.125 * self.requested_epsilon).draw(
            indices, source
        )


class SeedReused(OptimizedUnary):
    """Takes the same coins at every call: single reports are right, and two of a person are not."""

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[np.uint8]:
        return super().draw(indices, seeded_source("always the same"))


class SeedFromValue(LocalHashing):
    """Draws its hash function from the value, so that the seed tells it."""

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        seeds = self.seeds(indices.size, source)
        seeds[:, 0] = seeds[:, 0] & ~np.uint32(7) | indices.astype(np.uint32)
        return self.answer(seeds, indices, source)


class TrueValueFirst(SubsetSelection):
    """Lists the set's values, the true one first if it is in it, instead of sending a bitmap."""

    @property
    def layout(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return np.dtype(np.uint8), (self.w,)

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[np.uint8]:
        sets = np.unpackbits(
            super().draw(indices, source), axis=1, count=len(self.domain), bitorder="little"
        ).astype(np.int8)
        sets[np.arange(len(sets)), indices] *= 2
        return np.argsort(-sets, axis=1, kind="stable")[:, : self.w].astype(np.uint8)

    def supports(self, data: NDArray[Any]) -> NDArray[np.uint8]:
        out = np.zeros((len(data), len(self.domain)), dtype=np.uint8)
        np.put_along_axis(out, data.astype(np.intp), 1, axis=1)
        return out


class NeverClearing(Rappor):
    """A Bloom filter whose permanent step only sets bits: a zero clears everybody who would have
    the bit."""

    def draw_permanent(self, encoded: NDArray[Any], source: Source) -> NDArray[np.uint8]:
        cohorts = source.below(self.cohorts, encoded.size)
        filters = self._filters(encoded, cohorts)
        kept = source.bit_rows(self._steps.flip, len(filters), self.bits) | filters
        return np.hstack([cohorts.astype("<u2")[:, None].view(np.uint8), kept])


BUGS: list[tuple[Mechanism, str]] = [
    (WrongCoin(8, 1.0), "one report"),
    (SeedReused(8, 1.0), "two reports, for coins used again"),
    (SeedFromValue(8, 1.0), "one report"),
    (TrueValueFirst(16, 1.0), "one report"),
    (NeverClearing(32, 2, 8, 0.4, 0.2, 0.8), "permanent answer"),
]


@pytest.mark.parametrize(
    ("mechanism", "game"), BUGS, ids=[type(mechanism).__name__ for mechanism, _ in BUGS]
)
def test_planted_bugs_are_caught(mechanism: Mechanism, game: str) -> None:
    audit = audit_mechanism(mechanism, n=400_000, source=seeded_source(2))
    assert not audit.holds
    assert game in [verdict.game for verdict in audit.verdicts if not verdict.holds]
    assert "MORE THAN CLAIMED" in str(audit)


def test_a_wrong_coin_is_refuted_before_all_reports_are_drawn() -> None:
    audit = audit_mechanism(DirectEncoding(4, 2.0), n=1_000_000, claim=1.0, source=seeded_source(3))
    assert not audit.holds
    assert audit.verdicts[0].stopped == "the claim is refuted"
    assert audit.verdicts[0].n < 500_000


def coin_game(truth: float, claim: float, seed: int) -> Game:
    """One bit that is 1 with e^truth times the probability, under one input."""
    rng = np.random.default_rng(seed)
    low = 1 / (1 + math.exp(truth))
    return Game(
        "coin",
        claim,
        ["a", "b"],
        lambda i, n: rng.binomial(1, (low, 1 - low)[i], n).astype(np.uint8),
        [WholeReport()],
    )


@pytest.mark.slow
def test_a_true_claim_is_refuted_no_more_often_than_stated() -> None:
    """500 games whose claim is exactly the loss, each refuted with probability 0.1 at most.

    More than 84 of 500 have a chance below 1e-6 at that rate.
    """
    refuted = sum(not play(coin_game(1.0, 1.0, seed), 4000, error=0.1).holds for seed in range(500))
    assert refuted <= 84


def test_a_false_claim_is_refuted_by_enough_reports() -> None:
    verdicts = [play(coin_game(1.0, 0.9, seed), 100_000, error=1e-3) for seed in range(20)]
    assert not any(verdict.holds for verdict in verdicts)
    # and never by more than is true: 20 chances of 2.5e-4
    assert all(verdict.bounds.low < 1 for verdict in verdicts)


def test_a_game_stops_when_its_event_surely_stays_below_the_claim() -> None:
    verdict = play(coin_game(0.5, 2.0, 1), 200_000, error=1e-3)
    assert verdict.holds
    assert verdict.stopped == "this event surely stays below the claim"
    assert verdict.n < 120_000
    assert verdict.bounds.low < 0.5 < verdict.bounds.high


def test_the_bounds_are_those_of_clopper_and_pearson() -> None:
    for one, other, n in ((30, 10, 100), (0, 5, 50), (50, 0, 50), (700, 650, 1000)):
        error = 0.04
        p, q = (
            stats.binomtest(hits, n).proportion_ci(1 - error / 2, "exact") for hits in (one, other)
        )
        found = loss_bounds(one, other, n, error)
        assert found.low == pytest.approx(
            math.log(p.low / q.high) if p.low else -math.inf, rel=1e-9
        )
        assert found.high == pytest.approx(
            math.log(p.high / q.low) if q.low else math.inf, rel=1e-9
        )


def test_what_is_called_invisible_hardly_ever_occurs_never() -> None:
    rare = invisible_below(10_000, 0.04)
    assert (1 - rare) ** 10_000 == pytest.approx(0.01, rel=1e-9)


def test_an_event_is_chosen_by_ratio_and_not_believed_where_it_was_chance() -> None:
    fitted = np.array([500, 400, 100, 3]), np.array([100, 100, 800, 0])
    # the last cell looked telling by chance
    fresh = np.array([500, 400, 100, 0]), np.array([100, 100, 800, 3])
    event, value = best_event(fitted, fresh)
    assert event.tolist() == [True, True, False, True]
    assert 1.0 < value < math.log(900 / 200)


def test_bytes_are_weighed_so_that_an_event_over_several_is_found() -> None:
    """Twelve bytes, each barely telling: the ratio of all of them is what the score finds."""
    rng = np.random.default_rng(5)
    shift = 0.1

    def draw(i: int, n: int) -> NDArray[Any]:
        return (rng.random((n, 12)) < 0.5 + (shift if i else -shift)).astype(np.uint8)

    verdict = play(
        Game("bytes", 12 * math.log(1.5), [0, 1], draw, [ItemScores()]), 100_000, error=1e-3
    )
    assert verdict.holds
    assert verdict.bounds.low > 2  # one byte alone has ln 1.5 = 0.41


@pytest.mark.parametrize("name", ["DirectEncoding", "SummedHistogram", "LocalHashing"])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_other_losses_are_audited_as_tightly(name: str, epsilon: float) -> None:
    audit = audit_mechanism(make(name, epsilon), n=600_000, source=seeded_source(6))
    assert audit.holds
    assert audit.verdicts[0].tightness >= 0.85


def test_an_audit_says_what_it_cannot_see() -> None:
    audit = audit_mechanism(DirectEncoding(3, 1.0), n=20_000, source=seeded_source(7))
    assert "cannot be seen from outside" in str(audit)
    assert "its epsilon is 1.0000" in str(audit)
    document = audit.to_dict()
    assert document["holds"] is True
    assert document["exact_epsilon"] == 1.0
    assert document["games"][0]["invisible_below"] > 1e-4


@pytest.mark.parametrize("change", [{"n": 100}, {"confidence": 1.0}, {"claim": 0.0}])
def test_nonsense_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        audit_mechanism(DirectEncoding(3, 1.0), **change)
