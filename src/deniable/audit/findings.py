"""What an audit found: the verdicts of its games, and what was compared exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from deniable.audit.game import Verdict
from deniable.display import Bar, Display
from deniable.results import Result, fields_of

__all__ = ["Audit", "ExactCheck"]


@dataclass(frozen=True, eq=False)
class ExactCheck(Result):
    """Something that must be the same whatever the data, checked without any randomness."""

    name: str
    holds: bool
    detail: str
    """How much was compared or, if something differs, what."""

    def __str__(self) -> str:
        return f"  {self.name}: {'holds' if self.holds else 'FAILS'} ({self.detail})"


@dataclass(frozen=True, eq=False)
class Audit(Result):
    """The verdicts of all games about one subject. Printed: what was claimed, what was shown, and
    what an audit cannot see."""

    subject: str
    exact: float
    """The loss the subject states for its own channel."""
    confidence: float
    verdicts: tuple[Verdict, ...]
    comparisons: tuple[ExactCheck, ...] = ()
    notes: tuple[str, ...] = ()
    drawn: int | None = None
    """Total reports drawn, where games share them."""

    @property
    def holds(self) -> bool:
        """Whether no game refuted its claim and nothing differed that must be the same."""
        return all(each.holds for each in self.verdicts) and all(
            each.holds for each in self.comparisons
        )

    @property
    def n(self) -> int:
        """Reports drawn."""
        return sum(verdict.n for verdict in self.verdicts) if self.drawn is None else self.drawn

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what follows from it."""
        return {**fields_of(self), "holds": self.holds, "n": self.n}

    KEYS: ClassVar[Mapping[str, str]] = {"exact": "exact_epsilon", "verdicts": "games"}

    def _display(self, confidence: float = 0.95) -> Display:
        columns = ("game", "claimed", "shown at least", "holds", "reports")
        rows = [(v.game, v.claim, v.shown, v.holds, v.n) for v in self.verdicts]
        bars = [
            Bar(f"{game}: shown", shown, shown, claim)
            for game, claim, shown, _, _ in rows
            if math.isfinite(claim)
        ]
        return Display(
            columns,
            rows,
            tuple(str(self).splitlines()),
            bars,
            "epsilon: from what was shown to what is claimed",
        )

    def __str__(self) -> str:
        claims = self.comparisons or any(math.isfinite(verdict.claim) for verdict in self.verdicts)
        word = "FAILS" if not self.holds else "holds" if claims else "claims no epsilon"
        lines = [
            f"{self.subject}: {word} ({self.n:,} reports, confidence {100 * self.confidence:g} %)"
        ]
        for verdict in self.verdicts:
            lines += _spoken(verdict)
        lines += map(str, self.comparisons)
        if self.verdicts:
            lines += self._blind()
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def _blind(self) -> list[str]:
        """What an audit from outside cannot see."""
        first = self.verdicts[0]
        power = (
            ""
            if first.visible is None
            else f" A leak in one of {1 / first.visible:,.0f} reports would have been seen."
        )
        exact = "infinite" if math.isinf(self.exact) else f"{self.exact:.4f}"
        known = (
            ""
            if math.isnan(self.exact)
            else f" The exact channel shows those too, and its epsilon is {exact}."
        )
        return [
            f"  Events rarer than about {first.invisible:.1g} cannot be seen from outside."
            f"{power}{known}"
        ]


def _spoken(verdict: Verdict) -> list[str]:
    if math.isinf(verdict.claim):
        claimed = "no epsilon is claimed"
    else:
        claimed = f"epsilon {verdict.claim:.4f} claimed" if verdict.claim else "nothing may show"
    part = (
        f" ({100 * verdict.tightness:.0f} % of the claim)"
        if math.isfinite(verdict.tightness)
        else ""
    )
    excess = "" if verdict.holds else ", MORE THAN CLAIMED"
    p, q = verdict.probabilities
    found = f"  {verdict.game}: {claimed}, at least {verdict.shown:.4f} shown{part}{excess}"
    if verdict.claim == 0 and verdict.holds:
        return [found]  # an uninformative event is not worth printing
    return [
        found,
        (
            f"    {verdict.inputs[0]} against {verdict.inputs[1]} by {verdict.view}:"
            f" an event of probability {p:.3g} and {q:.3g}; {verdict.stopped}"
        ),
    ]
