"""What a generalisation keeps and loses, and how easily a row can be traced to a person."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.release.classes import Classes
from deniable.release.table import CodedTable, Integers, Levels, TableAttribute
from deniable.results import Result

__all__ = ["OBJECTIVES", "Information", "Loss", "Risk", "loss_of", "risk_of"]

_Floats = NDArray[np.float64]
OBJECTIVES = ("granularity", "entropy")


class Information:
    """How much a row keeps of each attribute when it is released with a label.

    - ``"granularity"``: 1 less the part of the domain that the label covers (Iyengar 2002).
    - ``"entropy"``: log2(N / rows with the label), the bits in the label, compared with log2(N /
      rows with the value) in the value (non-uniform entropy: Gionis and Tassa 2009).

    A row that is not released keeps nothing, and ``*`` keeps nothing. Both depend on labels alone,
    so that what a class keeps is its number of rows times what its labels keep.
    """

    def __init__(
        self,
        table: CodedTable,
        attributes: Sequence[TableAttribute],
        objective: str = "granularity",
    ) -> None:
        if objective not in OBJECTIVES:
            raise ParameterError(
                "objective", objective, f"must be one of {', '.join(map(repr, OBJECTIVES))}"
            )
        self.gains: list[list[_Floats]] = []
        """For each attribute and level what each label keeps."""
        self.most: list[list[float]] = []
        """For each attribute and level what all rows keep together if none is dropped."""
        for attribute in attributes:
            value_counts = np.bincount(
                table.codes[attribute.name],
                weights=table.counts,
                minlength=len(attribute.places[0]),
            )
            gains, most = [], []
            for places, losses in zip(attribute.places, attribute.losses, strict=True):
                rows = np.bincount(places, weights=value_counts, minlength=losses.size)
                gain = (
                    1 - losses
                    if objective == "granularity"
                    else np.log2(table.n / np.maximum(rows, 1))
                )
                gains.append(gain)
                most.append(float(gain @ rows))
            self.gains.append(gains)
            self.most.append(most)
        self.total = sum(most[0] for most in self.most)
        """What the table itself holds."""

    def bounds(self, nodes: Integers) -> _Floats:
        """For each row of levels: no more than this part of the table's information is kept,
        whatever is dropped."""
        kept = np.zeros(len(nodes))
        for most, levels in zip(self.most, nodes.T, strict=True):
            kept += np.array(most)[levels]
        return kept / self.total * (1 + 1e-12) if self.total else np.ones(len(nodes))

    def most_per_row(self, nodes: Integers) -> _Floats:
        """For each row of levels: no row keeps more than this part of the table's information."""
        most = np.zeros(len(nodes))
        for gains, levels in zip(self.gains, nodes.T, strict=True):
            most += np.array([gain.max(initial=0.0) for gain in gains])[levels]
        # Sums in another order end in other digits, and a bound must not be below what it bounds.
        return most / self.total * (1 + 1e-12) if self.total else np.ones(len(nodes))

    def kept(self, classes: Classes, levels: Levels) -> float:
        """The part of the table's information that these classes keep."""
        gain = np.zeros(classes.sizes.size)
        for gains, labels, level in zip(self.gains, classes.labels, levels, strict=True):
            gain += gains[level][labels]
        return float(gain @ classes.sizes) / self.total if self.total else 1.0


@dataclass(frozen=True, eq=False)
class Loss(Result):
    """What was lost, each from 0 (nothing) to 1 (all), except the class size."""

    rows: float
    """Rows that were not released."""
    granularity: float
    """Of the precision of all cells (Iyengar 2002); a row that was not released lost all."""
    entropy: float
    """Of the bits in all cells (Gionis and Tassa 2009), likewise."""
    discernibility: float
    """Pairs of rows that can no longer be distinguished (Bayardo and Agrawal 2005); a row that was
    not released from none."""
    average_class: float
    """Rows of an average class that was released."""


def loss_of(
    table: CodedTable, attributes: Sequence[TableAttribute], levels: Levels, classes: Classes
) -> Loss:
    """What the released classes have lost of the table."""
    dropped = table.n - classes.n
    squares = float((classes.sizes.astype(np.float64) ** 2).sum())
    return Loss(
        rows=dropped / table.n,
        granularity=1 - Information(table, attributes, "granularity").kept(classes, levels),
        entropy=1 - Information(table, attributes, "entropy").kept(classes, levels),
        discernibility=(squares + dropped * float(table.n)) / float(table.n) ** 2,
        average_class=classes.n / classes.sizes.size if classes.sizes.size else math.nan,
    )


@dataclass(frozen=True, eq=False)
class Risk(Result):
    """The probability that a row is traced to its person by its attributes alone (El Emam and
    Dankar 2008).

    The prosecutor knows that the person is among the rows: one over the size of the class there.
    The journalist does not, and looks the class up among all people. The marketer wants to trace as
    many rows as possible: the mean over all rows.
    """

    prosecutor: float
    """The largest for any row."""
    journalist: float
    """The largest for any row, by the classes among all people."""
    marketer: float
    """The mean over the rows, by the classes among all people."""
    unique: float
    """The part of the rows that are alone in their class."""


def risk_of(sizes: Integers, of_all: Integers) -> Risk:
    """The risk of classes of these sizes; `of_all` are the sizes of the same classes among all
    people.

    >>> risk_of(np.array([1, 4]), np.array([2, 8]))
    Risk(prosecutor=1.0, journalist=0.5, marketer=0.2, unique=0.2)
    """
    rows = int(sizes.sum())
    if not rows:
        return Risk(0.0, 0.0, 0.0, 0.0)
    return Risk(
        prosecutor=float(1 / sizes.min()),
        journalist=float(1 / of_all.min()),
        marketer=float((sizes / of_all).sum() / rows),
        unique=float((sizes == 1).sum() / rows),
    )
