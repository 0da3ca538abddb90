"""The likelihood of a report under each true value: the basis of regression and of one person's
posterior."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError

__all__ = ["ReportLikelihood", "bit_pair", "clear_answers", "likelihoods", "refuse_several_labels"]

_Floats = NDArray[np.float64]


class ReportLikelihood(Protocol):
    """What is needed from a mechanism here."""

    @property
    def epsilon(self) -> float: ...

    @property
    def labels(self) -> tuple[Any, ...]: ...

    def channel(self) -> Any: ...

    def reports(self, reports: Any) -> Any: ...


def likelihoods(mechanism: ReportLikelihood, reports: Any) -> _Floats:
    """P(report | value), one row per report and one column per value; each row up to a factor,
    which no posterior depends on.

    For a matrix these are its rows. A report that supports some labels and not others is
    exp(epsilon) times as likely under a label it supports as under one it does not.
    """
    refuse_several_labels(mechanism)
    data = mechanism.reports(reports).data
    channel = mechanism.channel()
    if isinstance(channel, np.ndarray):
        return np.asarray(channel[data], dtype=np.float64)
    supports = getattr(mechanism, "supports", None)
    if supports is None:
        raise ParameterError(
            "mechanism", mechanism, "has neither a channel matrix nor reports that support labels"
        )
    return np.where(supports(data), math.exp(mechanism.epsilon), 1.0)


def refuse_several_labels(mechanism: Any) -> None:
    """Refuse multiple choice where each person must have exactly one label."""
    if not getattr(mechanism, "exclusive", True):
        raise ParameterError(
            "mechanism",
            mechanism,
            "has people with several labels: take one of them, by mechanism.option(label, reports)",
        )


def clear_answers(answers: Any) -> tuple[tuple[Any, ...], _Floats]:
    """Answers that were not randomized: their labels in order, and 1 for the one each person
    gave."""
    array = np.asarray(answers.to_numpy() if hasattr(answers, "to_numpy") else answers)
    if array.ndim != 1 or not array.size:
        raise ParameterError("answers.shape", array.shape, "must be a column with at least one row")
    try:
        labels, numbers = np.unique(array, return_inverse=True)
    except TypeError:
        raise ParameterError(
            "answers", "…", "must be all texts or all numbers, with none missing"
        ) from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ParameterError(f"answers[{np.isnan(array).argmax()}]", "…", "must not be missing")
    return tuple(labels.tolist()), np.eye(labels.size)[numbers.reshape(-1)]


def bit_pair(mechanism: ReportLikelihood) -> tuple[float, float]:
    """The pair (a, b) of a channel that is one."""
    channel = mechanism.channel()
    try:
        a, b = channel
        return float(a), float(b)
    except (TypeError, ValueError):
        raise ParameterError(
            "mechanism", mechanism, "has neither a matrix nor a pair (a, b) as its channel"
        ) from None
