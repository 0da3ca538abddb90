"""Where a batch ends: its figures, its number, and the windows it completes go into the
aggregator's state in one transaction.

Spark may deliver a batch again after a crash or a restart. Its number is in the state, so it is
skipped. A checkpoint and a state belong together: with another checkpoint, or with one that is
ahead of the state, nothing is written.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from deniable.aggregator.counting.catalogue import Catalogue, Published, published
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.external import note_counted, note_health
from deniable.aggregator.engines.spark import close_requests
from deniable.aggregator.engines.spark.history import Written
from deniable.aggregator.engines.spark.rows import BatchFigures
from deniable.aggregator.history.file_catalogue import add_files, note_reports
from deniable.aggregator.operations.capacity import CapacityMeter
from deniable.aggregator.operations.health import ProxyHealth, ProxyProgress, health_report
from deniable.aggregator.state import Clock, State, signed
from deniable.aggregator.step import Step
from deniable.aggregator.windows.closing import close_epoch, overdue, revise
from deniable.errors import StateError

__all__ = ["Sink"]

_CHECKPOINT, _BATCH, _BUCKETS, _PARTITIONS = (
    "spark_checkpoint",
    "spark_batch",
    "spark_buckets",
    "spark_partitions",
)


class Sink:
    """Writes batches into a state. Only one thread at a time uses it."""

    def __init__(self, state: State, n_buckets: int, limits: EngineLimits, clock: Clock) -> None:
        self.state, self.n_buckets, self.limits, self.clock = state, n_buckets, limits, clock
        self._lock = threading.Lock()
        self._meter = CapacityMeter(len(state.proxies))
        self._meter.load(state.connection)
        with state.transaction():
            state.settle_engine("spark")
            found = self._note(_BUCKETS)
            if found not in (None, n_buckets):
                raise StateError(
                    f"{state.path} was counted in {found} buckets, and the proxies' logs have"
                    f" {n_buckets} partitions"
                )
            self._set_note(_BUCKETS, n_buckets)

    def _note(self, name: str) -> int | str | None:
        row = self.state.connection.execute(
            "SELECT value FROM meta WHERE name = ?", (name,)
        ).fetchone()
        return None if row is None else row[0]

    def _set_note(self, name: str, value: int | str) -> None:
        self.state.connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def settle_partitions(self, wanted: int) -> int:
        """How many shuffle partitions there are: what the first start chose, because the
        checkpoint's layout depends on it."""
        with self._lock, self.state.transaction():
            found = self._note(_PARTITIONS)
            if found is None:
                self._set_note(_PARTITIONS, wanted)
            return wanted if found is None else int(found)

    # --- batches

    def _last_batch(self) -> int:
        found = self._note(_BATCH)
        return -1 if found is None else int(found)

    def write(
        self, checkpoint: str, batch: int, figures: BatchFigures, written: Written | None = None
    ) -> bool:
        """Write all that a batch changes, or nothing if it is already in the state; returns whether
        it was written.

        With a history, `written` lists the files that contain the batch's reports: they count from
        now on.
        """
        with self._lock, self.state.transaction():
            known = self._note(_CHECKPOINT)
            if known not in (None, checkpoint):
                raise StateError(
                    f"{self.state.path} was counted with another checkpoint: state and checkpoint"
                    " belong together"
                )
            last = self._last_batch()
            if batch <= last:
                return False
            if batch > last + 1:
                rule = "state and checkpoint belong together"
                raise StateError(
                    f"the checkpoint is at batch {batch}, and {self.state.path} at {last}: {rule}"
                )
            self.state.apply(Step(panes=figures.panes, ledger=figures.ledger, marks=figures.marks))
            if written is not None:
                add_files(self.state.connection, written.files)
                note_reports(self.state.connection, written.reports)
            self._take_in(figures)
            self._close_complete()
            self._revise()
            self._set_note(_CHECKPOINT, checkpoint)
            self._set_note(_BATCH, batch)
            self._meter.store(self.state.connection, self.clock())
            return True

    def answers(self, figures: BatchFigures) -> dict[int, float]:
        """How many answers of each size class a batch brought."""
        with self._lock:
            return self._meter.answers(
                figures.ledger, Catalogue.load(self.state.connection).channels
            )

    def took(self, answers: Mapping[int, float], seconds: float) -> None:
        """Record how long a batch took from beginning to end; it is stored with the next one."""
        with self._lock:
            self._meter.took(answers, seconds)

    def _take_in(self, figures: BatchFigures) -> None:
        run = self.state.connection.executemany
        run(
            "INSERT INTO spark_fronts VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET front = max(front,"
            " excluded.front)",
            [
                (signed(closed.channel), bucket, closed.epoch + 1)
                for bucket, closed in figures.closed
            ],
        )
        run(
            "INSERT OR IGNORE INTO spark_missing VALUES (?, ?, ?)",
            [
                (signed(closed.channel), closed.epoch, proxy)
                for _, closed in figures.closed
                for proxy in closed.missing
            ],
        )

    def _close_complete(self) -> None:
        """Close the epochs that every bucket has closed."""
        reached = dict(
            self.state.connection.execute(
                "SELECT channel, min(front) FROM spark_fronts GROUP BY channel HAVING count(*) = ?",
                (self.n_buckets,),
            ).fetchall()
        )
        fronts, firsts = self.state.fronts(), self.state.firsts()
        catalogue = Catalogue.load(self.state.connection) if reached else Catalogue()
        for tag, channel in catalogue.channels.items():
            for epoch in range(fronts[tag], reached.get(signed(tag), 0)):
                missing = self.state.connection.execute(
                    "SELECT proxy FROM spark_missing WHERE channel = ? AND epoch = ?",
                    (signed(tag), epoch),
                ).fetchall()
                proxies = [proxy for (proxy,) in missing]
                close_epoch(
                    self.state, channel, epoch, proxies, firsts[tag], self.clock(), self.limits
                )
        self.state.connection.execute(
            "DELETE FROM spark_missing WHERE EXISTS (SELECT 1 FROM channels WHERE channels.channel"
            " = spark_missing.channel AND epoch < front)"
        )

    def _revise(self) -> None:
        """Release early results that are due."""
        channels = [
            channel
            for channel in Catalogue.load(self.state.connection).channels.values()
            if channel.grace
        ]
        if channels:
            revise(self.state, channels, self.state.firsts(), self.clock(), self.limits.early)

    # --- what the driver asks

    def published_mark(self) -> tuple[int, int]:
        """A value that changes when a query is published or stopped."""
        with self._lock:
            n, stopped = self.state.connection.execute(
                "SELECT count(*), count(stopped) FROM queries"
            ).fetchone()
        return n, stopped

    def entries(self) -> list[Published]:
        """The queries that are published now."""
        with self._lock:
            return published(self.state.connection)

    def firsts(self) -> dict[int, int]:
        """For each channel, the first epoch that is counted."""
        with self._lock:
            return self.state.firsts()

    def settle_identities(self, identities: Mapping[int, str]) -> None:
        """Record which logs are read; refused if a log has been replaced by another since it was
        read."""
        with self._lock, self.state.transaction():
            for proxy, known in enumerate(self.state.identities()):
                if known is not None and identities.get(proxy, known) != known:
                    raise StateError(
                        f"the log of {self.state.proxies[proxy]} is not the one that was read"
                        " before"
                    )
            self.state.apply(Step(identities=dict(identities)))

    def order_overdue(self) -> bool:
        """Order the epochs that ended more than `patience` ago to be closed; returns whether any of
        these orders is new."""
        now = self.clock()
        with self._lock, self.state.transaction():
            fronts = self.state.fronts()
            channels = Catalogue.load(self.state.connection).channels.values()
            late = {
                channel.tag: overdue(channel, now, self.limits.patience) for channel in channels
            }
            return close_requests.add(
                self.state.connection, {tag: end for tag, end in late.items() if end > fronts[tag]}
            )

    def note_counted(self, entries: Iterable[Published]) -> None:
        """Let the relay know that these versions are counted from now on."""
        with self._lock, self.state.transaction():
            note_counted(self.state.connection, entries)

    def note_health(self, problem: str = "") -> list[ProxyHealth]:
        """Record how each proxy is doing, for health and metrics."""
        now = self.clock()
        with self._lock, self.state.transaction():
            connection = self.state.connection
            channels = list(Catalogue.load(connection).channels.values())
            firsts = self.state.firsts()
            marks = self.state.marks()
            totals: dict[int, int] = {}
            for proxy, outcome, n in connection.execute("SELECT proxy, outcome, n FROM totals"):
                totals[proxy] = totals.get(proxy, 0) + (n if outcome == "received" else -n)
            progress = []
            for proxy in range(len(self.state.proxies)):
                parts = range(self.n_buckets)
                marked = {
                    each.tag: min(marks.get((proxy, part, each.tag), 0) for part in parts)
                    for each in channels
                }
                progress.append(ProxyProgress(marked, totals.get(proxy, 0), problem=problem))
            health = health_report(self.state.proxies, progress, channels, firsts, self.limits, now)
            note_health(connection, health, problem, now)
            self._meter.store(connection, now)
            self._revise()  # a revision may be due while nothing arrives
        return health
