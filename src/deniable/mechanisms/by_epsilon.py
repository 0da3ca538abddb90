"""Any mechanism by name, from an epsilon and a number of values."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import sqrt

from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.mechanisms.basic_rappor import BasicRappor
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.design import DesignMatrix
from deniable.mechanisms.direct import DirectEncoding
from deniable.mechanisms.distance import DistanceSensitive
from deniable.mechanisms.hadamard import HadamardResponse
from deniable.mechanisms.hashing import LocalHashing
from deniable.mechanisms.laplace import LaplaceEncoding
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.projection import RandomProjection
from deniable.mechanisms.rappor import Rappor
from deniable.mechanisms.square_wave import SquareWave
from deniable.mechanisms.subset import SubsetSelection
from deniable.mechanisms.summed import SummedHistogram
from deniable.mechanisms.threshold import ThresholdHistogram
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary, UnaryEncoding

__all__ = ["BY_EPSILON", "mechanism_by_name"]

_RAPPOR_HASHES = 2


def mechanism_by_name(name: str, epsilon: float, values: int) -> Mechanism:
    """The mechanism of that name whose report loses at most about `epsilon`, over `values` values.

    Other parameters get simple defaults: for `UnaryEncoding`, coins halfway between the symmetric and the optimized ones; for
    `DesignMatrix`, the matrix of direct encoding; for RAPPOR, two equal steps, two hashes, 32 bits, 8 cohorts.

    >>> mechanism_by_name("DirectEncoding", 1.0, 4)
    DirectEncoding(values=4, epsilon=1.0)
    """
    if name not in BY_EPSILON:
        raise ParameterError("mechanism", name, f"must be one of {', '.join(BY_EPSILON)}")
    exact.check_epsilon(epsilon)
    return _MAKERS[name](epsilon, exact.check_whole("values", values, 2, 1 << 24))


def _binary(epsilon: float, values: int) -> Mechanism:
    if values != 2:
        raise ParameterError("values", values, "must be 2 for BinaryResponse")
    return BinaryResponse.from_epsilon(epsilon)


def _unary(epsilon: float, values: int) -> Mechanism:
    optimized, symmetric = (kind(values, epsilon).channel() for kind in (OptimizedUnary, SymmetricUnary))
    b = Fraction((optimized.b + symmetric.b) / 2)
    growth = exact.exp(epsilon)
    return UnaryEncoding(values, exact.double_down(exact.down(growth * b / (1 - b + growth * b))), float(b))


def _equal_steps(epsilon: float, pairs: int) -> tuple[float, float, float]:
    """f, p and q of two steps that flip a bit equally often, whose report loses `epsilon` if 2 `pairs` bits change."""
    root = sqrt(float(exact.exp(epsilon / pairs)))
    flip = (1 - sqrt((root - 1) / (root + 1))) / 2
    return 2 * flip, flip, 1 - flip


_MAKERS: dict[str, Callable[[float, int], Mechanism]] = {
    "BinaryResponse": _binary,
    "DirectEncoding": lambda epsilon, values: DirectEncoding(values, epsilon),
    "DesignMatrix": lambda epsilon, values: DesignMatrix(DirectEncoding(values, epsilon).channel()),
    "LaplaceEncoding": lambda epsilon, values: LaplaceEncoding(values, epsilon),
    "SymmetricUnary": lambda epsilon, values: SymmetricUnary(values, epsilon),
    "OptimizedUnary": lambda epsilon, values: OptimizedUnary(values, epsilon),
    "UnaryEncoding": _unary,
    "SummedHistogram": lambda epsilon, values: SummedHistogram(values, epsilon),
    "ThresholdHistogram": lambda epsilon, values: ThresholdHistogram(values, epsilon),
    "LocalHashing": lambda epsilon, values: LocalHashing(values, epsilon),
    "HadamardResponse": lambda epsilon, values: HadamardResponse(values, epsilon),
    "SubsetSelection": lambda epsilon, values: SubsetSelection(values, epsilon),
    "RandomProjection": lambda epsilon, values: RandomProjection(values, epsilon),
    "BasicRappor": lambda epsilon, values: BasicRappor(values, *_equal_steps(epsilon, 1)),
    "Rappor": lambda epsilon, _: Rappor(32, _RAPPOR_HASHES, 8, *_equal_steps(epsilon, _RAPPOR_HASHES)),
    "DistanceSensitive": lambda epsilon, values: DistanceSensitive(values, epsilon),
    "SquareWave": SquareWave,
}
BY_EPSILON: tuple[str, ...] = tuple(_MAKERS)
"""The names of all mechanisms."""
