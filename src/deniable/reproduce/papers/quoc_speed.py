"""PrivApprox (Quoc et al. 2017): what each step costs. Times depend on the machine, so ratios and
orders are compared, on equal terms: one operation at a time, or a batch.

All times are by the clock, with the standard error of a few repeats.
"""

from __future__ import annotations

import math
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
    Compared,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.plotting import bare
from deniable.reproduce.verdicts import printed_number
from deniable.wire.message import Message
from deniable.wire.shares import join, join_columns, split, split_columns

__all__ = ["EXPERIMENTS"]

PAPER = "Quoc et al. 2017"
MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


def rate_of(run: Callable[[], Any], operations: int, repeat: int) -> tuple[float, float]:
    """Operations per second by the clock, with the standard error over the repeats."""
    rates = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        rates.append(operations / max(time.perf_counter() - start, 1e-9))
    return float(np.mean(rates)), float(np.std(rates, ddof=1)) / math.sqrt(repeat)


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


def _table_2(settings: SimpleNamespace, context: Context) -> Measured:
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
    # Only XOR has a form of its own for batches; the others take one message after the other.
    loops: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "RSA": (
            lambda: [public.encrypt(content, oaep) for _ in range(n)],
            lambda: [key.decrypt(c, oaep) for c in sealed],
        ),
        "Goldwasser-Micali": (
            lambda: [micali.encrypt(1) for _ in range(n)],
            lambda: [micali.decrypt(c) for c in bits],
        ),
        "Paillier": (
            lambda: [paillier.encrypt(5) for _ in range(n)],
            lambda: [paillier.decrypt(c) for c in numbers],
        ),
        "XOR": (
            lambda: [split(message, 0, 2, 9) for _ in range(n)],
            lambda: [join(pair) for pair in shares],
        ),
    }
    rows = []
    for place, (name, single) in enumerate(loops.items()):
        batch = (
            (lambda: split_columns(reports, 5, 7, 0, 2), lambda: join_columns(columns, 7))
            if name == "XOR"
            else single
        )
        count = settings.bulk if name == "XOR" else n
        row: list[float] = []
        for run, operations in ((single, n), (batch, count)):
            for way in run:
                row += rate_of(way, operations, settings.repeat)
        rows.append((name, *row))
        context.done((place + 1) / len(loops))
    names = (
        f"{how} {way}{error}"
        for how in ("single", "batch")
        for way in ("encryptions/s", "decryptions/s")
        for error in ("", " stderr")
    )
    return Measured(("scheme", *names), tuple(rows))


_WAYS = {"encryption": 1, "decryption": 3}


def _judge_table_2(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    by = {row[0]: row for row in measured.rows}
    findings: list[Finding] = []
    for name in ("RSA", "Goldwasser-Micali", "Paillier"):
        for how, shift in (("one at a time", 0), ("in a batch", 4)):
            leads = {
                way: by["XOR"][place + shift] / by[name][place + shift]
                for way, place in _WAYS.items()
            }
            theirs = {
                way: printed_number(printed[f"XOR {way} server"])[0]
                / printed_number(printed[f"{name} {way} server"])[0]
                for way in _WAYS
            }
            findings.append(
                Claim(
                    f"XOR is ahead of {name}, {how}, encrypting and decrypting",
                    min(leads.values()) > 1,
                    ", ".join(
                        f"{way} {leads[way]:,.3g} times (paper's server {theirs[way]:,.0f})"
                        for way in _WAYS
                    ),
                    "one message in Python costs more than an operation of a library in C, or than"
                    " one multiplication",
                )
            )
    for name, row in by.items():
        for way, place in _WAYS.items():
            for device in ("phone", "laptop", "server"):
                here = device == "server"
                findings.append(
                    Compared(
                        f"{name}, {way}s per second, {device}",
                        printed[f"{name} {way} {device}"],
                        row[place] if here else None,
                        row[place + 1] if here else 0.0,
                        ours=row[place + 4] if here else None,
                        note="another machine; ours is in a batch" if here else "no such device",
                    )
                )
    return tuple(findings)


def _draw_table_2(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    names = measured.column("scheme")
    places = np.arange(len(names))
    for ax, (way, place) in zip(figure.subplots(1, 2), _WAYS.items(), strict=True):
        for shift, (first, label) in enumerate(((place, "single"), (place + 4, "batch"))):
            heights = [row[first] for row in measured.rows]
            errors = [row[first + 1] for row in measured.rows]
            ax.bar(places + 0.27 * (shift - 1), heights, 0.25, yerr=errors, label=label)
        theirs = [printed_number(printed[f"{name} {way} server"])[0] for name in names]
        ax.bar(places + 0.27, theirs, 0.25, color="0.7", label="paper's server")
        ax.set_yscale("log")
        ax.set_xticks(places, names, fontsize=7)
        ax.set_title(way, fontsize=9)
        ax.set_ylabel("operations per second, one core")
        ax.legend(fontsize=7, frameon=False)
        bare(ax)


_TABLE_2 = {
    "RSA": (("937", "2,770", "4,909"), ("126", "698", "859")),
    "Goldwasser-Micali": (("2,106", "17,064", "22,902"), ("127", "6,329", "7,068")),
    "Paillier": (("116", "489", "579"), ("72", "250", "309")),
    "XOR": (("15,026", "943,902", "1,351,937"), ("3,262,186", "16,519,076", "22,678,285")),
}
_DEVICES = ("phone", "laptop", "server")
_TABLE_3 = {
    "SQLite read": ("1,162", "19,646", "23,418"),
    "randomized response": ("168,938", "418,668", "1,809,662"),
    "XOR encryption": ("15,026", "943,902", "1,351,937"),
    "total": ("1,116", "17,236", "22,026"),
}


def _table_3(settings: SimpleNamespace, context: Context) -> Measured:
    query, source = question(), system_source()
    index = np.array([3])
    report = encoding.randomize(query, index, source)
    n, many = settings.operations, 10 * settings.operations
    with tempfile.TemporaryDirectory() as folder:
        vault = Vault.create(Path(folder) / "vault.db")
        vault.import_rows("trips", {"distance": "REAL"}, [(i / 7,) for i in range(100)])
        vault.grant("trips", ["distance"])
        sandbox.run(vault, query.sql)
        steps: dict[str, tuple[Callable[[], Any], int]] = {
            "SQLite read": (lambda: [sandbox.run(vault, query.sql) for _ in range(n)], n),
            "randomized response": (
                lambda: [encoding.randomize(query, index, source) for _ in range(many)],
                many,
            ),
            "XOR encryption": (
                lambda: [
                    encoding.share_records(query, 3, report, 1, 0, source) for _ in range(many)
                ],
                many,
            ),
        }
        rows: list[tuple[Any, ...]] = []
        for place, (name, (run, operations)) in enumerate(steps.items()):
            rows.append((name, *rate_of(run, operations, settings.repeat)))
            context.done((place + 1) / len(steps))
    total = 1 / sum(1 / row[1] for row in rows)
    error = total**2 * math.sqrt(sum((row[2] / row[1] ** 2) ** 2 for row in rows))
    return Measured(("step", "per second", "stderr"), (*rows, ("total", total, error)))


def _judge_table_3(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    by = {row[0]: row for row in measured.rows}
    steps = [row for row in measured.rows if row[0] != "total"]
    slowest = min(steps, key=lambda row: row[1])[0]
    theirs = {name: printed_number(text)[0] for name, text in printed.items()}
    return (
        Claim(
            "Reading the database is the bottleneck of a client's answer",
            slowest == "SQLite read",
            ", ".join(f"{row[0]} {row[1]:,.0f} per second" for row in measured.rows),
            "drawing one report at a time in Python takes about as long as reading",
        ),
        *(
            Claim(
                f"A client answers as fast as the paper's {device}",
                by["total"][1] >= theirs[f"total {device}"],
                f"{by['total'][1] / theirs[f'total {device}']:.2f} times its answers per second",
                "the sandbox is a confined process of its own, and the client is Python",
            )
            for device in _DEVICES
        ),
        *(
            Compared(
                f"{name}, per second, {device}",
                printed[f"{name} {device}"],
                by[name][1] if device == "server" else None,
                by[name][2] if device == "server" else 0.0,
                note=f"another machine; ours is {by[name][1] / theirs[f'{name} {device}']:.2f} times"
                " that",
            )
            for name in by
            for device in _DEVICES
        ),
    )


def _draw_table_3(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    ax, names = figure.subplots(), measured.column("step")
    places = np.arange(len(names))
    heights = measured.column("per second")
    ax.bar(places - 0.3, heights, 0.2, yerr=measured.column("stderr"), label="ours, one core")
    for shift, device in enumerate(_DEVICES):
        theirs = [printed_number(printed[f"{name} {device}"])[0] for name in names]
        ax.bar(
            places + 0.2 * (shift - 0.5), theirs, 0.2, label=device, color=str(0.45 + 0.2 * shift)
        )
    ax.set_yscale("log")
    ax.set_xticks(places, names)
    ax.set_ylabel("operations per second")
    ax.legend(fontsize=8, frameon=False)
    bare(ax)


EXPERIMENTS = (
    Experiment(
        "quoc-table-2",
        PAPER,
        "Table 2: XOR beside public-key schemes",
        _table_2,
        _judge_table_2,
        _draw_table_2,
        {"bits": 1024, "operations": 100, "bulk": 1_000_000, "repeat": 5},
        {"operations": 20, "bulk": 100_000, "repeat": 3},
        {
            f"{name} {way} {device}": text
            for name, texts in _TABLE_2.items()
            for way, row in zip(_WAYS, texts, strict=True)
            for device, text in zip(_DEVICES, row, strict=True)
        },
        timed=True,
        seeded=False,
    ),
    Experiment(
        "quoc-table-3",
        PAPER,
        "Table 3: steps of a client",
        _table_3,
        _judge_table_3,
        _draw_table_3,
        {"operations": 200, "repeat": 5},
        {"operations": 20, "repeat": 3},
        {
            f"{name} {device}": text
            for name, texts in _TABLE_3.items()
            for device, text in zip(_DEVICES, texts, strict=True)
        },
        timed=True,
        seeded=False,
    ),
)
