"""Joint table of 10 binary attributes and 1 million records, standard errors included: time and
peak memory.

The bar: under 1 s and under 500 MiB. Runs on Linux, for the peak is read from /proc. The table is
estimated in a process of its own, so that the peak is that of reading the reports and estimating,
not of making them.

    python benchmarks/tables.py [--records 1000000] [--attributes 10]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from deniable import BinaryResponse, OptimizedUnary, Reports, joint, seeded_source, statistics

SECONDS, MEBIBYTES = 1.0, 500.0


def simulate(folder: Path, attributes: int, records: int) -> None:
    """Write the reports of attributes that each depend on the one before."""
    rng, source = np.random.default_rng(1), seeded_source(1)
    values = rng.integers(0, 2, records)
    for i in range(attributes):
        values = np.where(rng.random(records) < 0.3, rng.integers(0, 2, records), values)
        reports = BinaryResponse(0.6, 0.5).privatize(values, source)
        (folder / f"attribute{i}").write_bytes(reports.to_bytes())


def measure(
    folder: Path, attributes: int, results: multiprocessing.queues.Queue[dict[str, float]]
) -> None:
    """Estimate the table and everything a reader of it would want, with times in seconds and the
    process's peak in MiB."""
    before = _peak()
    names = [f"attribute{i}" for i in range(attributes)]
    reports = {name: Reports.from_bytes((folder / name).read_bytes()) for name in names}
    start = time.perf_counter()
    table = joint({name: BinaryResponse(0.6, 0.5) for name in names}, reports)
    stderr = table.stderr
    cells = time.perf_counter()
    assert stderr.shape == (2,) * attributes
    assert np.all(stderr > 0)
    table.conditional(names[1], given=names[0])
    statistics.mutual_information(table, names[0], tuple(names[1:3]))
    statistics.entropy(table)
    derived = time.perf_counter()
    results.put(
        {
            "table and ±": cells - start,
            "conditional and statistics": derived - cells,
            "peak": _peak(),
            "idle": before,
        }
    )


def unary(records: int) -> float:
    """Seconds for a table of two attributes of 16 labels collected as bits."""
    mechanism, source = OptimizedUnary(16, 2.0), seeded_source(2)
    rng = np.random.default_rng(2)
    reports = {name: mechanism.privatize(rng.integers(0, 16, records), source) for name in "ab"}
    start = time.perf_counter()
    assert np.all(joint({"a": mechanism, "b": mechanism}, reports).stderr > 0)
    return time.perf_counter() - start


def _peak() -> float:
    """Of this program alone: getrusage would count what its parent held when it was started."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--attributes", type=int, default=10)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.queues.Queue[dict[str, float]] = context.Queue()
    with tempfile.TemporaryDirectory() as name:
        simulate(Path(name), options.attributes, options.records)
        process = context.Process(target=measure, args=(Path(name), options.attributes, results))
        process.start()
        found = results.get()
        process.join()
    seconds = found["table and ±"]
    print(f"{options.attributes} binary attributes, {options.records:,} records")
    print(f"  table and ±                 {seconds:8.3f} s    (bar {SECONDS} s)")
    print(f"  conditional and statistics  {found['conditional and statistics']:8.3f} s")
    print(
        f"  peak memory                 {found['peak']:8.0f} MiB  (bar {MEBIBYTES:.0f} MiB;"
        f" {found['idle']:.0f} at the start)"
    )
    print(
        f"two attributes of 16 labels as bits, {options.records:,} records:"
        f" {unary(options.records):.3f} s"
    )
    return 0 if seconds < SECONDS and found["peak"] < MEBIBYTES else 1


if __name__ == "__main__":
    sys.exit(main())
