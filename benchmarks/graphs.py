"""A graph of 10,000 nodes and 100,000 edges: degrees and triangles with ±, in one round and in two:
time and peak memory.

The bar: each under 90 s and 4 GiB on two cores, reports read from a file. Runs on Linux, for the
peak is read from /proc; each estimate is made in a process of its own, so that the peak is that of
estimating, not of making the graph.

    python benchmarks/graphs.py [--nodes 10000] [--degree 20] [--epsilon 4]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from deniable.graphs import EdgeResponse, Graph, TwoRounds, read_reports, write_reports
from deniable.graphs.baselines import triangles_per_node

SECONDS, GIBIBYTES = 90.0, 4.0


def clustered(nodes: int, degree: int) -> Graph:
    """A ring in which everybody knows the nearest `degree`, with one edge in ten moved
    elsewhere."""
    rng = np.random.default_rng(1)
    low = np.repeat(np.arange(nodes), degree // 2)
    high = (low + np.tile(np.arange(1, degree // 2 + 1), nodes)) % nodes
    moved = rng.random(low.size) < 0.1
    high[moved] = rng.integers(0, nodes, int(moved.sum()))
    pairs = np.sort(np.column_stack([low, high])[low != high], axis=1)
    return Graph.of(np.unique(pairs, axis=0), nodes=nodes)


def measure(path: Path, results: multiprocessing.queues.Queue[tuple[float, float, str]]) -> None:
    """Read the reports and estimate everything: seconds, GiB at the peak, and what is printed."""
    start = time.perf_counter()
    text = str(read_reports(path).estimate())
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text(encoding="ascii")
    results.put((seconds, float(status.partition("VmHWM:")[2].split()[0]) / 1024**2, text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--degree", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=4.0)
    options = parser.parse_args()
    graph = clustered(options.nodes, options.degree)
    triangles = int(triangles_per_node(graph).sum()) // 3
    print(
        f"{graph.nodes:,} nodes, {len(graph.edges):,} edges, {triangles:,} triangles, epsilon"
        f" {options.epsilon:g}"
    )
    context = multiprocessing.get_context("spawn")
    failed = False
    with tempfile.TemporaryDirectory() as name:
        protocols: list[EdgeResponse | TwoRounds] = [
            EdgeResponse(options.epsilon),
            TwoRounds(options.epsilon),
        ]
        for title, protocol in zip(["one round", "two rounds"], protocols, strict=True):
            path = Path(name) / title
            start = time.perf_counter()
            write_reports(protocol.privatize(graph), path)
            randomized = time.perf_counter() - start
            results: multiprocessing.queues.Queue[tuple[float, float, str]] = context.Queue()
            process = context.Process(target=measure, args=(path, results))
            process.start()
            seconds, peak, text = results.get()
            process.join()
            print(
                f"\n{title}: randomized in {randomized:.1f} s, {path.stat().st_size / 1e6:.1f} MB"
                " of reports"
            )
            print(
                f"  estimated in {seconds:.1f} s (bar {SECONDS:.0f} s), peak {peak:.2f} GiB (bar"
                f" {GIBIBYTES:.0f} GiB)"
            )
            print("\n".join(f"  {line}" for line in text.splitlines()))
            failed |= seconds >= SECONDS or peak >= GIBIBYTES
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
