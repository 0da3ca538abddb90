"""PrivApprox (Quoc et al. 2017): what each step costs. Times depend on the machine, so ratios and
orders are compared.

All times are the process's own processor time in the fastest of a few runs, so that a busy machine
has no effect, except for the latency at proxies, which is wall-clock time.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.client import encoding
from deniable.client.sandbox import interface as sandbox
from deniable.client.vaults.vault import Vault
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import system_source
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    ExperimentOutcome,
)
from deniable.wire.message import Message
from deniable.wire.shares import join, join_columns, split, split_columns

__all__ = ["EXPERIMENTS"]

PAPER = "Quoc et al. 2017"
MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


def rate_of(run: Callable[[], Any], operations: int, repeat: int) -> float:
    """Operations per second of processor time, in the fastest of several runs."""
    shortest = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        run()
        shortest = min(shortest, time.process_time() - start)
    return operations / max(shortest, 1e-9)


def question(**changes: Any) -> Query:
    origin = int(time.time()) // 600 * 600 - 6000
    given: dict[str, Any] = {
        "id": "taxi-distance",
        "analyst": "City of Exampleton",
        "sql": "SELECT distance FROM trips",
        "columns": [Column("distance", MILES)],
        "schedule": Schedule(origin, origin + 864_000, 600, 600, 600),
        "proxies": ["https://one.example", "https://two.example"],
        "mechanism": {"name": "TwoCoin", "p": 0.9, "q": 0.6},
    }
    return Query(**{**given, **changes})


class _GoldwasserMicali:
    """One bit at a time, as in the textbook: for timing only."""

    def __init__(self, p: int, q: int) -> None:
        self.p, self.n = p, p * q
        self.x = next(
            x
            for x in range(2, 10_000)
            if pow(x, (p - 1) // 2, p) == p - 1 and pow(x, (q - 1) // 2, q) == q - 1
        )

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


def _table_2(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415 - slow to import
    from cryptography.hazmat.primitives.asymmetric import padding, rsa  # noqa: PLC0415

    key = rsa.generate_private_key(public_exponent=65537, key_size=settings.bits)
    primes = key.private_numbers()
    public, oaep = (
        key.public_key(),
        padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None),
    )
    micali, paillier = _GoldwasserMicali(primes.p, primes.q), _Paillier(primes.p, primes.q)
    content, n = b"\x08\x00", settings.operations
    sealed = [public.encrypt(content, oaep)] * n
    bits, numbers = [micali.encrypt(1)] * n, [paillier.encrypt(5)] * n
    if (micali.decrypt(bits[0]), paillier.decrypt(numbers[0]), key.decrypt(sealed[0], oaep)) != (
        1,
        5,
        content,
    ):
        raise AssertionError("a cipher does not decrypt what it encrypted")  # a check on ourselves
    reports = np.tile(np.frombuffer(content, dtype=np.uint8), (settings.bulk, 1))
    message = Message(5, 7, content)
    shares, columns = (
        [split(message, 0, 2, 9) for _ in range(n)],
        split_columns(reports, 5, 7, 0, 2),
    )
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
        rows.append(
            (
                name,
                rate_of(encrypt, count, settings.repeat),
                rate_of(decrypt, count, settings.repeat),
                *_SERVER[name],
            )
        )
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
        ax.bar(
            places + 0.1,
            [row[3] for row in rows],
            0.2,
            label="encryption, paper's server",
            color="0.6",
        )
        ax.bar(
            places + 0.3,
            [row[4] for row in rows],
            0.2,
            label="decryption, paper's server",
            color="0.8",
        )
        ax.set_yscale("log")
        ax.set_xticks(places, [row[0] for row in rows])
        ax.set_ylabel("operations per second, one core")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    header = (
        "scheme",
        "encryptions/s",
        "decryptions/s",
        "paper encryptions/s",
        "paper decryptions/s",
    )
    return ExperimentOutcome(findings, header, tuple(rows), draw)


_SERVER = {
    "RSA": (4_909, 859),
    "Goldwasser-Micali": (22_902, 7_068),
    "Paillier": (579, 309),
    "XOR, one at a time": (1_351_937, 22_678_285),
    "XOR, in bulk": (1_351_937, 22_678_285),
}


def _table_3(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    query, source = question(), system_source()
    index = np.array([3])
    report = encoding.randomize(query, index, source)
    with tempfile.TemporaryDirectory() as folder:
        vault = Vault.create(Path(folder) / "vault.db")
        vault.import_rows("trips", {"distance": "REAL"}, [(i / 7,) for i in range(100)])
        vault.grant("trips", ["distance"])
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
        response = rate_of(
            lambda: [encoding.randomize(query, index, source) for _ in range(many)],
            many,
            settings.repeat,
        )
        xor = rate_of(
            lambda: [encoding.share_records(query, 3, report, 1, 0, source) for _ in range(many)],
            many,
            settings.repeat,
        )
    total = 1 / (1 / read + 1 / response + 1 / xor)
    printed = (
        (1_162, 19_646, 23_418),
        (168_938, 418_668, 1_809_662),
        (15_026, 943_902, 1_351_937),
        (1_116, 17_236, 22_026),
    )
    names = ("SQLite read", "randomized response", "XOR encryption", "total")
    rows = tuple(
        (name, rate, *theirs)
        for name, rate, theirs in zip(names, (read, response, xor, total), printed, strict=True)
    )
    findings = (
        Claim(
            "Reading the database is the bottleneck of a client's answer",
            read < min(response, xor),
            f"{read:,.0f}, {response:,.0f} and {xor:,.0f} per second, {total:,.0f} in all; the"
            " paper's phone 1,116",
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        places = np.arange(len(rows))
        for shift, (column, label) in enumerate(
            ((1, "ours, one core"), (2, "phone"), (3, "laptop"), (4, "server"))
        ):
            colour = None if column == 1 else str(0.9 - 0.15 * column)
            ax.bar(
                places + 0.2 * (shift - 1.5),
                [row[column] for row in rows],
                0.2,
                label=label,
                color=colour,
            )
        ax.set_yscale("log")
        ax.set_xticks(places, names)
        ax.set_ylabel("operations per second")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    return ExperimentOutcome(findings, ("step", "ours", "phone", "laptop", "server"), rows, draw)


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
)
