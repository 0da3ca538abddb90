"""The owner's page in a browser, opened by `deniable client ui`: receipts, budget, refusing an
analyst, and the coins."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.client.device import Device
from deniable.client.policy import read_policy, refuse_analyst
from deniable.client.storage.store import Store
from deniable.errors import PolicyError
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.signing import sign
from toolkit.devices import KEY, STRANGER, asked, make_vault
from toolkit.servers import loopback
from toolkit.servers.browser import Browser, serious_findings
from toolkit.servers.services import running

POLICY = """\
# what I allow
ring = "ring.json"
epsilon_per_answer = 10   # a generous person
upload_within = 0

[[limits]]
epsilon = 12
period = "30 d"
each_analyst = true

[[limits]]
epsilon = 30
period = "30 d"
"""


class Owner:
    """A vault, its settings, and a device that has answered, refused and been silent."""

    def __init__(self, folder: Path) -> None:
        self.vault, self.policy = folder / "ann.db", folder / "ann.db.policy.toml"
        vault = make_vault(self.vault, [3.5])
        now = int(time.time())
        schedule = Schedule(now - 3600, now + 86_400, 600, 600, 600)
        usual = asked(id="trips", schedule=schedule)
        proxies = "".join(
            f'\n[[proxies]]\naddress = "{name}"\ntoken = "secret-token-of-mine"\n'
            for name in usual.proxies
        )
        self.policy.write_text(POLICY + proxies)
        self.policy.chmod(0o600)
        KeyRing([TrustedKey(KEY.public)]).save(folder / "ring.json")
        self.device = Device(
            vault, read_policy(self.policy), Store.beside(self.vault), isolated=False
        )
        self.query = usual
        for moment in (now - 1300, now - 700):
            assert self.device.answer(sign(usual, KEY), moment).outcome == "answered"
        costly = asked(
            id="costly", schedule=schedule, mechanism={"name": "OptimizedUnary", "epsilon": 11.0}
        )
        assert self.device.answer(sign(costly, KEY), now - 500).outcome == "refused"
        assert self.device.answer(sign(usual, STRANGER), now - 400).outcome == "refused"


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Owner:
    return Owner(tmp_path_factory.mktemp("owner"))


@pytest.fixture(scope="module")
def page(owner: Owner) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address it prints."""
    with running(["client", "ui", str(owner.vault), "--no-browser"], owner.vault.parent) as found:
        yield found


def test_receipts_budget_and_what_is_shared_are_shown(
    browser: Browser, owner: Owner, page: tuple[object, str]
) -> None:
    browser.size(390, 844, phone=True)
    browser.open(page[1])
    assert browser.ready() == "person"
    texts = [element.text for element in browser.all("receipt")]
    assert len(texts) == 4
    assert sum("Answered, randomized" in text for text in texts) == 2
    assert sum("ceiling for one answer is 10" in text for text in texts) == 1
    assert sum("Somebody" in text for text in texts) == 1
    left = 30 - 2 * owner.query.epsilon_local
    assert browser.text("left") == f"{left:.1f}"
    assert "trips: distance" in browser.text("granted")
    assert "secret" not in browser.text("granted")
    assert not browser.overflows()
    assert page[1].split("#")[1] not in browser.run("return location.href")
    assert "secret-token-of-mine" not in browser.run("return document.documentElement.outerHTML")
    assert browser.complaints() == []
    browser.picture("person-phone")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_serious_on_the_owners_page(
    browser: Browser, page: tuple[object, str], axe_source: str, theme: str
) -> None:
    browser.open(page[1])
    browser.ready()
    browser.theme(theme)
    browser.cdp("Page.setBypassCSP", enabled=True)  # for axe's own script alone
    try:
        browser.open(page[1])
        browser.ready()
        assert serious_findings(browser, axe_source) == []
    finally:
        browser.cdp("Page.setBypassCSP", enabled=False)


def test_refusing_an_analyst_is_written_down_and_the_device_obeys(
    browser: Browser, owner: Owner, page: tuple[object, str]
) -> None:
    browser.open(page[1])
    browser.ready()
    browser.click("refuse-0")
    browser.wait(
        lambda: "refused: nothing is answered" in browser.text("analyst-0"),
        "the refusal is not shown",
    )
    assert read_policy(owner.policy).refused == (KEY.owner,)
    assert "# what I allow" in owner.policy.read_text()
    device = Device(
        owner.device.vault, read_policy(owner.policy), Store.beside(owner.vault), isolated=False
    )
    receipt = device.answer(sign(owner.query, KEY), int(time.time()))
    assert (receipt.outcome, receipt.reason) == ("refused", "analyst refused")
    browser.click("refuse-0")
    browser.wait(lambda: read_policy(owner.policy).refused == (), "the refusal was not taken back")


def test_the_coins_say_what_they_show_and_a_crowd_is_estimated(
    browser: Browser, page: tuple[object, str]
) -> None:
    browser.open(page[1])
    browser.ready()
    said = set()
    # a truthful "no" says yes a quarter of the time: both are seen but once in 100,000 runs
    for _ in range(40):
        browser.click("flip")
        faces = browser.run(
            "return [...document.querySelectorAll('.coin')].map((coin) => coin.textContent)"
        )
        expected = "no" if faces[0] == "heads" else "yes" if faces[1] == "heads" else "no"
        assert browser.text("says") == expected
        said.add(expected)
    assert said == {"yes", "no"}
    browser.click("ask-crowd")
    assert "of 400 say yes" in browser.text("crowd")


def test_the_page_is_on_loopback_alone_and_needs_its_address(page: tuple[object, str]) -> None:
    address, token = page[1].split("/console/#")
    assert address.startswith("http://127.0.0.1:")
    assert loopback.get(f"{address}/v1/person").status_code == 401
    assert loopback.put(f"{address}/v1/session", json={"token": "guessed"}).status_code == 401
    port = address.rsplit(":", 1)[1]
    cookie = {"deniable_person": token}
    assert loopback.get(f"{address}/v1/person", cookies=cookie).status_code == 200
    rebound = loopback.get(
        f"{address}/v1/person", cookies=cookie, headers={"Host": f"evil.example:{port}"}
    )
    assert (rebound.status_code, rebound.json()["reason"]) == (403, "host")
    forged = loopback.put(
        f"{address}/v1/person/refusals", cookies=cookie, json={"analyst": "x", "refused": True}
    )
    assert (forged.status_code, forged.json()["reason"]) == (403, "csrf")


def test_a_settings_file_that_would_become_unreadable_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    KeyRing([TrustedKey(KEY.public)]).save(tmp_path / "ring.json")
    path.write_text(
        'ring = "ring.json"\nrefused = [\n "a",\n]\n[[proxies]]\naddress = "x"\ntoken = "t"\n'
    )
    path.chmod(0o600)
    before = path.read_text()
    with pytest.raises(PolicyError):
        refuse_analyst(path, "b")
    assert path.read_text() == before
    assert [each.name for each in tmp_path.iterdir() if each.name.endswith(".new")] == []
