"""What one device costs a proxy, when every device sends its own upload of one share: `python benchmarks/uploads.py`.

`benchmarks/proxy.py` sends thousands of shares in one request, as a collector would. Devices do not: each opens a connection,
sends one share under its own token, and goes. Measured here, each with as many tokens as uploads, all of it durable before it
is acknowledged:

- uploads over connections that stay open, as a reverse proxy in front keeps them;
- uploads over a new TLS 1.3 connection each, as devices make them;
- requests for the list of queries, which devices send in every round;
- the intake alone, without HTTP: what is left if HTTP cost nothing;
- the memory of a proxy for each token that it knows.

Figures are given by the clock and by the processor time of the proxy, which a busy machine hardly changes. `--toml` prints them
as `deniable size --figures` reads them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import os
import ssl
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

from deniable.proxy.intake import Intake, Rules, Upload
from deniable.queries.channels import Channel
from deniable.queries.keys import AnalystKey
from deniable.queries.query import Query
from deniable.queries.signing import sign
from deniable.service.tokens import TokenStore
from deniable.wire.message import VERSION
from deniable.wire.shares import KIND

_ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests")]  # the script may be called from anywhere
from benchmarks.proxy import cpu_seconds, question  # noqa: E402

from toolkit.certificates import self_signed  # noqa: E402 - the tests' own certificates

_SERVE = "from deniable.cli import main; main()"


class Rate(NamedTuple):
    """Requests a second."""

    clock: float
    processor: float
    """For each second of the proxy's processor time."""
    sender: float
    """For each second of the sender's own processor time."""
    n_bytes: float
    """That go over the network for one request and its answer, above TCP and TLS."""


class Target(NamedTuple):
    """A proxy that runs, and who may use it."""

    pid: int
    host: str
    port: int
    tokens: list[str]
    tls: ssl.SSLContext | None


@contextlib.contextmanager
def running_proxy(query: Query, n_tokens: int, tls: bool) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        settings = 'folder = "data"\nport = 0\n'
        context = None
        if tls:
            certificate = self_signed(folder, "proxy")
            settings += '[tls]\ncertificate = "proxy.pem"\nkey = "proxy.key"\n'
            context = ssl.create_default_context(cafile=str(certificate))
        (folder / "proxy.toml").write_text(settings)
        book = TokenStore(folder / "data" / "tokens.db")
        (operator,), tokens = book.add("operator"), book.add("device", count=n_tokens)
        book.close()
        command = [sys.executable, "-c", _SERVE, "proxy", "run", str(folder / "proxy.toml")]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
        try:
            assert process.stdout is not None
            at = urlsplit(process.stdout.readline().removeprefix("listening on ").strip())
            host, port = at.hostname or "", at.port or 0
            link = http.client.HTTPSConnection(host, port, context=context) if tls else http.client.HTTPConnection(host, port)
            signed = sign(query, AnalystKey.generate(query.analyst)).to_bytes()
            link.request("PUT", f"/v1/queries/{query.id}", signed, {"Authorization": f"Bearer {operator}"})
            assert link.getresponse().status == 201
            link.close()
            yield Target(process.pid, host, port, tokens, context)
        finally:
            process.terminate()
            process.wait(timeout=60)


def uploads_of(query: Query, tokens: list[str]) -> Callable[[int], bytes]:
    """The whole request of each device: a head as httpx writes it, and one share."""
    random = np.random.default_rng(1)
    shares = random.integers(0, 1 << 64, (len(tokens), 10), dtype=np.uint64)
    shares[:, 0] = VERSION | KIND << 8 | query.schedule.epoch_of(int(time.time())) << 32
    shares[:, 1] = query.channel_tag

    def request(i: int) -> bytes:
        body: bytes = shares[i].tobytes()
        head = (
            "POST /v1/shares HTTP/1.1\r\nHost: 127.0.0.1:8600\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
            f"Connection: keep-alive\r\nUser-Agent: python-httpx/0.28.1\r\nAuthorization: Bearer {tokens[i]}\r\n"
            f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    return request


def polls_of(tokens: list[str]) -> Callable[[int], bytes]:
    def request(i: int) -> bytes:
        return f"GET /v1/queries HTTP/1.1\r\nHost: 127.0.0.1:8600\r\nAuthorization: Bearer {tokens[i]}\r\n\r\n".encode()

    return request


async def _send(target: Target, request: Callable[[int], bytes], n: int, at_once: int, kept: bool) -> int:
    n_bytes = 0

    async def one_after_the_other(first: int) -> None:
        nonlocal n_bytes
        writer = None
        for i in range(first, n, at_once):
            if writer is None:
                reader, writer = await asyncio.open_connection(target.host, target.port, ssl=target.tls)
            content = request(i)
            writer.write(content)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith((b"HTTP/1.1 202", b"HTTP/1.1 200")), head
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            n_bytes += len(content) + len(head) + length
            if not kept:
                writer.close()
                await writer.wait_closed()
                writer = None
        if writer is not None:
            writer.close()

    await asyncio.gather(*(one_after_the_other(i) for i in range(at_once)))
    return n_bytes


def measure(target: Target, request: Callable[[int], bytes], n: int, at_once: int, kept: bool) -> Rate:
    clock, used, mine = time.perf_counter(), cpu_seconds(target.pid), time.process_time()
    n_bytes = asyncio.run(_send(target, request, n, at_once, kept))
    elapsed = time.perf_counter() - clock, cpu_seconds(target.pid) - used, time.process_time() - mine
    return Rate(n / elapsed[0], n / elapsed[1], n / elapsed[2], n_bytes / n)


def intake_alone(n: int, at_once: int) -> float:
    """Uploads of one share for each second of processor time, without HTTP."""
    query = question()
    request = uploads_of(query, [""] * n)
    uploads = [Upload(i.to_bytes(32, "little"), None, request(i).partition(b"\r\n\r\n")[2]) for i in range(n)]
    with tempfile.TemporaryDirectory() as name:
        intake = Intake(Path(name), Rules(), lambda: int(time.time()))
        intake.set_channels({query.channel_tag: Channel.of_query(query.header)})
        used = time.process_time()
        for start in range(0, n, at_once):
            intake.take(uploads[start : start + at_once])
        used = time.process_time() - used
        intake.close()
    return n / used


def token_bytes(n: int = 50_000) -> float:
    with tempfile.TemporaryDirectory() as name:
        book = TokenStore(Path(name) / "tokens.db")
        book.add("device", count=n)
        tracemalloc.start()
        assert len(book.tokens()) == n
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        book.close()
    return held / n


def calibrate(n: int, at_once: int) -> dict[str, Rate]:
    query = question()
    with running_proxy(query, n, tls=False) as target:
        found = {
            "uploads_kept": measure(target, uploads_of(query, target.tokens), n, at_once, kept=True),
            "polls": measure(target, polls_of(target.tokens), n, at_once, kept=True),
        }
    with running_proxy(query, n, tls=True) as target:
        found["uploads"] = measure(target, uploads_of(query, target.tokens), n, at_once, kept=False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--uploads", type=int, default=6000)
    parser.add_argument("--at-once", type=int, default=128, help="devices that are connected at the same time")
    parser.add_argument("--toml", action="store_true", help="print figures for deniable size --figures")
    given = parser.parse_args()
    found = calibrate(given.uploads, given.at_once)
    held = token_bytes()
    if given.toml:
        for name, rate in found.items():
            print(f"{name} = {rate.processor:.0f}")
        print(f"token_bytes = {held:.0f}")
        return
    print(f"{given.uploads:,} requests each, {given.at_once} at once; load average {os.getloadavg()[0]:.1f}")
    for name, rate in found.items():
        sides = f"{rate.processor:6,.0f} a second of the proxy's processor time, {rate.sender:7,.0f} of the sender's"
        print(f"  {name:<13} {rate.clock:6,.0f} a second, {sides}; {rate.n_bytes:,.0f} bytes")
    print(f"  the intake alone, without HTTP: {intake_alone(given.uploads, given.at_once):,.0f} a second of processor time")
    print(f"  memory for a token: {held:.0f} bytes")


if __name__ == "__main__":
    main()
