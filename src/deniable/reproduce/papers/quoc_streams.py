"""PrivApprox (Quoc et al. 2017): inversion, strata, and the comparisons of privacy."""

from __future__ import annotations

import math
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
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.papers.quoc_loss import (
    FINE,
    PAPER,
    accuracy_loss,
    expected_loss,
    paper_error,
)
from deniable.reproduce.plotting import Series, paper_points, plot_lines

__all__ = ["EXPERIMENTS"]


def _measure_5a(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    for place, y in enumerate(settings.yes):
        # The inverse query counts the no answers. Its estimate is 1 minus the other one, so its
        # error has the same size; only the proportion it is divided by differs.
        arguments = settings.clients, settings.s, settings.p, settings.q
        loss, stderr = accuracy_loss(y, *arguments, settings.trials, context, place)
        odds = y / (1 - y)
        rows.append((y, loss, stderr, expected_loss(y, *arguments), loss * odds, stderr * odds))
        context.done((place + 1) / len(settings.yes))
    header = ("y", "loss", "stderr", "theory", "inverted", "inverted stderr")
    return Measured(header, tuple(rows))


def _judge_5a(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    y, loss, stderr, theory, inverted, inverted_error = measured.rows[0]
    best = min(measured.rows, key=lambda row: row[3])[0]
    nearest = min(settings.yes, key=lambda y: abs(y - settings.q))
    return (
        Compared(
            f"loss at y = {y}, native query", printed["native"], loss, stderr, paper_error(theory)
        ),
        Compared(
            f"loss at y = {y}, inverted query",
            printed["inverted"],
            inverted,
            inverted_error,
            paper_error(theory * y / (1 - y)),
        ),
        Claim(
            "The loss is smaller the closer the proportion of yes answers is to q",
            best == nearest,
            f"smallest at y = {best}, q = {settings.q}",
            "the loss is relative to y, and falls as y grows all the way; inverting changes what it"
            " is divided by, not the error",
        ),
        Claim(
            "Inverting makes the loss smaller where few people answer yes",
            all(row[4] < row[1] for row in measured.rows if row[0] < 0.5),
            f"at y = {y}: {inverted:.4f} beside {loss:.4f}",
        ),
    )


def _draw_5a(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    lines = [
        Series("native", settings.yes, [r[1] for r in rows], error=[r[2] for r in rows]),
        Series("inverted", settings.yes, [r[4] for r in rows], error=[r[5] for r in rows]),
        Series("native, by theory", settings.yes, [r[3] for r in rows], "--"),
    ]
    ax = figure.subplots()
    plot_lines(ax, lines, "proportion of yes answers", "accuracy loss", log="y")
    paper_points(
        ax,
        [settings.yes[0]] * 2,
        [float(printed["native"]), float(printed["inverted"])],
    )


def _measure_5c(settings: SimpleNamespace, context: Context) -> Measured:
    random = context.random()
    mechanism = BinaryResponse(0.9, 0.6)
    rates = np.array(settings.rates)
    proportions = np.array([0.2, 0.5, 0.8])
    rows, covered = [], 0
    for s in settings.s:
        taken = np.zeros((settings.trials, len(rates)))
        for trial in range(settings.trials):
            items = random.poisson(settings.window * rates / rates.sum())
            taken[trial] = random.binomial(items, s)
            estimates = [
                mechanism.estimate(
                    mechanism.privatize(
                        (random.random(int(n)) < proportion).astype(int), context.source(trial)
                    )
                )
                for n, proportion in zip(taken[trial], proportions, strict=True)
            ]
            low, high = stratified(estimates, items.tolist()).interval(0.95)[1]
            covered += low <= float((items * proportions).sum() / items.sum()) <= high
        expected = settings.window * s * rates / rates.sum()
        rows.append(
            (
                s,
                *taken.mean(axis=0).tolist(),
                *(taken.std(axis=0, ddof=1) / math.sqrt(settings.trials)).tolist(),
                *expected.tolist(),
            )
        )
        context.done(s)
    header = ("s", *(f"{what} {i}" for what in ("taken", "stderr", "expected") for i in (1, 2, 3)))
    return Measured(
        header, tuple(rows), {"covered": float(covered), "of": settings.trials * len(settings.s)}
    )


def _judge_5c(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    largest = max(
        abs(row[1 + i] - row[7 + i]) / row[4 + i] for row in measured.rows for i in range(3)
    )
    covered, of = measured.figures["covered"], measured.figures["of"]
    return (
        Claim(
            "Items taken from each source are proportional to its rate and to the sampling"
            " fraction",
            largest < 4.5,
            f"largest deviation {largest:.1f} standard errors of {3 * len(measured.rows)}",
        ),
        Claim(
            "Intervals of the stratified estimate cover the true proportion 94 to 96 % of the time,"
            " up to simulation error",
            abs(covered / of - 0.95) < 0.01 + 3 * math.sqrt(0.05 * 0.95 / of),
            f"{100 * covered / of:.1f} % of {of:,.0f}",
        ),
    )


def _draw_5c(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    lines = [
        Series(
            f"source {i + 1} (rate {rate})",
            settings.s,
            [row[1 + i] for row in measured.rows],
            error=[row[4 + i] for row in measured.rows],
        )
        for i, rate in enumerate(settings.rates)
    ]
    plot_lines(figure.subplots(), lines, "sampling fraction s", "items taken per window")


def _measure_7(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    for f in settings.f:
        paper = [math.log1p(s * math.expm1(quoc_one_sided_epsilon(1 - f, 0.5))) for s in settings.s]
        ours = [sampled_epsilon(answer_epsilon(1 - f, 0.5), s) for s in settings.s]
        rows.append((f, rappor_lifetime_epsilon(f), *paper, *ours))
    header = (
        "f",
        "RAPPOR",
        *(f"paper s={s}" for s in settings.s),
        *(f"ours s={s}" for s in settings.s),
    )
    return Measured(header, tuple(rows))


def _judge_7(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    count, at_one, rows = len(settings.s), settings.s.index(1.0), measured.rows
    return (
        Claim(
            "With s = 1 the loss of an answer is that of RAPPOR with one hash",
            all(abs(row[2 + count + at_one] - row[1]) < 1e-9 for row in rows),
            "answer's epsilon = 2 ln((1 - f/2)/(f/2)), to 1e-9",
        ),
        Claim(
            "As the paper counts, the two have the same loss at s = 1: the same coins",
            all(abs(row[2 + at_one] - row[1]) < 1e-9 for row in rows),
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
            f"f = {rows[0][0]}, s = {settings.s[0]}: {rows[0][2 + count]:.3f} beside"
            f" {rows[0][1]:.3f}",
        ),
    )


def _draw_7(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows, count = measured.rows, len(settings.s)
    lines = [
        Series(f"ours, s = {s}", settings.f, [row[2 + count + i] for row in rows])
        for i, s in enumerate(settings.s)
    ]
    lines.append(Series("RAPPOR, h = 1 (as s = 1)", settings.f, [row[1] for row in rows], "--"))
    plot_lines(figure.subplots(), lines, "RAPPOR's f", "epsilon of an answer")


def _measure_12(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    for p, q in settings.pairs:
        epsilon = bit_epsilon(p, q)
        for s in settings.s:
            zero, sampled = zero_knowledge_epsilon(epsilon, s), sampled_epsilon(epsilon, s)
            rows.append((p, q, s, zero, sampled, zero / sampled))
    return Measured(("p", "q", "s", "epsilon zk", "epsilon dp", "ratio"), tuple(rows))


def _judge_12(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    smallest = min(measured.column("ratio"))
    return (
        Claim(
            "The bound of differential privacy is tighter than that of zero-knowledge privacy for"
            " every s",
            smallest > 1,
            f"smallest ratio {smallest:.3f}",
        ),
        Claim(
            "It is tighter than twice that, which follows from zero-knowledge privacy in general",
            all(row[4] < 2 * row[3] for row in measured.rows),
            f"smallest 2 zk / dp {2 * smallest:.3f}",
        ),
    )


def _draw_12(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    lines = [
        Series(
            f"p = {p}, q = {q}",
            settings.s,
            [row[5] for row in measured.rows if row[:2] == (p, q)],
        )
        for p, q in settings.pairs
    ]
    plot_lines(figure.subplots(), lines, "s", "epsilon zk / epsilon dp", log="y")


EXPERIMENTS = (
    Experiment(
        "quoc-figure-5a",
        PAPER,
        "Figure 5 (a): native and inverted query",
        _measure_5a,
        _judge_5a,
        _draw_5a,
        {"clients": 10_000, "yes": FINE, "s": 0.9, "p": 0.9, "q": 0.6, "trials": 3000},
        {"trials": 100},
        {"native": "0.0254", "inverted": "0.004"},
    ),
    Experiment(
        "quoc-figure-5c",
        PAPER,
        "Figure 5 (c): strata",
        _measure_5c,
        _judge_5c,
        _draw_5c,
        {"rates": (3, 4, 5), "window": 10_000, "s": (0.1, 0.2, 0.4, 0.6, 0.8, 0.9), "trials": 200},
        {"trials": 20},
    ),
    Experiment(
        "quoc-figure-7",
        PAPER,
        "Figure 7: beside RAPPOR",
        _measure_7,
        _judge_7,
        _draw_7,
        {"f": FINE, "s": (0.2, 0.4, 0.6, 0.8, 1.0)},
    ),
    Experiment(
        "quoc-figure-12",
        PAPER,
        "Figure 12: zero-knowledge beside differential privacy",
        _measure_12,
        _judge_12,
        _draw_12,
        {"pairs": ((0.3, 0.3), (0.3, 0.6), (0.6, 0.3), (0.9, 0.6)), "s": (0.01, *FINE, 0.99)},
    ),
)
