"""Logs as Spark's driver cuts them and as buckets fetch them: files, offsets of a topic, and
orders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.spark import FileSource, KafkaSource, close_requests
from deniable.aggregator.engines.spark.driver import _reason
from deniable.aggregator.engines.spark.log_stream import ORDERS, Logs
from deniable.aggregator.engines.spark.sink import Sink
from deniable.aggregator.engines.spark.sources import _views
from deniable.aggregator.state import State
from deniable.errors import LogError
from deniable.logs.kafka_settings import KafkaSettings
from toolkit.crowds import ORIGIN, Crowd

KINDS = pa.schema({"partition": pa.int32(), "offset": pa.int64(), "value": pa.binary()}.items())


def write(
    path: Path, *groups: list[tuple[int | None, int, bytes | None]], kinds: Any = KINDS, **how: Any
) -> None:
    with pq.ParquetWriter(path, kinds, **how) as writer:
        for group in groups:
            rows = [dict(zip(kinds.names, row, strict=True)) for row in group]
            writer.write_table(pa.Table.from_pylist(rows, schema=kinds))


def fetched(source: FileSource, partition: int, span: str) -> list[tuple[int, bytes]]:
    return [(offset, bytes(value)) for offset, value in source.fetch(partition, span)]


# --- files


@pytest.mark.parametrize("how", [{}, {"write_statistics": False}])
def test_a_partition_s_records_are_found_however_files_are_laid_out(
    how: dict[str, Any], tmp_path: Path
) -> None:
    # a group a partition
    write(
        tmp_path / "1.parquet", [(0, 0, b"a"), (0, 1, b"bc")], [(1, 2, b"d")], [(2, 3, b"")], **how
    )
    # all in one
    write(
        tmp_path / "2.parquet", [(1, 4, b"e"), (0, 5, None), (3, 6, b"f"), (1, 7, b"gh")], [], **how
    )
    large = pa.schema([KINDS.field(0), KINDS.field(1), pa.field("value", pa.large_binary())])
    write(tmp_path / "3.parquet", [(0, 8, b"ijk"), (1, 9, b"l")], kinds=large, **how)
    expected = {
        0: [(0, b"a"), (1, b"bc"), (5, b""), (8, b"ijk")],
        1: [(2, b"d"), (4, b"e"), (7, b"gh"), (9, b"l")],
    }
    expected |= {2: [(3, b"")], 3: [(6, b"f")]}
    for folder in (str(tmp_path), tmp_path.as_uri()):
        source = FileSource(folder, 4)
        spans = source.spans(source.first(), source.last())
        assert {
            partition: fetched(source, partition, span) for partition, span in spans
        } == expected


def test_views_are_of_the_part_of_an_array_that_is_asked_for() -> None:
    values = pa.array([b"a", b"bc", None, b"", b"def"])
    assert [bytes(view) for view in _views(values[1:])] == [b"bc", b"", b"", b"def"]
    assert _views(values[:0]) == []


def test_files_are_read_in_the_order_of_their_names_and_no_further_than_a_batch_goes(
    tmp_path: Path,
) -> None:
    for name in ("b", "a", "d", "c", ".hidden", "_temporary"):
        write(tmp_path / f"{name}.parquet", [(0, 0, b"")])
    (tmp_path / "notes.txt").write_text("nothing to read")
    source = FileSource(str(tmp_path), 1, files_a_batch=3)
    last = source.last()
    write(tmp_path / "e.parquet", [(0, 0, b"")])  # after it was asked how far the log reaches
    seen, place = [], source.first()
    while (following := source.step(place, last)) != place:
        ((partition, span),) = source.spans(place, following)
        assert source.spans(place, following) == [(partition, span)]
        seen.append(json.loads(span))
        place = following
    assert seen == [["a.parquet", "b.parquet", "c.parquet"], ["d.parquet"]]
    assert source.spans(place, place) == []
    assert source.step(place, source.last()) == {"file": "e.parquet", "files": 5}


def test_a_file_that_comes_too_late_or_is_gone_is_told(tmp_path: Path) -> None:
    source = FileSource(str(tmp_path), 1)
    assert source.last() == source.first() == source.step(source.first(), source.last())
    write(tmp_path / "b.parquet", [(0, 0, b"")])
    place = source.last()
    write(tmp_path / "c.parquet", [(0, 0, b"")])
    write(tmp_path / "a.parquet", [(0, 0, b"")])
    with pytest.raises(
        LogError,
        match=(
            r"holds 2 files up to b.parquet: files must come in the order of their names, and 1"
            r" were"
        ),
    ):
        source.step(place, source.last())
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "b.parquet").unlink()  # what was read may be cleared away
    end = source.step(place, source.last())
    (tmp_path / "c.parquet").unlink()
    with pytest.raises(LogError, match=r"no longer has the files that came after b\.parquet"):
        source.spans(place, end)
    with pytest.raises(LogError, match="cannot be read: FileNotFoundError"):
        FileSource(str(tmp_path / "nowhere")).last()


@pytest.mark.parametrize("how", [{}, {"write_statistics": False}])
@pytest.mark.parametrize("astray", [2, -1, None])
def test_a_record_of_a_partition_that_there_is_not_is_told_and_not_passed_over(
    astray: int | None, how: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path / "a.parquet", [(0, 0, b"")], [(1, 1, b""), (astray, 2, b"")], **how)
    with pytest.raises(
        LogError,
        match=(
            rf"a.parquet in .* holds records of partition {-1 if astray is None else astray}, but"
            r" there are 2 partitions"
        ),
    ):
        list(FileSource(str(tmp_path), 2).fetch(0, '["a.parquet"]'))


def test_a_folder_is_named_so_that_every_process_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert FileSource("logs/one").carried() == FileSource(str(tmp_path / "logs" / "one"))
    assert FileSource("s3://bucket/one").carried() == FileSource("s3://bucket/one")


def test_a_log_that_was_made_anew_in_the_same_place_is_read_anew(tmp_path: Path) -> None:
    source = FileSource(str(tmp_path), 2)
    old: list[list[tuple[int | None, int, bytes | None]]] = [[(0, 0, b"old")], [(1, 1, b"old")]]
    for rows in (old, [[(1, 0, b"new"), (0, 1, b"and longer")]]):
        write(tmp_path / "a.parquet", *rows)
        assert fetched(source, 1, '["a.parquet"]') == [
            (offset, value) for row in rows for bucket, offset, value in row if bucket
        ]


def test_what_is_no_log_is_named_and_not_shown(tmp_path: Path) -> None:
    source = FileSource(str(tmp_path), 1)
    (tmp_path / "a.parquet").write_bytes(b"secret bytes")
    pq.write_table(pa.table({"partition": [0], "wrong": [b"secret bytes"]}), tmp_path / "b.parquet")
    for name in ("a.parquet", "b.parquet"):
        with pytest.raises(LogError, match=rf"{name} in .* cannot be read as a log: \w+$"):
            list(source.fetch(0, json.dumps([name])))


# --- offsets of a topic


def place(*offsets: int, topic: str = "id") -> dict[str, Any]:
    return {"topic": topic, "offsets": list(offsets)}


@pytest.mark.parametrize(
    ("most", "start", "last", "end"),
    [
        (100, (0, 5, 9), (3, 5, 20), (3, 5, 20)),
        (7, (0, 5, 9), (3, 5, 20), (2, 5, 15)),  # 3 and 11 ahead: a half of each, rounded up
        (1, (0, 5, 9), (3, 5, 20), (1, 5, 10)),
        (4, (2, 2), (2, 2), (2, 2)),
    ],
)
def test_a_batch_takes_of_each_partition_as_it_is_behind(
    most: int, start: tuple[int, ...], last: tuple[int, ...], end: tuple[int, ...]
) -> None:
    source = KafkaSource(KafkaSettings("nowhere:1", "shares"), most)
    assert source.step(place(*start), place(*last)) == place(*end)


def test_spans_are_of_partitions_that_have_something_new() -> None:
    source = KafkaSource(KafkaSettings("nowhere:1", "shares"))
    assert source.spans(place(0, 5, 9), place(2, 5, 10)) == [(0, "[0, 2]"), (2, "[9, 10]")]


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (
            place(9, 9, topic="other"),
            "the topic shares was deleted and made again after it was read",
        ),
        (place(9, 9, 9, 9), "the topic shares has 4 partitions, and had 2 when it was read"),
        (place(9, 3), "partition 1 of the topic shares ends at offset 3, before 4"),
    ],
)
def test_another_topic_than_the_one_that_was_read_is_refused(
    last: dict[str, Any], reason: str
) -> None:
    with pytest.raises(LogError, match=reason):
        KafkaSource(KafkaSettings("nowhere:1", "shares")).step(place(4, 4), last)


# --- all logs, and orders


def test_a_batch_is_what_is_new_in_each_log_and_orders_that_are_new_for_all_buckets(
    tmp_path: Path,
) -> None:
    for name in "01":
        (tmp_path / name).mkdir()
    both = Logs(
        [FileSource(str(tmp_path / name), 2) for name in "01"], (70, 80), tmp_path / "state.db"
    )
    state = State(tmp_path / "state.db", ["one", "two"])
    write(tmp_path / "1" / "a.parquet", [(0, 0, b"")])
    start, end = both.first(), both.step(both.first(), both.last())
    files = '["a.parquet"]'
    assert both.references(start, end) == [(70, 0, 1, files), (80, 1, 1, files)]
    big = (1 << 64) - 1
    assert [
        close_requests.add(state.connection, due)
        for due in ({big: 3, 7: 1}, {big: 3}, {big: 2}, {7: 2})
    ] == [1, 0, 0, 1]
    following = both.step(json.loads(json.dumps(end)), both.last())
    assert following["orders"] == {str(big): 3, "7": 2}
    told = [
        (key, bucket, proxy, json.loads(span))
        for key, bucket, proxy, span in both.references(end, following)
    ]
    assert told == [(70, 0, ORDERS, following["orders"]), (80, 1, ORDERS, following["orders"])]
    # after the batch was cut: not in it, whenever it is run
    close_requests.add(state.connection, {7: 9})
    assert [json.loads(span) for *_, span in both.references(end, following)] == [
        following["orders"]
    ] * 2
    latest = both.step(following, both.last())
    assert {span for *_, span in both.references(following, latest)} == {'{"7": 9}'}
    assert both.step(latest, both.last()) == latest
    state.close()


def test_orders_wait_until_all_that_is_logged_was_read(tmp_path: Path) -> None:
    """Else an epoch is closed for want of shares that stand in the log."""
    for name in "01":
        (tmp_path / name).mkdir()
    both = Logs(
        [FileSource(str(tmp_path / name), 1, files_a_batch=1) for name in "01"],
        (70,),
        tmp_path / "state.db",
    )
    state = State(tmp_path / "state.db", ["one", "two"])
    for name in ("0/a", "1/a", "1/b", "1/c"):
        write(tmp_path / f"{name}.parquet", [(0, 0, b"")])
    close_requests.add(state.connection, {7: 1})
    at, found = both.first(), []
    for _ in range(4):
        at = both.step(at, both.last())
        found.append((at["logs"][1]["file"], at["orders"]))
        for file in (tmp_path / "1").glob("a.parquet"):
            file.unlink()  # what was read may be cleared away
    assert [file for file, _ in found] == ["a.parquet", "b.parquet", "c.parquet", "c.parquet"]
    assert [given for _, given in found] == [{}, {}, {"7": 1}, {"7": 1}]
    state.close()


def test_an_epoch_is_ordered_to_close_once_patience_is_over(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    crowd.engine().state.connection.execute("DELETE FROM meta WHERE name = 'engine'")
    assert crowd.state is not None
    now = [ORIGIN + 60 + 299]
    sink = Sink(crowd.state, 4, EngineLimits(patience=300), lambda: now[0])
    assert not sink.order_overdue()
    now[0] += 1
    assert [sink.order_overdue(), sink.order_overdue()] == [True, False]
    assert close_requests.pending(tmp_path / "state.db") == {str(crowd.query.channel_tag): 1}
    crowd.close_all()


def test_why_a_stream_ended_is_what_we_said_or_what_spark_says_first() -> None:
    trace = (
        '[STREAM_FAILED] Query terminated\n  File "x.py", line 3\ndeniable.errors.LogError: the'
        " topic is gone\n\n\tat org.apache"
    )
    assert _reason(trace) == "the topic is gone"
    assert (
        _reason("\n [STREAM_FAILED] Query terminated\n at org.apache")
        == "[STREAM_FAILED] Query terminated"
    )
    assert _reason("") == "it did not say why"
