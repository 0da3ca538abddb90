"""Galanis 2021, chapter 4: protocols of the local model side by side."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.mechanisms.protocols.binary import BinaryResponse
from deniable.reproduce.experiment import (
    Claim,
    Compared,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.papers.galanis_protocols import (
    PAPER,
    PROTOCOLS,
    THESIS,
    VALUES,
    Errors,
    draw_errors,
    simulated_errors,
)
from deniable.reproduce.plotting import Series, plot_lines

__all__ = ["EXPERIMENTS"]


def _draw_manhattan(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    draw_errors(figure, measured, "Manhattan", by_users=not hasattr(settings, "epsilons"))


def _draw_kantorovich(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    draw_errors(figure, measured, "Kantorovich", by_users=not hasattr(settings, "epsilons"))


def _figure_4_1(settings: SimpleNamespace, context: Context) -> Measured:
    coins = BinaryResponse(0.5, 0.5)
    random, source = context.random(), context.source()
    rows = []
    for place, n in enumerate(settings.users):
        errors = []
        for _ in range(settings.trials):
            answers = (random.random(n) < settings.proportion).astype(int)
            errors.append(
                abs(
                    coins.estimate(coins.privatize(answers, source)).proportions[1] - answers.mean()
                )
            )
        # Relative to the people present: only the coins err.
        theory = math.sqrt(2 / math.pi * 0.1875 / n) / 0.5
        stderr = float(np.std(errors, ddof=1)) / math.sqrt(settings.trials)
        rows.append((n, float(np.mean(errors)), stderr, theory))
        context.done((place + 1) / len(settings.users))
    return Measured(("users", "error", "stderr", "theory"), tuple(rows), {"epsilon": coins.epsilon})


def _judge_4_1(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    deviations = [abs(row[1] - row[3]) / row[2] for row in rows]
    return (
        Compared("epsilon", printed["epsilon"], measured.figures["epsilon"]),
        Claim(
            "The error is below 0.1 from 3,000 users on",
            all(row[1] < 0.1 for row in rows if row[0] >= 3000),
            f"{next(row[1] for row in rows if row[0] >= 3000):.4f} at 3,000",
        ),
        Claim(
            "It falls as the inverse root of the number of users",
            max(deviations) < 4,
            f"largest deviation from theory {max(deviations):.1f} standard errors",
        ),
    )


def _draw_4_1(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    lines = [
        Series("simulated", x, [row[1] for row in rows], error=[row[2] for row in rows]),
        Series("theory", x, [row[3] for row in rows], "--"),
    ]
    plot_lines(figure.subplots(), lines, "users", "error of the proportion", log="xy")


def _by_epsilon(settings: SimpleNamespace, context: Context) -> Measured:
    points = [(epsilon, settings.users) for epsilon in settings.epsilons]
    return simulated_errors(PROTOCOLS, points, settings.trials, context)


def _worst_direct(settings: SimpleNamespace, errors: Errors, metric: str) -> Claim:
    low = [epsilon for epsilon in settings.epsilons if epsilon < 1]
    return Claim(
        f"Direct encoding is the worst pure protocol where epsilon is below 1 ({metric})",
        all(
            errors.at("direct encoding", metric, epsilon, settings.users)
            > errors.at(name, metric, epsilon, settings.users)
            for epsilon in low
            for name in THESIS[1:]
        ),
        f"epsilon {low[0]}: {errors.order(THESIS, metric, low[0], settings.users)}",
        "with so much noise, what is left after negative counts are cut off hardly depends on the"
        " protocol",
    )


def _judge_4_3(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    errors, n = Errors(measured), settings.users
    first, last = settings.epsilons[0], settings.epsilons[-1]

    def at(name: str, epsilon: float) -> float:
        return errors.at(name, "Manhattan", epsilon, n)

    best = {
        epsilon: min(THESIS, key=lambda name: at(name, epsilon)) for epsilon in settings.epsilons
    }
    gap = max(
        at("subset selection", e) / min(at(name, e) for name in PROTOCOLS if name != "basic RAPPOR")
        for e in settings.epsilons
    )
    crossing = math.log((VALUES - 2) / 3)
    return (
        _worst_direct(settings, errors, "Manhattan"),
        Claim(
            "The optimized unary encoding is the best of the pure ones at every epsilon"
            " (Manhattan)",
            all(
                errors.ahead("optimized unary", name, "Manhattan", epsilon, n)
                for epsilon in settings.epsilons
                for name in THESIS
            ),
            ", ".join(f"{epsilon:g}: {name}" for epsilon, name in best.items()),
            "direct encoding has the smaller variance from epsilon = ln((k - 2)/3) ="
            f" {crossing:.2f} on",
        ),
        *(
            Claim(
                text,
                (at(name, last) < 0.25 * at(name, first)) == improves,
                f"{at(name, first):,.0f} at {first}, {at(name, last):,.0f} at {last}",
            )
            for text, name, improves in (
                (
                    "The random matrix with m = 5 does not improve with epsilon as the others do",
                    "random matrix, m = 5",
                    False,
                ),
                (
                    "With enough rows and entries of 1/sqrt(m) it does",
                    "random matrix, ours",
                    True,
                ),
            )
        ),
        Claim(
            "Subset selection, which the thesis does not have, is never far behind the best: 15 %",
            gap < 1.15,
            f"at most {gap:.2f} times the best",
        ),
    )


def _judge_4_4(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    errors = Errors(measured)
    ours = _worst_direct(settings, errors, "Kantorovich, projected")
    return _worst_direct(settings, errors, "Kantorovich"), ours


def _by_users(settings: SimpleNamespace, context: Context) -> Measured:
    points = [(settings.epsilon, n) for n in settings.users]
    return simulated_errors(PROTOCOLS, points, settings.trials, context)


def _judge_4_5(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    errors, epsilon = Errors(measured), settings.epsilon
    few, many = settings.users[0], settings.users[-1]
    per_user = [errors.at("optimized unary", "Manhattan", epsilon, n) / n for n in settings.users]
    slope = float(np.polyfit(np.log(settings.users), np.log(per_user), 1)[0])
    worst = max(THESIS, key=lambda name: errors.at(name, "Manhattan", epsilon, few))
    return (
        Claim(
            "The error per user stabilizes beyond 2,000 users: a turning point",
            abs(slope + 0.5) > 0.06,
            f"slope {slope:.3f} on a log-log scale",
            "it falls as the inverse root of their number throughout",
        ),
        Claim(
            f"With {few} users the optimized unary encoding is the worst pure protocol (Manhattan)",
            worst == "optimized unary",
            errors.order(THESIS, "Manhattan", epsilon, few),
            "a protocol's variance is the same function of 1/n for any number of users, and its is"
            " the smallest of the three",
        ),
        Claim(
            f"With {many:,} users it is the best",
            all(
                errors.ahead("optimized unary", name, "Manhattan", epsilon, many) for name in THESIS
            ),
            errors.order(THESIS, "Manhattan", epsilon, many),
        ),
    )


def _judge_4_6(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    errors, epsilon, few = Errors(measured), settings.epsilon, settings.users[0]
    findings = []
    for metric in ("Kantorovich", "Kantorovich, projected"):
        ranked = sorted(THESIS, key=lambda name: errors.at(name, metric, epsilon, few))
        findings.append(
            Claim(
                "With few users direct encoding is the worst and the optimized unary the best"
                f" ({metric})",
                ranked[0] == "optimized unary" and ranked[-1] == "direct encoding",
                errors.order(THESIS, metric, epsilon, few),
                "with so few users the three lie close together",
            )
        )
    return tuple(findings)


_EPSILONS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
_BY_EPSILON = {"users": 20_000, "epsilons": _EPSILONS, "trials": 10}
_BY_USERS = {
    "epsilon": 1.5,
    "users": (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000),
    "trials": 40,
}
_QUICK = {"epsilons": (0.5, 2.0, 4.0), "trials": 5}
QUICK_USERS = {"users": (100, 1_000, 5_000), "trials": 25}

EXPERIMENTS = (
    Experiment(
        "galanis-figure-4.1",
        PAPER,
        "Figure 4.1: randomized response",
        _figure_4_1,
        _judge_4_1,
        _draw_4_1,
        {"proportion": 0.4, "users": (100, 300, 1_000, 3_000, 10_000), "trials": 400},
        {"trials": 60},
        {"epsilon": "ln 3"},
    ),
    Experiment(
        "galanis-figure-4.3",
        PAPER,
        "Figure 4.3: protocols by epsilon, Manhattan",
        _by_epsilon,
        _judge_4_3,
        _draw_manhattan,
        _BY_EPSILON,
        _QUICK,
    ),
    Experiment(
        "galanis-figure-4.4",
        PAPER,
        "Figure 4.4: protocols by epsilon, Kantorovich",
        _by_epsilon,
        _judge_4_4,
        _draw_kantorovich,
        _BY_EPSILON,
        _QUICK,
    ),
    Experiment(
        "galanis-figure-4.5",
        PAPER,
        "Figure 4.5: protocols by users, Manhattan",
        _by_users,
        _judge_4_5,
        _draw_manhattan,
        _BY_USERS,
        QUICK_USERS,
    ),
    Experiment(
        "galanis-figure-4.6",
        PAPER,
        "Figure 4.6: protocols by users, Kantorovich",
        _by_users,
        _judge_4_6,
        _draw_kantorovich,
        _BY_USERS,
        QUICK_USERS,
    ),
)
