"""What one step of an engine changes in its state."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.conservation import Ledger
from deniable.aggregator.counting.panes import Panes, Reports

__all__ = ["Step", "Stored"]

_Words = NDArray[np.uint64]


@dataclass
class Stored:
    """Stored rows of a bucket: the waiting rows of one proxy, or (proxy None) the joined ids."""

    channel: int
    epoch: int
    bucket: int
    proxy: int | None
    rows: _Words


@dataclass
class Step:
    """What one step of the engine changes."""

    positions: dict[int, tuple[int, ...]] = field(default_factory=dict)
    marks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """By proxy, partition and channel: the epoch before which the partition is complete."""
    identities: dict[int, str] = field(default_factory=dict)
    stored: list[Stored] = field(default_factory=list)
    panes: Panes = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    reports: Reports = field(default_factory=list)
    """Counted reports that are to be kept."""

    def __bool__(self) -> bool:
        return bool(
            self.positions
            or self.marks
            or self.identities
            or self.stored
            or self.panes
            or self.ledger
        )
