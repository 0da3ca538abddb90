"""Galanis 2021, chapter 4: protocols of the local model side by side, and the distance-sensitive one.

20,000 people report one of 50 ages. Errors are in counts, as in the thesis. Its random-matrix protocol has m = 5 rows. The
Kantorovich distance needs two distributions, so estimates are projected onto the simplex for it.
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
from deniable.mechanisms.basic_rappor import BasicRappor
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.direct import DirectEncoding
from deniable.mechanisms.distance import DistanceSensitive
from deniable.mechanisms.hadamard import HadamardResponse
from deniable.mechanisms.hashing import LocalHashing
from deniable.mechanisms.projection import RandomProjection
from deniable.mechanisms.square_wave import SquareWave
from deniable.mechanisms.subset import SubsetSelection
from deniable.mechanisms.threshold import ThresholdHistogram
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary
from deniable.reproduce.experiment import Claim, Compared, Context, Experiment, Outcome, Series, plot_lines

__all__ = ["EXPERIMENTS", "ages"]

PAPER = "Galanis 2021"
_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_VALUES = 50
_Estimator = Callable[[_Ints, float, Any], _Floats]


def ages(context: Context, n: int) -> _Ints:
    """Ages from 0 to 49 (above 18), most of them young, with a second hump."""
    random = context.random(3)
    young = random.normal(12, 6, n)
    older = random.normal(33, 7, n)
    return np.clip(np.where(random.random(n) < 0.6, young, older), 0, _VALUES - 1).astype(np.int64)


def _plain(make: Callable[[float], Any], estimator: str | None = None, shift: float = 0.0) -> _Estimator:
    def estimate(values: _Ints, epsilon: float, source: Any) -> _Floats:
        mechanism = make(epsilon)
        reports = mechanism.privatize(values + shift if shift else values, source)
        found = mechanism.estimate(reports) if estimator is None else mechanism.estimate(reports, estimator=estimator)
        return np.asarray(found.proportions)

    return estimate


PROTOCOLS: dict[str, _Estimator] = {
    "direct encoding": _plain(lambda e: DirectEncoding(_VALUES, e)),
    "histogram, threshold 2/3": _plain(lambda e: ThresholdHistogram(_VALUES, e, 2 / 3)),
    "optimized unary": _plain(lambda e: OptimizedUnary(_VALUES, e)),
    "basic RAPPOR": _plain(lambda e: BasicRappor(_VALUES, 0.5, 0.25, 0.75)),
    "random matrix, m = 5": _plain(lambda e: RandomProjection(_VALUES, e, m=5), "paper"),
    "random matrix, ours": _plain(lambda e: RandomProjection(_VALUES, e)),
    "symmetric unary": _plain(lambda e: SymmetricUnary(_VALUES, e)),
    "local hashing": _plain(lambda e: LocalHashing(_VALUES, e)),
    "Hadamard": _plain(lambda e: HadamardResponse(_VALUES, e)),
    "subset selection": _plain(lambda e: SubsetSelection(_VALUES, e)),
}
DISTANCE: dict[str, _Estimator] = {
    "direct encoding": PROTOCOLS["direct encoding"],
    "histogram, threshold 2/3": PROTOCOLS["histogram, threshold 2/3"],
    "optimized unary": PROTOCOLS["optimized unary"],
    "distance sensitive, thesis": _plain(lambda e: DistanceSensitive(_VALUES, e), "paper"),
    "distance sensitive, inverse": _plain(lambda e: DistanceSensitive(_VALUES, e), "inverse"),
    "distance sensitive, EM": _plain(lambda e: DistanceSensitive(_VALUES, e), "em"),
    "square wave, EM": _plain(lambda e: SquareWave.of_integers(e, 0, _VALUES - 1), "em"),
}
_THESIS = ("direct encoding", "histogram, threshold 2/3", "optimized unary")
"""The pure protocols in its figures."""
METRICS: dict[str, Callable[[_Floats, _Floats], float]] = {
    "Manhattan": manhattan,
    "Euclidean": euclidean,
    "Kantorovich": lambda estimate, truth: kantorovich(project(estimate), truth),
}


def _errors(
    protocols: dict[str, _Estimator], points: Sequence[tuple[float, int]], runs: int, context: Context
) -> dict[tuple[str, str, float, int], float]:
    """The mean error of counts for each protocol, metric, epsilon and number of users."""
    out = {}
    everybody = ages(context, max(n for _, n in points))
    for place, (epsilon, n) in enumerate(points):
        values = everybody[:n]
        truth = np.bincount(values, minlength=_VALUES) / n
        for number, (name, estimate) in enumerate(protocols.items()):
            source = context.source(1000 * place + number)
            found = [estimate(values, epsilon, source) for _ in range(runs)]
            for metric, distance in METRICS.items():
                out[name, metric, epsilon, n] = n * float(np.mean([distance(each, truth) for each in found]))
        context.done((place + 1) / len(points))
    return out


def _outcome(
    errors: dict[tuple[str, str, float, int], float], metric: str, by_users: bool, findings: Sequence[Claim | Compared]
) -> Outcome:
    names = list(dict.fromkeys(key[0] for key in errors))
    rows = tuple((name, kind, epsilon, n, error, error / n) for (name, kind, epsilon, n), error in errors.items())
    lines = []
    for name in names:
        own = [row for row in rows if row[:2] == (name, metric)]
        lines.append(
            Series(name, [row[3] if by_users else row[2] for row in own], [row[5] if by_users else row[4] for row in own])
        )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        label = f"{metric} error" + (" per user" if by_users else " of counts")
        plot_lines(ax, lines, "users" if by_users else "epsilon", label, log="xy" if by_users else "y", legend=False)
        figure.legend(loc="outside right upper", fontsize=8, frameon=False)

    header = ("protocol", "metric", "epsilon", "users", "error of counts", "error per user")
    return Outcome(tuple(findings), header, rows, draw)


def _figure_4_1(settings: SimpleNamespace, context: Context) -> Outcome:
    coins = BinaryResponse(0.5, 0.5)
    random, source = context.random(), context.source()
    rows = []
    for place, n in enumerate(settings.users):
        errors = []
        for _ in range(settings.runs):
            answers = (random.random(n) < settings.share).astype(int)
            errors.append(abs(coins.estimate(coins.privatize(answers, source)).proportions[1] - answers.mean()))
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
            all(abs(row[1] / row[2] - 1) < 4 * 0.756 / math.sqrt(settings.runs) + 0.02 for row in rows),
        ),
    )
    x = [row[0] for row in rows]
    lines = [Series("simulated", x, [row[1] for row in rows]), Series("theory", x, [row[2] for row in rows], "--")]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "users", "error of the proportion", log="xy")

    return Outcome(findings, ("users", "error", "theory"), tuple(rows), draw)


def _figure_4_3(settings: SimpleNamespace, context: Context) -> Outcome:
    points = [(epsilon, settings.users) for epsilon in settings.epsilons]
    errors = _errors(PROTOCOLS, points, settings.runs, context)

    def at(name: str, epsilon: float, metric: str = "Manhattan") -> float:
        return errors[name, metric, epsilon, settings.users]

    low = [epsilon for epsilon in settings.epsilons if epsilon < 1]
    first, last = settings.epsilons[0], settings.epsilons[-1]
    pure = {name: at(name, last) for name in _THESIS}
    findings = [
        Claim(
            "Direct encoding is the worst pure protocol where epsilon is below 1, in both metrics",
            all(
                max(_THESIS, key=lambda name: at(name, epsilon, metric)) == "direct encoding"
                for epsilon in low
                for metric in ("Manhattan", "Kantorovich")
            ),
            f"epsilon {first}: {', '.join(f'{name} {at(name, first):,.0f}' for name in _THESIS)}",
        ),
        Claim(
            "The optimized unary encoding is the best of the pure ones at every epsilon (Manhattan)",
            all(min(_THESIS, key=lambda name: at(name, epsilon)) == "optimized unary" for epsilon in settings.epsilons),
            ", ".join(f"{epsilon:g}: {min(_THESIS, key=lambda name: at(name, epsilon))}" for epsilon in settings.epsilons),
            f"direct encoding has the smaller variance from epsilon = ln((k - 2)/3) = {math.log((_VALUES - 2) / 3):.2f} on",
        ),
        Claim(
            "The random matrix with m = 5 does not improve with epsilon",
            at("random matrix, m = 5", last) > 0.5 * at("random matrix, m = 5", first),
            f"{at('random matrix, m = 5', first):,.0f} at {first}, {at('random matrix, m = 5', last):,.0f} at {last}",
        ),
        Claim(
            "With enough rows and entries of 1/sqrt(m) it does, as the others",
            at("random matrix, ours", last) < 0.25 * at("random matrix, ours", first),
            f"{at('random matrix, ours', first):,.0f} at {first}, {at('random matrix, ours', last):,.0f} at {last}",
        ),
        Claim(
            "Subset selection, which the thesis does not have, is never far behind the best",
            all(
                at("subset selection", e) < 1.15 * min(at(name, e) for name in PROTOCOLS if name != "basic RAPPOR")
                for e in settings.epsilons
            ),
            f"at epsilon {last}: {at('subset selection', last):,.0f} beside {min(pure.values()):,.0f}",
        ),
    ]
    return _outcome(errors, "Manhattan", by_users=False, findings=findings)


def _figure_4_4(settings: SimpleNamespace, context: Context) -> Outcome:
    outcome = _figure_4_3(settings, context)
    errors = {(row[0], row[1], row[2], row[3]): row[4] for row in outcome.rows}
    return _outcome(errors, "Kantorovich", by_users=False, findings=outcome.findings[:1])


def _figure_4_5(settings: SimpleNamespace, context: Context) -> Outcome:
    points = [(settings.epsilon, n) for n in settings.users]
    errors = _errors(PROTOCOLS, points, settings.runs, context)

    def per_user(name: str, n: int, metric: str = "Manhattan") -> float:
        return errors[name, metric, settings.epsilon, n] / n

    few, many = settings.users[0], settings.users[-1]
    slope = float(np.polyfit(np.log(settings.users), np.log([per_user("optimized unary", n) for n in settings.users]), 1)[0])
    findings = [
        Claim(
            "The error per user falls as the inverse root of their number: no turning point",
            abs(slope + 0.5) < 0.06,
            f"slope {slope:.3f} on a log-log scale",
        ),
        Claim(
            f"With {few} users the optimized unary encoding is the worst pure protocol (Manhattan)",
            max(_THESIS, key=lambda name: per_user(name, few)) == "optimized unary",
            ", ".join(f"{name} {per_user(name, few):.2f}" for name in _THESIS),
            "a protocol's variance is the same function of 1/n for any number of users, and its is the smallest of the three",
        ),
        Claim(
            f"With {many:,} users it is the best",
            min(_THESIS, key=lambda name: per_user(name, many)) == "optimized unary",
            ", ".join(f"{name} {per_user(name, many):.2f}" for name in _THESIS),
        ),
        Claim(
            "By the Kantorovich metric direct encoding is the worst with few users, and the optimized unary the best",
            max(_THESIS, key=lambda name: per_user(name, few, "Kantorovich")) == "direct encoding"
            and min(_THESIS, key=lambda name: per_user(name, few, "Kantorovich")) == "optimized unary",
            ", ".join(f"{name} {per_user(name, few, 'Kantorovich'):.2f}" for name in _THESIS),
            "with so few users the three lie close together after projection",
        ),
    ]
    return _outcome(errors, "Manhattan", by_users=True, findings=findings)


def _figure_4_6(settings: SimpleNamespace, context: Context) -> Outcome:
    outcome = _figure_4_5(settings, context)
    errors = {(row[0], row[1], row[2], row[3]): row[4] for row in outcome.rows}
    return _outcome(errors, "Kantorovich", by_users=True, findings=outcome.findings[3:])


def _figure_4_9(settings: SimpleNamespace, context: Context) -> Outcome:
    points = [(epsilon, settings.users) for epsilon in settings.epsilons]
    errors = _errors(DISTANCE, points, settings.runs, context)

    def at(name: str, epsilon: float) -> float:
        return errors[name, "Kantorovich", epsilon, settings.users]

    between = [epsilon for epsilon in settings.epsilons if 2 <= epsilon <= 2.5]
    thetas = [DistanceSensitive(_VALUES, epsilon).theta for epsilon in settings.epsilons]
    losses = [DistanceSensitive(_VALUES, epsilon).epsilon for epsilon in settings.epsilons]
    clear = [epsilon for epsilon in settings.epsilons if epsilon >= 2]
    findings = [
        Claim(
            "The protocol changes in steps: its loss is ln(theta (theta + 1)), below the epsilon asked for",
            all(abs(loss - math.log(t * (t + 1))) < 1e-9 for loss, t in zip(losses, thetas, strict=True) if t),
            ", ".join(f"{e:g}: {loss:.2f}" for e, loss in zip(settings.epsilons, losses, strict=True)),
        ),
        Claim(
            "With the thesis's aggregation it has the smallest Kantorovich error of its four for epsilon from 2 to 2.5",
            all(
                min((*_THESIS, "distance sensitive, thesis"), key=lambda name: at(name, e)) == "distance sensitive, thesis"
                for e in between
            ),
            ", ".join(f"{name} {at(name, between[0]):,.0f}" for name in (*_THESIS, "distance sensitive, thesis")),
            "its aggregation is biased, and with 20,000 users the bias exceeds the others' noise",
        ),
        Claim(
            "Fitted by EM, the same reports have a smaller error than with the thesis's aggregation, from epsilon 2 on",
            all(at("distance sensitive, EM", e) < at("distance sensitive, thesis", e) for e in clear),
            ", ".join(
                f"{e:g}: {at('distance sensitive, EM', e):,.0f} / {at('distance sensitive, thesis', e):,.0f}" for e in clear
            ),
        ),
        Claim(
            "The square wave is ahead of the distance-sensitive protocol as the thesis aggregates it, at every epsilon",
            all(at("square wave, EM", e) < at("distance sensitive, thesis", e) for e in settings.epsilons),
            ", ".join(f"{e:g}: {at('square wave, EM', e):,.0f}" for e in settings.epsilons),
        ),
    ]
    return _outcome(errors, "Kantorovich", by_users=False, findings=findings)


def _limit(settings: SimpleNamespace, context: Context) -> tuple[_Floats, _Floats]:
    """What the thesis's aggregation gives in the limit of many users, and the truth."""
    mechanism = DistanceSensitive(_VALUES, settings.epsilon)
    truth = np.bincount(ages(context, max(settings.users)), minlength=_VALUES) / max(settings.users)
    counts = np.rint(1e12 * mechanism.channel() @ truth).astype(np.int64)
    estimate, _ = mechanism._biased("paper", counts)
    return estimate, truth


def _users(settings: SimpleNamespace, context: Context, metric: str) -> Outcome:
    points = [(settings.epsilon, n) for n in settings.users]
    errors = _errors(DISTANCE, points, settings.runs, context)

    def per_user(name: str, n: int) -> float:
        return errors[name, metric, settings.epsilon, n] / n

    few, many = settings.users[0], settings.users[-1]
    floor = METRICS[metric](*_limit(settings, context))
    shown = (*_THESIS, "distance sensitive, thesis")
    findings = [
        Claim(
            f"With {few} users the distance-sensitive protocol, aggregated as in the thesis, is ahead of the unary encoding",
            per_user("distance sensitive, thesis", few) < per_user("optimized unary", few),
            ", ".join(f"{name} {per_user(name, few):.2f}" for name in shown),
            "after the projection onto the simplex that the Kantorovich distance needs, the advantage is gone",
        ),
        Claim(
            "Its error does not vanish with users: the thesis's aggregation is biased",
            floor > 0.05,
            f"{floor:.3f} per user however many there are, {per_user('distance sensitive, thesis', many):.3f} with {many:,}",
        ),
    ]
    if metric == "Manhattan":
        findings.append(
            Claim(
                f"With {many:,} users it has fallen behind the unary encoding",
                per_user("distance sensitive, thesis", many) > per_user("optimized unary", many),
                ", ".join(f"{name} {per_user(name, many):.3f}" for name in shown),
                "with fewer users than about 12,000 the bias is still smaller than the noise of the others",
            )
        )
    return _outcome(errors, metric, by_users=True, findings=findings)


def _figure_4_10(settings: SimpleNamespace, context: Context) -> Outcome:
    return _users(settings, context, "Kantorovich")


def _figure_4_11(settings: SimpleNamespace, context: Context) -> Outcome:
    return _users(settings, context, "Manhattan")


def _random_matrix(settings: SimpleNamespace, context: Context) -> Outcome:
    values = ages(context, settings.users)
    truth = np.bincount(values, minlength=_VALUES) / settings.users
    rows = []
    for place, m in enumerate(settings.rows):
        mechanism = RandomProjection(_VALUES, settings.epsilon, m=m)
        reports = mechanism.privatize(values, context.source(place))
        found = mechanism.estimate(reports, estimator="paper").proportions
        rows.append((m, manhattan(found, truth), float(np.sqrt(((found - truth) ** 2).mean())), float(mechanism.floor)))
        context.done((place + 1) / len(settings.rows))
    slope = float(np.polyfit(np.log([row[0] for row in rows]), np.log([row[2] for row in rows]), 1)[0])
    findings = (
        Claim(
            "The error has a floor of order 1/sqrt(m) that no epsilon removes: m = 5 has a large one",
            -0.65 < slope < -0.3 and rows[0][2] > 5 * rows[-1][2],
            f"slope {slope:.2f} over m = {rows[0][0]} to {rows[-1][0]:,} at epsilon {settings.epsilon:g}",
        ),
    )
    x = [row[0] for row in rows]
    lines = [Series("measured", x, [row[2] for row in rows]), Series("1/sqrt(m)", x, [row[3] for row in rows], "--")]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "rows m", "root mean squared error of a proportion", log="xy")

    return Outcome(findings, ("m", "Manhattan", "rms error", "floor"), tuple(rows), draw)


_EPSILONS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
_BY_EPSILON = {"users": 20_000, "epsilons": _EPSILONS, "runs": 10}
_BY_USERS = {"epsilon": 1.5, "users": (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000), "runs": 40}
_DISTANCE = {"epsilon": math.log(20), "users": (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000), "runs": 40}
_QUICK = {"epsilons": (0.5, 2.0, 4.0), "runs": 5}
_QUICK_USERS = {"users": (100, 1_000, 5_000), "runs": 25}

EXPERIMENTS = (
    Experiment(
        "galanis-figure-4.1",
        PAPER,
        "Figure 4.1: randomized response",
        _figure_4_1,
        {"share": 0.4, "users": (100, 300, 1_000, 3_000, 10_000), "runs": 400},
        {"runs": 60},
    ),
    Experiment("galanis-figure-4.3", PAPER, "Figure 4.3: protocols by epsilon, Manhattan", _figure_4_3, _BY_EPSILON, _QUICK),
    Experiment("galanis-figure-4.4", PAPER, "Figure 4.4: protocols by epsilon, Kantorovich", _figure_4_4, _BY_EPSILON, _QUICK),
    Experiment("galanis-figure-4.5", PAPER, "Figure 4.5: protocols by users, Manhattan", _figure_4_5, _BY_USERS, _QUICK_USERS),
    Experiment("galanis-figure-4.6", PAPER, "Figure 4.6: protocols by users, Kantorovich", _figure_4_6, _BY_USERS, _QUICK_USERS),
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
        _QUICK_USERS,
    ),
    Experiment(
        "galanis-figure-4.11", PAPER, "Figure 4.11: distance sensitive by users, Manhattan", _figure_4_11, _DISTANCE, _QUICK_USERS
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
