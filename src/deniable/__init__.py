"""Ask a crowd a question and learn the crowd's answer, never a person's.

The public names are loaded when they are first used: a proxy that imports a module of this package must not load mechanisms,
and a device must not load SciPy (docs/architecture.md).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deniable import privacy
    from deniable.analyst.analyst import Analyst
    from deniable.client.device import Device
    from deniable.client.vault import Vault
    from deniable.estimation import statistics
    from deniable.estimation.agreement import agreement_test
    from deniable.estimation.candidates import CandidateEstimate
    from deniable.estimation.comparison import Comparison, compare
    from deniable.estimation.correlation import correlate
    from deniable.estimation.design_estimate import DesignEstimate
    from deniable.estimation.distances import euclidean, kantorovich, manhattan
    from deniable.estimation.estimate import Estimate
    from deniable.estimation.fit import FitTest, fit_test
    from deniable.estimation.imputation import impute_answers, pool_imputations
    from deniable.estimation.independence import IndependenceTest, independence_test
    from deniable.estimation.laplace_comparison import (
        ErrorComparison,
        proportion_errors,
        value_errors,
    )
    from deniable.estimation.linear_regression import LinearRegression, regress_linear
    from deniable.estimation.list_regression import regress_list
    from deniable.estimation.margins import average_effects, predicted_probabilities
    from deniable.estimation.maximum_likelihood import maximum_likelihood
    from deniable.estimation.one_person import Guess, guess, posterior
    from deniable.estimation.pooling import combine, stratified
    from deniable.estimation.prevalence_posterior import PrevalencePosterior, prevalence_posterior
    from deniable.estimation.regression import Regression, regress
    from deniable.estimation.regression_result import CoefficientTest
    from deniable.estimation.sampling import Sample
    from deniable.estimation.statistic import Statistic
    from deniable.estimation.tables import Table, joint
    from deniable.estimation.weighted import weighted_estimate
    from deniable.mechanisms.basic_rappor import BasicRappor
    from deniable.mechanisms.binary import BinaryResponse
    from deniable.mechanisms.composite import Composite, composite
    from deniable.mechanisms.design import DesignMatrix
    from deniable.mechanisms.designs import (
        CheaterDetection,
        Crosswise,
        DirectQuestion,
        ExtendedCrosswise,
        ForcedResponse,
        ItemCount,
        ItemSum,
        Kuk,
        Mangat,
        Scrambling,
        StochasticLieDetector,
        SymmetricCheaterDetection,
        Triangular,
        UnrelatedQuestion,
        UnrelatedQuestionUnknown,
        Warner,
    )
    from deniable.mechanisms.direct import DirectEncoding
    from deniable.mechanisms.distance import DistanceSensitive
    from deniable.mechanisms.hadamard import HadamardResponse
    from deniable.mechanisms.hashing import LocalHashing
    from deniable.mechanisms.laplace import LaplaceEncoding
    from deniable.mechanisms.mechanism import Mechanism
    from deniable.mechanisms.memoized_unary import MemoizedUnary
    from deniable.mechanisms.multiple_choice import MultipleChoice
    from deniable.mechanisms.permanent import PermanentAnswer
    from deniable.mechanisms.projection import RandomProjection
    from deniable.mechanisms.rappor import Rappor
    from deniable.mechanisms.reports import Reports, Tally
    from deniable.mechanisms.square_wave import SquareWave
    from deniable.mechanisms.subset import SubsetSelection
    from deniable.mechanisms.summed import SummedHistogram
    from deniable.mechanisms.threshold import ThresholdHistogram
    from deniable.mechanisms.unary import (
        OptimizedUnary,
        SymmetricUnary,
        UnaryEncoding,
    )
    from deniable.planning.plan import Plan, plan
    from deniable.queries.query import Query
    from deniable.randomness import (
        ScriptedSource,
        Source,
        every_path,
        seeded_source,
        system_source,
    )

_MODULES = {
    "deniable.analyst.analyst": ("Analyst",),
    "deniable.client.device": ("Device",),
    "deniable.client.vault": ("Vault",),
    "deniable.estimation.candidates": ("CandidateEstimate",),
    "deniable.estimation.comparison": ("Comparison", "compare"),
    "deniable.estimation.agreement": ("agreement_test",),
    "deniable.estimation.correlation": ("correlate",),
    "deniable.estimation.design_estimate": ("DesignEstimate",),
    "deniable.estimation.distances": ("euclidean", "kantorovich", "manhattan"),
    "deniable.estimation.estimate": ("Estimate",),
    "deniable.estimation.fit": ("FitTest", "fit_test"),
    "deniable.estimation.imputation": ("impute_answers", "pool_imputations"),
    "deniable.estimation.independence": ("IndependenceTest", "independence_test"),
    "deniable.estimation.laplace_comparison": ("ErrorComparison", "proportion_errors", "value_errors"),
    "deniable.estimation.linear_regression": ("LinearRegression", "regress_linear"),
    "deniable.estimation.list_regression": ("regress_list",),
    "deniable.estimation.margins": ("average_effects", "predicted_probabilities"),
    "deniable.estimation.maximum_likelihood": ("maximum_likelihood",),
    "deniable.estimation.one_person": ("Guess", "guess", "posterior"),
    "deniable.estimation.pooling": ("combine", "stratified"),
    "deniable.estimation.prevalence_posterior": ("PrevalencePosterior", "prevalence_posterior"),
    "deniable.estimation.regression": ("Regression", "regress"),
    "deniable.estimation.regression_result": ("CoefficientTest",),
    "deniable.estimation.sampling": ("Sample",),
    "deniable.estimation.statistic": ("Statistic",),
    "deniable.estimation.tables": ("Table", "joint"),
    "deniable.estimation.weighted": ("weighted_estimate",),
    "deniable.mechanisms.basic_rappor": ("BasicRappor",),
    "deniable.mechanisms.binary": ("BinaryResponse",),
    "deniable.mechanisms.composite": ("Composite", "composite"),
    "deniable.mechanisms.design": ("DesignMatrix",),
    "deniable.mechanisms.designs": (
        "CheaterDetection",
        "Crosswise",
        "DirectQuestion",
        "ExtendedCrosswise",
        "ForcedResponse",
        "ItemCount",
        "ItemSum",
        "Kuk",
        "Mangat",
        "Scrambling",
        "StochasticLieDetector",
        "SymmetricCheaterDetection",
        "Triangular",
        "UnrelatedQuestion",
        "UnrelatedQuestionUnknown",
        "Warner",
    ),
    "deniable.mechanisms.direct": ("DirectEncoding",),
    "deniable.mechanisms.distance": ("DistanceSensitive",),
    "deniable.mechanisms.hadamard": ("HadamardResponse",),
    "deniable.mechanisms.hashing": ("LocalHashing",),
    "deniable.mechanisms.laplace": ("LaplaceEncoding",),
    "deniable.mechanisms.memoized_unary": ("MemoizedUnary",),
    "deniable.mechanisms.mechanism": ("Mechanism",),
    "deniable.mechanisms.multiple_choice": ("MultipleChoice",),
    "deniable.mechanisms.permanent": ("PermanentAnswer",),
    "deniable.mechanisms.projection": ("RandomProjection",),
    "deniable.mechanisms.rappor": ("Rappor",),
    "deniable.mechanisms.reports": ("Reports", "Tally"),
    "deniable.mechanisms.square_wave": ("SquareWave",),
    "deniable.mechanisms.subset": ("SubsetSelection",),
    "deniable.mechanisms.summed": ("SummedHistogram",),
    "deniable.mechanisms.threshold": ("ThresholdHistogram",),
    "deniable.mechanisms.unary": ("OptimizedUnary", "SymmetricUnary", "UnaryEncoding"),
    "deniable.planning.plan": ("Plan", "plan"),
    "deniable.queries.query": ("Query",),
    "deniable.randomness": ("ScriptedSource", "Source", "every_path", "seeded_source", "system_source"),
}
"""Where the public names are defined."""
_SUBMODULES = {"privacy": "deniable.privacy", "statistics": "deniable.estimation.statistics"}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Analyst",
    "BasicRappor",
    "BinaryResponse",
    "CandidateEstimate",
    "CheaterDetection",
    "CoefficientTest",
    "Comparison",
    "Composite",
    "Crosswise",
    "DesignEstimate",
    "DesignMatrix",
    "Device",
    "DirectEncoding",
    "DirectQuestion",
    "DistanceSensitive",
    "ErrorComparison",
    "Estimate",
    "ExtendedCrosswise",
    "FitTest",
    "ForcedResponse",
    "Guess",
    "HadamardResponse",
    "IndependenceTest",
    "ItemCount",
    "ItemSum",
    "Kuk",
    "LaplaceEncoding",
    "LinearRegression",
    "LocalHashing",
    "Mangat",
    "Mechanism",
    "MemoizedUnary",
    "MultipleChoice",
    "OptimizedUnary",
    "PermanentAnswer",
    "Plan",
    "PrevalencePosterior",
    "Query",
    "RandomProjection",
    "Rappor",
    "Regression",
    "Reports",
    "Sample",
    "Scrambling",
    "ScriptedSource",
    "Source",
    "SquareWave",
    "Statistic",
    "StochasticLieDetector",
    "SubsetSelection",
    "SummedHistogram",
    "SymmetricCheaterDetection",
    "SymmetricUnary",
    "Table",
    "Tally",
    "ThresholdHistogram",
    "Triangular",
    "UnaryEncoding",
    "UnrelatedQuestion",
    "UnrelatedQuestionUnknown",
    "Vault",
    "Warner",
    "agreement_test",
    "average_effects",
    "combine",
    "compare",
    "composite",
    "correlate",
    "euclidean",
    "every_path",
    "fit_test",
    "guess",
    "impute_answers",
    "independence_test",
    "joint",
    "kantorovich",
    "manhattan",
    "maximum_likelihood",
    "plan",
    "pool_imputations",
    "posterior",
    "predicted_probabilities",
    "prevalence_posterior",
    "privacy",
    "proportion_errors",
    "regress",
    "regress_linear",
    "regress_list",
    "seeded_source",
    "statistics",
    "stratified",
    "system_source",
    "value_errors",
    "weighted_estimate",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        value: Any = importlib.import_module(_SUBMODULES[name])
    elif name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
