"""Closing: an epoch that is over is closed in the state, and the windows that it completes are released, for every engine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from deniable.aggregator.catalogue import Channel
from deniable.aggregator.conservation import statement
from deniable.aggregator.state import State
from deniable.aggregator.windows import assemble

__all__ = ["close_epoch", "lag_of"]


def close_epoch(state: State, channel: Channel, epoch: int, missing: Iterable[int], first: int, now: int, retention: int) -> None:
    """Close an epoch, release the windows that end with it, and forget what is too old; inside a transaction of the caller.

    `missing` are the proxies without which it is closed, `first` is the first epoch of the channel that was ever counted.
    """
    state.close_epoch(channel.tag, epoch, missing)
    _release(state, channel, epoch, first)
    before = now - retention
    oldest = (before - channel.schedule.origin) // channel.schedule.every
    if oldest > 0:
        state.forget(channel.tag, channel.queries(), oldest, before)


def _release(state: State, channel: Channel, epoch: int, first: int) -> None:
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


def lag_of(channels: Iterable[Channel], marks: Mapping[int, int], firsts: Mapping[int, int], now: int) -> int:
    """Seconds since the end of the first epoch that these marks of a proxy leave open; 0 if it has marked all that are over."""
    lag = 0
    for channel in channels:
        unmarked = max(marks.get(channel.tag, 0), firsts[channel.tag])
        if unmarked < channel.n_epochs:
            lag = max(lag, now - channel.schedule.end_of_epoch(unmarked))
    return lag
