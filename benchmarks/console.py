"""The console's figures: the first chart, frames a second at 1,000 windows of 100 labels, and what
100 open pages cost.

    python benchmarks/console.py            # needs chromium and chromium-driver (.ci/browser) and the extra `test`

The 100 pages are event streams as pages hold them, beside a demonstration of 10,000 people; the
aggregator's processor time is compared over periods with and without them, in turns.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "tests")]

import httpx  # noqa: E402

from deniable.local.datasets import dataset  # noqa: E402
from deniable.local.simulation import Simulation, simulate_dataset  # noqa: E402
from deniable.queries.columns.column import Column  # noqa: E402
from toolkit.servers.browser import Browser  # noqa: E402
from toolkit.servers.consoles import console_query, seeded_console  # noqa: E402

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def follow(url: str, token: str, ending: threading.Event) -> None:
    """A page: one stream, read as it comes."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    with (
        contextlib.suppress(httpx.HTTPError),
        httpx.Client(timeout=60) as client,
        client.stream("GET", f"{url}/v1/stream", headers=headers) as response,
    ):
        for _ in response.iter_raw():
            if ending.is_set():
                return


def cost_of_pages(
    simulation: Simulation, n: int = 100, seconds: float = 10.0, turns: int = 3
) -> tuple[float, float]:
    """Processor seconds of the aggregator for each second, without and with pages that follow."""
    pid = simulation.services.pid("aggregator")
    url, token = (
        simulation.services.aggregator.address.url,
        simulation.services.analyst_token_file.read_text().strip(),
    )
    found: dict[int, list[float]] = {0: [], n: []}
    for _ in range(turns):
        for pages in (0, n):
            ending = threading.Event()
            threads = [
                threading.Thread(target=follow, args=(url, token, ending), daemon=True)
                for _ in range(pages)
            ]
            for thread in threads:
                thread.start()
            time.sleep(3)  # connecting is not following
            before, began = processor_seconds(pid), time.monotonic()
            time.sleep(seconds)
            found[pages].append((processor_seconds(pid) - before) / (time.monotonic() - began))
            ending.set()
            for thread in threads:
                thread.join(20)
    return statistics.median(found[0]), statistics.median(found[n])


def frames(browser: Browser, folder: Path) -> None:
    with seeded_console(folder) as console:
        columns = [Column("what", [f"label {i}" for i in range(100)], kind="text")]
        query = console.publish(console_query(console.proxies, "wide", 1040, columns=columns))
        console.write(query, range(1000), [0.01] * 100, 6000)
        browser.sign_in(console.url, console.analyst, "#live?q=wide")
        browser.ready()
        took = []
        for _ in range(5):
            browser.open(f"{console.url}/console/#live?q=wide")
            browser.wait(lambda: browser.ready() == "live", "no chart")
            took.append(
                browser.run("return performance.getEntriesByName('first-chart')[0].startTime")
            )
        print(f"first chart of 100 labels after {statistics.median(took):.0f} ms (median of 5)")
        time.sleep(2)
        browser.run(
            "window.frames_ = []; let last = performance.now(); const step = (now) => {"
            " window.frames_.push(now - last); last = now; requestAnimationFrame(step); };"
            " requestAnimationFrame(step)"
        )
        time.sleep(3)
        idle = browser.run("const all = window.frames_; window.frames_ = []; return all")
        for index in range(1000, 1010):
            console.write(query, [index], [0.01] * 100, 6000 + index)
            time.sleep(1)
        live = browser.run("return window.frames_")
        for name, each in (("idle", idle), ("live, a window a second", live)):
            print(
                f"{1000 * len(each) / sum(each):.1f} frames a second, {name} (1,000 windows of 100"
                " labels)"
            )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "downloads").mkdir()
        (folder / "console").mkdir()
        browser = Browser(
            "/usr/bin/chromium", "/usr/bin/chromedriver", folder / "profile", folder / "downloads"
        )
        try:
            browser.forget()
            frames(browser, folder / "console")
        finally:
            browser.close()
    with simulate_dataset(dataset("taxi"), 10_000) as simulation:
        time.sleep(4)
        without, with_pages = cost_of_pages(simulation)
    more = with_pages - without
    print(
        f"aggregator: {100 * without:.1f} % of a core without pages, {100 * with_pages:.1f} % with"
        " 100 open ones"
    )
    print(f"100 pages cost {100 * more:.2f} % of a core")


if __name__ == "__main__":
    main()
