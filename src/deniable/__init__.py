"""Ask a crowd a question and learn the crowd's answer, never a person's."""

from deniable import privacy
from deniable.estimation import statistics
from deniable.estimation.agreement import AgreementTest, agreement_test
from deniable.estimation.candidates import CandidateEstimate
from deniable.estimation.comparison import Comparison, compare
from deniable.estimation.design_estimate import DesignEstimate
from deniable.estimation.distances import euclidean, kantorovich, manhattan
from deniable.estimation.estimate import Estimate
from deniable.estimation.fit import FitTest, fit_test
from deniable.estimation.independence import IndependenceTest, independence_test
from deniable.estimation.laplace_comparison import ErrorComparison, proportion_errors, value_errors
from deniable.estimation.maximum_likelihood import maximum_likelihood
from deniable.estimation.one_person import Guess, guess, posterior
from deniable.estimation.pooling import combine, stratified
from deniable.estimation.regression import Regression, regress
from deniable.estimation.statistic import Statistic
from deniable.estimation.tables import Table, joint
from deniable.mechanisms.basic_rappor import BasicRappor
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.composite import Composite, composite
from deniable.mechanisms.design import DesignMatrix
from deniable.mechanisms.designs import (
    CheaterDetection,
    Crosswise,
    DirectQuestion,
    ForcedResponse,
    ItemCount,
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
from deniable.mechanisms.permanent import PermanentAnswer
from deniable.mechanisms.projection import RandomProjection
from deniable.mechanisms.rappor import Rappor
from deniable.mechanisms.reports import Reports, Tally
from deniable.mechanisms.square_wave import SquareWave
from deniable.mechanisms.subset import SubsetSelection
from deniable.mechanisms.summed import SummedHistogram
from deniable.mechanisms.threshold import ThresholdHistogram
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding
from deniable.planning.plan import Plan, plan
from deniable.randomness import ScriptedSource, Source, every_path, seeded_source, system_source

__all__ = [
    "AgreementTest",
    "BasicRappor",
    "BinaryResponse",
    "CandidateEstimate",
    "CheaterDetection",
    "Comparison",
    "Composite",
    "Crosswise",
    "DesignEstimate",
    "DesignMatrix",
    "DirectEncoding",
    "DirectQuestion",
    "DistanceSensitive",
    "ErrorComparison",
    "Estimate",
    "FitTest",
    "ForcedResponse",
    "Guess",
    "HadamardResponse",
    "IndependenceTest",
    "ItemCount",
    "Kuk",
    "LaplaceEncoding",
    "LocalHashing",
    "Mangat",
    "Mechanism",
    "OptimizedUnary",
    "PermanentAnswer",
    "Plan",
    "RandomProjection",
    "Rappor",
    "Regression",
    "Reports",
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
    "Warner",
    "agreement_test",
    "combine",
    "compare",
    "composite",
    "euclidean",
    "every_path",
    "fit_test",
    "guess",
    "independence_test",
    "joint",
    "kantorovich",
    "manhattan",
    "maximum_likelihood",
    "plan",
    "posterior",
    "privacy",
    "proportion_errors",
    "regress",
    "seeded_source",
    "statistics",
    "stratified",
    "system_source",
    "value_errors",
]

__version__ = "0.1.0"
