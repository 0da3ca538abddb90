"""Three hundred devices of the JavaScript client, in pages and in Node, through two proxies and an
aggregator: windows are complete, and the truth is in the intervals as often as they say.

The coins are real. If every interval covers with a probability of 0.95, the count of those that do
falls below its bound with a probability of 1e-6; so it does if the reports fill the wrong buckets.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from deniable.analyst.analyst import Analyst
from deniable.local.services import Address, Aggregator, LocalProxy, Services, free_ports
from deniable.local.services import publish_everywhere as publish
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import sign
from toolkit.crowds import KEY, RING
from toolkit.queries import make_query
from toolkit.servers.browser import Browser
from toolkit.servers.pages import PageServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
]
PROGRAM = Path(__file__).parents[2] / "clients" / "js" / "test" / "crowd_process.mjs"
N_DEVICES, N_TABS, IN_TAB, N_EPOCHS = 300, 3, 10, 12
FALSE_ALARM = 1e-6
EDGES = ["[0,1)", "[1,2)", "[2,5)", "[5,10)", "[10,inf)"]
DISTANCES = [0.5, 1.5, 3.2, 7.0, 12.0]

_GATHER = """
const [settings, distances, tab, done] = arguments;
(async () => {
  const { gather, takePart } = await import("/clients/js/test/crowd.js");
  const { indexedDbStore } = await import("/clients/js/src/index.js");
  const members = await gather(settings, distances, (i) => indexedDbStore(`device ${tab} ${i}`));
  globalThis.takePart = (asked) => takePart(members, asked).then(JSON.stringify, String);
  return members.length;
})().then(done, (error) => done(String(error)));
"""


class Crowd:
    """The devices: some in each of a few tabs, with a database of its own each, the others in a
    process of Node."""

    def __init__(self, browser: Browser, page: PageServer, settings: dict[str, Any]) -> None:
        truth = np.random.default_rng(32).choice(5, N_DEVICES, p=[0.4, 0.25, 0.2, 0.1, 0.05])
        self.proportions = np.bincount(truth, minlength=5) / N_DEVICES
        distances = [DISTANCES[i] for i in truth]
        self.browser, self.tabs = browser, [browser.driver.current_window_handle]
        for tab in range(N_TABS):
            if tab:
                browser.driver.switch_to.new_window("tab")
                self.tabs.append(browser.driver.current_window_handle)
            browser.open(f"{page.origin}/blank.html")
            mine = distances[tab * IN_TAB : (tab + 1) * IN_TAB]
            assert browser.run_async(_GATHER, settings, mine, tab) == IN_TAB
        self.process = subprocess.Popen(  # noqa: S603 - our own file
            [shutil.which("node") or "node", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        rest = distances[N_TABS * IN_TAB :]
        self._say(settings=settings, distances=rest)
        assert self._hear() == len(rest)

    def take_part(self, query: Query, epochs: int) -> list[str]:
        """What came of every epoch and device; all are at work at the same time."""
        schedule = query.schedule
        asked = {
            "id": query.id,
            "origin": schedule.origin,
            "every": schedule.every,
            "epochs": epochs,
        }
        self._say(**asked)
        for tab in self.tabs:
            self.browser.driver.switch_to.window(tab)
            self.browser.run("globalThis.work = takePart(arguments[0])", asked)
        outcomes = []
        for tab in self.tabs:
            self.browser.driver.switch_to.window(tab)
            outcomes += json.loads(
                self.browser.run_async("globalThis.work.then(arguments[arguments.length - 1])")
            )
        return [*outcomes, *self._hear()]

    def _say(self, **said: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(said) + "\n")
        self.process.stdin.flush()

    def _hear(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        for tab in self.tabs[1:]:
            self.browser.driver.switch_to.window(tab)
            self.browser.driver.close()
        self.browser.driver.switch_to.window(self.tabs[0])


@contextmanager
def running(folder: Path, origin: str) -> Iterator[tuple[list[str], Analyst]]:
    """Two proxies that pages of the origin may use, and an aggregator."""
    first, *others = free_ports(3)
    proxies = [
        LocalProxy(
            f"proxy-{port}",
            Address(port=port),
            # epochs may be sent ahead: nobody need wait for them
            intake={"threshold": 500, "deadline": 1, "grace": 10, "skew": 3600},
            enrolment={"mode": "open", "per_hour_and_address": 10_000, "per_second": 10_000},
            browser={"origins": [origin]},
        )
        for port in others
    ]
    aggregator = Aggregator(Address(port=first), limits={"patience": 300})
    with Services(folder, RING, proxies, aggregator) as services, services.analyst() as analyst:
        yield [proxy.address.url for proxy in services.proxies], analyst


def test_three_hundred_devices_fill_windows_whose_intervals_hold_the_truth(
    browser: Browser, tmp_path: Path
) -> None:
    def ask(name: str, origin: int, every: int) -> Query:
        query = make_query(
            id=name,
            columns=[Column("distance", EDGES)],
            schedule=Schedule(origin, origin + 36_000, every, every, every),
            proxies=addresses,
            mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
            sampling=1.0,
            budget=Budget(),
            population=N_DEVICES,
        )
        publish(analyst, sign(query, KEY))
        return query

    browser.driver.set_script_timeout(300)
    page = PageServer()
    with running(tmp_path / "services", page.origin) as (addresses, analyst):
        settings = {
            "proxies": addresses,
            "ring": json.loads((tmp_path / "services" / "ring.json").read_text()),
            "policy": {"epsilon_per_answer": 5, "limits": [], "deadline": 60},
            "firstEpoch": "now",
        }
        crowd = Crowd(browser, page, settings)
        try:
            # One epoch that is under way: everybody enrols, and this shows how long a round takes.
            start = time.monotonic()
            rehearsal = ask("rehearsal", int(time.time()) // 600 * 600, 600)
            assert crowd.take_part(rehearsal, 1) == ["answered"] * N_DEVICES
            took = time.monotonic() - start
            query = ask("trips", int(time.time() + 3 * took) + 1, 1)
            assert crowd.take_part(query, N_EPOCHS) == ["answered"] * (N_DEVICES * N_EPOCHS)
        finally:
            crowd.close()
        windows = []
        for window in analyst.follow(query, after=0):
            windows.append(window)
            if window.index == N_EPOCHS - 1:
                break
    page.close()
    assert [(each.index, each.condition, each.n) for each in windows] == [
        (i, "complete", N_DEVICES) for i in range(N_EPOCHS)
    ]
    held = shifted = 0
    for window in windows:
        assert window.estimate is not None
        low, high = np.asarray(window.estimate.interval(0.95)).T
        held += int(((low <= crowd.proportions) & (crowd.proportions <= high)).sum())
        wrong = np.roll(crowd.proportions, 1)  # as if every device filled the next bucket
        shifted += int(((low <= wrong) & (wrong <= high)).sum())
    n = 5 * N_EPOCHS  # bits of a unary report are independent
    least = binom.ppf(FALSE_ALARM, n, 0.95)
    assert held >= least
    assert shifted < least
