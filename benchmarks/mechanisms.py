"""This library beside pure-ldp, multi-freq-ldpy and opendp, client and server, in one run.

    pip install -e '.[bench]' && python benchmarks/mechanisms.py [--users 100000] [--json FILE] [--check]

Every library is called the way its own documentation calls it: ours with a column, the others once
a user. Times are per user, client plus server. Ours is the median of several runs; the others,
which take seconds, run once. The error column is the mean squared error of the proportions over the
protocol's theoretical variance, averaged over enough crowds to tell 5 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import deniable

warnings.filterwarnings("ignore")  # of the peers, which we do not mend

EPSILON = 1.0
SIZES = (16, 128, 1024)
# How many times faster than (peer, protocol) at each size of the domain: the bars this library sets
# itself.
BARS = {
    ("optimized unary", "pure-ldp"): (100, 100, 50),
    ("optimized unary", "multi-freq-ldpy"): (20, 20, 20),
    ("optimized unary", "opendp"): (500, 500, 500),
    ("direct encoding", "pure-ldp"): (10, 10, 10),
    ("direct encoding", "multi-freq-ldpy"): (10, 10, 10),
    ("direct encoding", "opendp"): (500, 500, 500),
    ("local hashing", "pure-ldp"): (50, 50, 50),
    ("local hashing", "multi-freq-ldpy"): (50, 50, 50),
    ("Hadamard response", "pure-ldp"): (100, 100, 100),
}
OURS: dict[str, Callable[[int, float], deniable.Mechanism]] = {
    "direct encoding": deniable.DirectEncoding,
    "optimized unary": deniable.OptimizedUnary,
    "local hashing": deniable.LocalHashing,
    "Hadamard response": deniable.HadamardResponse,
}

Client = Callable[[NDArray[np.int64], int], Any]
Server = Callable[[Any, int], NDArray[np.float64]]


@dataclass(frozen=True)
class Timing:
    """Seconds for all users, and the proportions that came out."""

    client: float
    server: float
    estimate: NDArray[np.float64]

    @property
    def total(self) -> float:
        """Client plus server."""
        return self.client + self.server


def timed(client: Client, server: Server, values: NDArray[np.int64], k: int) -> Timing:
    start = time.perf_counter()
    reports = client(values, k)
    middle = time.perf_counter()
    estimate = server(reports, k)
    return Timing(middle - start, time.perf_counter() - middle, estimate)


def ours(protocol: str, k: int) -> tuple[Client, Server]:
    mechanism = OURS[protocol](k, EPSILON)
    return (lambda values, _: mechanism.privatize(values)), (
        lambda reports, _: mechanism.estimate(reports).proportions
    )


def pure_ldp(protocol: str, k: int) -> tuple[Client, Server] | None:
    from pure_ldp import frequency_oracles as fo  # noqa: PLC0415

    if protocol == "Hadamard response":
        server = fo.HadamardResponseServer(EPSILON, k)
        client = fo.HadamardResponseClient(EPSILON, k, server.get_hash_funcs())
    elif protocol == "optimized unary":
        client, server = (
            fo.UEClient(EPSILON, k, use_oue=True),
            fo.UEServer(EPSILON, k, use_oue=True),
        )
    elif protocol == "direct encoding":
        client, server = fo.DEClient(EPSILON, k), fo.DEServer(EPSILON, k)
    else:
        client, server = (
            fo.LHClient(EPSILON, k, use_olh=True),
            fo.LHServer(EPSILON, k, use_olh=True),
        )

    def answer(values: NDArray[np.int64], _: int) -> list[Any]:
        return [client.privatise(value) for value in (values + 1).tolist()]  # its values start at 1

    def aggregate(reports: list[Any], k: int) -> NDArray[np.float64]:
        for report in reports:
            server.aggregate(report)
        return np.asarray(server.estimate_all(range(1, k + 1), suppress_warnings=True)) / len(
            reports
        )

    return answer, aggregate


def multi_freq_ldpy(protocol: str, k: int) -> tuple[Client, Server] | None:
    one: Any
    all_of_them: Any
    from multi_freq_ldpy.pure_frequency_oracles import GRR, LH, UE  # noqa: PLC0415

    if protocol == "optimized unary":
        one, all_of_them = (
            (lambda v: UE.UE_Client(v, k, EPSILON, True)),
            (lambda r: UE.UE_Aggregator_MI(r, EPSILON, True)),
        )
    elif protocol == "direct encoding":
        one, all_of_them = (
            (lambda v: GRR.GRR_Client(v, k, EPSILON)),
            (lambda r: GRR.GRR_Aggregator_MI(r, k, EPSILON)),
        )
    elif protocol == "local hashing":
        one, all_of_them = (
            (lambda v: LH.LH_Client(v, k, EPSILON, True)),
            (lambda r: LH.LH_Aggregator_MI(r, k, EPSILON, True)),
        )
    else:
        return None
    # Numba compiles at the first call; that is not what is compared here
    all_of_them([one(0), one(1)])
    return (lambda values, _: [one(value) for value in values.tolist()]), (
        lambda reports, _: np.asarray(all_of_them(reports))
    )


def opendp(protocol: str, k: int) -> tuple[Client, Server] | None:
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    if protocol == "direct encoding":
        a = np.exp(EPSILON) / (np.exp(EPSILON) + k - 1)
        measure = dp.m.make_randomized_response(list(range(k)), a)

        def aggregate(reports: list[int], k: int) -> NDArray[np.float64]:
            b = (1 - a) / (k - 1)
            return np.asarray((np.bincount(reports, minlength=k) / len(reports) - b) / (a - b))

        return (lambda values, _: [measure(value) for value in values.tolist()]), aggregate
    if protocol == "optimized unary":  # the unary protocol it has is the symmetric one
        f = 2 / (np.exp(EPSILON / 2) + 1)
        bits = dp.m.make_randomized_response_bitvec(
            dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=f
        )
        one_hot = [np.packbits(row).tobytes() for row in np.eye(k, dtype=np.uint8)]
        return (
            lambda values, _: [bits(one_hot[value]) for value in values.tolist()],
            lambda reports, _: (
                np.asarray(dp.m.debias_randomized_response_bitvec(reports, f)) / len(reports)
            ),
        )
    return None


PEERS = {"pure-ldp": pure_ldp, "multi-freq-ldpy": multi_freq_ldpy, "opendp": opendp}


def error_over_theory(protocol: str, k: int, users: int) -> float:
    """Mean squared error of many crowds over b(1-b)/(n(a-b)^2) + f(1-a-b)/(n(a-b)): 20,000 squared
    errors tell it to 1 %."""
    mechanism = OURS[protocol](k, EPSILON)
    support = mechanism.support()
    assert support is not None
    a, b = support
    rng = np.random.default_rng(k)
    shares = rng.dirichlet(np.ones(k))
    ratios = []
    for _ in range(max(8, 20_000 // k)):
        values = rng.choice(k, size=users, p=shares)
        truth = np.bincount(values, minlength=k) / users
        theory = (b * (1 - b) / (a - b) ** 2 + truth * (1 - a - b) / (a - b)) / users
        error = mechanism.estimate(mechanism.privatize(values)).proportions - truth
        ratios.append(float((error**2).sum() / theory.sum()))
    return statistics.fmean(ratios)


def compare(protocol: str, k: int, users: int, seed: int = 1) -> dict[str, Any]:
    values = np.random.default_rng(seed).integers(0, k, users)
    client, server = ours(protocol, k)
    timed(client, server, values, k)
    runs = [timed(client, server, values, k) for _ in range(9)]
    mine = statistics.median(run.total for run in runs)
    row: dict[str, Any] = {
        "protocol": protocol,
        "k": k,
        "users_per_second": {
            "deniable": users / mine,
            "deniable client": users / statistics.median(run.client for run in runs),
            "deniable server": users / statistics.median(run.server for run in runs),
        },
        "ratio": {},
        "error_over_theory": error_over_theory(protocol, k, users),
    }
    for name, make in PEERS.items():
        made = make(protocol, k)
        if made is None:
            continue
        theirs = timed(*made, values, k)
        again = statistics.median(timed(client, server, values, k).total for _ in range(5))
        row["users_per_second"][name] = users / theirs.total
        # Ours is measured before and after each peer, and the slower one counts: what the machine
        # did meanwhile hit both.
        row["ratio"][name] = theirs.total / max(mine, again)
    return row


def show(row: dict[str, Any]) -> bool:
    """Print a row; returns whether all its bars are met."""
    rates = ", ".join(f"{name} {rate:,.0f}/s" for name, rate in row["users_per_second"].items())
    print(f"{row['protocol']}, k = {row['k']}: {rates}")
    good: bool = abs(row["error_over_theory"] - 1) <= 0.05
    print(
        f"    error over theory {row['error_over_theory']:.3f} (bar 0.95 to 1.05:"
        f" {'met' if good else 'MISSED'})"
    )
    for peer, ratio in row["ratio"].items():
        bar = BARS.get((row["protocol"], peer))
        if bar is None:
            print(f"    {ratio:,.0f} times {peer}")
            continue
        wanted = bar[SIZES.index(row["k"])]
        met = ratio >= wanted
        good = good and met
        print(f"    {ratio:,.0f} times {peer} (bar {wanted}: {'met' if met else 'MISSED'})")
    return good


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bar is missed")
    arguments = parser.parse_args()
    rows, good = [], True
    for protocol in OURS:
        for k in SIZES:
            row = compare(protocol, k, arguments.users)
            good = show(row) and good
            rows.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    if arguments.check and not good:
        sys.exit(1)


if __name__ == "__main__":
    main()
