"""What an engine keeps in memory of the epochs that are open: the rows that wait for their
partners, and the ids that are joined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deniable.aggregator.counting.blocks import Task
from deniable.aggregator.counting.join import Bucket
from deniable.aggregator.step import Stored

__all__ = ["OpenEpochs"]


@dataclass
class _Epoch:
    buckets: dict[int, Bucket]
    n_joined: int = 0

    def n_waiting(self, proxy: int) -> int:
        return sum(bucket.n_pending(proxy) for bucket in self.buckets.values())


class OpenEpochs:
    """The open epochs of all channels, each by (channel, epoch)."""

    def __init__(self, n_proxies: int, folder: Path) -> None:
        self._epochs: dict[tuple[int, int], _Epoch] = {}
        self._n_proxies, self._folder = n_proxies, folder

    def __len__(self) -> int:
        return len(self._epochs)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._epochs)

    def load(self, stored: Iterable[Stored]) -> None:
        """Take up what a state holds."""
        for part in stored:
            bucket = self.bucket((part.channel, part.epoch, part.bucket))
            if part.proxy is None:
                bucket.done.add(part.rows)
                self.joined((part.channel, part.epoch), part.rows.shape[1])
            else:
                bucket.restore(part.proxy, part.rows)

    def bucket(self, task: Task) -> Bucket:
        """The bucket of a channel and epoch with this number, begun if there is none."""
        *place, number = task
        epoch = self._epochs.setdefault((place[0], place[1]), _Epoch({}))
        return epoch.buckets.setdefault(number, Bucket(self._n_proxies, self._folder))

    def joined(self, place: tuple[int, int], n: int) -> None:
        """Count joined messages, whose ids are kept to detect replays."""
        self._epochs[place].n_joined += n

    def n_joined(self) -> int:
        """Ids of joined messages of all open epochs."""
        # a copy: other threads may call this
        return sum(epoch.n_joined for epoch in list(self._epochs.values()))

    def n_waiting(self, place: tuple[int, int], proxy: int) -> int:
        """How many shares of a proxy wait in an epoch."""
        epoch = self._epochs.get(place)
        return 0 if epoch is None else epoch.n_waiting(proxy)

    def waiting(self) -> list[int]:
        """How many shares of each proxy wait."""
        return [
            sum(epoch.n_waiting(proxy) for epoch in self._epochs.values())
            for proxy in range(self._n_proxies)
        ]

    def give_up(self, place: tuple[int, int], proxy: int) -> None:
        """Forget the waiting shares of a proxy in an epoch."""
        for bucket in self._epochs[place].buckets.values():
            bucket.pending[proxy] = None

    def close(self, place: tuple[int, int]) -> None:
        """Forget an epoch."""
        self._epochs.pop(place, None)
