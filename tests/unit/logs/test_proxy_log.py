"""The proxy's log: offsets without gaps, marks that never go back, all of an append or nothing, and
dropping what is old."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from deniable.errors import LogError
from deniable.logs.schema import LOG
from deniable.logs.sqlite_log import BlockLog, LogReader
from deniable.wire.blocks import Block, cut

CHANNEL = 0xFEDC_BA98_7654_3210  # does not fit in a signed 64-bit integer


def blocks_of(
    n_rows: int, epoch: int = 3, channel: int = CHANNEL, prefix_bits: int = 2
) -> list[Block]:
    rows = np.random.default_rng(n_rows).integers(0, 1 << 64, (8, n_rows), dtype=np.uint64)
    return cut(channel, epoch, 0, rows, prefix_bits)[0]


@pytest.fixture
def log(tmp_path: Path) -> BlockLog:
    return BlockLog(tmp_path / "log.db")


def test_a_reader_gets_the_bytes_that_were_appended_in_order_and_without_gaps(
    log: BlockLog,
) -> None:
    written = [blocks_of(100), blocks_of(50, epoch=4)]
    for blocks in written:
        log.append(blocks, now=1)
    reader = LogReader(log.path)
    seen = []
    after = 0
    while page := reader.read(after, limit=3):
        seen += page
        after = page[-1].offset
    assert [record.offset for record in seen] == list(range(1, 9))
    assert [record.block for record in seen] == [
        block.to_bytes() for blocks in written for block in blocks
    ]
    assert after == reader.end == log.end


def test_a_reader_sees_what_is_appended_while_it_is_open(log: BlockLog) -> None:
    reader = LogReader(log.path)
    assert reader.read(0) == []
    log.append(blocks_of(10, prefix_bits=0), now=1)
    assert [offset for offset, _ in reader.read(0)] == [1]


def test_a_mark_stands_at_the_end_of_the_log_and_never_goes_back(log: BlockLog) -> None:
    log.append(blocks_of(100), now=10, marks={CHANNEL: 4})
    log.append(blocks_of(100, epoch=5), now=20)
    log.append([], now=30, marks={CHANNEL: 2, 1: 9})
    marks = LogReader(log.path).marks()
    assert marks[CHANNEL] == (CHANNEL, 4, 4, 10)
    assert marks[1] == (1, 9, 8, 30)


def test_an_append_that_fails_leaves_no_blocks_and_no_mark(log: BlockLog) -> None:
    log.append(blocks_of(10), now=1, segment=5)
    with pytest.raises(sqlite3.IntegrityError):
        log.append(blocks_of(20), now=2, segment=5, marks={CHANNEL: 9})
    assert log.end == 4
    assert log.marks() == {}
    log.append(blocks_of(20), now=2, segment=6)
    assert [record.offset for record in log.read(0)] == list(range(1, 9))


def test_what_was_moved_is_known_after_reopening_until_it_is_forgotten(log: BlockLog) -> None:
    log.append(blocks_of(10), now=1, segment=1 << 40)
    log.append(blocks_of(10), now=1, segment=7)
    log.close()
    again = BlockLog(log.path)
    assert again.moved() == {7, 1 << 40}
    again.append([], now=2, forget=[7])
    assert again.moved() == {1 << 40}


def test_old_blocks_of_closed_epochs_are_dropped_in_bounded_steps_and_a_slow_reader_is_told(
    log: BlockLog,
) -> None:
    log.append(blocks_of(100, epoch=1), now=10, marks={CHANNEL: 2})  # closed
    log.append(blocks_of(100, epoch=2), now=20)  # still open
    log.append(blocks_of(100, epoch=1), now=30)
    assert [log.drop_before(100, most=3) for _ in range(3)] == [3, 1, 0]
    assert log.dropped == 4
    assert [record.offset for record in LogReader(log.path).read(4)] == list(range(5, 13))
    with pytest.raises(LogError, match="begins after offset 4"):
        LogReader(log.path).read(3)


def test_young_blocks_are_kept(log: BlockLog) -> None:
    log.append(blocks_of(100, epoch=1), now=10, marks={CHANNEL: 2})
    assert log.drop_before(10) == 0
    assert log.drop_before(11) == 4


def test_offsets_go_on_after_everything_was_dropped(log: BlockLog) -> None:
    log.append(blocks_of(100, epoch=1), now=10, marks={CHANNEL: 2})
    log.drop_before(99)
    log.close()
    again = BlockLog(log.path)
    assert again.end == 4
    assert again.append(blocks_of(100), now=99) == 8


def test_an_offset_beyond_the_end_is_taken_for_another_log(log: BlockLog) -> None:
    with pytest.raises(LogError, match="not the log that was read before"):
        log.read(1)


def test_blocks_of_open_epochs_are_found_whatever_stands_between_them(log: BlockLog) -> None:
    for epoch in (1, 2, 1, 3):
        log.append(blocks_of(40, epoch=epoch), now=1)
    log.append(blocks_of(40, epoch=1, channel=CHANNEL + 1), now=1)
    log.append([], now=1, marks={CHANNEL: 2})
    found = [(block.channel, block.epoch) for block in log.open_blocks() for _ in range(len(block))]
    assert sorted(found) == [(CHANNEL, 2)] * 40 + [(CHANNEL, 3)] * 40 + [(CHANNEL + 1, 1)] * 40
    assert log.closed() == {CHANNEL: 2}


def test_a_newer_schema_is_refused_by_writer_and_reader(log: BlockLog) -> None:
    log.close()
    with sqlite3.connect(log.path) as connection:
        connection.execute(f"PRAGMA user_version = {LOG.version + 1}")
    for opened in (BlockLog, LogReader):
        with pytest.raises(LogError, match="was written by a newer release"):
            opened(log.path)


def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "text.db", tmp_path / "other.db"
    text.write_text("not a database, but longer than a header of one would be: " * 20)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(LogError, match="is not a proxy's log"):
            BlockLog(path)
        assert path.read_bytes() == before
    with pytest.raises(LogError, match="is not there"):
        LogReader(tmp_path / "none.db")


def test_a_log_is_readable_by_its_owner_alone_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    one, two = BlockLog(tmp_path / "one.db"), BlockLog(tmp_path / "two.db")
    assert one.path.stat().st_mode & 0o777 == 0o600
    assert one.identity != two.identity
    assert LogReader(one.path).identity == one.identity
