"""The edges of the services: who may read their files, numbers in addresses, followers who do not
read, and whole pages."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.state import connect
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.tokens import add_token
from deniable.aggregator.windows.released import LARGEST_PAGE
from deniable.logs.sqlite_log import BlockLog
from deniable.queries.signed.signing import sign
from deniable.service.http.event_stream import parse_events
from deniable.service.http.limits import ConnectionLimits
from toolkit.crowds import KEY, RING, minute_query
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.servers.served import served
from toolkit.servers.services import running

QUERY = minute_query()


@pytest.fixture
def service(tmp_path: Path) -> Service:
    RING.save(tmp_path / "ring.json")
    proxies = [
        ProxySource(name, "http://127.0.0.1:9", tmp_path / f"log{i}.db")
        for i, name in enumerate(QUERY.proxies)
    ]
    return Service(
        AggregatorSettings(tmp_path / "state.db", tmp_path / "ring.json", proxies),
        clock=lambda: QUERY.schedule.origin,
    )


@pytest.fixture
def client(service: Service) -> Iterator[httpx.Client]:
    with service.writing() as connection:
        tokens = [add_token(connection, KEY.owner, ["read"], 0) for _ in range(2)]
    with served(create_app(service)) as client:
        service.queries.publish(QUERY.id, sign(QUERY, KEY).to_bytes())
        client.headers["Authorization"] = f"Bearer {tokens[0]}"
        client.headers["X-Other"] = tokens[1]
        yield client


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0o000)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_the_state_is_its_owners_alone_from_the_first_byte_and_one_that_was_not_is_made_so(
    tmp_path: Path,
) -> None:
    path = tmp_path / "state.db"
    for _ in range(2):
        connection = connect(path)
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('x', 1)")
        assert set(modes(tmp_path)) >= {"state.db", "state.db-wal"}
        assert set(modes(tmp_path).values()) == {0o600}
        for name in modes(tmp_path):
            (tmp_path / name).chmod(0o644)  # as the version before left it
        connection.close()
    log = BlockLog(tmp_path / "log.db")
    log.close()
    (tmp_path / "log.db").chmod(0o644)
    BlockLog(tmp_path / "log.db").close()
    assert modes(tmp_path)["log.db"] == 0o600


@pytest.mark.usefixtures("open_umask")
def test_no_file_that_a_running_aggregator_or_proxy_makes_can_be_read_by_others(
    tmp_path: Path,
) -> None:
    proxy = ProxyProcess(tmp_path / "proxy")
    given = set(modes(tmp_path))
    with proxy:
        proxy.publish(query_of_today())
        found = {
            name: mode
            for name, mode in modes(tmp_path).items()
            if name not in given and not name.endswith("stderr.jsonl")
        }
        assert set(found.values()) == {0o600}, found
    folder = tmp_path / "aggregator"
    folder.mkdir()
    RING.save(folder / "ring.json")
    proxies = "".join(
        f'[[proxies]]\nname = "{name}"\nlog = "log{i}.db"\n' for i, name in enumerate(QUERY.proxies)
    )
    (folder / "aggregator.toml").write_text(
        f'state = "state.db"\nring = "ring.json"\nport = 0\n{proxies}'
    )
    given = set(modes(folder))
    with running(["aggregator", "run", "aggregator.toml"], folder):
        found = {name: mode for name, mode in modes(folder).items() if name not in given}
        assert set(found) >= {"state.db", "state.db-wal", "state.db.lock"}
        assert set(found.values()) == {0o600}, found


@pytest.mark.parametrize("name", ["after", "limit", "start", "end"])
def test_a_number_in_the_address_that_no_result_can_have_is_refused_and_names_the_parameter(
    client: httpx.Client, name: str
) -> None:
    for number in (str(2**63), str(2**70), "-1", "1.0", "0x1", "", "²"):
        answer = client.get(f"/v1/queries/{QUERY.id}/results", params={name: number})
        assert (answer.status_code, answer.json()["reason"]) == (422, "parameters"), number
        detail = answer.json()["detail"]
        assert detail.startswith(
            (
                f"{name}: must be a whole number from 0 to",
                f"{name}: must be a time such as 2026-01-01",
            )
        )
    assert (
        client.get(f"/v1/queries/{QUERY.id}/results", params={name: str(2**63 - 1)}).status_code
        == 200
    )


def test_no_answer_sends_anybody_to_the_host_that_a_request_names(client: httpx.Client) -> None:
    for path in ("/v1/queries/", f"/v1/queries/{QUERY.id}/", "/healthz/", "/metrics/"):
        answer = client.get(path, headers={"Host": "evil.example"})
        assert answer.status_code == 404
        assert "location" not in answer.headers


def test_a_page_of_results_ends_after_some_megabytes_and_the_next_goes_on(
    service: Service, client: httpx.Client
) -> None:
    document = json.dumps({"filling": "x" * (LARGEST_PAGE // 3)})
    with service.writing() as connection:
        connection.executemany(
            "INSERT INTO results (query, number, start, condition, document) VALUES (?, ?, 0,"
            " 'complete', ?)",
            [(QUERY.id, number, document) for number in range(8)],
        )
    after: int | None = 0
    sizes = []
    while after is not None:
        page = client.get(f"/v1/queries/{QUERY.id}/results", params={"after": after}).json()
        sizes.append(len(page["windows"]))
        after = page["next"]
    assert sizes == [3, 3, 2]


def test_of_a_revised_window_the_newest_revision_is_listed_and_followers_get_each(
    service: Service, client: httpx.Client
) -> None:
    released = [(0, 0, False), (1, 0, False), (0, 1, False), (2, 0, True), (0, 2, True)]
    address = f"/v1/queries/{QUERY.id}/results"
    seen = []
    with client.stream("GET", f"{address}/stream") as response:
        lines = response.iter_lines()
        assert next(lines) == "retry: 1000"
        events = parse_events(lines)
        for index, revision, final in released:
            document = {"index": index, "revision": revision, "final": final}
            with service.writing() as connection:
                connection.execute(
                    "INSERT INTO results (query, number, start, condition, document, revision,"
                    " final) VALUES (?, ?, ?, '', ?, ?, ?)",
                    (QUERY.id, index, index, json.dumps(document), revision, final),
                )
            event = next(events).document
            seen.append((event["index"], event["revision"], event["final"]))
    assert seen == released
    assert client.get(address, params={"after": 5}).json() == {
        "windows": [],
        "next": None,
        "last": 5,
    }
    listed = client.get(address).json()["windows"]
    assert [(each["index"], each["revision"]) for each in listed] == [(1, 0), (2, 0), (0, 2)]
    assert client.get(f"{address}/latest").json()["index"] == 2


def test_one_token_follows_a_few_times_and_keeps_nobody_else_from_following(
    client: httpx.Client,
) -> None:
    """Two hundred streams that one holder opened and did not read were all that there could be."""
    address = f"/v1/queries/{QUERY.id}/results/stream"
    with ExitStack() as held:
        opened = [held.enter_context(client.stream("GET", address)) for _ in range(20)]
        assert [response.status_code for response in opened] == [200] * 20
        streams = [response.iter_raw() for response in opened]
        assert all(next(stream) for stream in streams), "they have begun"
        with client.stream("GET", address) as refused:
            assert refused.status_code == 429
            assert json.loads(refused.read())["reason"] == "followers"
        other = {"Authorization": f"Bearer {client.headers['X-Other']}"}
        assert held.enter_context(client.stream("GET", address, headers=other)).status_code == 200
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with client.stream("GET", address) as response:
            if response.status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("followers that left are still counted")


def test_a_client_that_does_not_read_what_it_asked_for_is_let_go() -> None:
    app = FastAPI()
    ended = threading.Event()

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def content() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield bytes(1 << 16)
                    await asyncio.sleep(0)
            finally:
                ended.set()

        return StreamingResponse(content())

    limits = ConnectionLimits(body_deadline=1)
    with served(app, limits) as client:
        place = urlsplit(str(client.base_url))
        with socket.create_connection((place.hostname, place.port)) as silent:
            silent.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            assert ended.wait(20)
        # one who reads, however slowly, is served
        with client.stream("GET", "/endless") as response:
            began, n_bytes = time.monotonic(), 0
            for chunk in response.iter_raw():
                n_bytes += len(chunk)
                time.sleep(0.01)
                if time.monotonic() > began + 2.5:
                    break
            assert n_bytes > 1 << 20
