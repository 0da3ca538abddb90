"""Numbers printed by other implementations, recomputed with ours: a check independent of the papers
and of us."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.estimation.surveys.design_estimate import DesignEstimate
from deniable.mechanisms.designs import (
    Crosswise,
    DirectQuestion,
    ForcedResponse,
    ItemCount,
    StochasticLieDetector,
    UnrelatedQuestion,
    Warner,
)
from deniable.planning.design_power import design_power
from deniable.release.guarantee import largest_sampling, smallest_threshold
from deniable.reproduce.experiment import (
    Compared,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.plotting import Series, bare, paper_points, plot_lines
from deniable.reproduce.verdicts import printed_number

__all__ = ["EXPERIMENTS"]


def _pair(
    estimate: DesignEstimate, parameter: str = "pi", errors: str | None = None
) -> tuple[float, float]:
    found = (estimate if errors is None else estimate.with_errors(errors))[parameter]
    return found.value, found.stderr


_VALUES = ("estimate", "standard error")


def _designs(settings: SimpleNamespace, context: Context) -> Measured:
    lie = StochasticLieDetector(2 / 12, 10 / 12).estimate_counts(yes=(373, 398), n=(564, 692))
    list_count = ItemCount(items=3).estimate_counts(
        control=[8, 132, 222, 227], treated=[19, 123, 229, 219, 34]
    )
    found = {
        "RRreg 0.7.5 vignette, Warner": _pair(Warner(1 / 6).estimate_counts(yes=633, n=1000)),
        "RRreg, JSS 85(2) p. 11, minarets, pi": _pair(lie),
        "RRreg, JSS 85(2) p. 11, minarets, t": _pair(lie, "t"),
        "RRreg, JSS 85(2) p. 11, direct question": _pair(
            DirectQuestion().estimate_counts(yes=158, n=365)
        ),
        "Jensen 2020 do-file, crosswise": _pair(
            Crosswise(2 / 12).estimate_counts(same=201, n=523), errors="n"
        ),
        "cWise README, crosswise": _pair(Crosswise(0.15).estimate_counts(same=1427, n=2000)),
        "Jann, Jerke and Krumpal 2012, crosswise": _pair(
            Crosswise(1 / 4).estimate_counts(same=198, n=310)
        )[:1],
        "Blair and Imai 2012 (list), item count": _pair(list_count),
    }
    rows = [
        (f"{source}: {name}", value)
        for source, values in found.items()
        for name, value in zip(_VALUES, values, strict=False)
    ]
    for name, u, yes in settings.unrelated:
        value, stderr = _pair(
            UnrelatedQuestion(1 / 2, u).estimate_counts(yes=yes, n=710, population=10_777)
        )
        rows += [
            (f"RRTCS vignette, {name}: estimate", value),
            (f"RRTCS vignette, {name}: variance", stderr**2),
        ]
    power = design_power(
        ForcedResponse(2 / 3, yes=1 / 6), 0.2, 200, significance=0.01, alternative="greater"
    ).power
    rows.append(("rr, tests/testthat/test-power.R: power", power))
    return Measured(("figure", "ours"), tuple(rows))


def _judge_designs(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    return tuple(Compared(name, printed[name], value) for name, value in measured.rows)


def _draw_designs(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    ax = figure.subplots()
    theirs = [printed_number(printed[name]) for name, _ in measured.rows]
    places = np.arange(len(theirs))
    ratio = [
        (value - paper) / rounding
        for (_, value), (paper, rounding) in zip(measured.rows, theirs, strict=True)
    ]
    ax.barh(places, ratio)
    ax.set_yticks(places, measured.column("figure"), fontsize=6)
    ax.invert_yaxis()
    ax.axvline(0, color="0.4", linewidth=0.8)
    ax.set_xlim(-1.1, 1.1)
    ax.set_xlabel("ours less theirs, in units of the last printed digit")
    bare(ax)


_ONE_MORE = "ARX's search counts one further after it has found the threshold: ours is one less"


def _arx(settings: SimpleNamespace, context: Context) -> Measured:
    rows = []
    for place, (epsilon, delta) in enumerate(settings.points):
        rows.append((epsilon, delta, smallest_threshold(delta, largest_sampling(epsilon), epsilon)))
        context.done((place + 1) / len(settings.points))
    return Measured(("epsilon", "delta", "smallest k"), tuple(rows))


def _judge_arx(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    return tuple(
        Compared(
            f"k at epsilon {epsilon:g}, delta {delta:g}",
            printed[f"{epsilon:g} {delta:g}"],
            k + 1,
            ours=k,
            note=_ONE_MORE,
        )
        for epsilon, delta, k in measured.rows
    )


def _draw_arx(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    ax = figure.subplots()
    lines = []
    for epsilon in sorted({row[0] for row in measured.rows}):
        mine = [row for row in measured.rows if row[0] == epsilon]
        lines.append(Series(f"epsilon {epsilon:g}", [r[1] for r in mine], [r[2] for r in mine]))
    plot_lines(ax, lines, "delta", "smallest k", log="x")
    theirs = [float(printed[f"{row[0]:g} {row[1]:g}"]) for row in measured.rows]
    paper_points(ax, measured.column("delta"), theirs, "ARX")


_PRINTED = {
    "RRreg 0.7.5 vignette, Warner: estimate": "0.300500",
    "RRreg 0.7.5 vignette, Warner: standard error": "0.022874",
    "RRreg, JSS 85(2) p. 11, minarets, pi: estimate": "0.870695",
    "RRreg, JSS 85(2) p. 11, minarets, pi: standard error": "0.041118",
    "RRreg, JSS 85(2) p. 11, minarets, t: estimate": "0.635806",
    "RRreg, JSS 85(2) p. 11, minarets, t: standard error": "0.017344",
    "RRreg, JSS 85(2) p. 11, direct question: estimate": "0.43",
    "RRreg, JSS 85(2) p. 11, direct question: standard error": "0.03",
    "RRTCS vignette, copied: estimate": "0.8406103",
    "RRTCS vignette, copied: variance": "0.001389716",
    "RRTCS vignette, bullied: estimate": "0.1220657",
    "RRTCS vignette, bullied: variance": "0.001337415",
    "RRTCS vignette, drug: estimate": "0.1286385",
    "RRTCS vignette, drug: variance": "0.000991658",
    "Jensen 2020 do-file, crosswise: estimate": "0.673518164",
    "Jensen 2020 do-file, crosswise: standard error": "0.03190544",
    "cWise README, crosswise: estimate": "0.1950",
    "cWise README, crosswise: standard error": "0.01444624",
    "Jann, Jerke and Krumpal 2012, crosswise: estimate": "0.22",
    "Blair and Imai 2012 (list), item count: estimate": "0.068",
    "Blair and Imai 2012 (list), item count: standard error": "0.050",
    "rr, tests/testthat/test-power.R: power": "0.9868872",
}
_UNRELATED = (("copied", 1 / 12, 328), ("bullied", 2 / 3, 280), ("drug", 1 / 3, 164))
_POINTS = (
    (0.5, 1e-3, 28),
    (0.5, 1e-5, 52),
    (0.5, 1e-6, 64),
    (1.0, 1e-4, 48),
    (1.0, 1e-5, 62),
    (1.0, 1e-8, 105),
    (1.5, 1e-3, 45),
    (1.5, 1e-4, 63),
    (1.5, 1e-6, 100),
    (2.0, 1e-4, 82),
    (2.0, 1e-5, 114),
    (2.0, 1e-8, 183),
)

EXPERIMENTS = (
    Experiment(
        "published-designs",
        "Others' implementations",
        "Survey designs: RRreg, RRTCS, cWise, rr, list",
        _designs,
        _judge_designs,
        _draw_designs,
        {"unrelated": _UNRELATED},
        printed=_PRINTED,
    ),
    Experiment(
        "published-arx",
        "Others' implementations",
        "ARX: threshold of a release",
        _arx,
        _judge_arx,
        _draw_arx,
        {"points": tuple(point[:2] for point in _POINTS)},
        printed={f"{epsilon:g} {delta:g}": f"{k}" for epsilon, delta, k in _POINTS},
    ),
)
