"""The games of a pipeline's parties: what each may learn, and what it demonstrably learns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.findings import Audit, ExactCheck
from deniable.audit.game import FEWEST, Game, Progress, Verdict, play, play_together
from deniable.audit.lifetimes import crowd_check, life_game, linkability_check
from deniable.audit.observing import VISIBLE_BYTES
from deniable.audit.pipeline import History, Passage, Pipeline, histories_of
from deniable.audit.report_views import inputs_of, sent_views
from deniable.audit.views import CountDifference, ItemScores, WholeReport
from deniable.checks import check_confidence
from deniable.client import encoding
from deniable.client.simulation.fleet import Fleet
from deniable.queries.query import Query
from deniable.randomness import Source, system_source
from deniable.wire.shares import record_bytes

__all__ = ["audit_pipeline"]

_INPUTS = 3
_WIDTH = 512
"""How many bytes a game about bytes looks at."""
_CROWD = 20
"""People besides the one the analyst wants to know about."""
_MOST_WINDOWS = 20_000


def audit_pipeline(
    query: Query,
    folder: Path,
    n: int = 100_000,
    confidence: float = 0.999,
    source: Source | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Send people with one answer or another through devices, proxies and aggregator, and attack
    what each party sees.

    At most `n` people. The network, and any set of proxies short of all of them, may learn nothing
    at all (claim 0); all parties together, the local epsilon, or what is charged where answers are
    memoized; the analyst, the sampled epsilon of a small crowd.
    """
    check_confidence(confidence)
    coins = source or system_source()
    places = inputs_of(query.mechanism, _INPUTS)[1]
    histories = histories_of(query, places.tolist())
    pipeline = Pipeline(query, folder, coins)
    games, parts = _games(query, histories, places)
    errors = [(1 - confidence) / (len(games) + 5)] * len(games)
    order: list[NDArray[np.float64]] = []
    noise = _Noise(len(query.proxies), record_bytes(query.size_class or 0))

    def draw(i: int, count: int) -> list[NDArray[Any]]:
        passed = pipeline.passage(histories[i], count)
        order.append(passed.order)
        noise.add(passed)
        return [part(passed) for part in parts]

    verdicts = play_together(
        games,
        draw,
        n,
        errors,
        progress=None if progress is None else lambda done: progress(0.9 * done),
    )
    linkage = _linkage(np.concatenate(order), n, errors[0])
    verdicts += [] if linkage is None else [linkage]
    verdicts.append(_analyst(query, places, min(n, _MOST_WINDOWS), errors[0], coins))
    checks = [noise.found(errors[0]), crowd_check(query)]
    if query.memoize:
        verdicts.append(play(life_game(query, places, coins), max(n, FEWEST), errors[0]))
        checks.append(linkability_check(query, inputs_of(query.mechanism)[1], n, errors[0], coins))
    notes = (
        (
            f"Query {query.id!r}, version {query.serial}, hash {query.digest.hex()[:16]};"
            f" {len(query.proxies)} proxies; {histories[0].epochs}"
            f" epoch{'s' if histories[0].epochs > 1 else ''} of a person's answers."
        ),
        "All messages that were sent came out of the aggregator's join, report for report.",
    )
    # the game about the local epsilon comes first
    verdicts.sort(key=lambda verdict: verdict.game != _TOGETHER)
    people = max(verdict.n for verdict in verdicts)
    return Audit(
        f"the pipeline of {query.id!r}",
        query.epsilon_local,
        confidence,
        tuple(verdicts),
        tuple(check for check in checks if check is not None),
        notes,
        people,
    )


_TOGETHER = "all parties together"


def _games(
    query: Query, histories: Sequence[History], places: NDArray[Any]
) -> tuple[list[Game], list[Any]]:
    """The games, and what the party of each sees of a passage."""
    names = [history.name for history in histories]
    n_reports = histories[0].epochs * query.most_rows
    claim = float(encoding.cost_of_answer(query)) if query.memoize else query.epsilon_local
    games = [
        _game(_TOGETHER, claim, names, sent_views(query.mechanism, places, n_reports)),
        _game("the network", 0.0, names, [WholeReport()]),
    ]
    parts: list[Any] = [_together, _network]
    for proxy in range(len(query.proxies)):
        games.append(_game(f"proxy {proxy + 1} alone", 0.0, names, [ItemScores()]))
        parts.append(lambda passed, proxy=proxy: _bytes(passed, [proxy]))
    if len(query.proxies) > 2:
        for left_out, chosen in enumerate(
            reversed(list(combinations(range(len(query.proxies)), len(query.proxies) - 1)))
        ):
            games.append(_game(f"all proxies but {left_out + 1}", 0.0, names, [ItemScores()]))
            parts.append(lambda passed, chosen=chosen: _bytes(passed, list(chosen)))
    return games, parts


def _game(name: str, claim: float, inputs: list[str], views: Sequence[Any]) -> Game:
    return Game(name, claim, inputs, _not_alone, views)


def _not_alone(i: int, count: int) -> NDArray[Any]:
    raise NotImplementedError("these games are played together")


def _together(passed: Passage) -> NDArray[np.uint8]:
    return np.column_stack([passed.took_part.any(axis=1).astype(np.uint8), passed.reports])


def _network(passed: Passage) -> NDArray[np.uint8]:
    """Who sent how many bytes to which proxy, epoch by epoch: TLS shows no more."""
    sent = [
        (part.reshape(len(part), passed.took_part.shape[1], -1) != 0).any(axis=2)
        for part in passed.shares
    ]
    return np.packbits(np.hstack(sent), axis=1)


def _bytes(passed: Passage, proxies: list[int]) -> NDArray[np.uint8]:
    """All bytes that some proxies hold about a person, and their XOR: what matching shares would
    reveal."""
    shares = [passed.shares[proxy] for proxy in proxies]
    width = min(shares[0].shape[1], _WIDTH // (len(shares) + (len(shares) > 1)))
    cut = [share[:, :width] for share in shares]
    return np.hstack([*cut, np.bitwise_xor.reduce(cut)] if len(cut) > 1 else cut)


class _Noise:
    """Whether the bytes of each single proxy's shares are uniform, whatever the answers: a
    chi-square test per position."""

    def __init__(self, proxies: int, length: int) -> None:
        self._length = length
        self._counts = np.zeros((proxies, length - VISIBLE_BYTES, 256), dtype=np.int64)

    def add(self, passed: Passage) -> None:
        offsets = 256 * np.arange(self._counts.shape[1])
        for proxy, shares in enumerate(passed.shares):
            payloads = shares[passed.took_part[:, 0], VISIBLE_BYTES : self._length]
            found = np.bincount((payloads + offsets).reshape(-1), minlength=self._counts[0].size)
            self._counts[proxy] += found.reshape(-1, 256)

    def found(self, error: float) -> ExactCheck:
        from scipy.stats import chi2  # noqa: PLC0415 - slow to import

        n = int(self._counts[0, 0].sum())
        square = ((self._counts - n / 256) ** 2).sum(axis=2) * 256 / n
        chance = float(chi2.sf(square, 255).min()) * square.size  # of the most unusual position
        detail = f"{n:,} shares of each; a byte this unusual has a chance of {min(chance, 1.0):.2g}"
        return ExactCheck(
            "the bytes of each proxy's shares are uniform noise", chance >= error, detail
        )


def _linkage(order: NDArray[np.float64], n: int, error: float) -> Verdict | None:
    """Whether a message's position in a proxy's log reveals when it came: a token, and so a person,
    came with it."""
    halves = [order[order[:, 0] < 0.5, 1], order[order[:, 0] >= 0.5, 1]]
    size = min(n, 2 * min(half.size for half in halves)) * 4 // 5
    if size < FEWEST:
        return None
    used = [0, 0]

    def draw(i: int, count: int) -> NDArray[Any]:
        found = halves[i][used[i] : used[i] + count]
        used[i] += count
        return np.asarray(found * 16, dtype=np.uint8)

    names = ["came first", "came last"]
    return play(Game("order in a proxy's log", 0.0, names, draw, [WholeReport()]), size, error)


def _analyst(query: Query, places: NDArray[Any], n: int, error: float, source: Source) -> Verdict:
    """The counts of one epoch of a small crowd: one person has one answer or the other, and who
    took part is unknown."""
    mechanism = query.mechanism
    dtype, shape = mechanism.layout
    names = [str(query.labels[place]) for place in places]
    single = max(query.most_rows, query.ones) == 1
    others = np.arange(_CROWD) % len(query.buckets)

    def draw(i: int, count: int) -> NDArray[Any]:
        people = np.concatenate([[places[i]], others])
        truth = np.tile(people, count)
        if not single:
            fill = -1 if query.ones > 1 else encoding.no_answer(query)
            rest = np.full((truth.size, max(query.most_rows, query.ones) - 1), fill)
            truth = np.column_stack([truth, rest])
        fleet = _Counted(query, count * people.size, source=source)
        fleet.answer(0, truth)
        world = np.repeat(fleet.answering // people.size, query.most_rows)
        data = fleet.drawn.view(dtype).reshape(len(fleet.drawn), *shape)
        ends = np.searchsorted(world, np.arange(count + 1))
        counts = [
            mechanism.count(data[start:end])
            for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
        ]
        return np.column_stack([np.diff(ends), np.array(counts)]).astype("<u2")

    crowd = query.releases.sampled(1 + _CROWD).epsilon
    claim = crowd if not query.memoize else float(encoding.cost_of_answer(query))
    views: list[Any] = [ItemScores()]
    if mechanism.cells == len(query.labels):
        views.append(CountDifference([1 + int(place) for place in places]))
    return play(Game("the analyst, of a crowd of about 20", claim, names, draw, views), n, error)


class _Counted(Fleet):
    """A fleet that exposes its reports before they are split."""

    answering: NDArray[np.intp]
    drawn: NDArray[np.uint8]

    def _reports(self, devices: NDArray[np.intp], truth: NDArray[np.intp]) -> NDArray[np.uint8]:
        self.answering, self.drawn = devices, super()._reports(devices, truth)
        return self.drawn
