"""What an answer gives away once it has been shuffled among the others'.

Feldman, McMillan and Talwar, "Hiding among the clones", FOCS 2021. Each of the other n - 1 reports
is, with probability e^-epsilon, a *clone*: a draw that could just as well have come from the
person's answer, or from the alternative. The shuffled reports reveal no more than the number of
clones of each kind, so the loss is at most that between two distributions (section 3, proof of
theorem 3.1):

    C ~ Binomial(n - 1, e^-epsilon),  A ~ Binomial(C, 1/2),  D ~ Bernoulli(e^epsilon / (e^epsilon + 1)),
    (A + D, C - A + 1 - D)   against   (A + 1 - D, C - A + D).

The general bound of their 2023 paper is not used: it has an erratum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_count, check_delta, check_loss
from deniable.errors import ParameterError
from deniable.numerics import boundary

__all__ = ["shuffled_delta", "shuffled_epsilon", "shuffled_epsilon_closed_form"]

_IGNORED = 1e-6
"""The part of delta reserved for ignoring improbable numbers of clones."""
_SLACK = 1e-8
"""Far above the relative error of the binomial functions: added, so that the figure stays an upper
bound."""
_BLOCKS = 8192
_NO_CLONES = 700.0
"""Above this loss, practically no report is a clone, and shuffling gains nothing."""


def shuffled_epsilon_closed_form(epsilon: float, n: int, delta: float) -> float:
    """The loss of a shuffled report among `n`, except with probability `delta`, by the theorem's
    formula: the smaller of epsilon and ln( 1 + (E - 1)/(E + 1) * (8 sqrt(E ln(4/delta) / n) + 8 E /
    n) ), E = e^epsilon.

    Needs epsilon <= ln( n / (16 ln(2/delta)) ). Feldman, McMillan and Talwar 2021, theorem 3.1.

    >>> round(shuffled_epsilon_closed_form(1.0, 100_000, 1e-6), 4)
    0.0726
    """
    loss, count, slack = check_loss("epsilon", epsilon), check_count("n", n), check_delta(delta)
    if loss == 0 or slack == 0:
        return loss
    largest = math.log(count / (16 * (math.log(2) - math.log(slack))))
    if loss > largest:
        needed = math.ceil(16 * (math.log(2) - math.log(slack)) * math.exp(min(loss, 700)))
        raise ParameterError(
            "epsilon",
            epsilon,
            f"must be at most ln(n/(16 ln(2/delta))) = {largest:.4g}: the theorem needs {needed:,}"
            " reports",
        )
    growth = math.exp(loss)
    spread = 8 * math.sqrt(growth * (math.log(4) - math.log(slack)) / count) + 8 * growth / count
    return min(loss, math.log1p((growth - 1) / (growth + 1) * spread))


def shuffled_delta(epsilon: float, n: int, promised: float) -> float:
    """The probability that a report of local loss `epsilon`, shuffled among `n`, loses more than
    `promised`: an upper bound.

    With E = e^epsilon and g = e^promised: given c clones, the likelihood ratio exceeds g where the
    first count is at least t = floor( (c + 1) (g E - 1) / ((E - 1)(g + 1)) ) + 1, and there one
    distribution exceeds g times the other by (E - g)/(E + 1) P(A = t - 1) - (g - 1) P(A >= t).

    >>> shuffled_delta(1.0, 10, 1.0)
    0.0
    """
    loss, count, wanted = (
        check_loss("epsilon", epsilon),
        check_count("n", n),
        check_loss("promised", promised),
    )
    if loss > _NO_CLONES:
        return float(wanted < loss)
    return (
        0.0 if wanted >= loss else _excess(loss, wanted, _clones(loss, count, _IGNORED * _IGNORED))
    )


def shuffled_epsilon(epsilon: float, n: int, delta: float) -> float:
    """The loss of a shuffled report among `n`, except with probability `delta`: from the clones,
    tighter than the formula.

    An upper bound for every local randomizer of loss `epsilon`, and never above `epsilon` itself.

    >>> round(shuffled_epsilon(1.0, 100_000, 1e-6), 3)
    0.015
    """
    loss, count, slack = check_loss("epsilon", epsilon), check_count("n", n), check_delta(delta)
    if slack == 0 or loss == 0 or loss > _NO_CLONES:
        return loss
    clones = _clones(loss, count, _IGNORED * slack)
    return boundary(
        lambda x: _excess(loss, x, clones) <= slack, 0.0, loss, tolerance=1e-12, relative=1e-6
    )


class _Clones(NamedTuple):
    """The numbers of clones with their probabilities; and the probability of all numbers left
    out."""

    numbers: NDArray[np.int64]
    chances: NDArray[np.float64]
    unseen: float


def _clones(loss: float, n: int, ignored: float) -> _Clones:
    """The likely numbers of clones: one by one or, if there are very many, in blocks that count as
    their smallest number.

    More clones never reveal more, because one can be added by tossing a coin, so a block's smallest
    number gives an upper bound.
    """
    from scipy.stats import binom  # noqa: PLC0415 - slow to import, and nothing else here needs it

    law = binom(n - 1, math.exp(-loss))
    fewest, most = int(law.ppf(ignored / 2)), int(law.isf(ignored / 2))
    starts = np.unique(
        np.linspace(0, most - fewest, min(most - fewest + 1, _BLOCKS)).astype(np.int64)
    )
    chances = np.add.reduceat(law.pmf(np.arange(fewest, most + 1)), starts)
    return _Clones(starts + fewest, chances, float(law.cdf(fewest - 1) + law.sf(most)))


def _excess(loss: float, promised: float, clones: _Clones) -> float:
    from scipy.stats import binom  # noqa: PLC0415 - see above

    growth, g = math.exp(loss), math.exp(promised)
    c = clones.numbers
    threshold = np.floor((c + 1) * ((g * growth - 1) / ((growth - 1) * (g + 1)))) + 1
    gained = (growth - g) / (growth + 1) * binom.pmf(threshold - 1, c, 0.5)
    lost = (g - 1) * binom.sf(threshold - 1, c, 0.5)
    return clones.unseen + float(
        clones.chances @ (np.maximum(gained - lost, 0) + _SLACK * (gained + lost))
    )
