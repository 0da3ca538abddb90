"""Survey designs by name: how sensitive questions are asked in the field, each with its exact
channel and its estimates."""

from deniable.mechanisms.designs.cheater import CheaterDetection, SymmetricCheaterDetection
from deniable.mechanisms.designs.crosswise import Crosswise
from deniable.mechanisms.designs.direct_question import DirectQuestion
from deniable.mechanisms.designs.extended_crosswise import ExtendedCrosswise
from deniable.mechanisms.designs.forced import ForcedResponse
from deniable.mechanisms.designs.item_count import ItemCount
from deniable.mechanisms.designs.item_sum import ItemSum
from deniable.mechanisms.designs.kuk import Kuk
from deniable.mechanisms.designs.lie_detector import StochasticLieDetector
from deniable.mechanisms.designs.mangat import Mangat
from deniable.mechanisms.designs.scrambling import Scrambling
from deniable.mechanisms.designs.triangular import Triangular
from deniable.mechanisms.designs.unrelated import UnrelatedQuestion, UnrelatedQuestionUnknown
from deniable.mechanisms.designs.warner import Warner

__all__ = [
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
]
