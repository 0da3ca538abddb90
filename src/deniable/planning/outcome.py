"""What a design comes to, and whether that is what was wished for."""

from __future__ import annotations

import math
from typing import NamedTuple

from deniable.planning.design import Design
from deniable.planning.precision import FEWEST_REPORTS
from deniable.planning.request import PlanRequest
from deniable.privacy.response import sampled_epsilon

__all__ = ["Outcome", "design_error", "reach", "settle"]


class Outcome(NamedTuple):
    """A design with its population and the share that it is planned for."""

    design: Design
    population: int
    share: float


def reach(wishes: PlanRequest, design: Design) -> Outcome:
    """What the design comes to, be it good or bad."""
    spread = design.spread
    share = spread.worst_share if wishes.share is None else wishes.share
    if wishes.open == "share":
        share = min(design.goal, 1.0)
    population = wishes.population
    if population is None:
        spared = share * (1 - share) if wishes.finite else 0.0
        needed = (spread.variance(share) / design.sampling - spared) / wishes.target_variance(share)
        population = math.ceil(max(needed, FEWEST_REPORTS / design.sampling))
    return Outcome(design, population, share)


def design_error(wishes: PlanRequest, design: Design) -> float:
    """The standard error at the planned share, where the population is given."""
    outcome = reach(wishes, design)
    reached = design.sampling if wishes.finite else 0.0
    return design.spread.stderr(outcome.share, design.sampling * outcome.population, reached)


def settle(wishes: PlanRequest, design: Design) -> Outcome | None:
    """What the design comes to, if it breaks no wish, is not white noise, and brings enough reports for a ±."""
    outcome = reach(wishes, design)
    if wishes.report_bytes is not None and design.bytes > wishes.report_bytes:
        return None
    reports = design.sampling * outcome.population
    if not FEWEST_REPORTS * (1 - 1e-9) <= reports <= wishes.most_reports + 1:  # a whole person more than the rate allows
        return None
    if wishes.open == "share":
        return outcome if design.goal < 1 else None
    if wishes.open == "target":
        return outcome if design_error(wishes, design) <= wishes.noise_limit * outcome.share else None
    if wishes.open == "epsilon" and wishes.sampled_ceiling is not None:
        return outcome if sampled_epsilon(design.mechanism.epsilon, design.sampling) <= wishes.sampled_ceiling else None
    return outcome
