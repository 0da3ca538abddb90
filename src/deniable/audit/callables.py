"""Audits of any Python function that makes a report from a value, whatever library it is from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.audit.findings import Audit
from deniable.audit.game import Game, Progress
from deniable.audit.mechanisms import check_claim, play_each
from deniable.audit.views import EqualReports, ItemScores, WholeReport
from deniable.checks import check_confidence
from deniable.errors import ParameterError

__all__ = ["audit_callable"]

_ROW_BYTES = 64
"""A longer report is seen by its first bytes and a digest of all."""
_DIGEST_BYTES = 8


def audit_callable(
    randomize: Callable[[Any], Any],
    inputs: Sequence[Any],
    claim: float,
    n: int = 100_000,
    confidence: float = 0.999,
    progress: Progress | None = None,
) -> Audit:
    """Try to tell the inputs of any randomizing function apart by more than `claim`.

    `randomize(value)` returns one report: bytes, a text, a number, or anything whose `repr` says
    what an observer sees. It is called up to `n` times. Nine tenths of the calls play the game
    about one report, one tenth the game about two reports of one person, which shows coins that
    are used again. A correct claim is refuted with probability at most 1 - `confidence`.

    >>> import random
    >>> coin = random.Random(1)
    >>> lazy = audit_callable(lambda bit: bit ^ (coin.random() < 0.25), [0, 1], 0.7, n=20_000)
    >>> lazy.holds  # its loss is ln 3
    False
    """
    check_confidence(confidence)
    check_claim(claim)
    if len(inputs) < 2:
        raise ParameterError("inputs", len(inputs), "must be at least two values to tell apart")

    def report(i: int, count: int) -> NDArray[np.uint8]:
        return _rows([randomize(inputs[i]) for _ in range(count)])

    def two_reports(i: int, count: int) -> NDArray[np.uint8]:
        pairs = [(randomize(inputs[0]), randomize(inputs[i])) for _ in range(count)]
        return np.hstack([_rows([pair[at] for pair in pairs]) for at in (0, 1)])

    names = [str(value) for value in inputs]
    games = [
        Game("one report", claim, names, report, [WholeReport(), ItemScores()]),
        Game("two reports, for coins used again", claim, names[:2], two_reports, [EqualReports()]),
    ]
    name = getattr(randomize, "__qualname__", type(randomize).__name__)
    return Audit(name, math.nan, confidence, play_each(games, [0.9, 0.1], n, confidence, progress))


def _rows(reports: Sequence[Any]) -> NDArray[np.uint8]:
    """One row of the same length per report: its length, then its bytes or what stands for them."""
    content = b"".join(_row(report) for report in reports)
    return np.frombuffer(content, dtype=np.uint8).reshape(len(reports), _ROW_BYTES)


def _row(report: Any) -> bytes:
    seen = bytes(report) if isinstance(report, bytes | bytearray) else repr(report).encode()
    length = len(seen).to_bytes(4, "big")
    if len(seen) > _ROW_BYTES - 4:
        digest = hashlib.blake2b(seen, digest_size=_DIGEST_BYTES).digest()
        seen = digest + seen[: _ROW_BYTES - 4 - _DIGEST_BYTES]
    return (length + seen).ljust(_ROW_BYTES, b"\0")
