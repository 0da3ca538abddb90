"""The parts around the intake: tokens, the board of queries, settings, the worker when the disk
fails, and the command."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.errors import LogError, ParameterError, RefusedError, SettingsError
from deniable.logs.sqlite_log import LogReader
from deniable.proxy.board import Board
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.proxy.intake.worker import IntakeWorker
from deniable.proxy.settings import ProxySettings, read_settings
from deniable.queries.channels import channels_of
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.service.http.limits import ConnectionLimits
from deniable.service.tokens import TokenStore
from toolkit.queries import make_query
from toolkit.shares import body_of, make_columns

QUERY = make_query()
NOW = QUERY.schedule.start_of_epoch(1000) + 5


# --- tokens


def test_only_hashes_of_tokens_are_stored(tmp_path: Path) -> None:
    book = TokenStore(tmp_path / "tokens.db")
    tokens = book.add("device", quota=3, count=20)
    assert len(set(tokens)) == 20
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for token in tokens:
        assert hashlib.sha256(token.encode()).digest() in kept
        assert token.encode() not in kept
        assert token.removeprefix("deniable_").encode() not in kept
    assert (tmp_path / "tokens.db").stat().st_mode & 0o777 == 0o600
    book.close()


def test_another_process_s_changes_are_seen_at_once(tmp_path: Path) -> None:
    mine, theirs = TokenStore(tmp_path / "tokens.db"), TokenStore(tmp_path / "tokens.db")
    (token,) = theirs.add("operator")
    found = mine.find(token)
    assert found is not None
    assert (found.role, found.quota) == ("operator", None)
    assert theirs.revoke("") == []  # nothing is named by no name
    assert theirs.revoke(found.id[:8]) == [found.id]
    assert mine.find(token) is None
    mine.close()
    theirs.close()


@pytest.mark.parametrize(
    "wrong", [{"role": "king"}, {"role": "device", "quota": 0}, {"role": "device", "count": 0}]
)
def test_tokens_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, object]) -> None:
    book = TokenStore(tmp_path / "tokens.db")
    with pytest.raises(ParameterError):
        book.add(**wrong)  # type: ignore[arg-type]
    assert book.tokens() == []
    book.close()


# --- the board


class Published:
    """A board, with a key for its analyst and a clock that can be set."""

    def __init__(self, path: Path, ring: bool = False) -> None:
        self.now, self.path = NOW, path
        self.key = AnalystKey.generate(QUERY.analyst)
        trusted = KeyRing().add(self.key.public)
        self.ring = (lambda: trusted) if ring else None
        self.board = self.opened()

    def opened(self) -> Board:
        return Board(self.path, lambda: self.now, self.ring)

    def put(self, query: Query) -> bool:
        return self.board.publish(query.id, sign(query, self.key).to_bytes())

    def reason(self, query: Query) -> str:
        with pytest.raises(RefusedError) as caught:
            self.put(query)
        return caught.value.reason


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return Published(tmp_path / "queries.db")


def test_what_is_on_the_board_is_there_after_a_restart_byte_for_byte(published: Published) -> None:
    assert published.put(QUERY)
    assert not published.put(QUERY)
    published.board.close()
    again = published.opened()
    (listed,) = json.loads(again.content)
    assert SignedQuery.from_bytes(json.dumps(listed).encode()) == sign(QUERY, published.key)
    assert again.etag == published.board.etag
    assert again.channels().keys() == {QUERY.channel_tag}


def test_a_newer_version_takes_the_place_of_the_older_and_the_older_does_not_come_back(
    published: Published,
) -> None:
    newer = QUERY.revised(sampling=0.5)
    published.put(QUERY)
    etag = published.board.etag
    published.put(newer)
    assert published.board.etag != etag
    assert len(json.loads(published.board.content)) == len(published.board) == 1
    assert published.reason(QUERY) == "rolled-back_query"
    assert published.reason(make_query(serial=2, sampling=0.7)) == "rolled-back_query"


def test_a_version_with_another_schedule_leaves_the_old_channel_open_for_its_last_epoch(
    published: Published,
) -> None:
    slower = QUERY.revised(
        schedule=Schedule(QUERY.schedule.origin, QUERY.schedule.expires, 1200, 3600, 1200)
    )
    published.put(QUERY)
    published.put(slower)
    channels = published.board.channels()
    # the one that is running, 1000, is its last
    assert channels[QUERY.channel_tag].n_epochs == 1001
    assert channels[slower.channel_tag].n_epochs == slower.schedule.n_epochs


def test_stopped_queries_are_forgotten_after_a_while(published: Published) -> None:
    published.put(QUERY)
    published.board.stop(QUERY.id)
    assert json.loads(published.board.content) == []
    assert published.board.channels().keys() == {QUERY.channel_tag}
    assert published.board.forget(NOW) == 0
    assert published.board.forget(NOW + 1) == 1
    assert published.board.channels() == {}


def test_queries_that_cannot_be_relayed_are_refused(published: Published) -> None:
    published.put(QUERY)
    stranger = AnalystKey.generate("Somebody else")
    with pytest.raises(RefusedError, match="another analyst"):
        published.board.publish(
            QUERY.id, sign(make_query(analyst="Somebody else"), stranger).to_bytes()
        )
    published.now = QUERY.schedule.expires
    assert published.reason(make_query(id="other")) == "expired_query"


def test_a_board_with_a_ring_relays_only_what_it_can_verify(tmp_path: Path) -> None:
    published = Published(tmp_path / "queries.db", ring=True)
    assert published.put(QUERY)
    published.key = AnalystKey.generate(QUERY.analyst)
    assert published.reason(QUERY.revised(sampling=0.5)) == "unknown_key"


# --- settings


def written(folder: Path, text: str) -> Path:
    path = folder / "proxy.toml"
    path.write_text(text)
    return path


def test_settings_are_read_with_durations_and_paths_beside_the_file(tmp_path: Path) -> None:
    text = (
        'folder = "data"\nport = 0\n[intake]\ngrace = "2 min"\nthreshold = 7\n[tls]\ncertificate ='
        ' "a.pem"\nkey = "/b.pem"\n'
    )
    found = read_settings(written(tmp_path, text))
    assert found.folder == tmp_path / "data"
    assert (found.intake.grace, found.intake.threshold, found.limits) == (
        120,
        7,
        ConnectionLimits(),
    )
    assert found.tls is not None
    assert (found.tls.certificate, found.tls.key) == (tmp_path / "a.pem", Path("/b.pem"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("port = 1", "folder = None is missing"),
        (
            'folder = "x"\nport = 70000',
            "line 2: port = 70000 must be a whole number from 0 to 65535",
        ),
        (
            'folder = "x"\nprot = 1',
            "line 2: prot = 1 is not a setting; did you mean 'port'? There are folder, host, port",
        ),
        (
            'folder = "x"\n[intake]\n\nthreshold = 0',
            "line 4: intake.threshold = 0 must be a whole number from 1 to",
        ),
        (
            'folder = "x"\n[intake]\ngrace = "soon"',
            "line 3: intake.grace = 'soon' must be a number of whole seconds",
        ),
        (
            'folder = "x"\n[limits]\nmost_waiting = 5',
            "line 3: limits.most_waiting = 5 must hold one body",
        ),
        ('folder = "x"\n[tls]\nkey = "k"', "line 2: tls.certificate = None is missing"),
        ('folder = "x"\nintake = 3', "line 2: intake = 3 must be a table"),
        ("folder = 3", "line 1: folder = 3 must be a path"),
        ("folder = ", "is not TOML"),
    ],
)
def test_settings_that_cannot_be_used_name_the_line_the_key_and_the_rule(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings(written(tmp_path, text))
    assert str(caught.value).startswith("proxy.toml")
    assert message in str(caught.value)


def test_the_settings_that_the_command_writes_are_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    assert CliRunner().invoke(cli, ["proxy", "new", str(path)]).exit_code == 0
    assert read_settings(path) == ProxySettings(folder=tmp_path / "one.data")
    assert CliRunner().invoke(cli, ["proxy", "new", str(path)]).exit_code == 2


# --- the command


def test_the_command_makes_lists_and_revokes_tokens_and_shows_the_log(tmp_path: Path) -> None:
    path = str(written(tmp_path, 'folder = "data"\n'))
    run = CliRunner().invoke
    made = run(cli, ["proxy", "token", "add", path, "--count", "3", "--quota", "9"]).output.split()
    assert len(made) == 3
    listed = json.loads(run(cli, ["proxy", "token", "list", path, "--json"]).output)
    assert sorted(each["id"] for each in listed) == sorted(
        hashlib.sha256(t.encode()).hexdigest()[:16] for t in made
    )
    assert {(each["role"], each["quota"]) for each in listed} == {("device", 9)}
    assert (
        run(cli, ["proxy", "token", "revoke", path, listed[0]["id"]]).output == "1 token revoked\n"
    )
    assert run(cli, ["proxy", "token", "list", path]).output.count("device") == 2
    missing = run(cli, ["proxy", "log", path])
    assert (missing.exit_code, "is not there" in missing.output) == (2, True)
    Intake(tmp_path / "data", IntakeRules(), lambda: NOW).close()
    shown = json.loads(run(cli, ["proxy", "log", path, "--json"]).output)
    assert (shown["first_offset"], shown["last_offset"], shown["channels"]) == (1, 0, {})


def test_importing_the_package_or_the_log_loads_no_web_framework() -> None:
    heavy = ["fastapi", "starlette", "uvicorn", "httpx", "pydantic"]
    modules = "deniable, deniable.logs.sqlite_log, deniable.proxy.intake.uploads"
    code = f"import sys, {modules}; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert out.stdout.strip() == "[]"


# --- the worker


def test_many_uploads_at_once_share_a_commit_and_each_has_its_own_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(tmp_path, IntakeRules(), lambda: NOW)
    intake.set_channels(channels_of([(QUERY.header, None)]))
    n_syncs: list[int] = []
    sync = os.fsync

    def counted(handle: int) -> None:
        n_syncs.append(handle)
        sync(handle)

    monkeypatch.setattr("deniable.proxy.intake.spool._sync", counted)
    worker = IntakeWorker(intake, lambda: None)
    columns, _ = make_columns(QUERY, 1000, 200)
    contents = [body_of(QUERY, 1000, columns[:, [i]]) for i in range(200)]
    contents[50] = b"garbage"

    async def hand_in() -> list[UploadReceipt | BaseException]:
        waiting = [
            asyncio.ensure_future(worker.submit(Upload(bytes([i]), 1, content)))
            for i, content in enumerate(contents)
        ]
        await asyncio.sleep(0)
        worker.start()
        return await asyncio.gather(*waiting, return_exceptions=True)

    results = asyncio.run(hand_in())
    worker.stop()
    assert isinstance(results[50], RefusedError)
    assert [result for i, result in enumerate(results) if i != 50] == [UploadReceipt(1, 0)] * 199
    assert len(n_syncs) == 1
    assert LogReader(tmp_path / "log.db").end == 1


def test_when_the_disk_fails_nothing_is_acknowledged_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    intake = Intake(tmp_path, IntakeRules(), lambda: NOW)
    intake.set_channels(channels_of([(QUERY.header, None)]))
    told = threading.Event()
    worker = IntakeWorker(intake, told.set)
    columns, _ = make_columns(QUERY, 1000, 3)
    first, second, third = (
        Upload(b"c", 9, body_of(QUERY, 1000, columns[:, [i]])) for i in range(3)
    )

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async def hand_in() -> list[UploadReceipt | BaseException]:
        worker.start()
        results: list[UploadReceipt | BaseException] = [await worker.submit(first)]
        monkeypatch.setattr("deniable.proxy.intake.spool.Segment.write", full)
        for upload in (second, third):
            results += await asyncio.gather(worker.submit(upload), return_exceptions=True)
        return results

    results = asyncio.run(hand_in())
    assert results[0] == UploadReceipt(1, 0)
    for refused in results[1:]:
        assert isinstance(refused, RefusedError)
        assert (refused.reason, refused.status) == ("storage", 503)
    assert told.is_set()
    assert worker.failed
    monkeypatch.undo()
    intake.close()
    again = Intake(tmp_path, IntakeRules(), lambda: NOW)
    again.set_channels(channels_of([(QUERY.header, None)]))
    assert again.take([first, second]) == [UploadReceipt(0, 1), UploadReceipt(1, 0)]
    again.close()


def test_two_proxies_cannot_use_one_folder(tmp_path: Path) -> None:
    first = Intake(tmp_path, IntakeRules(), lambda: NOW)
    with pytest.raises(LogError, match="in use by another proxy"):
        Intake(tmp_path, IntakeRules(), lambda: NOW)
    first.close()
    Intake(tmp_path, IntakeRules(), lambda: NOW).close()


@pytest.mark.parametrize("name", ["tokens.db", "queries.db"])
def test_files_of_a_newer_library_are_refused_at_the_start(tmp_path: Path, name: str) -> None:
    def opened() -> TokenStore | Board:
        return (
            TokenStore(tmp_path / name)
            if name == "tokens.db"
            else Board(tmp_path / name, lambda: NOW)
        )

    opened().close()
    with sqlite3.connect(tmp_path / name) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(LogError, match="newer"):
        opened()
