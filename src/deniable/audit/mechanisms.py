"""Audits of mechanisms: their reports, their permanent answers, and whether their coins are fresh each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.audit.game import Game, Progress, Verdict, play
from deniable.audit.views import ClaimedLikelihood, EqualReports, ItemScores, Supports, View, WholeReport
from deniable.display import Bar, Display
from deniable.errors import ParameterError
from deniable.mechanisms.bits import row_bytes
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.permanent import MemoizedMechanism
from deniable.mechanisms.rappor import Rappor, bloom_positions
from deniable.mechanisms.summed import SummedHistogram
from deniable.mechanisms.values import IndexReports
from deniable.randomness import Source, system_source
from deniable.results import Result, fields_of

__all__ = ["Audit", "audit_mechanism"]

_MOST_INPUTS = 8
_LARGEST_MATRIX = 1 << 22


@dataclass(frozen=True, eq=False)
class Audit(Result):
    """The verdicts of all games about one mechanism. Printed: what was claimed, what was shown, and what cannot be seen."""

    subject: str
    exact: float
    """The loss that the mechanism states of its own channel."""
    confidence: float
    verdicts: tuple[Verdict, ...]

    @property
    def holds(self) -> bool:
        """Whether no game refuted its claim."""
        return all(verdict.holds for verdict in self.verdicts)

    @property
    def n(self) -> int:
        """Reports drawn."""
        return sum(verdict.n for verdict in self.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what follows from it."""
        return {**fields_of(self), "holds": self.holds, "n": self.n}

    KEYS: ClassVar[Mapping[str, str]] = {"exact": "exact_epsilon", "verdicts": "games"}

    def _display(self, confidence: float = 0.95) -> Display:
        columns = ("game", "claimed", "shown at least", "holds", "reports")
        rows = [(v.game, v.claim, max(v.bounds.low, 0.0), v.holds, v.n) for v in self.verdicts]
        bars = [Bar(f"{game}: shown", shown, shown, claim) for game, claim, shown, _, _ in rows]
        return Display(columns, rows, tuple(str(self).splitlines()), bars, "epsilon: from what was shown to what is claimed")

    def __str__(self) -> str:
        word = "holds" if self.holds else "FAILS"
        lines = [f"{self.subject}: {word} ({self.n:,} reports, confidence {100 * self.confidence:g} %)"]
        for verdict in self.verdicts:
            shown = max(verdict.bounds.low, 0.0)
            excess = "" if verdict.holds else ", MORE THAN CLAIMED"
            lines.append(
                f"  {verdict.game}: epsilon {verdict.claim:.4f} claimed, at least {shown:.4f} shown"
                f" ({100 * verdict.tightness:.0f} % of the claim){excess}"
            )
            p, q = verdict.probabilities
            lines.append(
                f"    {verdict.inputs[0]} against {verdict.inputs[1]} by {verdict.view}:"
                f" an event of probability {p:.3g} and {q:.3g}; {verdict.stopped}"
            )
        lines.append(
            f"  Events rarer than about {self.verdicts[0].invisible:.1g} cannot be seen from outside."
            f" The exact channel shows those too, and its epsilon is {self.exact:.4f}."
        )
        return "\n".join(lines)


def audit_mechanism(
    mechanism: Mechanism,
    n: int = 1_000_000,
    claim: float | None = None,
    confidence: float = 0.999,
    source: Source | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Try to tell a mechanism's inputs apart by more than it claims, with `n` reports at most.

    Nine tenths of the reports go into games about one report (and about the permanent answer, where one is kept). One tenth goes
    into a game about two reports of a person, of which only the second answer differs: with fresh coins that is as hard as one
    report, and with coins that are used again it is not. `claim` is the mechanism's own epsilon unless given. A correct claim
    is refuted with probability 1 - `confidence` at most, all games together.

    >>> from deniable import DirectEncoding, seeded_source
    >>> audit = audit_mechanism(DirectEncoding(4, 1.0), n=100_000, source=seeded_source(1))
    >>> audit.holds, audit.verdicts[0].tightness > 0.85
    (True, True)
    """
    if not 0 < confidence < 1:
        raise ParameterError("confidence", confidence, "must lie strictly between 0 and 1")
    games = _games(mechanism, claim, source or system_source())
    error = (1 - confidence) / len(games)
    parts = [0.9 / (len(games) - 1)] * (len(games) - 1) + [0.1]
    verdicts = []
    done = 0.0
    for game, part in zip(games, parts, strict=True):
        verdicts.append(play(game, int(part * n), error, progress=_within(progress, done, part)))
        done += part
    return Audit(repr(mechanism), mechanism.epsilon, confidence, tuple(verdicts))


def _within(progress: Progress | None, done: float, part: float) -> Progress | None:
    """The progress of a part of the whole."""
    return None if progress is None else lambda share: progress(done + part * share)


def _games(mechanism: Mechanism, claim: float | None, source: Source) -> list[Game]:
    inputs, encoded = _inputs(mechanism)
    claim = mechanism.epsilon if claim is None else claim
    if not claim > 0:
        raise ParameterError("claim", claim, "must be above 0")

    def report(i: int, count: int) -> NDArray[Any]:
        return mechanism.draw(np.repeat(encoded[i : i + 1], count), source)

    def two_reports(i: int, count: int) -> NDArray[Any]:
        rows = (report(0, count), report(i, count))  # drawn one after the other, as on two days
        return np.hstack([np.ascontiguousarray(part).view(np.uint8).reshape(count, -1) for part in rows])

    games = [Game("one report", claim, inputs, report, _views(mechanism, inputs, encoded))]
    if isinstance(mechanism, MemoizedMechanism):

        def permanent(i: int, count: int) -> NDArray[Any]:
            return mechanism.draw_permanent(np.repeat(encoded[i : i + 1], count), source)

        games.append(Game("permanent answer", mechanism.lifetime_epsilon, inputs, permanent, _views(mechanism, inputs, encoded)))
    games.append(Game("two reports, for coins used again", claim, inputs[:2], two_reports, [EqualReports()]))
    return games


def _inputs(mechanism: Mechanism) -> tuple[list[Any], NDArray[Any]]:
    """Some inputs to tell apart, spread over the domain, and what the mechanism draws from."""
    if isinstance(mechanism, Rappor):
        texts = [f"text {i}" for i in range(_MOST_INPUTS)]
        return texts, mechanism.encode(texts)
    k = len(mechanism.labels)
    chosen = np.unique(np.linspace(0, k - 1, min(k, _MOST_INPUTS)).astype(np.intp))
    return [mechanism.labels[i] for i in chosen], chosen


def _views(mechanism: Mechanism, inputs: list[Any], encoded: NDArray[Any]) -> list[View]:
    views: list[View] = [WholeReport(), ItemScores()]
    if isinstance(mechanism, Rappor):
        views.append(Supports(_bloom_bits(mechanism, inputs), mechanism.hashes))
        return views
    places = encoded.tolist()
    supports = getattr(mechanism, "supports", None)
    if supports is not None:
        views.append(Supports(lambda rows, which: supports(rows)[:, [places[i] for i in which]]))
    elif isinstance(mechanism, IndexReports) and mechanism.n_outputs * len(mechanism.labels) <= _LARGEST_MATRIX:
        logs = np.log(mechanism.channel()[:, places])
        views.append(ClaimedLikelihood(lambda rows, i: logs[:, i][rows], mechanism.epsilon))
    elif isinstance(mechanism, SummedHistogram):
        zero, one = mechanism.channel()
        gain = np.log(one / zero)
        views.append(ClaimedLikelihood(lambda rows, i: gain[rows[:, places[i]]], mechanism.epsilon))
    return views


def _bloom_bits(mechanism: Rappor, texts: list[str]) -> Any:
    """How many bits of a text are set in a report that are not bits of the other text too."""
    filters = np.zeros((len(texts), mechanism.cohorts, mechanism.bits), dtype=np.uint8)
    for i, text in enumerate(texts):
        for cohort in range(mechanism.cohorts):
            filters[i, cohort, list(bloom_positions(text, cohort, mechanism.hashes, mechanism.bits))] = 1

    def supports(rows: NDArray[Any], which: list[int]) -> NDArray[Any]:
        cohort = mechanism._cohort(rows)
        bits = np.unpackbits(rows[:, -row_bytes(mechanism.bits) :], axis=1, count=mechanism.bits, bitorder="little")
        own = filters[which][:, cohort]
        only = own & (1 - own[::-1])
        counts: NDArray[Any] = (bits & only).sum(axis=2).T
        return counts

    return supports
