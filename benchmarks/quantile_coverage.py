"""How often the 95 % intervals of quantiles hold the truth, and how many say "at least 95 %".

    python benchmarks/quantile_coverage.py [--crowds 4000]

Each line is one level of one design, with a fixed seed: the coverage of the intervals that say "95
%", how many say so, and the coverage of those that say "at least 95 %". The standard error of a
coverage from 4,000 crowds is 0.34 points. Exits with 1 if intervals that say 95 % (where a tenth or
more of all do) cover less than 94 or more than 96 % by three standard errors, or if intervals that
say "at least" cover less than 95 % by as much.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from deniable import DirectEncoding, SquareWave, Tally, statistics
from deniable.mechanisms.mechanism import Mechanism

Floats = NDArray[np.float64]
LEVELS = (0.25, 0.5, 0.75, 0.9)


class Design(NamedTuple):
    """A mechanism, the true distribution at the edges of its bins, and people per crowd."""

    name: str
    mechanism: Mechanism
    below: NDArray[np.floating[Any]]
    edges: NDArray[np.floating[Any]]
    people: int


def wave(bins: int, epsilon: float, people: int) -> Design:
    edges = np.arange(bins + 1) / bins
    name = f"{bins} bins of a square wave at epsilon {epsilon:g}, {people:,} people"
    return Design(name, SquareWave(epsilon, bins), stats.beta(2, 5).cdf(edges), edges, people)


def direct(shares: Floats, epsilon: float, people: int) -> Design:
    below = np.concatenate([[0.0], np.cumsum(shares / shares.sum())])
    edges = np.arange(shares.size + 1) - 0.5
    name = f"{shares.size} labels, direct encoding at epsilon {epsilon:g}, {people:,} people"
    return Design(name, DirectEncoding(shares.size, epsilon), below, edges, people)


DESIGNS = (
    wave(10, 2.0, 2_000),
    wave(20, 1.0, 2_000),
    wave(20, 2.0, 2_000),
    wave(20, 2.0, 20_000),
    wave(20, 3.0, 2_000),
    wave(32, 2.5, 4_000),
    direct(np.array([0.1, 0.2, 0.3, 0.25, 0.1, 0.05]), 1.5, 1_000),
    direct(np.exp(-np.arange(64) / 12), 3.0, 3_000),
)


def crowds(
    design: Design, level: float, number: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """For each crowd, whether the interval held the truth, and whether it says "at least"."""
    chances = design.mechanism.channel() @ np.diff(design.below)
    counts = np.random.default_rng(12).multinomial(design.people, chances, number)
    true = float(np.interp(level, design.below, design.edges))
    held, more = np.empty(number, dtype=bool), np.empty(number, dtype=bool)
    for at, row in enumerate(counts):
        estimate = Tally(design.mechanism, row, design.people).estimate()
        found = statistics.quantile(
            estimate, level, edges=design.edges.tolist(), evenly=True
        ).to_dict()
        held[at], more[at] = found["low"] <= true <= found["high"], found["covers_more"]
    return held, more


def main() -> Iterator[bool]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--crowds", type=int, default=4_000)
    number = parser.parse_args().crowds
    for design in DESIGNS:
        print(design.name)
        for level in LEVELS:
            held, more = crowds(design, level, number)
            kept = [True]
            texts = []
            for words, chosen, least, most in (
                ("95 %", ~more, 0.94, 0.96),
                ("at least 95 %", more, 0.95, 1.0),
            ):
                if not chosen.any():
                    texts.append(f"{words}: none".ljust(34))
                    continue
                covered, noise = (
                    float(held[chosen].mean()),
                    3 * math.sqrt(0.95 * 0.05 / chosen.sum()),
                )
                kept.append(bool(chosen.mean() < 0.1 or least - noise <= covered <= most + noise))
                texts.append(
                    f"{words}: {100 * covered:.1f} % of {100 * chosen.mean():.1f} %".ljust(34)
                )
            print(
                f"  level {level:<5g} {'  '.join(texts)} {'' if all(kept) else 'OUTSIDE'}",
                flush=True,
            )
            yield all(kept)


if __name__ == "__main__":
    sys.exit(0 if all(list(main())) else 1)
