"""Granules: what is released is a sum of groups of reports, each at least as large as the minimum
cohort and never split.

The difference of two published figures is a figure too. If windows overlap, are revised, or are
asked again over other periods, a difference of a few reports *is* those reports. So nothing is
published but sums of whole granules:

    a granule is a set of reports to one version of a query from one stratum; it holds at least the version's `minimum_cohort`
    of them; it is fixed when it is first released, and every later figure has all of it or none of it.

Granules are disjoint, so every combination of published figures is a combination of granules, and
isolates at least a cohort.

How reports are grouped. Epochs with enough reports are granules of their own. Smaller ones are
joined with the following ones: first within a segment, a run of epochs that every window has either
all or none of, which costs no window anything; then across segments of the window that is being
released, and a window that would cut such a granule leaves it out. Late reports form granules of
their own. What is too little for a granule is held back until more comes, for ever if none does.

Grouping looks at numbers of reports only, never at what they say.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from deniable.aggregator.counting.panes import PaneKey, Panes
from deniable.counts import Counts, add_by_key
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.wire.counts import pack_counts, unpack_counts

__all__ = [
    "Granule",
    "Sizes",
    "form_granules",
    "group_epochs",
    "last_segment",
    "pane_sizes",
    "period_sizes",
    "released_granules",
    "released_panes",
    "seal",
]

_Sized = tuple[int, int]
"""An epoch, and how many of its reports are in no granule yet."""


class Granule(NamedTuple):
    """Reports to one version from one stratum, of the epochs from `first` to `last`; late ones of
    the same epochs included."""

    serial: int
    stratum: int
    first: int
    last: int
    panes: Mapping[PaneKey, Counts]
    """The reports by epoch. Only their sum may be published."""
    joined: bool = False
    """Whether a later granule of the same epochs was added. Some figures then have only the earlier
    one, so that no random part of the reports may be published: it would cut both."""

    @property
    def n(self) -> int:
        """The number of reports."""
        return sum(pane.n for pane in self.panes.values())


class Sizes(NamedTuple):
    """How many reports there are, and how many messages said that there was nothing to report."""

    n: int
    nothing: int


# --- grouping


def _segment(schedule: Schedule, epoch: int) -> int:
    """The number of the segment that an epoch is in: windows begin and end only between
    segments."""
    slide, window = schedule.slide // schedule.every, schedule.window // schedule.every
    return epoch // slide + max(0, (epoch - window) // slide + 1)


def last_segment(schedule: Schedule, epoch: int) -> range | None:
    """The epochs that can be grouped when this one is closed: those of the window, or else of the
    segment, that it completes.

    None in the middle of a segment: its later epochs may be too small without the earlier ones.
    """
    if epoch + 1 < schedule.n_epochs and _segment(schedule, epoch) == _segment(schedule, epoch + 1):
        return None
    window = schedule.window // schedule.every
    start = epoch + 1 - window
    if start >= 0 and start % (schedule.slide // schedule.every) == 0:
        return range(start, epoch + 1)
    start = epoch
    while start and _segment(schedule, start - 1) == _segment(schedule, epoch):
        start -= 1
    return range(start, epoch + 1)


def group_epochs(sizes: Iterable[_Sized], cohort: int, schedule: Schedule) -> list[list[int]]:
    """Group epochs, given in order with their numbers of reports, into granules; epochs in no group
    are held back.

    >>> hourly = Schedule(origin=0, expires=36000, every=600, window=3600, slide=600)
    >>> group_epochs([(0, 90), (1, 20), (2, 20), (3, 20), (4, 10)], 50, hourly)
    [[0], [1, 2, 3]]
    >>> group_epochs([(0, 90), (1, 20), (2, 20), (3, 20), (4, 10)], 50, Schedule(0, 36000, 600, 3600, 3600))
    [[0], [1, 2, 3, 4]]
    """
    groups: list[list[int]] = []
    carried: list[_Sized] = []
    for _, members in groupby(sizes, lambda sized: _segment(schedule, sized[0])):
        found, rest = _cohorts(members, cohort)
        if found:
            # the same windows have it, so this costs nothing
            found[-1] += [epoch for epoch, _ in rest]
            groups += found
            continue
        joined, carried = _cohorts([*carried, *rest], cohort)
        groups += joined
    return groups


def _cohorts(sizes: Iterable[_Sized], cohort: int) -> tuple[list[list[int]], list[_Sized]]:
    """Consecutive epochs that together have the cohort, each group as short as possible, and what
    is left at the end."""
    groups: list[list[int]] = []
    run: list[_Sized] = []
    total = 0
    for sized in sizes:
        run.append(sized)
        total += sized[1]
        if total >= cohort:
            groups.append([epoch for epoch, _ in run])
            run, total = [], 0
    return groups, run


# --- in the state (inside a transaction)


def form_granules(connection: sqlite3.Connection, versions: Sequence[Query], epochs: range) -> None:
    """Group the reports of these epochs that are in no granule yet, as far as they are enough."""
    query = versions[-1]
    sealed = connection.execute("SELECT before FROM sealed WHERE query = ?", (query.id,)).fetchone()
    epochs = epochs if sealed is None else range(max(epochs.start, sealed[0]), epochs.stop)
    rows = connection.execute(
        "SELECT p.serial, p.stratum, p.epoch, p.n, p.counts, coalesce((SELECT sum(g.n) FROM"
        " granules AS g WHERE g.query = p.query AND g.epoch = p.epoch AND g.serial = p.serial AND"
        " g.stratum = p.stratum), 0) AS released FROM panes AS p WHERE p.query = ? AND p.epoch >= ?"
        " AND p.epoch < ? AND p.n > released",
        (query.id, epochs.start, epochs.stop),
    ).fetchall()
    formed: list[tuple[object, ...]] = []
    for version in versions:
        mine = sorted(_Unreleased(*rest) for serial, *rest in rows if serial == version.serial)
        for stratum, members in groupby(mine, lambda each: each.stratum):
            by_epoch = {each.epoch: each for each in members}
            sizes = [(epoch, each.n - each.released) for epoch, each in by_epoch.items()]
            for group in group_epochs(sizes, version.minimum_cohort, query.schedule):
                keys = [PaneKey(query.id, version.serial, epoch, stratum) for epoch in group]
                formed += _granule_rows(connection, [(key, by_epoch[key.epoch]) for key in keys])
    connection.executemany(
        "INSERT OR REPLACE INTO granules (query, epoch, serial, stratum, first, last, n, counts,"
        " joined) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        formed,
    )


class _Unreleased(NamedTuple):
    """A stored pane, some of whose reports are in no granule yet."""

    stratum: int
    epoch: int
    n: int
    counts: bytes
    released: int
    """How many of its reports are in granules."""


def _granule_rows(
    connection: sqlite3.Connection, group: Sequence[tuple[PaneKey, _Unreleased]]
) -> Iterator[tuple[object, ...]]:
    """A granule as stored; if there is one of the same epochs, it is added to that, and is from now
    on released with it."""
    bounds = group[0][0].epoch, group[-1][0].epoch
    for key, pane in group:
        n, content, joined = pane.n, pane.counts, False
        if pane.released:  # what other granules have of it stays there
            others, joined = _granules_of(connection, key, bounds)
            left = unpack_counts(content, n)
            for other in others:
                left = left - other
            n, content = left.n, pack_counts(left)
        yield (key.query, key.epoch, key.serial, key.stratum, *bounds, n, content, joined)


def _granules_of(
    connection: sqlite3.Connection, key: PaneKey, bounds: tuple[int, int]
) -> tuple[list[Counts], bool]:
    """What the granules with other bounds have of a pane, and whether there is one with these."""
    rows = connection.execute(
        "SELECT first, last, n, counts FROM granules WHERE query = ? AND epoch = ? AND serial = ?"
        " AND stratum = ?",
        (key.query, key.epoch, key.serial, key.stratum),
    )
    others, same = [], False
    for first, last, n, counts in rows:
        if (first, last) == bounds:
            same = True
        else:
            others.append(unpack_counts(counts, n))
    return others, same


def seal(connection: sqlite3.Connection, query: str, before: int) -> None:
    """Form no more granules of earlier epochs: some of their reports may have been released in a
    way that is not known here."""
    connection.execute(
        "INSERT INTO sealed (query, before) VALUES (?, ?) ON CONFLICT DO UPDATE SET before ="
        " max(before, excluded.before)",
        (query, before),
    )


# --- reading


def released_granules(connection: sqlite3.Connection, query: str, epochs: range) -> list[Granule]:
    """The granules of a query that lie whole within these epochs, in order of time."""
    rows = connection.execute(
        "SELECT serial, stratum, first, last, epoch, n, counts, joined FROM granules "
        "WHERE query = ? AND epoch >= ?2 AND epoch < ?3 AND first >= ?2 AND last < ?3",
        (query, epochs.start, epochs.stop),
    )
    found: dict[tuple[int, int, int, int], Panes] = {}
    grown = set()
    for serial, stratum, first, last, epoch, n, counts, joined in rows:
        place = (first, last, serial, stratum)
        found.setdefault(place, {})[PaneKey(query, serial, epoch, stratum)] = unpack_counts(
            counts, n
        )
        if joined:
            grown.add(place)
    return [
        Granule(serial, stratum, first, last, panes, (first, last, serial, stratum) in grown)
        for (first, last, serial, stratum), panes in sorted(found.items(), key=lambda item: item[0])
    ]


def released_panes(granules: Iterable[Granule]) -> Panes:
    """The reports of some granules, added up by epoch. Estimates add them up further, and publish
    no part of a granule."""
    total: Panes = {}
    for granule in granules:
        add_by_key(total, granule.panes)
    return total


def period_sizes(connection: sqlite3.Connection, query: str, epochs: range) -> Sizes:
    """How many reports and messages a query has in these epochs, released or not."""
    found = connection.execute(
        "SELECT coalesce(sum(n), 0), coalesce(sum(silent), 0) FROM panes WHERE query = ? AND epoch"
        " >= ? AND epoch < ?",
        (query, epochs.start, epochs.stop),
    ).fetchone()
    return Sizes(*found)


def pane_sizes(connection: sqlite3.Connection, query: str, epochs: range) -> dict[PaneKey, int]:
    """How many reports each pane of a query has, released or not."""
    rows = connection.execute(
        "SELECT serial, epoch, stratum, n FROM panes WHERE query = ? AND epoch >= ? AND epoch < ?",
        (query, epochs.start, epochs.stop),
    )
    return {PaneKey(query, serial, epoch, stratum): n for serial, epoch, stratum, n in rows}
