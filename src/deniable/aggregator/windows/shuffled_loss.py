"""What an answer gives away to anyone who sees only the shuffled reports of a window: the amplified
epsilon of its mechanism.

Proxies strip the sender from every share and shuffle, and devices send at times drawn beforehand,
so anyone who sees the joined reports alone (a reader of results, of the history, of the
aggregator's files) cannot tell whose is whose. But they can tell epochs, strata and versions apart.
So an answer hides only among the others of its own pane, and the figure is that of the smallest
pane: it is valid for every answer of the window. Where results are revised as late answers come,
two revisions differ by a set of reports of its own, which is never smaller than the minimum cohort.
It makes no claim against the proxies, nor against anyone who watches devices send.

The figures themselves are computed by :mod:`deniable.privacy.release_accountant`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from deniable.aggregator.counting.panes import PaneKey
from deniable.counts import Counts
from deniable.privacy.release_accountant import STATED_DELTA, StatedLoss, smallest_release
from deniable.queries.query import Query

__all__ = ["sampled_loss", "shuffled_loss"]


def shuffled_loss(
    versions: Iterable[Query], panes: Mapping[PaneKey, Counts], delta: float = STATED_DELTA
) -> StatedLoss | None:
    """The loss of the least hidden answer over some versions of a query; None if no such claim can
    be made."""
    worst: StatedLoss | None = None
    for query, among in _hidden(versions, panes):
        found = query.releases.shuffled(among, delta)
        if found is None:
            return None
        worst = found if worst is None or found.epsilon > worst.epsilon else worst
    return worst


def sampled_loss(
    versions: Iterable[Query], panes: Mapping[PaneKey, Counts], delta: float = STATED_DELTA
) -> StatedLoss | None:
    """The loss against anyone who cannot tell who took part, over some versions of a query; None if
    one asks everybody.

    The crowd is at least as large as the smallest set of reports from it. Fresh answers: that of
    one answer. Permanent ones: of all their replays over the query's life, because the history
    holds them all.
    """
    worst: StatedLoss | None = None
    for query, among in _hidden(versions, panes):
        if query.most_sampling == 1:
            return None
        releases = query.releases
        found = (
            releases.sampled_life(among, delta) if query.memoize else releases.sampled(among, delta)
        )
        worst = found if worst is None or found.epsilon > worst.epsilon else worst
    return worst


def _hidden(
    versions: Iterable[Query], panes: Mapping[PaneKey, Counts]
) -> Iterable[tuple[Query, int]]:
    """The versions that have reports, each with the size of the smallest set of them that can be
    told apart."""
    for query in versions:
        sizes = [pane.n for key, pane in panes.items() if key.serial == query.serial]
        among = smallest_release(sizes, None if query.grace is None else query.minimum_cohort)
        if among is not None:
            yield query, among
