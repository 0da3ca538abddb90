"""PrivApprox (Quoc et al. 2017): what each step costs. Times depend on the machine, so ratios and orders are compared.

All times are the process's own processor time in the fastest of a few runs, so that a busy machine has no effect, except for the
latency at proxies, which is wall-clock time.
"""

from __future__ import annotations

import itertools
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.client import encoding, sandbox
from deniable.client.vault import Vault
from deniable.proxy.intake import Intake, Receipt, Rules, Upload
from deniable.queries.buckets import Column
from deniable.queries.channels import Channel
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import system_source
from deniable.reproduce.experiment import Claim, Context, Experiment, Outcome, Series, plot_lines
from deniable.wire.blocks import common_rows
from deniable.wire.message import Message
from deniable.wire.shares import join, join_columns, record_bytes, split, split_columns

__all__ = ["EXPERIMENTS"]

PAPER = "Quoc et al. 2017"
_MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


def _rate(run: Callable[[], Any], operations: int, repeat: int) -> float:
    """Operations per second of processor time, in the fastest of several runs."""
    shortest = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        run()
        shortest = min(shortest, time.process_time() - start)
    return operations / max(shortest, 1e-9)


def _question(**changes: Any) -> Query:
    origin = int(time.time()) // 600 * 600 - 6000
    given: dict[str, Any] = {
        "id": "taxi-distance",
        "analyst": "City of Exampleton",
        "sql": "SELECT distance FROM trips",
        "columns": [Column("distance", _MILES)],
        "schedule": Schedule(origin, origin + 864_000, 600, 600, 600),
        "proxies": ["https://one.example", "https://two.example"],
        "mechanism": {"name": "TwoCoin", "p": 0.9, "q": 0.6},
    }
    return Query(**{**given, **changes})


class _GoldwasserMicali:
    """One bit at a time, as in the textbook: for timing only."""

    def __init__(self, p: int, q: int) -> None:
        self.p, self.n = p, p * q
        self.x = next(x for x in range(2, 10_000) if pow(x, (p - 1) // 2, p) == p - 1 and pow(x, (q - 1) // 2, q) == q - 1)

    def encrypt(self, bit: int) -> int:
        r = secrets.randbelow(self.n - 1) + 1
        return r * r * (self.x if bit else 1) % self.n

    def decrypt(self, c: int) -> int:
        return int(pow(c, (self.p - 1) // 2, self.p) != 1)


class _Paillier:
    """g = n + 1, as in the textbook: for timing only."""

    def __init__(self, p: int, q: int) -> None:
        self.n, self.square = p * q, (p * q) ** 2
        self.secret = (p - 1) * (q - 1)
        self.inverse = pow(self.secret, -1, self.n)

    def encrypt(self, m: int) -> int:
        r = secrets.randbelow(self.n - 1) + 1
        return (1 + m * self.n) * pow(r, self.n, self.square) % self.square

    def decrypt(self, c: int) -> int:
        return (pow(c, self.secret, self.square) - 1) // self.n * self.inverse % self.n


def _table_2(settings: SimpleNamespace, context: Context) -> Outcome:
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=settings.bits)
    primes = key.private_numbers()
    public, oaep = key.public_key(), padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
    micali, paillier = _GoldwasserMicali(primes.p, primes.q), _Paillier(primes.p, primes.q)
    content, n = b"\x08\x00", settings.operations
    sealed = [public.encrypt(content, oaep)] * n
    bits, numbers = [micali.encrypt(1)] * n, [paillier.encrypt(5)] * n
    if (micali.decrypt(bits[0]), paillier.decrypt(numbers[0]), key.decrypt(sealed[0], oaep)) != (1, 5, content):
        raise AssertionError("a cipher does not decrypt what it encrypted")  # a check on ourselves
    reports = np.tile(np.frombuffer(content, dtype=np.uint8), (settings.bulk, 1))
    message = Message(5, 7, content)
    shares, columns = [split(message, 0, 2, 9) for _ in range(n)], split_columns(reports, 5, 7, 0, 2)
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any], int]] = {
        "RSA": (
            lambda: [public.encrypt(content, oaep) for _ in range(n)],
            lambda: [key.decrypt(c, oaep) for c in sealed],
            n,
        ),
        "Goldwasser-Micali": (
            lambda: [micali.encrypt(1) for _ in range(n)],
            lambda: [micali.decrypt(c) for c in bits],
            n,
        ),
        "Paillier": (
            lambda: [paillier.encrypt(5) for _ in range(n)],
            lambda: [paillier.decrypt(c) for c in numbers],
            n,
        ),
        "XOR, one at a time": (
            lambda: [split(message, 0, 2, 9) for _ in range(n)],
            lambda: [join(pair) for pair in shares],
            n,
        ),
        "XOR, in bulk": (
            lambda: split_columns(reports, 5, 7, 0, 2),
            lambda: join_columns(columns, 7),
            settings.bulk,
        ),
    }
    rows = []
    for place, (name, (encrypt, decrypt, count)) in enumerate(pairs.items()):
        rows.append((name, _rate(encrypt, count, settings.repeat), _rate(decrypt, count, settings.repeat), *_SERVER[name]))
        context.done((place + 1) / len(pairs))
    bulk = rows[-1]
    findings = tuple(
        Claim(
            f"XOR is ahead of {row[0]} by a factor of 10 or more, encrypting and decrypting",
            bulk[1] > 10 * row[1] and bulk[2] > 10 * row[2],
            f"{bulk[1] / row[1]:,.0f} and {bulk[2] / row[2]:,.0f} times; paper's server "
            f"{bulk[3] / row[3]:,.0f} and {bulk[4] / row[4]:,.0f}",
        )
        for row in rows[:3]
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        places = np.arange(len(rows))
        ax.bar(places - 0.3, [row[1] for row in rows], 0.2, label="encryption")
        ax.bar(places - 0.1, [row[2] for row in rows], 0.2, label="decryption")
        ax.bar(places + 0.1, [row[3] for row in rows], 0.2, label="encryption, paper's server", color="0.6")
        ax.bar(places + 0.3, [row[4] for row in rows], 0.2, label="decryption, paper's server", color="0.8")
        ax.set_yscale("log")
        ax.set_xticks(places, [row[0] for row in rows])
        ax.set_ylabel("operations per second, one core")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    header = ("scheme", "encryptions/s", "decryptions/s", "paper encryptions/s", "paper decryptions/s")
    return Outcome(findings, header, tuple(rows), draw)


_SERVER = {
    "RSA": (4_909, 859),
    "Goldwasser-Micali": (22_902, 7_068),
    "Paillier": (579, 309),
    "XOR, one at a time": (1_351_937, 22_678_285),
    "XOR, in bulk": (1_351_937, 22_678_285),
}


def _table_3(settings: SimpleNamespace, context: Context) -> Outcome:
    query, source = _question(), system_source()
    index = np.array([3])
    report = encoding.randomize(query, index, source)
    with tempfile.TemporaryDirectory() as folder:
        vault = Vault.create(Path(folder) / "vault.db")
        vault.import_rows("trips", {"distance": "REAL"}, [(i / 7,) for i in range(100)])
        vault.share("trips", ["distance"])
        n = settings.operations
        sandbox.run(vault, query.sql)
        # The sandbox is a separate process, so its time is wall-clock time.
        shortest = float("inf")
        for _ in range(settings.repeat):
            start = time.perf_counter()
            for _ in range(n):
                sandbox.run(vault, query.sql)
            shortest = min(shortest, time.perf_counter() - start)
        read = n / shortest
        context.done(0.5)
        many = 10 * n
        response = _rate(lambda: [encoding.randomize(query, index, source) for _ in range(many)], many, settings.repeat)
        xor = _rate(lambda: [encoding.share_records(query, 3, report, 1, 0, source) for _ in range(many)], many, settings.repeat)
    total = 1 / (1 / read + 1 / response + 1 / xor)
    printed = ((1_162, 19_646, 23_418), (168_938, 418_668, 1_809_662), (15_026, 943_902, 1_351_937), (1_116, 17_236, 22_026))
    names = ("SQLite read", "randomized response", "XOR encryption", "total")
    rows = tuple((name, rate, *theirs) for name, rate, theirs in zip(names, (read, response, xor, total), printed, strict=True))
    findings = (
        Claim(
            "Reading the database is the bottleneck of a client's answer",
            read < min(response, xor),
            f"{read:,.0f}, {response:,.0f} and {xor:,.0f} per second, {total:,.0f} in all; the paper's phone 1,116",
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        places = np.arange(len(rows))
        for shift, (column, label) in enumerate(((1, "ours, one core"), (2, "phone"), (3, "laptop"), (4, "server"))):
            colour = None if column == 1 else str(0.9 - 0.15 * column)
            ax.bar(places + 0.2 * (shift - 1.5), [row[column] for row in rows], 0.2, label=label, color=colour)
        ax.set_yscale("log")
        ax.set_xticks(places, names)
        ax.set_ylabel("operations per second")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    return Outcome(findings, ("step", "ours", "phone", "laptop", "server"), rows, draw)


def _figure_5b(settings: SimpleNamespace, context: Context) -> Outcome:
    rows = []
    for place, size_class in enumerate(settings.size_classes):
        n_bytes = _room(size_class)
        reports = np.zeros((settings.answers, n_bytes), dtype=np.uint8)
        columns = split_columns(reports, 5, 7, size_class, 2)
        rate = _rate(lambda: split_columns(reports, 5, 7, size_class, 2), settings.answers, settings.repeat)  # noqa: B023
        joined = _rate(lambda: join_columns(columns, 7), settings.answers, settings.repeat)  # noqa: B023
        rows.append((8 * n_bytes, record_bytes(size_class), rate, joined, rate * record_bytes(size_class) / 1e6))
        context.done((place + 1) / len(settings.size_classes))
    slope = float(np.polyfit(np.log([row[0] for row in rows[-3:]]), np.log([row[2] for row in rows[-3:]]), 1)[0])
    findings = (
        Claim(
            "Throughput is inversely proportional to the size of the answer's bit vector, once that is large",
            -1.3 < slope < -0.7,
            f"slope {slope:.2f} on a log-log scale over the largest three sizes",
        ),
    )
    bits = [row[0] for row in rows]
    lines = [Series("split into shares", bits, [row[2] for row in rows]), Series("joined", bits, [row[3] for row in rows])]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "bits of an answer", "answers per second, one core", log="xy")

    header = ("bits", "bytes of a share", "splits/s", "joins/s", "MB/s")
    return Outcome(findings, header, tuple(rows), draw)


def _room(size_class: int) -> int:
    """The largest report that fits a size class."""
    n_bytes = 1
    while True:
        try:
            Message(5, 7, bytes(n_bytes + 1)).seal(size_class, (0, 0))
        except ValueError:
            return n_bytes
        n_bytes += 1


def _figure_6(settings: SimpleNamespace, context: Context) -> Outcome:
    query = _question()
    head = 1 | ord("S") << 8 | query.schedule.epoch_of(int(time.time())) << 32
    random = context.random()
    rows = []
    for place, clients in enumerate(settings.clients):
        uploads = []
        for start in range(0, clients, settings.per_upload):
            records = random.integers(0, 1 << 64, (min(settings.per_upload, clients - start), 10), dtype=np.uint64)
            records[:, 0], records[:, 1] = head, query.channel_tag
            uploads.append(records.tobytes())
        with tempfile.TemporaryDirectory() as folder:
            intake = Intake(Path(folder) / "proxy", Rules(threshold=100_000), lambda: int(time.time()))
            intake.set_channels({query.channel_tag: Channel.of_query(query.header)})
            started, processor = time.perf_counter(), time.process_time()
            for start in range(0, len(uploads), 4):
                results = intake.take([Upload(b"client", 1 << 40, content) for content in uploads[start : start + 4]])
                if not all(isinstance(result, Receipt) for result in results):
                    raise AssertionError("an upload was refused")  # a check on ourselves
                intake.tick()
            intake.flush()
            rows.append((clients, time.perf_counter() - started, time.process_time() - processor))
            intake.close()
        context.done((place + 1) / len(settings.clients))
    largest = rows[-1]
    scaled = largest[1] * 1_000_000 / largest[0]
    findings = (
        Claim(
            "A proxy takes a million answers in less time than SplitX's 40.27 s",
            scaled < 40.27,
            f"{scaled:.2f} s (from {largest[0]:,}), durably on the disk; PrivApprox 6.21 s on its cluster",
        ),
        Claim(
            "A proxy's work grows at most linearly with the number of clients, because proxies do not wait for each other",
            largest[2] / rows[-2][2] < 1.5 * largest[0] / rows[-2][0],
            f"{largest[2] / rows[-2][2]:.1f} times for {largest[0] / rows[-2][0]:.0f} times the clients",
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        plot_lines(ax, [Series("ours, one process", [r[0] for r in rows], [r[1] for r in rows])], "clients", "s", log="xy")
        ax.plot([1e6], [40.27], "x", label="SplitX, printed")
        ax.plot([1e6], [6.21], "x", label="PrivApprox, printed")
        ax.set_ylabel("latency at a proxy (s)")
        ax.legend(fontsize=8, frameon=False)

    return Outcome(findings, ("clients", "seconds", "processor seconds"), tuple(rows), draw)


def _joined(answers: int) -> float:
    """Answers matched, joined and counted from two proxies' shares per second of processor time, in one process."""
    reports = np.random.default_rng(1).integers(0, 256, (answers, 2), dtype=np.uint8)
    columns = split_columns(reports, 5, 7, 0, 2)
    other = columns[1][:, np.random.default_rng(2).permutation(answers)]

    def run() -> None:
        first, second = (np.take(c, np.lexsort((c[1], c[0])), axis=1) for c in (columns[0], other))
        places = common_rows([first, second])
        matched = [np.take(c, p, axis=1) for c, p in zip((first, second), places, strict=True)]
        join_columns(matched, 7).reports(5, 2)

    return _rate(run, answers, 2)


def _figure_8(settings: SimpleNamespace, context: Context) -> Outcome:
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415
    from multiprocessing import get_context  # noqa: PLC0415

    rows = []
    for place, workers in enumerate(settings.cores):
        if workers == 1:
            rates = [_joined(settings.answers)]
        else:
            with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
                rates = list(pool.map(_joined, [settings.answers] * workers))
        rows.append((workers, sum(rates)))
        context.done((place + 1) / len(settings.cores))
    scaling = Claim(
        "The aggregator's throughput grows with the number of cores",
        all(later[1] > 1.3 * earlier[1] for earlier, later in itertools.pairwise(rows)),
        ", ".join(f"{workers} core{'s' * (workers > 1)}: {rate / 1e6:.2f} million/s" for workers, rate in rows),
        "shared caches and memory take part of the second core",
    )
    findings = (
        *([scaling] if len(rows) > 1 else []),
        Claim(
            "One core joins more answers per second than one proxy of the paper took with two cores (512,348)",
            rows[0][1] > 512_348,
            f"{rows[0][1]:,.0f} per second",
        ),
    )
    lines = [Series("embedded engine, joining", [r[0] for r in rows], [r[1] for r in rows])]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "cores", "answers per second of processor time", legend=False)

    return Outcome(findings, ("cores", "answers/s"), tuple(rows), draw)


def _figure_10(settings: SimpleNamespace, context: Context) -> Outcome:
    random = context.random()
    size = record_bytes(0)
    rows = []
    for place, s in enumerate(settings.s):
        taking = int(random.binomial(settings.clients, s))
        reports = np.zeros((taking, 2), dtype=np.uint8)
        seconds = taking / _rate(lambda: join_columns(split_columns(reports, 5, 7, 0, 2), 7), taking, settings.repeat)  # noqa: B023
        rows.append((s, 2 * size * taking, seconds))
        context.done((place + 1) / len(settings.s))
    whole, part = rows[-1], next(row for row in rows if row[0] == 0.6)
    findings = (
        Claim(
            "With 60 % sampled, the traffic falls by a factor of 1.62 (taxi) or 1.58 (electricity), nearly 1/0.6",
            1.58 <= whole[1] / part[1] <= 1.72,
            f"{whole[1] / part[1]:.3f}; every answer costs {2 * size} bytes, whatever it says",
        ),
        Claim(
            "With 60 % sampled, the latency falls by a factor of 1.68 (taxi) or 1.66 (electricity)",
            1.35 <= whole[2] / part[2] <= 2.1,
            f"{whole[2] / part[2]:.2f}",
        ),
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        plot_lines(left, [Series("", [r[0] for r in rows], [r[1] / 1e6 for r in rows])], "s", "MB to both proxies")
        plot_lines(right, [Series("", [r[0] for r in rows], [r[2] for r in rows])], "s", "processor time (s)")
        for ax in (left, right):
            ax.set_ylim(bottom=0)

    return Outcome(findings, ("s", "bytes", "seconds"), tuple(rows), draw)


EXPERIMENTS = (
    Experiment(
        "quoc-table-2",
        PAPER,
        "Table 2: XOR beside public-key schemes",
        _table_2,
        {"bits": 1024, "operations": 60, "bulk": 1_000_000, "repeat": 3},
        {"operations": 20, "bulk": 100_000, "repeat": 2},
    ),
    Experiment(
        "quoc-table-3",
        PAPER,
        "Table 3: steps of a client",
        _table_3,
        {"operations": 200, "repeat": 5},
        {"operations": 20, "repeat": 2},
    ),
    Experiment(
        "quoc-figure-5b",
        PAPER,
        "Figure 5 (b): throughput by size of the answer",
        _figure_5b,
        {"size_classes": (0, 1, 2, 3, 4, 5), "answers": 50_000, "repeat": 3},
        {"answers": 5_000, "repeat": 2},
    ),
    Experiment(
        "quoc-figure-6",
        PAPER,
        "Figure 6: latency at proxies, beside SplitX",
        _figure_6,
        {"clients": (100, 1_000, 10_000, 100_000, 1_000_000), "per_upload": 5_000},
        {"clients": (100, 1_000, 10_000, 100_000)},
    ),
    Experiment(
        "quoc-figure-8",
        PAPER,
        "Figure 8: throughput by cores",
        _figure_8,
        {"cores": (1, 2), "answers": 1_000_000},
        {"cores": (1,), "answers": 100_000},
    ),
    Experiment(
        "quoc-figure-10",
        PAPER,
        "Figure 10: traffic and latency by sampling fraction",
        _figure_10,
        {"clients": 1_000_000, "s": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0), "repeat": 3},
        {"clients": 200_000, "repeat": 2},
    ),
)
