"""Tables of several attributes: joint shares with honest error bars, and tables derived from them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.display import Bar, Display, draw_bars, limits_text, pad, pandas, text_width
from deniable.errors import NoReportsError, ParameterError, ReportError
from deniable.estimation.attributes import Attribute, Randomizer, attribute
from deniable.estimation.cell_errors import (
    LARGEST_STATED,
    CountedSpread,
    DenseSpread,
    ListedSpread,
    Spread,
    conditioned,
    reshaped,
    selected,
)
from deniable.estimation.estimate import Estimate, check_population, sampled_text
from deniable.estimation.statistic import normal_reach
from deniable.estimation.unbias import without_negative_eigenvalues
from deniable.results import Result, encode, fields_of

__all__ = ["Table", "joint"]

LARGEST_TABLE = 1 << 24
"""The most cells of a table, and outcomes of its contingency tensor."""

_Floats = NDArray[np.float64]
_COUNTING_ROWS = 1 << 16
_COLUMNS_SHOWN, _ROWS_SHOWN = 8, 24
_ROUGH = 3
"""How many standard errors above 0 a divisor should be."""
_FEW_PER_CELL = 50
"""Answers per cell below which conditional intervals cover less than 94 % (93.7 % at 20, 94.7 % at 100, simulated)."""
_TOO_NARROW = "intervals cover somewhat less than 95 %: a cell has"


@dataclass(frozen=True, eq=False)
class Table(Result):
    """Estimated shares of the population, one per combination of labels, with the covariance of their errors.

    The shares are unbiased and sum to 1, so some may be below 0. Every table made from another (marginal, conditional, slice)
    keeps the exact covariance of its cells, by the delta method where it divides.
    """

    axes: tuple[str, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    """Of each axis, in the order of `proportions`."""
    spread: Spread
    """The covariance of any functionals of the cells, in an infinite population."""
    n: int
    """Reports received."""
    population: int | None = None
    """The size of the population, if known: as n approaches it, only the coins' error remains."""
    mechanism: str = ""
    epsilon: float = math.nan
    """Local: the loss of all of a person's reports against anyone who knows who sent them; the sum over the attributes."""
    sampled_epsilon: float | None = None
    """Their loss against anyone who does not know who took part, in a crowd of `sampled_crowd`, except with `sampled_delta`."""
    sampled_delta: float | None = None
    sampled_crowd: int | None = None
    share: float = 1.0
    """The proportion of the population that the table describes: less than 1 after `given`."""
    window: tuple[Any, Any] | None = None
    notes: tuple[str, ...] = ()

    KEYS: ClassVar[Mapping[str, str]] = {
        "epsilon": "epsilon_local",
        "sampled_epsilon": "epsilon_sampled",
        "sampled_delta": "delta_sampled",
    }

    @classmethod
    def of(cls, estimate: Estimate, axis: str = "value") -> Table:
        """An Estimate as a table of one axis.

        Some mechanisms' estimates sum to 1 only on average: the difference is spread evenly over the cells.
        """
        if not estimate.exclusive:
            raise ParameterError(
                "estimate", estimate, "has labels of which a person may have several, so no table of them sums to 1"
            )
        return cls(
            axes=(axis,),
            labels=(estimate.labels,),
            spread=_dense(estimate),
            n=estimate.n,
            population=estimate.population,
            mechanism=estimate.mechanism,
            epsilon=estimate.epsilon,
            sampled_epsilon=estimate.sampled_epsilon,
            sampled_delta=estimate.sampled_delta,
            sampled_crowd=estimate.sampled_crowd,
            window=estimate.window,
            notes=estimate.notes,
        )

    # --- the cells --------------------------------------------------------------------------------------------------

    @property
    def proportions(self) -> _Floats:
        """The estimated shares, one axis per attribute."""
        return self.spread.proportions

    @property
    def shape(self) -> tuple[int, ...]:
        """How many labels each axis has."""
        return self.proportions.shape

    @cached_property
    def variance(self) -> _Floats:
        """Of each cell."""
        return self.spread.variance(self.population)

    @property
    def stderr(self) -> _Floats:
        """Standard error of each cell."""
        return np.sqrt(self.variance)

    @cached_property
    def covariance(self) -> _Floats | None:
        """Of the cells in row-major order, if there are at most 1,024: computed on first use."""
        cells = self.proportions.size
        if cells > LARGEST_STATED:
            return None
        found = self.covariance_of(np.eye(cells).reshape(cells, *self.shape))
        return found if self.population is None or np.isnan(found).any() else without_negative_eigenvalues(found)

    def covariance_of(self, weights: Any) -> _Floats:
        """Covariance of linear functionals of the cells, one per row of `weights`: exact for any size of table.

        With weights w_r over the cells, entry (r, s) is that of the sums of w_r times the cells and w_s times the cells.
        """
        rows = np.asarray(weights, dtype=np.float64)
        if rows.shape[1:] != self.shape:
            raise ParameterError("weights", rows.shape, f"must be of shape (functionals, {', '.join(map(str, self.shape))})")
        return self.spread.covariance(rows, self.population)

    def interval(self, confidence: float = 0.95) -> _Floats:
        """For each cell low and high, along a last axis: the pair covers the true share with the given probability."""
        reach = normal_reach(confidence) * self.stderr
        return np.stack([self.proportions - reach, self.proportions + reach], axis=-1)

    # --- other tables -----------------------------------------------------------------------------------------------

    def marginal(self, *axes: str) -> Table:
        """The table of some of the axes, in the order given, summed over the others."""
        keep = self._places(axes)
        if keep == tuple(range(len(self.axes))):
            return self
        return replace(self, axes=axes, labels=tuple(self.labels[i] for i in keep), spread=self.spread.marginal(keep))

    def select(self, **labels: Hashable) -> Table:
        """The slice where the named axes have the given labels: shares of the whole population, which sum to the slice's
        share."""
        place: list[int | slice] = [slice(None)] * len(self.axes)
        for axis, label in labels.items():
            (at,) = self._places((axis,))
            place[at] = self.position(axis, label)
        kept = [i for i, where in enumerate(place) if isinstance(where, slice)]
        if not kept:
            raise ParameterError("labels", labels, "must leave at least one axis: a single cell is statistics.proportion()")
        return replace(
            self,
            axes=tuple(self.axes[i] for i in kept),
            labels=tuple(self.labels[i] for i in kept),
            spread=selected(self.spread, tuple(place)),
        )

    def conditional(self, of: str | tuple[str, ...], given: str | tuple[str, ...]) -> Table:
        """P(of | given): the axes of `given`, then those of `of`; the cells sum to 1 for each combination of the former.

        Standard errors by the delta method: d(pi/S) = (dpi - (pi/S) dS)/S, with S the estimated share of the condition.
        """
        of, given = _names(of), _names(given)
        table = self.marginal(*given, *of)
        conditions = self.marginal(*given)
        return replace(
            table,
            spread=conditioned(table.spread, len(given)),
            notes=(*self.notes, *_doubts(conditions), *_few_answers(self.n * self.share / table.proportions.size)),
        )

    def unfolded(self, labels: Mapping[str, tuple[Hashable, ...]]) -> Table:
        """A table of one axis, whose labels are the combinations of several axes' labels in row-major order, with those axes."""
        shape = tuple(len(names) for names in labels.values())
        if len(self.axes) != 1 or prod(shape) != self.proportions.size:
            raise ParameterError("labels", shape, f"must combine to the {self.proportions.size} labels of one axis")
        return replace(self, axes=tuple(labels), labels=tuple(labels.values()), spread=reshaped(self.spread, shape))

    def given(self, **labels: Hashable) -> Table:
        """The table of the other axes among those who have the given labels: one condition of `conditional`."""
        condition = tuple(labels)
        self._places(condition)
        others = tuple(axis for axis in self.axes if axis not in labels)
        if not others:
            raise ParameterError("labels", labels, "must leave at least one axis")
        at = tuple(self.position(axis, label) for axis, label in labels.items())
        share = float(self.marginal(*condition).proportions[at])
        if share <= 0:
            raise ParameterError("share", share, f"of {_event(labels)} must be positive to condition on it")
        rows = self.conditional(others, condition).select(**labels)
        return replace(rows, share=self.share * share, notes=(*self.notes, f"among those with {_event(labels)}"))

    def position(self, axis: str, label: Hashable) -> int:
        """The position of the label on its axis."""
        (at,) = self._places((axis,))
        if label not in self.labels[at]:
            raise ParameterError(axis, label, f"must be one of {list(self.labels[at])}")
        return self.labels[at].index(label)

    def _places(self, axes: tuple[str, ...]) -> tuple[int, ...]:
        for axis in axes:
            if axis not in self.axes:
                raise ParameterError("axis", axis, f"must be one of {', '.join(self.axes)}")
        if not axes or len(set(axes)) < len(axes):
            raise ParameterError("axes", axes, "must name at least one axis, and none twice")
        return tuple(self.axes.index(axis) for axis in axes)

    # --- other forms ------------------------------------------------------------------------------------------------

    def cells(self) -> list[tuple[Hashable, ...]]:
        """The combinations of labels in row-major order."""
        return [tuple(names[i] for names, i in zip(self.labels, at, strict=True)) for at in np.ndindex(*self.shape)]

    def estimate(self) -> Estimate:
        """The cells as an Estimate; with several axes its labels are tuples."""
        return Estimate(
            labels=self.labels[0] if len(self.axes) == 1 else tuple(self.cells()),
            proportions=self.proportions.reshape(-1),
            variance=self.variance.reshape(-1),
            covariance=self.covariance,
            n=self.n,
            population=self.population,
            mechanism=self.mechanism,
            epsilon=self.epsilon,
            sampled_epsilon=self.sampled_epsilon,
            sampled_delta=self.sampled_delta,
            sampled_crowd=self.sampled_crowd,
            window=self.window,
            notes=self.notes,
        )

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with shares, standard errors and an interval as nested lists.

        A table is written with its counts, or with the covariances of up to 1024 cells; a larger one made from the reports
        themselves is read back with only its cells' errors.
        """
        low, high = np.moveaxis(self.interval(confidence), -1, 0)
        return {
            **self._fields(),
            "estimate": encode(self.proportions),
            "stderr": encode(self.stderr),
            "low": encode(low),
            "high": encode(high),
            "confidence": confidence,
        }

    def _fields(self) -> dict[str, Any]:
        return {**fields_of(self, "spread"), "spread": self.spread.to_dict(self.population)}

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Table) else NotImplemented

    __hash__ = Result.__hash__

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per cell, indexed by the axes, with estimate, stderr, low and high."""
        pd = pandas()
        low, high = np.moveaxis(self.interval(confidence), -1, 0).reshape(2, -1)
        columns = {"estimate": self.proportions.reshape(-1), "stderr": self.stderr.reshape(-1), "low": low, "high": high}
        return pd.DataFrame(columns, index=pd.MultiIndex.from_product(self.labels, names=self.axes))

    def plot(self, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw two axes as a heat map, each cell with its share and interval; other numbers of axes as shares with intervals.

        Returns matplotlib's axes.
        """
        if len(self.axes) != 2:
            return draw_bars(self._display(confidence), ax)
        from deniable.estimation.plots import plot_table  # noqa: PLC0415 - matplotlib is an extra, and slow to import

        return plot_table(self, ax, confidence=confidence)

    def _display(self, confidence: float = 0.95) -> Display:
        limits = self.interval(confidence).reshape(-1, 2)
        shares, errors = self.proportions.reshape(-1), self.stderr.reshape(-1)
        rows: list[tuple[Any, ...]] = [
            (*cell, float(share), float(error), float(low), float(high))
            for cell, share, error, (low, high) in zip(self.cells(), shares, errors, limits, strict=True)
        ]
        bars = [Bar(", ".join(map(str, row[:-4])), 100 * row[-4], 100 * row[-2], 100 * row[-1]) for row in rows]
        columns = (*self.axes, "estimate", "stderr", "low", "high")
        if len(self.axes) == 1 or self.shape[-1] > _COLUMNS_SHOWN:
            texts = [(*self.axes, "share", f"{100 * confidence:g} % interval")]
            texts += [(*map(str, r[:-4]), f"{100 * r[-4]:.2f} %", f"{100 * r[-2]:.2f} to {100 * r[-1]:.2f}") for r in rows]
        else:
            texts = [(*self.axes[:-1], *(f"{self.axes[-1]} = {label}" for label in self.labels[-1]))]
            width = self.shape[-1]
            for start in range(0, len(rows), width):
                cells = [f"{100 * r[-4]:.2f} % ({limits_text(r[-2:], factor=100)})" for r in rows[start : start + width]]
                texts.append((*map(str, rows[start][: len(self.axes) - 1]), *cells))
        return Display(columns, rows, (self._closing(), *self.notes), bars, "share (%)", texts=texts)

    def __str__(self) -> str:
        if len(self.axes) == 2 and self.shape[1] <= _COLUMNS_SHOWN and self.shape[0] <= _ROWS_SHOWN:
            rows = _grid(self.axes, self.labels, self.proportions, self.interval())
        elif len(self.axes) == 3 and self.shape[2] <= _COLUMNS_SHOWN and self.shape[0] * self.shape[1] <= 2 * _ROWS_SHOWN:
            rows = []
            for label, shares, limits in zip(self.labels[0], self.proportions, self.interval(), strict=True):
                grid = _grid(self.axes[1:], self.labels[1:], shares, limits)
                rows += [f"{self.axes[0]} = {label}", *(f"  {line}" for line in grid)]
        else:
            *rows, _ = str(replace(self, notes=()).estimate()).splitlines()
        return "\n".join([*rows, self._closing(), *self.notes])

    def _closing(self) -> str:
        of = "" if self.population is None else f" of {self.population:,} people"
        sampled = sampled_text(self.sampled_epsilon, self.sampled_delta, self.sampled_crowd)
        line = f"{self.n:,} reports{of}; epsilon {self.epsilon:.4g}{sampled} per person, all attributes together"
        narrow = any(note.startswith(_TOO_NARROW) for note in self.notes)
        return line if narrow else f"{line}; intervals cover 95 %"

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return f"<Table of {', '.join(self.axes)}: {size} shares from {self.n:,} reports, {self.mechanism}>"


def joint(mechanisms: Mapping[str, Randomizer], reports: Any, population: int | None = None) -> Table:
    """The joint distribution of several attributes of the same people, each randomized by its own mechanism.

    `mechanisms` names the attributes, in the order of the table's axes; `reports` holds the reports of each (a mapping or a data
    frame), row i of each from the same person. With P = P_1 (x) ... (x) P_s the estimate is P^-1 lam, found by inverting
    attribute by attribute on the contingency tensor of reports; its covariance P^-1 (diag(lam) - lam lam') P^-T / (n - 1) (Wang,
    Wu and Hu 2016, section 5.1) is kept in that factored form. An attribute whose reports are one bit per label contributes (bit
    - b)/(a - b), and the covariance is that of the products over the reports.

    >>> from deniable import BinaryResponse, DirectEncoding, seeded_source
    >>> smoker, stress = BinaryResponse(0.6, 0.5), DirectEncoding(["low", "high"], 2.0)
    >>> source = seeded_source(1)
    >>> table = joint(
    ...     {"smoker": smoker, "stress": stress},
    ...     {
    ...         "smoker": smoker.privatize([0, 0, 1, 1] * 5000, source),
    ...         "stress": stress.privatize(["low", "low", "low", "high"] * 5000, source),
    ...     },
    ... )
    >>> print(table)
            stress, %
    smoker                     low                    high
    0       49.11 (47.91 to 50.31)    0.31 (-0.43 to 1.06)
    1       25.33 (24.18 to 26.48)  25.24 (24.29 to 26.20)
    20,000 reports; epsilon 3.386 per person, all attributes together; intervals cover 95 %
    >>> table.conditional("stress", given="smoker").proportions.round(2).tolist()
    [[0.99, 0.01], [0.5, 0.5]]
    """
    if not hasattr(mechanisms, "items"):
        kind = type(mechanisms).__name__
        raise ParameterError("mechanisms", kind, "must be a mapping from attributes to mechanisms, and reports one from them too")
    if not mechanisms:
        raise ParameterError("mechanisms", mechanisms, "must name at least one attribute and its mechanism")
    attributes = [attribute(name, mechanism, _column(reports, name)) for name, mechanism in mechanisms.items()]
    n = _common_length(attributes)
    shape = tuple(len(a.labels) for a in attributes)
    if prod(shape) > LARGEST_TABLE:
        raise ParameterError("cells", prod(shape), f"must be at most {LARGEST_TABLE}: choose fewer attributes")
    inverses = [a.inverse for a in attributes if a.inverse is not None]
    spread: Spread
    if len(inverses) == len(attributes) and prod(inverse.shape[1] for inverse in inverses) <= LARGEST_TABLE:
        coins = [a.coins for a in attributes if a.coins is not None]
        spread = CountedSpread(_contingency(attributes, tuple(inverse.shape[1] for inverse in inverses)), inverses, coins)
    else:
        spread = ListedSpread(attributes)
    return Table(
        axes=tuple(a.name for a in attributes),
        labels=tuple(a.labels for a in attributes),
        spread=spread,
        n=n,
        population=check_population(population, n),
        mechanism=" x ".join(a.mechanism for a in attributes),
        epsilon=math.fsum(a.epsilon for a in attributes),
    )


def _column(reports: Any, name: str) -> Any:
    if name not in reports:
        raise ReportError(f"there are no reports of the attribute {name!r}")
    return reports[name]


def _common_length(attributes: list[Attribute]) -> int:
    first = attributes[0]
    for other in attributes[1:]:
        if other.n != first.n:
            raise ReportError(
                f"{first.name!r} has {first.n} reports and {other.name!r} has {other.n}: rows must be of the same people"
            )
    if first.n == 0:
        raise NoReportsError("there are no reports, so there is nothing to estimate")
    return first.n


def _contingency(attributes: list[Attribute], outcomes: tuple[int, ...]) -> NDArray[np.int64]:
    """How often each combination of outcomes was reported."""
    counts = np.zeros(prod(outcomes), dtype=np.int64)
    for start in range(0, attributes[0].n, _COUNTING_ROWS):
        code = attributes[0].data[start : start + _COUNTING_ROWS].astype(np.intp)
        for other, size in zip(attributes[1:], outcomes[1:], strict=True):
            code *= size
            code += other.data[start : start + _COUNTING_ROWS]
        if counts.size <= _COUNTING_ROWS:
            counts += np.bincount(code, minlength=counts.size)
        else:  # more outcomes than rows: do not visit all of them for every chunk
            np.add.at(counts, code, 1)
    return counts.reshape(outcomes)


def _dense(estimate: Estimate) -> DenseSpread:
    """The estimate's errors in an infinite population, shifted so that its proportions sum to 1."""
    proportions, variance, covariance = estimate.proportions, estimate.variance, estimate.covariance
    k = proportions.size
    if estimate.population is not None:  # undo `finite`
        shares = np.clip(proportions, 0, 1)
        variance = variance + shares * (1 - shares) / estimate.population
        if covariance is not None:
            covariance = covariance - np.outer(shares, shares) / estimate.population
            np.fill_diagonal(covariance, variance)
    proportions = proportions + (1 - proportions.sum()) / k
    if covariance is not None:
        covariance = covariance - covariance.mean(axis=0)
        covariance = covariance - covariance.mean(axis=1, keepdims=True)
        variance = np.diagonal(covariance).copy()
    return DenseSpread(proportions, variance, covariance)


def _names(axes: str | tuple[str, ...]) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes)


def _event(labels: Mapping[str, Hashable]) -> str:
    return ", ".join(f"{axis} = {label}" for axis, label in labels.items())


def _doubts(conditions: Table) -> tuple[str, ...]:
    """Notes on conditions whose estimated share is too small to divide by."""
    notes = []
    for cell, share, stderr in zip(
        conditions.cells(), conditions.proportions.reshape(-1), conditions.stderr.reshape(-1), strict=True
    ):
        event = _event(dict(zip(conditions.axes, cell, strict=True)))
        if share <= 0:
            notes.append(f"nothing is known given {event}: its estimated share is not positive")
        elif share < _ROUGH * stderr:
            notes.append(f"intervals are rough given {event}: its share is less than {_ROUGH} standard errors above 0")
    return tuple(notes)


def _few_answers(per_cell: float) -> tuple[str, ...]:
    """Notes on conditional cells with too few answers for the delta method."""
    return () if per_cell >= _FEW_PER_CELL else (f"{_TOO_NARROW} only about {per_cell:.0f} answers",)


def _grid(axes: tuple[str, ...], labels: tuple[tuple[Hashable, ...], ...], proportions: _Floats, limits: _Floats) -> list[str]:
    """A table of two axes, with an interval in every cell."""
    heads = [str(label) for label in labels[1]]
    cells = [
        [f"{100 * share:.2f} ({limits_text(ends, factor=100)})" for share, ends in zip(shares, row, strict=True)]
        for shares, row in zip(proportions, limits, strict=True)
    ]
    sides = [str(label) for label in labels[0]]
    first = max(text_width(text) for text in [axes[0], *sides])
    widths = [max(text_width(head), *(text_width(row[j]) for row in cells)) for j, head in enumerate(heads)]
    lines = [f"{'':<{first}}  {axes[1]}, %"]
    for side, row in zip([axes[0], *sides], [heads, *cells], strict=True):
        lines.append("  ".join([pad(side, first), *(pad(text, w, right=True) for text, w in zip(row, widths, strict=True))]))
    return lines
