"""PrivApprox (Quoc et al. 2017): the taxi case study (figure 9), and estimates from only part of the
stored reports (figure 11)."""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.file_catalogue import CatalogueSnapshot
from deniable.aggregator.history.report_files import ReportFolder, ReportRows
from deniable.aggregator.history.scan import Scan
from deniable.aggregator.windows.estimates import estimate_period
from deniable.local.datasets import dataset
from deniable.privacy.response import (
    bit_epsilon,
    quoc_one_sided_epsilon,
    zero_knowledge_epsilon,
)
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import Source
from deniable.reproduce.experiment import (
    Claim,
    Compared,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.plotting import Series, bare, plot_lines
from deniable.reproduce.real_data import bucket_counts

__all__ = ["EXPERIMENTS"]

PAPER = "Quoc et al. 2017"
_ORIGIN = 1_700_000_400
_MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


def _store(
    folder: ReportFolder, query: Query, values: NDArray[np.int64], source: Source
) -> CatalogueSnapshot:
    """Write everyone's reports as an aggregator stores them."""
    key = PaneKey(query.id, query.serial, query.schedule.epoch_of(_ORIGIN), 0)
    drawn = query.mechanism.draw(values, source)
    rows = np.ascontiguousarray(drawn).reshape(len(values), -1).view(np.uint8)
    entry = folder.write(
        "reports",
        query.id,
        _ORIGIN // 86_400,
        query.serial,
        ReportRows.drawn([(key, rows)], source),
    )
    return CatalogueSnapshot((entry,), (), entry.n)


def _figure_11(settings: SimpleNamespace, context: Context) -> Measured:
    query = Query(
        id="distance",
        analyst="City of Exampleton",
        sql="SELECT distance FROM trips",
        columns=[Column("distance", _MILES)],
        schedule=Schedule(_ORIGIN, _ORIGIN + 86_400, 600, 600, 600),
        proxies=["https://one.example", "https://two.example"],
        mechanism={"name": "TwoCoin", "p": settings.p, "q": settings.q},
    )
    seconds: dict[float, list[float]] = {fraction: [] for fraction in settings.fractions}
    losses: dict[float, list[float]] = {fraction: [] for fraction in settings.fractions}
    source, period = context.source(), (_ORIGIN, _ORIGIN + 600)
    values = np.minimum(
        dataset("taxi").draw(context.random(), settings.answers).astype(np.int64), 10
    )
    truth = np.bincount(values, minlength=11) / values.size
    largest = int(truth.argmax())
    with tempfile.TemporaryDirectory() as place:
        folder = ReportFolder(place)
        for trial in range(settings.trials):
            stored = _store(folder, query, values, source)
            for fraction in settings.fractions:
                started = time.perf_counter()
                scan = Scan(folder, stored, {query.serial: query}, range(1))
                scan.read_to(fraction)
                _, _, found = estimate_period([query], scan.panes, period)
                seconds[fraction].append(time.perf_counter() - started)
                if found is not None:
                    losses[fraction].append(
                        abs(float(found.proportions[largest]) / truth[largest] - 1)
                    )
            context.done((trial + 1) / settings.trials)
    root = math.sqrt(settings.trials)
    rows = tuple(
        (
            fraction,
            float(np.mean(seconds[fraction])),
            float(np.std(seconds[fraction], ddof=1)) / root,
            float(np.mean(losses[fraction])),
            float(np.std(losses[fraction], ddof=1)) / root,
        )
        for fraction in settings.fractions
    )
    return Measured(("part", "seconds", "stderr", "accuracy loss", "stderr of the loss"), rows)


def _judge_11(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    whole, most = rows[-1], next(row for row in rows if row[0] == 0.6)
    speedup = whole[1] / most[1]
    error = speedup * math.hypot(whole[2] / whole[1], most[2] / most[1])
    scale = math.sqrt(settings.answers / settings.paper_answers)
    loss = 100 * most[3] * scale
    return (
        Compared(
            "speedup of history with 60 % of the reports",
            printed["speedup"],
            speedup,
            error,
            note="another machine",
        ),
        Claim(
            "With 60 % of the reports, history is answered faster",
            speedup - 3 * error > 1,
            f"{speedup:.2f} ± {error:.2f} times",
            "the machine was too busy to tell",
        ),
        Claim(
            "With 60 % of the reports, the accuracy loss is below 1 %",
            loss < 1,
            f"{loss:.2f} ± {100 * most[4] * scale:.2f} % on the largest bucket, of"
            f" {settings.paper_answers:,} answers",
        ),
    )


def _draw_11(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    axes = figure.subplots(1, 3)
    rates = [settings.answers * row[0] / row[1] / 1e6 for row in rows]
    shown = (
        ([row[1] for row in rows], [row[2] for row in rows], "seconds"),
        (
            rates,
            [rate * row[2] / row[1] for rate, row in zip(rates, rows, strict=True)],
            "million answers per second",
        ),
        ([row[3] for row in rows], [row[4] for row in rows], "accuracy loss"),
    )
    for ax, (y, error, label) in zip(axes, shown, strict=True):
        plot_lines(ax, [Series("", x, y, error=error)], "part that is read", label)
        ax.set_ylim(bottom=0)


def _figure_9(settings: SimpleNamespace, context: Context) -> Measured:
    """The query with 11 buckets: relative errors of all buckets, weighted by their size, and of the
    largest one."""
    truth, clients = np.array(settings.proportions), settings.clients
    if context.data:
        counts = bucket_counts(context.data)
        truth, clients = counts / counts.sum(), int(counts.sum())
    random, rows, largest = context.random(), [], int(truth.argmax())
    for i, (p, q, s) in enumerate(
        (p, q, s) for p in settings.p for q in settings.q for s in settings.s
    ):
        a, b = p + (1 - p) * q, (1 - p) * q
        # Bits of a unary report are independent: a bucket's ones are two binomial numbers.
        losses = []
        for _ in range(settings.trials):
            answers = random.multinomial(random.binomial(clients, s), truth)
            n = answers.sum()
            ones = random.binomial(answers, a) + random.binomial(n - answers, b)
            estimate = (ones / n - b) / (a - b)
            off = np.abs(estimate - truth)
            losses.append((off.sum(), off[largest] / truth[largest]))
        mean = np.mean(losses, axis=0)
        error = np.std(losses, axis=0, ddof=1) / math.sqrt(settings.trials)
        level = zero_knowledge_epsilon(bit_epsilon(p, q), s)
        one_sided = zero_knowledge_epsilon(quoc_one_sided_epsilon(p, q), s)
        rows.append((p, q, s, *mean.tolist(), *error.tolist(), one_sided, level))
        context.done((i + 1) / len(settings.p) / len(settings.q) / len(settings.s))
    header = (
        "p",
        "q",
        "s",
        "loss",
        "loss of the largest",
        "stderr",
        "stderr of the largest",
        "epsilon by the paper",
        "epsilon",
    )
    return Measured(header, tuple(rows), {"largest": float(truth.max())})


def _judge_9(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows

    def mean(place: int, value: float, column: int) -> float:
        return float(np.mean([row[column] for row in rows if row[place] == value]))

    def falls(values: list[float]) -> bool:
        return all(later < earlier for earlier, later in itertools.pairwise(values))

    grows = [[-mean(0, p, 7) for p in settings.p], [-mean(2, s, 7) for s in settings.s]]
    losses = [[mean(0, p, 3) for p in settings.p], [mean(2, s, 3) for s in settings.s]]
    best = {
        name: min(settings.q, key=lambda q: mean(1, q, i))
        for name, i in (("all", 3), ("largest", 4))
    }
    return (
        Compared(
            "proportion of yes answers, in %",
            printed["yes"],
            100 * measured.figures["largest"],
            fitted=True,
        ),
        Claim(
            "The loss falls as s and p grow",
            all(falls(each) for each in losses),
            f"by p: {', '.join(f'{each:.3f}' for each in losses[0])} (means over the others)",
        ),
        Claim(
            "Privacy weakens as s and p grow",
            all(falls(each) for each in grows),
            f"by p: {', '.join(f'{-each:.2f}' for each in grows[0])} (means over the others)",
        ),
        Claim(
            "The loss is smallest at q = 0.3, which is close to the proportion of yes answers",
            best["all"] == 0.3,
            f"over 11 buckets smallest at q = {best['all']}, in the largest one at"
            f" q = {best['largest']}",
            "lam (1 - lam) is smallest where q is far from where it makes lam = 1/2",
        ),
    )


def _draw_9(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    left, middle, right = figure.subplots(1, 3)
    for p in settings.p:
        own = [row for row in rows if row[0] == p]
        some = [row for row in own if row[1] == settings.q[0]]
        x = [row[2] for row in some]
        left.errorbar(x, [r[3] for r in some], [r[5] for r in some], fmt="o-", label=f"p = {p}")
        middle.plot(x, [row[7] for row in some], "o-")
        right.errorbar(
            [row[7] for row in own], [row[3] for row in own], [row[5] for row in own], fmt="o"
        )
    for ax, across, label in (
        (left, "s", "loss of all 11 buckets"),
        (middle, "s", "epsilon (zk), as the paper"),
        (right, "epsilon (zk), as the paper", "loss of all 11 buckets"),
    ):
        ax.set_xlabel(across)
        ax.set_ylabel(label)
    bare(left, middle, right)
    left.legend(fontsize=8, frameon=False)


_TAXI = (
    "NYC TLC trip Parquet, DEBS 2015 CSV, or the UCI household power file (.txt); see"
    " docs/papers.md"
)
_MILES_TRAVELLED = (0.2443, 0.3357, 0.162, 0.08, 0.048, 0.03, 0.021, 0.017, 0.018, 0.019, 0.025)
"""Trips by whole miles: the largest has the printed proportion, the others follow real ones."""

EXPERIMENTS = (
    Experiment(
        "quoc-figure-9",
        PAPER,
        "Figure 9: taxi trips in 11 buckets, utility and privacy",
        _figure_9,
        _judge_9,
        _draw_9,
        {
            "proportions": _MILES_TRAVELLED,
            "clients": 10_000,
            "p": (0.3, 0.6, 0.9),
            "q": (0.3, 0.6, 0.9),
            "s": (0.2, 0.4, 0.6, 0.8, 0.95),
            "trials": 400,
        },
        {"trials": 40},
        {"yes": "33.57"},
        _TAXI,
    ),
    Experiment(
        "quoc-figure-11",
        PAPER,
        "Figure 11: history by the part that is read",
        _figure_11,
        _judge_11,
        _draw_11,
        {
            "answers": 2_000_000,
            "paper_answers": 2_000_000,
            "p": 0.9,
            "q": 0.6,
            "fractions": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
            "trials": 5,
        },
        {"answers": 300_000, "trials": 3, "fractions": (0.2, 0.6, 1.0)},
        {"speedup": "1.86"},
        timed=True,
        seeded=False,
    ),
)
