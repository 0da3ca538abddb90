"""The history over HTTP and on the command line: answers with progress, cancel, exports, deletion,
and one line for bad input."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from deniable.aggregator.history.scan import Scan
from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.tokens import RIGHTS, add_token
from deniable.aggregator.windows.assembling import assemble
from deniable.aggregator.windows.revisions import Revision
from deniable.analyst.analyst import Analyst
from deniable.cli import cli
from deniable.errors import HistoryCancelledError, ResponseError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, RING, minute_query
from toolkit.histories import EVERYTHING, FiledHistory
from toolkit.servers import loopback
from toolkit.servers.served import served

DAY = 86400
MIDNIGHT = ORIGIN // DAY * DAY
HOURS = Schedule(origin=MIDNIGHT, expires=MIDNIGHT + 90 * DAY, every=3600, window=3600, slide=3600)
MILES = ["[0,1)", "[1,2)", "[2,5)"]


@dataclass(frozen=True)
class RunningAggregator:
    """A history of five days and 24,000 reports, served."""

    filed: FiledHistory
    service: Service
    url: str
    token: str
    reader: str
    analyst: Analyst

    @property
    def query(self) -> Query:
        return self.filed.versions[0]

    def get(self, path: str, token: str | None = None, **parameters: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        return loopback.get(
            f"{self.url}/v1/queries/{self.query.id}/{path}",
            params=parameters,
            headers=headers,
            timeout=30,
        )

    def run(self, *arguments: str, query: str | None = None) -> Result:
        environment = {"DENIABLE_AGGREGATOR": self.url, "DENIABLE_TOKEN": self.token}
        return CliRunner().invoke(
            cli, ["history", query or self.query.id, *arguments], env=environment
        )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[RunningAggregator]:
    query = minute_query(
        schedule=HOURS,
        mechanism={"name": "TwoCoin", "p": 0.8, "q": 0.5},
        columns=[Column("miles", MILES, other=True)],
        # a granule is of at least so many reports, and half of an epoch is asked for below
        minimum_cohort=20,
        proxies=["http://one.example", "http://two.example"],
    )
    filed = FiledHistory(tmp_path, [query])
    rng = np.random.default_rng(2)
    filed.file(
        query,
        rng.integers(0, 4, 24_000),
        np.sort(rng.integers(0, 120, 24_000)),
        0,
        seeded_source(2),
    )
    filed.publish()
    filed.now = MIDNIGHT + 5 * DAY
    with filed.state.transaction():
        window = assemble([query], 0, filed.state.panes(query.id, range(1)))
        document, revision = json.dumps(window.to_dict()), Revision(0, True, window.n, filed.now)
        filed.state.results.add(query.id, 0, window.start, window.condition, document, revision)
        token, reader = (
            add_token(filed.state.connection, query.analyst, may, 0) for may in (RIGHTS, ["read"])
        )
    RING.save(tmp_path / "ring.json")
    # The engine is elsewhere: what is tested is the interface to what it has left.
    proxies = [ProxySource(name) for name in query.proxies]
    settings = AggregatorSettings(
        filed.path, tmp_path / "ring.json", proxies, engine="spark", history=filed.settings
    )
    service = Service(settings, clock=lambda: filed.now)
    with served(create_app(service)) as client:
        url = str(client.base_url).rstrip("/")
        with Analyst(url, token) as analyst:
            yield RunningAggregator(filed, service, url, token, reader, analyst)
    filed.close()


def test_an_answer_over_http_is_the_windows_counts_in_the_windows_words(
    running: RunningAggregator,
) -> None:
    (key,) = running.filed.state.panes(running.query.id, range(1))
    answer = running.get("history", **{"from": "2023-11-14", "to": "2023-11-14T01:00:00Z"}).json()
    window = running.analyst.latest(running.query)
    assert window is not None
    document = window.to_dict()
    for name in (
        "labels",
        "estimate",
        "stderr",
        "low",
        "high",
        "n",
        "epsilon_local",
        "mechanism",
        "covariance",
        "support",
    ):
        assert answer[name] == document[name], name
    assert (answer["epsilon_spent"], answer["fraction"], answer["n_reports"]) == (0, 1.0, window.n)
    assert "nobody's epsilon grew" in answer["statement"]
    assert key.epoch == 0
    assert running.get("history/extent", running.reader).json() == {
        "n_reports": 24_000,
        "start": MIDNIGHT,
        "start_time": "2023-11-14T00:00:00Z",
        "end": MIDNIGHT + 5 * DAY,
        "end_time": "2023-11-19T00:00:00Z",
    }


def test_the_analyst_gets_objects_and_progress(running: RunningAggregator) -> None:
    seen: list[float] = []
    answer = running.analyst.history(
        running.query, "2023-11-14", "2023-11-16", by="day", progress=seen.append
    )
    assert answer.estimate.n == answer.scanned == answer.n_reports
    assert list(answer.parts) == ["2023-11-14", "2023-11-15"]
    assert answer.to_frame()["n"].iloc[0] == answer.n_reports
    assert answer.to_polars().shape == answer.to_arrow().shape == (12, 7)
    assert all(0 <= share <= 1 for share in seen)
    compared = running.analyst.history(
        running.query, "2023-11-16", "2023-11-19", against=("2023-11-14", "2023-11-16")
    )
    assert compared.difference is not None
    assert "less 2023-11-14T00:00:00Z to 2023-11-16T00:00:00Z" in str(compared)
    views = running.analyst.sql(running.query, "2023-11-14", "2023-11-16", answer)
    ((n, ones),) = views.sql(
        "SELECT sum(n) / 4, sum(ones) FROM panes WHERE label IS NOT NULL"
    ).fetchall()
    assert n == answer.n_reports
    panes = running.filed.state.panes(running.query.id, range(48)).values()
    assert ones == sum(int(pane.counts.sum()) for pane in panes)
    assert views.sql("SELECT DISTINCT source FROM estimates ORDER BY 1").fetchall() == [
        ("history",),
        ("window",),
    ]
    with pytest.raises(Exception, match="disabled"):
        views.sql("SELECT * FROM read_csv('/etc/hostname')").fetchall()


def test_events_tell_the_progress_and_whoever_leaves_cancels_the_scan(
    running: RunningAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    read, count = Scan._tables, Scan._count_parts

    def slowly(scan: Scan, part: Any) -> Any:
        for each in read(scan, part):
            for _ in range(200):
                time.sleep(0.05)
                if scan._cancelled():
                    break
            yield each

    def watched(scan: Scan, *arguments: Any) -> Any:
        try:
            return count(scan, *arguments)
        except HistoryCancelledError:
            ended.append("cancelled")
            raise

    monkeypatch.setattr(Scan, "_tables", slowly)
    monkeypatch.setattr(Scan, "_count_parts", watched)
    headers = {"Authorization": f"Bearer {running.token}", "Accept": "text/event-stream"}
    address = f"{running.url}/v1/queries/{running.query.id}/history"
    with loopback.stream("GET", address, headers=headers, timeout=30) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert next(response.iter_lines()) == "event: progress"
    deadline = time.monotonic() + 20
    while not ended:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with httpx.Client() as client, pytest.raises(httpx.ReadTimeout):
        client.get(address, headers={"Authorization": f"Bearer {running.token}"}, timeout=0.3)
    while len(ended) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_questions_beyond_the_most_at_once_are_put_off(
    running: RunningAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, quick = Scan._tables, threading.Event()

    def slowly(scan: Scan, part: Any) -> Any:
        for each in read(scan, part):
            for _ in range(1000):
                if quick.wait(0.05) or scan._cancelled():
                    break
            yield each

    monkeypatch.setattr(Scan, "_tables", slowly)
    headers = {"Authorization": f"Bearer {running.token}", "Accept": "text/event-stream"}
    address = f"{running.url}/v1/queries/{running.query.id}/history"
    with (
        loopback.stream("GET", address, headers=headers) as one,
        loopback.stream("GET", address, headers=headers) as two,
    ):
        assert [one.status_code, two.status_code] == [200, 200]
        with ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(running.get, "history") for _ in range(3)]
            refused = next(as_completed(asked, 60)).result()
            assert (refused.status_code, refused.json()["reason"]) == (429, "scans")
            assert int(refused.headers["Retry-After"]) > 0
            quick.set()  # the two who wait have their turn
            assert sorted(each.result().status_code for each in asked) == [200, 200, 429]


@pytest.mark.parametrize(
    ("parameters", "status", "reason", "detail"),
    [
        (
            {"fraction": "0"},
            422,
            "parameters",
            "fraction = 0.0 must be a number above 0 and at most 1",
        ),
        ({"merge": "[0,1.5)"}, 422, "parameters", "splits the stored bucket '[1,2)'"),
        (
            {"from": "2030-01-01", "to": "2030-01-02"},
            404,
            "no_reports",
            "the history has no reports of",
        ),
        ({"by": "stratum"}, 422, "parameters", "needs strata"),
        ({"tea": "1"}, 422, "parameters", "tea = '1' is not a parameter here"),
    ],
)
def test_a_bad_question_is_a_problem_document_and_exit_2(
    running: RunningAggregator, parameters: dict[str, str], status: int, reason: str, detail: str
) -> None:
    answer = running.get("history", **parameters)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["reason"] == reason
    assert detail in answer.json()["detail"]
    if "tea" not in parameters:
        options = {"from": "start", "to": "end"}
        result = running.run(
            *[
                text
                for name, value in parameters.items()
                for text in (f"--{options.get(name, name)}", value)
            ]
        )
        assert result.exit_code == 2
        assert detail in result.output
        assert len(result.output.strip().splitlines()) == 1


def test_a_query_that_never_was_is_one_line(running: RunningAggregator) -> None:
    result = running.run(query="nobody")
    assert result.exit_code == 2
    assert "there is no query 'nobody' here" in result.output
    with pytest.raises(ResponseError, match="there is no query"):
        running.analyst.history("nobody")


def test_the_command_prints_a_table_json_and_csv_and_says_that_nobody_paid(
    running: RunningAggregator,
) -> None:
    printed = running.run("--fraction", "0.5", "--merge", "[0,2)")
    assert printed.exit_code == 0, printed.output
    assert "24,000 reports, of which 1" in printed.output
    assert "(50 %) were read" in printed.output
    assert "of people and of reports, and the coins" in printed.output
    assert "epsilon spent: 0." in printed.output
    assert "nobody's epsilon grew" in printed.output
    document = json.loads(running.run("--json", "--simultaneous").output)
    assert document["simultaneous"] is True
    lines = running.run("--csv", "--by", "weekday").output.splitlines()
    assert lines[0] == "part,label,estimate,stderr,low,high,n"
    assert len(lines) == 1 + 4 * 6  # all, and five weekdays
    difference = running.run(
        "--start",
        "2023-11-16",
        "--end",
        "2023-11-19",
        "--against-start",
        "2023-11-14",
        "--against-end",
        "2023-11-16",
        "--csv",
    )
    assert difference.output.startswith("part,label,difference,stderr,low,high,p\n")


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow", ".json"])
def test_rows_are_exported_in_the_format_of_the_ending(
    running: RunningAggregator, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"rows{ending}"
    sql = (
        "SELECT label, count(*) AS days, avg(estimate) AS mean FROM estimates WHERE part <> 'all'"
        " GROUP BY label ORDER BY label"
    )
    result = running.run("--by", "day", "--sql", sql, "--output", str(path))
    assert result.exit_code == 0, result.output
    assert result.output.strip() == f"Wrote 4 rows to {path}."
    if ending == ".csv":
        from pyarrow import csv  # noqa: PLC0415 - beside its only use

        table = csv.read_csv(path)
    elif ending == ".parquet":
        from pyarrow import parquet  # noqa: PLC0415

        table = parquet.read_table(path)
    elif ending == ".arrow":
        from pyarrow import feather  # noqa: PLC0415

        table = feather.read_table(path)
    else:
        table = pa.Table.from_pylist(json.loads(path.read_text()))
    assert table["days"].to_pylist() == [5] * 4
    assert table["label"].to_pylist() == [*MILES, "other"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (
            ["--output", "rows.txt"],
            "--output = 'rows.txt' must end in one of .csv, .parquet, .arrow, .json",
        ),
        (["--sql", "SELECT nothing"], "--sql = 'SELECT nothing' cannot be run: Binder Error"),
        (["--sql", "SELECT * FROM read_csv('/etc/hostname')"], "cannot be run"),
        (
            ["--against-start", "2023-11-14"],
            "--against-end is missing: a second period has a start and an end",
        ),
    ],
)
def test_a_bad_export_is_one_line(
    running: RunningAggregator, arguments: list[str], match: str
) -> None:
    result = running.run(*arguments)
    assert result.exit_code == 2
    assert match in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_prometheus_reads_estimates_with_low_and_high(running: RunningAggregator) -> None:
    window = running.analyst.latest(running.query)
    assert window is not None
    assert window.estimate is not None
    answer = loopback.get(
        f"{running.url}/v1/metrics", headers={"Authorization": f"Bearer {running.reader}"}
    )
    lines = dict(
        line.rsplit(" ", 1) for line in answer.text.splitlines() if not line.startswith("#")
    )
    low, high = window.estimate.interval()[0]
    for suffix, figure in (("", window.estimate.proportions[0]), ("_low", low), ("_high", high)):
        found = lines[f'deniable_estimate{suffix}{{label="[0,1)",query="{running.query.id}"}}']
        assert float(found) == pytest.approx(float(figure))
    assert loopback.get(f"{running.url}/v1/metrics").status_code == 401


def test_deletion_over_http_leaves_a_receipt_and_no_report(running: RunningAggregator) -> None:
    address = f"{running.url}/v1/queries/{running.query.id}/history"
    assert (
        loopback.delete(address, headers={"Authorization": f"Bearer {running.reader}"}).status_code
        == 403
    )
    asked = running.run("--delete")
    assert asked.exit_code != 0
    assert running.get("history/extent").json()["n_reports"] == 24_000
    receipt = json.loads(running.run("--delete", "--yes").output)
    assert receipt["reports"] == 24_000
    assert json.loads(running.run("--receipts").output) == [receipt]
    assert list(Path(running.filed.settings.folder).rglob("*.parquet")) == []
    assert running.run().exit_code == 2
    assert running.analyst.history(running.query, source="panes").n_reports == 24_000
    assert (
        sum(pane.n for pane in running.filed.state.panes(running.query.id, EVERYTHING).values())
        == 24_000
    )
