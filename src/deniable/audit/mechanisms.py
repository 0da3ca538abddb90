"""Audits of mechanisms: their reports, their permanent answers, and whether their coins are fresh
each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.findings import Audit
from deniable.audit.game import Game, Progress, Verdict, play
from deniable.audit.report_views import inputs_of, report_views
from deniable.audit.views import EqualReports
from deniable.checks import check_confidence
from deniable.errors import ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.randomness import Source, system_source

__all__ = ["audit_mechanism", "check_claim", "play_each"]


def audit_mechanism(
    mechanism: Mechanism,
    n: int = 1_000_000,
    claim: float | None = None,
    confidence: float = 0.999,
    source: Source | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Try to tell a mechanism's inputs apart by more than it claims, with at most `n` reports.

    Nine tenths of the reports go into games about one report (and about the permanent answer, where
    one is kept). One tenth goes into a game about two reports by one person in which only the
    second answer differs: with fresh coins that is as hard as one report, with reused coins it is
    easier. `claim` is the mechanism's own epsilon unless given; for a survey design it may be
    infinite, and then there is nothing to refute. A correct claim is refuted with probability at
    most 1 - `confidence`, over all games together.

    >>> from deniable import DirectEncoding, seeded_source
    >>> audit = audit_mechanism(DirectEncoding(4, 1.0), n=100_000, source=seeded_source(1))
    >>> audit.holds, audit.verdicts[0].tightness > 0.85
    (True, True)
    """
    check_confidence(confidence)
    claim = check_claim(mechanism.epsilon if claim is None else claim)
    games = _games(mechanism, claim, source or system_source())
    parts = [0.9 / (len(games) - 1)] * (len(games) - 1) + [0.1]
    return Audit(
        repr(mechanism),
        mechanism.epsilon,
        confidence,
        play_each(games, parts, n, confidence, progress),
    )


def check_claim(claim: float) -> float:
    """The claim, after checking that it is positive."""
    if not claim > 0:
        raise ParameterError("claim", claim, "must be above 0")
    return claim


def play_each(
    games: Sequence[Game],
    parts: Sequence[float],
    n: int,
    confidence: float,
    progress: Progress | None = None,
) -> tuple[Verdict, ...]:
    """Play games one after the other, each with its part of `n` reports; all bounds hold together
    with the stated confidence."""
    verdicts, done = [], 0.0
    for game, part in zip(games, parts, strict=True):
        verdicts.append(
            play(
                game,
                int(part * n),
                (1 - confidence) / len(games),
                progress=_within(progress, done, part),
            )
        )
        done += part
    return tuple(verdicts)


def _within(progress: Progress | None, done: float, part: float) -> Progress | None:
    """Progress of one part, scaled to the whole."""
    return None if progress is None else lambda proportion: progress(done + part * proportion)


def _games(mechanism: Mechanism, claim: float, source: Source) -> list[Game]:
    inputs, encoded = inputs_of(mechanism)

    def report(i: int, count: int) -> NDArray[Any]:
        return mechanism.draw(np.repeat(encoded[i : i + 1], count), source)

    def two_reports(i: int, count: int) -> NDArray[Any]:
        rows = (report(0, count), report(i, count))  # drawn one after the other, as on two days
        return np.hstack(
            [np.ascontiguousarray(part).view(np.uint8).reshape(count, -1) for part in rows]
        )

    games = [Game("one report", claim, inputs, report, report_views(mechanism, inputs, encoded))]
    if isinstance(mechanism, MemoizedMechanism):

        def permanent(i: int, count: int) -> NDArray[Any]:
            return mechanism.draw_permanent(np.repeat(encoded[i : i + 1], count), source)

        views = report_views(mechanism, inputs, encoded)
        games.append(Game("permanent answer", mechanism.lifetime_epsilon, inputs, permanent, views))
    games.append(
        Game("two reports, for coins used again", claim, inputs[:2], two_reports, [EqualReports()])
    )
    return games
