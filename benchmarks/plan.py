"""How long a plan takes: from a cold start, by the command line, and in a process that has planned
before.

python benchmarks/plan.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from deniable import plan

COLD_STARTS = 7
WARM_PLANS = 50
CASES: dict[str, dict[str, Any]] = {
    "yes/no, smallest proportion": {"cv": 0.05, "sampled_epsilon": 0.7},
    "20 buckets, smallest proportion": {"cv": 0.05, "sampled_epsilon": 0.7, "buckets": 20},
    "20 buckets, least epsilon": {"proportion": 0.1, "cv": 0.05, "buckets": 20},
    "1,000 buckets, error": {"proportion": 0.02, "sampled_epsilon": 0.7, "buckets": 1000},
    "8 buckets, margin, both ceilings": {
        "margin": 0.01,
        "sampled_epsilon": 1.0,
        "epsilon": 2.0,
        "buckets": 8,
    },
}


def cold_start() -> float:
    """Seconds from the shell's call to the printed table."""
    arguments = ["plan", "--population", "100000", "--sampled-epsilon", "0.7", "--cv", "0.05"]
    start = time.perf_counter()
    subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", "from deniable.cli import main; main()", *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - start


def warm(wishes: dict[str, Any]) -> list[float]:
    """Milliseconds of plans for ever new populations, after one for another."""
    plan(population=3_000_000, **wishes)
    times = []
    for i in range(1, WARM_PLANS + 1):
        start = time.perf_counter()
        plan(population=3_000_000 + i, **wishes)
        times.append(1000 * (time.perf_counter() - start))
    return times


def main() -> None:
    starts = sorted(cold_start() for _ in range(COLD_STARTS))
    print(
        f"cold `deniable plan`: median {statistics.median(starts):.2f} s, slowest {starts[-1]:.2f}"
        f" s of {COLD_STARTS}"
    )
    print(f"\n{'warm plan()':<36}{'median ms':>10}{'slowest ms':>12}")
    for name, wishes in CASES.items():
        times = warm(wishes)
        print(f"{name:<36}{statistics.median(times):>10.2f}{max(times):>12.2f}")


if __name__ == "__main__":
    main()
