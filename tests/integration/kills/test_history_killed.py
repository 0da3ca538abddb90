"""SIGKILL at random, fifty times, with a history that is written, merged and read all the while:
each report is kept once.

Each report carries its own bucket, so any count other than 1 shows it.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np

from deniable.aggregator.history.file_catalogue import (
    CatalogueSnapshot,
    ensure_slice_key,
    files,
    staged,
)
from deniable.aggregator.history.maintenance import HistoryMaintainer
from deniable.aggregator.history.report_files import ReportFolder
from deniable.aggregator.history.scan import Scan
from deniable.aggregator.state import connect, stored_panes
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from toolkit.crowds import ORIGIN, Crowd, minute_query
from toolkit.histories import EVERYTHING, stored_counts, without_silence
from toolkit.servers.killed_engines import count_and_keep, kill, settings_in, started

KILLS = 50
PER_EPOCH = 40


def look(folder: Path, query: Query) -> int | None:
    """Read all that is stored and compare it with what is counted at the same moment; None if files
    were merged meanwhile."""
    connection = connect(folder / "state.db")
    try:
        connection.execute("BEGIN")
        counted = without_silence(stored_panes(connection, query.id, EVERYTHING))
        found = CatalogueSnapshot(
            tuple(files(connection, query.id)), tuple(staged(connection, query.id)), 0
        )
        connection.execute("COMMIT")
        scan = Scan(
            ReportFolder(settings_in(folder).folder), found, {query.serial: query}, EVERYTHING
        )
        try:
            scan.read_to(1.0)
        except FileNotFoundError:
            return None
        assert scan.panes == counted
        return scan.n
    finally:
        connection.close()


def written(folder: Path) -> set[str]:
    """The files that are there, finished or not, in the catalogue or not."""
    return {path.name for path in (folder / "history").rglob("*.parquet")}


def wait_for_a_file(folder: Path, before: set[str]) -> None:
    """Until a new file is begun: the moment that is most worth dying at."""
    deadline = time.monotonic() + 30
    while written(folder) <= before:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_history_killed_at_random_keeps_each_report_once_and_no_reader_sees_half_a_commit(
    tmp_path: Path,
) -> None:
    n = KILLS * PER_EPOCH
    query = minute_query(
        columns=[Column("number", [f"[{i},{i + 1})" for i in range(n)], other=True)],
        schedule=Schedule(origin=ORIGIN, expires=ORIGIN + 86400, every=60, window=60, slide=60),
    )
    crowd = Crowd(tmp_path, query)
    crowd.engine()  # makes the state, with the query in it
    assert crowd.state is not None
    ensure_slice_key(crowd.state.connection)
    crowd.close()
    rng = random.Random(17)  # noqa: S311 - when to kill is no secret
    n_looks = n_orphans = 0
    for epoch in range(KILLS):
        crowd.now = ORIGIN + 60 * (epoch + 1)
        before = written(tmp_path)
        process = started(count_and_keep, tmp_path, crowd.now, query.proxies)
        for proxy, rows in enumerate(
            crowd.split(list(range(epoch * PER_EPOCH, (epoch + 1) * PER_EPOCH)), epoch)
        ):
            for part in np.array_split(rows, 3, axis=1):
                crowd.append(proxy, part, epoch)
        crowd.mark(epoch + 1)
        if epoch % 2:
            n_looks += look(tmp_path, query) is not None
            time.sleep(rng.random() * 0.05)
        else:
            wait_for_a_file(tmp_path, before)
            time.sleep(rng.random() * 0.01)
        kill(process)
        connection = connect(tmp_path / "state.db")
        known = {entry.path for entry in files(connection)}
        n_orphans += len(set(ReportFolder(settings_in(tmp_path).folder).paths()) - known)
        connection.close()
    assert n_looks > KILLS // 4
    crowd.engine(history=settings_in(tmp_path)).drain()
    assert crowd.state is not None
    keeper = HistoryMaintainer(
        connect(tmp_path / "state.db"), settings_in(tmp_path), lambda: crowd.now
    )
    paths = {entry.path for entry in files(keeper.connection)}
    assert set(keeper.folder.paths()) == paths  # what was half written is gone
    assert n_orphans > 0  # some kills fell between a file and its commit
    counted = without_silence(crowd.state.panes(query.id, EVERYTHING))
    assert stored_counts(keeper.connection, keeper, [query]) == counted
    keeper.publish(everything=True)
    assert stored_counts(keeper.connection, keeper, [query]) == counted
    crowd.now += 2 * 86400
    keeper.compact()
    assert len(files(keeper.connection)) == 1
    assert stored_counts(keeper.connection, keeper, [query]) == counted
    assert crowd.counts().tolist() == [1] * n + [0]
    (total,) = keeper.connection.execute("SELECT sum(n) FROM history_epochs").fetchone()
    assert total == n
    keeper.connection.close()
    crowd.close_all()
