"""The ledger's rules: what a person's device has given away, what it still may, and why it stays
silent.

An event says what is about to happen; an :class:`Accountant` says whether it may. It does no I/O:
the ledger's keeper stores :meth:`Accountant.to_dict` in the same transaction as the answer.
Losses are *local* epsilons, which hold against everybody; they are added as exact decimals, so that
ten times 0.1 is 1 and the tenth answer is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from deniable.checks import check_count
from deniable.errors import BudgetExceededError, ParameterError

__all__ = ["Accountant", "Limit", "PrivacyEvent"]

_VERSION = 1


def _exact(name: str, value: Any) -> Fraction:
    """A loss as an exact number; a float is read as the decimal it prints as."""
    if isinstance(value, bool | None) or not isinstance(
        value, int | float | str | Fraction | Decimal
    ):
        raise ParameterError(name, value, "must be a number")
    try:
        loss = Fraction(repr(float(value)) if isinstance(value, float) else value)
    except (ValueError, OverflowError, ZeroDivisionError):
        raise ParameterError(name, value, "must be finite and at least 0") from None
    if loss < 0:
        raise ParameterError(name, value, "must be finite and at least 0")
    return loss


def _name(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ParameterError(what, value, "must be a nonempty text")
    return value


@dataclass(frozen=True)
class PrivacyEvent:
    """An answer that a device is about to give.

    >>> PrivacyEvent("acme", "screen-time", time=1_700_000_000, epsilon=0.5).epsilon
    Fraction(1, 2)
    """

    analyst: str
    query: str
    time: int
    """Unix seconds, or the start of the epoch."""
    epsilon: Any
    """The local loss of the answer or, if answers are replayed, of all permanent answers that may
    ever be drawn. Never only of those drawn so far: their number depends on the data, and so would
    the next refusal."""
    fresh: bool = True
    """Newly drawn; False for a memoized answer sent again, which reveals nothing new."""

    def __post_init__(self) -> None:
        _name("analyst", self.analyst)
        _name("query", self.query)
        object.__setattr__(self, "time", check_count("time", self.time, least=0))
        object.__setattr__(self, "epsilon", _exact("epsilon", self.epsilon))

    @property
    def cost(self) -> Fraction:
        """What it adds to the ledger."""
        loss: Fraction = self.epsilon
        return loss if self.fresh else Fraction(0)


@dataclass(frozen=True)
class Limit:
    """At most `epsilon`: in any `period` seconds or, without one, for life; together, for each
    analyst, or for one by name.

    >>> print(Limit(1.5, period=86_400, each_analyst=True))
    at most 1.5 in any day for each analyst
    """

    epsilon: Any
    period: int | None = None
    analyst: str | None = None
    each_analyst: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _exact("epsilon", self.epsilon))
        if self.period is not None:
            object.__setattr__(self, "period", check_count("period", self.period))
        if self.analyst is not None:
            _name("analyst", self.analyst)
            if self.each_analyst:
                raise ParameterError(
                    "each_analyst", True, f"contradicts a limit on {self.analyst!r} alone"
                )

    def counts(self, analyst: str, asking: str) -> bool:
        """Whether what `analyst` learned counts when `asking` asks."""
        return analyst == asking if self.each_analyst else self.analyst in (None, analyst)

    def covers(self, asking: str) -> bool:
        """Whether it limits what `asking` may learn."""
        return self.analyst in (None, asking)

    def __str__(self) -> str:
        span = "for life" if self.period is None else f"in any {_span(self.period)}"
        whom = (
            " for each analyst"
            if self.each_analyst
            else ""
            if self.analyst is None
            else f" for {self.analyst}"
        )
        return f"at most {_short(self.epsilon)} {span}{whom}"


class Accountant:
    """Adds up what was given away, and refuses whatever would exceed a limit before anything
    changes.

    >>> ledger = Accountant([Limit(1.0, each_analyst=True), Limit(3.0)])
    >>> for day in range(10):
    ...     ledger.record(PrivacyEvent("acme", "steps", time=day, epsilon=0.1))
    >>> print(ledger.check(PrivacyEvent("acme", "steps", time=10, epsilon=0.1)))
    epsilon 0.1 was asked by acme and 0 is left: at most 1 for life for each analyst, and 1 is spent
    """

    def __init__(self, limits: Iterable[Limit]) -> None:
        self.limits = tuple(limits)
        for limit in self.limits:
            if not isinstance(limit, Limit):
                raise ParameterError("limits", limit, "must be a Limit")
        self._spent: dict[str, Fraction] = {}
        self._drawn: set[tuple[str, str]] = set()
        self._history: list[tuple[int, str, Fraction]] = []

    def check(self, event: PrivacyEvent) -> str | None:
        """Why the event may not happen, or None if it may. Nothing changes."""
        if not event.fresh:
            if (event.analyst, event.query) in self._drawn:
                return None
            return (
                f"{event.analyst} asked for a replay of {event.query}, for which no permanent"
                " answer was ever drawn"
            )
        for limit in self.limits:
            if not limit.covers(event.analyst):
                continue
            spent = self._spent_under(limit, event.analyst, event.time)
            if spent + event.cost > limit.epsilon:
                left = max(limit.epsilon - spent, Fraction(0))
                return (
                    f"epsilon {_short(event.cost)} was asked by {event.analyst} and {_short(left)}"
                    f" is left: {limit}, and {_short(spent)} is spent"
                )
        return None

    def record(self, event: PrivacyEvent) -> None:
        """Record the event, or raise :class:`BudgetExceededError` and leave the ledger
        unchanged."""
        refusal = self.check(event)
        if refusal is not None:
            raise BudgetExceededError(refusal)
        if event.fresh:
            self._spent[event.analyst] = self.spent(event.analyst) + event.cost
            self._drawn.add((event.analyst, event.query))
            self._history.append((event.time, event.analyst, event.cost))

    def spent(self, analyst: str | None = None) -> Fraction:
        """The lifetime total given away, to one analyst or to all together."""
        return (
            sum(self._spent.values(), Fraction())
            if analyst is None
            else self._spent.get(analyst, Fraction())
        )

    def left(self, analyst: str, time: int) -> Fraction | None:
        """The largest loss that `analyst` may still ask for at `time`; None if no limit covers
        it."""
        covering = [limit for limit in self.limits if limit.covers(analyst)]
        if not covering:
            return None
        tightest: Fraction = min(
            limit.epsilon - self._spent_under(limit, analyst, time) for limit in covering
        )
        return max(tightest, Fraction(0))

    def forget(self, time: int) -> None:
        """Drop the dates that no period ending at `time` needs any more. Lifetime totals are
        kept."""
        longest = max(
            (limit.period for limit in self.limits if limit.period is not None), default=0
        )
        self._history = [entry for entry in self._history if entry[0] > time - longest]

    def _spent_under(self, limit: Limit, asking: str, time: int) -> Fraction:
        if limit.period is None:
            return sum(
                (loss for analyst, loss in self._spent.items() if limit.counts(analyst, asking)),
                Fraction(),
            )
        # Events dated later than `time` count too: setting a clock back must not free a budget.
        since = time - limit.period
        return sum(
            (
                loss
                for when, analyst, loss in self._history
                if when > since and limit.counts(analyst, asking)
            ),
            Fraction(),
        )

    def to_dict(self) -> dict[str, Any]:
        """What happened so far, as a JSON document. The limits are the person's settings and not
        part of it."""
        return {
            "version": _VERSION,
            "spent": {analyst: str(loss) for analyst, loss in sorted(self._spent.items())},
            "drawn": [list(pair) for pair in sorted(self._drawn)],
            "history": [[when, analyst, str(loss)] for when, analyst, loss in self._history],
        }

    @classmethod
    def from_dict(cls, limits: Iterable[Limit], state: Mapping[str, Any]) -> Accountant:
        """The accountant that :meth:`to_dict` described, under these limits."""
        if state.get("version") != _VERSION:
            raise ParameterError(
                "version",
                state.get("version"),
                message=(
                    f"the version of a ledger's state must be {_VERSION}, not"
                    f" {state.get('version')!r}"
                ),
            )
        accountant = cls(limits)
        accountant._spent = {
            _name("analyst", analyst): _exact("spent", loss)
            for analyst, loss in state["spent"].items()
        }
        accountant._drawn = {
            (_name("analyst", analyst), _name("query", query)) for analyst, query in state["drawn"]
        }
        accountant._history = [
            (check_count("time", when, least=0), _name("analyst", analyst), _exact("spent", loss))
            for when, analyst, loss in state["history"]
        ]
        return accountant


def _short(loss: Fraction) -> str:
    return f"{float(loss):.6g}"


def _span(seconds: int) -> str:
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds % unit == 0:
            count = seconds // unit
            return name if count == 1 else f"{count:,} {name}s"
    raise AssertionError("every whole number is a number of seconds")
