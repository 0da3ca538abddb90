"""The engine: order, restarts and slow proxies change no count; what waits is bounded; a dead proxy
is declared."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines import embedded
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.schema import STATE
from deniable.aggregator.state import State
from deniable.errors import ParameterError, PublicationError, RollbackError, StateError
from deniable.logs.share_logs import HttpLog, PartitionMark, Position, Reading
from deniable.logs.sqlite_log import BlockLog
from deniable.service.files import row_checks
from deniable.wire.blocks import cut
from toolkit.answers import streamed
from toolkit.crowds import ORIGIN, Crowd, minute_query

PROXIES = {2: ["one", "two"], 3: ["one", "two", "three"]}


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path)
    yield crowd
    crowd.close_all()


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_whatever_order_and_restarts_the_counts_are_those_of_the_reports(
    n_proxies: int, tmp_path: Path
) -> None:
    crowd = Crowd(tmp_path, minute_query(proxies=PROXIES[n_proxies]))
    rng = np.random.default_rng(n_proxies)
    truth = rng.integers(0, 12, (3, 200))
    pieces: list[tuple[int, int, Any]] = []
    for epoch in range(3):
        shares = crowd.split(truth[epoch], epoch)
        for proxy, rows in enumerate(shares):
            pieces += [
                (epoch, proxy, part)
                for part in np.array_split(rows[:, rng.permutation(200)], 7, axis=1)
            ]
    engine = crowd.engine()
    crowd.now = ORIGIN + 150
    for i in rng.permutation(len(pieces)).tolist():
        epoch, proxy, rows = pieces[i]
        crowd.append(proxy, rows, epoch, prefix_bits=int(rng.integers(0, 5)))
        if i % 3 == 0:
            engine.step()
        if i % 11 == 0:
            engine = crowd.engine()
    crowd.mark(3)
    engine.drain()
    for epoch in range(3):
        assert (
            crowd.counts(range(epoch, epoch + 1)).tolist()
            == np.bincount(truth[epoch], minlength=12).tolist()
        )
    assert [w.n for w in crowd.windows()] == [600]
    crowd.close_all()


def test_a_proxy_ten_minutes_behind_loses_nothing(crowd: Crowd) -> None:
    """
    minute          0 1 2 3 4 5 6 7 8 9 10 11 …
    proxy 1 logs    0 1 2 3 4 5 6 7 8 9 10 11          its epoch, and marks it
    proxy 2 logs                        0  1  2 …      ten minutes behind, to the end
    """
    engine = crowd.engine(patience=900, behind=120)
    shares = {}
    conditions = set()
    for minute in range(40):
        crowd.now = ORIGIN + 60 * minute + 60
        if minute < 30:
            shares[minute] = crowd.split([minute % 12] * 5, minute)
            crowd.append(0, shares[minute][0], minute)
        crowd.mark(minute + 1, [0])
        if minute >= 10:
            crowd.append(1, shares[minute - 10][1], minute - 10)
            crowd.mark(minute - 9, [1])
        engine.drain()
        if minute % 7 == 0:
            engine = crowd.engine(patience=900, behind=120)
            engine.drain()
        conditions.add(engine.health[1].condition)
    assert conditions == {"up", "behind"}  # not "down"
    assert [(w.condition, w.n) for w in crowd.windows()] == [("complete", 15)] * 28
    for epoch in range(30):
        assert crowd.accounts(epoch) == [{"received": 5, "counted": 5}] * 2


def test_an_aggregator_that_was_away_for_long_reads_what_is_there_before_it_blames_a_proxy(
    crowd: Crowd,
) -> None:
    """An hour of logs lies there, marked in time; the aggregator comes back long after its
    patience, and reads in small steps."""
    engine = crowd.engine(patience=300, step_bytes=1)
    for minute in range(60):
        crowd.now = ORIGIN + 60 * minute + 60
        crowd.answer([minute % 12] * 40, minute)
        crowd.mark(minute + 1)
    crowd.now += 7200
    crowd.mark(181)
    engine.drain()
    assert [(w.condition, w.n) for w in crowd.windows()[:58]] == [("complete", 120)] * 58
    assert "proxy down" not in {w.condition for w in crowd.windows()}
    assert crowd.accounts(17) == [{"received": 40, "counted": 40}] * 2


def test_a_dead_proxy_raises_the_declared_condition(crowd: Crowd) -> None:
    engine = crowd.engine(patience=300, behind=120)
    for minute in range(12):
        crowd.now = ORIGIN + 60 * minute + 60
        alive = [0, 1] if minute < 2 else [0]
        crowd.answer([1] * 5, minute, proxies=alive)
        crowd.mark(minute + 1, alive)
        engine.drain()
    assert [health.condition for health in engine.health] == ["up", "down"]
    windows = crowd.windows()
    assert [(w.index, w.condition, w.missing, w.n) for w in windows] == [
        (0, "proxy down", ("https://two.example",), 10),
        (1, "proxy down", ("https://two.example",), 5),
        (2, "proxy down", ("https://two.example",), 0),
        (3, "proxy down", ("https://two.example",), 0),
        (4, "proxy down", ("https://two.example",), 0),
    ]
    assert all(w.conservation["balanced"] for w in windows)
    assert crowd.accounts(2) == [{"received": 5, "orphaned": 5}, {}]
    # It comes back: what it kept of epochs that are still open is counted, what it kept of closed
    # ones is late.
    crowd.mark(12, [1])
    engine.drain()
    assert [health.condition for health in engine.health] == ["up", "up"]


def test_a_log_that_is_not_there_yet_is_a_problem_that_goes_away(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    away = tmp_path / "away"
    away.mkdir()
    crowd.logs[1].close()
    crowd.answer([1] * 4, proxies=[0])
    for file in tmp_path.glob("log1.db*"):
        file.rename(away / file.name)
    engine = crowd.engine()
    engine.drain()
    assert "not there" in engine.health[1].problem
    for file in away.glob("log1.db*"):
        file.rename(tmp_path / file.name)
    crowd.logs[1] = BlockLog(tmp_path / "log1.db")
    crowd.answer([2] * 3)
    engine.drain()
    assert engine.health[1].problem == ""
    assert crowd.counts()[2] == 3
    crowd.close_all()


def test_another_log_in_the_place_of_the_one_that_was_read_is_refused(crowd: Crowd) -> None:
    crowd.engine().drain()
    crowd.answer([1] * 4)
    crowd.engine().drain()
    crowd.logs[1].close()
    for file in crowd.folder.glob("log1.db*"):
        file.unlink()
    crowd.logs[1] = BlockLog(crowd.folder / "log1.db")
    crowd.answer([1] * 4)
    engine = crowd.engine()
    engine.drain()
    assert "not the log" in engine.health[1].problem
    assert crowd.counts().sum() == 4


def test_a_failed_commit_changes_nothing_and_is_made_up_for(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = crowd.engine()
    assert crowd.state is not None
    crowd.answer([1] * 4)
    with monkeypatch.context() as patched:
        patched.setattr(State, "enter", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            engine.step()
    assert crowd.counts().sum() == 0
    engine.drain()
    assert crowd.counts()[1] == 4
    assert crowd.accounts() == [{"received": 4, "counted": 4}] * 2


def test_a_proxy_that_is_far_ahead_is_not_read_until_the_others_catch_up(crowd: Crowd) -> None:
    engine = crowd.engine(most_waiting=100, step_bytes=1)
    shares = crowd.split([3] * 2000)
    for start in range(0, 2000, 20):
        crowd.append(0, shares[0][:, start : start + 20])
    most = 0
    for start in range(0, 2000, 100):
        crowd.append(1, shares[1][:, start : start + 100])
        for _ in range(3):
            engine.step()
            most = max(most, engine.health[0].waiting)
    engine.drain()
    assert most < 500
    assert crowd.counts()[3] == 2000
    assert crowd.accounts() == [{"received": 2000, "counted": 2000}] * 2


def test_a_flood_of_shares_without_partners_is_given_up_when_no_partner_can_come(
    crowd: Crowd,
) -> None:
    engine = crowd.engine(most_waiting=100)
    for epoch in (0, 1):
        crowd.answer([3] * 80, epoch, proxies=[0])
    engine.drain()
    assert engine.health[0].waiting == 160
    crowd.mark(1, [1])
    engine.drain()
    engine.drain()
    assert crowd.accounts(0) == [{"received": 80, "orphaned": 80}, {}]
    assert crowd.accounts(1) == [{"received": 80, "waiting": 80}, {}]
    engine = crowd.engine(most_waiting=100)
    assert engine.health[0].waiting == 80


def test_closed_epochs_leave_no_rows_behind(crowd: Crowd) -> None:
    engine = crowd.engine(garbage=1)
    for epoch in range(3):
        crowd.now = ORIGIN + 60 * epoch
        crowd.answer([1] * 20, epoch)
        crowd.answer([1] * 20, epoch, proxies=[0])
        crowd.mark(epoch + 1)
        engine.drain()
    assert crowd.state is not None
    left = crowd.state.connection.execute(
        "SELECT (SELECT count(*) FROM joined), (SELECT count(*) FROM waiting)"
    ).fetchone()
    assert left == (0, 0)
    assert len(engine._epochs) == 0


def test_what_is_left_of_closed_epochs_is_not_taken_up_again(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(embedded, "collect_garbage", lambda *_: 0)
        engine = crowd.engine()
        crowd.answer([1] * 20)
        crowd.answer([1] * 7, proxies=[0])
        crowd.mark(1)
        engine.drain()
        engine = crowd.engine()  # the rows are still in the state
        assert len(engine._epochs) == 0
        assert [health.waiting for health in engine.health] == [0, 0]
        engine.drain()
    assert crowd.accounts() == [
        {"received": 27, "counted": 20, "orphaned": 7},
        {"received": 20, "counted": 20},
    ]


def test_old_accounts_and_results_are_forgotten_and_panes_later(crowd: Crowd) -> None:
    engine = crowd.engine(retention=600, pane_retention=900)
    for epoch in range(30):
        crowd.now = ORIGIN + 60 * epoch + 60
        crowd.answer([1], epoch)
        crowd.mark(epoch + 1)
        engine.drain()
    assert [w.index for w in crowd.windows()] == list(range(20, 28))
    assert crowd.counts().sum() == 15
    assert crowd.accounts(19) == [{}, {}]


def test_a_query_is_counted_from_when_it_is_published(crowd: Crowd) -> None:
    engine = crowd.engine(publish_query=False)
    crowd.answer([1] * 4)
    engine.drain()
    assert crowd.accounts(-1) == [{"received": 4, "malformed": 4}] * 2
    crowd.publish(crowd.query)
    crowd.answer([1] * 3)
    engine.drain()
    assert crowd.counts()[1] == 3


def test_versions_are_accepted_in_order_and_on_the_same_schedule(crowd: Crowd) -> None:
    engine = crowd.engine()
    second = crowd.query.revised(sampling=0.5)
    crowd.publish(second)
    crowd.publish(second)
    crowd.answer([2] * 3, query=second)
    crowd.answer([1] * 2)
    engine.drain()
    assert crowd.counts()[:3].tolist() == [0, 2, 3]
    with pytest.raises(RollbackError):
        crowd.publish(crowd.query)
    with pytest.raises(PublicationError, match="must keep its channel"):
        crowd.publish(second.revised(size_class=3))
    with pytest.raises(PublicationError, match="proxies"):
        crowd.publish(minute_query(id="other", proxies=["a", "b"]))


def test_one_aggregator_at_a_time_has_a_state(crowd: Crowd) -> None:
    crowd.engine()
    with pytest.raises(StateError, match="another aggregator is running"):
        State(crowd.folder / "state.db", crowd.query.proxies)


def test_a_state_of_other_proxies_or_another_version_is_refused(tmp_path: Path) -> None:
    State(tmp_path / "state.db", ["a", "b"]).close()
    with pytest.raises(StateError, match=r"was written for the proxies \['a', 'b'\]"):
        State(tmp_path / "state.db", ["a", "c"])
    state = State(tmp_path / "state.db", ["a", "b"])
    state.connection.execute(f"PRAGMA user_version = {STATE.version + 1}")
    state.close()
    with pytest.raises(StateError, match=rf"newer release \(schema {STATE.version + 1}"):
        State(tmp_path / "state.db", ["a", "b"])
    (tmp_path / "text.db").write_text("not a database, but longer than the header of one " * 20)
    with pytest.raises(StateError, match="is not the aggregator's state"):
        State(tmp_path / "text.db", ["a", "b"])


def test_limits_are_checked(crowd: Crowd) -> None:
    with pytest.raises(ParameterError, match="patience = 0 must be a whole number from 1"):
        EngineLimits(patience=0)
    crowd.engine()
    assert crowd.state is not None
    with pytest.raises(ParameterError, match="logs = 1 must be one for each of the 2 proxies"):
        Engine(crowd.state, [object()])  # type: ignore[list-item]


def test_what_is_kept_is_bounded_by_open_epochs_and_not_by_the_stream(crowd: Crowd) -> None:
    """Sixty epochs of 400 answers; each is marked one epoch after its end, so that at most three
    are open at a time."""
    engine = crowd.engine()
    sizes = []
    for epoch in range(60):
        crowd.now = ORIGIN + 60 * epoch + 59
        crowd.answer([1] * 400, epoch)
        crowd.answer([1] * 20, epoch, proxies=[epoch % 2])
        crowd.mark(max(0, epoch - 1))
        engine.drain()
        ids = sum(
            len(bucket.done)
            for place in engine._epochs._epochs.values()
            for bucket in place.buckets.values()
        )
        waiting = sum(health.waiting for health in engine.health)
        assert ids <= 3 * 400
        assert waiting <= 3 * 20
        assert crowd.state is not None
        (pages,) = crowd.state.connection.execute("PRAGMA page_count").fetchone()
        (kept,) = crowd.state.connection.execute(
            "SELECT coalesce(sum(length(document)), 0) FROM results"
        ).fetchone()
        sizes.append(pages - kept / 4096)
    assert crowd.counts().sum() == 60 * 400
    # Besides results, which are kept for their retention, panes and accounts grow by some hundred
    # bytes per epoch; the rows of closed epochs make room for others.
    assert sizes[-1] - sizes[10] <= 12


class Wire:
    """The other end of an HTTP connection: the `/v1/log` of a proxy (docs/proxy.md)."""

    def __init__(self, log: BlockLog) -> None:
        self.log, self.down, self.cut_off = log, False, False

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("refused")
        if request.headers["authorization"] != "Bearer right":
            return httpx.Response(401, text="no")
        asked = request.url.params
        marks = ",".join(
            f"{mark.channel:016x}:{mark.epoch}:{mark.offset}" for mark in self.log.marks().values()
        )
        records = self.log.read(int(asked["after"]), min(2, int(asked["limit"])))
        body = b"".join(
            struct.pack("<QI", record.offset, len(record.block)) + record.block
            for record in records
        )
        headers = {
            "Log-Identity": self.log.identity,
            "Log-Marks": marks,
            "Log-End": str(self.log.end),
        }
        return httpx.Response(200, content=body[:-1] if self.cut_off else body, headers=headers)


def test_a_log_read_over_http_counts_the_same_and_its_failures_are_problems(crowd: Crowd) -> None:
    engine = crowd.engine()
    wires = [Wire(log) for log in crowd.logs]
    clients = [httpx.Client(transport=streamed(wire)) for wire in wires]
    engine.logs = [
        HttpLog(f"http://proxy{i}/", "right", client) for i, client in enumerate(clients)
    ]
    crowd.answer([1] * 30)
    crowd.answer([2] * 12)
    crowd.mark(3)
    wires[1].down = True
    engine.drain()
    assert "cannot be reached" in engine.health[1].problem
    wires[1].down, wires[1].cut_off = False, True
    engine.drain()
    assert "sent a malformed log" in engine.health[1].problem
    wires[1].cut_off = False
    engine.logs[0], right = HttpLog("http://proxy0", "wrong", clients[0]), engine.logs[0]
    engine.drain()
    assert "answered 401" in engine.health[0].problem
    engine.logs[0] = right
    engine.drain()
    assert [health.problem for health in engine.health] == ["", ""]
    assert crowd.counts()[1:3].tolist() == [30, 12]
    assert [(w.condition, w.n) for w in crowd.windows()] == [("complete", 42)]
    for log in engine.logs:
        log.close()
    engine.logs = []


class Partitions:
    """A log of three partitions, as Kafka's is: marks stand between the blocks."""

    def __init__(self) -> None:
        self.records: list[list[bytes | tuple[int, int]]] = [[], [], []]

    def read(self, after: Position, most_bytes: int) -> Reading:
        after = after or (0, 0, 0)
        fresh = [
            (i, at + after[i] + 1, each)
            for i in range(3)
            for at, each in enumerate(self.records[i][after[i] :])
        ]
        blocks = [each for _, _, each in fresh if isinstance(each, bytes)]
        marks = [
            PartitionMark(i, each[0], each[1], at)
            for i, at, each in fresh
            if isinstance(each, tuple)
        ]
        return Reading(blocks, tuple(len(each) for each in self.records), marks, "three")

    def close(self) -> None:
        """Nothing to let go of."""


def drain_beside(crowd: Crowd, log: Partitions) -> None:
    """A new engine, to which the log is that of the second proxy."""
    engine = crowd.engine()
    engine.logs[1].close()
    engine.logs[1] = log
    engine.drain()
    assert engine.health[1].problem == ""


def front(crowd: Crowd) -> int:
    assert crowd.state is not None
    return crowd.state.fronts()[crowd.query.channel_tag]


def test_an_epoch_of_a_log_with_partitions_is_complete_when_all_of_them_are(crowd: Crowd) -> None:
    log, tag = Partitions(), crowd.query.channel_tag
    shares = crowd.split([5] * 40)
    crowd.append(0, shares[0])
    crowd.mark(1, [0])
    blocks, _ = cut(tag, 0, 0, shares[1], 2)
    for i, block in enumerate(blocks):
        log.records[i % 3].append(block.to_bytes())
    for partition in (2, 0, 1):
        drain_beside(crowd, log)
        assert crowd.accounts() == [{"received": 40, "counted": 40}] * 2
        assert front(crowd) == 0
        log.records[partition].append((tag, 1))
    drain_beside(crowd, log)
    assert front(crowd) == 1


def test_a_block_in_another_partition_than_its_own_is_refused(crowd: Crowd) -> None:
    shares = crowd.split([5] * 40)
    crowd.append(0, shares[0])
    blocks, _ = cut(crowd.query.channel_tag, 0, 0, shares[1], 2)
    log, sizes = Partitions(), [len(block) for block in blocks]
    placed = [block.prefix for block in blocks[:-1]] + [(blocks[-1].prefix + 1) % 4]
    contents = [block.to_bytes() for block in blocks]
    log.read = lambda *_: Reading(contents, (2, 2, 2, 2), (), "four", partitions=placed)  # type: ignore[method-assign]
    engine = crowd.engine()
    engine.logs[1].close()
    engine.logs[1] = log
    engine.step()
    assert len(blocks) == 4
    assert crowd.accounts() == [
        {"received": 40, "counted": 40 - sizes[-1], "waiting": sizes[-1]},
        {"received": 40 - sizes[-1], "counted": 40 - sizes[-1]},
    ]
    assert crowd.accounts(-1)[1] == {"received": sizes[-1], "malformed": sizes[-1]}


def test_marks_that_were_passed_are_known_after_a_restart(crowd: Crowd) -> None:
    log, tag = Partitions(), crowd.query.channel_tag
    for partition in (0, 1, 2):
        log.records[partition] += [(tag, 2), (tag, 1)]  # a mark never goes back
    drain_beside(crowd, log)
    assert front(crowd) == 0
    crowd.mark(1, [0])
    drain_beside(crowd, log)  # a new engine, to which the log says nothing new
    assert front(crowd) == 1


def test_a_log_that_has_other_partitions_than_before_is_refused(crowd: Crowd) -> None:
    log = Partitions()
    log.records[0].append((crowd.query.channel_tag, 1))
    drain_beside(crowd, log)
    engine = crowd.engine()
    engine.drain()
    assert "it is not the log that was read before" in engine.health[1].problem
    log.read = lambda *_: Reading([], (2, 0), (), "three")  # type: ignore[method-assign]
    engine.logs[1] = log
    engine.drain()
    assert engine.health[1].problem == "this log has 2 partitions, and 3 were read before"


def test_a_state_of_version_1_is_taken_over_with_its_offsets(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    State(path, ["a", "b"]).close()
    with sqlite3.connect(path) as connection:
        row_checks.unguard(connection)
        connection.executescript(
            "PRAGMA application_id = 0; PRAGMA user_version = 0; DROP TABLE versions;"
            "DROP TABLE proxies; DROP TABLE marks; UPDATE meta SET value = 1 WHERE name ="
            " 'schema';CREATE TABLE proxies (proxy INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,"
            " identity TEXT, offset INTEGER NOT NULL);INSERT INTO proxies VALUES (0, 'a', 'some"
            " log', 17), (1, 'b', NULL, 0);ALTER TABLE closures DROP COLUMN audited; ALTER TABLE"
            " queries DROP COLUMN analyst;DROP TABLE grants; DROP TABLE tokens; DROP TABLE"
            " granules; DROP TABLE sealed;CREATE TABLE tokens (digest BLOB PRIMARY KEY, name TEXT"
            " NOT NULL, role TEXT NOT NULL, made INTEGER NOT NULL);"
        )
    connection.close()
    for _ in range(2):
        state = State(path, ["a", "b"])
        assert (state.positions(), state.identities(), state.marks()) == (
            [(17,), ()],
            ["some log", None],
            {},
        )
        state.close()
