"""Why wishes cannot be fulfilled, and how little would have to change."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from deniable.errors import ParameterError, PlanError
from deniable.mechanisms.exact import LARGEST_EPSILON
from deniable.planning.candidates import Candidate
from deniable.planning.design import Design, fine_design, rough_design
from deniable.planning.outcome import design_error, settle
from deniable.planning.precision import FEWEST_REPORTS
from deniable.planning.wishes import Wishes

__all__ = ["nearest", "problem"]

_EVERYBODY = 8_000_000_000


def nearest(wishes: Wishes, candidate: Candidate) -> dict[str, float]:
    """For each wish the nearest value that, changed alone, lets the candidate fulfil them all: three digits, rounded up.

    More people, more epsilon, a coarser target, a larger share, a faster aggregator: all wishes ease upwards.
    """
    limits: dict[str, float] = {
        "population": _EVERYBODY,
        "share": 0.999,
        "cv": wishes.noise_limit,
        "margin": wishes.share or 0.5,
        "epsilon": LARGEST_EPSILON,
        "epsilon_local": LARGEST_EPSILON,
        "rate": _EVERYBODY,
    }
    found = {}
    for name, limit in limits.items():
        asked = getattr(wishes, name)
        if asked is None or asked >= limit or (name == "share" and wishes.margin is not None):
            continue
        value = _least_feasible(wishes, candidate, name, asked, limit)
        if value is not None:
            found[name] = value
    return found


def _least_feasible(wishes: Wishes, candidate: Candidate, name: str, asked: float, limit: float) -> float | None:
    low, high = asked, limit
    if not _feasible(wishes, candidate, name, high):
        return None
    while high > low * 1.0005:
        middle = math.sqrt(low * high)
        if _feasible(wishes, candidate, name, middle):
            high = middle
        else:
            low = middle
    rounded = _round_up(high)
    return rounded if rounded <= limit and _feasible(wishes, candidate, name, rounded) else high


def _feasible(wishes: Wishes, candidate: Candidate, name: str, value: float) -> bool:
    changed: dict[str, Any] = {name: math.ceil(value) if name == "population" else value}
    try:
        eased = dataclasses.replace(wishes, **changed)
    except (ParameterError, PlanError):
        return False
    design = rough_design(eased, candidate)
    return isinstance(design, Design) and settle(eased, fine_design(eased, candidate, design)) is not None


def _round_up(value: float) -> float:
    """To three digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit - 1e-9) * unit:.6g}")


def problem(wishes: Wishes, candidate: Candidate) -> str:
    """What stands in the way, with the figure that shows it."""
    who = "" if wishes.population is None else f" of {wishes.population:,} people"
    budget = " and ".join(
        f"{name} = {value:g}" for name in ("epsilon", "epsilon_local") if (value := getattr(wishes, name)) is not None
    )
    expected = min(wishes.most_reports, math.inf if wishes.population is None else wishes.population)
    if expected < FEWEST_REPORTS:
        return f"{expected:g} reports are too few for any ±, which needs {FEWEST_REPORTS}"
    if wishes.open == "share":
        return f"with {budget} the answers{who} show no share, not even 100 %, with a cv of {wishes.cv:g}"
    if wishes.open == "population":
        return f"with {budget} no population is enough at {wishes.most_reports:,.0f} reports an epoch"
    wanted = "" if wishes.open == "target" else f", and {_target(wishes)} is wanted"
    if not budget:
        return f"not even truthful answers{who} are enough{wanted}"
    share, error = _best_error(wishes, candidate)
    margin = wishes.z * error
    white = ": white noise, for the ± is larger than the share itself" if margin > share else ""
    return f"with {budget} the ± at a share of {share:.4g} is {margin:.4g} at best (cv {error / share:.3g}){white}{wanted}"


def _target(wishes: Wishes) -> str:
    return f"a cv of {wishes.cv:g}" if wishes.margin is None else f"± {wishes.margin:g}"


def _best_error(wishes: Wishes, candidate: Candidate) -> tuple[float, float]:
    """The share, and the least standard error there that the ceilings allow."""
    share = wishes.share or 0.5
    opened = dataclasses.replace(wishes, cv=None, margin=None, share=share)
    design = rough_design(opened, candidate)
    if not isinstance(design, Design):
        raise PlanError("with the target open there is always a design")
    return share, design_error(opened, fine_design(opened, candidate, design))
