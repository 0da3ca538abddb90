"""The poll's page in a browser: the whole way, and every attack on it, each refused with its
words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deniable.poll.page_files import page_files
from deniable.poll.publishing import open_poll
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign
from toolkit.servers import loopback
from toolkit.servers.browser import Browser, serious_findings
from toolkit.servers.polls import RunningPoll
from toolkit.servers.static_site import StaticSite

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]


@pytest.fixture
def phone(browser: Browser) -> Iterator[Browser]:
    browser.size(390, 844, phone=True)
    browser.cdp(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-reduced-motion", "value": "reduce"}],
    )
    yield browser
    browser.cdp("Emulation.setEmulatedMedia", features=[])


def reach(browser: Browser, *states: str) -> str:
    """Wait until the page is in one of these states."""
    script = "return document.documentElement.dataset.ready"
    return str(
        browser.wait(
            lambda: found if (found := browser.run(script)) in states else None,
            f"the page is not at {' or '.join(states)}",
        )
    )


def choose(browser: Browser, option: int) -> None:
    browser.run("arguments[0].click()", browser.find(f"option-{option}"))


def text_of(browser: Browser) -> str:
    return str(browser.run("return document.body.innerText"))


def shows(browser: Browser, text: str) -> bool:
    return text in text_of(browser)


def is_gone(address: str) -> bool:
    return loopback.get(address).status_code == 404


def toss(browser: Browser, link: str, option: int = 0) -> None:
    """From the link to what leaves."""
    browser.open(link)
    reach(browser, "consent")
    browser.click("agree")
    reach(browser, "question")
    choose(browser, option)
    browser.click("next")
    reach(browser, "toss")
    browser.click("toss")
    browser.click("check")
    reach(browser, "leaves")


def answer(browser: Browser, link: str, option: int = 0, end: str = "sent") -> None:
    toss(browser, link, option)
    browser.click("send")
    reach(browser, end)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPoll]:
    with RunningPoll(tmp_path_factory.mktemp("poll"), n_codes=40) as poll:
        yield poll


def test_the_whole_way_from_a_code_to_a_receipt_and_what_leaves_is_what_arrives(
    phone: Browser, running: RunningPoll
) -> None:
    before = running.accepted()
    toss(phone, running.link(running.codes[0]))
    assert running.codes[0] not in phone.run("return location.href")
    phone.wait(lambda: phone.all("bytes-1"), "the pieces are not shown")
    shown = [
        bytes.fromhex(str(phone.run("return arguments[0].textContent", phone.find(f"bytes-{i}"))))
        for i in range(2)
    ]
    head = 32
    message = bytes(a ^ b for a, b in zip(shown[0][head:], shown[1][head:], strict=True))
    said = phone.text("said")
    assert message[8:16] == running.opened.queries[0].digest[:8]
    assert said == ("Yes", "No")[message[16]]
    phone.click("send")
    reach(phone, "sent")
    assert running.accepted() == [n + 1 for n in before]
    assert "epsilon 1.10" in phone.text("receipt")
    assert "Yes" not in phone.text("receipt")
    # nothing of the answer, the coins or the shares is kept
    kept = kept_state(phone)
    assert kept["queue"] == []
    assert kept["forms"] == kept["values"] == {}
    assert all(receipt["time"] % 86400 == 0 for receipt in kept["receipts"])
    # the link opened twice: answered, whatever code it has
    for code in (running.codes[0], running.codes[1]):
        phone.open(running.link(code))
        reach(phone, "already")
        assert "You have answered" in text_of(phone)
    assert running.accepted() == [n + 1 for n in before]
    assert phone.complaints() == []


KEPT = """
const done = arguments[arguments.length - 1];
(async () => {
  const { name } = (await indexedDB.databases()).find(({ name }) => name.includes("-test-poll") === arguments[0]);
  const database = await new Promise((resolve) => {
    const request = indexedDB.open(name);
    request.onsuccess = () => resolve(request.result);
  });
  const request = database.transaction("state").objectStore("state").get("state");
  request.onsuccess = () => { database.close(); done(JSON.stringify(request.result)); };
})();
"""


def kept_state(browser: Browser, device: bool = True) -> Any:
    """What is stored of the first question's device, or of the poll itself."""
    return json.loads(browser.run_async(KEPT, device))


def offline(browser: Browser, is_offline: bool) -> None:
    speed = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.cdp("Network.enable")
    browser.cdp("Network.emulateNetworkConditions", offline=is_offline, **speed)


def test_before_the_toss_nothing_is_stored_of_the_answer_and_afterwards_only_shares(
    phone: Browser, running: RunningPoll
) -> None:
    phone.open(running.link(running.codes[2]))
    reach(phone, "consent")
    phone.click("agree")
    choose(phone, 1)
    kept = kept_state(phone)
    assert (kept["forms"], kept["values"], kept["queue"], kept["decided"]) == ({}, {}, [], {})
    phone.click("next")
    phone.click("toss")
    phone.click("check")
    reach(phone, "leaves")
    kept = kept_state(phone)
    assert (kept["forms"], kept["values"]) == ({}, {})
    assert len(kept["queue"]) == 2
    # a reload, or the way back, tosses no second time: the same shares still wait
    phone.open(running.link(running.codes[2]))
    reach(phone, "leaves")
    assert kept_state(phone)["queue"] == kept["queue"]
    before = running.accepted()
    phone.click("dont")
    reach(phone, "bye")
    assert kept_state(phone)["queue"] == []
    assert running.accepted() == before


def test_a_replayed_code_is_refused_on_another_phone_and_nothing_is_counted_twice(
    phone: Browser, running: RunningPoll
) -> None:
    answer(phone, running.link(running.codes[3]))
    before = running.accepted()
    phone.cdp("Storage.clearDataForOrigin", origin="*", storageTypes="all")
    phone.cdp("Storage.clearDataForOrigin", origin=running.poll.page, storageTypes="all")
    answer(phone, running.link(running.codes[3]), end="used")
    assert "This code has been used" in text_of(phone)
    assert "Your answer was not counted" in text_of(phone)
    assert running.accepted() == before
    assert kept_state(phone)["queue"] == []


def test_the_same_code_in_two_tabs_at_once_is_one_answer(
    phone: Browser, running: RunningPoll
) -> None:
    before = running.accepted()
    link = running.link(running.codes[4])
    driver = phone.driver
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    second = driver.current_window_handle
    for tab in (first, second):
        driver.switch_to.window(tab)
        phone.open(link)
        reach(phone, "consent")
        phone.click("agree")
        choose(phone, 0)
        phone.click("next")
        reach(phone, "toss")
    for tab in (first, second):
        driver.switch_to.window(tab)
        phone.run("document.querySelector('[data-testid=toss]').click()")
    ends = []
    for tab in (first, second):
        driver.switch_to.window(tab)
        phone.wait(
            lambda: phone.all("check") or "You have answered" in text_of(phone),
            "no coin has fallen",
        )
        if phone.all("check"):
            phone.click("check")
            phone.click("send")
            ends.append(reach(phone, "sent"))
        else:
            ends.append(reach(phone, "already"))
    driver.close()
    driver.switch_to.window(first)
    assert sorted(ends) == ["already", "sent"]
    assert running.accepted() == [n + 1 for n in before]


def test_offline_the_pieces_wait_and_leave_once_when_the_network_is_back(
    phone: Browser, running: RunningPoll
) -> None:
    toss(phone, running.link(running.codes[5]))
    before = running.accepted()
    offline(phone, True)
    phone.click("send")
    phone.wait(lambda: "Waiting for a connection" in text_of(phone), "it does not wait")
    assert running.accepted() == before
    offline(phone, False)
    if phone.all("again"):
        phone.run("document.querySelector('[data-testid=again]')?.click()")
    reach(phone, "sent")
    assert running.accepted() == [n + 1 for n in before]


KEPT_FILES = """
const done = arguments[arguments.length - 1];
(async () => {
  let n = 0;
  for (const name of await caches.keys()) n += (await (await caches.open(name)).keys()).length;
  done(n);
})();
"""


def test_after_the_first_load_a_person_answers_without_a_network_and_the_pieces_leave_later(
    phone: Browser, running: RunningPoll
) -> None:
    phone.open(running.link(running.codes[7]))
    reach(phone, "consent")
    phone.wait(lambda: phone.run_async(KEPT_FILES) >= 3, "the page's files are not kept")
    before = running.accepted()
    offline(phone, True)
    try:
        # the code was on the first link alone: it is kept until it is used
        toss(phone, running.link())
        phone.click("send")
        phone.wait(lambda: shows(phone, "Waiting for a connection"), "it does not wait")
        assert "until" in text_of(phone)
        waiting = kept_state(phone)
        assert len(waiting["queue"]) == 2
        assert (waiting["forms"], waiting["values"]) == ({}, {})
        phone.open(running.link())  # opened again, still without a network: the same pieces
        reach(phone, "leaves")
        assert kept_state(phone)["queue"] == waiting["queue"]
        assert kept_state(phone, device=False)["code"] == running.codes[7]
    finally:
        offline(phone, False)
    phone.open(running.link())
    reach(phone, "leaves")
    phone.click("send")
    reach(phone, "sent")
    assert running.accepted() == [n + 1 for n in before]
    assert kept_state(phone, device=False)["code"] == ""
    assert phone.complaints() == []


def test_a_changed_file_of_the_page_is_not_kept_and_not_shown_to_a_browser_that_knows_it(
    phone: Browser, running: RunningPoll
) -> None:
    with StaticSite(page_files(), running.opened.document) as site:
        link = running.link().replace(running.poll.page, site.origin)
        phone.open(link)
        phone.run("navigator.serviceWorker.register('sw.js')")
        phone.wait(
            lambda: phone.run("return navigator.serviceWorker.controller !== null"),
            "no service worker",
        )
        site.replies["/poll.js"] = b"document.title = 'stolen';"
        phone.open(link)
        phone.wait(
            lambda: phone.run("return document.documentElement.dataset.ready"), "no page is shown"
        )
        assert phone.driver.title != "stolen"


# --- the poll is changed on its way


def document_of(running: RunningPoll) -> Any:
    return json.loads(running.opened.document)


def test_a_host_that_serves_another_proxy_list_is_refused_loudly(
    phone: Browser, running: RunningPoll
) -> None:
    changed = document_of(running)
    changed["proxies"][1]["url"] = "http://127.0.0.1:9"
    with StaticSite(page_files(), json.dumps(changed).encode()) as site:
        phone.open(running.link().replace(running.poll.page, site.origin))
        reach(phone, "tampered")
    said = text_of(phone)
    assert "Do not answer" in said
    assert "Nothing was sent. This page will not go on." in said
    assert phone.text("fault") == "The page’s host shows another poll than your link names"
    assert not phone.all("agree")


def test_a_page_with_another_key_is_refused_and_shows_both_fingerprints(
    phone: Browser, running: RunningPoll
) -> None:
    other = open_poll(running.poll, AnalystKey.generate("Staff council"))
    link = running.opened.link
    with StaticSite(page_files(), other.document) as site:
        # the host knows the document's fingerprint of its own poll, and not the key in the link
        phone.open(f"{site.origin}/#{link.key},{other.link.poll}")
        reach(phone, "tampered")
    assert phone.text("fault") == "Signed with another key"
    shown = text_of(phone).replace(" ", "")
    assert link.key in shown
    assert other.link.key in shown


@pytest.mark.parametrize(
    ("swap", "words"),
    [
        ("another query", "The operators show different polls"),
        ("another key", "Signed with another key"),
        ("one letter", "Changed after it was signed"),
    ],
)
def test_a_proxy_that_swaps_the_query_is_refused(
    phone: Browser, running: RunningPoll, swap: str, words: str
) -> None:
    query = running.opened.queries[0]
    signed = {
        "another query": sign(query.revised(question="Something else?"), running.key),
        "another key": sign(query, AnalystKey.generate("Staff council")),
        "one letter": SignedQuery(
            query.content.replace(b"driven", b"droven"),
            running.key.public.id,
            running.opened.signed[0].signature,
        ),
    }[swap]
    address = f"{running.poll.operators[1].url}/v1/queries/{query.id}"
    # somebody between the browser and the proxy answers in its place
    source = (
        "const real = fetch; globalThis.fetch = (url, ...rest) => real(url ==="
        f" {json.dumps(address)} ? '/v1/queries/{query.id}' : url, ...rest);"
    )
    with StaticSite(page_files(), running.opened.document) as site:
        site.replies[f"/v1/queries/{query.id}"] = signed.to_bytes()
        script = phone.cdp("Page.addScriptToEvaluateOnNewDocument", source=source)["identifier"]
        phone.open(running.link().replace(running.poll.page, site.origin))
        reach(phone, "tampered")
        assert phone.text("fault") == words
        assert not phone.all("agree")
        phone.cdp("Page.removeScriptToEvaluateOnNewDocument", identifier=script)


def test_a_link_that_was_cut_and_a_clock_that_is_an_hour_wrong_are_refused(
    phone: Browser, running: RunningPoll
) -> None:
    phone.open(running.link()[:-3])
    reach(phone, "tampered")
    assert phone.text("fault") == "Your link is not complete"
    source = "const real = Date.now; Date.now = () => real() - 3600000;"
    script = phone.cdp("Page.addScriptToEvaluateOnNewDocument", source=source)["identifier"]
    before = running.accepted()
    phone.open(running.link(running.codes[6]))
    reach(phone, "consent")
    phone.click("agree")
    choose(phone, 0)
    phone.click("next")
    phone.click("toss")
    reach(phone, "clock")
    phone.cdp("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    assert "Your clock is wrong" in text_of(phone)
    assert running.accepted() == before


def test_one_silent_proxy_and_then_both_stop_the_page_and_a_closed_poll_says_so(
    phone: Browser, tmp_path: Path
) -> None:
    with RunningPoll(tmp_path) as poll:
        with poll.services.analyst() as analyst:
            analyst.stop(poll.opened.queries[0])
        for operator in poll.poll.operators:
            address = f"{operator.url}/v1/queries/{poll.opened.queries[0].id}"
            phone.wait(partial(is_gone, address), "it is not stopped")
        phone.open(poll.link())
        reach(phone, "closed")
        assert "This poll is closed" in text_of(phone)
    with RunningPoll(tmp_path / "silent") as poll:
        poll.services.kill("two")
        phone.open(poll.link())
        reach(phone, "half")
        assert "Both must show the same poll before you answer" in text_of(phone)
        poll.services.kill("one")
        phone.open(poll.link())
        reach(phone, "off")
        assert "No operator can be reached" in text_of(phone)


# --- kinds of questions, tossing by hand, results

KINDS: list[dict[str, Any]] = [
    {"kind": "one", "text": "How did you come?", "options": ["On foot", "By bike", "By bus"]},
    {"kind": "several", "text": "What do you use?", "options": ["A", "B", "C", "D"], "most": 2},
    {"kind": "scale", "text": "I am content.", "options": ["No", "Rather no", "Rather yes", "Yes"]},
    {
        "kind": "number",
        "text": "How many years?",
        "low": 0,
        "high": 39,
        "step": 10,
        "unit": "years",
    },
    {"kind": "yesno", "text": "Would you stay?"},
]


def test_a_questionnaire_of_all_kinds_is_one_toss_and_one_receipt_and_each_answer_is_counted_once(
    phone: Browser, tmp_path: Path
) -> None:
    with RunningPoll(tmp_path, *KINDS, n_codes=2, factor=20) as poll:
        assert sum(query.epsilon for query in poll.opened.queries) <= poll.poll.epsilon
        phone.open(poll.link(poll.codes[0]))
        reach(phone, "consent")
        phone.click("agree")
        for question in KINDS:
            phone.wait(partial(shows, phone, question["text"]), "it is not asked")
            phone.click("next")  # without an answer: it stays, and says why
            if question["kind"] == "number":
                assert "A whole number from 0 to 39." in text_of(phone)
                phone.find("number").send_keys("25")
                assert "Counts as 20 to 29 years." in text_of(phone)
            elif question["kind"] != "several":  # where none is an answer
                assert "Choose an answer first." in text_of(phone)
                choose(phone, 1)
            if question["kind"] != "several":
                phone.click("next")
        reach(phone, "toss")
        phone.click("toss")
        phone.click("check")
        reach(phone, "leaves")
        phone.click("send")
        reach(phone, "sent")
        assert poll.accepted() == [len(KINDS)] * 2
        assert phone.complaints() == []


def test_what_a_person_tossed_by_hand_is_sent_as_it_is_and_counted_with_the_others(
    phone: Browser, tmp_path: Path
) -> None:
    with RunningPoll(tmp_path, minimum=10, life=1700) as poll:
        for i in range(10):
            phone.open(poll.link())
            reach(phone, "consent")
            phone.click("agree")
            reach(phone, "question")
            phone.run("document.querySelector('input[name=mode][value=hand]').click()")
            phone.run(f"document.querySelector('input[name=said][value=\"{i % 2}\"]').click()")
            phone.click("next")
            reach(phone, "leaves")
            assert phone.text("said") == ("Yes", "No")[i % 2]
            assert "Never known to this phone" in text_of(phone).replace(":", "")
            phone.click("send")
            reach(phone, "sent")
            phone.cdp("Storage.clearDataForOrigin", origin=poll.poll.page, storageTypes="all")
        assert poll.accepted() == [10, 10]
        results = f"{poll.poll.aggregator}/v1/public/queries/{poll.poll.id}/results"
        phone.wait(
            lambda: loopback.get(results).json()["windows"], "no result is released", seconds=120
        )
        window = loopback.get(results).json()["windows"][0]
        assert window["n"] == 10
        assert window["estimate"] == pytest.approx([0.5, 0.5])
        phone.open(poll.link())
        reach(phone, "consent")
        phone.run("document.querySelector('[data-testid=help]').click()")
        reach(phone, "how")
        phone.click("back")
        answer(phone, poll.link())
        phone.click("see")
        phone.wait(lambda: phone.all("bars"), "no bars are shown")
        assert phone.text("n") == "10 answers"
        assert "50.0" in phone.text("bars")


PLACES = ["Aachen", "Århus", "Bremen", "Cork", "Zürich", "Ürümqi"]


def keys(browser: Browser, *pressed: str) -> None:
    from selenium.webdriver.common.keys import Keys  # noqa: PLC0415 - an extra of tests

    for each in pressed:
        browser.driver.switch_to.active_element.send_keys(getattr(Keys, each, each))


def test_one_of_a_long_list_is_found_and_the_whole_way_is_gone_by_keyboard_alone(
    phone: Browser, tmp_path: Path
) -> None:
    asked = {"kind": "list", "text": "Where do you live?", "options": PLACES, "optional": True}
    with RunningPoll(tmp_path, asked, factor=20) as poll:
        phone.open(poll.link())
        reach(phone, "consent")

        def tab_to(testid: str) -> None:
            for _ in range(30):
                keys(phone, "TAB")
                focused = "return document.activeElement?.dataset.testid"
                if phone.run(focused) == testid:
                    return
            raise AssertionError(f"Tab does not lead to {testid}")

        tab_to("agree")
        keys(phone, "ENTER")
        reach(phone, "question")
        tab_to("search")
        keys(phone, "qqq")
        assert phone.text("found") == "Not in the list."
        keys(phone, "BACKSPACE", "BACKSPACE", "BACKSPACE", "ur")  # without its accents
        assert phone.text("found") == "2 found"
        shown = [each.text for each in phone.all("option-4") + phone.all("option-5")]
        assert shown == ["Zürich", "Ürümqi"]
        tab_to("next")
        keys(phone, "ENTER")  # what was typed is no answer
        assert "Choose an answer first." in text_of(phone)
        phone.find("search").send_keys("")
        phone.run("arguments[0].focus()", phone.find("search"))
        keys(phone, "ARROW_DOWN", "ARROW_DOWN", "ENTER")
        assert phone.text("found") == "Chosen: Zürich"  # Ürümqi begins with it and comes first
        tab_to("next")
        keys(phone, "ENTER")
        reach(phone, "toss")
        tab_to("toss")
        keys(phone, "ENTER")
        phone.find("check")
        keys(phone, "ENTER")  # the focus is on it
        reach(phone, "leaves")
        tab_to("send")
        keys(phone, "ENTER")
        reach(phone, "sent")
        assert poll.accepted() == [1, 1]
        assert phone.complaints() == []


STATEMENT = "I have driven drunk."


def test_by_hand_a_questionnaire_is_tossed_question_by_question_and_two_statements_are_turned(
    phone: Browser, tmp_path: Path
) -> None:
    asked = (
        {"text": "Have you ever driven drunk?", "statement": STATEMENT},
        {"kind": "yesno", "text": "Would you again?"},
    )
    with RunningPoll(tmp_path, *asked, factor=9) as poll:
        seen = set()
        for _ in range(12):
            phone.open(poll.link())
            reach(phone, "consent")
            phone.click("agree")
            reach(phone, "question")
            phone.run("document.querySelector('input[name=mode][value=hand]').click()")
            assert "Toss a coin where nobody can see it." in text_of(phone)
            phone.click("pair")
            assert STATEMENT in text_of(phone)
            low = "between 00 and 24" in text_of(phone)
            assert low or "between 25 and 99" in text_of(phone)
            phone.run("document.querySelectorAll('input[name=said]')[0].click()")  # differ
            phone.click("next")
            phone.wait(partial(shows, phone, "Would you again?"), "it is not asked")
            phone.run("document.querySelectorAll('input[name=said]')[1].click()")
            phone.click("next")
            reach(phone, "leaves")
            said = text_of(phone).split("The answers this phone gives")[1]
            first, second = (said.split(f"{each['text']}\n")[1].split()[0] for each in asked)
            assert (first, second) == ("Yes" if low else "No", "No")
            seen.add(low)
            phone.click("dont")
            reach(phone, "bye")
            phone.cdp("Storage.clearDataForOrigin", origin=poll.poll.page, storageTypes="all")
            if len(seen) == 2:
                break
        assert seen == {True, False}  # one of two draws 12 times over: 1 in 2,048
        assert poll.accepted() == [0, 0]


def test_the_page_speaks_the_language_a_person_chooses_and_right_to_left_is_mirrored(
    phone: Browser, tmp_path: Path, axe_source: str
) -> None:
    asked = {"text": {"en": "Have you ever driven drunk?", "ar": "هل قدت السيارة وأنت مخمور؟"}}
    with RunningPoll(tmp_path, asked, title={"en": "Driving", "ar": "القيادة"}) as poll:
        phone.size(320, 800, phone=True)

        def choose_language(code: str) -> None:
            phone.run(
                "const [e, v] = arguments; e.value = v; e.dispatchEvent(new Event('change'))",
                phone.find("language"),
                code,
            )
            phone.wait(
                lambda: phone.run("return document.documentElement.lang") == code,
                f"it does not speak {code}",
            )

        def look(state: str, code: str) -> None:
            reach(phone, state)
            phone.picture(f"poll-{state}-320-{code}")
            assert serious_findings(phone, axe_source) == [], (state, code)
            assert not phone.overflows(), (state, code)

        phone.open(poll.link())
        reach(phone, "consent")
        choose_language("de")
        look("consent", "de")
        assert "Coins" not in text_of(phone)
        assert "Diese Umfrage gibt es nur auf Arabisch, Englisch." in text_of(phone)
        choose_language("ar")
        phone.open(poll.link())  # it is remembered
        look("consent", "ar")
        assert phone.run("return document.documentElement.dir") == "rtl"
        assert "القيادة" in text_of(phone)
        phone.click("agree")
        look("question", "ar")
        assert "هل قدت السيارة وأنت مخمور؟" in text_of(phone)
        phone.run("document.querySelector('input[name=mode][value=hand]').click()")
        look("question", "ar")
        phone.run("document.querySelector('input[name=mode][value=phone]').click()")
        choose(phone, 0)
        phone.click("next")
        look("toss", "ar")
        phone.click("toss")
        phone.click("check")
        phone.wait(lambda: phone.all("bytes-1"), "the pieces are not shown")
        look("leaves", "ar")
        assert phone.text("said") in ("نعم", "لا")
        phone.click("send")
        look("sent", "ar")
        phone.click("see")
        look("results", "ar")
        phone.run("document.querySelector('[data-testid=help]').click()")
        look("how", "ar")
        phone.open(poll.link()[:-3])
        look("tampered", "ar")
        assert phone.complaints() == []


@pytest.mark.parametrize("width", [390, 320])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_any_state_and_nothing_scrolls_sideways(
    phone: Browser, running: RunningPoll, axe_source: str, width: int, theme: str
) -> None:
    phone.size(width, 800, phone=True)
    phone.cdp(
        "Emulation.setEmulatedMedia",
        features=[
            {"name": "prefers-color-scheme", "value": theme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ],
    )
    places = {(390, "light"): 10, (390, "dark"): 11, (320, "light"): 12, (320, "dark"): 13}

    def look(state: str) -> None:
        reach(phone, state)
        phone.picture(f"poll-{state}-{width}-{theme}")
        assert serious_findings(phone, axe_source) == [], state
        assert not phone.overflows(), state

    phone.open(running.link())
    look("consent")
    phone.open(running.link(running.codes[places[width, theme]]))
    reach(phone, "consent")
    phone.click("agree")
    look("question")
    phone.run("document.querySelector('input[name=mode][value=hand]').click()")
    look("question")
    phone.run("document.querySelector('input[name=mode][value=phone]').click()")
    choose(phone, 0)
    phone.click("next")
    look("toss")
    phone.click("toss")
    phone.find("check")
    look("toss")
    phone.click("check")
    phone.wait(lambda: phone.all("bytes-1"), "the pieces are not shown")
    look("leaves")
    phone.click("send")
    look("sent")
    phone.click("see")
    look("results")
    phone.run("document.querySelector('[data-testid=help]').click()")
    look("how")
    phone.open(running.link(running.codes[places[width, theme]]))
    look("already")
    phone.open(running.link()[:-3])
    look("tampered")
