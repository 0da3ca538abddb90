"""The picture that README shows, as the console draws it. DENIABLE_SCREENSHOTS keeps it, to be
copied to docs/console.png."""

from __future__ import annotations

import math
import struct
from pathlib import Path

from toolkit.servers.browser import Browser
from toolkit.servers.consoles import console_query, seeded_console

ROOT = Path(__file__).parents[2]
SHARES = [0.24, 0.308, 0.179, 0.097, 0.06, 0.036, 0.021, 0.017, 0.008, 0.006, 0.022]
WIDTH, HEIGHT = 1280, 1000
LARGEST = 200_000


def test_the_readme_shows_the_live_view_in_a_small_file(browser: Browser, tmp_path: Path) -> None:
    with seeded_console(tmp_path) as console:
        for name, question, n in (
            ("household-kwh", "How many kWh did your household use in the last half hour?", 412),
            ("commute", "How far is your way to work?", 3120),
            ("trip-distance", "How many miles was your last trip?", 6000),
        ):
            query = console.publish(console_query(console.proxies, name, 130, question=question))
            for index in range(128):
                wave = 0.035 * math.sin(2 * math.pi * (index / 6 - 10) / 24)
                shares = [
                    SHARES[0] - 0.6 * wave,
                    SHARES[1] + wave,
                    SHARES[2] - 0.4 * wave,
                    *SHARES[3:],
                ]
                console.write(query, [index], shares, n + 40 * (index * 7 % 5), epsilon_sampled=2.0)
        browser.size(WIDTH, HEIGHT)
        browser.sign_in(console.url, console.analyst, "#live?q=trip-distance&bucket=1")
        assert browser.ready() == "live"
        described = "return document.querySelector('dn-timeline svg').ariaLabel || ''"
        browser.wait(lambda: "128 windows" in browser.run(described), "no line of 128 windows")
        browser.run(
            "document.querySelector('[data-testid=connection]').lastChild.textContent = 'live, last"
            " window 4 s ago'"
        )
        shot = browser.picture("console", HEIGHT)
    assert len(shot) < LARGEST


def test_the_picture_is_there_and_as_large_as_it_may_be() -> None:
    content = (ROOT / "docs" / "console.png").read_bytes()
    assert len(content) < LARGEST
    width, _ = struct.unpack(">II", content[16:24])
    assert width == WIDTH
    assert "docs/console.png" in (ROOT / "README.md").read_text(encoding="utf-8")
