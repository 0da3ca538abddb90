"""Looking back in a browser: two periods compared from kept counts, cuts, conditionals, and what it
costs people: nothing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from deniable.aggregator.windows.granules import form_granules
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from toolkit.servers import loopback
from toolkit.servers.browser import Browser
from toolkit.servers.consoles import SeededConsole, console_query, seeded_console

EARLY = [0.24, 0.308, 0.179, 0.097, 0.06, 0.036, 0.021, 0.017, 0.008, 0.006, 0.022]
LATE = [0.34, 0.208, *EARLY[2:]]
"""Ten points move from the second bucket to the first; the others stay."""
ZONES = ["Manhattan", "Brooklyn", "Queens"]


def count(
    console: SeededConsole,
    query: Query,
    epoch: int,
    shares: list[float],
    n: int,
    source: np.random.Generator,
) -> None:
    """The counts that an engine keeps of an epoch, and its window."""
    a, b = query.mechanism.support()
    true = source.multinomial(n, [*shares, max(0.0, 1 - sum(shares))])[: len(shares)]
    counts = (source.binomial(true, a) + source.binomial(n - true, b)).astype("<i8")
    console._pen.execute(
        "INSERT INTO panes VALUES (?, ?, ?, 0, ?, 0, ?)",
        (query.id, query.serial, epoch, n, counts.tobytes()),
    )
    form_granules(console._pen, [query], range(epoch + 1))
    console.write(query, [epoch], shares, n)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    source = np.random.default_rng(5)
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        trips = found.publish(console_query(found.proxies))
        for epoch in range(36):
            count(found, trips, epoch, EARLY if epoch < 18 else LATE, 6000, source)
        columns = [Column("pick-up", ZONES, kind="text"), Column("drop-off", ZONES, kind="text")]
        zones = found.publish(
            console_query(found.proxies, "zones", columns=columns, sql="SELECT a, b FROM trips")
        )
        joint = (np.diag([0.4, 0.2, 0.1]) + 0.3 / 9).ravel().tolist()
        for epoch in range(36):
            count(found, zones, epoch, joint, 9000, source)
        yield found


def look(browser: Browser, console: SeededConsole, rest: str = "") -> None:
    browser.sign_in(console.url, console.analyst, f"#look?q=trip-distance{rest}")
    assert browser.ready() == "look", browser.text("look-problem")


def test_two_periods_are_told_apart_where_they_differ_and_nowhere_else(
    browser: Browser, console: SeededConsole
) -> None:
    look(browser, console)
    # Intervals that hold together at 95 %: with this seed no bucket that stayed is called
    # different.
    assert browser.text("finding") == "2 of 11 buckets differ"
    assert "more in B" in browser.text("compare-0")
    assert "less in B" in browser.text("compare-1")
    assert "no clear difference" in browser.text("compare-2")
    assert "nobody's epsilon grew" in browser.text("read")
    assert browser.complaints() == []
    browser.picture("lookback-light")
    browser.click("export-compare")
    rows = list(
        csv.DictReader(
            io.StringIO(browser.download("trip-distance-compared.csv").decode(), newline="")
        )
    )
    assert [row["label"] for row in rows][:2] == ["[0,1)", "[1,2)"]
    assert float(rows[0]["low"]) > 0


def written_numbers(text: str) -> list[float]:
    """The numbers in a text of the page, whose minus is not a hyphen."""
    return [
        float(number) for number in re.findall(r"[-+]?\d+(?:\.\d+)?", text.replace("\u2212", "-"))
    ]


def test_the_figures_are_those_of_the_interface(browser: Browser, console: SeededConsole) -> None:
    look(browser, console)
    given = dict(
        part.split("=") for part in browser.run("return location.hash").split("?")[1].split("&")
    )
    (a_from, a_to), (b_from, b_to) = given["a"].split("-"), given["b"].split("-")
    asked = {
        "from": b_from,
        "to": b_to,
        "against_from": a_from,
        "against_to": a_to,
        "simultaneous": "true",
        "source": "panes",
    }
    headers = {"Authorization": f"Bearer {console.analyst}"}
    told = loopback.get(
        f"{console.url}/v1/queries/trip-distance/history", params=asked, headers=headers
    ).json()
    difference = told["against"]["difference"]
    shown = written_numbers(
        browser.run("return arguments[0].cells[5].innerText", browser.find("compare-0"))
    )
    expected = [100 * difference[name][0] for name in ("difference", "low", "high")]
    assert shown == pytest.approx(expected, abs=0.051)


def test_intervals_that_hold_alone_are_narrower(browser: Browser, console: SeededConsole) -> None:
    look(browser, console)

    def reach() -> float:
        text = browser.run("return arguments[0].cells[5].innerText", browser.find("compare-2"))
        _, low, high = written_numbers(text)
        return high - low

    together = reach()
    browser.click("together")
    browser.wait(lambda: reach() < together, "the interval is as wide as before")


def test_a_period_moves_by_keys_and_by_the_pointer_and_the_address_follows(
    browser: Browser, console: SeededConsole
) -> None:
    look(browser, console)
    before = browser.text("period-A")
    browser.run("arguments[0].focus()", browser.find("brush-A-to"))
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    browser.wait(lambda: browser.text("period-A") != before, "the key moved nothing")
    moved = browser.text("period-A")
    knob = browser.driver.find_element("css selector", "[data-testid=brush-B-from] .grip-hit")
    ActionChains(browser.driver).click_and_hold(knob).move_by_offset(60, 0).release().perform()
    link = browser.wait(lambda: browser.run("return location.hash"), "no address")
    later = browser.text("period-B")
    browser.open(f"{console.url}/console/{link}")
    assert browser.ready() == "look"
    assert (browser.text("period-A"), browser.text("period-B")) == (moved, later)


def test_a_period_is_cut_by_hour_and_composite_buckets_are_conditioned_on(
    browser: Browser, console: SeededConsole
) -> None:
    look(browser, console, "&by=hour")
    browser.wait(lambda: browser.all("heat"), "no parts")
    assert "by hour" in browser.text("cut-words")
    browser.open(f"{console.url}/console/#look?q=zones")
    assert browser.ready() == "look"
    browser.run(
        "document.querySelector('[data-testid=switch-given] input[value=\"pick-up\"]').click()"
    )
    browser.wait(lambda: "by pick-up" in browser.text("cut-words"), "no condition")
    cells = [
        written_numbers(cell.text)
        for cell in browser.driver.find_elements("css selector", "[data-testid=heat] td.cell")
    ]
    assert len(cells) == 9
    share, low, high = np.array(cells[:3]).T
    true = np.array([0.4 + 0.3 / 9, 0.3 / 9, 0.3 / 9]) / 0.5 * 100
    assert np.all(np.abs(share - true) < high - low)  # intervals of 95 %, twice as wide: seed 5
    browser.picture("lookback-given")


def test_an_aggregator_without_stored_reports_says_so_where_the_data_would_be(
    browser: Browser, console: SeededConsole
) -> None:
    look(browser, console)
    browser.run(
        "document.querySelector('[data-testid=switch-fraction] input[value=\"0.1\"]').click()"
    )
    browser.wait(lambda: "keeps no reports" in browser.text("look-problem"), "no reason was given")


def test_on_a_phone_nothing_scrolls_sideways(browser: Browser, console: SeededConsole) -> None:
    browser.size(390, 844, phone=True)
    look(browser, console)
    assert not browser.overflows()
    browser.picture("lookback-phone")


_MARKS = (
    "return [...document.querySelectorAll('dn-bars, dn-timeline, dn-compare, dn-overview,"
    " dn-preview')].flatMap((chart) => [...chart.querySelectorAll('circle, rect, path, line')])"
    ".filter((mark) => !mark.closest('defs')).map((mark) => mark.getBoundingClientRect())"
    ".map((box) => [Math.round(box.left), Math.round(box.width)])"
)


@pytest.mark.parametrize("page", ["#live?q=trip-distance", "#look?q=trip-distance", "#ask"])
def test_a_resized_or_rotated_page_has_its_marks_where_a_new_one_has_them(
    browser: Browser, console: SeededConsole, page: str
) -> None:
    def visit(width: int, height: int) -> list[list[int]]:
        browser.forget()
        browser.size(width, height)
        browser.sign_in(console.url, console.analyst, page)
        browser.ready()
        found: list[list[int]] = []

        def still() -> bool:
            nonlocal found
            before, found = found, browser.run(_MARKS)
            return bool(found) and before == found

        browser.wait(still, "the charts keep moving")
        return found

    sizes = [(1000, 900), (390, 844), (844, 390), (1440, 1000)]
    expected = {}
    for size in sizes:
        expected[size] = visit(*size)
    assert expected[1000, 900] != expected[390, 844], (
        "the size makes no difference: nothing is tried"
    )
    for size in sizes:  # from the last one, and from each to the next
        browser.size(*size)
        wanted = expected[size]
        browser.wait(lambda: browser.run(_MARKS) == wanted, f"{page} at {size}")  # noqa: B023
