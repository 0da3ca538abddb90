"""PrivApprox (Quoc et al. 2017): utility and privacy of sampled randomized response, by simulation
and by formula."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.privacy.response import (
    bit_epsilon,
    quoc_one_sided_epsilon,
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
    largest_deviation,
    paper_error,
)
from deniable.reproduce.plotting import Series, bare, plot_lines

__all__ = ["EXPERIMENTS"]

_ONE_SIDED = (
    "the paper's equation 8 keeps only P(1|1)/P(1|0); for q > 1/2 the other ratio is the larger one"
)


def _measure_table_1(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    pairs = [(p, q) for p in settings.p for q in settings.q]
    for place, (p, q) in enumerate(pairs):
        loss, stderr = accuracy_loss(
            settings.yes, settings.clients, settings.s, p, q, settings.trials, context, place
        )
        rows.append(
            (
                p,
                q,
                loss,
                stderr,
                expected_loss(settings.yes, settings.clients, settings.s, p, q),
                zero_knowledge_epsilon(quoc_one_sided_epsilon(p, q), settings.s),
                zero_knowledge_epsilon(bit_epsilon(p, q), settings.s),
            )
        )
        context.done((place + 1) / len(pairs))
    header = ("p", "q", "loss", "stderr", "theory", "epsilon by equation 8", "epsilon")
    return Measured(header, tuple(rows))


def _judge_table_1(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for p, q, loss, stderr, theory, one_sided, exact in measured.rows:
        name = f"p = {p}, q = {q}"
        findings.append(
            Compared(
                f"accuracy loss, {name}",
                printed[f"loss {name}"],
                loss,
                stderr,
                paper_error(theory),
            )
        )
        findings.append(
            Compared(
                f"zero-knowledge epsilon, {name}",
                printed[f"epsilon {name}"],
                one_sided,
                ours=exact,
                note=_ONE_SIDED if exact > one_sided + 1e-9 else "",
            )
        )
    best = {p: min((row[4], row[1]) for row in measured.rows if row[0] == p)[1] for p in settings.p}
    nearest = min(settings.q, key=lambda q: abs(q - settings.yes))
    findings += [
        Claim(
            f"The closer q is to the proportion of yes answers ({settings.yes}), the smaller the"
            " loss",
            all(q == nearest for q in best.values()),
            ", ".join(f"p = {p}: smallest at q = {q}" for p, q in best.items()),
            "lam (1 - lam) is largest, not smallest, near lam = 1/2; the paper's differences over q"
            " are within its own noise",
        ),
        Claim(
            "The loss is what theory gives, lam (1 - lam)/(p^2 s N)",
            largest_deviation(measured) < 4.5,
            f"largest deviation {largest_deviation(measured):.1f} standard errors of"
            f" {len(measured.rows)}",
        ),
    ]
    return tuple(findings)


def _draw_table_1(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    left, right = figure.subplots(1, 2)
    for p in settings.p:
        mine = [row for row in measured.rows if row[0] == p]
        qs = [row[1] for row in mine]
        left.errorbar(qs, [r[2] for r in mine], [r[3] for r in mine], fmt="o-", label=f"p = {p}")
        right.plot(qs, [row[6] for row in mine], "o-", label=f"p = {p}")
        right.plot(qs, [row[5] for row in mine], "--", color="0.4")
        for ax, what in ((left, "loss"), (right, "epsilon")):
            ax.plot(qs, [float(printed[f"{what} p = {p}, q = {q}"]) for q in qs], "x", color="0.1")
    for ax, label in ((left, "accuracy loss"), (right, "zero-knowledge epsilon")):
        ax.plot([], [], "x", color="0.1", label="paper")
        ax.set_xlabel("q")
        ax.set_ylabel(label)
        ax.set_ylim(bottom=0)
        bare(ax)
    right.plot([], [], "--", color="0.4", label="by equation 8")
    left.legend(fontsize=8, frameon=False)
    right.legend(fontsize=8, frameon=False)


def _measure_4a(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    pairs = [(p, q) for p in settings.p for q in settings.q]
    for place, (p, q) in enumerate(pairs):
        for i, s in enumerate(settings.s):
            loss, stderr = accuracy_loss(
                settings.yes, settings.clients, s, p, q, settings.trials, context, 100 * place + i
            )
            theory = expected_loss(settings.yes, settings.clients, s, p, q)
            rows.append((p, q, s, loss, stderr, theory))
        context.done((place + 1) / len(pairs))
    return Measured(("p", "q", "s", "loss", "stderr", "theory"), tuple(rows))


def _judge_4a(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    deviation = largest_deviation(measured)

    def mean(s: float) -> float:
        return float(np.mean([row[5] for row in measured.rows if row[2] == s]))

    before, after = (mean(s) for s in settings.s[-2:])
    start = mean(settings.s[0])
    falling = all(
        earlier[5] > later[5]
        for earlier, later in zip(measured.rows, measured.rows[1:], strict=False)
        if earlier[:2] == later[:2]
    )
    return (
        Claim(
            "The loss decreases with the sampling fraction, whatever p and q",
            falling,
            f"over s = {settings.s[0]} to {settings.s[-1]}",
        ),
        Claim(
            "It decreases as 1/sqrt(s): simulation and theory coincide",
            deviation < 4.5,
            f"largest deviation {deviation:.1f} standard errors of {len(measured.rows)}",
        ),
        Claim(
            f"Beyond s = {settings.s[-2]} there is little to gain",
            1 - after / before < 0.25 * (1 - before / start),
            f"the loss falls by {100 * (1 - after / before):.0f} % from s = {settings.s[-2]} to"
            f" {settings.s[-1]}, by {100 * (1 - before / start):.0f} % before",
        ),
    )


def _draw_4a(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    lines = []
    for p in settings.p:
        for q in settings.q:
            mine = [row for row in measured.rows if row[:2] == (p, q)]
            lines.append(
                Series(
                    f"p = {p}, q = {q}",
                    settings.s,
                    [row[3] for row in mine],
                    error=[row[4] for row in mine],
                )
            )
    plot_lines(figure.subplots(), lines, "sampling fraction s", "accuracy loss", log="y")


def _measure_4b(settings: SimpleNamespace, context: Context) -> Measured:
    p, q, y, n, trials = settings.p, settings.q, settings.yes, settings.clients, settings.trials
    response, _ = accuracy_loss(y, n, 1.0, p, q, trials, context, 1)
    rows = []
    for place, s in enumerate(settings.s):
        sampling, sampling_error = accuracy_loss(y, n, s, 1.0, q, trials, context, 10 + place)
        both, both_error = accuracy_loss(y, n, s, p, q, trials, context, 50 + place)
        rows.append(
            (
                s,
                sampling,
                sampling_error,
                both,
                both_error,
                expected_loss(y, n, s, 1.0, q),
                math.sqrt(_coins(y, n, s, p, q)),
                expected_loss(y, n, s, p, q),
            )
        )
        context.done((place + 1) / len(settings.s))
    header = (
        "s",
        "sampling",
        "sampling stderr",
        "both",
        "both stderr",
        "sampling by theory",
        "coins by theory",
        "both by theory",
    )
    figures = {"response": response, "response by theory": expected_loss(y, n, 1.0, p, q)}
    return Measured(header, tuple(rows), figures)


def _judge_4b(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    exact = [math.hypot(row[5], row[6]) for row in measured.rows]
    theory = measured.column("both by theory")
    added = [row[5] + measured.figures["response by theory"] for row in measured.rows]
    deviations = [abs(row[3] - row[7]) / row[4] for row in measured.rows]
    return (
        Claim(
            "The errors of sampling and of randomized response are independent: their squares add"
            " up to that of both",
            max(abs(a / b - 1) for a, b in zip(exact, theory, strict=True)) < 1e-9
            and max(deviations) < 4.5,
            "lam (1 - lam)/p^2 = y (1 - y) + coins, to 1e-9; simulated within"
            f" {max(deviations):.1f} standard errors",
        ),
        Claim(
            "The two losses can be added together to give the total loss",
            max(abs(total / summed - 1) for total, summed in zip(theory, added, strict=True))
            < 0.05,
            f"by theory at s = {settings.s[-1]}: {added[-1]:.4f} beside {theory[-1]:.4f}",
            "squares add up, not the losses; and the coins' part grows as 1/sqrt(s), while the"
            " paper measures it at s = 1",
        ),
    )


def _draw_4b(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows, response = measured.rows, measured.figures["response"]
    lines = [
        Series("sampling alone", settings.s, [r[1] for r in rows], error=[r[2] for r in rows]),
        Series("response alone (s = 1)", settings.s, [response] * len(rows)),
        Series("both", settings.s, [r[3] for r in rows], error=[r[4] for r in rows]),
        Series("both, by theory", settings.s, [r[7] for r in rows], "--"),
    ]
    plot_lines(figure.subplots(), lines, "sampling fraction s", "accuracy loss")


def _coins(y: float, n: float, s: float, p: float, q: float) -> float:
    a, b = p + (1 - p) * q, (1 - p) * q
    return 2 / math.pi * (y * a * (1 - a) + (1 - y) * b * (1 - b)) / (p * p * s * n) / y**2


def _measure_4c(settings: SimpleNamespace, context: Context) -> Measured:
    arguments = settings.s, settings.p, settings.q
    rows = []
    for place, n in enumerate(settings.clients):
        loss, stderr = accuracy_loss(settings.yes, n, *arguments, settings.trials, context, place)
        rows.append((n, loss, stderr, expected_loss(settings.yes, n, *arguments)))
    return Measured(("clients", "loss", "stderr", "theory"), tuple(rows))


def _judge_4c(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    losses, clients = measured.column("loss"), measured.column("clients")
    logs = np.log(clients)
    slope = float(np.polyfit(logs, np.log(losses), 1)[0])
    # the standard error of the slope, from the relative standard errors of the losses
    relative = np.array([row[2] / row[1] for row in measured.rows])
    weights = (logs - logs.mean()) / ((logs - logs.mean()) ** 2).sum()
    error = float(np.sqrt((weights**2 * relative**2).sum()))
    few = min((row for row in measured.rows), key=lambda row: row[0])
    return (
        Claim(
            "Utility improves with the number of clients: the loss falls as its inverse root",
            abs(slope + 0.5) < 4 * error + 0.01,
            f"slope {slope:.3f} ± {error:.3f} on a log-log scale",
        ),
        Claim(
            "Fewer than 100 clients give results of low utility: a loss above 5 %",
            few[1] - 3 * few[2] > 0.05,
            f"loss {few[1]:.3f} ± {few[2]:.3f} with {few[0]}",
        ),
    )


def _draw_4c(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    lines = [
        Series("simulated", settings.clients, [r[1] for r in rows], error=[r[2] for r in rows]),
        Series("theory", settings.clients, [r[3] for r in rows], "--"),
    ]
    plot_lines(figure.subplots(), lines, "clients", "accuracy loss", log="xy")


_TABLE_1 = (
    (0.3, 0.3, "0.0278", "1.7047"),
    (0.3, 0.6, "0.0262", "1.3862"),
    (0.3, 0.9, "0.0268", "1.2527"),
    (0.6, 0.3, "0.0141", "2.5649"),
    (0.6, 0.6, "0.0128", "2.0476"),
    (0.6, 0.9, "0.0136", "1.7917"),
    (0.9, 0.3, "0.0098", "4.1820"),
    (0.9, 0.6, "0.0079", "3.5263"),
    (0.9, 0.9, "0.0102", "3.1570"),
)
_THIRDS = (0.3, 0.6, 0.9)
_CROWD = {"clients": 10_000, "yes": 0.6, "trials": 1000}

EXPERIMENTS = (
    Experiment(
        "quoc-table-1",
        PAPER,
        "Table 1: loss and privacy by p and q",
        _measure_table_1,
        _judge_table_1,
        _draw_table_1,
        {**_CROWD, "s": 0.6, "p": _THIRDS, "q": _THIRDS},
        {"trials": 100},
        {
            f"{what} p = {p}, q = {q}": text
            for p, q, *texts in _TABLE_1
            for what, text in zip(("loss", "epsilon"), texts, strict=True)
        },
    ),
    Experiment(
        "quoc-figure-4a",
        PAPER,
        "Figure 4 (a): loss by sampling fraction",
        _measure_4a,
        _judge_4a,
        _draw_4a,
        {**_CROWD, "trials": 400, "p": _THIRDS, "q": _THIRDS, "s": (0.1, 0.2, 0.4, 0.6, 0.8, 0.99)},
        {"trials": 20},
    ),
    Experiment(
        "quoc-figure-4b",
        PAPER,
        "Figure 4 (b): errors of sampling and of response",
        _measure_4b,
        _judge_4b,
        _draw_4b,
        {**_CROWD, "trials": 400, "p": 0.3, "q": 0.6, "s": FINE},
        {"trials": 40},
    ),
    Experiment(
        "quoc-figure-4c",
        PAPER,
        "Figure 4 (c): loss by number of clients",
        _measure_4c,
        _judge_4c,
        _draw_4c,
        {
            "yes": 0.6,
            "s": 0.9,
            "p": 0.9,
            "q": 0.6,
            "clients": (30, 100, 300, 1000, 10_000, 100_000),
            "trials": 400,
        },
        {"trials": 60},
    ),
)
