"""The history's storage: each counted report once, nothing about its arrival, and files that are
merged, kept and removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.history.file_catalogue import CatalogueSnapshot, files, snapshot
from deniable.aggregator.history.maintenance import HistoryMaintainer
from deniable.aggregator.history.report_files import SLICES, ReportFolder, ReportRows
from deniable.aggregator.history.scan import Scan
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import connect
from deniable.errors import NoReportsError, ParameterError, ReportFormatError
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from deniable.wire.message import NOTHING
from toolkit.crowds import ORIGIN, Crowd, minute_query
from toolkit.histories import EVERYTHING, FiledHistory, filed_rows, stored_counts, without_silence

DAY = 86400
MIDNIGHT = ORIGIN // DAY * DAY
HOURS = Schedule(origin=MIDNIGHT, expires=MIDNIGHT + 90 * DAY, every=3600, window=3600, slide=3600)
NOISY = {"name": "TwoCoin", "p": 0.5, "q": 0.5}


@pytest.fixture
def filed(tmp_path: Path) -> Iterator[FiledHistory]:
    """Three days of hourly epochs in two strata, 7,200 reports, all staged. Seed 3."""
    query = minute_query(schedule=HOURS, mechanism=NOISY, strata=[Stratum("town"), Stratum("land")])
    found = FiledHistory(tmp_path, [query])
    rng, source = np.random.default_rng(3), seeded_source(3)
    found.file(
        query,
        rng.integers(0, 12, 7200),
        np.repeat(np.arange(72), 100),
        rng.integers(0, 2, 7200),
        source,
    )
    found.now = MIDNIGHT + 3 * DAY
    yield found
    found.close()


def test_an_engine_keeps_every_counted_report_once_and_no_other(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path, minute_query(mechanism=NOISY))
    settings = HistorySettings(str(tmp_path / "history"))
    engine = crowd.engine(history=settings)
    rng = np.random.default_rng(1)
    for epoch in range(4):
        crowd.answer(rng.integers(0, 12, 200).tolist(), epoch)
        crowd.answer([3] * 9, epoch, proxies=[0])  # never complete
        crowd.answer([4] * 5, epoch, kinds=NOTHING)  # nothing to report
        crowd.mark(epoch + 1)
        crowd.now += 60
        engine.drain()
    assert crowd.state is not None
    keeper = HistoryMaintainer(connect(tmp_path / "state.db"), settings, lambda: crowd.now)
    counted = without_silence(crowd.state.panes(crowd.query.id, EVERYTHING))
    assert sum(pane.n for pane in counted.values()) == 800
    assert stored_counts(keeper.connection, keeper, [crowd.query]) == counted  # all of them staged
    assert keeper.publish(everything=True)
    assert crowd.state.connection.execute("SELECT count(*) FROM history_staged").fetchone() == (0,)
    # all of them in files
    assert stored_counts(keeper.connection, keeper, [crowd.query]) == counted
    keeper.connection.close()
    crowd.close_all()


def test_reports_of_a_query_that_is_never_kept_are_counted_and_not_kept(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    engine = crowd.engine(
        history=HistorySettings(str(tmp_path / "history"), never=[crowd.query.id])
    )
    crowd.answer([1] * 20)
    engine.drain()
    assert crowd.state is not None
    assert crowd.counts()[1] == 20
    assert crowd.state.connection.execute("SELECT count(*) FROM history_staged").fetchone() == (0,)
    crowd.close_all()


def test_files_lie_by_query_and_day_and_their_rows_are_in_the_one_order_they_can_have(
    filed: FiledHistory,
) -> None:
    filed.publish()
    folder = Path(filed.settings.folder)
    days = sorted(path.parent.relative_to(folder).as_posix() for path in folder.rglob("*.parquet"))
    assert days == [f"query={filed.versions[0].id}/day=2023-11-{14 + i}" for i in range(3)]
    for table in filed_rows(folder):
        # no id, no time of arrival
        assert table.column_names == ["slice", "serial", "epoch", "stratum", "report"]
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert rows == sorted(rows)


def test_reports_of_open_epochs_stay_in_the_state_until_the_epoch_is_closed(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    settings = HistorySettings(str(tmp_path / "history"), publish_every=1)
    engine = crowd.engine(history=settings)
    keeper = HistoryMaintainer(connect(tmp_path / "state.db"), settings, lambda: crowd.now)
    crowd.answer([1] * 20)
    engine.drain()
    crowd.now += 90
    assert not keeper.publish()
    crowd.mark(1)
    engine.drain()
    assert not keeper.publish()  # the first look begins to count the time
    crowd.now += 2
    assert keeper.publish()
    assert [entry.n for entry in files(keeper.connection)] == [20]
    keeper.connection.close()
    crowd.close_all()


def test_small_files_of_a_day_are_merged_and_hold_the_same_reports(filed: FiledHistory) -> None:
    query, source = filed.versions[0], seeded_source(9)
    filed.publish()
    for _ in range(3):
        filed.file(query, np.arange(12), 1, 0, source)
        filed.publish()
    counted = filed.counted()
    before = [entry.path for entry in files(filed.keeper.connection)]
    assert len(before) == 6
    filed.now = MIDNIGHT + 4 * DAY
    assert filed.keeper.compact()
    assert not filed.keeper.compact()
    assert [entry.n for entry in files(filed.keeper.connection)] == [2436, 2400, 2400]
    assert filed.stored() == counted
    folder = Path(filed.settings.folder)
    # those who began to read the merged ones may go on
    assert len(list(folder.rglob("*.parquet"))) == 7
    filed.now += 61
    filed.keeper.sweep()
    assert len(list(folder.rglob("*.parquet"))) == 3
    for table in filed_rows(folder):
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert rows == sorted(rows)


def test_a_file_that_is_in_no_catalogue_is_removed_at_the_start_and_never_read(
    filed: FiledHistory,
) -> None:
    filed.publish()
    folder = Path(filed.settings.folder)
    known, *_ = sorted(folder.rglob("*.parquet"))
    for name in ("reports-dead", "merged-dead", "batch-dead"):
        (known.parent / f"{name}.parquet").write_bytes(known.read_bytes())
    assert filed.stored() == filed.counted()
    HistoryMaintainer(
        connect(filed.path), filed.settings, lambda: filed.now, own_batches=False
    ).connection.close()
    left = {path.name.partition("-")[2] for path in folder.rglob("*.parquet")}
    assert "dead.parquet" in left  # a batch of Spark's may be on its way
    HistoryMaintainer(connect(filed.path), filed.settings, lambda: filed.now).connection.close()
    assert {path.name for path in folder.rglob("*dead*")} == set()
    assert filed.stored() == filed.counted()


def test_a_reader_sees_the_moment_it_began_whatever_happens_meanwhile(filed: FiledHistory) -> None:
    filed.publish()
    query = filed.versions[0]
    filed.file(query, np.arange(12), 1, 0, seeded_source(4))
    counted = filed.counted()
    connection = connect(filed.path)
    began = snapshot(connection, query.id, EVERYTHING)
    filed.publish()
    filed.now = MIDNIGHT + 4 * DAY
    filed.keeper.step()
    filed.file(query, np.arange(12), 1, 0, seeded_source(5))
    scan = Scan(filed.keeper.folder, began, {1: query}, EVERYTHING)
    scan.read_to(1.0)
    assert scan.panes == counted
    assert began.n_reports == 7212
    connection.close()


def test_a_reader_whose_files_are_gone_takes_a_newer_look(
    filed: FiledHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    filed.publish()
    query = filed.versions[0]
    filed.file(query, np.arange(12), 1, 0, seeded_source(4))
    filed.publish()
    counted, read = sum(pane.n for pane in filed.counted().values()), Scan.read_to

    def overtaken(scan: Scan, fraction: float) -> None:
        monkeypatch.setattr(Scan, "read_to", read)
        filed.now = MIDNIGHT + 4 * DAY
        assert filed.keeper.compact()
        filed.now += 100
        filed.keeper.sweep()
        read(scan, fraction)

    monkeypatch.setattr(Scan, "read_to", overtaken)
    assert filed.ask()["scanned"] == counted


def test_days_that_are_too_old_go_and_later_ones_stay(filed: FiledHistory, tmp_path: Path) -> None:
    filed.publish()
    settings = HistorySettings(
        filed.settings.folder, keep=10 * DAY, keep_by_query={filed.versions[0].id: 2 * DAY}
    )
    keeper = HistoryMaintainer(connect(filed.path), settings, lambda: filed.now)
    filed.now = MIDNIGHT + 3 * DAY - 1
    assert keeper.retain() == 0
    filed.now = MIDNIGHT + 3 * DAY
    assert keeper.retain() == 2400  # the first day ended two days ago
    assert [entry.day for entry in files(keeper.connection)] == [
        MIDNIGHT // DAY + 1,
        MIDNIGHT // DAY + 2,
    ]
    assert filed.ask()["n_reports"] == filed.ask()["scanned"] == 4800
    assert len(list(Path(settings.folder).rglob("*.parquet"))) == 2
    with pytest.raises(NoReportsError, match=r"no reports of .* in this period"):
        filed.ask(**{"from": str(MIDNIGHT), "to": str(MIDNIGHT + DAY)})
    assert filed.ask(source="panes")["n_reports"] == 7200  # counts are kept for longer
    keeper.connection.close()


def test_deletion_removes_every_report_and_leaves_a_receipt(filed: FiledHistory) -> None:
    filed.publish()
    filed.file(filed.versions[0], np.arange(12), 1, 0, seeded_source(4))  # staged
    receipt = filed.keeper.delete(filed.versions[0].id)
    assert receipt["reports"] == 7212
    assert len(receipt["files"]) == 3
    assert {len(file["sha256"] or "") for file in receipt["files"]} == {64}
    assert (receipt["first_day"], receipt["last_day"]) == ("2023-11-14", "2023-11-16")
    assert list(Path(filed.settings.folder).rglob("*")) == []
    with pytest.raises(
        NoReportsError, match=f"the history has no reports of {filed.versions[0].id}"
    ):
        filed.ask()
    assert filed.keeper.delete(filed.versions[0].id)["reports"] == 0
    assert filed.keeper.connection.execute("SELECT count(*) FROM history_receipts").fetchone() == (
        2,
    )


def test_what_is_deleted_while_it_is_moved_does_not_come_back(
    filed: FiledHistory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = ReportFolder.write

    def overtaken(*arguments: Any) -> Any:
        entry = write(*arguments)
        monkeypatch.setattr(ReportFolder, "write", write)
        other = HistoryMaintainer(
            connect(filed.path), filed.settings, lambda: filed.now, own_batches=False
        )
        assert other.delete(filed.versions[0].id)["reports"] == 7200
        other.connection.close()
        return entry

    monkeypatch.setattr(ReportFolder, "write", overtaken)
    filed.publish()
    assert files(filed.keeper.connection) == []
    assert list(Path(filed.settings.folder).rglob("*.parquet")) == []


def test_a_file_with_other_rows_than_were_written_is_refused_by_name(filed: FiledHistory) -> None:
    filed.publish()
    one, two, _ = sorted(Path(filed.settings.folder).rglob("*.parquet"))
    table = next(filed_rows(one.parent))
    import pyarrow.parquet as pq  # noqa: PLC0415 - beside its only use

    pq.write_table(table.slice(0, 100), one)
    with pytest.raises(
        ReportFormatError,
        match=r"day=2023-11-14/.* of the history cannot be read, or is damaged: 100 rows",
    ):
        filed.ask()
    one.unlink()
    with pytest.raises(ReportFormatError, match="files are missing"):
        filed.ask()
    assert two.exists()


def test_slices_are_even_and_a_sample_takes_every_report_with_the_same_probability(
    filed: FiledHistory,
) -> None:
    """Chi-square over 100 slices of 7,200 reports: a false alarm in 1e-9 (quantile 202 at 99
    degrees)."""
    filed.publish()
    found = np.concatenate(
        [table["slice"].to_numpy() for table in filed_rows(Path(filed.settings.folder))]
    )
    n = np.bincount(found, minlength=SLICES)
    assert ((n - 72.0) ** 2 / 72.0).sum() < 202
    query = filed.versions[0]
    taken = Scan(
        filed.keeper.folder,
        snapshot(filed.keeper.connection, query.id, EVERYTHING),
        {1: query},
        EVERYTHING,
    )
    taken.read_to(0.1)
    assert taken.n == n[:10].sum()
    assert taken.fraction == 0.1
    taken.read_to(0.25)  # goes on where it was
    assert taken.n == n[:25].sum()


def test_a_period_that_cuts_a_file_is_read_in_several_goes_as_in_one(tmp_path: Path) -> None:
    """A file so large that a row group has a few slices only: their column is then not read."""
    query, n, period = minute_query(), 150_000, range(5, 20)
    epochs = np.sort(np.arange(n) % 24)
    reports = np.ascontiguousarray(
        query.mechanism.draw(np.zeros(n, dtype=np.intp), seeded_source(1))
    ).reshape(n, -1)
    rows = ReportRows(
        (np.arange(n) % SLICES).astype(np.uint8),
        epochs,
        np.zeros(n, dtype=np.int32),
        reports.view(np.uint8),
    )
    folder = ReportFolder(tmp_path)
    entry = folder.write("reports", query.id, 0, 1, rows)
    assert len(entry.row_groups()) > 3
    at_once, by_and_by = (
        Scan(folder, CatalogueSnapshot((entry,), (), n), {1: query}, period) for _ in range(2)
    )
    at_once.read_to(1.0)
    for fraction in (0.01, 0.02, 0.5, 1.0):
        by_and_by.read_to(fraction)
    assert by_and_by.panes == at_once.panes
    assert by_and_by.n == n * len(period) // 24


def test_the_slice_of_a_report_is_the_same_whoever_reads_it_and_when(filed: FiledHistory) -> None:
    """A fresh draw for every answer would let answers from the same fraction differ by a few
    reports."""
    query = filed.versions[0]

    def tenth() -> Any:
        scan = Scan(
            filed.keeper.folder,
            snapshot(filed.keeper.connection, query.id, EVERYTHING),
            {1: query},
            EVERYTHING,
        )
        scan.read_to(0.1)
        return scan.panes, scan.steps

    staged, again = tenth(), tenth()
    filed.publish()
    assert staged == again == tenth()


def test_settings_of_the_history_are_checked(tmp_path: Path) -> None:
    for wrong, match in (
        ({"folder": ""}, "folder = '' must be a path or an address"),
        ({"folder": "x", "keep": 0}, "keep = 0"),
        ({"folder": "x", "keep_by_query": {"q": 0}}, "keep_by_query.q = 0"),
        ({"folder": "x", "never": "q"}, "never = 'q' must be a list"),
    ):
        with pytest.raises(ParameterError, match=match):
            HistorySettings(**wrong)
    assert HistorySettings("x").within(tmp_path).folder == str(tmp_path / "x")
    assert HistorySettings("s3a://bucket/x").within(tmp_path).folder == "s3a://bucket/x"
