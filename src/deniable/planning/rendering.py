"""Plans in words: what is promised, what the person who answers risks, and why this mechanism
won."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.planning.plan import Plan
    from deniable.planning.ranking import Alternative
    from deniable.planning.request import PlanRequest

__all__ = [
    "error",
    "figure",
    "figure_name",
    "local_excess",
    "notes",
    "percent",
    "risk",
    "summary",
    "why",
]


def percent(proportion: float) -> str:
    """A proportion as a percentage with three digits; nearly all is not rounded up to 100 %.

    >>> percent(0.0780411), percent(0.000412), percent(0.999851), percent(1.0)
    ('7.8 %', '0.0412 %', '99.98 %', '100 %')
    """
    return (
        f"{math.floor(10_000 * proportion + 1e-9) / 100:g} %"
        if 0.99 <= proportion < 1
        else f"{100 * proportion:.3g} %"
    )


def _factor(epsilon: float) -> str:
    """e^epsilon, rounded up, so that "at most" stays true."""
    factor = math.exp(min(epsilon, 700.0))
    if factor < 100:
        return f"{math.ceil(100 * factor) / 100:.2f}"
    return f"{math.ceil(factor):,}" if factor < 1e9 else f"{factor * 1.05:.1e}"


def error(plan: Plan) -> str:
    """The planned proportion with its ±."""
    relative = "" if math.isinf(plan.cv) else f" (cv {percent(plan.cv)})"
    return (
        f"{percent(plan.proportion)} ± {percent(plan.margin)} at {100 * plan.request.confidence:g}"
        f" %{relative}"
    )


def risk(plan: Plan) -> tuple[str, ...]:
    """What the person who answers risks: against everybody first, then against anyone who cannot
    tell who took part."""
    several = plan.request.answers > 1
    local = (
        "Whatever you answer, nobody's odds about you change by more than a factor of"
        f" {_factor(plan.epsilon_local)}, even if they see that you sent something."
    )
    if plan.sampling < 1:
        sampled = (
            "For anyone who cannot tell whether you took part, the odds change by at most a factor"
            f" of {_factor(plan.epsilon_sampled)}, except with probability"
            f" {plan.sampled_loss.delta:g}: about {plan.reports:,.0f} of {plan.population:,} people"
            " answer. Among fewer people it is more."
        )
    else:
        sampled = (
            "Everybody answers, so sampling hides nobody: the factor is the same for the analyst."
        )
    lines = [local, sampled]
    if several:
        lines.append(
            f"After all {plan.request.answers} answers the factors are"
            f" {_factor(plan.lifetime_local)} and {_factor(plan.lifetime_sampled)}."
        )
    return tuple(lines)


def notes(plan: Plan) -> tuple[str, ...]:
    """The assumptions behind the figures."""
    request = plan.request
    lines = []
    excess = local_excess(plan)
    if excess is not None:
        lines.append(excess)
    if request.epochs > 1 and request.memoize:
        lines.append(
            f"Answers are drawn once for each of {request.distinct} distinct true answers and"
            f" replayed in {request.epochs} epochs. Who takes part is drawn in each:"
            f" {percent(plan.releases.heard)} of the people are heard at least once, and equal"
            " reports link theirs."
        )
    elif request.epochs > 1:
        lines.append(
            f"Each of the {request.epochs} epochs gets an equal part of the epsilons, which add up;"
            " the error is that of one epoch."
        )
    if plan.sampling == 1:
        lines.append("With everybody answering there is no zero-knowledge guarantee.")
    if request.finite:
        lines.append("The error refers to these people only.")
    return tuple(lines)


def local_excess(plan: Plan) -> str | None:
    """The warning that the local epsilon is above the only epsilon requested, if it is."""
    requested_epsilon = plan.request.sampled_epsilon
    if (
        requested_epsilon is None
        or plan.request.epsilon is not None
        or plan.lifetime_local <= requested_epsilon
    ):
        return None
    return (
        f"The local epsilon, {plan.lifetime_local:.4g}, is above the requested"
        f" {requested_epsilon:g}, which holds only against anyone who cannot tell who took part."
        " Give a local epsilon too, to bound what everybody else learns."
    )


_SMALL = {
    "proportion": "smallest proportion",
    "population": "population needed",
    "target": "standard error",
}
_WINS = {"proportion": "detects the smallest proportion", "population": "needs the fewest people"}


def figure_name(request: PlanRequest) -> str:
    """What was open, by name."""
    return _SMALL.get(request.open, f"{request.spares} epsilon")


def figure(open_wish: str, value: float) -> str:
    """What was open, as text."""
    if open_wish in ("proportion", "target"):
        return percent(value)
    return f"{value:,.0f}" if open_wish == "population" else f"{value:.4g}"


def why(request: PlanRequest, alternatives: Sequence[Alternative]) -> str:
    """Why the first of them won."""
    first = alternatives[0]
    if request.buckets == 1 and first.mechanism == "BinaryResponse":
        return (
            "A yes/no answer is one bit, and no mechanism with this epsilon has a smaller error"
            " than two coins, the second fair."
        )
    if len(alternatives) == 1:
        return f"{first.mechanism} is the only feasible mechanism."
    second = alternatives[1]
    what = figure_name(request)
    own, next_best = figure(request.open, first.figure), figure(request.open, second.figure)
    if second.figure <= first.figure:
        return (
            f"{first.mechanism} ({what} {own}, in reports of {_bytes(first)}) comes within 1 % of"
            f" {second.mechanism} ({next_best}, in reports of {_bytes(second)}), and no such"
            " mechanism has shorter reports."
        )
    wins = _WINS.get(request.open, f"has the smallest {what}")
    return (
        f"{first.mechanism} {wins}: {own}, in reports of {_bytes(first)}; "
        f"{second.mechanism} comes next: {next_best}, in reports of {_bytes(second)}."
    )


def _bytes(alternative: Alternative) -> str:
    return "1 byte" if alternative.report_bytes == 1 else f"{alternative.report_bytes} bytes"


def summary(plan: Plan) -> str:
    """A few lines for printing a plan."""
    lines = [
        f"{plan.mechanism!r}, asked of {percent(plan.sampling)} of {plan.population:,} people",
        f"proportion {error(plan)}",
        (
            f"epsilon {plan.epsilon_local:.4g} local, {plan.epsilon_zero_knowledge:.4g}"
            f" zero-knowledge, sampled {plan.sampled_loss}"
        ),
        *plan.risk,
        plan.reason,
        *plan.notes,
    ]
    return "\n".join(lines)
