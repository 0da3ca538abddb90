"""From the spool to the log: mixed blocks, moved in one transaction, and again if it failed."""

from __future__ import annotations

import logging
from collections import Counter

import numpy as np

from deniable.errors import LogAwayError
from deniable.logs.sqlite_log import ProxyLog
from deniable.proxy.intake.open_epochs import OpenEpoch, Waiting
from deniable.proxy.intake.rules import IntakeRules
from deniable.proxy.intake.spool import Group, Spool
from deniable.wire.blocks import cut

__all__ = ["ROWS_PER_BLOCK", "LogMover"]

_LOGGER = logging.getLogger("deniable.proxy")
ROWS_PER_BLOCK = 512
"""The target number of rows per block: the prefix has as many bits as that takes, but at most
`IntakeRules.prefix_bits`."""
_SECONDS_TO_RETRY = 2
"""Seconds between attempts to reach an unreachable log. Uploads have to wait during an attempt."""


class LogMover:
    """Moves shares to the log, and remembers whether the log can be reached.

    `gone` are the spool segments of which the log may still hold a note that they were moved.
    """

    def __init__(
        self,
        log: ProxyLog,
        spool: Spool,
        rules: IntakeRules,
        counters: Counter[str],
        gone: set[int],
    ) -> None:
        self.problem = ""
        """Why the log cannot be written at the moment; empty if it can."""
        self._log, self._spool, self._rules, self._counters = log, spool, rules, counters
        self._gone = gone
        self._retry_at = 0

    def waits(self, now: int) -> bool:
        """Whether it is too early to try an unreachable log again."""
        return bool(self.problem) and now < self._retry_at

    def note_away(self, error: LogAwayError, now: int, n_waiting: int) -> None:
        """Record that the log could not be reached."""
        if not self.problem:
            _LOGGER.warning(
                "log away", extra={"fields": {"problem": str(error), "waiting": n_waiting}}
            )
        self.problem, self._retry_at = str(error), now + _SECONDS_TO_RETRY

    def note_back(self, n_waiting: int) -> None:
        """Record that the log was reached."""
        if self.problem:
            _LOGGER.info("log back", extra={"fields": {"waiting": n_waiting}})
        self.problem = ""

    def flush(self, group: Group, epoch: OpenEpoch, now: int) -> None:
        """Move everything that waits in an epoch, the oldest segment first."""
        while epoch.moving or epoch.waiting is not None:
            if not epoch.moving and epoch.waiting is not None:
                epoch.moving, epoch.waiting = [epoch.waiting], None
            self._move(group, epoch.moving[0], now)
            del epoch.moving[0]

    def _move(self, group: Group, waiting: Waiting, now: int) -> None:
        number = waiting.segment.number
        columns = np.concatenate(waiting.parts, axis=1)
        bits = min(
            self._rules.prefix_bits, max(0, (columns.shape[1] // ROWS_PER_BLOCK).bit_length() - 1)
        )
        blocks, _ = cut(
            *group,
            columns,
            max(bits, self._log.partition_bits),
            self._log.most_rows(group.size_class),
        )
        self._log.append(blocks, now, segment=number, forget=self._gone)
        self._spool.remove([number])
        waiting.segment.close()
        self._gone = {number}
        self._counters["appended"] += columns.shape[1]
        self._counters["blocks"] += len(blocks)
