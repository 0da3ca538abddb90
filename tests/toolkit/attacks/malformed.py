"""Shares that must not be counted: refused at a proxy's port, or by the aggregator that joins them.
Each knows its reason."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.state import State
from deniable.logs.share_logs import EmbeddedLog
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.wire.shares import Share, split_columns
from deniable.wire.tags import siphash_columns
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import body_of, make_columns, records_of

Words = NDArray[np.uint64]
_PIPELINED = 16
"""Requests on one connection before their answers are read."""


class BadRecords:
    """Single shares that a proxy refuses, made of a good one; each with the reason that it must
    give."""

    def __init__(self, query: Query, epoch: int, taken: Share, seed: int) -> None:
        """`taken` is a share that the proxy has taken already: its id must not come again with
        another payload."""
        self.query, self.epoch, self.taken = query, epoch, taken
        self._chance = random.Random(seed)  # noqa: S311 - a test's
        self.kinds: list[tuple[str, Callable[[bytes], bytes]]] = [
            ("version", lambda r: bytes([self._other(1)]) + r[1:]),
            ("kind", lambda r: r[:1] + bytes([self._other(ord("S"))]) + r[2:]),
            ("size_class", lambda r: r[:2] + bytes([self._chance.randrange(7, 256)]) + r[3:]),
            ("reserved", lambda r: r[:3] + bytes([self._other(0)]) + r[4:]),
            ("truncated", lambda r: r[: self._chance.randrange(len(r))]),
            ("truncated", lambda r: r + self._chance.randbytes(self._chance.randrange(1, 60))),
            ("truncated", lambda r: r[:2] + bytes([self._chance.randrange(1, 7)]) + r[3:]),
            ("size_class", lambda r: r[:2] + b"\1" + r[3:] + self._chance.randbytes(64)),
            ("unknown_channel", lambda r: r[:8] + self._chance.randbytes(8) + r[16:]),
            ("late", lambda r: self._at(r, 0)),
            ("early", lambda r: self._at(r, self._chance.randrange(epoch + 3, epoch + 10))),
            (
                "ended",
                lambda r: self._at(r, self._chance.randrange(query.schedule.n_epochs, 1 << 32)),
            ),
            ("changed", lambda r: r[:16] + self.taken.id + r[32:]),
        ]

    def _other(self, value: int) -> int:
        return (value + self._chance.randrange(1, 256)) % 256

    @staticmethod
    def _at(record: bytes, epoch: int) -> bytes:
        return record[:4] + epoch.to_bytes(4, "little") + record[8:]

    def make(self, n: int) -> Iterator[tuple[str, bytes]]:
        """So many of them, each kind in turn."""
        for i in range(n):
            reason, spoil = self.kinds[i % len(self.kinds)]
            share = Share(
                self.query.channel_tag,
                self.epoch,
                0,
                self._chance.randbytes(16),
                self._chance.randbytes(48),
            )
            yield reason, spoil(share.to_bytes())


JOINED = ("tag", "version", "kind", "epoch", "padding", "query", "stratum", "report")
"""Why joined messages are not counted (docs/aggregator.md)."""


def bad_messages(query: Query, epoch: int, reason: str, n: int) -> list[Words]:
    """For each proxy, the shares of messages that are well-formed one by one, and must not be
    counted together."""
    rows = split_columns(
        np.zeros((n, query.report_bytes), dtype=np.uint8), query.tag, epoch, 0, len(query.proxies)
    )
    words = rows[0][2:].copy()
    for share in rows[1:]:
        words ^= share[2:]
    one = np.uint64(1)
    random_words = np.random.default_rng(n).integers(1, 1 << 62, n, dtype=np.uint64)
    if reason == "version":
        words[0] += one
    elif reason == "kind":
        words[0] |= np.uint64(2 << 8)
    elif reason == "epoch":
        words[0] += np.uint64(1 << 32)
    elif reason == "padding":
        words[2] |= np.uint64(1 << 63)
    elif reason == "query":
        words[1] ^= random_words
    elif reason == "stratum":
        words[0] += np.uint64(7 << 16)
    elif reason == "report":
        # a bit of the last byte that no bucket has
        words[2] |= np.uint64(1 << (8 * query.report_bytes - 1))
    words[-1] = siphash_columns(words[-3], words[-2], words[:-3])
    if reason == "tag":
        words[2 + np.arange(n) % (len(words) - 3), np.arange(n)] ^= random_words
    rows[-1][2:] = words
    for share in rows[:-1]:
        rows[-1][2:] ^= share[2:]
    return rows


async def upload_each(
    host: str, port: int, token: str, records: Sequence[bytes], connections: int = 8
) -> Counter[str]:
    """Send each record in a request of its own, over connections that stay open; how many were
    refused, by reason."""
    answers: Counter[str] = Counter()
    head = (
        f"POST /v1/shares HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type:"
        " application/octet-stream\r\n"
    )

    async def one(mine: Sequence[bytes]) -> None:
        reader, writer = await asyncio.open_connection(host, port)
        for start in range(0, len(mine), _PIPELINED):
            some = mine[start : start + _PIPELINED]
            writer.write(
                b"".join(
                    f"{head}Content-Length: {len(record)}\r\n\r\n".encode() + record
                    for record in some
                )
            )
            for _ in some:
                status, *lines = (
                    (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                )
                length = next(
                    int(line.split(":")[1])
                    for line in lines
                    if line.lower().startswith("content-length:")
                )
                body = json.loads(await reader.readexactly(length))
                answers["accepted" if " 202 " in status else body["reason"]] += 1
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one(records[i::connections]) for i in range(connections)))
    return answers


def counted_by_the_aggregator(
    folder: Path, query: Query, logs: Sequence[Path], now: int
) -> tuple[int, Counter[str], bool]:
    """Answers that an aggregator counts of these logs, what it refuses of the first by reason, and
    whether the books balance."""
    key = AnalystKey.generate(query.analyst)
    state = State(folder / "state.db", query.proxies)
    with state.transaction():
        publish(
            state.connection,
            sign(query, key),
            KeyRing().add(key.public),
            query.proxies,
            query.schedule.origin,
        )
    readers = [EmbeddedLog(path) for path in logs]
    engine = Engine(state, readers, EngineLimits(workers=1), clock=lambda: now)
    try:
        engine.drain()
        rows = state.connection.execute(
            "SELECT reason, sum(n) FROM refusals WHERE proxy = 0 GROUP BY reason"
        ).fetchall()
        panes = state.panes(query.id, range(query.schedule.n_epochs))
        totals = state.connection.execute(
            "SELECT sum(received), sum(counted) + sum(orphaned) + sum(duplicate) + sum(late) +"
            " sum(malformed) FROM accounts"
        ).fetchone()
        orphaned = state.connection.execute(
            "SELECT sum(orphaned) FROM accounts WHERE proxy = 0"
        ).fetchone()[0]
        reasons = Counter({str(reason): int(n) for reason, n in rows})
        if orphaned:
            reasons["orphaned"] = int(orphaned)
        return sum(pane.n for pane in panes.values()), reasons, totals[0] == totals[1]
    finally:
        engine.close()
        for each in readers:
            each.close()
        state.close()


class Flood:
    """Malformed shares for two real proxies and the aggregator behind them, beside some good
    ones."""

    def __init__(self, folder: Path, n_shares: int, n_good: int = 200, seed: int = 25) -> None:
        self.folder, self.n_good, self.seed = folder, n_good, seed
        self.n_records = n_shares // 5
        self.n_messages = -(-(n_shares - self.n_records) // (2 * len(JOINED) + 1))
        """Of each reason for which joined messages are refused, and of those whose second share
        never comes: two shares each."""
        self.query = query_of_today()
        self.expected: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.metered: dict[str, int] = {}

    def run(self) -> tuple[int, Counter[str], bool]:
        """Send all of it; what the aggregator says in the end."""
        proxies = [ProxyProcess(self.folder / name) for name in ("one", "two")]
        with proxies[0] as first, proxies[1] as second:
            for proxy in (first, second):
                proxy.publish(self.query)
            epoch = self.query.schedule.epochs_begun(int(time.time())) - 1
            good = make_columns(self.query, epoch, self.n_good)
            self._upload(first, epoch, good[0])
            self._upload(second, epoch, good[1])
            self._send_records(first, epoch, records_of(self.query, epoch, good[0][:, :1])[0])
            for reason in (*JOINED, "orphaned"):
                rows = bad_messages(self.query, epoch, reason, self.n_messages)
                self._upload(first, epoch, rows[0])
                self._upload(second, epoch, rows[1][:, :0] if reason == "orphaned" else rows[1])
            self.metered = first.metrics()
            for proxy in (first, second):
                proxy.stop()
        logs = [proxy.data / "log.db" for proxy in proxies]
        return counted_by_the_aggregator(
            self.folder, self.query, logs, self.query.schedule.end_of_epoch(epoch) + 86_400
        )

    def _upload(self, proxy: ProxyProcess, epoch: int, rows: Words) -> None:
        headers = proxy.token(quota=1 << 40)
        with httpx.Client(timeout=60) as client:
            for start in range(0, rows.shape[1], 2000):
                body = body_of(self.query, epoch, rows[:, start : start + 2000])
                answer = client.post(f"{proxy.address}/v1/shares", content=body, headers=headers)
                assert answer.status_code == 202, answer.text

    def _send_records(self, proxy: ProxyProcess, epoch: int, taken: bytes) -> None:
        token = proxy.token(quota=1 << 40)["Authorization"].removeprefix("Bearer ")
        at = urlsplit(proxy.address)
        made = BadRecords(self.query, epoch, Share.from_bytes(taken), self.seed).make(
            self.n_records
        )
        while some := list(islice(made, 20_000)):
            self.expected.update(reason for reason, _ in some)
            self.told += asyncio.run(
                upload_each(at.hostname or "", at.port or 0, token, [record for _, record in some])
            )
