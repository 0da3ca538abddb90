"""PrivApprox (Quoc et al. 2017), figure 11: estimates from only part of the stored reports."""

from __future__ import annotations

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
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import Source
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
    plot_lines,
)

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


def _figure_11(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    query = Query(
        id="distance",
        analyst="City of Exampleton",
        sql="SELECT distance FROM trips",
        columns=[Column("distance", _MILES)],
        schedule=Schedule(_ORIGIN, _ORIGIN + 86_400, 600, 600, 600),
        proxies=["https://one.example", "https://two.example"],
        mechanism={"name": "TwoCoin", "p": settings.p, "q": settings.q},
    )
    seconds = dict.fromkeys(settings.fractions, math.inf)
    losses: dict[float, list[float]] = {fraction: [] for fraction in settings.fractions}
    source, period = context.source(), (_ORIGIN, _ORIGIN + 600)
    values = np.minimum(
        dataset("taxi").draw(context.random(), settings.answers).astype(np.int64), 10
    )
    truth = np.bincount(values, minlength=11) / values.size
    largest = int(truth.argmax())
    with tempfile.TemporaryDirectory() as place:
        folder = ReportFolder(place)
        for run in range(settings.runs):
            stored = _store(folder, query, values, source)
            for fraction in settings.fractions:
                started = time.process_time()
                scan = Scan(folder, stored, {query.serial: query}, range(1))
                scan.read_to(fraction)
                _, _, found = estimate_period([query], scan.panes, period)
                seconds[fraction] = min(seconds[fraction], time.process_time() - started)
                if found is not None:
                    losses[fraction].append(
                        abs(float(found.proportions[largest]) / truth[largest] - 1)
                    )
            context.done((run + 1) / settings.runs)
    rows = [
        (
            fraction,
            seconds[fraction],
            settings.answers * fraction / seconds[fraction],
            float(np.mean(losses[fraction])),
        )
        for fraction in settings.fractions
    ]
    whole, most = rows[-1], next(row for row in rows if abs(row[0] - 0.6) < 0.01)
    findings = (
        Claim(
            "With 60 % of the reports, history is answered 1.86 times as fast: at least nearly"
            " 1/0.6",
            whole[1] / most[1] > 1.35,
            f"{whole[1] / most[1]:.2f} times",
        ),
        Claim(
            "With 60 % of the reports, the accuracy loss is below 1 %",
            most[3] < 0.01 * math.sqrt(settings.paper_answers / settings.answers),
            f"{100 * most[3]:.2f} % on the largest bucket, of {settings.answers:,} answers",
        ),
    )
    x = [row[0] for row in rows]

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 3)
        for ax, column, label in zip(
            axes,
            (1, 2, 3),
            ("processor time (s)", "answers per second", "accuracy loss"),
            strict=True,
        ):
            plot_lines(
                ax, [Series("", x, [row[column] for row in rows])], "part that is read", label
            )
            ax.set_ylim(bottom=0)

    header = ("part", "seconds", "answers per second", "accuracy loss")
    return ExperimentOutcome(findings, header, tuple(rows), draw)


EXPERIMENTS = (
    Experiment(
        "quoc-figure-11",
        PAPER,
        "Figure 11: history by the part that is read",
        _figure_11,
        {
            "answers": 2_000_000,
            "paper_answers": 2_000_000,
            "p": 0.9,
            "q": 0.6,
            "fractions": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
            "runs": 5,
        },
        {"answers": 600_000, "runs": 2, "fractions": (0.2, 0.6, 1.0)},
    ),
)
