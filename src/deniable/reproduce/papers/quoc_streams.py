"""PrivApprox (Quoc et al. 2017): inversion, strata, real data, and comparisons with other systems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.estimation.pooling import stratified
from deniable.mechanisms.protocols.binary import BinaryResponse
from deniable.privacy.composition import rappor_lifetime_epsilon
from deniable.privacy.response import (
    answer_epsilon,
    bit_epsilon,
    quoc_one_sided_epsilon,
    sampled_epsilon,
    zero_knowledge_epsilon,
)
from deniable.reproduce.experiment import (
    Claim,
    Compared,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
)
from deniable.reproduce.papers.quoc import (
    FINE,
    PAPER,
    accuracy_loss,
    expected_loss,
    one_plot,
    tolerance_of,
)
from deniable.reproduce.real_data import bucket_counts

__all__ = ["EXPERIMENTS"]


def _figure_5a(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows = []
    for place, y in enumerate(settings.yes):
        # The inverse query counts the no answers. Its estimate is 1 minus the other one, so its
        # error has the same size; only the proportion it is divided by differs.
        arguments = (
            settings.clients,
            settings.s,
            settings.p,
            settings.q,
            settings.runs,
            context,
            place,
        )
        native = accuracy_loss(y, *arguments)
        rows.append((y, native, native * y / (1 - y), expected_loss(y, *arguments[:4])))
        context.done((place + 1) / len(settings.yes))
    at = next(row for row in rows if row[0] == 0.1)
    tolerance = tolerance_of(at[3], settings.runs)
    findings = (
        Compared("loss at y = 0.1, native query", 0.0254, at[1], tolerance),
        Compared("loss at y = 0.1, inverted query", 0.004, at[2], tolerance / 9 + 5e-4),
        Claim(
            "The loss is smaller the closer the proportion of yes answers is to q",
            min(rows, key=lambda row: row[3])[0]
            == min(settings.yes, key=lambda y: abs(y - settings.q)),
            f"smallest at y = {min(rows, key=lambda row: row[3])[0]}, q = {settings.q}",
            "the loss is relative to y, and falls as y grows all the way; inverting changes what it"
            " is divided by, not the error",
        ),
    )
    lines = [
        Series("native", settings.yes, [row[1] for row in rows]),
        Series("inverted", settings.yes, [row[2] for row in rows]),
    ]
    draw = one_plot(lines, "proportion of yes answers", "accuracy loss", "y")
    return ExperimentOutcome(
        findings, ("y", "native", "inverted", "native by theory"), tuple(rows), draw
    )


def _figure_5c(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    random = context.random()
    mechanism = BinaryResponse(0.9, 0.6)
    rates = np.array(settings.rates)
    rows, covered = [], 0
    for s in settings.s:
        taken = np.zeros((settings.runs, len(rates)))
        for run in range(settings.runs):
            items = random.poisson(settings.window * rates / rates.sum())
            taken[run] = random.binomial(items, s)
            shares = np.array([0.2, 0.5, 0.8])
            estimates = [
                mechanism.estimate(
                    mechanism.privatize(
                        (random.random(int(n)) < share).astype(int), context.source(run)
                    )
                )
                for n, share in zip(taken[run], shares, strict=True)
            ]
            total = stratified(estimates, items.tolist())
            low, high = total.interval(0.95)[1]
            covered += low <= float((items * shares).sum() / items.sum()) <= high
        rows.append(
            (s, *taken.mean(axis=0).tolist(), *(settings.window * s * rates / rates.sum()).tolist())
        )
        context.done(s)
    largest = max(abs(row[1 + i] / row[4 + i] - 1) for row in rows for i in range(3))
    share = covered / settings.runs / len(settings.s)
    findings = (
        Claim(
            "Items taken from each source are proportional to its rate and to the sampling"
            " fraction",
            largest < 5 / math.sqrt(settings.runs * rows[0][4]),
            f"largest deviation {100 * largest:.2f} %",
        ),
        Claim(
            "Intervals of the stratified estimate cover the true proportion 95 % of the time",
            abs(share - 0.95)
            < 4 * math.sqrt(0.05 * 0.95 / (settings.runs * len(settings.s))) + 0.005,
            f"{100 * share:.1f} % of {settings.runs * len(settings.s)}",
        ),
    )
    lines = [
        Series(f"source {i + 1} (rate {r})", settings.s, [row[1 + i] for row in rows])
        for i, r in enumerate(settings.rates)
    ]
    header = ("s", *(f"taken {i}" for i in (1, 2, 3)), *(f"expected {i}" for i in (1, 2, 3)))
    return ExperimentOutcome(
        findings,
        header,
        tuple(rows),
        one_plot(lines, "sampling fraction s", "items taken per window"),
    )


def _figure_7(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows = []
    for f in settings.f:
        paper = [math.log1p(s * math.expm1(quoc_one_sided_epsilon(1 - f, 0.5))) for s in settings.s]
        ours = [sampled_epsilon(answer_epsilon(1 - f, 0.5), s) for s in settings.s]
        rows.append((f, rappor_lifetime_epsilon(f), *paper, *ours))
    count = len(settings.s)
    at_one = settings.s.index(1.0)
    findings = (
        Claim(
            "With s = 1 the loss of an answer is that of RAPPOR with one hash",
            all(abs(row[2 + count + at_one] - row[1]) < 1e-9 for row in rows),
            "answer's epsilon = 2 ln((1 - f/2)/(f/2)), to 1e-9",
        ),
        Claim(
            "As the paper counts, PrivApprox is ahead of RAPPOR even without sampling",
            all(row[2 + at_one] < row[1] for row in rows),
            f"f = {rows[0][0]}: {rows[0][2 + at_one]:.3f} beside {rows[0][1]:.3f}",
            "it compares the loss of one bit with RAPPOR's of a whole answer, two bits",
        ),
        Claim(
            "Sampling makes the loss smaller than RAPPOR's, for anyone who cannot tell who took"
            " part",
            all(
                row[2 + count + i] < row[1]
                for row in rows
                for i, s in enumerate(settings.s)
                if s < 1
            ),
            f"f = 0.5, s = {settings.s[0]}",
        ),
    )
    lines = [Series("RAPPOR, h = 1", settings.f, [row[1] for row in rows])]
    lines += [
        Series(f"ours, s = {s}", settings.f, [row[2 + count + i] for row in rows])
        for i, s in enumerate(settings.s)
    ]
    header = (
        "f",
        "RAPPOR",
        *(f"paper s={s}" for s in settings.s),
        *(f"ours s={s}" for s in settings.s),
    )
    return ExperimentOutcome(
        findings, header, tuple(rows), one_plot(lines, "RAPPOR's f", "epsilon of an answer")
    )


def _figure_9_claims(
    rows: Sequence[tuple[float, ...]], settings: SimpleNamespace
) -> tuple[Claim, ...]:
    def mean(index: int, value: float, column: int) -> float:
        return float(np.mean([row[column] for row in rows if row[index] == value]))

    falls = [mean(0, p, 5) for p in settings.p], [mean(2, s, 5) for s in settings.s]
    grows = [mean(0, p, 4) for p in settings.p], [mean(2, s, 4) for s in settings.s]
    best = min(settings.q, key=lambda q: mean(1, q, 5))
    return (
        Claim(
            "The loss falls as s and p grow",
            all(list(x) == sorted(x, reverse=True) for x in falls),
            "means over the others",
        ),
        Claim(
            "Privacy weakens as s and p grow",
            all(list(x) == sorted(x) for x in grows),
            "means over the others",
        ),
        Claim(
            "The loss is smallest at q = 0.3, which is close to the proportion of yes answers",
            best == 0.3,
            f"by theory smallest at q = {best}",
            "lam (1 - lam) is smallest where q is far from where it makes lam = 1/2",
        ),
    )


def _draw_figure_9(
    figure: Any, rows: Sequence[tuple[float, ...]], settings: SimpleNamespace
) -> None:
    left, middle, right = figure.subplots(1, 3)
    for p in settings.p:
        plain = [row for row in rows if row[0] == p and row[1] == settings.q[0]]
        left.plot(
            [row[2] for row in plain],
            [row[3] for row in plain],
            "o-",
            markersize=3.5,
            label=f"p = {p}",
        )
        middle.plot([row[2] for row in plain], [row[4] for row in plain], "o-", markersize=3.5)
        own = [row for row in rows if row[0] == p]
        right.plot([row[4] for row in own], [row[3] for row in own], "o", markersize=3.5)
    for ax, x, label in (
        (left, "s", "accuracy loss"),
        (middle, "s", "epsilon (zk)"),
        (right, "epsilon (zk)", "accuracy loss"),
    ):
        ax.set_xlabel(x)
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    left.legend(fontsize=8, frameon=False)


def _figure_9(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    y, clients = settings.yes, settings.clients
    if context.data:
        counts = bucket_counts(context.data)
        y, clients = float(counts.max() / counts.sum()), int(counts.sum())
    rows = []
    for i, p in enumerate(settings.p):
        for j, q in enumerate(settings.q):
            for k, s in enumerate(settings.s):
                salt = 100 * i + 10 * j + k
                loss = accuracy_loss(y, clients, s, p, q, settings.runs, context, salt)
                rows.append(
                    (
                        p,
                        q,
                        s,
                        loss,
                        zero_knowledge_epsilon(bit_epsilon(p, q), s),
                        expected_loss(y, clients, s, p, q),
                    )
                )
        context.done((i + 1) / len(settings.p))

    def draw(figure: Any) -> None:
        _draw_figure_9(figure, rows, settings)

    return ExperimentOutcome(
        _figure_9_claims(rows, settings),
        ("p", "q", "s", "loss", "zero-knowledge epsilon", "loss by theory"),
        tuple(rows),
        draw,
    )


def _figure_12(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows, lines = [], []
    for p, q in settings.pairs:
        epsilon = bit_epsilon(p, q)
        ratios = [
            zero_knowledge_epsilon(epsilon, s) / sampled_epsilon(epsilon, s) for s in settings.s
        ]
        rows += [(p, q, s, ratio) for s, ratio in zip(settings.s, ratios, strict=True)]
        lines.append(Series(f"p = {p}, q = {q}", settings.s, ratios))
    findings = (
        Claim(
            "The bound of differential privacy is tighter than that of zero-knowledge privacy for"
            " every s",
            all(row[3] > 1 for row in rows),
            f"smallest ratio {min(row[3] for row in rows):.3f}",
        ),
    )
    return ExperimentOutcome(
        findings,
        ("p", "q", "s", "ratio"),
        tuple(rows),
        one_plot(lines, "s", "epsilon zk / epsilon dp", "y"),
    )


_TAXI = (
    "NYC TLC trip Parquet, DEBS 2015 CSV, or the UCI household power file (.txt); see"
    " docs/papers.md"
)

EXPERIMENTS = (
    Experiment(
        "quoc-figure-5a",
        PAPER,
        "Figure 5 (a): native and inverted query",
        _figure_5a,
        {"clients": 10_000, "yes": FINE, "s": 0.9, "p": 0.9, "q": 0.6, "runs": 400},
        {"runs": 50},
    ),
    Experiment(
        "quoc-figure-5c",
        PAPER,
        "Figure 5 (c): strata",
        _figure_5c,
        {"rates": (3, 4, 5), "window": 10_000, "s": (0.1, 0.2, 0.4, 0.6, 0.8, 0.9), "runs": 100},
        {"runs": 20},
    ),
    Experiment(
        "quoc-figure-7",
        PAPER,
        "Figure 7: beside RAPPOR",
        _figure_7,
        {"f": FINE, "s": (0.2, 0.4, 0.6, 0.8, 1.0)},
    ),
    Experiment(
        "quoc-figure-9",
        PAPER,
        "Figure 9: taxi trips, utility and privacy",
        _figure_9,
        {
            "yes": 0.3357,
            "clients": 10_000,
            "p": (0.3, 0.6, 0.9),
            "q": (0.3, 0.6, 0.9),
            "s": (0.2, 0.4, 0.6, 0.8, 0.95),
            "runs": 100,
        },
        {"runs": 10},
        _TAXI,
    ),
    Experiment(
        "quoc-figure-12",
        PAPER,
        "Figure 12: zero-knowledge beside differential privacy",
        _figure_12,
        {"pairs": ((0.3, 0.3), (0.3, 0.6), (0.6, 0.3), (0.9, 0.6)), "s": (0.01, *FINE, 0.99)},
    ),
)
