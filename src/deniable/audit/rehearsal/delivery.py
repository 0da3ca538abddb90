"""Shares on their way to the proxies: sent, lost, resent by the rules of a device's queue, refused
or given up.

What one device does (:mod:`deniable.client.upload`) is done here for many at once: waits after a
failure have the same distribution, an early share is postponed, a late one is given up, and one
that is too old expires. Times are rounded up to multiples of `step` seconds, so everything within a
step is one upload.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from deniable.audit.rehearsal.scenarios import Faults
from deniable.client.http_transport import refusal
from deniable.client.upload import FIRST_WAIT, LONGEST_WAIT, WAIT_IF_EARLY
from deniable.errors import RefusedError
from deniable.local.system import LocalSystem

__all__ = ["EpochMessages", "MessageDelivery"]

_WAITING, _TAKEN, _REFUSED, _GIVEN_UP = range(4)
_Words = NDArray[np.uint64]
_Times = NDArray[np.int64]


class EpochMessages:
    """The messages of one epoch, and what has become of each of their shares."""

    def __init__(self, epoch: int, columns: list[_Words], due: _Times, expires: int) -> None:
        n = columns[0].shape[1]
        self.epoch, self.columns, self.expires = epoch, columns, expires
        self.due = np.tile(due, (len(columns), 1))
        self.failures = np.zeros((len(columns), n), dtype=np.int16)
        self.status = np.full((len(columns), n), _WAITING, dtype=np.uint8)
        """What the device knows of each share."""
        self.arrived = np.zeros((len(columns), n), dtype=np.bool_)
        """Whether the proxy has it, even if its reply was lost."""

    def __len__(self) -> int:
        return int(self.status.shape[1])

    @property
    def delivered(self) -> NDArray[np.bool_]:
        """The messages whose shares have reached every proxy."""
        return np.asarray(self.arrived.all(axis=0))

    @property
    def late(self) -> NDArray[np.bool_]:
        """The messages that some proxy has refused for good and does not have."""
        return np.asarray(((self.status == _REFUSED) & ~self.arrived).any(axis=0))


class MessageDelivery:
    """All messages of a run, on their way to the proxies."""

    def __init__(
        self, system: LocalSystem, faults: Faults, random: np.random.Generator, step: int
    ) -> None:
        self.system, self.faults, self._random, self._step = system, faults, random, step
        self.epochs: dict[int, EpochMessages] = {}
        self.counts: Counter[str] = Counter()
        """Shares: early, resent, already taken, replayed, replays accepted. People, counted once
        per epoch: asked, silent."""
        self._open: list[EpochMessages] = []
        self._planned: set[int] = set()

    def send(
        self, epoch: int, columns: list[_Words], due: _Times, expires: int, lost: NDArray[np.bool_]
    ) -> None:
        """Schedule messages to be sent at these times; those that are `lost` never leave their
        device."""
        messages = EpochMessages(epoch, columns, due, expires)
        messages.status[:, lost] = _GIVEN_UP
        self.epochs[epoch] = messages
        self._open.append(messages)
        self._plan(due)

    def _plan(self, times: _Times) -> None:
        origin, step = self.system.query.schedule.origin, self._step
        slots = np.unique(-((origin - times) // step))
        for slot in slots.tolist():
            time = max(origin + slot * step, self.system.now + 1)
            if time not in self._planned:
                self._planned.add(time)
                self.system.at(time, self._deliver)

    def _deliver(self) -> None:
        now = self.system.now
        self._planned.discard(now)
        for messages in self._open:
            if now >= messages.expires:
                messages.status[messages.status == _WAITING] = _GIVEN_UP
            for proxy in range(len(messages.columns)):
                chosen = np.flatnonzero(
                    (messages.status[proxy] == _WAITING) & (messages.due[proxy] <= now)
                )
                if chosen.size:
                    self._upload(messages, proxy, chosen)
        self._open = [messages for messages in self._open if (messages.status == _WAITING).any()]

    def _upload(self, messages: EpochMessages, proxy: int, chosen: NDArray[np.intp]) -> None:
        """What is due for one proxy, as one upload: all of one epoch and one second, so it is
        accepted or refused as a whole."""
        self.counts["resent"] += int(np.count_nonzero(messages.failures[proxy, chosen]))
        faults, random = self.faults, self._random
        arriving = chosen
        if faults.requests_lost:
            lost = random.random(chosen.size) < faults.requests_lost
            self._failed(messages, proxy, chosen[lost])
            arriving = chosen[~lost]
        if not arriving.size:
            return
        columns = messages.columns[proxy][:, arriving]
        reply = self.system.post(proxy, messages.epoch, columns)
        if reply is None:
            self._failed(messages, proxy, arriving)
        elif isinstance(reply, RefusedError):
            problem = refusal(reply.status)
            if problem.final:
                messages.status[proxy, arriving] = _REFUSED
            else:
                self.counts["early"] += arriving.size
                self._postpone(messages, proxy, arriving, np.full(arriving.size, WAIT_IF_EARLY))
        else:
            self.counts["already taken"] += reply.already
            messages.arrived[proxy, arriving] = True
            if faults.responses_lost:
                lost = random.random(arriving.size) < faults.responses_lost
                self._failed(messages, proxy, arriving[lost])
                arriving = arriving[~lost]
            messages.status[proxy, arriving] = _TAKEN
            if faults.replayed:
                self._replay(
                    proxy,
                    messages.epoch,
                    columns[:, random.random(columns.shape[1]) < faults.replayed],
                )

    def _failed(self, messages: EpochMessages, proxy: int, chosen: NDArray[np.intp]) -> None:
        messages.failures[proxy, chosen] += 1
        self._postpone(messages, proxy, chosen, messages.failures[proxy, chosen])

    def _postpone(
        self,
        messages: EpochMessages,
        proxy: int,
        chosen: NDArray[np.intp],
        failures: NDArray[np.integer],
    ) -> None:
        """Like :func:`deniable.client.upload.backoff`, but early enough for a retry before the
        share expires."""
        now = self.system.now
        longest = np.minimum(LONGEST_WAIT, FIRST_WAIT * 2.0 ** np.minimum(failures, 20))
        waits = 1 + (self._random.random(chosen.size) * longest).astype(np.int64)
        in_time = max(FIRST_WAIT, (messages.expires - now) // 2)
        due = now + np.minimum(waits, in_time)
        messages.due[proxy, chosen] = due
        self._plan(due)

    def _replay(self, proxy: int, epoch: int, columns: _Words) -> None:
        """Someone who captured shares sends them again: at once, an epoch later, and after the
        epoch is closed."""
        if not columns.shape[1]:
            return

        def again() -> None:
            self.counts["replayed"] += columns.shape[1]
            reply = self.system.post(proxy, epoch, columns)
            self.counts["replays accepted"] += (
                0 if reply is None or isinstance(reply, RefusedError) else reply.accepted
            )

        system = self.system
        end = system.query.schedule.end_of_epoch(epoch)
        again()
        system.at(system.now + system.query.schedule.every, again)
        system.at(end + max(system.rules.grace, system.query.grace or 0) + 1, again)
