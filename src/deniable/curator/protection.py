"""Who is protected: the neighbour relation, the rows of a person, and the sensitivities that follow
from both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from deniable.checks import check_count
from deniable.errors import ParameterError
from deniable.results import Result

__all__ = ["Neighbours", "Protection"]

Neighbours = Literal["add-remove", "replace-one"]
_RELATIONS = ("add-remove", "replace-one")


@dataclass(frozen=True, eq=False)
class Protection(Result):
    """Two tables are neighbours if one person's rows, at most `rows` of them, are added or removed,
    or replaced by others.

    Where nobody can join or leave (replace-one) and everybody has one row, the size of the whole
    table is the same for all neighbours and may be known: `size`. That of a part of the table never
    is: a person may be in it or not.

    >>> Protection("add-remove").of_sum(0, 10), Protection("replace-one", size=200).of_sum(-5, 10)
    (10, 15)
    """

    neighbours: Neighbours = "add-remove"
    rows: int = 1
    """How many rows a person may have."""
    size: int | None = None
    """The number of rows, where it is public."""
    groups: int | None = None
    """How many disjoint groups are asked about at once, if it is groups that are asked about."""

    def __post_init__(self) -> None:
        if self.neighbours not in _RELATIONS:
            raise ParameterError(
                "neighbours", self.neighbours, f"must be one of {', '.join(map(repr, _RELATIONS))}"
            )
        object.__setattr__(self, "rows", check_count("rows", self.rows))

    @property
    def joins(self) -> bool:
        """Whether a neighbour differs by a person who is there or not."""
        return self.neighbours == "add-remove"

    @property
    def moves(self) -> int:
        """How often a person's row may come and go between neighbours: a replaced one does both."""
        return self.rows if self.joins else 2 * self.rows

    def of_sum(self, low: int, high: int) -> int:
        """How far one person moves a sum of values from low to high; of groups, all sums
        together."""
        largest = max(abs(low), abs(high))
        if self.joins or self.groups is not None:
            return self.moves * largest
        if self.size is not None:
            return high - low
        return self.rows * (max(high, 0) - min(low, 0))

    def of_vector(self, norm: int) -> int:
        """How far one person moves a vector of sums together, to each of which a row adds, `norm`
        in all."""
        return self.moves * norm

    def of_scores(self, up: int, down: int) -> int:
        """How far one person moves any one score, which a row moves `up` or `down`, depending on
        what it says."""
        if self.joins or self.groups is not None:
            return self.moves * max(up, down)
        return self.rows * (up + down)

    def of_extreme(self, width: int) -> int:
        """How far one person moves a largest value, between bounds of that width, in all groups
        together."""
        return width if self.groups is None else width * min(self.moves, self.groups)

    def __str__(self) -> str:
        rows = "one row per person" if self.rows == 1 else f"up to {self.rows} rows per person"
        return f"{self.neighbours} neighbours, {rows}"

    def terms(self) -> dict[str, Any]:
        """What a reader of a release needs to know, for JSON."""
        return {"neighbours": self.neighbours, "rows_per_person": self.rows}
