"""One share log, and the engines that count it: whatever the engine, panes, accounts and windows
are the same.

A scenario is a list of stages. An engine is an adapter: `write` puts a stage into the proxies'
logs, `drain` counts all of it, and `outcome` is what came of it. `play` runs a scenario through
one; outcomes are compared with ==.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.conservation import OUTSIDE
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.state import State, unsigned
from deniable.logs.kafka_log import KafkaLog
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import EmbeddedLog, KafkaShareLog, ShareLog
from deniable.logs.sqlite_log import BlockLog
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.envelope import Envelope, Version
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign, sign_version
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from deniable.wire.blocks import Block, cut
from deniable.wire.marks import MarkRecord
from deniable.wire.message import ANSWER, NOTHING
from deniable.wire.shares import split_columns
from toolkit.crowds import KEY, ORIGIN, RING, minute_query

PARTITION_BITS = 2
LIMITS = {"patience": 300, "behind": 120, "skew": 60, "bucket_bits": 3, "workers": 1}
"""With these every engine runs: they decide what is late, ahead of its time, or closed without a
proxy."""
RETENTION = 7 * 86400
Record = Block | MarkRecord | bytes
"""Bytes are written as they are: something that is no block."""


@dataclass(frozen=True)
class Stage:
    """What the proxies append before the engine is drained, and the time it then is."""

    now: int
    records: Sequence[Sequence[Record]]
    """For each proxy, in order."""


@dataclass
class Scenario:
    """A share log, the queries it answers, and what is known of the outcome without an engine."""

    queries: list[Query]
    """All of them are published at `ORIGIN`, before the first stage."""
    stages: list[Stage] = field(default_factory=list)
    counted: dict[PaneKey, list[int]] = field(default_factory=dict)
    """The counts of each pane, from the answers themselves."""
    totals: list[dict[str, int]] = field(default_factory=list)
    """For each proxy, what becomes of all its shares."""
    signed: list[SignedQuery] = field(default_factory=list)
    """The queries as they are published, where it was not the analyst who signed them all."""

    def publish(self, connection: sqlite3.Connection) -> None:
        """Publish all queries, inside a transaction of the caller."""
        for each in self.signed or [sign(query, KEY) for query in self.queries]:
            publish(connection, each, RING, self.proxies, ORIGIN)

    def merged(self, *sizes: int) -> Scenario:
        """The same log in fewer stages: of each so many that follow each other are one, drained at
        the time of the last."""
        assert sum(sizes) == len(self.stages)
        parts = [
            self.stages[end - n : end] for n, end in zip(sizes, accumulate(sizes), strict=True)
        ]
        logs = [
            [
                list(chain(*records))
                for records in zip(*(stage.records for stage in part), strict=True)
            ]
            for part in parts
        ]
        stages = [Stage(part[-1].now, records) for part, records in zip(parts, logs, strict=True)]
        return replace(self, stages=stages)

    @property
    def proxies(self) -> tuple[str, ...]:
        return tuple(self.queries[0].proxies)


class Outcome(NamedTuple):
    """What an engine made of a scenario."""

    panes: dict[PaneKey, tuple[int, int, list[int]]]
    """Reports, messages that said nothing, and counts."""
    accounts: dict[tuple[int, int, int], dict[str, int]]
    """By proxy, channel and epoch (both -1 for what belongs to no window), without figures that are
    0."""
    refusals: dict[tuple[int, str], int]
    """By proxy and reason."""
    windows: dict[str, list[dict[str, Any]]]
    """For each query the documents of its windows, in order."""


class EngineAdapter(Protocol):
    """An engine in a test."""

    def write(self, stage: Stage) -> None:
        """Append a stage to the proxies' logs, so that it can be read when this returns."""
        ...

    def drain(self, now: int) -> None:
        """Count all that is in the logs at a time, and close what is due."""
        ...

    def outcome(self) -> Outcome:
        """All that came of it so far."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


def play(scenario: Scenario, adapter: EngineAdapter) -> Outcome:
    """Run a scenario, stage by stage."""
    try:
        for stage in scenario.stages:
            adapter.write(stage)
            adapter.drain(stage.now)
        return adapter.outcome()
    finally:
        adapter.close()


def _runs(records: Sequence[Record]) -> Iterator[tuple[list[Block], MarkRecord | bytes | None]]:
    """Blocks that follow each other, and what comes behind them: at the end, nothing."""
    blocks: list[Block] = []
    for record in records:
        if isinstance(record, Block):
            blocks.append(record)
        else:
            yield blocks, record
            blocks = []
    yield blocks, None


# --- the logs


class SqliteLogs:
    """The proxies' logs as SQLite files."""

    def __init__(self, folder: Path, n_proxies: int) -> None:
        self.logs = [BlockLog(folder / f"log{i}.db") for i in range(n_proxies)]

    def write(self, stage: Stage) -> None:
        for log, records in zip(self.logs, stage.records, strict=True):
            for blocks, record in _runs(records):
                log.append(blocks, stage.now)
                if isinstance(record, MarkRecord):
                    log.append([], stage.now, marks={record.channel: record.epoch})
                elif record is not None:
                    row = ("?", 0, 0, 0, 0, 0, 0, record)
                    columns = "channel, epoch, size_class, prefix_bits, prefix, n, appended, block"
                    log._connection.execute(
                        f"INSERT INTO blocks ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                        row,
                    )

    def readers(self) -> list[ShareLog]:
        return [EmbeddedLog(log.path) for log in self.logs]

    def close(self) -> None:
        for log in self.logs:
            log.close()


class KafkaLogs:
    """The proxies' logs as topics, written by the proxy's own code. What is no block is written
    beside it, by a stranger."""

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self.settings = [
            KafkaSettings(bootstrap, topic, partitions=1 << PARTITION_BITS) for topic in topics
        ]
        self.logs = [KafkaLog(settings, RETENTION) for settings in self.settings]
        self._stranger = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._n_strange = 0

    def write(self, stage: Stage) -> None:
        for log, records in zip(self.logs, stage.records, strict=True):
            for blocks, record in _runs(records):
                log.append(blocks, stage.now)
                if isinstance(record, MarkRecord):
                    log.append([], stage.now, marks={record.channel: record.epoch})
                elif record is not None:
                    self._n_strange += 1
                    self._stranger.produce(
                        log.settings.topic,
                        record,
                        partition=self._n_strange % log.settings.partitions,
                    )
        assert self._stranger.flush(30) == 0
        for settings in self.settings:
            wait_until_visible(settings)

    def readers(self) -> list[ShareLog]:
        return [KafkaShareLog(settings) for settings in self.settings]

    def close(self) -> None:
        for log in self.logs:
            log.close()


def wait_until_visible(settings: KafkaSettings) -> None:
    """Until nothing of the topic is in a transaction: Kafka shows what is committed a moment after
    it says so."""
    admin = AdminClient(settings.client())
    partitions = [TopicPartition(settings.topic, i) for i in range(settings.partitions)]
    deadline = time.monotonic() + 30
    while ends(admin, partitions, committed=True) != ends(admin, partitions, committed=False):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ends(admin: AdminClient, partitions: Sequence[TopicPartition], committed: bool) -> list[int]:
    """The offset behind the last record of each partition, or behind the last that is committed."""
    from confluent_kafka import IsolationLevel  # noqa: PLC0415 - beside its only use
    from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]  # noqa: PLC0415

    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    offsets = admin.list_offsets(
        {each: OffsetSpec.latest() for each in partitions},  # type: ignore[no-untyped-call]
        isolation_level=level,
    )
    return [offsets[each].result(30).offset for each in partitions]


# --- the embedded engine


class EmbeddedEngine:
    """The embedded engine on either kind of log. It is started anew before every drain: what it
    knows is what is in its state."""

    def __init__(
        self, scenario: Scenario, folder: Path, logs: SqliteLogs | KafkaLogs, **limits: int
    ) -> None:
        self.logs, self._scenario = logs, scenario
        self._limits = EngineLimits(**{**LIMITS, **limits})
        self._path = folder / "state.db"
        state = State(self._path, scenario.proxies)
        with state.transaction():
            scenario.publish(state.connection)
        state.close()

    def write(self, stage: Stage) -> None:
        self.logs.write(stage)

    def drain(self, now: int) -> None:
        state = State(self._path, self._scenario.proxies)
        engine = Engine(state, self.logs.readers(), self._limits, clock=lambda: now)
        try:
            engine.drain()
            assert [health.problem for health in engine.health] == [""] * len(
                self._scenario.proxies
            )
        finally:
            for log in engine.logs:
                log.close()
            engine.close()
            state.close()

    def outcome(self) -> Outcome:
        state = State(self._path, self._scenario.proxies)
        try:
            return outcome_of(state, self._scenario.queries)
        finally:
            state.close()

    def close(self) -> None:
        self.logs.close()


def outcome_of(state: State, queries: Sequence[Query]) -> Outcome:
    """What stands in an aggregator's state."""
    names = sorted({query.id for query in queries})
    panes = {key: pane for name in names for key, pane in state.panes(name, range(1 << 31)).items()}
    accounts = {}
    for channel, epoch in state.connection.execute(
        "SELECT DISTINCT channel, epoch FROM accounts"
    ).fetchall():
        tag = OUTSIDE if epoch == OUTSIDE else unsigned(channel)
        for proxy, account in state.accounts(tag, range(epoch, epoch + 1)).items():
            accounts[proxy, tag, epoch] = {name: n for name, n in account.to_dict().items() if n}
    refusals = state.connection.execute("SELECT proxy, reason, n FROM refusals").fetchall()
    windows = {
        name: [
            json.loads(document)
            for (document,) in state.connection.execute(
                "SELECT document FROM results WHERE query = ? ORDER BY seq", (name,)
            )
        ]
        for name in names
    }
    return Outcome(
        {key: (pane.n, pane.nothing, pane.counts.tolist()) for key, pane in panes.items()},
        accounts,
        {(proxy, reason): n for proxy, reason, n in refusals},
        windows,
    )


# --- the scenario


class ScenarioBuilder:
    """Makes up a scenario, and keeps count."""

    def __init__(self, n_proxies: int, seed: int) -> None:
        names = [f"https://{name}.example" for name in ("one", "two", "three")[:n_proxies]]
        strata = [Stratum("town"), Stratum("land")]
        self.first = minute_query(id="distance", proxies=names, strata=strata)
        self.second = self.first.revised(sampling=0.5)
        slower = Schedule(ORIGIN, ORIGIN + 86400, 120, 240, 120)
        self.other = minute_query(id="other", proxies=names, schedule=slower, size_class=1)
        self.n_proxies, self.last = n_proxies, n_proxies - 1
        self.source, self.rng = seeded_source(seed), np.random.default_rng(seed)
        self.scenario = Scenario([self.first, self.second, self.other])
        self.scenario.totals = [
            dict.fromkeys(("counted", "orphaned", "duplicate", "late", "malformed"), 0)
            for _ in names
        ]
        self.records: list[list[Record]] = [[] for _ in names]

    def book(self, outcome: str, n: int, proxies: Sequence[int] | None = None) -> None:
        for proxy in range(self.n_proxies) if proxies is None else proxies:
            self.scenario.totals[proxy][outcome] += n

    def split(self, query: Query, epoch: int, n: int, **how: Any) -> list[Any]:
        """Shares of messages that say bucket 3, without counting on them."""
        reports = (
            query.mechanism.draw(np.full(n, 3, dtype=np.intp), self.source)
            .reshape(n, -1)
            .view(np.uint8)
        )
        return self.seal(query, epoch, reports, **how)

    def seal(
        self,
        query: Query,
        epoch: int,
        reports: Any,
        tag: int | None = None,
        strata: Any = 0,
        kinds: Any = ANSWER,
    ) -> list[Any]:
        size_class = query.size_class or 0
        tag = query.tag if tag is None else tag
        return list(
            split_columns(
                reports, tag, epoch, size_class, self.n_proxies, strata, kinds, self.source
            )
        )

    def answers(self, query: Query, epoch: int, n: int) -> list[Any]:
        """Shares of messages that will be counted: answers, and some that say nothing."""
        n_strata = max(1, len(query.strata))
        values, strata = self.rng.integers(0, 12, n), self.rng.integers(0, n_strata, n)
        silent = self.rng.random(n) < 0.1
        reports = query.mechanism.draw(values, self.source).reshape(n, -1).view(np.uint8)
        reports[silent] = 0
        for stratum in range(n_strata):
            chosen = strata == stratum
            key = PaneKey(query.id, query.serial, epoch, stratum)
            before = np.array(self.scenario.counted.get(key, [0] * 12))
            if chosen.any():
                self.scenario.counted[key] = (
                    before + np.bincount(values[chosen & ~silent], minlength=12)
                ).tolist()
        self.book("counted", n)
        return self.seal(
            query, epoch, reports, strata=strata, kinds=np.where(silent, NOTHING, ANSWER)
        )

    def put(self, proxy: int, query: Query, epoch: int, rows: Any, pieces: int = 1) -> None:
        """Blocks of a proxy: cut here and there, at different widths."""
        order = self.rng.permutation(rows.shape[1])
        for part in np.array_split(order, pieces):
            bits = int(self.rng.integers(PARTITION_BITS, PARTITION_BITS + 4))
            blocks, _ = cut(query.channel_tag, epoch, query.size_class or 0, rows[:, part], bits)
            self.records[proxy] += [blocks[i] for i in self.rng.permutation(len(blocks))]

    def send(
        self,
        query: Query,
        epoch: int,
        shares: Sequence[Any],
        proxies: Sequence[int] | None = None,
        pieces: int = 3,
    ) -> None:
        for proxy in range(self.n_proxies) if proxies is None else proxies:
            self.put(proxy, query, epoch, shares[proxy], pieces)

    def mark(self, epoch: int, proxies: Sequence[int] | None = None) -> None:
        """Epochs of the minutely queries; the others' are twice as long."""
        for proxy in range(self.n_proxies) if proxies is None else proxies:
            self.records[proxy].append(MarkRecord(self.first.channel_tag, epoch))
            self.records[proxy].append(MarkRecord(self.other.channel_tag, epoch // 2))

    def strange(self, proxy: int, content: bytes, n: int) -> None:
        self.records[proxy].append(content)
        self.book("malformed", n, [proxy])

    def stage(self, seconds: int, mixed: bool = False) -> None:
        """What was put so far is a stage. `mixed`: in no order, as partitions give none (blocks of
        one id stay in order)."""
        records = self.records
        if mixed:
            records = [[each[i] for i in self.rng.permutation(len(each))] for each in records]
        self.scenario.stages.append(Stage(ORIGIN + seconds, records))
        self.records = [[] for _ in records]


def _strangers(tell: ScenarioBuilder) -> None:
    """What every proxy's log may hold that is not to be counted, whole blocks of it."""
    for proxy in range(tell.n_proxies):
        rows = tell.split(tell.first, 0, 4)[proxy]
        (whole,), _ = cut(tell.first.channel_tag, 0, 0, rows, 0)
        content = whole.to_bytes()
        tell.strange(proxy, content[:-8], 4)  # truncated: four are claimed
        tell.strange(proxy, content + b"\0", 4)  # trailing
        tell.strange(proxy, b"\x09" + content[1:], 4)  # another version
        tell.strange(proxy, b"nonsense", 1)
        # a mark that is none
        tell.strange(proxy, MarkRecord(tell.first.channel_tag, 9).to_bytes() + b"\0", 1)
        for channel, epoch, size_class in (
            (tell.first.channel_tag ^ 1, 0, 0),  # nobody's channel
            (tell.first.channel_tag, 0, 1),  # another size class
            (tell.first.channel_tag, 500, 0),  # hours ahead
            (tell.first.channel_tag, tell.first.schedule.n_epochs + 3, 0),  # after the query's end
        ):
            rows = tell.split(tell.first if size_class == 0 else tell.other, epoch, 5)[proxy]
            blocks, _ = cut(channel, epoch, size_class, rows, PARTITION_BITS)
            tell.records[proxy] += blocks
            tell.book("malformed", 5, [proxy])


def _bad_messages(tell: ScenarioBuilder) -> None:
    """Messages that are joined and refused, for every reason there is."""
    query, n_bytes = tell.first, tell.first.report_bytes
    tampered = tell.split(query, 0, 3)
    tampered[0][4] ^= np.uint64(1)
    never = np.full((2, n_bytes), 200, dtype=np.uint8)
    for shares in (
        tampered,  # tag
        tell.split(query, 0, 4, tag=query.tag ^ 1),  # query
        tell.split(query, 0, 2, strata=7),  # stratum
        tell.seal(query, 0, never),  # report
        tell.split(query, 1, 2),  # sealed for the next epoch: epoch
    ):
        tell.send(query, 0, shares, pieces=1)
        tell.book("malformed", shares[0].shape[1])


def share_log(n_proxies: int, seed: int = 7) -> Scenario:
    """Two or three proxies; several versions, strata and channels; and everything that can go wrong
    with a share."""
    tell = ScenarioBuilder(n_proxies, seed)
    first, second, other, last = tell.first, tell.second, tell.other, tell.last
    everyone, but_last = list(range(n_proxies)), list(range(n_proxies - 1))

    # Minute 1: epochs 0 and 1, in no order at all.
    held = tell.answers(first, 0, 30)
    for query, epoch, n in (
        (first, 0, 200),
        (second, 0, 90),
        (first, 1, 70),
        (second, 1, 60),
        (other, 0, 80),
    ):
        tell.send(query, epoch, tell.answers(query, epoch, n))
    tell.send(first, 0, held, but_last)
    tell.send(first, 0, tell.split(first, 0, 11), [0])  # nobody else ever has these
    tell.book("orphaned", 11, [0])
    if n_proxies > 2:
        tell.send(first, 0, tell.split(first, 0, 5), but_last)
        tell.book("orphaned", 5, but_last)
    _strangers(tell)
    _bad_messages(tell)
    tell.stage(90, mixed=True)

    # The first share of an id counts, whatever comes after it: the same again, or another.
    again = tell.answers(second, 1, 25)
    tell.send(second, 1, again)
    changed = again[1].copy()
    changed[3] ^= np.uint64(0xFFFF)
    tell.put(1, second, 1, changed)
    tell.put(0, second, 1, again[0][:, :6])
    tell.book("duplicate", 25, [1])
    tell.book("duplicate", 6, [0])
    tell.stage(100)

    # What is joined already comes again; what was held back comes; all but the last proxy have
    # marked epoch 0.
    tell.put(0, second, 1, again[0])
    tell.book("duplicate", 25, [0])
    tell.put(last, first, 0, held[last], 2)
    tell.mark(1, but_last)
    tell.stage(130)
    tell.mark(1, [last])
    tell.stage(140)

    # Epoch 0 is closed: what comes of it now is late. The other channel's first epoch is not.
    tell.send(first, 0, tell.split(first, 0, 7))
    tell.send(first, 0, held, [0], pieces=1)
    tell.book("late", 7)
    tell.book("late", 30, [0])
    tell.send(second, 2, tell.answers(second, 2, 50))
    tell.send(other, 0, tell.answers(other, 0, 20))
    silent = tell.split(first, 2, 9)
    tell.send(first, 2, silent, but_last)  # the last proxy's come too late, below
    tell.book("orphaned", 9, but_last)
    tell.stage(170, mixed=True)

    # The last proxy marks nothing for five minutes: epochs are closed without it.
    tell.mark(3, but_last)
    tell.stage(481)
    tell.put(last, first, 2, silent[last])
    tell.book("late", 9, [last])
    for epoch in (3, 4, 5):
        for query in (first, second):
            tell.send(query, epoch, tell.answers(query, epoch, 40))
    tell.send(other, 2, tell.answers(other, 2, 15))
    tell.stage(490, mixed=True)
    tell.mark(6, everyone)
    tell.stage(500)
    return tell.scenario


def adaptive_log(n_proxies: int = 2, seed: int = 8) -> Scenario:
    """A query with strata whose answers are in up to two overlapping buckets, and versions of it
    that a controller signed.

    Versions change the sampling of each stratum and the coins, one of them inverts the answers, and
    some epochs are answered under several versions at once.
    """
    controller = AnalystKey("controller", bytes([7]) * 32)
    names = [f"https://{name}.example" for name in ("one", "two", "three")[:n_proxies]]
    ranges = Envelope(
        controller.public.raw.hex(),
        sampling=(0.1, 1.0),
        epsilon_per_answer=9.0,
        p=(0.2, 0.8),
        q=(0.2, 0.8),
        inversion=True,
    )
    base = minute_query(
        id="adaptive",
        proxies=names,
        strata=[Stratum("town", population=4_000), Stratum("land", sampling=0.5)],
        columns=[Column("age", ["[0,inf)", "[18,inf)", "[40,inf)", "[65,inf)"], overlapping=True)],
        ones=2,
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
        budget=Budget(epsilon=500.0, margin=0.05),
        envelope=ranges,
    )
    signed = [sign(base, KEY)]
    changes: list[tuple[list[float], dict[str, Any]]] = [
        ([0.3, 0.9], {"p": 0.3, "q": 0.4}),
        ([0.7, 0.7], {"p": 0.6, "q": 0.7, "inverted": True}),
        ([0.2, 0.4], {"p": 0.5, "q": 0.5}),
    ]
    for serial, (samplings, coins) in enumerate(changes, 2):
        version = Version(base.digest.hex(), serial, samplings[0], coins, samplings)
        signed.append(sign_version(signed[0], version, controller))
    tell = ScenarioBuilder(n_proxies, seed)
    versions = [each.unverified() for each in signed]
    tell.scenario.queries, tell.scenario.signed = versions, signed
    tell.first = tell.other = base
    for epoch, answered in enumerate([[0], [0, 1], [1], [1, 2], [2, 3], [3]]):
        for place in answered:
            query = versions[place]
            n = int(tell.rng.integers(200, 400))
            ages = tell.rng.integers(0, 90, n)
            sets = np.array(
                [[*query.buckets.indices([age])[:2], -1, -1][:2] for age in ages.tolist()],
                dtype=np.intp,
            )
            strata = tell.rng.integers(0, 2, n)
            reports = query.mechanism.draw_sets(sets, tell.source)
            for stratum in range(2):
                key = PaneKey(query.id, query.serial, epoch, stratum)
                tell.scenario.counted[key] = query.mechanism.count(
                    reports[strata == stratum]
                ).tolist()
            tell.book("counted", n)
            tell.send(query, epoch, tell.seal(query, epoch, reports, strata=strata))
        if epoch in (2, 5):
            for proxy in range(n_proxies):
                tell.records[proxy].append(MarkRecord(base.channel_tag, epoch + 1))
            tell.stage(60 * epoch + 70)
    return tell.scenario
