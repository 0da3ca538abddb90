"""Lavengood (2017): the simulated trials and the lengths of tweets."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.mechanisms.protocols.unary import UnaryEncoding
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
    ExperimentOutcome,
    Finding,
)
from deniable.reproduce.papers.lavengood import PAPER, ZK_NOTE, cv

__all__ = ["EXPERIMENTS"]


_Floats = NDArray[np.float64]
_BIT_NOTE = "the thesis gives the loss of one bit; an answer changes two bits"


def _privacy(s: float, p: float, q: float, epsilon: float, zero_knowledge: float) -> list[Finding]:
    bit = bit_epsilon(p, q)
    exact = zero_knowledge_epsilon(bit, s)
    answer = sampled_epsilon(answer_epsilon(p, q), s)
    name = f"s = {s}, p = {p}, q = {q}"
    return [
        Compared(
            f"sampled epsilon of an answer, {name}",
            epsilon,
            answer,
            0.02,
            _BIT_NOTE,
            sampled_epsilon(bit, s),
        ),
        Compared(
            f"zero-knowledge epsilon, {name}",
            zero_knowledge,
            exact,
            0.006,
            ZK_NOTE,
            math.log1p(math.exp(exact)),
        ),
    ]


def _trials(
    truth: NDArray[np.int64],
    k: int,
    s: float,
    p: float,
    q: float,
    trials: int,
    context: Context,
    salt: int,
) -> _Floats:
    """Estimated proportions of the k labels, one row per trial; `truth` is the label of each row,
    as SQL returned it."""
    b = (1 - p) * q
    mechanism = UnaryEncoding(k, p + b, b)
    random, source = context.random(salt), context.source(salt)
    out = np.empty((trials, k))
    for trial in range(trials):
        answers = truth[random.random(truth.size) < s]
        out[trial] = mechanism.estimate(mechanism.privatize(answers, source)).proportions
        context.done((trial + 1) / trials)
    return out


def _variances_agree(estimates: _Floats, expected: _Floats) -> tuple[bool, float]:
    """Whether empirical variances match theory (all together, within 4 standard errors), and their
    mean ratio."""
    trials = len(estimates)
    ratio = float((estimates.var(axis=0, ddof=1) / expected**2).mean())
    return abs(ratio - 1) < 4 * math.sqrt(2 / (trials - 1) / estimates.shape[1]), ratio


def _figure_6_3(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
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
    shares = np.bincount(truth, minlength=21)[:20] / truth.size
    rows, findings, panels = [], [], []
    for number, (s, p, q, epsilon, zero) in enumerate(settings.trials_of):
        estimates = _trials(truth, 21, s, p, q, settings.trials, context, number)[:, :20]
        expected = np.array([cv(share, truth.size, s, p, q) for share in shares]) * shares
        agree, ratio = _variances_agree(estimates, expected)
        observed = estimates.std(axis=0, ddof=1) / shares
        findings += _privacy(s, p, q, epsilon, zero)
        text = f"mean ratio of variances {ratio:.3f} over 20 tags and {settings.trials} trials"
        findings.append(
            Claim(f"Empirical and theoretical variation coincide (epsilon {epsilon})", agree, text)
        )
        # A smaller table varies more; the claim is about 2 million rows.
        scaled = np.array([cv(share, settings.paper_rows, s, p, q) for share in shares])
        if number == 0:
            findings.append(
                Claim(
                    "Tags above 1 % have a coefficient of variation of at most 10 %, rare ones"
                    " decline quickly (epsilon 0.7)",
                    bool((scaled[shares >= 0.01] <= 0.1).all() and scaled.max() > 0.1),
                    f"{100 * scaled[shares >= 0.01].max():.1f} % at 1 %, {100 * scaled.max():.0f} %"
                    " for the rarest",
                )
            )
        else:
            findings.append(
                Claim(
                    "Almost all have at most 10 % (epsilon 2)",
                    float((scaled <= 0.1).mean()) >= 0.8,
                    f"{(scaled <= 0.1).sum()} of 20",
                )
            )
        rows += [
            (
                epsilon,
                popular[i][0],
                shares[i],
                estimates[0, i],
                1.96 * expected[i],
                observed[i],
                expected[i] / shares[i],
            )
            for i in range(20)
        ]
        panels.append((epsilon, estimates[0], expected, observed))

    def draw(figure: Any) -> None:
        axes = figure.subplots(2, 2)
        for (one, two), (epsilon, estimate, expected, observed) in zip(axes, panels, strict=True):
            one.bar(np.arange(20), 100 * shares, color="0.85", label="truth")
            one.errorbar(
                np.arange(20),
                100 * estimate,
                196 * expected,
                fmt="o",
                markersize=3,
                linewidth=1,
                label="one trial",
            )
            one.set_ylabel("tag (%)")
            two.plot(100 * shares, 100 * observed, "o", markersize=3.5, label="empirical")
            two.plot(100 * shares, 100 * expected / shares, "-", color="0.4", label="theory")
            two.set_ylabel("CV (%)")
            two.set_title(f"epsilon {epsilon}", fontsize=9)
            for ax in (one, two):
                ax.spines[["top", "right"]].set_visible(False)
        axes[1][0].set_xlabel("the 20 most frequent tags")
        axes[1][1].set_xlabel("true proportion (%)")
        axes[0][0].legend(fontsize=8, frameon=False)
        axes[0][1].legend(fontsize=8, frameon=False)

    header = ("epsilon", "tag", "truth", "one trial", "±", "CV", "CV by theory")
    return ExperimentOutcome(tuple(findings), header, tuple(rows), draw)


_EDGES = (50, 90, 110, 130)
_LENGTHS = ("0-50", "51-90", "91-110", "111-130", "131-140")


def _tweets(settings: SimpleNamespace, context: Context) -> NDArray[np.int64]:
    """Pairs of buckets, first length times 5 plus next, as the thesis's SQL returns them from a
    table with links."""
    random = context.random()
    # One author's lengths resemble each other: each is drawn from a latent number correlated with
    # the previous one.
    latent = random.normal(size=settings.rows + 1)
    memory = settings.memory
    latent[1:] = memory * latent[:-1] + math.sqrt(1 - memory**2) * latent[1:]
    order = latent.argsort().argsort() / latent.size
    lengths = (
        np.interp(order, (0, 0.28, 0.52, 0.68, 0.84, 1), (1, 50, 90, 110, 130, 140))
        .round()
        .astype(int)
    )
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE TABLE tweets (id INTEGER PRIMARY KEY, content TEXT, next INTEGER)"
        )
        made = ((i, "x" * n, i + 1) for i, n in enumerate(lengths.tolist()))
        connection.executemany("INSERT INTO tweets VALUES (?, ?, ?)", made)
        sql = (
            "SELECT length(a.content), length(b.content) FROM tweets AS a JOIN tweets AS b ON"
            " a.next = b.id"
        )
        pairs = np.array(connection.execute(sql).fetchall())
    buckets = np.searchsorted(_EDGES, pairs, side="left")
    return np.asarray(buckets[:, 0] * 5 + buckets[:, 1], dtype=np.int64)


def _figures_6_4(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    s, p, q = settings.parameters
    truth = _tweets(settings, context)
    shares = np.bincount(truth, minlength=25) / truth.size
    estimates = _trials(truth, 25, s, p, q, settings.trials, context, 1)
    expected = np.array([cv(share, truth.size, s, p, q) for share in shares]) * shares
    tables = estimates.reshape(-1, 5, 5)
    after = tables / tables.sum(axis=2, keepdims=True)
    true_after = shares.reshape(5, 5) / shares.reshape(5, 5).sum(axis=1, keepdims=True)
    scale = math.sqrt(truth.size / settings.paper_rows)
    before_cv = estimates.std(axis=0, ddof=1) / shares
    after_cv = after.std(axis=0, ddof=1) / true_after
    agree, ratio = _variances_agree(estimates, expected)
    means = after.mean(axis=0)
    slack = 1 + 4 / math.sqrt(2 * settings.trials)
    findings: list[Finding] = _privacy(s, p, q, 0.7, 1.42)
    findings += [
        Claim(
            "Empirical and theoretical variation coincide",
            agree,
            f"mean ratio of variances {ratio:.3f} over 25 buckets",
        ),
        Claim(
            "With 2,052,205 answers no bucket has a coefficient of variation above 10 %, before or"
            " after conditioning",
            max(before_cv.max(), after_cv.max()) * scale < 0.1 * slack,
            f"largest {100 * before_cv.max() * scale:.1f} % and"
            f" {100 * after_cv.max() * scale:.1f} %",
        ),
        Claim(
            "Conditioning on the first length has no great effect on the variation",
            0.8 < float((after_cv.reshape(-1) / before_cv).mean()) < 1.25,
            f"mean ratio {float((after_cv.reshape(-1) / before_cv).mean()):.2f}",
        ),
        Claim(
            "A long second tweet becomes more likely with the length of the first",
            bool((np.diff(means[:, 4]) > 0).all()),
        ),
        Claim(
            "A short second tweet becomes less likely with the length of the first",
            bool((np.diff(means[:, 0]) < 0).all()),
        ),
    ]
    rows = tuple(
        (
            _LENGTHS[i // 5],
            _LENGTHS[i % 5],
            shares[i],
            estimates[0, i],
            expected[i],
            before_cv[i],
            true_after[i // 5, i % 5],
            after[0, i // 5, i % 5],
            after_cv[i // 5, i % 5],
        )
        for i in range(25)
    )

    def draw(figure: Any) -> None:
        raw, conditional, variation = figure.subplots(1, 3, width_ratios=(1.3, 1.3, 1))
        raw.bar(np.arange(25), 100 * shares, color="0.85", label="truth")
        raw.errorbar(
            np.arange(25),
            100 * estimates[0],
            196 * expected,
            fmt="o",
            markersize=3,
            linewidth=1,
            label="one trial",
        )
        raw.set_xlabel("first length x next length")
        raw.set_ylabel("pairs (%)")
        raw.legend(fontsize=8, frameon=False)
        for i in range(5):
            conditional.plot(_LENGTHS, 100 * after[0, i], "o-", markersize=3, label=_LENGTHS[i])
            conditional.plot(_LENGTHS, 100 * true_after[i], ":", color=f"C{i}")
        conditional.tick_params(axis="x", labelsize=7, rotation=30)
        conditional.set_xlabel("next length (dotted: truth)")
        conditional.set_ylabel("given the first length (%)")
        conditional.legend(fontsize=7, frameon=False)
        variation.plot(100 * shares, 100 * before_cv, "o", markersize=3, label="pairs")
        variation.plot(
            100 * shares, 100 * after_cv.reshape(-1), "x", markersize=4, label="conditional"
        )
        order = np.argsort(shares)
        variation.plot(
            100 * shares[order], 100 * (expected / shares)[order], "-", color="0.4", label="theory"
        )
        variation.set_xlabel("pairs (%)")
        variation.set_ylabel("CV (%)")
        variation.legend(fontsize=7, frameon=False)
        for ax in (raw, conditional, variation):
            ax.spines[["top", "right"]].set_visible(False)

    header = (
        "first",
        "next",
        "truth",
        "one trial",
        "stderr by theory",
        "CV",
        "conditional truth",
        "conditional",
        "conditional CV",
    )
    return ExperimentOutcome(tuple(findings), header, rows, draw)


_TWEETS = {
    "rows": 2_052_205,
    "paper_rows": 2_052_205,
    "memory": 0.25,
    "parameters": (0.07, 0.87, 0.47),
    "trials": 100,
}

EXPERIMENTS = (
    Experiment(
        "lavengood-figure-6.3",
        PAPER,
        "Figure 6.3: hashtags through SQL",
        _figure_6_3,
        {
            "rows": 2_000_000,
            "paper_rows": 2_000_000,
            "tags": 5_000,
            "zipf": 1.05,
            "shift": 6,
            "trials": 100,
            "trials_of": ((0.05, 0.88, 0.37, 0.7, 1.41), (0.08, 0.94, 0.2, 2.0, 2.72)),
        },
        {"rows": 100_000, "trials": 40},
    ),
    Experiment(
        "lavengood-figure-6.4",
        PAPER,
        "Figures 6.4 to 6.6: two columns, conditional tables",
        _figures_6_4,
        _TWEETS,
        {"rows": 100_000, "trials": 40},
    ),
)
