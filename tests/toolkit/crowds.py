"""A crowd that answers: reports split into shares and appended to proxies' logs, and an engine that reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deniable.aggregator.catalogue import publish
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.history.history_settings import HistorySettings
from deniable.aggregator.limits import EngineLimits
from deniable.aggregator.state import State
from deniable.aggregator.windows import Window
from deniable.logs.share_logs import EmbeddedLog
from deniable.logs.sqlite_log import BlockLog
from deniable.queries.buckets import Column
from deniable.queries.keys import AnalystKey, KeyRing
from deniable.queries.query import Budget, Query
from deniable.queries.schedule import Schedule
from deniable.queries.signing import sign
from deniable.randomness import seeded_source
from deniable.wire.blocks import cut
from deniable.wire.message import ANSWER
from deniable.wire.shares import split_columns
from toolkit.queries import MILES, make_query

KEY = AnalystKey("City of Exampleton", bytes(range(32)))
RING = KeyRing().add(KEY.public)
ORIGIN = 1_700_000_000
MINUTES = Schedule(origin=ORIGIN, expires=ORIGIN + 86400, every=60, window=180, slide=60)
"""Epochs of a minute, windows of three of them that slide by one."""


def minute_query(**changes: Any) -> Query:
    """Twelve buckets, an answer a minute, so little noise that a count is the truth."""
    given: dict[str, Any] = {
        "schedule": MINUTES,
        "columns": [Column("distance", MILES, other=True)],
        "mechanism": {"name": "DirectEncoding", "epsilon": 40.0},
        "minimum_cohort": 1,
        "sampling": 1.0,
        "budget": Budget(),
    }
    return make_query(**{**given, **changes})


class Crowd:
    """Devices, proxies' logs and an aggregator's state in one folder, with a clock that is moved by hand."""

    def __init__(self, folder: Path, query: Query | None = None, seed: int = 1) -> None:
        self.folder, self.query = folder, query or minute_query()
        self.now = self.query.schedule.origin
        self.source = seeded_source(seed)
        self.logs = [BlockLog(folder / f"log{i}.db") for i in range(len(self.query.proxies))]
        self.state: State | None = None
        self._engines: list[Engine] = []

    def split(
        self, indices: Sequence[int], epoch: int = 0, strata: Any = 0, kinds: Any = ANSWER, query: Query | None = None
    ) -> Any:
        """Shares of answers that are given as numbers of buckets: rows for each proxy."""
        query = query or self.query
        reports = query.mechanism.draw(np.asarray(indices, dtype=np.intp), self.source)
        rows = reports.reshape(len(reports), -1).view(np.uint8)
        return split_columns(rows, query.tag, epoch, query.size_class or 0, len(query.proxies), strata, kinds, self.source)

    def append(self, proxy: int, rows: Any, epoch: int = 0, prefix_bits: int = 2) -> None:
        """Put rows into a proxy's log."""
        blocks, _ = cut(self.query.channel_tag, epoch, self.query.size_class or 0, rows, prefix_bits)
        self.logs[proxy].append(blocks, now=self.now)

    def answer(self, indices: Sequence[int], epoch: int = 0, proxies: Iterable[int] | None = None, **how: Any) -> Any:
        """Let devices answer, and let these proxies (all by default) log it; gives the shares."""
        shares = self.split(indices, epoch, **how)
        for proxy in range(len(self.logs)) if proxies is None else proxies:
            self.append(proxy, shares[proxy], epoch)
        return shares

    def mark(self, epoch: int, proxies: Iterable[int] | None = None) -> None:
        """Let proxies (all by default) promise that epochs before this one are complete."""
        for proxy in range(len(self.logs)) if proxies is None else proxies:
            self.logs[proxy].append([], now=self.now, marks={self.query.channel_tag: epoch})

    def engine(self, publish_query: bool = True, history: HistorySettings | None = None, **limits: Any) -> Engine:
        """A fresh engine on the state, as after a restart; the former one is put away."""
        self.close()
        self.state = State(self.folder / "state.db", self.query.proxies)
        if publish_query:
            self.publish(self.query)
        logs = [EmbeddedLog(log.path) for log in self.logs]
        chosen = EngineLimits(**{"workers": 1, "bucket_bits": 2, **limits})
        engine = Engine(self.state, logs, chosen, lambda: self.now, history)
        self._engines.append(engine)
        return engine

    def publish(self, query: Query) -> None:
        assert self.state is not None
        with self.state.transaction():
            publish(self.state.connection, sign(query, KEY), RING, self.query.proxies, self.now)

    def close(self) -> None:
        for engine in self._engines:
            engine.close()
            for log in engine.logs:
                log.close()
        self._engines = []
        if self.state is not None:
            self.state.close()
            self.state = None

    def close_all(self) -> None:
        self.close()
        for log in self.logs:
            log.close()

    # --- what came of it --------------------------------------------------------------------------------------------

    def windows(self, query: str | None = None) -> list[Window]:
        assert self.state is not None
        rows = self.state.connection.execute(
            "SELECT document FROM results WHERE query = ? ORDER BY seq", (query or self.query.id,)
        )
        return [Window.from_dict(json.loads(document)) for (document,) in rows]

    def counts(self, epochs: range = range(1000)) -> np.ndarray[Any, Any]:
        """The counts of all panes of the query in these epochs, added up."""
        assert self.state is not None
        panes = self.state.panes(self.query.id, epochs).values()
        total = np.zeros(self.query.mechanism.cells, dtype=np.int64)
        for pane in panes:
            total += pane.counts
        return total

    def accounts(self, epoch: int = 0) -> list[dict[str, int]]:
        """The account of each proxy in an epoch (-1: outside any window), without figures that are 0."""
        assert self.state is not None
        found = self.state.accounts(self.query.channel_tag, range(epoch, epoch + 1))
        return [{k: v for k, v in found[i].to_dict().items() if v} if i in found else {} for i in range(len(self.logs))]
