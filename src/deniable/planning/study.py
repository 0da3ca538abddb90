"""Planning a study of one sensitive question: which design needs how many people, for a proportion
or for a regression."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from deniable.checks import check_epsilon, check_range, whole
from deniable.display import Bar, Display, loss_text, pad, text_width
from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.mechanisms.designs import (
    Crosswise,
    DirectQuestion,
    ExtendedCrosswise,
    ForcedResponse,
    ItemCount,
    Kuk,
    UnrelatedQuestion,
    Warner,
)
from deniable.numerics import normal_quantile
from deniable.planning.power import open_proportion
from deniable.planning.precision import deviations
from deniable.results import Result

__all__ = [
    "DesignComparison",
    "DesignNeed",
    "compare_designs",
    "people_to_invite",
    "regression_sample_size",
]

_ITEMS, _SPREAD = 4, 1.0
"""Of the list experiment that is compared: four harmless items, with a standard deviation of 1."""
_NODES = 80


@dataclass(frozen=True, eq=False)
class DesignNeed(Result):
    """What one design needs for the wanted half-width."""

    design: str
    epsilon: float
    bias: float
    """By how much the estimate is off because carriers deny."""
    stderr: float
    """Of one person."""
    people: int | None
    """None if no number of people is enough: the bias alone is too large."""


@dataclass(frozen=True, eq=False)
class DesignComparison(Result):
    """Designs for one sensitive question at the same protection, the cheapest first; those without
    protection at the end."""

    prevalence: float
    epsilon: float
    margin: float
    confidence: float
    designs: tuple[DesignNeed, ...]

    def __getitem__(self, design: str) -> DesignNeed:
        """One design, by the beginning of its name."""
        for need in self.designs:
            if need.design.startswith(design):
                return need
        raise ParameterError(
            "design", design, f"must be one of {', '.join(need.design for need in self.designs)}"
        )

    def _display(self, confidence: float = 0.95) -> Display:
        columns = ("design", "epsilon", "bias", "stderr", "people")
        rows = [
            (need.design, need.epsilon, need.bias, need.stderr, need.people)
            for need in self.designs
        ]
        bars = [Bar(need.design, float(need.people or 0)) for need in self.designs]
        return Display(columns, rows, (self._goal(),), bars, "people needed")

    def _goal(self) -> str:
        return (
            f"people needed for ± {100 * self.margin:g} points ({100 * self.confidence:g} %) at a"
            f" prevalence of {100 * self.prevalence:g} %, bias included"
        )

    def __str__(self) -> str:
        names = max(text_width(need.design) for need in self.designs)
        lines = []
        for need in self.designs:
            loss = "infinite" if math.isinf(need.epsilon) else loss_text(need.epsilon)
            people = "never enough" if need.people is None else f"{need.people:,} people"
            bias = f", bias {100 * need.bias:+.3g} points" if need.bias else ""
            lines.append(f"{pad(need.design, names)}  {people:>14}   epsilon {loss}{bias}")
        return "\n".join([*lines, self._goal()])


def compare_designs(
    prevalence: float,
    epsilon: float,
    *,
    margin: float = 0.03,
    direct_denial: float = 0.0,
    denial: float = 0.0,
    confidence: float = 0.95,
) -> DesignComparison:
    """Which design for one sensitive yes/no question needs how many people, all at the same loss
    `epsilon`.

    `margin` is the half-width wanted. `direct_denial` is the proportion of carriers who would deny
    it if asked directly, `denial` the proportion who answer as non-carriers even behind the design:
    both bias the estimate by minus that proportion of the prevalence, and no number of people takes
    that away. So the number of people makes z times the root mean squared error, sqrt(bias^2 +
    stderr^2/n), the margin. For comparison, a direct question and a list of four items, which
    protect nobody.

    >>> print(compare_designs(0.1, 1.5, margin=0.03, direct_denial=0.4))
    Warner(epsilon=1.5)                             1,963 people   epsilon 1.5
    Crosswise(epsilon=1.5)                          1,963 people   epsilon 1.5
    ExtendedCrosswise(p='1000/5481')                1,963 people   epsilon 1.5
    ForcedResponse(epsilon=1.5)                     1,963 people   epsilon 1.5
    UnrelatedQuestion(u='1/2', epsilon=1.5)         1,963 people   epsilon 1.5
    UnrelatedQuestion(u='1/4', epsilon=1.5)         2,912 people   epsilon 1.5
    Kuk(p1='2117/3117', p2='1000/3117', draws=2)    4,006 people   epsilon 1.5
    DirectQuestion()                                never enough   epsilon infinite, bias -4 points
    ItemCount(items=4)                             17,842 people   epsilon infinite
    people needed for ± 3 points (95 %) at a prevalence of 10 %, bias included
    """
    pi, wanted = open_proportion("prevalence", prevalence), open_proportion("margin", margin)
    loss, z = check_epsilon(epsilon), deviations(confidence)
    for name, proportion in (("direct_denial", direct_denial), ("denial", denial)):
        check_range(name, proportion, least=0, below=1)
    protected = [
        _need(design, _one_person(design), pi, denial, wanted / z) for design in _designs(loss)
    ]
    open_ones = [
        _need(DirectQuestion(), _one_person(DirectQuestion()), pi, direct_denial, wanted / z),
        _need(ItemCount(_ITEMS), _list_person, pi, denial, wanted / z),
    ]
    ordered = sorted(protected, key=lambda need: math.inf if need.people is None else need.people)
    return DesignComparison(pi, loss, wanted, confidence, (*ordered, *open_ones))


def _designs(epsilon: float) -> list[Any]:
    odds, half = (
        Fraction(max(math.floor(1_000 * math.exp(part)), 1_001), 1_000)
        for part in (epsilon, epsilon / 2)
    )
    return [
        Warner(epsilon=epsilon),
        Crosswise(epsilon=epsilon),
        ExtendedCrosswise(1 / (1 + odds)),
        ForcedResponse(epsilon=epsilon),
        UnrelatedQuestion(u=Fraction(1, 2), epsilon=epsilon),
        UnrelatedQuestion(u=Fraction(1, 4), epsilon=epsilon),
        Kuk(half / (1 + half), 1 / (1 + half), draws=2),
    ]


def _one_person(design: Any) -> Callable[[float], float]:
    samples = (0.5, 0.5) if hasattr(design, "power_values") else 1.0
    return lambda proportion: float(design.expected_stderr(samples, proportion))


def _list_person(proportion: float) -> float:
    return ItemCount(_ITEMS).expected_stderr((0.5, 0.5), proportion, _SPREAD)


def _need(
    design: Any, stderr: Callable[[float], float], pi: float, denial: float, goal: float
) -> DesignNeed:
    """`goal` is the root mean squared error wanted."""
    seen = pi * (1 - denial)
    bias, error = seen - pi, stderr(seen)
    room = goal**2 - bias**2
    people = math.ceil(error**2 / room - 1e-9) if room > 0 else None
    name = str(design) if isinstance(design, ExtendedCrosswise) else repr(design)
    return DesignNeed(name, design.epsilon, bias, error, people)


def regression_sample_size(
    mechanism: Any,
    odds_ratio: float,
    prevalence: float,
    *,
    power: float = 0.8,
    significance: float = 0.05,
) -> int:
    """People needed to find, by logistic regression, that a covariate goes with a randomized yes/no
    answer.

    The covariate is normal with a standard deviation of 1, `odds_ratio` is that of one standard
    deviation, and `prevalence` that at its mean. The variance of the slope is the inverse of the
    expected information, E (d lam/d eta)^2/(lam (1 - lam)) x x', with lam = b + (a - b)/(1 +
    exp(-eta)), integrated by Gauss-Hermite quadrature.

    >>> from deniable import Crosswise, DirectQuestion
    >>> regression_sample_size(DirectQuestion(), 1.5, 0.3), regression_sample_size(Crosswise(1 / 6), 1.5, 0.3)
    (249, 649)
    """
    pi = open_proportion("prevalence", prevalence)
    if (
        isinstance(odds_ratio, bool)
        or not isinstance(odds_ratio, int | float)
        or not 0 < odds_ratio < math.inf
        or odds_ratio == 1
    ):
        raise ParameterError("odds_ratio", odds_ratio, "must be above 0 and differ from 1")
    wanted, level = open_proportion("power", power), open_proportion("significance", significance)
    channel = mechanism.channel()
    if not isinstance(channel, np.ndarray) or channel.shape != (2, 2):
        raise ParameterError(
            "mechanism", mechanism, "must randomize a yes/no question with two reports"
        )
    b, a = channel[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    weights = weights / weights.sum()
    slope = math.log(odds_ratio)
    chance = 1 / (1 + np.exp(-(math.log(pi / (1 - pi)) + slope * nodes)))
    rate = np.clip(b + (a - b) * chance, 1e-12, 1 - 1e-12)
    worth = weights * ((a - b) * chance * (1 - chance)) ** 2 / (rate * (1 - rate))
    information = np.array([[worth.sum(), worth @ nodes], [worth @ nodes, worth @ nodes**2]])
    variance = float(np.linalg.inv(information)[1, 1])
    reach = normal_quantile(1 - level / 2) + normal_quantile(wanted)
    return math.ceil(variance * (reach / slope) ** 2)


def people_to_invite(people: int, response: float, attrition: float = 0.0) -> int:
    """How many people to invite so that as many as are needed answer, if a proportion `response`
    does and some drop out.

    >>> people_to_invite(825, response=0.4, attrition=0.1)
    2292
    """
    whole("people", people, 1)
    check_range("response", response, above=0, most=1)
    check_range("attrition", attrition, least=0, below=1)
    invited = math.ceil(people / (response * (1 - attrition)) - 1e-9)
    if invited > 10**12:
        raise InfeasiblePlanError(f"{invited:,} people would have to be invited", {})
    return invited
