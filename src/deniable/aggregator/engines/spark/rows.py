"""The rows that buckets send to the driver: figures of one batch, none of them about a single
person."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deniable.aggregator.counting.conservation import OUTSIDE, Ledger
from deniable.aggregator.counting.panes import PaneKey, Panes
from deniable.aggregator.engines.spark.batch import BatchOutcome, Closed
from deniable.aggregator.state import signed, unsigned
from deniable.counts import add_by_key
from deniable.wire.counts import pack_counts, unpack_counts

__all__ = ["REPORTS", "SCHEMA", "BatchFigures", "figures", "to_rows"]

SCHEMA = (
    "kind string, bucket int, proxy int, channel long, epoch long, name string, n long, "
    "query string, serial long, stratum int, nothing long, content binary"
)
"""`kind` says which columns apply:

- account: `n` shares of `proxy`, `channel`, `epoch` have the outcome `name`
- refusal: `n` shares of `proxy` were refused for the reason `name`
- pane: `n` reports and `nothing` messages without one of `query`, `serial`, `epoch`, `stratum`;
  `content` is the counts
- closed: the bucket has closed `epoch` of `channel`; `name` lists the proxies that had not marked
  it
- mark: `proxy` has marked the epochs of `channel` before `epoch`
- reports: `n` reports of `query`, `serial`, `epoch`, `stratum`, one after the other in `content`
"""
REPORTS = "reports"
_COLUMNS = [part.split()[0] for part in SCHEMA.split(", ")]
_EMPTY: dict[str, Any] = {
    name: {"string": "", "binary": b""}.get(kind, 0)
    for name, kind in (part.split() for part in SCHEMA.split(", "))
}


def to_rows(bucket: int, outcome: BatchOutcome) -> dict[str, list[Any]]:
    """The columns of the rows that describe an outcome."""
    rows: list[dict[str, Any]] = []
    for (proxy, channel, epoch), account in outcome.ledger.accounts.items():
        place = {
            "kind": "account",
            "proxy": proxy,
            "channel": OUTSIDE if epoch == OUTSIDE else signed(channel),
            "epoch": epoch,
        }
        rows += [{**place, "name": name, "n": n} for name, n in vars(account).items() if n]
    rows += [
        {"kind": "refusal", "proxy": proxy, "name": name, "n": n}
        for (proxy, name), n in outcome.ledger.reasons.items()
    ]
    for key, pane in outcome.panes.items():
        rows.append(
            {
                "kind": "pane",
                **key._asdict(),
                "n": pane.n,
                "nothing": pane.nothing,
                "content": pack_counts(pane),
            }
        )
    for channel, epoch, missing in outcome.closed:
        rows.append(
            {
                "kind": "closed",
                "channel": signed(channel),
                "epoch": epoch,
                "name": " ".join(map(str, missing)),
            }
        )
    for (proxy, channel), epoch in outcome.marks.items():
        rows.append({"kind": "mark", "proxy": proxy, "channel": signed(channel), "epoch": epoch})
    for key, reports in outcome.reports:
        rows.append(
            {"kind": REPORTS, **key._asdict(), "n": len(reports), "content": reports.tobytes()}
        )
    empty = {**_EMPTY, "bucket": bucket}
    return {column: [row.get(column, empty[column]) for row in rows] for column in _COLUMNS}


@dataclass
class BatchFigures:
    """What all buckets reported for a batch, added up."""

    ledger: Ledger = field(default_factory=Ledger)
    panes: Panes = field(default_factory=dict)
    closed: list[tuple[int, Closed]] = field(default_factory=list)
    """Buckets, and what they closed."""
    marks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """For proxy, bucket and channel, the first epoch that is not marked."""


def figures(rows: Iterable[Any]) -> BatchFigures:
    """The rows, added up; those of kind `reports` are for the history."""
    out = BatchFigures()
    for row in rows:
        channel = OUTSIDE if row.epoch == OUTSIDE else unsigned(row.channel)
        if row.kind == "account":
            out.ledger.enter((row.proxy, channel, row.epoch), row.name, row.n)
        elif row.kind == "refusal":
            key = (row.proxy, row.name)
            out.ledger.reasons[key] = out.ledger.reasons.get(key, 0) + row.n
        elif row.kind == "pane":
            pane = unpack_counts(row.content, row.n, row.nothing)
            add_by_key(out.panes, {PaneKey(row.query, row.serial, row.epoch, row.stratum): pane})
        elif row.kind == "closed":
            out.closed.append(
                (row.bucket, Closed(channel, row.epoch, tuple(map(int, row.name.split()))))
            )
        elif row.kind == "mark":
            out.marks[row.proxy, row.bucket, channel] = row.epoch
    return out
