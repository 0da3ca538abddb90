"""From what an analyst can afford to parameters; from parameters to what can be detected."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deniable.display import Bar, Display
from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.binary import BinaryResponse
from deniable.mechanisms.protocols.unary import UnaryMechanism
from deniable.planning import rendering
from deniable.planning.power import detectable_difference
from deniable.planning.precision import ProportionVariance
from deniable.planning.ranking import Alternative, solve
from deniable.planning.request import PlanRequest
from deniable.privacy.release_accountant import STATED_DELTA, Releases, StatedLoss
from deniable.renames import reads_old_names
from deniable.results import Result, fields_of

__all__ = ["Alternative", "Plan", "plan", "trade_off"]


@reads_old_names
@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """Parameters, what they promise to the analyst, and what they cost the person who answers."""

    request: PlanRequest
    mechanism: Mechanism
    sampling: float
    """The probability with which each client takes part."""
    population: int
    proportion: float
    """The planned proportion: the given one, the smallest detectable one or, with a margin for
    every proportion, the hardest one."""
    alternatives: tuple[Alternative, ...]
    """All mechanisms that fit, each at its best, the winner first."""
    excluded: Mapping[str, str]
    """Those that do not, and why."""
    reason: str
    """Why this mechanism."""

    @property
    def solved_for(self) -> str:
        """What was open in the request: population, proportion, target or epsilon."""
        return self.request.open

    @cached_property
    def spread(self) -> ProportionVariance:
        """The variance of the estimate, as a function of the proportion."""
        return ProportionVariance.of(self.mechanism)

    @property
    def reports(self) -> float:
        """How many reports to expect, each epoch."""
        return self.sampling * self.population

    @reads_old_names
    def stderr(self, proportion: float | None = None) -> float:
        """The standard error at a proportion; without one, at the planned proportion."""
        return self.spread.stderr(
            self.proportion if proportion is None else proportion, self.reports, self._reached
        )

    @property
    def cv(self) -> float:
        """The standard error at the planned proportion, relative to that proportion; `inf` if the
        hardest proportion is 0."""
        return self.stderr() / self.proportion if self.proportion else math.inf

    @property
    def margin(self) -> float:
        """The ± at the planned proportion."""
        return self.request.z * self.stderr()

    @property
    def smallest_proportion(self) -> float:
        """The smallest proportion with the promised cv; for a margin, the smallest that can be
        distinguished from zero."""
        cv = self.cv if self.request.margin is None else self.request.noise_limit
        return self.spread.smallest_proportion(cv, self.reports, self._reached)

    @property
    def widest_margin(self) -> float:
        """The ± of the hardest proportion to estimate: no proportion has a larger one."""
        return self.request.z * self.stderr(self.spread.worst_proportion)

    @property
    def _reached(self) -> float:
        return self.sampling if self.request.finite else 0.0

    @property
    def p(self) -> float | None:
        """The probability of a truthful bit, if reports are bits; else None."""
        if isinstance(self.mechanism, BinaryResponse):
            return float(self.mechanism.p)
        if isinstance(self.mechanism, UnaryMechanism):
            a, b = self.mechanism.channel()
            return a - b
        return None

    @property
    def q(self) -> float | None:
        """The probability that a bit that is not truthful is 1, if reports are bits; else None."""
        if isinstance(self.mechanism, BinaryResponse):
            return float(self.mechanism.q)
        if isinstance(self.mechanism, UnaryMechanism):
            a, b = self.mechanism.channel()
            return b / (1 - a + b)
        return None

    @property
    def epsilon_local(self) -> float:
        """Of one answer, to anyone who sees who sent it."""
        return self.mechanism.epsilon

    @cached_property
    def releases(self) -> Releases:
        """All that leaves the devices, as the accountant of stated losses counts it."""
        return self.request.releases(self.mechanism, self.sampling)

    @cached_property
    def sampled_loss(self) -> StatedLoss:
        """Of one answer, to anyone who cannot tell who took part: in a crowd of the planned
        population."""
        return self.releases.sampled(self.population)

    @property
    def epsilon_sampled(self) -> float:
        """The epsilon of :attr:`sampled_loss`, which also states the delta and the crowd."""
        return self.sampled_loss.epsilon

    @cached_property
    def epsilon_zero_knowledge(self) -> float:
        """Of one answer, in the zero-knowledge sense, up to a delta without a known constant; `inf`
        if everybody answers."""
        return self.releases.zero_knowledge

    @cached_property
    def epsilon_shuffled(self) -> float | None:
        """Of one answer, to anyone who sees only the shuffled reports of an epoch, except with
        probability `STATED_DELTA`.

        None for replayed answers: no such claim is made for them.
        """
        found = self.releases.shuffled(max(1, int(self.reports)))
        return None if found is None else found.epsilon

    @property
    def lifetime_local(self) -> float:
        """Of all epochs together, to anyone who sees who sent what."""
        return self.releases.life.epsilon

    @cached_property
    def lifetime_sampled(self) -> float:
        """Of all epochs together, to anyone who cannot tell who took part; with the delta and crowd
        of `sampled_loss`."""
        return self.releases.sampled_life(self.population).epsilon

    @property
    def report_bytes(self) -> int:
        """The size of one report."""
        return self.mechanism.report_bytes

    @cached_property
    def detectable_difference(self) -> float | None:
        """How far above the planned proportion one half of the population must be to be
        distinguished from the other half.

        With 80 % power at a significance of 5 %; None if no difference is enough.
        """
        if not 0 < self.proportion < 1:
            return None
        try:
            return detectable_difference(
                self.mechanism, self.proportion, max(1, int(self.reports / 2))
            )
        except InfeasiblePlanError:
            return None

    @property
    def notes(self) -> tuple[str, ...]:
        """The assumptions behind the figures."""
        return rendering.notes(self)

    @property
    def risk(self) -> tuple[str, ...]:
        """What the person who answers risks, in words: local first."""
        return rendering.risk(self)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with derived figures, of which infinite
        ones are None."""
        return {
            **fields_of(self),
            "solved_for": self.solved_for,
            "buckets": self.request.buckets,
            "epochs": self.request.epochs,
            "p": self.p,
            "q": self.q,
            "smallest_proportion": self.smallest_proportion,
            "cv": _finite(self.cv),
            "margin": self.margin,
            "widest_margin": self.widest_margin,
            "confidence": self.request.confidence,
            "reports": self.reports,
            "report_bytes": self.report_bytes,
            "epsilon_local": self.epsilon_local,
            **self.sampled_loss.sampled_fields(),
            "epsilon_zero_knowledge": _finite(self.epsilon_zero_knowledge),
            "epsilon_shuffled": self.epsilon_shuffled,
            "delta_shuffled": STATED_DELTA,
            "lifetime_epsilon_local": self.lifetime_local,
            "lifetime_epsilon_sampled": self.lifetime_sampled,
            "detectable_difference": self.detectable_difference,
            "risk": list(self.risk),
            "notes": list(self.notes),
        }

    def _display(self, confidence: float = 0.95) -> Display:
        what = rendering.figure_name(self.request)
        factor, unit = (100.0, " (%)") if self.solved_for in ("proportion", "target") else (1.0, "")
        columns = (
            "mechanism",
            what,
            "report bytes",
            "local epsilon",
            "sampled epsilon (formula)",
            "asked",
        )
        others = self.alternatives
        rows = [
            (o.mechanism, o.figure, o.report_bytes, o.epsilon_local, o.epsilon_sampled, o.sampling)
            for o in others
        ]
        bars = [Bar(other.mechanism, factor * other.figure) for other in others]
        return Display(columns, rows, tuple(str(self).splitlines()), bars, f"{what}{unit}")

    def __str__(self) -> str:
        return rendering.summary(self)

    def __repr__(self) -> str:
        return (
            f"<Plan: {self.mechanism!r} asked of {self.sampling:.4g} of {self.population:,} people>"
        )


@reads_old_names
def plan(
    *,
    population: int | None = None,
    proportion: float | None = None,
    cv: float | None = None,
    margin: float | None = None,
    epsilon: float | None = None,
    sampled_epsilon: float | None = None,
    buckets: int = 1,
    epochs: int = 1,
    memoize: bool = False,
    distinct: int = 1,
    rate: float | None = None,
    every: float = 1.0,
    report_bytes: int | None = None,
    confidence: float = 0.95,
    finite: bool = False,
    mechanism: str | None = None,
) -> Plan:
    """The best sampling and mechanism for a budget, and the one quantity that was left open.

    There are four quantities: the *population*; the *proportion* to detect; the *target*, either
    `cv` (standard error relative to the proportion) or `margin` (the ± at `confidence`; without a
    proportion, for any proportion); and the privacy, `epsilon` (local: against everybody, as
    everywhere in this library), `sampled_epsilon` (against anyone who cannot tell who took part, in
    a crowd of the population, except with probability 1e-6), or both. Leave one open, and it is
    found. With only a population and an epsilon, the plan finds what can be detected at all: the
    smallest proportion that can be distinguished from zero, and `widest_margin`, the ± of any
    proportion. Leave none open, and the plan spends as little epsilon as its target needs: of the
    sampled one if that is given, else of the local one. With `sampled_epsilon` alone, the local
    epsilon may be far above it: `notes` says so.

    * `buckets`: 1 is a yes/no question; more are answers that choose one bucket, and pay the loss
      of the whole answer.
    * `epochs`: how often the same people are asked. The epsilons are for all epochs together; each
      gets an equal part. With `memoize`, answers are drawn once per true answer and replayed, and
      there are as many parts as `distinct` true answers.
    * `rate`: answers per second that the aggregator can handle; `every`: the seconds over which
      those of an epoch arrive.
    * `report_bytes`: the most bytes per report.
    * `finite`: the population is everyone, so that those who were asked add no sampling error.
      Otherwise it is itself a sample, and the figures are the papers' more conservative ones.
    * `mechanism`: use this one, by name.

    After Lavengood 2017, section 5.5; never worse than that grid.

    >>> design = plan(population=100_000, sampled_epsilon=0.7, cv=0.05)
    >>> round(design.smallest_proportion, 4), round(design.sampling, 3), design.q
    (0.0778, 0.272, 0.5)
    """
    request = PlanRequest(
        population=population,
        proportion=proportion,
        cv=cv,
        margin=margin,
        epsilon=epsilon,
        sampled_epsilon=sampled_epsilon,
        buckets=buckets,
        epochs=epochs,
        memoize=memoize,
        distinct=distinct,
        rate=rate,
        every=every,
        report_bytes=report_bytes,
        confidence=confidence,
        finite=finite,
        mechanism=mechanism,
    )
    return _made(request)


def trade_off(design: Plan, factors: list[float]) -> Iterator[tuple[float, Plan]]:
    """The same plan with the privacy budget multiplied by each factor, as far as that is feasible:
    the curve of the trade-off.

    If the epsilon was open, the target is opened instead, and the budget is the one found.
    """
    request = dataclasses.replace(design.request, mechanism=type(design.mechanism).__name__)
    if request.open == "epsilon":
        request = dataclasses.replace(
            request, cv=None, margin=None, proportion=design.proportion, **_found(design)
        )
    for factor in factors:
        scaled = {
            name: value * factor
            for name in ("epsilon", "sampled_epsilon")
            if (value := getattr(request, name)) is not None
        }
        if request.sampled_epsilon is not None:  # a ceiling on the local epsilon stays where it is
            scaled.pop("epsilon", None)
        try:
            yield factor, _made(dataclasses.replace(request, **scaled))
        except (InfeasiblePlanError, ParameterError):
            continue


def _found(design: Plan) -> dict[str, Any]:
    """The budget found by a plan with an open epsilon."""
    if design.request.spares == "sampled":
        return {"sampled_epsilon": design.lifetime_sampled}
    return {"epsilon": design.lifetime_local}


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value


def _made(request: PlanRequest) -> Plan:
    outcome, alternatives, excluded = solve(request)
    design = outcome.design
    reason = rendering.why(request, alternatives)
    return Plan(
        request,
        design.mechanism,
        design.sampling,
        outcome.population,
        outcome.proportion,
        alternatives,
        excluded,
        reason,
    )
