"""A proxy in its own process, over real HTTP: what it takes, relays and refuses; and what it still
has when it is stopped."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.service.tokens import TokenStore
from deniable.wire.blocks import Block
from toolkit.servers import loopback
from toolkit.servers.proxies import ProxyProcess, query_of_today, signed
from toolkit.shares import Words, body_of, make_columns

SETTINGS = """
[intake]
threshold = 1000
deadline = "1 s"
[limits]
largest_body = 400000
body_deadline = "1 s"
header_deadline = "1 s"
most_connections = 40
most_waiting = 1000000
"""
QUERY = query_of_today()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with ProxyProcess(tmp_path_factory.mktemp("proxy"), SETTINGS) as running:
        running.publish(QUERY)
        yield running
        # after all that was done to it
        assert loopback.get(f"{running.address}/healthz").json()["status"] == "ok"
        assert running.stop() == 0


def epoch_now() -> int:
    return QUERY.schedule.epoch_of(int(time.time()))


def fresh(n: int) -> tuple[Words, bytes]:
    epoch = epoch_now()
    columns, _ = make_columns(QUERY, epoch, n)
    return columns, body_of(QUERY, epoch, columns)


def post(
    proxy: ProxyProcess, content: bytes, headers: dict[str, str] | None = None
) -> httpx.Response:
    return loopback.post(
        f"{proxy.address}/v1/shares", content=content, headers=headers or proxy.token(quota=100_000)
    )


def problem(answer: httpx.Response, status: int, reason: str) -> dict[str, object]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, object] = answer.json()
    assert (found["status"], found["reason"]) == (status, reason)
    assert found["type"] == f"urn:deniable:problem:{reason}"
    assert {"title", "detail"} <= set(found)
    return found


def wait_for(proxy: ProxyProcess, ids: Words, seconds: float = 10.0) -> Words:
    """The rows of these ids in the log, once all of them are there."""
    wanted = set(map(tuple, ids[:2].T.tolist()))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        logged = proxy.logged()
        places = [i for i, pair in enumerate(map(tuple, logged[:2].T.tolist())) if pair in wanted]
        if len(places) >= len(wanted):
            return logged[:, places]
        time.sleep(0.1)
    raise AssertionError(f"{len(places)} of {len(wanted)} shares came to the log")


def by_id(columns: Words) -> Words:
    return columns[:, np.lexsort((columns[1], columns[0]))]


# --- the good ways


def test_shares_come_to_the_log_unchanged_and_a_retry_changes_nothing(proxy: ProxyProcess) -> None:
    columns, content = fresh(2500)
    headers = proxy.token(quota=2500)
    answer = post(proxy, content, headers)
    assert (answer.status_code, answer.json()) == (202, {"accepted": 2500, "already": 0})
    assert post(proxy, content, headers).json() == {"accepted": 0, "already": 2500}
    assert np.array_equal(by_id(wait_for(proxy, columns)), by_id(columns))


def test_a_single_share_is_passed_on_after_the_deadline(proxy: ProxyProcess) -> None:
    columns, content = fresh(1)
    assert post(proxy, content, proxy.token()).json() == {"accepted": 1, "already": 0}
    assert np.array_equal(wait_for(proxy, columns), columns)


def test_an_upload_in_chunks_of_unknown_length_is_taken(proxy: ProxyProcess) -> None:
    columns, content = fresh(100)
    chunks = (content[start : start + 777] for start in range(0, len(content), 777))
    answer = loopback.post(
        f"{proxy.address}/v1/shares", content=chunks, headers=proxy.token(quota=100)
    )
    assert answer.json() == {"accepted": 100, "already": 0}
    wait_for(proxy, columns)


def test_devices_get_the_signed_queries_and_not_again_what_they_have(proxy: ProxyProcess) -> None:
    answer = loopback.get(f"{proxy.address}/v1/queries")
    assert answer.headers["content-type"] == "application/json"
    listed = [SignedQuery.from_bytes(json.dumps(each).encode()) for each in answer.json()]
    assert [each.unverified().digest for each in listed] == [QUERY.digest]
    again = loopback.get(
        f"{proxy.address}/v1/queries", headers={"If-None-Match": answer.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")


def test_a_query_is_replaced_by_its_newer_version_only_and_stopped(proxy: ProxyProcess) -> None:
    operator = proxy.token("operator")
    query = query_of_today(id="other")
    address = f"{proxy.address}/v1/queries/other"
    key = AnalystKey.generate(query.analyst)
    before = loopback.get(f"{proxy.address}/v1/queries").headers["etag"]
    newer = query.revised(sampling=0.5)
    assert (
        loopback.put(address, content=sign(query, key).to_bytes(), headers=operator).status_code
        == 201
    )
    assert (
        loopback.put(address, content=sign(query, key).to_bytes(), headers=operator).status_code
        == 200
    )
    assert (
        loopback.put(address, content=sign(newer, key).to_bytes(), headers=operator).status_code
        == 201
    )
    problem(
        loopback.put(address, content=sign(query, key).to_bytes(), headers=operator),
        409,
        "rolled-back_query",
    )
    problem(
        loopback.put(f"{address}s", content=sign(newer, key).to_bytes(), headers=operator),
        422,
        "query_id",
    )
    problem(loopback.put(address, content=b"{}", headers=operator), 422, "unusable_query")
    problem(
        loopback.put(address, content=signed(newer).to_bytes(), headers=proxy.token()), 403, "role"
    )
    assert loopback.get(f"{proxy.address}/v1/queries").headers["etag"] != before
    assert loopback.delete(address, headers=operator).status_code == 204
    assert loopback.get(f"{proxy.address}/v1/queries").headers["etag"] == before
    problem(loopback.delete(address, headers=operator), 404, "unknown_query")


def test_a_reader_gets_the_log_over_http(proxy: ProxyProcess) -> None:
    columns, content = fresh(1200)
    post(proxy, content)
    wait_for(proxy, columns)
    headers = proxy.token("reader")
    blocks, after = [], 0
    while True:
        page = loopback.get(
            f"{proxy.address}/v1/log", params={"after": after, "limit": 2}, headers=headers
        )
        assert page.status_code == 200
        at = 0
        while at < len(page.content):
            offset, length = struct.unpack_from("<QI", page.content, at)
            assert offset == after + 1
            after = offset
            blocks.append(Block.from_bytes(page.content[at + 12 : at + 12 + length]))
            at += 12 + length
        if not page.content:
            break
    rows = np.concatenate([block.columns for block in blocks], axis=1)
    assert np.array_equal(rows, proxy.logged())
    (mark,) = [
        part.split(":")
        for part in page.headers["log-marks"].split(",")
        if part.startswith(f"{QUERY.channel_tag:016x}")
    ]
    assert int(mark[1]) in (epoch_now() - 1, epoch_now())
    problem(
        loopback.get(f"{proxy.address}/v1/log", params={"after": after + 1}, headers=headers),
        416,
        "offset",
    )
    problem(
        loopback.get(f"{proxy.address}/v1/log", params={"after": "x"}, headers=headers),
        422,
        "parameters",
    )
    problem(loopback.get(f"{proxy.address}/v1/log", headers=proxy.token()), 403, "role")


def test_the_interface_describes_itself(proxy: ProxyProcess) -> None:
    paths = loopback.get(f"{proxy.address}/openapi.json").json()["paths"]
    devices, collectors = (
        {
            "/v1/shares",
            "/v1/answers",
            "/v1/queries",
            "/v1/enrol",
            "/v1/enrol/rotate",
        },
        {"/v1/batches", "/v1/tokens"},
    )
    assert set(paths) == devices | collectors | {
        "/v1/queries/{query_id}",
        "/v1/revoked/{key_id}",
        "/v1/public/feed",
        "/v1/log",
        "/healthz",
        "/readyz",
        "/metrics",
    }
    assert {"202", "401", "408", "409", "410", "413", "415", "429", "503"} <= set(
        paths["/v1/shares"]["post"]["responses"]
    )


# --- bad input


def test_bad_uploads_are_refused_by_reason_and_counted_and_nothing_accepted_is_lost(
    proxy: ProxyProcess,
) -> None:
    kept, content = fresh(50)
    assert post(proxy, content).status_code == 202
    random = np.random.default_rng(1)
    garbage = [random.bytes(n) for n in (1, 15, 16, 80, 4096, 100_000)]
    changed = bytearray(content)
    changed[79] ^= 1
    epoch = epoch_now()
    late, early = (body_of(QUERY, e, make_columns(QUERY, e, 1)[0]) for e in (epoch - 5, epoch + 5))
    other = query_of_today(id="unheard-of")
    cases: list[tuple[bytes, int, str]] = [
        *((each, 400, "truncated" if len(each) < 16 else "version") for each in garbage),
        (b"", 400, "truncated"),
        (content[:-3], 400, "truncated"),
        (bytes(changed), 409, "changed"),
        (late, 410, "late"),
        (early, 422, "early"),
        (body_of(other, epoch, make_columns(other, epoch, 1)[0]), 404, "unknown_channel"),
        (bytes(400_001), 413, "too_large"),
    ]
    for bad, status, reason in cases:
        before = proxy.refused(reason)
        problem(post(proxy, bad), status, reason)
        assert proxy.refused(reason) == before + 1
    assert post(proxy, content).json() == {"accepted": 0, "already": 50}
    assert np.array_equal(by_id(wait_for(proxy, kept)), by_id(kept))


def test_a_flood_beyond_the_quota_is_put_off_until_the_next_epoch(proxy: ProxyProcess) -> None:
    _, content = fresh(6)
    headers = proxy.token(quota=4)
    assert post(proxy, content[: 3 * 80], headers).json()["accepted"] == 3
    answer = post(proxy, content[3 * 80 :], headers)
    problem(answer, 429, "quota")
    assert 1 <= int(answer.headers["retry-after"]) <= 600
    assert post(proxy, content[: 4 * 80], headers).json() == {"accepted": 1, "already": 3}
    _, two = fresh(2)
    # a device's own token: one answer an epoch
    problem(post(proxy, two, proxy.token()), 429, "quota")


def test_requests_without_a_good_token_or_type_or_address_are_refused(proxy: ProxyProcess) -> None:
    _, content = fresh(1)
    good = proxy.token()
    for authorization in (
        "",
        "Bearer",
        "Bearer deniable_guess",
        "Basic YTpi",
        good["Authorization"][:-1],
    ):
        answer = post(proxy, content, {**good, "Authorization": authorization})
        problem(answer, 401, "token")
        assert answer.headers["www-authenticate"] == "Bearer"
    problem(post(proxy, content, proxy.token("operator")), 403, "role")
    problem(post(proxy, content, {**good, "Content-Type": "application/json"}), 415, "media_type")
    problem(loopback.get(f"{proxy.address}/v1/nothing"), 404, "address")
    problem(loopback.put(f"{proxy.address}/v1/shares", content=b"x"), 405, "method")
    assert post(proxy, content, good).json()["accepted"] == 1


def test_a_token_that_is_revoked_is_refused_at_once(proxy: ProxyProcess) -> None:
    headers = proxy.token()
    book = TokenStore(proxy.data / "tokens.db")
    found = book.find(headers["Authorization"].removeprefix("Bearer "))
    assert found is not None
    assert book.revoke(found.id) == [found.id]
    book.close()
    problem(post(proxy, fresh(1)[1], headers), 401, "token")


def test_an_endless_body_without_a_length_is_cut_off(proxy: ProxyProcess) -> None:
    chunks = (bytes(50_000) for _ in range(20))
    problem(
        loopback.post(f"{proxy.address}/v1/shares", content=chunks, headers=proxy.token()),
        413,
        "too_large",
    )


# --- connections that are held open


def connect(proxy: ProxyProcess) -> socket.socket:
    parts = urlsplit(proxy.address)
    connection = socket.create_connection((parts.hostname, parts.port), timeout=10)
    connection.settimeout(10)
    return connection


def read_all(connection: socket.socket) -> bytes:
    content = b""
    connection.settimeout(10)
    try:
        while chunk := connection.recv(65536):
            content += chunk
    # closed with some of our bytes unread: what came before is the answer
    except ConnectionResetError:
        pass
    return content


def head(headers: dict[str, str], length: int) -> bytes:
    lines = [
        "POST /v1/shares HTTP/1.1",
        "Host: x",
        f"Content-Length: {length}",
        *(f"{k}: {v}" for k, v in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def split_answer(content: bytes) -> tuple[int, dict[str, object]]:
    top, _, body = content.partition(b"\r\n\r\n")
    assert b"application/problem+json" in top
    return int(top.split()[1]), json.loads(body)


def test_a_head_that_comes_a_byte_at_a_time_is_cut_off(proxy: ProxyProcess) -> None:
    before = proxy.refused("slow_head")
    with connect(proxy) as slow, connect(proxy) as silent:
        start = time.monotonic()
        slow.sendall(b"POST /v1/shares HTTP/1.1\r\n")
        slow.settimeout(0.2)
        answer = b""
        while time.monotonic() < start + 8 and not answer:
            try:
                slow.sendall(b"X")
                answer = slow.recv(65536)
            except TimeoutError:
                continue
        assert time.monotonic() - start < 5
        status, found = split_answer(answer + read_all(slow))
        assert (status, found["reason"]) == (408, "slow_head")
        assert split_answer(read_all(silent))[0] == 408
    assert proxy.refused("slow_head") == before + 2


def test_a_body_that_comes_a_byte_at_a_time_is_cut_off_and_nothing_of_it_is_taken(
    proxy: ProxyProcess,
) -> None:
    before, accepted = proxy.refused("slow_body"), proxy.metrics()["shares_accepted_total"]
    _, content = fresh(1)
    with connect(proxy) as slow:
        slow.sendall(head(proxy.token(), len(content)) + content[:20])
        slow.settimeout(0.2)
        answer = b""
        start = time.monotonic()
        for byte in content[20:]:
            slow.sendall(bytes([byte]))
            try:
                answer = slow.recv(65536)
                break
            except TimeoutError:
                continue
        assert time.monotonic() - start < 5
        status, found = split_answer(answer + read_all(slow))
        assert (status, found["reason"]) == (408, "slow_body")
    assert proxy.refused("slow_body") == before + 1
    assert proxy.metrics()["shares_accepted_total"] == accepted


def test_a_refused_client_that_goes_on_sending_is_cut_off(proxy: ProxyProcess) -> None:
    with connect(proxy) as stubborn:
        stubborn.sendall(head({"Content-Type": "application/octet-stream"}, 300_000))
        start = time.monotonic()
        closed = False
        while not closed and time.monotonic() < start + 20:
            try:
                stubborn.sendall(b"x")
                time.sleep(0.1)
            except OSError:
                closed = True
        assert closed
        assert time.monotonic() - start < 15


def test_slow_connections_do_not_keep_others_out(proxy: ProxyProcess) -> None:
    held = [connect(proxy) for _ in range(60)]  # more than may be open at once
    try:
        time.sleep(1.5)
        columns, content = fresh(10)
        assert post(proxy, content).json()["accepted"] == 10
        wait_for(proxy, columns)
    finally:
        for each in held:
            each.close()
    assert proxy.refused("connections") >= 20


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    """A proxy with little room for uploads, and all the time for them."""
    with ProxyProcess(
        tmp_path_factory.mktemp("patient"), SETTINGS.replace('body_deadline = "1 s"', "")
    ) as running:
        running.publish(QUERY)
        yield running


def test_more_than_can_be_received_at_once_is_put_off(patient: ProxyProcess) -> None:
    proxy = patient
    before = proxy.refused("busy")
    with connect(proxy) as one, connect(proxy) as two:
        for each in (one, two):
            each.sendall(head(proxy.token(), 399_000) + bytes(398_000))
        wait_until(lambda: proxy.metrics()["bytes_receiving"] == 796_000)
        _, content = fresh(4000)
        answer = post(proxy, content)
        problem(answer, 503, "busy")
        assert answer.headers["retry-after"] == "1"
    assert proxy.refused("busy") == before + 1
    wait_until(lambda: proxy.metrics()["bytes_receiving"] == 0)
    assert post(proxy, content).status_code == 202


def wait_until(condition: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_uploads_that_announce_much_and_send_nothing_take_no_room_and_one_token_holds_few(
    tmp_path: Path,
) -> None:
    """With the limits as they are by default: 64 uploads that announce 4 MiB each locked the proxy
    for everybody."""
    with ProxyProcess(tmp_path) as running, contextlib.ExitStack() as held:
        running.publish(QUERY)
        idle = running.token()
        sockets = [held.enter_context(connect(running)) for _ in range(64)]
        for each in sockets:
            each.sendall(head(idle, 4 << 20) + b"x")
        wait_until(lambda: running.refused("token_busy") == 32)
        assert running.metrics()["bytes_receiving"] == 32
        _, content = fresh(10)
        assert post(running, content, running.token(quota=10)).json()["accepted"] == 10
        answer = post(running, content, idle)
        problem(answer, 429, "token_busy")
        assert answer.headers["retry-after"] == "1"
        for each in sockets:
            each.close()
        wait_until(lambda: running.metrics()["bytes_receiving"] == 0)
        assert post(running, content, idle).json() == {
            "accepted": 0,
            "already": 10,
        }, "the token is not locked out"


def test_one_token_cannot_fill_the_room_that_all_share(patient: ProxyProcess) -> None:
    proxy = patient
    greedy = proxy.token()
    before = proxy.refused("token_busy")
    with connect(proxy) as one, connect(proxy) as two:
        for each in (one, two):
            # half of 1,000,000 is what one token may have under way
            each.sendall(head(greedy, 399_000) + bytes(300_000))
        wait_until(lambda: proxy.refused("token_busy") == before + 1)
        _, content = fresh(4000)
        assert post(proxy, content).status_code == 202
    wait_until(lambda: proxy.metrics()["bytes_receiving"] == 0)


def test_bytes_that_are_no_http_get_a_problem_document(proxy: ProxyProcess) -> None:
    before = proxy.refused("bad_http")
    for junk in (
        b"\x16\x03\x01\x02\x00garbage\r\n\r\n",
        b"GET / HTTP/1.1\r\nbroken header\r\n\r\n",
    ):
        with connect(proxy) as connection:
            connection.sendall(junk)
            status, found = split_answer(read_all(connection))
            assert (status, found["reason"]) == (400, "bad_http")
    assert proxy.refused("bad_http") == before + 2


def test_a_client_that_goes_away_in_the_middle_leaves_nothing(proxy: ProxyProcess) -> None:
    accepted = proxy.metrics()["shares_accepted_total"]
    _, content = fresh(10)
    with connect(proxy) as gone:
        gone.sendall(head(proxy.token(quota=10), len(content)) + content[:400])
    time.sleep(0.3)
    assert proxy.metrics()["shares_accepted_total"] == accepted
    assert proxy.metrics()["bytes_receiving"] == 0


# --- what it says and keeps


def test_no_token_address_or_share_is_logged_or_kept(proxy: ProxyProcess) -> None:
    headers = proxy.token()
    columns, content = fresh(1)
    post(proxy, content, headers)
    post(proxy, b"garbage", headers)
    wait_for(proxy, columns)
    token = headers["Authorization"].removeprefix("Bearer ")
    lines = proxy.errors().splitlines()
    assert all(set(json.loads(line)) >= {"time", "level", "event"} for line in lines)
    kept = b"".join(path.read_bytes() for path in proxy.folder.rglob("*") if path.is_file())
    assert columns[2:, 0].tobytes()[:8] in kept
    assert token.encode() not in kept
    for secret in (columns[0, 0].tobytes().hex(), str(columns[0, 0]), "127.0.0.1"):
        assert secret not in proxy.errors()


def test_a_stop_passes_on_what_waits(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path / "p", '[intake]\nthreshold = 100000\ndeadline = "1 h"\n') as proxy:
        proxy.publish(QUERY)
        columns, content = fresh(300)
        assert post(proxy, content).json()["accepted"] == 300
        assert proxy.logged().shape[1] == 0
        assert proxy.stop() == 0
        assert np.array_equal(by_id(proxy.logged()), by_id(columns))
        assert list((proxy.data / "spool").iterdir()) == []
        events = [json.loads(line)["event"] for line in proxy.errors().splitlines()]
        assert (events[0], events[-1]) == ("started", "stopped")


def test_with_a_key_ring_only_queries_of_its_keys_are_relayed(tmp_path: Path) -> None:
    query = query_of_today()
    key = AnalystKey.generate(query.analyst)
    KeyRing().add(key.public).save(tmp_path / "ring.json")
    with ProxyProcess(tmp_path / "p", 'ring = "../ring.json"\n') as proxy:
        operator = proxy.token("operator")
        address = f"{proxy.address}/v1/queries/{query.id}"
        problem(
            loopback.put(address, content=signed(query).to_bytes(), headers=operator),
            422,
            "unknown_key",
        )
        forged = SignedQuery(query.content, key.public.id, bytes(64))
        problem(
            loopback.put(address, content=forged.to_bytes(), headers=operator), 422, "bad_signature"
        )
        assert (
            loopback.put(address, content=sign(query, key).to_bytes(), headers=operator).status_code
            == 201
        )


def test_shares_travel_by_tls_when_it_is_configured(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    with ProxyProcess(
        tmp_path / "p", '[tls]\ncertificate = "../proxy.pem"\nkey = "../proxy.key"\n'
    ) as proxy:
        assert proxy.address.startswith("https://")
        trust = ssl.create_default_context(cafile=str(certificate))
        query = query_of_today()
        with httpx.Client(verify=trust) as client:
            address = f"{proxy.address}/v1/queries/{query.id}"
            assert (
                client.put(
                    address, content=signed(query).to_bytes(), headers=proxy.token("operator")
                ).status_code
                == 201
            )
            # QUERY is older, and may count from another origin
            epoch = query.schedule.epoch_of(int(time.time()))
            content = body_of(query, epoch, make_columns(query, epoch, 1)[0])
            answer = client.post(
                f"{proxy.address}/v1/shares", content=content, headers=proxy.token()
            )
            assert answer.json() == {"accepted": 1, "already": 0}
        with pytest.raises(httpx.ConnectError):
            # whoever does not trust the certificate does not connect
            httpx.get(f"{proxy.address}/healthz")


def self_signed(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "proxy.key").write_bytes(secret)
    (folder / "proxy.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    return folder / "proxy.pem"


@pytest.mark.parametrize("number", ["9223372036854775808", str(2**70), "-1", "1.0", "x", ""])
def test_a_number_in_the_address_that_no_log_can_have_is_refused_and_names_the_parameter(
    proxy: ProxyProcess, number: str
) -> None:
    for name in ("after", "limit"):
        answer = loopback.get(
            f"{proxy.address}/v1/log", params={name: number}, headers=proxy.token("reader")
        )
        assert str(problem(answer, 422, "parameters")["detail"]).startswith(f"{name}: ")
    answer = loopback.get(
        f"{proxy.address}/v1/log", params={"after": str(2**63 - 1)}, headers=proxy.token("reader")
    )
    problem(answer, 416, "offset")


@pytest.mark.parametrize("path", ["/v1/queries/", "/v1/shares/", "/healthz/", "/v1/log/"])
def test_no_answer_sends_anybody_to_the_host_that_a_request_names(
    proxy: ProxyProcess, path: str
) -> None:
    answer = loopback.get(f"{proxy.address}{path}", headers={"Host": "evil.example"})
    problem(answer, 404, "address")
    assert "location" not in answer.headers
    assert "evil" not in answer.text
