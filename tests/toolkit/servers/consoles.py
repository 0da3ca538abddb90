"""An aggregator with a console whose windows a test writes itself: in the test's process, on
loopback, with real estimates."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.state import connect
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.tokens import RIGHTS, add_token
from deniable.aggregator.windows.window import Condition, Window
from deniable.console.console_app import add_console
from deniable.logs.sqlite_log import BlockLog
from deniable.mechanisms.reports import Tally
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import sign
from toolkit.crowds import KEY, RING
from toolkit.servers.served import served
from toolkit.servers.services import Relays

__all__ = ["SeededConsole", "console_query", "seeded_console"]

PROXY_COUNT = 2
_MOST_DRAWN = 100


def console_query(
    proxies: Sequence[str], query_id: str = "trip-distance", n_windows: int = 37, **changes: Any
) -> Query:
    """A question with windows of ten minutes, of which so many are over by now."""
    origin = (int(time.time()) // 600 - n_windows) * 600
    given: dict[str, Any] = {
        "id": query_id,
        "analyst": KEY.owner,
        "question": "How many miles was your last trip?",
        "sql": "SELECT distance FROM trips",
        "columns": [Column("miles", [*(f"[{mile},{mile + 1})" for mile in range(10)), "[10,inf)"])],
        "schedule": Schedule(origin, origin + 30 * 86400, 600, 600, 600),
        "proxies": list(proxies),
        "mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.25},
        "sampling": 0.6,
        "population": 10_000,
    }
    return Query(**{**given, **changes})


class SeededConsole:
    """The service, its address, its tokens, and a pen for its results."""

    def __init__(self, folder: Path, **more: Any) -> None:
        """`more` goes into the aggregator's settings."""
        self.folder = folder
        self.relays = [Relays() for _ in range(PROXY_COUNT)]
        self.proxies = [relay.url for relay in self.relays]
        RING.save(folder / "ring.json")
        (folder / "operator.token").write_text("deniable_operator\n")
        for i in range(PROXY_COUNT):
            BlockLog(folder / f"log{i}.db").close()
        proxies = [
            ProxySource(name, log=folder / f"log{i}.db", token_file=folder / "operator.token")
            for i, name in enumerate(self.proxies)
        ]
        self.settings = AggregatorSettings(
            state=folder / "state.db", ring=folder / "ring.json", proxies=proxies, port=0, **more
        )
        self._pen = connect(self.settings.state)
        self.analyst = add_token(self._pen, KEY.owner, RIGHTS, 0)
        self.reader = add_token(self._pen, KEY.owner, ["read"], 0, label="A newspaper")
        self.service = Service(self.settings)
        self.url = ""
        self._random = np.random.default_rng(11)

    def publish(self, query: Query) -> Query:
        self.service.queries.publish(query.id, sign(query, KEY).to_bytes())
        return query

    def write(
        self, query: Query, indices: Sequence[int], shares: Sequence[float], n: int, **changes: Any
    ) -> None:
        """Windows as the engine would release them: `n` answers drawn from the shares through the
        query's coins.

        Of many windows, only the first hundred are drawn, and the others repeat them. `made` tells
        from the end of a window when it was released; without it, nobody knows.
        """
        made = changes.pop("made", lambda end: 0)
        drawn = [
            self._row(query, index, np.asarray(shares, dtype=float), n, changes)
            for index in indices[:_MOST_DRAWN]
        ]
        rows = [
            self._moved(query, index, drawn[i % _MOST_DRAWN]) for i, index in enumerate(indices)
        ]
        told = [
            (*row, changes.get("revision", 0), made(query.schedule.bounds_of_window(row[1])[1]))
            for row in rows
        ]
        self._pen.execute("BEGIN IMMEDIATE")
        self._pen.executemany(
            "INSERT INTO results (query, number, start, condition, document, revision, made)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            told,
        )
        self._pen.execute("COMMIT")

    def _moved(self, query: Query, index: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same result as that of another window."""
        if row[1] == index:
            return row
        start, end = query.schedule.bounds_of_window(index)
        told = f'"index": {index}, "start": {start}, "end": {end}'
        return (
            query.id,
            index,
            start,
            row[3],
            re.sub(r'"index": \d+, "start": \d+, "end": \d+', told, row[4], count=1),
        )

    def _row(
        self, query: Query, index: int, shares: NDArray[np.float64], n: int, changes: dict[str, Any]
    ) -> tuple[Any, ...]:
        start, end = query.schedule.bounds_of_window(index)
        accounts = {name: dict.fromkeys(("received", "counted"), n) for name in self.proxies}
        rest = dict.fromkeys(("orphaned", "duplicate", "late", "malformed", "waiting"), 0)
        told = {
            "proxies": {name: {**account, **rest} for name, account in accounts.items()},
            "balanced": True,
        }
        estimate = None
        if n >= query.minimum_cohort:
            a, b = query.mechanism.support()
            true = self._random.multinomial(n, [*shares, max(0.0, 1 - shares.sum())])[: len(shares)]
            counts = self._random.binomial(true, a) + self._random.binomial(n - true, b)
            estimate = query.mechanism.estimate(Tally(query.mechanism, counts, n), query.population)
        condition: Condition = "complete" if estimate is not None else "withheld"
        window = Window(
            query.id, query.serial, index, start, end, condition, n, 0, estimate, (), told, None
        )
        document = {**window.to_dict(), **changes}
        return query.id, index, start, document["condition"], json.dumps(document)

    def close(self) -> None:
        self._pen.close()
        for relay in self.relays:
            relay.close()


@contextmanager
def seeded_console(folder: Path) -> Iterator[SeededConsole]:
    console = SeededConsole(folder)
    ending = threading.Event()
    app = create_app(console.service, ending=ending.is_set)
    add_console(app, console.service)
    try:
        with served(app) as client:
            console.url = str(client.base_url).rstrip("/")
            try:
                yield console
            finally:
                ending.set()
                time.sleep(0.4)  # followers go before the server waits for them
    finally:
        console.close()
