"""Unary encoding in two steps: any unary mechanism draws the permanent bits, and every report
randomizes them once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.mechanisms.protocols.permanent import Instantaneous, MemoizedMechanism
from deniable.mechanisms.protocols.unary import BitChannel, UnaryMechanism, UnaryReports
from deniable.mechanisms.registry import from_dict
from deniable.randomness import ONE, Source

__all__ = ["MemoizedUnary"]


@dataclass(frozen=True, eq=False, repr=False)
class MemoizedUnary(MemoizedMechanism, UnaryReports):
    """Reports of permanent bits that `first_step` drew once: a permanent 1 is reported as 1 with
    probability `q`, a 0 with `p`.

    A permanent answer that is sent again as it is links all reports of its device: with many values
    hardly two devices have the same one. Randomized once more for every report, as in RAPPOR, it
    does not; what any number of reports reveal together is still bounded by the permanent bits.
    With a and b the probabilities of `first_step`, a* = a q + (1 - a) p and b* = b q + (1 - b) p:

    * `epsilon` = ln( a* (1 - b*) / (b* (1 - a*)) ), the loss of one report;
    * `lifetime_epsilon`, the loss of `first_step`: that of any number of reports made from one
      permanent answer.

    :class:`BasicRappor` is the case a = 1 - f/2, b = f/2. Erlingsson, Pihur and Korolova, "RAPPOR",
    CCS 2014, section 3.

    >>> from deniable import OptimizedUnary
    >>> daily = MemoizedUnary(OptimizedUnary(["home", "news", "mail"], 2.0), p=0.25, q=0.75)
    >>> round(daily.epsilon, 4), daily.lifetime_epsilon
    (0.802, 2.0)
    """

    first_step: Any
    """A unary mechanism, or the description of one without its values."""
    p: float
    q: float
    values: Any = None
    """Those of `first_step`; given only together with its description."""

    def __post_init__(self) -> None:
        first = self._described() if isinstance(self.first_step, Mapping) else self.first_step
        if not isinstance(first, UnaryMechanism):
            raise ParameterError(
                "first_step",
                type(first).__name__,
                "must be a unary mechanism, whose reports are one bit per value",
            )
        step = Instantaneous.of(self.p, self.q)
        self._set(
            first_step=first,
            p=float(self.p),
            q=float(self.q),
            domain=first.domain,
            values=first.domain.labels,
        )
        self._set(
            _step=step,
            epsilon=exact.log_ratio(self._ratio(step, first)),
            lifetime_epsilon=first.epsilon,
        )

    _step = Instantaneous(0, 0)

    def _described(self) -> Any:
        if self.values is None:
            raise ParameterError(
                "values", None, "must be given with the description of a first step"
            )
        return from_dict({**self.first_step, "values": self.values})

    @staticmethod
    def _ratio(step: Instantaneous, first: UnaryMechanism) -> Fraction:
        a, b = (step.seen(Fraction(each, ONE)) for each in (first._a, first._b))
        return a * (1 - b) / (b * (1 - a))

    def parameters(self) -> dict[str, Any]:
        first = self.first_step.to_dict()
        return {"values": first.pop("values"), "first_step": first, "p": self.p, "q": self.q}

    def channel(self) -> BitChannel:
        """The channel of one bit through both steps: (a*, b*)."""
        a, b = (
            self._step.seen(Fraction(each, ONE))
            for each in (self.first_step._a, self.first_step._b)
        )
        return BitChannel(float(a), float(b))

    def encode(self, values: Any) -> NDArray[np.intp]:
        return self.domain.indices(values)

    def draw_permanent(self, encoded: NDArray[Any], source: Source) -> NDArray[np.uint8]:
        """The first step, one row per answer: an index, -1 for none of the labels, or a row of
        indices for several."""
        first: UnaryMechanism = self.first_step
        return (
            first.draw(encoded, source) if encoded.ndim == 1 else first.draw_sets(encoded, source)
        )

    def draw_report(self, permanent: NDArray[np.uint8], source: Source) -> NDArray[np.uint8]:
        return self._step.draw(permanent, len(self.domain), source)

    def draw_sets(self, sets: NDArray[np.intp], source: Source) -> NDArray[np.uint8]:
        """Both steps at once, one row per person, who may have several labels: see
        :meth:`UnaryMechanism.draw_sets`."""
        return self.draw(sets, source)

    def answer_epsilon(self, ones: int) -> float:
        """The loss of one report of an answer with up to `ones` labels."""
        return exact.log_ratio(self._ratio(self._step, self.first_step), ones)

    def lifetime_answer_epsilon(self, ones: int) -> float:
        return float(self.first_step.answer_epsilon(ones))

    def replay_correlation(self) -> float:
        return self._step.correlation()

    def equal_reports(self) -> tuple[float, float] | None:
        known = super().equal_reports()
        return (
            None
            if known is None
            else (self._step.equal(self.first_step.channel(), len(self.domain)), known[1])
        )
