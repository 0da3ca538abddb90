"""An aggregator in this process: a state, the embedded engine and the queries it was given, on logs
that others write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.conservation import Account
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.counting.panes import Panes
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import Clock, State
from deniable.aggregator.windows.stored import read_window
from deniable.aggregator.windows.window import Window
from deniable.logs.share_logs import ShareLog
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import SignedQuery

__all__ = ["LocalAggregator"]


class LocalAggregator:
    """Counts the logs of a query's proxies into the state at `path`, as of the clock.

    `make_engine` builds the engine: a test plants faults there.
    """

    def __init__(
        self,
        query: Query,
        path: Path,
        logs: Sequence[ShareLog],
        clock: Clock,
        *,
        limits: EngineLimits | None = None,
        history: HistorySettings | None = None,
        make_engine: Callable[..., Engine] = Engine,
    ) -> None:
        self.query, self.path, self.clock = query, path, clock
        self._logs, self._history, self._make_engine = list(logs), history, make_engine
        self._limits = limits or EngineLimits(workers=1, bucket_bits=0)
        self._start()

    def _start(self) -> None:
        self.state = State(self.path, self.query.proxies)
        try:
            self.engine = self._make_engine(
                self.state, self._logs, self._limits, self.clock, self._history
            )
        except BaseException:
            self.state.close()
            raise

    def restart(self) -> None:
        """Kill the aggregator between two steps, and start it on the state it left behind."""
        self._stop()
        self._start()

    def _stop(self) -> None:
        self.engine.close()
        self.state.close()

    def close(self) -> None:
        """Close all files."""
        self._stop()
        for log in self._logs:
            log.close()

    def publish(self, signed: SignedQuery, ring: KeyRing) -> None:
        """Count answers to a query from now on."""
        with self.state.transaction():
            publish(self.state.connection, signed, ring, self.query.proxies, self.clock())

    # --- what came of it

    def results(self, query: str | None = None) -> list[Window]:
        """All results of a query, by default the first one's, in the order of their release; of a
        revised window, each."""
        rows = self.state.connection.execute(
            "SELECT document FROM results WHERE query = ? ORDER BY seq", (query or self.query.id,)
        )
        return [read_window(document) for (document,) in rows]

    def windows(self) -> list[Window]:
        """The newest result of every window, in the order of the windows."""
        newest = {window.index: window for window in self.results()}
        return [newest[index] for index in sorted(newest)]

    def panes(self) -> Panes:
        """What was counted, by version, epoch and stratum."""
        return self.state.panes(self.query.id, range(self.query.schedule.n_epochs))

    def accounts(self) -> list[Account]:
        """What became of all shares in each proxy's log, whatever their epoch."""
        total = [Account() for _ in self.query.proxies]
        for epochs in (range(self.query.schedule.n_epochs), range(-1, 0)):
            for proxy, account in self.state.accounts(self.query.channel_tag, epochs).items():
                total[proxy] += account
        return total
