"""One attribute of a table: its reports, and what each of them contributes to the attribute's
labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation import likelihood
from deniable.estimation.unbias import coin_variances
from deniable.matrices import left_inverse

__all__ = ["Attribute", "Randomizer", "attribute"]

_Floats = NDArray[np.float64]

LARGEST_MATRIX = 4096
"""The most labels of an attribute whose channel is a matrix: beyond this, the matrix and its
inverse would fill memory."""


class Randomizer(likelihood.ReportLikelihood, Protocol):
    """What a table needs to know about a mechanism."""

    def support(self) -> tuple[_Floats, _Floats] | None: ...


@dataclass(frozen=True, eq=False)
class Attribute:
    """The reports of one attribute, read as unbiased contributions to its labels that sum to 1 for
    every report."""

    name: str
    labels: tuple[Hashable, ...]
    epsilon: float
    mechanism: str
    data: NDArray[Any]
    """One row per report; with an inverse, the number of its outcome."""
    inverse: _Floats | None
    """(labels, outcomes): the contribution of each outcome, if there are few."""
    support: tuple[_Floats, _Floats] | None = None
    """Without an inverse: P(supported | true) and P(supported | not true) of each label."""
    supports: Callable[[NDArray[Any]], NDArray[np.uint8]] | None = None
    """And which labels each report supports."""
    coins: _Floats | None = None
    """The smallest variance that the coins alone give a report's contribution to each label,
    whatever the truth."""

    @property
    def n(self) -> int:
        return len(self.data)

    def contributions(self, rows: slice) -> _Floats:
        """(reports, labels): the columns of the inverse; or (supported - b)/(a - b), moved so that
        they sum to 1.

        The sum is 1 in expectation already. What a report lacks is spread evenly over the labels,
        the best linear choice if the labels are alike: it adds no bias, removes the noise of the
        sum, and makes marginals and totals agree.
        """
        if self.inverse is not None:
            return np.asarray(self.inverse.T[self.data[rows]], dtype=np.float64)
        assert self.support is not None  # noqa: S101 - one of the two is set
        assert self.supports is not None  # noqa: S101
        a, b = self.support
        proportions = (self.supports(self.data[rows]) - b) / (a - b)
        proportions += (1 - proportions.sum(axis=1, keepdims=True)) / len(self.labels)
        return np.asarray(proportions, dtype=np.float64)


def attribute(name: str, mechanism: Randomizer, reports: Any) -> Attribute:
    """The reports of `mechanism` as an attribute of a table, if they can be one."""
    if not getattr(mechanism, "exclusive", True):
        raise ParameterError(
            f"mechanisms[{name!r}]",
            mechanism,
            "cannot be an attribute of a table: a person may have several of its labels",
        )
    data = mechanism.reports(reports).data
    labels = mechanism.labels
    kind = type(mechanism).__name__
    matrix = _matrix(name, mechanism, data)
    if matrix is not None:
        inverse = left_inverse(matrix)
        return Attribute(
            name,
            labels,
            mechanism.epsilon,
            kind,
            data,
            inverse,
            coins=coin_variances(inverse, matrix),
        )
    support, supports = mechanism.support(), getattr(mechanism, "supports", None)
    if support is None or supports is None:
        raise ParameterError(
            f"mechanisms[{name!r}]",
            mechanism,
            "cannot be an attribute of a table: its reports are neither outcomes of a matrix nor"
            " sets of supported labels",
        )
    a, b = support
    coins = np.minimum(a * (1 - a), b * (1 - b)) / (a - b) ** 2 * (1 - 1 / len(labels))
    return Attribute(name, labels, mechanism.epsilon, kind, data, None, support, supports, coins)


def _matrix(name: str, mechanism: Randomizer, data: NDArray[Any]) -> _Floats | None:
    """The channel, where it is a matrix of outcomes by labels and the reports are outcomes."""
    if data.ndim != 1 or data.dtype.kind not in "iu":
        return None
    if len(mechanism.labels) > LARGEST_MATRIX:  # before the channel is built: it would be large
        raise ParameterError(
            f"mechanisms[{name!r}]",
            mechanism,
            f"has more labels than a table allows, {LARGEST_MATRIX}",
        )
    channel = mechanism.channel()
    if (
        not isinstance(channel, np.ndarray)
        or channel.ndim != 2
        or channel.shape[1] != len(mechanism.labels)
    ):
        return None
    return channel
