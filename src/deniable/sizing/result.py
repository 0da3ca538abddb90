"""What a system needs, as stated: each resource, what is stored and sent, and the cost."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from deniable.mechanisms.protocols.unary import UnaryEncoding
from deniable.mechanisms.reports import Tally
from deniable.sizing.demand import Demand
from deniable.sizing.figures import Prices, SizingFigures

__all__ = ["Resource", "Sizing", "peak_proxy_memory"]


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
    figures: SizingFigures
    prices: Prices
    front: bool
    """Whether a front end before each proxy terminates TLS, keeps connections open and serves the
    list of queries."""
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

    # --- what travels

    @property
    def row_bytes(self) -> float:
        """Bytes of a share in the log."""
        return self.demand.row_bytes(self.demand.peak / self.cells, self.partitions)

    @property
    def upload_bytes(self) -> float:
        """Bytes per second that come to one proxy in all, on average: shares and what HTTP puts
        around them."""
        each = self.demand.share_bytes + self.figures.request_bytes / self.demand.shares_per_upload
        return self.demand.mean * each

    @property
    def poll_bytes(self) -> float:
        """Bytes per second that go out from one proxy, or from its front, to devices that ask for
        queries."""
        return self.demand.polls * self.figures.poll_bytes

    @property
    def device_bytes(self) -> float:
        """Bytes per month that one device sends to and gets from all proxies, above TCP and TLS."""
        return (
            (self.upload_bytes + self.poll_bytes)
            * self.demand.proxies
            * _SECONDS_A_MONTH
            / self.demand.clients
        )

    @property
    def log_bytes(self) -> float:
        """Bytes per second that all proxies append, on average; as many leave them for the
        aggregator."""
        return self.demand.mean * self.row_bytes * self.demand.proxies

    @property
    def log_peak(self) -> float:
        """The same at the peak."""
        return self.demand.peak * self.row_bytes * self.demand.proxies

    # --- what is kept

    @property
    def stored_bytes(self) -> float:
        """Bytes of all logs, replicas counted."""
        return self.log_bytes * self.demand.retention * self.replication

    @property
    def proxy_memory(self) -> float:
        """Bytes of one proxy process for tokens and ids."""
        return peak_proxy_memory(self.demand, self.figures) / self.cells

    @property
    def aggregator_memory(self) -> float:
        """Bytes of one aggregator for ids of open epochs and shares that wait."""
        return (self.demand.joined_bytes + self.demand.waiting_bytes) / self.cells

    @property
    def history_bytes(self) -> float:
        """Bytes of the results of all epochs that are kept, one window an epoch, of all cells."""
        return (
            self.demand.history
            / self.demand.every
            * _result_bytes(self.demand.buckets)
            * self.cells
        )

    # --- what it takes

    @property
    def proxy_processes(self) -> int:
        """Of all proxies."""
        return self.cells * self.demand.proxies

    @property
    def collector_processes(self) -> int:
        """Of all proxies, each device over a TLS connection of its own; none where devices send to
        the proxy itself."""
        if self.demand.collected == 1:
            return 0
        load = self.demand.peak / self.figures.uploads + self.demand.polls / self.figures.polls
        return math.ceil(load / self.figures.headroom) * self.demand.proxies

    @property
    def topics(self) -> int:
        """One for the shares of each proxy process, and one for what it remembers; none without
        Kafka."""
        return 2 * self.proxy_processes if self.log == "kafka" else 0

    @property
    def cores(self) -> float:
        """Cores of all processes together."""
        ending = (self.proxy_processes + self.collector_processes) * self.figures.processor
        return ending + self.aggregator_cores + self.brokers * self.figures.broker_cores

    @property
    def cost(self) -> dict[str, float]:
        """The monthly cost, by purpose."""
        parts = {
            "storage": (self.stored_bytes + self.history_bytes) / 1e12 * self.prices.storage,
            "egress": (
                (self.log_bytes + self.poll_bytes * self.demand.proxies)
                * _SECONDS_A_MONTH
                / 1e9
                * self.prices.egress
            ),
            "cores": self.cores * _HOURS_A_MONTH * self.prices.core,
        }
        return {**parts, "all": sum(parts.values())}

    # --- what gives way

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
            *(
                "front",
                "replication",
                "cells",
                "log",
                "engine",
                "aggregator_cores",
                "partitions",
                "brokers",
            ),
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
        rates = {
            "messages": demand.messages,
            "mean": demand.mean,
            "peak": demand.peak,
            "polls": demand.polls,
        }
        return {
            "demand": {
                **demand.to_dict(),
                **rates,
                "share_bytes": demand.share_bytes,
                "waiting_shares": demand.waiting_shares,
            },
            **{name: getattr(self, name) for name in names},
            "bottleneck": self.bottleneck.name,
            "resources": [
                {
                    **each._asdict(),
                    "utilisation": each.utilisation,
                    "clients_at_full": self.clients_at_full(each),
                }
                for each in self.resources
            ],
            "figures": {name: getattr(self.figures, name) for name in SizingFigures.names()},
        }


def peak_proxy_memory(demand: Demand, figures: SizingFigures) -> float:
    """Tokens are those of devices, which a proxy behind collectors checks too; ids are kept while
    their epoch is open."""
    return demand.clients * figures.token_bytes + demand.open_messages * figures.id_bytes


@lru_cache
def _result_bytes(buckets: int) -> float:
    """Bytes of one result, as it is stored."""
    k = min(buckets, _MOST_LABELS)
    mechanism = UnaryEncoding(max(k, 2), 0.75, 0.25)
    counts = np.full(max(k, 2), 500, dtype=np.int64)
    return (
        len(json.dumps(mechanism.estimate(Tally(mechanism, counts, 1000)).to_dict())) * buckets / k
    )
