"""Strata: parts of a population that are sampled and counted separately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.queries.texts import check_text

__all__ = ["Stratum", "check_sampling"]


def check_sampling(name: str, value: Any) -> float:
    """The value, if it is a sampling probability."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ParameterError(
            name,
            value,
            "must be a probability above 0 and at most 1: the fraction of devices that answer",
        )
    return float(value)


@dataclass(frozen=True)
class Stratum:
    """A part of the population that is sampled and counted separately (Quoc 2017, 3.3.1)."""

    name: str
    sampling: float | None = None
    """The sampling probability of this stratum; None for the query's."""
    population: int | None = None
    """How many people are in it, if known."""

    def __post_init__(self) -> None:
        check_text("name", self.name, 100, "the name of a stratum")
        if self.sampling is not None:
            object.__setattr__(self, "sampling", check_sampling("sampling", self.sampling))
        if self.population is not None:
            object.__setattr__(self, "population", whole("population", self.population, 1, 1 << 40))
