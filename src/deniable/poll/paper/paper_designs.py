"""How a person answers a poll on paper or by telephone, with a chance device of their own.

A design is chosen so that it protects at least as well as the poll's own coins: the largest
factor that a hand can reach and that does not exceed the poll's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from deniable.errors import ParameterError
from deniable.mechanisms.designs.crosswise import Crosswise
from deniable.mechanisms.designs.forced import ForcedResponse
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.poll.asking import expected_half_width
from deniable.poll.questions import PollQuestion

__all__ = ["DESIGNS", "PaperDesign", "paper_design"]

DESIGNS = ("coins", "crosswise", "extended-crosswise")
_ROUNDING = 1e-9
_DIE = 6
_RUNGS: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (11, "a die and a coin", ("Roll a die where nobody can see it.",
        "2 to 6: answer truthfully.",
        "1: toss a coin. Heads, say “{0}”. Tails, say “{1}”.")),
    (7, "three coins", ("Toss three coins where nobody can see them.",
        "Three heads: say “{0}”. Three tails: say “{1}”.",
        "Anything else: answer truthfully.")),
    (5, "a die", ("Roll a die where nobody can see it.",
        "1: say “{0}”. 6: say “{1}”.",
        "2 to 5: answer truthfully.")),
    (3, "two coins", ("Toss a coin where nobody can see it.",
        "Heads: answer truthfully.",
        "Tails: toss again. Heads, say “{0}”. Tails, say “{1}”.")),
    (2, "a die", ("Roll a die where nobody can see it.",
        "1 or 2: answer truthfully.",
        "3 or 4: say “{0}”. 5 or 6: say “{1}”.")),
)  # fmt: skip
"""For two answers: the factor, the device, and what a person does. Both answers are forced equally
often."""


@dataclass(frozen=True)
class PaperDesign:
    """A design, as instructions and as a distribution."""

    name: str
    mechanism: Any
    """Whose channel people follow; the same in both samples of the extended crosswise design."""
    device: str
    steps: tuple[str, ...]
    """What the person does, for `coins`."""
    ranges: tuple[str, ...] = ()
    """For the crosswise designs: which last two digits make the other statement true, by card."""
    estimate: tuple[str, ...] = ()
    """Lines of a file for `deniable survey estimate`, or a command."""

    @property
    def epsilon(self) -> float:
        """What one answer reveals at most."""
        return float(self.mechanism.epsilon)

    def half_width(self, n_reports: int) -> float:
        """The largest half-width of a 95 % interval that so many answers give."""
        asked: Any = [SimpleNamespace(mechanism=self.mechanism)]
        return expected_half_width(asked, n_reports)


def paper_design(
    name: str, question: PollQuestion, options: Sequence[str], epsilon: float
) -> PaperDesign:
    """The design of that name for a question that may cost so much."""
    if name not in DESIGNS:
        raise ParameterError("design", name, f"must be one of {', '.join(map(repr, DESIGNS))}")
    factor = math.exp(epsilon) + _ROUNDING
    if question.kind == "several" or len(options) > _DIE:
        rule = "has no paper form: one answer out of two to six can be given by hand"
        raise ParameterError("question", question.id, rule)
    if len(options) > 2:
        if name != "coins":
            rule = f"needs two answers, and question {question.id!r} has {len(options)}"
            raise ParameterError("design", name, rule)
        return _coin_and_die(options, factor)
    if name == "coins":
        return _forced(options, factor)
    return _crosswise(name, factor)


def _forced(options: Sequence[str], factor: float) -> PaperDesign:
    found = next((each for each in _RUNGS if each[0] <= factor), None)
    if found is None:
        raise ParameterError(
            "factor", round(factor, 3), "is below 2, which no toss by hand reaches"
        )
    reached, device, steps = found
    truthful = Fraction(reached - 1, reached + 1)
    return PaperDesign(
        "coins",
        ForcedResponse(truthful),
        device,
        tuple(step.format(*options) for step in steps),
        estimate=(f'design = "ForcedResponse:p={truthful}"', "yes = …", "n = …"),
    )


def _coin_and_die(options: Sequence[str], factor: float) -> PaperDesign:
    k = len(options)
    if k + 1 > factor:
        rule = f"is below {k + 1}, the factor of a coin and a die with {k} answers"
        raise ParameterError("factor", round(factor, 3), rule)
    faces = _DIE // k
    said = [
        f"{' or '.join(str(i * faces + j + 1) for j in range(faces))}: “{option}”"
        for i, option in enumerate(options)
    ]
    again = [] if faces * k == _DIE else [f"{faces * k + 1} or more: roll again"]
    steps = (
        "Toss a coin where nobody can see it.",
        "Heads: answer truthfully.",
        f"Tails: roll a die, and say what it shows. {'; '.join([*said, *again])}.",
    )
    values = "|".join(options)
    command = f"deniable estimate paper.csv -c 'answer=DirectEncoding:values={values},epsilon="
    return PaperDesign(
        "coins",
        DirectEncoding(list(options), epsilon=math.log(k + 1)),
        "a coin and a die",
        steps,
        estimate=(f"{command}{math.log(k + 1):.6f}'",),
    )


def _crosswise(name: str, factor: float) -> PaperDesign:
    hundredths = math.ceil(100 / (1 + factor))
    if hundredths >= 50:
        raise ParameterError("factor", round(factor, 3), "leaves nothing to estimate")
    p = Fraction(hundredths, 100)
    extended = name == "extended-crosswise"
    ranges = (f"00 and {hundredths - 1:02}", f"{hundredths:02} and 99")[: 1 + extended]
    design = "ExtendedCrosswise" if extended else "Crosswise"
    each = "[… white, … grey]" if extended else "…"
    counts = (f"same = {each}", f"n = {each}")
    return PaperDesign(
        name,
        Crosswise(p),
        "the last two digits of a phone number",
        (),
        ranges,
        (f'design = "{design}:p={p}"', *counts),
    )
