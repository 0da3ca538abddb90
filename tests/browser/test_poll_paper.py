"""The kit and the poster as a browser shows and prints them."""

from __future__ import annotations

import base64
import re

import pytest

from deniable.poll.files import poll_of_tree
from deniable.poll.paper.kit import kit
from deniable.poll.paper.paper_designs import paper_design
from deniable.poll.paper.poster import poster
from deniable.poll.paper.signed_file import PrintedPoll
from deniable.poll.publishing import open_poll
from deniable.queries.signed.keys import AnalystKey
from toolkit.servers.browser import Browser, serious_findings

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

A4, LETTER = (8.27, 11.69), (8.5, 11)


@pytest.fixture(scope="module")
def sheets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The addresses of a kit and a poster with long texts."""
    asker = "Staff council, Exampleton Hospital and Rehabilitation Centre"
    poll = poll_of_tree({
        "id": "p", "asker": asker, "start": 1_800_000_000, "end": 1_800_600_000, "factor": 3,
        "title": "How often nurses of all wards take medicine home, and why they say they do",
        "why": "Supplies run short at night. We want to show how often, without pointing at"
        " anyone, so that the board can order what is needed on every ward.",
        "contact": "council@hospital.example, room 2.14, on weekdays from nine to five",
        "answer": "codes", "page": "https://poll.example", "aggregator": "https://count.example",
        "proxies": [{"url": f"https://{x}.example", "by": "the works council"} for x in "ab"],
        "questions": [{"text": "Have you taken medicine home from the ward for yourself?"}],
    })  # fmt: skip
    opened = open_poll(poll, AnalystKey(asker, bytes(range(32))))
    found = PrintedPoll(poll, opened.queries, opened.link)
    design = paper_design("extended-crosswise", poll.questions[0], ("Yes", "No"), found.epsilon)
    folder = tmp_path_factory.mktemp("paper")
    pages = {"kit": kit(found, "en", {"answer": design}), "poster": poster(found, "en")}
    for name, page in pages.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


def printed_pages(browser: Browser, paper: tuple[float, float]) -> int:
    pdf = browser.cdp(
        "Page.printToPDF", paperWidth=paper[0], paperHeight=paper[1], printBackground=True
    )
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", base64.b64decode(pdf["data"])))


@pytest.mark.parametrize("paper", [A4, LETTER], ids=["A4", "Letter"])
def test_a_poster_is_one_page_and_a_kits_cards_share_one(
    browser: Browser, sheets: dict[str, str], paper: tuple[float, float]
) -> None:
    browser.open(sheets["poster"])
    assert printed_pages(browser, paper) == 1
    browser.open(sheets["kit"])
    # consent, the statement on two pages, both cards, the script
    assert printed_pages(browser, paper) == 5
    browser.run("document.querySelector('.sheet').style.height = '600mm'")
    assert printed_pages(browser, paper) > 5  # it does count


@pytest.mark.parametrize("name", ["kit", "poster"])
def test_sheets_can_be_read_on_a_phone_and_by_everyone(
    browser: Browser, sheets: dict[str, str], axe_source: str, name: str
) -> None:
    browser.open(sheets[name])
    browser.picture(f"poll-{name}")
    assert serious_findings(browser, axe_source) == []
    browser.size(320, 640, phone=True)
    browser.open(sheets[name])
    assert not browser.overflows()
    browser.picture(f"poll-{name}-phone")
    assert browser.complaints() == []
