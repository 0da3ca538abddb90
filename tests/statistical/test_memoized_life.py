"""A year of memoized answers: games at 10^6 devices over 50 epochs stay below the stated losses,
and intervals cover.

The games look at everything that a device ever sent, linked, which is more than anyone without all
proxies can see. Lower bounds of the loss are Clopper-Pearson bounds of both probabilities of an
event that was fixed beforehand, at a joint error of 1e-9. They must also reach what is planted as
an understated figure: the loss of one report, and 0.9 times the loss of a life.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.client import encoding
from deniable.client.simulation.fleet import Fleet
from deniable.counts import Counts
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import Source, seeded_source
from toolkit.queries import make_query

DEVICES, EPOCHS, ERROR = 1_000_000, 50, 1e-9
RAPPOR = {"mechanism": {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75}}


def daily(**changes: Any) -> Query:
    given: dict[str, Any] = {
        "columns": [Column("a", ["x", "y"], other=True)],
        "schedule": Schedule(0, EPOCHS * 600, 600, 6 * 600, 600),
        "mechanism": {"name": "SymmetricUnary", "epsilon": 2.0},
        "memoize": True,
        "sampling": 0.3,
    }
    return make_query(**{**given, **changes})


def evidence(query: Query, value: int, source: Source) -> tuple[np.ndarray, np.ndarray]:
    """For each device, how often it was heard, and by how much its ones in the first bucket exceed
    those in the second."""
    rows = encoding.permanent_rows(query, np.full(DEVICES, value), source)
    heard, lead = np.zeros(DEVICES, dtype=np.int16), np.zeros(DEVICES, dtype=np.int16)
    for _ in range(EPOCHS):
        answers = encoding.sample(query, DEVICES, 0, source)
        reports = encoding.replay_rows(query, rows, source)[:, 0]
        heard += answers
        lead += answers * ((reports & 1).astype(np.int16) - (reports >> 1 & 1))
    return heard, lead


def lower_bound(hits: int, others: int, n: int) -> float:
    """A bound from below on ln(P/Q), from how often an event was seen under both answers."""
    low = beta.ppf(ERROR / 2, hits, n - hits + 1) if hits else 0.0
    high = beta.isf(ERROR / 2, others + 1, n - others)
    return math.log(low / high) if low else -math.inf


def observed_loss(query: Query) -> float:
    """Of the event that the first bucket leads the second by two ones in five reports, for devices
    heard often enough."""
    hits = []
    for value, seed in ((0, 1), (1, 2)):
        heard, lead = evidence(query, value, seeded_source(seed))
        few = int(np.quantile(heard, 0.2))  # public: it depends on the coins of sampling alone
        hits.append(int(np.count_nonzero((heard >= few) & (lead * 10 >= heard * 4))))
    return lower_bound(hits[0], hits[1], DEVICES)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"instantaneous": {"p": 0.25, "q": 0.75}},
        {"instantaneous": {"p": 0.1, "q": 0.9}},
        RAPPOR,
    ],
    ids=["replays", "two steps", "two weak steps", "BasicRappor"],
)
def test_fifty_epochs_of_a_million_devices_reveal_no_more_than_the_life_stated(
    changes: dict[str, Any],
) -> None:
    query = daily(**changes)
    found = observed_loss(query)
    life = query.releases.life.epsilon
    assert found <= life
    assert found > 0.9 * life  # a figure that understates a life by a tenth is caught
    if changes:
        assert found > query.epsilon_local  # and so is the loss of one report, stated for a life


def test_a_device_is_heard_in_a_life_as_often_as_is_counted() -> None:
    """With one coin for a life, which was counted before, one device in twenty would be heard, and
    not two in five."""
    query = daily(sampling=0.05, schedule=Schedule(0, 10 * 600, 600, 600, 600))
    source, heard = seeded_source(3), np.zeros(DEVICES, dtype=np.bool_)
    for _ in range(10):
        heard |= encoding.sample(query, DEVICES, 0, source)
    stated = query.releases.heard
    assert abs(heard.mean() - stated) < 6 * math.sqrt(stated * (1 - stated) / DEVICES)
    assert stated > 8 * query.sampling
    whole = math.log1p(heard.mean() * math.expm1(query.releases.life.epsilon))
    assert query.releases.sampled_life(10**6).epsilon == pytest.approx(whole, rel=5e-3)


@pytest.mark.parametrize(
    ("sampling", "step"),
    [
        (1.0, None),
        (0.3, None),
        (1.0, {"p": 0.25, "q": 0.75}),
        (0.3, {"p": 0.25, "q": 0.75}),
        (0.6, {"p": 0.1, "q": 0.9}),
    ],
    ids=["replays", "sampled replays", "two steps", "sampled two steps", "two weak steps"],
)
def test_a_window_over_six_epochs_covers_what_it_says(
    sampling: float, step: dict[str, float] | None
) -> None:
    """The same people in every epoch; 95 % within binomial bounds, four standard errors, of 1,000
    windows of three buckets."""
    people, trials, epochs = 600, 1000, 6
    query = daily(sampling=sampling, instantaneous=step, minimum_cohort=1)
    source, chooser = seeded_source(5), np.random.default_rng(6)
    truth = np.array([0.6, 0.3, 0.1])
    covered = np.zeros(3)
    for _ in range(trials):
        answers = chooser.choice(3, people, p=truth)
        rows = encoding.permanent_rows(query, answers, source)
        panes = {}
        for epoch in range(epochs):
            here = encoding.sample(query, people, 0, source)
            reports = encoding.replay_rows(query, rows[here], source)
            panes[PaneKey(query.id, 1, epoch, 0)] = Counts(
                query.mechanism.count(reports), int(here.sum())
            )
        estimate = assemble([query], 0, panes).estimate
        assert estimate is not None
        low, high = estimate.interval(0.95).T
        covered += (low <= truth) & (truth <= high)
    spread = 4 * math.sqrt(0.95 * 0.05 / trials)
    assert (covered / trials > 0.95 - spread).all(), covered / trials
    assert (covered / trials < 0.95 + spread).all(), covered / trials


class Seen(Fleet):
    """A fleet that keeps the reports of an epoch before they are split."""

    drawn: np.ndarray

    def _reports(self, devices: np.ndarray, truth: np.ndarray) -> np.ndarray:
        self.drawn = super()._reports(devices, truth)
        return self.drawn


def test_a_fleet_and_the_mechanism_draw_the_same_law_in_two_steps() -> None:
    n, query = 40_000, daily(instantaneous={"p": 0.25, "q": 0.75}, sampling=1.0)
    fleet, truth, seen = Seen(query, n, source=seeded_source(7)), np.arange(n) % 3, []
    for epoch in range(2):
        fleet.answer(epoch, truth)
        seen.append(fleet.drawn)
    a, b = query.mechanism.channel()
    expected = (a + 2 * b) / 3
    for reports in seen:
        ones = query.mechanism.count(reports) / n
        assert np.allclose(ones, expected, atol=6 * math.sqrt(expected * (1 - expected) / n))
    said = query.mechanism.equal_reports()
    assert said is not None
    for claim, equal in zip(
        said, (seen[0] == seen[1], seen[0] == np.roll(seen[1], 3, axis=0)), strict=True
    ):
        assert abs(equal.all(axis=1).mean() - claim) < 6 * math.sqrt(claim / n)
