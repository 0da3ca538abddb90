"""Answers that are bombs or never end, from a proxy or an aggregator: read up to a cap, never
decompressed, on loopback."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from deniable.aggregator.operations.relay import PUBLISH, order_relay, relay
from deniable.aggregator.settings import ProxySource
from deniable.aggregator.state import connect
from deniable.analyst.analyst import Analyst
from deniable.client.http_transport import HttpTransport
from deniable.errors import ResponseError, UploadError
from deniable.logs.share_logs import HttpLog
from deniable.service.http.reading import ask, lines
from toolkit.attacks.hostile_server import BOMB_BYTES, HostileServer, bomb


@pytest.fixture
def server() -> Iterator[HostileServer]:
    server = HostileServer()
    yield server
    server.close()


@contextmanager
def little_memory(most: int) -> Iterator[None]:
    """No more than so many bytes are held at any time: a bomb that goes off takes 256 MiB."""
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < most < BOMB_BYTES // 2


def endless() -> Iterator[bytes]:
    return itertools.repeat(b" " * (1 << 20), 2048)


KINDS: dict[str, tuple[dict[str, str], Callable[[], Iterable[bytes]]]] = {
    "gzip": ({"Content-Encoding": "gzip"}, lambda: [bomb()]),
    "spelled otherwise": ({"Content-Encoding": "Identity, GZip"}, lambda: [bomb()]),
    "endless": ({}, endless),
}


def at_device_queries(url: str, _: Path) -> None:
    with (
        HttpTransport() as transport,
        pytest.raises(UploadError, match=r"compressed|more than 8388608 bytes"),
    ):
        transport.queries(url)


def at_device_shares(url: str, _: Path) -> None:
    with HttpTransport() as transport, pytest.raises(UploadError) as error:
        transport.send(url, "token", b"records")
    assert not error.value.final, "shares that a proxy may have are kept and sent again"


def at_aggregator_log(url: str, _: Path) -> None:
    log = HttpLog(url, "token")
    reading = log.read((7,), 64 << 20)
    log.close()
    assert (reading.blocks, reading.position) == ([], (7,))
    assert "compressed" in reading.problem or "more than 67108864 bytes" in reading.problem


def at_aggregator_relay(url: str, folder: Path) -> None:
    connection = connect(folder / "state.db")
    connection.execute("INSERT INTO queries VALUES ('q', 1, 1, 1, x'00', 0, NULL, '')")
    order_relay(connection, "q", 1, PUBLISH, 1)
    with httpx.Client() as client:
        assert relay(connection, [ProxySource(url)], client) == 1
    (problem,) = connection.execute("SELECT problem FROM relays").fetchone()
    connection.close()
    assert "compressed" in problem or "more than 65536 bytes" in problem


def at_analyst_queries(url: str, _: Path) -> None:
    with (
        Analyst(url, "token") as analyst,
        pytest.raises(ResponseError, match=r"compressed|more than 67108864 bytes"),
    ):
        analyst.queries()


def at_analyst_follow(url: str, _: Path) -> None:
    with (
        Analyst(url, "token") as analyst,
        pytest.raises(ResponseError, match=r"compressed|more than 67108864 bytes"),
    ):
        next(analyst.follow("q", after=0))


READERS = [
    at_device_queries,
    at_device_shares,
    at_aggregator_log,
    at_aggregator_relay,
    at_analyst_queries,
    at_analyst_follow,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_bomb_in_an_answer_does_not_go_off(
    server: HostileServer, tmp_path: Path, read: Callable[[str, Path], None], kind: str
) -> None:
    server.headers, server.body = KINDS[kind]
    bomb()
    with little_memory(110 << 20):  # the cap, and its copy as bytes
        read(server.url, tmp_path)
    assert server.sent < 100 << 20
    assert all(headers["accept-encoding"] == "identity" for _, headers in server.asked)


@pytest.mark.parametrize(
    "read", [at_device_queries, at_device_shares], ids=lambda read: read.__name__
)
def test_a_device_holds_no_more_than_some_megabytes_of_a_bomb(
    server: HostileServer, tmp_path: Path, read: Callable[[str, Path], None]
) -> None:
    for server.headers, server.body in KINDS.values():
        with little_memory(20 << 20):
            read(server.url, tmp_path)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_problem_document_is_read_as_far_as_a_person_would(
    server: HostileServer, status: int
) -> None:
    server.status, server.body = status, endless
    with httpx.Client() as client, little_memory(4 << 20):
        answer = ask(client, "GET", server.url, 1 << 30)
    assert answer.status == status
    assert 1 << 16 < len(answer.content) < 4 << 20


def test_an_answer_that_trickles_is_given_up(server: HostileServer) -> None:
    def trickle() -> Iterator[bytes]:
        for _ in range(200):
            time.sleep(0.05)
            yield b"x"

    server.body = trickle
    began = time.monotonic()
    with (
        httpx.Client() as client,
        pytest.raises(ResponseError, match=r"not complete after 0\.5 seconds"),
    ):
        ask(client, "GET", server.url, 1 << 20, seconds=0.5)
    assert time.monotonic() - began < 5


def test_an_answer_of_exactly_the_cap_is_read_and_one_byte_more_is_not(
    server: HostileServer,
) -> None:
    with httpx.Client() as client:
        server.body = lambda: [b"x" * 1000]
        assert ask(client, "GET", server.url, 1000).content == b"x" * 1000
        with pytest.raises(ResponseError, match="more than 999 bytes"):
            ask(client, "GET", server.url, 999)


def test_lines_are_given_as_they_come_whatever_the_chunks(server: HostileServer) -> None:
    text = "one\r\ntwo\n\nthrée\n".encode()
    server.body = lambda: (text[i : i + 1] for i in range(len(text)))
    with httpx.Client() as client, client.stream("GET", server.url) as response:
        assert list(lines(response, 8)) == ["one", "two", "", "thrée"]
    with (
        httpx.Client() as client,
        client.stream("GET", server.url) as response,
        pytest.raises(ResponseError, match="than 4"),
    ):
        list(lines(response, 4))


def test_nobody_listens_is_said_in_one_line() -> None:
    with (
        httpx.Client() as client,
        pytest.raises(
            ResponseError, match=r"^0 unreachable: cannot be reached: nobody listens there$"
        ),
    ):
        ask(client, "GET", "http://127.0.0.1:9", 10)
