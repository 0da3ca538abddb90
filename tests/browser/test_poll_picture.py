"""The pictures of a poll that README shows. DENIABLE_SCREENSHOTS keeps them, to be copied to
docs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from toolkit.servers.browser import Browser
from toolkit.servers.polls import RunningPoll

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

ROOT = Path(__file__).parents[2]
WIDTH, HEIGHT = 390, 844
LARGEST = 100_000


def test_the_readme_shows_a_poll_in_two_small_files(browser: Browser, tmp_path: Path) -> None:
    state = "return document.documentElement.dataset.ready"

    def reach(wanted: str) -> None:
        browser.wait(lambda: browser.run(state) == wanted, f"the page is not at {wanted}")

    browser.size(WIDTH, HEIGHT, phone=True)
    reduced = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.cdp("Emulation.setEmulatedMedia", features=reduced)
    with RunningPoll(tmp_path) as poll:
        browser.open(poll.link())
        reach("consent")
        pictures = {"poll-consent": browser.picture("poll-consent", HEIGHT)}
        browser.click("agree")
        reach("question")
        browser.run("arguments[0].click()", browser.find("option-0"))
        browser.click("next")
        reach("toss")
        browser.click("toss")
        browser.click("check")
        reach("leaves")
        pictures["poll-leaves"] = browser.picture("poll-leaves", HEIGHT)
    assert browser.complaints() == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, drawn in pictures.items():
        kept = (ROOT / "docs" / f"{name}.png").read_bytes()
        for picture in (drawn, kept):
            assert struct.unpack(">II", picture[16:24]) == (WIDTH, HEIGHT)
            assert len(picture) < LARGEST
        assert f"docs/{name}.png" in readme
