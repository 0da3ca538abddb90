"""People who lie: what they send, how far it can move an estimate, and how many it takes for the
diagnostics to notice.

The three kinds are those of Cao, Jia and Gong, "Data poisoning attacks to local differential
privacy protocols", USENIX Security 2021: a random report; an honest report of the label to be
raised; the report that raises it the most, chosen to look as much like an honest one as possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.estimates import estimate_period
from deniable.aggregator.windows.window import Window
from deniable.client import encoding
from deniable.counts import Counts
from deniable.estimation.estimate import Estimate
from deniable.estimation.unbias import covariances_up_to
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.summed import SummedHistogram
from deniable.mechanisms.protocols.unary import UnaryReports
from deniable.mechanisms.values import IndexReports
from deniable.queries.query import Query
from deniable.randomness import ONE, Source

__all__ = ["diagnostics", "flagged_from", "lying_rows", "poisoning_bound"]

_CANDIDATES = 512
_MOST_OUTPUTS = 2048
_FLAGS = ("improbable reports", "THESE REPORTS DO NOT FIT")
"""How an estimate's notes begin when they say that its reports do not come from honest coins."""
_REPLICATES = 8
_MOST_DRAWN = 100_000


def lying_rows(
    query: Query, lie: str, target: int, n: int, source: Source, downwards: bool = False
) -> NDArray[np.uint8]:
    """`n` lying reports, each a row of bytes as it travels."""
    if lie == "targeted":
        claimed = np.full((n, query.ones), -1, dtype=np.intp)
        claimed[:, 0] = target
        return encoding.randomize(query, claimed if query.ones > 1 else claimed[:, 0], source)
    mechanism: Mechanism = query.mechanism
    rows = (
        _random(mechanism, n, source)
        if lie == "random"
        else _extreme(mechanism, target, n, source, downwards)
    )
    return (
        np.ascontiguousarray(rows, dtype=mechanism.layout[0])
        .view(np.uint8)
        .reshape(n, query.report_bytes)
    )


def _random(mechanism: Mechanism, n: int, source: Source) -> NDArray[Any]:
    """Reports drawn from all accepted ones, uniformly where the mechanism's reports are numbers or
    bits."""
    if isinstance(mechanism, UnaryReports):
        return source.bit_rows(ONE // 2, n, len(mechanism.labels))
    if isinstance(mechanism, IndexReports):
        return source.below(mechanism.n_outputs, n)
    return mechanism.draw(source.below(len(mechanism.labels), n).astype(np.intp), source)


def _extreme(
    mechanism: Mechanism, target: int, n: int, source: Source, downwards: bool
) -> NDArray[Any]:
    """The accepted reports that raise (or lower) a label the most."""
    candidates = _candidates(mechanism, target, source)
    gains = _contributions(mechanism, candidates, target)
    best = gains.min() if downwards else gains.max()
    chosen = candidates[np.isclose(gains, best, rtol=1e-9, atol=1e-12)]
    return np.asarray(chosen[source.below(len(chosen), n)])


def _candidates(mechanism: Mechanism, target: int, source: Source) -> NDArray[Any]:
    if isinstance(mechanism, IndexReports) and mechanism.n_outputs <= _MOST_OUTPUTS:
        return np.arange(mechanism.n_outputs)
    # Honest reports of the label: some support it and some do not.
    rows = mechanism.draw(np.full(_CANDIDATES, target, dtype=np.intp), source)
    # the extremes of a label's level are too rare to occur by chance
    if isinstance(mechanism, SummedHistogram):
        rows[: _CANDIDATES // 2, target] = mechanism.levels - 1
        rows[_CANDIDATES // 2 :, target] = 0
    return rows


def _contributions(mechanism: Mechanism, rows: NDArray[Any], target: int) -> NDArray[np.float64]:
    """What each report adds to the estimate of a label, times the number of reports."""
    supports = getattr(mechanism, "supports", None)
    if supports is not None and mechanism.support() is not None:
        return np.asarray(supports(rows)[:, target], dtype=np.float64)
    with covariances_up_to(0):
        return np.array(
            [
                mechanism.solve(mechanism.count(rows[i : i + 1]), 1)[0][target]
                for i in range(len(rows))
            ]
        )


def poisoning_bound(query: Query, window: Window, liars: int, target: int) -> float:
    """The furthest that so many lying reports can move a label's proportion in a window.

    Exact for one stratum; with several, the liars are assumed to be all in the one where a report
    weighs the most.
    """
    if query.strata:
        return (window.influence or 0.0) * liars
    return float(query.mechanism.influence(window.n, min(liars, window.n))[target])


def diagnostics(estimate: Estimate | None) -> tuple[str, ...]:
    """The notes of an estimate that doubt its reports."""
    return (
        ()
        if estimate is None
        else tuple(note for note in estimate.notes if note.startswith(_FLAGS))
    )


def flagged_from(
    query: Query,
    weights: NDArray[np.float64],
    n: int,
    lie: str,
    target: int,
    random: np.random.Generator,
    source: Source,
) -> tuple[int | None, int]:
    """How many liars, among how many reports, get at least half of the windows flagged; None if
    half of all are too few.

    Found by bisection on windows made of counts alone, under the same rules as real windows.
    """
    n = min(n, _MOST_DRAWN)
    law = np.append(weights, max(0.0, 1 - weights.sum()))
    runs = []
    for _ in range(_REPLICATES):
        drawn = random.choice(len(law), n, p=law / law.sum())
        truth = np.where(drawn == len(weights), -1, drawn).astype(np.intp)
        sets = np.full((n, query.ones), -1, dtype=np.intp)
        sets[:, 0] = truth
        honest = encoding.randomize(query, sets if query.ones > 1 else truth, source)
        runs.append((honest, lying_rows(query, lie, target, n // 2, source)))

    def flagged(liars: int) -> bool:
        counts = (
            _counts(query, honest[liars:]) + _counts(query, lies[:liars]) for honest, lies in runs
        )
        found = sum(bool(diagnostics(_estimate(query, each, n))) for each in counts)
        return 2 * found >= _REPLICATES

    if not flagged(n // 2):
        return None, n
    low, high = 0, n // 2
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if flagged(middle) else (middle, high)
    return high, n


def _counts(query: Query, rows: NDArray[np.uint8]) -> NDArray[np.int64]:
    mechanism = query.mechanism
    dtype, shape = mechanism.layout
    counts: NDArray[np.int64] = mechanism.count(
        np.ascontiguousarray(rows).view(dtype).reshape(len(rows), *shape)
    )
    return counts


def _estimate(query: Query, counts: NDArray[np.int64], n: int) -> Estimate | None:
    panes = {PaneKey(query.id, query.serial, 0, 0): Counts(counts, n, 0)}
    return estimate_period([query], panes, query.schedule.bounds_of_window(0))[2]
