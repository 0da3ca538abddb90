"""A log that is away: shares are taken and kept until they are too many, and none is lost or
repeated when it is back."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.errors import LogAwayError, LogError, RefusedError
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.proxy.intake.worker import IntakeWorker
from deniable.queries.channels import channels_of
from deniable.wire.blocks import Block
from toolkit.queries import make_query
from toolkit.shares import Words, body_of, make_columns

QUERY = make_query()
EPOCH = 1000
START = QUERY.schedule.start_of_epoch(EPOCH)


class FarLog(BlockLog):
    """A log behind a line that can fail: before what is asked for arrives, or before the answer
    comes back."""

    partition_bits = 3

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.fails: str | None = None
        self.largest = 0

    def append(
        self,
        blocks: Iterable[Block],
        now: int,
        segment: int | None = None,
        marks: Mapping[int, int] | None = None,
        forget: Iterable[int] = (),
    ) -> int:
        blocks = list(blocks)
        if self.fails == "before":
            raise LogAwayError("nobody answers")
        if self.fails == "fenced":
            raise LogError("another proxy writes to it")
        self.largest = max(self.largest, sum(len(block) for block in blocks))
        if segment in self.moved():
            return self.end
        end = super().append(blocks, now, segment, marks, forget)
        if self.fails == "after":
            raise LogAwayError("the answer was lost")
        return end


class Place:
    def __init__(self, folder: Path, **rules: int) -> None:
        self.folder, self.now = folder, START + 10
        self.rules = IntakeRules(**{"threshold": 100, "deadline": 5, **rules})
        self.start()

    def start(self) -> None:
        self.intake = Intake(
            self.folder, self.rules, lambda: self.now, lambda: FarLog(self.folder / "log.db")
        )
        self.intake.set_channels(channels_of([(QUERY.header, None)]))

    @property
    def log(self) -> FarLog:
        assert isinstance(self.intake.log, FarLog)
        return self.intake.log

    def kill(self) -> None:
        copy = self.folder.with_name(f"{self.folder.name}+")
        shutil.copytree(self.folder, copy)
        self.intake.close()
        self.folder = copy
        self.start()

    def take(self, columns: Words) -> UploadReceipt:
        (result,) = self.intake.take([Upload(b"ann" * 10, 10**9, body_of(QUERY, EPOCH, columns))])
        if isinstance(result, RefusedError):
            raise result
        return result

    def later(self, seconds: int) -> None:
        self.now += seconds
        self.intake.tick()

    def logged(self) -> Counter[tuple[int, ...]]:
        blocks = [Block.from_bytes(content) for _, content in self.log.read(0, 100_000)]
        assert all(block.prefix_bits >= 3 for block in blocks)
        return rows_of(block.columns for block in blocks)


def rows_of(parts: Iterable[Words]) -> Counter[tuple[int, ...]]:
    return Counter(tuple(row) for part in parts for row in part.T.tolist())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "proxy")
    yield made
    made.intake.close()


def some(n: int) -> Words:
    return make_columns(QUERY, EPOCH, n)[0]


@pytest.mark.parametrize("fails", ["before", "after"])
def test_what_comes_while_the_log_is_away_is_taken_and_arrives_once(
    place: Place, fails: str
) -> None:
    sent = [some(150), some(40), some(200), some(3)]
    place.take(sent[0])
    place.log.fails = fails
    place.later(1)  # the first flush fails, after it arrived or before
    for columns in sent[1:]:
        assert place.take(columns) == UploadReceipt(columns.shape[1], 0)
        place.later(3)
    assert place.intake.log_problem
    assert place.take(sent[2]) == UploadReceipt(0, 200)  # a repetition is known as one meanwhile
    place.log.fails = None
    place.later(3)
    assert (place.intake.log_problem, place.intake.n_waiting) == ("", 0)
    assert place.logged() == rows_of(sent)
    assert list((place.folder / "spool").iterdir()) == []


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_proxy_that_is_killed_while_the_log_is_away_loses_and_repeats_nothing(
    place: Place, fails: str
) -> None:
    sent = [some(150), some(40), some(60)]
    place.take(sent[0])
    place.log.fails = fails
    place.later(1)
    place.take(sent[1])
    place.kill()
    for columns in sent[:2]:
        assert place.take(columns) == UploadReceipt(0, columns.shape[1])
    place.take(sent[2])
    place.later(10)
    assert place.logged() == rows_of(sent)


def test_it_is_not_asked_for_all_the_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def append(*_: Any, **__: Any) -> int:
        asked.append(place.now)
        raise LogAwayError("nobody answers")

    monkeypatch.setattr(FarLog, "append", append)
    place.take(some(150))
    for _ in range(40):
        place.intake.tick()
    assert asked == [place.now]
    place.later(2)
    assert len(asked) == 2


def test_when_too_much_waits_uploads_are_put_off_until_the_log_is_back(tmp_path: Path) -> None:
    place = Place(tmp_path / "proxy", most_waiting=500)
    place.log.fails = "before"
    sent = [some(300), some(200)]
    for columns in sent:
        place.take(columns)
        place.later(3)
    with pytest.raises(RefusedError, match="The backlog is full") as refused:
        place.take(some(1))
    assert (refused.value.status, refused.value.reason, refused.value.retry_after) == (
        503,
        "behind",
        30,
    )
    assert place.take(sent[0]) == UploadReceipt(0, 300)  # what it has, it has
    place.log.fails = None
    place.later(3)
    assert place.take(some(1)) == UploadReceipt(1, 0)
    assert place.logged() == rows_of(sent)
    place.intake.close()


def test_epochs_are_closed_when_the_log_is_back_and_not_before(place: Place) -> None:
    place.take(some(30))
    place.log.fails = "before"
    place.later(QUERY.schedule.every + place.rules.grace + 1)
    assert place.log.closed() == {}
    place.log.fails = None
    place.later(3)
    assert place.log.closed() == {QUERY.channel_tag: EPOCH + 1}
    assert place.logged().total() == 30


def test_what_waited_long_is_moved_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deniable.proxy.intake.uploads._LARGEST_SEGMENT", 100 * 64)
    place = Place(tmp_path / "proxy")
    place.log.fails = "before"
    sent = [some(60) for _ in range(20)]
    for columns in sent:
        place.take(columns)
    place.later(10)
    place.kill()
    place.later(10)
    assert place.logged() == rows_of(sent)
    assert place.log.largest == 120
    place.intake.close()


def test_a_proxy_that_stops_leaves_in_the_spool_what_the_log_does_not_take(place: Place) -> None:
    sent = some(30)
    place.take(sent)
    place.log.fails = "before"
    place.intake.flush()
    assert "nobody answers" in place.intake.log_problem
    place.kill()
    place.intake.flush()
    assert place.logged() == rows_of([sent])


def test_a_proxy_that_was_shut_out_stops_and_says_so(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[bool] = []
    worker = IntakeWorker(place.intake, lambda: failed.append(True))
    place.log.fails = "fenced"

    async def send() -> UploadReceipt:
        return await worker.submit(Upload(b"ann" * 10, 10**9, body_of(QUERY, EPOCH, some(150))))

    worker.start()
    assert asyncio.run(send()) == UploadReceipt(150, 0)  # it is durable; the next one is refused
    worker._thread.join(10)
    assert (worker.failed, failed) == (True, [True])
    with pytest.raises(RefusedError, match="nothing that was acknowledged is lost"):
        asyncio.run(send())
    assert [record.__dict__["fields"]["error"] for record in caplog.records] == [
        "another proxy writes to it"
    ]


def test_a_log_that_cannot_be_opened_leaves_the_folder_free(tmp_path: Path) -> None:
    def away() -> BlockLog:
        raise LogAwayError("nobody answers")

    with pytest.raises(LogAwayError):
        Intake(tmp_path / "proxy", IntakeRules(), lambda: START, away)
    Intake(tmp_path / "proxy", IntakeRules(), lambda: START).close()


def test_a_block_has_no_more_rows_than_the_log_takes(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FarLog, "most_rows", lambda *_: 7)
    sent = some(400)
    place.take(sent)
    place.later(1)
    blocks = [Block.from_bytes(content) for _, content in place.log.read(0, 1000)]
    assert max(len(block) for block in blocks) == 7
    assert np.concatenate([block.columns for block in blocks], axis=1).shape[1] == 400
