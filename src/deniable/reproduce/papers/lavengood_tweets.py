"""Lavengood (2017): the simulated trials on hashtags."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.mechanisms.protocols.unary import UnaryEncoding
from deniable.planning.grid import lavengood_grid
from deniable.privacy.response import (
    answer_epsilon,
    bit_epsilon,
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
from deniable.reproduce.papers.lavengood import PAPER, ZK_NOTE, cv
from deniable.reproduce.plotting import bare

__all__ = [
    "EXPERIMENTS",
    "parameter_figures",
    "parameter_findings",
    "printed_parameters",
    "trials",
    "variation_claim",
]

Floats = NDArray[np.float64]
Parameters = tuple[float, float, float]
_BIT_NOTE = "the thesis gives the loss of one bit; ours is that of an answer, which changes two"


def parameter_figures(
    place: str, parameters: Parameters, found: Any, figures: dict[str, float]
) -> None:
    """Our grid's parameters and the losses of the printed ones, by the thesis and by us."""
    s, p, q = parameters
    bit, exact = bit_epsilon(p, q), zero_knowledge_epsilon(bit_epsilon(p, q), s)
    figures |= {
        f"{place} grid s": found.sampling,
        f"{place} grid p": found.p,
        f"{place} grid q": found.q,
        f"{place} epsilon of a bit": sampled_epsilon(bit, s),
        f"{place} epsilon of an answer": sampled_epsilon(answer_epsilon(p, q), s),
        f"{place} epsilon zk": exact,
        f"{place} epsilon zk by the thesis": math.log1p(math.exp(exact)),
    }


def parameter_findings(place: str, figures: Any, printed: Printed) -> list[Finding]:
    """The printed parameters and losses beside those of :func:`parameter_figures`."""
    return [
        *(
            Compared(
                f"best {name} by the grid, {place}",
                printed[f"{place} {name}"],
                figures[f"{place} grid {name}"],
            )
            for name in ("s", "p", "q")
        ),
        Compared(
            f"sampled epsilon, {place}",
            printed[f"{place} epsilon"],
            figures[f"{place} epsilon of a bit"],
            ours=figures[f"{place} epsilon of an answer"],
            note=_BIT_NOTE,
        ),
        Compared(
            f"zero-knowledge epsilon, {place}",
            printed[f"{place} epsilon zk"],
            figures[f"{place} epsilon zk by the thesis"],
            ours=figures[f"{place} epsilon zk"],
            note=ZK_NOTE,
        ),
    ]


def trials(
    truth: NDArray[np.int64],
    buckets: int,
    parameters: Parameters,
    trials: int,
    context: Context,
    salt: int,
) -> Floats:
    """Estimated proportions of the buckets, one row per trial; `truth` is the bucket of each row,
    as SQL returned it. Each row has a sampling coin of its own, as in section 5.3."""
    s, p, q = parameters
    b = (1 - p) * q
    mechanism = UnaryEncoding(buckets, p + b, b)
    random, source = context.random(salt), context.source(salt)
    out = np.empty((trials, buckets))
    for trial in range(trials):
        answers = truth[random.random(truth.size) < s]
        out[trial] = mechanism.estimate(mechanism.privatize(answers, source)).proportions
        context.done((trial + 1) / trials)
    return out


def variation_claim(name: str, observed: Any, theory: Any, trials: int) -> Claim:
    """Whether empirical variances match theory: their mean ratio within 4 standard errors of 1."""
    ratio = float(np.mean((np.asarray(observed) / np.asarray(theory)) ** 2))
    error = math.sqrt(2 / (trials - 1) / len(observed))
    return Claim(
        f"Empirical and theoretical variation coincide{name}",
        abs(ratio - 1) < 4 * error,
        f"mean ratio of variances {ratio:.3f} ± {error:.3f} over {len(observed)} buckets and"
        f" {trials} trials",
    )


def _measure_6_3(settings: SimpleNamespace, context: Context) -> Measured:
    random = context.random()
    weights = 1 / (np.arange(settings.tags) + settings.shift) ** settings.zipf
    names = np.array([f"#tag{i:05d}" for i in range(settings.tags)])
    tags = names[random.choice(settings.tags, settings.rows, p=weights / weights.sum())]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE hashtags (content TEXT)")
        connection.executemany("INSERT INTO hashtags VALUES (?)", ((tag,) for tag in tags.tolist()))
        popular = connection.execute(
            "SELECT content FROM hashtags GROUP BY content ORDER BY count(*) DESC LIMIT 20"
        ).fetchall()
        place = {row[0]: i for i, row in enumerate(popular)}
        # Other tags go to the bucket for all others.
        answers = [
            place.get(row[0], 20) for row in connection.execute("SELECT content FROM hashtags")
        ]
    truth = np.array(answers, dtype=np.int64)
    proportions = np.bincount(truth, minlength=21)[:20] / truth.size
    rows: list[tuple[Any, ...]] = []
    figures: dict[str, float] = {}
    for number, (epsilon, *parameters) in enumerate(settings.parameters):
        s, p, q = parameters
        grid = lavengood_grid(epsilon, settings.paper_rows, 0.1)
        parameter_figures(f"epsilon {epsilon}", (s, p, q), grid, figures)
        estimates = trials(truth, 21, (s, p, q), settings.trials, context, number)[:, :20]
        for i, proportion in enumerate(proportions.tolist()):
            rows.append(
                (
                    epsilon,
                    popular[i][0],
                    proportion,
                    float(estimates[0, i]),
                    float(estimates[:, i].std(ddof=1) / proportion),
                    cv(proportion, truth.size, s, p, q),
                    # A smaller table varies more; the claims are about the thesis's.
                    cv(proportion, settings.paper_rows, s, p, q),
                )
            )
    header = ("epsilon", "tag", "truth", "one trial", "CV", "CV by theory", "CV of the thesis")
    return Measured(header, tuple(rows), figures)


def _judge_6_3(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for epsilon, *_ in settings.parameters:
        mine = measured.where(epsilon=epsilon)
        findings += parameter_findings(f"epsilon {epsilon}", measured.figures, printed)
        findings.append(
            variation_claim(
                f" (epsilon {epsilon})",
                mine.column("CV"),
                mine.column("CV by theory"),
                settings.trials,
            )
        )
    first, second = (measured.where(epsilon=each[0]) for each in settings.parameters)
    frequent = max(row[6] for row in first.rows if row[2] >= 0.01)
    rarest = min(first.rows, key=lambda row: row[2])
    few = sum(row[6] <= 0.1 for row in second.rows)
    findings += [
        Claim(
            "Tags above 1 % have a coefficient of variation of at most 10 % (epsilon 0.7)",
            frequent <= 0.1,
            f"up to {100 * frequent:.1f} %",
            "at 1 %, s, p and q as printed and 932,194 rows, equation 2.8 itself gives"
            f" {100 * cv(0.01, settings.paper_rows, *settings.parameters[0][1:]):.1f} %",
        ),
        Compared(
            "coefficient of variation of the rarest tag, in % (epsilon 0.7)",
            printed["rarest CV"],
            100 * rarest[6],
            0.0,
            100 * rarest[6] / math.sqrt(2 * 99),
            note=f"the thesis does not print how rare it is; here {100 * rarest[2]:.2f} %, of"
            " synthetic tags",
        ),
        Claim(
            "Almost all have at most 10 % (epsilon 2)",
            few >= 0.8 * len(second.rows),
            f"{few} of {len(second.rows)}",
        ),
    ]
    return tuple(findings)


def _draw_6_3(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    axes = figure.subplots(2, 2)
    for (one, two), (epsilon, *_) in zip(axes, settings.parameters, strict=True):
        rows = measured.where(epsilon=epsilon).rows
        truth = np.array([row[2] for row in rows])
        one.bar(np.arange(20), 100 * truth, color="0.85", label="truth")
        one.errorbar(
            np.arange(20),
            [100 * row[3] for row in rows],
            [196 * row[5] * row[2] for row in rows],
            fmt="o",
            markersize=3,
            linewidth=1,
            label="one trial, 95 %",
        )
        one.set_ylabel("tag (%)")
        observed = [100 * row[4] for row in rows]
        error = [each / math.sqrt(2 * (settings.trials - 1)) for each in observed]
        two.errorbar(100 * truth, observed, error, fmt="o", markersize=3.5, label="empirical")
        two.plot(100 * truth, [100 * row[5] for row in rows], "-", color="0.4", label="theory")
        if epsilon == settings.parameters[0][0]:
            two.axhline(
                float(printed["rarest CV"]), color="0.1", linestyle=":", label="rarest, printed"
            )
        two.set_ylabel("CV (%)")
        two.set_title(f"epsilon {epsilon}", fontsize=9)
        bare(one, two)
    axes[1][0].set_xlabel("the 20 most frequent tags")
    axes[1][1].set_xlabel("true proportion (%)")
    axes[0][0].legend(fontsize=8, frameon=False)
    axes[0][1].legend(fontsize=8, frameon=False)


def printed_parameters(*trials: tuple[str, str, str, str, str, str]) -> dict[str, str]:
    """Printed parameters and losses, by the epsilon of their trial."""
    names = ("s", "p", "q", "epsilon", "epsilon zk")
    return {
        f"epsilon {epsilon} {name}": text
        for epsilon, *texts in trials
        for name, text in zip(names, texts, strict=True)
    }


EXPERIMENTS = (
    Experiment(
        "lavengood-figure-6.3",
        PAPER,
        "Figure 6.3: hashtags through SQL",
        _measure_6_3,
        _judge_6_3,
        _draw_6_3,
        {
            "rows": 932_194,
            "paper_rows": 932_194,
            "tags": 5_000,
            "zipf": 1.05,
            "shift": 6,
            "trials": 100,
            "parameters": ((0.7, 0.05, 0.88, 0.37), (2.0, 0.08, 0.94, 0.2)),
        },
        {"rows": 100_000, "trials": 40},
        {
            **printed_parameters(
                ("0.7", "0.05", "0.88", "0.37", "0.7", "1.41"),
                ("2.0", "0.08", "0.94", "0.2", "2.0", "2.72"),
            ),
            "rarest CV": "24",
        },
    ),
)
