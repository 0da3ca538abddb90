"""The distinguishing game: reports of two inputs are drawn, an event is chosen on some of them and counted in the others.

A fifth of the reports fits the views, a fifth chooses inputs, view and event, and the rest counts it, in looks of doubling size.
After each look the game may stop: when the claim is refuted, when the event's ratio surely lies below the claim, or when the
bounds are as close as asked for. The chance of error is divided among the looks, so stopping early costs none of the confidence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.audit.bounds import LossBounds, best_event, invisible_below, loss_bounds
from deniable.audit.views import View
from deniable.errors import ParameterError
from deniable.results import Result, encode, fields_of

__all__ = ["Game", "Verdict", "play"]

Draw = Callable[[int, int], NDArray[Any]]
Progress = Callable[[float], None]
_LOOKS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
_SPENT = (1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 2)
"""The part of the chance of error that each look may use."""
FEWEST = 2000
"""Reports below which no game is worth playing."""


@dataclass(frozen=True)
class Game:
    """Something that draws a report from an input, and the epsilon that is claimed for any two inputs."""

    name: str
    claim: float
    inputs: Sequence[Any]
    draw: Draw
    """`draw(i, count)`: that many independent reports of input i, one a row."""
    views: Sequence[View]


@dataclass(frozen=True, eq=False)
class Verdict(Result):
    """What a game found."""

    game: str
    claim: float
    bounds: LossBounds
    """Of the event's log likelihood ratio; `low` is a lower bound on the true epsilon."""
    inputs: tuple[Hashable, Hashable]
    """Those that were told apart."""
    view: str
    probabilities: tuple[float, float]
    """Of the event under either input, as counted."""
    n: int
    """Reports drawn in all."""
    invisible: float
    """Events rarer than about this were not seen."""
    stopped: str

    @property
    def holds(self) -> bool:
        """Whether the claim was not refuted."""
        return self.bounds.low <= self.claim

    @property
    def tightness(self) -> float:
        """The lower bound as a part of the claim; 1 means that nobody could show more."""
        return max(self.bounds.low, 0.0) / self.claim

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what follows from it."""
        low, high = encode(self.bounds)
        known = {"holds": self.holds, "lower_bound": low, "event_upper_bound": high, "tightness": encode(self.tightness)}
        return {**fields_of(self), **known}

    KEYS: ClassVar[Mapping[str, str]] = {"invisible": "invisible_below"}


def play(game: Game, n: int, error: float, resolution: float = 0.01, progress: Progress | None = None) -> Verdict:
    """Bound the loss from below with `n` reports at most; the bound is wrong with probability `error` at most."""
    if n < FEWEST:
        raise ParameterError("n", n, f"must be at least {FEWEST} reports a game")
    inputs = len(game.inputs)
    each = n // 5 // inputs
    fitting = [game.draw(i, each) for i in range(inputs)]
    views = [view for view in game.views if view.fit(fitting)]
    choosing = [game.draw(i, each) for i in range(inputs)]
    n_test = (n - 2 * each * inputs) // 2
    one, other, view, event = _choose(views, fitting, choosing)
    drawn = 2 * each * inputs
    hits, counted, bounds, stopped = [0, 0], 0, LossBounds(-np.inf, np.inf), "all reports were used"
    for look, part in zip(_LOOKS, _SPENT, strict=True):
        more = int(look * n_test) - counted
        for side, index in enumerate((one, other)):
            cells = view.cells(game.draw(index, more), *sorted((one, other)))
            hits[side] += int(np.count_nonzero(event[cells]))
        counted += more
        drawn += 2 * more
        bounds = loss_bounds(hits[0], hits[1], counted, error * part)
        if progress is not None:
            progress(drawn / n)
        reason = _reason(bounds, game.claim, resolution)
        if reason is not None:
            stopped = reason
            break
    return Verdict(
        game=game.name,
        claim=game.claim,
        bounds=bounds,
        inputs=(game.inputs[one], game.inputs[other]),
        view=view.name,
        probabilities=(hits[0] / counted, hits[1] / counted),
        n=drawn,
        invisible=invisible_below(counted, error * _SPENT[-1]),
        stopped=stopped,
    )


def _reason(bounds: LossBounds, claim: float, resolution: float) -> str | None:
    """Why nothing is to be gained by going on."""
    if bounds.low > claim:
        return "the claim is refuted"
    if bounds.high < claim:
        return "this event surely stays below the claim"
    if bounds.high - bounds.low < resolution * claim:
        return f"the bounds are within {100 * resolution:g} % of the claim"
    return None


def _choose(
    views: Sequence[View], fitting: Sequence[NDArray[Any]], choosing: Sequence[NDArray[Any]]
) -> tuple[int, int, View, NDArray[np.bool_]]:
    """The two inputs, the view and the event that promise the largest bound."""
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
        raise ParameterError("views", len(views), "must be at least one that says something about these reports")
    return best[1:]
