"""A plan as the console shows it: what a design can detect, what it costs a person, what would have
to change, and the resources it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator

from deniable.console.draft_schedule import draft_schedule
from deniable.console.plan_documents import (
    FeasiblePlan,
    PlanAlternative,
    PlannedCost,
    PlannedFigures,
    PlanVerdict,
    RefusedPlan,
    SimulationDocument,
)
from deniable.console.risk import MONTH, life_risk
from deniable.errors import InfeasiblePlanError, ParameterError, PlanError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.memoized_unary import MemoizedUnary
from deniable.mechanisms.protocols.unary import UnaryMechanism
from deniable.mechanisms.registry import from_dict
from deniable.mechanisms.reports import Tally
from deniable.numerics import boundary
from deniable.planning.plan import Plan, plan
from deniable.planning.precision import ProportionVariance, deviations
from deniable.planning.request import SMALLEST
from deniable.privacy.release_accountant import Releases
from deniable.queries.recipe import DEFAULT_STEP
from deniable.queries.schedule import Schedule, duration
from deniable.randomness import system_source
from deniable.renames import current_names
from deniable.wire.sizes import row_words, smallest_class

__all__ = ["DesignRequest", "design_answer", "simulate_design"]

_LARGEST_EPSILON = 12.0
_CURVE = tuple(float(each) for each in np.geomspace(0.2, 6.0, 25))
_MOST_TRIALS = 12
_MOST_DRAWN = 3_000_000
_MOST_CELLS = 1 << 30
"""Simulated people, times buckets, times trials: about a second of processor time."""
_CELLS_AT_ONCE = 1 << 25
"""People times buckets that are drawn at a time: 4 MB of unary reports."""


class DesignRequest(BaseModel):
    """All but one of population, ±, epsilon; the proportion to detect; and what is known about the
    query so far."""

    population: int | None = Field(default=None, ge=1, le=1 << 40)
    margin: float | None = Field(default=None, ge=SMALLEST, lt=1)
    epsilon: float | None = Field(default=None, ge=SMALLEST, le=_LARGEST_EPSILON)
    proportion: float = Field(ge=SMALLEST, lt=1)
    buckets: int = Field(ge=2, le=1 << 10)
    complete: bool = False
    """Whether every answer is in a bucket: otherwise only bit-vector reports can say that it is in
    none."""
    guesses: list[float] = Field(default_factory=list, max_length=1 << 10)
    every: str | int = "1 d"
    epochs: int = Field(default=1, ge=1, le=1 << 32)
    end: str | None = Field(default=None, max_length=40)
    """The last day, if that is known rather than the number of epochs."""
    budget: float | None = Field(default=None, gt=0, le=1e6)
    memoize: bool = False
    once: bool = False
    """Whether a device answers once over the query's life."""
    proxies: int = Field(default=2, ge=2, le=16)
    price_per_gb: float = Field(default=0.0, ge=0, le=1e6)
    trials: int = Field(default=_MOST_TRIALS, ge=1, le=_MOST_TRIALS)

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        return current_names("DesignRequest", given) if isinstance(given, dict) else given

    def scheduled(self, now: int) -> DesignRequest:
        """The request with the epochs that the query would have if it were signed now."""
        if self.once:
            return self.model_copy(update={"epochs": 1})
        if self.end is None:
            return self
        schedule = Schedule(**draft_schedule(self.every, self.end, now))
        return self.model_copy(update={"epochs": schedule.n_epochs})

    def planner_arguments(self, **changes: Any) -> dict[str, Any]:
        """The arguments of the planner."""
        given = {
            "population": self.population,
            "margin": self.margin,
            "epsilon": self.epsilon,
            "proportion": self.proportion,
        }
        mechanism = None if self.complete else "OptimizedUnary"
        return {**given, "buckets": self.buckets, "mechanism": mechanism, **changes}


def design_answer(request: DesignRequest) -> dict[str, Any]:
    """The design, or why there is none and what comes closest."""
    given = [
        name for name in ("population", "margin", "epsilon") if getattr(request, name) is not None
    ]
    if len(given) != 2:
        raise ParameterError(
            "population, margin, epsilon",
            given,
            "must be given, except for one of them, which is found",
        )
    try:
        found = plan(**request.planner_arguments())
    except InfeasiblePlanError as error:
        return _refused(request, error.problem, error.nearest)
    except PlanError as error:  # a ± as large as the proportion itself
        return _refused(request, str(error), {"margin": request.proportion})
    figures = _figures(request, found.mechanism, found.sampling, found.population)
    if request.margin is not None and figures["margin"] > request.margin * (1 + 1e-9):
        return _refused(request, *_second_step(request, figures))
    verdict: PlanVerdict = {"feasible": True}
    more: FeasiblePlan = {
        "detectable_difference": found.detectable_difference,
        "reason": found.reason,
        "alternatives": _alternatives(request, found),
    }
    return {**verdict, **figures, "proportion": found.proportion, **more}


def _reported(request: DesignRequest, mechanism: Mechanism) -> Mechanism:
    """The mechanism of the reports: permanent bits are randomized once more in each, as in the
    query that is drafted."""
    two_steps = request.memoize and isinstance(mechanism, UnaryMechanism)
    return MemoizedUnary(mechanism, **DEFAULT_STEP) if two_steps else mechanism


def _second_step(request: DesignRequest, figures: PlannedFigures) -> tuple[str, dict[str, float]]:
    """Why a planned target is missed by the reports of permanent answers, and what would meet
    it."""
    needed = math.ceil(figures["population"] * (figures["margin"] / (request.margin or 1.0)) ** 2)
    problem = (
        "each report randomizes the permanent answer once more, which leaves ±"
        f" {100 * figures['margin']:.3g} points"
    )
    return problem, {"margin": figures["margin"], "population": needed}


def _figures(
    request: DesignRequest, mechanism: Mechanism, sampling: float, population: int
) -> PlannedFigures:
    """Everything that follows from a mechanism, a sampling rate and a number of people."""
    spread, z, reports = (
        ProportionVariance.of(_reported(request, mechanism)),
        deviations(0.95),
        sampling * population,
    )
    margin = z * spread.stderr(request.proportion, reports)
    every = duration("every", request.every)
    return {
        "population": population,
        "epsilon": mechanism.epsilon,
        "margin": margin,
        "proportion": request.proportion,
        "cv": margin / z / request.proportion,
        "sampling": sampling,
        "reports": reports,
        "mechanism": _recipe(mechanism),
        "report_bytes": mechanism.report_bytes,
        **Releases(mechanism, sampling).sampled(max(1, population)).sampled_fields(),
        "reaches": [
            z * spread.stderr(min(max(guess, 0.0), 1.0), reports) for guess in request.guesses
        ],
        "risk": life_risk(
            mechanism.epsilon, every, request.epochs, request.budget, request.memoize
        ),
        "every": every,
        "cost": _cost(request, mechanism, reports, sampling),
        "curve": _curve(request, mechanism, reports),
    }


def _recipe(mechanism: Mechanism) -> dict[str, Any]:
    parameters = mechanism.to_dict()
    parameters.pop("values", None)
    return {"name": parameters.pop("mechanism"), **parameters}


def _refused(request: DesignRequest, problem: str, nearest: Mapping[str, float]) -> dict[str, Any]:
    """Why there is no such design, what comes closest, and what the best one would show: noise."""
    names = {
        "population": "population",
        "proportion": "proportion",
        "epsilon": "epsilon",
        "margin": "margin",
    }
    near = {names[name]: value for name, value in nearest.items() if name in names}
    epsilon = request.epsilon or _epsilon_for(request)
    mechanism = _best(request, epsilon)
    population = request.population
    if population is None:
        wanted = ((request.margin or request.proportion) / deviations(0.95)) ** 2
        population = max(
            1, math.ceil(ProportionVariance.of(mechanism).variance(request.proportion) / wanted)
        )
    verdict: PlanVerdict = {"feasible": False}
    why: RefusedPlan = {"problem": problem, "nearest": near}
    return {**verdict, **why, **_figures(request, mechanism, 1.0, population)}


def _epsilon_for(request: DesignRequest) -> float:
    """The epsilon at which the ± is the requested one, or as close as possible."""

    def reached(logarithm: float) -> bool:
        spread = ProportionVariance.of(_best(request, math.exp(logarithm)))
        return deviations(0.95) * spread.stderr(request.proportion, request.population or 1) <= (
            request.margin or 0
        )

    return math.exp(boundary(reached, math.log(0.05), math.log(_LARGEST_EPSILON), tolerance=1e-8))


def _best(request: DesignRequest, epsilon: float) -> Mechanism:
    names = ["OptimizedUnary", *(["DirectEncoding"] if request.complete else [])]
    made = [_made(name, request.buckets, epsilon) for name in names]
    return min(
        made, key=lambda mechanism: ProportionVariance.of(mechanism).variance(request.proportion)
    )


def _made(name: str, buckets: int, epsilon: float) -> Mechanism:
    return from_dict({"mechanism": name, "values": buckets, "epsilon": epsilon})


def _alternatives(request: DesignRequest, found: Plan) -> list[PlanAlternative]:
    """What changing one thing would do: half the ±, half the epsilon, half the people."""
    base = {
        "population": found.population,
        "mechanism": type(found.mechanism).__name__,
        "margin": None,
        "epsilon": None,
    }
    tries: list[tuple[Literal["margin", "epsilon", "population"], dict[str, Any]]] = [
        ("margin", {"margin": found.margin / 2}),
        ("epsilon", {"epsilon": found.epsilon_local / 2}),
        (
            "population",
            {"epsilon": found.epsilon_local, "population": max(1, found.population // 2)},
        ),
    ]
    out: list[PlanAlternative] = []
    for changed, others in tries:
        try:
            other = plan(**request.planner_arguments(**{**base, **others}))
        except (InfeasiblePlanError, ParameterError, PlanError):
            continue
        out.append(
            {
                "changed": changed,
                "population": other.population,
                "margin": other.margin,
                "epsilon": other.epsilon_local,
            }
        )
    return out


def _curve(
    request: DesignRequest, mechanism: Mechanism, reports: float
) -> list[tuple[float, float]]:
    """The ± at the planned proportion for epsilons from 0.2 to 6, with the same mechanism and
    number of reports."""
    z, name, out = deviations(0.95), type(mechanism).__name__, []
    for epsilon in _CURVE:
        try:
            other = _reported(request, _made(name, request.buckets, epsilon))
            out.append(
                (epsilon, z * ProportionVariance.of(other).stderr(request.proportion, reports))
            )
        except (ParameterError, PlanError, TypeError):
            continue
    return out


def _cost(
    request: DesignRequest, mechanism: Mechanism, reports: float, sampling: float
) -> PlannedCost:
    """What a month of the query moves, and what that costs at the analyst's price."""
    times = MONTH / duration("every", request.every)
    share = 8 * row_words(smallest_class(mechanism.report_bytes))
    moved = reports * times * share * request.proxies
    return {
        "share_bytes": share,
        "device_bytes": sampling * times * share * request.proxies,
        "proxy_shares": reports * times,
        "proxy_bytes": reports * times * share,
        "price": moved / 1e9 * request.price_per_gb,
    }


def simulate_design(request: DesignRequest) -> SimulationDocument:
    """The design on simulated people with the guessed proportions: what would be seen, repeated
    several times."""
    guesses = np.clip(np.array(request.guesses, dtype=float), 0.0, 1.0)
    if guesses.size != request.buckets or guesses.sum() > 1 + 1e-9:
        raise ParameterError(
            "guesses", guesses.size, f"must be {request.buckets} proportions that sum to at most 1"
        )
    try:
        found = plan(**request.planner_arguments())
    except PlanError as error:
        raise ParameterError("plan", "this design", f"cannot be simulated: {error}") from None
    n, trials = _affordable(max(1, round(found.reports)), request)
    weights = np.array([*guesses, max(0.0, 1 - float(guesses.sum()))])
    # every answer is in a bucket: the remainder goes to the last one, which is "other"
    if request.complete:
        weights[-2] += weights[-1]
        weights[-1] = 0
    weights /= weights.sum()
    estimates, covered = [], 0
    for _ in range(trials):
        estimate = found.mechanism.estimate(_simulated_tally(found.mechanism, weights, n))
        low, high = estimate.interval(0.95).T
        truth = weights[: request.buckets]
        covered += int(((low <= truth) & (truth <= high)).sum())
        estimates.append(estimate.proportions.tolist())
    return {
        "trials": trials,
        "n_reports": n,
        "estimates": estimates,
        "covered": covered,
        "intervals": trials * request.buckets,
    }


def _affordable(reports: int, request: DesignRequest) -> tuple[int, int]:
    """How many people are simulated and how often, known before anything is drawn: fewer of them
    where there are many buckets."""
    n = min(reports, _MOST_DRAWN, _MOST_CELLS // request.buckets)
    return n, max(1, min(request.trials, _MOST_DRAWN // n, _MOST_CELLS // (n * request.buckets)))


def _simulated_tally(mechanism: Mechanism, weights: NDArray[np.float64], n: int) -> Tally:
    """The counts of n simulated reports, drawn some at a time: the memory does not grow with n."""
    buckets = len(weights) - 1
    random, source = np.random.default_rng(), system_source()
    counts = np.zeros(mechanism.cells, dtype=np.int64)
    at_once = max(1, _CELLS_AT_ONCE // buckets)
    for first in range(0, n, at_once):
        values = random.choice(buckets + 1, min(at_once, n - first), p=weights)
        values[values == buckets] = -1  # "no bucket", which bit-vector reports can express
        counts += mechanism.count(mechanism.draw(values.astype(np.intp), source))
    return Tally(mechanism, counts, n)
