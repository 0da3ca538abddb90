"""Intervals of the history cover what they claim, at a full scan and at a sample of the reports:
both samplings are in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.queries.columns.column import Column
from deniable.queries.schedule import Schedule
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, minute_query
from toolkit.histories import FiledHistory

DAY = 86400
MIDNIGHT = ORIGIN // DAY * DAY
PEOPLE, SAMPLING, EPOCHS, ROUNDS = 2000, 0.6, 4, 360
SHARES = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
HOURS = Schedule(origin=MIDNIGHT, expires=MIDNIGHT + 720 * DAY, every=3600, window=3600, slide=3600)
WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "sampled": {"fraction": "0.1"},
    "margin": {"margin": "0.09"},
    "merged": {"merge": ["ab=a|b"], "fraction": "0.1"},
    "together": {"simultaneous": "true", "fraction": "0.1"},
}
pytestmark = pytest.mark.xdist_group("history coverage")  # one simulation for all of them
Hits = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]


def simulate(folder: Path, rounds: int, others: int, seed: int) -> Hits:
    """How often intervals held the truth: histories of a known population, of four epochs each,
    read in several ways.

    All of them in full and by a tenth, the first `others` in the other ways too. They are different
    days of one query, so one state holds them all, and the code that reads is the one that users
    run.
    """
    query = minute_query(
        schedule=HOURS,
        columns=[Column("x", ["a", "b", "c", "d"], other=True)],
        mechanism={"name": "TwoCoin", "p": 0.6, "q": 0.5},
        sampling=SAMPLING,
        population=PEOPLE,
    )
    filed = FiledHistory(folder, [query])
    rng, source = np.random.default_rng(seed), seeded_source(seed)
    truth = np.repeat(np.arange(5), (SHARES * PEOPLE).astype(int))
    answers, epochs = [], []
    for number in range(rounds):
        for epoch in range(EPOCHS):
            took_part = rng.random(PEOPLE) < SAMPLING
            answers.append(truth[took_part])
            epochs.append(np.full(took_part.sum(), number * 24 + epoch))
    filed.file(query, np.concatenate(answers), np.concatenate(epochs), 0, source)
    filed.publish()
    hits: dict[str, list[Any]] = {}
    for number in range(rounds):
        period = {"from": str(MIDNIGHT + number * DAY), "to": str(MIDNIGHT + (number + 1) * DAY)}
        for name, extra in WAYS.items():
            if number >= others and name not in ("full", "sampled"):
                continue
            found = filed.ask(**period, **extra)
            true = SHARES if "merge" not in extra else np.array([0.65, 0.2, 0.1, 0.05])
            inside = (np.array(found["low"]) <= true) & (true <= np.array(found["high"]))
            hits.setdefault(name, []).append([inside.all()] if name == "together" else inside)
    filed.close()
    return {name: np.array(found, dtype=np.float64) for name, found in hits.items()}


@pytest.fixture(scope="module")
def covered(tmp_path_factory: pytest.TempPathFactory) -> Hits:
    """360 histories, 120 of them in every way; seed 12."""
    return simulate(tmp_path_factory.mktemp("covered"), ROUNDS, ROUNDS // 3, 12)


@pytest.mark.parametrize("name", ["full", "sampled", "margin", "merged"])
def test_intervals_cover_as_often_as_they_say(covered: Hits, name: str) -> None:
    """Labels of one history hang together, so the false-alarm rate is that of histories: 4 of their
    standard errors, 6e-5."""
    of_histories = covered[name].mean(axis=1)
    stderr = of_histories.std(ddof=1) / np.sqrt(len(of_histories))
    assert abs(of_histories.mean() - 0.95) < 4 * stderr
    # so that 92, or 90 %, would be seen
    assert stderr < (0.0075 if len(of_histories) == ROUNDS else 0.0125)


def test_simultaneous_intervals_cover_together(covered: Hits) -> None:
    together, alone = covered["together"].mean(), covered["sampled"].all(axis=1).mean()
    assert 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(covered["together"])) < together
    # the control: intervals for one label do not
    assert alone < 0.95 - 4 * np.sqrt(0.95 * 0.05 / ROUNDS)


def test_without_the_second_sampling_intervals_would_cover_far_too_little(tmp_path: Path) -> None:
    """The control: a tenth of the reports, with the ± of all of them, covers about 46 % (z = 1.96 /
    sqrt(10))."""
    query = minute_query(
        schedule=HOURS,
        columns=[Column("x", ["a", "b"], other=True)],
        mechanism={"name": "TwoCoin", "p": 0.6, "q": 0.5},
    )
    filed = FiledHistory(tmp_path, [query])
    rng, n_hours = np.random.default_rng(3), 100
    filed.file(
        query,
        rng.integers(0, 3, 600 * n_hours),
        np.repeat(np.arange(n_hours), 600),
        0,
        seeded_source(3),
    )
    filed.publish()
    hits = []
    for hour in range(n_hours):
        period = {"from": str(MIDNIGHT + hour * 3600), "to": str(MIDNIGHT + (hour + 1) * 3600)}
        full, part = filed.ask(**period), filed.ask(**period, fraction="0.1")
        hits.append(np.abs(np.array(part["estimate"]) - 1 / 3) < 1.96 * np.array(full["stderr"]))
    assert 0.3 < np.mean(hits) < 0.62
    filed.close()
