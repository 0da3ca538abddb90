"""Panes: the counts of one epoch, stratum and version of a query. They are all that a window needs,
and they are additive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.counts import Counts
from deniable.errors import ReportFormatError
from deniable.mechanisms.mechanism import Mechanism
from deniable.queries.query import Query
from deniable.wire.message import NOTHING, Opened

__all__ = ["Counted", "PaneKey", "Panes", "Reports", "count_messages"]

_FEW_VERSIONS = 4


class PaneKey(NamedTuple):
    """What a pane counts."""

    query: str
    serial: int
    epoch: int
    stratum: int


Panes = dict[PaneKey, Counts]
"""Panes by what they count."""


class Counted(NamedTuple):
    """What became of joined messages: each is in a pane, or refused for a reason."""

    panes: Panes
    refused: dict[str, int]


Reports = list[tuple[PaneKey, NDArray[np.uint8]]]
"""Counted reports, one per row, each array with the pane it is counted in."""


def count_messages(
    opened: Opened, versions: Mapping[int, Query], epoch: int, keep: Reports | None = None
) -> Counted:
    """Count joined messages of one epoch into panes; `versions` are the channel's queries by tag.

    Counted reports are added to `keep`, if it is given.

    Messages are refused for the faults of `wire.message.Fault`, and as `query` for a tag that no
    version has, `stratum` for a stratum that the query does not have, and `report` for bytes that
    its mechanism never draws.
    """
    panes: Panes = {}
    refused: dict[str, int] = {}
    n_known = 0
    # A query that adapts has many versions, few of which are answered at a time.
    occurring = (
        set(np.unique(opened.query_tags).tolist()) if len(versions) > _FEW_VERSIONS else versions
    )
    for tag, query in versions.items():
        if tag not in occurring:
            continue
        rows, places = opened.reports(tag, query.report_bytes)
        n_silent = 0
        if places.size < len(opened):
            # Whatever is left of this version is faulty, or a message with nothing to report.
            silent = np.flatnonzero(
                (opened.query_tags == np.uint64(tag))
                & (opened.faults == 0)
                & (opened.kinds == NOTHING)
            )
            n_silent = silent.size
            for stratum, chosen in _by_stratum(query, opened.strata[silent], refused):
                pane = panes.setdefault(
                    PaneKey(query.id, query.serial, epoch, stratum),
                    Counts.empty(query.mechanism.cells),
                )
                pane.nothing += int(np.count_nonzero(chosen))
        n_known += places.size + n_silent
        dtype, shape = query.mechanism.layout
        data = rows.view(dtype).reshape(len(rows), *shape)
        sound = _sound(query.mechanism, data)
        _note(refused, "report", int(np.count_nonzero(~sound)))
        whole = bool(sound.all())
        for stratum, chosen in _by_stratum(
            query, opened.strata[places if whole else places[sound]], refused
        ):
            kept = data if whole else data[sound]
            kept = kept if chosen.all() else kept[chosen]
            if len(kept):
                key = PaneKey(query.id, query.serial, epoch, stratum)
                pane = panes.setdefault(key, Counts.empty(query.mechanism.cells))
                pane += Counts(query.mechanism.count(kept), len(kept))
                if keep is not None:
                    keep.append(
                        (key, np.ascontiguousarray(kept).reshape(len(kept), -1).view(np.uint8))
                    )
    n_at_fault = 0
    if opened.faults.any():
        for reason, n in opened.counts_by_fault().items():
            _note(refused, reason, n)
            n_at_fault += n
    _note(refused, "query", len(opened) - n_known - n_at_fault)
    return Counted(panes, refused)


def _note(refused: dict[str, int], reason: str, n: int) -> None:
    if n:
        refused[reason] = refused.get(reason, 0) + n


def _by_stratum(
    query: Query, strata: NDArray[np.uint16], refused: dict[str, int]
) -> Iterable[tuple[int, NDArray[Any]]]:
    """For each stratum of the query that occurs, which messages belong to it; the others are
    refused."""
    n_strata = max(len(query.strata), 1)
    if n_strata == 1 and strata.size and not strata.any():
        return [(0, np.ones(strata.size, dtype=bool))]
    found = np.bincount(strata, minlength=n_strata)
    _note(refused, "stratum", int(found[n_strata:].sum()))
    return [(stratum, strata == stratum) for stratum in np.flatnonzero(found[:n_strata]).tolist()]


def _sound(mechanism: Mechanism, data: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows the mechanism could have drawn. It refuses rows as a batch, so the bad ones are
    found by bisection."""
    sound = np.ones(len(data), dtype=bool)
    spans = [(0, len(data))] if len(data) else []
    while spans:
        start, end = spans.pop()
        try:
            mechanism.check(data[start:end])
        except ReportFormatError:
            if end - start == 1:
                sound[start] = False
            else:
                middle = (start + end) // 2
                spans += [(start, middle), (middle, end)]
    return sound
