"""PrivApprox (Quoc et al. 2017): the accuracy loss of sampled randomized response, by simulation
and by formula.

The paper's accuracy loss is |estimate - y|/y, where y is the proportion that answers were drawn
with, averaged over 100 trials. Each such average has a relative standard error of 7.6 %: the
absolute value of a normal number has a standard deviation of 0.756 times its mean.
"""

from __future__ import annotations

import math

import numpy as np

from deniable.mechanisms.protocols.binary import BinaryResponse
from deniable.reproduce.experiment import Context, Measured

__all__ = ["FINE", "PAPER", "accuracy_loss", "expected_loss", "largest_deviation", "paper_error"]

FINE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PAPER = "Quoc et al. 2017"
SPREAD = math.sqrt(math.pi / 2 - 1)
"""The standard deviation of |x| divided by its mean, for normal x."""
PAPER_TRIALS = 100


def accuracy_loss(
    y: float, clients: int, s: float, p: float, q: float, trials: int, context: Context, salt: int
) -> tuple[float, float]:
    """The mean of |estimate - y|/y with its standard error: each trial draws everyone's answer, who
    takes part, and the coins."""
    random, source = context.random(salt), context.source(salt)
    mechanism = BinaryResponse(p, q) if p < 1 else None
    losses = []
    for _ in range(trials):
        answers = (random.random(int(random.binomial(clients, s))) < y).astype(np.int64)
        found = (
            answers.mean()
            if mechanism is None
            else mechanism.estimate(mechanism.privatize(answers, source)).proportions[1]
        )
        losses.append(abs(float(found) - y) / y)
    return float(np.mean(losses)), float(np.std(losses, ddof=1)) / math.sqrt(trials)


def expected_loss(y: float, clients: float, s: float, p: float, q: float) -> float:
    """The same by theory: the error is normal with variance lam (1 - lam)/(p^2 s N), lam = p y + (1
    - p) q."""
    lam = p * y + (1 - p) * q
    return math.sqrt(2 / math.pi * lam * (1 - lam) / (s * clients)) / (p * y)


def paper_error(loss: float, trials: int = PAPER_TRIALS) -> float:
    """The standard error of an average of the paper's trials whose expectation is `loss`."""
    return SPREAD * loss / math.sqrt(trials)


def largest_deviation(losses: Measured) -> float:
    """The largest deviation of the simulated loss from theory, in standard errors."""
    columns = (losses.column(name) for name in ("loss", "stderr", "theory"))
    deviations = (
        abs(loss - theory) / stderr for loss, stderr, theory in zip(*columns, strict=True)
    )
    return float(max(deviations))
