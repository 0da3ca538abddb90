"""Basic RAPPOR: unary encoding in two steps, of which the first is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.mechanisms import solving
from deniable.mechanisms.bits import flip_bits
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.protocols.permanent import (
    MemoizedMechanism,
    TwoSteps,
    equal_steps,
    flip_within,
)
from deniable.mechanisms.protocols.unary import UnaryReports
from deniable.mechanisms.reports import Tally
from deniable.randomness import ONE, Source

__all__ = ["BasicRappor"]


@dataclass(frozen=True, eq=False, repr=False)
class BasicRappor(MemoizedMechanism, UnaryReports):
    """One bit per value, randomized once permanently and again in each report, so that a value can
    be reported for years.

    Permanent step: each of the k bits is flipped with probability f/2. Instantaneous step: a
    permanent 1 is reported as 1 with probability `q`, a permanent 0 with probability `p` < `q`.
    Seen through both, a true bit is 1 with probability q* = (1 - f/2) q + (f/2) p and any other
    with p* = (1 - f/2) p + (f/2) q; two values differ in two bits, so

    * `epsilon` = ln( q* (1 - p*) / (p* (1 - q*)) ), the loss of one report;
    * `lifetime_epsilon` = 2 ln( (1 - f/2) / (f/2) ), the loss of any number of replays of one
      permanent answer.

    The estimate is that of a pure protocol with a = q* and b = p*, and knows replays
    (:meth:`estimate`). Erlingsson, Pihur and Korolova, "RAPPOR", CCS 2014, theorems 1 and 2 and
    lemma 1, with h = 1.

    >>> browser = BasicRappor(["home", "news", "mail"], f=0.5, p=0.5, q=0.75)
    >>> round(browser.epsilon, 4), round(browser.lifetime_epsilon, 4)
    (0.5371, 2.1972)
    >>> kept = browser.permanent("news")  # once, stored on the device
    >>> report = browser.replay(kept)  # every day
    """

    values: Any
    f: float
    p: float
    q: float

    def __post_init__(self) -> None:
        steps = TwoSteps.of(self.f, self.p, self.q)
        domain = Domain.of(self.values)
        self._set(
            domain=domain,
            values=domain.labels,
            f=float(self.f),
            p=float(self.p),
            q=float(self.q),
            _steps=steps,
        )
        self._set(epsilon=steps.report_epsilon(1), lifetime_epsilon=steps.lifetime_epsilon(1))

    @classmethod
    def from_epsilon(cls, epsilon: float, *, values: Any) -> BasicRappor:
        """With two steps that flip a bit equally often, and a loss of at most about `epsilon` per
        report.

        >>> round(BasicRappor.from_epsilon(1.0, values=4).epsilon, 6)
        1.0
        """
        return cls(values, *equal_steps(epsilon, 1))

    @classmethod
    def from_lifetime_epsilon(
        cls,
        values: int | Iterable[Hashable],
        lifetime_epsilon: float,
        p: float = 0.5,
        q: float = 0.75,
    ) -> BasicRappor:
        """With the least permanent noise that keeps within the given lifetime loss; `p` and `q` are
        the paper's.

        >>> 1.999999 < BasicRappor.from_lifetime_epsilon(16, 2.0).lifetime_epsilon <= 2
        True
        """
        return cls(values, flip_within(lifetime_epsilon, 1), p, q)

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "f": self.f, "p": self.p, "q": self.q}

    def encode(self, values: Any) -> NDArray[np.intp]:
        return self.domain.indices(values)

    def draw_permanent(self, encoded: NDArray[Any], source: Source) -> NDArray[np.uint8]:
        truth = np.zeros((encoded.size, *self.layout[1]), dtype=np.uint8)
        flip_bits(truth, encoded, np.ones(encoded.size, dtype=np.uint8))
        return self._steps.permanent(truth, len(self.domain), source)

    def draw_report(self, permanent: NDArray[np.uint8], source: Source) -> NDArray[np.uint8]:
        return self._steps.instantaneous(permanent, len(self.domain), source)

    def equal_reports(self) -> tuple[float, float] | None:
        known, flip = super().equal_reports(), self._steps.flip / ONE
        return (
            None
            if known is None
            else (self._steps.second.equal((1 - flip, flip), len(self.domain)), known[1])
        )

    def estimate(
        self, reports: Any, population: int | None = None, rounds: int = 1
    ) -> solving.Estimate:
        """What reports (or a tally, or several of either in a list) say about the population.

        Reports that :meth:`replay` drew from the same permanent answers are not independent: the
        noise of the permanent step, and the sample of people, stay the same however often they are
        replayed. Such reports are recognized; for reports that were stored in between, `rounds`
        says how often each person's answer was replayed. With R replays of n people, the variance
        of a rate is ((q - p)^2 beta (1 - beta) + (beta q (1 - q) + (1 - beta) p (1 - p))/R)/n, beta
        being the proportion of permanent ones; the result's n is the number of people.
        """
        tally = self.gather(reports)
        times = self.rounds(tally, rounds)
        origins = frozenset(tally.replays) if isinstance(tally, Tally) else frozenset()
        if times == 1:
            return dataclasses.replace(super().estimate(tally, population), _replayed=origins)
        n = max(2, round(tally.n / times))
        population = solving.check_population(population, n)
        (a, b), (p, q) = self.channel(), (self._steps.p / ONE, self._steps.q / ONE)
        rate = solving.support_rates(tally.counts / tally.n, a, b)
        ones = (rate - p) / (q - p)
        within = ones * q * (1 - q) + (1 - ones) * p * (1 - p)
        variance = (rate * (1 - rate) - within * (1 - 1 / times)) / ((a - b) ** 2 * (n - 1))
        proportions = (tally.counts / tally.n - b) / (a - b)
        covariance = None
        if proportions.size <= solving.largest_covariance():
            covariance = np.outer(proportions, -proportions / (n - 1))
            np.fill_diagonal(covariance, variance)
        moments = solving.finite((proportions, variance, covariance), population)
        note = (
            f"{tally.n:,} replays of permanent answers, {times:.4g} per person; epsilon is that of"
            " all replays of a person"
        )
        found = self.describe(moments, n, population, (note,))
        return dataclasses.replace(
            found, support=None, epsilon=self.lifetime_epsilon, _replayed=origins
        )
