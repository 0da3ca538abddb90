"""How fast reports become shares, and shares reports: one million answers, two proxies, one core.

    python benchmarks/bench_wire.py

Times are those of the process's own processor time, the best of five runs, so that a busy machine
does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from deniable.wire.blocks import Block, common_rows, cut
from deniable.wire.message import Message
from deniable.wire.shares import join, join_columns, split, split_columns

N = 1_000_000
SINGLE = 2_000


def best(run: Callable[[], Any], repeat: int = 5) -> tuple[float, Any]:
    """The shortest time of some runs, and what the last of them returned."""
    shortest, result = float("inf"), None
    for _ in range(repeat):
        start = time.process_time()
        result = run()
        shortest = min(shortest, time.process_time() - start)
    return shortest, result


def from_blocks(logs: list[list[bytes]], n_bytes: int) -> int:
    """Decode, match, join, verify, take the reports out: all but counting."""
    total = 0
    for contents in zip(*logs, strict=True):
        blocks = [Block.from_bytes(content) for content in contents]
        columns = [block.columns for block in blocks]
        places = common_rows(columns)
        if any(p.size < c.shape[1] for p, c in zip(places, columns, strict=True)):
            columns = [np.take(c, p, axis=1) for p, c in zip(places, columns, strict=True)]
        total += len(join_columns(columns, 7).reports(5, n_bytes)[0])
    return total


def main() -> None:
    for n_bytes in (2, 8):
        reports = np.random.default_rng(1).integers(0, 256, (N, n_bytes), dtype=np.uint8)
        print(f"{N:,} reports of {n_bytes} bytes, 2 proxies, size class 0")
        seconds, shares = best(lambda: split_columns(reports, 5, 7, 0, 2))  # noqa: B023 - called at once
        print(f"  split (draw, tag, XOR)               {N / seconds / 1e6:6.2f} million answers/s")
        seconds, opened = best(lambda: join_columns(shares, 7))  # noqa: B023
        assert np.array_equal(opened.reports(5, n_bytes)[0], reports)
        print(f"  join (XOR, verify tag and header)    {N / seconds / 1e6:6.2f} million answers/s")
        seconds, cuts = best(lambda: [cut(9, 7, 0, rows, prefix_bits=6)[0] for rows in shares])  # noqa: B023
        print(
            f"  cut into 64 sorted blocks            {2 * N / seconds / 1e6:6.2f} million shares/s"
        )
        logs = [[block.to_bytes() for block in blocks] for blocks in cuts]
        seconds, total = best(lambda: from_blocks(logs, n_bytes))  # noqa: B023
        assert total == N
        print(f"  blocks to reports (decode to verify) {N / seconds / 1e6:6.2f} million answers/s")
    message = Message(5, 7, b"\x12\x04")
    seconds, shares = best(lambda: [split(message, 0, 2, 9) for _ in range(SINGLE)])
    print(f"one message alone: split {seconds / SINGLE * 1e6:.1f} us", end="")
    seconds, _ = best(lambda: [join(pair) for pair in shares])
    print(f", join {seconds / SINGLE * 1e6:.1f} us")


if __name__ == "__main__":
    main()
