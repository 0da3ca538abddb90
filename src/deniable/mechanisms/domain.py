"""The set of values a mechanism is defined on, and the conversion of users' data (lists, arrays,
columns) to indices."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import (
    AnswerTypeError,
    MissingAnswerError,
    OutOfDomainError,
    ParameterError,
    UnknownLabelError,
)

__all__ = ["TRUTH", "Domain", "column", "listed", "missing", "numbers"]

LARGEST_DOMAIN = 1 << 24
_MOST_LISTED = 8
"""Labels that an error lists."""
TRUTH = dict.fromkeys(("yes", "y", "true", "t", "1"), True) | dict.fromkeys(
    ("no", "n", "false", "f", "0"), False
)
"""What the spellings of a yes or a no mean, in lower case."""


def listed(labels: Sequence[Hashable]) -> str:
    """The labels of a domain, for errors: labels are public, answers are not.

    >>> listed(["no", "yes"]), listed(range(40))
    ('2 labels of the domain: no, yes', '40 labels of the domain: 0, 1, 2, 3, 4, 5, 6, 7, …')
    """
    shown = ", ".join(str(label) for label in labels[:_MOST_LISTED])
    return (
        f"{len(labels)} labels of the domain: {shown}{', …' if len(labels) > _MOST_LISTED else ''}"
    )


def _truths(labels: Sequence[Hashable]) -> dict[Hashable, int]:
    """Where one label is yes and one is no, true and false, 1 and 0 mean them too, as values and
    as texts, as in files."""
    # a question with yes and no has few labels
    texts = [str(label).lower() for label in labels[:_MOST_LISTED]]
    if texts.count("yes") != 1 or texts.count("no") != 1:
        return {}
    places: dict[Hashable, int] = {True: texts.index("yes"), False: texts.index("no")}
    index = dict(places)
    for text, truth in TRUTH.items():
        index.update(dict.fromkeys((text, text.title(), text.upper()), places[truth]))
    return index


@dataclass(frozen=True)
class Domain:
    """The values 0 … k - 1, or k user-defined labels, in order."""

    labels: Sequence[Hashable]
    """A tuple; for numbers a range, so that a domain of millions takes no memory until it is
    listed."""
    numbered: bool
    """Whether the labels are just the numbers 0 … k - 1."""

    @classmethod
    def of(cls, values: int | Iterable[Hashable]) -> Domain:
        """A domain from its size or its labels.

        >>> Domain.of(["yes", "no"]).indices(["no", "yes"]).tolist()
        [1, 0]
        """
        if isinstance(values, Domain):
            return values
        if isinstance(values, bool | str | bytes | float | None):
            raise ParameterError(
                "values", values, "must be the number of values or a list of their labels"
            )
        if isinstance(values, int | np.integer):
            if not 2 <= values <= LARGEST_DOMAIN:
                raise ParameterError("values", values, f"must lie between 2 and {LARGEST_DOMAIN}")
            return cls(range(int(values)), numbered=True)
        try:
            labels = tuple(_label(label) for label in values)
            distinct = len(set(labels))
        except TypeError:
            raise ParameterError(
                "values",
                values,
                "must be the number of values or a list of their labels, which can be hashed",
            ) from None
        if len(labels) < 2:
            raise ParameterError("values", list(labels), "must hold at least 2 labels")
        if any(map(missing, labels)):
            raise ParameterError("values", list(labels), "must not contain a missing label")
        if distinct < len(labels):
            twice = next(label for i, label in enumerate(labels) if label in labels[:i])
            raise ParameterError("values", list(labels), f"must not repeat a label: {twice!r}")
        if labels == tuple(range(len(labels))) and all(type(x) is int for x in labels):
            return cls(range(len(labels)), numbered=True)
        return cls(labels, numbered=False)

    def __len__(self) -> int:
        return len(self.labels)

    def spec(self) -> int | list[Hashable]:
        """The argument of :meth:`of` that makes this domain again."""
        return len(self.labels) if self.numbered else list(self.labels)

    def indices(self, values: Any) -> NDArray[np.intp]:
        """The index of each value, or an error with the position of the first bad one."""
        array = column(values)
        if self.numbered:
            return self._numbers(array)
        index = _truths(self.labels) | {label: i for i, label in enumerate(self.labels)}
        out = np.empty(array.size, dtype=np.intp)
        for position, value in enumerate(array.tolist()):
            try:
                out[position] = index[value]
            except (KeyError, TypeError):
                if missing(value):
                    raise MissingAnswerError(position, "is missing (NaN or null)") from None
                raise UnknownLabelError(
                    position, f"is not one of the {listed(self.labels)}"
                ) from None
        return out

    def _numbers(self, array: NDArray[Any]) -> NDArray[np.intp]:
        k = len(self)
        array = numbers(array)
        if array.dtype.kind == "f":
            missing = np.isnan(array)
            if missing.any():
                raise MissingAnswerError(int(missing.argmax()), "is missing (NaN or null)")
            broken = array != np.floor(array)
            if broken.any():
                raise OutOfDomainError(
                    int(broken.argmax()), f"is not a whole number from 0 to {k - 1}"
                )
        elif array.dtype.kind not in "iub":
            raise AnswerTypeError(
                None if array.size == 0 else 0, f"is not a whole number from 0 to {k - 1}"
            )
        if array.size and not _lies_below(array, k):
            outside = (array < 0) | (array >= k)
            raise OutOfDomainError(int(outside.argmax()), f"lies outside the domain 0 to {k - 1}")
        return array.astype(np.intp, copy=False)


def _lies_below(array: NDArray[Any], k: int) -> bool:
    """Whether all are between 0 and `k` - 1. One comparison for whole numbers: read as unsigned,
    negative ones are large."""
    if array.dtype.kind == "i":
        array = array.view(array.dtype.str.replace("i", "u"))
        # A number below a power of two has no higher bits, and bitwise OR is faster than comparing.
        most = np.maximum if k & (k - 1) else np.bitwise_or
        return int(most.reduce(array)) < k
    return bool(array.min() >= 0 and array.max() < k)


def column(values: Any) -> NDArray[Any]:
    """One value, or a column of them from any common library, as a one-dimensional array."""
    dimensions = len(getattr(values, "shape", ()))
    if dimensions > 1:
        raise AnswerTypeError(
            None, f"must be one value or one column of values, not {dimensions}-dimensional"
        )
    if isinstance(values, np.ndarray):
        array = _unmasked(values)
    elif isinstance(values, str | bytes) or not isinstance(values, Iterable):
        array = np.empty(1, dtype=object)
        array[0] = _plain(values)
    # pandas, Polars; Arrow arrays need to be told that a copy is fine
    elif hasattr(values, "to_numpy"):
        array = _frame_column(values)
    else:
        array = _sequence(values if isinstance(values, Sequence) else list(values))
    return array.reshape(1) if array.ndim == 0 else array


def missing(value: Any) -> bool:
    """Whether it is None, NaN, or pandas' NA."""
    if isinstance(value, float | Decimal):
        return math.isnan(value)
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def _unmasked(array: NDArray[Any]) -> NDArray[Any]:
    """The array, unless it is a NumPy masked array with a masked value, which is not an answer."""
    if isinstance(array, np.ma.MaskedArray):
        hidden = np.ma.getmaskarray(array).reshape(-1)
        if hidden.any():
            raise MissingAnswerError(int(hidden.argmax()), "is missing (masked)")
        return array.data
    return array


def _sequence(values: Sequence[Any]) -> NDArray[Any]:
    if values and all(type(v) is int for v in values):
        try:
            return np.array(values, dtype=np.int64)
        except OverflowError:
            pass
    array = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):  # one by one, because NumPy would split tuples
        array[position] = _plain(value)
    return array


def _frame_column(values: Any) -> NDArray[Any]:
    module = type(values).__module__.partition(".")[0]
    if module == "pyarrow":
        if values.null_count:
            raise MissingAnswerError(
                values.is_null().to_pylist().index(True), "is missing (NaN or null)"
            )
        return _as_array(
            values.to_numpy()
            if hasattr(values, "num_chunks")
            else values.to_numpy(zero_copy_only=False)
        )
    if module == "pandas" and values.isna().any():
        raise MissingAnswerError(int(values.isna().to_numpy().argmax()), "is missing (NaN or null)")
    if module == "polars" and values.null_count():
        raise MissingAnswerError(int(values.is_null().arg_max()), "is missing (NaN or null)")
    return _as_array(values.to_numpy())


def _as_array(array: Any) -> NDArray[Any]:
    return array if isinstance(array, np.ndarray) else np.asarray(array)


def numbers(array: NDArray[Any]) -> NDArray[Any]:
    """A column of Python objects as an array of numbers, if they are; any other column as it is."""
    if array.dtype != object:
        return array
    for position, value in enumerate(array.tolist()):
        if missing(value):
            raise MissingAnswerError(position, "is missing (NaN or null)")
        if not isinstance(value, int | float):
            raise AnswerTypeError(position, "is not a number")
        if isinstance(value, int) and not -(1 << 62) < value < 1 << 62:
            raise OutOfDomainError(position, "lies outside the domain")
    return np.array(
        array.tolist(), dtype=np.float64 if any(isinstance(v, float) for v in array) else np.int64
    )


def _label(value: Any) -> Hashable:
    """A label as it was before JSON, which has no tuples, made a list of it."""
    label: Hashable = (
        tuple(map(_label, value)) if isinstance(value, list | tuple) else _plain(value)
    )
    return label


def _plain(value: Any) -> Any:
    """A NumPy or Arrow scalar as a Python value, so that labels compare and serialize alike."""
    if isinstance(value, np.generic):
        return value.item()
    return value.as_py() if hasattr(value, "as_py") else value
