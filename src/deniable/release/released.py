"""What a release is: rows for everybody, and figures for the holder of the original table."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.display import pandas
from deniable.release.classes import Classes, Cube
from deniable.release.constraints import Constraint
from deniable.release.guarantee import Guarantee
from deniable.release.information import Loss, Risk, loss_of, risk_of
from deniable.release.lattice import LatticeResult
from deniable.release.table import CodedTable, Integers, Levels, TableAttribute, combine
from deniable.results import Result

__all__ = ["Released", "finished"]


@dataclass(frozen=True, eq=False)
class Released(Result):
    """A table that can be given away, and what its holder should know about it.

    `rows`, `combinations`, `description` are for anybody. `loss`, `risk_before`, `risk_after` and
    `found` were computed from the original table without protection: they are for its holder alone.
    """

    labels: dict[str, list[Hashable]]
    """For each column the label of each combination of labels."""
    counts: Integers
    """How many rows each combination has."""
    levels: dict[str, int]
    """The level of each generalised column."""
    guarantee: Guarantee | None
    """The guarantee, if the release is differentially private; without the epsilon of the
    search."""
    search_epsilon: float
    """What the choice of the levels cost."""
    achieved: dict[Constraint, float]
    """What the released table keeps of each constraint: its worst class."""
    loss: Loss
    risk_before: Risk
    risk_after: Risk
    found: LatticeResult | None
    """How the levels were found, where the constraints alone decided."""

    @property
    def n(self) -> int:
        """The number of rows released."""
        return int(self.counts.sum())

    @property
    def epsilon(self) -> float:
        """The whole loss: of the search and of the rows. Infinite without a guarantee."""
        return math.inf if self.guarantee is None else self.search_epsilon + self.guarantee.epsilon

    @property
    def delta(self) -> float:
        """The probability that the loss is larger. One without a guarantee."""
        return 1.0 if self.guarantee is None else self.guarantee.delta

    def rows(self) -> dict[str, list[Hashable]]:
        """The released rows, column by column, ordered by their labels: the original row order
        could identify people."""
        repeats = self.counts.tolist()
        return {
            name: [
                label for label, times in zip(labels, repeats, strict=True) for _ in range(times)
            ]
            for name, labels in self.labels.items()
        }

    def combinations(self) -> dict[str, list[Any]]:
        """Each combination of labels once, with its number of rows in a last column ``count``."""
        return {**self.labels, "count": self.counts.tolist()}

    def to_frame(self, confidence: float = 0.95) -> Any:
        """The released rows as a pandas DataFrame; they have no intervals, so that the confidence
        changes nothing."""
        return pandas().DataFrame(self.rows())

    def description(self) -> dict[str, Any]:
        """What anybody who uses the table needs: how it was made, and how to estimate from it.
        Nothing else of the original."""
        known: dict[str, Any] = {"rows": self.n}
        if self.guarantee is not None:
            known |= self.guarantee.terms() | {
                "epsilon": self.epsilon,
                "epsilon_search": self.search_epsilon,
            }
        return known | {
            "constraints": [repr(constraint) for constraint in self.achieved],
            "levels": self.levels,
        }

    def summary(self) -> dict[str, Any]:
        """Everything but the rows, as plain numbers and texts. Holds what is for the holder
        alone."""
        return {
            **self.description(),
            "achieved": {
                repr(rule): None if math.isnan(value) else value
                for rule, value in self.achieved.items()
            },
            "holder_only": {
                "loss": self.loss.to_dict(),
                "risk_before": self.risk_before.to_dict(),
                "risk_after": self.risk_after.to_dict(),
                "search": (
                    None
                    if self.found is None
                    else {
                        "optimal": self.found.optimal,
                        "kept": self.found.kept,
                        "bound": self.found.bound,
                        "tried": self.found.tried,
                        "generalisations": self.found.size,
                    }
                ),
            },
        }

    def __repr__(self) -> str:
        how = (
            "no guarantee"
            if self.guarantee is None
            else f"epsilon {self.epsilon:g}, delta {self.delta:.2g}"
        )
        return f"<Released: {self.n:,} rows of {len(self.labels)} columns, {how}>"


def finished(
    table: CodedTable,
    attributes: Sequence[TableAttribute],
    levels: Levels,
    classes: Classes,
    sensitive: Sequence[str],
    guarantee: Guarantee | None,
    cost: float,
    constraints: Sequence[Constraint],
    measured: Classes,
    found: LatticeResult | None,
) -> Released:
    """Put together what is released and what its holder should know."""
    labels: dict[str, list[Hashable]] = {}
    for attribute, level, places in zip(attributes, levels, classes.labels, strict=True):
        names = attribute.labels[level]
        labels[attribute.name] = [names[place] for place in places[classes.cell_class].tolist()]
    for name in sensitive:
        values = table.values[name]
        labels[name] = [values[place] for place in classes.sensitive[name].tolist()]
    keys = [classes.sensitive[name] for name in reversed(sensitive)]
    keys += [places[classes.cell_class] for places in reversed(classes.labels)]
    order = np.lexsort(keys)
    everybody = Cube(table, attributes)
    zero = tuple(0 for _ in attributes)
    raw = everybody.classes(zero).sizes
    return Released(
        labels={name: [column[i] for i in order] for name, column in labels.items()},
        counts=classes.cell_counts[order],
        levels={attribute.name: level for attribute, level in zip(attributes, levels, strict=True)},
        guarantee=guarantee,
        search_epsilon=cost,
        achieved={constraint: constraint.achieved(measured) for constraint in constraints},
        loss=loss_of(table, attributes, levels, classes),
        risk_before=risk_of(raw, raw),
        risk_after=risk_of(classes.sizes, _sizes_among_all(everybody.classes(levels), classes)),
        found=found,
    )


def _sizes_among_all(everybody: Classes, classes: Classes) -> Integers:
    """For each class the number of rows that everybody's class of the same labels has."""
    if not classes.sizes.size:
        return classes.sizes
    both = [np.concatenate(pair) for pair in zip(everybody.labels, classes.labels, strict=True)]
    ids, n = combine(both, [int(labels.max()) + 1 for labels in both])
    sizes = np.zeros(n, dtype=np.int64)
    sizes[ids[: everybody.sizes.size]] = everybody.sizes
    return sizes[ids[everybody.sizes.size :]]
