"""What an answer gives away to anyone who sees only the shuffled reports of a window: the amplified epsilon of its mechanism.

Proxies strip the sender from every share and shuffle, and devices send at times drawn beforehand, so anyone who sees the joined
reports alone (a reader of results, of the history, of the aggregator's files) cannot tell whose is whose. But they can tell
epochs, strata and versions apart. So an answer hides only among the others of its own pane, and the figure is that of the
smallest pane: it is valid for every answer of the window. It makes no claim against the proxies, nor against anyone who
watches devices send.

None is stated for memoized answers: the same coins are reused in other epochs, among other crowds, and what all of those
reveal together is not bounded by the sum of what each reveals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from deniable.aggregator.panes import Pane, PaneKey
from deniable.privacy.blanket import SHUFFLED_DELTA, blanket_epsilon
from deniable.privacy.shuffling import shuffled_epsilon
from deniable.queries.query import Query

__all__ = ["ShuffledLoss", "shuffled_loss"]

_LARGEST = 600.0
"""The loss of all rows above which shuffling promises nothing: its exponential would leave no delta."""
_STEPS = 32
"""Crowd sizes per doubling. Sizes are rounded down to one of them (fewer others never hide an answer better), so that the figure
can be reused for the next window; it is at most 1.1 % larger."""


class ShuffledLoss(NamedTuple):
    """An upper bound on the loss of an answer, except with probability `delta`, among this many reports."""

    epsilon: float
    delta: float
    among: int


def shuffled_loss(versions: Iterable[Query], panes: Mapping[PaneKey, Pane], delta: float = SHUFFLED_DELTA) -> ShuffledLoss | None:
    """The loss of the least hidden answer over some versions of a query; None if no such claim can be made."""
    worst: ShuffledLoss | None = None
    for query in versions:
        sizes = [pane.n for key, pane in panes.items() if key.serial == query.serial and pane.n]
        if query.memoize:
            return None
        if sizes:
            among = min(sizes)
            found = ShuffledLoss(_epsilon(query, _rounded_down(among), delta), delta, among)
            worst = found if worst is None or found.epsilon > worst.epsilon else worst
    return worst


@lru_cache(maxsize=4096)
def _epsilon(query: Query, among: int, delta: float) -> float:
    """The loss of all rows that a person may send in an epoch: with k rows, k times the loss of one at a smaller delta.

    If each of k steps from one person's rows to another's loses e except with probability d, all of them lose k e except with
    probability d (1 + exp(e) + … + exp((k - 1) e)), where e is at most the local loss of a row.
    """
    rows = query.most_rows
    part = delta / sum(math.exp(query.epsilon * i) for i in range(rows)) if query.epsilon * rows < _LARGEST else 0.0
    # No blanket is known for sets of buckets: they get the bound that applies to every mechanism of that loss.
    known = query.ones == 1
    one = blanket_epsilon(query.mechanism, among, part) if known else shuffled_epsilon(query.epsilon, among, part)
    return query.epsilon_local if one >= query.epsilon else min(rows * one, query.epsilon_local)


def _rounded_down(n: int) -> int:
    """The largest of 2**(i/32), rounded, that is at most n; small numbers are unchanged."""
    rounded = math.floor(2 ** (math.floor(_STEPS * math.log2(n) + 1e-9) / _STEPS) + 1e-9)
    return n if n <= 2 * _STEPS else min(rounded, n)
