"""Hunts for leaks: devices that differ in their data alone must differ in their reports alone.

`python -m toolkit.attacks.leak_hunter --seed 7 --count 1` (from tests/) runs the scenario of seed 7
again and says what differs. `leak_hunter_scenarios.py` draws scenarios, `leak_hunter_device.py`
records what can be observed, and `leak_hunter_plants.py` has the leaks that the hunter must find
when they are planted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from toolkit.attacks.leak_hunter_device import HONEST, Conduct, Life, live, processor_seconds
from toolkit.attacks.leak_hunter_scenarios import Scenario, scenario_of, simpler

__all__ = ["Finding", "difference_of", "differences", "first_leak", "hunt", "shrink"]

_MOST_SHRUNK = 3


@dataclass(frozen=True)
class Finding:
    """Two devices that can be told apart."""

    scenario: Scenario
    parts: tuple[str, ...]
    """The names of what differs."""
    examples: tuple[str, ...] = ()
    """For each of them, where it differs first. No bytes that were sent are shown, and no cell."""

    def __str__(self) -> str:
        seed = self.scenario.seed
        return "\n".join(
            [
                f"two devices that differ in their data alone differ in: {', '.join(self.parts)}",
                *(f"  {example}" for example in self.examples),
                f"the smallest scenario found that shows it, drawn from seed {seed}:",
                f"  {self.scenario}",
                f"again: (cd tests && python -m toolkit.attacks.leak_hunter --seed {seed} --count 1)",
            ]
        )


Probe = Callable[[Scenario], Finding | None]


def differences(
    scenario: Scenario,
    conduct: Conduct = HONEST,
    seen: Counter[str] | None = None,
) -> Finding | None:
    """What tells the two devices of a scenario apart; None if nothing does.

    `seen` counts what happened in their lives.
    """
    memory = Path("/dev/shm")  # noqa: S108 - where there is one; a folder of our own is made there
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        folder = Path(name)
        one = live(folder / "one", scenario, scenario.one, conduct)
        other = live(folder / "other", scenario, scenario.other, conduct)
    if seen is not None:
        seen.update(["scenarios", *(outcome for _, outcome, *_ in one.outcomes)])
        seen.update({"uploads": len(one.sends), "polls": len(one.polls)})
    return difference_of(one, other, scenario)


def difference_of(one: Life, other: Life, scenario: Scenario) -> Finding | None:
    """What tells two lives apart; None if nothing does."""
    parts = one.differing(other, reports=scenario.same_granted)
    examples = tuple(_example(part, one, other) for part in parts)
    return Finding(scenario, parts, examples) if parts else None


def _example(part: str, one: Life, other: Life) -> str:
    if part == "ledger":
        tables = [table for table in one.ledger if one.ledger[table] != other.ledger[table]]
        return f"ledger: the tables {', '.join(tables)}"
    if part == "reports":
        return "reports: although nothing that is granted differs"
    pairs = list(zip_longest(getattr(one, part), getattr(other, part)))
    place = next(i for i, (mine, theirs) in enumerate(pairs) if mine != theirs)
    mine, theirs = map(_without_bytes, pairs[place])
    return f"{part}, number {place + 1}: {mine} or {theirs}"


def _without_bytes(entry: Any) -> Any:
    if isinstance(entry, bytes):
        return f"<{len(entry)} bytes>"
    if isinstance(entry, list):
        return f"<{len(entry)} records>"
    return tuple(map(_without_bytes, entry)) if isinstance(entry, tuple) else entry


def first_leak(scenarios: Iterable[Scenario], conduct: Conduct, part: str) -> Finding | None:
    """The first finding where a planted leak shows in this part and an honest device does not."""
    for scenario in scenarios:
        found = differences(scenario, conduct)
        if found is not None and part in found.parts:
            honest = differences(scenario)
            if honest is None or part not in honest.parts:
                return found
    return None


def shrink(finding: Finding, probe: Probe = differences, most_tries: int = 40) -> Finding:
    """The same leak in a scenario that no step of `simpler` makes simpler, if the tries suffice.

    It counts as the same leak as long as the first thing that differed does.
    """
    tries = 0
    searching = True
    while searching:
        searching = False
        for scenario in simpler(finding.scenario):
            if tries == most_tries:
                return finding
            tries += 1
            found = probe(scenario)
            if found is not None and finding.parts[0] in found.parts:
                finding, searching = found, True
                break
    return finding


def hunt(seed: int, end: int, minutes: float = 0.0) -> tuple[Counter[str], list[str]]:
    """What happened in the scenarios of these seeds, and of later ones while there is time; and the
    leaks found, in words."""
    ends = time.monotonic() + 60 * minutes
    seen: Counter[str] = Counter()
    found: list[str] = []
    while seed < end or time.monotonic() < ends:
        if leak := differences(scenario_of(seed), seen=seen):
            found.append(str(shrink(leak, most_tries=10) if len(found) < _MOST_SHRUNK else leak))
        seed += 1
    return seen, found


def main() -> None:
    """Hunt, and say what was found."""
    parser = argparse.ArgumentParser(description="Hunt for leaks of an honest device.")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="the first scenario; those from -1 down are the known ones",
    )
    parser.add_argument("--count", type=int, default=100, help="how many scenarios")
    parser.add_argument("--shrink", action="store_true", help="shrink each scenario that leaks")
    given = parser.parse_args()
    seen: Counter[str] = Counter()
    started = processor_seconds()
    for seed in range(given.seed, given.seed + given.count):
        found = differences(scenario_of(seed), seen=seen)
        if found is not None:
            seen["leaks"] += 1
            found = shrink(found) if given.shrink else found
            print(f"{found}\n", flush=True)  # noqa: T201 - a program of its own
    print(dict(seen), f"{processor_seconds() - started:.0f} s of processor time")  # noqa: T201
    sys.exit(seen["leaks"] > 0)


if __name__ == "__main__":
    main()
