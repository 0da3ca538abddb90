"""What a query costs the people it asks and those who run it, beside each of its budgets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from deniable.aggregator.counting.limits import EngineLimits
from deniable.planning.feedback import Outlook, expected_error
from deniable.queries.lasting import worst_releases
from deniable.queries.query import Query
from deniable.sizing.demand import Demand
from deniable.sizing.figures import Prices, SizingFigures
from deniable.sizing.queueing import Stations, simulate
from deniable.sizing.result import Sizing
from deniable.sizing.supply import size

__all__ = ["RESOURCES", "Assessment", "Costs", "assess", "outlook"]

RESOURCES = ("answers_per_second", "bytes_per_day", "latency", "money_per_month")
"""The budgets of those who run a query."""
_DAY = 86_400


@dataclass(frozen=True)
class Costs:
    """What it takes to run a query: people, the figures that were measured, and prices."""

    people: int
    figures: SizingFigures = field(default_factory=SizingFigures)
    prices: Prices = field(default_factory=Prices)
    participation: float = 1.0
    """The fraction of people whose devices are switched on in an epoch."""
    grace: int = Demand.grace
    """Seconds for which the proxies keep an epoch open after its end."""
    poll: int = Demand.poll
    """Seconds between two rounds of a device."""
    within: int = Demand.within
    """Seconds within which a device sends its answer."""
    early: int = EngineLimits.early
    """Seconds from a window's end to the first result of a query that waits for late answers."""

    def demand(self, query: Query) -> Demand:
        """What the query demands of a system with these settings."""
        return Demand.of_query(
            query,
            self.people,
            grace=self.grace if query.grace is None else self.early,
            poll=min(self.poll, query.schedule.every),
            within=self.within,
        )

    def sizing(self, query: Query, sampling: float) -> Sizing:
        """The result of `deniable size` for the query at this sampling."""
        return size(replace(self.demand(query), sampling=sampling), self.figures, self.prices)

    def late(self, query: Query) -> float:
        """The part of the answers that devices send after the proxies have closed their epoch."""
        demand = self.demand(query)
        return float(demand.profile[demand.every + demand.grace :].sum())

    def peak(self, query: Query) -> float:
        """Answers per second at the peak of an epoch, if everybody answers."""
        return self.sizing(query, 1.0).demand.peak

    def bytes_per_day(self, query: Query) -> float:
        """Bytes that a device sends in a day to all proxies, if it answers every epoch."""
        demand = self.demand(query)
        each = demand.share_bytes * demand.most_rows + self.figures.request_bytes
        return each * demand.proxies * _DAY / demand.every

    def resource(self, query: Query, name: str, sampling: float) -> float:
        """One of :data:`RESOURCES` at a sampling; each grows with it."""
        if name == "answers_per_second":
            return sampling * self.peak(query)
        if name == "bytes_per_day":
            return sampling * self.bytes_per_day(query)
        if name == "money_per_month":
            return float(self.sizing(query, sampling).cost["all"])
        return self.latency(query, sampling)

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


def outlook(query: Query, costs: Costs) -> Outlook:
    """Who could answer in a window."""
    epochs: float = 1 if query.memoize else query.schedule.window // query.schedule.every
    if query.once:  # everyone answers in one of the epochs, as many in each as in any other
        epochs = min(1.0, epochs / query.schedule.n_epochs)
    people = costs.people * costs.participation * (1 - costs.late(query))
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
        **{name: partial(costs.resource, query, name, sampling) for name in RESOURCES},
    }
    found = [
        Assessment(name, float(limit), reached())
        for name, reached in figures.items()
        if (limit := getattr(budget, name))
    ]
    if budget.target is not None and support is not None:
        error = expected_error(
            float(support[0][-1]), float(support[1][-1]), sampling, outlook(query, costs)
        )
        found.append(Assessment("margin", budget.target, error))
    return found
