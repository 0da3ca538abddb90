"""The intake: what is taken, what is refused and why, what leaves, what a crash leaves, and what
nobody can find."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from deniable.errors import LogError, ParameterError, RefusedError
from deniable.logs.sqlite_log import BlockLog, LogReader
from deniable.proxy.intake.seen import Checker, EpochIds
from deniable.proxy.intake.spool import Spool
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import Channel, channels_of
from deniable.queries.header import QueryHeader
from deniable.wire.blocks import Block
from toolkit.queries import make_query
from toolkit.shares import Words, body_of, make_columns, records_of

QUERY = make_query()
EPOCH = 1000
START = QUERY.schedule.start_of_epoch(EPOCH)
ANN, BOB = b"ann" * 10, b"bob" * 10
MANY = 1_000_000


class Clock:
    def __init__(self, now: int = START + 10) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


class Place:
    """A folder with an intake that can be killed and started again."""

    def __init__(self, folder: Path, **rules: int) -> None:
        self.folder, self.clock = folder, Clock()
        self.rules = IntakeRules(
            **{"threshold": 100, "deadline": 10, "grace": 600, "skew": 60, **rules}
        )
        self.queries: list[tuple[QueryHeader, int | None]] = [(QUERY.header, None)]
        self.start()

    def start(self) -> Intake:
        self.intake = Intake(self.folder, self.rules, self.clock)
        self.intake.set_channels(channels_of(self.queries))
        return self.intake

    def killed(self) -> Intake:
        """What a start finds if the process ends here, without a word."""
        copy = self.folder.with_name(f"{self.folder.name}+")
        shutil.copytree(self.folder, copy)
        self.intake.close()
        self.folder = copy
        return self.start()

    def take(
        self, columns: Words, epoch: int = EPOCH, client: bytes = ANN, quota: int | None = MANY
    ) -> UploadReceipt:
        (result,) = self.intake.take([Upload(client, quota, body_of(QUERY, epoch, columns))])
        if isinstance(result, RefusedError):
            raise result
        return result

    @property
    def log(self) -> BlockLog:
        assert isinstance(self.intake.log, BlockLog)
        return self.intake.log

    def blocks(self) -> list[Block]:
        return [Block.from_bytes(content) for _, content in self.log.read(0, 100_000)]

    def logged(self) -> Words:
        return np.concatenate(
            [np.empty((8, 0), dtype=np.uint64), *(block.columns for block in self.blocks())], axis=1
        )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "proxy")
    yield made
    made.intake.close()


def by_id(columns: Words) -> Words:
    return columns[:, np.lexsort((columns[1], columns[0]))]


def refused(place: Place, columns: Words, **how: object) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        place.take(columns, **how)  # type: ignore[arg-type]
    return caught.value


# --- what is passed on


def test_every_share_is_passed_on_once_unchanged_and_in_the_order_of_its_id(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 5000)
    for start in range(0, 5000, 7):
        assert place.take(mine[:, start : start + 7]).accepted == min(7, 5000 - start)
    place.intake.tick()
    assert np.array_equal(by_id(place.logged()), by_id(mine))
    for block in place.blocks():
        assert (block.channel, block.epoch, block.size_class) == (
            QUERY.channel_tag,
            EPOCH,
            QUERY.size_class,
        )
        assert np.array_equal(block.columns, by_id(block.columns))
    # 5000 rows: 512 rows and more a block
    assert len({block.prefix for block in place.blocks()}) == 8


def test_shares_wait_for_the_threshold_or_the_deadline(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 150)
    place.take(mine[:, :99])
    place.intake.tick()
    assert place.logged().shape[1] == 0
    place.take(mine[:, 99:100])
    place.intake.tick()
    assert place.logged().shape[1] == 100
    place.take(mine[:, 100:])
    place.clock.now += 9
    place.intake.tick()
    assert place.logged().shape[1] == 100
    place.clock.now += 1
    place.intake.tick()
    assert np.array_equal(by_id(place.logged()), by_id(mine))
    assert (place.intake.counters["flushes_full"], place.intake.counters["flushes_due"]) == (1, 1)


def test_a_full_channel_does_not_take_along_the_few_shares_of_another_epoch(place: Place) -> None:
    few, _ = make_columns(QUERY, EPOCH - 1, 3)
    many, _ = make_columns(QUERY, EPOCH, 100)
    place.take(few, EPOCH - 1)
    place.take(many)
    place.intake.tick()
    assert {block.epoch for block in place.blocks()} == {EPOCH}
    assert place.intake.n_waiting == 3


def test_one_upload_may_carry_shares_of_several_epochs(place: Place) -> None:
    one, _ = make_columns(QUERY, EPOCH - 1, 3)
    two, _ = make_columns(QUERY, EPOCH, 4)
    content = body_of(QUERY, EPOCH - 1, one) + body_of(QUERY, EPOCH, two)
    assert place.intake.take([Upload(ANN, 4, content)]) == [UploadReceipt(7, 0)]
    place.intake.flush()
    assert {block.epoch: len(block) for block in place.blocks()} == {EPOCH - 1: 3, EPOCH: 4}


# --- what is refused


def test_an_identical_retry_is_accepted_and_passed_on_once(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 200)
    assert place.take(mine) == (200, 0)
    assert place.take(mine) == (0, 200)
    place.intake.tick()
    assert place.take(mine[:, 5:10]) == (0, 5)
    place.intake.flush()
    assert np.array_equal(by_id(place.logged()), by_id(mine))


def test_an_identical_retry_costs_no_quota(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 3)
    assert place.take(mine[:, :2], quota=3).accepted == 2
    assert place.take(mine, quota=3) == (1, 2)


@pytest.mark.parametrize("moved", [False, True], ids=["waiting", "in the log"])
def test_a_changed_retry_is_refused_and_the_first_stays(place: Place, moved: bool) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 50)
    place.take(mine)
    if moved:
        place.intake.flush()
    changed = mine.copy()
    changed[7, 20] ^= 1
    error = refused(place, changed)
    assert (error.reason, error.status) == ("changed", 409)
    place.intake.flush()
    assert np.array_equal(by_id(place.logged()), by_id(mine))


def test_an_id_twice_in_one_upload_counts_once_and_is_refused_with_two_shares(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 10)
    assert place.take(np.concatenate([mine, mine[:, 3:4]], axis=1)) == (10, 1)
    two, _ = make_columns(QUERY, EPOCH, 2)
    two[:2, 1] = two[:2, 0]
    assert refused(place, two).reason == "changed"


def test_a_flood_under_one_token_is_refused_whole_and_others_are_not_touched(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 12)
    assert place.take(mine[:, :4], quota=5).accepted == 4
    error = refused(place, mine[:, 4:6], quota=5)
    assert (error.reason, error.status) == ("quota", 429)
    assert error.retry_after == 590  # the next epoch begins then
    assert place.take(mine[:, 4:5], quota=5).accepted == 1
    assert place.take(mine[:, 6:11], client=BOB, quota=5).accepted == 5
    later, _ = make_columns(QUERY, EPOCH + 1, 5)
    place.clock.now += 600
    assert place.take(later, EPOCH + 1, quota=5).accepted == 5


def test_without_a_quota_of_its_own_a_token_may_send_what_the_queries_of_the_channel_allow(
    place: Place,
) -> None:
    several = make_query(
        id="other",
        channel="shared",
        rows="several",
        most_rows=3,
        mechanism={"name": "TwoCoin", "p": 0.3, "q": 0.6},
    )
    single = make_query(id="single", channel="shared")
    assert several.channel_tag == single.channel_tag
    newer = several.revised(most_rows=2)
    (channel,) = channels_of(
        [(several.header, 5), (newer.header, None), (single.header, None)]
    ).values()
    assert channel.most_messages == 4
    mine, _ = make_columns(QUERY, EPOCH, 2)
    assert refused(place, mine, quota=None).reason == "quota"
    assert place.take(mine[:, :1], quota=None).accepted == 1
    assert refused(place, mine[:, 1:], quota=None).reason == "quota"


@pytest.mark.parametrize(
    ("epoch", "ahead", "reason", "status"),
    [
        (EPOCH + 1, -61, "early", 422),
        (EPOCH + 1, -60, None, 0),
        (EPOCH + 1, 1199, None, 0),
        (EPOCH + 1, 1200, "late", 410),
        (QUERY.schedule.n_epochs, -60, "ended", 422),
    ],
)
def test_an_epoch_is_open_from_a_little_before_it_begins_until_the_grace_is_over(
    place: Place, epoch: int, ahead: int, reason: str | None, status: int
) -> None:
    place.clock.now = QUERY.schedule.start_of_epoch(epoch) + ahead
    mine, _ = make_columns(QUERY, epoch, 1)
    if reason is None:
        assert place.take(mine, epoch).accepted == 1
        return
    error = refused(place, mine, epoch=epoch)
    assert (error.reason, error.status) == (reason, status)


def test_unknown_channels_and_wrong_size_classes_are_refused(place: Place) -> None:
    other = make_query(id="other")
    columns, _ = make_columns(other, EPOCH, 2)
    (error,) = place.intake.take([Upload(ANN, MANY, body_of(other, EPOCH, columns))])
    assert isinstance(error, RefusedError)
    assert (error.reason, error.status) == ("unknown_channel", 404)
    tag = QUERY.channel_tag
    place.intake.set_channels({tag: Channel(tag, QUERY.schedule, 10_000, size_class=1)})
    assert refused(place, make_columns(QUERY, EPOCH, 1)[0]).reason == "size_class"


def test_bodies_that_are_no_shares_are_refused_with_a_reason_and_change_nothing(
    place: Place,
) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 3)
    good = body_of(QUERY, EPOCH, mine)
    record = good[:80]
    bad = {
        b"": "truncated",
        b"garbage": "truncated",
        bytes(80): "version",
        good[:-1]: "truncated",
        good + b"\0": "truncated",
        b"\x02" + good[1:]: "version",
        b"\x01B" + good[2:]: "kind",
        record + b"\x01S\x00\x01" + record[4:]: "reserved",
        record + b"\x01S\x01\x00" + record[4:]: "truncated",
        b"\x01S\x63\x00" + good[4:]: "size_class",
    }
    results = place.intake.take([Upload(ANN, MANY, content) for content in bad])
    found = [
        (result.status, result.reason) for result in results if isinstance(result, RefusedError)
    ]
    assert [reason for _, reason in found] == list(bad.values())
    assert {status for status, _ in found} == {400}
    assert place.intake.n_waiting == place.intake.n_ids == 0


def test_a_refused_upload_leaves_the_others_of_the_same_commit_alone(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 4)
    records = records_of(QUERY, EPOCH, mine)
    contents = [records[0], b"garbage", records[1], records[0], records[2] + b"?"]
    results = place.intake.take([Upload(ANN, 2, content) for content in contents])
    assert [
        result if isinstance(result, UploadReceipt) else result.reason for result in results
    ] == [
        (1, 0),
        "truncated",
        (1, 0),
        (0, 1),
        "truncated",
    ]


def test_an_upload_of_which_one_epoch_is_closed_is_refused_whole(place: Place) -> None:
    late, _ = make_columns(QUERY, EPOCH - 9, 1)
    good, _ = make_columns(QUERY, EPOCH, 1)
    (result,) = place.intake.take(
        [Upload(ANN, MANY, body_of(QUERY, EPOCH, good) + body_of(QUERY, EPOCH - 9, late))]
    )
    assert isinstance(result, RefusedError)
    assert place.intake.n_waiting == 0


def test_more_ids_than_fit_in_memory_are_put_off(tmp_path: Path) -> None:
    place = Place(tmp_path / "proxy", most_ids=10)
    mine, _ = make_columns(QUERY, EPOCH, 11)
    place.take(mine[:, :10])
    error = refused(place, mine[:, 10:])
    assert (error.reason, error.status, error.retry_after) == ("full", 503, 60)
    assert place.take(mine[:, :10]).already == 10


# --- the end of an epoch


def test_when_the_grace_is_over_the_epoch_is_flushed_and_then_marked(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 5)
    place.intake.tick()
    assert place.log.marks()[QUERY.channel_tag].epoch == EPOCH - 1
    place.take(mine)
    place.clock.now = QUERY.schedule.end_of_epoch(EPOCH) + 600
    place.intake.tick()
    mark = place.log.marks()[QUERY.channel_tag]
    assert (mark.epoch, mark.offset) == (EPOCH + 1, 1)
    assert np.array_equal(by_id(place.logged()), by_id(mine))
    assert place.intake.n_ids == 0


def test_marks_are_declared_of_channels_in_which_nothing_came(place: Place) -> None:
    place.clock.now = QUERY.schedule.end_of_epoch(EPOCH + 5) + 600
    place.intake.tick()
    assert place.log.marks()[QUERY.channel_tag].epoch == EPOCH + 6


def test_a_closed_epoch_stays_closed_when_the_clock_goes_back_and_after_a_restart(
    place: Place,
) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 5)
    place.take(mine)
    place.clock.now += 1200
    place.intake.tick()
    place.clock.now -= 1200
    assert refused(place, mine).reason == "late"
    place.killed()
    assert refused(place, mine).reason == "late"


def test_a_stopped_query_takes_its_last_epoch_and_then_ends_with_a_mark(place: Place) -> None:
    place.intake.set_channels(channels_of([(QUERY.header, place.clock.now)]))
    mine, _ = make_columns(QUERY, EPOCH, 5)
    ahead, _ = make_columns(QUERY, EPOCH + 1, 5)
    place.take(mine)
    place.clock.now += 600
    assert refused(place, ahead, epoch=EPOCH + 1).reason == "ended"
    place.clock.now += 600
    place.intake.tick()
    assert place.log.marks()[QUERY.channel_tag].epoch == EPOCH + 1
    assert place.logged().shape[1] == 5


def test_shares_ahead_of_the_last_epoch_of_a_stopped_query_are_not_forgotten(place: Place) -> None:
    ahead, _ = make_columns(QUERY, EPOCH + 1, 5)
    place.clock.now = START + 599
    place.take(ahead, EPOCH + 1)
    place.intake.set_channels(channels_of([(QUERY.header, place.clock.now)]))
    place.clock.now += 1200
    place.intake.tick()
    assert place.log.marks()[QUERY.channel_tag].epoch == EPOCH + 2
    assert place.logged().shape[1] == 5
    assert place.intake.n_ids == 0


def test_old_blocks_are_dropped_after_the_retention(tmp_path: Path) -> None:
    place = Place(tmp_path / "proxy", retention=3000)
    place.take(make_columns(QUERY, EPOCH, 5)[0])
    place.intake.flush()
    place.clock.now += 3000
    place.intake.tick()
    assert place.log.dropped == 0
    place.clock.now += 1
    place.intake.tick()
    assert (place.log.dropped, place.intake.counters["dropped"]) == (1, 1)


# --- crashes


def test_what_was_acknowledged_and_not_flushed_is_there_after_a_crash_and_known(
    place: Place,
) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 50)
    place.take(mine[:, :30])
    place.take(mine[:, 30:])
    place.killed()
    assert place.take(mine) == (0, 50)
    place.intake.flush()
    assert np.array_equal(by_id(place.logged()), by_id(mine))


def test_what_was_flushed_is_known_after_a_crash(place: Place) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 150)
    place.take(mine)
    place.intake.tick()
    place.killed()
    assert place.take(mine) == (0, 150)
    changed = mine[:, :1] ^ np.array([[0]] * 7 + [[1]], dtype=np.uint64)
    assert refused(place, changed).reason == "changed"
    place.intake.flush()
    assert np.array_equal(by_id(place.logged()), by_id(mine))


def test_a_crash_between_the_log_and_the_spool_repeats_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 150)
    place.take(mine)
    with monkeypatch.context() as patch:
        patch.setattr(
            "deniable.proxy.intake.spool.Spool.remove",
            lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
        )
        with pytest.raises(KeyboardInterrupt):
            place.intake.tick()
    assert len(list(place.folder.glob("spool/*.spool"))) == 1
    for _ in range(2):
        place.killed()
        assert list(place.folder.glob("spool/*.spool")) == []
        place.intake.flush()
        assert np.array_equal(by_id(place.logged()), by_id(mine))
    more, _ = make_columns(QUERY, EPOCH, 10)
    place.take(more)
    place.killed()
    place.intake.flush()
    assert place.logged().shape[1] == 160


def test_a_write_that_was_cut_off_anywhere_leaves_all_whole_ones(
    place: Place, tmp_path: Path
) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 3)
    sizes = []
    for i in range(3):
        place.take(mine[:, i : i + 1])
        (segment,) = place.folder.glob("spool/*.spool")
        sizes.append(segment.stat().st_size)
    whole = segment.read_bytes()
    for cut_at in range(len(whole) + 1):
        folder = tmp_path / f"cut{cut_at}"
        (folder / "spool").mkdir(parents=True)
        (folder / "spool" / segment.name).write_bytes(whole[:cut_at])
        # a record is whole without the seal behind it
        kept = sum(size - 32 <= cut_at for size in sizes)
        for _ in range(2):  # also after what was cut off is gone
            rows = [row for _, rows in Spool(folder / "spool").recover() for row in rows]
            assert np.array_equal(np.concatenate([mine[:, :0], *rows], axis=1), mine[:, :kept])


def test_damage_before_the_last_write_of_the_spool_stops_the_start(place: Place) -> None:
    for _ in range(2):
        place.take(make_columns(QUERY, EPOCH, 3)[0])
    (segment,) = place.folder.glob("spool/*.spool")
    content = bytearray(segment.read_bytes())
    content[100] ^= 1
    segment.write_bytes(content)
    with pytest.raises(LogError, match="damaged at byte"):
        place.killed()


def test_a_file_of_another_kind_in_the_spool_stops_the_start(place: Place) -> None:
    (place.folder / "spool" / "000000000009.spool").write_bytes(
        b"something else altogether, not a segment"
    )
    with pytest.raises(LogError, match="is not a spool segment"):
        place.killed()


# --- what nobody can find


def test_nothing_on_the_disk_names_who_sent_a_share(place: Place) -> None:
    mine, theirs = make_columns(QUERY, EPOCH, 60)
    for i in range(60):
        place.take(mine[:, i : i + 1], client=sha256(bytes([i])).digest())
    pseudonyms = [key for epoch in place.intake._epochs.values() for key in epoch.used]
    assert len(pseudonyms) == 60
    stages = [b"".join(path.read_bytes() for path in place.folder.rglob("*") if path.is_file())]
    place.intake.flush()
    stages.append(b"".join(path.read_bytes() for path in place.folder.rglob("*") if path.is_file()))
    for content in stages:
        assert mine[2:, 0].tobytes()[:8] in content  # the search finds what is there
        for i in range(60):
            assert sha256(bytes([i])).digest() not in content
        assert not any(name in content for name in pseudonyms)
        assert not any(theirs[2:, i].tobytes() in content for i in range(60))


def test_the_log_is_the_same_whatever_the_order_of_arrival(tmp_path: Path) -> None:
    mine, _ = make_columns(QUERY, EPOCH, 40)
    logs = []
    for name, order in {"up": range(40), "down": range(39, -1, -1)}.items():
        place = Place(tmp_path / name)
        for i in order:
            place.take(mine[:, [i]], client=bytes([i]) * 32)
            place.clock.now += i % 2  # arrival times differ too, but all lie before one flush
        place.clock.now = START + 99
        place.intake.flush()
        rows = place.log._connection.execute("SELECT * FROM blocks").fetchall()
        logs.append(rows)
        place.intake.close()
    assert logs[0] == logs[1]
    assert len(logs[0]) == 1


def test_a_client_has_another_pseudonym_in_each_epoch_and_none_after_it(place: Place) -> None:
    for epoch in (EPOCH, EPOCH - 1):
        place.take(make_columns(QUERY, epoch, 1)[0], epoch)
    names = [set(epoch.used) for epoch in place.intake._epochs.values()]
    assert len(names) == 2
    assert not names[0] & names[1]
    place.clock.now += 1200
    place.intake.tick()
    assert place.intake._epochs == {}


def test_the_spool_is_private_and_empty_after_a_flush(place: Place) -> None:
    place.take(make_columns(QUERY, EPOCH, 3)[0])
    (segment,) = place.folder.glob("spool/*.spool")
    assert segment.stat().st_mode & 0o777 == 0o600
    assert segment.parent.stat().st_mode & 0o777 == 0o700
    place.intake.flush()
    assert list(place.folder.glob("spool/*")) == []


# --- the ids


def test_ids_are_told_apart_as_a_dictionary_would_also_when_somebody_chose_them() -> None:
    random = np.random.default_rng(5)
    seen, known = EpochIds(), dict[tuple[int, int], int]()
    for _ in range(60):
        # few high words, in few slots
        ids = random.integers(0, [[6], [40]], (2, 50)).astype(np.uint64) << np.uint64(59)
        ids[1] >>= np.uint64(59)
        checks = random.integers(0, 2, 50).astype(np.uint64)
        new, same, changed = [], 0, 0
        fresh = dict[tuple[int, int], int]()
        for i, (pair, check) in enumerate(
            zip(zip(*ids.tolist(), strict=True), checks.tolist(), strict=True)
        ):
            before = known.get(pair, fresh.get(pair))
            if before is None:
                fresh[pair] = check
                new.append(i)
            same += before == check
            changed += before is not None and before != check
        found = seen.look(ids, checks)
        assert (found.new.tolist(), found.n_same, found.n_changed) == (new, same, changed)
        seen.add(ids[:, found.new], checks[found.new])
        known |= fresh
        assert len(seen) == len(known)


def test_all_of_many_random_ids_are_found_again_and_no_others() -> None:
    random = np.random.default_rng(6)
    ids = random.integers(0, 1 << 64, (2, 50_000), dtype=np.uint64)
    checks = random.integers(0, 1 << 64, 50_000, dtype=np.uint64)
    seen = EpochIds()
    for start in range(0, 40_000, 317):
        part = slice(start, min(start + 317, 40_000))
        seen.add(ids[:, part], checks[part])
    found = seen.look(ids, checks)
    assert np.array_equal(found.new, np.arange(40_000, 50_000))
    assert (found.n_same, found.n_changed) == (40_000, 0)


def test_a_check_is_the_sum_of_products_of_its_definition() -> None:
    random = np.random.default_rng(7)
    columns = random.integers(0, 1 << 64, (8, 20), dtype=np.uint64)
    key = random.integers(0, 1 << 32, (2, 6), dtype=np.uint64)
    expected = []
    for column in columns.T.tolist():
        halves = [(word & 0xFFFFFFFF, word >> 32) for word in column[2:]]
        terms = [
            (a + k) % 2**32 * ((b + m) % 2**32)
            for (a, b), k, m in zip(halves, *key.tolist(), strict=True)
        ]
        expected.append(sum(terms) % 2**64)
    assert Checker(key.astype("<u4").tobytes())(columns).tolist() == expected


def test_a_check_depends_on_every_word_of_the_share_and_not_on_the_id() -> None:
    check = Checker.fresh()
    for size_class in (0, 6):
        columns = np.random.default_rng(8).integers(
            0, 1 << 64, (8 << size_class, 1), dtype=np.uint64
        )
        for word in range(8 << size_class):
            other = columns.copy()
            other[word] ^= np.uint64(1) << np.uint64(63)
            assert (check(other) != check(columns)).all() == (word >= 2)
    assert Checker.fresh()(columns) != check(columns)


@pytest.mark.parametrize(
    ("name", "value"), [("threshold", 0), ("deadline", -1), ("prefix_bits", 17), ("grace", 1.5)]
)
def test_rules_that_cannot_be_kept_are_refused(name: str, value: float) -> None:
    with pytest.raises(ParameterError, match=name):
        IntakeRules(**{name: value})  # type: ignore[arg-type]


def test_a_log_of_a_running_proxy_can_be_read_by_another(place: Place) -> None:
    place.take(make_columns(QUERY, EPOCH, 100)[0])
    place.intake.tick()
    reader = LogReader(place.folder / "log.db")
    assert reader.end == 1
    reader.close()
