"""Ask a crowd a question and learn the crowd's answer, never a person's."""

from deniable.estimation.estimate import Estimate
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.design import DesignMatrix
from deniable.mechanisms.direct import DirectEncoding
from deniable.mechanisms.distance import DistanceSensitive
from deniable.mechanisms.laplace import LaplaceEncoding
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.reports import Reports, Tally
from deniable.mechanisms.square_wave import SquareWave
from deniable.mechanisms.summed import SummedHistogram
from deniable.mechanisms.threshold import ThresholdHistogram
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding
from deniable.randomness import ScriptedSource, Source, every_path, seeded_source, system_source

__all__ = [
    "BinaryResponse",
    "DesignMatrix",
    "DirectEncoding",
    "DistanceSensitive",
    "Estimate",
    "LaplaceEncoding",
    "Mechanism",
    "OptimizedUnary",
    "Reports",
    "ScriptedSource",
    "Source",
    "SquareWave",
    "SummedHistogram",
    "SymmetricUnary",
    "Tally",
    "ThresholdHistogram",
    "UnaryEncoding",
    "every_path",
    "seeded_source",
    "system_source",
]

__version__ = "0.1.0"
