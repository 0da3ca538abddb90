"""Tables of several attributes: joint proportions with honest error bars, and tables derived from
them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.display import Display, draw_bars, pandas
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables.cell_errors import (
    LARGEST_STATED,
    CellErrors,
    TableFields,
    conditioned,
    dense_errors,
    reshaped,
    selected,
)
from deniable.estimation.tables.statistic import normal_reach
from deniable.estimation.tables.table_text import few_answers, table_display, table_text
from deniable.estimation.unbias import without_negative_eigenvalues
from deniable.renames import reads_old_names
from deniable.results import Result, encode, fields_of

__all__ = ["Table"]

_Floats = NDArray[np.float64]
_ROUGH = 3
"""How many standard errors above 0 a divisor should be."""


@reads_old_names
@dataclass(frozen=True, eq=False)
class Table(Result):
    """Estimated proportions of the population, one per combination of labels, with the covariance
    of their errors.

    The proportions are unbiased and sum to 1, so some may be below 0. Every table made from another
    (marginal, conditional, slice) keeps the exact covariance of its cells, by the delta method
    where it divides.
    """

    axes: tuple[str, ...]
    labels: tuple[tuple[Hashable, ...], ...]
    """Of each axis, in the order of `proportions`."""
    spread: CellErrors
    """The covariance of any functionals of the cells, in an infinite population."""
    n: int
    """Reports received."""
    population: int | None = None
    """The size of the population, if known: as n approaches it, only the coins' error remains."""
    mechanism: str = ""
    epsilon: float = math.nan
    """Local: the loss of all of a person's reports against anyone who knows who sent them; the sum
    over the attributes."""
    sampled_epsilon: float | None = None
    """Their loss against anyone who does not know who took part, in a crowd of `sampled_crowd`,
    except with `sampled_delta`."""
    sampled_delta: float | None = None
    sampled_crowd: int | None = None
    proportion: float = 1.0
    """The proportion of the population that the table describes: less than 1 after `given`."""
    window: tuple[Any, Any] | None = None
    notes: tuple[str, ...] = ()

    KEYS: ClassVar[Mapping[str, str]] = {
        "epsilon": "epsilon_local",
        "sampled_epsilon": "epsilon_sampled",
        "sampled_delta": "delta_sampled",
    }
    UNWRITTEN = ("spread",)
    COMPUTED = TableFields

    @classmethod
    def of(cls, estimate: Estimate, axis: str = "value") -> Table:
        """An Estimate as a table of one axis.

        Some mechanisms' estimates sum to 1 only on average: the difference is spread evenly over
        the cells.
        """
        if not estimate.exclusive:
            raise ParameterError(
                "estimate",
                estimate,
                "has labels of which a person may have several, so no table of them sums to 1",
            )
        return cls(
            axes=(axis,),
            labels=(estimate.labels,),
            spread=dense_errors(estimate),
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

    # --- the cells

    @property
    def proportions(self) -> _Floats:
        """The estimated proportions, one axis per attribute."""
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
        return (
            found
            if self.population is None or np.isnan(found).any()
            else without_negative_eigenvalues(found)
        )

    def covariance_of(self, weights: Any) -> _Floats:
        """Covariance of linear functionals of the cells, one per row of `weights`: exact for any
        size of table.

        With weights w_r over the cells, entry (r, s) is that of the sums of w_r times the cells and
        w_s times the cells.
        """
        rows = np.asarray(weights, dtype=np.float64)
        if rows.shape[1:] != self.shape:
            raise ParameterError(
                "weights",
                rows.shape,
                f"must be of shape (functionals, {', '.join(map(str, self.shape))})",
            )
        return self.spread.covariance(rows, self.population)

    def interval(self, confidence: float = 0.95) -> _Floats:
        """For each cell low and high, along a last axis: the pair covers the true proportion with
        the given probability."""
        reach = normal_reach(confidence) * self.stderr
        return np.stack([self.proportions - reach, self.proportions + reach], axis=-1)

    # --- other tables

    def marginal(self, *axes: str) -> Table:
        """The table of some of the axes, in the order given, summed over the others."""
        keep = self._places(axes)
        if keep == tuple(range(len(self.axes))):
            return self
        return replace(
            self,
            axes=axes,
            labels=tuple(self.labels[i] for i in keep),
            spread=self.spread.marginal(keep),
        )

    def select(self, **labels: Hashable) -> Table:
        """The slice where the named axes have the given labels: proportions of the whole
        population, which sum to the slice's proportion."""
        place: list[int | slice] = [slice(None)] * len(self.axes)
        for axis, label in labels.items():
            (at,) = self._places((axis,))
            place[at] = self.position(axis, label)
        kept = [i for i, where in enumerate(place) if isinstance(where, slice)]
        if not kept:
            raise ParameterError(
                "labels",
                labels,
                "must leave at least one axis: a single cell is statistics.proportion()",
            )
        return replace(
            self,
            axes=tuple(self.axes[i] for i in kept),
            labels=tuple(self.labels[i] for i in kept),
            spread=selected(self.spread, tuple(place)),
        )

    def conditional(self, of: str | tuple[str, ...], given: str | tuple[str, ...]) -> Table:
        """P(of | given): the axes of `given`, then those of `of`; the cells sum to 1 for each
        combination of the former.

        Standard errors by the delta method: d(pi/S) = (dpi - (pi/S) dS)/S, with S the estimated
        proportion of the condition.
        """
        of, given = _names(of), _names(given)
        table = self.marginal(*given, *of)
        conditions = self.marginal(*given)
        return replace(
            table,
            spread=conditioned(table.spread, len(given)),
            notes=(
                *self.notes,
                *_doubts(conditions),
                *few_answers(self.n * self.proportion / table.proportions.size),
            ),
        )

    def unfolded(self, labels: Mapping[str, tuple[Hashable, ...]]) -> Table:
        """A table of one axis, whose labels are the combinations of several axes' labels in
        row-major order, with those axes."""
        shape = tuple(len(names) for names in labels.values())
        if len(self.axes) != 1 or prod(shape) != self.proportions.size:
            raise ParameterError(
                "labels", shape, f"must combine to the {self.proportions.size} labels of one axis"
            )
        return replace(
            self,
            axes=tuple(labels),
            labels=tuple(labels.values()),
            spread=reshaped(self.spread, shape),
        )

    def given(self, **labels: Hashable) -> Table:
        """The table of the other axes among those who have the given labels: one condition of
        `conditional`."""
        condition = tuple(labels)
        self._places(condition)
        others = tuple(axis for axis in self.axes if axis not in labels)
        if not others:
            raise ParameterError("labels", labels, "must leave at least one axis")
        at = tuple(self.position(axis, label) for axis, label in labels.items())
        proportion = float(self.marginal(*condition).proportions[at])
        if proportion <= 0:
            raise ParameterError(
                "proportion",
                proportion,
                message=(
                    f"the proportion of {_event(labels)} is {proportion!r}; only a positive one can"
                    " be a"
                    " condition"
                ),
            )
        rows = self.conditional(others, condition).select(**labels)
        return replace(
            rows,
            proportion=self.proportion * proportion,
            notes=(*self.notes, f"among those with {_event(labels)}"),
        )

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

    # --- other forms

    def cells(self) -> list[tuple[Hashable, ...]]:
        """The combinations of labels in row-major order."""
        return [
            tuple(names[i] for names, i in zip(self.labels, at, strict=True))
            for at in np.ndindex(*self.shape)
        ]

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
        """Ready for JSON: what :meth:`from_dict` reads, with proportions, standard errors and an
        interval as nested lists.

        A table is written with its counts, or with the covariances of up to 1024 cells; a larger
        one made from the reports themselves is read back with only its cells' errors.
        """
        low, high = np.moveaxis(self.interval(confidence), -1, 0)
        computed: TableFields = {
            "spread": self.spread.to_dict(self.population),
            "estimate": encode(self.proportions),
            "stderr": encode(self.stderr),
            "low": encode(low),
            "high": encode(high),
            "confidence": confidence,
        }
        return {**fields_of(self), **computed}

    def _fields(self) -> dict[str, Any]:
        return {**fields_of(self), "spread": self.spread.to_dict(self.population)}

    def __eq__(self, other: object) -> bool:
        return self._fields() == other._fields() if isinstance(other, Table) else NotImplemented

    __hash__ = Result.__hash__

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per cell, indexed by the axes, with estimate, stderr, low and
        high."""
        pd = pandas()
        low, high = np.moveaxis(self.interval(confidence), -1, 0).reshape(2, -1)
        columns = {
            "estimate": self.proportions.reshape(-1),
            "stderr": self.stderr.reshape(-1),
            "low": low,
            "high": high,
        }
        return pd.DataFrame(columns, index=pd.MultiIndex.from_product(self.labels, names=self.axes))

    def plot(self, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw two axes as a heat map, each cell with its proportion and interval; other numbers of
        axes as proportions with intervals.

        Returns matplotlib's axes.
        """
        if len(self.axes) != 2:
            return draw_bars(table_display(self, confidence), ax)
        from deniable.estimation.plots import plot_table  # noqa: PLC0415 - an extra, slow to import

        return plot_table(self, ax, confidence=confidence)

    def _display(self, confidence: float = 0.95) -> Display:
        return table_display(self, confidence)

    def __str__(self) -> str:
        return table_text(self)

    def __repr__(self) -> str:
        size = " x ".join(map(str, self.shape))
        return (
            f"<Table of {', '.join(self.axes)}: {size} proportions from {self.n:,} reports,"
            f" {self.mechanism}>"
        )


def _names(axes: str | tuple[str, ...]) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes)


def _event(labels: Mapping[str, Hashable]) -> str:
    return ", ".join(f"{axis} = {label}" for axis, label in labels.items())


def _doubts(conditions: Table) -> tuple[str, ...]:
    """Notes on conditions whose estimated proportion is too small to divide by."""
    notes = []
    for cell, proportion, stderr in zip(
        conditions.cells(),
        conditions.proportions.reshape(-1),
        conditions.stderr.reshape(-1),
        strict=True,
    ):
        event = _event(dict(zip(conditions.axes, cell, strict=True)))
        if proportion <= 0:
            notes.append(
                f"nothing is known given {event}: its estimated proportion is not positive"
            )
        elif proportion < _ROUGH * stderr:
            notes.append(
                f"intervals are rough given {event}: its proportion is less than {_ROUGH} standard"
                " errors above 0"
            )
    return tuple(notes)
