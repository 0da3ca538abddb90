"""Analyst against analyst: whatever B does with every address and every right of their own, nothing
of A's changes or shows.

The addresses come from the applications themselves: a new one without a row here fails. So does a
kind of object without an attempt on it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.tokens import RIGHTS, add_token
from deniable.console.console_app import add_console
from deniable.proxy.intake.uploads import IntakeRules
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings as ProxyServiceSettings
from deniable.proxy.web.api import create_app as create_proxy_app
from deniable.queries.budget import Budget
from deniable.queries.query import Query
from deniable.queries.signed.envelope import Version
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.permissions import permit
from deniable.queries.signed.signing import SignedQuery, sign, sign_version
from deniable.randomness import seeded_source
from deniable.service.http.event_stream import parse_events
from deniable.service.http.hot_path import HotFront
from deniable.wire.message import ANSWER
from deniable.wire.shares import split_columns
from toolkit.adaptive import CONTROLLER, adaptive_query
from toolkit.crowds import KEY
from toolkit.servers.served import addresses, served
from toolkit.shares import body_of

pytestmark = pytest.mark.slow

OTHER = AnalystKey("Mallory", bytes(range(1, 33)))
THIRD = AnalystKey("Carol", bytes(range(2, 34)))
MINE = adaptive_query(
    60, 0.05, 500.0, id="mine", minimum_cohort=1, channel="city", channel_owner=KEY.public.raw.hex()
)
PLAIN = adaptive_query(60, 0.05, 500.0, id="plain", minimum_cohort=1)
THEIRS = adaptive_query(60, 0.05, 500.0, id="theirs", minimum_cohort=1, analyst=OTHER.owner)
HEAVY: dict[str, Any] = {
    "rows": "several",
    "most_rows": 400,
    "grace": 30 * 86_400,
    "envelope": None,
    "budget": Budget(),
}
N_EPOCHS, N_ANSWERS = 4, 20
OBJECTS = {
    "channel",
    "id",
    "query",
    "envelope",
    "version",
    "board",
    "feed",
    "history",
    "simulation",
    "results",
    "session",
}
PUBLIC, OF_NOBODY, OWN_ONLY, BY_ID, TRIED = "public", "of nobody", "own only", "by id", "tried"


class Row(NamedTuple):
    """What an address is about, and how B is kept from A's.

    It is public; it is of nobody; it answers with B's own only; it names a query by its id, and
    answers as if A's did not exist; or there are attempts on it below.
    """

    about: str
    kept_by: str


ROUTES = {
    "GET /openapi.json": Row("", PUBLIC),
    "GET /healthz": Row("", PUBLIC),
    "GET /readyz": Row("", PUBLIC),
    "GET /metrics": Row("", PUBLIC),
    "GET /": Row("", PUBLIC),
    "GET /console": Row("", PUBLIC),
    "GET /console/{path:path}": Row("", PUBLIC),
    "GET /v1/public/queries": Row("query", PUBLIC),
    # A's do not say that they are public
    "GET /v1/public/queries/{query_id}/results": Row("results", BY_ID),
    "GET /v1/public/feed": Row("feed", PUBLIC),
    "GET /v1/capacity": Row("", OF_NOBODY),
    "POST /v1/plan": Row("", OF_NOBODY),
    "POST /v1/queries/check": Row("query", OF_NOBODY),
    "POST /v1/simulate": Row("simulation", TRIED),
    "GET /v1/session": Row("session", OWN_ONLY),
    "PUT /v1/session": Row("session", OWN_ONLY),
    "DELETE /v1/session": Row("session", OF_NOBODY),
    "GET /v1/queries": Row("query", OWN_ONLY),
    "GET /v1/stream": Row("results", OWN_ONLY),
    "GET /v1/metrics": Row("results", OWN_ONLY),
    "PUT /v1/queries/{query_id}": Row("query", TRIED),
    "GET /v1/queries/{query_id}": Row("query", BY_ID),
    "DELETE /v1/queries/{query_id}": Row("query", BY_ID),
    "GET /v1/queries/{query_id}/versions": Row("version", BY_ID),
    "GET /v1/queries/{query_id}/results": Row("results", BY_ID),
    "GET /v1/queries/{query_id}/results/latest": Row("results", BY_ID),
    "GET /v1/queries/{query_id}/results/latest/table": Row("results", BY_ID),
    "GET /v1/queries/{query_id}/results/stream": Row("results", BY_ID),
    "GET /v1/queries/{query_id}/series": Row("results", BY_ID),
    "GET /v1/queries/{query_id}/panes": Row("results", BY_ID),
    "GET /v1/queries/{query_id}/history": Row("history", BY_ID),
    "GET /v1/queries/{query_id}/history/extent": Row("history", BY_ID),
    "GET /v1/queries/{query_id}/history/receipts": Row("history", BY_ID),
    "DELETE /v1/queries/{query_id}/history": Row("history", BY_ID),
}
PROXY_OPEN = {
    "GET /openapi.json",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /v1/queries",
    "GET /v1/queries/{query_id}",
    "GET /v1/public/feed",
    "POST /v1/enrol",
    "POST /v1/answers",
}
PROXY_CLOSED = {
    "POST /v1/enrol/rotate",
    "POST /v1/shares",
    "POST /v1/batches",
    "GET /v1/tokens",
    "GET /v1/log",
    "PUT /v1/queries/{query_id}",
    "DELETE /v1/queries/{query_id}",
    "PUT /v1/revoked/{key_id}",
}


def until(reached: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < end, f"waited a minute for {what}"
        time.sleep(0.02)


@dataclass
class TwoAnalysts:
    """Two proxies and an aggregator, with queries and results of A and of B, and a token of each
    with every right."""

    folder: Path
    now: int = MINE.schedule.origin + 5
    n_windows: int = N_EPOCHS - 3
    proxies: list[ProxyService] = field(default_factory=list)
    doors: list[httpx.Client] = field(default_factory=list)
    fronts: list[HotFront] = field(default_factory=list)

    def open(self, stack: ExitStack) -> None:
        KeyRing().add(KEY.public).add(OTHER.public).add(THIRD.public).save(
            self.folder / "ring.json"
        )
        settings = []
        for i, name in enumerate(MINE.proxies):
            rules = IntakeRules(deadline=0, grace=0)
            made = ProxyServiceSettings(
                self.folder / f"proxy{i}", ring=self.folder / "ring.json", intake=rules
            )
            proxy = ProxyService(made, clock=lambda: self.now)
            (self.folder / f"token{i}").write_text(proxy.tokens.add("operator")[0])
            self.proxies.append(proxy)
            self.fronts.append(create_proxy_app(proxy))
            self.doors.append(stack.enter_context(served(self.fronts[-1])))
            log = self.folder / f"proxy{i}" / "log.db"
            settings.append(
                ProxySource(
                    name, str(self.doors[-1].base_url), log, token_file=self.folder / f"token{i}"
                )
            )
        history = HistorySettings(str(self.folder / "history"))
        made_of = AggregatorSettings(
            self.folder / "state.db", self.folder / "ring.json", settings, history=history
        )
        self.service = Service(made_of, clock=lambda: self.now)
        with self.service.writing() as connection:
            self.token = add_token(connection, KEY.owner, RIGHTS, 0)
            self.theirs = add_token(connection, OTHER.owner, RIGHTS, 0)
        self.app: FastAPI = create_app(self.service)
        add_console(self.app, self.service)
        self.client = stack.enter_context(served(self.app))
        for query, key in ((MINE, KEY), (PLAIN, KEY), (THEIRS, OTHER)):
            self.service.queries.publish(query.id, sign(query, key).to_bytes())
        self.settle()
        for epoch in range(N_EPOCHS):
            self.now = MINE.schedule.start_of_epoch(epoch) + 5
            for query in (MINE, PLAIN, THEIRS):
                self._answer(query, epoch)
        self.another_window()
        until(lambda: self.service.kept_history().extent("mine")["n_reports"] > 0, "stored reports")

    def another_window(self) -> None:
        """Let an epoch pass, and wait for the window that ends with it, of every query."""
        self.n_windows += 1
        self.now = MINE.schedule.start_of_epoch(self.n_windows + 2) + 5
        for query in (MINE, PLAIN, THEIRS):
            until(partial(self._has_results, query.id), f"results of {query.id}")

    def _has_results(self, query_id: str) -> bool:
        return len(self.service.windows.of_query(query_id)) == self.n_windows

    def _answer(self, query: Query, epoch: int) -> None:
        reports = query.mechanism.draw(np.arange(N_ANSWERS) % 2, seeded_source(epoch))
        rows = reports.reshape(N_ANSWERS, -1).view(np.uint8)
        shares = split_columns(
            rows, query.tag, epoch, query.size_class or 0, 2, 0, ANSWER, seeded_source(100 + epoch)
        )
        for proxy, door, columns in zip(self.proxies, self.doors, shares, strict=True):
            (token,) = proxy.tokens.add("device", quota=1000)
            headers = {
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/octet-stream",
            }
            answer = door.post(
                "/v1/shares", content=body_of(query, epoch, columns), headers=headers
            )
            assert answer.status_code == 202, answer.text

    def settle(self) -> None:
        """Wait until the proxies have been told everything that they can be told."""

        def told() -> bool:
            with self.service.reading() as connection:
                (left,) = connection.execute(
                    "SELECT count(*) FROM relays WHERE NOT done AND problem IS NULL"
                ).fetchone()
            return not left

        until(told, "the relay")

    def as_b(self, method: str, path: str, content: bytes | None = None) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {self.theirs}", "Content-Type": "application/json"}
        with self.client.stream(method, path, content=content, headers=headers) as answer:
            ends = not answer.headers.get("content-type", "").startswith("text/event-stream")
            return answer.status_code, answer.read().decode() if ends else ""

    def publish(self, signed: SignedQuery, query_id: str | None = None) -> tuple[int, str]:
        status, body = self.as_b(
            "PUT", f"/v1/queries/{query_id or signed.header().id}", signed.to_bytes()
        )
        return status, "" if status < 400 else str(json.loads(body)["reason"])

    def seen_by_a(self) -> dict[str, Any]:
        """All that A can see of their queries, and all that the proxies do with them."""
        self.settle()
        found: dict[str, Any] = {}
        headers = {"Authorization": f"Bearer {self.token}"}
        for query in (MINE, PLAIN):
            for address, row in ROUTES.items():
                method, path = address.split(" ")
                if method == "GET" and row.kept_by == BY_ID and not path.endswith("stream"):
                    answer = self.client.get(path.replace("{query_id}", query.id), headers=headers)
                    found[f"{query.id}: {path}"] = answer.status_code, answer.text
            with self.service.reading() as connection:
                sql = (
                    "SELECT c.first, c.front FROM channels c JOIN queries q ON q.channel ="
                    " c.channel WHERE q.id = ?"
                )
                found[f"{query.id}: closed"] = connection.execute(sql, (query.id,)).fetchall()
            for i, proxy in enumerate(self.proxies):
                listed = [
                    each
                    for each in json.loads(proxy.board.content)
                    if f'"id":"{query.id}"' in each["query"]
                ]
                found[f"{query.id}: board {i}"] = listed, proxy.board.channels()[query.channel_tag]
                found[f"{query.id}: intake {i}"] = proxy.intake._channels[query.channel_tag]
            engine = self.service.parts.embedded_engine
            assert engine is not None
            channel = engine.catalogue.channels[query.channel_tag]
            found[f"{query.id}: counted"] = (
                channel.grace,
                channel.most_messages,
                channel.n_epochs,
                set(channel.versions),
            )
        lines = self.client.get("/v1/public/feed").json()["lines"]
        found["feed"] = [
            line
            for line in lines
            if any(name in str(line) for name in (KEY.owner, "mine", "plain"))
        ]
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoAnalysts]:
    with ExitStack() as stack:
        made = TwoAnalysts(tmp_path_factory.mktemp("analysts"))
        made.open(stack)
        yield made


# --- the table is complete


def test_every_address_and_every_kind_of_object_is_in_the_table(world: TwoAnalysts) -> None:
    assert addresses(world.app) == set(ROUTES)
    assert all(addresses(front.app) == PROXY_OPEN | PROXY_CLOSED for front in world.fronts)
    assert {row.about for row in ROUTES.values()} | {attempt.on for attempt in ATTEMPTS} == {
        "",
        *OBJECTS,
    }
    assert {row.kept_by for row in ROUTES.values()} == {PUBLIC, OF_NOBODY, OWN_ONLY, BY_ID, TRIED}
    by_id = {address for address, row in ROUTES.items() if row.kept_by == BY_ID}
    assert {address for address in ROUTES if "{query_id}" in address} == by_id | {
        "PUT /v1/queries/{query_id}"
    }


# --- what names a query of A's


def test_every_address_answers_b_as_if_as_query_did_not_exist_and_changes_nothing(
    world: TwoAnalysts,
) -> None:
    before = world.seen_by_a()
    # there is something to see
    assert before["mine: /v1/queries/{query_id}/results/latest"][0] == 200
    assert before["mine: /v1/queries/{query_id}/history/extent"][0] == 200
    for address, row in ROUTES.items():
        if row.kept_by == BY_ID:
            method, path = address.split(" ")
            there, missing = (
                world.as_b(method, path.replace("{query_id}", name)) for name in ("mine", "nobody")
            )
            assert there[0] == 404, address
            assert there == (missing[0], missing[1].replace("nobody", "mine")), address
    assert world.seen_by_a() == before


def test_what_lists_queries_or_results_holds_bs_own_only(world: TwoAnalysts) -> None:
    listed = json.loads(world.as_b("GET", "/v1/queries")[1])
    assert {each["analyst"] for each in listed} == {OTHER.owner}
    estimates = world.as_b("GET", "/v1/metrics")[1]
    assert 'query="theirs"' in estimates
    assert 'query="mine"' not in estimates
    headers = {"Authorization": f"Bearer {world.theirs}"}
    windows: list[dict[str, Any]] = []
    with world.client.stream("GET", "/v1/stream?after=0", headers=headers) as answer:
        for event in parse_events(answer.iter_lines()):
            if event.name == "window":
                windows.append(event.document)
            if len(windows) == N_EPOCHS - 2 and world.n_windows == N_EPOCHS - 2:
                world.another_window()  # which the stream is then told of, as news
            if sum(window["query"] == "theirs" for window in windows) == N_EPOCHS - 1:
                break
    assert {window["query"] for window in windows} == {"theirs"}
    known = world.client.get("/v1/session", headers={"Cookie": f"deniable={world.theirs}"})
    assert KEY.owner not in known.text


# --- attempts


class Attempt(NamedTuple):
    """What B tries, on which kind of object, and the refusal; an empty one if it succeeds without
    touching A's."""

    on: str
    what: str
    act: Callable[[TwoAnalysts], tuple[int, str]]
    refusal: tuple[int, str]


def of_b(name: str, **changes: Any) -> Query:
    return adaptive_query(
        60, 0.05, 500.0, **{"id": name, "analyst": OTHER.owner, "minimum_cohort": 1, **changes}
    )


def old_format(query: Query, key: AnalystKey) -> SignedQuery:
    return SignedQuery(
        query.content, key.public.id, key.sign(b"deniable query 1\0" + query.content)
    )


def _version(key: AnalystKey) -> SignedQuery:
    return sign_version(
        sign(MINE, KEY), Version(MINE.digest.hex(), 2, 0.4, {"p": 0.5, "q": 0.5}), key
    )


def _simulate(world: TwoAnalysts) -> tuple[int, str]:
    """A simulation that names A's query, whose buckets have a half each, shows B's own guesses: it
    reads nobody's results."""
    design = {
        "proportion": 0.02,
        "buckets": 2,
        "guesses": [0.9, 0.1],
        "population": 100_000,
        "epsilon": 3.0,
    }
    status, body = world.as_b(
        "POST", "/v1/simulate", json.dumps({**design, "query": "mine", "query_id": "mine"}).encode()
    )
    estimates = np.array(json.loads(body)["estimates"])
    assert np.abs(estimates - [0.9, 0.1]).max() < 0.1  # ± 0.01 is what is planned
    return status, ""


def _at_a_proxy(world: TwoAnalysts) -> tuple[int, str]:
    """B's token means nothing to a proxy."""
    headers = {
        "Authorization": f"Bearer {world.theirs}",
        "Content-Type": "application/octet-stream",
    }
    statuses = set()
    for address in PROXY_CLOSED:
        method, path = address.split(" ")
        url = path.replace("{query_id}", "mine").replace("{key_id}", KEY.public.id)
        statuses |= {door.request(method, url, headers=headers).status_code for door in world.doors}
    (status,) = statuses
    return status, "token"


def _write_the_feed(world: TwoAnalysts) -> tuple[int, str]:
    status, body = world.as_b("PUT", "/v1/public/feed", b"{}")
    return status, str(json.loads(body)["reason"])


_PERMITTED = permit(KEY, "city", THIRD.public, end=MINE.schedule.expires)
ATTEMPTS = [
    Attempt(
        "id", "takes A's id", lambda w: w.publish(sign(of_b("mine"), OTHER)), (409, "publication")
    ),
    Attempt(
        "id",
        "takes A's id, with a later serial",
        lambda w: w.publish(sign(of_b("mine", serial=9), OTHER)),
        (409, "publication"),
    ),
    Attempt(
        "id",
        "publishes A's query under another id",
        lambda w: w.publish(sign(MINE, KEY), "stolen"),
        (403, "right"),
    ),
    Attempt(
        "query",
        "publishes A's next version for A",
        lambda w: w.publish(sign(MINE.revised(sampling=0.9), KEY)),
        (403, "right"),
    ),
    Attempt(
        "query",
        "signs a query in A's name",
        lambda w: w.publish(old_format(PLAIN.revised(sampling=0.9), OTHER)),
        (422, "bad_signature"),
    ),
    Attempt(
        "envelope",
        "signs A's envelope anew",
        lambda w: w.publish(old_format(MINE, OTHER)),
        (422, "bad_signature"),
    ),
    Attempt(
        "version",
        "signs a version of A's query with their own key",
        lambda w: w.publish(_version(OTHER)),
        (422, "bad_signature"),
    ),
    Attempt(
        "version",
        "publishes a version that A's controller signed",
        lambda w: w.publish(_version(CONTROLLER)),
        (403, "right"),
    ),
    Attempt(
        "channel",
        "has a channel of A's name",
        lambda w: w.publish(sign(of_b("b1", channel="city", **HEAVY), OTHER)),
        (201, ""),
    ),
    Attempt(
        "channel",
        "has a channel of A's name, in format 1",
        lambda w: w.publish(old_format(of_b("b2", channel="city", **HEAVY), OTHER)),
        (201, ""),
    ),
    Attempt(
        "channel",
        "names the channel of A's query that names none, in format 1",
        lambda w: w.publish(old_format(of_b("b3", channel=f"{KEY.owner}/plain", **HEAVY), OTHER)),
        (409, "publication"),
    ),
    Attempt(
        "channel",
        "names A's key without a permission",
        lambda w: w.publish(
            sign(of_b("b4", channel="city", channel_owner=MINE.channel_owner, **HEAVY), OTHER)
        ),
        (422, "foreign_channel"),
    ),
    Attempt(
        "channel",
        "uses a permission that A gave to another",
        lambda w: w.publish(
            old_format(
                of_b("b5", channel="city", channel_owner=MINE.channel_owner, permission=_PERMITTED),
                OTHER,
            )
        ),
        (422, "foreign_channel"),
    ),
    Attempt("board", "publishes, stops and revokes at the proxies", _at_a_proxy, (401, "token")),
    Attempt("feed", "writes the public feed", _write_the_feed, (405, "method")),
    Attempt("simulation", "simulates A's query", _simulate, (200, "")),
]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: f"{attempt.on}: {attempt.what}")
def test_what_b_tries_changes_nothing_of_as(world: TwoAnalysts, attempt: Attempt) -> None:
    before = world.seen_by_a()
    assert attempt.act(world) == attempt.refusal
    assert world.seen_by_a() == before
