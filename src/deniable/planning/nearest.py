"""Why a request is infeasible, and the smallest changes that would make it feasible."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from deniable.checks import LARGEST_EPSILON
from deniable.errors import InfeasiblePlanError, ParameterError, PlanError
from deniable.numerics import boundary
from deniable.planning.candidates import Candidate
from deniable.planning.design import Design, fine_design, rough_design
from deniable.planning.outcome import design_error, settle
from deniable.planning.precision import FEWEST_REPORTS
from deniable.planning.request import PlanRequest

__all__ = ["infeasible"]

_EVERYBODY = 8_000_000_000


def infeasible(request: PlanRequest, candidate: Candidate) -> InfeasiblePlanError:
    """The error that says what is infeasible, and which nearby requests the candidate could
    satisfy.

    All requirements are relaxed upwards: more people, more epsilon, a coarser target, a larger
    proportion, a faster aggregator.
    """
    limits: dict[str, float] = {
        "population": _EVERYBODY,
        "proportion": 0.999,
        "cv": request.noise_limit,
        "margin": request.proportion or 0.5,
        "rate": _EVERYBODY,
        "epsilon": LARGEST_EPSILON,
        "sampled_epsilon": LARGEST_EPSILON,
    }
    if request.margin is not None:  # then a larger proportion is not easier
        del limits["proportion"]
    requested = {
        name: float(value) for name in limits if (value := getattr(request, name)) is not None
    }
    room = {
        name: (value, limits[name]) for name, value in requested.items() if value < limits[name]
    }
    alone = {
        name: eased[name]
        for name, ends in room.items()
        if (eased := _eased(request, candidate, {name: ends}))
    }
    if alone:
        return InfeasiblePlanError(_problem(request, candidate), alone)
    # keep the person's privacy and the machines if the rest is enough
    for name in reversed(list(room)):
        fewer = {other: ends for other, ends in room.items() if other != name}
        if _eased(request, candidate, fewer):
            room = fewer
    return InfeasiblePlanError(
        _problem(request, candidate), _eased(request, candidate, room), together=True
    )


def _eased(
    request: PlanRequest, candidate: Candidate, room: dict[str, tuple[float, float]]
) -> dict[str, float]:
    """The smallest feasible values, with all requirements moved towards their limits by the same
    fraction; nothing if that does not help.

    To three digits, rounded up if that stays within the limits.
    """

    def at(part: float) -> dict[str, float]:
        return {
            name: min(value * (limit / value) ** part, limit)
            for name, (value, limit) in room.items()
        }

    if not _feasible(request, candidate, at(1.0)):
        return {}
    longest = max(math.log(limit / value) for value, limit in room.values())
    part = boundary(
        lambda part: _feasible(request, candidate, at(part)), 0.0, 1.0, tolerance=5e-4 / longest
    )
    found = at(part)
    rounded = {name: min(_round_up(value), room[name][1]) for name, value in found.items()}
    eased = rounded if _feasible(request, candidate, rounded) else found
    return {name: _whole_people(name, value) for name, value in eased.items()}


def _feasible(request: PlanRequest, candidate: Candidate, changes: dict[str, float]) -> bool:
    changed: dict[str, Any] = {name: _whole_people(name, value) for name, value in changes.items()}
    try:
        eased = dataclasses.replace(request, **changed)
    except (ParameterError, PlanError):
        return False
    design = rough_design(eased, candidate)
    return (
        isinstance(design, Design)
        and settle(eased, fine_design(eased, candidate, design)) is not None
    )


def _whole_people(name: str, value: float) -> float:
    return math.ceil(value) if name == "population" else value


def _round_up(value: float) -> float:
    """To three digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")


def _problem(request: PlanRequest, candidate: Candidate) -> str:
    """What is infeasible, with the figure that shows it."""
    who = "" if request.population is None else f" of {request.population:,} people"
    budget = " and ".join(
        f"{name} = {value:g}"
        for name in ("epsilon", "sampled_epsilon")
        if (value := getattr(request, name)) is not None
    )
    expected = min(
        request.most_reports, math.inf if request.population is None else request.population
    )
    if expected < FEWEST_REPORTS:
        return f"{expected:g} reports are too few for any ±, which needs at least {FEWEST_REPORTS}"
    if request.open == "proportion":
        return (
            f"with {budget} the answers{who} cannot show any proportion, even 100 %, with a cv of"
            f" {request.cv:g}"
        )
    if request.open == "population":
        return (
            f"with {budget}, no population is large enough at {request.most_reports:,.0f} reports"
            " per epoch"
        )
    wanted = "" if request.open == "target" else f"; {_target(request)} is requested"
    if not budget:
        return f"even truthful answers{who} are not enough{wanted}"
    proportion, error = _best_error(request, candidate)
    margin = request.z * error
    white = (
        ": white noise, because the ± is larger than the proportion itself"
        if margin > proportion
        else ""
    )
    return (
        f"with {budget} the ± at a proportion of {proportion:.4g} is {margin:.4g} at best (cv"
        f" {error / proportion:.3g}){white}{wanted}"
    )


def _target(request: PlanRequest) -> str:
    return f"a cv of {request.cv:g}" if request.margin is None else f"± {request.margin:g}"


def _best_error(request: PlanRequest, candidate: Candidate) -> tuple[float, float]:
    """The proportion, and the least standard error there that the ceilings allow."""
    proportion = request.proportion or 0.5
    opened = dataclasses.replace(request, cv=None, margin=None, proportion=proportion)
    design = rough_design(opened, candidate)
    if not isinstance(design, Design):
        raise PlanError("with the target open there is always a design")
    return proportion, design_error(opened, fine_design(opened, candidate, design))
