"""The release accountant: every loss that is stated anywhere, from all that an adversary sees over
a query's life.

:class:`Releases` says what leaves the devices: how a row is randomized, how many rows a person
sends, with which probability, in how many epochs, and whether reports are fresh or made from
permanent answers. Against whom, and among how many, is the question:

| method | adversary | sees | counts |
|---|---|---|---|
| `local` | anyone who sees who answered | one epoch's answer | its rows |
| `life` | the same | all epochs | every answer or, if memoized, every permanent answer once |
| `sampled` | anyone who cannot tell who took part | all reports of one epoch | silence as a report, in a crowd of a given size |
| `sampled_life` | the same | all epochs | fresh: the sum; memoized: that a replay has been sent in any of them |
| `shuffled` | anyone who sees only shuffled reports, and knows who took part | one epoch | the smallest published set |

A loss with a delta is never stated without it, nor without the size of its crowd: see
:class:`StatedLoss`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, TypedDict

from deniable.checks import check_count
from deniable.display import loss_text
from deniable.errors import ParameterError
from deniable.privacy.blanket import SHUFFLED_DELTA, blanket_epsilon
from deniable.privacy.composition import repeated_epsilon
from deniable.privacy.crowd import crowd_delta, crowd_epsilon
from deniable.privacy.response import participation, sampled_epsilon, zero_knowledge_epsilon
from deniable.privacy.shuffling import shuffled_epsilon, shuffled_epsilon_closed_form

__all__ = [
    "STATED_DELTA",
    "Releases",
    "SampledFields",
    "StatedLoss",
    "rounded_down",
    "smallest_release",
]

STATED_DELTA = SHUFFLED_DELTA
"""The probability for which stated losses in a crowd promise nothing."""
_LARGEST = 600.0
"""The loss of all rows above which shuffling promises nothing: its exponential would leave no
delta."""
_STEPS = 32
"""Crowd sizes per doubling. Sizes are rounded down to one of them (fewer others never hide an
answer better), so that a figure can be reused for the next window; it is at most 1.1 % larger."""


class SampledFields(TypedDict):
    """How JSON documents state a loss against anyone who cannot tell who took part."""

    epsilon_sampled: float
    delta_sampled: float
    """The probability for which it promises nothing."""
    sampled_crowd: int | None


@dataclass(frozen=True)
class StatedLoss:
    """A loss as it is stated: with its delta and the size of the crowd where it needs them.

    >>> str(StatedLoss(0.31234, 1e-6, 1000)), str(StatedLoss(2.0))
    ('0.3124 in a crowd of 1,000 (delta 1e-06)', '2')
    """

    epsilon: float
    delta: float = 0.0
    crowd: int | None = None
    """Among how many: people who may have taken part or, for shuffled reports, reports. None if it
    holds against any number."""

    def __str__(self) -> str:
        if self.crowd is None:
            return loss_text(self.epsilon)
        return f"{loss_text(self.epsilon)} in a crowd of {self.crowd:,} (delta {self.delta:g})"

    def sampled_fields(self) -> SampledFields:
        """The keys under which JSON documents state a sampled loss."""
        return {
            "epsilon_sampled": self.epsilon,
            "delta_sampled": self.delta,
            "sampled_crowd": self.crowd,
        }


@dataclass(frozen=True)
class Releases:
    """What leaves the devices of people who are asked a query.

    >>> from deniable import SymmetricUnary
    >>> weekly = Releases(SymmetricUnary(64, 2.0), sampling=0.05, epochs=52)
    >>> print(weekly.sampled(crowd=10), "|", weekly.sampled(crowd=100_000), "|", weekly.life)
    1.023 in a crowd of 10 (delta 1e-06) | 0.2773 in a crowd of 100,000 (delta 1e-06) | 104
    """

    mechanism: Any
    """How a row's report is drawn, or its local epsilon if only that is known."""
    sampling: float = 1.0
    """The probability with which a person takes part in an epoch: the largest, if there are
    several."""
    epochs: int = 1
    rows: int = 1
    """How many reports a person sends in an epoch."""
    permanent: Any = None
    """If reports are made from permanent answers, how one of these is drawn, or its local epsilon;
    None if they are fresh."""
    distinct: int = 1
    """For how many true answers, in each row, a permanent answer may be drawn."""

    @cached_property
    def local(self) -> StatedLoss:
        """One epoch, against anyone who sees who answered."""
        return StatedLoss(_times(_loss(self.mechanism), self.rows))

    @property
    def life(self) -> StatedLoss:
        """All epochs, against anyone who sees who answered."""
        if self.permanent is None:
            return StatedLoss(repeated_epsilon(self.local.epsilon, self.epochs))
        return StatedLoss(_times(_loss(self.permanent), self.rows * self.distinct))

    @property
    def heard(self) -> float:
        """The probability that a person is heard at all, in any epoch."""
        return participation(self.sampling, self.epochs)

    @property
    def planned_sampled(self) -> float:
        """The formula for large crowds, ln(1 + s (e^epsilon - 1)), by which designs are compared.
        It is not a stated loss."""
        return sampled_epsilon(self.local.epsilon, self.sampling)

    def sampled(self, crowd: int, delta: float = STATED_DELTA) -> StatedLoss:
        """One epoch, against anyone who cannot tell which of `crowd` people took part, except with
        probability `delta`.

        Never below the formula for large crowds, ln(1 + s (e^epsilon - 1)), by which parameters are
        planned: what a large crowd hides beyond that is stated as the shuffled loss.
        """
        found = _sampled(
            self._one_answer, self.local.epsilon, self.sampling, rounded_down(crowd), delta
        )
        return StatedLoss(found, delta, crowd)

    def sampled_life(self, crowd: int, delta: float = STATED_DELTA) -> StatedLoss:
        """All epochs, against anyone who cannot tell which of `crowd` people took part in which of
        them.

        Fresh answers add up, and so do their deltas. A permanent answer is given away by any replay
        of it, so what counts is the probability of having sent one at all, 1 - (1 - s)^epochs; and
        all replays of a person may be linked.
        """
        if self.permanent is None:
            each = self.sampled(crowd, delta / self.epochs).epsilon
            return StatedLoss(
                min(repeated_epsilon(each, self.epochs), self.life.epsilon), delta, crowd
            )
        whole = self.life.epsilon
        alone = self.rows == self.distinct == 1
        subject = self.permanent if alone else whole
        return StatedLoss(
            _sampled(subject, whole, self.heard, rounded_down(crowd), delta), delta, crowd
        )

    @property
    def zero_knowledge(self) -> float:
        """One epoch, by the formula of Gehrke et al., whose additive delta has no stated constant
        (docs/privacy.md)."""
        return zero_knowledge_epsilon(self.local.epsilon, self.sampling)

    @property
    def zero_knowledge_life(self) -> float:
        """All epochs, by the same formula: fresh answers add up; permanent ones count as sampled
        once, if ever."""
        if self.permanent is None:
            return repeated_epsilon(self.zero_knowledge, self.epochs)
        return zero_knowledge_epsilon(self.life.epsilon, self.heard)

    def shuffled(self, among: int, delta: float = STATED_DELTA) -> StatedLoss | None:
        """One epoch, against anyone who sees only its shuffled reports, `among` of them; None for
        permanent answers.

        These are sent again in other epochs, among other crowds, and what all of those reveal
        together is not bounded by the sum of what each reveals. `among` is the smallest set of
        reports that can be told apart: :func:`smallest_release`.
        """
        if self.permanent is not None:
            return None
        return StatedLoss(
            _shuffled(self.mechanism, self.rows, rounded_down(among), delta), delta, among
        )

    @property
    def _one_answer(self) -> Any:
        return self.mechanism if self.rows == 1 else self.local.epsilon


def smallest_release(reports: Iterable[int], cohort: int | None = None) -> int | None:
    """The smallest set of reports that published figures can tell apart; None if there are no
    reports.

    `reports` are the sizes of the sets that are visible at all: those of one epoch, stratum and
    version. If results are revised as late answers come, two revisions differ by a set of their
    own, which has at least `cohort` reports.
    """
    sizes = [count for count in reports if count]
    if not sizes:
        return None
    return min(sizes) if cohort is None else min(*sizes, check_count("cohort", cohort))


def _loss(mechanism: Any) -> float:
    return float(mechanism if isinstance(mechanism, int | float) else mechanism.epsilon)


def _times(loss: float, count: int) -> float:
    """The loss of `count` reports, rounded up."""
    if math.isinf(loss):
        return loss
    total = Fraction(loss) * count
    rounded = float(total)
    return rounded if rounded >= total else math.nextafter(rounded, math.inf)


@lru_cache(maxsize=4096)
def _sampled(subject: Any, local: float, sampling: float, crowd: int, delta: float) -> float:
    formula = sampled_epsilon(local, sampling)
    if (
        math.isinf(local)
        or formula == local
        or _plainly_hidden(local, sampling, crowd, delta, formula)
    ):
        return formula
    if crowd_delta(subject, sampling, crowd, formula) <= delta:
        return formula
    return min(local, crowd_epsilon(subject, sampling, crowd, delta))


def _plainly_hidden(
    local: float, sampling: float, crowd: int, delta: float, promised: float
) -> bool:
    """Whether so many others take part that even someone who knew who did would lose sight of a
    report among theirs.

    At least half of the expected number do, except with probability exp(-expected/8), and the
    closed form for shuffled reports holds for every mechanism. That spares the numerical bound for
    large crowds; where it is False nothing is said.
    """
    expected = sampling * (crowd - 1)
    if delta == 0 or expected < 8 * math.log(2 / delta):
        return False
    try:
        return shuffled_epsilon_closed_form(local, int(expected / 2), delta / 2) <= promised
    except ParameterError:  # outside the theorem's condition
        return False


@lru_cache(maxsize=4096)
def _shuffled(mechanism: Any, rows: int, among: int, delta: float) -> float:
    """The loss of all rows that a person may send in an epoch: with k rows, k times the loss of one
    at a smaller delta.

    If each of k steps from one person's rows to another's loses e except with probability d, all of
    them lose k e except with probability d (1 + exp(e) + … + exp((k - 1) e)), where e is at most
    the local loss of a row.
    """
    loss = _loss(mechanism)
    whole = _times(loss, rows)
    part = delta / sum(math.exp(loss * i) for i in range(rows)) if loss * rows < _LARGEST else 0.0
    known = not isinstance(mechanism, int | float)
    one = blanket_epsilon(mechanism, among, part) if known else shuffled_epsilon(loss, among, part)
    return whole if one >= loss else min(rows * one, whole)


def rounded_down(n: int) -> int:
    """The largest of 2**(i/32), rounded, that is at most n; small numbers are unchanged."""
    count = check_count("crowd", n)
    rounded = math.floor(2 ** (math.floor(_STEPS * math.log2(count) + 1e-9) / _STEPS) + 1e-9)
    return count if count <= 2 * _STEPS else min(rounded, count)
