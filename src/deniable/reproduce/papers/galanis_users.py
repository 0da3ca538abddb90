"""Galanis (2021), chapter 4: local protocols by the number of users, and with a random matrix."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.estimation.distances import manhattan
from deniable.mechanisms.protocols.distance import DistanceSensitive
from deniable.mechanisms.protocols.projection import RandomProjection
from deniable.mechanisms.protocols.square_wave import SquareWave
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
    plot_lines,
)
from deniable.reproduce.papers.galanis_local import (
    METRICS,
    PAPER,
    PROTOCOLS,
    QUICK_USERS,
    THESIS,
    VALUES,
    Estimator,
    Floats,
    ages,
    compared_outcome,
    plain,
    simulated_errors,
)

__all__ = ["DISTANCE", "EXPERIMENTS"]


DISTANCE: dict[str, Estimator] = {
    "direct encoding": PROTOCOLS["direct encoding"],
    "histogram, threshold 2/3": PROTOCOLS["histogram, threshold 2/3"],
    "optimized unary": PROTOCOLS["optimized unary"],
    "distance sensitive, thesis": plain(lambda e: DistanceSensitive(VALUES, e), "paper"),
    "distance sensitive, inverse": plain(lambda e: DistanceSensitive(VALUES, e), "inverse"),
    "distance sensitive, EM": plain(lambda e: DistanceSensitive(VALUES, e), "em"),
    "square wave, EM": plain(lambda e: SquareWave.of_integers(e, 0, VALUES - 1), "em"),
}


def _figure_4_9(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    points = [(epsilon, settings.users) for epsilon in settings.epsilons]
    errors = simulated_errors(DISTANCE, points, settings.runs, context)

    def at(name: str, epsilon: float) -> float:
        return errors[name, "Kantorovich", epsilon, settings.users]

    between = [epsilon for epsilon in settings.epsilons if 2 <= epsilon <= 2.5]
    thetas = [DistanceSensitive(VALUES, epsilon).theta for epsilon in settings.epsilons]
    losses = [DistanceSensitive(VALUES, epsilon).epsilon for epsilon in settings.epsilons]
    clear = [epsilon for epsilon in settings.epsilons if epsilon >= 2]
    findings = [
        Claim(
            "The protocol changes in steps: its loss is ln(theta (theta + 1)), below the epsilon"
            " asked for",
            all(
                abs(loss - math.log(t * (t + 1))) < 1e-9
                for loss, t in zip(losses, thetas, strict=True)
                if t
            ),
            ", ".join(
                f"{e:g}: {loss:.2f}" for e, loss in zip(settings.epsilons, losses, strict=True)
            ),
        ),
        Claim(
            "With the thesis's aggregation it has the smallest Kantorovich error of its four for"
            " epsilon from 2 to 2.5",
            all(
                min((*THESIS, "distance sensitive, thesis"), key=lambda name: at(name, e))
                == "distance sensitive, thesis"
                for e in between
            ),
            ", ".join(
                f"{name} {at(name, between[0]):,.0f}"
                for name in (*THESIS, "distance sensitive, thesis")
            ),
            "its aggregation is biased, and with 20,000 users the bias exceeds the others' noise",
        ),
        Claim(
            "Fitted by EM, the same reports have a smaller error than with the thesis's"
            " aggregation, from epsilon 2 on",
            all(
                at("distance sensitive, EM", e) < at("distance sensitive, thesis", e) for e in clear
            ),
            ", ".join(
                f"{e:g}: {at('distance sensitive, EM', e):,.0f} /"
                f" {at('distance sensitive, thesis', e):,.0f}"
                for e in clear
            ),
        ),
        Claim(
            "The square wave is ahead of the distance-sensitive protocol as the thesis aggregates"
            " it, at every epsilon",
            all(
                at("square wave, EM", e) < at("distance sensitive, thesis", e)
                for e in settings.epsilons
            ),
            ", ".join(f"{e:g}: {at('square wave, EM', e):,.0f}" for e in settings.epsilons),
        ),
    ]
    return compared_outcome(errors, "Kantorovich", by_users=False, findings=findings)


def _limit(settings: SimpleNamespace, context: Context) -> tuple[Floats, Floats]:
    """What the thesis's aggregation gives in the limit of many users, and the truth."""
    mechanism = DistanceSensitive(VALUES, settings.epsilon)
    truth = np.bincount(ages(context, max(settings.users)), minlength=VALUES) / max(settings.users)
    counts = np.rint(1e12 * mechanism.channel() @ truth).astype(np.int64)
    estimate, _ = mechanism._biased("paper", counts)
    return estimate, truth


def _users(settings: SimpleNamespace, context: Context, metric: str) -> ExperimentOutcome:
    points = [(settings.epsilon, n) for n in settings.users]
    errors = simulated_errors(DISTANCE, points, settings.runs, context)

    def per_user(name: str, n: int) -> float:
        return errors[name, metric, settings.epsilon, n] / n

    few, many = settings.users[0], settings.users[-1]
    floor = METRICS[metric](*_limit(settings, context))
    shown = (*THESIS, "distance sensitive, thesis")
    findings = [
        Claim(
            f"With {few} users the distance-sensitive protocol, aggregated as in the thesis, is"
            " ahead of the unary encoding",
            per_user("distance sensitive, thesis", few) < per_user("optimized unary", few),
            ", ".join(f"{name} {per_user(name, few):.2f}" for name in shown),
            "after the projection onto the simplex that the Kantorovich distance needs, the"
            " advantage is gone",
        ),
        Claim(
            "Its error does not vanish with users: the thesis's aggregation is biased",
            floor > 0.05,
            f"{floor:.3f} per user however many there are,"
            f" {per_user('distance sensitive, thesis', many):.3f} with {many:,}",
        ),
    ]
    if metric == "Manhattan":
        findings.append(
            Claim(
                f"With {many:,} users it has fallen behind the unary encoding",
                per_user("distance sensitive, thesis", many) > per_user("optimized unary", many),
                ", ".join(f"{name} {per_user(name, many):.3f}" for name in shown),
                "with fewer users than about 12,000 the bias is still smaller than the noise of the"
                " others",
            )
        )
    return compared_outcome(errors, metric, by_users=True, findings=findings)


def _figure_4_10(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    return _users(settings, context, "Kantorovich")


def _figure_4_11(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    return _users(settings, context, "Manhattan")


def _random_matrix(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    values = ages(context, settings.users)
    truth = np.bincount(values, minlength=VALUES) / settings.users
    rows = []
    for place, m in enumerate(settings.rows):
        mechanism = RandomProjection(VALUES, settings.epsilon, m=m)
        reports = mechanism.privatize(values, context.source(place))
        found = mechanism.estimate(reports, estimator="paper").proportions
        rows.append(
            (
                m,
                manhattan(found, truth),
                float(np.sqrt(((found - truth) ** 2).mean())),
                float(mechanism.floor),
            )
        )
        context.done((place + 1) / len(settings.rows))
    slope = float(
        np.polyfit(np.log([row[0] for row in rows]), np.log([row[2] for row in rows]), 1)[0]
    )
    findings = (
        Claim(
            "The error has a floor of order 1/sqrt(m) that no epsilon removes: m = 5 has a"
            " large one",
            -0.65 < slope < -0.3 and rows[0][2] > 5 * rows[-1][2],
            f"slope {slope:.2f} over m = {rows[0][0]} to {rows[-1][0]:,} at epsilon"
            f" {settings.epsilon:g}",
        ),
    )
    x = [row[0] for row in rows]
    lines = [
        Series("measured", x, [row[2] for row in rows]),
        Series("1/sqrt(m)", x, [row[3] for row in rows], "--"),
    ]

    def draw(figure: Any) -> None:
        plot_lines(
            figure.subplots(), lines, "rows m", "root mean squared error of a proportion", log="xy"
        )

    return ExperimentOutcome(findings, ("m", "Manhattan", "rms error", "floor"), tuple(rows), draw)


_DISTANCE = {
    "epsilon": math.log(20),
    "users": (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000),
    "runs": 40,
}

EXPERIMENTS = (
    Experiment(
        "galanis-figure-4.9",
        PAPER,
        "Figure 4.9: distance sensitive by epsilon, Kantorovich",
        _figure_4_9,
        {"users": 20_000, "epsilons": (0.8, 1.0, 1.5, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0), "runs": 10},
        {"epsilons": (1.0, 2.0, 3.0), "runs": 5},
    ),
    Experiment(
        "galanis-figure-4.10",
        PAPER,
        "Figure 4.10: distance sensitive by users, Kantorovich",
        _figure_4_10,
        _DISTANCE,
        QUICK_USERS,
    ),
    Experiment(
        "galanis-figure-4.11",
        PAPER,
        "Figure 4.11: distance sensitive by users, Manhattan",
        _figure_4_11,
        _DISTANCE,
        QUICK_USERS,
    ),
    Experiment(
        "galanis-random-matrix",
        PAPER,
        "Why the random matrix does not improve",
        _random_matrix,
        {"users": 200_000, "epsilon": 4.0, "rows": (5, 16, 64, 256, 1024, 4096)},
        {"users": 50_000, "rows": (5, 64, 1024)},
    ),
)
