"""The item sum technique: say only the sum of several numbers, one of which may be the sensitive
one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.mechanisms import solving

__all__ = ["ItemSum"]

_Floats = NDArray[np.float64]
_NOT_PRIVATE = (
    "no coin protects an answer: a sum of 0 gives all its numbers away, and epsilon is infinite"
)


@dataclass(frozen=True)
class ItemSum:
    """The mean of a sensitive number, such as hours of undeclared work, from the sums that two
    samples report.

    One sample adds up harmless numbers (the short list), the other these and the sensitive one (the
    long list). The mean is the difference of the two mean sums, and its variance s_long^2/n_long +
    s_short^2/n_short. As in a list experiment, **no coin protects a person**: `epsilon` is
    infinite. Trappmann, Krumpal, Kirchner and Jann, "Item sum: a new technique for asking
    quantitative sensitive questions", Journal of Survey Statistics and Methodology 2(1), 2014.

    >>> print(ItemSum().estimate(long=[12, 9, 15, 20, 7, 11], short=[8, 10, 9, 6, 12, 7]))
    mean   3.67   -1.26 to 8.59
    ItemSum(): 6 + 6 people; epsilon infinite
    intervals cover 95 %; standard errors by n - 1
    no coin protects an answer: a sum of 0 gives all its numbers away, and epsilon is infinite
    """

    names: ClassVar[tuple[str, ...]] = ("mean",)
    amounts: ClassVar[bool] = True
    power_values: ClassVar[int] = 3

    @property
    def epsilon(self) -> float:
        """Infinite: no randomness is involved."""
        return math.inf

    def estimate(self, *, long: Any, short: Any) -> solving.DesignEstimate:
        """The mean of the sensitive number, from the sums of both samples."""
        samples = [_sums(name, given) for name, given in (("long", long), ("short", short))]
        return self.estimate_moments(
            means=[float(part.mean()) for part in samples],
            deviations=[float(part.std(ddof=1)) for part in samples],
            n=[part.size for part in samples],
        )

    def estimate_moments(
        self, *, means: Sequence[float], deviations: Sequence[float], n: Sequence[int]
    ) -> solving.DesignEstimate:
        """The same from the mean sum, its standard deviation (by n - 1) and the people of the long
        list, then the short one."""
        for name, pair in (("means", means), ("deviations", deviations), ("n", n)):
            if len(pair) != 2 or not all(math.isfinite(value) for value in pair):
                raise ParameterError(
                    name,
                    list(pair),
                    "must be two finite numbers, of the long list and of the short one",
                )
        if min(deviations) < 0 or min(n) < 2:
            raise ParameterError(
                "n",
                list(n),
                "must be at least 2 people in each sample, with deviations of at least 0",
            )
        value = np.array([means[0] - means[1]])
        variances = [deviation**2 / people for deviation, people in zip(deviations, n, strict=True)]
        unbiased = sum(variances)
        by_n = sum(d**2 * (people - 1) / people**2 for d, people in zip(deviations, n, strict=True))
        covariances = {"n-1": np.array([[unbiased]]), "n": np.array([[by_n]])}
        return solving.DesignEstimate(
            repr(self),
            self.names,
            value,
            covariances,
            tuple(n),
            self.epsilon,
            notes=(_NOT_PRIVATE,),
            proportions=False,
            degrees=(float(solving.welch_degrees(variances, [people - 1 for people in n])),),
        )

    def expected_stderr(
        self,
        n: Sequence[float],
        mean: float,
        deviation: float,
        harmless: float,
        parameter: str = "mean",
    ) -> float:
        """The standard error from `n` people with the long and with the short list.

        `deviation` is the standard deviation of the sensitive number, `harmless` that of the sum of
        the others, taken to be independent; the error does not depend on the `mean`.
        """
        if parameter != "mean":
            raise ParameterError("parameter", parameter, "must be 'mean'")
        long, short = n
        return math.sqrt((deviation**2 + harmless**2) / long + harmless**2 / short)


def _sums(name: str, given: Any) -> _Floats:
    try:
        sums = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(name, type(given).__name__, "must hold numbers only") from None
    if sums.ndim != 1 or sums.size < 2 or not np.isfinite(sums).all():
        raise ParameterError(
            f"{name}.shape", sums.shape, "must be a column of at least 2 finite numbers"
        )
    return sums
