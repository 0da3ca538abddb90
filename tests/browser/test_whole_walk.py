"""The whole walk in a browser against real services: plan, sign, publish, watch, survive a restart,
compare, export, stop."""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver import ActionChains

from deniable.local.crowd import Crowd
from deniable.local.people import Answers
from deniable.local.services import Address, Aggregator, LocalProxy, Services, free_ports
from deniable.queries.query import Query
from toolkit.crowds import KEY, RING
from toolkit.servers import loopback
from toolkit.servers.browser import Browser

PEOPLE = 2000
SHARES = (0.24, 0.31, 0.34, 0.09, 0.02)


class Walk:
    """Two proxies and an aggregator, each a process, and people who answer what is published."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(3)
        intake = {"deadline": 1, "grace": 1, "skew": 2}
        self.proxies = [
            LocalProxy(f"proxy-{i}", Address(port=port), intake=intake)
            for i, port in enumerate(ports[1:])
        ]
        self.aggregator = Aggregator(Address(port=ports[0]), limits={"patience": 300})
        self.services = Services(folder / "services", RING, self.proxies, self.aggregator)
        self.url = self.aggregator.address.url
        self.token = self.services.analyst_token_file.read_text().strip()
        self._tokens = [self.services.token(proxy, quota=10_000_000) for proxy in self.proxies]
        self._crowd: Crowd | None = None

    def get(self, address: str) -> dict[str, list[object]]:
        return dict(
            loopback.get(
                f"{self.url}{address}", headers={"Authorization": f"Bearer {self.token}"}
            ).json()
        )

    def answer(self, query: Query) -> None:
        """Let people answer from now on, as their devices would."""
        rows = (
            np.repeat(np.arange(5), (np.array(SHARES) * PEOPLE).astype(int)).reshape(-1, 1).tolist()
        )
        self._crowd = Crowd(query, Answers(query, rows), self._tokens, [])
        self._crowd.start()

    def close(self) -> None:
        if self._crowd is not None:
            self._crowd.stop()

    def restart_aggregator(self) -> None:
        self.services.kill("aggregator")
        time.sleep(1.5)
        self.services.start("aggregator")
        self.services.wait_until_up("aggregator")


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    found = Walk(tmp_path)
    with found.services, contextlib.closing(found):
        yield found


def test_an_analyst_plans_signs_publishes_watches_through_a_restart_compares_exports_and_stops(
    browser: Browser, walk: Walk, tmp_path: Path
) -> None:
    KEY.save(tmp_path / "key")
    browser.sign_in(walk.url, walk.token, "#ask?population=2000&epsilon=3&proportion=0.1")
    assert browser.ready() == "ask"
    _plan(browser)
    _publish(browser, tmp_path / "key")
    told = walk.get("/v1/public/queries")["queries"][0]
    assert isinstance(told, dict)
    query = Query.from_content(told["signed"]["query"].encode())
    assert query.id == "walked"
    walk.answer(query)
    assert browser.wait(
        lambda: browser.run("return document.documentElement.dataset.ready") == "live",
        "no window came",
        40,
    )

    def newest() -> int:
        return int(browser.text("window-index").removeprefix("window "))

    first = newest()
    browser.wait(lambda: newest() >= first + 2, "no further window came")
    walk.restart_aggregator()
    before = newest()
    browser.wait(lambda: newest() >= before + 3, "no window came after the restart", 40)
    assert browser.text("connection").startswith("live")
    shown = browser.run("return document.querySelector('dn-timeline svg').ariaLabel")
    stored = walk.get("/v1/queries/walked/series?limit=1000")
    indices = [int(str(index)) for index in stored["index"]]
    assert indices == list(range(indices[0], indices[0] + len(indices))), (
        "the aggregator lost a window"
    )
    assert len(indices) - 2 <= int(shown.split(", ")[1].split()[0]) <= len(indices), (
        "the page lost a window"
    )
    browser.click("export-csv")
    assert browser.wait(
        lambda: list(browser.downloads.glob("walked-window-*.csv")), "nothing was exported"
    )
    browser.picture("walk-live")
    _look_back(browser, walk)
    _stop(browser, walk)
    assert browser.complaints() == []


def _plan(browser: Browser) -> None:
    """Drag the ± to something narrower, and see epsilon follow."""
    browser.wait(lambda: not browser.run("return document.querySelector('.pending')"), "no plan")
    script = (
        "return"
        " document.querySelector('[data-testid=dial-epsilon]').closest('.dial').querySelector('output').textContent"
    )
    before = float(browser.run(script))
    grip = browser.driver.find_element("css selector", "[data-testid=grip] .grip-box")
    ActionChains(browser.driver).click_and_hold(grip).move_by_offset(-6, 0).release().perform()
    browser.wait(lambda: float(browser.run(script)) > before, "epsilon did not follow the ±")


def _is_published(browser: Browser) -> bool:
    if browser.run("return location.hash").startswith("#live"):
        return True
    if browser.find("publish").is_enabled():
        browser.click("publish")
    return False


def _publish(browser: Browser, key: Path) -> None:
    tomorrow = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2)).date().isoformat()
    typed = (
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles:"
        " true}))"
    )
    for field, value in (
        ("query-name", "walked"),
        ("every", "2 s"),
        ("end", tomorrow),
        ("budget", ""),
    ):
        browser.run(typed, browser.find(field), value)
    browser.find("key-file").send_keys(str(key))
    browser.wait(lambda: browser.find("publish").is_enabled(), "it cannot be published")
    time.sleep(0.6)
    # The button is disabled while the page checks what was typed: it is clicked whenever it can be.
    browser.wait(lambda: _is_published(browser), "it was not published")


def _look_back(browser: Browser, walk: Walk) -> None:
    browser.run("location.hash = '#look?q=walked'")
    browser.wait(
        lambda: str(browser.run("return document.documentElement.dataset.ready") or "").startswith(
            "look"
        ),
        "no view of the past",
    )
    known = loopback.get(f"{walk.url}/openapi.json").json()["paths"]
    # an aggregator without a history says so, where the data would be
    if "/v1/queries/{query_id}/history" not in known:
        assert browser.find("look-problem").is_displayed()
        return
    assert browser.run("return document.documentElement.dataset.ready") == "look", browser.text(
        "look-problem"
    )
    assert "of 5 buckets differ" in browser.text("finding")
    assert len(browser.driver.find_elements("css selector", "dn-compare tbody tr")) == 5
    browser.picture("walk-look-back")


def _stop(browser: Browser, walk: Walk) -> None:
    browser.run("location.hash = '#live?q=walked'")
    browser.wait(lambda: browser.all("stop"), "no button to stop it")
    browser.run("window.confirm = () => true")
    browser.click("stop")
    browser.wait(lambda: browser.text("condition") == "stopped", "it was not stopped")
    queries = loopback.get(
        f"{walk.url}/v1/queries", headers={"Authorization": f"Bearer {walk.token}"}
    ).json()
    assert queries[0]["stopped"] is not None
