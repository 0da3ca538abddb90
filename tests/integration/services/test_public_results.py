"""The results of queries that say that theirs are public: for anyone, in any page, and nothing that
is withheld."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.public_results import PUBLIC_PAGES
from deniable.aggregator.windows.assembling import assemble
from deniable.counts import Counts
from deniable.queries.query import Query
from toolkit.servers.consoles import SeededConsole, console_query
from toolkit.servers.served import served

pytestmark = pytest.mark.slow

EVEN = [1 / 11] * 11


class Public:
    """An aggregator with seeded windows, and anyone's client."""

    def __init__(self, console: SeededConsole, client: httpx.Client) -> None:
        self.console, self.client = console, client
        self.query = console.publish(console_query(console.proxies, public_results=True))

    def get(self, query_id: str = "", **headers: str) -> httpx.Response:
        return self.client.get(
            f"/v1/public/queries/{query_id or self.query.id}/results", headers=headers
        )

    def indices(self) -> list[int]:
        return [window["index"] for window in self.get().json()["windows"]]


@pytest.fixture
def public(tmp_path: Path) -> Iterator[Public]:
    console = SeededConsole(tmp_path)
    with served(create_app(console.service), pages=PUBLIC_PAGES) as client:
        yield Public(console, client)
    console.close()


def test_anyone_reads_the_released_windows_newest_first_and_page_by_page(public: Public) -> None:
    public.console.write(public.query, range(5), EVEN, 400)
    assert public.indices() == [4, 3, 2, 1, 0]
    seen, end = [], None
    while True:
        params: dict[str, Any] = {"limit": 2} if end is None else {"limit": 2, "end": end}
        page = public.client.get(
            f"/v1/public/queries/{public.query.id}/results", params=params
        ).json()
        seen += [window["index"] for window in page["windows"]]
        if (end := page["next"]) is None:
            break
    assert seen == [4, 3, 2, 1, 0]
    window = public.get().json()["windows"][0]
    assert len(window["estimate"]) == len(window["low"]) == len(window["labels"]) == 11
    assert window["n"] == 400


def test_nothing_that_is_withheld_shows(public: Public) -> None:
    public.console.write(
        public.query,
        [0],
        EVEN,
        400,
        held_back=37,
        notes=["37 answers are held back: they are too few"],
    )
    public.console.write(public.query, [1], EVEN, public.query.minimum_cohort - 1)
    answer = public.get()
    (window,) = answer.json()["windows"]
    assert window["index"] == 0
    assert window["notes"] == [
        "some answers are not included, and could move a proportion further than the limits say"
    ]
    assert set(answer.json()) == {"query", "windows", "next"}
    hidden = {
        "held_back",
        "conservation",
        "nothing",
        "missing",
        "influence",
        "expected",
        "reports",
        "covariance",
        "strata",
    }
    assert not hidden & set(window)
    # The values are compared: times and identifiers may contain the digits of any number.
    withheld = {37, public.query.minimum_cohort - 1}
    assert not withheld & set(numbers(answer.json()))


@pytest.mark.parametrize(
    ("lost", "condition"),
    [
        ({"missing": ["proxy-a"]}, "proxy down"),
        ({"account": {"malformed": 40_000}}, "malformed"),
        ({"account": {"orphaned": 40_000}}, "incomplete"),
        ({"held_back": 40_000}, "complete"),
    ],
)
def test_no_note_tells_of_accounts(public: Public, lost: dict[str, Any], condition: str) -> None:
    query, proxies = public.query, public.console.proxies
    panes = {PaneKey(query.id, query.serial, 0, 0): Counts(np.full(11, 80), 400)}
    account = {"counted": 400, **lost.get("account", {})}
    window = assemble(
        [query],
        0,
        panes,
        lost.get("missing", []),
        {"proxies": dict.fromkeys(proxies, account)},
        held_back=lost.get("held_back", 0),
    )
    assert window.condition == condition
    assert window.estimate is not None
    whole = assemble([query], 0, panes).estimate
    assert whole is not None
    notes = window.estimate.notes
    (told,) = set(notes) - set(whole.notes)
    public.console.write(query, [0], EVEN, 400, condition=condition, notes=list(notes))
    (shown,) = public.get().json()["windows"]
    assert shown["notes"][:-1] == [note for note in notes if note != told]
    assert shown["notes"][-1].startswith("some answers are not included")


def numbers(document: Any) -> Iterator[float]:
    """Every number of a document, at any depth."""
    if isinstance(document, dict):
        document = list(document.values())
    if isinstance(document, list):
        for each in document:
            yield from numbers(each)
    elif isinstance(document, int | float):
        yield document


def test_a_revised_window_shows_its_newest_result_once(public: Public) -> None:
    public.console.write(public.query, [0], EVEN, 400, revision=0, final=False)
    public.console.write(public.query, [0], EVEN, 500, revision=1)
    (window,) = public.get().json()["windows"]
    assert (window["n"], window["revision"], window["final"]) == (500, 1, True)


def test_caches_may_keep_it_and_ask_cheaply(public: Public) -> None:
    public.console.write(public.query, range(2), EVEN, 400)
    first = public.get()
    assert first.headers["cache-control"] == "public, max-age=30"
    tag = first.headers["etag"]
    again = public.get(**{"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    public.console.write(public.query, [2], EVEN, 400)
    assert public.get(**{"If-None-Match": tag}).status_code == 200


def test_a_query_that_does_not_say_so_is_not_found(public: Public) -> None:
    private = public.console.publish(console_query(public.console.proxies, id="private"))
    public.console.write(private, range(2), EVEN, 400)
    unknown, hidden = public.get("nowhere"), public.get("private")
    assert (unknown.status_code, hidden.status_code) == (404, 404)
    assert unknown.json() == hidden.json()
    # nor with a token
    assert (
        public.get("private", Authorization=f"Bearer {public.console.analyst}").status_code == 404
    )


def revised(public: Public, query: Query, **changes: Any) -> Query:
    return public.console.publish(query.revised(**changes))


def test_windows_of_a_version_that_is_not_public_stay_closed_and_so_do_later_ones(
    public: Public,
) -> None:
    public.console.write(public.query, [0, 1], EVEN, 400)
    private = revised(public, public.query, public_results=False)
    public.console.write(private, [2], EVEN, 400)
    again = revised(public, private, public_results=True)
    # it may contain answers to the version that was not public
    public.console.write(again, [3], EVEN, 400)
    assert public.indices() == [1, 0]


def test_making_a_query_public_later_opens_nothing(public: Public) -> None:
    first = public.console.publish(console_query(public.console.proxies, id="later"))
    public.console.write(first, [0], EVEN, 400)
    second = revised(public, first, public_results=True)
    public.console.write(second, [1], EVEN, 400)
    assert public.get("later").status_code == 404


def test_pages_of_every_origin_may_read_it_and_nothing_else(public: Public) -> None:
    public.console.write(public.query, [0], EVEN, 400)
    path = f"/v1/public/queries/{public.query.id}/results"
    for address in (
        path,
        "/v1/public/feed",
        "/v1/public/queries/nowhere/results",
        f"{path}?limit=x",
    ):
        answer = public.client.get(address, headers={"Origin": "https://evil.example"})
        assert answer.headers.get_list("access-control-allow-origin") == ["*"], address
        assert "access-control-allow-credentials" not in answer.headers
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "GET"}
    preflight = public.client.options(path, headers=asked)
    assert (preflight.status_code, preflight.headers["access-control-allow-methods"]) == (
        204,
        "GET",
    )
    for closed in (
        f"/v1/queries/{public.query.id}/results",
        "/v1/queries",
        "/metrics",
        f"/v1/public/queries/{public.query.id}",
    ):
        answer = public.client.get(closed, headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in answer.headers, closed
        assert (
            "access-control-allow-origin"
            not in public.client.options(closed, headers=asked).headers
        )
