"""A soak of weeks on a clock of its own, and twice the capacity: `python benchmarks/load.py
[--weeks 8]`.

The first runs two proxies and an aggregator in this process, hour by hour, and prints what they
take of the machine each week. The second gives a proxy twice the bytes that it may receive at a
time, and prints what it refused, what it kept, and how soon it had taken everything.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from toolkit.servers.loads import Overload, Soak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weeks", type=int, default=8)
    parser.add_argument("--uploads", type=int, default=200)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder))
        print("week   memory MB   handles   files   disk MB   rows of all tables")
        for week in range(1, given.weeks + 1):
            soak.run(7 * 24)
            now = soak.footprints[-1]
            taken = (
                f"{now.memory / 1e6:9.1f} {now.handles:9} {now.files:7}"
                f" {now.bytes_on_disk / 1e6:9.2f}"
            )
            print(f"{week:4} {taken} {sum(now.rows.values()):11}")
        print(
            f"{soak.counted():,} of {soak.sent:,} answers counted; {time.monotonic() - began:.0f} s"
        )
        assert soak.counted() == soak.sent
        soak.close()
    with tempfile.TemporaryDirectory() as folder:
        overload = Overload(Path(folder), n_uploads=given.uploads)
        overload.run()
    print(
        f"twice the capacity: {overload.taken_at_once} of {overload.n_uploads} uploads taken at"
        " once"
    )
    print(
        f"answers {dict(overload.statuses)}, {overload.without_retry} of the refusals without"
        " Retry-After"
    )
    print(f"{overload.acknowledged:,} shares acknowledged, {overload.logged:,} in the log")
    print(f"all of them taken {overload.seconds_to_recover:.1f} s after the burst")
    assert overload.logged == overload.acknowledged


if __name__ == "__main__":
    main()
