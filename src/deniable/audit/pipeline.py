"""Audits of the whole pipeline: people with one answer or another, and what each party sees of
them.

Shares are made by the devices' code (:class:`deniable.client.simulation.fleet.Fleet`), accepted,
shuffled and logged by the proxies' code (:class:`deniable.proxy.intake.uploads.Intake`), and joined
and counted by the aggregator's, on a simulated clock. Everyone in a passage has the same history,
which is one of two lifetimes of answers. People are independent of each other, so each is a trial
in every party's game.

    the network         how many messages of how many bytes go to each proxy
    one proxy           every byte of its share and its message id
    all proxies but one  the same of all of them, and their XOR
    all together        whose reports they are, and what they say
    the analyst         the counts of a small crowd of which one person is the one or the other
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.blocks import Arrivals, Router, join_and_count
from deniable.aggregator.counting.catalogue import CountedChannel
from deniable.aggregator.counting.conservation import Ledger
from deniable.aggregator.counting.join import Bucket
from deniable.client.encoding import upload_body
from deniable.client.simulation.fleet import Fleet
from deniable.errors import DeniableError
from deniable.logs.sqlite_log import LogReader
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import Channel
from deniable.queries.query import Query
from deniable.randomness import Source
from deniable.wire.blocks import Block
from deniable.wire.shares import join_columns, record_bytes

__all__ = ["History", "Passage", "Pipeline", "histories_of"]

_Words = NDArray[np.uint64]
_UPLOADS = 4096
"""Requests a proxy accepts at a time."""
_SECONDS = 7
"""Seconds between two such times."""
_REPLAYS = 12
"""Epochs to observe a permanent answer that is reported through fresh coins each time: enough for
the coins to average out."""


@dataclass(frozen=True)
class History:
    """A person's true answers: the buckets of all rows, per epoch."""

    name: str
    buckets: tuple[tuple[int, ...], ...]

    @property
    def epochs(self) -> int:
        return len(self.buckets)


def histories_of(query: Query, places: Sequence[int]) -> list[History]:
    """For each of some buckets, a life in it: one epoch or, where answers are memoized, several,
    which reveal nothing more."""
    epochs = 1
    if query.memoize:
        epochs = _REPLAYS if isinstance(query.mechanism, MemoizedMechanism) else 2
    epochs = min(epochs, query.schedule.n_epochs)
    width = max(query.most_rows, query.ones)
    rows = [
        (place, *[-1] * (width - 1)) if query.ones > 1 else (place,) * width for place in places
    ]
    return [
        History(str(query.labels[place]), (row,) * epochs)
        for place, row in zip(places, rows, strict=True)
    ]


@dataclass(frozen=True)
class Passage:
    """What the parties see of many people with the same history, one row per person."""

    took_part: NDArray[np.bool_]
    """One row per person, one column per epoch."""
    shares: list[NDArray[np.uint8]]
    """For each proxy: all records of a person, as bytes."""
    reports: NDArray[np.uint8]
    """All joined reports of a person; zeros where there are none."""
    order: NDArray[np.float64]
    """Messages of the first epoch, one per row: when each came and its position in the log, as
    fractions of its batch."""


class _WatchedFleet(Fleet):
    """A fleet that remembers which of its people answered."""

    answering: NDArray[np.intp]

    def _reports(self, devices: NDArray[np.intp], truth: NDArray[np.intp]) -> NDArray[np.uint8]:
        self.answering = devices
        return super()._reports(devices, truth)


class Pipeline:
    """Proxies and an aggregator for one query, created anew for each passage."""

    def __init__(self, query: Query, folder: Path, source: Source) -> None:
        self.query, self._folder, self._source = query, folder, source
        channel = Channel.of_query(query.header)
        self._channel = CountedChannel(**vars(channel), versions={query.tag: query})

    def passage(self, history: History, count: int) -> Passage:
        """Let that many people live through the history."""
        query = self.query
        fleet = _WatchedFleet(query, count, source=self._source)
        per_epoch = query.most_rows
        length = record_bytes(query.size_class or 0)
        took_part = np.zeros((count, history.epochs), dtype=np.bool_)
        shares = [
            np.zeros((count, history.epochs, per_epoch * length), dtype=np.uint8)
            for _ in query.proxies
        ]
        reports = np.zeros((count, history.epochs, per_epoch * query.report_bytes), dtype=np.uint8)
        order = np.empty((0, 2))
        for epoch, row in enumerate(history.buckets):
            single = max(query.most_rows, query.ones) == 1
            truth = np.full(count, row[0]) if single else np.tile(np.array(row), (count, 1))
            sent = fleet.answer(epoch, truth)
            who = np.arange(count) if query.cover else fleet.answering
            took_part[fleet.answering, epoch] = True
            for proxy, columns in enumerate(sent.columns):
                records = _records(query, epoch, columns)
                shares[proxy][who, epoch] = records.reshape(who.size, -1)
            logs, moved = self._through_proxies(
                epoch, [_records(query, epoch, columns) for columns in sent.columns]
            )
            order = moved if not epoch else order
            ids, found = self._through_aggregator(epoch, logs)
            reports[fleet.answering, epoch] = self._of_people(
                sent.columns[0][:2], ids, found, fleet.answering, who
            )
        flat = [part.reshape(count, -1) for part in shares]
        return Passage(took_part, flat, reports.reshape(count, -1), order)

    def _through_proxies(
        self, epoch: int, records: list[NDArray[np.uint8]]
    ) -> tuple[list[list[bytes]], NDArray[np.float64]]:
        """The blocks in each proxy's log and, for the first proxy, when messages came and their
        positions."""
        query = self.query
        logs: list[list[bytes]] = []
        order = np.empty((0, 2))
        for proxy, content in enumerate(records):
            now = [query.schedule.start_of_epoch(epoch) + 1]
            with tempfile.TemporaryDirectory(dir=self._folder) as place:
                intake = Intake(Path(place), IntakeRules(), lambda now=now: now[0])  # type: ignore[misc]
                intake.set_channels({self._channel.tag: self._channel})
                per_upload = query.most_rows
                for start in range(0, len(content), _UPLOADS * per_upload):
                    part = content[start : start + _UPLOADS * per_upload]
                    bodies = [
                        part[at : at + per_upload].tobytes()
                        for at in range(0, len(part), per_upload)
                    ]
                    for taken in intake.take(
                        [
                            Upload(f"{start + at}".encode(), per_upload, body)
                            for at, body in enumerate(bodies)
                        ]
                    ):
                        if not isinstance(taken, UploadReceipt):
                            raise DeniableError(f"a proxy refused a share: {taken}")
                    now[0] = min(now[0] + _SECONDS, query.schedule.end_of_epoch(epoch) - 1)
                    intake.tick()
                intake.flush()
                intake.close()
                reader = LogReader(Path(place) / "log.db")
                found = reader.read(0, max(reader.end, 1))
                reader.close()
                logs.append([record.block for record in found])
            if not proxy:
                order = _order(content, logs[0], _UPLOADS * query.most_rows)
        return logs, order

    def _through_aggregator(
        self, epoch: int, logs: list[list[bytes]]
    ) -> tuple[_Words, NDArray[np.uint8]]:
        """The ids and reports of the joined messages that are answers."""
        query = self.query
        arrivals: Arrivals = {}
        ledger = Ledger()
        now = query.schedule.start_of_epoch(epoch) + 2
        router = Router(
            {self._channel.tag: self._channel},
            {self._channel.tag: 0},
            len(logs),
            0,
            60,
            1 << 40,
            now,
        )
        for proxy, blocks in enumerate(logs):
            for block in blocks:
                router.route(proxy, block, arrivals, ledger)
        ids, reports = (
            [np.empty((2, 0), dtype=np.uint64)],
            [np.empty((0, query.report_bytes), dtype=np.uint8)],
        )
        for parts in arrivals.values():
            joined, counted = join_and_count(Bucket(len(logs)), parts, epoch, self._channel)
            if counted.refused:
                raise DeniableError(f"the aggregator refused messages: {counted.refused}")
            rows, places = join_columns(joined.matched, epoch).reports(
                query.tag, query.report_bytes
            )
            ids.append(joined.ids[:, places])
            reports.append(rows)
        return np.concatenate(ids, axis=1), np.concatenate(reports)

    def _of_people(
        self,
        sent: _Words,
        ids: _Words,
        found: NDArray[np.uint8],
        answering: NDArray[np.intp],
        who: NDArray[np.intp],
    ) -> NDArray[np.uint8]:
        """The reports of everyone who answered, in the order in which their messages were sent."""
        rows = self.query.most_rows
        mine = np.isin(np.repeat(who, rows), answering)
        by_id = np.argsort(ids[0], kind="stable")
        places = by_id[np.searchsorted(ids[0][by_id], sent[0][mine])]
        if not np.array_equal(ids[:, places], sent[:, mine]):
            raise DeniableError("the aggregator did not join all messages that were sent")
        return np.asarray(found[places].reshape(answering.size, -1), dtype=np.uint8)


def _records(query: Query, epoch: int, columns: _Words) -> NDArray[np.uint8]:
    """Shares as they travel, one record per row."""
    return np.frombuffer(upload_body(query, epoch, columns), dtype=np.uint8).reshape(
        columns.shape[1], -1
    )


def _order(records: NDArray[np.uint8], blocks: list[bytes], together: int) -> NDArray[np.float64]:
    """For each message, when it came and its position in the log, both as fractions of the batch
    that was passed on together."""
    came = np.ascontiguousarray(records[:, 16:24]).view("<u8")[:, 0]
    lies = np.concatenate([Block.from_bytes(block).columns[0] for block in blocks])
    place = np.empty(came.size)
    place[np.argsort(came, kind="stable")] = np.argsort(lies, kind="stable")
    out = []
    for start in range(0, came.size - together + 1, together):
        rank = np.argsort(np.argsort(place[start : start + together]))
        out.append(np.column_stack([np.arange(together), rank]) / together)
    return np.concatenate(out) if out else np.empty((0, 2))
