"""What mechanisms need from estimation to solve reports, loaded on first use.

A device draws reports and never solves them. It must not load `estimation`, so mechanisms reach it
only through here.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deniable.estimation import em
    from deniable.estimation.candidates import (
        CandidateEstimate,
        adjust,
        bit_ranges,
        check_correction,
        decode,
    )
    from deniable.estimation.estimate import Estimate
    from deniable.estimation.fit import EdgeVariances, edge_variances, misfit
    from deniable.estimation.interval_laws import LikelihoodLaw, OwnVarianceLaw
    from deniable.estimation.intervals import welch_degrees
    from deniable.estimation.report_counts import check_population
    from deniable.estimation.score_laws import matrix_law
    from deniable.estimation.surveys.design_estimate import DesignEstimate
    from deniable.estimation.surveys.design_tests import ModelFitTest
    from deniable.estimation.surveys.group_rates import GroupRates
    from deniable.estimation.tables.table import Table
    from deniable.estimation.tables.tree_consistency import TreeConsistency
    from deniable.estimation.unbias import (
        LARGEST_COVARIANCE,
        Moments,
        affine_moments,
        covariances_up_to,
        finite,
        largest_covariance,
        matrix_moments,
        pure_moments,
        support_rates,
        without_negative_eigenvalues,
    )

__all__ = [
    "LARGEST_COVARIANCE",
    "CandidateEstimate",
    "DesignEstimate",
    "EdgeVariances",
    "Estimate",
    "GroupRates",
    "LikelihoodLaw",
    "ModelFitTest",
    "Moments",
    "OwnVarianceLaw",
    "Table",
    "TreeConsistency",
    "adjust",
    "affine_moments",
    "bit_ranges",
    "check_correction",
    "check_population",
    "covariances_up_to",
    "decode",
    "edge_variances",
    "em",
    "finite",
    "largest_covariance",
    "matrix_law",
    "matrix_moments",
    "misfit",
    "pure_moments",
    "support_rates",
    "welch_degrees",
    "without_negative_eigenvalues",
]

_MODULES = {
    "candidates": ("CandidateEstimate", "adjust", "bit_ranges", "check_correction", "decode"),
    "surveys.design_estimate": ("DesignEstimate",),
    "surveys.design_tests": ("ModelFitTest",),
    "estimate": ("Estimate",),
    "report_counts": ("check_population",),
    "fit": ("EdgeVariances", "edge_variances", "misfit"),
    "surveys.group_rates": ("GroupRates",),
    "interval_laws": ("LikelihoodLaw", "OwnVarianceLaw"),
    "intervals": ("welch_degrees",),
    "score_laws": ("matrix_law",),
    "tables.table": ("Table",),
    "tables.tree_consistency": ("TreeConsistency",),
    "unbias": (
        "LARGEST_COVARIANCE",
        "Moments",
        "affine_moments",
        "covariances_up_to",
        "finite",
        "largest_covariance",
        "matrix_moments",
        "pure_moments",
        "support_rates",
        "without_negative_eigenvalues",
    ),
}
_HOME = {
    name: f"deniable.estimation.{module}" for module, names in _MODULES.items() for name in names
}


def __getattr__(name: str) -> Any:
    if name == "em":
        return importlib.import_module("deniable.estimation.em")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value
