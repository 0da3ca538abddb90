"""What a query demands of a system: messages, requests and bytes per second, on average and at the
peak of an epoch.

When devices send. A device wakes every `poll` seconds, each at its own moment. In its first round
of an epoch it answers, and draws when to send: a second uniform in the `within` that follow, or in
what is left of the epoch (docs/client.md). It sends in its next round after that. So all answers of
an epoch come within about `within` seconds, however long the epoch is: that is the peak.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.limits import EngineLimits
from deniable.checks import whole
from deniable.client.policy import Policy
from deniable.errors import ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.proxy.intake.uploads import ROWS_PER_BLOCK, IntakeRules
from deniable.queries.query import Query
from deniable.randomness import ONE
from deniable.wire.blocks import block_bytes
from deniable.wire.shares import record_bytes
from deniable.wire.sizes import row_words, smallest_class

__all__ = ["Demand"]

_MOST_CLIENTS = 10**11
_LONGEST_EPOCH = 31 * 86400
_ID_WORDS = 2


@dataclass(frozen=True)
class Demand:
    """People who answer one query, epoch by epoch. Times are in seconds.

    >>> town = Demand(clients=100_000, every=3600, sampling=0.6)
    >>> round(town.messages), round(town.mean, 1), round(town.peak, 1), town.share_bytes
    (60000, 16.7, 100.0, 80)
    """

    clients: int
    every: int = 3600
    sampling: float = 1.0
    proxies: int = 2
    size_class: int = 0
    buckets: int = 11
    most_rows: int = 1
    """Messages that a device sends when it answers."""
    cover: bool = False
    """Whether devices that are not sampled send as well."""
    poll: int = 60
    """Seconds between two rounds of a device: each asks every proxy for queries (`deniable client
    run --every`)."""
    within: int = Policy.upload_within
    """Seconds within which a device sends its answer (`upload_within` of its policy)."""
    collected: int = 1
    """Shares per upload: 1 if devices send for themselves, thousands with a collector."""
    grace: int = IntakeRules.grace
    """How long proxies keep an epoch open after its end."""
    retention: int = IntakeRules.retention
    """How long shares stay in the log."""
    history: int = EngineLimits.retention
    """How long panes and results are kept."""

    def __post_init__(self) -> None:
        whole("clients", self.clients, 1, _MOST_CLIENTS)
        whole("every", self.every, 1, _LONGEST_EPOCH)
        whole("proxies", self.proxies, 2, 16)
        whole("buckets", self.buckets, 1, 1 << 20)
        whole("most_rows", self.most_rows, 1, 1000)
        whole("poll", self.poll, 1, _LONGEST_EPOCH)
        whole("within", self.within, 0, _LONGEST_EPOCH)
        whole("collected", self.collected, 1, 1 << 20)
        for name in ("grace", "retention", "history"):
            whole(name, getattr(self, name), 0, 100 * _LONGEST_EPOCH)
        if (
            isinstance(self.sampling, bool)
            or not isinstance(self.sampling, int | float)
            or not 0 < self.sampling <= 1
        ):
            raise ParameterError(
                "sampling", self.sampling, "must be a probability above 0 and at most 1"
            )
        if self.poll > self.every:
            raise ParameterError(
                "poll",
                self.poll,
                f"must not exceed every = {self.every}: a device would miss epochs",
            )
        record_bytes(self.size_class)

    @classmethod
    def of_query(cls, query: Query, clients: int, **others: Any) -> Demand:
        """The demand of a query to this many people."""
        return cls(
            clients=clients,
            every=query.schedule.every,
            sampling=max(
                (query.sampling_of(i) / ONE for i in range(len(query.strata))),
                default=query.sampling,
            ),
            proxies=len(query.proxies),
            size_class=query.size_class or 0,
            buckets=len(query.labels),
            most_rows=query.most_rows,
            cover=query.cover,
            **others,
        )

    @classmethod
    def of_mechanism(cls, mechanism: Mechanism, clients: int, **others: Any) -> Demand:
        """The demand of a mechanism's reports, in the smallest size class that fits."""
        return cls(
            clients,
            size_class=smallest_class(mechanism.report_bytes),
            buckets=len(mechanism.labels),
            **others,
        )

    # --- messages

    @property
    def senders(self) -> float:
        """Devices that send in an epoch."""
        return self.clients * (1.0 if self.cover else self.sampling)

    @property
    def messages(self) -> float:
        """Messages of an epoch; each is one share at every proxy."""
        return self.senders * self.most_rows

    @property
    def mean(self) -> float:
        """Shares per second at each proxy, over the whole epoch."""
        return self.messages / self.every

    @cached_property
    def profile(self) -> NDArray[np.float64]:
        """The fraction of an epoch's messages sent in each second from its beginning. Sums to 1."""
        parts = np.zeros(self.every + self.poll + 1)
        for first in range(self.poll):
            draws = max(1, min(self.within, self.every - first))
            rounds = np.bincount(-(-np.arange(draws) // self.poll))
            at = first + self.poll * np.arange(len(rounds))
            parts[at] += rounds / draws / self.poll
        return parts

    @property
    def peak(self) -> float:
        """Shares per second at each proxy, in the busiest second; those of neighbouring epochs come
        together."""
        folded = np.zeros(self.every)
        np.add.at(folded, np.arange(len(self.profile)) % self.every, self.profile)
        return float(self.messages * folded.max())

    @property
    def polls(self) -> float:
        """Requests per second for the list of queries, at each proxy."""
        return self.clients / self.poll

    @property
    def shares_per_upload(self) -> int:
        """How many shares one request brings: a device sends all of its messages at once."""
        return max(self.collected, self.most_rows)

    # --- bytes

    @property
    def share_bytes(self) -> int:
        """Bytes of a share on its way to a proxy."""
        return record_bytes(self.size_class)

    def row_bytes(self, rate: float, partitions: int = 1) -> float:
        """Bytes of a share in the log of a proxy process with this many per second, including its
        part of a block's header."""
        flushed = min(IntakeRules.threshold, rate * IntakeRules.deadline)
        rows = max(1, int(min(flushed / partitions, ROWS_PER_BLOCK)))
        return block_bytes(self.size_class, rows) / rows

    @property
    def open_messages(self) -> float:
        """Messages of all epochs that are open at a time, at most."""
        return self.messages * (1 + self.grace / self.every)

    @property
    def joined_bytes(self) -> float:
        """Bytes of the ids of joined messages of open epochs, which the aggregator keeps in memory
        and state."""
        return self.open_messages * 8 * _ID_WORDS

    @property
    def waiting_shares(self) -> float:
        """Shares of one proxy that wait at the aggregator for those of the others: proxies flush at
        different moments."""
        return self.peak * IntakeRules.deadline

    @property
    def waiting_bytes(self) -> float:
        """Their bytes, of all proxies but the slowest."""
        return self.waiting_shares * (self.proxies - 1) * 8 * row_words(self.size_class)

    def to_dict(self) -> dict[str, Any]:
        """What was given."""
        return {each.name: getattr(self, each.name) for each in fields(self)}
