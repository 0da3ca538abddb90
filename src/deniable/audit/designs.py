"""Audits of survey designs: the instruction people follow, in one sample or in each of two."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.findings import Audit
from deniable.audit.game import Game, Progress
from deniable.audit.mechanisms import audit_mechanism, check_claim, play_each
from deniable.audit.report_views import inputs_of
from deniable.audit.views import WholeReport
from deniable.checks import check_confidence
from deniable.mechanisms.designs import ItemCount, Scrambling, UnrelatedQuestionUnknown
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.mechanisms.designs.two_group import TwoGroupDesign
from deniable.randomness import Source, system_source

__all__ = ["audit_design"]

_INFINITE = (
    "This design claims no epsilon: some answer rules some truth out, so there is nothing to refute"
    " (docs/designs.md)."
)


def audit_design(
    design: Any,
    n: int = 1_000_000,
    claim: float | None = None,
    confidence: float = 0.999,
    source: Source | None = None,
    progress: Progress | None = None,
    u: float = 0.5,
) -> Audit:
    """Try to tell the truths of a survey design apart by more than it claims.

    A design with two samples is a game for each sample, against the loss of its instruction. `u` is
    the prevalence of the unrelated question where the design has yet to estimate it, since the loss
    depends on it. A design whose loss is infinite claims nothing: the audit says so, and shows how
    much an answer gives away.

    >>> from deniable import Crosswise, Triangular, seeded_source
    >>> audit_design(Crosswise(1 / 4), n=50_000, source=seeded_source(1)).holds
    True
    >>> found = audit_design(Triangular(1 / 4), n=50_000, source=seeded_source(1))
    >>> found.exact, found.verdicts[0].shown > 4
    (inf, True)
    """
    if isinstance(design, SurveyDesign):
        audit = audit_mechanism(design, n, claim, confidence, source, progress)
    else:
        check_confidence(confidence)
        exact = (
            design.epsilon_at(u) if isinstance(design, UnrelatedQuestionUnknown) else design.epsilon
        )
        games = _games(
            design, check_claim(exact if claim is None else claim), source or system_source(), u
        )
        verdicts = play_each(games, [1 / len(games)] * len(games), n, confidence, progress)
        audit = Audit(str(design), exact, confidence, verdicts)
    notes = (_INFINITE,) if math.isinf(audit.exact) else ()
    return Audit(audit.subject, audit.exact, audit.confidence, audit.verdicts, notes=notes)


def _games(design: Any, claim: float, source: Source, u: float) -> list[Game]:
    if isinstance(design, TwoGroupDesign):
        return [_sample(design, index, claim, source, u) for index in (0, 1)]
    if isinstance(design, ItemCount):
        # Of two treated people to whom no harmless item applies, one has the sensitive trait.
        channel = design.channel()
        counts = [int(channel[:, kind].argmax()) for kind in (0, design.items + 1)]
        return [
            Game(
                "one count",
                claim,
                ["no", "yes"],
                lambda i, n: np.full(n, counts[i], np.uint8),
                [WholeReport()],
            )
        ]
    if isinstance(design, Scrambling):
        return [
            Game(
                "one number",
                claim,
                [0, 1],
                lambda i, n: design.privatize(np.full(n, float(i)), source),
                [WholeReport()],
            )
        ]
    raise TypeError(f"{type(design).__name__} is not a survey design")


def _sample(design: Any, index: int, claim: float, source: Source, u: float) -> Game:
    asked = (
        design.group(index, u)
        if isinstance(design, UnrelatedQuestionUnknown)
        else design.group(index)
    )
    inputs, encoded = inputs_of(asked)

    def report(i: int, count: int) -> NDArray[Any]:
        drawn: NDArray[Any] = asked.draw(np.repeat(encoded[i : i + 1], count), source)
        return drawn

    return Game(f"one report in sample {index + 1}", claim, inputs, report, [WholeReport()])
