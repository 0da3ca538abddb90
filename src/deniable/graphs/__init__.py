"""Graphs with edge privacy: everybody randomizes their own row of the adjacency matrix
(docs/graphs.md)."""

from deniable.graphs.baselines import (
    CuratorRelease,
    curator_degrees,
    curator_triangles,
    smooth_curator_triangles,
    smooth_sensitivity,
)
from deniable.graphs.comparison import MethodError, compare_graph
from deniable.graphs.degrees import DegreeDistribution
from deniable.graphs.estimate import GraphEstimate
from deniable.graphs.files import read_graph, read_reports, write_edges, write_reports
from deniable.graphs.graph import Graph
from deniable.graphs.moments import exact_moments
from deniable.graphs.plan import GraphPlan, plan_graph
from deniable.graphs.reports import GraphReports
from deniable.graphs.response import EdgeResponse
from deniable.graphs.statistic import GraphStatistic
from deniable.graphs.two_rounds import TwoRoundReports, TwoRounds

__all__ = [
    "CuratorRelease",
    "DegreeDistribution",
    "EdgeResponse",
    "Graph",
    "GraphEstimate",
    "GraphPlan",
    "GraphReports",
    "GraphStatistic",
    "MethodError",
    "TwoRoundReports",
    "TwoRounds",
    "compare_graph",
    "curator_degrees",
    "curator_triangles",
    "exact_moments",
    "plan_graph",
    "read_graph",
    "read_reports",
    "smooth_curator_triangles",
    "smooth_sensitivity",
    "write_edges",
    "write_reports",
]
