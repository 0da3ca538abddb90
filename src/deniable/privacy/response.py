"""What one answer gives away: one bit, a whole answer, and to anyone who cannot tell who took part.

Two coins (Quoc et al. 2017, Lavengood 2017): tell the truth with probability p, else say 1 with
probability q, so that a = P(1|1) = p + (1 - p) q and b = P(1|0) = (1 - p) q. With probability s a
client answers at all.

Every function takes p, q and s as the doubles they are and computes exactly; what is returned is
the smallest double that is not below the true loss, so no figure here is ever an understatement,
not even by rounding. The inverses round the other way.
"""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.checks import check_count, check_loss, check_proportion
from deniable.errors import ParameterError
from deniable.mechanisms import exact

__all__ = [
    "answer_epsilon",
    "bit_epsilon",
    "largest_sampling",
    "local_epsilon",
    "one_pair_channel",
    "one_pair_delta",
    "participation",
    "quoc_one_sided_epsilon",
    "sampled_epsilon",
    "zero_knowledge_epsilon",
]


def _pair(p: float, q: float) -> tuple[Fraction, Fraction]:
    """a = P(1|1) and b = P(1|0)."""
    truthful, yes = Fraction(check_proportion("p", p)), Fraction(check_proportion("q", q))
    b = (1 - truthful) * yes
    return b + truthful, b


def _log_quotient(above: Fraction, below: Fraction) -> float:
    if above == below:
        return 0.0
    return exact.log_ratio(above / below) if below else math.inf


def bit_epsilon(p: float, q: float) -> float:
    """The loss of one reported bit: ln max( a/b, (1 - b)/(1 - a) ).

    Both ratios count, because a "no" can reveal more than a "yes". It is the loss of an answer only
    if the answer *is* one bit, as for a yes/no question; for anything longer use
    :func:`answer_epsilon`. Lavengood 2017, equation 2.5.

    >>> round(bit_epsilon(0.5, 0.5), 4)
    1.0986
    >>> bit_epsilon(0.0, 0.5), bit_epsilon(1.0, 0.5)
    (0.0, inf)
    """
    a, b = _pair(p, q)
    return max(_log_quotient(a, b), _log_quotient(1 - b, 1 - a))


def answer_epsilon(p: float, q: float, ones: int = 1) -> float:
    """The loss of a whole answer of several bits with at most `ones` ones: ones * ln( a (1 - b) /
    (b (1 - a)) ).

    Another answer differs in up to 2 * `ones` bits, half of them cleared and half set. Quoc et al.
    and Lavengood quote the smaller per-bit figure for whole answers.

    >>> round(answer_epsilon(0.5, 0.5), 4)  # one-hot: twice the bit's
    2.1972
    >>> answer_epsilon(0.0, 0.3, ones=4)
    0.0
    """
    count = check_count("ones", ones)
    a, b = _pair(p, q)
    if a == b:
        return 0.0
    if not b or a == 1:
        return math.inf
    return exact.log_ratio(a * (1 - b) / (b * (1 - a)), count)


def one_pair_channel(buckets: int, p: float, q: float) -> list[list[Fraction]]:
    """P[report][bucket] if one pair of coins decides about a whole answer, exactly: with
    probability p the true bits are sent, otherwise all ones with probability q, or all zeros.

    The reports are the answers in each of the buckets, then all ones, then all zeros. Quoc et al.
    2017, Algorithm 1, as it is printed.

    >>> [[str(x) for x in row] for row in one_pair_channel(2, 0.5, 0.25)]
    [['1/2', '0'], ['0', '1/2'], ['1/8', '1/8'], ['3/8', '3/8']]
    """
    count = check_count("buckets", buckets)
    if count < 2:
        raise ParameterError(
            "buckets", buckets, "must be at least 2: a yes or no has one bit, and one pair of coins"
        )
    truthful, b = Fraction(check_proportion("p", p)), _pair(p, q)[1]
    true = [[truthful * (i == j) for j in range(count)] for i in range(count)]
    return [*true, [b] * count, [1 - truthful - b] * count]


def one_pair_delta(buckets: int, p: float, q: float, epsilon: float) -> float:
    """The probability with which one pair of coins for a whole answer loses more than any
    `epsilon`: the exact delta of (epsilon, delta), which is p, whatever the epsilon is.

    A report with a single 1 was sent by nobody in another bucket, so no epsilon bounds the loss.
    Coins for each bit have no such report: :func:`answer_epsilon`.

    >>> one_pair_delta(11, 0.5, 0.5, epsilon=3.0)
    0.5
    """
    check_loss("epsilon", epsilon)
    first, second = zip(*(row[:2] for row in one_pair_channel(buckets, p, q)), strict=True)
    # where both columns have the same entry, or the second has none, no power of e is needed
    excess = sum((x for x, y in zip(first, second, strict=True) if not y), start=Fraction(0))
    return float(excess)


def quoc_one_sided_epsilon(p: float, q: float) -> float:
    """The loss as Quoc et al. 2017 state it in equation 8, ln(a/b): for comparison with their
    tables only.

    It ignores what a "no" gives away, and so understates the loss if q > 1/2.

    >>> round(quoc_one_sided_epsilon(0.3, 0.9), 4), round(bit_epsilon(0.3, 0.9), 4)
    (0.3895, 1.665)
    """
    return _log_quotient(*_pair(p, q))


def sampled_epsilon(epsilon: float, s: float) -> float:
    """The formula for sampling, ln( 1 + s (e^epsilon - 1) ): no bound by itself, but what a large
    crowd is at least held to.

    It would be the loss to anyone who cannot tell who took part, if each client does with
    probability `s` and the reports of the others never told. They do: a report is there or it is
    not, and in a small crowd that is telling. :func:`~deniable.privacy.crowd.crowd_delta` gives the
    probability with which a report loses more, in a crowd of a given size, and
    :class:`~deniable.privacy.release_accountant.Releases` the figure that is stated. Anyone who
    sees who took part (a proxy, the network) faces the local epsilon. Li, Qardaji and Su 2012,
    theorem 1; Balle, Barthe and Gaboardi 2018, theorem 8.

    >>> round(sampled_epsilon(2.0, 0.1), 4)
    0.494
    >>> sampled_epsilon(2.0, 1), sampled_epsilon(0.0, 0.3), sampled_epsilon(2.0, 0)
    (2.0, 0.0, 0.0)
    """
    loss, proportion = check_loss("epsilon", epsilon), check_proportion("s", s)
    if proportion in (0, 1) or loss in (0, math.inf):
        return loss if proportion else 0.0
    return exact.log_ratio(1 + Fraction(proportion) * (exact.exp(loss) - 1))


def participation(s: float, epochs: int) -> float:
    """The probability of taking part in at least one of `epochs` epochs, with a coin of `s` in
    each: 1 - (1 - s)^epochs.

    Rounded up, like a loss.

    >>> participation(0.05, 1), round(participation(0.05, 365), 9)
    (0.05, 0.999999993)
    """
    proportion, count = check_proportion("s", s), check_count("epochs", epochs)
    if count == 1 or proportion in (0, 1):
        return proportion
    return min(-math.expm1(count * math.log1p(-proportion)) * (1 + 1e-12), 1.0)


def zero_knowledge_epsilon(epsilon: float, s: float) -> float:
    """The zero-knowledge loss with respect to i.i.d. sampling: ln( s (2 - s)/(1 - s) * e^epsilon +
    1 - s ).

    Whatever the analyst learns about a person could, up to this, have been learned from a random
    sample of the others. With s = 1 there is no such sample: `inf`. Gehrke et al. 2012, theorem 1,
    which has an additive delta of e^-Omega(k (1 - s)^2) in a crowd of k: Quoc et al. 2017, theorem
    C.4, leave it out, and its constant is not stated. Lavengood's quoted figures carry an extra "1
    +" inside the logarithm.

    >>> round(zero_knowledge_epsilon(bit_epsilon(0.88, 0.37), 0.05), 3)
    1.127
    >>> zero_knowledge_epsilon(1.0, 1)
    inf
    """
    loss, proportion = check_loss("epsilon", epsilon), Fraction(check_proportion("s", s))
    if proportion == 0:
        return 0.0
    if proportion == 1 or loss == math.inf:
        return math.inf
    return exact.log_ratio(
        proportion * (2 - proportion) / (1 - proportion) * exact.exp(loss) + 1 - proportion
    )


def local_epsilon(sampled: float, s: float) -> float:
    """The largest local epsilon whose sampled epsilon is at most `sampled`: ln( 1 + (e^sampled -
    1)/s ), rounded down.

    >>> round(local_epsilon(0.7, 0.05), 4)
    3.0575
    >>> local_epsilon(0.7, 1)
    0.7
    """
    loss, proportion = check_loss("sampled", sampled), check_proportion("s", s)
    if proportion == 0:
        return math.inf
    if proportion == 1 or loss in (0, math.inf):
        return loss
    ratio = 1 + (exact.exp(loss) - 1) / Fraction(proportion)
    rounded = exact.log_ratio(ratio)
    return rounded if exact.exp(rounded) <= ratio else math.nextafter(rounded, 0)


def largest_sampling(epsilon: float, sampled: float) -> float:
    """The largest s at which the sampled epsilon is at most `sampled`: (e^sampled - 1)/(e^epsilon -
    1), rounded down.

    >>> round(largest_sampling(2.0, 0.5), 4)
    0.1015
    >>> largest_sampling(1.0, 3.0)  # everybody may answer
    1.0
    """
    loss, wanted = check_loss("epsilon", epsilon), check_loss("sampled", sampled)
    if loss <= wanted:
        return 1.0
    if loss == math.inf:
        raise ParameterError(
            "epsilon", epsilon, "must be finite: no sampling makes up for an answer without privacy"
        )
    proportion = (exact.exp(wanted) - 1) / (exact.exp(loss) - 1)
    rounded = float(proportion)
    return rounded if Fraction(rounded) <= proportion else math.nextafter(rounded, 0)
