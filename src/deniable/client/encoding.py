"""From true answers to shares: the one place where it happens, for a single device and for a
simulated population alike.

A device is a fleet of one. For n devices in one epoch the source is asked, in this order, for

1. the sampling coins, stratum by stratum;
2. the randomized answers of those who answer, all permanent steps before all reports where answers
   are memoized;
3. the ids, keys and shares, message by message (:mod:`deniable.wire.shares`).

Each of these draws gives every device its own part, a coin or a row, that depends on nobody else. A
single device whose source gives it the same parts sends the same bytes. (Mechanisms that draw for
groups of devices, or raw bytes for all, give the same laws but not the same bytes.)
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.query import Query
from deniable.randomness import Source
from deniable.wire.message import ANSWER, NOTHING, Message
from deniable.wire.shares import pack_records, split, split_columns

__all__ = [
    "checked",
    "cost_of_answer",
    "cost_of_row",
    "no_answer",
    "permanent_rows",
    "randomize",
    "replay_rows",
    "sample",
    "share_columns",
    "share_records",
    "upload_body",
]

_Bytes = NDArray[np.uint8]


def cost_of_row(query: Query) -> Fraction:
    """What the ledger is charged for one freshly drawn row: the loss of the report or, if memoized,
    of the permanent answer."""
    return Fraction(repr(query.epsilon_charged))


def cost_of_answer(query: Query) -> Fraction:
    """What a device pays for an epoch's answer or, for memoized answers, once for all of them.

    It depends only on the query. All `most_rows` rows are paid for, however many there are; and for
    each memoized row, all `distinct` permanent answers that may ever be drawn. Charging each when
    it is drawn would make the remaining budget, and the next refusal, depend on the data.
    """
    return cost_of_row(query) * query.most_rows * query.distinct


def no_answer(query: Query) -> int:
    """The answer of someone who has none: `other` in every column or, without `other`, no bucket at
    all.

    It is randomized like any other answer. A device that stayed silent, or openly said that it has
    nothing, would reveal something true about its owner, without any epsilon to bound it.
    """
    return len(query.buckets) - 1 if query.buckets.complete else NONE


def sample(query: Query, n: int, strata: Any, source: Source) -> NDArray[np.bool_]:
    """Which of `n` devices answer, by their coins. `strata` is the stratum of all, or of each.

    The coin is flipped before the data are read, so that silence reveals nothing about them.
    """
    if np.ndim(strata) == 0:
        return source.coins(query.sampling_of(int(strata)), n).view(np.bool_)
    strata = np.asarray(strata)
    chosen = np.empty(n, dtype=np.bool_)
    for stratum in range(len(query.strata)):
        places = np.flatnonzero(strata == stratum)
        chosen[places] = source.coins(query.sampling_of(stratum), places.size).view(np.bool_)
    return chosen


def randomize(query: Query, indices: NDArray[np.intp], source: Source) -> _Bytes:
    """One freshly drawn report per true answer, each a row of bytes as sent."""
    return _as_bytes(query, _draw(query, checked(query, indices), source))


def permanent_rows(query: Query, indices: NDArray[np.intp], source: Source) -> _Bytes:
    """What a device keeps for each of these true answers: the permanent step of a two-step
    mechanism, or otherwise the report itself."""
    indices = checked(query, indices)
    if isinstance(query.mechanism, MemoizedMechanism):
        return _as_bytes(query, query.mechanism.draw_permanent(indices, source))
    return _as_bytes(query, _draw(query, indices, source))


def _draw(query: Query, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
    mechanism: Any = query.mechanism
    drawn: NDArray[Any] = (
        mechanism.draw(indices, source) if query.ones == 1 else mechanism.draw_sets(indices, source)
    )
    return drawn


def replay_rows(query: Query, permanent: _Bytes, source: Source) -> _Bytes:
    """A report of each permanent answer: drawn from it by a two-step mechanism, or otherwise the
    same again."""
    if isinstance(query.mechanism, MemoizedMechanism):
        return _as_bytes(query, query.mechanism.draw_report(permanent, source))
    return permanent


def share_columns(
    query: Query, epoch: int, reports: _Bytes, strata: Any, kinds: Any, source: Source
) -> list[NDArray[np.uint64]]:
    """Reports as shares: for each proxy the columns that :func:`deniable.wire.blocks.cut` takes.
    Cover messages have zeros for a report."""
    return split_columns(
        reports, query.tag, epoch, _size_class(query), len(query.proxies), strata, kinds, source
    )


def share_records(
    query: Query, epoch: int, reports: _Bytes | None, n: int, stratum: int, source: Source
) -> list[tuple[bytes, ...]]:
    """The `n` messages of one device, each as the records for the proxies, in order; cover without
    `reports`.

    The same draws and bytes as :func:`share_columns`, without the overhead of one-element arrays.
    """
    out = []
    for i in range(n):
        content = b"" if reports is None else reports[i].tobytes()
        message = Message(
            query.tag, epoch, content, stratum, NOTHING if reports is None else ANSWER
        )
        shares = split(message, _size_class(query), len(query.proxies), query.channel_tag, source)
        out.append(tuple(share.to_bytes() for share in shares))
    return out


def upload_body(query: Query, epoch: int, columns: NDArray[np.uint64]) -> bytes:
    """Columns of :func:`share_columns` as the body of an upload: the records of all shares, one
    after the other."""
    return pack_records(columns, query.channel_tag, epoch, _size_class(query))


def _size_class(query: Query) -> int:
    assert query.size_class is not None  # noqa: S101 - a query sets it when it is made
    return query.size_class


def checked(query: Query, indices: NDArray[np.intp]) -> NDArray[np.intp]:
    """The indices, with "no answer" replaced. A mechanism would take a wrong index for a bit of
    another row."""
    indices = np.asarray(indices)
    if query.ones > 1:
        return _checked_sets(query, indices)
    if indices.dtype.kind not in "iu" or indices.ndim != 1:
        raise ParameterError(
            "indices",
            f"{indices.dtype} {indices.shape}",
            "must be one bucket's number for each answer",
        )
    if indices.size and (indices.min() < NONE or indices.max() >= len(query.buckets)):
        # not which one
        raise ParameterError(
            "indices", "an answer", f"must lie between {NONE} and {len(query.buckets) - 1}"
        )
    indices = indices.astype(np.intp, copy=False)
    return (
        np.where(indices == NONE, no_answer(query), indices) if query.buckets.complete else indices
    )


def _checked_sets(query: Query, sets: NDArray[Any]) -> NDArray[np.intp]:
    """Rows of up to `ones` different buckets, ascending and padded with -1: a unique form of each
    answer."""
    if sets.dtype.kind not in "iu" or sets.ndim != 2 or sets.shape[1] != query.ones:
        raise ParameterError(
            "indices",
            f"{sets.dtype} {sets.shape}",
            f"must be rows of {query.ones} buckets' numbers, -1 for none",
        )
    if sets.size and (sets.min() < NONE or sets.max() >= len(query.buckets)):
        # not which one
        raise ParameterError(
            "indices", "an answer", f"must lie between {NONE} and {len(query.buckets) - 1}"
        )
    last = len(query.buckets)
    ordered = np.sort(np.where(sets == NONE, last, sets), axis=1).astype(np.intp)
    ordered[:, 1:][ordered[:, 1:] == ordered[:, :-1]] = last  # a repeated bucket counts once
    ordered = np.sort(ordered, axis=1)
    ordered[ordered == last] = NONE
    if query.buckets.complete:
        ordered[ordered[:, 0] == NONE, 0] = no_answer(query)
    return ordered


def _as_bytes(query: Query, rows: NDArray[Any]) -> _Bytes:
    return (
        np.ascontiguousarray(rows, dtype=query.mechanism.layout[0])
        .view(np.uint8)
        .reshape(len(rows), query.report_bytes)
    )
