"""How far apart two histograms are."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate

__all__ = ["euclidean", "kantorovich", "manhattan"]

_Floats = NDArray[np.float64]


def manhattan(first: Any, second: Any) -> float:
    """The summed absolute differences; half of it is the largest difference in the probability of
    any set of labels.

    Takes Estimates of the same labels, or arrays, or one of each.

    >>> manhattan([0.5, 0.5, 0.0], [0.5, 0.0, 0.5])
    1.0
    """
    a, b = _pair(first, second)
    return float(np.abs(a - b).sum())


def euclidean(first: Any, second: Any) -> float:
    """The root of the summed squared differences.

    >>> euclidean([0.5, 0.5, 0.0], [0.5, 0.0, 0.5]) == 0.5**0.5
    True
    """
    a, b = _pair(first, second)
    return float(np.sqrt(((a - b) ** 2).sum()))


def kantorovich(first: Any, second: Any, positions: Any = None) -> float:
    """The earth mover's distance on a line: the least total of mass times distance moved.

    The sum over neighbouring labels of |difference of the cumulative sums| times the step between
    them. Labels are one step apart, unless `positions` says where each one is. Both sides must have
    the same sum: use `consistent("norm")` or `projected()` for estimates that do not sum to 1.

    >>> kantorovich([1, 0, 0], [0, 0, 1])
    2.0
    >>> kantorovich([1, 0, 0], [0, 0, 1], positions=[0, 10, 50])
    50.0
    """
    a, b = _pair(first, second)
    if abs(a.sum() - b.sum()) > 1e-6 * max(1.0, abs(a.sum())):
        raise ParameterError(
            "sum(second)",
            float(b.sum()),
            f"must equal sum(first) = {float(a.sum())!r}; see Estimate.consistent()",
        )
    if positions is None:
        steps = np.ones(a.size - 1)
    else:
        where = _numbers("positions", positions)
        if where.shape != a.shape:
            raise ParameterError(
                "len(positions)", where.size, f"must be the number of labels, {a.size}"
            )
        steps = np.diff(where)
        if np.any(steps <= 0):
            raise ParameterError("positions", positions, "must increase")
    return float((np.abs(np.cumsum(a - b))[:-1] * steps).sum())


def _pair(first: Any, second: Any) -> tuple[_Floats, _Floats]:
    if (
        isinstance(first, Estimate)
        and isinstance(second, Estimate)
        and first.labels != second.labels
    ):
        raise ParameterError(
            "labels", list(second.labels), f"must be those of the first, {list(first.labels)}"
        )
    a, b = _numbers("first", first), _numbers("second", second)
    if a.shape != b.shape:
        raise ParameterError("len(second)", b.size, f"must be that of the first, {a.size}")
    return a, b


def _numbers(name: str, values: Any) -> _Floats:
    try:
        array = np.asarray(
            values.proportions if isinstance(values, Estimate) else values, dtype=np.float64
        )
    except (TypeError, ValueError):
        raise ParameterError(
            name, type(values).__name__, "must be an Estimate or a sequence of numbers"
        ) from None
    if array.ndim != 1 or array.size == 0:
        raise ParameterError(
            f"{name}.shape", array.shape, "must be one row with at least one entry"
        )
    if not np.all(np.isfinite(array)):
        place = int((~np.isfinite(array)).argmax())
        raise ParameterError(f"{name}[{place}]", float(array[place]), "must be finite")
    return array
