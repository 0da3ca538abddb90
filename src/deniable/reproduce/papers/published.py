"""Numbers printed by other implementations, recomputed with ours: a check independent of the papers
and of us."""

from __future__ import annotations

import math
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
    Claim,
    Compared,
    Context,
    Experiment,
    ExperimentOutcome,
    Finding,
)

__all__ = ["EXPERIMENTS"]


def _pair(
    estimate: DesignEstimate, parameter: str = "pi", errors: str | None = None
) -> tuple[float, float]:
    found = (estimate if errors is None else estimate.with_errors(errors))[parameter]
    return found.value, found.stderr


def _designs(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    lie = StochasticLieDetector(2 / 12, 10 / 12).estimate_counts(yes=(373, 398), n=(564, 692))
    list_count = ItemCount(items=3).estimate_counts(
        control=[8, 132, 222, 227], treated=[19, 123, 229, 219, 34]
    )
    figures: list[tuple[str, float, float, float]] = []

    def add(source: str, printed: tuple[float, ...], ours: tuple[float, ...], digits: int) -> None:
        for name, theirs, mine in zip(("estimate", "standard error"), printed, ours, strict=False):
            figures.append((f"{source}: {name}", theirs, mine, 0.51 * 10**-digits))

    add(
        "RRreg 0.7.5 vignette, Warner",
        (0.300500, 0.022874),
        _pair(Warner(1 / 6).estimate_counts(yes=633, n=1000)),
        6,
    )
    add("RRreg, JSS 85(2) p. 11, minarets, pi", (0.870695, 0.041118), _pair(lie), 6)
    add("RRreg, JSS 85(2) p. 11, minarets, t", (0.635806, 0.017344), _pair(lie, "t"), 6)
    add(
        "RRreg, JSS 85(2) p. 11, direct question",
        (0.43, 0.03),
        _pair(DirectQuestion().estimate_counts(yes=158, n=365)),
        2,
    )
    for name, u, yes, share, variance in settings.unrelated:
        found = UnrelatedQuestion(1 / 2, u).estimate_counts(yes=yes, n=710, population=10_777)
        value, stderr = _pair(found)
        add(f"RRTCS vignette, {name}", (share, math.sqrt(variance)), (value, stderr), 6)
    add(
        "Jensen 2020 do-file, crosswise",
        (0.673518164, 0.03190544),
        _pair(Crosswise(2 / 12).estimate_counts(same=201, n=523), errors="n"),
        7,
    )
    add(
        "cWise README, crosswise",
        (0.1950, 0.01444624),
        _pair(Crosswise(0.15).estimate_counts(same=1427, n=2000)),
        4,
    )
    add(
        "Jann, Jerke and Krumpal 2012, crosswise",
        (0.22,),
        _pair(Crosswise(1 / 4).estimate_counts(same=198, n=310)),
        2,
    )
    add("Blair and Imai 2012 (list), item count", (0.068, 0.050), _pair(list_count), 3)
    power = design_power(
        ForcedResponse(2 / 3, yes=1 / 6), 0.2, 200, significance=0.01, alternative="greater"
    ).power
    figures.append(("rr, tests/testthat/test-power.R: power", 0.9868872, power, 0.51e-7))
    findings: tuple[Finding, ...] = tuple(Compared(*figure) for figure in figures)

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ratio = [(mine - theirs) / tolerance for _, theirs, mine, tolerance in figures]
        ax.barh(np.arange(len(figures)), ratio)
        ax.set_yticks(np.arange(len(figures)), [name for name, *_ in figures], fontsize=6)
        ax.invert_yaxis()
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_xlim(-1.1, 1.1)
        ax.set_xlabel("ours less theirs, in units of the last printed digit's half")
        ax.spines[["top", "right"]].set_visible(False)

    return ExperimentOutcome(
        findings, ("figure", "theirs", "ours", "tolerance"), tuple(figures), draw
    )


_ONE_MORE = "ARX's search counts one further after it has found the threshold"


def _arx(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows = []
    for place, (epsilon, delta, theirs) in enumerate(settings.points):
        rows.append(
            (epsilon, delta, theirs, smallest_threshold(delta, largest_sampling(epsilon), epsilon))
        )
        context.done((place + 1) / len(settings.points))
    findings: tuple[Finding, ...] = (
        Claim(
            "ARX's k is the smallest that reaches delta, plus one",
            all(row[2] == row[3] + 1 for row in rows),
            f"{sum(row[2] == row[3] + 1 for row in rows)} of {len(rows)} points",
            _ONE_MORE,
        ),
        *(
            Compared(f"k at epsilon {e:g}, delta {d:g}", theirs, k, 0, _ONE_MORE, k + 1)
            for e, d, theirs, k in rows
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for epsilon in sorted({row[0] for row in rows}):
            mine = [row for row in rows if row[0] == epsilon]
            ax.plot(
                [row[1] for row in mine],
                [row[3] for row in mine],
                "o-",
                label=f"epsilon {epsilon:g}",
            )
        ax.plot([row[1] for row in rows], [row[2] for row in rows], "x", color="0.3", label="ARX")
        ax.set_xscale("log")
        ax.set_xlabel("delta")
        ax.set_ylabel("smallest k")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    return ExperimentOutcome(findings, ("epsilon", "delta", "ARX", "ours"), tuple(rows), draw)


_UNRELATED = (
    ("copied", 1 / 12, 328, 0.8406103, 0.001389716),
    ("bullied", 2 / 3, 280, 0.1220657, 0.001337415),
    ("drug", 1 / 3, 164, 0.1286385, 0.000991658),
)
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
        {"unrelated": _UNRELATED},
    ),
    Experiment(
        "published-arx",
        "Others' implementations",
        "ARX: threshold of a release",
        _arx,
        {"points": _POINTS},
    ),
)
