"""Results as they are looked at: at another confidence, projected, or one label over time."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import numpy as np

from deniable.aggregator.state import NOT_REVISED
from deniable.aggregator.windows import Window
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.intervals import check_confidence

__all__ = ["FORMS", "STORED_CONFIDENCE", "check_view", "one_label", "viewed"]

FORMS = ("raw", "projected")
STORED_CONFIDENCE = 0.95
_COLUMNS = ("index", "start", "end", "serial", "condition", "n", "revision", "estimate", "low", "high", "widest")


def check_view(confidence: float, form: str) -> float:
    """The confidence, if it and the form can be shown."""
    if form not in FORMS:
        raise ParameterError("form", form, f"must be one of {', '.join(FORMS)}")
    return check_confidence(confidence)


def viewed(told: dict[str, Any], confidence: float, form: str) -> dict[str, Any]:
    """A stored result with the intervals of a confidence, and with the nearest distribution in the place of the estimate.

    `unbiased` then holds the estimate as it was. Stored results keep only the sum of their strata, so that of a query with
    strata every confidence but the stored one has normal intervals.
    """
    if "estimate" not in told or (confidence == STORED_CONFIDENCE and form == "raw"):
        return told
    found = Window.from_dict({"covariance": None, "support": None, **told}).estimate
    assert found is not None  # noqa: S101 - for the type checker: there is one
    shown = found.projected() if form == "projected" else found
    if confidence == STORED_CONFIDENCE:
        low, high = np.array(told["low"], dtype=float), np.array(told["high"], dtype=float)
        low, high = np.minimum(low, shown.proportions), np.maximum(high, shown.proportions)
    else:
        low, high = shown.interval(confidence).T
    out = {**told, "confidence": confidence, "low": low.tolist(), "high": high.tolist()}
    if form == "projected":
        out |= {"estimate": shown.proportions.tolist(), "unbiased": found.proportions.tolist()}
    return out


def one_label(
    connection: sqlite3.Connection, query: str, label: int, confidence: float, limit: int, end: int | None = None
) -> dict[str, list[Any]]:
    """One label in the newest windows (that begin before `end`), oldest first: a list for each of the columns.

    `widest` is the largest standard error of the window's labels. SQLite reads the stored documents, which is many times as fast
    as to have Python read all of each. A window without an estimate has None.
    """
    newest = f"SELECT * FROM results WHERE query = ? AND start < ? AND {NOT_REVISED} ORDER BY start DESC, seq DESC LIMIT ?"  # noqa: S608
    place = f"[{int(label)}]"
    paths = [f"$.{name}" for name in _COLUMNS[:7]] + [f"$.estimate{place}", f"$.low{place}", f"$.high{place}"]
    fields = ", ".join(f"json_extract(document, '{path}')" for path in paths)
    widest = "(SELECT max(value) FROM json_each(document, '$.stderr'))"
    extra = ", json_extract(document, '$.support'), json_extract(document, '$.population'), json_extract(document, '$.stderr')"
    rows = connection.execute(
        f"SELECT {fields}, {widest}{extra} FROM ({newest}) ORDER BY start, seq",  # noqa: S608 - numbers and names of ours
        (query, 1 << 62 if end is None else end, limit),
    ).fetchall()
    if confidence != STORED_CONFIDENCE:
        rows = [_at(confidence, label, row) for row in rows]
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(_COLUMNS) + 3)
    return {name: list(column) for name, column in zip(_COLUMNS, columns, strict=False)}


def _at(confidence: float, label: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with the interval of another confidence."""
    *told, estimate, low, high, widest, support, population, stderr = row
    if estimate is None:
        return row
    pair = None if support is None else tuple(np.array(side)[label : label + 1] for side in json.loads(support))
    error = np.array([json.loads(stderr)[label]])
    alone = Estimate(
        labels=(label,),
        proportions=np.array([estimate]),
        variance=np.square(error),
        n=told[5],
        population=population,
        support=pair,  # type: ignore[arg-type]
    )
    low, high = alone.interval(confidence)[0].tolist()
    return (*told, estimate, low, high, widest, support, population, stderr)
