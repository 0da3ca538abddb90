"""What one device costs a proxy, when every device sends its own upload of one share: `python
benchmarks/uploads.py`.

`benchmarks/proxy.py` sends thousands of shares in one request, as a collector would. Devices do
not: each opens a connection, sends one share under its own token, and goes. Measured here, each
with as many tokens as uploads, all of it durable before it is acknowledged:

- uploads over connections that stay open, as a reverse proxy in front keeps them;
- uploads over a new TLS 1.3 connection each, as devices make them;
- requests for the list of queries, which devices send in every round;
- the latency of uploads that come at half of the rate of the first line;
- the intake alone, without HTTP: what is left if HTTP cost nothing;
- a collector: uploads over connections that stay open, by its own processor time, and what they
  cost the proxy behind it;
- the memory of a proxy for each token that it knows.

Each is measured beside the previous release, which is taken from its commit into a temporary
worktree and run with what its extra `service` installs (neither uvloop nor httptools). Both run at
the same time, in turns of some hundred requests, so that other work on the machine slows both
alike. Figures are by the processor time of the proxy, which a busy machine hardly changes, and by
the clock. `--toml` prints ours as `deniable size --figures` reads them; `--alone` leaves the
previous release out. `--pages` measures only what it costs to be open to web pages (CORS): uploads
to a proxy that names no origin, beside one that names some, from devices and from pages.
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
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import numpy as np

from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload
from deniable.queries.channels import Channel
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.service.tokens import TokenStore
from deniable.wire.message import VERSION
from deniable.wire.shares import KIND

_ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(_ROOT), str(_ROOT / "tests")]  # the script may be called from anywhere
from benchmarks.proxy import cpu_seconds, question  # noqa: E402

from toolkit.servers.certificates import self_signed  # noqa: E402 - the tests' own certificates

T = TypeVar("T")
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
    collector: str = ""
    """The token of a collector."""


_PREVIOUS = "100027a"
"""The commit of the previous release."""


@contextlib.contextmanager
def previous_release() -> Iterator[list[str]]:
    """The command of `deniable` as it was, with what its extra installed."""
    git = ["git", "-C", str(_ROOT)]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "previous"
        subprocess.run(  # noqa: S603
            [*git, "worktree", "add", "--detach", str(place), _PREVIOUS],
            check=True,
            capture_output=True,
        )
        try:
            blocked = "sys.modules.update(uvloop=None, httptools=None)"
            code = f"import sys; {blocked}; sys.path.insert(0, {str(place / 'src')!r}); {_SERVE}"
            yield [sys.executable, "-c", code]
        finally:
            subprocess.run(  # noqa: S603
                [*git, "worktree", "remove", "--force", str(place)], check=True, capture_output=True
            )


OURS = [sys.executable, "-c", _SERVE]


def new_tokens(command: list[str], folder: Path, role: str, count: int) -> list[str]:
    """Tokens, made by the release that is to read them."""
    options = [
        "proxy",
        "token",
        "add",
        str(folder / "proxy.toml"),
        "--role",
        role,
        "--count",
        str(count),
    ]
    return subprocess.run(  # noqa: S603 - ours
        [*command, *options], check=True, capture_output=True, text=True
    ).stdout.split()


@contextlib.contextmanager
def running_proxy(
    query: Query, n_tokens: int, tls: bool, command: list[str] = OURS, more: str = ""
) -> Iterator[Target]:
    """A proxy that has the query and the tokens; `command` says of which release, `more` what else
    is in its settings."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        settings = f'folder = "data"\nport = 0\n{more}'
        context = None
        if tls:
            certificate = self_signed(folder, "proxy")
            settings += '[tls]\ncertificate = "proxy.pem"\nkey = "proxy.key"\n'
            context = ssl.create_default_context(cafile=str(certificate))
        (folder / "proxy.toml").write_text(settings)
        (operator,), tokens = (
            new_tokens(command, folder, role, n)
            for role, n in (("operator", 1), ("device", n_tokens))
        )
        collector = new_tokens(command, folder, "collector", 1)[0] if command is OURS else ""
        with _running([*command, "proxy", "run", str(folder / "proxy.toml")]) as (pid, address):
            at = urlsplit(address)
            host, port = at.hostname or "", at.port or 0
            link = (
                http.client.HTTPSConnection(host, port, context=context)
                if tls
                else http.client.HTTPConnection(host, port)
            )
            signed = sign(query, AnalystKey.generate(query.analyst)).to_bytes()
            link.request(
                "PUT", f"/v1/queries/{query.id}", signed, {"Authorization": f"Bearer {operator}"}
            )
            assert link.getresponse().status == 201
            link.close()
            yield Target(pid, host, port, tokens, context, collector)


@contextlib.contextmanager
def running_collector(proxy: Target) -> Iterator[Target]:
    """A collector in front of a proxy, once it has heard of the tokens."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "token").write_text(proxy.collector)
        text = f'proxy = "http://{proxy.host}:{proxy.port}"\ntoken_file = "token"\nport = 0\n'
        (folder / "collector.toml").write_text(text)
        with _running([*OURS, "collector", "run", str(folder / "collector.toml")]) as (
            pid,
            address,
        ):
            at = urlsplit(address)
            while True:
                link = http.client.HTTPConnection(at.hostname or "", at.port)
                link.request("GET", "/healthz")
                if link.getresponse().status == 200:
                    break
                time.sleep(0.1)
            yield Target(pid, at.hostname or "", at.port or 0, proxy.tokens, None)


@contextlib.contextmanager
def _running(command: list[str]) -> Iterator[tuple[int, str]]:
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=quiet, text=True)  # noqa: S603 - our own command
    try:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().removeprefix("listening on ").strip()
    finally:
        process.terminate()
        process.wait(timeout=60)


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run the sender on the fastest loop there is, so that it takes little of the machine."""
    with contextlib.suppress(ImportError):
        import uvloop  # noqa: PLC0415 - where it is installed

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    return asyncio.run(work)


def uploads_of(query: Query, tokens: list[str], more: str = "") -> Callable[[int], bytes]:
    """The whole request of each device: a head as httpx writes it, with more lines if they are
    given, and one share."""
    random = np.random.default_rng(1)
    shares = random.integers(0, 1 << 64, (len(tokens), 10), dtype=np.uint64)
    shares[:, 0] = VERSION | KIND << 8 | query.schedule.epoch_of(int(time.time())) << 32
    shares[:, 1] = query.channel_tag

    def request(i: int) -> bytes:
        body: bytes = shares[i].tobytes()
        head = (
            "POST /v1/shares HTTP/1.1\r\nHost: 127.0.0.1:8600\r\nAccept: */*\r\nAccept-Encoding:"
            " gzip, deflate\r\nConnection: keep-alive\r\nUser-Agent:"
            f" python-httpx/0.28.1\r\nAuthorization: Bearer {tokens[i]}\r\nContent-Type:"
            f" application/octet-stream\r\n{more}Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    return request


def polls_of(tokens: list[str]) -> Callable[[int], bytes]:
    def request(i: int) -> bytes:
        return (
            "GET /v1/queries HTTP/1.1\r\nHost: 127.0.0.1:8600\r\nAuthorization: Bearer"
            f" {tokens[i]}\r\n\r\n".encode()
        )

    return request


async def _send(
    target: Target, request: Callable[[int], bytes], places: range, at_once: int, kept: bool
) -> int:
    n_bytes = 0

    async def one_after_the_other(mine: range) -> None:
        nonlocal n_bytes
        writer = None
        for i in mine:
            if writer is None:
                reader, writer = await asyncio.open_connection(
                    target.host, target.port, ssl=target.tls
                )
            content = request(i)
            writer.write(content)
            length = await _answer(reader)
            n_bytes += len(content) + length
            if not kept:
                writer.close()
                with contextlib.suppress(OSError, ssl.SSLError):
                    await writer.wait_closed()
                writer = None
        if writer is not None:
            writer.close()

    await asyncio.gather(*(one_after_the_other(places[i::at_once]) for i in range(at_once)))
    return n_bytes


async def _answer(reader: asyncio.StreamReader) -> int:
    """Read one answer; how many bytes it has."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.1 202", b"HTTP/1.1 200")), head
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return len(head) + length


def measure(
    targets: Sequence[Target],
    request: Callable[[Target], Callable[[int], bytes]],
    n: int,
    at_once: int,
    kept: bool,
    turns: int = 1,
) -> list[Rate]:
    """The rate at each of some targets, which take turns."""
    requests = [request(target) for target in targets]
    spent = [[0.0, 0.0, 0.0, 0.0] for _ in targets]
    edges = [n * i // turns for i in range(turns + 1)]
    for turn in range(turns):
        for target, wanted, sums in zip(targets, requests, spent, strict=True):
            clock, used, mine = time.perf_counter(), cpu_seconds(target.pid), time.process_time()
            n_bytes = _run(
                _send(target, wanted, range(edges[turn], edges[turn + 1]), at_once, kept)
            )
            time.sleep(0.05)  # what it does after it has answered is counted too
            values = (
                time.perf_counter() - clock - 0.05,
                cpu_seconds(target.pid) - used,
                time.process_time() - mine,
                float(n_bytes),
            )
            for i, value in enumerate(values):
                sums[i] += value
    return [
        Rate(n / clock, n / used, n / mine, n_bytes / n) for clock, used, mine, n_bytes in spent
    ]


async def latencies(
    target: Target, request: Callable[[int], bytes], n: int, per_second: float, at_once: int
) -> list[float]:
    """Seconds from sending to the whole answer, of uploads that come at a rate whatever became of
    those before."""
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(at_once):
        free.put_nowait(await asyncio.open_connection(target.host, target.port))
    found: list[float] = []

    async def one(i: int, due: float) -> None:
        link = await free.get()
        link[1].write(request(i))
        await _answer(link[0])
        found.append(time.perf_counter() - due)
        free.put_nowait(link)

    start = time.perf_counter()
    tasks = []
    for i in range(n):
        due = start + i / per_second
        if (wait := due - time.perf_counter()) > 0.001:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(i, max(due, time.perf_counter()))))
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait()[1].close()
    return sorted(found)


def intake_alone(n: int, at_once: int) -> float:
    """Uploads of one share for each second of processor time, without HTTP."""
    query = question()
    request = uploads_of(query, [""] * n)
    uploads = [
        Upload(i.to_bytes(32, "little"), None, request(i).partition(b"\r\n\r\n")[2])
        for i in range(n)
    ]
    with tempfile.TemporaryDirectory() as name:
        intake = Intake(Path(name), IntakeRules(), lambda: int(time.time()))
        intake.set_channels({query.channel_tag: Channel.of_query(query.header)})
        used = time.process_time()
        for start in range(0, n, at_once):
            intake.take(uploads[start : start + at_once])
        used = time.process_time() - used
        intake.close()
    return n / used


def previous_intake_alone(command: list[str], n: int, at_once: int) -> float:
    """The same of the previous release, in a process that imports it."""
    code = command[2].replace(_SERVE, f"sys.path.insert(0, {str(_ROOT)!r})")
    # this script, but everything else of the release before
    code += f"; from benchmarks import uploads; print(uploads.intake_alone({n}, {at_once}))"
    done = subprocess.run([command[0], "-c", code], check=True, capture_output=True, text=True)  # noqa: S603 - our own
    return float(done.stdout)


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


def calibrate(n: int, at_once: int, previous: list[str] | None) -> dict[str, list[Rate]]:
    """Ours and, if there is one, the previous release's."""
    query = question()
    commands = [OURS, previous] if previous else [OURS]
    turns = 4 if previous else 1

    def uploads(target: Target) -> Callable[[int], bytes]:
        return uploads_of(query, target.tokens)

    found = {}
    with contextlib.ExitStack() as stack:
        targets = [
            stack.enter_context(running_proxy(query, n, False, command)) for command in commands
        ]
        found["uploads_kept"] = measure(targets, uploads, n, at_once, True, turns)
        found["polls"] = measure(
            targets, lambda target: polls_of(target.tokens), n, at_once, True, turns
        )
    with contextlib.ExitStack() as stack:
        targets = [
            stack.enter_context(running_proxy(query, n, True, command)) for command in commands
        ]
        found["uploads"] = measure(targets, uploads, n // 3, min(at_once, 64), False, turns)
    return found


def report_pages(n: int, at_once: int) -> None:
    """What uploads lose at a proxy that is open to pages."""
    query, origin = question(), "https://poll.example"
    named = f'[browser]\norigins = ["https://other.example", "{origin}"]\n'
    print(
        f"{n:,} uploads each, {at_once} at once, in turns; per second of the proxy's processor time"
        " (by the clock)"
    )

    def uploads(line: str) -> Callable[[Target], Callable[[int], bytes]]:
        return lambda target: uploads_of(query, target.tokens, line)

    for who, line in (("devices", ""), ("pages", f"Origin: {origin}\r\n")):
        with contextlib.ExitStack() as stack:
            targets = [
                stack.enter_context(running_proxy(query, n, False, more=more))
                for more in ("", named)
            ]
            closed, opened = measure(
                targets,
                uploads(line),
                n,
                at_once,
                True,
                40,
            )
        print(
            f"  from {who:<8} closed to pages {closed.processor:7,.0f} ({closed.clock:6,.0f}), open"
            f" {opened.processor:7,.0f} ({opened.clock:6,.0f}):"
            f" {100 * (1 - opened.processor / closed.processor):+.1f} % lost"
        )


def p99_at(per_second: float, seconds: float, at_once: int) -> float:
    query = question()
    n = int(per_second * seconds)
    with running_proxy(query, n, False) as target:
        found = _run(latencies(target, uploads_of(query, target.tokens), n, per_second, at_once))
    return found[int(0.99 * len(found))]


def sync_p99() -> float:
    """Seconds that this machine's disk takes for a sync alone: no durable answer comes sooner."""
    found = []
    with tempfile.TemporaryFile() as file:
        for _ in range(200):
            file.write(bytes(4096))
            file.flush()
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - start)
    return sorted(found)[int(0.99 * len(found))]


def collected(n: int, at_once: int) -> tuple[Rate, float]:
    """A collector's rate, and the uploads for each second of processor time of the proxy behind
    it."""
    query = question()
    with running_proxy(query, n, False) as proxy, running_collector(proxy) as collector:
        used = cpu_seconds(proxy.pid)
        (rate,) = measure(
            [collector], lambda target: uploads_of(query, target.tokens), n, at_once, True
        )
        return rate, n / (cpu_seconds(proxy.pid) - used)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--uploads", type=int, default=8000)
    parser.add_argument(
        "--at-once", type=int, default=128, help="devices that are connected at the same time"
    )
    parser.add_argument(
        "--toml", action="store_true", help="print figures for deniable size --figures"
    )
    parser.add_argument("--alone", action="store_true", help="leave the previous release out")
    parser.add_argument("--pages", action="store_true", help="what being open to web pages costs")
    given = parser.parse_args()
    if given.pages:
        report_pages(given.uploads, given.at_once)
        return
    with contextlib.ExitStack() as stack:
        previous = None if given.alone or given.toml else stack.enter_context(previous_release())
        _report(given.uploads, given.at_once, previous, given.toml)


def _report(n: int, at_once: int, previous: list[str] | None, toml: bool) -> None:
    found = calibrate(n, at_once, previous)
    gathered, behind = collected(3 * n, 4 * at_once)
    held = token_bytes()
    if toml:
        for name, rates in found.items():
            print(f"{name} = {rates[0].processor:.0f}")
        print(f"gathered = {behind:.0f}\ntoken_bytes = {held:.0f}")
        return
    print(
        f"{n:,} requests each, {at_once} at once, durable before the answer; load average"
        f" {os.getloadavg()[0]:.1f}"
    )
    print(
        "per second of the proxy's processor time (by the clock), ours and, beside it in the same"
        " run, the previous release's:"
    )
    for name, rates in found.items():
        ours = rates[0]
        line = (
            f"  {name:<13} {ours.processor:7,.0f} ({ours.clock:6,.0f}); {ours.n_bytes:,.0f} bytes"
        )
        if previous:
            before = rates[1]
            line += (
                f"; before {before.processor:6,.0f} ({before.clock:6,.0f}):"
                f" {ours.processor / before.processor:.1f} times as many"
            )
        print(line)
    alone = intake_alone(n, at_once)
    line = f"  intake alone  {alone:7,.0f}, one share in each upload"
    if previous:
        before_alone = previous_intake_alone(previous, n, at_once)
        line += f"; before {before_alone:,.0f}: {alone / before_alone:.1f} times as many"
    print(line)
    half = found["uploads_kept"][0].clock / 2
    slowest, synced = 1000 * p99_at(half, 4, at_once), 1000 * sync_p99()
    print(
        f"  latency       p99 {slowest:.1f} ms at {half:,.0f} uploads a second by the clock, half"
        " of the rate above; ",
        end="",
    )
    print(f"one fdatasync alone: p99 {synced:.1f} ms")
    print(
        f"  collector     {gathered.processor:7,.0f} ({gathered.clock:,.0f}) of its own processor"
        " time; ",
        end="",
    )
    print(f"{behind:,.0f} of that of the proxy behind it")
    if previous:
        before_kept = found["uploads_kept"][1].processor
        print(
            f"                one proxy process takes what {behind / before_kept:.0f} took before"
        )
    print(f"  memory for a token: {held:.0f} bytes")


if __name__ == "__main__":
    main()
