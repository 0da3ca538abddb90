"""Distinguishing games on the reports that the JavaScript client draws, judged here: no world is
told from another too well.

As in tests/statistical/test_distinguishing_games.py, an adversary chooses an event on reports of
their own; each bound fails with a probability of 1e-9. 100,000 draws per world in the suite, a
million with DENIABLE_LONG=1.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import beta

SCRIPT = Path(__file__).parents[2] / "clients" / "js" / "test" / "draw_reports.mjs"
N = 1_000_000 if os.environ.get("DENIABLE_LONG") == "1" else 100_000
FALSE_ALARM = 1e-9
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed"),
]

GAMES: dict[str, dict[str, Any]] = {
    "TwoCoin": {"mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5}},
    "TwoCoin, inverted": {"mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.75, "inverted": True}},
    "UnaryEncoding": {"mechanism": {"name": "UnaryEncoding", "a": 0.625, "b": 0.375}},
    "SymmetricUnary": {"mechanism": {"name": "SymmetricUnary", "epsilon": 1.0}},
    "OptimizedUnary": {"mechanism": {"name": "OptimizedUnary", "epsilon": 1.0}},
    "DirectEncoding": {"mechanism": {"name": "DirectEncoding", "epsilon": 1.0}},
    "SubsetSelection": {"mechanism": {"name": "SubsetSelection", "epsilon": 1.0}, "k": 4},
    "LocalHashing": {"mechanism": {"name": "LocalHashing", "epsilon": 1.0, "g": 4}},
    "HadamardResponse": {"mechanism": {"name": "HadamardResponse", "epsilon": 1.0}},
    "ProjectiveResponse": {"mechanism": {"name": "ProjectiveResponse", "epsilon": 1.0, "q": 2}},
    "HierarchicalRanges": {
        "mechanism": {"name": "HierarchicalRanges", "epsilon": 1.0, "fan_outs": [2, 2]},
        "k": 4,
    },
    "DesignMatrix": {
        "mechanism": {
            "name": "DesignMatrix",
            "P": [[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]],
        }
    },
    "BasicRappor": {"mechanism": {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75}},
    "two steps": {
        "mechanism": {"name": "SymmetricUnary", "epsilon": 2.0},
        "instantaneous": {"p": 0.25, "q": 0.75},
    },
}


def drawn(game: dict[str, Any], answers: list[int], n: int) -> list[dict[str, Any]]:
    questions = "".join(
        json.dumps({"k": 3, **game, "answer": answer, "n": n}) + "\n" for answer in answers
    )
    said = subprocess.run(  # noqa: S603 - our own files
        [shutil.which("node") or "node", str(SCRIPT)],
        input=questions,
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in said.stdout.splitlines()]


def lower_bound(look: list[dict[str, int]], play: list[dict[str, int]], n: int) -> float:
    """What the loss is at least: of the reports that were likelier in the first world, how much
    likelier they are again."""
    likely, rare = look
    ratios = {
        report: count / (rare.get(report, 0) + 1)
        for report, count in likely.items()
        if count >= 100
    }
    best = max(ratios.values())
    event = {report for report, ratio in ratios.items() if ratio >= 0.9 * best}
    k1, k0 = (sum(count for report, count in world.items() if report in event) for world in play)
    low, high = beta.ppf(FALSE_ALARM, k1, n - k1 + 1), beta.isf(FALSE_ALARM, k0 + 1, n - k0)
    return math.log(low / high)


@pytest.mark.parametrize("name", GAMES)
def test_the_reports_of_two_answers_are_no_easier_to_tell_apart_than_is_claimed(name: str) -> None:
    worlds = drawn(GAMES[name], [0, 1, 0, 1], N)
    claim = worlds[0]["loss"]
    zero, one, zero_again, one_again = (world["counts"] for world in worlds)
    found = max(
        lower_bound([zero, one], [zero_again, one_again], N),
        lower_bound([one, zero], [one_again, zero_again], N),
    )
    assert found <= claim
    assert found >= 0.7 * claim, (
        "the adversary should come close: otherwise this game shows nothing"
    )


def test_a_mechanism_that_loses_more_than_it_says_loses_its_game() -> None:
    game = {"mechanism": {"name": "DirectEncoding", "epsilon": 1.25}}
    zero, one, zero_again, one_again = (world["counts"] for world in drawn(game, [0, 1, 0, 1], N))
    assert lower_bound([zero, one], [zero_again, one_again], N) > 1.0
