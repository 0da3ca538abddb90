"""Budgets: what a query may cost the people it asks and those who run it, and the error the analyst
needs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from deniable.errors import ParameterError
from deniable.queries.schedule import duration
from deniable.renames import reads_old_names

__all__ = ["Budget"]

_ALWAYS_WRITTEN = ("epsilon", "margin")
_SIGNED = {"margin": "error"}
"""Keys that signed queries have had since the first release, and keep."""


@reads_old_names
@dataclass(frozen=True)
class Budget:
    """Each may be left open. Devices enforce `epsilon`; a plan observes all of them
    (docs/queries.md).

    Epsilons are for the query's whole life unless their name says otherwise.
    """

    epsilon: float | None = None
    """The most one person may lose over the query's whole life, against anyone who sees who
    answered; None for no bound."""
    margin: float | None = None
    """The half-width of the 95 % interval the analyst wants for each proportion; None if left
    open."""
    epsilon_per_answer: float | None = None
    """Local, of one epoch's answer."""
    sampled: float | None = None
    """Against anyone who cannot tell who answered, over the query's life, in a crowd of the people
    asked (docs/privacy.md)."""
    sampled_per_answer: float | None = None
    zero_knowledge: float | None = None
    """With respect to sampling (Quoc 2017, theorem C.4), over the query's life."""
    zero_knowledge_per_answer: float | None = None
    relative_error: float | None = None
    """Instead of `margin`: the half-width relative to the proportion, at `proportion`."""
    proportion: float | None = None
    """The proportion that the margin refers to; without it, `margin` applies to every
    proportion."""
    answers_per_second: float | None = None
    """What may be sent to the aggregator at the peak of an epoch."""
    bytes_per_day: float | None = None
    """What one device may send, over all proxies, on average."""
    latency: int | None = None
    """Seconds, or a duration, from the end of a window to its result."""
    money_per_month: float | None = None
    """By the figures and prices of `deniable size`."""

    def __post_init__(self) -> None:
        for name in ("epsilon", "sampled", "zero_knowledge"):
            self._check(name, 1e6, "must be a number above 0 and at most 1e6")
            self._check(f"{name}_per_answer", 1e6, "must be a number above 0 and at most 1e6")
        margin = self.margin
        if margin is not None and (not isinstance(margin, float) or not 0 < margin < 1):
            raise ParameterError(
                "budget.margin",
                margin,
                "must lie strictly between 0 and 1: it is a half-width of proportions",
            )
        self._check(
            "relative_error",
            1.0,
            "must be a number above 0 and at most 1, relative to the proportion",
        )
        self._check("proportion", 1.0, "must be a number above 0 and at most 1")
        for name in ("answers_per_second", "bytes_per_day", "money_per_month"):
            self._check(name, 1e15, "must be a number above 0 and at most 1e15")
        if self.latency is not None:
            object.__setattr__(self, "latency", duration("budget.latency", self.latency))
        if self.relative_error is not None and margin is not None:
            raise ParameterError(
                "budget.relative_error",
                self.relative_error,
                "cannot be combined with margin: both state the target",
            )
        if self.relative_error is not None and self.proportion is None:
            raise ParameterError("budget.proportion", None, "must be given with relative_error")

    def _check(self, name: str, most: float, rule: str) -> None:
        value: Any = getattr(self, name)
        if value is None:
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
            raise ParameterError(f"budget.{name}", value, rule)
        object.__setattr__(self, name, float(value))

    @property
    def target(self) -> float | None:
        """The target half-width of the 95 % interval, however it is stated."""
        if self.relative_error is not None and self.proportion is not None:
            return self.relative_error * self.proportion
        return self.margin

    def to_dict(self) -> dict[str, Any]:
        """What is set, under the keys of signed queries, where `margin` is `error`. Only these and
        `epsilon` are written even if not set, as before there were others."""
        tree = dataclasses.asdict(self)
        return {
            _SIGNED.get(name, name): value
            for name, value in tree.items()
            if name in _ALWAYS_WRITTEN or value is not None
        }
