"""Nobody exhausts a service: what one token, or none, can make it compute, hold and lock."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.web.tokens import RIGHTS, add_token
from deniable.console import console_app, public_queries
from deniable.console.design_plans import DesignRequest, simulate_design
from deniable.errors import RefusedError
from deniable.queries.query import Query
from deniable.service.fair_parts import FairTurns
from toolkit.attacks.sql_bombs import doubling
from toolkit.crowds import KEY
from toolkit.servers.consoles import SeededConsole, console_query, seeded_console

pytestmark = pytest.mark.slow

DRAFT = {"columns": [{"name": "x", "buckets": ["[0,5)", "[5,inf)"]}], "end": "2099-01-01"}
DESIGN = {
    "proportion": 0.02,
    "buckets": 2,
    "guesses": [0.5, 0.5],
    "population": 100_000,
    "epsilon": 3.0,
}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def trips(console: SeededConsole) -> Query:
    return console.publish(console_query(console.proxies))


def client(console: SeededConsole, token: str) -> httpx.Client:
    limits = httpx.Limits(max_connections=300)
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=console.url, headers=headers, timeout=60, limits=limits)


def token_of(console: SeededConsole, analyst: str) -> str:
    with console.service.writing() as connection:
        return add_token(connection, analyst, RIGHTS, 0)


@pytest.fixture
def bearer(console: SeededConsole) -> Iterator[httpx.Client]:
    with client(console, console.analyst) as found:
        yield found


# --- what analysts write is compiled elsewhere


def test_sql_that_doubles_in_the_compiler_costs_the_aggregator_no_processor_time(
    bearer: httpx.Client,
) -> None:
    start = time.process_time()  # of this process, which is the aggregator's
    told = bearer.post("/v1/queries/check", json={**DRAFT, "sql": doubling(19)}).json()
    assert time.process_time() - start < 1
    (problem,) = [check["text"] for check in told["checks"] if check["field"] == "sql"]
    assert "needs more than" in problem or "too long to compile" in problem


@pytest.mark.parametrize("address", ["/v1/queries/check", "/v1/simulate"])
def test_checks_and_simulations_need_the_right_to_publish(
    console: SeededConsole, address: str
) -> None:
    with client(console, console.reader) as reader:
        refused = reader.post(address, json={**DRAFT, **DESIGN, "sql": "SELECT 1"})
    assert (refused.status_code, refused.json()["reason"]) == (403, "right")


# --- simulations


@pytest.mark.parametrize("complete", [False, True])
def test_a_simulation_of_millions_over_a_thousand_buckets_stays_small(complete: bool) -> None:
    guesses = [1 / 1024] * 1024
    asked = DesignRequest(
        population=3_000_000,
        epsilon=2.0,
        proportion=0.02,
        buckets=1024,
        guesses=guesses,
        complete=complete,
    )
    tracemalloc.start()
    try:
        told = simulate_design(asked)
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
    finally:
        tracemalloc.stop()
    assert told["n_reports"] * told["trials"] * 1024 <= 1 << 30
    assert told["covered"] > 0.9 * told["intervals"]


def test_a_few_simulations_run_at_a_time_a_few_wait_and_the_rest_is_put_off(
    console: SeededConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    released, started = threading.Event(), []

    def held(given: DesignRequest) -> dict[str, Any]:
        started.append(given.population)
        assert released.wait(60)
        return {}

    monkeypatch.setattr(console_app, "simulate_design", held)
    with client(console, console.analyst) as greedy, ThreadPoolExecutor(8) as pool:
        try:
            many = [pool.submit(greedy.post, "/v1/simulate", json=DESIGN) for _ in range(8)]
            over = [next(as_completed(many, 60)).result()]
            over.append(
                next(
                    each for each in as_completed(many, 60) if each.result() is not over[0]
                ).result()
            )
            assert [each.status_code for each in over] == [429, 429]
            assert {each.json()["reason"] for each in over} == {"computing"}
            assert all(int(each.headers["Retry-After"]) > 0 for each in over)
            assert len(started) <= 2
        finally:
            released.set()
        assert sorted(each.result().status_code for each in many) == [200] * 6 + [429] * 2


def test_of_those_who_wait_the_analyst_with_the_fewest_turns_is_next() -> None:
    async def scenario() -> list[str]:
        served: list[str] = []
        turns = FairTurns(2, 3)
        go = asyncio.Event()

        async def work(name: str) -> None:
            async with turns.turn(name.partition(" ")[0]):
                served.append(name)
                await go.wait()

        names = ["ann 1", "ann 2", "ann 3", "ann 4", "ann 5", "ben 1", "eve 1"]
        tasks = [asyncio.create_task(work(name)) for name in names]
        await asyncio.sleep(0)
        assert served == ["ann 1", "ann 2"]
        with pytest.raises(RefusedError, match="3 requests of 'ann' are waiting already"):
            await turns.enter("ann")
        go.set()
        await asyncio.gather(*tasks)
        return served

    assert asyncio.run(scenario()) == [
        "ann 1",
        "ann 2",
        "ben 1",
        "ann 3",
        "eve 1",
        "ann 4",
        "ann 5",
    ]


# --- what anyone may read


def test_the_public_list_is_ready_made_and_waits_for_no_lock(
    console: SeededConsole, trips: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str | None] = []

    def noted(connection: Any, query_id: str | None = None) -> Any:
        read.append(query_id)
        return published(connection, query_id)

    with httpx.Client(base_url=console.url, timeout=10) as anyone:
        first = anyone.get("/v1/public/queries")
        assert [query["id"] for query in first.json()["queries"]] == [trips.id]
        monkeypatch.setattr(public_queries, "published", noted)
        # as long as this is held, whoever needs the service's connection waits
        with console.service.reading():
            again = anyone.get("/v1/public/queries")
            assert again.json()["queries"] == first.json()["queries"]
            known = {"If-None-Match": again.headers["ETag"]}
            unchanged = anyone.get("/v1/public/queries", headers=known)
        assert (unchanged.status_code, unchanged.content) == (304, b"")
        assert read == []
        console.service.queries.stop(trips.id)
        (stopped,) = anyone.get("/v1/public/queries", headers=known).json()["queries"]
        assert stopped["stopped"] is not None
        newer = console.publish(console_query(console.proxies, "newer"))
        read.clear()
        assert [query["id"] for query in anyone.get("/v1/public/queries").json()["queries"]] == [
            newer.id,
            trips.id,
        ]
        assert read == [newer.id], "the new one, and none of the others"


# --- streams


@pytest.mark.parametrize("path", ["/v1/queries/followed/results/stream"])
def test_requests_that_come_at_once_open_no_more_streams_than_one_token_may_have(
    console: SeededConsole, path: str
) -> None:
    console.publish(console_query(console.proxies, "followed"))
    place = urlsplit(console.url)
    request = (
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer"
        f" {token_of(console, KEY.owner)}\r\n\r\n".encode()
    )
    with ExitStack() as held:
        sockets = [
            held.enter_context(socket.create_connection((place.hostname, place.port), 60))
            for _ in range(60)
        ]
        for each in sockets:
            each.sendall(request)
        heads = [each.recv(20) for each in sockets]
    assert sorted(head.split()[1] for head in heads) == [b"200"] * 20 + [b"429"] * 40


def test_a_stream_that_ends_before_it_began_is_no_longer_counted(console: SeededConsole) -> None:
    console.publish(console_query(console.proxies, "left"))
    place, token = urlsplit(console.url), token_of(console, KEY.owner)
    request = (
        "GET /v1/queries/left/results/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer"
        f" {token}\r\n\r\n".encode()
    )
    for _ in range(40):  # twice as many as may be open
        with socket.create_connection((place.hostname, place.port), 60) as connection:
            connection.sendall(request)
            # reset, not closed
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    deadline = time.monotonic() + 60
    with client(console, token) as reader:
        while time.monotonic() < deadline:
            with reader.stream("GET", "/v1/queries/left/results/stream") as response:
                if response.status_code == 200:
                    return
            time.sleep(0.1)
    raise AssertionError("streams whose clients left are still counted")


def test_when_all_streams_are_taken_whoever_has_most_gives_way(
    console: SeededConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    console.publish(console_query(console.proxies, "watched"))
    path = "/v1/queries/watched/results/stream"
    # 20 under each: more than there may be in all
    tokens = [token_of(console, KEY.owner) for _ in range(11)]
    with console.service.writing() as connection:
        other = add_token(connection, "Somebody Else", [], 0)
        hashes = connection.execute(
            "SELECT hash FROM tokens WHERE analyst = 'Somebody Else' ORDER BY made DESC"
        ).fetchall()
        for (each,) in hashes:
            connection.execute(
                "INSERT OR REPLACE INTO grants VALUES (?, ?, 'read')", (each, KEY.owner)
            )
    with ExitStack() as held:
        greedy = [held.enter_context(client(console, token)) for token in tokens]
        opened = [
            held.enter_context(each.stream("GET", path)) for each in greedy for _ in range(20)
        ]
        assert [each.status_code for each in opened] == [200] * 200 + [503] * 20
        modest = held.enter_context(client(console, other))
        streams = [held.enter_context(modest.stream("GET", path)) for _ in range(3)]
        assert [each.status_code for each in streams] == [200] * 3, (
            "another analyst still has a part"
        )
        ended = 0
        for each in opened[197:200]:  # the newest of whoever has most
            ended += b"".join(each.iter_raw()) != b""
        assert ended == 3


def test_waiting_requests_are_given_up_after_a_while_and_leave_the_queue_as_it_was() -> None:
    async def scenario() -> list[str]:
        seen: list[str] = []
        turns = FairTurns(1, 2, patience=0.05)
        await turns.enter("ann")
        with pytest.raises(RefusedError) as late:
            await turns.enter("ben")
        assert (late.value.status, late.value.retry_after) == (429, 2)
        cancelled = asyncio.create_task(turns.enter("ben"))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        turns.leave("ann")
        async with turns.turn("eve"):
            seen.append("eve")
        return seen

    assert asyncio.run(scenario()) == ["eve"]
