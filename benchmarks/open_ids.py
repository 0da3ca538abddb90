"""The memory of a proxy that holds the message ids of open epochs: `python benchmarks/open_ids.py`.

A query may wait for late answers for days, and a proxy must know every id of an open epoch, so that
no answer counts twice. Here an intake takes uploads of one share, each under a token of its own, in
commits of thousands. Printed are the memory of the process, how much of it is not backed by a file,
and that the first uploads, sent again, are found.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import channels_of
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.wire.message import VERSION
from deniable.wire.shares import KIND

_AT_ONCE = 8192


def memory() -> dict[str, float]:
    """MiB of this process: resident now, at most so far, and not backed by a file."""
    lines = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    return {name: int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM", "RssAnon")}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ids", type=int, default=10_000_000)
    given = parser.parse_args()
    origin = int(time.time()) // 3600 * 3600 - 3600
    from benchmarks.proxy import question  # noqa: PLC0415 - after the path is set

    query: Query = question().revised(
        schedule=Schedule(origin, origin + 86400, 3600, 3600, 3600), grace="3 d"
    )
    head = VERSION | KIND << 8 | 1 << 32

    def uploads(part: int, n: int) -> list[Upload]:
        records = np.random.default_rng([2, part]).integers(0, 1 << 64, (n, 10), dtype=np.uint64)
        records[:, 0], records[:, 1] = head, query.channel_tag
        content = records.tobytes()
        clients = np.random.default_rng([3, part]).bytes(32 * n)
        return [
            Upload(clients[32 * i : 32 * i + 32], 1, content[80 * i : 80 * i + 80])
            for i in range(n)
        ]

    with tempfile.TemporaryDirectory() as name:
        intake = Intake(Path(name), IntakeRules(threshold=65536), lambda: int(time.time()))
        intake.set_channels(channels_of([(query.header, None)]))
        before, used = memory(), time.process_time()
        for part, start in enumerate(range(0, given.ids, _AT_ONCE)):
            results = intake.take(uploads(part, min(_AT_ONCE, given.ids - start)))
            assert all(result == UploadReceipt(1, 0) for result in results)
            intake.tick()
        used = time.process_time() - used
        assert intake.take(uploads(0, _AT_ONCE)) == [UploadReceipt(0, 1)] * _AT_ONCE
        after = memory()
        print(
            f"{intake.n_ids:,} open ids, each of another client; {used:.0f} s of processor time,"
            " with making them up"
        )
        print(
            f"  memory {after['VmRSS']:,.0f} MiB, at most {after['VmHWM']:,.0f}; not backed by a"
            f" file {after['RssAnon']:,.0f}"
        )
        print(f"  before the first: {before['VmRSS']:,.0f} MiB")
        intake.close()


if __name__ == "__main__":
    import sys

    sys.path[:0] = [str(Path(__file__).parents[1])]  # the script may be called from anywhere
    main()
