"""What a proxy keeps of an epoch while it is open: the ids it has seen, quotas, and the shares that
wait for the log."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deniable.proxy.intake.quotas import MessageCounts
from deniable.proxy.intake.rules import IntakeRules
from deniable.proxy.intake.seen import EpochIds
from deniable.proxy.intake.spool import Segment

__all__ = ["OpenEpoch", "Waiting"]

_Words = NDArray[np.uint64]


@dataclass
class Waiting:
    """Shares waiting to be moved to the log, and the spool segment that holds them."""

    segment: Segment
    since: int
    parts: list[_Words] = field(default_factory=list)
    n: int = 0
    n_bytes: int = 0

    def add(self, columns: _Words) -> None:
        self.parts.append(columns)
        self.n += columns.shape[1]
        self.n_bytes += columns.nbytes


@dataclass
class OpenEpoch:
    """The state of one channel and epoch while it is open; discarded when it is closed."""

    seen: EpochIds
    used: MessageCounts = field(default_factory=MessageCounts)
    moving: list[Waiting] = field(default_factory=list)
    """What is being moved, oldest first: nothing more is added to it, because it may already be in
    the log."""
    waiting: Waiting | None = None

    def all_waiting(self) -> list[Waiting]:
        """Oldest first."""
        return [*self.moving, *([self.waiting] if self.waiting else [])]

    @property
    def n_waiting(self) -> int:
        return sum(each.n for each in self.all_waiting())

    def is_due(self, now: int, rules: IntakeRules) -> bool:
        oldest = self.all_waiting()[:1]
        return self.n_waiting >= rules.threshold or any(
            now - each.since >= rules.deadline for each in oldest
        )
