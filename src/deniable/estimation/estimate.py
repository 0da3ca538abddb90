"""What an analyst learns: proportions with honest error bars."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.display import Display, pandas
from deniable.errors import ParameterError
from deniable.estimation.consistency import make_consistent
from deniable.estimation.estimate_text import estimate_display, estimate_rows, privacy_line
from deniable.estimation.exact_intervals import (
    LARGEST,
    few_reports,
    rare_limits,
    small_intervals,
)
from deniable.estimation.interval_laws import ProportionLaw
from deniable.estimation.intervals import (
    IntervalFields,
    StratumCounts,
    critical_values,
    cut_to_proportions,
    hull,
    stratified_limits,
)
from deniable.estimation.report_counts import ReportCounts, with_n
from deniable.estimation.score_laws import combined_law
from deniable.estimation.tables.ordered_statistics import OrderedStatistics
from deniable.estimation.tables.statistic import Statistic
from deniable.results import Figures, Result, fields_of

__all__ = ["Estimate"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Estimate(OrderedStatistics, Result):
    """Estimated proportions of the population, one per label, with the covariance of their errors.

    The proportions are unbiased, so some may lie below 0 or above 1; the intervals of proportions
    do not. :meth:`projected` gives a proper distribution, by name.
    """

    labels: tuple[Hashable, ...]
    proportions: Figures
    variance: _Floats
    """Of each proportion; what `interval` uses."""
    n: int
    """Reports received."""
    covariance: _Floats | None = None
    """Of the proportions, if there are at most `LARGEST_COVARIANCE`."""
    population: int | None = None
    """The size of the population, if known: as n approaches it, only the coins' error remains."""
    mechanism: str = ""
    epsilon: float = math.nan
    """Local: the loss against anyone who knows who sent a report."""
    sampled_epsilon: float | None = None
    """The loss against anyone who does not know who took part, in a crowd of `sampled_crowd`,
    except with `sampled_delta`."""
    sampled_delta: float | None = None
    sampled_crowd: int | None = None
    support: tuple[_Floats, _Floats] | None = None
    """P(report supports the label | the label is true) and P(… | it is not), where reports either
    support a label or do not."""
    window: tuple[Any, Any] | None = None
    notes: tuple[str, ...] = ()
    degrees: _Floats | None = None
    """Degrees of freedom of each variance, where they are not n - 1."""
    strata: tuple[tuple[float, Estimate], ...] = ()
    """The weighted estimates that this one is the sum of, if it is."""
    unbiased: Figures | None = None
    """The proportions before :meth:`consistent` changed them."""
    reports: ReportCounts | None = None
    """The counts it was solved from, for windows of a query."""
    exclusive: bool = True
    """Whether a person has exactly one label, so that the proportions sum to 1. False for multiple
    choice."""
    score_law: tuple[_Floats, _Floats, _Floats] | None = None
    """For each label, two coins and a number of reports with the same variance at any proportion,
    where `support` and n do not say it (:mod:`deniable.estimation.score_laws`)."""
    rare: NDArray[np.bool_] | None = None
    """With `score_law`: for each label, whether so few reports may support it that its limits must
    be exact."""
    conservative: bool = False
    """Whether the variance is an upper bound, so that intervals cover at least as often as
    stated."""
    _replayed: frozenset[object] = frozenset()
    """The permanent answers whose replays it was solved from, as long as they are in memory."""

    COMPUTED = IntervalFields
    KEYS: ClassVar[Mapping[str, str]] = {
        "proportions": "estimate",
        "epsilon": "epsilon_local",
        "sampled_epsilon": "epsilon_sampled",
        "sampled_delta": "delta_sampled",
    }

    @property
    def stderr(self) -> _Floats:
        """Standard error of each proportion."""
        return np.sqrt(self.variance)

    def interval(
        self, confidence: float = 0.95, method: str | None = None, *, simultaneous: bool = False
    ) -> _Floats:
        """One row per label: low and high, which cover the true proportion with the given
        probability.

        `method` is one of

        - ``"normal"``: estimate ± Student's quantile times the standard error, with n - 1 degrees
          of freedom (strata: by Welch and Satterthwaite). Works for any estimate; may reach beyond
          [0, 1]; covers too little if few reports support a label.
        - ``"score"``: all proportions within that many of *their own* standard errors (Wilson's
          interval, seen through the coins; for strata, of their sum). It is valid from 30 reports
          on and for rare labels; for populations of up to 200 people the exact law of the reports
          replaces standard errors. It is cut to [0, 1], so it need not contain an unbiased estimate
          below 0; if no proportion fits the reports, it is a fiftieth of a standard error wide at
          the edge. Needs a variance that depends on one proportion alone (`support`, `score_law`).
        - ``"exact"``: all proportions under which a count at least as extreme has more than half of
          1 - confidence on its side (Clopper and Pearson). It covers at least as often as stated,
          whatever the proportion. Needs what "score" needs.
        - None: score if available, otherwise normal; exact if so few reports can support a label
          that score intervals would miss at some proportions. :meth:`covers_more` says for which
          labels that is.

        `simultaneous` makes all rows cover together with the given probability. After
        :meth:`consistent` the interval is still that of the unbiased proportions, extended if
        necessary to contain the changed one, so it covers at least as often.
        """
        check_confidence(confidence)
        if method not in {None, "normal", "score", "exact"}:
            raise ParameterError("method", method, "must be 'normal', 'score' or 'exact'")
        centre = self.proportions if self.unbiased is None else self.unbiased
        if method == "normal" or (method is None and not self._has_score):
            reach = self.plus_minus(confidence, simultaneous=simultaneous)
            limits = np.column_stack([centre - reach, centre + reach])
        else:
            free = (
                np.full(centre.size, math.inf)
                if self.score_law is None or self.degrees is None
                else self.degrees
            )
            z = critical_values(
                confidence, free, self.covariance if simultaneous else None, simultaneous
            )
            limits = self._by_law(method, z)
        if self.unbiased is not None:
            limits[:, 0] = np.minimum(limits[:, 0], self.proportions)
            limits[:, 1] = np.maximum(limits[:, 1], self.proportions)
        return limits

    def covers_more(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """For each label, whether its interval covers at least, not just, as often as stated.

        It does for labels that few reports can support (see :meth:`interval`), for conservative
        variances, and for proportions that :meth:`consistent` changed.
        """
        check_confidence(confidence)
        more = self._rare(None) | self.conservative
        if self.unbiased is not None:
            more |= self.unbiased != self.proportions
        return more

    def _by_law(self, method: str | None, reach: _Floats) -> _Floats:
        """Score or exact limits, cut to [0, 1]."""
        if not self._has_score:
            raise ParameterError(
                "method",
                method,
                "needs reports that support a label or do not; use 'normal' for this estimate",
            )
        counts = self._few_counts()
        if counts is not None:
            assert self.support is not None  # noqa: S101 - as _few_counts has seen
            assert self.population is not None  # noqa: S101 - likewise
            return small_intervals(
                counts, self.n, self.population, self.support, reach, self._rare(method)
            )
        return cut_to_proportions(self._uncut(method, reach), self.stderr)

    def _rare(self, method: str | None) -> NDArray[np.bool_]:
        """The labels whose limits are exact."""
        law = self._law
        if method is not None or law is None:
            return np.full(self.proportions.size, method == "exact")
        if not self.strata and self.score_law is not None:
            return np.zeros(self.proportions.size, dtype=bool) if self.rare is None else self.rare
        return few_reports(law[2], law[0], law[1])

    def plus_minus(self, confidence: float = 0.95, *, simultaneous: bool = False) -> _Floats:
        """How far the normal interval reaches to either side of each proportion."""
        degrees = (
            np.full(self.variance.size, self.n - 1.0) if self.degrees is None else self.degrees
        )
        covariance = self.covariance if simultaneous else None
        t = critical_values(check_confidence(confidence), degrees, covariance, simultaneous)
        return np.where(np.isinf(t), math.inf, np.where(np.isinf(t), 0, t) * self.stderr)

    @property
    def _has_score(self) -> bool:
        if self.strata:
            return all(part._has_score for _, part in self.strata)
        return self.support is not None or self.score_law is not None

    @property
    def _law(self) -> tuple[_Floats, _Floats, _Floats] | None:
        """For each label, the coins and the number of reports that its score interval is made from;
        of strata, of their sum."""
        if self.strata:
            leaves = self._leaves(1.0) if self._has_score else []
            weights = np.array([np.full(self.proportions.size, leaf.weight) for leaf in leaves])
            return (
                combined_law(weights, [(*leaf.support, np.asarray(leaf.n)) for leaf in leaves])
                if leaves
                else None
            )
        if self.score_law is not None or self.support is None:
            return self.score_law
        return (*self.support, np.full(self.proportions.size, float(self.n)))

    def _few_counts(self) -> NDArray[np.int64] | None:
        """How many reports support each label, if the population is small enough for exact
        intervals."""
        if self.strata or self.support is None or self.score_law is not None:
            return None
        if self.population is None or not 0 < self.n <= self.population <= LARGEST:
            return None
        a, b = self.support
        counts = self.n * (
            b + (a - b) * (self.proportions if self.unbiased is None else self.unbiased)
        )
        whole = counts.round()
        return (
            whole.astype(np.int64)
            if np.abs(counts - whole).max() < 1e-6 and 0 <= whole.min() <= whole.max() <= self.n
            else None
        )

    def _uncut(self, method: str | None, reach: _Floats) -> _Floats:
        """Score or exact limits, not cut to [0, 1]: cutting the parts of a sum would shorten it."""
        leaves, law, rare = self._leaves(1.0), self._law, self._rare(method)
        assert law is not None  # noqa: S101 - as _has_score has seen
        a, b, n = law
        centre = self.proportions if self.unbiased is None else self.unbiased
        limits = stratified_limits(leaves, reach)
        # of strata, both: the exact law is that of equal strata, and does not know how small they
        # are
        if rare.any():
            exact = rare_limits(
                centre[rare], (a[rare], b[rare]), n[rare], self.population, reach[rare]
            )
            limits[rare] = exact if len(leaves) == 1 else hull(limits[rare], exact)
        return limits

    def _leaves(self, weight: float) -> list[StratumCounts]:
        """The strata, and those of strata that have some themselves; an estimate without strata is
        its only one."""
        if self.strata:
            return [
                leaf
                for part_weight, part in self.strata
                for leaf in part._leaves(weight * part_weight)
            ]
        law = self._law
        assert law is not None  # noqa: S101 - as _has_score has seen
        a, b, n = law
        centre = self.proportions if self.unbiased is None else self.unbiased
        return [
            StratumCounts(
                weight,
                centre,
                (a, b),
                n,
                self.population,
                None if self.score_law is None else self.degrees,
            )
        ]

    def counts(self, size: int | None = None) -> _Floats:
        """The proportions as numbers of people: of `size`, else of the population, else of those
        who reported."""
        if size is not None and (isinstance(size, bool | str) or not 0 < size < math.inf):
            raise ParameterError("size", size, "must be a number of people above 0")
        return self.proportions * (size if size is not None else self.population or self.n)

    def consistent(self, method: str, **options: Any) -> Estimate:
        """The estimate turned into a distribution by one of several methods; intervals stay those
        of the unbiased one.

        - ``"norm-sub"``: no negatives, sum 1; the nearest distribution, the same as
          :meth:`projected`.
        - ``"norm"``: sum 1 by adding the same to each label; stays unbiased, and its intervals are
          its own.
        - ``"base-cut"``: 0 for every label that could be noise (`false_alarm` = 0.05 for one or
          more wrongly kept).
        - ``"smooth"``: neighbours averaged, for labels in order (`passes`, by default the number
          with the smallest estimated squared error).

        They can be chained: ``estimate.consistent("smooth").projected()``.
        :mod:`deniable.estimation.consistency` compares their bias and squared error.
        """
        return make_consistent(self, method, **options)

    def projected(self) -> Estimate:
        """The nearest proper distribution: none negative, sum 1. Biased; intervals stay those of
        the unbiased one."""
        return make_consistent(self, "norm-sub")

    def without_bias(self) -> Estimate:
        """The unbiased estimate that this one was made from, or itself, as pooling and intervals of
        statistics need."""
        if self.unbiased is None:
            return self
        return dataclasses.replace(self, proportions=self.unbiased, unbiased=None, notes=())

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with standard errors and an interval.

        None for a limit that is infinite and for an epsilon that is not known.
        """
        low, high = self.interval(confidence).T
        computed: IntervalFields = {
            "stderr": self.stderr.tolist(),
            "low": [_finite(limit) for limit in low.tolist()],
            "high": [_finite(limit) for limit in high.tolist()],
            "confidence": confidence,
            "covers_more": self.covers_more(confidence).tolist(),
        }
        return fields_of(self) | computed

    @classmethod
    def _arguments(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        return super()._arguments(with_n(document))

    def __getitem__(self, label: Hashable) -> Statistic:
        """The proportion of one label, with its standard error and its interval."""
        if label not in self.labels:
            raise ParameterError(
                "label",
                label,
                f"must be one of {', '.join(map(str, self.labels[:8]))}{self._more()}",
            )
        at = self.labels.index(label)
        law = ProportionLaw(self, at)
        return Statistic(
            str(label), float(self.proportions[at]), float(self.stderr[at]), self.n, law=law
        )

    def _more(self) -> str:
        return f" … ({len(self.labels)})" if len(self.labels) > 8 else ""

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per label, with estimate, stderr, low and high."""
        pd = pandas()
        low, high = self.interval(confidence).T
        columns = {"estimate": self.proportions, "stderr": self.stderr, "low": low, "high": high}
        return pd.DataFrame(
            columns, index=pd.Index(list(self.labels), name="label", tupleize_cols=False)
        )

    def plot(self, ax: Any = None, *, confidence: float = 0.95, truth: Any = None) -> Any:
        """Draw the proportions as bars with their intervals, with the truth as marks if given;
        returns matplotlib's axes."""
        from deniable.estimation.plots import plot_estimate  # noqa: PLC0415 - an extra

        return plot_estimate(self, ax, truth=truth, confidence=confidence)

    def privacy_line(self, confidence: float = 0.95) -> str:
        """How many reported, how private each report is, and what intervals cover: the last line of
        the printed table."""
        return privacy_line(self, confidence)

    def _display(self, confidence: float = 0.95) -> Display:
        return estimate_display(self, confidence)

    def __str__(self) -> str:
        return "\n".join([*estimate_rows(self), self.privacy_line(), *self.notes])

    def __repr__(self) -> str:
        return (
            f"<Estimate of {len(self.labels)} proportions from {self.n:,} reports,"
            f" {self.mechanism}>"
        )


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
