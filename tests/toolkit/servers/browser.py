"""Chromium without a window, driven by WebDriver: what a person would see and do, on loopback
alone.

Debian's packages `chromium` and `chromium-driver` are used (`.ci/browser` installs them). Where
they are missing, browser tests are skipped with that reason, unless DENIABLE_REQUIRE_BROWSER=1 says
that they must run. With DENIABLE_SCREENSHOTS, a folder, pictures of the pages are kept there.
"""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolkit.servers.certificates import public_key_pin, self_signed

__all__ = ["Browser", "axe_source", "browser", "serious_findings"]

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)
_PATIENCE = 60


class Browser:
    """One page of a browser of its own.

    It trusts one certificate besides those of the world's authorities: `certificate`, whose key is
    made with it and lies beside it.
    """

    def __init__(self, chromium: str, chromedriver: str, profile: Path, downloads: Path) -> None:
        from selenium import webdriver  # noqa: PLC0415 - an extra of tests
        from selenium.webdriver.chrome.options import Options  # noqa: PLC0415
        from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

        self.certificate = self_signed(downloads.parent, "loopback")
        trusted = f"--ignore-certificate-errors-spki-list={public_key_pin(self.certificate)}"
        options = Options()
        options.binary_location = chromium
        for flag in (*_FLAGS, trusted, f"--user-data-dir={profile}", "--window-size=1440,1000"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(chromedriver))
        self.driver.set_script_timeout(60)
        self.downloads = downloads
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def cdp(self, name: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self.driver.execute_cdp_cmd(name, parameters)

    def close(self) -> None:
        self.driver.quit()

    # --- the page

    def open(self, address: str) -> None:
        """Open an address; one that differs in its fragment alone is loaded anew as well."""
        self.driver.get("about:blank")
        self.driver.get(address)

    def forget(self) -> None:
        """No cookie, no memory of earlier pages, and a desktop's window in a light theme."""
        self.driver.get("about:blank")
        self.cdp("Network.clearBrowserCookies")
        self.cdp("Storage.clearDataForOrigin", origin="*", storageTypes="all")
        self._log()
        self.size(1440, 1000)
        self.theme("light")

    def size(self, width: int, height: int, phone: bool = False) -> None:
        self.cdp(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=phone,
        )

    def theme(self, name: str) -> None:
        """What the system prefers: light or dark."""
        self.cdp(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}]
        )

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_async_script(script, *arguments)

    def all(self, testid: str) -> list[Any]:
        return self.driver.find_elements("css selector", f'[data-testid="{testid}"]')

    def find(self, testid: str) -> Any:
        """The element of that name, once it is there."""
        return self.wait(lambda: next(iter(self.all(testid)), None), f"there is no {testid}")

    def text(self, testid: str) -> str:
        return str(self.run("return arguments[0].textContent", self.find(testid)))

    def click(self, testid: str) -> None:
        self.run("arguments[0].click()", self.find(testid))

    def ready(self) -> str:
        """Which state the page has come to, once its first chart is drawn."""
        return str(
            self.wait(
                lambda: self.run("return document.documentElement.dataset.ready || ''"),
                "the page is not ready",
            )
        )

    def wait(self, condition: Callable[[], Any], why: str, seconds: float = _PATIENCE) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException  # noqa: PLC0415

        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                found = condition()
            except StaleElementReferenceException:
                found = None
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(
            f"{why}, after {seconds:g} s; the page says:"
            f" {self.run('return document.body.innerText')[:1500]}"
        )

    def sign_in(self, address: str, token: str, fragment: str = "") -> None:
        self.open(f"{address}/console/{fragment}")
        self.find("token").send_keys(token)
        self.run("arguments[0].requestSubmit()", self.find("sign-in"))
        self.wait(lambda: not self.all("sign-in"), "the sign-in form is still there")

    def complaints(self) -> list[str]:
        """What the page's console holds of errors and of breaches of the content policy.

        A refusal by the interface is not one of them: the page shows it, and Chromium notes it in
        any case.
        """
        found = [entry["message"] for entry in self._log() if entry["level"] == "SEVERE"]
        return [each for each in found if "Failed to load resource" not in each]

    def _log(self) -> list[dict[str, Any]]:
        """What the page's console has said since the last time."""
        get_log: Callable[[str], list[dict[str, Any]]] = self.driver.get_log
        return get_log("browser")

    def download(self, name: str) -> bytes:
        """A file that the page offered."""
        path = self.downloads / name
        self.wait(path.exists, f"{name} was not offered")
        return path.read_bytes()

    def picture(self, name: str, most: int = 6000) -> bytes:
        """The page, or its `most` upper pixels, as PNG; kept where DENIABLE_SCREENSHOTS says."""
        width, height = self.run(
            "return [document.documentElement.scrollWidth, document.documentElement.scrollHeight]"
        )
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, most), "scale": 1}
        shot = base64.b64decode(
            self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)[
                "data"
            ]
        )
        folder = os.environ.get("DENIABLE_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{name}.png").write_bytes(shot)
        return shot

    def overflows(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(
            self.run(
                "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
            )
        )


def _missing() -> str:
    lacking = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed (.ci/browser installs them)" if lacking else ""


@pytest.fixture(scope="session")
def _the_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    missing = _missing()
    if missing and os.environ.get("DENIABLE_REQUIRE_BROWSER") == "1":
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("browser")
    (folder / "downloads").mkdir()
    found = Browser(
        str(shutil.which("chromium")),
        str(shutil.which("chromedriver")),
        folder / "profile",
        folder / "downloads",
    )
    yield found
    found.close()


@pytest.fixture
def browser(_the_browser: Browser) -> Browser:
    """The browser, which has forgotten what it saw before."""
    _the_browser.forget()
    return _the_browser


@pytest.fixture(scope="session")
def axe_source() -> str:
    """axe-core, which `.ci/node` installs into the folder that DENIABLE_NODE names."""
    path = (
        Path(os.environ.get("DENIABLE_NODE", "/nonexistent")) / "node_modules/axe-core/axe.min.js"
    )
    if not path.exists():
        reason = "axe-core is not installed (.ci/node FOLDER, and DENIABLE_NODE=FOLDER)"
        if os.environ.get("DENIABLE_REQUIRE_BROWSER") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path.read_text(encoding="utf-8")


def serious_findings(browser: Browser, axe_source: str) -> list[str]:
    """What axe-core calls serious or critical on the page that is open, each with the element it
    means."""
    browser.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe_source})
    result = browser.run_async("const done = arguments[0]; axe.run(document).then(done)")
    assert len(result["passes"]) > 10  # it did look
    return [
        f"{each['id']}: {node['html'][:160]} {node['failureSummary'][:160]}"
        for each in result["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
