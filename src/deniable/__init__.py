"""Ask a crowd a question and learn the crowd's answer, never a person's."""

from deniable import privacy
from deniable.estimation import statistics
from deniable.estimation.candidates import CandidateEstimate
from deniable.estimation.estimate import Estimate
from deniable.estimation.independence import IndependenceTest, independence_test
from deniable.estimation.statistic import Statistic
from deniable.estimation.tables import Table, joint
from deniable.mechanisms.basic_rappor import BasicRappor
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.composite import Composite, composite
from deniable.mechanisms.design import DesignMatrix
from deniable.mechanisms.direct import DirectEncoding
from deniable.mechanisms.hadamard import HadamardResponse
from deniable.mechanisms.hashing import LocalHashing
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.permanent import PermanentAnswer
from deniable.mechanisms.projection import RandomProjection
from deniable.mechanisms.rappor import Rappor
from deniable.mechanisms.reports import Reports, Tally
from deniable.mechanisms.subset import SubsetSelection
from deniable.mechanisms.threshold import ThresholdHistogram
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding
from deniable.planning.plan import Plan, plan
from deniable.randomness import ScriptedSource, Source, every_path, seeded_source, system_source

__all__ = [
    "BasicRappor",
    "BinaryResponse",
    "CandidateEstimate",
    "Composite",
    "DesignMatrix",
    "DirectEncoding",
    "Estimate",
    "HadamardResponse",
    "IndependenceTest",
    "LocalHashing",
    "Mechanism",
    "OptimizedUnary",
    "PermanentAnswer",
    "Plan",
    "RandomProjection",
    "Rappor",
    "Reports",
    "ScriptedSource",
    "Source",
    "Statistic",
    "SubsetSelection",
    "SymmetricUnary",
    "Table",
    "Tally",
    "ThresholdHistogram",
    "UnaryEncoding",
    "composite",
    "every_path",
    "independence_test",
    "joint",
    "plan",
    "privacy",
    "seeded_source",
    "statistics",
    "system_source",
]

__version__ = "0.1.0"
