"""The trusted curator: statistics of a whole table with noise by OpenDP, under one budget
(docs/curator.md)."""

from deniable.curator.budget import CuratorBudget
from deniable.curator.curator import Curator, GroupedCurator, curator_histogram, question
from deniable.curator.law import DiscreteLaplace
from deniable.curator.protection import Protection
from deniable.curator.results import Choice, Grouped, Histogram, Preview, Release

__all__ = [
    "Choice",
    "Curator",
    "CuratorBudget",
    "DiscreteLaplace",
    "Grouped",
    "GroupedCurator",
    "Histogram",
    "Preview",
    "Protection",
    "Release",
    "curator_histogram",
    "question",
]
