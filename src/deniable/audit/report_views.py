"""Views suggested by a mechanism's own estimator: what a report supports, or how likely it is under
the claimed channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.views import ClaimedLikelihood, ItemScores, Supports, View, WholeReport
from deniable.mechanisms.bits import row_bytes
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.rappor import Rappor, bloom_positions
from deniable.mechanisms.protocols.summed import SummedHistogram
from deniable.mechanisms.values import IndexReports

__all__ = ["MOST_INPUTS", "inputs_of", "report_views", "sent_views"]

MOST_INPUTS = 8
_LARGEST_MATRIX = 1 << 22
Supported = Callable[[NDArray[Any], list[int]], NDArray[Any]]
Logs = Callable[[NDArray[Any], int], NDArray[np.float64]]


def inputs_of(mechanism: Mechanism, most: int = MOST_INPUTS) -> tuple[list[Any], NDArray[Any]]:
    """Some inputs to tell apart, spread over the domain, and what the mechanism draws from."""
    if isinstance(mechanism, Rappor):
        texts = [f"text {i}" for i in range(most)]
        return texts, mechanism.encode(texts)
    k = len(mechanism.labels)
    chosen = np.unique(np.linspace(0, k - 1, min(k, most)).astype(np.intp))
    return [mechanism.labels[i] for i in chosen], chosen


def report_views(mechanism: Mechanism, inputs: list[Any], encoded: NDArray[Any]) -> list[View]:
    """Views of reports as the mechanism draws them, one per row."""
    views: list[View] = [WholeReport(), ItemScores()]
    supports, most = _supports(mechanism, inputs, encoded)
    logs = None if supports is not None else _logs(mechanism, encoded)
    if supports is not None:
        views.append(Supports(supports, most))
    elif logs is not None:
        views.append(ClaimedLikelihood(logs, mechanism.epsilon))
    return views


def sent_views(mechanism: Mechanism, places: NDArray[Any], reports: int) -> list[View]:
    """Views of everything a device sent: whether it answered (a byte that is 0 or 1) and its
    `reports`, as consecutive bytes."""
    dtype, shape = mechanism.layout
    width = int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.intp))

    def each(rows: NDArray[Any]) -> NDArray[Any]:
        content = np.ascontiguousarray(rows[:, 1 : 1 + reports * width])
        return content.view(dtype).reshape(len(rows) * reports, *shape)

    views: list[View] = [WholeReport(), ItemScores()]
    supports, most = _supports(mechanism, [], places)
    logs = None if supports is not None else _logs(mechanism, places)
    if supports is not None:

        def supported(rows: NDArray[Any], which: list[int]) -> NDArray[Any]:
            found = supports(each(rows), which).reshape(len(rows), reports, 2).sum(axis=1)
            return np.where(rows[:, :1] > 0, found, 0)

        views.append(Supports(supported, most * reports))
    elif logs is not None:

        def summed(rows: NDArray[Any], i: int) -> NDArray[np.float64]:
            found = logs(each(rows), i).reshape(len(rows), reports).sum(axis=1)
            return np.where(rows[:, 0] > 0, found, 0.0)

        views.append(ClaimedLikelihood(summed, reports * mechanism.epsilon))
    return views


def _supports(
    mechanism: Mechanism, inputs: Sequence[Any], encoded: NDArray[Any]
) -> tuple[Supported | None, int]:
    """How strongly reports support two of the inputs, one column each, and the largest value
    possible."""
    if isinstance(mechanism, Rappor):
        return _bloom_bits(mechanism, inputs), mechanism.hashes
    places = encoded.tolist()
    supports = getattr(mechanism, "supports", None)
    if supports is None:
        return None, 0
    return lambda rows, which: supports(rows)[:, [places[i] for i in which]], 1


def _logs(mechanism: Mechanism, encoded: NDArray[Any]) -> Logs | None:
    """The log probability of a report under an input, up to terms common to all inputs; None if
    unknown."""
    places = encoded.tolist()
    if isinstance(mechanism, SummedHistogram):
        zero, one = mechanism.channel()
        gain = np.log(one / zero)
        return lambda rows, i: gain[rows[:, places[i]]]
    if not isinstance(mechanism, IndexReports) or math.isinf(mechanism.epsilon):
        return None
    if mechanism.n_outputs * len(mechanism.labels) > _LARGEST_MATRIX:
        return None
    logs = np.log(mechanism.channel()[:, places])
    return lambda rows, i: logs[:, i][rows]


def _bloom_bits(mechanism: Rappor, texts: Sequence[str]) -> Supported:
    """How many bits set in a report belong to one text and not to the other."""
    filters = np.zeros((len(texts), mechanism.cohorts, mechanism.bits), dtype=np.uint8)
    for i, text in enumerate(texts):
        for cohort in range(mechanism.cohorts):
            filters[
                i, cohort, list(bloom_positions(text, cohort, mechanism.hashes, mechanism.bits))
            ] = 1

    def supports(rows: NDArray[Any], which: list[int]) -> NDArray[Any]:
        cohort = mechanism._cohort(rows)
        bits = np.unpackbits(
            rows[:, -row_bytes(mechanism.bits) :], axis=1, count=mechanism.bits, bitorder="little"
        )
        own = filters[which][:, cohort]
        only = own & (1 - own[::-1])
        counts: NDArray[Any] = (bits & only).sum(axis=2).T
        return counts

    return supports
