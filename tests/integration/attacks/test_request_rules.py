"""What holds for every request and response of every service, on the fast path, the slow path and
without compiled parts."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from toolkit.servers import loopback
from toolkit.servers.collectors import CollectorProcess
from toolkit.servers.consoles import SeededConsole, console_query, seeded_console
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import make_columns, records_of

pytestmark = pytest.mark.slow

QUERY = query_of_today()
LIMITS = '[limits]\nheader_deadline = "2 s"\n'


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, str]]]:
    """Of each service that takes shares, its address and a device's token."""
    folder = tmp_path_factory.mktemp("services")
    with ExitStack() as stack:
        fast = stack.enter_context(ProxyProcess(folder / "fast", LIMITS))
        pure = stack.enter_context(ProxyProcess(folder / "pure", LIMITS, ("httptools", "uvloop")))
        workers = stack.enter_context(ProxyProcess(folder / "workers", f"workers = 1\n{LIMITS}"))
        found = {}
        for name, proxy in (("fast", fast), ("pure", pure), ("workers", workers)):
            proxy.publish(QUERY)
            found[name] = proxy.address, proxy.token(quota=1000)["Authorization"]
        collector = stack.enter_context(CollectorProcess(folder / "collector", fast))
        found["collector"] = collector.address, found["fast"][1]
        yield found


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        found.publish(console_query(found.proxies))
        yield found


def raw(address: str, request: bytes) -> bytes:
    """The first bytes of the answer to bytes: the head, and what came with it."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), 30) as connection:
        connection.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer and (part := connection.recv(65536)):
            answer += part
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def upload(*lines: str, chunked: bool = False, trailer: str = "") -> bytes:
    epoch = QUERY.schedule.epoch_of(int(time.time()))
    (record,) = records_of(QUERY, epoch, make_columns(QUERY, epoch, 1)[0])
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(record)}"
    head = [
        "POST /v1/shares HTTP/1.1",
        "Host: x",
        "Content-Type: application/octet-stream",
        length,
        *lines,
        "",
        "",
    ]
    body = (
        b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(record), record, trailer.encode()) if chunked else record
    )
    return "\r\n".join(head).encode() + body


REQUESTS = (
    "GET /v1/queries",
    "GET /v1/nowhere",
    "PUT /v1/queries",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /openapi.json",
    "GET /v1/public/feed",
    "GET /v1/public/feed?after=x",
    "POST /v1/shares",
    "GET /v1/log",
    "GET /v1/tokens",
    "GET /",
    "HEAD /",
    "GET /v1/public/queries",
    "GET /console/",
    "GET /console/nowhere",
    "POST /v1/plan",
    "DELETE /v1/session",
    "GET /v1/stream",
)
SERVICES = ["fast", "pure", "workers", "collector"]


@pytest.mark.parametrize("service", SERVICES)
def test_two_tokens_in_one_request_are_refused_whichever_way_it_is_read(
    addresses: dict[str, tuple[str, str]], service: str
) -> None:
    address, token = addresses[service]
    good, bad = f"Authorization: {token}", "Authorization: Bearer deniable_guessed"
    assert status(raw(address, upload(good))) == 202
    for lines in ((good, bad), (bad, good), (good, good)):
        at_once = raw(address, upload(*lines))
        assert status(at_once) == 400, (lines, at_once)
        assert status(raw(address, upload(*lines, chunked=True))) == 400
        assert status(raw(address, upload(*lines, "Expect: 100-continue"))) in (100, 400)
    for method in ("GET /v1/log", "POST /v1/enrol/rotate", "GET /healthz"):
        request = f"{method} HTTP/1.1\r\nHost: x\r\n{good}\r\n{bad}\r\nContent-Length: 0\r\n\r\n"
        assert status(raw(address, request.encode())) == 400


@pytest.mark.parametrize("service", SERVICES)
def test_a_token_in_a_trailer_is_no_token(
    addresses: dict[str, tuple[str, str]], service: str
) -> None:
    address, token = addresses[service]
    trailer = f"Authorization: {token}\r\n"
    assert status(raw(address, upload(chunked=True, trailer=trailer))) == 401
    assert (
        status(
            raw(
                address,
                upload("Authorization: Bearer deniable_guessed", chunked=True, trailer=trailer),
            )
        )
        == 401
    )
    good = upload(
        f"Authorization: {token}",
        chunked=True,
        trailer="Authorization: Bearer deniable_guessed\r\n",
    )
    assert status(raw(address, good)) == 202
    slow = (
        "POST /v1/enrol/rotate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:"
        f" chunked\r\n\r\n0\r\n{trailer}\r\n"
    )
    assert status(raw(address, slow.encode())) in (401, 404, 405)


def test_the_aggregator_reads_requests_by_the_same_rules(console: SeededConsole) -> None:
    good, bad = f"Authorization: Bearer {console.analyst}", "Authorization: Bearer deniable_guessed"

    def ask(*lines: str, body: str = "") -> int:
        return status(
            raw(
                console.url,
                "\r\n".join(["GET /v1/queries HTTP/1.1", "Host: x", *lines, "", body]).encode(),
            )
        )

    assert ask(good) == 200
    assert [ask(good, bad), ask(bad, good), ask(good, good)] == [400] * 3
    assert ask("Transfer-Encoding: chunked", body=f"0\r\n{good}\r\n\r\n") == 401
    assert ask(good, "Transfer-Encoding: chunked", body=f"0\r\n{bad}\r\n\r\n") == 200


def test_every_response_says_no_store_and_nosniff(
    console: SeededConsole, addresses: dict[str, tuple[str, str]]
) -> None:
    places = [(console.url, f"Bearer {console.analyst}"), *addresses.values()]
    for address, token in places:
        for request in REQUESTS:
            for lines in (f"Authorization: {token}\r\n", "", f"Authorization: {token}\r\n" * 2):
                check_head(
                    raw(
                        address,
                        f"{request} HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: 0\r\n\r\n".encode(),
                    ),
                    request,
                )
        check_head(raw(address, upload(f"Authorization: {token}")), "an upload")
        check_head(raw(address, b"GARBAGE\r\n\r\n"), "no HTTP")
    check_head(raw(addresses["fast"][0], b"GET / HT"), "half a head")  # 408, once its time is over
    for address, path in (
        (console.url, "/console/"),
        (console.url, "/v1/public/queries"),
        (addresses["fast"][0], "/v1/queries"),
    ):
        tag = loopback.get(address + path).headers["ETag"]
        unchanged = raw(
            address, f"GET {path} HTTP/1.1\r\nHost: x\r\nIf-None-Match: {tag}\r\n\r\n".encode()
        )
        assert status(unchanged) == 304
        check_head(unchanged, f"{path}, unchanged")


def check_head(answer: bytes, request: str) -> None:
    """A response that has an ETag may be kept and is asked for again; any other is not kept."""
    lines = [line.lower() for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")]
    assert lines.count(b"x-content-type-options: nosniff") == 1, (request, answer)
    tagged = any(line.startswith(b"etag: ") for line in lines)
    caching = [line for line in lines if line.startswith(b"cache-control: ")]
    assert caching == [b"cache-control: no-cache" if tagged else b"cache-control: no-store"], (
        request,
        answer,
    )
