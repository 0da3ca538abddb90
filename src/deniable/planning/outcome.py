"""What a design comes to, and whether that is what was wished for."""

from __future__ import annotations

import math
from typing import NamedTuple

from deniable.planning.design import Design
from deniable.planning.wishes import Wishes
from deniable.privacy.response import sampled_epsilon

__all__ = ["Outcome", "reach", "settle"]


class Outcome(NamedTuple):
    """A design with its population and the share that it is planned for."""

    design: Design
    population: int
    share: float


def reach(wishes: Wishes, design: Design) -> Outcome:
    """What the design comes to, be it good or bad."""
    spread = design.spread
    share = spread.worst_share if wishes.share is None else wishes.share
    if wishes.open == "share":
        share = min(design.goal, 1.0)
    population = wishes.population
    if population is None:
        spared = share * (1 - share) if wishes.finite else 0.0
        population = math.ceil((spread.variance(share) / design.sampling - spared) / wishes.target_variance(share))
    return Outcome(design, population, share)


def settle(wishes: Wishes, design: Design) -> Outcome | None:
    """What the design comes to, if it breaks no wish and is not white noise."""
    outcome = reach(wishes, design)
    if wishes.open == "share":
        return outcome if design.goal < 1 else None
    if wishes.open == "target":
        reached = design.sampling if wishes.finite else 0.0
        error = design.spread.stderr(outcome.share, design.sampling * outcome.population, reached)
        return outcome if error <= wishes.noise_limit * outcome.share else None
    if wishes.open == "epsilon" and wishes.sampled_ceiling is not None:
        return outcome if sampled_epsilon(design.mechanism.epsilon, design.sampling) <= wishes.sampled_ceiling else None
    return outcome
