"""Receipts: what the owner is told, in plain words. They say that an answer was given, never what
it was."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypedDict

from deniable.errors import QueryError
from deniable.queries.query import Query
from deniable.queries.times import iso_time

__all__ = ["Receipt", "ReceiptDocument", "fault_words"]


class ReceiptDocument(TypedDict):
    """A receipt in JSON."""

    time: int
    outcome: str
    reason: str | None
    detail: str | None
    analyst: str
    query: str
    serial: int
    question: str
    epoch: int | None
    epsilon: float
    left: float | None
    verified: bool
    first: int
    times: int


@dataclass(frozen=True)
class Receipt:
    """Who asked what, with what result, and what it cost.

    >>> print(Receipt(0, "answered", "", "", "City", "commute", 1, "How far is it?", 7, Fraction(1, 2), Fraction(3, 2)))
    1970-01-01T00:00:00Z  City asked: How far is it? (commute, version 1). Answered for epoch 7, randomized. \
It cost 0.5; 1.5 is left for City.
    """

    time: int
    outcome: str
    """`answered`, `sampled out`, `refused`, `given back`; `again` and `waiting` if there was
    nothing to decide; these are not kept."""
    reason: str
    """Why it was refused, in a word or two."""
    detail: str
    """What was refused and why; of an answer, what its replays lose together, whether they can be
    linked, and whether the device could not read its data."""
    analyst: str
    query: str
    serial: int
    question: str
    epoch: int | None = None
    epsilon: Fraction = Fraction(0)
    """What it cost. A report made from a permanent answer that is paid for costs nothing."""
    left: Fraction | None = None
    """What was left for the analyst at that time; None if no limit applies or the analyst is
    unknown."""
    verified: bool = True
    """Whether the query is trusted. One with an invalid signature is not read, and has no names
    here."""
    first: int | None = None
    times: int = 1
    """How often the same refusal happened, since `first`."""

    @classmethod
    def of_refusal(cls, error: QueryError, query: Query | None, now: int) -> Receipt:
        """The receipt of an untrusted query; it names the query if only a controller's version of
        it is at fault."""
        known = query or error.base
        names = (
            ("", "", 0, "")
            if known is None
            else (known.analyst, known.id, known.serial, known.question)
        )
        verified = error.base is not None
        return cls(now, "refused", error.reason, str(error), *names, verified=verified)

    def __str__(self) -> str:
        if not (self.verified or self.analyst):
            return (
                f"{iso_time(self.time)}  A query not signed by a key you trust was not read."
                f" {self._outcome()}"
            )
        question = (
            self.question.strip().splitlines()[0]
            if self.question.strip()
            else "a question without words"
        )
        who = (
            self.analyst
            if self.verified
            else f"Somebody who claims to be {self.analyst or 'nobody'}"
        )
        version = f" ({self.query}, version {self.serial})" if self.query else ""
        return f"{iso_time(self.time)}  {who} asked: {question}{version}. {self._outcome()}"

    def _outcome(self) -> str:
        if self.outcome == "answered":
            cost = (
                f"It cost {_short(self.epsilon)}"
                if self.epsilon
                else "It cost nothing new: it was made from a permanent answer"
            )
            left = "" if self.left is None else f"; {_short(self.left)} is left for {self.analyst}"
            more = f" {self.detail}." if self.detail else ""
            return f"Answered for epoch {self.epoch}, randomized. {cost}{left}.{more}"
        if self.outcome == "given back":
            return (
                f"The answer for epoch {self.epoch} could not be delivered and never left:"
                f" {_short(-self.epsilon)} is given back."
            )
        if self.outcome == "sampled out":
            return (
                f"Not answered for epoch {self.epoch}: the sampling coin said no. It cost nothing."
            )
        if self.outcome == "refused":
            often = (
                ""
                if self.times == 1
                else f" {self.times} times since {iso_time(self.first or self.time)}."
            )
            return (
                f"Refused ({self.reason}): {self.detail}. Nothing was sent, and it cost"
                f" nothing.{often}"
            )
        return f"Nothing to do: {self.detail}."

    def to_dict(self) -> dict[str, Any]:
        """The receipt as JSON values."""
        document: ReceiptDocument = {
            "time": self.time,
            "outcome": self.outcome,
            "reason": self.reason or None,
            "detail": self.detail or None,
            "analyst": self.analyst,
            "query": self.query,
            "serial": self.serial,
            "question": self.question,
            "epoch": self.epoch,
            "epsilon": float(self.epsilon),
            "left": None if self.left is None else float(self.left),
            "verified": self.verified,
            "first": self.first or self.time,
            "times": self.times,
        }
        return dict(document)


def fault_words(fault: str) -> str:
    """What a receipt says of an answer for which the device could not read its data, through a
    fault of its own. Nobody else is told."""
    return f"It did not say anything about your data, because {fault}" if fault else ""


def _short(epsilon: Fraction) -> str:
    return f"{float(epsilon):.6g}"
