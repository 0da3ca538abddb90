"""What a system needs to meet a demand: processes, partitions, brokers, memory, disk, money; and
what runs out first.

**Cells.** One proxy is one process: it alone knows which message ids and how many messages of a
token it has had. If one is not enough, people are divided into cells. Each cell has its own process
of every proxy, its own topics, its own aggregator and its own copy of the query; the estimates of
cells are those of strata (:func:`deniable.stratified`). Nothing passes between cells.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from deniable.aggregator.counting.limits import EngineLimits
from deniable.errors import ParameterError
from deniable.proxy.intake.uploads import IntakeRules
from deniable.sizing.demand import Demand
from deniable.sizing.figures import Prices, SizingFigures
from deniable.sizing.result import Resource, Sizing, peak_proxy_memory
from deniable.wire.blocks import MOST_PREFIX_BITS

__all__ = ["ENGINES", "LOGS", "size"]

ENGINES = ("auto", "embedded", "spark")
LOGS = ("auto", "sqlite", "kafka")


def _proxy_load(demand: Demand, figures: SizingFigures, front: bool) -> float:
    """Seconds of one core that a proxy needs each second, at the peak."""
    # each share is still the upload of a device, whose token and quota are looked at
    if demand.collected > 1:
        return demand.peak / figures.gathered
    uploads = demand.peak / demand.shares_per_upload
    polling = 0.0 if front else demand.polls / figures.polls
    return (
        uploads / (figures.uploads_kept if front else figures.uploads)
        + (demand.peak - uploads) / figures.bulk
        + polling
    )


def size(
    demand: Demand,
    figures: SizingFigures | None = None,
    prices: Prices | None = None,
    *,
    front: bool = False,
    replication: int = 3,
    log: str = "auto",
    engine: str = "auto",
) -> Sizing:
    """What a demand takes, each resource loaded to `figures.headroom` at most.

    The log is Kafka from where it does not fit on one disk; the aggregator is the embedded one for
    as long as one machine of it serves a cell.

    >>> town = size(Demand(clients=100_000, sampling=0.6), front=True)
    >>> town.cells, town.log, town.engine, town.bottleneck.name
    (1, 'sqlite', 'embedded', 'proxy process')
    """
    figures, prices = figures or SizingFigures(), prices or Prices()
    _check_choices(replication, log, engine)
    kept = demand.mean * demand.row_bytes(demand.peak) * demand.retention
    kafka = log == "kafka" or (
        log == "auto" and (engine == "spark" or _units(kept / figures.disk, figures) > 1)
    )
    proxy = _of_proxies(demand, figures, front, kafka)
    cells = _units(max(each.load for each in proxy), figures)
    counting = _of_aggregators(demand, figures)
    if engine == "auto" and _units(max(each.load for each in counting) / cells, figures) > 1:
        return size(
            demand, figures, prices, front=front, replication=replication, log=log, engine="spark"
        )
    spark = engine == "spark"
    rate = demand.peak / cells
    cores = (
        _units(rate / figures.spark, figures)
        if spark
        else _units(4 * rate / figures.embedded, figures) / 4
    )
    logged = _of_log(demand, figures, cells, math.ceil(cores), replication if kafka else None)
    if spark:
        counting = [Resource("aggregator", demand.peak / figures.spark, 1, _OF_SPARK)]
    return Sizing(
        demand=demand,
        figures=figures,
        prices=prices,
        front=front,
        replication=logged.copies,
        cells=cells,
        log="kafka" if kafka else "sqlite",
        engine="spark" if spark else "embedded",
        aggregator_cores=cells * cores,
        partitions=logged.partitions,
        brokers=logged.brokers,
        resources=(
            *(each._replace(units=cells) for each in proxy),
            *(each._replace(units=logged.brokers or cells) for each in logged.resources),
            *(
                each._replace(units=cells * math.ceil(cores) if spark else cells)
                for each in counting
            ),
        ),
    )


def _check_choices(replication: int, log: str, engine: str) -> None:
    if (
        isinstance(replication, bool)
        or not isinstance(replication, int)
        or not 1 <= replication <= 16
    ):
        raise ParameterError("replication", replication, "must be a whole number from 1 to 16")
    for name, given, allowed in (("log", log, LOGS), ("engine", engine, ENGINES)):
        if given not in allowed:
            raise ParameterError(name, given, f"must be one of {', '.join(allowed)}")


def _units(load: float, figures: SizingFigures) -> int:
    """How many units carry a load, each loaded to the headroom at most."""
    return max(1, math.ceil(load / figures.headroom - 1e-9))


class _LogSupply(NamedTuple):
    """What keeps the shares: partitions and copies in Kafka, or the disk of each cell."""

    partitions: int
    copies: int
    brokers: int
    resources: tuple[Resource, ...]


def _of_log(
    demand: Demand, figures: SizingFigures, cells: int, cores: int, replication: int | None
) -> _LogSupply:
    """The log for a number of cells: in Kafka with so many copies, or in SQLite if `replication` is
    None."""
    rate = demand.peak / cells
    partitions, copies, logs = 1, 1, 1
    if replication is not None:
        wanted = max(_units(rate * demand.row_bytes(rate) / figures.partition, figures), cores)
        partitions, copies, logs = (
            min(1 << (wanted - 1).bit_length(), 1 << MOST_PREFIX_BITS),
            replication,
            demand.proxies,
        )
    row = demand.row_bytes(rate, partitions) * logs * copies
    disk, writing = (
        demand.mean * row * demand.retention / figures.disk,
        demand.peak * row / figures.broker,
    )
    placed = cells * logs * (partitions + 1) * copies / figures.broker_partitions
    brokers = (
        0
        if replication is None
        else max(copies, _units(max(disk, writing), figures), math.ceil(placed))
    )
    resources = (
        Resource("log disk", disk, 1, _OF_DISK),
        Resource("log writing", writing, 1, _OF_WRITING),
    )
    return _LogSupply(partitions, copies, brokers, resources)


def _of_proxies(demand: Demand, figures: SizingFigures, front: bool, kafka: bool) -> list[Resource]:
    """The load of all people on one process of a proxy."""
    flushes = max(demand.peak / IntakeRules.threshold, 1 / IntakeRules.deadline)
    return [
        Resource(
            "proxy process",
            _proxy_load(demand, figures, front),
            1,
            _OF_REQUESTS_FRONT if front else _OF_REQUESTS,
        ),
        Resource("message ids", demand.open_messages / IntakeRules.most_ids, 1, _OF_IDS),
        Resource(
            "proxy memory", peak_proxy_memory(demand, figures) / figures.memory, 1, _OF_PROXY_MEMORY
        ),
        Resource(
            "log transactions",
            flushes / (figures.flushes_kafka if kafka else figures.flushes),
            1,
            _OF_FLUSHES,
        ),
    ]


def _of_aggregators(demand: Demand, figures: SizingFigures) -> list[Resource]:
    """The load of all people on one embedded aggregator."""
    memory = (demand.joined_bytes + demand.waiting_bytes) / figures.memory
    return [
        Resource(
            "aggregator", demand.peak / figures.embedded / EngineLimits.workers, 1, _OF_COUNTING
        ),
        Resource("aggregator memory", memory, 1, _OF_JOINING),
        Resource(
            "waiting shares", demand.waiting_shares / EngineLimits.most_waiting, 1, _OF_WAITING
        ),
    ]


_OF_REQUESTS = (
    "a front end that terminates TLS, keeps connections and caches the queries; devices that ask"
    " less often or spread their answers over more time; then more cells"
)
_OF_REQUESTS_FRONT = (
    "devices that spread their answers over more time (upload_within); a collector that sends many"
    " shares at once; then more cells"
)
_OF_IDS = "shorter epochs or a shorter grace; more memory and a higher most_ids; then more cells"
_OF_PROXY_MEMORY = (
    "machines with more memory; shorter epochs; then more cells, each of which knows only its own"
    " tokens"
)
_OF_FLUSHES = "a higher threshold: more shares in one transaction; more cells"
_OF_DISK = "a shorter retention, larger disks, or Kafka on more brokers"
_OF_WRITING = "answers spread over more time (upload_within); more brokers; faster disks"
_OF_COUNTING = "an aggregator for each of more cells, or Spark"
_OF_SPARK = "more executor cores, and as many partitions"
_OF_JOINING = (
    "shorter epochs or a shorter grace: ids are kept while an epoch is open; more memory; more"
    " cells; or Spark"
)
_OF_WAITING = (
    "proxies that flush more often (deadline); more memory and a higher most_waiting; more cells"
)
