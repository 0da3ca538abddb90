"""The public view, and what everyone needs: signatures checked in the browser, and nothing serious
that axe-core finds."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from deniable.aggregator.state import connect
from deniable.aggregator.web.tokens import add_token, revoke_tokens, token_id
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from toolkit.crowds import KEY
from toolkit.servers.browser import Browser, serious_findings
from toolkit.servers.consoles import SeededConsole, console_query, seeded_console

SHARES = [0.24, 0.308, 0.179, 0.097, 0.06, 0.036, 0.021, 0.017, 0.008, 0.006, 0.022]


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        trips = found.publish(console_query(found.proxies, budget=Budget(epsilon=20.0)))
        found.write(trips, range(36), SHARES, 6000)
        places = [
            Column("pick-up", ["north", "south"], kind="text"),
            Column("drop-off", ["north", "south"], kind="text"),
        ]
        zones = found.publish(
            console_query(found.proxies, "trip-zones", columns=places, sql="SELECT a, b FROM trips")
        )
        found.write(zones, range(36), [0.4, 0.1, 0.2, 0.3], 6000)
        yield found


def test_anyone_sees_what_is_asked_and_the_browser_checks_the_signatures(
    browser: Browser, console: SeededConsole
) -> None:
    browser.open(f"{console.url}/console/#public")
    assert browser.ready() == "public"
    assert browser.text("signatures") == "2 of 2"
    assert "2 questions by 1 analyst" in browser.text("lead")
    assert "SELECT distance FROM trips" in browser.text("public-trip-distance")
    assert "verified here" in browser.text("signature-trip-distance")
    browser.wait(lambda: "checking" not in browser.text("chain"), "the chain is not checked")
    assert browser.text("chain") == "2 lines, the chain verifies: checked here"
    assert browser.text("feed-head") == str(console.service.feed.head)
    assert browser.complaints() == []
    browser.picture("public-light")
    browser.size(390, 844, phone=True)
    browser.wait(lambda: not browser.overflows(), "a phone scrolls sideways")


def test_a_question_that_was_changed_after_it_was_signed_is_called_so(
    browser: Browser, console: SeededConsole
) -> None:
    with console.service.writing() as connection:
        row = connection.execute("SELECT signed FROM queries WHERE id = 'trip-distance'").fetchone()
        signed = json.loads(row[0])
        signed["query"] = signed["query"].replace("How many miles", "How many kilometres")
        connection.execute(
            "UPDATE queries SET signed = ? WHERE id = 'trip-distance'",
            (json.dumps(signed).encode(),),
        )
    try:
        browser.open(f"{console.url}/console/#public")
        assert browser.ready() == "public"
        assert browser.text("signatures") == "1 of 2"
        assert "does not hold" in browser.text("signature-trip-distance")
    finally:
        with console.service.writing() as connection:
            connection.execute("UPDATE queries SET signed = ? WHERE id = 'trip-distance'", row)


def test_a_feed_with_a_changed_line_is_called_so(browser: Browser, console: SeededConsole) -> None:
    path = console.settings.feed_path
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"serial":1', b'"serial":2', 1))
    try:
        browser.open(f"{console.url}/console/#public")
        browser.wait(lambda: "checking" not in browser.text("chain"), "the chain is not checked")
        assert browser.text("chain") == "line 1 was changed"
    finally:
        path.write_bytes(content)


def test_composite_buckets_are_drawn_as_a_table_of_cells(
    browser: Browser, console: SeededConsole
) -> None:
    browser.sign_in(console.url, console.analyst, "#live?q=trip-zones")
    browser.ready()
    # In one step: a window that arrives meanwhile draws the table anew.
    cells = browser.run(
        "return [...document.querySelectorAll('[data-testid=heat] td.cell')].map(cell =>"
        " cell.innerText)"
    )
    assert len(cells) == 4
    assert all(" to " in cell for cell in cells)
    browser.picture("live-heat")


PAGES = [
    "#live?q=trip-distance",
    "#live?q=trip-zones",
    "#live?side=1",
    "#ask",
    "#ask?population=2000&epsilon=0.7&proportion=0.01",
    "#look",
    "#public",
]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_any_page(
    browser: Browser, console: SeededConsole, axe_source: str, theme: str
) -> None:
    browser.sign_in(console.url, console.analyst, PAGES[0])
    browser.theme(theme)
    browser.cdp("Page.setBypassCSP", enabled=True)  # for axe's own script alone
    try:
        found = {
            page: serious(browser, axe_source, f"{console.url}/console/{page}") for page in PAGES
        }
    finally:
        browser.cdp("Page.setBypassCSP", enabled=False)
    assert found == {page: [] for page in PAGES}


def serious(browser: Browser, axe_source: str, address: str) -> list[str]:
    browser.open(address)
    browser.ready()
    return serious_findings(browser, axe_source)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_page_where_one_signs_in(
    browser: Browser, console: SeededConsole, axe_source: str, theme: str
) -> None:
    browser.open(f"{console.url}/console/")
    browser.theme(theme)
    browser.cdp("Page.setBypassCSP", enabled=True)
    try:
        browser.open(f"{console.url}/console/#live")
        browser.wait(lambda: bool(browser.all("sign-in")), "no form to sign in with")
        assert serious_findings(browser, axe_source) == []
    finally:
        browser.cdp("Page.setBypassCSP", enabled=False)


def test_the_keyboard_alone_reaches_the_switches_and_skips_to_the_content(
    browser: Browser, console: SeededConsole
) -> None:
    browser.sign_in(console.url, console.analyst, "#live?q=trip-distance")
    browser.ready()
    assert browser.run("return document.querySelector('.skip').getAttribute('href')") == "#main"
    heads = browser.run(
        "return [document.querySelectorAll('h1').length, document.querySelectorAll('main, nav,"
        " header, aside').length]"
    )
    assert heads[0] == 1
    assert heads[1] >= 4
    unnamed = browser.run(
        "return [...document.querySelectorAll('button, a, input, select')].filter((each) =>"
        " !(each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length ||"
        " each.title)).length"
    )
    assert unnamed == 0


def test_a_page_that_anyone_may_open_is_connected_for_those_who_have_signed_in(
    browser: Browser, console: SeededConsole
) -> None:
    browser.sign_in(console.url, console.analyst, "#live?q=trip-distance")
    browser.ready()
    browser.open(f"{console.url}/console/#public")
    browser.ready()
    browser.wait(lambda: browser.text("connection").startswith("live"), "it is not connected")


def test_a_token_that_is_revoked_leads_back_to_where_one_signs_in(
    browser: Browser, console: SeededConsole
) -> None:
    pen = connect(console.settings.state)
    try:
        token = add_token(pen, KEY.owner, ["read"], 0, label="for a while")
        browser.sign_in(console.url, token, "#live?q=trip-distance")
        browser.ready()
        browser.wait(lambda: browser.text("connection").startswith("live"), "it is not connected")
        revoke_tokens(pen, token_id(token))
    finally:
        pen.close()
    browser.wait(lambda: bool(browser.all("sign-in")), "nobody is asked to sign in")


def test_what_could_not_be_shown_is_shown_once_the_aggregator_is_back(
    browser: Browser, console: SeededConsole
) -> None:
    browser.sign_in(console.url, console.analyst, "#live?q=trip-distance")
    browser.ready()
    away = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.cdp("Network.enable")
    browser.cdp("Network.emulateNetworkConditions", offline=True, **away)
    try:
        browser.run("location.hash = '#live?q=trip-zones'")
        browser.wait(lambda: bool(browser.all("failed")), "nothing failed")
    finally:
        back = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        browser.cdp("Network.emulateNetworkConditions", offline=False, **back)
    browser.wait(lambda: bool(browser.all("heat")), "it was not drawn again")
