"""Closing: which epochs are closed, and what happens then, for every engine.

Every proxy marks in its log how far its epochs are complete. An epoch is closed once all proxies
have marked it. If a proxy has not marked it `patience` seconds after its end, it is closed without
that proxy: no message can be joined without all of its shares, so its windows lack answers, and
they say so.

A query may have a `grace` of days. Its windows are then released early, and revised as late answers
arrive. Every revision is self-contained: an estimate from all answers released so far, with its own
account of the shares. The last one is final.

Every result is a sum of whole granules (`granules`), so that no difference of two results isolates
fewer answers than the minimum cohort: a revision has at least a cohort more than the one before, or
the same answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from deniable.aggregator.counting.catalogue import CountedChannel
from deniable.aggregator.counting.conservation import statement
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.state import State
from deniable.aggregator.windows import retention
from deniable.aggregator.windows.assembling import assemble
from deniable.aggregator.windows.granules import (
    form_granules,
    last_segment,
    period_sizes,
    released_granules,
    released_panes,
)
from deniable.aggregator.windows.revisions import Revision
from deniable.aggregator.windows.stored import read_window, window_text
from deniable.aggregator.windows.window import Window
from deniable.queries.query import Query

__all__ = ["Due", "close_epoch", "due_epochs", "overdue", "revise"]


class Due(NamedTuple):
    """An epoch to be closed, and the proxies that have not marked it."""

    epoch: int
    missing: tuple[int, ...]


def overdue(channel: CountedChannel, now: int, patience: int) -> int:
    """The epoch before which all epochs of a channel are closed, whether marked or not."""
    return channel.epochs_over(now - patience - channel.grace)


def due_epochs(
    channel: CountedChannel, front: int, marked: Sequence[int], overdue: int
) -> Iterator[Due]:
    """The epochs of a channel to be closed, oldest first.

    `front` is the first open epoch; `marked` gives, for each proxy, the epoch before which it has
    marked all of them.
    """
    for epoch in range(front, channel.n_epochs):
        missing = tuple(proxy for proxy, mark in enumerate(marked) if mark <= epoch)
        if missing and epoch >= overdue:
            return
        yield Due(epoch, missing)


def close_epoch(
    state: State,
    channel: CountedChannel,
    epoch: int,
    missing: Iterable[int],
    first: int,
    now: int,
    limits: EngineLimits,
) -> None:
    """Close an epoch, release the windows that end with it, and delete what is too old; inside the
    caller's transaction.

    `missing` are the proxies without which it is closed; `first` is the first epoch of the channel
    that was ever counted.
    """
    state.close_epoch(channel.tag, epoch, {*missing, *state.lost(channel.tag, epoch)})
    queries = channel.queries()
    for versions in queries.values():
        schedule = versions[-1].schedule
        epochs = last_segment(schedule, epoch) if epoch < schedule.n_epochs else None
        if epochs is not None:
            form_granules(state.connection, versions, epochs)
    for versions, index in _ending_with(queries, epoch, first):
        before = state.results.last(versions[-1].id, index)
        window = _final(
            state, _assembled(state, channel, versions, index, still_open=False), before
        )
        revision = _next_revision(state, versions[-1], index, before, limits.early)
        _release(state, replace(window, revision=revision), now)
    oldest = now - max(limits.retention, channel.grace)
    n_forgotten = channel.schedule.epochs_over(oldest)
    if n_forgotten > 0:
        retention.forget(state.connection, channel.tag, n_forgotten, queries, oldest)
    n_forgotten = channel.schedule.epochs_over(
        now - max(limits.retention, limits.pane_retention, channel.grace)
    )
    if n_forgotten > 0:
        retention.forget_panes(state.connection, queries, n_forgotten)


def revise(
    state: State,
    channels: Iterable[CountedChannel],
    firsts: Mapping[int, int],
    now: int,
    early: int,
) -> int:
    """Release early results of windows that are over but still open, and revise earlier ones;
    returns how many were released.

    Only queries with a `grace` of their own have these. The first result comes `early` seconds
    after the end of a window, and is revised at twice, four times, … that age, if there are
    granules by then that the one before does not have. Inside the caller's transaction.
    """
    n_released = 0
    for channel in channels:
        if not channel.grace:
            continue
        front = state.fronts()[channel.tag]
        for epoch in range(front, channel.epochs_over(now - early)):
            for versions, index in _ending_with(channel.queries(), epoch, firsts[channel.tag]):
                n_released += _revise_window(state, channel, versions, index, now, early)
    return n_released


def _revise_window(
    state: State,
    channel: CountedChannel,
    versions: Sequence[Query],
    index: int,
    now: int,
    early: int,
) -> bool:
    query = versions[-1]
    if query.grace is None:
        return False
    end = query.schedule.bounds_of_window(index)[1]
    before = state.results.last(query.id, index)
    if before is not None and (
        before.final or _doublings(before.made - end, early) >= _doublings(now - end, early)
    ):
        return False
    form_granules(state.connection, versions, query.schedule.epochs_of_window(index))
    window = _assembled(state, channel, versions, index, still_open=True)
    if window.estimate is None or (before is not None and window.n <= before.n):
        return False
    window = replace(
        window,
        final=False,
        open_until=end + channel.grace,
        expected=_expected(state, query, window, now),
    )
    _release(
        state, replace(window, revision=_next_revision(state, query, index, before, early)), now
    )
    return True


def _next_revision(
    state: State, query: Query, index: int, before: Revision | None, early: int
) -> int:
    """The revision number of the next result of a window, whose last one is `before`.

    After a restore, results of windows that were over by then may have been released after the
    backup, and are not in it. There can have been one per doubling of the window's age, and a final
    one; numbers they may have had are not reused.
    """
    number = 0 if before is None else before.number + 1
    restored, end = state.restored_at(), query.schedule.bounds_of_window(index)[1]
    if restored is None or restored < end or (before is not None and before.made > restored):
        return number
    return (
        number + 1 + (0 if query.grace is None else max(0, _doublings(restored - end, early) + 1))
    )


def _doublings(age: int, early: int) -> int:
    """How often an age has doubled since the first result was due; -1 before that."""
    return (age // early).bit_length() - 1


def _ending_with(
    queries: Mapping[str, list[Query]], epoch: int, first: int
) -> Iterator[tuple[list[Query], int]]:
    """The queries of a channel, each with its window that ends with an epoch."""
    for versions in queries.values():
        schedule = versions[-1].schedule
        if epoch >= schedule.n_epochs:
            continue
        for index in schedule.windows_of_epoch(epoch):
            epochs = schedule.epochs_of_window(index)
            # A window that began before anybody was asked has no result: it would be taken for a
            # whole one. Where each person answers once, it holds every answer so far.
            if epochs[-1] == epoch and (epochs[0] >= first or versions[-1].once):
                yield versions, index


def _assembled(
    state: State, channel: CountedChannel, versions: Sequence[Query], index: int, still_open: bool
) -> Window:
    """The result of a window: the sum of the granules that lie whole within it."""
    name = versions[-1].id
    epochs = versions[-1].schedule.epochs_of_window(index)
    missing = [state.proxies[proxy] for proxy in sorted(state.missing(channel.tag, epochs))]
    accounts = statement(state.proxies, state.accounts(channel.tag, epochs), still_open=still_open)
    panes = released_panes(released_granules(state.connection, name, epochs))
    n_counted, nothing = period_sizes(state.connection, name, epochs)
    held_back = n_counted - sum(pane.n for pane in panes.values())
    return assemble(versions, index, panes, missing, accounts, held_back=held_back, nothing=nothing)


def _final(state: State, window: Window, before: Revision | None) -> Window:
    """The last result of a window: never of fewer answers than the one before it.

    It would be if the granules of the one before are not known here, because that was made before
    an upgrade or a restore.
    """
    if before is None or before.n <= window.n:
        return window
    earlier = read_window(state.results.document(window.query, window.index, before.number))
    held_back = max(0, window.held_back + window.n - earlier.n)
    accounted = replace(
        earlier, conservation=window.conservation, missing=window.missing, nothing=window.nothing
    )
    return replace(accounted, final=True, open_until=None, expected=None, held_back=held_back)


def _release(state: State, window: Window, now: int) -> None:
    """Store a result of a window."""
    revision = Revision(window.revision, window.final, window.n, now)
    state.results.add(
        window.query, window.index, window.start, window.condition, window_text(window), revision
    )


def _expected(state: State, query: Query, window: Window, now: int) -> int | None:
    """How many more answers to expect, if as many arrive late as in the last window that became
    final.

    For that window, the newest result that was no older than this one is compared with the final
    one.
    """
    index, earlier = state.results.before(query.id, window.index)
    if not earlier:
        return None
    end, age = query.schedule.bounds_of_window(index)[1], now - window.end
    then = [each.n for each in earlier if each.made - end <= age] or [earlier[0].n]
    return round(window.n * (earlier[-1].n / then[-1] - 1)) if then[-1] else None
