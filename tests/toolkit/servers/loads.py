"""Load: weeks of a whole system on a clock of its own, and a proxy that is given more than it can
take."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from deniable.aggregator.counting.limits import EngineLimits
from deniable.client.simulation.fleet import Fleet
from deniable.local.system import LocalSystem
from deniable.proxy.intake.uploads import IntakeRules, UploadReceipt
from deniable.queries.schedule import Schedule
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, minute_query
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import body_of, make_columns

HOUR, DAY = 3600, 86_400


@dataclass(frozen=True)
class Footprint:
    """What a system takes of its machine."""

    memory: int
    """Bytes of resident memory."""
    handles: int
    files: int
    bytes_on_disk: int
    rows: dict[str, int]
    """By table."""

    @classmethod
    def of(cls, folder: Path) -> Footprint:
        """Of this process, and of a folder."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        files = [path for path in folder.rglob("*") if path.is_file()]
        rows: dict[str, int] = {}
        for path in files:
            if path.suffix == ".db":
                with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
                    for (table,) in connection.execute(
                        "SELECT name FROM sqlite_master WHERE type = 'table'"
                    ).fetchall():
                        (n,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608 - its own names
                        rows[f"{path.parent.name}/{table}"] = n
        handles = len(list(Path("/proc/self/fd").iterdir()))
        return cls(
            4096 * pages, handles, len(files), sum(path.stat().st_size for path in files), rows
        )


@dataclass
class Soak:
    """Two proxies and an aggregator in one process; an hour passes in some milliseconds."""

    folder: Path
    per_hour: int = 20
    retention: int = 2 * DAY
    sent: int = 0
    footprints: list[Footprint] = field(default_factory=list)

    def __post_init__(self) -> None:
        schedule = Schedule(ORIGIN, ORIGIN + 400 * DAY, HOUR, HOUR, HOUR)
        query = minute_query(schedule=schedule)
        rules = IntakeRules(threshold=16, grace=600, retention=self.retention)
        limits = EngineLimits(
            workers=1, bucket_bits=2, retention=self.retention, pane_retention=self.retention
        )
        self.system = LocalSystem(query, self.folder, rules=rules, limits=limits)
        self.fleet = Fleet(query, self.per_hour, source=seeded_source(1))

    def run(self, hours: int) -> None:
        """Let so many hours pass, and note what it takes at the end."""
        for _ in range(hours):
            epoch = (self.system.now - ORIGIN) // HOUR
            for result in self.system.send(self.fleet.answer(epoch, np.arange(self.per_hour) % 12)):
                assert isinstance(result, UploadReceipt), result
            self.sent += self.per_hour
            self.system.run(ORIGIN + (epoch + 1) * HOUR)
        self.footprints.append(Footprint.of(self.folder))

    def counted(self) -> int:
        """Answers that were counted since the beginning."""
        rows = self.system.state.connection.execute(
            "SELECT n FROM totals WHERE proxy = 0 AND outcome = 'counted'"
        ).fetchall()
        return sum(n for (n,) in rows)

    def close(self) -> None:
        self.system.close()


@dataclass
class Overload:
    """Uploads that all come at once at a proxy that may receive half of them."""

    folder: Path
    n_uploads: int = 40
    n_shares: int = 1000
    statuses: Counter[int] = field(default_factory=Counter)
    without_retry: int = 0
    """Refusals that do not say when to come back."""
    taken_at_once: int = 0
    """Uploads of the first burst that were not put off."""
    acknowledged: int = 0
    logged: int = 0
    seconds_to_recover: float = 0.0

    def run(self) -> None:
        """Send all of them at the same time, then those that were put off again, until all are
        taken."""
        query = query_of_today()
        epoch = query.schedule.epochs_begun(int(time.time())) - 1
        columns = make_columns(query, epoch, self.n_uploads * self.n_shares)[0]
        bodies = [body_of(query, epoch, part) for part in np.split(columns, self.n_uploads, axis=1)]
        capacity = sum(map(len, bodies)) // 2
        settings = f"[limits]\nlargest_body = {capacity}\nmost_waiting = {capacity}\n"
        with ProxyProcess(self.folder, settings) as proxy:
            proxy.publish(query)
            tokens = [proxy.token(quota=1 << 30)["Authorization"] for _ in range(self.n_uploads)]
            waiting = asyncio.run(self._burst(proxy.address, tokens, bodies))
            self.taken_at_once = self.n_uploads - len(waiting)
            began = time.monotonic()
            while waiting:
                assert time.monotonic() - began < 60, "it does not recover"
                some, waiting = waiting[: self.n_uploads // 3], waiting[self.n_uploads // 3 :]
                waiting += asyncio.run(self._burst(proxy.address, tokens, some))
                self.seconds_to_recover = time.monotonic() - began
            proxy.stop()
            self.logged = proxy.logged().shape[1]

    async def _burst(self, address: str, tokens: list[str], bodies: list[bytes]) -> list[bytes]:
        """Send these at the same time; those that were put off."""
        at = urlsplit(address)
        everybody = asyncio.Barrier(len(bodies))

        async def one(i: int) -> bytes | None:
            reader, writer = await asyncio.open_connection(at.hostname, at.port)
            head = (
                "POST /v1/shares HTTP/1.1\r\nHost: x\r\nAuthorization:"
                f" {tokens[i]}\r\nContent-Type: application/octet-stream\r\n"
            )
            writer.write(
                f"{head}Content-Length: {len(bodies[i])}\r\n\r\n".encode() + bodies[i][:-1]
            )
            await writer.drain()
            await everybody.wait()  # all but a byte of every body has been sent
            await asyncio.sleep(0.5)
            writer.write(bodies[i][-1:])
            answer = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            writer.close()
            status = int(answer.split(" ")[1])
            self.statuses[status] += 1
            if status == 202:
                self.acknowledged += self.n_shares
                return None
            self.without_retry += "retry-after:" not in answer
            return bodies[i]

        return [
            body
            for body in await asyncio.gather(*(one(i) for i in range(len(bodies))))
            if body is not None
        ]
