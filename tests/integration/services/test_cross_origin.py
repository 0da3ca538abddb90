"""Proxies that a web page can reach: what browsers are told on every path of a request, and what a
foreign page can do."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from deniable.cli.operator.proxy import proxy as proxy_commands
from toolkit.servers import loopback
from toolkit.servers.collectors import CollectorProcess
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import make_columns, records_of

pytestmark = pytest.mark.slow

QUERY = query_of_today()
PAGE, FOREIGN = "https://poll.example", "https://evil.example"
BROWSER = f'[browser]\norigins = ["https://other.example", "{PAGE}"]\n'
SETTINGS = (
    '[limits]\nheader_deadline = "1 s"\nmost_connections = 40\n[enrolment]\nmode ='
    f' "open"\n{BROWSER}'
)
SERVICES = ["fast", "pure", "workers", "collector"]
OPEN = {
    "GET /v1/queries": 200,
    f"GET /v1/queries/{QUERY.id}": 200,
    "GET /v1/queries/nowhere": 404,
    "POST /v1/shares": 401,
    "GET /v1/public/feed": 200,
    "GET /v1/public/feed?after=x": 422,
}
ONLY_PROXIES = {"POST /v1/enrol": 415, "POST /v1/enrol/rotate": 401}
CLOSED = (
    "GET /v1/log",
    "GET /v1/tokens",
    "GET /metrics",
    "GET /healthz",
    "GET /v1/nowhere",
    "POST /v1/batches",
)


@pytest.fixture(scope="module")
def services(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, tuple[str, ProxyProcess]]]:
    """Of each service, its address and the proxy that it belongs to."""
    folder = tmp_path_factory.mktemp("services")
    with ExitStack() as stack:
        fast = stack.enter_context(ProxyProcess(folder / "fast", SETTINGS))
        pure = stack.enter_context(ProxyProcess(folder / "pure", SETTINGS, ("httptools", "uvloop")))
        workers = stack.enter_context(ProxyProcess(folder / "workers", f"workers = 1\n{SETTINGS}"))
        for proxy in (fast, pure, workers):
            proxy.publish(QUERY)
        limits = '[limits]\nheader_deadline = "1 s"\nmost_connections = 40\n'
        collector = stack.enter_context(
            CollectorProcess(folder / "collector", fast, limits + BROWSER)
        )
        found = {"fast": fast, "pure": pure, "workers": workers}
        yield {name: (each.address, each) for name, each in found.items()} | {
            "collector": (collector.address, fast)
        }


Answer = tuple[int, dict[str, list[str]], bytes]


def connect(address: str) -> socket.socket:
    place = urlsplit(address)
    return socket.create_connection((place.hostname, place.port), 30)


def read_answer(connection: socket.socket) -> Answer:
    """The next answer, with every value of every header: a browser refuses an origin that is named
    twice."""
    file = connection.makefile("rb")
    status = int(file.readline().split()[1])
    headers: dict[str, list[str]] = {}
    while (line := file.readline().strip()) != b"":
        name, _, value = line.decode().partition(": ")
        headers.setdefault(name.lower(), []).append(value)
    length = 0 if status in (204, 304) else int(headers.get("content-length", ["0"])[0])
    return status, headers, file.read(length)


def ask(address: str, request: str, *lines: str, body: bytes = b"") -> Answer:
    head = [f"{request} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *lines, "", ""]
    with connect(address) as connection:
        connection.sendall("\r\n".join(head).encode() + body)
        return read_answer(connection)


def preflight(address: str, request: str, origin: str) -> Answer:
    method, path = request.split()
    wanted = "Access-Control-Request-Headers: authorization,content-type"
    return ask(
        address,
        f"OPTIONS {path}",
        f"Origin: {origin}",
        f"Access-Control-Request-Method: {method}",
        wanted,
    )


def open_requests(service: str) -> dict[str, int]:
    return OPEN if service == "collector" else {**OPEN, **ONLY_PROXIES}


def allowed(answer: Answer) -> list[str]:
    return answer[1].get("access-control-allow-origin", [])


@pytest.mark.parametrize("service", SERVICES)
def test_a_page_may_read_every_answer_and_every_refusal(
    services: dict[str, tuple[str, ProxyProcess]], service: str
) -> None:
    address, _ = services[service]
    for request, status in open_requests(service).items():
        answer = ask(address, request, f"Origin: {PAGE}")
        assert answer[0] == status, (request, answer)
        assert allowed(answer) == [PAGE], (request, answer)
        assert answer[1]["access-control-expose-headers"] == [
            "Date, ETag, Retry-After, Revoked-Keys"
        ]
        assert answer[1]["vary"] == ["Origin"]  # or a cache would show one page's answer to another
        assert "access-control-allow-credentials" not in answer[1]
    two = ask(
        address,
        "POST /v1/shares",
        f"Origin: {PAGE}",
        "Authorization: Bearer a",
        "Authorization: Bearer b",
    )
    assert (two[0], allowed(two)) == (400, [PAGE])
    chunked = ask(address, "POST /v1/shares", f"Origin: {PAGE}", "Transfer-Encoding: chunked")
    assert allowed(chunked) in ([PAGE], ["*"])  # it has two lengths: not HTTP, for some parsers


@pytest.mark.parametrize("service", SERVICES)
def test_a_foreign_page_reads_nothing_and_is_told_so(
    services: dict[str, tuple[str, ProxyProcess]], service: str
) -> None:
    address, _ = services[service]
    for origin in (
        FOREIGN,
        "null",
        f"{PAGE}.evil.example",
        PAGE.upper(),
        f"{PAGE}:8443",
        "http://poll.example",
    ):
        for request in open_requests(service):
            assert allowed(ask(address, request, f"Origin: {origin}")) == []
        refused = preflight(address, "POST /v1/shares", origin)
        assert (refused[0], allowed(refused)) == (403, [])
        assert json.loads(refused[2])["reason"] == "origin"
        assert "access-control-allow-methods" not in refused[1]
    assert allowed(ask(address, "GET /v1/queries")) == []  # no page asks


@pytest.mark.parametrize("service", SERVICES)
def test_what_devices_do_not_use_stays_closed_to_pages(
    services: dict[str, tuple[str, ProxyProcess]], service: str
) -> None:
    address, _ = services[service]
    for request in CLOSED:
        assert allowed(ask(address, request, f"Origin: {PAGE}")) == [], request
        asked = preflight(address, request, PAGE)
        assert asked[0] >= 400
        assert allowed(asked) == []
    # of an address that pages may read: the browser compares the methods
    for method in ("PUT", "DELETE"):
        answer = preflight(address, f"{method} /v1/queries/{QUERY.id}", PAGE)
        assert answer[1]["access-control-allow-methods"] == ["GET"]


@pytest.mark.parametrize("service", SERVICES)
def test_a_preflight_names_what_may_be_sent(
    services: dict[str, tuple[str, ProxyProcess]], service: str
) -> None:
    address, _ = services[service]
    for request in open_requests(service):
        status, headers, body = preflight(address, request.partition("?")[0], PAGE)
        assert (status, body) == (204, b"")
        assert headers["access-control-allow-origin"] == [PAGE]
        assert headers["access-control-allow-methods"] == [request.split()[0]]
        assert headers["access-control-allow-headers"] == [
            "Authorization, Content-Type, If-None-Match"
        ]
        assert headers["access-control-max-age"] == ["7200"]
        assert "content-length" not in headers
        assert "access-control-allow-credentials" not in headers


@pytest.mark.parametrize("service", SERVICES)
def test_refusals_before_a_request_is_read_can_be_read_by_pages(
    services: dict[str, tuple[str, ProxyProcess]], service: str
) -> None:
    address, _ = services[service]
    with connect(address) as connection:
        connection.sendall(b"no HTTP\r\n\r\n")
        answer = read_answer(connection)
    assert (answer[0], allowed(answer)) == (400, ["*"])
    with connect(address) as connection:
        answer = read_answer(connection)  # after a second without a head
    assert (answer[0], allowed(answer)) == (408, ["*"])
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connect(address))
        answer = read_answer(stack.enter_context(connect(address)))
    assert (answer[0], allowed(answer)) == (503, ["*"])
    assert answer[1]["access-control-expose-headers"] == ["Date, ETag, Retry-After, Revoked-Keys"]


def test_the_doors_are_closed_until_origins_are_named(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path / "closed") as proxy:
        proxy.publish(QUERY)
        for request in OPEN:
            assert allowed(ask(proxy.address, request, f"Origin: {PAGE}")) == []
            assert preflight(proxy.address, request.partition("?")[0], PAGE)[0] == 405


@pytest.mark.parametrize("service", SERVICES)
def test_one_query_is_served_without_a_token_and_with_a_tag(
    services: dict[str, tuple[str, ProxyProcess]], service: str
) -> None:
    address, _ = services[service]
    (listed,) = loopback.get(f"{address}/v1/queries").json()
    answer = loopback.get(f"{address}/v1/queries/{QUERY.id}")
    assert (answer.status_code, answer.json()) == (200, listed)
    assert answer.headers["cache-control"] == "no-cache"
    tag = answer.headers["etag"]
    again = loopback.get(f"{address}/v1/queries/{QUERY.id}", headers={"If-None-Match": tag})
    assert (again.status_code, again.headers["etag"], again.content) == (304, tag, b"")
    assert loopback.get(f"{address}/v1/queries/{QUERY.id}?x=1").status_code in (200, 404)
    for wrong in (f"{QUERY.id}.", f"{QUERY.id}/", "%2e%2e", ""):
        assert loopback.get(f"{address}/v1/queries/{wrong}").status_code == 404


@pytest.mark.parametrize("service", SERVICES[:3])
def test_a_blind_post_from_a_foreign_page_gets_no_token(
    services: dict[str, tuple[str, ProxyProcess]], service: str
) -> None:
    address, proxy = services[service]
    before = len(proxy_tokens(proxy))
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        lines = [f"Origin: {FOREIGN}", *([f"Content-Type: {kind}"] if kind else [])]
        answer = ask(address, "POST /v1/enrol", *lines, body=b"{}")
        assert (answer[0], json.loads(answer[2])["reason"]) == (415, "media_type")
    assert len(proxy_tokens(proxy)) == before
    good = ask(
        address,
        "POST /v1/enrol",
        f"Origin: {PAGE}",
        "Content-Type: application/json; charset=utf-8",
        body=b"{}",
    )
    assert (good[0], allowed(good)) == (201, [PAGE])


def proxy_tokens(proxy: ProxyProcess) -> list[object]:
    from deniable.service.tokens import TokenStore  # noqa: PLC0415

    store = TokenStore(proxy.data / "tokens.db", read_only=True)
    try:
        return list(store.tokens())
    finally:
        store.close()


def test_preflights_are_counted_and_not_as_refusals(
    services: dict[str, tuple[str, ProxyProcess]],
) -> None:
    for service in ("fast", "pure", "workers"):
        address, proxy = services[service]
        before, refused = proxy.metrics()["preflights_total"], proxy.refused("preflights")
        for _ in range(5):
            preflight(address, "POST /v1/shares", PAGE)
        end = time.monotonic() + 20
        # workers report them within a second
        while proxy.metrics()["preflights_total"] < before + 5:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert proxy.metrics()["preflights_total"] == before + 5
        assert proxy.refused("preflights") == refused == 0


def test_preflights_sent_ahead_close_their_connection(
    services: dict[str, tuple[str, ProxyProcess]],
) -> None:
    address, proxy = services["fast"]
    one = (
        "OPTIONS /v1/shares HTTP/1.1\r\nHost: x\r\nOrigin:"
        f" {PAGE}\r\nAccess-Control-Request-Method: POST\r\n\r\n".encode()
    )
    before = proxy.metrics()["preflights_total"]
    with connect(address) as connection:
        connection.sendall(one * 500)
        connection.shutdown(socket.SHUT_WR)
        content = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert content.count(b"HTTP/1.1 204") == 1
    assert content.count(b"HTTP/1.1 429") == 1
    assert proxy.metrics()["preflights_total"] == before + 1  # the rest was not even parsed
    assert proxy.refused("preflights_ahead") == 1


def test_a_flood_of_preflights_does_not_starve_uploads(
    services: dict[str, tuple[str, ProxyProcess]],
) -> None:
    address, proxy = services["fast"]
    head = (
        "OPTIONS /v1/shares HTTP/1.1\r\nHost: x\r\nOrigin:"
        f" {PAGE}\r\nAccess-Control-Request-Method: POST\r\n\r\n".encode()
    )
    flooding, counts = threading.Event(), [0] * 4

    def flood(i: int) -> None:
        with connect(address) as connection:
            while not flooding.is_set():
                connection.sendall(head)
                if not connection.recv(65536):
                    return
                counts[i] += 1

    epoch = QUERY.schedule.epoch_of(int(time.time()))
    records = records_of(QUERY, epoch, make_columns(QUERY, epoch, 20)[0])
    headers = proxy.token(quota=1000)
    threads = [threading.Thread(target=flood, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    try:
        before = 0
        for record in records:
            answer = loopback.post(
                f"{address}/v1/shares", content=record, headers=headers, timeout=20
            )
            assert answer.status_code == 202
            before += 1
    finally:
        flooding.set()
        for thread in threads:
            thread.join(20)
    assert before == len(records)
    assert min(counts) > 0  # the flood was answered all the while, connection by connection


def test_check_tries_an_origin(
    services: dict[str, tuple[str, ProxyProcess]],
) -> None:
    address, proxy = services["fast"]
    port = urlsplit(address).port
    file = proxy.folder / "checked.toml"
    file.write_text(proxy.file.read_text().replace("port = 0", f"port = {port}"))
    for origin, code, words in (
        (PAGE, 0, "no errors"),
        (FOREIGN, 2, f"must contain {FOREIGN}"),
        (f"{PAGE}/", 2, "without a path or a final slash"),
    ):
        done = CliRunner().invoke(proxy_commands, ["check", str(file), "--origin", origin])
        assert (done.exit_code, words in done.output) == (code, True), (origin, done.output)
