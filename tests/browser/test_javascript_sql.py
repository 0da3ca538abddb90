"""SQL in the JavaScript client, in a browser: what is granted is answered, and its worker has no way
out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from toolkit.servers.browser import Browser
from toolkit.servers.pages import PageServer, sqlite_package

REQUIRED = os.environ.get("DENIABLE_REQUIRE_BROWSER") == "1"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(
        not REQUIRED and not sqlite_package().exists(), reason="sqlite-wasm is not installed"
    ),
]

_ANSWERS = """
const [texts, done] = arguments;
(async () => {
  const { sqlRows } = await import("/clients/js/src/sql/index.js");
  const { Query } = await import("/clients/js/src/query.js");
  const { Policy } = await import("/clients/js/src/policy.js");
  const trips = [{ distance: 0.5, secret: 1 }, { distance: 3, secret: 2 }];
  const rows = await sqlRows({
    grant: { trips: { distance: "REAL" } }, tables: () => trips, sqlite: "/sqlite/sqlite-wasm/jswasm/sqlite3.mjs",
  });
  const policy = new Policy({ upload_within: 0, deadline: 20 }, []);
  const words = { some: (n, most) => Array.from({ length: Math.min(n, most) }, (_, i) => i) };
  const said = [];
  for (const text of texts) {
    const source = await rows(new Query(text), {}, policy);
    said.push("refusal" in source ? source.refusal.reason : await source.find(words));
  }
  return said;
})().then(done, (error) => done(String(error)));
"""

_WAYS_OUT = """
const done = arguments[arguments.length - 1];
const code = `
  const post = postMessage.bind(self);
  import("${location.origin}/clients/js/src/sql/confinement.js").then(({ confine, WAYS_OUT }) => {
    const kept = new Set();
    const before = WAYS_OUT.filter((name) => self[name] !== undefined);
    confine();
    for (let at = self; at && at !== Object.prototype; at = Object.getPrototypeOf(at)) {
      for (const name of Object.getOwnPropertyNames(at)) if (self[name] !== undefined) kept.add(name);
    }
    post({ before, kept: [...kept] });
  }).catch((error) => post(String(error)));`;
const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
worker.onmessage = ({ data }) => done(data);
worker.onerror = (event) => done(String(event.message));
"""
_GONE = {"fetch", "XMLHttpRequest", "WebSocket", "importScripts", "EventSource", "indexedDB"}
_GONE |= {"caches", "BroadcastChannel", "navigator", "postMessage", "setTimeout", "Worker"}


@pytest.fixture(scope="module")
def page() -> Iterator[PageServer]:
    server = PageServer()
    yield server
    server.close()


def text_of(sql: str) -> str:
    query = Query(
        id="q",
        analyst="City",
        question="How far?",
        sql=sql,
        columns=[Column("x", ["[0,1)", "[1,2)", "[2,5)"], other=True)],
        schedule=Schedule(0, 86_400, 3600, 3600, 3600),
        proxies=["https://one.example", "https://two.example"],
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
    )
    return query.content.decode()


def test_a_browser_answers_sql_on_what_is_granted(browser: Browser, page: PageServer) -> None:
    cases: dict[str, Any] = {
        "SELECT max(distance) FROM trips": [[2]],
        "SELECT count(*) - 1 FROM trips WHERE date('2026-02-28', '+1 day') = '2026-03-01'": [[1]],
        "SELECT abs(-9223372036854775807 - 1)": [[3]],
        "SELECT secret FROM trips": "not shared",
        "SELECT random()": "forbidden SQL",
        "SELECT 1, 2": "columns",
    }
    browser.driver.set_script_timeout(300)
    browser.open(f"{page.origin}/blank.html")
    said = browser.run_async(_ANSWERS, [text_of(sql) for sql in cases])
    assert said == list(cases.values())
    assert browser.complaints() == []


def test_the_worker_of_a_browser_has_no_way_out(browser: Browser, page: PageServer) -> None:
    browser.open(f"{page.origin}/blank.html")
    said = browser.run_async(_WAYS_OUT)
    assert isinstance(said, dict), said
    assert {"fetch", "indexedDB", "importScripts"} <= set(said["before"])
    assert not _GONE & set(said["kept"])
    assert len(said["kept"]) < 75, sorted(said["kept"])
