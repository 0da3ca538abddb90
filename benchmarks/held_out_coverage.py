"""How often intervals hold the truth in settings that nothing was tuned on.

    python benchmarks/held_out_coverage.py [--settings 500] [--seed 2026]

First those in which earlier releases covered too little (`LISTED`); then it draws survey designs and
mechanisms with random parameters, from 30 to 2,000 people and proportions
from 0.5 to 99.5 %. Exits with 1 if intervals that say just "95 %" cover less than 93.5 or more than
97 %, or intervals that say "at least" less than 94 %, among the surveys that say so (if those are
at least one in a hundred). Four in five settings are enumerated, and exact; the others have 4,000
surveys, and 3.5 standard errors are allowed for (false alarm 5e-4 each).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from itertools import chain

import numpy as np

from deniable import (
    Crosswise,
    DirectEncoding,
    DirectQuestion,
    ForcedResponse,
    Kuk,
    LocalHashing,
    Mangat,
    OptimizedUnary,
    SquareWave,
    Triangular,
    UnrelatedQuestion,
    Warner,
)
from deniable.audit.rehearsal.coverage import Coverage, coverage_of
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.mechanisms.mechanism import Mechanism

TRIALS = 4_000
LISTED: tuple[tuple[SurveyDesign | Mechanism, int, float], ...] = (
    (Triangular("1/4"), 200, 0.98),
    (Triangular("1/4"), 200, 0.99),
    (Mangat("3/5"), 500, 0.99),
    (DirectQuestion(), 500, 0.01),
    (DirectQuestion(), 30, 0.05),
    (UnrelatedQuestion("7/10", "1/4"), 30, 0.05),
    (UnrelatedQuestion("7/10", "1/4"), 300, 0.05),
    (Kuk("4/5", "3/10", 5), 200, 0.05),
    (OptimizedUnary(4, 8.0), 30, 0.02),
    (LocalHashing(4, 8.0), 30, 0.02),
    (DirectEncoding(4, 8.0), 30, 0.02),
    (DirectEncoding(4, 8.0), 30, 0.2),
    (SquareWave(4.0, 8), 500, 0.0),
)
"""Settings in which an earlier release's intervals covered 26 to 92 %."""
SAID = 0.01
"""What is said in fewer surveys than this is not judged."""


def draw_subject(rng: np.random.Generator, enumerated: bool) -> SurveyDesign | Mechanism:
    """A design or mechanism with random parameters."""
    if not enumerated:
        epsilon, k = float(rng.uniform(0.5, 4)), int(rng.integers(3, 13))
        return SquareWave(epsilon, k) if rng.random() < 0.3 else DirectEncoding(k, epsilon)
    p = float(rng.uniform(0.6, 0.9))
    kinds = (
        lambda: Warner(p),
        lambda: Crosswise(1 - p),
        lambda: Mangat(p),
        lambda: Triangular(1 - p),
        DirectQuestion,
        lambda: UnrelatedQuestion(p, float(rng.uniform(0.1, 0.9))),
        lambda: ForcedResponse((1 - p) / 2, (1 - p) / 2),
        lambda: DirectEncoding(2, float(rng.uniform(0.5, 4))),
    )
    return kinds[int(rng.integers(len(kinds)))]()


def held_out(settings: int, seed: int) -> Iterator[Coverage]:
    """The coverage of so many random settings."""
    rng = np.random.default_rng(seed)
    for place in range(settings):
        subject = draw_subject(rng, place % 5 > 0)
        n = round(math.exp(rng.uniform(math.log(30), math.log(2_000))))
        proportion = 1 / (1 + math.exp(-rng.uniform(-5.3, 5.3)))
        yield coverage_of(subject, n, proportion, trials=TRIALS, seed=place)


def is_right(found: Coverage) -> bool:
    """Whether intervals cover as they say."""
    right = True
    for covered, part, least, most in (
        (found.plain, found.plain_part, 0.935, 0.97),
        (found.at_least, 1 - found.plain_part, 0.94, 1.0),
    ):
        if covered is not None and part >= SAID:
            noise = 0.0 if found.exact else 3.5 * math.sqrt(0.05 * 0.95 / (part * found.trials))
            right = right and least - noise <= covered <= most + noise
    return right


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--settings", type=int, default=500)
    parser.add_argument("--seed", type=int, default=2026)
    given = parser.parse_args()
    wrong = plain = 0
    listed = (coverage_of(*setting, trials=TRIALS) for setting in LISTED)
    for found in chain(listed, held_out(given.settings, given.seed)):
        plain += found.plain is not None and found.plain_part >= SAID
        if not is_right(found):
            wrong += 1
            print("OUTSIDE", found, flush=True)
    print(
        f"{len(LISTED)} + {given.settings} settings, {plain} of which say plain 95 %: {wrong} outside"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
