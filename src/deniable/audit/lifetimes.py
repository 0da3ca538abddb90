"""Attacks on what is stated for a query's life: replays of permanent answers, and participation in
small crowds.

A replayed answer is judged by a game over fifty epochs, in which a device is heard every time: by
how much more often its reports support one answer than another. How often reports can be linked,
and what a small crowd hides, is compared with what `deniable query check` states
(:mod:`deniable.queries.lasting`, :mod:`deniable.privacy.release_accountant`).
"""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.bounds import clopper_pearson
from deniable.audit.findings import ExactCheck
from deniable.audit.game import Game
from deniable.audit.report_views import sent_views
from deniable.audit.views import CountDifference, View
from deniable.client import encoding
from deniable.errors import ParameterError
from deniable.privacy.crowd import exact_crowd_delta
from deniable.privacy.release_accountant import STATED_DELTA
from deniable.queries.query import Query
from deniable.randomness import ONE, Source

__all__ = ["crowd_check", "life_game", "linkability_check"]

_EPOCHS = 50
_LEVELS = 24
"""To how many levels the number of supporting reports is rounded: as many as the view of
differences tells apart."""
_MOST_PAIRS = 100_000
_CROWDS = (2, 5, 10)
_MOST_BITS = 3
"""The most bits of a report for which all reports of a crowd are enumerated."""
_ROUNDING = 1 + 1e-9


def life_game(query: Query, places: NDArray[Any], source: Source) -> Game:
    """All reports of a device in fifty epochs, or in the query's life if that is shorter, against
    the loss stated for a life."""
    epochs = min(_EPOCHS, query.schedule.n_epochs)
    mechanism: Any = query.mechanism
    dtype, shape = mechanism.layout
    views: list[View]
    if hasattr(mechanism, "supports"):
        views = [CountDifference(list(range(len(places))))]
    else:
        # reports of an index are replayed as they are
        epochs, views = 1, sent_views(mechanism, places, query.most_rows)

    def draw(i: int, count: int) -> NDArray[Any]:
        kept = encoding.permanent_rows(
            query, _alike(query, int(places[i]), count * query.most_rows), source
        )
        if not hasattr(mechanism, "supports"):
            rows = encoding.replay_rows(query, kept, source).reshape(count, -1)
            return np.hstack([np.ones((count, 1), np.uint8), rows])
        total = np.zeros((count, len(places)), dtype=np.int64)
        for _ in range(epochs):
            reports = encoding.replay_rows(query, kept, source).view(dtype).reshape(-1, *shape)
            found = mechanism.supports(reports)[:, places].astype(np.int64)
            total += found.reshape(count, query.most_rows, -1).sum(axis=1)
        return total * _LEVELS // (epochs * query.most_rows)

    labels = [str(query.labels[place]) for place in places]
    name = f"a life of {epochs} epoch{'s' if epochs > 1 else ''}, all reports of a device linked"
    if query.ones > 1:
        return _several_labels(query, places, source, epochs, name)
    return Game(name, query.releases.life.epsilon, labels, draw, views)


def _several_labels(
    query: Query, places: NDArray[Any], source: Source, epochs: int, name: str
) -> Game:
    """The game of answers in several buckets: from each place on, as many as an answer may have.

    The claim is for answers that differ in 2 `ones` labels. Over fifty epochs the majority of a
    bit's reports tells its permanent bit, with few errors. A 1 among the one answer's labels and a
    0 among the other's are evidence for the first, so that the event in which all of them agree has
    the largest likelihood ratio of all transcripts. It reaches the claim if two answers can differ
    in 2 `ones` labels, and otherwise the same part of it.
    """
    mechanism: Any = query.mechanism
    sets = np.sort((places[:, None] + np.arange(query.ones)) % len(query.labels), axis=1)
    union = np.unique(sets)
    second = getattr(mechanism, "_step", None)
    middle = 0.5 if second is None else (second.p + second.q) / (2 * ONE)

    def draw(i: int, count: int) -> NDArray[Any]:
        kept = encoding.permanent_rows(query, np.tile(sets[i], (count, 1)), source)
        ones = np.zeros((count, union.size), dtype=np.int64)
        for _ in range(epochs):
            ones += mechanism.supports(encoding.replay_rows(query, kept, source))[:, union]
        bits = ones > middle * epochs
        # Labels that two answers share are counted for both, and cancel.
        return np.stack(
            [bits[:, np.searchsorted(union, each)].sum(axis=1) for each in sets], axis=1
        )

    apart = max(len(set(one) ^ set(other)) for one, other in combinations(sets.tolist(), 2))
    part = apart / (2 * query.ones)
    most = (
        f"; answers that differ in {apart} of {2 * query.ones} labels can show at most {part:.0%}"
        " of the claim"
    )
    labels = ["+".join(str(query.labels[label]) for label in each) for each in sets]
    return Game(
        name + most,
        query.releases.life.epsilon,
        labels,
        draw,
        [CountDifference(list(range(len(places))))],
    )


def linkability_check(
    query: Query, places: NDArray[Any], n: int, error: float, source: Source
) -> ExactCheck | None:
    """How often two reports of a device are equal, and those of two devices with one answer,
    against what is stated.

    None if nothing is stated. The second figure is stated for the answer for which it is largest,
    so it is only refuted from above, unless every answer was tried.
    """
    stated = query.mechanism.equal_reports()
    if stated is None:
        return None
    pairs = min(n, _MOST_PAIRS)
    same, other = [], []
    for place in places.tolist():
        kept = encoding.permanent_rows(query, _alike(query, place, pairs), source)
        one, two = (encoding.replay_rows(query, kept, source) for _ in range(2))
        same.append(int((one == two).all(axis=1).sum()))
        other.append(int((one == np.roll(two, 1, axis=0)).all(axis=1).sum()))
    risk = error / (4 * len(places))
    holds = all(_agrees(hits, pairs, stated[0], risk) for hits in same)
    bounds = [clopper_pearson(hits, pairs, risk) for hits in other]
    holds &= max(low for low, _ in bounds) <= stated[1] * _ROUNDING
    if len(places) == len(query.labels):
        holds &= max(high for _, high in bounds) * _ROUNDING >= stated[1]
    detail = (
        f"of a device: {stated[0]:.3g} stated, {max(same) / pairs:.3g} found;"
        f" of two devices with one answer: {stated[1]:.3g} stated, {max(other) / pairs:.3g} found"
    )
    return ExactCheck("two reports are equal as often as is stated", holds, detail)


def crowd_check(query: Query) -> ExactCheck | None:
    """The sampled loss stated for small crowds, against every crowd of that size; None if there are
    too many to enumerate."""
    matrix = _matrix(query)
    if matrix is None or query.most_rows > 1 or query.ones > 1:
        return None
    wrong, tried = [], []
    sampling = query.releases.sampling
    for people in _CROWDS:
        stated = query.releases.sampled(people)
        try:
            delta = exact_crowd_delta(matrix, sampling, people, stated.epsilon)
        except ParameterError:
            break
        tried.append(f"{people}: {stated.epsilon:.4g}")
        if delta > STATED_DELTA * _ROUNDING:
            wrong.append(f"{stated} is stated, and is exceeded with probability {delta:.2g}")
    if not tried:
        return None
    detail = (
        wrong[0] if wrong else f"epsilon by people, at delta {STATED_DELTA:g}: {', '.join(tried)}"
    )
    return ExactCheck(
        "the sampled loss stated for a small crowd covers every crowd of that size",
        not wrong,
        detail,
    )


def _alike(query: Query, place: int, count: int) -> NDArray[np.intp]:
    """The true answer of this many rows."""
    if query.ones == 1:
        return np.full(count, place, dtype=np.intp)
    return np.tile(np.array([place, *[-1] * (query.ones - 1)], dtype=np.intp), (count, 1))


def _agrees(hits: int, n: int, stated: float, error: float) -> bool:
    low, high = clopper_pearson(hits, n, error)
    return low <= stated * _ROUNDING and stated <= high * _ROUNDING


def _matrix(query: Query) -> NDArray[np.float64] | None:
    """P(report | answer) for every report, where there are few."""
    channel = query.mechanism.channel()
    if isinstance(channel, np.ndarray) and channel.ndim == 2:
        return channel if len(channel) <= 2 * _MOST_BITS else None
    k = len(query.labels)
    if not hasattr(query.mechanism, "draw_sets") or k > _MOST_BITS:
        return None
    a, b = channel
    truth = np.eye(k, dtype=bool)
    columns = [
        np.where(truth, bit * a + (1 - bit) * (1 - a), bit * b + (1 - bit) * (1 - b))
        for bit in (0, 1)
    ]
    rows = [
        [np.prod([columns[bit][i, v] for i, bit in enumerate(bits)]) for v in range(k)]
        for bits in product((0, 1), repeat=k)
    ]
    return np.array(rows)
