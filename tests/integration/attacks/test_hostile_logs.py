"""Logs, headers and files that are wrong: the aggregator says so, counts the rest, and goes on when
they are mended."""

from __future__ import annotations

import json
import logging
import random
import sqlite3
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.web.api import create_app
from deniable.logs.share_logs import EmbeddedLog, HttpLog
from deniable.queries.signed.signing import sign
from deniable.service import background
from deniable.service.background import Background
from deniable.service.files.row_checks import prepare
from toolkit.answers import streamed
from toolkit.crowds import KEY, RING, Crowd
from toolkit.servers.served import served
from toolkit.servers.services import Relays

FRAME = struct.Struct("<QI")


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    crowd = Crowd(tmp_path)
    yield crowd
    crowd.close_all()


def wait_for(condition: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError("waited in vain")


# --- numbers in headers and frames


class Wire:
    """A proxy's `/v1/log`, with whatever headers or body a test puts in the place of the right
    ones."""

    def __init__(self, crowd: Crowd, proxy: int) -> None:
        self.log = crowd.logs[proxy]
        self.headers: dict[str, str] = {}
        self.body: bytes | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        records = self.log.read(int(request.url.params["after"]))
        marks = ",".join(
            f"{mark.channel:016x}:{mark.epoch}:{mark.offset}" for mark in self.log.marks().values()
        )
        right = {
            "Log-Identity": self.log.identity,
            "Log-Marks": marks,
            "Log-End": str(self.log.end),
        }
        body = b"".join(
            FRAME.pack(record.offset, len(record.block)) + record.block for record in records
        )
        return httpx.Response(
            200, content=body if self.body is None else self.body, headers={**right, **self.headers}
        )


TAG = "0000000000000007"
HUGE = str(2**70)
HEADERS = [
    *(
        {"Log-Marks": f"{TAG}:{number}:1"}
        for number in (HUGE, "-1", "1.0", "1e3", "0x10", " 1", "", str(2**33))
    ),
    *({"Log-Marks": f"{TAG}:1:{number}"} for number in (HUGE, str(2**63), "-1", "9" * 5000)),
    *(
        {"Log-Marks": text}
        for text in (
            f"{HUGE}:1:1",
            "xyz",
            "::",
            f"{TAG}:1",
            f"{TAG}:1:1:1",
            f"-{TAG}:1:1",
            f"{TAG}:1:1,",
        )
    ),
    *({"Log-End": number} for number in (HUGE, "-1", "1.5", "nan", "")),
    *({"Log-Identity": name} for name in ("", "x" * 5000, "a b", "\x7f")),
]
BODIES = [
    FRAME.pack(2**64 - 1, 0),
    FRAME.pack(2**63, 0),
    FRAME.pack(0, 0),
    FRAME.pack(1, 2**32 - 1),
    FRAME.pack(5, 0) + FRAME.pack(5, 0),
    FRAME.pack(5, 0) + FRAME.pack(4, 0),
    b"x",
]


def test_whatever_number_a_header_or_frame_holds_the_engine_goes_on_and_says_whose_it_is(
    crowd: Crowd,
) -> None:
    engine = crowd.engine()
    wires = [Wire(crowd, 0), Wire(crowd, 1)]
    clients = [httpx.Client(transport=streamed(wire)) for wire in wires]
    engine.logs = [HttpLog(f"http://proxy{i}", "right", client) for i, client in enumerate(clients)]
    for headers, body in [
        *((headers, None) for headers in HEADERS),
        *(({}, body) for body in BODIES),
    ]:
        crowd.answer([1] * 2)
        wires[1].headers, wires[1].body = headers, body
        engine.drain()
        assert "sent a malformed log" in engine.health[1].problem, (headers, body)
        assert engine.health[0].problem == ""
        wires[1].headers, wires[1].body = {}, None
        engine.drain()
        assert engine.health[1].problem == "", (headers, body)
    crowd.mark(3)
    engine.drain()
    n = 2 * (len(HEADERS) + len(BODIES))
    assert crowd.counts()[1] == n
    assert crowd.windows()[0].n == n
    for log in engine.logs:
        log.close()
    engine.logs = []


def test_marks_of_channels_that_nobody_published_are_not_kept(crowd: Crowd) -> None:
    engine = crowd.engine()
    wires = [Wire(crowd, 0), Wire(crowd, 1)]
    engine.logs = [
        HttpLog(f"http://p{i}", "right", httpx.Client(transport=streamed(wire)))
        for i, wire in enumerate(wires)
    ]
    crowd.answer([1] * 2)
    for page in range(5):
        wires[1].headers = {
            "Log-Marks": ",".join(f"{1000 * page + i:016x}:5:0" for i in range(1000))
        }
        engine.drain()
    assert crowd.state is not None
    assert crowd.state.connection.execute("SELECT count(*) FROM marks").fetchone() == (0,)
    for log in engine.logs:
        log.close()
    engine.logs = []


# --- damaged files


def damages(content: bytes) -> Iterator[bytes]:
    """Ways in which a file of SQLite is damaged: seed 5."""
    draw = random.Random(5)  # noqa: S311 - where damage is, not a secret
    yield b""
    yield content[: len(content) // 2]
    yield bytes(len(content))
    yield draw.randbytes(len(content))
    for _ in range(40):
        changed = bytearray(content)
        for _ in range(20):
            changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        yield bytes(changed)
    for start in range(0, 100, 4):  # the header of the file, field by field
        yield content[:start] + draw.randbytes(4) + content[start + 4 :]


def test_a_damaged_log_file_raises_nothing_and_is_read_on_when_it_is_mended(
    crowd: Crowd, tmp_path: Path
) -> None:
    crowd.answer([1] * 40)
    crowd.mark(1)
    crowd.logs[0]._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = (tmp_path / "log0.db").read_bytes()
    path = tmp_path / "damaged.db"
    log = EmbeddedLog(path)
    n_refused = 0
    for damaged in damages(content):
        path.write_bytes(damaged)
        reading = log.read((), 1 << 20)
        n_refused += bool(reading.problem)
        assert reading.problem or all(isinstance(block, bytes) for block in reading.blocks)
        assert all(
            0 <= mark.epoch <= 1 << 32 and 0 <= mark.offset < 1 << 63 for mark in reading.marks
        )
        log.close()
    assert n_refused > 10
    path.write_bytes(content)
    reading = log.read((), 1 << 20)
    assert (reading.problem, len(reading.marks), len(reading.blocks)) == ("", 1, 4)
    log.close()


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("UPDATE marks SET epoch = ?", 2**62),
        ("UPDATE marks SET epoch = ?", "soon"),
        ("UPDATE marks SET offset = ?", -1),
        ("UPDATE marks SET channel = ?", "not a channel"),
        ("UPDATE marks SET channel = ?", b"\xff"),
        ("UPDATE blocks SET block = ?", 17),
        ("UPDATE facts SET value = ? WHERE name = 'dropped'", "many"),
        ("UPDATE sqlite_sequence SET seq = ? WHERE name = 'blocks'", "x"),
    ],
)
def test_a_log_that_holds_what_no_proxy_writes_is_a_problem_of_that_proxy(
    crowd: Crowd, statement: str, value: Any
) -> None:
    engine = crowd.engine()
    crowd.answer([1] * 4)
    crowd.mark(1)
    connection = sqlite3.connect(crowd.logs[1].path)
    prepare(connection)  # a proxy that writes this has made the check sums fit
    with connection:
        connection.execute(statement, (value,))
    connection.close()
    engine.drain()
    assert "damaged" in engine.health[1].problem
    assert engine.health[0].problem == ""


# --- threads and their health


class RunningAggregator:
    """A service in this process, on a crowd's logs, with its interface."""

    def __init__(self, crowd: Crowd, relays: list[Relays]) -> None:
        self.crowd, self.folder = crowd, crowd.folder
        RING.save(self.folder / "ring.json")
        self.token = self.folder / "operator.token"
        self.token.write_text("deniable_operator\n")
        proxies = [
            ProxySource(name, relay.url, self.folder / f"log{i}.db", token_file=self.token)
            for i, (name, relay) in enumerate(zip(crowd.query.proxies, relays, strict=True))
        ]
        limits = EngineLimits(workers=1, bucket_bits=2)
        settings = AggregatorSettings(
            self.folder / "state.db", self.folder / "ring.json", proxies, limits=limits
        )
        self.service = Service(settings, clock=lambda: crowd.now)

    def health(self, client: httpx.Client) -> tuple[int, dict[str, Any]]:
        answer = client.get("/readyz")
        return answer.status_code, answer.json()


@pytest.fixture
def running(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningAggregator]:
    monkeypatch.setattr(background, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(background, "LONGEST_PAUSE", 0.2)
    relays = [Relays(), Relays()]
    yield RunningAggregator(crowd, relays)
    for relay in relays:
        relay.close()


@pytest.mark.parametrize(
    "error",
    [OverflowError("2**70"), ZeroDivisionError(), MemoryError(), sqlite3.OperationalError("full")],
)
def test_an_engine_that_fails_tries_again_says_so_and_recovers(
    running: RunningAggregator, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    engine = running.service.parts.embedded_engine
    assert engine is not None
    step, tries = engine.step, []
    caplog.set_level("INFO", logger="deniable.aggregator")

    def failing() -> bool:
        tries.append(time.monotonic())
        raise error

    engine.step = failing  # type: ignore[method-assign]
    with served(create_app(running.service)) as client:
        running.service.queries.publish(
            running.crowd.query.id, sign(running.crowd.query, KEY).to_bytes()
        )
        running.crowd.answer([1] * 7)
        running.crowd.mark(3)
        wait_for(lambda: len(tries) >= 4)
        status, told = running.health(client)
        assert (status, told["status"]) == (503, "failed")
        assert type(error).__name__ in told["engine"]
        assert "2**70" not in told["engine"], "what an unforeseen error says may be anything"
        assert "deniable_aggregator_engine_running 0" in client.get("/metrics").text
        engine.step = step  # type: ignore[method-assign]
        wait_for(lambda: running.health(client)[0] == 200)
        wait_for(lambda: running.service.windows.of_query(running.crowd.query.id))
        assert running.health(client)[1]["engine"] == "running"
    said = [record for record in caplog.records if record.name == "deniable.aggregator"]
    assert sum("will be tried again" in record.message for record in said) == 1, (
        "once for the reason, not once for each try"
    )
    assert sum("steps succeed again" in record.message for record in said) == 1


def test_pauses_between_tries_double_up_to_a_longest_and_begin_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    fail = [True] * 9 + [False] + [True] * 2
    done = threading.Event()

    def step() -> float | None:
        if not fail:
            done.set()
            return None
        if fail.pop(0):
            raise ValueError
        return 0.0

    work = Background("engine", step, logging.getLogger("test"))
    wait = work._woken.wait

    def waiting(pause: float | None) -> bool:
        pauses.append(-1.0 if pause is None else pause)
        return wait(None if pause is None else 0.0)

    monkeypatch.setattr(work._woken, "wait", waiting)
    work.start()
    assert done.wait(10)
    work.stop()
    assert pauses[:11] == [0.25, 0.5, 1, 2, 4, 8, 16, 30, 30, 0.0, 0.25]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("part", ["engine", "relay"])
def test_a_thread_that_ends_takes_the_health_page_with_it(
    running: RunningAggregator, part: str
) -> None:
    def ending() -> float:
        raise SystemExit  # ends a thread without a word

    getattr(running.service.parts, part)._step = ending
    with served(create_app(running.service)) as client:
        status, told = wait_for(lambda: (found := running.health(client))[0] == 503 and found)
        assert (status, told["status"]) == (503, "failed")
        assert told[part] == f"the {part} has ended: restart the service"


def test_a_token_file_that_is_away_for_a_moment_stops_nothing(running: RunningAggregator) -> None:
    content = running.token.read_text()
    running.token.unlink()
    with served(create_app(running.service)) as client:
        running.service.queries.publish(
            running.crowd.query.id, sign(running.crowd.query, KEY).to_bytes()
        )
        status, told = wait_for(
            lambda: (found := running.health(client))[1]["relay"] != "running" and found
        )
        assert (status, told["status"]) == (200, "degraded")
        assert "token_file" in told["relay"]
        running.token.write_text(content)
        wait_for(lambda: set(running.service.queries.listed()[0]["relayed"].values()) == {"done"})
        wait_for(lambda: running.health(client)[1]["relay"] == "running")


def test_a_log_file_that_is_damaged_while_it_is_read_is_said_and_read_on_when_it_is_mended(
    running: RunningAggregator,
) -> None:
    crowd, path = running.crowd, running.folder / "log1.db"
    crowd.logs[1]._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with served(create_app(running.service)) as client:
        running.service.queries.publish(crowd.query.id, sign(crowd.query, KEY).to_bytes())
        crowd.answer([1] * 7)
        wait_for(
            lambda: (
                running.service.parts.proxies
                and all(each.position for each in running.service.parts.proxies)
            )
        )
        crowd.mark(3)
        crowd.logs[1].close()
        right = path.read_bytes()
        hidden = path.rename(path.with_suffix(".right"))
        path.write_bytes(b"this is no log" * 1000)
        told = wait_for(
            lambda: (found := running.health(client)[1])["proxies"][1]["problem"] and found
        )
        assert told["status"] == "degraded"
        assert told["engine"] == "running"
        hidden.replace(path)
        assert path.read_bytes() == right
        wait_for(lambda: not running.health(client)[1]["proxies"][1]["problem"])
        wait_for(lambda: running.service.windows.of_query(crowd.query.id))
        assert json.loads(running.service.windows.of_query(crowd.query.id)[0][1])["n"] == 7
