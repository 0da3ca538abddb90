"""Galanis 2021, chapter 4: protocols of the local model side by side, and the distance-sensitive
one.

20,000 people report one of 50 ages. Errors are in counts, as in the thesis. Its random-matrix
protocol has m = 5 rows. The Kantorovich distance needs two distributions, so estimates are
projected onto the simplex for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.distances import euclidean, kantorovich, manhattan
from deniable.estimation.simplex import project
from deniable.mechanisms.protocols.basic_rappor import BasicRappor
from deniable.mechanisms.protocols.binary import BinaryResponse
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.hadamard import HadamardResponse
from deniable.mechanisms.protocols.hashing import LocalHashing
from deniable.mechanisms.protocols.projection import RandomProjection
from deniable.mechanisms.protocols.subset import SubsetSelection
from deniable.mechanisms.protocols.threshold import ThresholdHistogram
from deniable.mechanisms.protocols.unary import OptimizedUnary, SymmetricUnary
from deniable.reproduce.experiment import (
    Claim,
    Compared,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
    plot_lines,
)

__all__ = ["EXPERIMENTS", "ages"]

PAPER = "Galanis 2021"
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
VALUES = 50
Estimator = Callable[[Ints, float, Any], Floats]


def ages(context: Context, n: int) -> Ints:
    """Ages from 0 to 49 (above 18), most of them young, with a second hump."""
    random = context.random(3)
    young = random.normal(12, 6, n)
    older = random.normal(33, 7, n)
    return np.clip(np.where(random.random(n) < 0.6, young, older), 0, VALUES - 1).astype(np.int64)


def plain(
    make: Callable[[float], Any], estimator: str | None = None, shift: float = 0.0
) -> Estimator:
    def estimate(values: Ints, epsilon: float, source: Any) -> Floats:
        mechanism = make(epsilon)
        reports = mechanism.privatize(values + shift if shift else values, source)
        found = (
            mechanism.estimate(reports)
            if estimator is None
            else mechanism.estimate(reports, estimator=estimator)
        )
        return np.asarray(found.proportions)

    return estimate


PROTOCOLS: dict[str, Estimator] = {
    "direct encoding": plain(lambda e: DirectEncoding(VALUES, e)),
    "histogram, threshold 2/3": plain(lambda e: ThresholdHistogram(VALUES, e, 2 / 3)),
    "optimized unary": plain(lambda e: OptimizedUnary(VALUES, e)),
    "basic RAPPOR": plain(lambda e: BasicRappor(VALUES, 0.5, 0.25, 0.75)),
    "random matrix, m = 5": plain(lambda e: RandomProjection(VALUES, e, m=5), "paper"),
    "random matrix, ours": plain(lambda e: RandomProjection(VALUES, e)),
    "symmetric unary": plain(lambda e: SymmetricUnary(VALUES, e)),
    "local hashing": plain(lambda e: LocalHashing(VALUES, e)),
    "Hadamard": plain(lambda e: HadamardResponse(VALUES, e)),
    "subset selection": plain(lambda e: SubsetSelection(VALUES, e)),
}
THESIS = ("direct encoding", "histogram, threshold 2/3", "optimized unary")
"""The pure protocols in its figures."""
METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "Manhattan": manhattan,
    "Euclidean": euclidean,
    "Kantorovich": lambda estimate, truth: kantorovich(project(estimate), truth),
}


def simulated_errors(
    protocols: dict[str, Estimator],
    points: Sequence[tuple[float, int]],
    runs: int,
    context: Context,
) -> dict[tuple[str, str, float, int], float]:
    """The mean error of counts for each protocol, metric, epsilon and number of users."""
    out = {}
    everybody = ages(context, max(n for _, n in points))
    for place, (epsilon, n) in enumerate(points):
        values = everybody[:n]
        truth = np.bincount(values, minlength=VALUES) / n
        for number, (name, estimate) in enumerate(protocols.items()):
            source = context.source(1000 * place + number)
            found = [estimate(values, epsilon, source) for _ in range(runs)]
            for metric, distance in METRICS.items():
                out[name, metric, epsilon, n] = n * float(
                    np.mean([distance(each, truth) for each in found])
                )
        context.done((place + 1) / len(points))
    return out


def compared_outcome(
    errors: dict[tuple[str, str, float, int], float],
    metric: str,
    by_users: bool,
    findings: Sequence[Claim | Compared],
) -> ExperimentOutcome:
    names = list(dict.fromkeys(key[0] for key in errors))
    rows = tuple(
        (name, kind, epsilon, n, error, error / n)
        for (name, kind, epsilon, n), error in errors.items()
    )
    lines = []
    for name in names:
        own = [row for row in rows if row[:2] == (name, metric)]
        lines.append(
            Series(
                name,
                [row[3] if by_users else row[2] for row in own],
                [row[5] if by_users else row[4] for row in own],
            )
        )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        label = f"{metric} error" + (" per user" if by_users else " of counts")
        plot_lines(
            ax,
            lines,
            "users" if by_users else "epsilon",
            label,
            log="xy" if by_users else "y",
            legend=False,
        )
        figure.legend(loc="outside right upper", fontsize=8, frameon=False)

    header = ("protocol", "metric", "epsilon", "users", "error of counts", "error per user")
    return ExperimentOutcome(tuple(findings), header, rows, draw)


def _figure_4_1(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    coins = BinaryResponse(0.5, 0.5)
    random, source = context.random(), context.source()
    rows = []
    for place, n in enumerate(settings.users):
        errors = []
        for _ in range(settings.runs):
            answers = (random.random(n) < settings.share).astype(int)
            errors.append(
                abs(
                    coins.estimate(coins.privatize(answers, source)).proportions[1] - answers.mean()
                )
            )
        # Relative to the people present: only the coins err.
        theory = math.sqrt(2 / math.pi * 0.1875 / n) / 0.5
        rows.append((n, float(np.mean(errors)), theory))
        context.done((place + 1) / len(settings.users))
    findings = (
        Compared("epsilon, ln 3", math.log(3), coins.epsilon, 1e-12),
        Claim(
            "The error is below 0.1 from 3,000 users on",
            all(row[1] < 0.1 for row in rows if row[0] >= 3000),
            f"{next(row[1] for row in rows if row[0] >= 3000):.4f} at 3,000",
        ),
        Claim(
            "It falls as the inverse root of the number of users",
            all(
                abs(row[1] / row[2] - 1) < 4 * 0.756 / math.sqrt(settings.runs) + 0.02
                for row in rows
            ),
        ),
    )
    x = [row[0] for row in rows]
    lines = [
        Series("simulated", x, [row[1] for row in rows]),
        Series("theory", x, [row[2] for row in rows], "--"),
    ]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "users", "error of the proportion", log="xy")

    return ExperimentOutcome(findings, ("users", "error", "theory"), tuple(rows), draw)


def _figure_4_3(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    points = [(epsilon, settings.users) for epsilon in settings.epsilons]
    errors = simulated_errors(PROTOCOLS, points, settings.runs, context)

    def at(name: str, epsilon: float, metric: str = "Manhattan") -> float:
        return errors[name, metric, epsilon, settings.users]

    low = [epsilon for epsilon in settings.epsilons if epsilon < 1]
    first, last = settings.epsilons[0], settings.epsilons[-1]
    pure = {name: at(name, last) for name in THESIS}
    findings = [
        Claim(
            "Direct encoding is the worst pure protocol where epsilon is below 1, in both metrics",
            all(
                max(THESIS, key=lambda name: at(name, epsilon, metric)) == "direct encoding"
                for epsilon in low
                for metric in ("Manhattan", "Kantorovich")
            ),
            f"epsilon {first}: {', '.join(f'{name} {at(name, first):,.0f}' for name in THESIS)}",
        ),
        Claim(
            "The optimized unary encoding is the best of the pure ones at every epsilon"
            " (Manhattan)",
            all(
                min(THESIS, key=lambda name: at(name, epsilon)) == "optimized unary"
                for epsilon in settings.epsilons
            ),
            ", ".join(
                f"{epsilon:g}: {min(THESIS, key=lambda name: at(name, epsilon))}"
                for epsilon in settings.epsilons
            ),
            "direct encoding has the smaller variance from epsilon = ln((k - 2)/3) ="
            f" {math.log((VALUES - 2) / 3):.2f} on",
        ),
        Claim(
            "The random matrix with m = 5 does not improve with epsilon",
            at("random matrix, m = 5", last) > 0.5 * at("random matrix, m = 5", first),
            f"{at('random matrix, m = 5', first):,.0f} at {first},"
            f" {at('random matrix, m = 5', last):,.0f} at {last}",
        ),
        Claim(
            "With enough rows and entries of 1/sqrt(m) it does, as the others",
            at("random matrix, ours", last) < 0.25 * at("random matrix, ours", first),
            f"{at('random matrix, ours', first):,.0f} at {first},"
            f" {at('random matrix, ours', last):,.0f} at {last}",
        ),
        Claim(
            "Subset selection, which the thesis does not have, is never far behind the best",
            all(
                at("subset selection", e)
                < 1.15 * min(at(name, e) for name in PROTOCOLS if name != "basic RAPPOR")
                for e in settings.epsilons
            ),
            f"at epsilon {last}: {at('subset selection', last):,.0f} beside"
            f" {min(pure.values()):,.0f}",
        ),
    ]
    return compared_outcome(errors, "Manhattan", by_users=False, findings=findings)


def _figure_4_4(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    outcome = _figure_4_3(settings, context)
    errors = {(row[0], row[1], row[2], row[3]): row[4] for row in outcome.rows}
    return compared_outcome(errors, "Kantorovich", by_users=False, findings=outcome.findings[:1])


def _figure_4_5(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    points = [(settings.epsilon, n) for n in settings.users]
    errors = simulated_errors(PROTOCOLS, points, settings.runs, context)

    def per_user(name: str, n: int, metric: str = "Manhattan") -> float:
        return errors[name, metric, settings.epsilon, n] / n

    few, many = settings.users[0], settings.users[-1]
    slope = float(
        np.polyfit(
            np.log(settings.users),
            np.log([per_user("optimized unary", n) for n in settings.users]),
            1,
        )[0]
    )
    findings = [
        Claim(
            "The error per user falls as the inverse root of their number: no turning point",
            abs(slope + 0.5) < 0.06,
            f"slope {slope:.3f} on a log-log scale",
        ),
        Claim(
            f"With {few} users the optimized unary encoding is the worst pure protocol (Manhattan)",
            max(THESIS, key=lambda name: per_user(name, few)) == "optimized unary",
            ", ".join(f"{name} {per_user(name, few):.2f}" for name in THESIS),
            "a protocol's variance is the same function of 1/n for any number of users, and its is"
            " the smallest of the three",
        ),
        Claim(
            f"With {many:,} users it is the best",
            min(THESIS, key=lambda name: per_user(name, many)) == "optimized unary",
            ", ".join(f"{name} {per_user(name, many):.2f}" for name in THESIS),
        ),
        Claim(
            "By the Kantorovich metric direct encoding is the worst with few users, and the"
            " optimized unary the best",
            max(THESIS, key=lambda name: per_user(name, few, "Kantorovich")) == "direct encoding"
            and min(THESIS, key=lambda name: per_user(name, few, "Kantorovich"))
            == "optimized unary",
            ", ".join(f"{name} {per_user(name, few, 'Kantorovich'):.2f}" for name in THESIS),
            "with so few users the three lie close together after projection",
        ),
    ]
    return compared_outcome(errors, "Manhattan", by_users=True, findings=findings)


def _figure_4_6(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    outcome = _figure_4_5(settings, context)
    errors = {(row[0], row[1], row[2], row[3]): row[4] for row in outcome.rows}
    return compared_outcome(errors, "Kantorovich", by_users=True, findings=outcome.findings[3:])


_EPSILONS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
_BY_EPSILON = {"users": 20_000, "epsilons": _EPSILONS, "runs": 10}
_BY_USERS = {
    "epsilon": 1.5,
    "users": (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000),
    "runs": 40,
}
_QUICK = {"epsilons": (0.5, 2.0, 4.0), "runs": 5}
QUICK_USERS = {"users": (100, 1_000, 5_000), "runs": 25}

EXPERIMENTS = (
    Experiment(
        "galanis-figure-4.1",
        PAPER,
        "Figure 4.1: randomized response",
        _figure_4_1,
        {"share": 0.4, "users": (100, 300, 1_000, 3_000, 10_000), "runs": 400},
        {"runs": 60},
    ),
    Experiment(
        "galanis-figure-4.3",
        PAPER,
        "Figure 4.3: protocols by epsilon, Manhattan",
        _figure_4_3,
        _BY_EPSILON,
        _QUICK,
    ),
    Experiment(
        "galanis-figure-4.4",
        PAPER,
        "Figure 4.4: protocols by epsilon, Kantorovich",
        _figure_4_4,
        _BY_EPSILON,
        _QUICK,
    ),
    Experiment(
        "galanis-figure-4.5",
        PAPER,
        "Figure 4.5: protocols by users, Manhattan",
        _figure_4_5,
        _BY_USERS,
        QUICK_USERS,
    ),
    Experiment(
        "galanis-figure-4.6",
        PAPER,
        "Figure 4.6: protocols by users, Kantorovich",
        _figure_4_6,
        _BY_USERS,
        QUICK_USERS,
    ),
)
