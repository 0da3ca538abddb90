"""PrivApprox (Quoc et al. 2017): what growth costs at proxies and at the aggregator.

Proxies are real ones, in processes of their own, reached over HTTP; the senders share the cores
with them. Times are by the clock. What needs more cores than there are is not measured.
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.reproduce.experiment import (
    Claim,
    Compared,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.papers.quoc_speed import PAPER, question
from deniable.reproduce.plotting import Series, paper_points, plot_lines
from deniable.reproduce.proxy_process import ProxyProcess, available_cores
from deniable.reproduce.verdicts import printed_number
from deniable.wire.blocks import common_rows
from deniable.wire.shares import join_columns, record_bytes, split_columns
from deniable.wire.sizes import row_words

__all__ = ["EXPERIMENTS"]

_PER_UPLOAD = 5_000


def _uploads(query: Query, answers: int, size_class: int, context: Context) -> list[bytes]:
    """Uploads of shares as they would come: random ids, random payloads."""
    random = context.random(answers, size_class)
    head = 1 | ord("S") << 8 | size_class << 16
    head |= query.schedule.epoch_of(int(time.time())) << 32
    made = []
    step = max(1, min(_PER_UPLOAD, 500_000 // record_bytes(size_class)))
    for start in range(0, answers, step):
        shape = min(step, answers - start), 2 + row_words(size_class)
        records = random.integers(0, 1 << 64, shape, dtype=np.uint64)
        records[:, 0], records[:, 1] = head, query.channel_tag
        made.append(records.tobytes())
    return made


def _repeated(
    query: Query,
    answers: int,
    size_class: int,
    repeat: int,
    context: Context,
    cores: Sequence[int] | None = None,
) -> tuple[float, float]:
    """Seconds for these answers at one proxy, with their standard error."""
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        for trial in range(repeat):
            with ProxyProcess(query, Path(folder) / str(trial), cores) as proxy:
                seconds.append(proxy.seconds(_uploads(query, answers, size_class, context)))
    return float(np.mean(seconds)), float(np.std(seconds, ddof=1)) / math.sqrt(repeat)


def _measure_5b(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    for place, buckets in enumerate(settings.buckets):
        query = question(
            id=f"size-{buckets}", columns=[Column("distance", [f"v{i}" for i in range(buckets)])]
        )
        size_class = query.header.size_class
        seconds, error = _repeated(query, settings.answers, size_class, settings.repeat, context)
        rate = settings.answers / seconds
        rows.append((buckets, record_bytes(size_class), rate, rate * error / seconds))
        context.done((place + 1) / len(settings.buckets))
    return Measured(("bits", "bytes of a share", "answers/s", "stderr"), tuple(rows))


def _judge_5b(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    x, y = (np.log(measured.column(name)[-3:]) for name in ("bytes of a share", "answers/s"))
    slope = float(np.polyfit(x, y, 1)[0])
    return (
        Claim(
            "Throughput is inversely proportional to the size of the answer, once that is large",
            -1.3 < slope < -0.7,
            f"slope {slope:.2f} on a log-log scale over the largest three sizes of a share",
            "the cost of a request is larger than that of its bytes",
        ),
        Claim(
            "Larger answers lower the throughput of a proxy",
            measured.rows[-1][2] < measured.rows[0][2],
            f"{measured.rows[0][2]:,.0f} to {measured.rows[-1][2]:,.0f} answers per second",
        ),
    )


def _draw_5b(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    line = Series(
        "", measured.column("bits"), measured.column("answers/s"), error=measured.column("stderr")
    )
    ax = figure.subplots()
    plot_lines(ax, [line], "bits of an answer", "answers per second at a proxy", log="xy")


def _measure_6(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    for place, clients in enumerate(settings.clients):
        rows.append((clients, *_repeated(question(), clients, 0, settings.repeat, context)))
        context.done((place + 1) / len(settings.clients))
    return Measured(("clients", "seconds", "stderr"), tuple(rows))


def _judge_6(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    clients, seconds, stderr = measured.rows[-1]
    million = clients == 1_000_000
    splitx, theirs = (printed_number(printed[name])[0] for name in ("SplitX", "PrivApprox"))
    before = measured.rows[-2]
    growth, more = seconds / before[1], clients / before[0]
    per_million = seconds * 1_000_000 / clients
    return (
        Compared(
            "seconds for a million answers, PrivApprox",
            printed["PrivApprox"],
            seconds if million else None,
            stderr,
            note="another machine: theirs a cluster with two proxies, ours one process over HTTP",
        ),
        Compared("seconds for a million answers, SplitX", printed["SplitX"], None, note="not ours"),
        Compared("speedup over SplitX", printed["speedup"], splitx / theirs),
        Claim(
            "A proxy takes a million answers in less time than SplitX",
            per_million < splitx,
            f"{per_million:.2f} s (from {clients:,}), durably on the disk",
        ),
        Claim(
            "A proxy's work grows at most linearly with the number of clients",
            growth < 1.5 * more,
            f"{growth:.1f} times for {more:.0f} times the clients",
        ),
    )


def _draw_6(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    ax = figure.subplots()
    columns = (measured.column(name) for name in ("clients", "seconds", "stderr"))
    x, y, error = columns
    plot_lines(
        ax,
        [Series("ours, one proxy over HTTP", x, y, error=error)],
        "clients",
        "latency at a proxy (s)",
        log="xy",
    )
    for name in ("SplitX", "PrivApprox"):
        ax.plot([1e6], [float(printed[name])], "x", label=f"{name}, printed")
    ax.legend(fontsize=8, frameon=False)


def _join(answers: int) -> None:
    """Match, join and count answers from two proxies' shares."""
    columns, other = _SHARES[answers]
    first, second = (np.take(c, np.lexsort((c[1], c[0])), axis=1) for c in (columns, other))
    places = common_rows([first, second])
    matched = [np.take(c, p, axis=1) for c, p in zip((first, second), places, strict=True)]
    join_columns(matched, 7).reports(5, 2)


_SHARES: dict[int, tuple[Any, Any]] = {}


def _prepare(answers: int) -> None:
    reports = np.random.default_rng(1).integers(0, 256, (answers, 2), dtype=np.uint8)
    one, two = split_columns(reports, 5, 7, 0, 2)
    _SHARES[answers] = one, two[:, np.random.default_rng(2).permutation(answers)]


def _joined(workers: int, answers: int, repeat: int) -> tuple[float, float]:
    """Answers per second by the clock, all processes together, with the standard error."""
    rates = []
    with ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=_prepare, initargs=(answers,)
    ) as pool:
        list(pool.map(_join, [answers] * workers))  # all processes are up
        for _ in range(repeat):
            started = time.perf_counter()
            list(pool.map(_join, [answers] * 2 * workers))
            rates.append(2 * workers * answers / (time.perf_counter() - started))
    return float(np.mean(rates)), float(np.std(rates, ddof=1)) / math.sqrt(repeat)


def _measure_8(settings: SimpleNamespace, context: Context) -> Measured:
    cores = available_cores()
    rows: list[tuple[Any, ...]] = []
    for workers in settings.cores:
        if workers <= len(cores):
            arguments = settings.answers, 0, settings.repeat, context, cores[:workers]
            seconds, error = _repeated(question(), *arguments)
            rate = settings.answers / seconds
            rows.append(("proxy", workers, rate, rate * error / seconds))
            rows.append(("join", workers, *_joined(workers, settings.answers, settings.repeat)))
        context.done(workers / max(settings.cores))
    return Measured(("what", "cores", "answers/s", "stderr"), tuple(rows), {"cores": len(cores)})


def _scales(measured: Measured, what: str, text: str) -> Claim:
    rows = measured.where(what=what).rows
    evidence = ", ".join(f"{row[1]}: {row[2] / 1e6:.2f} ± {row[3] / 1e6:.2f}" for row in rows)
    if len(rows) < 2:
        return Claim(text, None, f"million per second by cores: {evidence}", "one core only")
    grows = all(later[2] > 1.3 * earlier[2] for earlier, later in itertools.pairwise(rows))
    note = "senders and services share the cores"
    return Claim(text, grows, f"million per second by cores: {evidence}", note)


def _judge_8(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    by = {row[:2]: row for row in measured.rows}
    here = f"there are {measured.figures['cores']:.0f} cores here"
    two = by.get(("proxy", 2))
    return (
        _scales(measured, "proxy", "A proxy's throughput grows with the number of cores"),
        _scales(measured, "join", "The aggregator's throughput grows with the number of cores"),
        Claim(
            "The aggregator's throughput is lower than a proxy's, because it joins",
            by["join", 1][2] < by["proxy", 1][2],
            f"{by['join', 1][2]:,.0f} beside {by['proxy', 1][2]:,.0f} per second on one core",
            "ours joins in blocks, and a proxy answers over HTTP",
        ),
        Compared(
            "answers per second at a proxy, 2 cores",
            printed["2 cores"],
            two[2] if two else None,
            two[3] if two else 0.0,
            note="another machine" if two else here,
        ),
        Compared("answers per second at a proxy, 8 cores", printed["8 cores"], None, note=here),
        Compared("answers per second at a proxy, 4 nodes", printed["4 nodes"], None, note=here),
        Claim(
            "The Spark engine's throughput grows with the number of cores",
            None,
            note="not part of this run: benchmarks/spark.py measures it",
        ),
    )


def _draw_8(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    lines = []
    for what in ("proxy", "join"):
        rows = measured.where(what=what).rows
        lines.append(
            Series(what, [r[1] for r in rows], [r[2] for r in rows], error=[r[3] for r in rows])
        )
    ax = figure.subplots()
    plot_lines(ax, lines, "cores", "answers per second, by the clock", log="y")
    ax.set_xticks(sorted(set(measured.column("cores"))))
    paper_points(ax, [2], [printed_number(printed["2 cores"])[0]], "paper's proxy")


def _measure_10(settings: SimpleNamespace, context: Context) -> Measured:
    random = context.random()
    rows = []
    for place, s in enumerate(settings.s):
        taking = int(random.binomial(settings.clients, s))
        seconds = _repeated(question(), taking, 0, settings.repeat, context)
        rows.append((s, 2 * record_bytes(0) * taking, *seconds))
        context.done((place + 1) / len(settings.s))
    return Measured(("s", "bytes", "seconds", "stderr"), tuple(rows))


def _judge_10(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    whole = next(row for row in measured.rows if row[0] == 1.0)
    part = next(row for row in measured.rows if row[0] == 0.6)
    traffic, latency = whole[1] / part[1], whole[2] / part[2]
    error = latency * math.hypot(whole[3] / whole[2], part[3] / part[2])
    # the binomial number of those who take part
    spread = traffic * math.sqrt((1 - 0.6) / 0.6 / settings.clients)
    return (
        *(
            Compared(
                f"traffic at s = 1 by that at 0.6, {case}",
                printed[f"traffic {case}"],
                traffic,
                spread,
                note="every answer costs the same bytes, so it is 1/0.6",
            )
            for case in ("taxi", "electricity")
        ),
        *(
            Compared(
                f"latency at s = 1 by that at 0.6, {case}",
                printed[f"latency {case}"],
                latency,
                error,
                note="another machine",
            )
            for case in ("taxi", "electricity")
        ),
        Claim(
            "Sampling lowers the latency at proxies",
            latency - 3 * error > 1,
            f"{latency:.2f} ± {error:.2f} times",
            "the machine was too busy to tell",
        ),
    )


def _draw_10(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    left, right = figure.subplots(1, 2)
    x = measured.column("s")
    traffic = [each / 1e6 for each in measured.column("bytes")]
    plot_lines(left, [Series("", x, traffic)], "s", "MB to both proxies")
    line = Series("", x, measured.column("seconds"), error=measured.column("stderr"))
    plot_lines(right, [line], "s", "latency at a proxy (s)")
    for ax in (left, right):
        ax.set_ylim(bottom=0)


EXPERIMENTS = (
    Experiment(
        "quoc-figure-5b",
        PAPER,
        "Figure 5 (b): throughput of a proxy by size of the answer",
        _measure_5b,
        _judge_5b,
        _draw_5b,
        {"buckets": (11, 200, 800, 3_200, 12_800), "answers": 20_000, "repeat": 4},
        {"buckets": (11, 800, 3_200), "answers": 2_000, "repeat": 2},
        timed=True,
        seeded=False,
    ),
    Experiment(
        "quoc-figure-6",
        PAPER,
        "Figure 6: latency at proxies, beside SplitX",
        _measure_6,
        _judge_6,
        _draw_6,
        {"clients": (100, 1_000, 10_000, 100_000, 1_000_000), "repeat": 4},
        {"clients": (1_000, 100_000), "repeat": 2},
        {"SplitX": "40.27", "PrivApprox": "6.21", "speedup": "6.48"},
        timed=True,
        seeded=False,
    ),
    Experiment(
        "quoc-figure-8",
        PAPER,
        "Figure 8: throughput by cores",
        _measure_8,
        _judge_8,
        _draw_8,
        {"cores": (1, 2, 4, 8), "answers": 500_000, "repeat": 4},
        {"answers": 50_000, "repeat": 2},
        {"2 cores": "512,348", "8 cores": "1,192,903", "4 nodes": "2,539,715"},
        timed=True,
        seeded=False,
    ),
    Experiment(
        "quoc-figure-10",
        PAPER,
        "Figure 10: traffic and latency by sampling fraction",
        _measure_10,
        _judge_10,
        _draw_10,
        {"clients": 500_000, "s": (0.2, 0.4, 0.6, 0.8, 1.0), "repeat": 5},
        {"clients": 100_000, "s": (0.6, 1.0), "repeat": 2},
        {
            "traffic taxi": "1.62",
            "traffic electricity": "1.58",
            "latency taxi": "1.68",
            "latency electricity": "1.66",
        },
        timed=True,
        seeded=False,
    ),
)
