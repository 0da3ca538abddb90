"""The documents of plans and simulations, by the types of what is written."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from deniable.console.risk import RiskDocument
from deniable.documents import DocumentType, document_type
from deniable.privacy.release_accountant import SampledFields

__all__ = [
    "PLAN",
    "FeasiblePlan",
    "PlanAlternative",
    "PlanVerdict",
    "PlannedCost",
    "PlannedFigures",
    "RefusedPlan",
    "SimulationDocument",
]


class PlannedCost(TypedDict):
    """What a month of a query moves, and what that costs at the analyst's price."""

    share_bytes: int
    device_bytes: float
    proxy_shares: float
    proxy_bytes: float
    price: float


class PlannedFigures(SampledFields):
    """What follows from a mechanism, a sampling rate and a number of people."""

    population: int
    epsilon: float
    margin: float
    proportion: float
    cv: float
    """The standard error over the proportion."""
    sampling: float
    reports: float
    mechanism: dict[str, Any]
    report_bytes: int
    reaches: list[float]
    """The ± at each of the guessed proportions."""
    risk: list[RiskDocument]
    every: int
    """Seconds."""
    cost: PlannedCost
    curve: list[tuple[float, float]]
    """Epsilons, and the ± at each."""


class PlanAlternative(TypedDict):
    """What changing one thing would do."""

    changed: Literal["margin", "epsilon", "population"]
    population: int
    margin: float
    epsilon: float


class RefusedPlan(TypedDict):
    """Why there is no such design, and what comes closest."""

    problem: str
    nearest: dict[str, float]


class FeasiblePlan(TypedDict):
    """What only a feasible design has."""

    detectable_difference: float | None
    reason: str
    alternatives: list[PlanAlternative]


class PlanVerdict(TypedDict):
    """Whether there is such a design."""

    feasible: bool


PLAN: DocumentType = (
    document_type(PlanVerdict)
    .joined(document_type(PlannedFigures))
    .joined(document_type(RefusedPlan).optional(), document_type(FeasiblePlan).optional())
    .named("Design", "A design; or, if it is not feasible, why not, and what comes closest.")
)


class SimulationDocument(TypedDict):
    """A design on simulated people."""

    trials: int
    n_reports: int
    """How many were simulated: fewer than planned, if there are many buckets."""
    estimates: list[list[float]]
    covered: int
    """How many of the `intervals` cover the truth."""
    intervals: int
