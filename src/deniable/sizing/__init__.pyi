"""The public names of this package, each written once."""

from deniable.sizing.demand import Demand as Demand
from deniable.sizing.supply import size as size

__all__: list[str]
