"""The intake: from the bodies of uploads to blocks in the log. No HTTP here, and the clock is
injected.

What is acknowledged is durable: uploads are taken several at a time, the new shares among them are
written to the spool, and one disk sync covers them all before any is acknowledged (group commit). A
flush mixes the waiting shares of one channel and epoch: rows leave in the order of their random
message ids, so nothing remains of their arrival order. It moves them to the log and records the
spool segment there in the same transaction, so a crash at any point neither loses nor repeats a
share.

A remote log can be unreachable for a while. Shares are then still accepted, up to
`IntakeRules.most_waiting` of them, and wait in the spool. A move that was interrupted is repeated
unchanged, because it may have succeeded; later shares wait behind it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deniable.errors import LogAwayError, ParameterError, RefusedError, WireError
from deniable.logs.sqlite_log import BlockLog, ProxyLog
from deniable.proxy.intake.allowances import changed, check_bound, disk_full, over_quota, over_uses
from deniable.proxy.intake.bound_uses import BoundUses
from deniable.proxy.intake.commits import Commit, Upload, UploadPart, UploadReceipt
from deniable.proxy.intake.log_mover import ROWS_PER_BLOCK, LogMover
from deniable.proxy.intake.open_epochs import OpenEpoch, Waiting
from deniable.proxy.intake.rules import IntakeRules
from deniable.proxy.intake.seen import Checker, EpochIds
from deniable.proxy.intake.spool import Group, Spool
from deniable.proxy.intake.uploaded_records import UploadedRecords, gather
from deniable.queries.channels import Channel
from deniable.service.files.database import free_bytes, lock
from deniable.wire.shares import read_batch

__all__ = ["ROWS_PER_BLOCK", "Intake", "IntakeRules", "Upload", "UploadReceipt"]

_LOGGER = logging.getLogger("deniable.proxy")
_Words = NDArray[np.uint64]
_LARGEST_SEGMENT = 8 << 20
"""Once a spool segment has this many bytes (and `IntakeRules.threshold` shares), no more is added:
one transaction moves it."""


class Intake:
    """The shares of one proxy on their way to its log. Used by one thread at a time.

    After :meth:`take` raises an `OSError` it must not be used again: it is then unknown what
    reached the disk, and only a restart, which reads the disk, finds out.
    """

    def __init__(
        self,
        folder: Path,
        rules: IntakeRules,
        clock: Callable[[], int],
        open_log: Callable[[], ProxyLog] | None = None,
    ) -> None:
        """`open_log` opens the log once the folder is locked; by default it is the SQLite file
        `log.db` in it."""
        self.rules, self._clock, self._folder = rules, clock, folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = lock(folder / "lock")
        try:
            self.log: ProxyLog = open_log() if open_log else BlockLog(folder / "log.db")
        except BaseException:
            self._lock.close()
            raise
        self._spool = Spool(folder / "spool")
        self._ids = folder / "ids"
        self._ids.mkdir(mode=0o700, exist_ok=True)
        self._check = Checker.fresh()
        self._channels: Mapping[int, Channel] = {}
        self._tags: Mapping[str, int] = {}
        """The channel of each query."""
        self.uses = BoundUses(folder / "uses.db")
        self._epochs: dict[Group, OpenEpoch] = {}
        self._closed = self.log.closed()
        self.counters: Counter[str] = Counter()
        """accepted, already, appended, blocks, flushes_full, flushes_due, closed, dropped: since
        the start."""
        try:
            self._recover()
        except BaseException:
            self.log.close()
            self._lock.close()
            raise

    def _recover(self) -> None:
        moved = self.log.moved()
        self._spool.remove(moved)
        self._mover = LogMover(self.log, self._spool, self.rules, self.counters, moved)
        for block in self.log.open_blocks():
            group = Group(block.channel, block.epoch, block.size_class)
            self._epoch(group).seen.add(block.columns[:2], self._check(block.columns))
        for segment, parts in self._spool.recover():  # in the order they were begun
            epoch = self._epoch(segment.group)
            if epoch.waiting is not None:
                epoch.moving.append(epoch.waiting)
            epoch.waiting = Waiting(segment, self._clock())
            for part in parts:
                # A spool restored from a backup may hold shares that a remote log has received
                # since.
                columns = part[:, epoch.seen.look(part[:2], self._check(part)).new]
                epoch.seen.add(columns[:2], self._check(columns))
                epoch.waiting.add(columns)

    def _epoch(self, group: Group) -> OpenEpoch:
        if group not in self._epochs:
            self._epochs[group] = OpenEpoch(EpochIds(self._ids))
        return self._epochs[group]

    @property
    def log_problem(self) -> str:
        """Why the log cannot be written at the moment; empty if it can."""
        return self._mover.problem

    @property
    def n_waiting(self) -> int:
        """How many shares are waiting for a flush."""
        # a copy: other threads may look
        return sum(epoch.n_waiting for epoch in list(self._epochs.values()))

    @property
    def n_ids(self) -> int:
        """How many message ids of open epochs are held."""
        return sum(len(epoch.seen) for epoch in list(self._epochs.values()))

    @property
    def disk_full(self) -> bool:
        """Whether free disk space is below the reserve."""
        return free_bytes(self._folder) < self.rules.reserve

    @property
    def is_full(self) -> bool:
        """Whether the limit on waiting shares or message ids is reached."""
        return self.n_waiting >= self.rules.most_waiting or self.n_ids >= self.rules.most_ids

    def set_channels(
        self, channels: Mapping[int, Channel], tags: Mapping[str, int] | None = None
    ) -> None:
        """Accept shares of these channels from now on, and of no others; `tags` are the channels of
        the queries, by id."""
        self._channels, self._tags = dict(channels), dict(tags or {})

    # --- taking

    def take(self, uploads: Sequence[Upload]) -> list[UploadReceipt | RefusedError]:
        """The result of each upload. What a receipt counts as accepted is on the disk when this
        returns.

        An upload is accepted or refused as a whole.
        """
        if self.disk_full:
            return [disk_full()] * len(uploads)
        commit = Commit(
            uploads,
            self._clock(),
            self.rules.most_ids - self.n_ids,
            self.rules.most_waiting - self.n_waiting,
        )
        # b"" is odd
        gathered, odd = gather(
            [upload.content if upload.bound is None else b"" for upload in uploads]
        )
        for part in gathered:
            odd += self._take_gathered(part, commit)
        for i in sorted(odd):
            self._take_one(i, commit)
        for group, rows in commit.fresh.items():
            self._store(group, rows, commit.now)
        # after the shares: a crash in between lets a token send once more what it sent in this
        # commit
        self.uses.commit()
        self.counters["accepted"] += commit.n_accepted
        self.counters["already"] += commit.n_already
        return [result for result in commit.results if result is not None]

    def _take_gathered(self, part: UploadedRecords, commit: Commit) -> list[int]:
        """Take uploads of one channel and epoch; returns those that must be examined after the
        others.

        These are uploads that repeat an id of another: whether it counts depends on the result of
        the other.
        """
        group = Group(*part.key)
        try:
            channel = self._open_channel(group, commit.now)
        except RefusedError as error:
            for i in part.uploads.tolist():
                commit.results[i] = error
            return []
        epoch = self._epochs.get(group) or OpenEpoch(EpochIds(self._ids))
        checks = self._check(part.columns)
        found = epoch.seen.look(part.columns[:2], checks)
        new = np.zeros(checks.size, dtype=bool)
        new[found.new] = True
        repeating = (
            part.per_upload(found.repeated) > 0
            if found.repeated.any()
            else np.zeros(part.uploads.size, dtype=bool)
        )
        n_new = part.per_upload(new).tolist()
        none = [0] * part.uploads.size
        n_same = part.per_upload(found.same).tolist() if found.n_same else none
        n_changed = part.per_upload(~(new | found.same)).tolist() if found.n_changed else none
        chosen = part.uploads.tolist()
        names = [epoch.used.pseudonym(commit.uploads[i].client) for i in chosen]
        used = epoch.used.of(names).tolist()
        sent: dict[int, int] = {}
        taken = np.zeros(part.uploads.size, dtype=bool)
        for k, (i, n, name, later) in enumerate(
            zip(chosen, n_new, names, repeating.tolist(), strict=True)
        ):
            if later:
                continue
            before = used[k] + sent.get(name, 0)
            refusal = (
                changed(n_changed[k])
                if n_changed[k]
                else over_quota(commit.uploads[i], channel, group.epoch, before, n, commit.now)
            )
            if refusal is None:
                refusal = commit.no_room(n)
            if refusal is not None:
                commit.results[i] = refusal
                continue
            commit.receipt(i, n, n_same[k])
            if n:
                sent[name] = sent.get(name, 0) + n
                taken[k] = True
        if sent:
            kept = new & part.spread(taken)
            whole = kept.all()
            rows = part.columns if whole else part.columns[:, kept]
            epoch.seen.add(rows[:2], checks if whole else checks[kept])
            epoch.used.add(sent)
            self._epochs[group] = epoch
            commit.fresh.setdefault(group, []).append(rows)
        return [int(i) for i in part.uploads[repeating]]

    def _take_one(self, i: int, commit: Commit) -> None:
        try:
            parts, already = self._examine(i, commit)
            n_new = sum(part.checks.size for part in parts)
            refusal = commit.no_room(n_new)
        except RefusedError as error:
            refusal = error
        if refusal is not None:
            commit.results[i] = refusal
            return
        if commit.uploads[i].bound is not None and n_new:
            self.uses.add(commit.uploads[i].client, n_new)
        for part in parts:
            epoch = self._epochs.setdefault(part.group, part.epoch)
            epoch.seen.add(part.rows[:2], part.checks)
            epoch.used.add({part.pseudonym: part.checks.size})
            commit.fresh.setdefault(part.group, []).append(part.rows)
        commit.receipt(i, n_new, already)

    def _examine(self, i: int, commit: Commit) -> tuple[list[UploadPart], int]:
        try:
            groups = read_batch(commit.uploads[i].content)
        except WireError as error:
            raise RefusedError(error.reason, 400, error.detail) from None
        except ParameterError as error:
            raise RefusedError("size_class", 400, f"a share's size class {error.rule}") from None
        upload = commit.uploads[i]
        if upload.bound is not None:
            check_bound(upload.bound, (key[0] for key in groups), self._tags, commit.now)
        parts, n_already, over = [], 0, None
        for key, columns in groups.items():
            group = Group(*key)
            channel = self._open_channel(group, commit.now)
            epoch = self._epochs.get(group) or OpenEpoch(EpochIds(self._ids))
            checks = self._check(columns)
            found = epoch.seen.look(columns[:2], checks)
            if found.n_changed:
                raise changed(found.n_changed)
            n_already += found.n_same
            if not found.new.size:
                continue
            pseudonym = epoch.used.pseudonym(upload.client)
            used = int(epoch.used.of([pseudonym])[0])
            over = over or over_quota(
                upload, channel, group.epoch, used, found.new.size, commit.now
            )
            whole = found.new.size == checks.size
            rows = columns if whole else columns[:, found.new]
            parts.append(
                UploadPart(group, epoch, rows, checks if whole else checks[found.new], pseudonym)
            )
        # A token that is used up first: unlike a quota, it does not become good again.
        n_new = sum(part.checks.size for part in parts)
        if refusal := over_uses(upload, self.uses.of(upload.client), n_new) or over:
            raise refusal
        return parts, n_already

    def _open_channel(self, group: Group, now: int) -> Channel:
        channel = self._channels.get(group.channel)
        if channel is None:
            raise RefusedError(
                "unknown_channel", 404, f"no query of channel {group.channel:016x} is known here"
            )
        closed = max(self._closed.get(group.channel, 0), self._epochs_over(channel, now))
        channel.check(group.epoch, group.size_class, now, self.rules.skew, closed)
        return channel

    def _epochs_over(self, channel: Channel, now: int) -> int:
        """How many epochs of a channel, counted from the first, ended longer ago than their grace
        period."""
        return channel.epochs_over(now - max(self.rules.grace, channel.grace))

    def _store(self, group: Group, rows: list[_Words], now: int) -> None:
        epoch = self._epochs[group]
        full = epoch.waiting
        if full and full.n >= self.rules.threshold and full.n_bytes >= _LARGEST_SEGMENT:
            epoch.moving.append(full)
            epoch.waiting = None
        if epoch.waiting is None:
            epoch.waiting = Waiting(self._spool.begin(group), now)
        columns = np.concatenate(rows, axis=1)
        epoch.waiting.segment.write(columns)
        epoch.waiting.add(columns)

    # --- passing on

    def tick(self) -> None:
        """Flush what is due, close the epochs that are over, and drop a few old blocks."""
        now = self._clock()
        if self._mover.waits(now):
            return
        try:
            for group, epoch in self._epochs.items():
                if epoch.is_due(now, self.rules):
                    full = epoch.n_waiting >= self.rules.threshold
                    self._mover.flush(group, self._epochs[group], now)
                    self.counters["flushes_full" if full else "flushes_due"] += 1
            self._close(now)
            self.counters["dropped"] += self.log.drop_before(now - self.rules.retention)
        except LogAwayError as error:
            self._mover.note_away(error, now, self.n_waiting)
        else:
            self._mover.note_back(self.n_waiting)

    def flush(self) -> None:
        """Pass on everything that is waiting, before the proxy stops. If the log is unreachable, it
        stays in the spool."""
        try:
            for group, epoch in self._epochs.items():
                if epoch.n_waiting:
                    self._mover.flush(group, epoch, self._clock())
                    self.counters["flushes_due"] += 1
        except LogAwayError as error:
            self._mover.note_away(error, self._clock(), self.n_waiting)

    def _close(self, now: int) -> None:
        """Declare for each channel up to which epoch the log is complete; later shares for those
        epochs are refused as late."""
        marks = {}
        for tag, channel in self._channels.items():
            due = self._epochs_over(channel, now)
            # the channel has ended, including epochs opened early by fast clocks
            if due == channel.n_epochs:
                due = max(
                    [due, *(group.epoch + 1 for group in self._epochs if group.channel == tag)]
                )
            if due > self._closed.get(tag, 0):
                marks[tag] = due
        if not marks:
            return
        over = [group for group in self._epochs if group.epoch < marks.get(group.channel, 0)]
        for group in over:
            if self._epochs[group].n_waiting:
                self._mover.flush(group, self._epochs[group], now)
                self.counters["flushes_due"] += 1
        self.log.append([], now, marks=marks)
        self._closed.update(marks)
        for tag, epoch in marks.items():
            _LOGGER.info(
                "epochs closed", extra={"fields": {"channel": f"{tag:016x}", "before": epoch}}
            )
        for group in over:
            del self._epochs[group]
        self.counters["closed"] += len(over)

    def close(self) -> None:
        """Close all files. Waiting shares stay in the spool, where the next start finds them."""
        for epoch in self._epochs.values():
            for waiting in epoch.all_waiting():
                waiting.segment.close()
        self._epochs.clear()
        self.uses.close()
        self.log.close()
        self._lock.close()
