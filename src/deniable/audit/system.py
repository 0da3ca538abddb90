"""A whole system on a simulated clock: proxies, their logs and an aggregator, without sockets, threads or waiting.

The parts are the deployed ones: :class:`~deniable.proxy.intake.Intake` with its spool and log, the embedded engine with its
state, signed queries on both sides. The caller plays network and clock: it hands shares to a proxy at a given time, stops and
starts proxies, makes their logs unreadable for a while, kills the aggregator between two steps. Whole devices take part through
:class:`SimulatedTransport`.

Things happen at whole seconds, in this order: what the caller planned (:meth:`SimulatedSystem.at`), in the order it was planned;
then every proxy that runs flushes and closes what is due; then the aggregator reads, counts and closes. Between two such times
nothing happens, so a year of epochs costs as much as a minute of them.

>>> import tempfile
>>> from deniable.audit.system import SimulatedSystem
>>> from deniable.client.fleet import Fleet
>>> from deniable.queries.buckets import Column
>>> from deniable.queries.query import Query
>>> from deniable.queries.schedule import Schedule
>>> query = Query("commute", "City", "SELECT km FROM trips", [Column("km", ["[0,5)", "[5,inf)"])],
...               Schedule(0, 86400, 600, 600, 600), ["one", "two"], {"name": "TwoCoin", "p": 0.5, "q": 0.5})
>>> with tempfile.TemporaryDirectory() as folder, SimulatedSystem(query, folder) as system:
...     shares = Fleet(query, 1000).answer(0, [0] * 1000)
...     for proxy, columns in enumerate(shares.columns):
...         system.at(60, lambda proxy=proxy, columns=columns: system.post(proxy, 0, columns))
...     system.run(1200)
...     [(window.condition, window.n) for window in system.windows()]
[('complete', 1000)]
"""

from __future__ import annotations

import heapq
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.catalogue import publish
from deniable.aggregator.conservation import Account
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.history.history_settings import HistorySettings
from deniable.aggregator.limits import EngineLimits
from deniable.aggregator.panes import Pane, PaneKey
from deniable.aggregator.state import State
from deniable.aggregator.windows import Window
from deniable.client.upload import refusal
from deniable.errors import RefusedError, UploadError
from deniable.local.crowd import records
from deniable.logs.share_logs import EmbeddedLog, Position, Reading
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.intake import Intake, Receipt, Rules, Upload
from deniable.queries.channels import channels_of
from deniable.queries.keys import AnalystKey, KeyRing
from deniable.queries.query import Query
from deniable.queries.signing import sign

__all__ = ["Request", "SimulatedSystem", "SimulatedTransport", "scratch_folder"]

_UNLIMITED = 1 << 40
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - where the system has it; we make our own folder there


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder, in memory where the system supports it: nothing simulated has to survive a power cut."""
    with tempfile.TemporaryDirectory(prefix="deniable-", dir=_IN_MEMORY if _IN_MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@dataclass(frozen=True, repr=False)
class Request:
    """One request to a proxy, as seen by an observer of the network and the proxy's replies. Without a body, a poll."""

    time: int
    proxy: int
    client: bytes
    """What all requests of one device to this proxy have in common: its address, or its token."""
    body: bytes
    status: int
    """202 if it was accepted, 0 if there was no reply."""

    def __repr__(self) -> str:
        return f"<request at {self.time}: {len(self.body)} bytes for proxy {self.proxy}, {self.status}>"


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


class SimulatedSystem:
    """The services of one query at time :attr:`now`. A context manager that closes them all.

    `rules` and `limits` are those of a proxy's and an aggregator's settings file, with the same defaults. With `record`, every
    request is kept in :attr:`traffic`. `make_intake` and `make_engine` build the parts: a test plants faults there.
    """

    def __init__(
        self,
        query: Query,
        folder: str | Path,
        *,
        rules: Rules | None = None,
        limits: EngineLimits | None = None,
        history: HistorySettings | None = None,
        record: bool = False,
        make_intake: Callable[..., Intake] = Intake,
        make_engine: Callable[..., Engine] = Engine,
    ) -> None:
        self.query, self.folder = query, Path(folder)
        self.rules, self.limits = rules or Rules(), limits or EngineLimits(workers=1, bucket_bits=0)
        self.now = query.schedule.origin
        self.key = AnalystKey.generate(query.analyst)
        self.ring = KeyRing().add(self.key.public)
        self.traffic: list[Request] = []
        self._record, self._history = record, history
        self._make_intake, self._make_engine = make_intake, make_engine
        self._planned: list[_Planned] = []
        self._turns: list[int] = []
        self._asked: set[int] = set()
        self._order = itertools.count()
        n_proxies = len(query.proxies)
        self._intakes: list[Intake | None] = [None] * n_proxies
        for proxy in range(n_proxies):
            self.start_proxy(proxy)
        self._logs = [_GatedLog(self._proxy_folder(proxy) / "log.db") for proxy in range(n_proxies)]
        self._engine = self._start_engine()
        with self.state.transaction():
            publish(self.state.connection, sign(query, self.key), self.ring, query.proxies, self.now)

    def __enter__(self) -> SimulatedSystem:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files."""
        self._stop_engine()
        for log in self._logs:
            log.close()
        for proxy in range(len(self._intakes)):
            self.stop_proxy(proxy)

    # --- the clock --------------------------------------------------------------------------------------------------

    def at(self, time: int, action: Callable[[], object]) -> None:
        """Schedule an action, now or later; proxies and aggregator get their turn right after it."""
        heapq.heappush(self._planned, _Planned(max(time, self.now), next(self._order), action))

    def turn_at(self, time: int) -> None:
        """Have proxies and aggregator do what is due at a time: once per time, however often it is requested."""
        if time not in self._asked:
            self._asked.add(time)
            heapq.heappush(self._turns, time)

    def run(self, until: int) -> None:
        """Run everything planned up to a time, in order, and advance the clock to that time."""
        for time in self._closing_times(until):
            self.turn_at(time)
        while True:
            time = min([each.time for each in self._planned[:1]] + self._turns[:1], default=until + 1)
            if time > until:
                break
            self.now = max(self.now, time)
            while self._planned and self._planned[0].time <= self.now:
                heapq.heappop(self._planned).action()
            while self._turns and self._turns[0] <= self.now:
                self._asked.discard(heapq.heappop(self._turns))
            self._turn()
        self.now = max(self.now, until)

    def _closing_times(self, until: int) -> Iterator[int]:
        """When proxies close epochs, when the aggregator gives up waiting for their marks, and when early results are due."""
        schedule, own = self.query.schedule, self.query.grace or 0
        for epoch in range(max(0, (self.now - schedule.origin) // schedule.every - 1), schedule.n_epochs):
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
        self._engine.drain()

    # --- the proxies ------------------------------------------------------------------------------------------------

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

    def take(self, proxy: int, uploads: Sequence[Upload]) -> list[Receipt | RefusedError] | None:
        """Hand uploads to a proxy now, each as its own request; its reply, or None if it is down.

        It flushes them by its deadline at the latest.
        """
        intake = self._intakes[proxy]
        replies = None if intake is None else intake.take(uploads)
        if self._record:
            statuses = [0] * len(uploads) if replies is None else [getattr(reply, "status", 202) for reply in replies]
            self.traffic += [
                Request(self.now, proxy, upload.client, upload.content, status)
                for upload, status in zip(uploads, statuses, strict=True)
            ]
        self.turn_at(self.now + self.rules.deadline)
        return replies

    def post(
        self, proxy: int, epoch: int, columns: NDArray[np.uint64], query: Query | None = None
    ) -> Receipt | RefusedError | None:
        """Hand the shares of many devices to a proxy at once: columns as :class:`~deniable.client.fleet.FleetShares` has them.

        They arrive in the same second and belong to one epoch, so all are treated alike.
        """
        body = records(self.query, epoch, columns)
        replies = self.take(proxy, [Upload(b"many devices", _UNLIMITED, body)])
        return None if replies is None else replies[0]

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

    # --- the aggregator ---------------------------------------------------------------------------------------------

    def signed(self) -> list[bytes]:
        """The signed queries that devices may answer."""
        return [sign(self.query, self.key).to_bytes()]

    def _start_engine(self) -> Engine:
        self.state = State(self.folder / "state.db", self.query.proxies)
        return self._make_engine(self.state, self._logs, self.limits, lambda: self.now, self._history)

    def _stop_engine(self) -> None:
        self._engine.close()
        self.state.close()

    def restart_aggregator(self) -> None:
        """Kill the aggregator between two steps, and start it on the state it left behind."""
        self._stop_engine()
        self._engine = self._start_engine()

    # --- what came of it --------------------------------------------------------------------------------------------

    def windows(self) -> list[Window]:
        """The newest result of every window, in the order of the windows."""
        rows = self.state.connection.execute("SELECT document FROM results WHERE query = ? ORDER BY seq", (self.query.id,))
        found = (Window.from_dict(json.loads(document)) for (document,) in rows)
        newest = {window.index: window for window in found}
        return [newest[index] for index in sorted(newest)]

    def panes(self) -> dict[PaneKey, Pane]:
        """What was counted, by version, epoch and stratum."""
        return self.state.panes(self.query.id, range(self.query.schedule.n_epochs))

    def accounts(self) -> list[Account]:
        """What became of all shares in each proxy's log, whatever their epoch."""
        total = [Account() for _ in self.query.proxies]
        for epochs in (range(self.query.schedule.n_epochs), range(-1, 0)):
            for proxy, account in self.state.accounts(self.query.channel_tag, epochs).items():
                total[proxy] += account
        return total


@dataclass
class SimulatedTransport:
    """The transport of a whole device to the proxies of a simulated system, which knows it as `client`.

    `offset` is how many seconds the device's clock is ahead of the system's; :meth:`clock` is that clock.
    """

    system: SimulatedSystem
    client: bytes
    offset: int = 0
    concurrent: bool = False

    def clock(self) -> float:
        """The time on the device."""
        return float(self.system.now + self.offset)

    def _number(self, proxy: str) -> int:
        return list(self.system.query.proxies).index(proxy)

    def send(self, proxy: str, token: str, body: bytes) -> None:
        """Deliver the records to the proxy."""
        replies = self.system.take(self._number(proxy), [Upload(self.client, None, body)])
        if replies is None:
            raise UploadError("did not answer in time")
        (reply,) = replies
        if isinstance(reply, RefusedError):
            raise refusal(reply.status, retry_after=reply.retry_after or 0)

    def queries(self, proxy: str) -> list[bytes]:
        """The signed queries, if the proxy is up."""
        number = self._number(proxy)
        up = self.system.is_up(number)
        if self.system._record:
            self.system.traffic.append(Request(self.system.now, number, self.client, b"", 200 if up else 0))
        if not up:
            raise UploadError("did not answer in time")
        return self.system.signed()

    def revoked(self, proxy: str) -> frozenset[str]:
        """None: nothing is revoked here."""
        return frozenset()

    def skew(self, proxy: str) -> float | None:
        """The proxy's clock minus the device's."""
        return float(-self.offset)
