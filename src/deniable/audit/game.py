"""The distinguishing game: reports of two inputs are drawn; an event is chosen on some of them and
counted in the others.

A fifth of the reports is used to fit the views, a fifth to choose inputs, view and event, and the
rest to count that event, in looks of doubling size. After each look the game may stop: when the
claim is refuted, when the event's ratio is certainly below the claim, or when the bounds are as
close as requested. The chance of error is divided among the looks, so stopping early costs no
confidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.audit.bounds import LossBounds, best_event, invisible_below, loss_bounds, visible_from
from deniable.audit.views import View
from deniable.errors import ParameterError
from deniable.results import Result, encode, fields_of

__all__ = ["Game", "Verdict", "play", "play_together"]

Draw = Callable[[int, int], NDArray[Any]]
Progress = Callable[[float], None]
_LOOKS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
_SPENT = (1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 2)
"""The fraction of the chance of error that each look may use."""
FEWEST = 2000
"""The fewest reports for which a game is worth playing."""


@dataclass(frozen=True)
class Game:
    """Something that draws a report from an input, and the epsilon claimed for any two inputs."""

    name: str
    claim: float
    """0 where nothing at all may be revealed; infinite where nothing is claimed."""
    inputs: Sequence[Any]
    draw: Draw
    """`draw(i, count)`: that many independent reports of input i, one per row."""
    views: Sequence[View]


@dataclass(frozen=True, eq=False)
class Verdict(Result):
    """What a game found."""

    game: str
    claim: float
    bounds: LossBounds
    """Bounds on the event's log likelihood ratio; `low` is a lower bound on the true epsilon."""
    inputs: tuple[Hashable, Hashable]
    """The two inputs that were told apart."""
    view: str
    probabilities: tuple[float, float]
    """The event's frequency under each input, as counted."""
    n: int
    """Total reports drawn."""
    invisible: float
    """Events rarer than about this were not seen."""
    stopped: str
    visible: float | None = None
    """A leak that reveals the input outright this often would have been seen, 19 times out of 20;
    None if none would."""

    @property
    def holds(self) -> bool:
        """Whether the claim was not refuted."""
        return self.bounds.low <= self.claim

    @property
    def shown(self) -> float:
        """The epsilon shown to be lost, at least."""
        return max(self.bounds.low, 0.0)

    @property
    def tightness(self) -> float:
        """The lower bound as a fraction of the claim; 1 is the most that can be shown. NaN where 0,
        or nothing, is claimed."""
        return self.shown / self.claim if 0 < self.claim < math.inf else math.nan

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what follows from it."""
        low, high = encode(self.bounds)
        known = {
            "holds": self.holds,
            "lower_bound": low,
            "event_upper_bound": high,
            "tightness": encode(self.tightness),
        }
        return {**fields_of(self), **known}

    KEYS: ClassVar[Mapping[str, str]] = {
        "invisible": "invisible_below",
        "visible": "leak_seen_from",
    }


def play(
    game: Game, n: int, error: float, resolution: float = 0.01, progress: Progress | None = None
) -> Verdict:
    """Bound the loss from below with at most `n` reports; the bound is wrong with probability at
    most `error`."""
    return play_together(
        [game], lambda i, count: [game.draw(i, count)], n, [error], resolution, progress
    )[0]


def play_together(
    games: Sequence[Game],
    draw: Callable[[int, int], Sequence[NDArray[Any]]],
    n: int,
    errors: Sequence[float],
    resolution: float = 0.01,
    progress: Progress | None = None,
) -> list[Verdict]:
    """Several games about the same reports, each of which sees its own part: `draw(i, count)`
    returns one array per game.

    All have the same inputs. Each bound is wrong with probability at most its own error, so all
    together with at most their sum.
    """
    if n < FEWEST:
        raise ParameterError("n", n, f"must be at least {FEWEST} reports per game")
    inputs = len(games[0].inputs)
    each = n // 5 // inputs
    fitting, choosing = ([draw(i, each) for i in range(inputs)] for _ in range(2))
    played = [
        _Played(game, error, [rows[at] for rows in fitting], [rows[at] for rows in choosing])
        for at, (game, error) in enumerate(zip(games, errors, strict=True))
    ]
    n_test = (n - 2 * each * inputs) // len({index for one in played for index in one.pair})
    drawn, counted = 2 * each * inputs, 0
    for look, part in zip(_LOOKS, _SPENT, strict=True):
        open_games = [one for one in played if not one.stopped]
        if not open_games:
            break
        more = int(look * n_test) - counted
        needed = sorted({index for one in open_games for index in one.pair})
        for index in needed:
            rows = draw(index, more)
            for at, one in enumerate(played):
                one.count(index, rows[at])
        counted += more
        drawn += len(needed) * more
        for one in open_games:
            one.look(counted, drawn, part, resolution)
        if progress is not None:
            progress(min(1.0, drawn / n))
    return [one.verdict(each, n_test) for one in played]


class _Played:
    """One game: the chosen event, and its counts so far."""

    def __init__(
        self,
        game: Game,
        error: float,
        fitting: Sequence[NDArray[Any]],
        choosing: Sequence[NDArray[Any]],
    ) -> None:
        self.game, self.error = game, error
        views = [view for view in game.views if view.fit(fitting)]
        one, other, self.view, self.event = _choose(views, fitting, choosing)
        self.pair, self.hits = (one, other), [0, 0]
        self.counted = self.drawn = 0
        self.bounds, self.stopped = LossBounds(-np.inf, np.inf), ""

    def count(self, index: int, rows: NDArray[Any]) -> None:
        if index not in self.pair or self.stopped:
            return
        first, second = sorted(self.pair)
        cells = self.view.cells(rows, first, second)
        self.hits[self.pair.index(index)] += int(np.count_nonzero(self.event[cells]))

    def look(self, counted: int, drawn: int, part: float, resolution: float) -> None:
        self.counted, self.drawn = counted, drawn
        self.bounds = loss_bounds(self.hits[0], self.hits[1], counted, self.error * part)
        self.stopped = _reason(self.bounds, self.game.claim, resolution) or ""

    def verdict(self, chosen_from: int, planned: int) -> Verdict:
        """What was found. A more informative event would have been counted in all of the `planned`
        reports of each input."""
        one, other = self.pair
        last = self.error * _SPENT[-1]
        return Verdict(
            game=self.game.name,
            claim=self.game.claim,
            bounds=self.bounds,
            inputs=(self.game.inputs[one], self.game.inputs[other]),
            view=self.view.name,
            probabilities=(self.hits[0] / self.counted, self.hits[1] / self.counted),
            n=self.drawn,
            invisible=invisible_below(planned, last),
            stopped=self.stopped or "all reports were used",
            visible=visible_from(chosen_from, planned, last, self.game.claim),
        )


def _reason(bounds: LossBounds, claim: float, resolution: float) -> str | None:
    """Why continuing would gain nothing."""
    if bounds.low > claim:
        return "the claim is refuted"
    if claim in (0, math.inf):
        return None
    if bounds.high < claim:
        return "this event surely stays below the claim"
    if bounds.high - bounds.low < resolution * claim:
        return f"the bounds are within {100 * resolution:g} % of the claim"
    return None


def _choose(
    views: Sequence[View], fitting: Sequence[NDArray[Any]], choosing: Sequence[NDArray[Any]]
) -> tuple[int, int, View, NDArray[np.bool_]]:
    """The two inputs, the view and the event expected to give the largest bound."""
    best: tuple[float, int, int, View, NDArray[np.bool_]] | None = None
    for view in views:
        for pair in combinations(range(len(fitting)), 2):
            counts = [
                tuple(np.bincount(view.cells(part[i], *pair), minlength=view.n_cells) for i in pair)
                for part in (fitting, choosing)
            ]
            for turned in (False, True):
                order, seen = ((two[1], two[0]) if turned else (two[0], two[1]) for two in counts)
                event, value = best_event(order, seen)
                if best is None or value > best[0]:
                    one, other = pair[::-1] if turned else pair
                    best = value, one, other, view, event
    if best is None:
        raise ParameterError(
            "views", len(views), "must be at least one that says something about these reports"
        )
    return best[1:]
