"""What one-sample survey designs have in common: an exact channel from truth to report, and the way
back from counts.

In the field people throw the coins, so what an analyst has is counts ("412 yes of 1,000"), which
:meth:`SurveyDesign.estimate_counts` takes. `privatize` and `estimate` work as for every mechanism,
with coins of exactly the stated fractions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.matrices import left_inverse
from deniable.mechanisms import exact, solving
from deniable.mechanisms.designs.parameters import count
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.reports import Reports, Tally, require_reports
from deniable.mechanisms.values import ValueReports
from deniable.randomness import ONE, Source

__all__ = ["YES_NO", "SurveyDesign", "draw_exactly", "drawable", "exact_loss"]

Columns = Sequence[Sequence[Fraction]]
"""One row per truth: the probabilities of the reports, which sum to 1."""

YES_NO = ("no", "yes")
_LARGEST_BOUND = 1 << 32


def exact_loss(columns: Columns) -> float:
    """ln of the largest ratio of a report's probabilities under two truths; infinite where a truth
    excludes a report."""
    worst = Fraction(1)
    for chances in zip(*columns, strict=True):
        if max(chances) > 0:
            if min(chances) == 0:
                return math.inf
            worst = max(worst, max(chances) / min(chances))
    return exact.log_ratio(worst) if worst > 1 else 0.0


def drawable(columns: Columns) -> tuple[tuple[Fraction, ...], ...]:
    """The columns as they can be drawn: unchanged if their common denominator is at most 2**32,
    else in steps of 1/2**64.

    A probability of 0 stays 0: the design says that this report is never given.
    """
    if lcm(*(p.denominator for column in columns for p in column)) <= _LARGEST_BOUND:
        return tuple(map(tuple, columns))
    out = []
    for column in columns:
        weights = [round(p * ONE) for p in column]
        largest = max(range(len(weights)), key=weights.__getitem__)
        weights[largest] += ONE - sum(weights)
        out.append(tuple(Fraction(weight, ONE) for weight in weights))
    return tuple(out)


def draw_exactly(columns: Columns, indices: NDArray[np.intp], source: Source) -> NDArray[np.int64]:
    """One report per truth, each with exactly its probability: a whole number below the common
    denominator decides."""
    bound = lcm(*(p.denominator for column in columns for p in column))
    ends = [
        [int(sum(column[: j + 1]) * bound) for j in range(len(column) - 1)] for column in columns
    ]
    if bound <= _LARGEST_BOUND:
        drawn = source.below(bound, indices.size)
        if len(columns) == 1:
            return np.asarray(np.searchsorted(ends[0], drawn, side="right"), dtype=np.int64)
        return np.asarray(
            (drawn[:, None] >= np.array(ends, dtype=np.int64)[indices]).sum(axis=1), dtype=np.int64
        )
    scale = ONE // bound
    # A cell of probability 1 would end at 2**64, which no word reaches: the last word stands in for
    # it.
    thresholds = np.array(
        [[min(end * scale, ONE - 1) for end in row] for row in ends], dtype=np.uint64
    )
    return source.pick(thresholds, indices)


class SurveyDesign(ValueReports):
    """A design for one sample: `labels` are the truths, `report_domain` is what people say."""

    requested_epsilon: Any
    _columns: tuple[tuple[Fraction, ...], ...]
    _reports: Domain
    _matrix: NDArray[np.float64]
    _inverse: NDArray[np.float64]

    def _derive(
        self, labels: Sequence[Any], reports: Sequence[Any], columns: Columns, blame: str
    ) -> None:
        """Take the exact channel, one row per truth, and derive the rest; `blame` names the
        parameter that errors refer to."""
        drawn = drawable(columns)
        matrix = np.array([[float(p) for p in column] for column in drawn]).T
        if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
            raise ParameterError(
                blame,
                getattr(self, blame),
                "makes all answers equally likely whatever the truth is: nothing can be learned",
            )
        domain = Domain.of(labels)
        self._set(
            domain=domain,
            labels=tuple(domain.labels),
            _reports=Domain.of(reports),
            _columns=drawn,
            _matrix=matrix,
            _inverse=left_inverse(matrix),
            epsilon=exact_loss(drawn),
        )

    def _described(self, **given: Any) -> dict[str, Any]:
        """Constructor arguments for JSON: fractions as texts; unset ones and default labels are
        left out."""
        out = {
            name: str(value) if isinstance(value, Fraction) else value
            for name, value in given.items()
            if value is not None
        }
        if self.domain.labels != YES_NO:
            out["labels"] = list(self.domain.labels)
        return out

    # --- as a mechanism

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        return draw_exactly(self._columns, indices, source).astype(self.layout[0])

    @property
    def report_domain(self) -> Domain:
        return self._reports

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        proportions, variance, covariance = solving.matrix_moments(
            counts, n, self._inverse, self._matrix
        )
        if self._matrix.shape == (2, 2):
            b, a = self._matrix[1]
            # even if everyone says the same, the next person might not
            rate = min(max(counts[1] / n, 0.5 / n), 1 - 0.5 / n)
            rate = min(max(rate, min(a, b) / 2), (1 + max(a, b)) / 2)
            variance = np.full(2, rate * (1 - rate) / ((a - b) ** 2 * max(n - 1, 1)))
            covariance = variance[0] * np.array([[1.0, -1.0], [-1.0, 1.0]])
        return proportions, variance, covariance

    def channel(self) -> NDArray[np.float64]:
        """P[report, truth]."""
        return self._matrix.copy()

    def inverse(self) -> NDArray[np.float64]:
        """What makes reports unbiased guesses of the truth: inverse() @ channel() is the
        identity."""
        return self._inverse.copy()

    def exact_channel(self) -> tuple[tuple[Fraction, ...], ...]:
        """P[report][truth] as fractions: what is drawn, to the last digit."""
        return tuple(zip(*self._columns, strict=True))

    def support(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        if self._matrix.shape != (2, 2):
            return None
        # Which of the two reports indicates "yes" depends on the parameters (crosswise with p above
        # or below 1/2).
        yes = self._matrix[int(self._matrix[1, 1] < self._matrix[1, 0]) ^ 1]
        no_true, yes_true = float(yes[0]), float(yes[1])
        return np.array([1 - no_true, yes_true]), np.array([1 - yes_true, no_true])

    def edge_errors(self) -> solving.EdgeVariances | None:
        return solving.edge_variances(self._inverse, self._matrix)

    def describe(
        self, moments: solving.Moments, n: int, population: int | None, notes: Any = ()
    ) -> solving.Estimate:
        return super().describe(moments, n, population, [*self.warnings, *notes])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person who answers should know: which report gives the truth away."""
        out = []
        for said, chances in zip(self.report_domain.labels, self.exact_channel(), strict=True):
            excluded = [str(label) for label, p in zip(self.labels, chances, strict=True) if p == 0]
            if excluded and max(chances) > 0:
                out.append(
                    f"a report of {str(said)!r} rules out {' and '.join(map(repr, excluded))}:"
                    " epsilon is infinite"
                )
        return tuple(out)

    # --- from counts

    def counted(self, counts: Any = None, *, n: int | None = None, **named: int) -> Tally:
        """Counts as a tally: a sequence, a mapping by report label, or keywords; with `n`, one of
        them may be omitted.

        A report's name as a keyword is its label with underscores for spaces: ``yes=412, n=1000``,
        ``at_least_one=350, n=700``.
        """
        if isinstance(counts, Tally | Reports):
            return self.tallied(counts)
        labels, given = self.report_domain.labels, self._by_label(counts, named)
        people = None if n is None else count("n", n)
        numbers = {label: count(str(label), value, people) for label, value in given.items()}
        missing = [label for label in labels if label not in numbers]
        if len(missing) == 1 and people is not None:
            numbers[missing[0]] = people - sum(numbers.values())
        elif missing:
            raise ParameterError(
                "counts",
                dict(given),
                f"must say how many reported {', '.join(map(str, missing))}, or all but one and n",
            )
        total = sum(numbers.values())
        if (people is not None and total != people) or min(numbers.values()) < 0:
            raise ParameterError("n", n, f"must be the sum of the counts, which is {total}")
        return Tally(self, np.array([numbers[label] for label in labels], dtype=np.int64), total)

    def _by_label(self, counts: Any, named: Mapping[str, int]) -> dict[Any, Any]:
        """What was given, by the labels of reports."""
        labels = self.report_domain.labels
        given: dict[Any, Any] = {}
        if isinstance(counts, Mapping):
            given = dict(counts)
        elif counts is not None:
            if len(counts) != len(labels):
                raise ParameterError(
                    "counts",
                    list(counts),
                    f"must be {len(labels)}, of {', '.join(map(str, labels))}",
                )
            given = dict(zip(labels, counts, strict=True))
        known = {str(label).replace(" ", "_"): label for label in labels}
        for name, value in named.items():
            if name not in known:
                raise ParameterError(
                    name, value, f"is not a report of this design, which has {', '.join(known)}"
                )
            given[known[name]] = value
        for label in given:
            if label not in labels:
                raise ParameterError(
                    "counts",
                    label,
                    f"is not a report of this design, which has {', '.join(map(str, labels))}",
                )
        return given

    def estimate_counts(
        self,
        counts: Any = None,
        *,
        n: int | None = None,
        population: int | None = None,
        method: str = "moment",
        **named: int,
    ) -> solving.DesignEstimate:
        """The prevalence `pi` from counts of reports (or from reports, or a tally); see
        :meth:`counted` for how to give them.

        The moment estimate is also the maximum likelihood estimate, as long as it is between 0 and
        1.
        """
        if method != "moment":
            raise ParameterError("method", method, "must be 'moment'")
        tally = self.counted(counts, n=n, **named)
        people = require_reports(tally.n)
        b, a = (float(p) for p in self.exact_channel()[1])
        rates = solving.GroupRates.of(
            [int(tally.counts[1])],
            [people],
            [(min(a, b), max(a, b))],
            np.array([[1 / (a - b)]]),
            np.array([-b / (a - b)]),
            coins=(a, b),
        )
        of = solving.check_population(population, people)
        return solving.DesignEstimate.linear(
            rates, repr(self), ("pi",), self.epsilon, notes=self.warnings, population=of
        )

    # --- before the field

    def rates(self, pi: float) -> NDArray[np.float64]:
        """The expected proportions of the reports if the prevalence is `pi`."""
        return np.asarray(self._matrix @ [1 - pi, pi])

    def expected_stderr(self, n: int, pi: float, parameter: str = "pi") -> float:
        """The standard error of the estimate from `n` people if the prevalence is `pi`."""
        if parameter != "pi":
            raise ParameterError("parameter", parameter, "must be 'pi'")
        rate = self.rates(pi)
        weights = self._inverse[1]
        return math.sqrt(max(float(weights**2 @ rate - (weights @ rate) ** 2), 0.0) / n)
