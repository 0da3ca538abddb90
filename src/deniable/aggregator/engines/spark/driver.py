"""Running the stream: start it from its checkpoint, follow what is published, close epochs that a
dead proxy keeps open."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deniable.aggregator.counting.catalogue import Published
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.spark import history as spark_history
from deniable.aggregator.engines.spark.pipeline import (
    BucketTask,
    bucket_keys,
    figures_of,
    own_session,
)
from deniable.aggregator.engines.spark.rows import REPORTS, figures
from deniable.aggregator.engines.spark.sink import Sink
from deniable.aggregator.engines.spark.sources import LogSource
from deniable.aggregator.history.file_catalogue import ensure_slice_key
from deniable.aggregator.history.maintenance import BATCH, remove_orphans
from deniable.aggregator.history.report_files import ReportFolder
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import State
from deniable.errors import DeniableError, MissingExtraError, ParameterError, ServiceError
from deniable.queries.schedule import Schedule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["Job", "aggregate"]

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 5.0
_IDLE = ("Waiting for data to arrive", "Waiting for next trigger")


@dataclass(frozen=True)
class Job:
    """What is aggregated, and where it is kept."""

    state: Path
    """The aggregator's state file, on the driver's own disk: what `deniable aggregator` serves."""
    proxies: Sequence[str]
    """Their names, as they appear in queries."""
    sources: Sequence[LogSource]
    """Their logs, in the same order."""
    checkpoint: str
    """A folder that driver and executors can reach. It belongs to the state: neither is of use
    without the other."""
    limits: EngineLimits = field(default_factory=EngineLimits)
    trigger: str = "1 second"
    """How often a batch is started."""
    history: HistorySettings | None = None
    """Where counted reports are kept, as Parquet (`deniable.aggregator.history`)."""
    shuffle_partitions: int | None = None
    """How many tasks count at the same time; by default one per core. Fixed by the first start."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Further Spark SQL settings for this stream."""

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.proxies) or len(self.sources) < 2:
            raise ParameterError(
                "sources",
                len(self.sources),
                f"must be one for each of {len(self.proxies)} proxies, at least 2",
            )
        sizes = {source.partitions for source in self.sources}
        if len(sizes) > 1:
            raise ParameterError("partitions", sorted(sizes), "must be the same for all proxies")
        if self.shuffle_partitions is not None and self.shuffle_partitions < 1:
            raise ParameterError(
                "shuffle_partitions", self.shuffle_partitions, "must be at least 1"
            )

    @property
    def partitions(self) -> int:
        """How many partitions every log has: the buckets."""
        return self.sources[0].partitions


def aggregate(
    spark: SparkSession,
    job: Job,
    *,
    available_now: bool = False,
    stop: threading.Event | None = None,
    now: int | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> None:
    """Count the proxies' logs into the state of a job, on any Spark, until `stop` is set or
    everything is counted.

    Answers are counted exactly once, whatever is killed and restarted. `available_now` counts what
    is in the logs at this moment, closes what is due, and returns. `watch` is called with the
    progress of every batch. `now` replaces the clock, for recorded logs. Only one call at a time
    may work on a state.
    """
    try:
        import google.protobuf  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - Spark needs it and does not install it
        import pyspark.sql.streaming.datasource  # noqa: F401, PLC0415 - an extra, new in Spark 4.2
    except ImportError as error:
        raise MissingExtraError(str(error.name), "spark", "aggregation on Spark") from None
    state = State(job.state, job.proxies)
    try:
        sink = Sink(
            state,
            job.partitions,
            job.limits,
            (lambda: int(time.time())) if now is None else (lambda: now),
        )
        if job.history is not None:
            with state.transaction():
                ensure_slice_key(state.connection)
            remove_orphans(state.connection, ReportFolder(job.history.folder), (BATCH,))
        run = _Run(spark, job, sink, stop or threading.Event(), now, watch or (lambda _: None))
        try:
            if available_now:
                run.drain()
            else:
                run.follow()
        except ServiceError as error:
            sink.note_health(str(error))
            raise
    finally:
        state.close()


class _Run:
    def __init__(
        self,
        spark: SparkSession,
        job: Job,
        sink: Sink,
        stop: threading.Event,
        now: int | None,
        watch: Callable[[dict[str, Any]], None],
    ) -> None:
        from deniable.aggregator.engines.spark.log_stream import Logs, data_source  # noqa: PLC0415 - needs the extra `spark`

        self.job, self.sink, self.stop, self.now, self.watch = job, sink, stop, now, watch
        self._failure: DeniableError | None = None
        self._seen = ("", -1)
        self._shares: dict[int, tuple[int, dict[int, float]]] = {}
        """How many shares came in batches that were not reported yet, and how many answers of each
        size class that is."""
        sink.settle_identities(
            {
                proxy: name
                for proxy, source in enumerate(job.sources)
                for name in [source.identity()]
                if name is not None
            }
        )
        cores = job.shuffle_partitions or min(spark.sparkContext.defaultParallelism, job.partitions)
        partitions = sink.settle_partitions(cores)
        self.spark = own_session(spark, partitions, dict(job.options))
        self._sources = [source.carried() for source in job.sources]
        logs = Logs(self._sources, bucket_keys(job.partitions, partitions), job.state.absolute())
        self.spark.dataSource.register(data_source(logs))

    # --- the stream

    @contextlib.contextmanager
    def _streaming(self, entries: Sequence[Published], **trigger: Any) -> Iterator[StreamingQuery]:
        """The stream, with these queries in the executors' catalogue."""
        job = self.job
        how: dict[str, Any] = {"keep_reports": job.history is not None, "now": self.now}
        task = BucketTask.of(
            entries, self.sink.firsts(), len(job.proxies), job.partitions, job.limits, **how
        )
        schedules = {
            (entry.query.id, entry.query.serial): entry.query.schedule for entry in entries
        }
        checkpoint: Future[str] = Future()
        self._failure = None

        def each(batch: DataFrame, number: int) -> None:
            try:
                self._write(batch, number, checkpoint.result(60), schedules)
            except DeniableError as error:
                self._failure = error
                raise

        rows = figures_of(self.spark, self._sources, task)
        writer = rows.writeStream.foreachBatch(each).option(
            "checkpointLocation", f"{job.checkpoint.rstrip('/')}/stream"
        )
        query = writer.trigger(**trigger).start()
        checkpoint.set_result(str(query.id))
        # Blocks of a new query are logged only after this, so no batch that started without it can
        # contain one.
        self.sink.note_counted(entries)
        try:
            yield query
        finally:
            query.stop()

    def _write(
        self,
        batch: DataFrame,
        number: int,
        checkpoint: str,
        schedules: Mapping[tuple[str, int], Schedule],
    ) -> None:
        # A batch that is already in the state is processed all the same: that is how Spark recovers
        # its own state.
        history, written = self.job.history, None
        if history is None:
            rows = batch.collect()
        else:
            batch = batch.persist()
            rows = batch.where(batch.kind != REPORTS).collect()
            kept = batch.where((batch.kind == REPORTS) & ~batch.query.isin(list(history.never)))
            written = spark_history.write(kept, history.folder, schedules)
            batch.unpersist()
        found = figures(rows)
        n_shares = sum(account.received for account in found.ledger.accounts.values())
        self._shares[number] = n_shares, self.sink.answers(found)
        if (
            not self.sink.write(checkpoint, number, found, written)
            and history is not None
            and written is not None
        ):
            for entry in written.files:  # the batch is already in the state, and so are its reports
                ReportFolder(history.folder).remove(entry.path)

    def _raise_failure(self, query: StreamingQuery) -> None:
        error = query.exception()
        if self._failure is not None:
            raise self._failure
        if error is not None:
            raise ServiceError(f"the stream ended: {_reason(str(error))}") from error

    def _tell(self, query: StreamingQuery) -> None:
        run, last = self._seen
        for progress in query.recentProgress:
            # only a sign of life: it has the number of the next batch
            if not progress["numInputRows"]:
                continue
            if progress["runId"] != run or progress["batchId"] > last:
                run, last = self._seen = (progress["runId"], progress["batchId"])
                n_shares, answers = self._shares.pop(last, (0, {}))
                self.sink.took(answers, progress["batchDuration"] / 1000)
                self.watch({**progress, "shares": n_shares})

    # --- two ways to run it

    def drain(self) -> None:
        """Count what is there, and close what is due."""
        while not self.stop.is_set():
            with self._streaming(self.sink.entries(), availableNow=True) as query:
                while not self.stop.is_set() and not _ended(query):
                    self._tell(query)
                self._raise_failure(query)
                self._tell(query)
            if not self.sink.order_overdue():
                break
        self.sink.note_health()

    def follow(self) -> None:
        """Count what arrives, until it is time to stop."""
        while not self.stop.is_set():
            mark, entries = self.sink.published_mark(), self.sink.entries()
            with self._streaming(entries, processingTime=self.job.trigger) as query:
                idle, reported = 0, 0.0
                while (
                    query.isActive
                    and self.sink.published_mark() == mark
                    and not self.stop.wait(_SECONDS_BETWEEN_LOOKS)
                ):
                    self._tell(query)
                    status = query.status
                    idle = (
                        idle + 1
                        if status["message"] in _IDLE and not status["isDataAvailable"]
                        else 0
                    )
                    if idle > 1:  # an aggregator that has not caught up does not blame the proxies
                        self.sink.order_overdue()
                    if time.monotonic() - reported > _SECONDS_BETWEEN_SIGNS_OF_LIFE:
                        self.sink.note_health()
                        reported = time.monotonic()
                self._raise_failure(query)
        self.sink.note_health()


def _ended(query: StreamingQuery) -> bool:
    """Whether a stream has ended, normally or not; waits a second for it. The error, if any, is
    fetched later."""
    from pyspark.errors import StreamingQueryException  # noqa: PLC0415 - an extra

    try:
        return bool(query.awaitTermination(1))
    except StreamingQueryException:
        return True


def _reason(text: str) -> str:
    """Why a stream ended: the last message of one of our own processes, or else the first line of
    Spark's message."""
    ours = re.findall(r"^(?:[\w.]*: )?deniable\.errors\.\w+: (.+)$", text, re.MULTILINE)
    lines = ours[-1:] or [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "it did not say why"
