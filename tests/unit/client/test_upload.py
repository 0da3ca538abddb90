from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from deniable.client.http_transport import HttpTransport
from deniable.client.upload import (
    FIRST_WAIT,
    LONGEST_WAIT,
    MOST_RECORDS,
    Polled,
    backoff,
    fetch_queries,
)
from deniable.errors import UploadError
from deniable.randomness import seeded_source
from deniable.wire.shares import read_batch
from toolkit.answers import streamed
from toolkit.devices import Network, asked, at, make_device, make_policy, queued, records, signed
from toolkit.servers.certificates import self_signed

ONE, TWO = asked().proxies


def test_each_proxy_gets_its_own_shares_and_no_other(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    for epoch in range(5):
        device.answer(signed(query), at(epoch))
    expected = records(device)
    network = Network()
    done = device.upload(network, at(10))
    assert (done.sent, done.waiting, done.problems) == (10, 0, ())
    for proxy in query.proxies:
        assert b"".join(body for to, _, body in network.bodies if to == proxy) == b"".join(
            expected[proxy]
        )
    assert len(network.messages()) == 5
    assert {token for _, token, _ in network.bodies} == {"token"}


def test_shares_are_sent_from_their_time_on_and_not_before(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query, source=seeded_source(5))
    device.answer(signed(query), at(0))
    [(_, due, _), _] = queued(device)
    assert due > at(0)
    network = Network()
    assert device.upload(network, due - 1).sent == 0
    assert device.upload(network, due).sent == 2


def test_a_share_stays_until_its_proxy_says_that_it_has_it(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    device.answer(signed(query), at(0))
    network = Network(deaf={ONE}, down={TWO})
    assert device.upload(network, at(1)).sent == 0
    assert len(queued(device)) == 2
    network.deaf.clear()
    network.down.clear()
    done = device.upload(network, at(2))  # the network itself checks that the bytes are the same
    assert (done.sent, done.waiting) == (2, 0)
    assert len(network.messages()) == 1


def test_a_proxy_that_failed_is_left_alone_longer_each_time_and_the_other_is_not(
    tmp_path: Path,
) -> None:
    query = asked()
    device = make_device(
        tmp_path, query, policy=make_policy(query, queue_age=10**9), source=seeded_source(2)
    )
    device.answer(signed(query), at(0))
    network = Network(down={ONE})
    now, waits = at(10), []
    for _ in range(12):
        assert device.upload(network, now).problems == (
            f"{ONE}: cannot be reached, to be tried again",
        )
        with device.store.transaction() as transaction:
            [(retry_at,)] = transaction._db.execute("SELECT retry_at FROM proxies").fetchall()
        assert device.upload(network, retry_at - 1).problems == (), "it was asked again too early"
        waits.append(retry_at - now)
        now = retry_at
    assert all(1 <= wait <= min(LONGEST_WAIT, FIRST_WAIT << i) for i, wait in enumerate(waits))
    assert max(waits) > 20 * FIRST_WAIT
    assert len(network.kept[TWO]) == 1
    network.down.clear()
    assert device.upload(network, now).sent == 1
    with device.store.transaction() as transaction:
        assert transaction.outbox.failures(ONE) == 0
        assert transaction.journal.counters()["uploads failed"] == 12


def test_waits_are_spread_evenly_so_that_devices_do_not_come_back_together() -> None:
    source = seeded_source(3)
    waits = [backoff(2, source) for _ in range(3000)]
    assert (min(waits), max(waits)) == (1, 4 * FIRST_WAIT)
    assert abs(sum(waits) / len(waits) - 60.5) < 6.2 * 34.6 / len(waits) ** 0.5
    assert max(backoff(1000, source) for _ in range(100)) <= LONGEST_WAIT


def test_a_share_that_its_proxy_will_never_take_does_not_hold_up_the_others(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    for epoch in range(5):
        device.answer(signed(query), at(epoch))
    poison = records(device)[ONE][2][16:32]
    network = Network(refusing={poison})
    done = device.upload(network, at(10))
    assert (done.sent, done.refused, done.waiting) == (8, 2, 0)
    assert done.problems == tuple(f"{proxy}: answered 410, given up" for proxy in (ONE, TWO))
    with device.store.transaction() as transaction:
        assert transaction.journal.counters()["shares dropped: refused by the proxy"] == 2
    assert len(network.messages()) == 4


def test_a_share_that_its_proxy_does_not_take_yet_waits_alone(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    for epoch in range(5):
        device.answer(signed(query), at(epoch))
    early = records(device)[ONE][2][16:32]
    network = Network(postponing={early})
    done = device.upload(network, at(10))
    assert (done.sent, done.refused, done.waiting) == (8, 0, 2)
    assert all(at(10) < due <= at(10) + 32 * FIRST_WAIT for _, due, _ in queued(device))
    network.postponing.clear()
    assert device.upload(network, at(12)).sent == 2
    assert len(network.messages()) == 5


@pytest.mark.slow
def test_one_upload_has_one_size_class_and_is_not_too_long(tmp_path: Path) -> None:
    short, long = asked(), asked(id="longer", size_class=2)
    device = make_device(tmp_path, short, policy=make_policy(short, queue_messages=10_000))
    for epoch in range(MOST_RECORDS + 20):
        device.answer(signed(short), at(epoch))
        if epoch % 50 == 0:
            device.answer(signed(long), at(epoch))
    network = Network()
    assert device.upload(network, at(MOST_RECORDS + 30)).waiting == 0
    sizes = []
    for _, _, body in network.bodies:
        [(_, _, size_class), *_] = read_batch(body)
        sizes.append(size_class)
        assert len(body) <= MOST_RECORDS * (80 << size_class)
    assert set(sizes) == {0, 2}
    assert len(network.messages()) == MOST_RECORDS + 20 + 6


def test_a_share_too_old_to_be_counted_is_given_up_and_counted(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query, policy=make_policy(query, queue_age=1000))
    device.answer(signed(query), at(0))
    network = Network()
    last = at(1) + 1000
    network.down = {ONE, TWO}
    assert device.upload(network, last - 1).expired == 0
    done = device.upload(network, last)
    assert (done.expired, done.waiting, done.sent) == (2, 0, 0)
    with device.store.transaction() as transaction:
        assert transaction.journal.counters()["shares dropped: too old"] == 2


def test_a_clock_that_is_set_back_does_not_keep_shares_waiting(tmp_path: Path) -> None:
    """The clock is set back by an hour between two looks at it, a second apart: what waits does so
    for a second more, no hour."""
    query = asked()
    device = make_device(
        tmp_path, query, policy=make_policy(query, upload_within=60), source=seeded_source(1)
    )
    network = Network(down={TWO})
    device.answer(signed(query), at(10))
    [(_, due, _), _] = queued(device)
    hour = 3600
    assert [device.upload(network, now).sent for now in (due - 2, due - 1 - hour, due - hour)] == [
        0,
        0,
        0,
    ]
    assert device.upload(network, due + 1 - hour).sent == 1
    # The other proxy failed, and is left alone until a time of this clock, which is then set back
    # again.
    with device.store.transaction() as transaction:
        [(retry_at,)] = transaction._db.execute("SELECT retry_at FROM proxies").fetchall()
    network.down.clear()
    wait = retry_at - (due + 1 - hour)
    assert device.upload(network, due + 1 - 2 * hour).sent == 0
    assert device.upload(network, due + 1 - 2 * hour + wait).sent == 1


def test_a_proxy_that_is_no_longer_allowed_gets_nothing(tmp_path: Path) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    device.answer(signed(query), at(0))
    device.policy = make_policy(query, proxies={TWO: "token"})
    network = Network()
    done = device.upload(network, at(1))
    assert done.problems == (
        f"{ONE}: {ONE} is no longer among the proxies you allow, to be tried again",
    )
    assert {proxy for proxy, _, _ in network.bodies} == {TWO}
    assert len(queued(device)) == 1


def test_queries_are_asked_of_all_proxies_for_one_alone_could_hold_a_version_back() -> None:
    query = asked()
    old, new = signed(query).to_bytes(), signed(query.revised(sampling=0.5)).to_bytes()
    network = Network(relayed={ONE: [old], TWO: [new, old]})
    nothing: dict[str, frozenset[str]] = {ONE: frozenset(), TWO: frozenset()}
    assert fetch_queries(make_policy(query), network) == Polled([old, new], revoked=nothing)
    network.down = {ONE}
    assert fetch_queries(make_policy(query), network) == Polled(
        [new, old], (f"{ONE}: cannot be reached",), revoked={TWO: frozenset()}
    )


# --- HTTP


class Answers:
    """What a proxy over HTTP is asked, and says."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.next: Any = httpx.Response(202)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if isinstance(self.next, Exception):
            raise self.next
        assert isinstance(self.next, httpx.Response)
        return self.next


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def http(answers: Answers) -> Iterator[HttpTransport]:
    with HttpTransport(client=httpx.Client(transport=streamed(answers))) as transport:
        yield transport


def test_shares_are_posted_with_the_devices_token(http: HttpTransport, answers: Answers) -> None:
    http.send("https://one.example/", "my token", b"records")
    [request] = answers.requests
    assert (request.method, str(request.url), request.content) == (
        "POST",
        "https://one.example/v1/shares",
        b"records",
    )
    assert request.headers["Authorization"] == "Bearer my token"


@pytest.mark.parametrize(
    ("status", "final", "early"),
    [
        *((status, True, False) for status in (400, 409, 410, 413, 415)),
        *((status, False, True) for status in (404, 422)),
        *((status, False, False) for status in (401, 403, 408, 429, 500, 503)),
    ],
)
def test_an_answer_is_about_a_share_for_good_or_for_now_or_about_the_proxy(
    http: HttpTransport, answers: Answers, status: int, final: bool, early: bool
) -> None:
    answers.next = httpx.Response(status, headers={"Retry-After": "77"})
    with pytest.raises(UploadError) as error:
        http.send("https://one.example", "my token", b"records")
    assert (error.value.final, error.value.early, error.value.retry_after) == (final, early, 77)
    assert "token" not in str(error.value)


def test_a_redirect_is_not_followed_for_it_would_carry_the_share_elsewhere(
    http: HttpTransport, answers: Answers
) -> None:
    answers.next = httpx.Response(307, headers={"Location": "https://elsewhere.example/v1/shares"})
    with pytest.raises(UploadError, match="307"):
        http.send("https://one.example", "t", b"records")
    assert len(answers.requests) == 1


@pytest.mark.parametrize(
    "problem", [httpx.ConnectError("x"), httpx.ReadTimeout("x"), httpx.UnsupportedProtocol("x")]
)
def test_a_proxy_that_cannot_be_reached_may_be_asked_again(
    http: HttpTransport, answers: Answers, problem: Exception
) -> None:
    answers.next = problem
    with pytest.raises(UploadError, match="cannot be reached") as error:
        http.send("https://one.example", "t", b"records")
    assert not error.value.final


def test_the_wait_that_a_proxy_asks_for_is_kept(
    tmp_path: Path, http: HttpTransport, answers: Answers
) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    device.answer(signed(query), at(0))
    answers.next = httpx.Response(429, headers={"Retry-After": "5000"})
    device.upload(http, at(1))
    assert len(answers.requests) == 2
    answers.next = httpx.Response(202)
    assert device.upload(http, at(1) + 4999).sent == 0
    assert device.upload(http, at(1) + 5000).sent == 2


def test_a_poll_carries_no_token_and_shares_no_connection_with_what_does(
    http: HttpTransport, answers: Answers
) -> None:
    answers.next = httpx.Response(200, json=[])
    http.queries("https://one.example")
    [request] = answers.requests
    assert (request.method, request.url.path) == ("GET", "/v1/queries")
    assert "Authorization" not in request.headers
    with HttpTransport() as transport:
        assert transport._polling is not transport._client


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_queries_that_a_proxy_relays_are_read_as_they_were_signed(
    http: HttpTransport, answers: Answers, wrapped: bool
) -> None:
    content = signed(asked()).to_bytes()
    listed: Any = [json.loads(content), content.decode()]
    answers.next = httpx.Response(200, json={"queries": listed} if wrapped else listed)
    one, two = http.queries("https://one.example")
    assert json.loads(one) == json.loads(two) == json.loads(content)


def test_a_list_of_queries_that_has_not_changed_is_not_sent_again(
    http: HttpTransport, answers: Answers
) -> None:
    old, new = (
        signed(asked(question=text)).to_bytes() for text in ("How far?", "How far, really?")
    )
    answers.next = httpx.Response(200, json=[old.decode()], headers={"ETag": '"one"'})
    assert http.queries("https://one.example") == [old]
    assert "If-None-Match" not in answers.requests[-1].headers
    answers.next = httpx.Response(304)
    assert http.queries("https://one.example") == [old]
    assert answers.requests[-1].headers["If-None-Match"] == '"one"'
    with pytest.raises(UploadError, match="304"):  # another proxy has been asked for nothing yet
        http.queries("https://two.example")
    answers.next = httpx.Response(200, json=[new.decode()], headers={"ETag": '"two"'})
    assert http.queries("https://one.example") == [new]
    answers.next = httpx.Response(200, json=[])  # without a tag the next list is asked for whole
    assert http.queries("https://one.example") == []
    answers.next = httpx.Response(200, json=[old.decode()])
    http.queries("https://one.example")
    assert "If-None-Match" not in answers.requests[-1].headers


@pytest.mark.parametrize("content", [b"nonsense", b"[" * 100_000, b'"text"', b'{"queries": 3}'])
def test_a_list_of_queries_that_is_none_is_a_failure_of_that_proxy(
    http: HttpTransport, answers: Answers, content: bytes
) -> None:
    answers.next = httpx.Response(200, content=content)
    with pytest.raises(UploadError, match="list of queries"):
        http.queries("https://one.example")


def test_importing_the_client_does_not_load_httpx() -> None:
    code = (
        "import sys, deniable.client; print([m for m in ('httpx', 'fastapi', 'click') if m in"
        " sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert out.stdout.strip() == "[]"


def _closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_request_is_unsent_if_no_connection_was_made_and_only_then() -> None:
    """A server that takes the connection and hangs up may have read the request."""
    with socket.create_server(("127.0.0.1", 0)) as server, HttpTransport() as transport:

        def hang_up() -> None:
            server.accept()[0].close()

        hangs_up = threading.Thread(target=hang_up, daemon=True)
        hangs_up.start()
        for port, unsent in ((server.getsockname()[1], False), (_closed_port(), True)):
            with pytest.raises(UploadError) as refused:
                transport.send(f"http://127.0.0.1:{port}", "token", b"record")
            assert refused.value.unsent is unsent
        hangs_up.join()


def test_a_request_is_unsent_if_the_certificate_is_not_trusted(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path, "proxy")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with socket.create_server(("127.0.0.1", 0)) as server, HttpTransport() as transport:

        def shake_hands() -> None:
            with suppress(OSError):  # the device hangs up
                context.wrap_socket(server.accept()[0], server_side=True)

        handshake = threading.Thread(target=shake_hands, daemon=True)
        handshake.start()
        with pytest.raises(UploadError, match="certificate is not trusted") as refused:
            transport.send(f"https://127.0.0.1:{server.getsockname()[1]}", "token", b"record")
        handshake.join()
    assert refused.value.unsent
