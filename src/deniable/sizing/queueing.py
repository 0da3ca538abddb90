"""How a system behaves in time: devices, proxies, log and aggregator as queues in a row, second by
second.

The model. All cells are alike, so one is followed, and in it one proxy, because all get the same
messages. Amounts are real numbers of messages; a slot is a part of a second. In every slot

1. devices send, as :attr:`Demand.profile` says; what a proxy process has not taken waits at the
   devices;
2. the proxy takes what its core allows, after answering the requests for queries;
3. it gathers until `threshold` shares wait or the oldest has waited `deadline`, and then appends
   all of them to the log;
4. the log takes its bytes per second, all proxies and replicas counted;
5. the aggregator counts its answers per second.

Each stage serves first what came first. What a proxy has not taken `grace` seconds after its epoch
has ended is late and lost. The result of an epoch is there when its mark, which a proxy writes
`grace` seconds after the end, is read, and all before it counted. What the model leaves out:
retries after a refusal, failures, and machines that share their cores with others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.proxy.intake.uploads import IntakeRules
from deniable.sizing.demand import Demand
from deniable.sizing.result import Sizing

__all__ = ["Run", "Stations", "simulate"]

_Floats = NDArray[np.float64]
_MOST_SLOTS = 2_000_000


@dataclass(frozen=True)
class Stations:
    """How many messages per second each station of one cell can serve; and how proxies gather."""

    proxy: float
    log: float
    aggregator: float
    threshold: float = IntakeRules.threshold
    deadline: float = IntakeRules.deadline
    tick: float = 0.0
    """Seconds from the time of a mark until it stands in the log."""
    step: float = 0.0
    """Seconds of a step of the aggregator beside counting."""
    polling: float = 0.0
    """The part of the proxy's core that requests for queries take."""

    @classmethod
    def of(cls, sizing: Sizing, cells: int | None = None, brokers: int | None = None) -> Stations:
        """Those of a system that was sized, or of one with fewer cells and brokers."""
        demand, figures = sizing.demand, sizing.figures
        cells = cells or sizing.cells
        polls = 0.0 if sizing.front else demand.polls / cells / figures.polls
        each = (
            1
            / (figures.uploads_kept if sizing.front else figures.uploads)
            / demand.shares_per_upload
        )
        each += (1 - 1 / demand.shares_per_upload) / figures.bulk
        disks = brokers or sizing.brokers or cells
        kafka = sizing.log == "kafka"
        written = sizing.row_bytes * sizing.replication * (demand.proxies if kafka else 1)
        flushed = IntakeRules.threshold * (figures.flushes_kafka if kafka else figures.flushes)
        cores = sizing.aggregator_cores / sizing.cells
        return cls(
            proxy=max(0.0, figures.processor - polls) / each,
            polling=polls / figures.processor,
            log=min(flushed, figures.broker * disks / cells / written),
            aggregator=cores * (figures.spark if sizing.engine == "spark" else figures.embedded),
            tick=figures.tick,
            step=figures.step,
        )


@dataclass(frozen=True)
class Run:
    """What happened to one cell. Times are in seconds, backlogs in messages."""

    latency: float
    """From the end of the last epoch to its result; infinite if not all of it was counted in the
    time that was simulated."""
    drained: float
    """From the beginning of the last epoch until the proxies had taken all of it; infinite if they
    never had."""
    late: float
    """The part of the last epoch's messages that came too late."""
    devices: float
    """The most that waited at devices."""
    gathered: float
    """The most that waited in a proxy for a flush."""
    log: float
    """The most that waited for the log."""
    aggregator: float
    """The most that waited for the aggregator."""
    utilisation: dict[str, float]
    """Of each station, over the busiest minute."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values; None for times that never come, because JSON has no infinity."""
        times = {
            name: None if math.isinf(getattr(self, name)) else getattr(self, name)
            for name in ("latency", "drained")
        }
        return {**self.__dict__, **times}


def _served(arriving: _Floats, capacity: float) -> tuple[_Floats, float]:
    """What leaves a station that serves up to `capacity` per slot, first come first served; and the
    most that waited."""
    total = np.cumsum(arriving)
    slots = np.arange(1, len(arriving) + 1)
    # What has left by slot t is the least, over all earlier moments s, of what had come by s plus a
    # full service since.
    left = np.minimum(
        np.minimum.accumulate(np.concatenate([[0.0], (total - capacity * slots)[:-1]]))
        + capacity * slots,
        total,
    )
    return np.diff(left, prepend=0.0), float((total - left).max(initial=0.0))


def _gathered(arriving: _Floats, threshold: float, deadline: int) -> tuple[_Floats, float]:
    """What leaves a proxy that waits for so many, or for so many slots; and the most that
    waited."""
    leaving, waiting, since, most = np.zeros_like(arriving), 0.0, 0, 0.0
    for slot, amount in enumerate(arriving.tolist()):
        if amount and not waiting:
            since = slot
        waiting += amount
        most = max(most, waiting)
        if waiting >= threshold or (waiting and slot - since >= deadline):
            leaving[slot], waiting = waiting, 0.0
    leaving[-1] += waiting
    return leaving, most


def _first(cumulative: _Floats, amount: float) -> float:
    """The first slot by which so much has passed; infinite if it never has."""
    reached = np.flatnonzero(cumulative >= amount * (1 - 1e-9))
    return float(reached[0]) if reached.size else math.inf


def simulate(
    demand: Demand, stations: Stations, cells: int = 1, epochs: int = 3, slot: float = 1.0
) -> Run:
    """One cell of a demand through some epochs; the last of them is what the figures are about.

    >>> town = Demand(clients=10_000)
    >>> quiet = simulate(town, Stations(proxy=400, log=1e6, aggregator=1e6))
    >>> quiet.latency, quiet.late
    (600.0, 0.0)
    """
    if epochs < 1 or cells < 1 or not 0 < slot <= 1:
        raise ParameterError(
            "slot", slot, "must be a part of a second, with at least one epoch and one cell"
        )
    per_second = round(1 / slot)
    length = epochs * demand.every + demand.poll + demand.grace + 3600
    if length * per_second > _MOST_SLOTS:
        raise ParameterError(
            "slot", slot, f"makes more than {_MOST_SLOTS} slots for {epochs} epochs"
        )
    seconds = np.zeros(length)
    for epoch in range(epochs):
        start = epoch * demand.every
        seconds[start : start + len(demand.profile)] += demand.profile * demand.messages / cells
    arriving = np.repeat(seconds / per_second, per_second)
    taken, devices = _served(arriving, stations.proxy * slot)
    flushed, gathered = _gathered(taken, stations.threshold, round(stations.deadline * per_second))
    logged, waiting_log = _served(flushed, stations.log * slot)
    counted, waiting_count = _served(logged, stations.aggregator * slot)

    due = demand.messages / cells * epochs
    end = epochs * demand.every * per_second
    mark = end + demand.grace * per_second
    took, done = np.cumsum(taken), np.cumsum(counted)
    late = max(0.0, due - float(took[min(mark, len(took)) - 1])) / (demand.messages / cells)
    late = min(1.0, late) if late > 1e-9 else 0.0
    # What is late is refused, so an epoch is complete when all that was taken in time is counted.
    complete = _first(done, due - late * demand.messages / cells)
    drained = _first(took, due)
    minute = 60 * per_second

    def busiest(passed: _Floats, rate: float) -> float:
        total = np.concatenate([[0.0], np.cumsum(passed)])
        return float((total[minute:] - total[:-minute]).max() / (rate * 60)) if rate else math.inf

    return Run(
        latency=(max(complete - end, mark - end) * slot) + stations.tick + stations.step,
        drained=(drained - (end - demand.every * per_second)) * slot,
        late=late,
        devices=devices,
        gathered=gathered,
        log=waiting_log,
        aggregator=waiting_count,
        utilisation={
            "proxy process": (
                max(1.0, stations.polling)
                if stations.polling >= 1
                else stations.polling + (1 - stations.polling) * busiest(taken, stations.proxy)
            ),
            "log": busiest(logged, stations.log),
            "aggregator": busiest(counted, stations.aggregator),
        },
    )
