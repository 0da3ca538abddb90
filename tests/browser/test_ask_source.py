"""Where an answer comes from, in a browser: from Ask to a signed query of each kind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery, authenticate
from toolkit.crowds import KEY, RING
from toolkit.servers.browser import Browser, serious_findings
from toolkit.servers.consoles import SeededConsole, seeded_console

_TYPE = """
arguments[0].value = arguments[1];
arguments[0].dispatchEvent(new Event('input', { bubbles: true }));
"""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeededConsole]:
    with seeded_console(tmp_path_factory.mktemp("console")) as found:
        yield found


def write(browser: Browser, testid: str, *texts: str) -> None:
    """Type into the fields of that name, in order."""
    fields = browser.all(testid)
    assert len(fields) == len(texts), (testid, len(fields))
    for field, text in zip(fields, texts, strict=True):
        browser.run(_TYPE, field, text)


def choose(browser: Browser, source: str) -> None:
    browser.run(f"document.querySelector('[name=source][value={source}]').click()")


def begin(browser: Browser, console: SeededConsole) -> None:
    browser.sign_in(console.url, console.analyst, "#ask?people=20000&epsilon=2.2&share=0.02")
    assert browser.ready() == "ask"


def settled(browser: Browser) -> None:
    """Wait for the server's plan: until then its figures are grey."""
    pending = "return document.querySelector('.pending')"
    browser.wait(lambda: not browser.run(pending), "the plan is still pending")


def fill_in(browser: Browser, kind: str) -> None:
    choose(browser, kind)
    if kind == "value":
        write(browser, "value", "journeys")
        browser.wait(lambda: "record as journeys" in browser.text("value-checks"), "no check")
    if kind == "form":
        browser.click("other")
        write(browser, "question-en", "How did you come to school?")
        write(browser, "label-en", "On foot", "By bike", "By bus", "By car", "Otherwise")
        browser.click("add-language")
        write(browser, "language", "en", "de")
        write(browser, "question-new", "Wie bist du zur Schule gekommen?")
        labels = [
            each
            for each in browser.driver.find_elements("css selector", ".label-list input")
            if not each.get_attribute("value")
        ]
        for field, text in zip(labels, ["Fuß", "Rad", "Bus", "Auto", "Anders"], strict=True):
            browser.run(_TYPE, field, text)
        browser.wait(lambda: "labels in de, en" in browser.text("form-checks"), "no check")


def published(browser: Browser, console: SeededConsole, name: str, key: Path) -> Query:
    write(browser, "query-name", name)
    browser.find("key-file").send_keys(str(key))
    browser.wait(lambda: browser.find("publish").is_enabled(), "it cannot be published")
    browser.click("publish")
    browser.wait(
        lambda: browser.run("return location.hash").startswith("#live"), browser.text("outcome")
    )
    with console.service.reading() as connection:
        found = connection.execute("SELECT signed FROM queries WHERE id = ?", (name,)).fetchone()
    return authenticate(SignedQuery.from_bytes(found[0]), RING, int(time.time()))


@pytest.mark.parametrize("kind", ["sql", "form", "value"])
def test_a_query_of_each_kind_goes_from_ask_to_its_signature(
    browser: Browser, console: SeededConsole, axe_source: str, tmp_path: Path, kind: str
) -> None:
    KEY.save(tmp_path / "key")
    begin(browser, console)
    fill_in(browser, kind)
    browser.click("once")
    browser.click("public-results")
    settled(browser)
    assert serious_findings(browser, axe_source) == []
    browser.picture(f"ask-{kind}-light")
    query = published(browser, console, f"asked-{kind}", tmp_path / "key")
    assert (query.ask, query.once, query.public_results) == (kind, True, True)
    assert query.value == ("journeys" if kind == "value" else None)
    assert bool(query.sql) == (kind == "sql")
    if kind == "form":
        [column] = query.columns
        assert column.form is not None
        assert column.form.languages == ("de", "en")
        assert dict(column.form.labels)["de"] == ("Fuß", "Rad", "Bus", "Auto", "Anders")
    assert browser.complaints() == []


def test_once_is_what_a_person_risks_and_excludes_permanent_answers(
    browser: Browser, console: SeededConsole
) -> None:
    begin(browser, console)
    life = browser.text("risk-life")
    browser.click("once")
    browser.wait(lambda: browser.text("risk-life") != life, "the risk is the same")
    cells = "return [...arguments[0].cells].map((cell) => cell.textContent)"
    answer = browser.run(cells, browser.find("risk-answer"))
    assert browser.run(cells, browser.find("risk-life"))[1:4] == answer[1:4]
    assert browser.run("return document.querySelectorAll('.check input:disabled').length") == 1


def test_what_is_missing_of_a_form_or_a_value_is_said_where_it_is(
    browser: Browser, console: SeededConsole
) -> None:
    begin(browser, console)
    choose(browser, "form")
    browser.wait(lambda: "must" in browser.text("form-checks"), "an empty form is not refused")
    write(browser, "question-en", "How?")
    write(browser, "label-en", "a", "a", "b", "c")
    browser.wait(lambda: "repeated" in browser.text("form-checks"), "equal labels are accepted")
    choose(browser, "value")
    write(browser, "value", "Not a name")
    browser.wait(lambda: "1 to 63" in browser.text("value-checks"), "the name is accepted")
    assert not browser.find("publish").is_enabled()


def test_words_that_are_written_while_a_plan_is_on_its_way_do_not_hold_it_up(
    browser: Browser, console: SeededConsole
) -> None:
    begin(browser, console)
    settled(browser)
    browser.run(
        """
        const [question, every] = arguments, ask = window.fetch;
        const write = (field, text) => {
          field.value = text;
          field.dispatchEvent(new Event('input', { bubbles: true }));
        };
        window.fetch = (...given) => {
          if (String(given[0]?.url ?? given[0]).includes('/v1/plan')) {
            window.fetch = ask;
            write(question, 'How far?');
            window.between = true;
          }
          return ask(...given);
        };
        write(every, '2 d');
        """,
        browser.find("question"),
        browser.find("every"),
    )
    browser.wait(lambda: browser.run("return window.between"), "there was no plan")
    settled(browser)
    browser.wait(lambda: browser.find("save-file").is_enabled(), "nothing can be signed")


@pytest.mark.parametrize(("look", "width"), [("dark", 1440), ("light", 390)])
def test_a_form_can_be_written_in_the_dark_and_on_a_phone(
    browser: Browser, console: SeededConsole, axe_source: str, look: str, width: int
) -> None:
    browser.theme(look)
    browser.size(width, 1000, phone=width < 700)
    begin(browser, console)
    fill_in(browser, "form")
    settled(browser)
    assert not browser.overflows()
    assert serious_findings(browser, axe_source) == []
    browser.picture(f"ask-form-{look}-{width}")
