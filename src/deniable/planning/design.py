"""The best design for a request: which mechanism, which epsilon, and how many people to ask.

A design that asks a fraction s of the people, with local loss epsilon, has the sampled loss ln(1 +
s (E - 1)), E = e^epsilon. So a ceiling on the sampled loss trades answers for truth: s = (e^ceiling
- 1)/(E - 1). (Of replayed answers, s is the probability of being heard in any epoch, and E that of
all permanent answers.) The best E minimises (E - 1) times the variance of one report if population,
target or sampled epsilon is open; the proportion itself if the proportion is open; and the local
epsilon if that is open, in which case everybody is asked.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace

from deniable.checks import LARGEST_EPSILON, SMALLEST_EPSILON
from deniable.mechanisms.mechanism import Mechanism
from deniable.planning.candidates import Candidate, Trial
from deniable.planning.precision import FEWEST_REPORTS, ProportionVariance
from deniable.planning.request import PlanRequest
from deniable.planning.search import first_below, least
from deniable.privacy.composition import budget_per_answer
from deniable.privacy.response import participation

__all__ = ["Design", "Shortage", "fine_design", "rough_design"]

_LARGEST_SEARCHED = 20.0
"""A larger local epsilon helps no population on earth to detect a proportion."""

_STEP = 0.25
_TOLERANCE = 5e-4


@dataclass(frozen=True)
class Design:
    """A mechanism and the fraction of people who are asked."""

    mechanism: Mechanism
    spread: ProportionVariance
    sampling: float
    goal: float
    """The goal: the proportion, or what the population, the variance or the sampled epsilon grow
    with."""
    x: float
    """The logarithm of e^epsilon - 1."""

    @property
    def bytes(self) -> int:
        """The size of one report."""
        return self.mechanism.report_bytes


class _Case:
    """The request, as functions of a mechanism's spread and epsilon."""

    def __init__(self, request: PlanRequest) -> None:
        self.request = request
        self.open = request.open
        self.sampled = (
            None if request.sampled_ceiling is None else math.expm1(request.sampled_ceiling)
        )
        known = self.open != "population" and request.population
        self.most_sampled = min(1.0, request.most_reports / known) if known else 1.0

    def proportion(self, spread: ProportionVariance) -> float:
        """The proportion that the target is about: the given one, or the hardest to estimate."""
        return (
            spread.worst_proportion if self.request.proportion is None else self.request.proportion
        )

    def room(self, growth: float) -> float:
        """The largest fraction of people that may be asked if one report's e^epsilon - 1 is
        `growth`."""
        if self.sampled is None:
            return self.most_sampled
        linked = (
            growth
            if self.request.linked == 1
            else math.expm1(min(self.request.linked * math.log1p(growth), 700.0))
        )
        heard = self.sampled / linked
        if heard < 1 and self.request.tosses > 1:
            heard = -math.expm1(math.log1p(-heard) / self.request.tosses)
        return min(self.most_sampled, heard)

    def _epsilon_for(self, sampling: float) -> float:
        """The local epsilon at which so many people may be asked: the inverse of :meth:`room`."""
        ceiling = 0.0 if self.sampled is None else self.sampled
        return (
            math.log1p(ceiling / participation(min(sampling, 1.0), self.request.tosses))
            / self.request.linked
        )

    def goal(self, spread: ProportionVariance, growth: float) -> float:
        """The goal to minimise."""
        if self.open == "proportion":
            request, part = self.request, self.room(growth)
            return spread.smallest_proportion(
                request.given("cv"),
                part * request.given("population"),
                part if request.finite else 0.0,
            )
        variance = spread.variance(self.proportion(spread))
        if self.open == "epsilon":
            return growth * variance if self.request.spares == "sampled" else growth
        return variance / self.room(growth)

    def needed(self, spread: ProportionVariance) -> float:
        """The fraction of people who must be asked for the target, if population and target are
        given; may exceed 1."""
        request, proportion = self.request, self.proportion(spread)
        spared = proportion * (1 - proportion) if request.finite else 0.0
        people = request.given("population")
        return max(
            spread.variance(proportion) / (request.target_variance(proportion) * people + spared),
            FEWEST_REPORTS / people,
        )

    def excess(self, spread: ProportionVariance) -> float:
        """Reports needed over reports available: at most 1 if a design is feasible."""
        if self.open == "epsilon":
            return self.needed(spread) / self.most_sampled
        if self.open == "population" and self.request.most_reports < math.inf:
            proportion = self.proportion(spread)
            return (
                spread.variance(proportion)
                / self.request.target_variance(proportion)
                / self.request.most_reports
            )
        return 0.0

    def range(self) -> tuple[float, float]:
        """The smallest and largest local epsilon worth considering."""
        highest = self.request.local_ceiling
        if self.open == "epsilon":
            return SMALLEST_EPSILON * 1000, highest or _LARGEST_SEARCHED
        if self.sampled is None:  # a ceiling on the local epsilon alone: spend it all
            highest = budget_per_answer(self.request.given("epsilon"), self.request.answers)
            return highest, highest
        # Below this, sampling would spare nobody, so a larger epsilon costs nothing.
        lowest = self._epsilon_for(self.most_sampled)
        if highest is None:
            highest = min(max(lowest, _LARGEST_SEARCHED), LARGEST_EPSILON)
        if self.request.population is not None:  # above this too few people would be asked
            highest = min(
                highest, max(lowest, self._epsilon_for(FEWEST_REPORTS / self.request.population))
            )
        return min(lowest, highest), highest


class _Search:
    """The candidate's designs along x, the logarithm of e^epsilon - 1, in which everything is
    smooth."""

    def __init__(self, request: PlanRequest, candidate: Candidate) -> None:
        self.case, self.candidate = _Case(request), candidate
        self.lowest, self.highest = self.case.range()
        self.low, self.high = math.log(math.expm1(self.lowest)), math.log(math.expm1(self.highest))

    def at(self, x: float) -> Trial:
        epsilon = self.highest if x == self.high else max(self.lowest, math.log1p(math.exp(x)))
        return self.candidate.at(epsilon, lambda spread: self.case.goal(spread, math.exp(x)))

    def goal(self, x: float) -> float:
        trial = self.at(x)
        return self.case.goal(trial.spread, trial.growth)

    def excess(self, x: float) -> float:
        return self.case.excess(self.at(x).spread)

    def design(self, x: float) -> Design:
        mechanism = self.at(x).build()
        spread, growth = ProportionVariance.of(mechanism), math.expm1(mechanism.epsilon)
        sampling = (
            min(self.case.needed(spread), self.case.most_sampled)
            if self.case.open == "epsilon"
            else self.case.room(growth)
        )
        return Design(mechanism, spread, sampling, self.case.goal(spread, growth), x)


@dataclass(frozen=True)
class Shortage:
    """Why there is no design: even at the largest epsilon, `times` as many reports would be needed
    as are available."""

    times: float
    bytes: int


def rough_design(request: PlanRequest, candidate: Candidate) -> Design | Shortage:
    """The candidate's best design, to about 1 % of its goal, or what it lacks.

    It tries the ends, and between them only multiples of a step: the same epsilons in every search,
    so that most mechanisms are already built.
    """
    search = _Search(request, candidate)
    shortage = search.excess(search.high)
    if shortage > 1:
        return Shortage(shortage, search.at(search.high).build().report_bytes)
    # the goal grows with epsilon, so the best is the first that has enough reports
    if shortage and request.spares == "local":
        return search.design(first_below(search.excess, 1.0, search.low, search.high, _TOLERANCE))
    first, last = math.ceil(search.low / _STEP), math.floor(search.high / _STEP)
    if shortage:  # more epsilon needs fewer reports: leave out where too many are needed
        first = (
            bisect_left(range(first, last + 1), True, key=lambda i: search.excess(i * _STEP) <= 1)
            + first
        )
    while last - first > 2:
        third = (last - first) // 3
        if search.goal((first + third) * _STEP) <= search.goal((last - third) * _STEP):
            last -= third
        else:
            first += third
    points = [search.high, *(i * _STEP for i in range(first, last + 1))]
    if not shortage:
        points.append(search.low)
    return search.design(min(points, key=search.goal))


def fine_design(request: PlanRequest, candidate: Candidate, rough: Design) -> Design:
    """The candidate's best design near a rough one, with its sampling rounded to the private
    side."""
    search = _Search(request, candidate)
    low, high = max(search.low, rough.x - _STEP), min(search.high, rough.x + _STEP)
    if search.excess(low) > 1:
        low = first_below(search.excess, 1.0, low, high, _TOLERANCE)
    best = search.design(least(search.goal, low, high, _TOLERANCE) if low < high else high)
    if request.open == "epsilon" or request.sampled_ceiling is None:
        return best
    return replace(
        best,
        sampling=min(search.case.most_sampled, request.largest_sampling(best.mechanism.epsilon)),
    )
