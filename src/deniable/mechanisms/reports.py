"""Reports, which leave a device, and tallies, which count them.

Both are self-describing. Their bytes start with the mechanism and its parameters, and contain
nothing else but the reports: no order, length or spare bit reveals more than the mechanism's
channel.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from deniable.checks import is_whole
from deniable.counts import Counts
from deniable.errors import (
    NoReportsError,
    ParameterError,
    ReportFormatError,
    ReportMismatchError,
    SurveyWarning,
    WireError,
)
from deniable.wire.containers import (
    REPORTS,
    TALLY,
    pack_container,
    pack_numbered,
    unpack_container,
    unpack_numbered,
)
from deniable.wire.counts import pack_counts, unpack_counts

if TYPE_CHECKING:
    from deniable.estimation.estimate import Estimate
    from deniable.mechanisms.mechanism import Mechanism
    from deniable.randomness import Source

__all__ = ["Reports", "Tally"]

_LARGEST_UNASKED = 1024
"""The largest matrix that is built from bytes alone: at most 50 MB and a few seconds."""


_BLOCK_BYTES = 1 << 26
"""How much memory the reports of a block take."""
_MOST_UNHINTED = 1 << 32


@dataclass(frozen=True, eq=False)
class Reports:
    """Randomized answers of one mechanism, one row of fixed length each."""

    mechanism: Mechanism
    data: NDArray[Any]
    origin: object = field(default=None, repr=False)
    """What replays of the same permanent answers have in common; None for independent reports. Part
    of the reports loses it."""

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, item: int | slice | NDArray[Any]) -> Reports:
        if isinstance(item, int | np.integer):
            index = range(len(self))[item]
            item = slice(index, index + 1)
        return Reports(self.mechanism, self.data[item])

    def __iter__(self) -> Iterator[Reports]:
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Reports):
            return NotImplemented
        return self.mechanism == other.mechanism and np.array_equal(self.data, other.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} reports of {self.mechanism!r}>"

    def to_bytes(self) -> bytes:
        """The reports with the description of their mechanism."""
        return write_rows(REPORTS, self.mechanism, self.data)

    @staticmethod
    def from_bytes(content: bytes, mechanism: Mechanism | None = None) -> Reports:
        """The reports that :meth:`to_bytes` wrote. If `mechanism` is given, reports of any other
        are refused.

        Without it, the mechanism is built from its description. Untrusted bytes would decide what
        that costs, so a mechanism with a matrix of over a million cells must be given.
        """
        return Reports(*read_rows(REPORTS, "reports", content, mechanism))


class Tally(Counts):
    """Counts that know their mechanism: incremental, mergeable, and as small for a billion reports
    as for ten."""

    def __init__(
        self, mechanism: Mechanism, counts: NDArray[np.int64] | None = None, n: int = 0
    ) -> None:
        super().__init__(np.zeros(mechanism.cells, dtype=np.int64) if counts is None else counts, n)
        self.mechanism = mechanism
        self.replays: dict[object, tuple[int, int]] = {}
        """By their origin, how many permanent answers were replayed, and how often."""

    def __len__(self) -> int:
        return self.n

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tally):
            return NotImplemented
        return self.mechanism == other.mechanism and super().__eq__(other)

    __hash__ = None

    def __repr__(self) -> str:
        return f"<tally of {self.n:,} reports of {self.mechanism!r}>"

    def update(self, reports: Any) -> Tally:
        """Count more reports in; returns the tally itself."""
        reports = self.mechanism.reports(reports)
        if len(reports):
            self.counts += self.mechanism.count(reports.data)
            self.n += len(reports)
            if reports.origin is not None:
                self._add_replays(reports.origin, len(reports), 1)
        return self

    def randomize(self, values: Any, source: Source | None = None) -> Tally:
        """Randomize a column and count the reports, block by block; returns the tally itself.

        Reports of many labels are large (10^7 of 10^4 bits: 12 GB): here, only a block of them is
        in memory at a time. For simulation and for a curator's own column: devices send reports.

        >>> from deniable import OptimizedUnary, seeded_source
        >>> tally = OptimizedUnary(3, 1.0).tally().randomize([0, 1, 1, 2] * 100, seeded_source(1))
        >>> len(tally)
        400
        """
        single = isinstance(values, str | bytes) or not hasattr(values, "__len__")
        whole = [values] if single else values
        block = max(1, _BLOCK_BYTES // self.mechanism.report_bytes)
        for start in range(0, len(whole), block):
            self.update(self.mechanism.privatize(whole[start : start + block], source))
        return self

    def _add_replays(self, origin: object, people: int, times: int) -> None:
        self.replays[origin] = (people, self.replays.get(origin, (people, 0))[1] + times)

    def merge(self, other: Counts) -> Tally:
        """Add what another tally of the same mechanism has counted; returns this tally."""
        if not isinstance(other, Tally):
            raise ReportMismatchError(
                f"a tally merges with a tally, not with {type(other).__name__}"
            )
        if other.mechanism != self.mechanism:
            raise ReportMismatchError(
                f"a tally of {self.mechanism!r} cannot take in one of {other.mechanism!r}"
            )
        super().__iadd__(other)
        for origin, (people, times) in other.replays.items():
            self._add_replays(origin, people, times)
        return self

    def __iadd__(self, other: Counts) -> Self:
        self.merge(other)
        return self

    def estimate(self, population: int | None = None, **options: Any) -> Estimate:
        """What the counted reports say about the population."""
        return self.mechanism.estimate(self, population, **options)

    def to_bytes(self) -> bytes:
        """The counts with the description of their mechanism."""
        body = pack_numbered(self.n, pack_counts(self))
        return pack_container(TALLY, _description(self.mechanism), body)

    @staticmethod
    def from_bytes(content: bytes, mechanism: Mechanism | None = None) -> Tally:
        """The tally that :meth:`to_bytes` wrote; `mechanism` as in :meth:`Reports.from_bytes`."""
        mechanism, n, body = _unpack(TALLY, "a tally", content, mechanism)
        if len(body) != 8 * mechanism.cells:
            raise ReportFormatError(
                f"a tally of {mechanism!r} holds {mechanism.cells} counts, and {len(body)} bytes"
                " follow"
            )
        counts = unpack_counts(body, n).counts
        mechanism.check_counts(counts, n)
        return Tally(mechanism, counts, n)


def hint_at_blocks(report_bytes: int, n: int) -> None:
    """Warn before reports are drawn that need a large part of a computer's memory."""
    if report_bytes * n > _MOST_UNHINTED:
        warnings.warn(
            f"{n:,} reports of {report_bytes:,} bytes take {report_bytes * n / 2**30:.1f} GiB;"
            " mechanism.tally().randomize(values) draws and counts them in blocks",
            SurveyWarning,
            stacklevel=3,
        )


def require_reports(n: int) -> int:
    """The number of reports, checked not to be 0."""
    if n == 0:
        raise NoReportsError("there are no reports, so there is nothing to estimate")
    return n


def write_rows(magic: bytes, mechanism: Mechanism, data: NDArray[Any]) -> bytes:
    """Rows of the mechanism's layout, with its description."""
    return pack_container(magic, _description(mechanism), pack_numbered(len(data), data.tobytes()))


def read_rows(
    magic: bytes, what: str, content: bytes, mechanism: Mechanism | None = None
) -> tuple[Mechanism, NDArray[Any]]:
    """The mechanism and the rows that :func:`write_rows` wrote, checked."""
    mechanism, n, body = _unpack(magic, what, content, mechanism)
    dtype, shape = mechanism.layout
    row = dtype.itemsize * int(np.prod(shape, dtype=int))
    if len(body) != n * row:
        raise ReportFormatError(
            f"{n} {what} of {row} bytes each need {n * row} bytes, and {len(body)} follow"
        )
    data = np.frombuffer(body, dtype=dtype).reshape(n, *shape)
    mechanism.check(data)
    return mechanism, data


def _description(mechanism: Mechanism) -> bytes:
    try:
        return json.dumps(
            mechanism.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
    except (TypeError, UnicodeEncodeError):
        rule = (
            "must be strings, numbers, booleans or tuples of them, because the bytes describe them"
            " in JSON"
        )
        raise ParameterError("labels", mechanism.labels, rule) from None


def _unpack(
    magic: bytes, what: str, content: bytes, mechanism: Mechanism | None
) -> tuple[Mechanism, int, bytes]:
    """The mechanism, the number of reports, and the rows or counts after it."""
    try:
        description, body = unpack_container(magic, what, content)
        n, rows = unpack_numbered(what, body)
    except WireError as error:
        raise ReportFormatError(str(error)) from None
    if mechanism is None:
        return (_with_matrix if _has_matrix(description) else _described)(description), n, rows
    if description != _description(mechanism):
        raise ReportMismatchError(
            f"these bytes are {what} of another mechanism than {mechanism!r}, or of other"
            " parameters"
        )
    return mechanism, n, rows


@lru_cache(maxsize=256)
def _has_matrix(description: bytes) -> bool:
    """Whether a described mechanism is drawn from a matrix; refuses one too large to build from
    bytes alone."""
    from deniable.mechanisms.mechanism import Mechanism  # noqa: PLC0415
    from deniable.mechanisms.protocols.design_matrix import MatrixMechanism  # noqa: PLC0415 - each needs the other

    fields = _parsed(description)
    kind = (
        Mechanism._registry.get(str(fields.get("mechanism"))) if isinstance(fields, dict) else None
    )
    if kind is None or not issubclass(kind, MatrixMechanism):
        return False
    sizes = [
        fields.get(name) for name in ("values", "k", "bins", "points")
    ]  # "k" was the name of "values"
    size = max(
        len(each) if isinstance(each, list) else each if is_whole(each) else 0 for each in sizes
    )
    if size > _LARGEST_UNASKED and "P" not in fields:
        rule = (
            f"a matrix of {size} values is too large to build from bytes alone (at most"
            f" {_LARGEST_UNASKED}): give the mechanism"
        )
        raise ReportFormatError(rule)
    return True


def _parsed(description: bytes) -> Any:
    try:
        return json.loads(description)
    except (ValueError, RecursionError):
        raise ReportFormatError(
            "the description of the mechanism is not JSON, or is cut off"
        ) from None


@lru_cache(maxsize=64)
def _described(description: bytes) -> Mechanism:
    """The mechanism of a description. Millions of reports have the same one, and some take a second
    to build."""
    from deniable.mechanisms.registry import from_dict  # noqa: PLC0415 - each needs the other

    return from_dict(_parsed(description))


@lru_cache(maxsize=4)
def _with_matrix(description: bytes) -> Mechanism:
    """The same, for mechanisms that may take some fifty megabytes each."""
    return _described.__wrapped__(description)
