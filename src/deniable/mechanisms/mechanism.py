"""What all mechanisms have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from inspect import signature
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_proportion, whole
from deniable.counts import Counts
from deniable.errors import ParameterError, ReportError, ReportFormatError, ReportMismatchError
from deniable.mechanisms import solving
from deniable.mechanisms.blankets import Blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.expected_errors import infinite_population_errors
from deniable.mechanisms.reports import Reports, Tally, hint_at_blocks, require_reports
from deniable.randomness import Source, source_or_system
from deniable.registries import Registry
from deniable.renames import reads_old_names

__all__ = ["Mechanism"]

_Layout = tuple["np.dtype[Any]", tuple[int, ...]]


class Mechanism(ABC):
    """How one value becomes a report, the exact channel between them, and the way back from many
    reports to proportions.

    A protocol is a frozen dataclass whose fields are its parameters; `__post_init__` checks them
    and derives the rest with :meth:`_set`. It says how rows look (`layout`), draws them (`draw`),
    counts them into `cells` integers (`count`) and solves the counts (`solve`); everything else is
    here.
    """

    _registry: ClassVar[Registry[type[Mechanism]]] = Registry()

    numeric: ClassVar[bool] = False
    """Whether values are numbers from a range, not labels."""

    exclusive: ClassVar[bool] = True
    """Whether a person has exactly one label, so that the proportions sum to 1."""

    yes_or_no: ClassVar[bool] = False
    """Whether there are only two values, no and yes."""

    generic: ClassVar[bool] = False
    """Whether it draws by any matrix it is given: a comparison of protocols has no place for it."""

    stated: ClassVar[tuple[str, ...]] = ()
    """The parameters that a query states even where they were chosen for it: a device need not
    search for them, and none could find others."""

    epsilon: float
    """The exact privacy loss of what is drawn, rounded up to a double: never above what was
    requested."""
    domain: Domain
    requested_epsilon: float
    """The epsilon the mechanism was built from, if any: it builds the same mechanism again."""

    _name: ClassVar[str]
    """The name under which documents know the class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._name = Registry.name_of(cls)
        if not cls.__name__.startswith("_"):
            Mechanism._registry.add(cls)

    def _set(self, **derived: Any) -> None:
        """Set derived fields once, during construction."""
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_epsilon(cls, epsilon: float, *, values: Any) -> Mechanism:
        """The mechanism whose report loses at most about `epsilon`, over `values` values.

        Any class whose constructor takes `values` and `epsilon` has it. One that is built from
        something else defines its own, with simple defaults, and so takes part in comparisons,
        audits and plans.

        >>> from deniable import OptimizedUnary
        >>> OptimizedUnary.from_epsilon(1.0, values=4)
        OptimizedUnary(values=4, epsilon=1.0)
        """
        kind: Any = cls
        if not {"values", "epsilon"} <= set(signature(kind).parameters):
            message = f"{cls.__name__} cannot be built from an epsilon and a number of values"
            raise ParameterError("mechanism", cls.__name__, message=message)
        made: Mechanism = kind(values=values, epsilon=epsilon)
        return made

    # --- what a protocol says of itself

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments, as JSON values, that make this mechanism again."""

    @property
    @abstractmethod
    def layout(self) -> _Layout:
        """The layout of one report: the little-endian dtype of its items, and how many there are
        (an empty tuple for one)."""

    @property
    def report_bytes(self) -> int:
        """The size of one report."""
        dtype, shape = self.layout
        return dtype.itemsize * prod(shape)

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many integers a tally keeps."""

    @abstractmethod
    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        """One row per value, given by its index in the domain."""

    @abstractmethod
    def count(self, data: NDArray[Any]) -> NDArray[np.int64]:
        """The rows, added up into `cells` integers."""

    @abstractmethod
    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        """Unbiased proportions, their variances and covariance, for an infinite population."""

    @abstractmethod
    def channel(self) -> Any:
        """P(report | value): a matrix P[report, value], or for supporting reports the pair (a,
        b)."""

    @abstractmethod
    def check(self, data: NDArray[Any]) -> None:
        """Refuse rows that this mechanism never draws."""

    def check_counts(self, counts: NDArray[np.int64], n: int) -> None:
        """Refuse counts that no `n` reports can add up to."""
        if counts.min() < 0 or counts.max() > n:
            raise ReportFormatError(f"a tally of {n} reports has a count outside 0 to {n}")

    def support(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """For each label P(supported | true) and P(supported | not true), if reports support
        labels."""
        return None

    def blanket(self) -> Blanket | None:
        """The part of the report's law common to all values, which gives the loss of shuffled
        reports; None if not known."""
        return None

    def equal_reports(self) -> tuple[float, float] | None:
        """How often two reports are equal if a permanent answer is sent twice, and if two people
        have the same answer.

        The second is the largest over all answers. None if it is not known.
        """
        channel = self.channel()
        if not isinstance(channel, np.ndarray) or len(channel) != self.cells:
            return None
        return 1.0, float((channel**2).sum(axis=0).max())

    def contribution_ranges(self) -> NDArray[np.float64]:
        """For each label, the largest difference between the contributions of two acceptable
        reports.

        The default estimate is linear: the mean of the reports' contributions. If reports support
        labels, a report contributes -b/(a - b) or (1 - b)/(a - b).
        """
        pair = self.support()
        if pair is None:
            raise ParameterError(
                "mechanism",
                type(self).__name__,
                "does not state how far one report can move its estimate",
            )
        a, b = pair
        return np.asarray(1 / np.abs(a - b), dtype=np.float64)

    def doubts(
        self, counts: NDArray[np.int64], n: int, unlabelled: bool = False
    ) -> tuple[str, ...]:
        """What in these counts honest coins would almost never produce, in words: see
        :mod:`deniable.mechanisms.weights`.

        `unlabelled`: answers may have none of the labels, as in a query without a bucket for all
        others.
        """
        return ()

    def edge_errors(self) -> solving.EdgeVariances | None:
        """The coins' variance for a label that nobody has, and for one that everybody has: it
        exposes impossible reports."""
        support = self.support()
        if support is None:
            return None
        a, b = support
        return b * (1 - b) / (a - b) ** 2, a * (1 - a) / (a - b) ** 2

    # --- what users call

    @property
    def labels(self) -> tuple[Any, ...]:
        """The values of the domain, in order."""
        return tuple(self.domain.labels)

    def privatize(self, values: Any, source: Source | None = None) -> Reports:
        """Randomize one value or a column of them (list, NumPy, pandas, Polars, Arrow).

        `source` is for simulation; without it the coins are cryptographic.
        """
        indices = self.indices(values)
        hint_at_blocks(self.report_bytes, indices.size)
        return Reports(self, self.draw(indices, source_or_system(source)))

    def indices(self, values: Any) -> NDArray[np.intp]:
        """The index of each value in the domain."""
        return self.domain.indices(values)

    def reports(self, reports: Any) -> Reports:
        """The argument as reports of this mechanism, checked."""
        if isinstance(reports, Reports):
            if reports.mechanism != self:
                raise ReportMismatchError(
                    f"these are reports of {reports.mechanism!r}, not of {self!r}"
                )
            return reports
        if isinstance(reports, Counts):
            raise ReportError(
                "a tally contains counts, not reports: pass it to estimate() or to a tally's"
                " merge()"
            )
        return self._from_column(reports)

    def _from_column(self, values: Any) -> Reports:
        raise ReportError(
            f"{type(self).__name__} takes the reports its privatize() returns, not"
            f" {type(values).__name__}"
        )

    def tally(self) -> Tally:
        """An empty tally for reports of this mechanism."""
        return Tally(self)

    def estimate(self, reports: Any, population: int | None = None) -> solving.Estimate:
        """What reports (or a tally, or several of either in a list) say about the population.

        With `population`, the number of people, the error bars are those of a finite population.
        """
        found = self.gather(reports)
        n = require_reports(found.n)
        population = solving.check_population(population, n)
        moments = solving.finite(self.solve(found.counts, n), population)
        return self.describe(moments, n, population, self.doubts(found.counts, n))

    def influence(self, n: int, liars: int = 1) -> NDArray[np.float64]:
        """For each label, the largest change that `liars` among `n` reports can make to its
        estimated proportion: exact.

        A liar replaces a report by any other that :meth:`check` accepts. The bound is tight for the
        unbiased estimator, which is linear, so liars add up; the worst label's is the maximum. It
        does not apply to estimates made consistent or by maximum likelihood, which are not linear.

        >>> from deniable import DirectEncoding, LaplaceEncoding
        >>> DirectEncoding(3, 1.0).influence(1000, liars=10).round(4).tolist()
        [0.0275, 0.0275, 0.0275]
        >>> float(LaplaceEncoding(8, 1.0).influence(1000, liars=10).max().round(2))
        2.58
        """
        n = whole("n", n, 1, 2**63 - 1)
        liars = whole("liars", liars, 0, n)
        return self.contribution_ranges() * (liars / n)

    @reads_old_names
    def expected_errors(
        self, n: int, proportions: Any, population: int | None = None
    ) -> NDArray[np.float64]:
        """For each label, the standard error of its estimated proportion from `n` reports, if
        `proportions` are the true ones.

        Theoretical, for the unbiased estimate in an infinite population: lam (1 - lam)/((a - b)^2
        n) if reports support labels, else the diagonal of P^-1 (diag(lam) - lam lam') P^-T / n. In
        a `population` of U people with these proportions, r (1 - r)/U less; with U = n everybody is
        asked and only the coins are random, as for the fixed data sets of most papers.

        >>> from deniable import DirectEncoding, LaplaceEncoding
        >>> DirectEncoding(3, 1.0).expected_errors(1000, [0.5, 0.3, 0.2]).round(4).tolist()
        [0.0424, 0.0405, 0.0392]
        >>> LaplaceEncoding(3, 1.0).expected_errors(1000, [0.5, 0.3, 0.2]).round(4).tolist()
        [0.098, 0.1762, 0.094]
        >>> DirectEncoding(3, 1.0).expected_errors(1000, [0.5, 0.3, 0.2], population=1000).round(4).tolist()
        [0.0394, 0.0379, 0.0371]
        """
        whole("n", n, 1, 2**63 - 1)
        errors = self._infinite_errors(n, proportions)
        if population is None:
            return errors
        people, true = (
            whole("population", population, n, 2**63 - 1),
            np.asarray(proportions, dtype=np.float64),
        )
        return np.asarray(np.sqrt(np.maximum(errors**2 - true * (1 - true) / people, 0)))

    def _infinite_errors(self, n: int, proportions: Any) -> NDArray[np.float64]:
        return infinite_population_errors(self, n, proportions)

    @reads_old_names
    def stderr(self, n: int, proportion: float) -> float:
        """The theoretical standard error of the estimated proportion of a label that a proportion
        `proportion` of `n` people have.

        The others have all other labels equally often, if that matters; if labels differ, it is the
        first one's.

        >>> from deniable import OptimizedUnary
        >>> round(OptimizedUnary(64, 1.0).stderr(50_000, 0.1), 5)
        0.0088
        """
        k = len(self.labels)
        part = check_proportion("proportion", proportion)
        rest = (1 - part) / (k - 1)
        return float(self.expected_errors(n, [part] + [rest] * (k - 1))[0])

    def gather(self, reports: Any) -> Counts:
        """Reports, a tally, or several of either, as one tally; counts of this mechanism as they
        are."""
        if not isinstance(reports, Counts) or isinstance(reports, Tally):
            return self.tallied(reports)
        if reports.counts.size != self.cells:
            raise ReportMismatchError(
                f"{self!r} has {self.cells} counts, and these are {reports.counts.size}"
            )
        return reports

    def tallied(self, reports: Any) -> Tally:
        """Reports, a tally, or several of either, as one tally."""
        if isinstance(reports, Tally):
            return self.tally().merge(reports)
        if (
            isinstance(reports, list | tuple)
            and reports
            and all(isinstance(r, Reports | Tally) for r in reports)
        ):
            tally = self.tally()
            for part in reports:
                tally.merge(part) if isinstance(part, Tally) else tally.update(part)
            return tally
        return self.tally().update(reports)

    def describe(
        self, moments: solving.Moments, n: int, population: int | None, notes: Iterable[str] = ()
    ) -> solving.Estimate:
        """An Estimate of this mechanism's labels."""
        proportions, variance, covariance = moments
        return solving.Estimate(
            labels=tuple(self.labels),
            proportions=proportions,
            variance=variance,
            covariance=covariance,
            n=n,
            population=population,
            mechanism=type(self).__name__,
            epsilon=self.epsilon,
            support=self.support(),
            notes=(*notes, *solving.misfit(self.labels, proportions, n, self.edge_errors())),
        )

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters, from which :meth:`from_dict` makes this mechanism again."""
        return {"mechanism": self._name, **self.parameters()}

    @staticmethod
    def from_dict(description: Any) -> Mechanism:
        """The mechanism that :meth:`to_dict` described, of whichever class it is."""
        from deniable.mechanisms.registry import from_dict  # noqa: PLC0415 - it knows all subclasses

        return from_dict(description)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mechanism):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self.to_dict()))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_brief(value)}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({shown})"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:48]}…({len(value)})"
