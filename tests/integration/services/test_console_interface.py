"""What the console adds to the aggregator's interface: sessions, views of results, the shared
stream, plans, checks, headers."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

import httpx
import numpy as np
import pytest

from deniable.aggregator.web.sessions import COOKIE, CSRF_HEADER
from deniable.aggregator.windows.window import Window
from deniable.planning.plan import plan
from deniable.queries.query import Query
from deniable.service.http.event_stream import parse_events
from toolkit.crowds import KEY
from toolkit.servers import loopback
from toolkit.servers.consoles import SeededConsole, console_query, seeded_console

SHARES = [0.24, 0.308, 0.179, 0.097, 0.06, 0.036, 0.021, 0.017, 0.008, 0.006, 0.022]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def trips(console: SeededConsole) -> Query:
    query = console.publish(console_query(console.proxies))
    console.write(query, range(30), SHARES, 6000)
    console.write(query, [30], SHARES, 50)
    return query


@pytest.fixture
def bearer(console: SeededConsole) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=console.url, headers={"Authorization": f"Bearer {console.analyst}"}
    ) as client:
        yield client


@contextmanager
def signed_in(console: SeededConsole, token: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=console.url) as client:
        assert client.put("/v1/session", json={"token": token}).status_code == 200
        yield client


# --- who is asking


def test_a_session_is_a_cookie_that_scripts_cannot_read_and_other_sites_cannot_send(
    console: SeededConsole,
) -> None:
    answer = loopback.put(f"{console.url}/v1/session", json={"token": console.analyst})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    told = answer.json()
    assert (told["name"], told["role"]) == (KEY.owner, "analyst")
    assert console.analyst not in json.dumps(told)


def test_a_wrong_token_gets_no_session_and_a_session_ends(console: SeededConsole) -> None:
    refused = loopback.put(f"{console.url}/v1/session", json={"token": "deniable_guessed"})
    assert (refused.status_code, refused.json()["reason"]) == (401, "token")
    assert "set-cookie" not in refused.headers
    with signed_in(console, console.reader) as client:
        assert client.get("/v1/session").json()["role"] == "reader"
        assert client.delete("/v1/session").status_code == 204
        assert client.get("/v1/queries").status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({CSRF_HEADER: "guessed"}, 403),
        ({CSRF_HEADER: "right", "Origin": "https://evil.example"}, 403),
        ({CSRF_HEADER: "right", "Sec-Fetch-Site": "cross-site"}, 403),
        ({CSRF_HEADER: "right"}, 404),
    ],
)
def test_a_change_by_cookie_needs_the_word_of_the_page_and_its_origin(
    console: SeededConsole, headers: dict[str, str], status: int
) -> None:
    with signed_in(console, console.analyst) as client:
        word = client.get("/v1/session").json()["csrf"]
        given = {name: word if value == "right" else value for name, value in headers.items()}
        assert (
            client.delete("/v1/queries/nothing-of-this-name", headers=given).status_code == status
        )


def test_a_page_of_another_origin_can_neither_sign_in_nor_read_the_word(
    console: SeededConsole,
) -> None:
    evil = {"Origin": "https://evil.example"}
    assert (
        loopback.put(
            f"{console.url}/v1/session", json={"token": console.analyst}, headers=evil
        ).status_code
        == 403
    )
    with signed_in(console, console.analyst) as client:
        assert client.get("/v1/session", headers=evil).status_code == 403


def test_a_reader_who_signed_in_cannot_publish(console: SeededConsole) -> None:
    with signed_in(console, console.reader) as client:
        word = client.get("/v1/session").json()["csrf"]
        refused = client.put("/v1/queries/x", content=b"{}", headers={CSRF_HEADER: word})
        assert (refused.status_code, refused.json()["reason"]) == (403, "right")


def test_a_revoked_token_ends_its_sessions(console: SeededConsole) -> None:
    from deniable.aggregator.web.tokens import add_token, revoke_tokens, token_id  # noqa: PLC0415

    token = add_token(console._pen, "Somebody", ["read"], 0)
    with signed_in(console, token) as client:
        assert client.get("/v1/queries").status_code == 200
        revoke_tokens(console._pen, token_id(token))
        assert client.get("/v1/queries").status_code == 401


# --- the files


def test_every_file_comes_under_a_policy_without_unsafe_words_and_may_not_be_framed(
    console: SeededConsole,
) -> None:
    for path in (
        "/console/",
        "/console/js/app.js",
        "/console/css/base.css",
        "/console/person.html",
    ):
        headers = loopback.get(f"{console.url}{path}").headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        for part in (
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "trusted-types 'none'",
        ):
            assert part in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"


def test_only_files_of_the_console_are_served_and_unchanged_ones_are_not_sent_again(
    console: SeededConsole,
) -> None:
    for path in (
        "/console/../console_app.py",
        "/console/%2e%2e/console_app.py",
        "/console//etc/passwd",
        "/console/js/",
    ):
        assert loopback.get(f"{console.url}{path}").status_code == 404, path
    first = loopback.get(f"{console.url}/console/js/app.js")
    again = loopback.get(
        f"{console.url}/console/js/app.js", headers={"If-None-Match": first.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert loopback.get(f"{console.url}/").headers["location"] == "/console/"


# --- results as they are looked at


def test_other_confidences_are_those_of_the_stored_estimate(
    bearer: httpx.Client, trips: Query
) -> None:
    at_95 = bearer.get(f"/v1/queries/{trips.id}/results?limit=1").json()["windows"][0]
    asked = f"/v1/queries/{trips.id}/results?limit=1&confidence=0.99"
    at_99 = bearer.get(asked).json()["windows"][0]
    estimate = Window.from_dict(at_95).estimate
    assert estimate is not None
    low, high = estimate.interval(0.99).T
    assert at_99["low"] == low.tolist()
    assert at_99["high"] == high.tolist()
    assert at_99["estimate"] == at_95["estimate"]
    assert all(np.array(at_99["high"]) - at_99["low"] > np.array(at_95["high"]) - at_95["low"])


def test_the_projection_is_a_distribution_beside_the_unbiased_estimate(
    bearer: httpx.Client, trips: Query
) -> None:
    raw = bearer.get(f"/v1/queries/{trips.id}/results?limit=1").json()["windows"][0]
    told = bearer.get(f"/v1/queries/{trips.id}/results?limit=1&form=projected").json()["windows"][0]
    assert sum(told["estimate"]) == pytest.approx(1)
    assert min(told["estimate"]) >= 0
    assert told["unbiased"] == raw["estimate"]
    assert all(
        low <= value <= high
        for low, value, high in zip(told["low"], told["estimate"], told["high"], strict=True)
    )


def test_a_brief_result_has_everything_but_the_matrices(bearer: httpx.Client, trips: Query) -> None:
    whole, brief = (
        bearer.get(f"/v1/queries/{trips.id}/results?limit=1&brief={flag}").json()["windows"][0]
        for flag in ("false", "true")
    )
    assert (
        {"covariance", "support"}
        <= set(whole) - set(brief)
        <= {"covariance", "support", "strata", "reports"}
    )
    assert all(whole[name] == brief[name] for name in brief)


@pytest.mark.parametrize("confidence", [0.95, 0.9])
def test_a_series_holds_what_the_windows_hold(
    bearer: httpx.Client, trips: Query, confidence: float
) -> None:
    asked = {"limit": 100, "confidence": confidence}
    windows = bearer.get(f"/v1/queries/{trips.id}/results", params=asked).json()["windows"]
    series = bearer.get(
        f"/v1/queries/{trips.id}/series", params={"label": 2, "confidence": confidence}
    ).json()
    assert series["index"] == [window["index"] for window in windows]
    assert series["estimate"][:-1] == [window["estimate"][2] for window in windows[:-1]]
    assert series["low"][:-1] == pytest.approx([window["low"][2] for window in windows[:-1]])
    assert series["high"][:-1] == pytest.approx([window["high"][2] for window in windows[:-1]])
    assert series["widest"][:-1] == [max(window["stderr"]) for window in windows[:-1]]
    assert (series["condition"][-1], series["estimate"][-1]) == ("withheld", None)
    last = bearer.get(f"/v1/queries/{trips.id}/series", params={"limit": 3}).json()
    assert last["index"] == series["index"][-3:]


@pytest.mark.parametrize("asked", ["confidence=1.5", "form=smooth", "confidence=nan"])
def test_a_view_that_cannot_be_made_is_refused(
    bearer: httpx.Client, trips: Query, asked: str
) -> None:
    assert bearer.get(f"/v1/queries/{trips.id}/results/latest?{asked}").status_code in (409, 422)


# --- the stream


def read_windows(lines: Iterator[str], n: int) -> list[tuple[str, int]]:
    """The next windows, whatever else is told in between."""
    out: list[tuple[str, int]] = []
    while len(out) < n:
        out += windows_of(read_events(lines, 1))
    return out


def read_events(lines: Iterator[str], n: int) -> list[tuple[str, int, Any]]:
    """The next events: name, id and data."""
    found = islice(parse_events(lines), n)
    return [(event.name, event.number or 0, event.document) for event in found]


def windows_of(events: list[tuple[str, int, Any]]) -> list[tuple[str, int]]:
    return [(told["query"], told["index"]) for name, _, told in events if name == "window"]


def test_one_stream_tells_of_all_queries_and_goes_on_where_it_broke(
    console: SeededConsole, bearer: httpx.Client
) -> None:
    one = console.publish(console_query(console.proxies, "stream-one"))
    two = console.publish(console_query(console.proxies, "stream-two"))
    newest = console.service.windows.newest_number()
    console.write(one, [0, 1], SHARES, 6000)
    with bearer.stream("GET", f"/v1/stream?after={newest}") as response:
        lines = response.iter_lines()
        first = read_events(lines, 4)
        assert {name for name, _, _ in first} == {"health", "queries", "window"}
        assert windows_of(first) == [("stream-one", 0), ("stream-one", 1)]
        assert "covariance" not in first[-1][2]
        console.write(two, [0], SHARES, 6000)
        assert windows_of(read_events(lines, 1)) == [("stream-two", 0)]
    console.write(one, [2], SHARES, 6000)
    last = str(first[-1][1])
    with bearer.stream("GET", "/v1/stream", headers={"Last-Event-ID": last}) as response:
        told = read_events(response.iter_lines(), 4)
    assert windows_of(told) == [("stream-two", 0), ("stream-one", 2)]


def test_a_follower_that_begins_long_ago_gets_every_window_in_order_while_new_ones_come(
    console: SeededConsole, bearer: httpx.Client
) -> None:
    query = console.publish(console_query(console.proxies, "long-ago"))
    newest = console.service.windows.newest_number()
    with bearer.stream("GET", f"/v1/stream?after={newest}") as response:
        lines = response.iter_lines()
        read_events(lines, 2)
        console.write(query, range(700), SHARES, 200)  # more than are kept in memory

        def write_more() -> None:
            for index in range(700, 720):
                console.write(query, [index], SHARES, 200)

        writer = threading.Thread(target=write_more)
        with httpx.Client(base_url=console.url, headers=bearer.headers) as other:
            writer.start()
            with other.stream("GET", f"/v1/stream?after={newest}") as late:
                told = read_windows(late.iter_lines(), 720)
        writer.join()
        assert told == [("long-ago", i) for i in range(720)]
        assert read_windows(lines, 720) == told


def test_publishing_and_stopping_are_told_to_those_who_follow(
    console: SeededConsole, bearer: httpx.Client
) -> None:
    with bearer.stream("GET", "/v1/stream") as response:
        lines = response.iter_lines()
        read_events(lines, 2)
        console.publish(console_query(console.proxies, "told-of"))
        ((name, _, _),) = read_events(lines, 1)
        assert name == "queries"


def test_a_hundred_followers_cost_one_look_at_the_state(
    console: SeededConsole, bearer: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    whole = console.service.windows.of_all

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return whole(*arguments)

    monkeypatch.setattr(console.service.windows, "of_all", counted)
    limits = httpx.Limits(max_connections=200)
    with (
        httpx.Client(base_url=console.url, headers=bearer.headers, limits=limits) as many,
        ExitStack() as stack,
    ):
        for _ in range(100):
            stack.enter_context(many.stream("GET", "/v1/stream"))
        looks = 0
        time.sleep(2)
        assert looks <= 2 / 0.25 + 2


# --- plans and checks

DESIGN = {
    "proportion": 0.02,
    "buckets": 5,
    "guesses": [0.24, 0.308, 0.336, 0.094, 0.022],
    "every": "7 d",
    "epochs": 52,
    "budget": 20,
}


def post(bearer: httpx.Client, address: str, **body: Any) -> dict[str, Any]:
    answer = bearer.post(address, json={**DESIGN, **body})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_plan_goes_from_the_plus_minus_to_epsilon_and_back(bearer: httpx.Client) -> None:
    there = post(bearer, "/v1/plan", population=20_000, margin=0.008)
    found = plan(
        population=20_000, proportion=0.02, margin=0.008, buckets=5, mechanism="OptimizedUnary"
    )
    assert there["epsilon"] == pytest.approx(found.epsilon_local, rel=1e-9)
    back = post(bearer, "/v1/plan", population=20_000, epsilon=there["epsilon"])
    assert back["margin"] == pytest.approx(0.008, rel=0.01)
    people = post(bearer, "/v1/plan", margin=0.008, epsilon=there["epsilon"])
    assert people["population"] == pytest.approx(20_000, rel=0.02)
    assert there["mechanism"]["name"] == "OptimizedUnary"  # the only one that can say "no bucket"


def test_white_noise_is_refused_with_its_figure_and_each_nearest_design_works_alone(
    bearer: httpx.Client,
) -> None:
    told = post(bearer, "/v1/plan", population=2000, epsilon=0.7, proportion=0.01)
    assert not told["feasible"]
    assert told["margin"] > 0.01
    assert set(told["nearest"]) == {"population", "epsilon", "proportion"}
    for name, value in told["nearest"].items():
        assert post(
            bearer,
            "/v1/plan",
            **{"population": 2000, "epsilon": 0.7, "proportion": 0.01, name: value},
        )["feasible"], name
    wide = post(bearer, "/v1/plan", population=20_000, margin=0.03)
    assert not wide["feasible"]
    assert (
        "larger than the proportion" in wide["problem"]
        or "as large as the proportion" in wide["problem"]
    )


def test_what_a_person_risks_adds_up_over_a_month_and_a_life(bearer: httpx.Client) -> None:
    epsilon = math.log(9)
    answer, month, life = post(bearer, "/v1/plan", population=20_000, epsilon=epsilon)["risk"]
    assert answer["belief"] == pytest.approx(0.5)  # odds of 1 to 9, times 9
    assert (month["answers"], month["epsilon"]) == (5, pytest.approx(5 * epsilon))
    assert (life["answers"], life["note"]) == (9, "silent")  # 20 / 2.197
    replayed = post(bearer, "/v1/plan", population=20_000, epsilon=epsilon, memoize=True)["risk"]
    assert [row["epsilon"] for row in replayed] == pytest.approx([epsilon] * 3)


def test_the_expected_plus_minus_is_what_simulations_show(bearer: httpx.Client) -> None:
    asked = {"population": 20_000, "epsilon": 2.2}
    reaches = post(bearer, "/v1/plan", **asked)["reaches"]
    runs = [post(bearer, "/v1/simulate", **asked) for _ in range(5)]
    errors = np.concatenate([np.array(run["estimates"]) - DESIGN["guesses"] for run in runs])
    # 60 runs of 5 buckets: the root mean square of 60 normal errors is within 35 % of its sigma but
    # for 1 in 10,000
    found = 1.96 * np.sqrt((errors**2).mean(axis=0))
    assert np.all(np.abs(found / reaches - 1) < 0.36)
    covered = sum(run["covered"] for run in runs), sum(run["intervals"] for run in runs)
    assert covered[0] >= 0.88 * covered[1]  # 95 % of 300 within 5.5 standard errors


def test_a_plan_needs_a_token_and_two_of_three_figures(
    console: SeededConsole, bearer: httpx.Client
) -> None:
    assert loopback.post(f"{console.url}/v1/plan", json=DESIGN).status_code == 401
    refused = bearer.post("/v1/plan", json=DESIGN)
    assert refused.status_code in (409, 422)
    assert "must be given, except for one" in refused.json()["detail"]


def draft(**changes: Any) -> dict[str, Any]:
    given = {
        "id": "commute",
        "analyst": KEY.owner,
        "question": "How far?",
        "sql": "SELECT km FROM trips",
        "columns": [{"name": "km", "buckets": ["[0,5)", "[5,inf)"], "other": False}],
        "end": "2099-01-01",
        "mechanism": {"name": "OptimizedUnary", "epsilon": 2.0},
    }
    return {**given, **changes}


def test_a_draft_without_faults_comes_back_as_the_bytes_to_sign(
    bearer: httpx.Client, console: SeededConsole
) -> None:
    told = bearer.post("/v1/queries/check", json=draft()).json()
    assert [check for check in told["checks"] if check["level"] == "bad"] == []
    query = Query.from_content(told["query"]["content"].encode())
    assert (query.id, query.sql, list(query.proxies)) == (
        "commute",
        "SELECT km FROM trips",
        console.proxies,
    )
    assert told["query"]["digest"] == query.digest.hex()


TRAVEL = {
    "name": "travel",
    "buckets": ["foot", "bike"],
    "other": True,
    "question": {"en": "How?", "de": "Wie?"},
    "labels": {"en": ["On foot", "By bike", "Else"], "de": ["Fuß", "Rad", "Anders"]},
}


ONE_LABEL = {"other": False, "labels": {"en": ["Near"], "de": ["Nah"]}}


@pytest.mark.parametrize(
    "changes",
    [
        {"ask": "form", "columns": [TRAVEL]},
        {"ask": "value", "value": "journeys"},
        {"once": True},
        {"public_results": True},
    ],
)
def test_a_draft_says_where_its_answer_comes_from(
    bearer: httpx.Client, changes: dict[str, Any]
) -> None:
    told = bearer.post("/v1/queries/check", json=draft(**changes)).json()
    assert [check for check in told["checks"] if check["level"] == "bad"] == []
    query = Query.from_content(told["query"]["content"].encode())
    for name in ("ask", "value", "once", "public_results"):
        assert getattr(query, name) == changes.get(name, getattr(Query, name))
    assert (query.sql == "") == ("ask" in changes)
    form = query.columns[0].form
    assert (form is not None) == (changes.get("ask") == "form")
    if form is not None:
        assert dict(form.question) == TRAVEL["question"]
    answers = [each["answers"] for each in told["query"]["risk"]]
    assert (answers == [1, 1, 1]) == query.once


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"sql": "SELECT random() FROM trips"}, "sql", "random is not on the list"),
        (
            {"sql": "SELECT a, b FROM trips"},
            "sql",
            "Returns 2 columns, but there are buckets for 1",
        ),
        ({"sql": "UPDATE trips SET km = 1"}, "sql", "must begin with SELECT"),
        (
            {"columns": [{"name": "km", "buckets": ["[0,5)", "[4,inf)"]}]},
            "buckets",
            "overlaps '[0,5)': both hold 4",
        ),
        ({"every": "often"}, "every", "must be a number of whole seconds"),
        ({"end": "soon"}, "end", "must be a date such as"),
        ({"budget": 1.0}, "budget", "must pay for at least one epoch"),
        ({"id": "not a name!"}, "id", "id = "),
        ({"ask": "value", "value": "Not a name"}, "value", "1 to 63 of a-z"),
        ({"ask": "value", "value": ""}, "value", "1 to 63 of a-z"),
        ({"ask": "form"}, "form", "must be a table with 1 to 50 languages"),
        (
            {"ask": "form", "columns": [{**TRAVEL, "labels": {"en": ["On foot"], "de": ["Fuß"]}}]},
            "form",
            "must be a list of 3 texts",
        ),
        (
            {"ask": "form", "columns": [{**TRAVEL, "buckets": ["[0,1)"], **ONE_LABEL}]},
            "buckets",
            "must be a plain text or a single number",
        ),
        ({"once": True, "memoize": True}, "memoize", "once"),
    ],
)
def test_each_fault_of_a_draft_is_told_at_its_field(
    bearer: httpx.Client, changes: dict[str, Any], field: str, words: str
) -> None:
    told = bearer.post("/v1/queries/check", json=draft(**changes)).json()
    bad = [(check["field"], check["text"]) for check in told["checks"] if check["level"] == "bad"]
    assert [name for name, _ in bad] == [field]
    assert words in bad[0][1]
    assert told["query"] is None
