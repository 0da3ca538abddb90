"""A crowd that answers: reports split into shares and appended to proxies' logs, and an engine that
reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import State
from deniable.aggregator.windows.window import Window
from deniable.local.aggregator import LocalAggregator
from deniable.logs.share_logs import EmbeddedLog
from deniable.logs.sqlite_log import BlockLog
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
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
    """Devices, proxies' logs and an aggregator's state in one folder, with a clock that is moved by
    hand."""

    def __init__(self, folder: Path, query: Query | None = None, seed: int = 1) -> None:
        self.folder, self.query = folder, query or minute_query()
        self.now = self.query.schedule.origin
        self.source = seeded_source(seed)
        self.logs = [BlockLog(folder / f"log{i}.db") for i in range(len(self.query.proxies))]
        self.aggregator: LocalAggregator | None = None

    def split(
        self,
        indices: Sequence[int],
        epoch: int = 0,
        strata: Any = 0,
        kinds: Any = ANSWER,
        query: Query | None = None,
    ) -> Any:
        """Shares of answers that are given as numbers of buckets: rows for each proxy."""
        query = query or self.query
        reports = query.mechanism.draw(np.asarray(indices, dtype=np.intp), self.source)
        rows = reports.reshape(len(reports), -1).view(np.uint8)
        return split_columns(
            rows,
            query.tag,
            epoch,
            query.size_class or 0,
            len(query.proxies),
            strata,
            kinds,
            self.source,
        )

    def append(self, proxy: int, rows: Any, epoch: int = 0, prefix_bits: int = 2) -> None:
        """Put rows into a proxy's log."""
        blocks, _ = cut(
            self.query.channel_tag, epoch, self.query.size_class or 0, rows, prefix_bits
        )
        self.logs[proxy].append(blocks, now=self.now)

    def answer(
        self,
        indices: Sequence[int],
        epoch: int = 0,
        proxies: Iterable[int] | None = None,
        **how: Any,
    ) -> Any:
        """Let devices answer, and let these proxies (all by default) log it; gives the shares."""
        shares = self.split(indices, epoch, **how)
        for proxy in range(len(self.logs)) if proxies is None else proxies:
            self.append(proxy, shares[proxy], epoch)
        return shares

    def mark(self, epoch: int, proxies: Iterable[int] | None = None) -> None:
        """Let proxies (all by default) promise that epochs before this one are complete."""
        for proxy in range(len(self.logs)) if proxies is None else proxies:
            self.logs[proxy].append([], now=self.now, marks={self.query.channel_tag: epoch})

    def engine(
        self, publish_query: bool = True, history: HistorySettings | None = None, **limits: Any
    ) -> Engine:
        """A fresh engine on the state, as after a restart; the former one is put away."""
        self.close()
        logs = [EmbeddedLog(log.path) for log in self.logs]
        chosen = EngineLimits(**{"workers": 1, "bucket_bits": 2, **limits})
        path = self.folder / "state.db"
        self.aggregator = LocalAggregator(
            self.query, path, logs, lambda: self.now, limits=chosen, history=history
        )
        if publish_query:
            self.publish(self.query)
        return self.aggregator.engine

    @property
    def state(self) -> State | None:
        return None if self.aggregator is None else self.aggregator.state

    def publish(self, query: Query) -> None:
        assert self.aggregator is not None
        self.aggregator.publish(sign(query, KEY), RING)

    def close(self) -> None:
        if self.aggregator is not None:
            self.aggregator.close()
            self.aggregator = None

    def close_all(self) -> None:
        self.close()
        for log in self.logs:
            log.close()

    # --- what came of it

    def windows(self, query: str | None = None) -> list[Window]:
        assert self.aggregator is not None
        return self.aggregator.results(query)

    def counts(self, epochs: range = range(1000)) -> np.ndarray[Any, Any]:
        """The counts of all panes of the query in these epochs, added up."""
        assert self.state is not None
        panes = self.state.panes(self.query.id, epochs).values()
        total = np.zeros(self.query.mechanism.cells, dtype=np.int64)
        for pane in panes:
            total += pane.counts
        return total

    def accounts(self, epoch: int = 0) -> list[dict[str, int]]:
        """The account of each proxy in an epoch (-1: outside any window), without figures that are
        0."""
        assert self.state is not None
        found = self.state.accounts(self.query.channel_tag, range(epoch, epoch + 1))
        return [
            {k: v for k, v in found[i].to_dict().items() if v} if i in found else {}
            for i in range(len(self.logs))
        ]
