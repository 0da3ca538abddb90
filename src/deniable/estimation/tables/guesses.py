"""Unbiased guesses of single answers: useless about one person, but sufficient for sums over a
crowd.

Given the truth z, a guess r of the vector of indicators of z has E r = e_z. Anything linear in r is
unbiased over any crowd, weighted or not; and because e_z e_z' = diag(e_z), so is diag(r) for the
product that regression needs. Products of the guesses of different questions are unbiased too,
because their coins are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import NoReportsError, ParameterError
from deniable.estimation.likelihood import bit_pair, refuse_several_labels
from deniable.matrices import left_inverse

__all__ = ["Variable", "answer_guesses", "numeric_variable", "predictor_variable"]

_Floats = NDArray[np.float64]


def answer_guesses(mechanism: Any, reports: Any) -> _Floats:
    """For each report an unbiased guess of the indicators of the true label: one row per report,
    one column per label.

    The rows need not lie within 0 and 1, and sum to 1 where the channel is a matrix.
    """
    data = mechanism.reports(reports).data
    if not len(data):
        raise NoReportsError("there are no reports, so there is nothing to learn")
    channel = mechanism.channel()
    if isinstance(channel, np.ndarray):
        inverse = mechanism.inverse() if hasattr(mechanism, "inverse") else left_inverse(channel)
        return np.ascontiguousarray(inverse.T[data])
    supports = getattr(mechanism, "supports", None)
    if supports is None:
        raise ParameterError(
            "mechanism", mechanism, "has neither a channel matrix nor reports that support labels"
        )
    a, b = bit_pair(mechanism)
    return np.asarray((supports(data) - b) / (a - b))


@dataclass(frozen=True, eq=False)
class Variable:
    """One or more columns of numbers, possibly known only by unbiased guesses: values and products,
    one row per person."""

    names: tuple[str, ...]
    values: _Floats
    products: _Floats
    """Of the columns with each other: person, column, column."""
    epsilon: float = 0.0
    known: bool = False
    """Whether these are the values themselves."""

    @property
    def n(self) -> int:
        """People."""
        return len(self.values)


def numeric_variable(name: str, given: Any, scores: Sequence[float] | None = None) -> Variable:
    """One number per person: a column of numbers, or (mechanism, reports) of a scored answer or of
    a scrambled number."""
    if not isinstance(given, tuple):
        values = _numbers(name, given)
        return Variable((name,), values[:, None], (values**2)[:, None, None], known=True)
    mechanism, reports = given
    if hasattr(mechanism, "square_guesses"):
        values, squares = mechanism.guesses(reports), mechanism.square_guesses(reports)
        return Variable((name,), values[:, None], squares[:, None, None], mechanism.epsilon)
    refuse_several_labels(mechanism)
    guesses = answer_guesses(mechanism, reports)
    of = _scores(name, mechanism.labels, scores)
    return Variable(
        (name,), (guesses @ of)[:, None], (guesses @ of**2)[:, None, None], mechanism.epsilon
    )


def predictor_variable(name: str, given: Any, scores: Sequence[float] | None = None) -> Variable:
    """The columns of a regression: a number, or an indicator of each answer but the first of a
    randomized question.

    With `scores`, the answer is a number too. With several labels per person, every label has an
    indicator, and because their coins are independent, the products of the guesses of two labels
    are unbiased.
    """
    if (
        not isinstance(given, tuple)
        or hasattr(given[0], "square_guesses")
        or getattr(given[0], "numeric", False)
        or scores
    ):
        return numeric_variable(name, given, scores)
    mechanism, reports = given
    if not getattr(mechanism, "exclusive", True):
        guesses = answer_guesses(mechanism, reports)
        products = guesses[:, :, None] * guesses[:, None, :]
        diagonal = np.arange(guesses.shape[1])
        products[:, diagonal, diagonal] = guesses
        return Variable(
            tuple(f"{name}[{label}]" for label in mechanism.labels),
            guesses,
            products,
            mechanism.epsilon,
        )
    guesses = answer_guesses(mechanism, reports)[:, 1:]
    names = tuple(f"{name}[{label}]" for label in mechanism.labels[1:])
    return Variable(
        names, guesses, guesses[:, :, None] * np.eye(guesses.shape[1]), mechanism.epsilon
    )


def _numbers(name: str, given: Any) -> _Floats:
    try:
        values = np.asarray(
            given.to_numpy() if hasattr(given, "to_numpy") else given, dtype=np.float64
        )
    except (TypeError, ValueError):
        raise ParameterError(name, type(given).__name__, "must hold numbers only") from None
    if values.ndim != 1 or not values.size:
        raise ParameterError(
            f"{name}.shape", values.shape, "must be a column with at least one row"
        )
    if not np.isfinite(values).all():
        raise ParameterError(
            f"{name}[{(~np.isfinite(values)).argmax()}]", "…", "must not be missing or infinite"
        )
    return values


def _scores(name: str, labels: Sequence[Any], scores: Sequence[float] | None) -> _Floats:
    if scores is not None:
        if len(scores) != len(labels):
            raise ParameterError(
                "scores", list(scores), f"must have one entry per label of {name}, {len(labels)}"
            )
        return np.asarray(scores, dtype=np.float64)
    if all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels):
        return np.asarray(labels, dtype=np.float64)
    if len(labels) == 2:
        return np.array([0.0, 1.0])
    raise ParameterError("scores", None, f"must be given for {name}, whose labels are not numbers")
