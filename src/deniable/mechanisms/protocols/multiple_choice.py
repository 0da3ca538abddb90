"""Multiple choice: a person may choose several labels, or none, and every label's bit is flipped by
its own coin."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, whole
from deniable.errors import MissingAnswerError, OutOfDomainError, ParameterError, ReportFormatError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.domain import Domain, column, listed, missing
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.unary import BitChannel, UnaryReports
from deniable.mechanisms.reports import Reports, require_reports
from deniable.mechanisms.weights import bits_law, improbable_weight
from deniable.randomness import ONE, Source, source_or_system

__all__ = ["MultipleChoice"]

_MOST_PAIRED = 64
"""The most labels for which a tally counts pairs, which give the covariance of their
proportions."""
_NOTE = "a person may choose several labels, or none: the proportions need not sum to 100 %"


@dataclass(frozen=True, eq=False, repr=False)
class MultipleChoice(UnaryReports):
    """The proportion of people who chose each of the labels (`values`), if one may choose up to
    `most` of them (all), or none.

    A report is one bit per label: whether it was chosen, flipped with probability b =
    1/(e^(epsilon/m) + 1). Two answers with at most c = `most` labels each differ in up to m =
    min(2c, k) of the k bits, and each bit that differs loses epsilon/m: so epsilon is the loss of
    the whole answer. Ones and zeros are kept equally often, because a label that half of the people
    choose is as common here as a rare one. Variance of a proportion f: b(1 - b)/((1 - 2b)^2 n) +
    f(1 - f)/n.

    Set `most` only if the questionnaire itself allows no more: an answer with more labels is
    refused.

    >>> from deniable import seeded_source
    >>> news = MultipleChoice(["paper", "radio", "web"], epsilon=3.0, most=2)
    >>> answers = [["web"]] * 600 + [["radio", "web"]] * 300 + [[]] * 100
    >>> print(news.estimate(news.privatize(answers, source=seeded_source(2))))
    paper     1.09 %     0.00 to 7.26
    radio    30.31 %   23.80 to 36.97
    web      88.30 %   81.89 to 94.42
    1,000 reports; epsilon 3 per report; intervals cover 95 %
    a person may choose several labels, or none: the proportions need not sum to 100 %
    """

    values: Any
    epsilon: float
    most: int | None = None

    independent_bits: ClassVar[bool] = False
    """Chosen labels may be correlated: covariances are counted, not derived."""

    exclusive: ClassVar[bool] = False

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        requested_epsilon = check_epsilon(self.epsilon)
        k = len(domain)
        most = k if self.most is None else whole("most", self.most, 1, k)
        differing = min(2 * most, k)  # bits in which two answers may differ
        flip = exact.up(1 / (exact.exp(Fraction(requested_epsilon) / differing) + 1))
        loss = exact.log_ratio(Fraction(ONE - flip, flip), differing)
        self._set(
            domain=domain,
            values=domain.labels,
            requested_epsilon=requested_epsilon,
            most=most,
            _flip=flip,
            epsilon=loss,
        )

    _flip = 0

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon, "most": self.most}

    def channel(self) -> BitChannel:
        """The pair (a, b): P(bit is 1 | its label was chosen) and P(… | it was not)."""
        return BitChannel((ONE - self._flip) / ONE, self._flip / ONE)

    @property
    def cells(self) -> int:
        k = len(self.domain)
        return k + (k * (k - 1) // 2 if k <= _MOST_PAIRED else 0)

    # --- drawing

    def privatize(self, values: Any, source: Source | None = None) -> Reports:
        """Randomize a column of answers, each a collection of labels; a single label means an
        answer with only that label."""
        return Reports(self, self.draw_chosen(self.chosen(values), source_or_system(source)))

    def chosen(self, values: Any) -> NDArray[np.bool_]:
        """One row per person, one column per label: whether it was chosen."""
        array = column(values)
        index = {label: place for place, label in enumerate(self.domain.labels)}
        rows = np.zeros((array.size, len(self.domain)), dtype=np.bool_)
        for position, answer in enumerate(array.tolist()):
            labels = self._labels(position, answer, index)
            try:
                places = {index[label] for label in labels}
            except (KeyError, TypeError):
                raise OutOfDomainError(
                    position,
                    f"contains something that is not one of the {listed(self.domain.labels)}",
                ) from None
            assert self.most is not None  # noqa: S101 - set when the mechanism was made
            if len(places) > self.most:
                raise OutOfDomainError(position, f"chooses more than {self.most} labels")
            rows[position, list(places)] = True
        return rows

    @staticmethod
    def _labels(position: int, answer: Any, index: dict[Any, int]) -> Iterable[Any]:
        try:
            if answer in index:
                return (answer,)
        except TypeError:  # a list cannot be hashed, and most answers are lists
            pass
        if missing(answer):
            raise MissingAnswerError(
                position, "is missing: give an empty list if nothing was chosen"
            )
        if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
            raise OutOfDomainError(
                position,
                f"is neither one of the {len(index)} labels of the domain nor a list of them",
            )
        return answer

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[np.uint8]:
        """Answers with one label each; an index of -1 means none."""
        chosen = np.zeros((indices.size, len(self.domain)), dtype=np.bool_)
        some = indices >= 0
        chosen[np.flatnonzero(some), indices[some]] = True
        return self.draw_chosen(chosen, source)

    def draw_chosen(self, chosen: NDArray[np.bool_], source: Source) -> NDArray[np.uint8]:
        """One row of packed bits per answer, each bit flipped with probability b."""
        rows = source.bit_rows(self._flip, len(chosen), len(self.domain))
        rows ^= np.packbits(chosen, axis=1, bitorder="little")
        return rows

    # --- counting and solving

    def count(self, data: NDArray[Any]) -> NDArray[np.int64]:
        k = len(self.domain)
        ones = super().count(data)
        if k > _MOST_PAIRED:
            return ones
        bits = self.supports(data).astype(np.float64)
        return np.concatenate(
            [ones, np.rint(bits.T @ bits).astype(np.int64)[np.triu_indices(k, 1)]]
        )

    def check_counts(self, counts: NDArray[np.int64], n: int) -> None:
        super().check_counts(counts, n)
        k = len(self.domain)
        if counts.size > k:
            first, second = np.triu_indices(k, 1)
            if np.any(counts[k:] > np.minimum(counts[first], counts[second])):
                raise ReportFormatError(
                    "a tally counts two labels together more often than one of them"
                )

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        k = len(self.domain)
        a, b = self.channel()
        proportions, variance, _ = solving.pure_moments(counts[:k], n, a, b)
        if counts.size == k:
            return proportions, variance, None
        # The coins of two labels are independent, so their bits' covariance is that of the answers,
        # seen through both coins.
        rate = counts[:k] / n
        first, second = np.triu_indices(k, 1)
        covariance = np.diag(variance)
        shared = (counts[k:] / n - rate[first] * rate[second]) / ((a - b) ** 2 * max(n - 1, 1))
        covariance[first, second] = covariance[second, first] = shared
        return proportions, variance, covariance

    def estimate(self, reports: Any, population: int | None = None) -> solving.Estimate:
        """What reports (or a tally, or several of either in a list) say about the population: a
        proportion of it for every label."""
        tally = self.gather(reports)
        n = require_reports(tally.n)
        population = solving.check_population(population, n)
        proportions, variance, covariance = self.solve(tally.counts, n)
        if population is not None and covariance is not None:
            # Two labels share only sampling error, of which a finite population has the fraction 1
            # - n/N.
            left = covariance * (1 - n / population)
            np.fill_diagonal(left, np.diagonal(covariance))
            covariance = left
        _, variance, _ = solving.finite((proportions, variance, None), population)
        if covariance is not None:
            np.fill_diagonal(covariance, variance)
            covariance = solving.without_negative_eigenvalues(covariance)
        estimate = self.describe(
            (proportions, variance, covariance),
            n,
            population,
            (*self.doubts(tally.counts, n), _NOTE),
        )
        return dataclasses.replace(estimate, exclusive=self.exclusive)

    # --- single options

    def option(self, label: Any, reports: Any) -> Reports:
        """What the reports say about one label alone: reports of the yes/no question whether it was
        chosen.

        For analyses that take one answer per person. Its mechanism's epsilon is the loss about this
        label alone.

        >>> news = MultipleChoice(["paper", "radio", "web"], epsilon=3.0)
        >>> web = news.option("web", news.privatize([["web"], ["radio", "web"]]))
        >>> web.mechanism
        DirectEncoding(values=['no', 'yes'], epsilon=1.0)
        """
        if label not in self.domain.labels:
            raise ParameterError(
                "label", label, f"must be one of {', '.join(map(str, self.domain.labels))}"
            )
        assert self.most is not None  # noqa: S101 - set when the mechanism was made
        question = DirectEncoding(
            ("no", "yes"), self.requested_epsilon / min(2 * self.most, len(self.domain))
        )
        bits = self.supports(self.reports(reports).data)[:, self.domain.labels.index(label)]
        return Reports(question, bits.astype(question.layout[0]))

    def answer_sets(self) -> NDArray[np.bool_]:
        """Every set of labels that a person may choose, one per row: whether each label is in
        it."""
        k = len(self.domain)
        sets = (np.arange(1 << k)[:, None] >> np.arange(k) & 1).astype(np.bool_)
        return np.asarray(sets[sets.sum(axis=1) <= (self.most or k)])

    def doubts(
        self, counts: NDArray[np.int64], n: int, unlabelled: bool = False
    ) -> tuple[str, ...]:
        assert self.most is not None  # noqa: S101 - set when the mechanism was made
        bits = n * len(self.domain)
        fewest, most = (bits_law(bits, true, *self.channel()) for true in (0, n * self.most))
        return improbable_weight("ones", int(counts[: len(self.domain)].sum()), n, fewest, most)

    def blanket(self) -> None:  # type: ignore[override]
        """Not known: answers that differ in many bits have many kinds of reports in common."""
        return
