"""Ask a crowd a question and learn the crowd's answer, never a person's."""

from deniable.estimation.comparison import Comparison, compare
from deniable.estimation.distances import euclidean, kantorovich, manhattan
from deniable.estimation.estimate import Estimate
from deniable.estimation.pooling import combine, stratified
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
    "Mechanism",
    "OptimizedUnary",
    "Reports",
    "ScriptedSource",
    "Source",
    "SymmetricUnary",
    "Tally",
    "ThresholdHistogram",
    "UnaryEncoding",
    "combine",
    "compare",
    "euclidean",
    "every_path",
    "kantorovich",
    "manhattan",
    "seeded_source",
    "stratified",
    "system_source",
]

__version__ = "0.1.0"
