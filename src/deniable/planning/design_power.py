"""Power and sample size of survey designs: how many people must be asked to distinguish a
prevalence from another value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

from deniable.checks import check_count
from deniable.display import Bar, Display
from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.numerics import normal_quantile
from deniable.planning.power import open_proportion
from deniable.results import Result

__all__ = ["DesignPower", "design_power", "design_sample_size"]

_ALTERNATIVES = ("two-sided", "greater", "less")


class _Design(Protocol):
    def expected_stderr(self, *arguments: Any, **options: Any) -> float: ...


@dataclass(frozen=True, eq=False)
class DesignPower(Result):
    """The power of a test with a design: `n` people, `power`, and the two standard errors it is
    computed from."""

    design: str
    parameter: str
    value: float
    null: float
    n: tuple[int, ...]
    power: float
    significance: float
    alternative: str
    null_stderr: float
    stderr: float

    def _display(self, confidence: float = 0.95) -> Display:
        facts = [
            (name, " + ".join(map(str, value)) if isinstance(value, tuple) else value)
            for name, value in vars(self).items()
        ]
        bars = [Bar("power", 100 * self.power)]
        return Display(("fact", "value"), facts, (str(self),), bars, "power (%)", 80.0)

    def preregistration(self, invited: int | None = None) -> str:
        """A paragraph for a preregistration: design, hypothesis, test, level, power and sample
        size."""
        side = "two-sided" if self.alternative == "two-sided" else f"one-sided ({self.alternative})"
        people = " + ".join(f"{n:,}" for n in self.n)
        asked = (
            "" if invited is None else f" To reach this number, {invited:,} people will be invited."
        )
        return (
            f"The sensitive question will be asked with the design {self.design}. We test the"
            f" hypothesis {self.parameter} = {self.null:g} by a {side} z test at a level of"
            f" {100 * self.significance:g} %, with the standard error under the hypothesis. With"
            f" {people} complete answers, the test has a power of {100 * self.power:.1f} % if"
            f" {self.parameter} is {self.value:g} (standard error {self.stderr:.4g} there,"
            f" {self.null_stderr:.4g} under the hypothesis).{asked} Estimates will be reported with"
            " 95 % intervals; the analysis assumes that people follow the instructions of the"
            " design."
        )

    def __str__(self) -> str:
        people = " + ".join(f"{n:,}" for n in self.n)
        return (
            f"{self.design}: {people} people distinguish {self.parameter} = {self.value:g} from"
            f" {self.null:g} with a power of {100 * self.power:.1f} % (score test,"
            f" {self.alternative}, level {100 * self.significance:g} %)"
        )


def design_power(
    design: _Design,
    value: float | Sequence[float],
    n: int | Sequence[int],
    *,
    null: float = 0.0,
    parameter: str | None = None,
    significance: float = 0.05,
    alternative: str = "two-sided",
) -> DesignPower:
    """The probability that a test with `n` people detects that a parameter is not `null`.

    `value` is the prevalence, with whatever else the design needs: (pi, u), (pi, beta), (pi, t),
    for an item count (pi, standard deviation of the harmless count), for scrambling (mean, standard
    deviation), for an item sum (mean, standard deviation, that of the harmless sum). `n` is one
    number, or one per sample. The test is the score test of :meth:`DesignEstimate.test()
    <deniable.DesignEstimate.test>`: it rejects if the estimate is further from `null` than its
    standard error *there* allows; the probability of that uses the standard error at `value`. rr's
    power.rr.test does the same, but treats an estimated u as known.

    >>> from deniable import ForcedResponse
    >>> survey = ForcedResponse(2 / 3, yes=1 / 6)
    >>> found = design_power(survey, 0.2, 200, significance=0.01, alternative="greater")
    >>> round(found.power, 7)
    0.9868872
    """
    sizes = _sizes(n)
    case = _Case(design, value, null, parameter, significance, alternative, len(sizes))
    return case.with_people(sizes)


def design_sample_size(
    design: _Design,
    value: float | Sequence[float],
    *,
    null: float = 0.0,
    power: float = 0.8,
    parameter: str | None = None,
    significance: float = 0.05,
    alternative: str = "two-sided",
    allocation: Sequence[float] | None = None,
) -> DesignPower:
    """The least number of people for the given power; `allocation` says how they are divided among
    the samples, by default equally.

    n = ((z_level s0 + z_power s1) / (value - null))^2, with s0 and s1 the standard errors of one
    person at `null` and at `value`.

    >>> from deniable import Crosswise
    >>> print(design_sample_size(Crosswise(1 / 4), 0.10, power=0.9))
    Crosswise(p='1/4'): 825 people distinguish pi = 0.1 from 0 with a power of 90.0 % (score test, two-sided, level 5 %)
    """
    wanted = open_proportion("power", power)
    parts = _allocation(design, allocation)
    case = _Case(design, value, null, parameter, significance, alternative, len(parts))
    stderr, null_stderr = case.errors(parts if len(parts) > 1 else 1.0)
    total = ((case.z * null_stderr + normal_quantile(wanted) * stderr) / (case.value - null)) ** 2
    if not math.isfinite(total):
        raise InfeasiblePlanError(
            f"no number of people distinguishes {case.value:g} from {null:g}", {}
        )
    if null_stderr == 0:
        total = math.log(1 - wanted) / math.log1p(-case.conclusive())
    sizes = tuple(math.ceil(total * part - 1e-9) for part in parts)
    return case.with_people(sizes)


class _Case:
    """One question of power, checked."""

    def __init__(
        self,
        design: _Design,
        value: float | Sequence[float],
        null: float,
        parameter: str | None,
        significance: float,
        alternative: str,
        samples: int,
    ) -> None:
        values = (
            (float(value),)
            if isinstance(value, int | float)
            else tuple(float(part) for part in value)
        )
        wanted = len(_samples(design))
        if samples != wanted:
            raise ParameterError(
                "len(n)", samples, f"must be the design's number of samples, {wanted}"
            )
        amounts = _amounts(design)
        needed = getattr(design, "power_values", 2 if wanted == 2 or amounts else 1)
        if len(values) != needed:
            raise ParameterError(
                "value",
                value,
                f"must be {needed} number{'s' if needed > 1 else ''} for this design",
            )
        if alternative not in _ALTERNATIVES:
            raise ParameterError(
                "alternative", alternative, f"must be one of {', '.join(map(repr, _ALTERNATIVES))}"
            )
        names = getattr(design, "names", ("mean",) if amounts else ("pi",))
        self.parameter = names[0] if parameter is None else parameter
        if self.parameter not in names:
            raise ParameterError("parameter", self.parameter, f"must be one of {', '.join(names)}")
        self.design, self.values, self.null = design, values, float(null)
        self.significance, self.alternative = (
            open_proportion("significance", significance),
            alternative,
        )
        shift = getattr(design, "at_null", None)
        if shift is None:
            self.value, self.null_values = values[0], (self.null, *values[1:])
        else:
            self.value, self.null_values = shift(values, self.parameter, self.null)
        _check_values(design, "value", values, values)
        _check_values(design, "null", (self.null,) if amounts else self.null_values, (self.null,))
        if self.value == self.null:
            raise ParameterError("value", self.value, "must differ from null")
        if alternative != "two-sided" and (self.value > self.null) != (alternative == "greater"):
            raise ParameterError(
                "alternative",
                alternative,
                f"does not fit a value of {self.value:g} against {self.null:g}",
            )
        tail = self.significance / 2 if alternative == "two-sided" else self.significance
        self.z = normal_quantile(1 - tail)

    def errors(self, n: Any) -> tuple[float, float]:
        """The standard errors at the value and at the null."""
        return (
            self.design.expected_stderr(n, *self.values, parameter=self.parameter),
            self.design.expected_stderr(n, *self.null_values, parameter=self.parameter),
        )

    def power(self, stderr: float, null_stderr: float) -> float:
        """The probability of lying beyond the threshold on the value's side and, for a two-sided
        test, on the other."""
        gap, reach = abs(self.value - self.null), self.z * null_stderr
        beyond = NormalDist().cdf((gap - reach) / stderr)
        return beyond + (
            NormalDist().cdf((-gap - reach) / stderr) if self.alternative == "two-sided" else 0.0
        )

    def conclusive(self) -> float:
        """The probability of a report that the null rules out: one is enough if the null has no
        error at all."""
        design: Any = self.design  # one with a channel: the other kinds have an error at every null
        at_null, at_value = (design.rates(*values) for values in (self.null_values, self.values))
        return min(float(at_value[at_null == 0].sum()), 1 - 1e-12)

    def with_people(self, sizes: tuple[int, ...]) -> DesignPower:
        """The power with `n` people; without coins and with a null of 0 or 1, that of seeing one
        contradicting report."""
        stderr, null_stderr = self.errors(sizes if len(sizes) > 1 else sizes[0])
        power = (
            self.power(stderr, null_stderr)
            if null_stderr > 0
            else 1 - (1 - self.conclusive()) ** sizes[0]
        )
        return self.result(sizes, power, stderr, null_stderr)

    def result(
        self, sizes: tuple[int, ...], power: float, stderr: float, null_stderr: float
    ) -> DesignPower:
        """The request and the result."""
        name = str(self.design)
        return DesignPower(
            name,
            self.parameter,
            self.value,
            self.null,
            sizes,
            power,
            self.significance,
            self.alternative,
            null_stderr,
            stderr,
        )


def _check_values(
    design: Any, name: str, values: tuple[float, ...], given: tuple[float, ...]
) -> None:
    """Refuse values that the parameters of a design cannot have; `given` is what the user wrote."""
    shown = given[0] if len(given) == 1 else given
    if not all(math.isfinite(value) for value in values):
        raise ParameterError(name, shown, "must be finite")
    mean = _amounts(design)
    if (mean or hasattr(design, "items")) and min(values[1:], default=0) < 0:
        raise ParameterError(
            name, shown, "must have a standard deviation of at least 0 as its second number"
        )
    proportions = values[:0] if mean else values[:1] if hasattr(design, "items") else values
    if not all(0 <= value <= 1 for value in proportions):
        raise ParameterError(name, shown, "must lie between 0 and 1: it is a proportion of people")
    if hasattr(design, "class_proportions") and min(design.class_proportions(*values)) < -1e-9:
        raise ParameterError(
            name, shown, "must leave a proportion of at least 0 to every kind of people"
        )


def _amounts(design: Any) -> bool:
    """Whether the design is about the mean of a number, and not about a proportion."""
    return hasattr(design, "multiplier") or bool(getattr(design, "amounts", False))


def _samples(design: Any) -> tuple[int, ...]:
    return (0, 1) if hasattr(design, "names") or hasattr(design, "items") else (0,)


def _sizes(n: int | Sequence[int]) -> tuple[int, ...]:
    given = (n,) if isinstance(n, int | float) else tuple(n)
    return tuple(check_count("n", part) for part in given)


def _allocation(design: Any, allocation: Sequence[float] | None) -> tuple[float, ...]:
    samples = len(_samples(design))
    parts = (
        (1 / samples,) * samples
        if allocation is None
        else tuple(float(part) for part in allocation)
    )
    if len(parts) != samples or min(parts) <= 0 or abs(sum(parts) - 1) > 1e-9:
        raise ParameterError(
            "allocation", allocation, f"must be {samples} positive parts that sum to 1"
        )
    return parts
