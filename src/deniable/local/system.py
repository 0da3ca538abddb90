"""A whole system in one process: proxies, their logs and an aggregator, without sockets.

It is what rehearsals, audits, the adaptive demonstration and tests run on. The parts are the
deployed ones: :class:`~deniable.proxy.intake.uploads.Intake` with its spool and log, the embedded
engine with its state, signed queries on both sides. The caller plays the network: it hands shares
to a proxy at a given time, stops and starts proxies, makes their logs unreadable for a while, kills
the aggregator between two steps. Whole devices take part through :class:`LocalTransport`.

The clock is simulated unless a real one is given, for whose times the system waits. Things happen
at whole seconds, in this order: what the caller planned (:meth:`LocalSystem.at`), in the order it
was planned; then every proxy that runs flushes and closes what is due; then the aggregator reads,
counts and closes. Between two such times nothing happens, so on a simulated clock a year of epochs
costs as much as a minute of them.

>>> import tempfile
>>> from deniable.local.system import LocalSystem
>>> from deniable.client.simulation.fleet import Fleet
>>> from deniable.queries.columns.column import Column
>>> from deniable.queries.query import Query
>>> from deniable.queries.schedule import Schedule
>>> query = Query("commute", "City", "SELECT km FROM trips", [Column("km", ["[0,5)", "[5,inf)"])],
...               Schedule(0, 86400, 600, 600, 600), ["one", "two"], {"name": "TwoCoin", "p": 0.5, "q": 0.5})
>>> with tempfile.TemporaryDirectory() as folder, LocalSystem(query, folder) as system:
...     system.at(60, lambda: system.send(Fleet(query, 1000).answer(0, [0] * 1000)))
...     system.run(1200)
...     [(window.condition, window.n) for window in system.windows()]
[('complete', 1000)]
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.conservation import Account
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.counting.panes import Panes
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import Clock, State
from deniable.aggregator.windows.window import Window
from deniable.client.encoding import upload_body
from deniable.client.simulation.fleet import FleetShares
from deniable.errors import RefusedError
from deniable.local.aggregator import LocalAggregator
from deniable.logs.share_logs import EmbeddedLog, Position, Reading
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import channels_of
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign

__all__ = ["LocalSystem", "Request"]

_UNLIMITED = 1 << 40
_LONGEST_SLEEP = 0.05


@dataclass(frozen=True, repr=False)
class Request:
    """One request to a proxy, as seen by an observer of the network and the proxy's replies.
    Without a body, a poll."""

    time: int
    proxy: int
    client: bytes
    """What all requests of one device to this proxy have in common: its address, or its token."""
    body: bytes
    status: int
    """202 if it was accepted, 0 if there was no reply."""

    def __repr__(self) -> str:
        return (
            f"<request at {self.time}: {len(self.body)} bytes for proxy {self.proxy},"
            f" {self.status}>"
        )


class _GatedLog:
    """A proxy's log that the aggregator cannot always read."""

    def __init__(self, path: Path) -> None:
        self._log = EmbeddedLog(path)
        self.readable = True

    def read(self, after: Position, most_bytes: int) -> Reading:
        if not self.readable:
            return Reading([], after, (), problem="the log cannot be reached")
        return self._log.read(after, most_bytes)

    def close(self) -> None:
        self._log.close()


class _Planned(NamedTuple):
    time: int
    order: int
    action: Callable[[], object]


class LocalSystem:
    """The services of one query at time :attr:`now`. A context manager that closes them all.

    `rules` and `limits` are those of a proxy's and an aggregator's settings file, with the same
    defaults; `key` signs the query, by default one that is made for it; `clock` is the real one, if
    time is not simulated. With `record`, every request is kept in :attr:`traffic`. `make_intake`
    and `make_engine` build the parts: a test plants faults there.
    """

    def __init__(
        self,
        query: Query,
        folder: str | Path,
        *,
        rules: IntakeRules | None = None,
        limits: EngineLimits | None = None,
        history: HistorySettings | None = None,
        key: AnalystKey | None = None,
        clock: Clock | None = None,
        record: bool = False,
        make_intake: Callable[..., Intake] = Intake,
        make_engine: Callable[..., Engine] = Engine,
    ) -> None:
        self.query, self.folder = query, Path(folder)
        self.rules, self.limits = (
            rules or IntakeRules(),
            limits or EngineLimits(workers=1, bucket_bits=0),
        )
        self._clock, self._now = clock, query.schedule.origin
        self.key = key or AnalystKey.generate(query.analyst)
        self.ring = KeyRing().add(self.key.public)
        self.traffic: list[Request] = []
        self._record, self._make_intake = record, make_intake
        self._planned: list[_Planned] = []
        self._turns: list[int] = []
        self._asked: set[int] = set()
        self._order = itertools.count()
        n_proxies = len(query.proxies)
        self._intakes: list[Intake | None] = [None] * n_proxies
        for proxy in range(n_proxies):
            self.start_proxy(proxy)
        self._logs = [_GatedLog(self._proxy_folder(proxy) / "log.db") for proxy in range(n_proxies)]
        self.aggregator = LocalAggregator(
            query,
            self.folder / "state.db",
            self._logs,
            lambda: self.now,
            limits=self.limits,
            history=history,
            make_engine=make_engine,
        )
        self.aggregator.publish(sign(query, self.key), self.ring)

    def __enter__(self) -> LocalSystem:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        self.aggregator.close()
        for proxy in range(len(self._intakes)):
            self.stop_proxy(proxy)

    # --- the clock

    @property
    def now(self) -> int:
        """The time, in whole seconds of UTC."""
        return self._now if self._clock is None else self._clock()

    def _advance(self, until: int) -> None:
        """Be at a time: set the simulated clock, or wait for the real one."""
        self._now = max(self._now, until)
        while self.now < until:
            time.sleep(_LONGEST_SLEEP)

    def at(self, time: int, action: Callable[[], object]) -> None:
        """Schedule an action, now or later; proxies and aggregator get their turn right after
        it."""
        heapq.heappush(self._planned, _Planned(max(time, self.now), next(self._order), action))

    def turn_at(self, time: int) -> None:
        """Have proxies and aggregator do what is due at a time: once per time, however often it is
        requested."""
        if time not in self._asked:
            self._asked.add(time)
            heapq.heappush(self._turns, time)

    def run(self, until: int) -> None:
        """Run everything planned up to a time, in order, and advance the clock to that time."""
        for due in self._closing_times(until):
            self.turn_at(due)
        while True:
            due = min(
                [each.time for each in self._planned[:1]] + self._turns[:1], default=until + 1
            )
            if due > until:
                break
            self._advance(due)
            while self._planned and self._planned[0].time <= self.now:
                heapq.heappop(self._planned).action()
            while self._turns and self._turns[0] <= self.now:
                self._asked.discard(heapq.heappop(self._turns))
            self._turn()
        self._advance(until)

    def _closing_times(self, until: int) -> Iterator[int]:
        """When proxies close epochs, when the aggregator gives up waiting for their marks, and when
        early results are due."""
        schedule, own = self.query.schedule, self.query.grace or 0
        for epoch in range(
            max(0, (self.now - schedule.origin) // schedule.every - 1), schedule.n_epochs
        ):
            end = schedule.end_of_epoch(epoch)
            if end > until:
                return
            yield from (end + max(self.rules.grace, own), end + own + self.limits.patience)
            early = self.limits.early
            while own and early < own:
                yield end + early
                early *= 2

    def _turn(self) -> None:
        for intake in self._intakes:
            if intake is not None:
                intake.tick()
        self.aggregator.engine.drain()

    # --- the proxies

    def _proxy_folder(self, proxy: int) -> Path:
        return self.folder / f"proxy-{proxy}"

    def start_proxy(self, proxy: int) -> None:
        """Start a proxy on the files it left behind."""
        if self._intakes[proxy] is None:
            intake = self._make_intake(self._proxy_folder(proxy), self.rules, lambda: self.now)
            intake.set_channels(channels_of([(self.query.header, None)]))
            self._intakes[proxy] = intake

    def stop_proxy(self, proxy: int) -> None:
        """Stop a proxy, as a power cut does: nothing is flushed."""
        intake = self._intakes[proxy]
        if intake is not None:
            intake.close()
            self._intakes[proxy] = None

    def is_up(self, proxy: int) -> bool:
        """Whether the proxy runs."""
        return self._intakes[proxy] is not None

    def set_readable(self, proxy: int, readable: bool) -> None:
        """Let the aggregator read a proxy's log, or not."""
        self._logs[proxy].readable = readable

    def take(
        self, proxy: int, uploads: Sequence[Upload]
    ) -> list[UploadReceipt | RefusedError] | None:
        """Hand uploads to a proxy now, each as its own request; its reply, or None if it is down.

        It flushes them by its deadline at the latest.
        """
        intake = self._intakes[proxy]
        replies = None if intake is None else intake.take(uploads)
        if self._record:
            statuses = (
                [0] * len(uploads)
                if replies is None
                else [getattr(reply, "status", 202) for reply in replies]
            )
            self.traffic += [
                Request(self.now, proxy, upload.client, upload.content, status)
                for upload, status in zip(uploads, statuses, strict=True)
            ]
        self.turn_at(self.now + self.rules.deadline)
        return replies

    def post(
        self, proxy: int, epoch: int, columns: NDArray[np.uint64]
    ) -> UploadReceipt | RefusedError | None:
        """Hand the shares of many devices to a proxy at once: columns as
        :class:`~deniable.client.simulation.fleet.FleetShares` has them.

        They arrive in the same second and belong to one epoch, so all are treated alike.
        """
        body = upload_body(self.query, epoch, columns)
        replies = self.take(proxy, [Upload(b"many devices", _UNLIMITED, body)])
        return None if replies is None else replies[0]

    def send(self, shares: FleetShares) -> list[UploadReceipt | RefusedError | None]:
        """Hand the shares of a fleet to all proxies now; the reply of each, None where one is
        down."""
        return [
            self.post(proxy, shares.epoch, columns) for proxy, columns in enumerate(shares.columns)
        ]

    def log_path(self, proxy: int) -> Path:
        """The file of a proxy's log."""
        return self._proxy_folder(proxy) / "log.db"

    def append(self, proxy: int, write: Callable[[BlockLog], object]) -> None:
        """Let a cheating proxy write what it likes to its log; it has to be stopped meanwhile."""
        log = BlockLog(self.log_path(proxy))
        try:
            write(log)
        finally:
            log.close()

    # --- the aggregator

    @property
    def state(self) -> State:
        """The aggregator's state."""
        return self.aggregator.state

    def signed(self) -> list[bytes]:
        """The signed queries that devices may answer."""
        return [sign(self.query, self.key).to_bytes()]

    def restart_aggregator(self) -> None:
        """Kill the aggregator between two steps, and start it on the state it left behind."""
        self.aggregator.restart()

    def windows(self) -> list[Window]:
        """The newest result of every window, in the order of the windows."""
        return self.aggregator.windows()

    def panes(self) -> Panes:
        """What was counted, by version, epoch and stratum."""
        return self.aggregator.panes()

    def accounts(self) -> list[Account]:
        """What became of all shares in each proxy's log, whatever their epoch."""
        return self.aggregator.accounts()
