"""A population in one process: the answers of many devices, made by the code that makes those of
one (:mod:`.encoding`).

For simulation, load tests and figures. There is no vault and no queue here: true answers go in,
shares come out. With a :class:`~deniable.client.simulation.fleet_ledger.FleetLedger` every device
has its limits, and falls silent where they end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import whole
from deniable.client import encoding
from deniable.client.payment import scope_of
from deniable.client.simulation.fleet_ledger import FleetLedger
from deniable.errors import ParameterError
from deniable.queries.query import Query
from deniable.randomness import Source, system_source
from deniable.wire.blocks import Block, cut
from deniable.wire.message import ANSWER, NOTHING

__all__ = ["Fleet", "FleetShares"]

_LARGEST_MEMO = 1 << 32
_EMPTY = -2
_Words = NDArray[np.uint64]


@dataclass(frozen=True, repr=False)
class FleetShares:
    """What a fleet sends in one epoch."""

    query: Query
    epoch: int
    columns: list[_Words]
    """For each proxy, one column per message: its id, then the share. The same place in all of them
    is the same message."""
    n_answers: int
    """How many of the messages hold an answer; the others are cover."""

    def __len__(self) -> int:
        return int(self.columns[0].shape[1])

    def __repr__(self) -> str:
        return (
            f"<{len(self):,} messages of epoch {self.epoch} for {self.query.id!r},"
            f" {self.n_answers:,} of them answers>"
        )

    def blocks(self, prefix_bits: int = 0) -> list[list[Block]]:
        """For each proxy, the blocks that it would append to its log if it took these shares
        alone."""
        if not len(self):
            return [[] for _ in self.columns]
        where = self.query.channel_tag, self.epoch, self.query.size_class or 0
        return [cut(*where, columns, prefix_bits)[0] for columns in self.columns]


class Fleet:
    """`n` devices that all answer one query.

    >>> from deniable import seeded_source
    >>> from deniable.queries.columns.column import Column
    >>> from deniable.queries.schedule import Schedule
    >>> query = Query("commute", "City", "SELECT km FROM trips", [Column("km", ["[0,5)", "[5,inf)"])],
    ...               Schedule(0, 86400, 600, 3600, 600), ["one", "two"], {"name": "TwoCoin", "p": 0.5, "q": 0.5})
    >>> Fleet(query, 1000, source=seeded_source(1)).answer_columns(0, [np.arange(1000) % 10])
    <1,000 messages of epoch 0 for 'commute', 1,000 of them answers>
    """

    def __init__(
        self,
        query: Query,
        n: int,
        *,
        strata: Any = 0,
        source: Source | None = None,
        ledger: FleetLedger | None = None,
    ) -> None:
        whole("n", n, 1)
        most = max(len(query.strata), 1) - 1
        given = np.asarray(strata)
        if (
            given.dtype.kind not in "iu"
            or given.shape not in ((), (n,))
            or given.min() < 0
            or given.max() > most
        ):
            raise ParameterError(
                "strata",
                f"{given.dtype} {given.shape}",
                f"must be one number up to {most} for all or for each",
            )
        self.query, self.n = query, n
        self._strata: Any = given if given.ndim and query.strata else int(given.max())
        self._source = source or system_source()
        if ledger is not None and len(ledger) != n:
            raise ParameterError(
                "ledger", len(ledger), f"must have a ledger for each of the {n} devices"
            )
        self.ledger = ledger
        self._memo: _Memo | None = None
        if query.memoize:
            self._memo = _Memo(query, n)

    def revised(self, query: Query) -> Fleet:
        """The same devices, asked another version of the query, with their ledgers and permanent
        answers."""
        fleet = Fleet(query, self.n, strata=self._strata, source=self._source, ledger=self.ledger)
        if self._memo is not None and query.memoize and scope_of(query) == scope_of(self.query):
            self._memo.query = query
            fleet._memo = self._memo
        return fleet

    def __repr__(self) -> str:
        return f"<fleet of {self.n:,} devices for {self.query.id!r}>"

    def answer_columns(
        self, epoch: int, columns: Sequence[Any], present: Any = None
    ) -> FleetShares:
        """The shares of one epoch, given the columns of the SQL's result, one value a device."""
        if self.query.ones > 1:
            return self.answer(epoch, self.sets(columns), present)
        return self.answer(
            epoch,
            self.query.buckets.index_many([np.asarray(column) for column in columns]),
            present,
        )

    def sets(self, columns: Sequence[Any]) -> NDArray[np.intp]:
        """The buckets of each device, up to `ones` of them drawn where there are more, filled up
        with -1."""
        query = self.query
        out = np.full((self.n, query.ones), -1, dtype=np.intp)
        for device, row in enumerate(
            zip(*(np.asarray(column).tolist() for column in columns), strict=True)
        ):
            found = query.buckets.indices(row)
            for i in range(min(len(found), query.ones)):
                if len(found) - i > 1:
                    j = i + int(self._source.below(len(found) - i, 1)[0])
                    found[i], found[j] = found[j], found[i]
                out[device, i] = found[i]
        return out

    def answer(self, epoch: int, indices: Any, present: Any = None) -> FleetShares:
        """The shares of one epoch, given the bucket of each device's true answer, -1 for none.

        With `most_rows` or `ones` above 1, one row of buckets a device, filled up with -1. The
        place of a bucket in it is its slot: where answers are memoized, each slot keeps its own.
        `present` says which devices are switched on; all of them by default.
        """
        query, source = self.query, self._source
        if not 0 <= epoch < query.schedule.n_epochs:
            raise ParameterError(
                "epoch", epoch, f"must lie between 0 and {query.schedule.n_epochs - 1}"
            )
        indices = np.asarray(indices)
        width = max(query.most_rows, query.ones)
        shape = (self.n,) if width == 1 else (self.n, width)
        if indices.shape != shape:
            raise ParameterError(
                "indices", indices.shape, f"must have the shape {shape}: the buckets of each device"
            )
        now = query.schedule.start_of_epoch(epoch)
        able = None if self.ledger is None else self.ledger.able(query, now)
        chosen = encoding.sample(query, self.n, self._strata, source)
        for mask in (able, present):
            if mask is not None:
                chosen &= np.asarray(mask, dtype=np.bool_)
        if self.ledger is not None:
            self.ledger.charge(query, now, np.flatnonzero(chosen))
        everyone = bool(chosen.all())
        devices = np.arange(self.n) if everyone else np.flatnonzero(chosen)
        mine = indices if everyone else indices[devices]
        truth = encoding.checked(query, mine if query.ones > 1 else mine.reshape(-1))
        reports = self._reports(devices, truth)
        strata: Any = self._strata
        kinds: Any = ANSWER
        if query.cover and not everyone:
            spoken = np.repeat(chosen, query.most_rows)
            full = np.zeros((spoken.size, query.report_bytes), dtype=np.uint8)
            full[spoken] = reports
            reports, kinds, devices = full, np.where(spoken, ANSWER, NOTHING), np.arange(self.n)
        if np.ndim(strata):
            strata = np.repeat(strata[devices], query.most_rows)
        columns = encoding.share_columns(query, epoch, reports, strata, kinds, source)
        return FleetShares(query, epoch, columns, len(truth))

    def _reports(self, devices: NDArray[np.intp], truth: NDArray[np.intp]) -> NDArray[np.uint8]:
        """The reports of these devices, of which each has `most_rows` true answers, one after the
        other."""
        if self._memo is None:
            return encoding.randomize(self.query, truth, self._source)
        return self._memo.reports(devices, truth, self._source)


class _Memo:
    """The permanent answers of a fleet, as devices keep them: for each device and slot up to
    `distinct`, drawn when first needed.

    Each has a place: of the device, of the slot, and of how manieth it was. Where a new answer
    finds no free place, the permanent answer that spoke last speaks again.
    """

    def __init__(self, query: Query, n: int) -> None:
        self.query = query
        seats = n * query.most_rows
        size = seats * (query.distinct * (query.report_bytes + 4) + 4)
        if size > _LARGEST_MEMO:
            raise ParameterError(
                "n",
                n,
                f"would need {size} bytes of permanent answers, and {_LARGEST_MEMO} are the most",
            )
        self._rows = np.zeros((seats, query.distinct, query.report_bytes), dtype=np.uint8)
        self._answers = np.full((seats, query.distinct), _EMPTY, dtype=np.int32)
        self._last = np.zeros(seats, dtype=np.int32)
        self._sets: dict[bytes, int] = {}

    def _numbers(self, sets: NDArray[Any]) -> NDArray[np.int32]:
        """A number for each answer of several buckets: the same for the same buckets."""
        distinct, inverse = np.unique(sets, axis=0, return_inverse=True)
        known = [self._sets.setdefault(each.tobytes(), len(self._sets)) for each in distinct]
        return np.array(known, dtype=np.int32)[inverse.reshape(-1)]

    def reports(
        self, devices: NDArray[np.intp], indices: NDArray[Any], source: Source
    ) -> NDArray[np.uint8]:
        """One report for each row of each of these devices, in their order."""
        rows = self.query.most_rows
        truth = indices
        if indices.ndim == 2:
            indices = self._numbers(indices)
        seats = (devices[:, None] * rows + np.arange(rows)).reshape(-1)
        known = self._answers[seats]
        found = known == indices[:, None]
        drawn = np.count_nonzero(known != _EMPTY, axis=1)
        fresh = ~found.any(axis=1) & (drawn < self.query.distinct)
        places = np.where(
            found.any(axis=1), found.argmax(axis=1), np.where(fresh, drawn, self._last[seats])
        )
        self._rows[seats[fresh], places[fresh]] = encoding.permanent_rows(
            self.query, truth[fresh], source
        )
        self._answers[seats[fresh], places[fresh]] = indices[fresh]
        self._last[seats] = places
        return encoding.replay_rows(self.query, self._rows[seats, places], source)
