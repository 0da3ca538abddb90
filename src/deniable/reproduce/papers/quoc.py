"""PrivApprox (Quoc et al. 2017): utility and privacy of sampled randomized response, by simulation
and by formula.

The paper's accuracy loss is |estimate - y|/y, where y is the proportion that answers were drawn
with, averaged over 100 runs. Each such average has a relative standard error of 7.6 % (the absolute
value of a normal number has a standard deviation of 0.756 times its mean), so tolerances are four
standard errors of the difference of two.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.mechanisms.protocols.binary import BinaryResponse
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
    ExperimentOutcome,
    Finding,
    Series,
    plot_lines,
)

__all__ = ["EXPERIMENTS", "accuracy_loss", "expected_loss"]

PAPER = "Quoc et al. 2017"
SPREAD = math.sqrt(math.pi / 2 - 1)
"""The standard deviation of |x| divided by its mean, for normal x."""


def accuracy_loss(
    y: float, clients: int, s: float, p: float, q: float, runs: int, context: Context, salt: int
) -> float:
    """The mean of |estimate - y|/y: each run draws everyone's answer, who takes part, and the
    coins."""
    random, source = context.random(salt), context.source(salt)
    mechanism = BinaryResponse(p, q) if p < 1 else None
    losses = []
    for _ in range(runs):
        answers = (random.random(int(random.binomial(clients, s))) < y).astype(np.int64)
        share = (
            answers.mean()
            if mechanism is None
            else mechanism.estimate(mechanism.privatize(answers, source)).proportions[1]
        )
        losses.append(abs(float(share) - y) / y)
    return float(np.mean(losses))


def expected_loss(y: float, clients: float, s: float, p: float, q: float) -> float:
    """The same by theory: the error is normal with variance lam (1 - lam)/(p^2 s N), lam = p y + (1
    - p) q."""
    lam = p * y + (1 - p) * q
    return math.sqrt(2 / math.pi * lam * (1 - lam) / (s * clients)) / (p * y)


def tolerance_of(value: float, runs: int, paper_runs: int = 100) -> float:
    return 4 * SPREAD * value * math.sqrt(1 / runs + 1 / paper_runs)


def _table_1(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    findings: list[Finding] = []
    rows, by_q = [], []
    for place, (p, q, loss, level) in enumerate(settings.printed):
        ours = accuracy_loss(
            settings.yes, settings.clients, settings.s, p, q, settings.runs, context, place
        )
        exact = zero_knowledge_epsilon(bit_epsilon(p, q), settings.s)
        one_sided = zero_knowledge_epsilon(quoc_one_sided_epsilon(p, q), settings.s)
        theory = expected_loss(settings.yes, settings.clients, settings.s, p, q)
        findings.append(
            Compared(
                f"accuracy loss, p = {p}, q = {q}", loss, ours, tolerance_of(theory, settings.runs)
            )
        )
        note = (
            "the paper's equation 8 keeps only P(1|1)/P(1|0); for q > 1/2 the other ratio is the"
            " larger one"
        )
        findings.append(
            Compared(
                f"zero-knowledge epsilon, p = {p}, q = {q}", level, exact, 5e-4, note, one_sided
            )
        )
        rows.append((p, q, loss, ours, theory, level, exact, one_sided))
        by_q.append((p, q, theory))
        context.done((place + 1) / len(settings.printed))
    best = {p: min((loss, q) for other, q, loss in by_q if other == p)[1] for p in (0.3, 0.6, 0.9)}
    findings.append(
        Claim(
            "The closer q is to the proportion of yes answers (0.6), the smaller the loss",
            all(q == 0.6 for q in best.values()),
            ", ".join(f"p = {p}: smallest at q = {q}" for p, q in best.items()),
            "lam (1 - lam) is largest, not smallest, near lam = 1/2; the paper's differences over q"
            " are within its own noise",
        )
    )

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for p in (0.3, 0.6, 0.9):
            mine = [row for row in rows if row[0] == p]
            qs = [row[1] for row in mine]
            left.plot(qs, [row[3] for row in mine], "o-", label=f"p = {p}")
            left.plot(qs, [row[2] for row in mine], "x", color="0.3")
            right.plot(qs, [row[6] for row in mine], "o-", label=f"p = {p}")
            right.plot(qs, [row[5] for row in mine], "x", color="0.3")
        for ax, label in ((left, "accuracy loss"), (right, "zero-knowledge epsilon")):
            ax.plot([], [], "x", color="0.3", label="paper")
            ax.set_xlabel("q")
            ax.set_ylabel(label)
            ax.set_ylim(bottom=0)
            ax.spines[["top", "right"]].set_visible(False)
        left.legend(fontsize=8, frameon=False)

    header = (
        "p",
        "q",
        "paper loss",
        "loss",
        "loss by theory",
        "paper epsilon",
        "epsilon",
        "epsilon by the paper's formula",
    )
    return ExperimentOutcome(tuple(findings), header, tuple(rows), draw)


def _figure_4a(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows, findings, lines = [], [], []
    pairs = [(p, q) for p in settings.p for q in settings.q]
    for place, (p, q) in enumerate(pairs):
        losses = [
            accuracy_loss(
                settings.yes, settings.clients, s, p, q, settings.runs, context, 100 * place + i
            )
            for i, s in enumerate(settings.s)
        ]
        theory = [expected_loss(settings.yes, settings.clients, s, p, q) for s in settings.s]
        rows += [
            (p, q, s, loss, expected)
            for s, loss, expected in zip(settings.s, losses, theory, strict=True)
        ]
        lines.append(Series(f"p = {p}, q = {q}", settings.s, losses))
        context.done((place + 1) / len(pairs))
    deviations = [
        (loss - theory) / (theory * SPREAD / math.sqrt(settings.runs)) for *_, loss, theory in rows
    ]
    findings.append(
        Claim(
            "The loss decreases with the sampling fraction as 1/sqrt(s), whatever p and q",
            max(map(abs, deviations)) < 4.5,
            f"largest deviation from theory {max(map(abs, deviations)):.1f} standard errors of"
            f" {len(rows)}",
        )
    )
    ends = [(line.y[-1], line.y[-2]) for line in lines]
    gain = 1 - math.sqrt(settings.s[-2] / settings.s[-1])
    text = (
        f"theory: from s = {settings.s[-2]} to {settings.s[-1]} the loss falls by"
        f" {100 * gain:.0f} %"
    )
    findings.append(
        Claim("Beyond s = 0.8 there is little to gain", gain < 0.15 and len(ends) > 0, text)
    )
    draw = one_plot(lines, "sampling fraction s", "accuracy loss")
    return ExperimentOutcome(
        tuple(findings), ("p", "q", "s", "loss", "loss by theory"), tuple(rows), draw
    )


def one_plot(lines: list[Series], x: str, y: str, log: str = "") -> Any:
    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, x, y, log=log)

    return draw


def _figure_4b(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    p, q, y, n, runs = settings.p, settings.q, settings.yes, settings.clients, settings.runs
    response = accuracy_loss(y, n, 1.0, p, q, runs, context, 1)
    rows = []
    for place, s in enumerate(settings.s):
        sampling = accuracy_loss(y, n, s, 1.0, q, runs, context, 10 + place)
        both = accuracy_loss(y, n, s, p, q, runs, context, 50 + place)
        rows.append(
            (s, sampling, response, both, math.hypot(sampling, response), sampling + response)
        )
        context.done((place + 1) / len(settings.s))
    # The coins of fewer reports err more: at s, there are s N. The squares of the two parts add up
    # to the square of the whole.
    exact = [
        math.hypot(expected_loss(y, n, s, 1.0, q), math.sqrt(_coins(y, n, s, p, q)))
        for s in settings.s
    ]
    theory = [expected_loss(y, n, s, p, q) for s in settings.s]
    added = [expected_loss(y, n, s, 1.0, q) + expected_loss(y, n, 1.0, p, q) for s in settings.s]
    findings = (
        Claim(
            "The errors of sampling and of randomized response are independent: their squares add"
            " up to that of both",
            max(abs(a / b - 1) for a, b in zip(exact, theory, strict=True)) < 1e-12,
            "lam (1 - lam)/p^2 = y (1 - y) + coins, to 1e-12",
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
    names = ("sampling alone", "response alone (s = 1)", "both")
    lines = [Series(name, settings.s, [row[i + 1] for row in rows]) for i, name in enumerate(names)]
    lines.append(Series("both, by theory", settings.s, theory, "--"))
    header = ("s", "sampling", "response", "both", "root of summed squares", "sum")
    return ExperimentOutcome(
        findings, header, tuple(rows), one_plot(lines, "sampling fraction s", "accuracy loss")
    )


def _coins(y: float, n: float, s: float, p: float, q: float) -> float:
    a, b = p + (1 - p) * q, (1 - p) * q
    return 2 / math.pi * (y * a * (1 - a) + (1 - y) * b * (1 - b)) / (p * p * s * n) / y**2


def _figure_4c(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    arguments = settings.s, settings.p, settings.q
    losses = [
        accuracy_loss(settings.yes, n, *arguments, settings.runs, context, place)
        for place, n in enumerate(settings.clients)
    ]
    theory = [expected_loss(settings.yes, n, *arguments) for n in settings.clients]
    slope = float(np.polyfit(np.log(settings.clients), np.log(losses), 1)[0])
    rows = tuple(zip(settings.clients, losses, theory, strict=True))
    findings = (
        Claim(
            "Utility improves with the number of clients: the loss falls as its inverse root",
            abs(slope + 0.5) < 0.08,
            f"slope {slope:.3f} on a log-log scale",
        ),
        Claim(
            "Fewer than 100 clients give results of low utility",
            losses[0] > 0.05,
            f"loss {losses[0]:.3f} with {rows[0][0]}",
        ),
    )
    lines = [
        Series("simulated", settings.clients, losses),
        Series("theory", settings.clients, theory, "--"),
    ]
    return ExperimentOutcome(
        findings,
        ("clients", "loss", "theory"),
        rows,
        one_plot(lines, "clients", "accuracy loss", "xy"),
    )


_PRINTED = (
    (0.3, 0.3, 0.0278, 1.7047),
    (0.3, 0.6, 0.0262, 1.3862),
    (0.3, 0.9, 0.0268, 1.2527),
    (0.6, 0.3, 0.0141, 2.5649),
    (0.6, 0.6, 0.0128, 2.0476),
    (0.6, 0.9, 0.0136, 1.7917),
    (0.9, 0.3, 0.0098, 4.1820),
    (0.9, 0.6, 0.0079, 3.5263),
    (0.9, 0.9, 0.0102, 3.1570),
)
_CROWD = {"clients": 10_000, "yes": 0.6, "runs": 400}
FINE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

EXPERIMENTS = (
    Experiment(
        "quoc-table-1",
        PAPER,
        "Table 1",
        _table_1,
        {**_CROWD, "s": 0.6, "printed": _PRINTED},
        {"runs": 100},
    ),
    Experiment(
        "quoc-figure-4a",
        PAPER,
        "Figure 4 (a): loss by sampling fraction",
        _figure_4a,
        {
            **_CROWD,
            "p": (0.3, 0.6, 0.9),
            "q": (0.3, 0.6, 0.9),
            "s": (0.1, 0.2, 0.4, 0.6, 0.8, 0.99),
        },
        {"runs": 20},
    ),
    Experiment(
        "quoc-figure-4b",
        PAPER,
        "Figure 4 (b): errors of sampling and of response",
        _figure_4b,
        {**_CROWD, "p": 0.3, "q": 0.6, "s": FINE},
        {"runs": 40},
    ),
    Experiment(
        "quoc-figure-4c",
        PAPER,
        "Figure 4 (c): loss by number of clients",
        _figure_4c,
        {
            "yes": 0.6,
            "s": 0.9,
            "p": 0.9,
            "q": 0.6,
            "clients": (30, 100, 300, 1000, 10_000, 100_000),
            "runs": 400,
        },
        {"runs": 60},
    ),
)
