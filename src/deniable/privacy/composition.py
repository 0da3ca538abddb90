"""What several answers about the same person give away together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from deniable.checks import check_count, check_delta, check_loss, check_probability
from deniable.errors import ParameterError
from deniable.mechanisms import exact

__all__ = [
    "advanced_composition",
    "budget_per_answer",
    "memoized_epsilon",
    "optimal_composition",
    "rappor_lifetime_epsilon",
    "rappor_report_epsilon",
    "repeated_epsilon",
    "sequential_composition",
]


def _decimal(loss: float) -> Fraction:
    """The loss as the decimal it prints as: ten answers of 0.1 spend 1, not the 1.00000000000000005
    of their doubles."""
    return Fraction(repr(loss))


def _rounded_up(total: Fraction) -> float:
    try:
        rounded = float(total)
    except OverflowError:
        return math.inf
    return rounded if _decimal(rounded) >= total else math.nextafter(rounded, math.inf)


def sequential_composition(epsilons: Iterable[float]) -> float:
    """The loss of all answers together: the sum of their losses, however they were randomized.

    Dwork et al. 2006; Dwork and Roth 2014, theorem 3.16.

    >>> sequential_composition([0.1] * 10)
    1.0
    >>> sequential_composition([])
    0.0
    """
    losses = [check_loss("epsilon", epsilon) for epsilon in epsilons]
    if math.inf in losses:
        return math.inf
    return _rounded_up(sum(map(_decimal, losses), Fraction()))


def repeated_epsilon(epsilon: float, answers: int) -> float:
    """The loss of `answers` answers of `epsilon` each: their sum.

    >>> repeated_epsilon(0.1, 3)
    0.3
    """
    loss, count = check_loss("epsilon", epsilon), check_count("answers", answers)
    return math.inf if loss == math.inf else _rounded_up(_decimal(loss) * count)


def budget_per_answer(epsilon: float, answers: int) -> float:
    """The largest loss that each of `answers` answers may have if all together may lose `epsilon`.

    >>> budget_per_answer(1.0, 4)
    0.25
    """
    loss, count = check_loss("epsilon", epsilon), check_count("answers", answers)
    each = loss / count
    return (
        math.nextafter(each, 0)
        if loss != math.inf and _decimal(each) * count > _decimal(loss)
        else each
    )


def advanced_composition(epsilon: float, answers: int, delta: float) -> float:
    """The loss of `answers` answers of `epsilon` each, except with probability `delta`: the smaller
    of the plain sum and epsilon sqrt(2 k ln(1/delta)) + k epsilon (e^epsilon - 1).

    Dwork, Rothblum and Vadhan 2010, theorem III.3 (with pure answers). :func:`optimal_composition`
    is never larger.

    >>> round(advanced_composition(0.01, 1000, 1e-6), 3)  # 10 by the plain sum
    1.763
    """
    loss, count, slack = (
        check_loss("epsilon", epsilon),
        check_count("answers", answers),
        check_delta(delta),
    )
    # beyond 1 the second term alone exceeds the sum
    if slack == 0 or loss in (0, math.inf) or loss > 1:
        return repeated_epsilon(loss, count)
    return min(
        count * loss,
        loss * math.sqrt(2 * count * math.log(1 / slack)) + count * loss * math.expm1(loss),
    )


def optimal_composition(epsilon: float, answers: int, delta: float) -> float:
    """The smallest loss that can be guaranteed for `answers` answers of `epsilon` each, except with
    probability `delta`.

    The worst answers are k two-sided coins. With P_m and Q_m the probabilities that at most m of
    them fall on the improbable side, under one truth and the other, the loss is max over m of ln(
    (P_m - delta) / Q_m ). Kairouz, Oh and Viswanath 2015, theorem 3.3, solved for epsilon.

    >>> round(optimal_composition(0.01, 1000, 1e-6), 3)
    1.365
    >>> round(optimal_composition(0.5, 3, 0.0), 12)
    1.5
    """
    loss, count, slack = (
        check_loss("epsilon", epsilon),
        check_count("answers", answers),
        check_delta(delta),
    )
    if slack == 0 or loss in (0, math.inf):
        return repeated_epsilon(loss, count)
    side = np.arange(count + 1)
    log_factorial = np.array([math.lgamma(i + 1.0) for i in range(count + 1)])
    ways = log_factorial[-1] - log_factorial - log_factorial[::-1]
    normal = -count * np.logaddexp(0.0, loss)
    likely = np.logaddexp.accumulate(ways + normal + (count - side) * loss)
    unlikely = np.logaddexp.accumulate(ways + normal + side * loss)
    seen = likely > math.log(slack)
    if not seen.any():
        return 0.0
    bound = likely[seen] + np.log1p(-np.exp(math.log(slack) - likely[seen])) - unlikely[seen]
    return float(min(max(bound.max(), 0.0), count * loss))


def memoized_epsilon(permanent_epsilon: float, distinct_answers: int) -> float:
    """The lifetime loss if the randomized answer is drawn once per true answer and then replayed.

    Replays reveal nothing new, so the loss is that of the permanent draw times the number of
    *distinct* true answers, however many epochs there are. Erlingsson, Pihur and Korolova 2014,
    section 3.

    >>> memoized_epsilon(1.0, 2)
    2.0
    """
    return repeated_epsilon(
        check_loss("permanent_epsilon", permanent_epsilon),
        check_count("distinct_answers", distinct_answers),
    )


def rappor_lifetime_epsilon(f: float, hashes: int = 1) -> float:
    """What all reports ever made of one value give away under RAPPOR: 2 h ln( (1 - f/2) / (f/2) ).

    A permanent bit is kept with probability 1 - f/2 and flipped with f/2; two values differ in 2 h
    bits. Erlingsson, Pihur and Korolova 2014, theorem 1.

    >>> round(rappor_lifetime_epsilon(0.5), 4)
    2.1972
    """
    half = check_probability("f", f) / 2
    return exact.log_ratio((1 - half) / half, 2 * check_count("hashes", hashes))


def rappor_report_epsilon(f: float, p: float, q: float, hashes: int = 1) -> float:
    """What one RAPPOR report gives away: h ln( q* (1 - p*) / (p* (1 - q*)) ).

    q* = f (p + q)/2 + (1 - f) q and p* = f (p + q)/2 + (1 - f) p, where a report's bit is 1 with
    probability q if the permanent bit is 1 and p if it is 0, p < q. Erlingsson, Pihur and Korolova
    2014, theorem 2.

    >>> round(rappor_report_epsilon(0.5, 0.5, 0.75, hashes=2), 4)
    1.0743
    """
    noise, low, high = (
        check_probability("f", f),
        check_probability("p", p),
        check_probability("q", q),
    )
    if low > high:
        raise ParameterError("q", q, f"must be at least p = {p!r}")
    mixed = noise * (low + high) / 2
    one, zero = mixed + (1 - noise) * high, mixed + (1 - noise) * low
    return exact.log_ratio(one * (1 - zero) / (zero * (1 - one)), check_count("hashes", hashes))
