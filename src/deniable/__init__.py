"""Ask a crowd a question and learn the crowd's answer, never a person's."""

from deniable.estimation.comparison import Comparison, compare
from deniable.estimation.distances import euclidean, kantorovich, manhattan
from deniable.estimation.estimate import Estimate
from deniable.estimation.laplace import Versus, proportion_errors, value_errors
from deniable.estimation.one_person import Guess, guess, posterior
from deniable.estimation.pooling import combine, stratified
from deniable.estimation.regression import Regression, regress
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.design import DesignMatrix
from deniable.mechanisms.direct import DirectEncoding
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.reports import Reports, Tally
from deniable.mechanisms.threshold import ThresholdHistogram
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding
from deniable.randomness import ScriptedSource, Source, every_path, seeded_source, system_source

__all__ = [
    "BinaryResponse",
    "Comparison",
    "DesignMatrix",
    "DirectEncoding",
    "Estimate",
    "Guess",
    "Mechanism",
    "OptimizedUnary",
    "Regression",
    "Reports",
    "ScriptedSource",
    "Source",
    "SymmetricUnary",
    "Tally",
    "ThresholdHistogram",
    "UnaryEncoding",
    "Versus",
    "combine",
    "compare",
    "euclidean",
    "every_path",
    "guess",
    "kantorovich",
    "manhattan",
    "posterior",
    "proportion_errors",
    "regress",
    "seeded_source",
    "stratified",
    "system_source",
    "value_errors",
]

__version__ = "0.1.0"
