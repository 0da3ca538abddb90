"""How much randomizing costs beyond drawing the random bytes it consumes, and how much memory a
large crowd takes.

python benchmarks/randomizing.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from numpy.typing import NDArray

import deniable
from deniable import Source, system_source

USERS = 100_000
ROUNDS = 75


class Metered(Source):
    """The system source, counting the bytes it hands out and the sizes it is asked for."""

    def __init__(self) -> None:
        self.requests: list[int] = []

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self.requests.append(len(buffer))
        system_source().fill(buffer)


def drawing_time(requests: list[int]) -> float:
    """Seconds to draw the same bytes in the same portions into memory that is already there."""
    buffer = np.empty(max(requests), dtype=np.uint8)
    source = system_source()
    start = time.perf_counter()
    for size in requests:
        source.fill(buffer[:size])
    return time.perf_counter() - start


def asking_time(n_bytes: int) -> float:
    """Seconds to ask the source for so many random bytes, and get them in an array: what merely
    drawing them takes a caller."""
    start = time.perf_counter()
    system_source().words(-(-n_bytes // 8))
    return time.perf_counter() - start


def cost_over_drawing(k: int) -> None:
    mechanism = deniable.OptimizedUnary(k, 1.0)
    values = np.random.default_rng(1).integers(0, k, USERS)
    meter = Metered()
    mechanism.privatize(values, meter)
    took, over_asking, over_drawing = [], [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        mechanism.privatize(values)
        took.append(time.perf_counter() - start)
        # Beside each other: a machine that is busy, or throttled, for a while is so for both.
        over_asking.append(took[-1] / asking_time(sum(meter.requests)))
        over_drawing.append(took[-1] / drawing_time(meter.requests))
    print(
        f"OptimizedUnary, k = {k}: {USERS / statistics.median(took):,.0f} users/s,"
        f" {sum(meter.requests) / USERS:.0f} random bytes a user,"
        f" {statistics.median(over_asking):.2f} times asking for them (bar 2.5),"
        f" {statistics.median(over_drawing):.2f} times the cipher alone, into memory that is"
        " already there"
    )


def ten_million() -> None:
    """Ten million users at k = 1024 through a tally, 100,000 at a time, in a process of its own."""
    mechanism = deniable.OptimizedUnary(1024, 1.0)
    tally = mechanism.tally()
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    for _ in range(100):
        tally.update(mechanism.privatize(rng.integers(0, 1024, 100_000)))
    seconds = time.perf_counter() - start
    tally.estimate()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{tally.n:,} users at k = 1024 through a tally: {seconds:.1f} s, peak memory {peak:.0f}"
        " MiB (bar 1,024)"
    )


def import_time() -> None:
    times = []
    for _ in range(9):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import deniable"], check=True)
        whole = time.perf_counter() - start
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        times.append(whole - (time.perf_counter() - start))
    print(f"import deniable: {statistics.median(times):.3f} s (bar 0.3)")


if __name__ == "__main__":
    if sys.argv[1:] == ["ten-million"]:
        ten_million()
    else:
        import_time()
        for size in (16, 128, 1024):
            cost_over_drawing(size)
        subprocess.run([sys.executable, __file__, "ten-million"], check=True)  # noqa: S603
