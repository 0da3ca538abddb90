"""A million malformed shares at the ports of real proxies and in the join: `python
benchmarks/malformed.py [--shares 1_000_000]`.

A fifth are single uploads over HTTP that a proxy must refuse; the others are well-formed one by one
and must be refused where they are joined. Every one has to be counted under the reason that it was
made for, and only the good ones beside them as answers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from toolkit.attacks.malformed import JOINED, Flood


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shares", type=lambda text: int(text.replace("_", "")), default=1_000_000)
    given = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        flood = Flood(Path(folder), given.shares)
        n_answers, refused, balanced = flood.run()
    for reason, n in sorted(flood.expected.items()):
        metered = flood.metered.get(f'refused_total{{reason="{reason}"}}', 0)
        print(
            f"at the port   {reason:16} {n:>9,} sent {flood.told[reason]:>9,} refused so"
            f" {metered:>9,} in the metrics"
        )
        assert n == flood.told[reason] == metered
    for reason in (*JOINED, "orphaned"):
        print(
            f"in the join   {reason:16} {flood.n_messages:>9,} messages {refused[reason]:>9,}"
            " refused so"
        )
        assert refused[reason] == flood.n_messages
    n_shares = flood.n_records + (2 * len(JOINED) + 1) * flood.n_messages
    print(
        f"{n_shares:,} malformed shares; {n_answers:,} answers counted of {flood.n_good:,} good"
        " ones"
    )
    print(f"the books balance: {balanced}; {time.monotonic() - began:.0f} s")
    assert n_answers == flood.n_good
    assert balanced


if __name__ == "__main__":
    main()
