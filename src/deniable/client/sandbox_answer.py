"""From the rows that the SQL finds to the buckets that are reported, in one place.

It runs in the sandbox's process (`sandbox_main.py`), under the process's one deadline and memory
limit, because all of it takes time that depends on the data. Nothing leaves that process but frames
whose number and size follow from the query: a request for each draw (:func:`draws`), then the
answer, always `width` numbers, :data:`NONE` where there is nothing to say. Whether and why
something failed is not among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL into the process
except ImportError:  # an interpreter without CPython's own modules
    from hashlib import blake2b

from deniable.queries.bucket_index import NONE, BucketIndex
from deniable.sql.guard import Cell, GrantedCopy

__all__ = ["Draw", "Plan", "choose", "draws", "found", "packed", "unpacked", "width"]

Plan = tuple[str, int, int, tuple[bytes, bytes] | None]
"""Which rows count (`random`, `several`, `aggregate`, `all`), `most_rows`, `ones`, and, for
memoized answers, scope and secret."""
Draw = Callable[[int], Sequence[int]]
"""Draws some of n places, as many as :func:`draws` says, every choice equally likely."""
_Row = tuple[Cell, ...]
_NUMBER_BYTES = 4


def draws(plan: Plan) -> tuple[int, ...]:
    """How many places each draw takes at most, in order: it follows from the query alone."""
    rows, most_rows, ones, memo = plan
    if memo is not None:
        return ()
    if ones == 1:
        return (most_rows,)
    return (ones,) if rows == "all" else (1, ones)


def width(plan: Plan) -> int:
    """How many numbers an answer has."""
    _, most_rows, ones, _ = plan
    return max(most_rows, ones)


def packed(plan: Plan, buckets: Sequence[int]) -> bytes:
    """The answer as bytes: the same number of them whatever was found."""
    filled = [*buckets, *[NONE] * (width(plan) - len(buckets))]
    return b"".join(bucket.to_bytes(_NUMBER_BYTES, "little", signed=True) for bucket in filled)


def unpacked(answer: bytes) -> list[int]:
    """The numbers of an answer."""
    parts = (answer[i : i + _NUMBER_BYTES] for i in range(0, len(answer), _NUMBER_BYTES))
    return [int.from_bytes(part, "little", signed=True) for part in parts]


def found(copy: GrantedCopy, index: BucketIndex, plan: Plan, rows: Sequence[_Row], draw: Draw) -> list[int]:
    """The buckets of the rows that count, at most :func:`width`, within the deadline of the SQL."""
    kind, most_rows, ones, memo = plan
    if kind == "aggregate" and len(rows) > 1:
        return []
    if ones > 1:
        return _several_ones(copy, index, plan, rows, draw)
    if memo is None:
        return [index.index(row) for row in _timed(copy, [rows[place] for place in draw(len(rows))])]
    return choose(*memo, [index.index(row) for row in _timed(copy, rows)], most_rows)


def _several_ones(copy: GrantedCopy, index: BucketIndex, plan: Plan, rows: Sequence[_Row], draw: Draw) -> list[int]:
    """Up to `ones` of the buckets that a row is in or, with `all`, that any row is in."""
    kind, _, ones, memo = plan
    inside: set[int] = set()
    for row in _timed(copy, rows if kind == "all" else _one_of(copy, index, memo, rows, draw)):
        inside.update(index.indices(row))
    buckets = sorted(inside)
    return [buckets[place] for place in draw(len(buckets))] if memo is None else choose(*memo, buckets, ones)


def _one_of(
    copy: GrantedCopy, index: BucketIndex, memo: tuple[bytes, bytes] | None, rows: Sequence[_Row], draw: Draw
) -> list[_Row]:
    """One row: drawn or, for memoized answers, always the same for the same rows."""
    if memo is None:
        return [rows[place] for place in draw(len(rows))]
    if len(rows) < 2:
        return list(rows)
    firsts = {index.index(row): row for row in _timed(copy, rows[::-1])}
    return [firsts[bucket] for bucket in choose(*memo, sorted(firsts), 1)]


def _timed(copy: GrantedCopy, rows: Sequence[_Row]) -> Iterator[_Row]:
    """The rows, as long as there is time."""
    for row in rows:
        copy.check_time()
        yield row


def choose(scope: bytes, secret: bytes, indices: Sequence[int], most: int) -> list[int]:
    """Up to `most` of the buckets of a person's rows: always the same ones for the same rows.

    The device's secret orders the rows, and the first ones are chosen: every choice is equally
    likely over devices, but not over epochs. A fresh choice in each epoch would reveal, through the
    permanent answers, that rows differ.
    """
    twins = dict.fromkeys(indices, 0)
    ranked = []
    for index in indices:
        place = b"row" + index.to_bytes(8, "little", signed=True) + twins[index].to_bytes(8, "little")
        twins[index] += 1
        ranked.append((blake2b(scope + place, digest_size=32, key=secret).digest(), index))
    return [index for _, index in sorted(ranked)[:most]]
