"""What a query costs the people it asks, derived from its mechanism, sampling and schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

from deniable.mechanisms.protocols.memoized_unary import MemoizedUnary
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.privacy.release_accountant import Releases, StatedLoss
from deniable.queries.budget import Budget
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from deniable.randomness import ONE

__all__ = ["QueryLosses"]


class QueryLosses:
    """The losses of a query whose fields are valid: a base of :class:`~deniable.queries.query.Query`."""

    mechanism: Any
    sampling: float
    schedule: Schedule
    strata: Sequence[Stratum]
    population: int | None
    minimum_cohort: int
    budget: Budget
    most_rows: int
    ones: int
    memoize: bool
    distinct: int
    once: bool

    @property
    def epsilon(self) -> float:
        """The exact loss of one randomized row."""
        return float(
            self.mechanism.epsilon if self.ones == 1 else self.mechanism.answer_epsilon(self.ones)
        )

    @property
    def epsilon_local(self) -> float:
        """The loss of one epoch against anyone who sees who answered: that of a row, for each row
        that may be sent."""
        return self.releases.local.epsilon

    @property
    def epsilon_charged(self) -> float:
        """What a ledger counts per row: the loss of the report or, if memoized, of the permanent
        answer."""
        mechanism = self.mechanism
        kept = self.memoize and isinstance(mechanism, MemoizedMechanism)
        return float(mechanism.lifetime_answer_epsilon(self.ones)) if kept else self.epsilon

    @cached_property
    def releases(self) -> Releases:
        """All that leaves the devices over the query's life, as the accountant of stated losses
        counts it."""
        known = self.ones == 1  # of sets of buckets only the loss is known
        permanent: Any = None
        if self.memoize:
            first = (
                self.mechanism.first_step
                if isinstance(self.mechanism, MemoizedUnary)
                else self.mechanism
            )
            permanent = (
                first
                if known and not isinstance(first, MemoizedMechanism)
                else self.epsilon_charged
            )
        report = self.mechanism if known else self.epsilon
        most = self.most_sampling
        return Releases(
            report, most, self.answered_epochs, self.most_rows, permanent, self.distinct
        )

    @property
    def most_sampling(self) -> float:
        """The largest sampling probability of any stratum."""
        given = [
            self.sampling if stratum.sampling is None else stratum.sampling
            for stratum in self.strata
        ]
        return max(given, default=self.sampling)

    @property
    def crowd(self) -> int:
        """Among how many people an answer hides, as losses are stated: the smallest stratum, or
        else the minimum cohort."""
        sizes = [stratum.population for stratum in self.strata] or [self.population]
        known = [size for size in sizes if size is not None]
        return min(known) if len(known) == len(sizes) else self.minimum_cohort

    @property
    def sampled_loss(self) -> StatedLoss:
        """The loss of one epoch against anyone who cannot tell which of `crowd` people answered."""
        return self.releases.sampled(self.crowd)

    @property
    def epsilon_sampled(self) -> float:
        """The epsilon of :attr:`sampled_loss`. It means nothing without the delta and the crowd
        that are stated there."""
        return self.sampled_loss.epsilon

    @property
    def affordable_epochs(self) -> int | None:
        """How many epochs the budget pays for, by plain addition; None if the query sets no
        budget."""
        return (
            None
            if self.budget.epsilon is None
            else int(Fraction(self.budget.epsilon) / Fraction(self.epsilon_local))
        )

    @property
    def answered_epochs(self) -> int:
        """In how many epochs one device can answer."""
        return 1 if self.once else self.schedule.n_epochs

    def sampling_of(self, stratum: int = 0) -> int:
        """The sampling probability of a stratum, as an integer over 2**64: what the coin is
        compared with."""
        chosen = self.strata[stratum].sampling if self.strata else None
        return math.floor(Fraction(self.sampling if chosen is None else chosen) * ONE)
