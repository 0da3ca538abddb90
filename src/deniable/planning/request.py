"""What an analyst requests of a plan, checked, and what is left to be found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deniable.checks import LARGEST_LOSS, check_confidence, check_count, check_epsilon
from deniable.errors import ParameterError, PlanError
from deniable.mechanisms.domain import LARGEST_DOMAIN
from deniable.mechanisms.mechanism import Mechanism
from deniable.planning.precision import deviations
from deniable.privacy.composition import budget_per_answer
from deniable.privacy.release_accountant import Releases
from deniable.privacy.response import largest_sampling
from deniable.renames import reads_old_names
from deniable.results import Result

__all__ = ["SMALLEST", "PlanRequest"]

SMALLEST = 1e-9
"""Of a ±, a proportion or a cv: less asks for more people than there are, and its square has no
digits left."""


@reads_old_names
@dataclass(frozen=True, eq=False)
class PlanRequest(Result):
    """All but one of: population, proportion, target (cv or margin), privacy (epsilon,
    sampled_epsilon or both). See `plan`."""

    population: int | None = None
    proportion: float | None = None
    cv: float | None = None
    margin: float | None = None
    epsilon: float | None = None
    """Local: bounds what anyone may learn from a report."""
    sampled_epsilon: float | None = None
    """Bounds what anyone who cannot tell who took part may learn."""
    buckets: int = 1
    epochs: int = 1
    memoize: bool = False
    distinct: int = 1
    rate: float | None = None
    every: float = 1.0
    report_bytes: int | None = None
    confidence: float = 0.95
    finite: bool = False
    mechanism: str | None = None

    def __post_init__(self) -> None:
        for name, least in (
            ("population", 1),
            ("buckets", 1),
            ("epochs", 1),
            ("distinct", 1),
            ("report_bytes", 1),
        ):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_count(name, value, least))
        if self.buckets > LARGEST_DOMAIN:
            raise ParameterError("buckets", self.buckets, f"must be at most {LARGEST_DOMAIN}")
        for name in ("epsilon", "sampled_epsilon"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, check_epsilon(getattr(self, name), name))
        for name in ("proportion", "margin"):
            self._check(name, getattr(self, name), 1.0, "must lie strictly between 0 and 1")
        for name in ("cv", "rate", "every"):
            self._check(name, getattr(self, name), math.inf, "must be finite and above 0")
        for name in ("proportion", "margin", "cv"):
            value = getattr(self, name)
            if value is not None and value < SMALLEST:
                raise ParameterError(name, value, f"must be at least {SMALLEST:g}")
        check_confidence(self.confidence)
        self._check_together()

    @staticmethod
    def _check(name: str, value: Any, below: float, rule: str) -> None:
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < below:
            raise ParameterError(name, value, rule)

    def _check_together(self) -> None:
        if self.cv is not None and self.margin is not None:
            raise PlanError("cv and margin are two ways to state the target: give one of them")
        if self.distinct > 1 and not self.memoize:
            raise PlanError(
                "distinct counts the true answers of a memoizing client: it needs memoize"
            )
        missing = [name for name, given in self._given().items() if not given]
        # what can be detected at all: the smallest proportion whose ± is not larger than itself
        if missing == ["proportion", "a target"]:
            object.__setattr__(self, "cv", self.noise_limit)
            return
        if len(missing) > 1:
            raise PlanError(
                f"{' and '.join(missing)} are open: give all but one of population, proportion,"
                " target (cv or margin) and epsilon"
            )
        if self.cv is not None and self.cv > self.noise_limit:
            raise PlanError(
                f"cv = {self.cv:g} is white noise: the ± at {self.confidence:.0%} would be"
                f" {self.z * self.cv:.0%} of the proportion; give a cv of at most"
                f" {math.floor(self.noise_limit * 1e4) / 1e4:g}"
            )
        if self.margin is not None and self.margin > (self.proportion or 0.5):
            raise PlanError(
                f"margin = {self.margin:g} is white noise: a ± as large as the proportion itself"
                f" cannot distinguish {self.proportion or 0.5:g} from zero; give a margin of at most"
                f" {self.proportion or 0.5:g}"
            )

    def given(self, name: str) -> float:
        """The value of a requirement that is not open."""
        value: float | None = getattr(self, name)
        if value is None:
            raise PlanError(f"{name} is open")
        return value

    def _given(self) -> dict[str, bool]:
        return {
            "population": self.population is not None,
            "proportion": self.proportion is not None or self.margin is not None,
            "a target": self.cv is not None or self.margin is not None,
            "epsilon": self.epsilon is not None or self.sampled_epsilon is not None,
        }

    @property
    def open(self) -> str:
        """What is to be found: population, proportion, target or epsilon.

        If nothing is open, it is epsilon: the given one is a ceiling, and a plan spends no more
        than its target needs.
        """
        missing = [name for name, given in self._given().items() if not given]
        return "target" if missing == ["a target"] else missing[0] if missing else "epsilon"

    @property
    def open_ended(self) -> bool:
        """Whether only a population and an epsilon are given: the smallest detectable proportion is
        wanted."""
        return self.proportion is None and self.margin is None and self.cv == self.noise_limit

    @property
    def spares(self) -> str:
        """Which epsilon a plan minimises if epsilon is open: "sampled" if a ceiling on that one is
        given, else "local"."""
        return "local" if self.sampled_epsilon is None else "sampled"

    @cached_property
    def z(self) -> float:
        """How many standard errors the ± spans."""
        return deviations(self.confidence)

    @property
    def noise_limit(self) -> float:
        """The cv at which the ± is as large as the proportion itself. Beyond it, an estimate cannot
        be distinguished from zero."""
        return 1 / self.z

    @property
    def answers(self) -> int:
        """How many answers share the privacy budget: one per epoch or, memoized, one per distinct
        true answer."""
        return self.distinct if self.memoize else self.epochs

    @cached_property
    def sampled_ceiling(self) -> float | None:
        """The sampled epsilon that one fresh answer may have or, memoized, all replays of all
        permanent answers together."""
        if self.sampled_epsilon is None or self.memoize:
            return self.sampled_epsilon
        return budget_per_answer(self.sampled_epsilon, self.epochs)

    @property
    def linked(self) -> int:
        """How many answers one tossed coin gives away: memoized, any epoch in which a person is
        heard counts for all of them."""
        return self.distinct if self.memoize else 1

    @property
    def tosses(self) -> int:
        """How many coins decide whether those answers are heard at all."""
        return self.epochs if self.memoize else 1

    def largest_sampling(self, epsilon: float) -> float:
        """The largest fraction of people that may be asked in an epoch if an answer loses
        `epsilon`, rounded down."""
        if self.sampled_ceiling is None:
            return 1.0
        heard = largest_sampling(min(self.linked * epsilon, LARGEST_LOSS), self.sampled_ceiling)
        if heard == 1 or self.tosses == 1:
            return heard
        return -math.expm1(math.log1p(-heard) / self.tosses) * (1 - 1e-12)

    def releases(self, mechanism: Mechanism, sampling: float) -> Releases:
        """What leaves the devices of people who are asked in this way."""
        permanent = mechanism if self.memoize else None
        return Releases(
            mechanism, sampling, self.epochs, permanent=permanent, distinct=self.distinct
        )

    @cached_property
    def local_ceiling(self) -> float | None:
        """The local epsilon that one answer may have."""
        return None if self.epsilon is None else budget_per_answer(self.epsilon, self.answers)

    @property
    def most_reports(self) -> float:
        """How many reports per epoch the aggregator can handle."""
        return math.inf if self.rate is None else self.rate * self.every

    def target_variance(self, proportion: float) -> float:
        """The variance that the estimate of `proportion` may have."""
        if self.margin is not None:
            return (self.margin / self.z) ** 2
        return (self.given("cv") * proportion) ** 2
