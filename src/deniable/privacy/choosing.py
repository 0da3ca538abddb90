"""Which epsilon to choose: from what an attacker may come to believe, or from what a person is paid
for the risk.

Two rules of the literature, for an answer that is randomized on the device. Both bound the worst
case: an attacker who knows everything else, and a report that says as much as it can. Neither knows
about answers to other questions, so what they give is the whole budget of a person, for all answers
together.
"""

from __future__ import annotations

import math
from fractions import Fraction

from deniable.checks import check_double, check_finite
from deniable.errors import ParameterError
from deniable.mechanisms import exact

__all__ = ["belief_epsilon", "payment_epsilon"]


def belief_epsilon(prior: float, belief: float) -> float:
    """The largest epsilon at which an attacker who believed a secret with probability `prior` comes
    to believe it with at most `belief`: ln( belief (1 - prior) / (prior (1 - belief)) ).

    A report multiplies the odds of any statement about a person by at most exp(epsilon). Lee and
    Clifton (2011, How Much Is Enough?) bound the belief that somebody is in a table in this way;
    their n equally likely candidates are a prior of 1/n. Rounded down.

    >>> round(belief_epsilon(0.1, 0.25), 4)
    1.0986
    """
    before, after = check_double("prior", prior), check_double("belief", belief)
    for name, value in (("prior", before), ("belief", after)):
        if not 0 < value < 1:
            raise ParameterError(name, float(value), "must lie strictly between 0 and 1")
    if after <= before:
        raise ParameterError(
            "belief",
            belief,
            f"must be above prior = {prior}: no epsilon keeps an attacker from what is believed"
            " anyway",
        )
    return _log_down(after * (1 - before) / (before * (1 - after)))


def payment_epsilon(harm: float, probability: float, payment: float) -> float:
    """The largest epsilon at which `payment` makes good for the risk of taking part: ln( 1 +
    payment / (harm probability) ).

    `probability` is that of a harm that may happen to people who do not take part, and costs
    `harm`. Taking part multiplies it by at most exp(epsilon), so the expected cost grows by at most
    (exp(epsilon) - 1) harm probability. Hsu et al. (2014, Differential Privacy: An Economic Method
    for Choosing Epsilon), section 4. Rounded down.

    >>> round(payment_epsilon(harm=1000, probability=0.001, payment=2), 4)
    1.0986
    """
    chance = check_double("probability", probability)
    if not 0 < chance <= 1:
        raise ParameterError("probability", probability, "must be above 0 and at most 1")
    for name, value in (("harm", harm), ("payment", payment)):
        if check_finite(name, value) <= 0:
            raise ParameterError(name, value, "must be above 0")
    return _log_down(1 + Fraction(payment) / (Fraction(harm) * chance))


def _log_down(ratio: Fraction) -> float:
    return math.nextafter(exact.log_ratio(ratio), 0.0)
