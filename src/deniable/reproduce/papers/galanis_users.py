"""Galanis (2021), chapter 4: local protocols by the number of users, and with a random matrix."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.estimation.distances import manhattan
from deniable.mechanisms.protocols.distance import DistanceSensitive
from deniable.mechanisms.protocols.projection import RandomProjection
from deniable.mechanisms.protocols.waves.square_wave import SquareWave
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.papers.galanis_protocols import (
    METRICS,
    PAPER,
    PROTOCOLS,
    THESIS,
    VALUES,
    Errors,
    Estimator,
    ages,
    draw_errors,
    plain,
    simulated_errors,
)
from deniable.reproduce.plotting import Series, plot_lines

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


_KANTOROVICH = ("Kantorovich", "Kantorovich, projected")
_THESIS_OWN = "distance sensitive, thesis"


def _by_epsilon(settings: SimpleNamespace, context: Context) -> Measured:
    points = [(epsilon, settings.users) for epsilon in settings.epsilons]
    found = simulated_errors(DISTANCE, points, settings.trials, context)
    figures: dict[str, float] = {}
    for epsilon in settings.epsilons:
        protocol = DistanceSensitive(VALUES, epsilon)
        figures |= {
            f"theta {epsilon:g}": protocol.theta or 0,
            f"loss {epsilon:g}": protocol.epsilon,
        }
    return Measured(found.header, found.rows, figures)


def _judge_4_9(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    errors, n = Errors(measured), settings.users
    between = [epsilon for epsilon in settings.epsilons if 2 <= epsilon <= 2.5]
    clear = [epsilon for epsilon in settings.epsilons if epsilon >= 2]
    steps = [
        (e, measured.figures[f"theta {e:g}"], measured.figures[f"loss {e:g}"])
        for e in settings.epsilons
    ]
    metric = _KANTOROVICH[0]
    names = (*THESIS, _THESIS_OWN)
    return (
        Claim(
            "The protocol changes in steps: its loss is ln(theta (theta + 1)), below the epsilon"
            " asked for",
            all(
                abs(loss - math.log(t * (t + 1))) < 1e-9 and loss <= e for e, t, loss in steps if t
            ),
            ", ".join(f"{e:g}: {loss:.2f}" for e, _, loss in steps),
        ),
        *(
            Claim(
                "With the thesis's aggregation it has the smallest error of its four for epsilon"
                f" from 2 to 2.5 ({metric})",
                all(
                    errors.at(_THESIS_OWN, metric, e, n) < errors.at(name, metric, e, n)
                    for e in between
                    for name in THESIS
                ),
                errors.order(names, metric, between[0], n),
                "its aggregation is biased; where negative counts are cut off, the bias nearly"
                " cancels",
            )
            for metric in _KANTOROVICH
        ),
        Claim(
            "Fitted by EM, the same reports have a smaller error than with the thesis's"
            " aggregation, from epsilon 2 on",
            all(
                errors.at("distance sensitive, EM", metric, e, n)
                < errors.at(_THESIS_OWN, metric, e, n)
                for e in clear
            ),
            errors.order(("distance sensitive, EM", _THESIS_OWN), metric, clear[0], n),
            "where negative counts are cut off, the bias of the thesis's aggregation nearly cancels",
        ),
        Claim(
            "The square wave is ahead of the distance-sensitive protocol as the thesis aggregates"
            " it, at every epsilon",
            all(
                errors.at("square wave, EM", metric, e, n) < errors.at(_THESIS_OWN, metric, e, n)
                for e in settings.epsilons
            ),
            errors.order(("square wave, EM", _THESIS_OWN), metric, settings.epsilons[-1], n),
            "at large epsilon it is behind: its reports are spread over a continuous range",
        ),
    )


def _by_users(settings: SimpleNamespace, context: Context) -> Measured:
    points = [(settings.epsilon, n) for n in settings.users]
    found = simulated_errors(DISTANCE, points, settings.trials, context)
    # what the thesis's aggregation gives in the limit of many users, beside the truth
    mechanism = DistanceSensitive(VALUES, settings.epsilon)
    truth = np.bincount(ages(context, max(settings.users)), minlength=VALUES) / max(settings.users)
    counts = np.rint(1e12 * mechanism.channel() @ truth).astype(np.int64)
    estimate, _ = mechanism._biased("paper", counts)
    figures = {f"floor {name}": METRICS[name](estimate, truth) for name in METRICS}
    return Measured(found.header, found.rows, figures)


def _judge_users(
    settings: SimpleNamespace, measured: Measured, metrics: tuple[str, ...]
) -> tuple[Finding, ...]:
    errors, epsilon = Errors(measured), settings.epsilon
    few, many = settings.users[0], settings.users[-1]
    shown = (*THESIS, _THESIS_OWN)
    findings: list[Finding] = [
        Claim(
            f"With {few} users the distance-sensitive protocol, aggregated as in the thesis, is"
            f" ahead of the unary encoding ({metric})",
            errors.at(_THESIS_OWN, metric, epsilon, few)
            < errors.at("optimized unary", metric, epsilon, few),
            errors.order(shown, metric, epsilon, few),
            "the advantage is that of negative counts being added up",
        )
        for metric in metrics
    ]
    floor = measured.figures[f"floor {metrics[0]}"]
    last = errors.at(_THESIS_OWN, metrics[0], epsilon, many) / many
    findings.append(
        Claim(
            "Its error does not vanish with users: the thesis's aggregation is biased",
            floor > 0.05 and last > 0.5 * floor,
            f"{floor:.3f} per user however many there are, {last:.3f} with {many:,}",
        )
    )
    return tuple(findings)


def _judge_4_10(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    return _judge_users(settings, measured, _KANTOROVICH)


def _judge_4_11(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    errors, epsilon, many = Errors(measured), settings.epsilon, settings.users[-1]
    shown = (*THESIS, _THESIS_OWN)
    return (
        *_judge_users(settings, measured, ("Manhattan",)),
        Claim(
            f"With {many:,} users it has fallen behind the unary encoding",
            errors.at(_THESIS_OWN, "Manhattan", epsilon, many)
            > errors.at("optimized unary", "Manhattan", epsilon, many),
            errors.order(shown, "Manhattan", epsilon, many),
            "with fewer users than about 12,000 the bias is still smaller than the noise of the"
            " others",
        ),
    )


def _draw_4_9(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    draw_errors(figure, measured, "Kantorovich", by_users=False)


def _draw_4_10(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    draw_errors(figure, measured, "Kantorovich", by_users=True)


def _draw_4_11(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    draw_errors(figure, measured, "Manhattan", by_users=True)


def _random_matrix(settings: SimpleNamespace, context: Context) -> Measured:
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
    return Measured(("m", "Manhattan", "rms error", "floor"), tuple(rows))


def _judge_matrix(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    logs = np.log([row[0] for row in rows]), np.log([row[2] for row in rows])
    slope = float(np.polyfit(*logs, 1)[0])
    return (
        Claim(
            "The error has a floor of order 1/sqrt(m) that no epsilon removes: m = 5 has a"
            " large one",
            -0.65 < slope < -0.3 and rows[0][2] > 5 * rows[-1][2],
            f"slope {slope:.2f} over m = {rows[0][0]} to {rows[-1][0]:,} at epsilon"
            f" {settings.epsilon:g}",
        ),
    )


def _draw_matrix(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    lines = [
        Series("measured", x, [row[2] for row in rows]),
        Series("1/sqrt(m)", x, [row[3] for row in rows], "--"),
    ]
    ax = figure.subplots()
    plot_lines(ax, lines, "rows m", "root mean squared error of a proportion", log="xy")


_DISTANCE = {
    "epsilon": math.log(20),
    "users": (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000),
    "trials": 40,
}

EXPERIMENTS = (
    Experiment(
        "galanis-figure-4.9",
        PAPER,
        "Figure 4.9: distance sensitive by epsilon, Kantorovich",
        _by_epsilon,
        _judge_4_9,
        _draw_4_9,
        {"users": 20_000, "epsilons": (0.8, 1.0, 1.5, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0), "trials": 10},
        {"epsilons": (1.0, 2.0, 3.0), "trials": 5},
    ),
    Experiment(
        "galanis-figure-4.10",
        PAPER,
        "Figure 4.10: distance sensitive by users, Kantorovich",
        _by_users,
        _judge_4_10,
        _draw_4_10,
        _DISTANCE,
    ),
    Experiment(
        "galanis-figure-4.11",
        PAPER,
        "Figure 4.11: distance sensitive by users, Manhattan",
        _by_users,
        _judge_4_11,
        _draw_4_11,
        _DISTANCE,
    ),
    Experiment(
        "galanis-random-matrix",
        PAPER,
        "Why the random matrix does not improve",
        _random_matrix,
        _judge_matrix,
        _draw_matrix,
        {"users": 200_000, "epsilon": 4.0, "rows": (5, 16, 64, 256, 1024, 4096)},
        {"users": 50_000, "rows": (5, 64, 1024)},
    ),
)
