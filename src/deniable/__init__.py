"""Ask a crowd a question and learn the crowd's answer, never a person's."""

from deniable import privacy
from deniable.estimation.estimate import Estimate
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.design import DesignMatrix
from deniable.mechanisms.direct import DirectEncoding
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.reports import Reports, Tally
from deniable.mechanisms.threshold import ThresholdHistogram
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding
from deniable.planning.plan import Plan, plan
from deniable.randomness import ScriptedSource, Source, every_path, seeded_source, system_source

__all__ = [
    "BinaryResponse",
    "DesignMatrix",
    "DirectEncoding",
    "Estimate",
    "Mechanism",
    "OptimizedUnary",
    "Plan",
    "Reports",
    "ScriptedSource",
    "Source",
    "SymmetricUnary",
    "Tally",
    "ThresholdHistogram",
    "UnaryEncoding",
    "every_path",
    "plan",
    "privacy",
    "seeded_source",
    "system_source",
]

__version__ = "0.1.0"
