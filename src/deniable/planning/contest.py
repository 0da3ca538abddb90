"""All mechanisms that fit, each at its best, and the one that wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.planning.candidates import Candidate, candidates
from deniable.planning.design import Design, fine_design, rough_design
from deniable.planning.nearest import nearest, problem
from deniable.planning.outcome import Outcome, design_error, reach, settle
from deniable.planning.wishes import Wishes

__all__ = ["Rival", "solve"]

_AS_GOOD = 1.01
"""Two mechanisms whose goals differ by less are as good as each other, and the one with the shorter report wins."""


@dataclass(frozen=True)
class Rival:
    """How one mechanism would do at its best."""

    mechanism: str
    report_bytes: int
    epsilon_local: float
    epsilon_sampled: float
    sampling: float
    figure: float
    """What was open: the smallest share, the population, the standard error, or the sampled epsilon of one answer."""


class _Entry(NamedTuple):
    candidate: Candidate
    design: Design


def solve(wishes: Wishes) -> tuple[Outcome, tuple[Rival, ...], dict[str, str]]:
    """The best outcome; all mechanisms that fit, the winner first; and those that do not, with the reason."""
    entries: list[_Entry] = []
    excluded: dict[str, str] = {}
    too_long: list[int] = []
    shortages: list[tuple[float, Candidate]] = []
    for candidate in _known(wishes):
        design = rough_design(wishes, candidate)
        if not isinstance(design, Design):
            excluded[candidate.name] = f"would need {design:.3g} times as many reports"
            shortages.append((design, candidate))
        elif wishes.report_bytes is not None and design.bytes > wishes.report_bytes:
            excluded[candidate.name] = f"sends {design.bytes} bytes, and {wishes.report_bytes} are allowed"
            too_long.append(design.bytes)
        else:
            entries.append(_Entry(candidate, design))
    if not entries and too_long:
        sent = f"every mechanism for {wishes.buckets} buckets sends more than {wishes.report_bytes} bytes a report"
        raise InfeasiblePlanError(sent, {"report_bytes": min(too_long)})
    if not entries:
        closest = min(shortages, key=lambda pair: pair[0])[1]
        raise InfeasiblePlanError(problem(wishes, closest), nearest(wishes, closest))
    ranked = _ranked(entries)
    winner = ranked[0].candidate
    outcome = settle(wishes, fine_design(wishes, winner, ranked[0].design))
    if outcome is None:
        raise InfeasiblePlanError(problem(wishes, winner), nearest(wishes, winner))
    ranked[0] = _Entry(winner, outcome.design)
    return outcome, tuple(_rival(wishes, entry) for entry in ranked), excluded


def _known(wishes: Wishes) -> Sequence[Candidate]:
    known = candidates(wishes.buckets)
    if wishes.mechanism is None:
        return known
    chosen = [candidate for candidate in known if candidate.name == wishes.mechanism]
    if not chosen:
        names = ", ".join(candidate.name for candidate in known)
        raise ParameterError("mechanism", wishes.mechanism, f"must be one that answers such questions: {names}")
    return chosen


def _ranked(entries: list[_Entry]) -> list[_Entry]:
    best = min(entry.design.goal for entry in entries)
    winner = min((entry for entry in entries if entry.design.goal <= best * _AS_GOOD), key=lambda entry: entry.design.bytes)
    return [winner, *sorted((entry for entry in entries if entry is not winner), key=lambda entry: entry.design.goal)]


def _rival(wishes: Wishes, entry: _Entry) -> Rival:
    design = entry.design
    local = design.mechanism.epsilon
    sampled = math.log1p(design.sampling * math.expm1(local))
    figure = design.goal
    if wishes.open == "epsilon":
        figure = sampled
    elif wishes.open == "target":
        figure = design_error(wishes, design)
    elif wishes.open == "population":
        figure = float(reach(wishes, design).population)
    return Rival(entry.candidate.name, design.bytes, local, sampled, design.sampling, figure)
