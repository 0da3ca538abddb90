"""The intake: from the bodies of uploads to blocks in the log. No HTTP here, and a clock that is given.

What is acknowledged is durable: uploads are taken several at a time, what is new of them is written to the spool, and one sync
of the disk stands for all of them before any is acknowledged (group commit). A flush mixes what waits of one channel and epoch:
rows leave in the order of their random message ids, so nothing is left of the order in which they came. It moves them to the
log and notes the spool's segment there in one transaction, so that a crash at any point neither loses nor repeats a share.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import LogError, ParameterError, RefusedError, WireError
from deniable.proxy.channels import Channel
from deniable.proxy.database import lock
from deniable.proxy.log import BlockLog
from deniable.proxy.seen import Checker, Seen
from deniable.proxy.spool import Group, Segment, Spool
from deniable.wire.blocks import MOST_PREFIX_BITS, cut
from deniable.wire.shares import read_batch

__all__ = ["ROWS_PER_BLOCK", "Intake", "Receipt", "Rules", "Upload"]

_LOGGER = logging.getLogger("deniable.proxy")
_Words = NDArray[np.uint64]
ROWS_PER_BLOCK = 512
"""Blocks are cut by so many bits that they hold as many rows on average, or by `Rules.prefix_bits` if those are fewer."""


@dataclass(frozen=True)
class Rules:
    """When shares are taken, and when they are passed on. Times are in seconds."""

    threshold: int = 4096
    """As soon as so many shares of a channel and epoch wait, they are flushed."""
    deadline: int = 10
    """No share waits longer than this, however few there are."""
    grace: int = 600
    """How long after its end an epoch stays open."""
    skew: int = 60
    """How far a device's clock may be ahead."""
    retention: int = 7 * 86400
    """How long blocks stay in the log."""
    prefix_bits: int = 6
    most_ids: int = 50_000_000
    """How many message ids of open epochs are held in memory, at 28 to 32 bytes each; above it, uploads are put off."""

    def __post_init__(self) -> None:
        for name in ("threshold", "deadline", "grace", "skew", "retention", "prefix_bits", "most_ids"):
            value, least = getattr(self, name), 1 if name in ("threshold", "most_ids") else 0
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ParameterError(name, value, f"must be a whole number of at least {least}")
        if self.prefix_bits > MOST_PREFIX_BITS:
            raise ParameterError("prefix_bits", self.prefix_bits, f"must be at most {MOST_PREFIX_BITS}")


class Upload(NamedTuple):
    """What one request brought."""

    client: bytes
    """Something that is the same for all requests under one token: its hash."""
    quota: int | None
    """How many messages the token may send in an epoch of a channel; None for what the channel's queries allow a device."""
    content: bytes


class Receipt(NamedTuple):
    """What became of an upload that was taken."""

    accepted: int
    already: int
    """How many of its shares had been taken before, byte for byte."""


@dataclass
class _Epoch:
    """What is known of one channel and epoch while it is open; all of it is forgotten when it is closed."""

    seen: Seen = field(default_factory=Seen)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    used: Counter[bytes] = field(default_factory=Counter)
    """How many messages each client has sent, by a hash of its token that nobody can compute once the secret is dropped."""
    waiting: list[_Words] = field(default_factory=list)
    n_waiting: int = 0
    since: int = 0
    segment: Segment | None = None

    def pseudonym(self, client: bytes) -> bytes:
        return hashlib.blake2b(client, key=self.secret, digest_size=16).digest()

    def wait(self, columns: _Words, now: int) -> None:
        if not self.n_waiting:
            self.since = now
        self.waiting.append(columns)
        self.n_waiting += columns.shape[1]


class _Part(NamedTuple):
    """What of an upload goes to one epoch, once it is found to be in order."""

    group: Group
    rows: _Words
    checks: _Words
    pseudonym: bytes


class Intake:
    """The shares of one proxy on their way to its log. One thread uses it at a time.

    After an `OSError` of :meth:`take` it must not be used again: what was written is then not known to be on the disk, and only a
    new start, which reads the disk, tells.
    """

    def __init__(self, folder: Path, rules: Rules, clock: Callable[[], int]) -> None:
        self.rules, self._clock = rules, clock
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = lock(folder / "lock")
        self.log = BlockLog(folder / "log.db")
        self._spool = Spool(folder / "spool")
        self._check = Checker.fresh()
        self._channels: Mapping[int, Channel] = {}
        self._epochs: dict[Group, _Epoch] = {}
        self._closed = {channel: mark.epoch for channel, mark in self.log.marks().items()}
        self.counters: Counter[str] = Counter()
        """accepted, already, appended, blocks, flushes_full, flushes_due, closed, dropped: since the start."""
        self._recover()

    def _recover(self) -> None:
        moved = self.log.moved()
        self._spool.remove(moved)
        self._gone = moved
        for channel, epoch in self.log.epochs():
            if epoch >= self._closed.get(channel, 0):
                for block in self.log.blocks_of(channel, epoch):
                    self._epoch(Group(channel, epoch, block.size_class)).seen.add(block.columns[:2], self._check(block.columns))
        for segment, waiting in self._spool.recover():
            state = self._epoch(segment.group)
            if state.segment is not None:
                raise LogError(
                    f"{segment.path} and {state.segment.path} are of the same channel and epoch: one is not this proxy's"
                )
            state.segment = segment
            for columns in waiting:
                state.seen.add(columns[:2], self._check(columns))
                state.wait(columns, self._clock())

    def _epoch(self, group: Group) -> _Epoch:
        return self._epochs.setdefault(group, _Epoch())

    @property
    def n_waiting(self) -> int:
        """How many shares wait for a flush."""
        return sum(epoch.n_waiting for epoch in list(self._epochs.values()))  # a copy: other threads may look

    @property
    def n_ids(self) -> int:
        """How many message ids of open epochs are held."""
        return sum(len(epoch.seen) for epoch in list(self._epochs.values()))

    def set_channels(self, channels: Mapping[int, Channel]) -> None:
        """Take shares of these channels from now on, and of no others."""
        self._channels = dict(channels)

    # --- taking -----------------------------------------------------------------------------------------------------

    def take(self, uploads: Sequence[Upload]) -> list[Receipt | RefusedError]:
        """What becomes of each upload. What a receipt counts as accepted is on the disk when this returns.

        An upload is taken whole or refused whole.
        """
        now = self._clock()
        n_ids = self.n_ids
        results: list[Receipt | RefusedError] = []
        fresh: dict[Group, list[_Words]] = {}
        for upload in uploads:
            try:
                parts, already = self._examine(upload, now)
                n_new = sum(part.checks.size for part in parts)
                if n_ids + n_new > self.rules.most_ids:
                    raise RefusedError("full", 503, "the proxy holds as many message ids as it may", retry_after=60)
            except RefusedError as error:
                results.append(error)
                continue
            for part in parts:
                self._keep(part, now)
                fresh.setdefault(part.group, []).append(part.rows)
            n_ids += n_new
            self.counters["accepted"] += n_new
            self.counters["already"] += already
            results.append(Receipt(n_new, already))
        for group, rows in fresh.items():
            self._store(group, rows)
        return results

    def _examine(self, upload: Upload, now: int) -> tuple[list[_Part], int]:
        try:
            groups = read_batch(upload.content)
        except WireError as error:
            raise RefusedError(error.reason, 400, error.detail) from None
        except ParameterError as error:
            raise RefusedError("size_class", 400, f"a share's size class {error.rule}") from None
        parts, n_already = [], 0
        for key, columns in groups.items():
            group = Group(*key)
            channel = self._open_channel(group, now)
            epoch = self._epochs.get(group) or _Epoch()
            checks = self._check(columns)
            found = epoch.seen.look(columns[:2], checks)
            if found.n_changed:
                raise RefusedError("changed", 409, f"{found.n_changed} of the message ids came before, with another share")
            n_already += found.n_same
            if not found.new.size:
                continue
            allowed = channel.most_messages if upload.quota is None else upload.quota
            pseudonym = epoch.pseudonym(upload.client)
            used = epoch.used[pseudonym]
            if used + found.new.size > allowed:
                wait = max(1, channel.origin + (group.epoch + 1) * channel.every - now)
                rule = f"at most {allowed} messages an epoch are taken under one token"
                raise RefusedError("quota", 429, f"{rule}, and with these it would be {used + found.new.size}", retry_after=wait)
            self._epochs[group] = epoch
            whole = found.new.size == checks.size
            rows = columns if whole else columns[:, found.new]
            parts.append(_Part(group, rows, checks if whole else checks[found.new], pseudonym))
        return parts, n_already

    def _open_channel(self, group: Group, now: int) -> Channel:
        channel = self._channels.get(group.channel)
        if channel is None:
            raise RefusedError("unknown_channel", 404, f"no query of channel {group.channel:016x} is known here")
        closed = max(self._closed.get(group.channel, 0), channel.due(now - self.rules.grace))
        channel.check(group.epoch, group.size_class, now, self.rules.skew, closed)
        return channel

    def _keep(self, part: _Part, now: int) -> None:
        epoch = self._epochs[part.group]
        epoch.seen.add(part.rows[:2], part.checks)
        epoch.used[part.pseudonym] += part.checks.size
        epoch.wait(part.rows, now)

    def _store(self, group: Group, rows: list[_Words]) -> None:
        epoch = self._epochs[group]
        if epoch.segment is None:
            epoch.segment = self._spool.begin(group)
        epoch.segment.write(np.concatenate(rows, axis=1))

    # --- passing on -------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Flush what is due, close the epochs whose time is over, and drop a few old blocks."""
        now = self._clock()
        for group, epoch in self._epochs.items():
            full = epoch.n_waiting >= self.rules.threshold
            if full or (epoch.n_waiting and now - epoch.since >= self.rules.deadline):
                self._flush(group, now)
                self.counters["flushes_full" if full else "flushes_due"] += 1
        self._close(now)
        self.counters["dropped"] += self.log.drop_before(now - self.rules.retention)

    def flush(self) -> None:
        """Pass on all that waits, however little: before the proxy stops."""
        for group, epoch in self._epochs.items():
            if epoch.n_waiting:
                self._flush(group, self._clock())
                self.counters["flushes_due"] += 1

    def _flush(self, group: Group, now: int) -> None:
        epoch = self._epochs[group]
        if epoch.segment is None:
            return
        columns = np.concatenate(epoch.waiting, axis=1)
        bits = min(self.rules.prefix_bits, max(0, (columns.shape[1] // ROWS_PER_BLOCK).bit_length() - 1))
        blocks, _ = cut(*group, columns, bits)
        self.log.append(blocks, now, segment=epoch.segment.number, forget=self._gone)
        self._spool.remove([epoch.segment.number])
        epoch.segment.close()
        self._gone = {epoch.segment.number}
        epoch.waiting, epoch.n_waiting, epoch.segment = [], 0, None
        self.counters["appended"] += columns.shape[1]
        self.counters["blocks"] += len(blocks)

    def _close(self, now: int) -> None:
        """Declare of each channel up to which epoch everything is in the log; from then on those epochs are refused as late."""
        marks = {}
        for tag, channel in self._channels.items():
            due = channel.due(now - self.rules.grace)
            if due == channel.n_epochs:  # the channel has ended, also for what came ahead of its last epoch
                due = max([due, *(group.epoch + 1 for group in self._epochs if group.channel == tag)])
            if due > self._closed.get(tag, 0):
                marks[tag] = due
        if not marks:
            return
        over = [group for group in self._epochs if group.epoch < marks.get(group.channel, 0)]
        for group in over:
            if self._epochs[group].n_waiting:
                self._flush(group, now)
                self.counters["flushes_due"] += 1
        self.log.append([], now, marks=marks)
        self._closed.update(marks)
        for tag, epoch in marks.items():
            _LOGGER.info("epochs closed", extra={"fields": {"channel": f"{tag:016x}", "before": epoch}})
        for group in over:
            del self._epochs[group]
        self.counters["closed"] += len(over)

    def close(self) -> None:
        """Let go of all files. What waits stays in the spool, and is found there by the next start."""
        for epoch in self._epochs.values():
            if epoch.segment is not None:
                epoch.segment.close()
        self._epochs.clear()
        self.log.close()
        self._lock.close()
