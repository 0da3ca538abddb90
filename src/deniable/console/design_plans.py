"""A plan as the console shows it: what a design can detect, what it costs a person, what would have to change, and the resources
it needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from deniable.errors import InfeasiblePlanError, ParameterError, PlanError
from deniable.mechanisms.mechanism import Mechanism, from_dict
from deniable.mechanisms.memoized_unary import MemoizedUnary
from deniable.mechanisms.reports import Tally
from deniable.mechanisms.unary import UnaryMechanism
from deniable.planning.plan import Plan, plan
from deniable.planning.precision import Spread, deviations
from deniable.planning.request import SMALLEST
from deniable.privacy.release_accountant import Releases
from deniable.queries.query import DEFAULT_STEP
from deniable.queries.schedule import duration
from deniable.queries.sizes import row_words, smallest_class
from deniable.randomness import system_source

__all__ = ["DesignRequest", "design_answer", "simulate_design"]

_MONTH = 30 * 86_400
_PRIOR = 0.10
_LARGEST_EPSILON = 12.0
_CURVE = tuple(float(each) for each in np.geomspace(0.2, 6.0, 25))
_MOST_RUNS = 12
_MOST_DRAWN = 3_000_000
_MOST_CELLS = 1 << 30
"""Simulated people, times buckets, times runs: about a second of processor time."""
_CELLS_AT_ONCE = 1 << 25
"""People times buckets that are drawn at a time: 4 MB of unary reports."""


class DesignRequest(BaseModel):
    """All but one of people, ±, epsilon; the share to detect; and what is known about the query so far."""

    people: int | None = Field(default=None, ge=1, le=1 << 40)
    margin: float | None = Field(default=None, ge=SMALLEST, lt=1)
    epsilon: float | None = Field(default=None, ge=SMALLEST, le=_LARGEST_EPSILON)
    share: float = Field(ge=SMALLEST, lt=1)
    buckets: int = Field(ge=2, le=1 << 10)
    complete: bool = False
    """Whether every answer is in a bucket: otherwise only bit-vector reports can say that it is in none."""
    guesses: list[float] = Field(default_factory=list, max_length=1 << 10)
    every: str | int = "1 d"
    epochs: int = Field(default=1, ge=1, le=1 << 32)
    budget: float | None = Field(default=None, gt=0, le=1e6)
    memoize: bool = False
    proxies: int = Field(default=2, ge=2, le=16)
    price_per_gb: float = Field(default=0.0, ge=0, le=1e6)
    runs: int = Field(default=_MOST_RUNS, ge=1, le=_MOST_RUNS)

    def wishes(self, **changes: Any) -> dict[str, Any]:
        """The arguments of the planner."""
        given = {"population": self.people, "margin": self.margin, "epsilon": self.epsilon, "share": self.share}
        mechanism = None if self.complete else "OptimizedUnary"
        return {**given, "buckets": self.buckets, "mechanism": mechanism, **changes}


def design_answer(request: DesignRequest) -> dict[str, Any]:
    """The design, or why there is none and what comes closest."""
    given = [name for name in ("people", "margin", "epsilon") if getattr(request, name) is not None]
    if len(given) != 2:
        raise ParameterError("people, margin, epsilon", given, "must be given, except for one of them, which is found")
    try:
        found = plan(**request.wishes())
    except InfeasiblePlanError as error:
        return _refused(request, error.problem, error.nearest)
    except PlanError as error:  # a ± as large as the share itself
        return _refused(request, str(error), {"margin": request.share})
    figures = _figures(request, found.mechanism, found.sampling, found.population)
    if request.margin is not None and figures["margin"] > request.margin * (1 + 1e-9):
        return _refused(request, *_second_step(request, figures))
    return {
        "feasible": True,
        **figures,
        "share": found.share,
        "detectable_difference": found.detectable_difference,
        "reason": found.reason,
        "alternatives": _alternatives(request, found),
    }


def _reported(request: DesignRequest, mechanism: Mechanism) -> Mechanism:
    """The mechanism of the reports: permanent bits are randomized once more in each, as in the query that is drafted."""
    two_steps = request.memoize and isinstance(mechanism, UnaryMechanism)
    return MemoizedUnary(mechanism, **DEFAULT_STEP) if two_steps else mechanism


def _second_step(request: DesignRequest, figures: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """Why a planned target is missed by the reports of permanent answers, and what would meet it."""
    needed = math.ceil(figures["people"] * (figures["margin"] / (request.margin or 1.0)) ** 2)
    problem = f"each report randomizes the permanent answer once more, which leaves ± {100 * figures['margin']:.3g} points"
    return problem, {"margin": figures["margin"], "population": needed}


def _figures(request: DesignRequest, mechanism: Mechanism, sampling: float, people: int) -> dict[str, Any]:
    """Everything that follows from a mechanism, a sampling rate and a number of people."""
    spread, z, reports = Spread.of(_reported(request, mechanism)), deviations(0.95), sampling * people
    margin = z * spread.stderr(request.share, reports)
    return {
        "people": people,
        "epsilon": mechanism.epsilon,
        "margin": margin,
        "share": request.share,
        "cv": margin / z / request.share,
        "sampling": sampling,
        "reports": reports,
        "mechanism": _recipe(mechanism),
        "report_bytes": _bytes(mechanism),
        **Releases(mechanism, sampling).sampled(max(1, people)).sampled_fields(),
        "reaches": [z * spread.stderr(min(max(guess, 0.0), 1.0), reports) for guess in request.guesses],
        "risk": _risk(request, mechanism.epsilon),
        "cost": _cost(request, mechanism, reports, sampling),
        "curve": _curve(request, mechanism, reports),
    }


def _recipe(mechanism: Mechanism) -> dict[str, Any]:
    parameters = mechanism.to_dict()
    parameters.pop("values", None)
    return {"name": parameters.pop("mechanism"), **parameters}


def _bytes(mechanism: Mechanism) -> int:
    dtype, shape = mechanism.layout
    return int(dtype.itemsize * math.prod(shape))


def _refused(request: DesignRequest, problem: str, nearest: Mapping[str, float]) -> dict[str, Any]:
    """Why there is no such design, what comes closest, and what the best one would show: noise."""
    names = {"population": "people", "share": "share", "epsilon": "epsilon", "margin": "margin"}
    near = {names[name]: value for name, value in nearest.items() if name in names}
    epsilon = request.epsilon or _epsilon_for(request)
    mechanism = _best(request, epsilon)
    people = request.people
    if people is None:
        wanted = ((request.margin or request.share) / deviations(0.95)) ** 2
        people = max(1, math.ceil(Spread.of(mechanism).variance(request.share) / wanted))
    return {"feasible": False, "problem": problem, "nearest": near, **_figures(request, mechanism, 1.0, people)}


def _epsilon_for(request: DesignRequest) -> float:
    """The epsilon at which the ± is the requested one, or as close as possible."""
    low, high = 0.05, _LARGEST_EPSILON
    for _ in range(30):
        middle = math.sqrt(low * high)
        reach = deviations(0.95) * Spread.of(_best(request, middle)).stderr(request.share, request.people or 1)
        low, high = (middle, high) if reach > (request.margin or 0) else (low, middle)
    return high


def _best(request: DesignRequest, epsilon: float) -> Mechanism:
    names = ["OptimizedUnary", *(["DirectEncoding"] if request.complete else [])]
    made = [_made(name, request.buckets, epsilon) for name in names]
    return min(made, key=lambda mechanism: Spread.of(mechanism).variance(request.share))


def _made(name: str, buckets: int, epsilon: float) -> Mechanism:
    return from_dict({"mechanism": name, "values": buckets, "epsilon": epsilon})


def _alternatives(request: DesignRequest, found: Plan) -> list[dict[str, Any]]:
    """What changing one thing would do: half the ±, half the epsilon, half the people."""
    base = {"population": found.population, "mechanism": type(found.mechanism).__name__, "margin": None, "epsilon": None}
    tries: list[tuple[str, dict[str, Any]]] = [
        ("margin", {"margin": found.margin / 2}),
        ("epsilon", {"epsilon": found.epsilon_local / 2}),
        ("people", {"epsilon": found.epsilon_local, "population": max(1, found.population // 2)}),
    ]
    out = []
    for changed, wishes in tries:
        try:
            other = plan(**request.wishes(**{**base, **wishes}))
        except (InfeasiblePlanError, ParameterError, PlanError):
            continue
        out.append({"changed": changed, "people": other.population, "margin": other.margin, "epsilon": other.epsilon_local})
    return out


def _curve(request: DesignRequest, mechanism: Mechanism, reports: float) -> list[tuple[float, float]]:
    """The ± at the planned share for epsilons from 0.2 to 6, with the same mechanism and number of reports."""
    z, name, out = deviations(0.95), type(mechanism).__name__, []
    for epsilon in _CURVE:
        try:
            other = _reported(request, _made(name, request.buckets, epsilon))
            out.append((epsilon, z * Spread.of(other).stderr(request.share, reports)))
        except (ParameterError, PlanError, TypeError):
            continue
    return out


def _risk(request: DesignRequest, epsilon: float) -> list[dict[str, Any]]:
    """What a person risks per answer, per month and over the query's life, against all parties together."""
    every = duration("every", request.every)
    affordable = request.epochs if request.budget is None else int(request.budget / epsilon)
    life = max(1, min(request.epochs, affordable))
    month = max(1, min(math.ceil(_MONTH / every), life))
    if request.memoize:
        return [_over("answer", 1, epsilon), _over("month", month, epsilon, "replayed"), _over("life", life, epsilon, "replayed")]
    ended = "silent" if life < request.epochs else ""
    return [_over("answer", 1, epsilon), _over("month", month, month * epsilon), _over("life", life, life * epsilon, ended)]


def _over(what: str, answers: int, epsilon: float, note: str = "") -> dict[str, Any]:
    factor = math.exp(min(epsilon, 700.0))
    return {
        "over": what,
        "answers": answers,
        "epsilon": epsilon,
        "factor": factor,
        "prior": _PRIOR,
        "belief": _PRIOR * factor / (_PRIOR * factor + 1 - _PRIOR),
        "note": note,
    }


def _cost(request: DesignRequest, mechanism: Mechanism, reports: float, sampling: float) -> dict[str, float]:
    """What a month of the query moves, and what that costs at the analyst's price."""
    times = _MONTH / duration("every", request.every)
    share = 8 * row_words(smallest_class(_bytes(mechanism)))
    moved = reports * times * share * request.proxies
    return {
        "share_bytes": share,
        "device_bytes": sampling * times * share * request.proxies,
        "proxy_shares": reports * times,
        "proxy_bytes": reports * times * share,
        "price": moved / 1e9 * request.price_per_gb,
    }


def simulate_design(request: DesignRequest) -> dict[str, Any]:
    """The design on simulated people with the guessed shares: what would be seen, repeated several times."""
    guesses = np.clip(np.array(request.guesses, dtype=float), 0.0, 1.0)
    if guesses.size != request.buckets or guesses.sum() > 1 + 1e-9:
        raise ParameterError("guesses", guesses.size, f"must be {request.buckets} shares that sum to at most 1")
    try:
        found = plan(**request.wishes())
    except PlanError as error:
        raise ParameterError("plan", "this design", f"cannot be simulated: {error}") from None
    n, runs = _affordable(max(1, round(found.reports)), request)
    weights = np.array([*guesses, max(0.0, 1 - float(guesses.sum()))])
    if request.complete:  # every answer is in a bucket: the remainder goes to the last one, which is "other"
        weights[-2] += weights[-1]
        weights[-1] = 0
    weights /= weights.sum()
    estimates, covered = [], 0
    for _ in range(runs):
        estimate = found.mechanism.estimate(_simulated_tally(found.mechanism, weights, n))
        low, high = estimate.interval(0.95).T
        truth = weights[: request.buckets]
        covered += int(((low <= truth) & (truth <= high)).sum())
        estimates.append(estimate.proportions.tolist())
    return {"runs": runs, "people": n, "estimates": estimates, "covered": covered, "intervals": runs * request.buckets}


def _affordable(reports: int, request: DesignRequest) -> tuple[int, int]:
    """How many people are simulated and how often, known before anything is drawn: fewer of them where there are many buckets."""
    n = min(reports, _MOST_DRAWN, _MOST_CELLS // request.buckets)
    return n, max(1, min(request.runs, _MOST_DRAWN // n, _MOST_CELLS // (n * request.buckets)))


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
