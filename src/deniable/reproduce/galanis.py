"""Galanis 2021, chapter 3: a curator's answers and an anonymised dataset.

The thesis uses diffprivlib and ARX on public tables; ours are drawn from distributions with the printed means. There, a mean's
sensitivity is (upper - lower)/n, so the number of rows is public: "replace-one" neighbours.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.curator import Curator
from deniable.release.guarantee import Guarantee
from deniable.reproduce.experiment import Claim, Compared, Context, Experiment, Outcome, Series, plot_lines

__all__ = ["EXPERIMENTS"]

PAPER = "Galanis 2021"
_Floats = NDArray[np.float64]


def _surgeries(context: Context, n: int) -> _Floats:
    """Log-normal charges with the printed mean and the square root of the printed variance."""
    spread = math.log1p(262_754_253.1 / 13_168.5**2)
    return np.minimum(context.random(7).lognormal(math.log(13_168.5) - spread / 2, math.sqrt(spread), n), 1e6)


def _salaries(context: Context, n: int) -> _Floats:
    return np.clip(context.random(8).normal(52_000, 22_000, n), 1_000, 299_000)


def _mean_errors(values: _Floats, epsilon: float, runs: int) -> float:
    curator = Curator({"charge": values}, budget=runs * epsilon * 1.01, neighbours="replace-one")
    answers = [curator.mean("charge", epsilon=epsilon, bounds=(0, 1_000_000)).value for _ in range(runs)]
    return float(np.abs(np.array(answers) - values.mean()).mean())


def _table_3_2(settings: SimpleNamespace, context: Context) -> Outcome:
    values = _surgeries(context, settings.rows)
    curator = Curator({"charge": values}, budget=4 * settings.epsilon, neighbours="replace-one")
    truth = {"mean": values.mean(), "sum": values.sum(), "variance": values.var(), "std": values.std()}
    rows = []
    for name, exact in truth.items():
        found = getattr(curator, name)("charge", epsilon=settings.epsilon, bounds=(0, 1_000_000))
        rows.append((name, float(exact), float(found.value), float(found.stderr)))
    mean, total, variance, deviation = settings.printed
    findings = (
        Claim(
            "The printed sum is the printed mean times 200,000 entries",
            abs(mean * settings.rows / total - 1) < 0.01,
            f"{mean * settings.rows:,.0f} beside {total:,.1f}",
            "the sum's row repeats the variance's number",
        ),
        Claim(
            "The printed standard deviation is the root of the printed variance",
            abs(math.sqrt(variance) / deviation - 1) < 0.01,
            f"{math.sqrt(variance):,.1f} beside {deviation:,.1f}",
            "the two rows cannot both be right",
        ),
        Claim(
            "A mean of 200,000 charges is off by a few dollars: by (upper - lower)/(n epsilon) on average",
            abs(rows[0][2] - rows[0][1]) < 12 * 1e6 / settings.rows / settings.epsilon,
            f"off by {abs(rows[0][2] - rows[0][1]):.2f}; expected {1e6 / settings.rows / settings.epsilon:.1f}, printed 1.2",
        ),
        Claim(
            "Each answer lies within 6 of its standard errors of the truth",
            all(abs(row[2] - row[1]) < 6 * row[3] for row in rows if math.isfinite(row[3])),
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.bar([row[0] for row in rows], [100 * row[3] / row[1] for row in rows])
        ax.set_ylabel("standard error (% of the true answer)")
        ax.spines[["top", "right"]].set_visible(False)

    return Outcome(findings, ("query", "true answer", "private answer", "standard error"), tuple(rows), draw)


def _figure_3_1(settings: SimpleNamespace, context: Context) -> Outcome:
    values = _surgeries(context, max(settings.sizes))
    rows = []
    for place, n in enumerate(settings.sizes):
        for epsilon in settings.epsilons:
            rows.append((epsilon, n, _mean_errors(values[:n], epsilon, settings.runs), 1e6 / n / epsilon))
        context.done((place + 1) / len(settings.sizes))
    reach = 4 / math.sqrt(settings.runs)
    at = next(row for row in rows if row[:2] == (1.0, 1000))
    findings = (
        Claim(
            "The error is (upper - lower)/(n epsilon): larger for small epsilon and small tables",
            all(abs(row[2] / row[3] - 1) < reach for row in rows),
            f"{len(rows)} points within four standard errors of {settings.runs} runs",
        ),
        Claim(
            "It is near 0 from 1,000 entries on, at epsilon 1",
            at[3] < 0.1 * float(values.mean()),
            f"expected {at[3]:,.0f} of {values.mean():,.0f} dollars",
        ),
    )
    lines = [Series(f"epsilon {e}", settings.sizes, [row[2] for row in rows if row[0] == e]) for e in settings.epsilons]
    lines += [
        Series("theory" if i == 0 else "", settings.sizes, [1e6 / n / e for n in settings.sizes], "--")
        for i, e in enumerate(settings.epsilons)
    ]

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        plot_lines(ax, lines, "entries", "mean absolute error of the mean ($)", log="xy", legend=False)
        handles, names = ax.get_legend_handles_labels()
        shown = [(handle, name) for handle, name in zip(handles, names, strict=True) if name]
        ax.legend(*zip(*shown, strict=True), fontsize=8, frameon=False)

    return Outcome(findings, ("epsilon", "entries", "error", "theory"), tuple(rows), draw)


def _figure_3_2(settings: SimpleNamespace, context: Context) -> Outcome:
    values = _surgeries(context, settings.rows)
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        rows.append((epsilon, _mean_errors(values, epsilon, settings.runs), 1e6 / settings.rows / epsilon))
        context.done((place + 1) / len(settings.epsilons))
    reach = 4 / math.sqrt(settings.runs)
    findings = (
        Claim(
            "The error follows the Laplace mechanism's, sensitivity/epsilon, at every epsilon",
            all(abs(row[1] / row[2] - 1) < reach for row in rows),
            ", ".join(f"{row[0]:g}: {row[1]:.1f} ({row[2]:.1f})" for row in rows),
        ),
    )
    x = [row[0] for row in rows]
    lines = [Series("ours", x, [row[1] for row in rows]), Series("sensitivity/epsilon", x, [row[2] for row in rows], "--")]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "epsilon", "mean absolute error of the mean ($)", log="xy")

    return Outcome(findings, ("epsilon", "error", "theory"), tuple(rows), draw)


_BINS = tuple(float(edge) for edge in np.linspace(0, 300_000, 20)[1:])
"""As in the thesis: 19 edges, 18 bins."""


def _inside(values: _Floats) -> _Floats:
    """Salaries within the bins: a curator counts others in the first and last bin, NumPy not at all."""
    return values[(values >= _BINS[0]) & (values < _BINS[-1])]


def _histogram_errors(values: _Floats, epsilon: float, runs: int) -> tuple[_Floats, _Floats]:
    """Euclidean and Kantorovich distances between noisy and true counts, one per run."""
    truth = np.histogram(values, _BINS)[0]
    curator = Curator({"salary": _inside(values)}, budget=runs * epsilon * 1.01)
    noise = np.array(
        [np.asarray(curator.histogram("salary", epsilon=epsilon, bins=list(_BINS)).counts()) - truth for _ in range(runs)]
    )
    return np.sqrt((noise**2).sum(axis=1)), np.abs(np.cumsum(noise, axis=1)[:, :-1]).sum(axis=1)


def _noise_variance(epsilon: float) -> float:
    return 1 / (2 * math.sinh(epsilon / 2) ** 2)


def _figure_3_4(settings: SimpleNamespace, context: Context) -> Outcome:
    values = _salaries(context, settings.rows)
    low, high = 0.01, 10.0
    while high - low > 1e-6:  # the epsilon at which the printed Euclidean error is the expected one
        middle = (low + high) / 2
        low, high = (middle, high) if math.sqrt(18 * _noise_variance(middle)) > settings.euclidean else (low, middle)
    euclidean, kantorovich = _histogram_errors(values, low, settings.runs)
    findings = (
        Compared(
            f"Euclidean error at epsilon {low:.2f}, which the thesis does not print",
            settings.euclidean,
            float(euclidean.mean()),
            4 * float(euclidean.std()) / math.sqrt(settings.runs) + 0.5,
        ),
        Compared(
            f"Kantorovich error at epsilon {low:.2f} (one run; its standard deviation is the tolerance, twice)",
            settings.kantorovich,
            float(kantorovich.mean()),
            2 * float(kantorovich.std()),
        ),
        Claim("Fewer than 20 of 13,000 people end up in a wrong bin", float(euclidean.mean()) < 20, f"{euclidean.mean():.1f}"),
    )
    curator = Curator({"salary": _inside(values)}, budget=10)
    noisy = np.asarray(curator.histogram("salary", epsilon=low, bins=list(_BINS)).counts())
    truth = np.histogram(values, _BINS)[0]
    rows = tuple((f"{a:,.0f}-{b:,.0f}", int(t), float(x)) for a, b, t, x in zip(_BINS[:-1], _BINS[1:], truth, noisy, strict=True))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.bar(np.arange(18) - 0.2, truth, 0.4, color="0.8", label="true")
        ax.bar(np.arange(18) + 0.2, noisy, 0.4, label="private")
        ax.set_xticks(np.arange(18)[::3], [f"{edge / 1000:.0f}k" for edge in _BINS[:-1][::3]])
        ax.set_xlabel("salary from")
        ax.set_ylabel("people")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    return Outcome(findings, ("bin", "true", "private"), rows, draw)


def _figures_3_5(settings: SimpleNamespace, context: Context) -> Outcome:
    values = _salaries(context, settings.rows)
    steps = sum(math.sqrt(2 / math.pi * j) for j in range(1, 18))
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        euclidean, kantorovich = _histogram_errors(values, epsilon, settings.runs)
        spread = math.sqrt(_noise_variance(epsilon))
        rows.append((epsilon, float(euclidean.mean()), math.sqrt(18) * spread, float(kantorovich.mean()), steps * spread))
        context.done((place + 1) / len(settings.epsilons))
    ratio = max(max(abs(row[1] / row[2] - 1), abs(row[3] / row[4] - 1)) for row in rows)
    findings = (
        Claim(
            "Both errors fall with epsilon as the noise does: by theory, 1/epsilon",
            ratio < 0.25 + 2 / math.sqrt(settings.runs),
            f"largest deviation from the noise's law {100 * ratio:.0f} %; a histogram's sensitivity is 1, whatever its bins",
        ),
    )
    x = [row[0] for row in rows]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for ax, column, name in ((left, 1, "Euclidean error"), (right, 3, "Kantorovich error")):
            lines = [
                Series("ours", x, [row[column] for row in rows]),
                Series("theory", x, [row[column + 1] for row in rows], "--"),
            ]
            plot_lines(ax, lines, "epsilon", name, log="xy")

    return Outcome(findings, ("epsilon", "Euclidean", "theory", "Kantorovich", "theory of K."), tuple(rows), draw)


def _figure_3_9(settings: SimpleNamespace, context: Context) -> Outcome:
    random = context.random()
    spread = 1.1
    pay = np.minimum(random.lognormal(math.log(settings.mean) - spread**2 / 2, spread, settings.rows), 30e6)
    # The generalisation is public: each salary becomes the midpoint of its range.
    cell = (pay // settings.width).astype(np.int64)
    middle = (np.arange(cell.max() + 1) + 0.5) * settings.width
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        guarantee = Guarantee.of(epsilon, 1 / settings.rows)
        means, lost = [], []
        for run in range(settings.runs):
            kept = guarantee.keep(settings.rows, context.source(100 * place + run))
            counts = np.bincount(cell[kept], minlength=middle.size)
            counts[counts < guarantee.k] = 0
            means.append(float((counts * middle).sum() / max(counts.sum(), 1)))
            lost.append(1 - counts.sum() / max(kept.sum(), 1))
        error = float(np.abs(np.array(means) - pay.mean()).mean())
        rows.append(
            (epsilon, guarantee.k, float(guarantee.sampling), error, 100 * error / pay.mean(), 100 * float(np.mean(lost)))
        )
        context.done((place + 1) / len(settings.epsilons))
    first, last = rows[0], rows[-1]
    findings = (
        Claim(
            "The error falls with epsilon where epsilon is small, and then levels out",
            first[4] > last[4],
            f"{first[4]:.1f} % at epsilon {first[0]}, {last[4]:.1f} % at {last[0]}",
            "a larger epsilon needs a larger k, and so suppresses more of the high salaries",
        ),
        Claim(
            "The error is suppression: rows that are rare, here the highest salaries, are missing from the mean",
            all(row[5] > 0 for row in rows),
            f"{min(row[5] for row in rows):.1f} to {max(row[5] for row in rows):.1f} % of sampled rows; the thesis: nearly 10 %",
        ),
    )
    lines = [Series("", [row[0] for row in rows], [row[4] for row in rows])]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "epsilon", "mean absolute error of the mean salary (%)")

    header = ("epsilon", "k", "sampling", "error $", "error %", "suppressed %")
    return Outcome(findings, header, tuple(rows), draw)


EXPERIMENTS = (
    Experiment(
        "galanis-table-3.2",
        PAPER,
        "Table 3.2: queries to a curator",
        _table_3_2,
        {"rows": 200_000, "epsilon": 1.0, "printed": (13_168.5, 262_754_253.1, 262_754_253.1, 18_855.1)},
    ),
    Experiment(
        "galanis-figure-3.1",
        PAPER,
        "Figure 3.1: error by size of the table",
        _figure_3_1,
        {"sizes": (10, 20, 50, 100, 200, 500, 1000, 2000), "epsilons": (0.1, 0.3, 0.5, 1.0), "runs": 100},
        {"sizes": (10, 100, 1000), "epsilons": (0.1, 1.0), "runs": 25},
    ),
    Experiment(
        "galanis-figure-3.2",
        PAPER,
        "Figure 3.2: error by epsilon",
        _figure_3_2,
        {"rows": 200_000, "epsilons": (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0), "runs": 100},
        {"rows": 20_000, "epsilons": (0.1, 1.0), "runs": 25},
    ),
    Experiment(
        "galanis-figure-3.4",
        PAPER,
        "Figure 3.4: histogram of salaries",
        _figure_3_4,
        {"rows": 13_000, "euclidean": 14.81, "kantorovich": 91.63, "runs": 100},
        {"runs": 30},
    ),
    Experiment(
        "galanis-figure-3.5",
        PAPER,
        "Figures 3.5 and 3.6: histogram errors by epsilon",
        _figures_3_5,
        {"rows": 13_000, "epsilons": (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), "runs": 100},
        {"epsilons": (0.1, 0.4, 1.0), "runs": 20},
    ),
    Experiment(
        "galanis-figure-3.9",
        PAPER,
        "Figure 3.9: mean of an anonymised dataset",
        _figure_3_9,
        {
            "rows": 12_377,
            "mean": 2_868_981.32,
            "width": 500_000.0,
            "epsilons": (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6),
            "runs": 100,
        },
        {"epsilons": (0.2, 1.0, 1.6), "runs": 10},
    ),
)
