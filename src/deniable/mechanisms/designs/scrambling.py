"""Quantitative scrambling: report the number multiplied, shifted or replaced by a random one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import AnswerTypeError, MissingAnswerError, ParameterError
from deniable.mechanisms import solving
from deniable.mechanisms.designs.design import draw_exactly, drawable
from deniable.mechanisms.designs.parameters import chance
from deniable.mechanisms.domain import column, numbers
from deniable.randomness import Source, source_or_system

__all__ = ["Deck", "Scrambling"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Deck:
    """Numbers on cards, each with its exact probability, from which a respondent draws a multiplier
    or an addend."""

    numbers: tuple[float, ...]
    chances: tuple[Fraction, ...]

    @classmethod
    def of(cls, name: str, given: Any) -> Deck:
        """A deck from one number, a list of equally likely ones, or a mapping from numbers to
        probabilities."""
        if isinstance(given, Deck):
            return given
        if isinstance(given, int | float | Fraction) and not isinstance(given, bool):
            return cls((float(given),), (Fraction(1),))
        if isinstance(given, Mapping):
            chances = tuple(chance(name, p, edges=True) for p in given.values())
            values = tuple(float(x) for x in given)
        else:
            values = tuple(float(x) for x in given)
            chances = (Fraction(1, max(len(values), 1)),) * len(values)
        if not values or sum(chances) != 1 or not all(map(math.isfinite, values)):
            raise ParameterError(name, given, "must be finite numbers whose probabilities sum to 1")
        return cls(values, chances)

    @property
    def mean(self) -> float:
        """Expected number."""
        return self.moment(1)

    @lru_cache  # noqa: B019 - decks are small and few
    def moment(self, power: int) -> float:
        """Expected power of the number."""
        return float(
            sum(Fraction(x) ** power * p for x, p in zip(self.numbers, self.chances, strict=True))
        )

    def draw(self, n: int, source: Source) -> _Floats:
        """`n` cards, with replacement."""
        if len(self.numbers) == 1:
            return np.full(n, self.numbers[0])
        return np.array(self.numbers)[
            draw_exactly(drawable([self.chances]), np.zeros(n, dtype=np.intp), source)
        ]


_ZERO, _ONE = Deck((0.0,), (Fraction(1),)), Deck((1.0,), (Fraction(1),))


@dataclass(frozen=True)
class Scrambling:
    """Means and variances of a number that people report, at random, as it is, as W y + U, or as S.

    With probability `truth` a person reports the true y, with probability `substituted` an
    unrelated number S, and otherwise W y + U, with W, U and S drawn from known decks. r = (z - p2
    mU - p3 mS)/(p1 + p2 mW) is an unbiased guess of one person's y, and its mean one of the
    population mean. :meth:`additive` (Pollock and Bek 1976: y + U), :meth:`multiplicative`
    (Eichhorn and Hayre 1983: W y) and :meth:`optional` (truth, or S: BarLev, Bobovitch and Boukai
    2004's family) are the usual forms.

    **Epsilon is infinite**: cards from a finite deck exclude values too far from the report, and a
    multiplied 0 stays 0. :class:`~deniable.SquareWave` has a finite one.

    >>> import numpy as np
    >>> from deniable import seeded_source
    >>> incomes = Scrambling.multiplicative([0.5, 1.0, 1.5])
    >>> reports = incomes.privatize(np.repeat([20.0, 30.0, 50.0], 400), seeded_source(1))
    >>> estimate = incomes.estimate(reports)
    >>> abs(estimate["mean"].value - 100 / 3) < 3 * estimate["mean"].stderr
    True
    """

    truth: Any = 0
    substituted: Any = 0
    multiplier: Any = field(default=_ONE)
    addend: Any = field(default=_ZERO)
    substitute: Any = field(default=_ZERO)

    def __post_init__(self) -> None:
        truth, substituted = (
            chance("truth", self.truth, edges=True),
            chance("substituted", self.substituted, edges=True),
        )
        if truth + substituted > 1:
            raise ParameterError(
                "substituted", self.substituted, f"must be at most 1 - truth = {1 - truth}"
            )
        for name, value in (("truth", truth), ("substituted", substituted)):
            object.__setattr__(self, name, value)
        for name in ("multiplier", "addend", "substitute"):
            object.__setattr__(self, name, Deck.of(name, getattr(self, name)))
        if self._slope == 0:
            raise ParameterError(
                "multiplier",
                self.multiplier.mean,
                "leaves nothing of the true number in the mean report",
            )

    @classmethod
    def additive(cls, addend: Any) -> Scrambling:
        """Everyone reports y + U."""
        return cls(addend=addend)

    @classmethod
    def multiplicative(cls, multiplier: Any) -> Scrambling:
        """Everyone reports W y."""
        return cls(multiplier=multiplier)

    @classmethod
    def optional(cls, truth: Any, substitute: Any) -> Scrambling:
        """y with probability `truth`, else S."""
        return cls(truth=truth, substituted=1 - chance("truth", truth), substitute=substitute)

    @property
    def epsilon(self) -> float:
        """Infinite: a report excludes true numbers."""
        return math.inf

    @property
    def _scrambled(self) -> float:
        return float(1 - self.truth - self.substituted)

    @property
    def _slope(self) -> float:
        return float(self.truth) + self._scrambled * float(self.multiplier.mean)

    @property
    def _offset(self) -> float:
        return self._scrambled * float(self.addend.mean) + float(self.substituted) * float(
            self.substitute.mean
        )

    def privatize(self, values: Any, source: Source | None = None) -> _Floats:
        """What people with these numbers report."""
        array = numbers(column(values))
        if array.dtype.kind not in "fiu":
            raise AnswerTypeError(None if array.size == 0 else 0, "is not a number")
        true = array.astype(np.float64)
        if np.isnan(true).any():
            raise MissingAnswerError(int(np.isnan(true).argmax()), "is missing (NaN or null)")
        coins = source_or_system(source)
        chances = [[self.truth, self.substituted, 1 - self.truth - self.substituted]]
        which = draw_exactly(drawable(chances), np.zeros(true.size, dtype=np.intp), coins)
        scrambled = self.multiplier.draw(true.size, coins) * true + self.addend.draw(
            true.size, coins
        )
        return np.choose(which, [true, self.substitute.draw(true.size, coins), scrambled])

    def guesses(self, reports: Any) -> _Floats:
        """For each report, an unbiased guess of the true number, with too large a variance to judge
        a person by."""
        return np.asarray((_finite_reports(reports) - self._offset) / self._slope)

    def square_guesses(self, reports: Any) -> _Floats:
        """For each report, an unbiased guess of the true number's square: not the square of the
        guess, which is too large."""
        z = _finite_reports(reports)
        p1, p2, p3 = float(self.truth), self._scrambled, float(self.substituted)
        w, u, s = self.multiplier, self.addend, self.substitute
        known = p2 * u.moment(2) + p3 * s.moment(2)
        return np.asarray(
            (z**2 - 2 * p2 * w.mean * u.mean * self.guesses(z) - known) / (p1 + p2 * w.moment(2))
        )

    def report_variance(self, value: float) -> float:
        """The variance of one person's guess, given the true number: (A y^2 + B y + C)/(p1 + p2
        mW)^2."""
        p1, p2, p3 = float(self.truth), self._scrambled, float(self.substituted)
        w, u, s = self.multiplier, self.addend, self.substitute
        square = p1 + p2 * w.moment(2) - self._slope**2
        linear = 2 * p2 * w.mean * u.mean - 2 * self._slope * self._offset
        constant = p2 * u.moment(2) + p3 * s.moment(2) - self._offset**2
        return float(square * value**2 + linear * value + constant) / self._slope**2

    def estimate(self, reports: Any, population: int | None = None) -> solving.DesignEstimate:
        """The mean and the variance of the true numbers, with standard errors.

        From the first two moments of the reports: E z = p1 m + p2(mW m + mU) + p3 mS and E z^2 = p1
        m2 + p2(E W^2 m2 + 2 mW mU m + E U^2) + p3 E S^2, where m and m2 are those of y. Errors are
        by the delta method from the sample covariance of z and z^2, and intervals are corrected for
        skewness. In a finite population the sampling part of the mean's error is that of a sample
        without replacement.
        """
        z = _finite_reports(reports)
        n = z.size
        if n < 2:
            raise ParameterError("len(reports)", n, "must be at least 2")
        p1, p2, p3 = float(self.truth), self._scrambled, float(self.substituted)
        w, u, s = self.multiplier, self.addend, self.substitute
        scale = p1 + p2 * w.moment(2)
        mean = (float(z.mean()) - self._offset) / self._slope
        cross = 2 * p2 * w.mean * u.mean
        second = (float((z**2).mean()) - cross * mean - p2 * u.moment(2) - p3 * s.moment(2)) / scale
        centre = float(z.mean())  # moments around it: the squares of large numbers would cancel
        shifted = np.column_stack([z - centre, (z - centre) ** 2])
        spread = np.cov(shifted.T)
        to_mean = np.array([1 / self._slope, 0.0])
        of_square = np.array([2 * centre, 1.0])  # z^2 = (z - c)^2 + 2 c (z - c) + c^2
        to_variance = (of_square - cross * to_mean) / scale - 2 * mean * to_mean
        gradient = np.vstack([to_mean, to_variance])
        variance = second - mean**2
        covariances = {}
        for kind, divisor in (("n-1", n), ("n", n * n / (n - 1))):
            covariance = gradient @ spread @ gradient.T / divisor
            if population is not None:
                covariance[0, 0] -= max(variance, 0.0) / population
            covariances[kind] = covariance
        notes = ["epsilon is infinite: a report excludes true numbers that no card leads to"]
        if variance < 0:
            notes.append("the estimated variance is negative: too few reports for it")
        return solving.DesignEstimate(
            design=str(self),
            names=("mean", "variance"),
            values=np.array([mean, variance]),
            covariances=covariances,
            n=(n,),
            epsilon=math.inf,
            notes=tuple(notes),
            population=population,
            proportions=False,
            shapes=_shapes(shifted @ gradient.T),
        )

    def expected_stderr(self, n: int, mean: float, spread: float, parameter: str = "mean") -> float:
        """The standard error of the mean from `n` people whose true numbers have this mean and
        standard deviation."""
        if parameter != "mean":
            raise ParameterError("parameter", parameter, "must be 'mean'")
        p1, p2, p3 = float(self.truth), self._scrambled, float(self.substituted)
        w, u, s = self.multiplier, self.addend, self.substitute
        square = mean**2 + spread**2
        second = (
            p1 * square
            + p2 * (w.moment(2) * square + 2 * w.mean * u.mean * mean + u.moment(2))
            + p3 * s.moment(2)
        )
        return math.sqrt((second - (self._offset + self._slope * mean) ** 2) / n) / abs(self._slope)

    def __str__(self) -> str:
        shown = {"truth": str(self.truth), "substituted": str(self.substituted)}
        decks = {
            name: deck
            for name in ("multiplier", "addend", "substitute")
            if (deck := getattr(self, name)) not in (_ONE, _ZERO)
        }
        parts = [f"{name}={value}" for name, value in shown.items() if value != "0"]
        return f"Scrambling({', '.join([*parts, *(f'{name} of mean {deck.mean:g}' for name, deck in decks.items())])})"


def _shapes(contributions: _Floats) -> _Floats:
    """Skewness and kurtosis of each column; those of a normal distribution where it does not
    vary."""
    gaps = contributions - contributions.mean(axis=0)
    spread = np.sqrt((gaps**2).mean(axis=0))
    unit = gaps / np.where(spread > 0, spread, 1.0)
    moments = np.column_stack([(unit**3).mean(axis=0), (unit**4).mean(axis=0)])
    return np.where(spread[:, None] > 0, moments, [0.0, 3.0])


def _finite_reports(reports: Any) -> _Floats:
    array = np.asarray(reports, dtype=np.float64).reshape(-1)
    if not np.all(np.isfinite(array)):
        raise ParameterError(
            f"reports[{(~np.isfinite(array)).argmax()}]", "…", "must be a finite number"
        )
    return array
