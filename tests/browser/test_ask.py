"""Asking by accuracy in a browser: checks while one types, the ± that is dragged, refusals, a key
that stays, publishing."""

from __future__ import annotations

import datetime
import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from deniable.planning.plan import plan
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery, authenticate
from toolkit.crowds import KEY, RING
from toolkit.servers.browser import Browser
from toolkit.servers.consoles import SeededConsole, seeded_console


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        yield found


def ask(browser: Browser, console: SeededConsole, rest: str = "", token: str = "") -> None:
    browser.sign_in(console.url, token or console.analyst, f"#ask{rest}")
    assert browser.ready() == "ask"


def figure(browser: Browser, name: str) -> float:
    """What a dial says."""
    text = browser.run(
        "return arguments[0].closest('.dial').querySelector('output').textContent",
        browser.find(f"dial-{name}"),
    )
    return float(re.sub(r"[^0-9.]", "", text))


def settled(browser: Browser) -> None:
    """Wait for the server's plan."""
    browser.wait(
        lambda: not browser.run("return document.querySelector('.pending')"),
        "the plan is still pending",
    )


def type_into(browser: Browser, testid: str, text: str) -> None:
    script = (
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles:"
        " true}))"
    )
    browser.run(script, browser.find(testid), text)


def test_dragging_the_plus_minus_moves_epsilon_as_the_planner_says(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console, "?population=20000&epsilon=2.2&proportion=0.02")
    settled(browser)
    assert figure(browser, "epsilon") == 2.2
    before = figure(browser, "margin")
    browser.picture("ask-light")
    expected = plan(
        population=20_000, proportion=0.02, epsilon=2.2, buckets=5, mechanism="OptimizedUnary"
    )
    assert before == pytest.approx(100 * expected.margin, abs=0.06)
    grip = browser.driver.find_element("css selector", "[data-testid=grip] .grip-box")
    ActionChains(browser.driver).click_and_hold(grip).move_by_offset(4, 0).move_by_offset(
        4, 0
    ).release().perform()
    settled(browser)
    browser.wait(lambda: figure(browser, "margin") > before, "the ± did not follow the pointer")
    after, epsilon = figure(browser, "margin"), figure(browser, "epsilon")
    assert epsilon < 2.2
    found = plan(
        population=20_000,
        proportion=0.02,
        margin=after / 100,
        buckets=5,
        mechanism="OptimizedUnary",
    )
    assert epsilon == pytest.approx(found.epsilon_local, rel=0.04)
    assert figure(browser, "population") == 20_000
    assert browser.complaints() == []
    grip = browser.driver.find_element("css selector", "[data-testid=grip] .grip-box")
    ActionChains(browser.driver).click_and_hold(grip).move_by_offset(60, 0).release().perform()
    browser.wait(
        lambda: "Refused" in browser.text("verdict"),
        "a ± larger than the proportion was not refused",
    )


def test_arrow_keys_move_the_handle_and_escape_restores_it(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console, "?population=20000&epsilon=2.2&proportion=0.02")
    settled(browser)
    before = float(browser.find("grip").get_attribute("aria-valuenow"))
    browser.run("arguments[0].focus()", browser.find("grip"))
    keys = ActionChains(browser.driver)
    keys.send_keys(Keys.ARROW_RIGHT).perform()
    settled(browser)
    browser.wait(
        lambda: float(browser.find("grip").get_attribute("aria-valuenow")) > before,
        "the key did nothing",
    )
    assert float(browser.find("grip").get_attribute("aria-valuenow")) == pytest.approx(
        1.05 * before, rel=0.02
    )
    assert "plus or minus" in browser.find("grip").get_attribute("aria-valuetext")
    ActionChains(browser.driver).send_keys(Keys.ESCAPE).perform()
    settled(browser)
    browser.wait(
        lambda: (
            float(browser.find("grip").get_attribute("aria-valuenow"))
            == pytest.approx(before, rel=0.02)
        ),
        "not restored",
    )


def test_dragging_can_move_people_instead_and_epsilon_stays(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console, "?population=20000&epsilon=2.2&proportion=0.02&gives=population")
    settled(browser)
    script = (
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', {bubbles:"
        " true}))"
    )
    browser.run(script, browser.find("dial-margin"), 350)
    settled(browser)
    browser.wait(lambda: figure(browser, "population") != 20_000, "people did not move")
    assert figure(browser, "epsilon") == 2.2
    margin = figure(browser, "margin") / 100
    found = plan(proportion=0.02, margin=margin, epsilon=2.2, buckets=5, mechanism="OptimizedUnary")
    assert figure(browser, "population") == pytest.approx(found.population, rel=0.1)


def test_white_noise_is_refused_with_its_figure_and_the_nearest_that_works(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console, "?population=2000&epsilon=0.7&proportion=0.01")
    settled(browser)
    text = browser.text("verdict")
    assert "white noise" in text
    assert "larger than the proportion itself" in text
    assert not browser.find("publish").is_enabled()
    assert "Refused" in browser.text("publish")
    browser.picture("ask-refused-light")
    fixes = browser.run(
        "return [...document.querySelectorAll('.verdict .fixes button')].map((each) =>"
        " each.textContent)"
    )
    assert len(fixes) == 3
    browser.run("document.querySelector('.verdict .fixes button').click()")
    settled(browser)
    browser.wait(
        lambda: "is estimated within" in browser.text("verdict"),
        "the nearest design is not feasible",
    )


def test_what_a_person_risks_is_said_for_an_answer_a_month_and_a_life(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console, "?population=20000&epsilon=2.1972&proportion=0.02")
    settled(browser)
    rows = {over: browser.text(f"risk-{over}") for over in ("answer", "month", "life")}
    assert "at most 50 in 100" in rows["answer"]  # odds of 1 to 9, times 9
    assert "10.99" in rows["month"]  # five answers, one every seven days
    assert "near certainty" in rows["month"]
    assert "After 9 answers the budget of 20 is spent" in rows["life"]


_EDITS = (
    ("every", "1 d"),  # a year of days
    ("every", "1 h"),
    ("budget", ""),
    ("end", (datetime.date.today() + datetime.timedelta(days=40)).isoformat()),
    ("every", "2 d"),
    ("budget", "5.5"),
    ("question", "How far?"),
    ("query-name", "renamed"),
    ("sql", "SELECT distance FROM trips"),
    ("every", "6 h"),
)


def test_the_risk_shown_after_each_edit_is_that_of_the_bytes_that_would_be_signed(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console, "?population=20000&epsilon=2.1972&proportion=0.02")
    type_into(browser, "query-name", "edited")
    type_into(browser, "analyst", KEY.owner)
    seen = set()
    for name, text in _EDITS:
        type_into(browser, name, text)
        assert not browser.find("save-file").is_enabled(), "an edit leaves the last draft to sign"
        browser.wait(lambda: browser.find("save-file").is_enabled(), f"{name} = {text!r}")
        settled(browser)
        file = browser.run("return document.querySelector('[data-testid=query-name]').value")
        (browser.downloads / f"{file}.query.json").unlink(missing_ok=True)
        browser.click("save-file")
        query = Query.from_content(browser.download(f"{file}.query.json"))
        epochs = (query.schedule.expires - query.schedule.origin) // query.schedule.every
        budget = query.budget.epsilon
        life = epochs if budget is None else min(epochs, math.floor(budget / query.epsilon_local))
        shown = browser.run(
            "return [...arguments[0].cells].map((cell) => cell.textContent)",
            browser.find("risk-life"),
        )
        assert shown[1] == f"{life:,}", (name, text, shown)
        assert float(shown[2]) == pytest.approx(life * query.epsilon_local, abs=0.006)
        seen.add(life)
    assert len(seen) > 4, "the edits change nothing that could be behind"


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT random() FROM trips", "random is not on the list"),
        ("DELETE FROM trips", "must begin with SELECT"),
        ("SELECT a, b FROM trips", "Returns 2 columns"),
        ("SELECT distance FROM", "incomplete input"),
    ],
)
def test_sql_is_checked_while_one_types_by_the_rules_of_devices(
    browser: Browser, console: SeededConsole, sql: str, problem: str
) -> None:
    if not browser.run("return location.hash").startswith("#ask"):
        ask(browser, console)
    type_into(browser, "sql", sql)
    browser.wait(lambda: problem in browser.text("sql-checks"), f"no word of {problem!r}")


def test_overlapping_buckets_are_marked_where_they_are(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console)
    inputs = browser.driver.find_elements("css selector", "[data-testid=bucket-name]")
    script = (
        "arguments[0].value = '[1.5,5)'; arguments[0].dispatchEvent(new Event('input', {bubbles:"
        " true}))"
    )
    browser.run(script, inputs[2])
    browser.wait(
        lambda: inputs[2].get_attribute("aria-invalid") == "true", "the bucket is not marked"
    )
    assert "overlaps" in browser.text("buckets")
    assert not browser.find("publish").is_enabled()


def test_a_simulation_draws_simulated_people_and_asks_nobody(
    browser: Browser, console: SeededConsole
) -> None:
    ask(browser, console)
    settled(browser)
    requests = [len(relay.requests) for relay in console.relays]
    browser.click("simulate")
    browser.wait(lambda: "Nobody was asked" in browser.text("outcome"), "no simulation")
    assert browser.run("return document.querySelectorAll('dn-preview .simulated').length") == 60
    assert [len(relay.requests) for relay in console.relays] == requests


def write_key(path: Path, kind: str) -> None:
    if kind == "deniable":
        KEY.save(path)
        return
    secret = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    encoding = (
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(secret.private_bytes(*encoding))


@pytest.mark.parametrize("kind", ["deniable", "pem"])
def test_a_query_is_signed_in_the_browser_and_published_and_the_key_goes_nowhere(
    browser: Browser, console: SeededConsole, tmp_path: Path, kind: str
) -> None:
    write_key(tmp_path / "key", kind)
    ask(browser, console)
    settled(browser)
    type_into(browser, "query-name", f"signed-{kind}")
    browser.find("key-file").send_keys(str(tmp_path / "key"))
    browser.wait(lambda: KEY.public.id[:4] in browser.text("key"), "the key was not taken")
    browser.wait(lambda: browser.find("publish").is_enabled(), "it cannot be published")
    browser.click("publish")
    browser.wait(
        lambda: browser.run("return location.hash").startswith("#live"), browser.text("outcome")
    )
    with console.service.reading() as connection:
        content = connection.execute(
            "SELECT signed FROM queries WHERE id = ?", (f"signed-{kind}",)
        ).fetchone()[0]
    signed = SignedQuery.from_bytes(content)
    query = authenticate(signed, RING, int(time.time()))
    assert (query.analyst, query.question) == (KEY.owner, "How long was your last trip, in miles?")
    assert query.budget.margin is not None
    assert browser.ready() == "waiting"
    for relay in console.relays:
        assert relay.wait(len(relay.requests))[-1][:2] == ("PUT", f"/v1/queries/signed-{kind}")
    assert bytes(range(32)).hex() not in json.dumps(
        [str(request) for relay in console.relays for request in relay.requests]
    )


def test_a_key_of_somebody_else_is_refused_by_the_server_in_its_own_words(
    browser: Browser, console: SeededConsole, tmp_path: Path
) -> None:
    from deniable.queries.signed.keys import AnalystKey  # noqa: PLC0415

    AnalystKey.generate("Somebody else").save(tmp_path / "key")
    ask(browser, console)
    settled(browser)
    type_into(browser, "query-name", "unknown-key")
    browser.find("key-file").send_keys(str(tmp_path / "key"))
    browser.wait(lambda: browser.find("publish").is_enabled(), "it cannot be published")
    browser.click("publish")
    browser.wait(lambda: "is not on the ring" in browser.text("outcome"), "no refusal")


def test_a_query_can_be_saved_for_the_command_line_to_sign(
    browser: Browser, console: SeededConsole, tmp_path: Path
) -> None:
    from click.testing import CliRunner  # noqa: PLC0415

    from deniable.cli import cli  # noqa: PLC0415

    ask(browser, console)
    settled(browser)
    type_into(browser, "query-name", "saved")
    type_into(browser, "analyst", KEY.owner)
    browser.wait(lambda: browser.find("save-file").is_enabled(), "it cannot be saved")
    browser.wait(lambda: "saved" in draft_id(browser), "the draft is not checked")
    browser.click("save-file")
    content = browser.download("saved.query.json")
    (tmp_path / "saved.query.json").write_bytes(content)
    KEY.save(tmp_path / "key")
    arguments = [
        "query",
        "sign",
        str(tmp_path / "saved.query.json"),
        "--key",
        str(tmp_path / "key"),
    ]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    signed = SignedQuery.from_bytes((tmp_path / "saved.query.signed.json").read_bytes())
    assert authenticate(signed, RING, int(time.time())).id == "saved"


def draft_id(browser: Browser) -> str:
    """The name that the server last checked: a saved file bears it."""
    time.sleep(0.6)  # longer than the page waits for a writer to pause
    return str(browser.run("return document.querySelector('[data-testid=query-name]').value"))


def test_a_reader_plans_but_cannot_publish(browser: Browser, console: SeededConsole) -> None:
    ask(browser, console, token=console.reader)
    settled(browser)
    assert browser.text("publish") == "A reader cannot publish"
    assert not browser.find("publish").is_enabled()


def test_on_a_phone_nothing_scrolls_sideways(browser: Browser, console: SeededConsole) -> None:
    browser.size(390, 844, phone=True)
    ask(browser, console)
    settled(browser)
    assert not browser.overflows()
    browser.picture("ask-phone")
