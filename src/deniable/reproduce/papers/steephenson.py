"""Steephenson 2017: the two-coin survey, NOISYMAX, repeated queries against a budget, RAPPOR's
memory."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.curator import Curator
from deniable.errors import DeniableError
from deniable.estimation.maximum_likelihood import maximum_likelihood
from deniable.mechanisms.protocols.basic_rappor import BasicRappor
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
from deniable.reproduce.plotting import Series, plot_lines

__all__ = ["EXPERIMENTS"]

PAPER = "Steephenson 2017"


def _survey(settings: SimpleNamespace, context: Context) -> Measured:
    coins = BinaryResponse(0.5, 0.5)
    channel = coins.channel()
    random, source = context.random(), context.source()
    rows, covered, total = [], 0, 0
    for place, n in enumerate(settings.people):
        errors, likeliest = [], []
        for _ in range(settings.trials):
            answers = (random.random(n) < settings.proportion).astype(int)
            reports = coins.privatize(answers, source)
            low, high = coins.estimate(reports).interval(0.95)[1]
            covered, total = covered + (low <= settings.proportion <= high), total + 1
            found = float(maximum_likelihood(coins, reports).proportions[1])
            errors.append(abs(found - settings.proportion))
            likeliest.append(found)
        lam = 0.5 * settings.proportion + 0.25
        rows.append(
            (
                n,
                float(np.mean(likeliest)),
                float(np.mean(errors)),
                float(np.std(errors, ddof=1)) / math.sqrt(settings.trials),
                math.sqrt(2 / math.pi * lam * (1 - lam) / n) / 0.5,
            )
        )
        context.done((place + 1) / len(settings.people))
    figures = {
        "yes if yes": float(channel[1, 1]),
        "yes if no": float(channel[1, 0]),
        "ratio": float((channel.max(axis=1) / channel.min(axis=1)).max()),
        "epsilon": coins.epsilon,
        "covered": float(covered),
        "total": float(total),
    }
    header = ("people", "mean estimate", "error", "stderr", "theory")
    return Measured(header, tuple(rows), figures)


def _judge_survey(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows, figures = measured.rows, measured.figures
    covered, total = figures["covered"], figures["total"]
    deviations = [abs(row[2] - row[4]) / row[3] for row in rows if row[0] >= 500]
    return (
        Compared("P(yes | takes part)", printed["yes if yes"], figures["yes if yes"]),
        Compared("P(yes | does not)", printed["yes if no"], figures["yes if no"]),
        Compared("largest ratio of the two", printed["ratio"], figures["ratio"]),
        Compared("epsilon", printed["epsilon"], figures["epsilon"]),
        Claim(
            "The maximum likelihood estimate finds the proportion, with the error that theory"
            " gives",
            max(deviations) < 4,
            ", ".join(f"n = {row[0]:,}: {row[2]:.4f} ({row[4]:.4f})" for row in rows),
        ),
        Claim(
            "95 % intervals cover the true proportion 94 to 96 % of the time, up to simulation"
            " error",
            abs(covered / total - 0.95) < 0.01 + 3 * math.sqrt(0.0475 / total),
            f"{100 * covered / total:.1f} % of {total:,.0f}",
        ),
    )


def _draw_survey(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    lines = [
        Series("maximum likelihood", x, [r[2] for r in rows], error=[r[3] for r in rows]),
        Series("theory", x, [row[4] for row in rows], "--"),
    ]
    plot_lines(figure.subplots(), lines, "people", "mean absolute error", log="xy")


def _noisy_max(settings: SimpleNamespace, context: Context) -> Measured:
    heights = np.clip(context.random().normal(5.6, 0.35, settings.people), 0, 10)
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        scale = 10 / epsilon
        curator = Curator({"height": heights}, budget=2 * settings.trials * epsilon + 1)
        noisy = [
            curator.noisy_max("height", epsilon=epsilon, bounds=(0, 10)).value
            for _ in range(settings.trials)
        ]
        ranked = [
            curator.maximum("height", epsilon=epsilon, bounds=(0, 10)).value
            for _ in range(settings.trials)
        ]
        top = float(heights.max())
        rows.append(
            (
                epsilon,
                scale,
                *(float(np.mean(np.abs(np.array(each) - top))) for each in (noisy, ranked)),
            )
        )
        context.done((place + 1) / len(settings.epsilons))
    return Measured(("epsilon", "10/epsilon", "NOISYMAX", "by ranks"), tuple(rows))


def _judge_noisy_max(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    # the mean of |x| has a relative standard error of 1/sqrt(trials) for Laplace noise
    reach = 4 / math.sqrt(settings.trials)
    return (
        Claim(
            "NOISYMAX adds Laplace noise of scale b = 10/epsilon: its mean error is b",
            all(abs(row[2] / row[1] - 1) < reach for row in rows),
            ", ".join(f"epsilon {row[0]:g}: {row[2]:.2f} ({row[1]:.1f})" for row in rows),
        ),
        Claim(
            "A maximum by ranks, which needs enough people near the top, is closer at the same"
            " epsilon",
            all(row[3] < row[2] for row in rows),
            ", ".join(f"{row[3]:.2f}" for row in rows),
        ),
    )


def _draw_noisy_max(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    names = ("NOISYMAX", "by ranks")
    lines = [Series(name, x, [row[2 + i] for row in rows]) for i, name in enumerate(names)]
    lines.append(Series("10/epsilon", x, [row[1] for row in rows], "--"))

    plot_lines(figure.subplots(), lines, "epsilon", "mean absolute error (ft)", log="xy")


def _repeated(settings: SimpleNamespace, context: Context) -> Measured:
    heights = np.clip(context.random().normal(5.6, 0.35, settings.people), 0, 10)
    endless = Curator({"height": heights}, budget=settings.queries * settings.epsilon + 1)
    values = [
        endless.noisy_max("height", epsilon=settings.epsilon, bounds=(0, 10)).value
        for _ in range(settings.queries)
    ]
    means = np.cumsum(values) / np.arange(1, settings.queries + 1)
    limited = Curator({"height": heights}, budget=settings.budget)
    answered = 0
    try:
        while answered <= settings.queries:
            limited.noisy_max("height", epsilon=settings.epsilon, bounds=(0, 10))
            answered += 1
    except DeniableError:
        pass
    rows = tuple(
        (i + 1, float(mean), float(spent))
        for i, (mean, spent) in enumerate(
            zip(means, (np.arange(len(means)) + 1) * settings.epsilon, strict=True)
        )
    )
    figures = {"answered": float(answered), "maximum": float(heights.max())}
    return Measured(("answers", "mean", "epsilon spent"), rows, figures)


def _judge_repeated(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    answered = round(measured.figures["answered"])
    error = abs(measured.rows[-1][1] - measured.figures["maximum"])
    bound = 4 * math.sqrt(2 / settings.queries) * 10 / settings.epsilon
    return (
        Claim(
            "The mean of many answers to the same query finds the true maximum",
            error < bound,
            f"off by {error:.3f} ft after {settings.queries}; one answer by"
            f" {10 / settings.epsilon:.0f} ft",
        ),
        Claim(
            "A budget limits the queries: so many answers as epsilons fit in, then a refusal",
            answered == round(settings.budget / settings.epsilon),
            f"{answered} answers at epsilon {settings.epsilon:g} from a budget of"
            f" {settings.budget:g}",
        ),
    )


def _draw_repeated(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    ax = figure.subplots()
    counts, means = measured.column("answers"), measured.column("mean")
    plot_lines(ax, [Series("mean of the answers so far", counts, means)], "answers", "ft", log="x")
    ax.axhline(measured.figures["maximum"], color="0.4", linewidth=1, label="true maximum")
    ax.axvline(
        measured.figures["answered"],
        color="C3",
        linewidth=1,
        linestyle="--",
        label=f"a budget of {settings.budget:g} ends here",
    )
    ax.legend(fontsize=8, frameon=False)


def _rappor(settings: SimpleNamespace, context: Context) -> Measured:
    mechanism = BasicRappor(settings.values, settings.f, settings.p, settings.q)
    random, source = context.random(), context.source()
    truth = random.integers(0, settings.values, settings.people)
    kept = mechanism.draw_permanent(truth, source)

    def bits(reports: Any) -> Any:
        return np.unpackbits(reports, axis=1, count=settings.values, bitorder="little").astype(
            np.int64
        )

    memory, fresh = np.zeros((2, settings.people, settings.values), dtype=np.int64)
    rows = []
    for day in range(1, settings.days + 1):
        memory += bits(mechanism.draw_report(kept, source))
        fresh += bits(mechanism.draw_report(mechanism.draw_permanent(truth, source), source))
        if day in settings.shown:
            # Ties are broken at random, as an attacker would have to.
            guess = [(each + random.random(each.shape)).argmax(axis=1) for each in (memory, fresh)]
            rows.append((day, *(float((g == truth).mean()) for g in guess)))
        context.done(day / settings.days)
    permanent = float(
        (
            (bits(kept) + random.random((settings.people, settings.values))).argmax(axis=1) == truth
        ).mean()
    )
    figures = {"permanent": permanent, "lifetime epsilon": mechanism.lifetime_epsilon}
    return Measured(("reports", "with memory", "without"), tuple(rows), figures)


def _judge_rappor(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    permanent = measured.figures["permanent"]
    lifetime = measured.figures["lifetime epsilon"]
    error = 4 * math.sqrt(permanent * abs(1 - permanent) / settings.people)
    growth = math.exp(lifetime)
    return (
        Claim(
            "Without memory, repeated reports give everybody away",
            rows[-1][2] > 0.99,
            f"{100 * rows[-1][2]:.1f} % guessed after {settings.days} reports",
        ),
        Claim(
            "With memory, the chance of guessing never exceeds that of seeing the permanent bits",
            rows[-1][1] <= permanent + 2 * error,
            f"{100 * rows[-1][1]:.1f} % after {settings.days} reports; {100 * permanent:.1f} % from"
            " the permanent bits",
        ),
        Claim(
            "and no attacker exceeds what the lifetime epsilon allows",
            permanent <= growth / (growth + settings.values - 1) + error,
            f"at most {100 * growth / (growth + settings.values - 1):.1f} % at lifetime epsilon"
            f" {lifetime:.2f}",
        ),
    )


def _draw_rappor(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    rows = measured.rows
    permanent = measured.figures["permanent"]
    x = [row[0] for row in rows]
    lines = [
        Series("with memory", x, [100 * row[1] for row in rows]),
        Series("without", x, [100 * row[2] for row in rows]),
    ]
    lines.append(Series("permanent bits seen", x, [100 * permanent] * len(x), "--"))

    plot_lines(figure.subplots(), lines, "reports", "guessed right (%)", log="x")


EXPERIMENTS = (
    Experiment(
        "steephenson-survey",
        PAPER,
        "The survey with two coins",
        _survey,
        _judge_survey,
        _draw_survey,
        {"proportion": 0.3, "people": (100, 500, 2_000, 10_000), "trials": 500},
        {"trials": 100, "people": (500, 2_000)},
        {"yes if yes": "0.75", "yes if no": "0.25", "ratio": "3", "epsilon": "ln 3"},
    ),
    Experiment(
        "steephenson-noisymax",
        PAPER,
        "NOISYMAX",
        _noisy_max,
        _judge_noisy_max,
        _draw_noisy_max,
        {"people": 10_000, "epsilons": (0.5, 1.0, 2.0, 5.0, 10.0), "trials": 200},
        {"epsilons": (1.0, 5.0), "trials": 40},
        seeded=False,
    ),
    Experiment(
        "steephenson-repeated",
        PAPER,
        "Repeated queries against a budget",
        _repeated,
        _judge_repeated,
        _draw_repeated,
        {"people": 10_000, "epsilon": 0.5, "queries": 500, "budget": 5.0},
        {"queries": 60},
        seeded=False,
    ),
    Experiment(
        "steephenson-rappor",
        PAPER,
        "RAPPOR's memory",
        _rappor,
        _judge_rappor,
        _draw_rappor,
        {
            "values": 8,
            "f": 0.5,
            "p": 0.25,
            "q": 0.75,
            "people": 5_000,
            "days": 200,
            "shown": (1, 2, 5, 10, 20, 50, 100, 200),
        },
        {"people": 1_000, "days": 100},
    ),
)
