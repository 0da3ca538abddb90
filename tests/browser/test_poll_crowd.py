"""200 people answer one poll, in pages of Chromium and in Node, with both ways to toss: each is
counted once."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toolkit.servers import loopback
from toolkit.servers.browser import Browser
from toolkit.servers.polls import RunningPoll

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
]
PROGRAM = Path(__file__).parents[2] / "clients" / "js" / "test" / "poll_process.mjs"
N_PEOPLE, IN_PAGES, TRUTH = 200, 8, 0.3
PAGE = """
const [place, hand, done] = arguments;
const until = async (state) => {
  while (document.documentElement.dataset.ready !== state) await new Promise((go) => setTimeout(go, 10));
};
const click = async (what) => {
  let found;
  while (!(found = document.querySelector(what))) await new Promise((go) => setTimeout(go, 10));
  found.click();
};
(async () => {
  await until("consent");
  await click("[data-testid=agree]");
  await until("question");
  if (hand) await click("input[name=mode][value=hand]");
  await click(`[data-testid=${hand ? "said" : "option"}-${place}]`);
  await click("[data-testid=next]");
  if (!hand) {
    await until("toss");
    await click("[data-testid=toss]");
    await click("[data-testid=check]");
  }
  await until("leaves");
  await click("[data-testid=send]");
  await until("sent");
})().then(() => done("sent"), (error) => done(String(error)));
"""


def test_200_people_in_pages_and_in_node_are_each_counted_once(
    browser: Browser, tmp_path: Path
) -> None:
    rng = np.random.default_rng(200)
    truths = np.repeat([0, 1], [round(TRUTH * N_PEOPLE), N_PEOPLE - round(TRUTH * N_PEOPLE)])
    places = [int(each) for each in rng.permutation(truths)]
    with RunningPoll(tmp_path, minimum=10, life=1700) as poll:
        query = poll.opened.queries[0]
        key = poll.key.public
        settings: dict[str, Any] = {
            "proxies": [each.url for each in poll.poll.operators],
            "ring": [
                {
                    "owner": key.owner,
                    "public": key.raw.hex(),
                    "valid_from": 0,
                    "valid_until": 2**40,
                    "revoked": False,
                }
            ],
            "text": poll.opened.signed[0].to_bytes().decode(),
            "truths": places[IN_PAGES:],
        }
        with subprocess.Popen(  # noqa: S603 - our own file
            [shutil.which("node") or "node", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            process.stdin.write(json.dumps(settings))
            process.stdin.close()
            process.stdin = None
            for i, place in enumerate(places[:IN_PAGES]):  # while the others answer
                browser.open(poll.link())
                hand = i % 2 == 1
                coins = rng.integers(0, 2, 2)
                said = int(coins[1]) if hand and coins[0] else place
                assert browser.run_async(PAGE, said, hand) == "sent"
                browser.cdp("Storage.clearDataForOrigin", origin=poll.poll.page, storageTypes="all")
            outcomes = json.loads(process.communicate()[0])
        assert outcomes == ["answered"] * (N_PEOPLE - IN_PAGES)
        assert poll.accepted() == [N_PEOPLE, N_PEOPLE]
        # live results move in steps of the minimum, so that the last few people may yet wait
        results = f"{poll.poll.aggregator}/v1/public/queries/{query.id}/results?limit=1"
        shown = browser.wait(
            lambda: [
                each
                for each in loopback.get(results).json()["windows"]
                if each["n"] > N_PEOPLE - poll.poll.minimum
            ],
            "not all are counted",
            seconds=120,
        )
    assert shown[0]["n"] <= N_PEOPLE
    # five standard errors: a false alarm in two million
    assert abs(shown[0]["estimate"][0] - TRUTH) <= 5 * (0.25 / N_PEOPLE) ** 0.5 / 0.5
