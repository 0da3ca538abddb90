"""Two-step randomized response: a permanent answer, drawn once and kept, and reports that are drawn
from it.

Anyone who asks the same question repeatedly can average fresh noise away. So the noise that
protects the person is drawn once (the permanent step) and kept; each report then randomizes the
kept bits once more (the instantaneous step). However many reports are sent, together they can
reveal the permanent answer but never more (Erlingsson, Pihur and Korolova, "RAPPOR", CCS 2014).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_double, check_epsilon, whole
from deniable.counts import Counts
from deniable.errors import ParameterError, ReportFormatError, ReportMismatchError
from deniable.mechanisms import exact
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.unary import BitChannel
from deniable.mechanisms.reports import Reports, Tally, read_rows, write_rows
from deniable.randomness import ONE, Source, source_or_system
from deniable.wire.containers import PERMANENT

__all__ = ["Instantaneous", "MemoizedMechanism", "PermanentAnswer", "TwoSteps"]


@dataclass(frozen=True)
class Instantaneous:
    """The coins of the second step, as integers over 2**64, for any row of packed permanent
    bits."""

    p: int
    """How often a permanent 0 is reported as 1."""
    q: int
    """How often a permanent 1 is reported as 1."""

    @classmethod
    def of(cls, p: float, q: float) -> Instantaneous:
        """From probabilities strictly between 0 and 1, with q > p."""
        step = cls(exact.nearest(check_double("p", p)), exact.nearest(check_double("q", q)))
        if step.q <= step.p:
            raise ParameterError("q", q, f"must exceed p = {p!r}")
        return step

    def draw(self, permanent: NDArray[np.uint8], width: int, source: Source) -> NDArray[np.uint8]:
        """A coin per permanent bit: 1 with probability q if the bit is 1, else with probability
        p."""
        if_zero = source.bit_rows(self.p, len(permanent), width)
        rows = source.bit_rows(self.q, len(permanent), width)
        # (permanent & rows) | (~permanent & if_zero), in place: the same work whatever the bits
        # are.
        rows ^= if_zero
        rows &= permanent
        rows ^= if_zero
        return rows

    def seen(self, one: Fraction) -> Fraction:
        """P(a bit is reported as 1), if its permanent bit is 1 with probability `one`: exactly."""
        return (one * self.q + (1 - one) * self.p) / ONE

    def correlation(self) -> float:
        """The largest correlation that two reports of one permanent bit can have, whatever
        proportion of people has a 1.

        If a report is 1 with probability lam, it is (lam - p)(q - lam) / (lam (1 - lam)), which is
        largest where that is 1 - (sqrt(p q) + sqrt((1 - p)(1 - q)))^2. A replay without this step
        has 1.
        """
        p, q = self.p / ONE, self.q / ONE
        return 1 - (math.sqrt(p * q) + math.sqrt((1 - p) * (1 - q))) ** 2

    def equal(self, permanent: tuple[float, float], width: int) -> float:
        """The probability that two reports of one permanent answer are equal, bit for bit.

        Its bits are 1 with the probabilities of `permanent`: the first for one of them, the second
        for all others.
        """
        p, q = self.p / ONE, self.q / ONE
        of_zero, of_one = p * p + (1 - p) ** 2, q * q + (1 - q) ** 2
        true, other = (one * of_one + (1 - one) * of_zero for one in permanent)
        return true * other ** (width - 1)


@dataclass(frozen=True)
class TwoSteps:
    """The coins of both steps, as integers over 2**64, for any row of packed bits."""

    flip: int
    """f/2: how often the permanent step flips a bit."""
    p: int
    """How often a permanent 0 is reported as 1."""
    q: int
    """How often a permanent 1 is reported as 1."""

    @classmethod
    def of(cls, f: float, p: float, q: float) -> TwoSteps:
        """From RAPPOR's parameters, all strictly between 0 and 1, with q > p."""
        flip, zero, one = check_double("f", f) / 2, check_double("p", p), check_double("q", q)
        steps = cls(exact.nearest(flip), exact.nearest(zero), exact.nearest(one))
        if steps.q <= steps.p:
            raise ParameterError("q", q, f"must exceed p = {p!r}")
        if 2 * steps.flip >= ONE:
            raise ParameterError("f", f, "must lie strictly between 0 and 1")
        return steps

    def permanent(self, truth: NDArray[np.uint8], width: int, source: Source) -> NDArray[np.uint8]:
        """True rows of `width` packed bits, each bit flipped with probability f/2.

        That is the paper's rule: 1 stays 1 with probability 1 - f/2, and 0 becomes 1 with
        probability f/2.
        """
        rows = source.bit_rows(self.flip, len(truth), width)
        rows ^= truth
        return rows

    def instantaneous(
        self, permanent: NDArray[np.uint8], width: int, source: Source
    ) -> NDArray[np.uint8]:
        """A coin per permanent bit: see :meth:`Instantaneous.draw`."""
        return self.second.draw(permanent, width, source)

    @property
    def second(self) -> Instantaneous:
        """The second step alone."""
        return Instantaneous(self.p, self.q)

    def true_and_false(self) -> tuple[Fraction, Fraction]:
        """q* and p*: P(a bit is reported as 1 | it is truly 1) and P(… | it is truly 0),
        exactly."""
        kept = ONE - self.flip
        return (
            Fraction(kept * self.q + self.flip * self.p, ONE * ONE),
            Fraction(kept * self.p + self.flip * self.q, ONE * ONE),
        )

    def report_epsilon(self, pairs: int) -> float:
        """The exact loss of one report if another value clears up to `pairs` bits and sets up to as
        many others.

        The most revealing report has the cleared bits at 1, a factor q*/p* each, and the set ones
        at 0, a factor (1 - p*)/(1 - q*) each.
        """
        a, b = self.true_and_false()
        return exact.log_ratio((a * (1 - b) / (b * (1 - a))) ** pairs)

    def lifetime_epsilon(self, pairs: int) -> float:
        """The same for the permanent bits themselves: 2 `pairs` bits, a factor (1 - f/2)/(f/2)
        each."""
        return exact.log_ratio(Fraction(ONE - self.flip, self.flip) ** (2 * pairs))


def flip_within(lifetime_epsilon: float, pairs: int) -> float:
    """The smallest f whose permanent step loses at most `lifetime_epsilon`: f/2 = 1 /
    (e^(lifetime_epsilon / (2 pairs)) + 1)."""
    requested_epsilon = check_epsilon(lifetime_epsilon, "lifetime_epsilon")
    return exact.double_up(
        2 * exact.up(1 / (exact.exp(Fraction(requested_epsilon) / (2 * pairs)) + 1))
    )


def equal_steps(epsilon: float, pairs: int) -> tuple[float, float, float]:
    """f, p and q of two steps that flip a bit equally often, whose report loses `epsilon` if 2
    `pairs` bits change."""
    root = math.sqrt(float(exact.exp(epsilon / pairs)))
    flip = (1 - math.sqrt((root - 1) / (root + 1))) / 2
    return 2 * flip, flip, 1 - flip


@dataclass(frozen=True, eq=False)
class PermanentAnswer:
    """What the permanent step drew, one row per value: kept on the device as long as the value, and
    replayed.

    It is close to the truth, so it must never leave the device; its repr shows nothing.
    """

    mechanism: MemoizedMechanism
    data: NDArray[np.uint8]
    origin: object = field(default_factory=object, repr=False)
    """By which estimates recognize replays; it says nothing about the answers."""

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PermanentAnswer):
            return NotImplemented
        return self.mechanism == other.mechanism and np.array_equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} permanent answers of {self.mechanism!r}: not shown>"

    def to_bytes(self) -> bytes:
        """The permanent answers with the description of their mechanism."""
        return write_rows(PERMANENT, self.mechanism, self.data)

    @staticmethod
    def from_bytes(content: bytes) -> PermanentAnswer:
        """The permanent answers that :meth:`to_bytes` wrote."""
        mechanism, data = read_rows(PERMANENT, "permanent answers", content)
        if not isinstance(mechanism, MemoizedMechanism):
            raise ReportFormatError(f"{type(mechanism).__name__} has no permanent answers")
        return PermanentAnswer(mechanism, data)


class MemoizedMechanism(Mechanism):
    """A mechanism of two steps, whose permanent answers have the layout of its reports."""

    _steps: TwoSteps
    lifetime_epsilon: float
    """The exact loss of the permanent answer: what any number of replays of it can reveal. A
    changed value has another permanent answer, so over a lifetime this is paid once per distinct
    value and per row."""

    def lifetime_answer_epsilon(self, ones: int) -> float:
        """`lifetime_epsilon` for an answer with up to `ones` labels; only unary ones may have more
        than one."""
        if ones != 1:
            raise ParameterError("ones", ones, f"must be 1 with {type(self).__name__}")
        return self.lifetime_epsilon

    def replay_correlation(self) -> float:
        """The largest correlation that two reports of one permanent bit can have: see
        :meth:`Instantaneous.correlation`."""
        return self._steps.second.correlation()

    @abstractmethod
    def encode(self, values: Any) -> NDArray[Any]:
        """Checked values, in the form that :meth:`draw_permanent` takes."""

    @abstractmethod
    def draw_permanent(self, encoded: NDArray[Any], source: Source) -> NDArray[np.uint8]:
        """The permanent step, one row per value."""

    @abstractmethod
    def draw_report(self, permanent: NDArray[np.uint8], source: Source) -> NDArray[np.uint8]:
        """The instantaneous step, one row per permanent answer."""

    def permanent(self, values: Any, source: Source | None = None) -> PermanentAnswer:
        """Draw the permanent answers of one value or a column of values."""
        return PermanentAnswer(
            self, self.draw_permanent(self.encode(values), source_or_system(source))
        )

    def replay(self, permanent: PermanentAnswer, source: Source | None = None) -> Reports:
        """One report of each permanent answer, drawn afresh at each call."""
        if not isinstance(permanent, PermanentAnswer):
            raise ReportMismatchError(
                f"replay() takes the PermanentAnswer of permanent(), not {type(permanent).__name__}"
            )
        if permanent.mechanism != self:
            raise ReportMismatchError(
                f"these are permanent answers of {permanent.mechanism!r}, not of {self!r}"
            )
        return Reports(
            self, self.draw_report(permanent.data, source_or_system(source)), permanent.origin
        )

    def privatize(self, values: Any, source: Source | None = None) -> Reports:
        """Both steps at once, for a value that is reported only once: the permanent answer is
        discarded.

        To report the same value again, keep :meth:`permanent` and :meth:`replay` it: fresh reports
        could be averaged.
        """
        return Reports(self, self.draw(self.encode(values), source_or_system(source)))

    def draw(self, indices: NDArray[Any], source: Source) -> NDArray[np.uint8]:
        return self.draw_report(self.draw_permanent(indices, source), source)

    def rounds(self, tally: Counts, rounds: int = 1) -> float:
        """How often an answer was replayed among the reports of a tally, on average over the
        reports; `rounds` if it was told.

        Replays are known by the permanent answers they come from, as long as they stay in memory.
        """
        told = whole("rounds", rounds, 1, max(tally.n, 1))
        known = tally.replays.values() if isinstance(tally, Tally) else ()
        replayed = sum(people * times for people, times in known)
        squares = sum(people * times**2 for people, times in known)
        return max(float(told), (squares + tally.n - replayed) / max(tally.n, 1))

    def channel(self) -> BitChannel:
        """The channel of one bit through both steps: (q*, p*), with q* = (1 - f/2) q + (f/2) p and
        p* = (1 - f/2) p + (f/2) q."""
        a, b = self._steps.true_and_false()
        return BitChannel(float(a), float(b))
