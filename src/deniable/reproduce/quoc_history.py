"""PrivApprox (Quoc et al. 2017), figure 11: estimates from stored reports, of which only a part is read."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.aggregator import history
from deniable.aggregator.panes import PaneKey
from deniable.local.datasets import dataset
from deniable.queries.buckets import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.reproduce.experiment import Claim, Context, Experiment, Outcome, Series, plot_lines

__all__ = ["EXPERIMENTS"]

PAPER = "Quoc et al. 2017"
_ORIGIN = 1_700_000_400
_MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


def _store(folder: Path, query: Query, settings: SimpleNamespace, context: Context) -> np.ndarray[Any, Any]:
    """Write the reports of everybody in so many batches; returns the true proportions."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra

    miles = dataset("taxi").draw(context.random(), settings.answers)
    values = np.minimum(miles.astype(np.int64), 10)
    source = context.source()
    key = PaneKey(query.id, query.serial, query.schedule.epoch_of(_ORIGIN), 0)
    for number, part in enumerate(np.array_split(values, settings.batches)):
        rows = query.mechanism.draw(part, source)
        (folder / f"batch={number}").mkdir()
        pq.write_table(history.to_table([(key, rows)]), folder / f"batch={number}" / "part.parquet")
        context.done(0.5 * (number + 1) / settings.batches)
    return np.bincount(values, minlength=11) / values.size


def _figure_11(settings: SimpleNamespace, context: Context) -> Outcome:
    query = Query(
        id="distance",
        analyst="City of Exampleton",
        sql="SELECT distance FROM trips",
        columns=[Column("distance", _MILES)],
        schedule=Schedule(_ORIGIN, _ORIGIN + 86_400, 600, 600, 600),
        proxies=["https://one.example", "https://two.example"],
        mechanism={"name": "TwoCoin", "p": settings.p, "q": settings.q},
    )
    rows = []
    with tempfile.TemporaryDirectory() as place:
        store = Path(place) / "history"
        store.mkdir()
        truth = _store(store, query, settings, context)
        batches = sorted(store.iterdir())
        order = context.random(1)
        largest = int(truth.argmax())
        for number, fraction in enumerate(settings.fractions):
            count = max(1, round(fraction * len(batches)))
            seconds, losses = math.inf, []
            for run in range(settings.runs):
                # Batches are mixed before they are written, so that some of them are a sample of all reports.
                part = Path(place) / f"{number}-{run}"
                part.mkdir()
                for chosen in order.choice(len(batches), count, replace=False):
                    (part / batches[chosen].name).symlink_to(batches[chosen])
                started = time.process_time()
                found = history.estimate(str(part), query, _ORIGIN, _ORIGIN + 600)
                seconds = min(seconds, time.process_time() - started)
                losses.append(abs(float(found.proportions[largest]) / truth[largest] - 1))
            answers = settings.answers * count / len(batches)
            rows.append((count / len(batches), seconds, answers / seconds, float(np.mean(losses))))
            context.done(0.5 + 0.5 * (number + 1) / len(settings.fractions))
    whole, most = rows[-1], next(row for row in rows if abs(row[0] - 0.6) < 0.01)
    findings = (
        Claim(
            "With 60 % of the reports, history is answered 1.86 times as fast: at least nearly 1/0.6",
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
        for ax, column, label in zip(axes, (1, 2, 3), ("processor time (s)", "answers per second", "accuracy loss"), strict=True):
            plot_lines(ax, [Series("", x, [row[column] for row in rows])], "part that is read", label)
            ax.set_ylim(bottom=0)

    header = ("part", "seconds", "answers per second", "accuracy loss")
    return Outcome(findings, header, tuple(rows), draw)


EXPERIMENTS = (
    Experiment(
        "quoc-figure-11",
        PAPER,
        "Figure 11: history by the part that is read",
        _figure_11,
        {
            "answers": 2_000_000,
            "paper_answers": 2_000_000,
            "batches": 20,
            "p": 0.9,
            "q": 0.6,
            "fractions": (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
            "runs": 5,
        },
        {"answers": 100_000, "runs": 2, "fractions": (0.2, 0.6, 1.0)},
    ),
)
