"""Several workers in front of one intake, and a collector in front of both: one proxy to everyone
who asks it."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from deniable.queries.signed.signing import SignedQuery
from deniable.service.tokens import TokenStore
from toolkit.servers import loopback
from toolkit.servers.collectors import CollectorProcess
from toolkit.servers.proxies import ProxyProcess, query_of_today, signed
from toolkit.shares import body_of, make_columns, records_of

QUERY = query_of_today()
SETTINGS = (
    'workers = 2\n[intake]\nthreshold = 100\ndeadline = "1 s"\n[limits]\nlargest_body ='
    ' 400000\nbody_deadline = "2 s"\n'
)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    with ProxyProcess(tmp_path_factory.mktemp("proxy"), SETTINGS) as running:
        running.publish(QUERY)
        yield running
        assert loopback.get(f"{running.address}/healthz").json()["status"] == "ok"
        assert running.stop() == 0


@pytest.fixture(scope="module")
def collector(
    proxy: ProxyProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CollectorProcess]:
    with CollectorProcess(tmp_path_factory.mktemp("collector"), proxy) as running:
        yield running
        assert running.stop() == 0


def epoch_now() -> int:
    return QUERY.schedule.epoch_of(int(time.time()))


def post(address: str, content: bytes, headers: dict[str, str]) -> httpx.Response:
    """Over a connection of its own, so that any of the workers may get it."""
    return loopback.post(f"{address}/v1/shares", content=content, headers=headers)


def known_to(address: str, headers: dict[str, str]) -> None:
    """Wait until a collector has heard of a token: an upload under it is refused for what it is, no
    records."""
    end = time.monotonic() + 10
    while post(address, b"x", headers).status_code == 401:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_replay_through_another_worker_is_found_and_quotas_are_those_of_the_proxy(
    proxy: ProxyProcess,
) -> None:
    records = records_of(QUERY, epoch_now(), make_columns(QUERY, epoch_now(), 4)[0])
    headers = proxy.token(quota=3)
    assert post(proxy.address, records[0] + records[1], headers).json() == {
        "accepted": 2,
        "already": 0,
    }
    for _ in range(12):  # with two workers, all of them by one with a probability of 2 ** -11
        assert post(proxy.address, records[0], headers).json() == {"accepted": 0, "already": 1}
    changed = records[0][:-1] + bytes([records[0][-1] ^ 1])
    assert post(proxy.address, changed, headers).json()["reason"] == "changed"
    assert post(proxy.address, records[2], headers).json() == {"accepted": 1, "already": 0}
    refused = post(proxy.address, records[3], headers)
    assert (refused.status_code, refused.json()["reason"]) == (429, "quota")
    assert 1 <= int(refused.headers["retry-after"]) <= 600


def test_every_worker_knows_a_query_and_a_token_as_soon_as_they_are_there(
    proxy: ProxyProcess,
) -> None:
    other = query_of_today(id="other")
    proxy.publish(other)
    for _ in range(8):
        assert {
            each.get("id")
            for each in map(_header, loopback.get(f"{proxy.address}/v1/queries").json())
        } == {
            "other",
            QUERY.id,
        }
    headers = proxy.token()
    body = body_of(other, epoch_now(), make_columns(other, epoch_now(), 1)[0])
    assert post(proxy.address, body, headers).status_code == 202
    book = TokenStore(proxy.data / "tokens.db")
    found = book.find(headers["Authorization"].removeprefix("Bearer "))
    assert found is not None
    book.revoke(found.id)
    book.close()
    for _ in range(4):
        assert post(proxy.address, body, headers).status_code == 401
    answer = loopback.delete(f"{proxy.address}/v1/queries/other", headers=proxy.token("operator"))
    assert answer.status_code == 204
    for _ in range(8):
        assert len(loopback.get(f"{proxy.address}/v1/queries").json()) == 1


def _header(listed: dict[str, object]) -> dict[str, object]:
    return {"id": SignedQuery.from_bytes(json.dumps(listed).encode()).header().id}


def test_what_workers_refuse_is_counted_by_the_proxy(proxy: ProxyProcess) -> None:
    before = proxy.refused("token")
    for _ in range(3):
        assert post(proxy.address, b"x", {"Authorization": "Bearer guess"}).status_code == 401
    end = time.monotonic() + 10
    while proxy.refused("token") < before + 3:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_all_other_addresses_are_answered_as_by_a_proxy_of_one_process(proxy: ProxyProcess) -> None:
    assert "/v1/batches" in loopback.get(f"{proxy.address}/openapi.json").json()["paths"]
    page = loopback.get(
        f"{proxy.address}/v1/log", params={"after": 0, "limit": 1}, headers=proxy.token("reader")
    )
    assert page.status_code == 200
    assert page.headers["log-identity"]
    assert (
        loopback.get(
            f"{proxy.address}/v1/log", params={"after": "x"}, headers=proxy.token("reader")
        ).status_code
        == 422
    )
    assert loopback.put(f"{proxy.address}/v1/shares", content=b"x").json()["reason"] == "method"
    assert loopback.get(f"{proxy.address}/v1/nothing").json()["reason"] == "address"
    content = signed(QUERY).to_bytes()
    assert (
        loopback.put(
            f"{proxy.address}/v1/queries/{QUERY.id}", content=content, headers=proxy.token()
        ).json()["reason"]
        == "role"
    )
    assert (
        loopback.post(f"{proxy.address}/v1/batches", content=b"", headers=proxy.token()).json()[
            "reason"
        ]
        == "role"
    )


def test_a_worker_and_the_intake_that_are_killed_are_started_again(proxy: ProxyProcess) -> None:
    headers = proxy.token(quota=100)
    columns = make_columns(QUERY, epoch_now(), 20)[0]
    records = records_of(QUERY, epoch_now(), columns)
    for i, pid in enumerate(proxy.children()):
        assert post(proxy.address, records[i], headers).json() == {"accepted": 1, "already": 0}
        proxy.kill_child(pid)
        end = time.monotonic() + 20
        while (
            answer := _try(proxy.address, records[i], headers)
        ) is None or answer.status_code == 503:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert answer.json() == {"accepted": 0, "already": 1}
    assert len(proxy.children()) == 3


def _try(address: str, content: bytes, headers: dict[str, str]) -> httpx.Response | None:
    try:
        return post(address, content, headers)
    except httpx.TransportError:
        return None


# --- the collector


def test_what_a_collector_acknowledges_is_in_the_proxy_unchanged_and_comes_in_few_batches(
    proxy: ProxyProcess, collector: CollectorProcess
) -> None:
    epoch = epoch_now()
    columns = make_columns(QUERY, epoch, 300)[0]
    headers = proxy.token(quota=1000)
    known_to(collector.address, headers)
    before = collector.metrics()["batches_total"]

    async def send_all() -> list[httpx.Response]:
        limits = httpx.Limits(max_connections=30)
        async with httpx.AsyncClient(limits=limits, timeout=30) as client:
            address = f"{collector.address}/v1/shares"
            records = records_of(QUERY, epoch, columns)
            return await asyncio.gather(
                *(client.post(address, content=record, headers=headers) for record in records)
            )

    answers = asyncio.run(send_all())
    assert {answer.status_code for answer in answers} == {202}
    assert all(answer.json() == {"accepted": 1, "already": 0} for answer in answers)
    metrics = collector.metrics()
    assert metrics["batches_total"] - before < 200
    assert metrics["shares_accepted_total"] >= 300
    end = time.monotonic() + 10
    while not set(map(tuple, columns.T.tolist())) <= set(map(tuple, proxy.logged().T.tolist())):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_device_has_one_quota_however_many_ways_it_takes(
    proxy: ProxyProcess, collector: CollectorProcess
) -> None:
    records = records_of(QUERY, epoch_now(), make_columns(QUERY, epoch_now(), 3)[0])
    headers = proxy.token(quota=2)
    known_to(collector.address, headers)
    assert post(collector.address, records[0], headers).json() == {"accepted": 1, "already": 0}
    assert post(proxy.address, records[1], headers).json() == {"accepted": 1, "already": 0}
    for address in (collector.address, proxy.address):
        assert post(address, records[0] + records[1], headers).json() == {
            "accepted": 0,
            "already": 2,
        }
        refused = post(address, records[2], headers)
        assert (refused.status_code, refused.json()["reason"]) == (429, "quota")
        assert int(refused.headers["retry-after"]) >= 1


def test_a_collector_refuses_what_its_proxy_would_and_leaves_the_others_of_a_batch_alone(
    proxy: ProxyProcess, collector: CollectorProcess
) -> None:
    headers = proxy.token(quota=10)
    known_to(collector.address, headers)
    late = body_of(QUERY, epoch_now() - 5, make_columns(QUERY, epoch_now() - 5, 1)[0])
    for body, how, status, reason in (
        (b"x" * 80, headers, 400, "version"),
        (late, headers, 410, "late"),
        (b"x", {**headers, "Content-Type": "text/plain"}, 415, "media_type"),
        (b"x", {**headers, "Authorization": "Bearer no"}, 401, "token"),
        (b"x", proxy.token("reader"), 401, "token"),  # a collector knows devices alone
    ):
        answer = post(collector.address, body, how)
        assert (answer.status_code, answer.json()["reason"]) == (status, reason)
        assert answer.headers["content-type"] == "application/problem+json"
    assert loopback.get(f"{collector.address}/v1/log").json()["reason"] == "address"


def test_a_collector_relays_the_list_of_queries_and_follows_it(
    proxy: ProxyProcess, collector: CollectorProcess
) -> None:
    mine, theirs = (
        loopback.get(f"{address}/v1/queries") for address in (collector.address, proxy.address)
    )
    assert (mine.content, mine.headers["etag"]) == (theirs.content, theirs.headers["etag"])
    again = loopback.get(
        f"{collector.address}/v1/queries", headers={"If-None-Match": mine.headers["etag"]}
    )
    assert again.status_code == 304


def test_a_revoked_token_is_refused_by_the_proxy_before_the_collector_has_heard_of_it(
    proxy: ProxyProcess, collector: CollectorProcess
) -> None:
    headers = proxy.token(quota=10)
    known_to(collector.address, headers)
    book = TokenStore(proxy.data / "tokens.db")
    found = book.find(headers["Authorization"].removeprefix("Bearer "))
    assert found is not None
    book.revoke(found.id)
    book.close()
    answer = post(
        collector.address,
        records_of(QUERY, epoch_now(), make_columns(QUERY, epoch_now(), 1)[0])[0],
        headers,
    )
    assert (answer.status_code, answer.json()["reason"]) == (401, "token")


def test_while_the_proxy_is_away_a_collector_acknowledges_nothing(tmp_path: Path) -> None:
    with ProxyProcess(tmp_path / "proxy", "[intake]\nthreshold = 10\n") as proxy:
        proxy.publish(QUERY)
        headers = proxy.token(quota=10)
        with CollectorProcess(tmp_path / "collector", proxy) as collector:
            known_to(collector.address, headers)
            columns = make_columns(QUERY, epoch_now(), 2)[0]
            records = records_of(QUERY, epoch_now(), columns)
            assert post(collector.address, records[0], headers).status_code == 202
            proxy.stop(signal.SIGKILL)
            answer = post(collector.address, records[1], headers)
            assert (answer.status_code, answer.json()["reason"]) == (503, "upstream")
            assert int(answer.headers["retry-after"]) >= 1
            assert loopback.get(f"{collector.address}/readyz").status_code == 503
            assert collector.stop() == 0
        proxy.start()
        assert proxy.stop() == 0
        assert np.array_equal(proxy.logged(), columns[:, :1])
