"""Enrol and upload in one request, tokens that are good for one query, and what a stranger can do
with either."""

from __future__ import annotations

import json
import sqlite3
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from deniable.proxy.enrolment import EnrolmentRules, invite
from deniable.proxy.intake.uploads import IntakeRules
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.api import create_app
from deniable.queries.query import Query
from deniable.service.audit_log import read_events
from deniable.service.http.cross_origin import BrowserRules
from deniable.service.schemas.tokens import TOKENS
from deniable.service.tokens import Bound, Token, TokenStore, token_hash
from toolkit.servers.proxies import ProxyProcess, query_of_today, signed
from toolkit.servers.served import served
from toolkit.shares import make_columns, records_of

pytestmark = pytest.mark.slow

POLL, OTHER = query_of_today(id="poll"), query_of_today(id="other")
PAGE, FOREIGN = "https://poll.example", "https://evil.example"
UNTIL = int(time.time()) + 3600


def shares(query: Query = POLL, n: int = 1) -> bytes:
    epoch = query.schedule.epoch_of(int(time.time()))
    return b"".join(records_of(query, epoch, make_columns(query, epoch, n)[0]))


class Doors:
    """A proxy that invites, served in this process."""

    def __init__(self, proxy: ProxyService, client: httpx.Client) -> None:
        self.proxy, self.client, self.folder = proxy, client, proxy.settings.folder

    def code(self, **bound: Any) -> str:
        return invite(self.folder, 1, UNTIL, Bound("poll", **bound) if bound else None)[0]

    def send(
        self, body: dict[str, Any], kind: str = "text/plain", **headers: str
    ) -> tuple[int, Any]:
        content = {
            name: b64encode(value).decode() if name == "shares" else value
            for name, value in body.items()
        }
        answer = self.client.post(
            "/v1/answers", content=json.dumps(content), headers={"Content-Type": kind, **headers}
        )
        document = answer.json()
        return answer.status_code, document.get(
            "reason", (document.get("accepted"), document.get("already"))
        )

    def upload(self, token: str, content: bytes) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        answer = self.client.post("/v1/shares", content=content, headers=headers)
        document = answer.json()
        return answer.status_code, document.get(
            "reason", (document.get("accepted"), document.get("already"))
        )


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    rules = EnrolmentRules("invitation", per_hour_and_address=1000)
    browser = BrowserRules((PAGE,))
    proxy = ProxyService(
        ProxySettings(
            tmp_path / "data", enrolment=rules, browser=browser, intake=IntakeRules(deadline=0)
        )
    )
    for query in (POLL, OTHER):
        proxy.publish(query.id, signed(query).to_bytes(), "test")
    with served(create_app(proxy)) as client:
        yield Doors(proxy, client)


@pytest.mark.parametrize("kind", ["text/plain", "text/plain;charset=UTF-8", "application/json"])
def test_an_invitation_and_the_shares_come_in_one_request_that_may_be_repeated(
    doors: Doors, kind: str
) -> None:
    code, content = doors.code(), shares()
    assert doors.send({"invitation": code, "shares": content}, kind) == (202, (1, 0))
    # as if the answer was lost
    assert doors.send({"invitation": code, "shares": content}, kind) == (202, (0, 1))
    assert len(doors.proxy.tokens.tokens()) == 1
    enrolled = doors.client.post("/v1/enrol", json={"invitation": code})
    assert enrolled.status_code == 403  # it was used
    assert doors.upload(code, content) == (401, "token")  # and is no bearer token


def test_a_request_whose_shares_were_refused_does_not_lose_the_invitation(doors: Doors) -> None:
    code = doors.code()
    assert doors.send({"invitation": code, "shares": b"no record"}) == (400, "truncated")
    assert doors.send({"invitation": code, "shares": shares()}) == (202, (1, 0))


def test_a_token_in_the_body_does_what_it_does_in_a_header_and_no_more(doors: Doors) -> None:
    (token,) = doors.proxy.tokens.add("device")
    content = shares()
    assert doors.upload(token, content) == (202, (1, 0))
    assert doors.send({"token": token, "shares": content}) == (202, (0, 1))
    assert doors.send({"token": token, "shares": shares(n=2)})[1] == "quota"
    for role in ("operator", "reader", "collector"):
        (other,) = doors.proxy.tokens.add(role)
        assert doors.send({"token": other, "shares": shares()}) == (401, "token")


def test_what_a_foreign_page_sends_is_refused_whatever_it_knows(doors: Doors) -> None:
    code, n_tokens = doors.code(), len(doors.proxy.tokens.tokens())
    body = {"invitation": code, "shares": shares()}
    for origin in (FOREIGN, "null"):
        assert doors.send(body, Origin=origin) == (403, "origin")
    for kind in (
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/octet-stream",
    ):
        assert doors.send(body, kind, Origin=PAGE) == (415, "media_type")
    blind = doors.client.post(
        "/v1/answers",
        content="{}",
        headers={"Content-Type": "text/plain", "Cookie": "session=mine"},
    )
    assert blind.status_code == 400  # no cookie stands for what is not in the body
    authorized = {
        "Authorization": f"Bearer {doors.proxy.tokens.add('device')[0]}",
        "Content-Type": "text/plain",
    }
    shown = doors.client.post("/v1/answers", content=json.dumps({"shares": ""}), headers=authorized)
    assert shown.status_code == 400  # nor does a header
    assert len(doors.proxy.tokens.tokens()) == n_tokens + 1
    assert doors.send(body, Origin=PAGE) == (202, (1, 0))  # the invitation was not used up


def test_bodies_that_are_no_answer_are_refused(doors: Doors) -> None:
    code = doors.code()
    good = {"invitation": code, "shares": shares()}
    without = ({"shares": shares()}, {"invitation": code})
    for body in ({**good, "token": "x"}, {**good, "more": 1}, {**good, "invitation": 7}, *without):
        assert doors.send(body)[0] in (400, 403)
    for content in (
        b"",
        b"[]",
        b"\xff",
        b"[" * 5000,
        json.dumps({"invitation": code, "shares": "§"}).encode(),
    ):
        assert (
            doors.client.post(
                "/v1/answers", content=content, headers={"Content-Type": "text/plain"}
            ).status_code
            == 400
        )
    assert doors.send({"invitation": "guessed", "shares": shares()}) == (403, "invitation")
    # what JSON can write and UTF-8 cannot
    for lone in ("\ud800", "\udfff"):
        assert doors.send({"invitation": lone, "shares": shares()}) == (403, "invitation")
        assert doors.send({"token": lone, "shares": shares()}) == (401, "token")
    assert doors.send(good) == (202, (1, 0))


def test_a_bound_token_is_good_for_one_query_so_many_messages_and_a_time(doors: Doors) -> None:
    tokens = doors.proxy.tokens
    (token,) = tokens.add("device", quota=100, bound=Bound("poll", 3, UNTIL))
    assert doors.upload(token, shares(OTHER)) == (403, "token_query")
    assert doors.upload(token, shares(POLL) + shares(OTHER)) == (403, "token_query")
    first = shares()
    assert doors.upload(token, first) == (202, (1, 0))
    assert doors.upload(token, first) == (202, (0, 1))  # a replay uses nothing
    assert doors.upload(token, shares(n=3)) == (403, "token_used")  # whole or not at all
    # nor does one beside a new message
    assert doors.upload(token, first + shares()) == (202, (1, 1))
    assert doors.upload(token, shares()) == (202, (1, 0))
    assert doors.upload(token, shares()) == (403, "token_used")
    rotated = doors.client.post(
        "/v1/enrol/rotate", headers={"Authorization": f"Bearer {token}"}
    ).json()["token"]
    assert doors.upload(rotated, shares()) == (403, "token_used")  # a new token is no new allowance
    (late,) = tokens.add("device", bound=Bound("poll", None, int(time.time()) + 1))
    end = time.monotonic() + 20
    while doors.upload(late, shares())[0] == 202 or doors.upload(late, shares())[0] == 429:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert doors.upload(late, shares())[0] in (401, 403)
    while tokens.find(late) is not None:  # and then it is deleted
        assert time.monotonic() < end
        time.sleep(0.1)
    assert doors.upload(late, shares()) == (401, "token")
    events = [
        each for each in read_events(doors.folder / "audit.jsonl") if each["event"] == "token.ended"
    ]
    assert [each["details"]["count"] for each in events] == [1]


def test_the_uses_of_a_code_hold_over_a_restart_and_in_front_of_workers(tmp_path: Path) -> None:
    settings = 'workers = 1\n[enrolment]\nmode = "invitation"\n[intake]\ndeadline = 1\n'
    proxy = ProxyProcess(tmp_path / "proxy", settings)
    for after_restart in (False, True):
        with (
            proxy,
            httpx.Client(
                base_url=proxy.start() if proxy.process is None else proxy.address, timeout=30
            ) as client,
        ):
            if not after_restart:
                proxy.publish(POLL)
                (code,) = invite(proxy.data, 1, UNTIL, Bound("poll", 1, UNTIL))
                kept = shares()
            body = {"invitation": code, "shares": b64encode(kept).decode()}
            answer = client.post("/v1/answers", json=body)
            assert (answer.status_code, answer.json()["already"]) == (
                202,
                int(after_restart),
            ), answer.text
            more = client.post("/v1/answers", json={**body, "shares": b64encode(shares()).decode()})
            assert (more.status_code, more.json()["reason"]) == (403, "token_used")
            proxy.stop()


def test_tokens_are_deleted_with_the_query_they_were_made_for(tmp_path: Path) -> None:
    now = [int(time.time())]
    proxy = ProxyService(
        ProxySettings(tmp_path / "data", intake=IntakeRules(grace=10)), clock=lambda: now[0]
    )
    proxy.start()
    try:
        for query in (POLL, OTHER):
            proxy.publish(query.id, signed(query).to_bytes(), "test")
        (bound,), (other,), (free,) = (
            proxy.tokens.add("device", bound=each) for each in (Bound("poll"), Bound("other"), None)
        )
        proxy.stop_query("poll", "test")
        proxy.end_tokens()
        # answers for the current epoch are still accepted
        assert proxy.tokens.find(bound) is not None
        now[0] += 11
        proxy.end_tokens()
        assert proxy.tokens.find(bound) is None
        assert proxy.tokens.find(other) is not None
        assert proxy.tokens.find(free) is not None
    finally:
        proxy.stop()


def test_a_file_of_the_previous_release_is_brought_up_to_date(tmp_path: Path) -> None:
    path, token = tmp_path / "tokens.db", "deniable_older"
    columns = (
        "hash BLOB PRIMARY KEY, role TEXT NOT NULL, quota INTEGER, label TEXT NOT NULL DEFAULT '',"
        " made INTEGER"
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            f"CREATE TABLE tokens ({columns}, used INTEGER, first BLOB) WITHOUT ROWID"
        )
        connection.execute(
            "INSERT INTO tokens (hash, role) VALUES (?, 'device')", (token_hash(token),)
        )
        connection.execute(f"PRAGMA application_id = {TOKENS.application_id}")
        connection.execute("PRAGMA user_version = 3")
    store = TokenStore(path)
    assert store.find(token) == Token(token_hash(token), "device", None)
    (bound,) = store.add("device", bound=Bound("poll", 3, UNTIL))
    store.close()
    again = TokenStore(path).find(bound)
    assert again is not None
    assert again.bound == Bound("poll", 3, UNTIL)
