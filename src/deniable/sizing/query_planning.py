"""From a query's budgets to its sampling and coins, or to the nearest budgets that
can be met.

Every budget bounds the sampling from above, for given coins; the target error bounds it from below.
So the plan is that of the controller (:mod:`deniable.planning.feedback`) with one more bound for
each of the coins:

    sampled epsilon c          s <= (e^c - 1) / (E - 1)
    zero-knowledge epsilon c   s (2 - s) / (1 - s) E + 1 - s <= e^c
                               (for the life of permanent answers, E is theirs and s the chance of being heard in any epoch)
    local epsilon for life     s epsilon, for as many epochs as there are, with a margin for chance
    (`sustainable_rate`) answers per second           s <= rate / (rate of everybody, at the peak of
    an epoch) bytes per day                s <= bytes / (bytes of a device that answers every epoch)
    latency, money a month     by `deniable size`, whose figures grow with s: found by halving
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.client.policy import DEFAULT_CEILING
from deniable.errors import InfeasiblePlanError, PlanError
from deniable.numerics import boundaries, boundary
from deniable.planning.feedback import (
    Coins,
    Limits,
    Setting,
    best_setting,
    sustainable_rate,
)
from deniable.queries.query import Query
from deniable.queries.recipe import DEFAULT_STEP
from deniable.sizing.query_costs import RESOURCES, Costs, assess, outlook

__all__ = ["STEPS", "drafted", "initialize"]

Step = Mapping[str, float] | None
STEPS: tuple[Step, ...] = (DEFAULT_STEP, {"p": 0.15, "q": 0.85}, {"p": 0.05, "q": 0.95})
"""Instantaneous steps to plan with, the one that hides most first."""

_Floats = NDArray[np.float64]
_STEPS = 24
_SPARE = 0.95
"""A plan aims at this fraction of the target, so that chance does not exceed it in every other
window."""
_P, _Q = (0.02, 0.98), (0.05, 0.95)
_LARGEST = 20.0
"""The largest local epsilon that is planned without a budget."""
_NO_ERROR = 1e-9
"""The target of a plan without one: out of reach, so that the error is as small as it can be."""
_MOST_EPSILON = 1e6
"""The largest epsilon that a budget may state."""
_BOUNDING = (
    "epsilon",
    "epsilon_per_answer",
    "sampled",
    "sampled_per_answer",
    "zero_knowledge",
    "zero_knowledge_per_answer",
    *RESOURCES,
)
"""The budgets that bound the parameters from above."""


def _most_sampling(query: Query, costs: Costs) -> float:
    """The sampling up to which capacity, bytes, latency and money are kept, whatever the coins are;
    0 if none does."""
    budget, most = query.budget, 1.0
    limits = {
        "answers_per_second": budget.answers_per_second,
        "bytes_per_day": budget.bytes_per_day,
        "latency": budget.latency,
        "money_per_month": budget.money_per_month,
    }
    for name, limit in limits.items():
        if limit is not None:
            most = _kept(partial(costs.resource, query, name), limit, most)
    return most


def _kept(reached: Callable[[float], float], limit: float, most: float) -> float:
    """The largest sampling up to `most` at which a growing figure is within its limit; 0 if it is
    nowhere."""
    if reached(most) <= limit:
        return most
    return boundary(
        lambda sampling: sampling == 0 or reached(sampling) <= limit,
        most,
        0.0,
        tolerance=most / 2**_STEPS,
    )


def _caps(query: Query, one: _Floats, permanent: _Floats) -> _Floats:
    """For each of the coins the largest sampling that the budgets on sampled and zero-knowledge
    epsilon allow.

    `one` is the loss of one epoch's answer. Over a life, fresh answers share a budget equally;
    permanent ones, of which each loses `permanent`, are given away by any epoch in which a device
    is heard.
    """
    budget, epochs = query.budget, query.answered_epochs
    caps = np.ones_like(one)
    for an_answer, life, largest in (
        (budget.sampled_per_answer, budget.sampled, _most_sampled),
        (budget.zero_knowledge_per_answer, budget.zero_knowledge, _most_zero_knowledge),
    ):
        if an_answer is not None:
            caps = np.minimum(caps, largest(one, an_answer))
        if life is not None and not query.memoize:
            caps = np.minimum(caps, largest(one, life / epochs))
        elif life is not None:
            heard = np.minimum(largest(permanent * query.distinct, life), 1.0)
            ever = np.where(
                heard < 1, -np.expm1(np.log1p(-np.minimum(heard, 1 - 1e-16)) / epochs), 1.0
            )
            caps = np.minimum(caps, ever * (1 - 1e-9))
    return caps


def _most_sampled(epsilon: _Floats, ceiling: float) -> _Floats:
    return np.asarray(np.expm1(min(ceiling, 700.0)) / np.expm1(epsilon))


def _most_zero_knowledge(epsilon: _Floats, ceiling: float) -> _Floats:
    def kept(sampling: _Floats) -> NDArray[np.bool_]:
        growth = sampling * (2 - sampling) / (1 - sampling) * np.exp(epsilon) + 1 - sampling
        return np.asarray(growth <= math.exp(min(ceiling, 700.0)))

    return boundaries(kept, np.full_like(epsilon, 1 - 1e-12), np.zeros_like(epsilon), 50)


def initialize(query: Query, costs: Costs, steps: Sequence[Step] | None = None) -> Query:
    """The query with the sampling and the two coins that its budgets ask for; `query.mechanism` and
    `sampling` are ignored.

    With a target error, those that give away least; without one, those with the least error that
    the budgets allow, each of which may be the only one. An answer then costs no more than devices
    accept by default, unless `epsilon_per_answer` says otherwise. With `steps`, also with the first
    of these instantaneous steps that meets the target, if the query is memoized. Raises
    :class:`InfeasiblePlanError` with the nearest feasible budgets, if there are no such parameters.
    """
    choices = [query.instantaneous] if steps is None or not query.memoize else list(steps)
    for step in choices[:-1]:
        try:
            return _initialized(query, costs, step)
        except InfeasiblePlanError:
            continue
    return _initialized(query, costs, choices[-1])


def _initialized(query: Query, costs: Costs, step: Step) -> Query:
    margin = query.budget.target
    if margin is None and not any(getattr(query.budget, name) for name in _BOUNDING):
        raise PlanError("at least one budget must be given: a plan needs a target error or a bound")
    setting, error = best_setting(
        _limits(query, costs, step),
        outlook(query, costs),
        _NO_ERROR if margin is None else _SPARE * margin,
    )
    if margin is not None and error > margin * (1 + 1e-9):
        raise _out_of_reach(query, costs, margin, error)
    planned = _with(query, setting, step)
    _check_crowd(planned, costs)
    return planned


def _limits(query: Query, costs: Costs, step: Step) -> Limits:
    """The coins and the samplings that the envelope and the budgets leave."""
    bounds = Bounds(_lowest(query, costs), _most_sampling(query, costs))
    found = _left(query, step, bounds)
    if found is None:
        raise InfeasiblePlanError(
            "no coins and no sampling are within all budgets and the envelope",
            _nearest(query, costs, step, bounds),
        )
    return found


class Bounds(NamedTuple):
    """The samplings that everything but the coins leaves."""

    least: float
    most: float


def _lowest(query: Query, costs: Costs) -> float:
    """The least sampling that is worth planning: without a target error, a window must at least be
    released."""
    low = 1e-9 if query.envelope is None else query.envelope.sampling[0]
    if query.budget.target is not None:
        return low
    people = outlook(query, costs).people
    return max(low, min(1.0, query.minimum_cohort / people)) if people else 1.0


def _nearest(query: Query, costs: Costs, step: Step, bounds: Bounds) -> dict[str, float]:
    """For each budget the nearest value with which there are parameters, if it alone is changed."""
    budget, found = query.budget, {}
    for name in _BOUNDING:
        stated = getattr(budget, name)
        if stated is None:
            continue

        if name in RESOURCES:
            reached = costs.resource(query, name, bounds.least)
            nearest = max(stated, math.ceil(reached) if name == "latency" else reached)
            free = _with_budget(query, name, None)
            if _left(free, step, Bounds(bounds.least, _most_sampling(free, costs))) is None:
                continue
        else:
            fits = partial(_fits, query, step, bounds, name)
            if not fits(math.log(_MOST_EPSILON)):
                continue
            nearest = math.exp(
                boundary(fits, math.log(stated), math.log(_MOST_EPSILON), tolerance=1e-4)
            )
        if nearest > stated:
            found[f"budget.{name}"] = nearest if name == "latency" else _rounded_up(nearest)
    return found


def _with_budget(query: Query, name: str, value: float | None) -> Query:
    changed: dict[str, Any] = {name: value}
    return replace(query, budget=replace(query.budget, **changed))


def _fits(query: Query, step: Step, bounds: Bounds, name: str, log_epsilon: float) -> bool:
    """Whether there are parameters if this budget on privacy is e^`log_epsilon`."""
    return _left(_with_budget(query, name, math.exp(log_epsilon)), step, bounds) is not None


def _rounded_up(value: float) -> float:
    """To four significant digits, and not down by a rounding of doubles either."""
    scale = 10.0 ** (3 - math.floor(math.log10(value)))
    return math.ceil(value * scale * (1 + 1e-12)) / scale


def _left(query: Query, step: Step, bounds: Bounds) -> Limits | None:
    """The coins and samplings that are within the bounds and the budgets on privacy; None if there
    are none."""
    envelope = query.envelope
    p, q, high = (
        (_P, _Q, 1.0)
        if envelope is None
        else (envelope.p or _P, envelope.q or _Q, envelope.sampling[1])
    )
    rows = query.most_rows * query.ones
    first = Coins.two(p, q, rows)
    permanent, coins = first.epsilon, first.through(step, rows)
    per_answer, life = _epsilon_ceilings(query)
    fits = (coins.epsilon <= per_answer * (1 - 1e-9)) & (permanent <= life * (1 - 1e-9))
    if not fits.any():
        return None
    caps = np.minimum(np.minimum(_caps(query, coins.epsilon, permanent), bounds.most), high)
    low = bounds.least
    if query.budget.epsilon is not None and not query.memoize:
        total, epochs = query.budget.epsilon, query.answered_epochs
        rate = np.array([sustainable_rate(total, epochs, loss) for loss in coins.epsilon.tolist()])
        caps = np.minimum(caps, rate / coins.epsilon)
    kept = np.flatnonzero(fits & (caps >= low))
    if not kept.size:
        return None
    chosen = Coins(
        [coins.parameters[i] for i in kept.tolist()],
        coins.a[kept],
        coins.b[kept],
        coins.epsilon[kept],
    )
    return Limits((low, high), chosen, query.minimum_cohort, caps=caps[kept])


def _epsilon_ceilings(query: Query) -> tuple[float, float]:
    """The most that one answer may cost, and that one permanent answer may."""
    budget, envelope = query.budget, query.envelope
    each = [
        budget.epsilon_per_answer,
        None if envelope is None else envelope.epsilon_per_answer,
        _LARGEST
        if budget.target is not None or budget.epsilon_per_answer is not None
        else DEFAULT_CEILING,
    ]
    if budget.epsilon is None:
        life = _LARGEST
    elif query.memoize:
        life = budget.epsilon / query.distinct
    else:
        life = _LARGEST
        each.append(budget.epsilon)
    return min(ceiling for ceiling in each if ceiling), life


def _out_of_reach(query: Query, costs: Costs, margin: float, error: float) -> InfeasiblePlanError:
    budget = query.budget
    what, whole = (
        ("margin", 1.0)
        if budget.relative_error is None
        else ("relative_error", budget.proportion or 1.0)
    )
    return InfeasiblePlanError(
        f"{costs.people:,} people and these budgets give ± {100 * error:.3g} points at best, but ±"
        f" {100 * margin:.3g} is requested",
        {f"budget.{what}": math.ceil(error / whole * 1e4) / 1e4},
    )


def _check_crowd(planned: Query, costs: Costs) -> None:
    """Refuse a plan whose crowd is too small for the sampled epsilon that the formula for large
    crowds promises."""
    for found in assess(planned, costs):
        if found.name.startswith("sampled") and not found.met:
            crowd = min(planned.crowd, costs.people)
            problem = f"{crowd:,} people hide an answer less than the formula for large crowds says"
            raise InfeasiblePlanError(
                f"{problem}: {found.words()}", {f"budget.{found.name}": found.reached}
            )


def _with(query: Query, setting: Setting, step: Step) -> Query:
    strata = [replace(stratum, sampling=None) for stratum in query.strata]
    mechanism = {"name": "TwoCoin", **setting.coins}
    return replace(
        query, sampling=setting.sampling, mechanism=mechanism, strata=strata, instantaneous=step
    )


def drafted(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The tree of a query file in which parameters are missing, with some that break no rule in
    their places: to be planned."""
    envelope = tree.get("envelope")
    ranges = envelope if isinstance(envelope, Mapping) else {}
    p, q, sampling = (
        _first(ranges.get(name), default)
        for name, default in (("p", _P[0]), ("q", 0.5), ("sampling", 1.0))
    )
    return {**tree, "sampling": sampling, "mechanism": {"name": "TwoCoin", "p": p, "q": q}}


def _first(given: Any, default: float) -> Any:
    return given[0] if isinstance(given, list) and given else default
