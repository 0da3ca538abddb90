"""What Spark's pipeline holds to besides the counts: bounded memory, batches written once, a
state's checkpoint, history."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.engines.external import ExternalEngineStatus, counted_versions
from deniable.aggregator.engines.spark import FileSource, Job, KafkaSource, aggregate
from deniable.aggregator.engines.spark.log_stream import Logs, data_source
from deniable.aggregator.engines.spark.pipeline import BucketTask, bucket_keys, figures_of
from deniable.aggregator.engines.spark.rows import BatchFigures
from deniable.aggregator.engines.spark.sink import Sink
from deniable.aggregator.history.answer import HistoryReader
from deniable.aggregator.history.file_catalogue import snapshot
from deniable.aggregator.history.maintenance import HistoryMaintainer
from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import State, connect
from deniable.errors import ParameterError, ServiceError, StateError
from deniable.logs.kafka_settings import KafkaSettings
from deniable.queries.schedule import Schedule
from deniable.wire.blocks import cut
from deniable.wire.marks import MarkRecord
from toolkit.crowds import ORIGIN, minute_query
from toolkit.histories import EVERYTHING, filed_rows, stored_counts
from toolkit.servers.sparks import SparkCrowd, state_contents


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[SparkCrowd]:
    crowd = SparkCrowd(tmp_path)
    yield crowd
    crowd.close_all()


def test_what_is_kept_is_bounded_by_open_epochs_and_not_by_the_stream(
    crowd: SparkCrowd, spark: Any
) -> None:
    """Ten epochs, one a batch, of 2,000 answers and 100 shares that stay alone; each is marked one
    batch after it."""
    crowd.publish_to_spark()
    tag, size_class = crowd.query.channel_tag, crowd.query.size_class or 0
    for epoch in range(10):
        shares, alone = crowd.split([1] * 2000, epoch), crowd.split([1] * 100, epoch)
        for proxy, log in enumerate(crowd.recorded):
            rows = np.concatenate(
                [shares[proxy], alone[0][:, :50] if proxy else alone[0][:, 50:]], axis=1
            )
            log.append_blocks(cut(tag, epoch, size_class, rows, 2)[0], MarkRecord(tag, epoch))
    crowd.now = ORIGIN + 10 * 60
    sources = [
        FileSource(str(log.folder), log.partitions, files_a_batch=1) for log in crowd.recorded
    ]
    batches, shares = list[int](), list[int]()

    def watch(progress: dict[str, Any]) -> None:
        batches.append(progress["batchId"])
        shares.append(progress["shares"])

    aggregate(spark, crowd.job(sources=sources), available_now=True, now=crowd.now, watch=watch)
    assert sum(row[4] for row in state_contents(crowd.spark_state)["panes"]) == 10 * 2000
    assert batches == list(range(10))
    assert shares == [2 * 2050] * 10
    aggregate(spark, crowd.job(sources=sources), available_now=True, now=crowd.now, watch=watch)
    assert len(batches) == 10  # there was nothing, so there was no batch
    # Of the one epoch that is open: 2,000 ids of 16 bytes and 100 shares of 64, a third more in
    # base64, and a header a bucket.
    sizes = [state_bytes(spark, crowd.checkpoint, batch) for batch in (0, 4, 9)]
    assert all(4 / 3 * (2000 * 16 + 100 * 64) < size < 60_000 for size in sizes)


def state_bytes(spark: Any, checkpoint: str, batch: int) -> int:
    """What Spark's state holds of buckets after a batch."""
    reader = spark.read.format("statestore").option("batchId", batch)
    parts = (("log", "user_map_value.content"), ("head", "value.content"))
    found = [
        reader.option("stateVarName", name).load(f"{checkpoint}/stream").select(column).collect()
        for name, column in parts
    ]
    return sum(len(row.content) for rows in found for row in rows)


def test_a_query_that_is_published_while_the_stream_runs_is_counted_and_acknowledged(
    crowd: SparkCrowd, spark: Any
) -> None:
    crowd.now = int(time.time())
    origin = crowd.now // 60 * 60
    schedule = dataclasses.replace(crowd.query.schedule, origin=origin, expires=origin + 86400)
    crowd.query = minute_query(schedule=schedule)
    State(crowd.spark_state, crowd.query.proxies).close()
    stop, failures = threading.Event(), []

    def run() -> None:
        try:
            aggregate(spark, crowd.job(trigger="0 seconds"), stop=stop)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    connection = connect(crowd.spark_state)
    try:
        _wait(
            lambda: (
                connection.execute("SELECT 1 FROM meta WHERE name = 'engine_counts'").fetchone()
                is not None
            ),
            thread,
        )
        assert counted_versions(connection) == set()
        publish_beside(crowd)
        _wait(lambda: counted_versions(connection) == {(crowd.query.id, 1)}, thread)
        crowd.answer([2] * 30)  # a proxy shows the query to devices only now
        _wait(lambda: connection.execute("SELECT sum(n) FROM panes").fetchone() == (30,), thread)
        elsewhere = ExternalEngineStatus(lambda: int(time.time()))
        elsewhere.look(connection)
        assert (elsewhere.problem, [each.condition for each in elsewhere.health]) == (
            "",
            ["up", "up"],
        )
        late = ExternalEngineStatus(lambda: int(time.time()) + 3600)
        late.look(connection)
        assert "no sign of life" in late.problem
    finally:
        stop.set()
        thread.join(60)
        connection.close()
    assert failures == []


def publish_beside(crowd: SparkCrowd) -> None:
    """As the service does: on a connection of its own, while the driver has the state."""
    from deniable.aggregator.counting.catalogue import publish  # noqa: PLC0415 - beside its only use
    from deniable.queries.signed.signing import sign  # noqa: PLC0415
    from toolkit.crowds import KEY, RING  # noqa: PLC0415

    connection = connect(crowd.spark_state)
    connection.execute("BEGIN IMMEDIATE")
    publish(connection, sign(crowd.query, KEY), RING, crowd.query.proxies, crowd.now)
    connection.execute("COMMIT")
    connection.close()


def _wait(what: Any, thread: threading.Thread, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_history_gives_the_estimate_of_the_window_and_its_order_says_nothing(
    tmp_path: Path, spark: Any
) -> None:
    crowd = SparkCrowd(
        tmp_path,
        minute_query(mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5}, minimum_cohort=500),
    )
    crowd.publish_to_spark()
    engine = crowd.engine()
    rng = np.random.default_rng(5)
    crowd.now = ORIGIN + 170
    settings = HistorySettings(str(tmp_path / "history"))
    for epoch in range(3):
        crowd.answer(rng.integers(0, 12, 300).tolist(), epoch)
        crowd.answer([3] * 7, epoch, proxies=[0])  # never complete: not in the history
        crowd.mark(epoch + 1)
        if epoch:
            crowd.drain_spark(spark, history=settings)
    engine.drain()
    (window,) = crowd.windows()
    assert crowd.state is not None
    assert window.estimate is not None
    counted = crowd.state.panes(crowd.query.id, EVERYTHING)
    connection = connect(crowd.spark_state)
    keeper = HistoryMaintainer(connection, settings, lambda: crowd.now, own_batches=False)
    assert len(snapshot(connection, crowd.query.id, EVERYTHING).files) > 1
    for _ in range(2):  # as Spark wrote them, and merged
        assert stored_counts(connection, keeper, [crowd.query]) == counted
        crowd.now += 2 * 86400
        keeper.compact()
    assert len(snapshot(connection, crowd.query.id, EVERYTHING).files) == 1
    answer = HistoryReader(keeper.folder, lambda: connect(crowd.spark_state), [crowd.query]).answer(
        HistoryRequest()
    )
    assert answer["estimate"] == window.estimate.proportions.tolist()
    assert answer["low"] == window.estimate.interval()[:, 0].tolist()
    for table in filed_rows(tmp_path / "history"):
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert rows == sorted(rows)
    connection.close()
    crowd.close_all()


def test_late_answers_revise_the_windows_of_both_engines_alike(tmp_path: Path, spark: Any) -> None:
    hourly = Schedule(ORIGIN, ORIGIN + 10 * 86400, 3600, 3600, 3600)
    crowd = SparkCrowd(tmp_path, minute_query(schedule=hourly, grace="3 d", minimum_cohort=50))
    crowd.publish_to_spark()
    engine = crowd.engine()
    rng = np.random.default_rng(6)
    values = rng.integers(0, 12, 270)
    for after, n in ((3600 + 700, 200), (2 * 86400, 70), (3600 + 3 * 86400, 0)):
        crowd.now = ORIGIN + after
        if n:
            crowd.answer(values[:200].tolist() if n == 200 else values[200:].tolist(), 0)
            crowd.answer([3] * 5, 0, proxies=[0])  # wait for ever
        else:
            crowd.mark(1)
        engine.drain()
        crowd.drain_spark(spark)
    found = crowd.windows()
    assert [(each.index, each.revision, each.final, each.n) for each in found] == [
        (0, 0, False, 200),
        (0, 1, False, 270),
        (0, 2, True, 270),
    ]
    estimate = found[-1].estimate
    assert estimate is not None
    assert np.allclose(estimate.proportions, np.bincount(values, minlength=12) / 270, atol=1e-9)
    assert [each.conservation["proxies"][crowd.query.proxies[0]]["waiting"] for each in found] == [
        5,
        10,
        0,
    ]
    contents = state_contents(crowd.spark_state)
    crowd.close_all()
    assert contents == state_contents(tmp_path / "state.db")


def sink_of(crowd: SparkCrowd) -> Sink:
    return Sink(State(crowd.spark_state, crowd.query.proxies), 4, EngineLimits(), lambda: crowd.now)


def test_a_batch_is_written_once_and_only_with_its_checkpoint(crowd: SparkCrowd) -> None:
    crowd.publish_to_spark()
    figures = BatchFigures()
    figures.ledger.enter((0, crowd.query.channel_tag, 0), "received", 5)
    sink = sink_of(crowd)
    assert [
        sink.write("one", 0, figures),
        sink.write("one", 0, figures),
        sink.write("one", 1, figures),
    ] == [True, False, True]
    with pytest.raises(StateError, match="another checkpoint"):
        sink.write("two", 2, figures)
    with pytest.raises(StateError, match="the checkpoint is at batch 7"):
        sink.write("one", 7, figures)
    sink.state.close()
    assert state_contents(crowd.spark_state)["totals"] == [(0, "received", 10)]
    state = State(crowd.spark_state, crowd.query.proxies)
    with pytest.raises(
        StateError, match="was counted in 4 buckets, and the proxies' logs have 8 partitions"
    ):
        Sink(state, 8, EngineLimits(), lambda: crowd.now)
    state.close()


def test_one_engine_has_a_state_for_itself(crowd: SparkCrowd) -> None:
    sink = sink_of(crowd)
    with pytest.raises(StateError, match="belongs to engine 'spark'"):
        Engine(sink.state, [object(), object()])  # type: ignore[list-item]
    sink.state.close()
    engine = crowd.engine()
    with pytest.raises(StateError, match="belongs to engine 'embedded'"):
        Sink(engine.state, 4, EngineLimits(), lambda: crowd.now)


def test_another_log_in_the_place_of_the_one_that_was_read_is_refused(crowd: SparkCrowd) -> None:
    sink = sink_of(crowd)
    sink.settle_identities({0: "a", 1: "b"})
    sink.settle_identities({0: "a"})
    with pytest.raises(StateError, match="is not the one that was read before"):
        sink.settle_identities({0: "a", 1: "c"})
    sink.state.close()


def test_a_job_needs_a_log_for_each_proxy_and_as_many_partitions_in_each(tmp_path: Path) -> None:
    def job(*partitions: int) -> Job:
        sources = [FileSource(str(tmp_path), n) for n in partitions]
        return Job(tmp_path / "state.db", ["one", "two"], sources, str(tmp_path / "checkpoint"))

    assert job(8, 8).partitions == 8
    with pytest.raises(ParameterError, match="must be one for each of 2 proxies"):
        job(4)
    with pytest.raises(ParameterError, match="must be the same for all proxies"):
        job(4, 8)
    with pytest.raises(ParameterError, match="must be a power of two"):
        job(6, 6)


def test_a_stream_that_ends_by_itself_says_why_in_one_line(crowd: SparkCrowd, spark: Any) -> None:
    crowd.publish_to_spark()
    broken = crowd.recorded[0].folder / "broken.parquet"
    broken.write_bytes(b"this is no Parquet file")
    with pytest.raises(
        ServiceError, match=r"^the stream ended: broken.parquet in .* cannot be read as a log: \w+$"
    ):
        aggregate(spark, crowd.job(), available_now=True, now=ORIGIN)
    broken.unlink()  # it is in a batch that has begun
    with pytest.raises(
        ServiceError,
        match=r"^the stream ended: .* no longer has the files that came after its beg\w+$",
    ):
        aggregate(spark, crowd.job(), available_now=True, now=ORIGIN)


def test_secrets_of_kafka_are_in_no_plan(
    tmp_path: Path, spark: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "password").write_text("open sesame")
    settings = KafkaSettings(
        "nowhere.example:9092", "shares", secrets={"sasl.password": f"file:{tmp_path / 'password'}"}
    )
    sources = [KafkaSource(settings).carried() for _ in range(2)]
    assert sources[0].settings.client()["sasl.password"] == "open sesame"
    session = spark.newSession()
    session.dataSource.register(data_source(Logs(sources, [0], tmp_path / "state.db")))
    figures_of(session, sources, BucketTask((), (), 2, 0, EngineLimits(), False)).explain(
        extended=True
    )
    shown = "".join(capfd.readouterr())
    assert "deniable_logs" in shown
    assert "open sesame" not in shown


def test_keys_bring_buckets_to_the_partitions_they_are_made_for(spark: Any) -> None:
    """Spark's own hash is asked, for that is what its shuffle goes by."""
    for buckets, partitions in ((16, 2), (64, 16), (5, 3)):
        keys = bucket_keys(buckets, partitions)
        assert len(set(keys)) == buckets
        places = (
            spark.createDataFrame([(key,) for key in keys], "key int")
            .selectExpr(f"pmod(hash(key), {partitions}) AS place")
            .collect()
        )
        assert [row.place for row in places] == [bucket % partitions for bucket in range(buckets)]


def test_a_state_store_without_parts_is_refused(crowd: SparkCrowd, spark: Any) -> None:
    crowd.publish_to_spark()
    name = "spark.sql.streaming.stateStore.providerClass"
    on_heap = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    with pytest.raises(ParameterError, match=f"{name}.*must be RocksDB's"):
        aggregate(spark, crowd.job(options={name: on_heap}), available_now=True, now=ORIGIN)
