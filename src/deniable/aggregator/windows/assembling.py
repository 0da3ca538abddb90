"""From released panes to the result of a window: its estimate, its condition, and what a reader
must know about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.estimates import (
    counted_versions,
    estimate_period,
    largest_influence,
)
from deniable.aggregator.windows.shuffled_loss import shuffled_loss
from deniable.aggregator.windows.window import (
    COMPLETE,
    INCOMPLETE,
    MALFORMED,
    PROXY_DOWN,
    WITHHELD,
    Condition,
    Window,
    widest,
)
from deniable.counts import Counts
from deniable.estimation.estimate import Estimate
from deniable.queries.lasting import own_limits, silence
from deniable.queries.query import Query

__all__ = ["assemble", "tells_accounts"]

_CLOSED_WITHOUT = "some epochs were closed without"
_SHARES_OF = "% of the shares of"
_HELD_BACK = "answers are held back"


def assemble(
    versions: Sequence[Query],
    index: int,
    panes: Mapping[PaneKey, Counts],
    missing: Iterable[str] = (),
    conservation: Mapping[str, Any] | None = None,
    *,
    held_back: int = 0,
    nothing: int | None = None,
) -> Window:
    """The result of a window of a query, from the released panes of its epochs; `versions` are the
    query's, oldest first.

    `held_back` is the number of answers that are not released; `nothing` counts the messages with
    nothing to report, if the panes do not.
    """
    start, end = versions[-1].schedule.bounds_of_window(index)
    newest, n, estimate = estimate_period(versions, panes, (start, end))
    quiet = silence(newest, own_limits(newest))
    missing = tuple(missing)
    window = Window(
        query=newest.id,
        serial=newest.serial,
        index=index,
        start=start,
        end=end,
        condition=PROXY_DOWN if missing else WITHHELD,
        n=n,
        nothing=sum(pane.nothing for pane in panes.values()) if nothing is None else nothing,
        estimate=None,
        missing=missing,
        conservation=conservation or {},
        margin=newest.budget.target,
        silent_from=None if quiet is None else quiet.at,
        columns={column.name: column.labels for column in newest.columns},
        complete=newest.buckets.complete,
        held_back=held_back,
    )
    return window if estimate is None else _with_estimate(window, estimate, versions, panes)


def _with_estimate(
    window: Window, estimate: Estimate, versions: Sequence[Query], panes: Mapping[PaneKey, Counts]
) -> Window:
    """The window with its estimate, and what may be wrong with it."""
    half_width = widest(estimate)  # notes do not change it
    spoiled, alone = (_lost(window.conservation, each) for each in ("malformed", "orphaned"))
    if window.missing:
        condition: Condition = PROXY_DOWN
    elif spoiled.proportion > half_width:
        condition = MALFORMED
    # A proxy that was away for longer than its grace marks epochs whose shares it refused: only the
    # others' shares show this.
    elif alone.proportion > half_width:
        condition = INCOMPLETE
    else:
        condition = COMPLETE
    loss = shuffled_loss(counted_versions(versions, panes)[2], panes)
    return dataclasses.replace(
        window,
        condition=condition,
        estimate=dataclasses.replace(
            estimate, notes=(*estimate.notes, *_notes(window, spoiled, alone, half_width))
        ),
        influence=largest_influence(versions, panes),
        epsilon_shuffled=None if loss is None else loss.epsilon,
        delta_shuffled=None if loss is None else loss.delta,
        shuffled_among=None if loss is None else loss.crowd,
    )


def _notes(window: Window, spoiled: _Lost, alone: _Lost, half_width: float) -> Iterator[str]:
    """What a reader must know: answers that may be missing, as far as they could move a proportion
    beyond its ±."""
    if window.missing:
        yield f"{_CLOSED_WITHOUT} {', '.join(window.missing)}: answers are missing"
    if window.margin is not None and half_width > window.margin:
        yield (
            f"the widest interval is ± {100 * half_width:.2f} points; the target was"
            f" ± {100 * window.margin:.2f}"
        )
    if spoiled.proportion > half_width:
        yield spoiled.note("were malformed")
    if not window.missing and alone.proportion > half_width:
        yield alone.note("have no counterpart at another proxy")
    if window.held_back and window.held_back / (window.held_back + window.n) > half_width:
        yield (
            f"{window.held_back:,} {_HELD_BACK}: they are too few to be released by"
            " themselves, and could move a proportion further than ± says"
        )


def tells_accounts(note: str) -> bool:
    """Whether a note of a window tells of proxies' accounts or of answers held back: those who have
    the right to read the query's results see it, and the public does not."""
    return any(words in note for words in (_CLOSED_WITHOUT, _SHARES_OF, _HELD_BACK))


class _Lost(NamedTuple):
    """The proxy that lost the largest proportion of its shares."""

    proxy: str = ""
    proportion: float = 0.0

    def note(self, what: str) -> str:
        """What it means for the estimate."""
        shares = f"{100 * self.proportion:.2g} {_SHARES_OF} {self.proxy} {what}"
        return (
            f"{shares}: the answers behind them are missing, and could move a proportion further"
            " than ± says"
        )


def _lost(conservation: Mapping[str, Any], outcome: str) -> _Lost:
    """How large a part of a window's answers may be missing because a share was malformed or had no
    counterpart.

    If a proportion m of the answers is missing, the proportion of all answers is within m of that
    of the others, whatever the missing ones said. That is a bias, which no interval of the others
    covers; so m is compared with its half-width.
    """
    found = _Lost()
    for name, account in conservation.get("proxies", {}).items():
        if lost := account.get(outcome, 0):
            found = max(found, _Lost(name, lost / (lost + account["counted"])), key=_second)
    return found


_second = itemgetter(1)
