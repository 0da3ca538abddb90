"""Closing: which epochs are closed, and what happens then, for every engine.

Every proxy marks in its log how far its epochs are complete. An epoch is closed once all proxies have marked it. If one has not
marked it `patience` seconds after its end, it is closed without that proxy: no message can be joined without all of its shares,
so its windows lack answers, and they say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from deniable.aggregator.catalogue import CountedChannel
from deniable.aggregator.conservation import statement
from deniable.aggregator.limits import EngineLimits
from deniable.aggregator.state import State
from deniable.aggregator.windows import assemble

__all__ = ["Due", "close_epoch", "due_epochs", "overdue"]


class Due(NamedTuple):
    """An epoch to be closed, and the proxies without which it is."""

    epoch: int
    missing: tuple[int, ...]


def overdue(channel: CountedChannel, now: int, patience: int) -> int:
    """The epoch before which all of a channel's are closed, whether they are marked or not."""
    return channel.epochs_over(now - patience)


def due_epochs(channel: CountedChannel, front: int, marked: Sequence[int], overdue: int) -> Iterator[Due]:
    """The epochs of a channel to be closed, the oldest first.

    `front` is the first open epoch, `marked` says for each proxy before which epoch it has marked all of them.
    """
    for epoch in range(front, channel.n_epochs):
        missing = tuple(proxy for proxy, mark in enumerate(marked) if mark <= epoch)
        if missing and epoch >= overdue:
            return
        yield Due(epoch, missing)


def close_epoch(
    state: State, channel: CountedChannel, epoch: int, missing: Iterable[int], first: int, now: int, limits: EngineLimits
) -> None:
    """Close an epoch, release the windows that end with it, and forget what is too old; inside a transaction of the caller.

    `missing` are the proxies without which it is closed, `first` is the first epoch of the channel that was ever counted.
    """
    state.close_epoch(channel.tag, epoch, missing)
    _release(state, channel, epoch, first)
    before = now - limits.retention
    oldest = channel.schedule.epochs_over(before)
    if oldest > 0:
        state.forget(channel.tag, oldest, channel.queries(), before)
    oldest = channel.schedule.epochs_over(now - max(limits.retention, limits.pane_retention))
    if oldest > 0:
        state.forget_panes(channel.queries(), oldest)


def _release(state: State, channel: CountedChannel, epoch: int, first: int) -> None:
    """Results of the windows that end with this epoch."""
    for name, versions in channel.queries().items():
        schedule = versions[-1].schedule
        if epoch >= schedule.n_epochs:
            continue
        for index in schedule.windows_of_epoch(epoch):
            epochs = schedule.epochs_of_window(index)
            if epochs[-1] != epoch or epochs[0] < first:  # of a window that began before anybody was asked there is no result
                continue
            missing = [state.proxies[proxy] for proxy in sorted(state.missing(channel.tag, epochs))]
            accounts = statement(state.proxies, state.accounts(channel.tag, epochs))
            window = assemble(versions, index, state.panes(name, epochs), missing, accounts)
            document = json.dumps(window.to_dict(), allow_nan=False)
            state.release(name, index, window.start, window.condition, document)
