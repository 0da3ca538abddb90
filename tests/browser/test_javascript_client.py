"""The JavaScript client in a browser: on all vectors, and as an app uses it, over TLS and with
proxies of other origins."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import WebDriverException

from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from toolkit.servers import loopback
from toolkit.servers.browser import Browser
from toolkit.servers.certificates import self_signed
from toolkit.servers.pages import PageServer
from toolkit.servers.proxies import ProxyProcess

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]
KEY = AnalystKey("City", bytes(range(32)))
EVERY = 3

_VECTORS = """
const done = arguments[arguments.length - 1];
(async () => {
  const { parseRows } = await import("/clients/js/src/conformance.js");
  const check = await import("/clients/js/test/check_vectors.js");
  const vectors = async (name) => parseRows(await (await fetch(`/tests/vectors/${name}-v1.json`)).text());
  const found = [];
  let steps = 0;
  for (const name of ["client", "client-ask", "client-ports"]) {
    const result = await check.clientDifferences(await vectors(name));
    steps += result.steps;
    found.push(...result.found);
  }
  found.push(...(await check.queryDifferences(await vectors("query"))));
  found.push(...(await check.askDifferences(await vectors("query-ask"))));
  found.push(...(await check.versionDifferences(await vectors("version"))));
  found.push(...check.wireDifferences(await vectors("wire")));
  return { steps, found };
})().then(done, (error) => done({ steps: 0, found: [String(error)] }));
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[PageServer]:
    server = PageServer(browser.certificate)
    yield server
    server.close()


def test_a_browser_agrees_with_all_vectors(browser: Browser, page: PageServer) -> None:
    browser.driver.set_script_timeout(300)
    browser.open(f"{page.origin}/blank.html")
    said = browser.run_async(_VECTORS)
    assert said["found"] == []
    assert said["steps"] >= 1000


def test_the_browser_trusts_no_certificate_but_the_tests_own(
    browser: Browser, tmp_path: Path
) -> None:
    server = PageServer(self_signed(tmp_path, "another"))
    try:
        with contextlib.suppress(WebDriverException):  # some versions say so, others only show it
            browser.open(f"{server.origin}/blank.html")
        assert "ERR_CERT_AUTHORITY_INVALID" in browser.run("return document.body.innerText")
    finally:
        server.close()


class Crowd:
    """Two proxies that pages of one origin may use, over TLS, and a query that asks the example's
    trips."""

    def __init__(self, folder: Path, page: PageServer, certificate: Path) -> None:
        settings = (
            f'[tls]\ncertificate = "{certificate}"\nkey = "{certificate.with_suffix(".key")}"\n'
            f'[enrolment]\nmode = "open"\n[browser]\norigins = ["{page.origin}"]\n'
        )
        self.proxies = [ProxyProcess(folder / name, settings) for name in ("one", "two")]
        self.addresses = [proxy.start() for proxy in self.proxies]
        origin = int(time.time()) // EVERY * EVERY - 100 * EVERY
        query = Query(
            id="trips",
            analyst="City",
            question="How long are your trips?",
            sql="",
            ask="value",
            value="trips",
            columns=[Column("distance", ["[0,1)", "[1,2)", "[2,5)", "[5,10)", "[10,inf)"])],
            schedule=Schedule(origin, origin + 864_000, EVERY, EVERY, EVERY),
            proxies=self.addresses,
            mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
            grace=3600,
        )
        content = sign(query, KEY).to_bytes()
        for proxy in self.proxies:
            answer = loopback.put(
                f"{proxy.address}/v1/queries/trips",
                content=content,
                headers=proxy.token("operator"),
            )
            assert answer.status_code == 201, answer.text
        trusted = {
            "owner": "City",
            "public": KEY.public.raw.hex(),
            "valid_from": 0,
            "valid_until": 2**40,
            "revoked": False,
        }
        page.settings = {
            "proxies": self.addresses,
            "ring": [trusted],
            "policy": {"upload_within": 0, "epsilon_per_answer": 5, "limits": []},
            "firstEpoch": "now",
        }

    def accepted(self) -> list[int]:
        """How many shares each proxy has taken."""
        return [
            sum(n for name, n in proxy.metrics().items() if "accepted" in name)
            for proxy in self.proxies
        ]

    def close(self) -> None:
        for proxy in self.proxies:
            proxy.stop()


@pytest.fixture
def crowd(tmp_path: Path, browser: Browser, page: PageServer) -> Iterator[Crowd]:
    found = Crowd(tmp_path, page, browser.certificate)
    yield found
    found.close()


def ask(browser: Browser, expression: str) -> Any:
    """What a promise in the page comes to."""
    script = (
        f"const done = arguments[arguments.length - 1]; ({expression}).then(done, (e) => done({{"
        " error: String(e) }))"
    )
    said = browser.run_async(script)
    assert not (isinstance(said, dict) and "error" in said), said
    return said


def open_app(browser: Browser, page: PageServer) -> None:
    browser.open(f"{page.origin}/examples/web/index.html")
    assert browser.ready() == "yes"


def next_epoch() -> None:
    time.sleep(EVERY - time.time() % EVERY + 0.05)


def answered(browser: Browser) -> list[int]:
    return [
        each["epoch"] for each in ask(browser, "me.receipts()") if each["outcome"] == "answered"
    ]


def test_an_app_enrols_polls_answers_uploads_and_shows_receipts(
    browser: Browser, page: PageServer, crowd: Crowd
) -> None:
    assert {page.origin[:8], *(address[:8] for address in crowd.addresses)} == {"https://"}
    open_app(browser, page)
    ask(browser, "me.record('trips', { distance: 3.2 })")
    browser.click("answer")
    browser.wait(lambda: "Answered for epoch" in browser.text("receipts"), "there is no receipt")
    assert "3.2" not in browser.text("receipts")
    assert ask(browser, "me.nextDue()") is None
    assert crowd.accepted() == [1, 1]

    # The tab is closed and opened again: what it knew, it still knows.
    next_epoch()
    ask(browser, "me.answerAll()")
    epochs = answered(browser)
    open_app(browser, page)
    assert answered(browser) == epochs
    tokens = ask(browser, "me.change((state) => Object.keys(state.tokens).sort())")
    assert tokens == sorted(crowd.addresses)

    # Two tabs at once: one of them answers the epoch, the other finds it decided.
    first = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    second = browser.driver.current_window_handle
    open_app(browser, page)
    next_epoch()
    for tab in (first, second):
        browser.driver.switch_to.window(tab)
        browser.run("globalThis.both = me.answerAll()")
    for tab in (first, second):
        browser.driver.switch_to.window(tab)
        ask(browser, "globalThis.both")
    browser.driver.close()
    browser.driver.switch_to.window(first)

    # Without a network the known query is answered, and its shares wait.
    next_epoch()
    browser.cdp("Network.enable")
    offline = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.cdp("Network.emulateNetworkConditions", offline=True, **offline)
    before = crowd.accepted()
    ask(browser, "me.answerAll()")
    assert ask(browser, "me.nextDue()") is not None
    browser.cdp("Network.emulateNetworkConditions", offline=False, **offline)
    assert crowd.accepted() == before
    browser.wait(
        lambda: ask(browser, "me.upload().then(() => me.nextDue())") is None,
        "the shares are still waiting",
        45,
    )

    epochs = answered(browser)
    charges = ask(browser, "me.change((state) => state.charges.length)")
    assert len(epochs) == len(set(epochs)) == charges >= 4
    assert crowd.accepted() == [len(epochs)] * 2

    # The browser evicts the database: the epoch under way is not answered again, and the app can
    # say what happened.
    next_epoch()
    ask(browser, "me.answerAll()")
    epochs = answered(browser)
    browser.cdp("Storage.clearDataForOrigin", origin=page.origin, storageTypes="indexeddb")
    open_app(browser, page)
    assert "deleted this page's data" in browser.text("status")
    ask(browser, "me.record('trips', { distance: 3.2 })")
    ask(browser, "me.answerAll()")
    next_epoch()
    ask(browser, "me.answerAll()")
    later = answered(browser)
    assert later
    assert not set(later) & set(epochs)

    # The switch: nothing is asked, answered or sent.
    browser.click("enabled")
    browser.wait(lambda: ask(browser, "me.enabled()") is False, "it is still on")
    sent = crowd.accepted()
    next_epoch()
    assert ask(browser, "me.answerAll()") == []
    assert crowd.accepted() == sent
    assert json.dumps(browser.complaints()) == "[]"
