"""Lavengood (2017): the simulated trials on the lengths of two tweets."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.planning.grid import lavengood_grid
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.papers.lavengood import PAPER, cv
from deniable.reproduce.papers.lavengood_tweets import (
    parameter_figures,
    parameter_findings,
    printed_parameters,
    trials,
    variation_claim,
)
from deniable.reproduce.plotting import bare

__all__ = ["EXPERIMENTS"]

_EDGES = (50, 90, 110, 130)
_LENGTHS = ("0-50", "51-90", "91-110", "111-130", "131-140")


def _tweets(settings: SimpleNamespace, context: Context) -> NDArray[np.int64]:
    """Pairs of buckets, first length times 5 plus next, as the thesis's SQL returns them from a
    table with links."""
    random = context.random()
    # One author's lengths resemble each other: each is drawn from a latent number correlated with
    # the previous one.
    latent = random.normal(size=settings.rows + 1)
    memory = settings.memory
    latent[1:] = memory * latent[:-1] + math.sqrt(1 - memory**2) * latent[1:]
    order = latent.argsort().argsort() / latent.size
    lengths = (
        np.interp(order, (0, 0.28, 0.52, 0.68, 0.84, 1), (1, 50, 90, 110, 130, 140))
        .round()
        .astype(int)
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE TABLE tweets (id INTEGER PRIMARY KEY, content TEXT, next INTEGER)"
        )
        made = ((i, "x" * n, i + 1) for i, n in enumerate(lengths.tolist()))
        connection.executemany("INSERT INTO tweets VALUES (?, ?, ?)", made)
        sql = (
            "SELECT length(a.content), length(b.content) FROM tweets AS a JOIN tweets AS b ON"
            " a.next = b.id"
        )
        pairs = np.array(connection.execute(sql).fetchall())
    buckets = np.searchsorted(_EDGES, pairs, side="left")
    return np.asarray(buckets[:, 0] * 5 + buckets[:, 1], dtype=np.int64)


def _measure_6_4(settings: SimpleNamespace, context: Context) -> Measured:
    epsilon, *parameters = settings.parameters[0]
    s, p, q = parameters
    truth = _tweets(settings, context)
    proportions = np.bincount(truth, minlength=25) / truth.size
    estimates = trials(truth, 25, (s, p, q), settings.trials, context, 1)
    tables = estimates.reshape(-1, 5, 5)
    after = tables / tables.sum(axis=2, keepdims=True)
    true_after = proportions.reshape(5, 5) / proportions.reshape(5, 5).sum(axis=1, keepdims=True)
    after_cv = after.std(axis=0, ddof=1) / true_after
    means = after.mean(axis=0)
    rows = tuple(
        (
            _LENGTHS[i // 5],
            _LENGTHS[i % 5],
            float(proportions[i]),
            float(estimates[0, i]),
            float(estimates[:, i].std(ddof=1) / proportions[i]),
            cv(float(proportions[i]), truth.size, s, p, q),
            float(true_after[i // 5, i % 5]),
            float(means[i // 5, i % 5]),
            float(after_cv[i // 5, i % 5]),
        )
        for i in range(25)
    )
    figures: dict[str, float] = {}
    grid = lavengood_grid(epsilon, settings.paper_rows, 0.05)
    parameter_figures(f"epsilon {epsilon}", (s, p, q), grid, figures)
    header = (
        "first",
        "next",
        "truth",
        "one trial",
        "CV",
        "CV by theory",
        "conditional truth",
        "conditional mean",
        "conditional CV",
    )
    return Measured(header, rows, figures)


def _judge_6_4(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    scale = math.sqrt(settings.rows / settings.paper_rows)
    before, after = measured.column("CV"), measured.column("conditional CV")
    means = np.array(measured.column("conditional mean")).reshape(5, 5)
    ratio = float(np.mean([b / a for a, b in zip(before, after, strict=True)]))
    largest = max(*before, *after) * scale
    # The largest of 50 empirical deviations exceeds its own expectation by up to 3 of its errors.
    slack = 1 + 3 / math.sqrt(2 * (settings.trials - 1))
    return (
        *parameter_findings(f"epsilon {settings.parameters[0][0]}", measured.figures, printed),
        variation_claim("", before, measured.column("CV by theory"), settings.trials),
        Claim(
            "With 2,052,205 answers no bucket has a coefficient of variation above 10 %, before or"
            " after conditioning",
            largest < 0.1 * slack,
            f"largest {100 * max(before) * scale:.1f} % and {100 * max(after) * scale:.1f} %",
        ),
        Claim(
            "Conditioning on the first length has no great effect on the variation",
            0.8 < ratio < 1.25,
            f"mean ratio {ratio:.2f}",
        ),
        Claim(
            "A long second tweet becomes more likely with the length of the first",
            bool((np.diff(means[:, 4]) > 0).all()),
            ", ".join(f"{100 * each:.1f} %" for each in means[:, 4]),
        ),
        Claim(
            "A short second tweet becomes less likely with the length of the first",
            bool((np.diff(means[:, 0]) < 0).all()),
            ", ".join(f"{100 * each:.1f} %" for each in means[:, 0]),
        ),
    )


def _draw_6_4(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    raw, conditional, variation = figure.subplots(1, 3, width_ratios=(1.3, 1.3, 1))
    truth, theory = np.array(measured.column("truth")), np.array(measured.column("CV by theory"))
    raw.bar(np.arange(25), 100 * truth, color="0.85", label="truth")
    raw.errorbar(
        np.arange(25),
        [100 * each for each in measured.column("one trial")],
        196 * theory * truth,
        fmt="o",
        markersize=3,
        linewidth=1,
        label="one trial, 95 %",
    )
    raw.set_xlabel("first length x next length")
    raw.set_ylabel("pairs (%)")
    raw.legend(fontsize=8, frameon=False)
    for i in range(5):
        mine = measured.rows[5 * i : 5 * i + 5]
        errors = [196 * row[8] * row[6] for row in mine]
        conditional.errorbar(
            _LENGTHS,
            [100 * row[7] for row in mine],
            errors,
            fmt="o-",
            markersize=3,
            linewidth=1,
            label=_LENGTHS[i],
        )
        conditional.plot(_LENGTHS, [100 * row[6] for row in mine], ":", color=f"C{i}")
    conditional.tick_params(axis="x", labelsize=7, rotation=30)
    conditional.set_xlabel("next length (dotted: truth)")
    conditional.set_ylabel("given the first length (%)")
    conditional.legend(fontsize=7, frameon=False)
    variation.plot(
        100 * truth,
        [100 * each for each in measured.column("CV")],
        "o",
        markersize=3,
        label="pairs",
    )
    variation.plot(
        100 * truth,
        [100 * each for each in measured.column("conditional CV")],
        "x",
        markersize=4,
        label="conditional",
    )
    order = np.argsort(truth)
    variation.plot(100 * truth[order], 100 * theory[order], "-", color="0.4", label="theory")
    variation.set_xlabel("pairs (%)")
    variation.set_ylabel("CV (%)")
    variation.legend(fontsize=7, frameon=False)
    bare(raw, conditional, variation)


EXPERIMENTS = (
    Experiment(
        "lavengood-figure-6.4",
        PAPER,
        "Figures 6.4 to 6.6: two columns, conditional tables",
        _measure_6_4,
        _judge_6_4,
        _draw_6_4,
        {
            "rows": 2_052_205,
            "paper_rows": 2_052_205,
            "memory": 0.25,
            "parameters": ((0.7, 0.07, 0.87, 0.47),),
            "trials": 100,
        },
        {"rows": 100_000, "trials": 40},
        printed_parameters(("0.7", "0.07", "0.87", "0.47", "0.7", "1.42")),
    ),
)
