"""The engine: reads the proxies' logs, joins, counts, and closes epochs.

One step reads what is new in every log, works on it bucket by bucket, and commits positions, marks,
waiting shares, panes, accounts and, if a history is kept, the counted reports in one transaction.
Then the epochs that are due are closed, each in its own transaction, which also releases the
windows it completes.

When an epoch is closed. Every proxy marks in its log how far its epochs are complete. An epoch is
closed once all proxies have marked it, in every partition, and their logs are read up to the marks;
so a proxy may be behind by up to `patience` and lose nothing. If a proxy has not marked an epoch
`patience` seconds after its end, the epoch is closed without it: no message can be joined without
all of its shares, so its windows lack answers, and they say so ("proxy down"), as do health and
metrics as soon as the proxy is behind.

What is bounded. Shares wait only as long as their epoch is open. If more than `most_waiting` shares
of one proxy wait, its log, which keeps the rest, is not read until the others have caught up; and
shares that wait in epochs that all others have marked are orphaned at once, because their partners
can no longer come. Neither loses an answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.blocks import Arrivals, Router, Task, book, join_and_count
from deniable.aggregator.counting.catalogue import Catalogue, CountedChannel
from deniable.aggregator.counting.conservation import Ledger
from deniable.aggregator.counting.join import Joined
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.counting.log_progress import LogProgress, RestoredLog
from deniable.aggregator.counting.log_readers import LogReaders
from deniable.aggregator.counting.open_epochs import OpenEpochs
from deniable.aggregator.counting.panes import Counted, Reports
from deniable.aggregator.history.file_catalogue import ensure_slice_key
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.operations.capacity import CapacityMeter
from deniable.aggregator.operations.health import ProxyProgress, health_report
from deniable.aggregator.state import Clock, State
from deniable.aggregator.step import Step, Stored
from deniable.aggregator.windows.closing import close_epoch, due_epochs, overdue, revise
from deniable.aggregator.windows.retention import collect_garbage
from deniable.errors import ParameterError
from deniable.logs.share_logs import Reading, ShareLog

__all__ = ["Engine"]

_LOGGER = logging.getLogger("deniable.aggregator")
_Words = NDArray[np.uint64]


class Engine:
    """Counts the proxies' logs into the panes and results of a state."""

    def __init__(
        self,
        state: State,
        logs: Sequence[ShareLog],
        limits: EngineLimits | None = None,
        clock: Clock | None = None,
        history: HistorySettings | None = None,
    ) -> None:
        if len(logs) != len(state.proxies) or len(logs) < 2:
            raise ParameterError(
                "logs",
                len(logs),
                f"must be one for each of the {len(state.proxies)} proxies, and at least 2",
            )
        with state.transaction():
            state.settle_engine("embedded")
            if history is not None:
                ensure_slice_key(state.connection)
        self.history = history
        self.state, self.logs, self.limits = state, list(logs), limits or EngineLimits()
        self.clock: Clock = clock or (lambda: int(time.time()))
        self._executor = ThreadPoolExecutor(self.limits.workers, thread_name_prefix="aggregator")
        self._readers = LogReaders(len(logs), self.limits.silent)
        self._readings = [Reading([], (), ())] * len(logs)
        """What was last found in each log."""
        self._held = [False] * len(logs)
        """Which logs are not read for now, because too many of their shares wait for those of
        others."""
        self._marked_at = [self.clock()] * len(logs)
        self.step_seconds = 0.0
        """How long the last step that had anything to do took."""
        self._ahead = False
        """Whether memory may be ahead of the state, because a step failed halfway."""
        self._unknown = [False] * len(logs)
        """Which logs may have more to read, or did not respond in time."""
        self._revised_at = 0
        self._load()

    def _load(self) -> None:
        """Load everything that is kept in memory from the state."""
        n_proxies = len(self.logs)
        self._progress = LogProgress(self.state)
        self._meter = CapacityMeter(n_proxies)
        self._meter.load(self.state.connection)
        self._epochs = OpenEpochs(n_proxies, self.state.path.parent)
        self._published: tuple[int, int] | None = None
        self._garbage = True
        self._refresh()
        self._epochs.load(self.state.stored())
        self._waiting = self._epochs.waiting()
        self._ahead = False
        self._look()

    def _refresh(self) -> None:
        """Load queries that have been published meanwhile."""
        published = self.state.connection.execute(
            "SELECT count(*), count(stopped) FROM queries"
        ).fetchone()
        if published != self._published:
            self.catalogue = Catalogue.load(self.state.connection)
            self._published = published
            self._fronts, self._firsts = self.state.fronts(), self.state.firsts()

    def close(self) -> None:
        """Stop the workers. The state and the logs belong to the caller."""
        self._readers.close()
        self._executor.shutdown()

    # --- the loop

    def run(self, stop: threading.Event, pause: float = 0.2) -> None:
        """Step until `stop` is set, with a pause when there is nothing to do."""
        while not stop.is_set():
            if not self.step():
                stop.wait(pause)

    def step(self) -> bool:
        """Read, count and commit once, and close what is due. Returns whether there was anything to
        do."""
        began = time.perf_counter()
        if self._ahead:
            self._load()
        self._ahead = True  # until this step is done: if it fails, only what was committed is valid
        self._refresh()
        with self._meter.step():
            worked = self._count(self._read())
        closed = self._close_due()
        self._revise()
        self._ahead = False
        self._garbage = self._garbage or closed > 0
        if self._garbage:
            with self.state.transaction():
                self._garbage = collect_garbage(self.state.connection, self.limits.garbage) > 0
        self._look()
        busy = worked or closed > 0 or self._garbage
        if busy:
            self.step_seconds = time.perf_counter() - began
        return busy

    def drain(self) -> None:
        """Step until there is nothing left to do."""
        while self.step() or self._readers.pending:
            pass

    # --- reading

    def _read(self) -> list[Reading]:
        self._held = [self._is_full(proxy) for proxy in range(len(self.logs))]
        found = self._readers.read(
            self.logs,
            self.positions,
            [0 if held else self.limits.step_bytes for held in self._held],
        )
        return [self._checked(proxy, reading) for proxy, reading in enumerate(found)]

    def _is_full(self, proxy: int) -> bool:
        """Whether too many shares of a proxy wait, after giving up those that wait in vain."""
        if self._waiting[proxy] > self.limits.most_waiting:
            others = [other for other in range(len(self.logs)) if other != proxy]
            for channel, number in self._epochs:
                if self._epochs.n_waiting((channel, number), proxy) and all(
                    self._progress.marked(other, channel) > number for other in others
                ):
                    self._give_up(proxy, channel, number)
        return self._waiting[proxy] > self.limits.most_waiting

    def _checked(self, proxy: int, reading: Reading | None) -> Reading:
        """What was found in a log, if it is the one that was read before; nothing while that is not
        known."""
        self._unknown[proxy] = reading is None or reading.more
        if reading is None:
            return Reading([], self.positions[proxy], ())
        if restored := self._progress.restored(proxy, reading):
            self._go_on_with_restored(proxy, str(reading.identity), restored)
            return Reading([], self.positions[proxy], ())
        reading = self._progress.checked(proxy, reading)
        self._readings[proxy] = reading._replace(blocks=[], marks=())
        return reading

    def _go_on_with_restored(self, proxy: int, identity: str, log: RestoredLog) -> None:
        """Continue with a log that was restored from a backup of the one that was read: from the
        end of what both have.

        Whatever the proxy acknowledged after the backup, and was not read, is lost; how much that
        is, is not known. So the epochs that the proxy had not marked, up to the current one, are
        closed without it.
        """
        now = self.clock()
        why = f"restored from a backup that ends at offset {log.backed_up}; read up to {log.read}"
        with self.state.transaction():
            for channel in self.catalogue.channels.values():
                tag = channel.tag
                first = max(self._progress.marked(proxy, tag), self._firsts[tag], self._fronts[tag])
                past = min(channel.n_epochs, channel.schedule.epochs_over(now) + 1)
                if first < past:
                    self.state.note_loss(proxy, tag, range(first, past), why)
                    place: dict[str, object] = {"proxy": self.state.proxies[proxy]}
                    place |= {"channel": f"{tag:016x}", "first_epoch": first}
                    fields = place | {"last_epoch": past - 1, "why": why}
                    _LOGGER.warning("shares lost", extra={"fields": fields})
            step = Step(positions={proxy: (log.position,)}, identities={proxy: identity})
            self.state.apply(step)
        self._progress.apply(step)

    def _give_up(self, proxy: int, channel: int, number: int) -> None:
        n_waiting = self._epochs.n_waiting((channel, number), proxy)
        step = Step()
        step.ledger.enter((proxy, channel, number), "orphaned", n_waiting)
        with self.state.transaction():
            self.state.drop_waiting(channel, number, proxy)
            self.state.apply(step)
        self._waiting[proxy] -= n_waiting
        self._epochs.give_up((channel, number), proxy)

    # --- counting

    def _count(self, readings: Sequence[Reading]) -> bool:
        step = Step()
        arrivals: Arrivals = {}
        limits = self.limits
        router = Router(
            self.catalogue.channels,
            self._fronts,
            len(self.logs),
            limits.bucket_bits,
            limits.skew,
            limits.retention,
            now=self.clock(),
        )
        for proxy, reading in enumerate(readings):
            bits = len(reading.position).bit_length() - 1 if reading.partitions else 0
            for content, partition in zip(
                reading.blocks, reading.partitions or [0] * len(reading.blocks), strict=True
            ):
                router.route(proxy, content, arrivals, step.ledger, (partition, bits))
            self._progress.add(proxy, reading, self.catalogue.channels, step)
        change = [0] * len(self.logs)
        for task, joined, counted, reports in self._executor.map(self._work, arrivals.items()):
            self._book(task, arrivals[task], joined, counted, step, change)
            step.reports += reports
        if step:
            self._meter.counted(step.ledger, self.catalogue.channels)
            with self.state.transaction():
                self.state.apply(step)
                self._meter.store(self.state.connection, router.now)
        self._progress.apply(step)
        self._waiting = [
            waiting + more for waiting, more in zip(self._waiting, change, strict=True)
        ]
        for proxy, _, _ in step.marks:
            self._marked_at[proxy] = router.now
        return bool(step)

    def _work(self, item: tuple[Task, list[list[_Words]]]) -> tuple[Task, Joined, Counted, Reports]:
        """Join and count what arrived in one bucket. Runs in parallel with others, each on its own
        bucket."""
        task, parts = item
        channel, epoch, _ = task
        reports: Reports = []
        keep = None if self.history is None else reports
        joined, counted = join_and_count(
            self._epochs.bucket(task), parts, epoch, self.catalogue.channels[channel], keep
        )
        if self.history is not None and self.history.never:
            reports = [each for each in reports if self.history.keeps(each[0].query)]
        return task, joined, counted, reports

    def _book(
        self,
        task: Task,
        parts: Sequence[Sequence[_Words]],
        joined: Joined,
        counted: Counted,
        step: Step,
        change: list[int],
    ) -> None:
        book(task, joined, counted, step.ledger, step.panes)
        n_joined = joined.ids.shape[1]
        for proxy, (kept, duplicates) in enumerate(
            zip(joined.kept, joined.duplicates, strict=True)
        ):
            if kept.shape[1]:
                step.stored.append(Stored(*task, proxy, kept))
            change[proxy] += sum(rows.shape[1] for rows in parts[proxy]) - duplicates - n_joined
        if n_joined:
            step.stored.append(Stored(*task, None, joined.ids))
            self._epochs.joined(task[:2], n_joined)

    # --- closing

    def _close_due(self) -> int:
        """Close the epochs that are due, the oldest of each channel first; returns how many were
        closed."""
        now, n_closed = self.clock(), 0
        for channel in self.catalogue.channels.values():
            marked = [self._progress.marked(proxy, channel.tag) for proxy in range(len(self.logs))]
            front, late = self._fronts[channel.tag], overdue(channel, now, self.limits.patience)
            for epoch, missing in due_epochs(channel, front, marked, late):
                # an aggregator that is itself behind blames no proxy
                if any(self._unknown[proxy] for proxy in missing):
                    break
                # A log that is not read because another proxy's shares are missing may contain the
                # marks: blame the other proxy.
                at_fault = [proxy for proxy in missing if not self._held[proxy]] or missing
                self._close_epoch(channel, epoch, at_fault)
                n_closed += 1
        return n_closed

    def _revise(self) -> None:
        """Release early results that are due: checked once per second."""
        now = self.clock()
        channels = [channel for channel in self.catalogue.channels.values() if channel.grace]
        if channels and now != self._revised_at:
            with self.state.transaction():
                revise(self.state, channels, self._firsts, now, self.limits.early)
            self._revised_at = now

    def _close_epoch(self, channel: CountedChannel, epoch: int, missing: Sequence[int]) -> None:
        ledger = Ledger()
        place = (channel.tag, epoch)
        waiting = [self._epochs.n_waiting(place, proxy) for proxy in range(len(self.logs))]
        for proxy, n in enumerate(waiting):
            ledger.enter((proxy, channel.tag, epoch), "orphaned", n)
        with self.state.transaction():
            self.state.enter(ledger)
            close_epoch(
                self.state,
                channel,
                epoch,
                missing,
                self._firsts[channel.tag],
                self.clock(),
                self.limits,
            )
        self._fronts[channel.tag] = epoch + 1
        self._epochs.close(place)
        self._waiting = [total - n for total, n in zip(self._waiting, waiting, strict=True)]

    # --- what can be seen of it

    @property
    def positions(self) -> list[tuple[int, ...]]:
        """How far each proxy's log is counted: one offset per partition."""
        return self._progress.positions

    @property
    def n_joined(self) -> int:
        """Ids of joined messages of open epochs, kept to detect replays."""
        return self._epochs.n_joined()

    def open_for(self) -> float:
        """Seconds since the end of the oldest epoch that is still open; 0 if no open epoch has
        ended."""
        now = self.clock()
        ends = [
            channel.schedule.end_of_epoch(front) + channel.grace
            for channel in list(self.catalogue.channels.values())
            if (front := self._fronts.get(channel.tag, 0)) < channel.n_epochs
        ]
        return max((now - end for end in ends if end < now), default=0.0)

    def _look(self) -> None:
        """Record how each proxy is doing. Others read this record, never the engine at work."""
        channels = self.catalogue.channels.values()
        progress = [
            ProxyProgress(
                {channel.tag: self._progress.marked(proxy, channel.tag) for channel in channels},
                self._waiting[proxy],
                self.positions[proxy],
                last.problem,
                last.fault,
                self._unknown[proxy] or self._held[proxy],
                last.backlog,
                self._marked_at[proxy],
            )
            for proxy, last in enumerate(self._readings)
        ]
        self.health = health_report(
            self.state.proxies, progress, channels, self._firsts, self.limits, self.clock()
        )
