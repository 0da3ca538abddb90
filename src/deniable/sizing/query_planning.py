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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import InfeasiblePlanError, PlanError
from deniable.numerics import boundaries, boundary
from deniable.planning.feedback import (
    Coins,
    Limits,
    Outlook,
    Setting,
    best_setting,
    expected_error,
    sustainable_rate,
)
from deniable.queries.lasting import worst_releases
from deniable.queries.query import Query
from deniable.queries.recipe import DEFAULT_STEP
from deniable.sizing.demand import Demand
from deniable.sizing.figures import Prices, SizingFigures
from deniable.sizing.queueing import Stations, simulate
from deniable.sizing.result import Sizing
from deniable.sizing.supply import size

__all__ = ["STEPS", "Assessment", "Costs", "assess", "drafted", "initialize"]

Step = Mapping[str, float] | None
STEPS: tuple[Step, ...] = (DEFAULT_STEP, {"p": 0.15, "q": 0.85}, {"p": 0.05, "q": 0.95})
"""Instantaneous steps to plan with, the one that hides most first."""

_Floats = NDArray[np.float64]
_DAY = 86_400
_STEPS = 24
_SPARE = 0.95
"""A plan aims at this fraction of the target, so that chance does not exceed it in every other
window."""
_P, _Q = (0.02, 0.98), (0.05, 0.95)
_LARGEST = 20.0
"""The largest local epsilon that is planned without a budget."""


@dataclass(frozen=True)
class Costs:
    """What it takes to run a query: people, the figures that were measured, and prices."""

    people: int
    figures: SizingFigures = field(default_factory=SizingFigures)
    prices: Prices = field(default_factory=Prices)
    participation: float = 1.0
    """The fraction of people whose devices are switched on in an epoch."""

    def sizing(self, query: Query, sampling: float) -> Sizing:
        """The result of `deniable size` for the query at this sampling."""
        demand = Demand.of_query(query, self.people)
        return size(
            replace(demand, sampling=sampling, poll=min(demand.poll, demand.every)),
            self.figures,
            self.prices,
        )

    def peak(self, query: Query) -> float:
        """Answers per second at the peak of an epoch, if everybody answers."""
        return self.sizing(query, 1.0).demand.peak

    def bytes_per_day(self, query: Query) -> float:
        """Bytes that a device sends in a day to all proxies, if it answers every epoch."""
        demand = Demand.of_query(query, self.people)
        each = demand.share_bytes * demand.most_rows + self.figures.request_bytes
        return each * demand.proxies * _DAY / demand.every

    def latency(self, query: Query, sampling: float) -> float:
        """Seconds from the end of a window to its result."""
        made = self.sizing(query, sampling)
        return simulate(made.demand, Stations.of(made), made.cells, epochs=1).latency


@dataclass(frozen=True)
class Assessment:
    """One budget of a query: what was set, what the parameters cost, and whether that is within
    it."""

    name: str
    budget: float
    reached: float

    @property
    def met(self) -> bool:
        """Whether the budget is kept."""
        return self.reached <= self.budget * (1 + 1e-9)

    def words(self) -> str:
        """In a few words."""
        return (
            f"{self.name}: {_number(self.reached)} of"
            f" {_number(self.budget)}{'' if self.met else ', too much'}"
        )


def _number(value: float) -> str:
    return "without bound" if math.isinf(value) else f"{value:,.4g}"


def _outlook(query: Query, costs: Costs) -> Outlook:
    epochs: float = 1 if query.memoize else query.schedule.window // query.schedule.every
    if query.once:  # everyone answers in one of the epochs, as many in each as in any other
        epochs = min(1.0, epochs / query.schedule.n_epochs)
    people = costs.people * costs.participation
    at = query.budget.proportion
    reached = (
        0.0
        if query.population is None or query.rows == "several"
        else min(1.0, people / query.population)
    )
    return Outlook(
        people * epochs * (query.most_rows if query.rows == "several" else 1),
        None if at is None else [at],
        reached,
    )


def assess(query: Query, costs: Costs) -> list[Assessment]:
    """Each budget that a query sets, beside what its parameters cost.

    Sampled and zero-knowledge losses are those of the worst that a controller may choose, in a
    crowd of the people there are.
    """
    budget, sampling = (
        query.budget,
        max(query.sampling_of(i) for i in range(max(1, len(query.strata)))) / 2**64,
    )
    worst = worst_releases(query)
    crowd = min(query.crowd, max(1, int(costs.people * costs.participation)))
    # devices enforce the local budgets themselves, whatever a controller chooses
    own = query.releases
    expected = (
        own.life.epsilon if query.memoize else sampling * own.local.epsilon * query.answered_epochs
    )
    support = query.mechanism.support()
    figures: dict[str, Callable[[], float]] = {
        "epsilon": lambda: expected,
        "epsilon_per_answer": lambda: own.local.epsilon,
        "sampled": lambda: worst.sampled_life(crowd).epsilon,
        "sampled_per_answer": lambda: worst.sampled(crowd).epsilon,
        "zero_knowledge": lambda: worst.zero_knowledge_life,
        "zero_knowledge_per_answer": lambda: worst.zero_knowledge,
        "answers_per_second": lambda: sampling * costs.peak(query),
        "bytes_per_day": lambda: sampling * costs.bytes_per_day(query),
        "latency": lambda: costs.latency(query, sampling),
        "money_per_month": lambda: costs.sizing(query, sampling).cost["all"],
    }
    found = [
        Assessment(name, float(limit), reached())
        for name, reached in figures.items()
        if (limit := getattr(budget, name))
    ]
    if budget.target is not None and support is not None:
        error = expected_error(
            float(support[0][-1]), float(support[1][-1]), sampling, _outlook(query, costs)
        )
        found.append(Assessment("margin", budget.target, error))
    return found


def _most_sampling(query: Query, costs: Costs) -> float:
    """The sampling up to which capacity, bytes, latency and money are kept, whatever the coins are;
    0 if none does."""
    budget, most = query.budget, 1.0
    if budget.answers_per_second is not None:
        most = min(most, budget.answers_per_second / costs.peak(query))
    if budget.bytes_per_day is not None:
        most = min(most, budget.bytes_per_day / costs.bytes_per_day(query))
    if budget.latency is not None:
        most = _kept(lambda sampling: costs.latency(query, sampling), budget.latency, most)
    if budget.money_per_month is not None:
        most = _kept(
            lambda sampling: costs.sizing(query, sampling).cost["all"], budget.money_per_month, most
        )
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
    return np.asarray(np.expm1(ceiling) / np.expm1(epsilon))


def _most_zero_knowledge(epsilon: _Floats, ceiling: float) -> _Floats:
    def kept(sampling: _Floats) -> NDArray[np.bool_]:
        growth = sampling * (2 - sampling) / (1 - sampling) * np.exp(epsilon) + 1 - sampling
        return np.asarray(growth <= math.exp(ceiling))

    return boundaries(kept, np.full_like(epsilon, 1 - 1e-12), np.zeros_like(epsilon), 50)


def initialize(query: Query, costs: Costs, steps: Sequence[Step] | None = None) -> Query:
    """The query with the sampling and the two coins that its budgets ask for; `query.mechanism` and
    `sampling` are ignored.

    With `steps`, also with the first of these instantaneous steps that meets the target, if the
    query is memoized. Raises :class:`InfeasiblePlanError` with the nearest achievable error, if the
    target is infeasible.
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
    if margin is None:
        raise PlanError(
            "budget.margin or budget.relative_error must be given: a plan needs a target error"
        )
    setting, error = best_setting(
        _limits(query, costs, step), _outlook(query, costs), _SPARE * margin
    )
    if error > margin * (1 + 1e-9):
        raise _out_of_reach(query, costs, margin, error)
    planned = _with(query, setting, step)
    _check_crowd(planned, costs)
    return planned


def _limits(query: Query, costs: Costs, step: Step) -> Limits:
    """The coins and the samplings that the envelope and the budgets leave."""
    envelope = query.envelope
    p, q, (low, high) = (
        (_P, _Q, (1e-9, 1.0))
        if envelope is None
        else (envelope.p or _P, envelope.q or _Q, envelope.sampling)
    )
    rows = query.most_rows * query.ones
    first = Coins.two(p, q, rows)
    permanent, coins = first.epsilon, first.through(step, rows)
    per_answer, life = _epsilon_ceilings(query)
    fits = (coins.epsilon <= per_answer * (1 - 1e-9)) & (permanent <= life * (1 - 1e-9))
    if not fits.any():
        raise InfeasiblePlanError("no coins inside the envelope are within the budgets", {})
    caps = np.minimum(
        np.minimum(_caps(query, coins.epsilon, permanent), _most_sampling(query, costs)), high
    )
    if query.budget.epsilon is not None and not query.memoize:
        total, epochs = query.budget.epsilon, query.answered_epochs
        rate = np.array([sustainable_rate(total, epochs, loss) for loss in coins.epsilon.tolist()])
        caps = np.minimum(caps, rate / coins.epsilon)
    kept = np.flatnonzero(fits & (caps >= low))
    if not kept.size:
        raise InfeasiblePlanError("no sampling inside the envelope is within the budgets", {})
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
        _LARGEST,
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
