"""What a system needs to meet a demand: processes, partitions, brokers, memory, disk, money; and what runs out first.

**Cells.** One proxy is one process: it alone knows which message ids and how many messages of a token it has had. If one is not
enough, people are divided into cells. Each cell has its own process of every proxy, its own topics, its own aggregator and its
own copy of the query; the estimates of cells are those of strata (:func:`deniable.stratified`). Nothing passes between cells.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from deniable.aggregator.limits import EngineLimits
from deniable.errors import ParameterError
from deniable.mechanisms.reports import Tally
from deniable.mechanisms.unary import UnaryEncoding
from deniable.proxy.intake import Rules
from deniable.sizing.demand import Demand
from deniable.sizing.figures import Figures, Prices
from deniable.wire.blocks import MOST_PREFIX_BITS

__all__ = ["ENGINES", "LOGS", "Resource", "Sizing", "size"]

ENGINES = ("auto", "embedded", "spark")
LOGS = ("auto", "sqlite", "kafka")
_HOURS_A_MONTH = 730
_SECONDS_A_MONTH = _HOURS_A_MONTH * 3600
_MOST_LABELS = 512
"""Results are measured up to so many buckets, above which they grow with the buckets."""


class Resource(NamedTuple):
    """One thing that can run out."""

    name: str
    load: float
    """What all people need of it, over what one unit can do: above 1, one is not enough."""
    units: int
    """How many are planned."""
    relief: str
    """What would make it last longer."""

    @property
    def utilisation(self) -> float:
        """How much of what is planned is used at the peak."""
        return self.load / self.units


@dataclass(frozen=True)
class Sizing:
    """A system for a demand. Rates are per second; sizes are in bytes."""

    demand: Demand
    figures: Figures
    prices: Prices
    front: bool
    """Whether a front end before each proxy terminates TLS, keeps connections open and serves the list of queries."""
    replication: int
    cells: int
    log: Literal["sqlite", "kafka"]
    engine: Literal["embedded", "spark"]
    aggregator_cores: float
    """Of all cells; an embedded aggregator with little to do takes a quarter of a core."""
    partitions: int
    """Of one topic."""
    brokers: int
    resources: tuple[Resource, ...]

    # --- what travels -----------------------------------------------------------------------------------------------

    @property
    def row_bytes(self) -> float:
        """Bytes of a share in the log."""
        return self.demand.row_bytes(self.demand.peak / self.cells, self.partitions)

    @property
    def upload_bytes(self) -> float:
        """Bytes per second that come to one proxy in all, on average: shares and what HTTP puts around them."""
        each = self.demand.share_bytes + self.figures.request_bytes / self.demand.shares_per_upload
        return self.demand.mean * each

    @property
    def poll_bytes(self) -> float:
        """Bytes per second that go out from one proxy, or from its front, to devices that ask for queries."""
        return self.demand.polls * self.figures.poll_bytes

    @property
    def device_bytes(self) -> float:
        """Bytes per month that one device sends to and gets from all proxies, above TCP and TLS."""
        return (self.upload_bytes + self.poll_bytes) * self.demand.proxies * _SECONDS_A_MONTH / self.demand.clients

    @property
    def log_bytes(self) -> float:
        """Bytes per second that all proxies append, on average; as many leave them for the aggregator."""
        return self.demand.mean * self.row_bytes * self.demand.proxies

    @property
    def log_peak(self) -> float:
        """The same at the peak."""
        return self.demand.peak * self.row_bytes * self.demand.proxies

    # --- what is kept -----------------------------------------------------------------------------------------------

    @property
    def stored_bytes(self) -> float:
        """Bytes of all logs, replicas counted."""
        return self.log_bytes * self.demand.retention * self.replication

    @property
    def proxy_memory(self) -> float:
        """Bytes of one proxy process for tokens and ids."""
        return _proxy_memory(self.demand, self.figures) / self.cells

    @property
    def aggregator_memory(self) -> float:
        """Bytes of one aggregator for ids of open epochs and shares that wait."""
        return (self.demand.joined_bytes + self.demand.waiting_bytes) / self.cells

    @property
    def history_bytes(self) -> float:
        """Bytes of the results of all epochs that are kept, one window an epoch, of all cells."""
        return self.demand.history / self.demand.every * _result_bytes(self.demand.buckets) * self.cells

    # --- what it takes ----------------------------------------------------------------------------------------------

    @property
    def proxy_processes(self) -> int:
        """Of all proxies."""
        return self.cells * self.demand.proxies

    @property
    def collector_processes(self) -> int:
        """Of all proxies, each device over a TLS connection of its own; none where devices send to the proxy itself."""
        if self.demand.collected == 1:
            return 0
        load = self.demand.peak / self.figures.uploads + self.demand.polls / self.figures.polls
        return math.ceil(load / self.figures.headroom) * self.demand.proxies

    @property
    def topics(self) -> int:
        """One for the shares of each proxy process, and one for what it remembers; none without Kafka."""
        return 2 * self.proxy_processes if self.log == "kafka" else 0

    @property
    def cores(self) -> float:
        """Of everything."""
        ending = (self.proxy_processes + self.collector_processes) * self.figures.processor
        return ending + self.aggregator_cores + self.brokers * self.figures.broker_cores

    @property
    def cost(self) -> dict[str, float]:
        """The monthly cost, by purpose."""
        parts = {
            "storage": (self.stored_bytes + self.history_bytes) / 1e12 * self.prices.storage,
            "egress": (self.log_bytes + self.poll_bytes * self.demand.proxies) * _SECONDS_A_MONTH / 1e9 * self.prices.egress,
            "cores": self.cores * _HOURS_A_MONTH * self.prices.core,
        }
        return {**parts, "all": sum(parts.values())}

    # --- what gives way ---------------------------------------------------------------------------------------------

    @property
    def bottleneck(self) -> Resource:
        """What runs out first, with one unit of everything."""
        return max(self.resources, key=lambda each: each.load)

    def clients_at_full(self, resource: Resource) -> float:
        """How many people one unit of it serves, at the planned part of its capacity."""
        return self.demand.clients * self.figures.headroom / resource.load

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        names = (
            *("front", "replication", "cells", "log", "engine", "aggregator_cores", "partitions", "brokers"),
            *(
                "proxy_processes",
                "collector_processes",
                "topics",
                "cores",
                "row_bytes",
                "upload_bytes",
                "poll_bytes",
                "device_bytes",
            ),
            *("log_bytes", "log_peak"),
            *("stored_bytes", "proxy_memory", "aggregator_memory", "history_bytes", "cost"),
        )
        demand = self.demand
        rates = {"messages": demand.messages, "mean": demand.mean, "peak": demand.peak, "polls": demand.polls}
        return {
            "demand": {**demand.to_dict(), **rates, "share_bytes": demand.share_bytes, "waiting_shares": demand.waiting_shares},
            **{name: getattr(self, name) for name in names},
            "bottleneck": self.bottleneck.name,
            "resources": [
                {**each._asdict(), "utilisation": each.utilisation, "clients_at_full": self.clients_at_full(each)}
                for each in self.resources
            ],
            "figures": {name: getattr(self.figures, name) for name in Figures.names()},
        }


def _proxy_memory(demand: Demand, figures: Figures) -> float:
    """Tokens are those of devices, which a proxy behind collectors checks too; ids are kept while their epoch is open."""
    return demand.clients * figures.token_bytes + demand.open_messages * figures.id_bytes


def _proxy_load(demand: Demand, figures: Figures, front: bool) -> float:
    """Seconds of one core that a proxy needs each second, at the peak."""
    if demand.collected > 1:  # each share is still the upload of a device, whose token and quota are looked at
        return demand.peak / figures.gathered
    uploads = demand.peak / demand.shares_per_upload
    polling = 0.0 if front else demand.polls / figures.polls
    return uploads / (figures.uploads_kept if front else figures.uploads) + (demand.peak - uploads) / figures.bulk + polling


@lru_cache
def _result_bytes(buckets: int) -> float:
    """Bytes of one result, as it is stored."""
    k = min(buckets, _MOST_LABELS)
    mechanism = UnaryEncoding(max(k, 2), 0.75, 0.25)
    counts = np.full(max(k, 2), 500, dtype=np.int64)
    return len(json.dumps(mechanism.estimate(Tally(mechanism, counts, 1000)).to_dict())) * buckets / k


def size(
    demand: Demand,
    figures: Figures | None = None,
    prices: Prices | None = None,
    *,
    front: bool = False,
    replication: int = 3,
    log: str = "auto",
    engine: str = "auto",
) -> Sizing:
    """What a demand takes, each resource loaded to `figures.headroom` at most.

    The log is Kafka from where it does not fit on one disk; the aggregator is the embedded one for as long as one machine of it
    serves a cell.

    >>> town = size(Demand(clients=100_000, sampling=0.6), front=True)
    >>> town.cells, town.log, town.engine, town.bottleneck.name
    (1, 'sqlite', 'embedded', 'proxy process')
    """
    figures, prices = figures or Figures(), prices or Prices()
    if isinstance(replication, bool) or not isinstance(replication, int) or not 1 <= replication <= 16:
        raise ParameterError("replication", replication, "must be a whole number from 1 to 16")
    for name, given, allowed in (("log", log, LOGS), ("engine", engine, ENGINES)):
        if given not in allowed:
            raise ParameterError(name, given, f"must be one of {', '.join(allowed)}")

    def units(load: float) -> int:
        return max(1, math.ceil(load / figures.headroom - 1e-9))

    kept = demand.mean * demand.row_bytes(demand.peak) * demand.retention
    kafka = log == "kafka" or (log == "auto" and (engine == "spark" or units(kept / figures.disk) > 1))
    proxy = _of_proxies(demand, figures, front, kafka)
    cells = units(max(each.load for each in proxy))
    counting = _of_aggregators(demand, figures)
    if engine == "auto" and units(max(each.load for each in counting) / cells) > 1:
        return size(demand, figures, prices, front=front, replication=replication, log=log, engine="spark")
    spark = engine == "spark"
    rate = demand.peak / cells
    cores = units(rate / figures.spark) if spark else units(4 * rate / figures.embedded) / 4
    partitions, copies, logs = 1, 1, 1
    if kafka:
        wanted = max(units(rate * demand.row_bytes(rate) / figures.partition), math.ceil(cores))
        partitions, copies, logs = min(1 << (wanted - 1).bit_length(), 1 << MOST_PREFIX_BITS), replication, demand.proxies
    row = demand.row_bytes(rate, partitions) * logs * copies
    disk, writing = demand.mean * row * demand.retention / figures.disk, demand.peak * row / figures.broker
    placed = cells * logs * (partitions + 1) * copies / figures.broker_partitions
    brokers = max(copies, units(max(disk, writing)), math.ceil(placed)) if kafka else 0
    machines = brokers or cells
    if spark:
        counting = [Resource("aggregator", demand.peak / figures.spark, 1, _OF_SPARK)]
    return Sizing(
        demand=demand,
        figures=figures,
        prices=prices,
        front=front,
        replication=copies,
        cells=cells,
        log="kafka" if kafka else "sqlite",
        engine="spark" if spark else "embedded",
        aggregator_cores=cells * cores,
        partitions=partitions,
        brokers=brokers,
        resources=(
            *(each._replace(units=cells) for each in proxy),
            Resource("log disk", disk, machines, _OF_DISK),
            Resource("log writing", writing, machines, _OF_WRITING),
            *(each._replace(units=cells * math.ceil(cores) if spark else cells) for each in counting),
        ),
    )


def _of_proxies(demand: Demand, figures: Figures, front: bool, kafka: bool) -> list[Resource]:
    """The load of all people on one process of a proxy."""
    flushes = max(demand.peak / Rules.threshold, 1 / Rules.deadline)
    return [
        Resource("proxy process", _proxy_load(demand, figures, front), 1, _OF_REQUESTS_FRONT if front else _OF_REQUESTS),
        Resource("message ids", demand.open_messages / Rules.most_ids, 1, _OF_IDS),
        Resource("proxy memory", _proxy_memory(demand, figures) / figures.memory, 1, _OF_PROXY_MEMORY),
        Resource("log transactions", flushes / (figures.flushes_kafka if kafka else figures.flushes), 1, _OF_FLUSHES),
    ]


def _of_aggregators(demand: Demand, figures: Figures) -> list[Resource]:
    """The load of all people on one embedded aggregator."""
    memory = (demand.joined_bytes + demand.waiting_bytes) / figures.memory
    return [
        Resource("aggregator", demand.peak / figures.embedded / EngineLimits.workers, 1, _OF_COUNTING),
        Resource("aggregator memory", memory, 1, _OF_JOINING),
        Resource("waiting shares", demand.waiting_shares / EngineLimits.most_waiting, 1, _OF_WAITING),
    ]


_OF_REQUESTS = (
    "a front end that terminates TLS, keeps connections and caches the queries; devices that ask less often or spread their"
    " answers over more time; then more cells"
)
_OF_REQUESTS_FRONT = (
    "devices that spread their answers over more time (upload_within); a collector that sends many shares at once;"
    " then more cells"
)
_OF_IDS = "shorter epochs or a shorter grace; more memory and a higher most_ids; then more cells"
_OF_PROXY_MEMORY = "machines with more memory; shorter epochs; then more cells, each of which knows only its own tokens"
_OF_FLUSHES = "a higher threshold: more shares in one transaction; more cells"
_OF_DISK = "a shorter retention, larger disks, or Kafka on more brokers"
_OF_WRITING = "answers spread over more time (upload_within); more brokers; faster disks"
_OF_COUNTING = "an aggregator for each of more cells, or Spark"
_OF_SPARK = "more executor cores, and as many partitions"
_OF_JOINING = "shorter epochs or a shorter grace: ids are kept while an epoch is open; more memory; more cells; or Spark"
_OF_WAITING = "proxies that flush more often (deadline); more memory and a higher most_waiting; more cells"
