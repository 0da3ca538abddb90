"""Backups: a restored service goes on where the backup was made, counts nothing twice, and names
what is lost."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from deniable.aggregator.counting.catalogue import publish, published
from deniable.aggregator.state import State
from deniable.aggregator.windows.granules import released_granules
from deniable.cli import cli
from deniable.logs.share_logs import EmbeddedLog, HttpLog
from deniable.logs.sqlite_log import BlockLog
from deniable.proxy.board import Board
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.api import create_app
from deniable.queries.channels import channels_of
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import sign
from deniable.service.audit_log import read_events
from deniable.service.files import row_checks
from deniable.service.files.chained_lines import verify_file
from deniable.service.query_feed import QueryFeed
from deniable.service.tokens import TokenStore
from deniable.wire.blocks import Block, cut
from toolkit.crowds import KEY, ORIGIN, RING, Crowd, minute_query
from toolkit.servers.proxies import query_of_today
from toolkit.servers.served import served
from toolkit.shares import body_of

MANY = 1 << 20


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


def done(*arguments: str | Path) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.output))


@pytest.fixture
def crowd(tmp_path: Path) -> Iterator[Crowd]:
    folder = tmp_path / "work"
    folder.mkdir()
    crowd = Crowd(folder)
    RING.save(folder / "ring.json")
    (folder / "one.token").write_text("deniable_one\n")
    proxies = "".join(
        f'[[proxies]]\nname = "{name}"\nlog = "log{i}.db"\n'
        for i, name in enumerate(crowd.query.proxies)
    )
    proxies = proxies.replace('log = "log0.db"\n', 'log = "log0.db"\ntoken_file = "one.token"\n')
    # no address: nobody is asked which queries were published since
    proxies = proxies.replace("https://", "")
    crowd.query = minute_query(
        proxies=tuple(name.removeprefix("https://") for name in crowd.query.proxies)
    )
    (folder / "aggregator.toml").write_text(f'state = "state.db"\nring = "ring.json"\n{proxies}')
    yield crowd
    crowd.close_all()


# --- an aggregator


def test_a_restored_aggregator_counts_everything_once_and_releases_again_under_higher_revisions(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = crowd.folder / "aggregator.toml"
    engine = crowd.engine()
    for epoch in range(4):
        crowd.answer([1] * 10, epoch)
    # of these the other proxy's shares come after the backup
    waiting = crowd.answer([2] * 5, epoch=4, proxies=[0])
    crowd.mark(4)
    crowd.now += 4 * 60
    engine.drain()
    # the engine has its state open all the while
    manifest = done("aggregator", "backup", settings, tmp_path / "backup")
    assert manifest["proxies"][0]["position"] == list(engine.positions[0])
    assert {each["name"] for each in manifest["files"]} == {
        "state.db",
        "settings/settings.toml",
        "settings/ring",
        "settings/proxy-0.token",
    }
    before = [(window.index, window.revision) for window in crowd.windows()]
    assert before == [(0, 0), (1, 0)]

    crowd.append(1, waiting[1], epoch=4)
    crowd.answer([3] * 7, epoch=5)
    crowd.mark(6)
    crowd.now += 2 * 60
    engine.drain()
    after = {window.index: window for window in crowd.windows()}
    counts = crowd.counts().tolist()
    assert len(after) == 4
    crowd.close()

    monkeypatch.setattr("time.time", lambda: crowd.now)
    report = done("aggregator", "restore", tmp_path / "backup", settings, "--replace")
    assert report["lost"] == []
    assert report["kept"][:3] == [
        str(settings),
        str(crowd.folder / "ring.json"),
        str(crowd.folder / "one.token"),
    ]
    assert Path(report["moved_aside"]).exists()
    engine = crowd.engine(publish_query=False)
    assert [window.index for window in crowd.windows()] == [0, 1]
    engine.drain()
    again = {window.index: window for window in crowd.windows()}
    assert crowd.counts().tolist() == counts
    assert [(window.index, window.revision) for window in again.values()] == [
        (0, 0),
        (1, 0),
        (2, 1),
        (3, 1),
    ]
    for index, window in again.items():
        told, known = window.to_dict(), after[index].to_dict()
        assert told | {"revision": 0} == known
    events = [event["event"] for event in read_events(crowd.folder / "state.db.audit.jsonl")]
    assert events == ["service.backed_up", "service.restored"]
    numbers = [
        seq
        for (seq,) in crowd.state.connection.execute("SELECT seq FROM results ORDER BY seq")  # type: ignore[union-attr]
    ]
    assert numbers[:2] == [1, 2]
    assert numbers[2] > 1000  # whoever follows and had number 4 gets what is released again
    # a window that ends after the restore is released for the first time
    crowd.answer([4] * 3, epoch=6)
    crowd.mark(7)
    crowd.now += 60
    engine.drain()
    assert crowd.windows()[-1].revision == 0


def test_after_a_restore_no_result_differs_by_a_few_answers_from_one_that_the_backup_does_not_have(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    epoch       0      1      2          cohort 50
    answers   60+2   60+3     60
    backup          ^                    when window 0 was out, and window 1 was not
    failure                ^             window 1 is out as well
    """
    crowd.query = minute_query(
        proxies=crowd.query.proxies,
        schedule=Schedule(ORIGIN, ORIGIN + 3600, 60, 60, 60),
        grace=1800,
        minimum_cohort=50,
    )
    settings = crowd.folder / "aggregator.toml"
    settings.write_text(f'{settings.read_text()}\n[limits]\nearly = "1 min"\n')
    engine = crowd.engine(early=60, patience=3600)
    crowd.answer([1] * 60, 0)
    crowd.now += 125
    engine.drain()
    done("aggregator", "backup", settings, tmp_path / "backup")
    crowd.answer([1] * 60, 1)
    crowd.now += 60
    engine.drain()
    assert [(each.index, each.n) for each in crowd.windows()] == [(0, 60), (1, 60)]
    crowd.close()
    monkeypatch.setattr("time.time", lambda: crowd.now)
    report = done("aggregator", "restore", tmp_path / "backup", settings, "--replace")
    assert report["sealed"] == [{"query": crowd.query.id, "before": "2023-11-14T22:15:20Z"}]

    engine = crowd.engine(publish_query=False, early=60, patience=3600)
    for epoch, n in ((0, 2), (1, 3), (2, 60)):
        crowd.answer([2] * n, epoch)
    crowd.mark(3)
    crowd.now += 60
    engine.drain()
    last = {each.index: (each.n, each.held_back, each.final) for each in crowd.windows()}
    assert last == {0: (60, 2, True), 1: (0, 63, True), 2: (60, 0, True)}


def test_after_a_restore_no_window_that_may_be_out_gets_a_second_figure(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    epoch       0      1       2         cohort 50, no grace
    answers    60    60+3     60
    backup         ^                     when window 0 was out, and window 1 was not
    failure                ^             window 1 is out without 3 answers: a proxy was away
    """
    crowd.query = minute_query(
        proxies=crowd.query.proxies,
        schedule=Schedule(ORIGIN, ORIGIN + 3600, 60, 60, 60),
        minimum_cohort=50,
    )
    settings = crowd.folder / "aggregator.toml"
    engine = crowd.engine(patience=120)
    crowd.answer([1] * 60, 0)
    crowd.mark(1)
    crowd.now += 60
    engine.drain()
    done("aggregator", "backup", settings, tmp_path / "backup")
    crowd.answer([1] * 60, 1)
    waiting = crowd.answer([2] * 3, 1, proxies=[0])
    crowd.mark(2, [0])
    crowd.now += 181
    engine.drain()
    crowd.append(1, waiting[1], 1)
    crowd.mark(2, [1])
    published = [(each.index, each.n, each.condition) for each in crowd.windows()]
    assert published == [(0, 60, "complete"), (1, 60, "proxy down")]
    crowd.close()
    monkeypatch.setattr("time.time", lambda: crowd.now)
    report = done("aggregator", "restore", tmp_path / "backup", settings, "--replace")
    assert report["sealed"] == [{"query": crowd.query.id, "before": "2023-11-14T22:17:20Z"}]

    engine = crowd.engine(publish_query=False, patience=120)
    crowd.answer([3] * 60, 4)
    crowd.mark(5)
    crowd.now += 60
    engine.drain()
    last = {each.index: (each.n, each.held_back) for each in crowd.windows()}
    assert last == {0: (60, 0), 1: (0, 63), 2: (0, 0), 3: (0, 0), 4: (60, 0)}
    assert crowd.state is not None
    known = released_granules(crowd.state.connection, crowd.query.id, range(9))
    assert [(each.first, each.n) for each in known] == [(0, 60), (4, 60)]


def test_a_short_grace_does_not_shorten_what_is_held_back_after_a_restore(
    crowd: Crowd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results of a grace shorter than `early` (10 minutes) are final before the first early one is
    due."""
    crowd.query = minute_query(
        proxies=crowd.query.proxies,
        schedule=Schedule(ORIGIN, ORIGIN + 3600, 60, 60, 60),
        grace=60,
        minimum_cohort=50,
    )
    settings = crowd.folder / "aggregator.toml"
    engine = crowd.engine()
    done("aggregator", "backup", settings, tmp_path / "backup")
    crowd.answer([1] * 60, 0)
    crowd.mark(1)
    crowd.now += 121
    engine.drain()
    assert [(each.n, each.final) for each in crowd.windows()] == [(60, True)]
    crowd.close()
    monkeypatch.setattr("time.time", lambda: crowd.now)
    report = done("aggregator", "restore", tmp_path / "backup", settings, "--replace")
    assert report["sealed"] == [{"query": crowd.query.id, "before": "2023-11-14T22:14:20Z"}]


def test_what_a_log_no_longer_holds_is_named_and_its_windows_say_so(
    crowd: Crowd, tmp_path: Path
) -> None:
    settings = crowd.folder / "aggregator.toml"
    engine = crowd.engine()
    crowd.answer([1] * 10, 0)
    crowd.mark(1)
    crowd.now += 60
    engine.drain()
    manifest = done("aggregator", "backup", settings, tmp_path / "backup")
    [position] = manifest["proxies"][1]["position"]
    for epoch in range(1, 5):
        crowd.answer([1] * 10, epoch)
    crowd.mark(5)
    crowd.now += 4 * 60
    engine.drain()
    crowd.close()
    log = crowd.logs[1]
    dropped = log.end - 3
    assert log.drop_before(crowd.now + 1, most=dropped) == dropped
    crowd.answer([1] * 10, 5)

    result = run("aggregator", "restore", tmp_path / "backup", settings, "--replace")
    assert result.exit_code == 0, result.output
    name = crowd.query.proxies[1]
    told = (
        f"lost: {name}: offsets {position + 1} to {dropped} were deleted by retention; epochs 1 to"
        f" 4 of {crowd.query.id} are "
    )
    assert told in result.output
    engine = crowd.engine(publish_query=False)
    crowd.mark(6)
    crowd.now += 60
    engine.drain()
    assert engine.health[1].problem == ""
    windows = {window.index: window for window in crowd.windows()}
    assert {index: window.missing for index, window in windows.items()} == dict.fromkeys(
        windows, (name,)
    )
    assert crowd.counts(range(5, 6)).sum() == 10  # what came later is counted as ever


def test_a_backup_is_whole_or_refused_and_nothing_is_overwritten(
    crowd: Crowd, tmp_path: Path
) -> None:
    settings, backup = crowd.folder / "aggregator.toml", tmp_path / "backup"
    assert "there is nothing to back up yet" in run("aggregator", "backup", settings, backup).output
    engine = crowd.engine()
    crowd.answer([1] * 10)
    engine.drain()
    assert done("aggregator", "backup", settings, backup)["kind"] == "aggregator"
    assert backup.stat().st_mode & 0o777 == 0o700
    cases = [
        (
            ("aggregator", "backup", settings, backup),
            f"{backup} exists: name a folder that does not",
        ),
        (
            ("aggregator", "restore", backup, settings, "--replace"),
            "another aggregator is running on",
        ),
        (
            ("aggregator", "restore", tmp_path, settings),
            f"{tmp_path} is not a backup: it has no manifest.json",
        ),
        (
            ("proxy", "restore", backup, settings),
            f"{backup} is a backup of a service of kind 'aggregator', not 'proxy'",
        ),
    ]
    for arguments, message in cases:
        result = run(*arguments)
        assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1), result.output
        assert message in result.output
    crowd.close()
    assert (
        "exists: give --replace to move it aside"
        in run("aggregator", "restore", backup, settings).output
    )
    copied = backup / "state.db"
    content = bytearray(copied.read_bytes())
    content[len(content) // 2] ^= 1
    copied.write_bytes(content)
    result = run("aggregator", "restore", backup, settings, "--replace")
    assert f"{backup} is damaged: state.db is not what was backed up" in result.output
    assert (crowd.folder / "state.db").exists()
    copied.unlink()
    assert (
        "is incomplete: state.db is missing"
        in run("aggregator", "restore", backup, settings, "--replace").output
    )


def test_an_empty_machine_is_given_settings_ring_and_tokens_too(
    crowd: Crowd, tmp_path: Path
) -> None:
    settings, elsewhere = (
        crowd.folder / "aggregator.toml",
        tmp_path / "elsewhere" / "aggregator.toml",
    )
    crowd.engine().drain()
    done("aggregator", "backup", settings, tmp_path / "backup")
    crowd.close()
    elsewhere.parent.mkdir()
    report = done("aggregator", "restore", tmp_path / "backup", elsewhere)
    # there are no logs beside it: it says so
    assert [each["proxy"] for each in report["lost"]] == list(crowd.query.proxies)
    assert all("could not be checked" in each["problem"] for each in report["lost"])
    assert (elsewhere.parent / "one.token").read_text() == "deniable_one\n"
    assert (elsewhere.parent / "one.token").stat().st_mode & 0o777 == 0o600
    State(elsewhere.parent / "state.db", crowd.query.proxies).close()


def test_queries_that_were_published_or_stopped_after_the_backup_are_found_on_the_boards(
    tmp_path: Path,
) -> None:
    proxy = ProxyService(ProxySettings(tmp_path / "proxy"))
    with served(create_app(proxy)) as client:
        url = str(client.base_url).rstrip("/")
        stopped, fresh = (
            query_of_today(id=name, proxies=[url, "two"])
            for name in ("stopped-since", "published-since")
        )
        RING.save(tmp_path / "ring.json")
        logs = "".join(
            f'[[proxies]]\nname = "{name}"\nlog = "{i}.db"\n' for i, name in enumerate([url, "two"])
        )
        (tmp_path / "aggregator.toml").write_text(f'state = "state.db"\nring = "ring.json"\n{logs}')
        for i in range(2):
            BlockLog(tmp_path / f"{i}.db").close()
        state = State(tmp_path / "state.db", [url, "two"])
        with state.transaction():
            publish(state.connection, sign(stopped, KEY), RING, [url, "two"], int(time.time()))
        state.close()
        done("aggregator", "backup", tmp_path / "aggregator.toml", tmp_path / "backup")
        proxy.board.publish(fresh.id, sign(fresh, KEY).to_bytes())
        report = done(
            "aggregator", "restore", tmp_path / "backup", tmp_path / "aggregator.toml", "--replace"
        )
    assert report["published_again"] == ["published-since, version 1"]
    assert report["not_shown"] == ["stopped-since"]
    state = State(tmp_path / "state.db", [url, "two"])
    assert {entry.query.id for entry in published(state.connection)} == {
        "stopped-since",
        "published-since",
    }
    state.close()


def test_the_state_of_spark_is_not_backed_up_without_its_checkpoint(
    crowd: Crowd, tmp_path: Path
) -> None:
    settings = crowd.folder / "aggregator.toml"
    settings.write_text(
        f'engine = "spark"\n{settings.read_text()}[spark]\ncheckpoint = "checkpoint"\n'
    )
    result = run("aggregator", "backup", settings, tmp_path / "backup")
    assert (result.exit_code, len(result.output.strip().splitlines())) == (2, 1)
    assert "stop its driver, and copy state and checkpoint together" in result.output


# --- a proxy


class OneProxy:
    """The folder of a crowd's second proxy, whose intake takes what devices send."""

    def __init__(self, crowd: Crowd, folder: Path) -> None:
        self.crowd, self.folder = crowd, folder
        self.settings = folder.with_suffix(".toml")
        self.settings.write_text(f'folder = "{folder.name}"\n')
        self.start()
        TokenStore(folder / "tokens.db").close()
        board = Board(folder / "queries.db", lambda: crowd.now)
        board.publish(crowd.query.id, sign(crowd.query, KEY).to_bytes())
        board.close()

    def start(self) -> None:
        self.intake = Intake(
            self.folder, IntakeRules(threshold=50, grace=30), lambda: self.crowd.now
        )
        self.intake.set_channels(channels_of([(self.crowd.query.header, None)]))

    def take(self, rows: Any, epoch: int) -> UploadReceipt:
        (result,) = self.intake.take([Upload(b"ann", MANY, body_of(self.crowd.query, epoch, rows))])
        assert isinstance(result, UploadReceipt)
        return result

    @property
    def log(self) -> Path:
        return self.folder / "log.db"


def test_a_restored_proxy_neither_repeats_nor_hides_a_share_and_what_is_lost_is_named(
    crowd: Crowd, tmp_path: Path
) -> None:
    proxy = OneProxy(crowd, tmp_path / "proxy")
    engine = crowd.engine(patience=120)
    engine.logs[1] = EmbeddedLog(proxy.log)
    crowd.now += 5

    def send(bucket: int, n: int, epoch: int) -> Any:
        shares = crowd.split([bucket] * n, epoch)
        crowd.append(0, shares[0], epoch)
        assert proxy.take(shares[1], epoch) == (n, 0)
        return shares[1]

    first = send(1, 50, 0)
    proxy.intake.tick()  # the fifty are in the log
    spooled = send(2, 20, 0)  # and these in the spool
    backup = done("proxy", "backup", proxy.settings, tmp_path / "backup")
    assert {each["name"] for each in backup["files"]} >= {"log.db", "tokens.db", "queries.db"}
    assert [each for each in backup["files"] if each["name"].startswith("spool/")] != []
    read = send(3, 50, 0)
    proxy.intake.tick()
    engine.drain()
    assert crowd.counts().tolist()[1:4] == [50, 20, 50]
    lost = send(4, 15, 0)  # acknowledged, in the spool, never read
    proxy.intake.close()

    result = run("proxy", "restore", tmp_path / "backup", proxy.settings, "--replace")
    assert result.exit_code == 0, result.output
    assert f"lost: channel {crowd.query.channel_tag:016x}, epochs 0 to" in result.output
    proxy.start()
    assert proxy.intake.n_waiting == 20
    assert proxy.take(first, 0) == (0, 50)  # what the backup has is known again
    # what came after it is not: a retry is taken once more
    assert proxy.take(read[:, :10], 0) == (10, 0)
    send(5, 30, 0)
    proxy.intake.flush()
    engine.drain()
    assert engine.health[1].problem == ""
    counts = crowd.counts().tolist()
    assert counts[1:6] == [50, 20, 50, 0, 30]
    account = crowd.accounts()[1]
    # the spooled ones and the retry came twice, and were counted once
    assert account["duplicate"] == 20 + 10
    assert spooled.shape[1] + lost.shape[1] == 35
    crowd.now += 60 + 31
    proxy.intake.tick()  # marks the epoch
    crowd.mark(1, [0])
    engine.drain()
    assert crowd.state is not None
    # its windows will say that shares are missing
    assert crowd.state.missing(crowd.query.channel_tag, range(0, 1)) == {1}
    proxy.intake.close()


def test_a_log_that_was_restored_says_over_http_what_it_continues(
    crowd: Crowd, tmp_path: Path
) -> None:
    folder = tmp_path / "proxy"
    proxy = ProxyService(ProxySettings(folder), clock=lambda: crowd.now)
    (token,) = proxy.tokens.add("reader")
    log = proxy.intake.log
    assert isinstance(log, BlockLog)
    shares = crowd.split([1] * 4)[0]
    crowd.logs[0].append([], crowd.now)

    blocks, _ = cut(crowd.query.channel_tag, 0, crowd.query.size_class or 0, shares, 0)
    log.append(blocks, crowd.now)
    old = log.identity
    log.restored()
    with served(create_app(proxy)) as client:
        remote = HttpLog(str(client.base_url), token)
        found = remote.read((7,), 1 << 20)  # the reader had come further than the backup
        assert (found.problem, found.blocks, found.continues) == ("", [], ((old, 1),))
        assert found.identity not in (None, old)
        assert len(remote.read((0,), 1 << 20).blocks) == 1
        remote.close()


def test_shares_of_a_restored_spool_that_the_log_has_got_since_are_not_appended_again(
    crowd: Crowd, tmp_path: Path
) -> None:
    proxy = OneProxy(crowd, tmp_path / "proxy")
    crowd.now += 5
    rows = crowd.split([1] * 20)[1]
    proxy.take(rows, 0)
    (segment,) = (proxy.folder / "spool").iterdir()
    spooled = segment.read_bytes()
    proxy.intake.flush()
    proxy.intake.close()
    with closing(sqlite3.connect(proxy.log)) as connection, connection:
        row_checks.prepare(connection)
        # a log that is not restored with the spool knows nothing of its segments
        connection.execute("DELETE FROM moved")
    segment.write_bytes(spooled)
    proxy.start()
    proxy.intake.flush()
    assert isinstance(proxy.intake.log, BlockLog)

    logged = [Block.from_bytes(record.block).columns for record in proxy.intake.log.read(0)]
    assert np.concatenate(logged, axis=1).shape[1] == 20
    proxy.intake.close()


def test_the_public_feed_is_in_the_backup_and_a_newer_one_stays(
    crowd: Crowd, tmp_path: Path
) -> None:
    settings = crowd.folder / "aggregator.toml"
    crowd.engine()
    crowd.close()
    feed = QueryFeed(crowd.folder / "state.db.public.jsonl")
    feed.revoked("00" * 8)
    done("aggregator", "backup", settings, tmp_path / "backup")
    feed.revoked("11" * 8)
    newest = feed.head
    feed.close()
    done("aggregator", "restore", tmp_path / "backup", settings, "--replace")
    assert verify_file(crowd.folder / "state.db.public.jsonl", [newest]).verifies
    for name in ("state.db.public.jsonl", "state.db.public.jsonl.head"):
        (crowd.folder / name).unlink()
    done("aggregator", "restore", tmp_path / "backup", settings, "--replace")
    found = verify_file(crowd.folder / "state.db.public.jsonl")
    assert (found.verifies, found.head.lines) == (True, 1)
