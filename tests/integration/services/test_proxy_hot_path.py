"""The hot addresses on httptools and uvloop, and on pure Python: the same answers to the same
bytes, however they come."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from toolkit.servers import loopback
from toolkit.servers.certificates import self_signed
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import make_columns, records_of

QUERY = query_of_today()
SETTINGS = (
    '[intake]\nthreshold = 1000\n[limits]\nlargest_body = 4000\nbody_deadline = "2'
    ' s"\nheader_deadline = "2 s"\n'
)
PURE = ("httptools", "uvloop")


@pytest.fixture(scope="module")
def proxies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ProxyProcess]]:
    folder = tmp_path_factory.mktemp("proxies")
    with (
        ProxyProcess(folder / "fast", SETTINGS) as fast,
        ProxyProcess(folder / "pure", SETTINGS, PURE) as pure,
    ):
        for each in (fast, pure):
            each.publish(QUERY)
        yield {"fast": fast, "pure": pure}
        for each in (fast, pure):
            assert loopback.get(f"{each.address}/healthz").status_code == 200
            assert each.stop() == 0


def fresh(n: int) -> list[bytes]:
    epoch = QUERY.schedule.epoch_of(int(time.time()))
    return records_of(QUERY, epoch, make_columns(QUERY, epoch, n)[0])


def connect(proxy: ProxyProcess) -> socket.socket:
    place = urlsplit(proxy.address)
    return socket.create_connection((place.hostname, place.port), timeout=10)


def request(
    proxy: ProxyProcess, body: bytes, *lines: str, method: str = "POST /v1/shares", quota: int = 100
) -> bytes:
    token = proxy.token(quota=quota)["Authorization"]
    head = [
        f"{method} HTTP/1.1",
        "Host: x",
        f"Authorization: {token}",
        f"Content-Length: {len(body)}",
        *lines,
    ]
    if not any(line.lower().startswith("content-type") for line in lines):
        head.append("Content-Type: application/octet-stream")
    return "\r\n".join([*head, "", ""]).encode() + body


def answers(connection: socket.socket, n: int) -> list[tuple[int, dict[str, str], bytes]]:
    """The next answers on a connection, in their order."""
    found = []
    file = connection.makefile("rb")
    for _ in range(n):
        status = int(file.readline().split()[1])
        headers = {}
        while (line := file.readline().strip()) != b"":
            name, _, value = line.partition(b": ")
            headers[name.decode().lower()] = value.decode()
        body = file.read(int(headers.get("content-length", 0)))
        if status == 100:
            continue
        found.append((status, headers, body))
    return found


def said(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, object, dict[str, str]]:
    """What of an answer does not change from one to the next."""
    status, headers, body = answer
    kept = {
        name: value
        for name, value in headers.items()
        if name not in ("date", "content-length", "etag")
    }
    # seconds to the end of the epoch, of which one may pass between two answers
    if "retry-after" in kept:
        assert kept["retry-after"].isdecimal()
        kept["retry-after"] = "some seconds"
    return status, json.loads(body) if body else None, kept


@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        ((), "one", 202),
        ((), "two", 202),
        (("Content-Type: Application/Octet-Stream; x=1",), "one", 202),
        (("Connection: close",), "one", 202),
        (("Expect: 100-continue",), "one", 202),
        (("Content-Type: application/json",), "one", 415),
        ((), "garbage", 400),
        ((), "empty", 400),
        ((), "flood", 429),
        ((), "too long", 413),
    ],
)
def test_the_compiled_and_the_pure_server_answer_alike(
    proxies: dict[str, ProxyProcess], lines: tuple[str, ...], body: str, status: int
) -> None:
    records = fresh(200)
    bodies = {
        "one": records[0],
        "two": records[1] + records[2],
        "garbage": b"x" * 80,
        "empty": b"",
        "flood": b"".join(records[:9]),
        "too long": b"".join(records[:60]),
    }
    found = []
    for proxy in proxies.values():
        with connect(proxy) as connection:
            connection.sendall(request(proxy, bodies[body], *lines, quota=5))
            found.append(said(answers(connection, 2 if "Expect: 100-continue" in lines else 1)[0]))
    assert found[0] == found[1]
    assert found[0][0] == status


@pytest.mark.parametrize("which", ["fast", "pure"])
def test_an_upload_in_pieces_is_taken_as_one_in_a_single_piece_is(
    proxies: dict[str, ProxyProcess], which: str
) -> None:
    proxy = proxies[which]
    (record,) = fresh(1)
    content = request(proxy, record)
    for cut in (10, len(content) - 80, len(content) - 3):
        with connect(proxy) as connection:
            connection.sendall(content[:cut])
            time.sleep(0.05)
            connection.sendall(content[cut:])
            ((status, _, body),) = answers(connection, 1)
        assert (status, sum(json.loads(body).values())) == (202, 1)


@pytest.mark.parametrize("which", ["fast", "pure"])
def test_requests_that_are_sent_ahead_are_answered_in_their_order(
    proxies: dict[str, ProxyProcess], which: str
) -> None:
    proxy = proxies[which]
    one, two, three = fresh(3)
    poll = b"GET /v1/queries HTTP/1.1\r\nHost: x\r\n\r\n"
    health = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    with connect(proxy) as connection:
        connection.sendall(request(proxy, one) + poll + request(proxy, two + three) + health + poll)
        found = answers(connection, 5)
    assert [status for status, _, _ in found] == [202, 200, 202, 200, 200]
    assert json.loads(found[0][2]) == {"accepted": 1, "already": 0}
    assert json.loads(found[2][2]) == {"accepted": 2, "already": 0}
    assert json.loads(found[3][2])["status"] == "ok"
    assert found[1][2] == found[4][2]


@pytest.mark.parametrize("which", ["fast", "pure"])
def test_a_list_that_a_device_has_is_not_sent_again(
    proxies: dict[str, ProxyProcess], which: str
) -> None:
    proxy = proxies[which]
    first = loopback.get(f"{proxy.address}/v1/queries")
    assert len(first.json()) == 1
    for tag in (
        first.headers["etag"],
        f"W/{first.headers['etag']}",
        "*",
        f'"other", {first.headers["etag"]}',
    ):
        again = loopback.get(f"{proxy.address}/v1/queries", headers={"If-None-Match": tag})
        assert (again.status_code, again.content, again.headers["etag"]) == (
            304,
            b"",
            first.headers["etag"],
        )
    assert (
        loopback.get(
            f"{proxy.address}/v1/queries", headers={"If-None-Match": '"other"'}
        ).status_code
        == 200
    )


@pytest.mark.parametrize("which", ["fast", "pure"])
def test_a_head_without_an_end_and_a_connection_of_empty_lines_are_cut_off(
    proxies: dict[str, ProxyProcess], which: str
) -> None:
    proxy = proxies[which]
    with connect(proxy) as endless:
        endless.sendall(b"POST /v1/shares HTTP/1.1\r\nX: " + b"x" * 100_000)
        ((status, _, body),) = answers(endless, 1)
        assert (status, json.loads(body)["reason"]) == (400, "bad_http")
    with connect(proxy) as empty:
        empty.settimeout(8)
        empty.sendall(b"\r\n")
        content = b""
        while chunk := empty.recv(4096):
            content += chunk
        assert b"slow_head" in content or b"bad_http" in content


def test_a_device_that_comes_back_resumes_its_session_of_tls_1_3(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path, "proxy")
    context = ssl.create_default_context(cafile=str(certificate))
    with ProxyProcess(
        tmp_path / "p", '[tls]\ncertificate = "../proxy.pem"\nkey = "../proxy.key"\n'
    ) as proxy:
        place = urlsplit(proxy.address)
        session = None
        for resumed in (False, True, True):
            connection = http.client.HTTPSConnection(
                place.hostname or "", place.port, context=context, timeout=10
            )
            raw = socket.create_connection((place.hostname, place.port), timeout=10)
            connection.sock = wrapped = context.wrap_socket(
                raw, server_hostname=place.hostname, session=session
            )
            connection.request("GET", "/v1/queries")
            assert connection.getresponse().read() == b"[]"  # the ticket comes before the answer
            assert (wrapped.version(), wrapped.session_reused) == ("TLSv1.3", resumed)
            session = wrapped.session
            connection.close()
        old = ssl.create_default_context(cafile=str(certificate))
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection((place.hostname, place.port), timeout=10) as raw,
            pytest.raises(ssl.SSLError),
        ):
            old.wrap_socket(raw, server_hostname=place.hostname)
        assert proxy.stop() == 0
