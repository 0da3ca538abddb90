"""A curator: someone who holds a table and answers questions about it with noise, paid from one
budget."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

from deniable.curator.budget import CuratorBudget
from deniable.curator.histograms import LabelHistogram, NumberHistogram, check_labels
from deniable.curator.numeric_questions import Mean, NoisyMax, Sum, Variance
from deniable.curator.protection import Neighbours, Protection
from deniable.curator.questions import Count, CuratorQuestion
from deniable.curator.results import Choice, Grouped, Histogram, Preview, Release
from deniable.curator.selection import MostFrequent, Quantile
from deniable.curator.table import CuratedTable, Filter
from deniable.curator.view import CuratedView
from deniable.errors import CuratorError, ParameterError

__all__ = ["Curator", "GroupedCurator", "curator_histogram", "question"]

_Number = TypeVar("_Number")
_Proportions = TypeVar("_Proportions")
_Label = TypeVar("_Label")


def _histogram(
    column: str,
    *,
    labels: Any = None,
    bins: Any = None,
    bounds: Any = None,
    other: Hashable | None = "other",
) -> LabelHistogram | NumberHistogram:
    if (labels is None) == (bins is None):
        raise ParameterError(
            f"labels of {column}",
            labels,
            message=(
                f"column {column!r} needs labels or bins, but not both: which values occur is"
                " private"
            ),
        )
    return (
        NumberHistogram(column, bins, bounds)
        if labels is None
        else LabelHistogram(column, labels, other)
    )


def _extreme(
    level: int, name: str, column: str, *, bounds: Any = None, step: Any = None
) -> Quantile:
    return Quantile(column, level, bounds, step, name=f"{name} of {column}")


def _median(column: str, *, bounds: Any = None, step: Any = None, bracket: Any = 0.5) -> Quantile:
    return Quantile(column, 0.5, bounds, step, bracket, name=f"median of {column}")


_STATISTICS: dict[str, Callable[..., CuratorQuestion]] = {
    "count": Count,
    "sum": Sum,
    "mean": Mean,
    "variance": Variance,
    "std": partial(Variance, root=True),
    "minimum": partial(_extreme, 0, "minimum"),
    "maximum": partial(_extreme, 1, "maximum"),
    "noisy_max": NoisyMax,
    "quantile": Quantile,
    "median": _median,
    "histogram": _histogram,
    "most_frequent": MostFrequent,
}


def question(statistic: str, *arguments: Any, **options: Any) -> CuratorQuestion:
    """A question to a curator: the name of one of its methods, and that method's arguments except
    epsilon.

    >>> question("mean", "age", bounds=(18, 95)).name
    'mean of age'
    """
    if statistic not in _STATISTICS:
        raise ParameterError("statistic", statistic, f"must be one of {', '.join(_STATISTICS)}")
    return _STATISTICS[statistic](*arguments, **options)


class _Asker(Generic[_Number, _Proportions, _Label]):
    """The statistics, of all rows together or of groups."""

    _view: CuratedView

    @property
    def budget(self) -> CuratorBudget:
        """What everything is paid from."""
        return self._view.budget

    def release(self, questions: Sequence[CuratorQuestion], *, epsilon: Any) -> list[Any]:
        """Several questions at once (see :func:`question`), which share epsilon evenly.

        All are answered, or none is and nothing is spent.
        """
        released = self._view.release(questions, epsilon)
        return [
            self._result(question, results)
            for question, results in zip(questions, released, strict=True)
        ]

    def _result(self, question: CuratorQuestion, results: list[Any]) -> Any:
        raise NotImplementedError

    def _ask(self, epsilon: Any, statistic: str, *arguments: Any, **options: Any) -> Any:
        (result,) = self.release([question(statistic, *arguments, **options)], epsilon=epsilon)
        return result

    def preview(
        self, statistic: str, *arguments: Any, epsilon: Any, size: int | None = None, **options: Any
    ) -> Preview:
        """What `statistic` would cost and how large its error would be, before it is paid for: no
        data are read.

        `statistic` is the name of a method, followed by that method's arguments. Where the error
        depends on the number of rows and this is private, `size` says how many to expect.
        """
        (seen,) = self.previews(
            [question(statistic, *arguments, **options)], epsilon=epsilon, size=size
        )
        return seen

    def previews(
        self, questions: Sequence[CuratorQuestion], *, epsilon: Any, size: int | None = None
    ) -> list[Preview]:
        """The same for what :meth:`release` would answer."""
        return self._view.previews(questions, epsilon, size)

    def count(self, *, epsilon: Any) -> _Number:
        """How many rows there are."""
        return self._ask(epsilon, "count")  # type: ignore[no-any-return]

    def sum(self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None) -> _Number:
        """The sum of a column, values clamped to the bounds. `step` says that all values are
        multiples of it."""
        return self._ask(epsilon, "sum", column, bounds=bounds, step=step)  # type: ignore[no-any-return]

    def mean(self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None) -> _Number:
        """The mean of a column, values clamped to the bounds."""
        return self._ask(epsilon, "mean", column, bounds=bounds, step=step)  # type: ignore[no-any-return]

    def variance(
        self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None
    ) -> _Number:
        """The variance of a column, values clamped to the bounds: the mean squared deviation of the
        rows that are there."""
        return self._ask(epsilon, "variance", column, bounds=bounds, step=step)  # type: ignore[no-any-return]

    def std(self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None) -> _Number:
        """The standard deviation: the root of the variance."""
        return self._ask(epsilon, "std", column, bounds=bounds, step=step)  # type: ignore[no-any-return]

    def quantile(
        self,
        column: str,
        level: Any,
        *,
        epsilon: Any,
        bounds: Any = None,
        step: Any = None,
        bracket: Any = 0.5,
    ) -> _Number:
        """The value below which a proportion `level` of the rows lies. The part `bracket` of
        epsilon buys its interval."""
        return self._ask(  # type: ignore[no-any-return]
            epsilon, "quantile", column, level, bounds=bounds, step=step, bracket=bracket
        )

    def median(
        self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None, bracket: Any = 0.5
    ) -> _Number:
        """The quantile of level 0.5."""
        return self._ask(epsilon, "median", column, bounds=bounds, step=step, bracket=bracket)  # type: ignore[no-any-return]

    def minimum(
        self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None
    ) -> _Number:
        """About the smallest value that stands out from the noise; with 95 % probability not below
        the minimum."""
        return self._ask(epsilon, "minimum", column, bounds=bounds, step=step)  # type: ignore[no-any-return]

    def maximum(
        self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None
    ) -> _Number:
        """About the largest value that stands out from the noise; with 95 % probability not above
        the maximum."""
        return self._ask(epsilon, "maximum", column, bounds=bounds, step=step)  # type: ignore[no-any-return]

    def noisy_max(
        self, column: str, *, epsilon: Any, bounds: Any = None, step: Any = None
    ) -> _Number:
        """The maximum plus noise as wide as the bounds (Steephenson 2017), for comparison with
        :meth:`maximum`."""
        return self._ask(epsilon, "noisy_max", column, bounds=bounds, step=step)  # type: ignore[no-any-return]

    def histogram(
        self,
        column: str,
        *,
        epsilon: Any,
        labels: Any = None,
        bins: Any = None,
        bounds: Any = None,
        other: Hashable | None = "other",
    ) -> _Proportions:
        """How many rows have each of the declared `labels`, or lie in each of the `bins`: edges, or
        a number of equal ones.

        Rows that have none of the labels are counted as `other`; if that is None they are not
        counted, and proportions are of the rows that are. Numbers beyond the outer edges count in
        the outer bins.
        """
        return self._ask(  # type: ignore[no-any-return]
            epsilon, "histogram", column, labels=labels, bins=bins, bounds=bounds, other=other
        )

    def most_frequent(self, column: str, *, epsilon: Any, labels: Any = None) -> _Label:
        """The label that most rows have, up to noise (report noisy max): only the label is
        released."""
        return self._ask(epsilon, "most_frequent", column, labels=labels)  # type: ignore[no-any-return]


class Curator(_Asker[Release, Histogram, Choice]):
    """Statistics of a table with noise, paid from one budget.

    `frame` is a pandas or Polars DataFrame, an Arrow table, or a mapping of names to columns.
    `budget` is a :class:`CuratorBudget`, or an epsilon to be kept in memory. `neighbours` says what
    is hidden: whether a person is in the table at all ("add-remove"), or only what they say in it
    ("replace-one"). `person` names the column that says whose row it is, and `rows` how many rows a
    person may have; without `person` every row is a separate person. A table in which someone has
    more rows is refused.

    >>> ages = {"age": [23, 35, 41, 62, 70] * 200}
    >>> curator = Curator(ages, budget=1)
    >>> print(curator.preview("mean", "age", epsilon=0.5, bounds=(18, 95), size=1000))
    mean of age: ± at most 0.461 (95 %); epsilon 0.5, 0.5 left
      discrete Laplace on the sum, scale 154; add-remove neighbours, one row per person
    >>> mean = curator.mean("age", epsilon=0.5, bounds=(18, 95))
    >>> abs(mean.value - 46.2) < 5
    True
    >>> curator.sum("age", epsilon=0.75, bounds=(18, 95))
    Traceback (most recent call last):
    ...
    deniable.errors.BudgetExceededError: epsilon 0.75 was requested, but 0.5 of 1 is left

    Nothing about the table is released except through the budget: filters (:meth:`where`) and
    groups (:meth:`group_by`) are rules on single rows, how many rows pass is private, and bounds,
    labels and keys are declared. What a value says is never in an error; errors about the table as
    a whole (a value missing, too many rows for a person) are for the curator's own eyes.
    """

    def __init__(
        self,
        frame: Any,
        budget: CuratorBudget | Any,
        *,
        neighbours: Neighbours = "add-remove",
        person: str | None = None,
        rows: int = 1,
        missing: str = "refuse",
        analyst: str = "analyst",
        digest: str | None = None,
    ) -> None:
        protection = Protection(neighbours, rows)
        if missing not in {"refuse", "drop"}:
            raise ParameterError("missing", missing, "must be 'refuse' or 'drop'")
        if person is None and protection.rows > 1:
            raise ParameterError(
                "rows", rows, "needs `person`, the column that says whose row it is"
            )
        table = CuratedTable.of(frame, digest)
        if person is not None and table.most_rows(person) > protection.rows:
            raise CuratorError(
                f"column {person!r}: somebody has more than the declared {_rows(protection.rows)}"
            )
        kept = budget if isinstance(budget, CuratorBudget) else CuratorBudget(budget)
        self._view = CuratedView(table, kept, protection, person, missing == "drop", analyst)
        kept.check_basis(self._view.basis)

    @classmethod
    def _of(cls, view: CuratedView) -> Curator:
        curator = cls.__new__(cls)
        curator._view = view
        return curator

    def where(self, column: str, operator: str, value: Any) -> Curator:
        """The rows for which `column operator value` holds; operators are ==, !=, <, <=, >, >= and
        in.

        It costs nothing and reveals nothing: questions about these rows are paid from the same
        budget, with noise that hides whether a person is among them. A missing value passes no
        filter.
        """
        rule = Filter(column, operator, value)
        self._view.table.passes(rule)  # refuses what cannot be compared
        return Curator._of(replace(self._view, filters=(*self._view.filters, rule)))

    def group_by(self, column: str, keys: Any = None) -> GroupedCurator:
        """The rows of each of the declared `keys`, queried together.

        A row is in at most one group, so all groups together cost as much as one (parallel
        composition). A replaced person may change groups, and someone with several rows may be in
        several: the noise accounts for both.
        """
        declared = check_labels(keys, f"keys of {column}")
        self._view.table.cells(column)
        return GroupedCurator(replace(self._view, group_column=column, group_keys=declared))

    def _result(self, question: CuratorQuestion, results: list[Any]) -> Any:
        (result,) = results
        return result

    def __repr__(self) -> str:
        where = "".join(f" where {rule}" for rule in self._view.filters)
        return f"<Curator of a table{where}: {self._view.protection}; {self.budget!r}>"


class GroupedCurator(_Asker[Grouped, Grouped, Grouped]):
    """The same statistics of each group of rows: see :meth:`Curator.group_by`."""

    def __init__(self, view: CuratedView) -> None:
        self._view = view

    def _result(self, question: CuratorQuestion, results: list[Any]) -> Grouped:
        assert self._view.group_column is not None  # noqa: S101 - as group_by made it
        found = dict(zip(self._view.group_keys, results, strict=True))
        return Grouped(self._view.group_column, found, results[0].epsilon)


def curator_histogram(
    frame: Any,
    column: str,
    epsilon: Any,
    *,
    labels: Any = None,
    bins: Any = None,
    bounds: Any = None,
    other: Hashable | None = None,
    neighbours: Neighbours = "add-remove",
) -> Histogram:
    """One histogram with its errors, for comparing the trusted curator with other models at the
    same epsilon."""
    curator = Curator(frame, epsilon, neighbours=neighbours)
    return curator.histogram(
        column, epsilon=epsilon, labels=labels, bins=bins, bounds=bounds, other=other
    )


def _rows(count: int) -> str:
    return "one row" if count == 1 else f"{count} rows"
