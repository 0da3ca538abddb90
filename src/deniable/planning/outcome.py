"""What a design achieves, and whether that meets the request."""

from __future__ import annotations

import math
from typing import NamedTuple

from deniable.planning.design import Design
from deniable.planning.precision import FEWEST_REPORTS
from deniable.planning.request import PlanRequest

__all__ = ["DesignOutcome", "design_error", "reach", "settle"]


class DesignOutcome(NamedTuple):
    """A design with its population and the proportion that it is planned for."""

    design: Design
    population: int
    proportion: float


def reach(request: PlanRequest, design: Design) -> DesignOutcome:
    """What the design achieves, whether or not it meets the request."""
    spread = design.spread
    proportion = spread.worst_proportion if request.proportion is None else request.proportion
    if request.open == "proportion":
        proportion = min(design.goal, 1.0)
    population = request.population
    if population is None:
        spared = proportion * (1 - proportion) if request.finite else 0.0
        needed = (spread.variance(proportion) / design.sampling - spared) / request.target_variance(
            proportion
        )
        population = math.ceil(max(needed, FEWEST_REPORTS / design.sampling))
    return DesignOutcome(design, population, proportion)


def design_error(request: PlanRequest, design: Design) -> float:
    """The standard error at the planned proportion, if the population is given."""
    outcome = reach(request, design)
    reached = design.sampling if request.finite else 0.0
    return design.spread.stderr(outcome.proportion, design.sampling * outcome.population, reached)


def settle(request: PlanRequest, design: Design) -> DesignOutcome | None:
    """What the design achieves, if it meets the request, is not white noise, and yields enough
    reports for a ±."""
    outcome = reach(request, design)
    if request.report_bytes is not None and design.bytes > request.report_bytes:
        return None
    reports = design.sampling * outcome.population
    # one person more than the rate allows
    if not FEWEST_REPORTS * (1 - 1e-9) <= reports <= request.most_reports + 1:
        return None
    if request.open == "proportion" and design.goal >= 1:
        return None
    if (
        request.open == "target"
        and design_error(request, design) > request.noise_limit * outcome.proportion
    ):
        return None
    return outcome if _hidden(request, outcome) else None


def _hidden(request: PlanRequest, outcome: DesignOutcome) -> bool:
    """Whether these people hide an answer within the sampled epsilon, as the accountant of stated
    losses counts it."""
    if request.sampled_epsilon is None:
        return True
    releases = request.releases(outcome.design.mechanism, outcome.design.sampling)
    return releases.sampled_life(outcome.population).epsilon <= request.sampled_epsilon * (1 + 1e-9)
