"""Anonymised tables: with a proven (epsilon, delta), or k-anonymous and the like."""

from deniable.release.anonymous import anonymize
from deniable.release.constraints import (
    Constraint,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    RecursiveDiversity,
    TCloseness,
)
from deniable.release.guarantee import Guarantee, delta_of, largest_sampling, smallest_threshold
from deniable.release.hierarchy import Categories, Dates, Hierarchy, Masked, Numbers
from deniable.release.hierarchy_files import automatic_hierarchy, parse_hierarchy, read_hierarchy
from deniable.release.histogram import ReleasedHistogram, histogram
from deniable.release.information import Loss, Risk
from deniable.release.private import release
from deniable.release.released import Released
from deniable.release.table import CodedTable
from deniable.release.tree import Tree

__all__ = [
    "Categories",
    "CodedTable",
    "Constraint",
    "Dates",
    "DistinctDiversity",
    "EntropyDiversity",
    "Guarantee",
    "Hierarchy",
    "KAnonymity",
    "Loss",
    "Masked",
    "Numbers",
    "RecursiveDiversity",
    "Released",
    "ReleasedHistogram",
    "Risk",
    "TCloseness",
    "Tree",
    "anonymize",
    "automatic_hierarchy",
    "delta_of",
    "histogram",
    "largest_sampling",
    "parse_hierarchy",
    "read_hierarchy",
    "release",
    "smallest_threshold",
]
