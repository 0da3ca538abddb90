"""All feasible mechanisms, each at its best, and the winner."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.planning.candidates import Candidate, candidates
from deniable.planning.design import Design, Shortage, fine_design, rough_design
from deniable.planning.nearest import infeasible
from deniable.planning.outcome import DesignOutcome, design_error, reach, settle
from deniable.planning.request import PlanRequest
from deniable.results import Result

__all__ = ["Alternative", "solve"]

_AS_GOOD = 1.01
"""Mechanisms whose goals differ by less are considered equal, and the one with the shorter report
wins."""


@dataclass(frozen=True, eq=False)
class Alternative(Result):
    """What one mechanism achieves at its best."""

    mechanism: str
    report_bytes: int
    epsilon_local: float
    epsilon_sampled: float
    """By the formula for large crowds, for comparison: only the plan itself states a loss, with its
    crowd and its delta."""
    sampling: float
    figure: float
    """What was open: the smallest proportion, the population, the standard error, or the epsilon
    that `PlanRequest.spares` names."""


class _Entry(NamedTuple):
    candidate: Candidate
    design: Design


def solve(request: PlanRequest) -> tuple[DesignOutcome, tuple[Alternative, ...], dict[str, str]]:
    """The best outcome; all feasible mechanisms, the winner first; and the infeasible ones, with
    the reason."""
    entries: list[_Entry] = []
    excluded: dict[str, str] = {}
    short: list[tuple[Shortage, Candidate]] = []
    too_long: list[tuple[Design | Shortage, Candidate]] = []
    for candidate in _known(request):
        try:
            design = rough_design(request, candidate)
        except Exception as error:  # a mechanism of another package must not end the plan of all
            if candidate.own:
                raise
            excluded[candidate.name] = f"failed: {type(error).__name__}: {error}"
            continue
        if request.report_bytes is not None and design.bytes > request.report_bytes:
            excluded[candidate.name] = (
                f"sends {design.bytes} bytes, but only {request.report_bytes} are allowed"
            )
            too_long.append((design, candidate))
        elif isinstance(design, Shortage):
            excluded[candidate.name] = f"would need {design.times:.3g} times as many reports"
            short.append((design, candidate))
        else:
            entries.append(_Entry(candidate, design))
    for entry in _ranked(entries):
        outcome = settle(request, fine_design(request, entry.candidate, entry.design))
        if outcome is not None:
            others = sorted(
                (other for other in entries if other is not entry),
                key=lambda other: other.design.goal,
            )
            ranked = [_Entry(entry.candidate, outcome.design), *others]
            return outcome, tuple(_alternative(request, each) for each in ranked), excluded
    if entries:
        raise infeasible(request, min(entries, key=lambda entry: entry.design.goal).candidate)
    if short:
        raise infeasible(request, min(short, key=lambda pair: pair[0].times)[1])
    raise _too_long(request, too_long)


def _too_long(
    request: PlanRequest, found: Sequence[tuple[Design | Shortage, Candidate]]
) -> InfeasiblePlanError:
    problem = (
        f"every mechanism for {request.buckets} buckets sends more than {request.report_bytes}"
        " bytes per report"
    )
    enough = [design.bytes for design, _ in found if isinstance(design, Design)]
    if enough:
        return InfeasiblePlanError(problem, {"report_bytes": min(enough)})
    shortest, candidate = min(found, key=lambda pair: pair[0].bytes)
    error = infeasible(dataclasses.replace(request, report_bytes=None), candidate)
    changes = error.nearest if error.together else dict(list(error.nearest.items())[:1])
    return InfeasiblePlanError(problem, {"report_bytes": shortest.bytes, **changes}, together=True)


def _known(request: PlanRequest) -> Sequence[Candidate]:
    known = candidates(request.buckets)
    if request.mechanism is None:
        return known
    chosen = [candidate for candidate in known if candidate.name == request.mechanism]
    if not chosen:
        names = ", ".join(candidate.name for candidate in known)
        raise ParameterError(
            "mechanism", request.mechanism, f"must be one that can answer this question: {names}"
        )
    return chosen


def _ranked(entries: list[_Entry]) -> list[_Entry]:
    """In order of their goals, except that those close to the best come first, shortest report
    first."""
    best = min((entry.design.goal for entry in entries), default=0.0)

    def merit(entry: _Entry) -> tuple[bool, float]:
        good = entry.design.goal <= best * _AS_GOOD
        return not good, entry.design.bytes if good else entry.design.goal

    return sorted(entries, key=merit)


def _alternative(request: PlanRequest, entry: _Entry) -> Alternative:
    design = entry.design
    local = design.mechanism.epsilon
    people = reach(request, design).population
    sampled = request.releases(design.mechanism, design.sampling).planned_sampled
    figure = design.goal
    if request.open == "epsilon":
        figure = sampled if request.spares == "sampled" else local
    elif request.open == "target":
        figure = design_error(request, design)
    elif request.open == "population":
        figure = float(people)
    return Alternative(entry.candidate.name, design.bytes, local, sampled, design.sampling, figure)
