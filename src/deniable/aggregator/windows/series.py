"""Views of results: at another confidence, projected, or one label over time."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, TypedDict

import numpy as np

from deniable.aggregator.windows.revisions import NOT_REVISED
from deniable.aggregator.windows.stored import MATRICES, Detail
from deniable.aggregator.windows.window import Condition, Window
from deniable.checks import check_confidence
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate

__all__ = [
    "FORMS",
    "STORED_CONFIDENCE",
    "SeriesDocument",
    "check_view",
    "one_label",
    "viewed",
    "without_matrices",
]

FORMS = ("raw", "projected")
STORED_CONFIDENCE = 0.95


class SeriesDocument(TypedDict):
    """One label over time: one list per column."""

    index: list[int]
    start: list[int]
    end: list[int]
    serial: list[int]
    condition: list[Condition]
    n: list[int]
    revision: list[int | None]
    estimate: list[float | None]
    low: list[float | None]
    high: list[float | None]
    widest: list[float | None]
    """The largest standard error among the window's labels."""


_COLUMNS = tuple(SeriesDocument.__annotations__)


def check_view(confidence: float, form: str) -> float:
    """The confidence, if it and the form are valid."""
    if form not in FORMS:
        raise ParameterError("form", form, f"must be one of {', '.join(FORMS)}")
    return check_confidence(confidence)


def viewed(document: dict[str, Any], confidence: float, form: str) -> dict[str, Any]:
    """A stored result with intervals at a confidence and, if projected, the nearest distribution in
    place of the estimate.

    `unbiased` then holds the original estimate.
    """
    if "estimate" not in document or (confidence == STORED_CONFIDENCE and form == "raw"):
        return document
    found = Window.from_dict({"covariance": None, "support": None, **document}).estimate
    assert found is not None  # noqa: S101 - for the type checker: it is never None
    shown = found.projected() if form == "projected" else found
    if confidence == STORED_CONFIDENCE:
        low, high = np.array(document["low"], dtype=float), np.array(document["high"], dtype=float)
        low, high = np.minimum(low, shown.proportions), np.maximum(high, shown.proportions)
    else:
        low, high = shown.interval(confidence).T
    out = {**document, "confidence": confidence, "low": low.tolist(), "high": high.tolist()}
    if form == "projected":
        out |= {"estimate": shown.proportions.tolist(), "unbiased": found.proportions.tolist()}
    return out


def without_matrices(document: dict[str, Any]) -> dict[str, Any]:
    """A result without the matrices that no plot needs."""
    return {name: value for name, value in document.items() if name not in MATRICES}


def one_label(
    connection: sqlite3.Connection,
    query: str,
    label: int,
    confidence: float,
    limit: int,
    end: int | None = None,
) -> dict[str, list[Any]]:
    """One label in the newest windows (of those that begin before `end`), oldest first: one list
    per column.

    `widest` is the largest standard error among the window's labels. A window without an estimate
    has None.
    """
    rows = connection.execute(
        f"SELECT {Detail.NO_COVARIANCE.value} FROM results WHERE seq IN (SELECT seq FROM results"  # noqa: S608 - no input
        " WHERE query = ? AND start < ? "
        f"AND {NOT_REVISED} ORDER BY start DESC, seq DESC LIMIT ?) ORDER BY start, seq",
        (query, 1 << 62 if end is None else end, limit),
    )
    out: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    for (text,) in rows:
        document = json.loads(text)
        for name, value in zip(_COLUMNS, _row(document, label, confidence), strict=True):
            out[name].append(value)
    return out


def _row(document: dict[str, Any], label: int, confidence: float) -> tuple[Any, ...]:
    head = tuple(document.get(name) for name in _COLUMNS[:7])
    estimate = document.get("estimate", ())
    if label >= len(estimate):
        return (*head, None, None, None, None)
    low, high = document["low"][label], document["high"][label]
    if confidence != STORED_CONFIDENCE:
        low, high = _interval(document, label, confidence)
    return (*head, estimate[label], low, high, max(document["stderr"]))


def _interval(document: dict[str, Any], label: int, confidence: float) -> tuple[float, float]:
    """The interval of one label at another confidence."""
    if document.get("strata"):  # combined from those of the strata, which takes the whole estimate
        found = Window.from_dict({"covariance": None, **document}).estimate
        assert found is not None  # noqa: S101 - for the type checker: it is never None
        low, high = found.interval(confidence)[label].tolist()
        return low, high
    support = document.get("support")
    alone = Estimate(
        labels=(label,),
        proportions=np.array([document["estimate"][label]]),
        variance=np.square(np.array([document["stderr"][label]])),
        n=document["n"],
        population=document["population"],
        support=(
            None
            if support is None
            else (np.array(support[0][label : label + 1]), np.array(support[1][label : label + 1]))
        ),
    )
    low, high = alone.interval(confidence)[0].tolist()
    return low, high
