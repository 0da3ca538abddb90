"""Reading the history: the counts of a period, from all of its reports or from a random sample of
them.

A report's slice was drawn at random, once and for all, so the first k of 100 slices are a random
sample of k percent. Every report is thus read with the same probability, whatever it says and
whenever it came, and a sample of reports, which are a sample of people, is a sample of people (Quoc
2017, 3.3.2).
"""

from __future__ import annotations

import math
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.panes import PaneKey, Panes
from deniable.aggregator.history.file_catalogue import CatalogueSnapshot
from deniable.aggregator.history.report_files import (
    SLICES,
    STEPS,
    FileEntry,
    ReportFolder,
    ReportRows,
    arrow,
    columns_of,
    damaged,
)
from deniable.counts import Counts, add_by_key
from deniable.errors import DeniableError, HistoryCancelledError, ParameterError
from deniable.queries.query import Query

__all__ = ["Scan"]

_BYTES_TO_COUNT = 32 << 20
"""Bytes of reports that a thread gathers before counting them: counting a few at a time would take
longer than reading them."""
_ROWS_TO_COUNT = 1 << 16
_GROUPS_AT_ONCE = 16
"""Row groups that a thread takes at a time."""
_MOST_WORKERS = 4
_Steps = dict[PaneKey, list[int]]
"""How many reports of each pane were read in each of the `STEPS`."""
Progress = Callable[[int, int], None]
"""Called with the number of reports read, and of how many."""


class _Counter:
    """Counts runs of reports into panes, many at a time."""

    def __init__(self, versions: Mapping[int, Query]) -> None:
        self._versions = versions
        self._held: dict[PaneKey, list[NDArray[np.uint8]]] = {}
        self._n_held: dict[PaneKey, int] = {}
        self._bytes = 0
        self.panes: Panes = {}
        self.steps: _Steps = {}

    def add(self, query: Query, rows: ReportRows, step: int | None = None) -> None:
        """Add rows of one version, in which those of an epoch and stratum are mostly contiguous;
        all of them of one `step`, or of those that their slices are in."""
        if not len(rows):
            return
        steps = (
            np.searchsorted(STEPS, rows.slices, "right")
            if step is None
            else np.broadcast_to(step, len(rows))
        )
        changes = rows.epochs[1:] != rows.epochs[:-1]
        if step is None:
            changes |= steps[1:] != steps[:-1]
        if rows.strata.strides[0]:  # otherwise it is constant
            changes |= rows.strata[1:] != rows.strata[:-1]
        change = np.flatnonzero(changes) + 1
        starts = np.concatenate([[0], change])
        places = zip(
            starts.tolist(),
            [*change.tolist(), len(rows)],
            rows.epochs[starts].tolist(),
            strict=True,
        )
        inside = zip(rows.strata[starts].tolist(), steps[starts].tolist(), strict=True)
        for (start, end, epoch), (stratum, of_step) in zip(places, inside, strict=True):
            key = PaneKey(query.id, query.serial, epoch, stratum)
            self.steps.setdefault(key, [0] * len(STEPS))[of_step] += end - start
            self._held.setdefault(key, []).append(rows.reports[start:end])
            n = self._n_held[key] = self._n_held.get(key, 0) + end - start
            self._bytes += (end - start) * rows.reports.shape[1]
            if n >= _ROWS_TO_COUNT:
                self._count(key)
        if self._bytes > _BYTES_TO_COUNT:
            self.finish()

    def _count(self, key: PaneKey) -> None:
        pieces, mechanism = self._held.pop(key), self._versions[key.serial].mechanism
        n = self._n_held.pop(key)
        dtype, shape = mechanism.layout
        data = np.concatenate(pieces).view(dtype).reshape(n, *shape)
        mechanism.check(data)
        self._bytes -= data.nbytes
        add_by_key(self.panes, {key: Counts(mechanism.count(data), n)})

    def finish(self) -> Panes:
        """The panes of all rows added."""
        for key in list(self._held):
            self._count(key)
        return self.panes


@dataclass(frozen=True)
class _Part:
    """Row groups of one file."""

    entry: FileEntry
    groups: tuple[tuple[int, int, int | None], ...]
    """Number, rows, and the step that all of its slices are in, if all of them are wanted."""


class _Queue:
    """Parts that threads take one after the other."""

    def __init__(self, parts: list[_Part]) -> None:
        self._parts, self._lock = iter(parts), threading.Lock()

    def __iter__(self) -> _Queue:
        return self

    def __next__(self) -> _Part:
        with self._lock:
            return next(self._parts)


class Scan:
    """A period's reports, read slice by slice: what is read is added up in `panes`."""

    def __init__(
        self,
        folder: ReportFolder,
        snapshot: CatalogueSnapshot,
        versions: Mapping[int, Query],
        epochs: range,
        *,
        progress: Progress | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """`versions` are the query's, by serial."""
        self._folder, self._snapshot, self._versions, self._epochs = (
            folder,
            snapshot,
            versions,
            epochs,
        )
        self._progress, self._cancelled = progress, cancelled
        self.panes: Panes = {}
        self.steps: _Steps = {}
        self.slices = 0
        """How many slices were read, starting with the first."""
        self._done = 0
        self._staged = [(self._version(each.key.serial), each.rows()) for each in snapshot.staged]

    def _version(self, serial: int) -> Query:
        query = self._versions.get(serial)
        if query is None:
            raise ParameterError(
                "versions",
                sorted(self._versions),
                f"must include version {serial}, which has reports",
            )
        return query

    @property
    def fraction(self) -> float:
        """The probability with which each report of the period was read."""
        return self.slices / SLICES

    @property
    def n(self) -> int:
        """How many reports were read."""
        return sum(pane.n for pane in self.panes.values())

    def read_to(self, fraction: float) -> None:
        """Continue reading up to this fraction of the period, in whole percent."""
        end = min(SLICES, math.ceil(fraction * SLICES - 1e-9))
        if end > self.slices:
            self._read(range(self.slices, end))
            self.slices = end

    def _read(self, slices: range) -> None:
        parts = list(self._parts(slices))
        total = sum(rows for part in parts for _, rows, _ in part.groups) + sum(
            len(rows) for _, rows in self._staged
        )
        self._done, self._total = 0, total
        counter = _Counter(self._versions)
        for query, rows in self._staged:
            counter.add(query, self._wanted(rows, slices, False).sorted())
        self._add(counter)
        workers = max(1, min(_MOST_WORKERS, os.cpu_count() or 1, len(parts)))
        waiting = _Queue(parts)
        with ThreadPoolExecutor(workers, thread_name_prefix="history") as pool:
            tasks = [pool.submit(self._count_parts, waiting, slices) for _ in range(workers)]
            for task in tasks:
                self._add(task.result())
        self._tell(0)

    def _add(self, counter: _Counter) -> None:
        add_by_key(self.panes, counter.finish())
        for key, sizes in counter.steps.items():
            known = self.steps.setdefault(key, [0] * len(STEPS))
            known[:] = [n + more for n, more in zip(known, sizes, strict=True)]

    def _tell(self, n: int) -> None:
        self._done += n
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)

    def _parts(self, slices: range) -> Iterator[_Part]:
        """The row groups that hold reports of these slices."""
        for entry in self._snapshot.files:
            chosen = []
            for number, (rows, low, high) in enumerate(entry.row_groups()):
                if low < slices.stop and high >= slices.start:
                    # Of a full scan nobody asks which step a report was in.
                    one_step = slices.stop == SLICES or bisect_right(STEPS, low) == bisect_right(
                        STEPS, high
                    )
                    step = (
                        bisect_right(STEPS, high)
                        if one_step and slices.start <= low and high < slices.stop
                        else None
                    )
                    chosen.append((number, rows, step))
            for start in range(0, len(chosen), _GROUPS_AT_ONCE):
                yield _Part(entry, tuple(chosen[start : start + _GROUPS_AT_ONCE]))

    def _count_parts(self, parts: _Queue, slices: range) -> _Counter:
        counter = _Counter(self._versions)
        for part in parts:
            query = self._version(part.entry.serial)
            inside = self._epochs.start <= part.entry.first and part.entry.last < self._epochs.stop
            for rows, step in self._tables(part):
                if self._cancelled():
                    raise HistoryCancelledError(
                        "the history was not read to the end: it was cancelled"
                    )
                try:
                    counter.add(
                        query,
                        self._wanted(rows, None if step is not None else slices, inside),
                        step,
                    )
                except (ValueError, TypeError) as error:
                    raise damaged(part.entry, error) from None
                self._tell(len(rows))
        return counter

    def _tables(self, part: _Part) -> Iterator[tuple[ReportRows, int | None]]:
        pa = arrow()
        strata = len(self._version(part.entry.serial).strata) > 1
        try:
            with self._folder.open(part.entry) as file:
                _check(part.entry, file)
                for number, _, step in part.groups:
                    # Reading a column takes about as long as counting it: a column whose value is
                    # known beforehand is left out.
                    columns = [
                        "epoch",
                        "report",
                        *(["slice"] if step is None else []),
                        *(["stratum"] if strata else []),
                    ]
                    yield columns_of(file.read_row_group(number, columns, use_threads=False)), step
        except (FileNotFoundError, DeniableError):
            raise
        except (
            pa.ArrowException,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            MemoryError,
        ) as error:
            raise damaged(part.entry, error) from None

    def _wanted(self, rows: ReportRows, slices: range | None, inside: bool) -> ReportRows:
        """The rows of these slices (None: of all) and of the period, unless it is known that they
        are all `inside` it."""
        if slices is not None:
            rows = rows.chosen((rows.slices >= slices.start) & (rows.slices < slices.stop))
        if not inside:
            rows = rows.chosen(
                (rows.epochs >= self._epochs.start) & (rows.epochs < self._epochs.stop)
            )
        return rows


def _check(entry: FileEntry, file: Any) -> None:
    """Refuse a file whose layout differs from the catalogue."""
    metadata, groups = file.metadata, entry.row_groups()
    if metadata.num_rows != entry.n or metadata.num_row_groups != len(groups):
        raise damaged(entry, f"{metadata.num_rows} rows, but {entry.n} were written")
