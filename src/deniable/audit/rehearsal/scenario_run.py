"""One run of a scenario: people answer, shares travel, proxies and aggregator do their work, and
everything is recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.conservation import Account
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.windows.window import Window
from deniable.audit.rehearsal.delivery import MessageDelivery
from deniable.audit.rehearsal.liars import lying_rows
from deniable.audit.rehearsal.people import Cohort, make_cohort
from deniable.audit.rehearsal.scenarios import Faults
from deniable.client import encoding
from deniable.client.policy import Policy
from deniable.counts import Counts
from deniable.local.scratch import scratch_folder
from deniable.local.system import LocalSystem
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.intake.uploads import IntakeRules
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.randomness import seeded_source
from deniable.wire.blocks import Block
from deniable.wire.message import ANSWER

__all__ = ["Parts", "Played", "play", "target_label"]

_SLOTS, _FINE_SLOTS = 2, 6
"""How many times per epoch due shares are sent; more where a minute decides whether a share is
early."""
_FOREVER = 1 << 40
_WRONG_CLOCK = 3600
_USUAL_SKEW = 30.0
_BLOCKS_REPEATED = 64


@dataclass(frozen=True)
class Parts:
    """The parts of a run's system. Tests put parts with planted faults here."""

    rules: IntakeRules = field(default_factory=IntakeRules)
    limits: EngineLimits = field(
        default_factory=lambda: EngineLimits(workers=1, bucket_bits=0, retention=_FOREVER)
    )
    """Buckets, workers and retention do not change what is counted."""
    system: Callable[..., LocalSystem] = LocalSystem


@dataclass(frozen=True, eq=False, repr=False)
class Played:
    """The results of a run."""

    query: Query
    windows: list[Window]
    truths: list[NDArray[np.float64]]
    """For each window, the true proportions among its people."""
    released: list[int]
    """For each window, how many seconds after its end its last result came."""
    sent: NDArray[np.int64]
    """For each epoch, how many messages were made, reached every proxy, came too late, and were
    counted."""
    delivered: NDArray[np.int64]
    late: NDArray[np.int64]
    counted: NDArray[np.int64]
    gaps: NDArray[np.bool_]
    """The epochs that were closed without one of the proxies."""
    panes: dict[int, Counts]
    """By epoch, strata added up."""
    delivery: Counter[str]
    accounts: list[Account]
    n_liars: int
    """Lying reports in a window."""

    def __repr__(self) -> str:
        return f"<run of {len(self.windows)} windows>"


def target_label(weights: NDArray[np.float64]) -> int:
    """The label that liars raise: the rarest one that anybody has, which has the most to gain."""
    return int(np.argmin(np.where(weights > 0, weights, np.inf)))


class _Run:
    def __init__(
        self,
        query: Query,
        weights: NDArray[np.float64] | None,
        people: int,
        faults: Faults,
        seed: int,
        parts: Parts,
    ) -> None:
        self.query, self.weights, self.people, self.faults, self.parts = (
            query,
            weights,
            people,
            faults,
            parts,
        )
        # Separate streams, so that people and coins are the same in all scenarios, whatever goes
        # wrong.
        draws = np.random.SeedSequence(seed).spawn(2)
        self.people_random, self.faults_random = (np.random.default_rng(each) for each in draws)
        self.source, self.lies_source = seeded_source(seed), seeded_source(seed + (1 << 32))
        self.target = 0 if weights is None else target_label(weights)
        self.policy = Policy(KeyRing(), {})
        schedule = query.schedule
        self.epochs_per_window = schedule.window // schedule.every
        self.grace = max(parts.rules.grace, query.grace or 0)
        self.end = (
            schedule.end_of_epoch(schedule.n_epochs - 1)
            + self.grace
            + parts.limits.patience
            + (query.grace or 0)
            + 1
        )
        self.cohorts: list[Cohort] = []

    def play(self, progress: Callable[[float], None] | None) -> Played:
        schedule = self.query.schedule
        with (
            scratch_folder() as folder,
            self.parts.system(
                self.query, folder, rules=self.parts.rules, limits=self.parts.limits
            ) as system,
        ):
            slots = _FINE_SLOTS if self.faults.skewed else _SLOTS
            self.room = MessageDelivery(
                system, self.faults, self.faults_random, max(1, schedule.every // slots)
            )
            self._plan_faults(system)
            self._answer(0)
            for epoch in range(schedule.n_epochs):
                if epoch + 1 < schedule.n_epochs:
                    self._answer(epoch + 1)  # an epoch ahead: some clocks are
                system.run(schedule.end_of_epoch(epoch))
                if progress is not None:
                    progress((epoch + 1) / schedule.n_epochs)
            system.run(self.end)
            return self._written_down(system)

    # --- people

    def _cohort(self, epoch: int) -> tuple[Cohort, int]:
        window, place = divmod(epoch, self.epochs_per_window)
        if window == len(self.cohorts):
            liars = round(self.faults.liars * self.people)
            made = make_cohort(
                self.query,
                self.weights,
                self.people,
                liars,
                self.faults.churn,
                self.people_random,
                self.source,
            )
            self.cohorts.append(made)
        return self.cohorts[window], place

    def _answer(self, epoch: int) -> None:
        """Everyone's answers for one epoch, each to be sent at its own time."""
        query, faults, random = self.query, self.faults, self.faults_random
        cohort, place = self._cohort(epoch)
        present = cohort.present[place]
        self.room.counts["asked"] += int(np.count_nonzero(present))
        tolerance = self.policy.clock_tolerance
        if faults.skewed:  # a device whose clock differs too much from the proxies' does not answer
            wrong = random.random(present.size) < faults.skewed * (1 - tolerance / _WRONG_CLOCK)
            self.room.counts["silent"] += int(np.count_nonzero(present & wrong))
            present = present & ~wrong
        shares = cohort.fleet.answer(epoch, cohort.answers, present)
        columns = shares.columns
        if cohort.n_liars:
            columns = [
                np.hstack(both) for both in zip(columns, self._lies(epoch, cohort), strict=True)
            ]
        n = int(columns[0].shape[1])
        start, every = query.schedule.start_of_epoch(epoch), query.schedule.every
        due = start + random.integers(0, every, n)
        if faults.skewed:
            off = np.clip(random.normal(0, _USUAL_SKEW, n), -tolerance, tolerance)
            part = faults.skewed * tolerance / _WRONG_CLOCK
            wrong = random.random(n) < part / (part + 1 - faults.skewed)
            due -= np.where(wrong, random.uniform(-tolerance, tolerance, n), off).astype(np.int64)
        if faults.late:
            away = random.random(n) < faults.late
            due += np.where(away, random.exponential(self.grace, n), 0).astype(np.int64)
        lost = random.random(size=n) < faults.churn / 2
        self.room.send(epoch, columns, due, start + every + self.policy.keeps(query), lost)

    def _lies(self, epoch: int, cohort: Cohort) -> list[NDArray[np.uint64]]:
        query, faults = self.query, self.faults
        n = cohort.n_liars * query.most_rows
        rows = lying_rows(query, faults.lie, self.target, n, self.lies_source, faults.downwards)
        strata: Any = cohort.liar_strata
        if np.ndim(strata):
            strata = np.repeat(strata, query.most_rows)
        return encoding.share_columns(query, epoch, rows, strata, ANSWER, self.lies_source)

    # --- faults

    def _plan_faults(self, system: LocalSystem) -> None:
        faults, schedule, random = self.faults, self.query.schedule, self.faults_random
        last = len(self.query.proxies) - 1
        length = schedule.n_epochs * schedule.every
        if faults.down:
            begin = schedule.origin + round(length * (1 - faults.down) / 2)
            system.at(begin, partial(system.stop_proxy, last))
            system.at(begin + round(length * faults.down), partial(system.start_proxy, last))
        if faults.slow:
            self._make_slow(system, last)
        if faults.replayed:
            for part in (0.25, 0.5, 0.75, 1.0):
                system.at(
                    schedule.origin + round(part * length) + 1,
                    partial(system.append, last, _repeat_blocks(system)),
                )
        for _ in range(faults.restarts):
            for proxy in range(last + 1):
                time = schedule.origin + int(random.random() * length)
                system.at(time, partial(system.stop_proxy, proxy))
                system.at(time + 1, partial(system.start_proxy, proxy))
            system.at(schedule.origin + int(random.random() * length), system.restart_aggregator)

    def _make_slow(self, system: LocalSystem, proxy: int) -> None:
        """Make the log readable only now and then: as rarely as possible without losing
        anything."""
        limits = self.parts.limits
        spare = limits.patience - max(0, self.parts.rules.grace - (self.query.grace or 0))
        pause = max(1, int(self.faults.slow * spare))
        system.set_readable(proxy, False)

        def read_once() -> None:
            system.set_readable(proxy, True)
            system.at(system.now + 1, partial(system.set_readable, proxy, False))
            if system.now + pause <= self.end:
                system.at(system.now + pause, read_once)

        system.at(self.query.schedule.origin + pause, read_once)

    # --- what came of it

    def _written_down(self, system: LocalSystem) -> Played:
        query, schedule = self.query, self.query.schedule
        panes: dict[int, Counts] = {}
        for key, pane in system.panes().items():
            if key.epoch in panes:
                panes[key.epoch] += pane
            else:
                panes[key.epoch] = pane
        sent = [self.room.epochs[epoch] for epoch in range(schedule.n_epochs)]
        missing = [
            bool(system.state.missing(query.channel_tag, range(e, e + 1)))
            for e in range(schedule.n_epochs)
        ]
        windows = system.windows()
        released = []
        for window in windows:
            revision = system.state.results.last(query.id, window.index)
            released.append(0 if revision is None else revision.made - window.end)
        return Played(
            query,
            windows,
            [self.cohorts[window.index].truth for window in windows],
            released,
            np.array([len(messages) for messages in sent]),
            np.array([np.count_nonzero(messages.delivered) for messages in sent]),
            np.array([np.count_nonzero(messages.late) for messages in sent]),
            np.array(
                [
                    panes[e].n + panes[e].nothing if e in panes else 0
                    for e in range(schedule.n_epochs)
                ]
            ),
            np.array(missing),
            panes,
            self.room.counts,
            system.accounts(),
            self.cohorts[0].n_liars * query.most_rows * self.epochs_per_window,
        )


def _repeat_blocks(system: LocalSystem) -> Callable[[BlockLog], None]:
    """A proxy that writes its newest blocks a second time."""

    def write(log: BlockLog) -> None:
        newest = max(log.dropped, log.end - _BLOCKS_REPEATED)
        log.append(
            [Block.from_bytes(record.block) for record in log.read(newest, _BLOCKS_REPEATED)],
            system.now,
        )

    return write


def play(
    query: Query,
    weights: NDArray[np.float64] | None,
    people: int,
    faults: Faults,
    seed: int,
    parts: Parts | None = None,
    progress: Callable[[float], None] | None = None,
) -> Played:
    """Play a scenario with a query that :func:`~deniable.audit.rehearsal.people.rehearsed_query`
    has made."""
    return _Run(query, weights, people, faults, seed, parts or Parts()).play(progress)
