"""From the rows that the SQL finds to the buckets that are reported, in one place.

It runs in the sandbox's process (`worker.py`), under the process's one deadline and memory
limit, because all of it takes time that depends on the data. Nothing leaves that process but frames
whose number and size follow from the query: a request for each draw (:func:`draws`), then the
answer (:class:`SandboxAnswer`), always `width` numbers, :data:`NONE` where there is nothing to say.
Whether and why something failed is not among them.

For a memoized query, permanent answers are looked up here too: the process is given the *seats* of
each slot, used and free, and says for each slot which seat speaks. Its numbers are then those of
the slots that speak from a free seat, for which a permanent answer has to be drawn. All others are
:data:`NONE`: an answer that was given before does not leave the process again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL into the process
except ImportError:  # an interpreter without CPython's own modules
    from hashlib import blake2b

from deniable.queries.columns.bucket_index import NONE, BucketIndex
from deniable.sql.guard import Cell, GrantedCopy

__all__ = [
    "FREE",
    "NAME_BYTES",
    "Draw",
    "Memo",
    "Plan",
    "SandboxAnswer",
    "answer_size",
    "choose",
    "draws",
    "found",
    "name_of",
    "packed",
    "seated",
    "unpacked",
    "width",
]

Seat = tuple[bytes, int]
"""The name of a true answer, and the newest epoch for which its permanent answer spoke, or
:data:`FREE`."""
Memo = tuple[bytes, bytes, int, int, Sequence[Sequence[Seat]]]
"""For memoized answers: scope, secret, the bucket of someone who has no answer (or :data:`NONE`),
how many permanent answers a slot may draw, and the seats of each slot."""
Plan = tuple[str, int, int, Memo | None]
"""Which rows count (`random`, `several`, `aggregate`, `all`), `most_rows`, `ones`, and, for
memoized answers, where permanent answers are."""
Draw = Callable[[int], Sequence[int]]
"""Draws some of n places, as many as :func:`draws` says, every choice equally likely."""
FREE = -1
"""The epoch of a seat in which no permanent answer was ever kept."""
NAME_BYTES = 32
_Row = tuple[Cell, ...]
_NUMBER_BYTES = 4


class SandboxAnswer(NamedTuple):
    """What leaves the process: always the same number of everything, whatever the data are."""

    buckets: list[int]
    """Always :func:`width` numbers."""
    seats: list[tuple[int, bytes]]
    """For memoized answers, which seat of each slot speaks, and the name of the answer in it."""
    fault: str = ""
    """Why the data could not be read, if that was the device's fault and not the query's; for its
    owner, and never part of what the process says."""

    def __repr__(self) -> str:
        return f"<an answer of {len(self.buckets)} numbers>"


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


def answer_size(plan: Plan) -> int:
    """How many bytes an answer has."""
    n_seats = 0 if plan[3] is None else plan[1]
    return width(plan) * _NUMBER_BYTES + n_seats * (_NUMBER_BYTES + NAME_BYTES)


def packed(answer: SandboxAnswer) -> bytes:
    """The answer as bytes."""
    numbers = [bucket.to_bytes(_NUMBER_BYTES, "little", signed=True) for bucket in answer.buckets]
    seats = [seat.to_bytes(_NUMBER_BYTES, "little") + name for seat, name in answer.seats]
    return b"".join([*numbers, *seats])


def unpacked(plan: Plan, answer: bytes) -> SandboxAnswer:
    """The answer of these bytes."""
    end, size = width(plan) * _NUMBER_BYTES, _NUMBER_BYTES + NAME_BYTES
    numbers = [answer[i : i + _NUMBER_BYTES] for i in range(0, end, _NUMBER_BYTES)]
    seats = [answer[i : i + size] for i in range(end, len(answer), size)]
    return SandboxAnswer(
        [int.from_bytes(part, "little", signed=True) for part in numbers],
        [(int.from_bytes(part[:_NUMBER_BYTES], "little"), part[_NUMBER_BYTES:]) for part in seats],
    )


def seated(plan: Plan, buckets: Sequence[int]) -> SandboxAnswer:
    """The answer of these buckets, at most :func:`width`, with the seats that speak for them.

    A slot speaks from the seat of its answer or, if it has drawn as many permanent answers as it
    may, from the one that spoke last; otherwise from the first free seat.
    """
    filled = [*buckets, *[NONE] * (width(plan) - len(buckets))]
    _, _, ones, memo = plan
    if memo is None:
        return SandboxAnswer(filled, [])
    scope, secret, none, distinct, slots = memo
    answers = (
        [_as_set(filled, none)] if ones > 1 else [[none if one == NONE else one] for one in filled]
    )
    seats, numbers = [], []
    for answer, taken in zip(answers, slots, strict=True):
        name = name_of(scope, secret, answer)
        seat = _speaker(name, distinct, taken)
        is_new = taken[seat][1] == FREE
        seats.append((seat, name if is_new else taken[seat][0]))
        numbers += answer if is_new else [NONE] * len(answer)
    return SandboxAnswer(numbers, seats)


def _as_set(buckets: Sequence[int], none: int) -> list[int]:
    """Different buckets in ascending order, then -1s: the one form of an answer of several."""
    inside = sorted(set(buckets) - {NONE}) or [none]
    return [*inside, *[NONE] * (len(buckets) - len(inside))]


def _speaker(name: bytes, distinct: int, taken: Sequence[Seat]) -> int:
    used = [i for i, (_, epoch) in enumerate(taken) if epoch != FREE]
    for i in used:
        if taken[i][0] == name:
            return i
    if len(used) >= distinct:
        return max(used, key=lambda i: (taken[i][1], i))
    return next(i for i, (_, epoch) in enumerate(taken) if epoch == FREE)


def name_of(scope: bytes, secret: bytes, answer: Sequence[int]) -> bytes:
    """What a permanent answer is found by: a keyed hash of the true answer, never the answer."""
    written = b"".join(index.to_bytes(8, "little", signed=True) for index in answer)
    return blake2b(scope + written, digest_size=NAME_BYTES, key=secret).digest()


def found(
    copy: GrantedCopy, index: BucketIndex, plan: Plan, rows: Sequence[_Row], draw: Draw
) -> list[int]:
    """The buckets of the rows that count, at most :func:`width`, within the deadline of the SQL."""
    kind, most_rows, ones, memo = plan
    if kind == "aggregate" and len(rows) > 1:
        return []
    if ones > 1:
        return _several_ones(copy, index, plan, rows, draw)
    if memo is None:
        return [
            index.index(row) for row in _timed(copy, [rows[place] for place in draw(len(rows))])
        ]
    return choose(*memo[:2], [index.index(row) for row in _timed(copy, rows)], most_rows)


def _several_ones(
    copy: GrantedCopy, index: BucketIndex, plan: Plan, rows: Sequence[_Row], draw: Draw
) -> list[int]:
    """Up to `ones` of the buckets that a row is in or, with `all`, that any row is in."""
    kind, _, ones, memo = plan
    inside: set[int] = set()
    for row in _timed(copy, rows if kind == "all" else _one_of(copy, index, memo, rows, draw)):
        inside.update(index.indices(row))
    buckets = sorted(inside)
    return (
        [buckets[place] for place in draw(len(buckets))]
        if memo is None
        else choose(*memo[:2], buckets, ones)
    )


def _one_of(
    copy: GrantedCopy, index: BucketIndex, memo: Memo | None, rows: Sequence[_Row], draw: Draw
) -> list[_Row]:
    """One row: drawn or, for memoized answers, always the same for the same rows."""
    if memo is None:
        return [rows[place] for place in draw(len(rows))]
    if len(rows) < 2:
        return list(rows)
    firsts = {index.index(row): row for row in _timed(copy, rows[::-1])}
    return [firsts[bucket] for bucket in choose(*memo[:2], sorted(firsts), 1)]


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
        place = (
            b"row" + index.to_bytes(8, "little", signed=True) + twins[index].to_bytes(8, "little")
        )
        twins[index] += 1
        ranked.append((blake2b(scope + place, digest_size=32, key=secret).digest(), index))
    return [index for _, index in sorted(ranked)[:most]]
