"""Verdicts of a reproduction: computed from figures with their standard errors, never typed.

A printed number and ours agree if they differ by no more than three standard errors of their
difference and a unit of the last printed digit (papers round, or cut off as Quoc's Table 1 does);
by chance alone, one true pair in 370 differs by more. What is compared is computed as the paper
does. Where this library computes something else, its value stands beside it and has no influence on
the verdict. A figure to which a parameter was fitted says nothing: it is called fitted. A figure
that cannot be measured here, or only so roughly that nearly anything would agree with it, is called
not measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

__all__ = ["VERDICTS", "Claim", "Compared", "Finding", "printed_number", "summary"]

STANDARD_ERRORS = 3.0
"""How many standard errors of the difference still count as agreement."""

TOO_VAGUE = 0.5
"""Three standard errors above this part of the printed number decide nothing."""

VERDICTS = ("agrees", "holds", "fitted", "not measured", "differs", "does not hold")
"""All verdicts there are."""

_PLURALS = {"agrees": "agree", "holds": "hold", "differs": "differ", "does not hold": "do not hold"}
_NAMED = {"ln 3": math.log(3)}


def printed_number(text: str) -> tuple[float, float]:
    """A number as printed, and a unit of its last digit.

    >>> printed_number("0.0278")
    (0.0278, 0.0001)
    >>> printed_number("1,351,937")
    (1351937.0, 1.0)
    """
    if text in _NAMED:
        return _NAMED[text], 0.0
    number = Decimal(text.replace(",", ""))
    exponent = number.as_tuple().exponent
    return float(number), float(Decimal(1).scaleb(int(exponent)))


@dataclass(frozen=True)
class Compared:
    """A number that a paper prints, beside the same number computed as the paper does.

    >>> Compared("epsilon", "1.0986", 1.0986123).verdict
    'agrees'
    >>> Compared("loss", "0.0254", 0.0337, stderr=0.0001, paper_stderr=0.0025).verdict
    'differs'
    """

    name: str
    paper: str
    """As it is printed: its digits say how far it is rounded."""
    found: float | None
    """Computed by the paper's own method; None where this cannot be measured here."""
    stderr: float = 0.0
    """The standard error of `found`: of our simulation or measurement."""
    paper_stderr: float = 0.0
    """The standard error of the printed number: of the paper's simulation or measurement."""
    ours: float | None = None
    """What this library computes instead, where it differs on purpose."""
    note: str = ""
    fitted: bool = False
    """Whether a parameter was chosen so that this figure comes out."""

    @property
    def tolerance(self) -> float:
        """The largest difference that rounding and both standard errors allow for."""
        value, digit = printed_number(self.paper)
        spread = STANDARD_ERRORS * math.hypot(self.stderr, self.paper_stderr)
        return digit + spread + 1e-9 * abs(value)

    @property
    def verdict(self) -> str:
        """'agrees', 'differs', 'fitted' or 'not measured'."""
        if self.found is None:
            return "not measured"
        if self.fitted:
            return "fitted"
        value, _ = printed_number(self.paper)
        if abs(self.found - value) > self.tolerance:
            return "differs"
        # Agreement of figures that nearly any other would agree with says nothing.
        vague = STANDARD_ERRORS * math.hypot(self.stderr, self.paper_stderr)
        return "agrees" if vague <= TOO_VAGUE * abs(value) else "not measured"

    @property
    def row(self) -> tuple[str, str, str, str, str, str]:
        """Name, paper, by the paper's method, ours, verdict, note."""
        return (
            self.name,
            self.paper + _error(self.paper_stderr),
            "" if self.found is None else short(self.found) + _error(self.stderr),
            "" if self.ours is None else short(self.ours),
            self.verdict,
            self.note,
        )


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, or ours where the paper makes none, and whether the figures that
    were measured bear it out."""

    text: str
    holds: bool | None
    """None where it cannot be measured here."""
    evidence: str = ""
    """The figures that decide it."""
    note: str = ""
    """Why it does not hold, if it does not."""

    @property
    def verdict(self) -> str:
        """'holds', 'does not hold' or 'not measured'."""
        if self.holds is None:
            return "not measured"
        return "holds" if self.holds else "does not hold"

    @property
    def row(self) -> tuple[str, str, str, str, str, str]:
        """Name, paper, by the paper's method, ours, verdict, note."""
        return (
            self.text,
            "",
            self.evidence,
            "",
            self.verdict,
            "" if self.holds else self.note,
        )


Finding = Compared | Claim


def summary(findings: Mapping[str, int]) -> str:
    """How many findings have each verdict, in words.

    >>> summary({"agrees": 3, "differs": 1})
    '3 agree, 1 differs'
    """
    parts = [
        f"{count} {_PLURALS.get(verdict, verdict) if count > 1 else verdict}"
        for verdict in VERDICTS
        if (count := findings.get(verdict, 0))
    ]
    return ", ".join(parts) or "nothing to compare"


def short(number: float) -> str:
    """A number in at most four significant digits, or whole where it is large."""
    if not math.isfinite(number):
        return f"{number:g}"
    if number and abs(number) < 1e-3:
        return f"{number:.2e}"
    return f"{number:,.4g}" if abs(number) < 10_000 else f"{number:,.0f}"


def _error(stderr: float) -> str:
    return f" ± {stderr:.2g}" if 0 < stderr < 10_000 else f" ± {stderr:,.0f}" if stderr else ""
