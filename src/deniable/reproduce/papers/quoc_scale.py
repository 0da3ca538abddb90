"""PrivApprox (Quoc et al. 2017): what growth costs: shares, clients, proxies and aggregators."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import Channel
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
    plot_lines,
)
from deniable.reproduce.papers.quoc_speed import PAPER, question, rate_of
from deniable.wire.blocks import common_rows
from deniable.wire.message import Message
from deniable.wire.shares import join_columns, record_bytes, split_columns

__all__ = ["EXPERIMENTS"]


def _figure_5b(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows = []
    for place, size_class in enumerate(settings.size_classes):
        n_bytes = _room(size_class)
        reports = np.zeros((settings.answers, n_bytes), dtype=np.uint8)
        columns = split_columns(reports, 5, 7, size_class, 2)
        rate = rate_of(
            lambda: split_columns(reports, 5, 7, size_class, 2),  # noqa: B023
            settings.answers,
            settings.repeat,
        )
        joined = rate_of(lambda: join_columns(columns, 7), settings.answers, settings.repeat)  # noqa: B023
        rows.append(
            (
                8 * n_bytes,
                record_bytes(size_class),
                rate,
                joined,
                rate * record_bytes(size_class) / 1e6,
            )
        )
        context.done((place + 1) / len(settings.size_classes))
    slope = float(
        np.polyfit(np.log([row[0] for row in rows[-3:]]), np.log([row[2] for row in rows[-3:]]), 1)[
            0
        ]
    )
    findings = (
        Claim(
            "Throughput is inversely proportional to the size of the answer's bit vector, once that"
            " is large",
            -1.3 < slope < -0.7,
            f"slope {slope:.2f} on a log-log scale over the largest three sizes",
        ),
    )
    bits = [row[0] for row in rows]
    lines = [
        Series("split into shares", bits, [row[2] for row in rows]),
        Series("joined", bits, [row[3] for row in rows]),
    ]

    def draw(figure: Any) -> None:
        plot_lines(
            figure.subplots(), lines, "bits of an answer", "answers per second, one core", log="xy"
        )

    header = ("bits", "bytes of a share", "splits/s", "joins/s", "MB/s")
    return ExperimentOutcome(findings, header, tuple(rows), draw)


def _room(size_class: int) -> int:
    """The largest report that fits a size class."""
    n_bytes = 1
    while True:
        try:
            Message(5, 7, bytes(n_bytes + 1)).seal(size_class, (0, 0))
        except ValueError:
            return n_bytes
        n_bytes += 1


def _figure_6(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    query = question()
    head = 1 | ord("S") << 8 | query.schedule.epoch_of(int(time.time())) << 32
    random = context.random()
    rows = []
    for place, clients in enumerate(settings.clients):
        uploads = []
        for start in range(0, clients, settings.per_upload):
            records = random.integers(
                0, 1 << 64, (min(settings.per_upload, clients - start), 10), dtype=np.uint64
            )
            records[:, 0], records[:, 1] = head, query.channel_tag
            uploads.append(records.tobytes())
        with tempfile.TemporaryDirectory() as folder:
            intake = Intake(
                Path(folder) / "proxy", IntakeRules(threshold=100_000), lambda: int(time.time())
            )
            intake.set_channels({query.channel_tag: Channel.of_query(query.header)})
            started, processor = time.perf_counter(), time.process_time()
            for start in range(0, len(uploads), 4):
                results = intake.take(
                    [Upload(b"client", 1 << 40, content) for content in uploads[start : start + 4]]
                )
                if not all(isinstance(result, UploadReceipt) for result in results):
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
            f"{scaled:.2f} s (from {largest[0]:,}), durably on the disk; PrivApprox 6.21 s on its"
            " cluster",
        ),
        Claim(
            "A proxy's work grows at most linearly with the number of clients, because proxies do"
            " not wait for each other",
            largest[2] / rows[-2][2] < 1.5 * largest[0] / rows[-2][0],
            f"{largest[2] / rows[-2][2]:.1f} times for {largest[0] / rows[-2][0]:.0f} times the"
            " clients",
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        plot_lines(
            ax,
            [Series("ours, one process", [r[0] for r in rows], [r[1] for r in rows])],
            "clients",
            "s",
            log="xy",
        )
        ax.plot([1e6], [40.27], "x", label="SplitX, printed")
        ax.plot([1e6], [6.21], "x", label="PrivApprox, printed")
        ax.set_ylabel("latency at a proxy (s)")
        ax.legend(fontsize=8, frameon=False)

    return ExperimentOutcome(
        findings, ("clients", "seconds", "processor seconds"), tuple(rows), draw
    )


def _joined(answers: int) -> float:
    """Answers matched, joined and counted from two proxies' shares per second of processor time, in
    one process."""
    reports = np.random.default_rng(1).integers(0, 256, (answers, 2), dtype=np.uint8)
    columns = split_columns(reports, 5, 7, 0, 2)
    other = columns[1][:, np.random.default_rng(2).permutation(answers)]

    def run() -> None:
        first, second = (np.take(c, np.lexsort((c[1], c[0])), axis=1) for c in (columns[0], other))
        places = common_rows([first, second])
        matched = [np.take(c, p, axis=1) for c, p in zip((first, second), places, strict=True)]
        join_columns(matched, 7).reports(5, 2)

    return rate_of(run, answers, 2)


def _figure_8(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
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
        ", ".join(
            f"{workers} core{'s' * (workers > 1)}: {rate / 1e6:.2f} million/s"
            for workers, rate in rows
        ),
        "shared caches and memory take part of the second core",
    )
    findings = (
        *([scaling] if len(rows) > 1 else []),
        Claim(
            "One core joins more answers per second than one proxy of the paper took with two cores"
            " (512,348)",
            rows[0][1] > 512_348,
            f"{rows[0][1]:,.0f} per second",
        ),
    )
    lines = [Series("embedded engine, joining", [r[0] for r in rows], [r[1] for r in rows])]

    def draw(figure: Any) -> None:
        plot_lines(
            figure.subplots(), lines, "cores", "answers per second of processor time", legend=False
        )

    return ExperimentOutcome(findings, ("cores", "answers/s"), tuple(rows), draw)


def _figure_10(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    random = context.random()
    size = record_bytes(0)
    rows = []
    for place, s in enumerate(settings.s):
        taking = int(random.binomial(settings.clients, s))
        reports = np.zeros((taking, 2), dtype=np.uint8)
        seconds = taking / rate_of(
            lambda: join_columns(split_columns(reports, 5, 7, 0, 2), 7),  # noqa: B023
            taking,
            settings.repeat,
        )
        rows.append((s, 2 * size * taking, seconds))
        context.done((place + 1) / len(settings.s))
    whole, part = rows[-1], next(row for row in rows if row[0] == 0.6)
    findings = (
        Claim(
            "With 60 % sampled, the traffic falls by a factor of 1.62 (taxi) or 1.58 (electricity),"
            " nearly 1/0.6",
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
        plot_lines(
            left,
            [Series("", [r[0] for r in rows], [r[1] / 1e6 for r in rows])],
            "s",
            "MB to both proxies",
        )
        plot_lines(
            right,
            [Series("", [r[0] for r in rows], [r[2] for r in rows])],
            "s",
            "processor time (s)",
        )
        for ax in (left, right):
            ax.set_ylim(bottom=0)

    return ExperimentOutcome(findings, ("s", "bytes", "seconds"), tuple(rows), draw)


EXPERIMENTS = (
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
