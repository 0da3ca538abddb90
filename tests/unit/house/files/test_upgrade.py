"""Files of the last release, read by this one: the results are equal, a copy of what was brought up
to date is kept, and files of a later release are refused in one line.
tests/toolkit/release_files.py made them with the code of that release."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from deniable.aggregator.schema import STATE
from deniable.aggregator.state import State, connect
from deniable.aggregator.web.tokens import find_token
from deniable.aggregator.windows.window import Window
from deniable.cli import cli
from deniable.client.device import Device
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import LogError, StateError
from deniable.proxy.board import Board
from deniable.proxy.intake.uploads import Intake, IntakeRules, Upload, UploadReceipt
from deniable.queries.channels import channels_of
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import SignedQuery
from deniable.service.files.schemas import FileSchema
from deniable.service.tokens import TokenStore
from toolkit.crowds import RING, Crowd
from toolkit.devices import at, make_policy

MOST_MESSAGES = 1 << 20
ARCHIVE = Path(__file__).parents[3] / "vectors" / "release-0.1.0.tar.xz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def expected(old: Path) -> dict[str, Any]:
    return dict(json.loads((old / "expected.json").read_text()))


@pytest.fixture
def crowd(old: Path, expected: dict[str, Any]) -> Iterator[Crowd]:
    query = SignedQuery.from_bytes(expected["aggregator"]["query"].encode()).unverified()
    crowd = Crowd(old / "aggregator", query)
    crowd.now = expected["aggregator"]["now"]
    yield crowd
    crowd.close_all()


def _says_as_much(now: Any, before: Any) -> bool:
    """Whether a document says all that an earlier one said, and possibly more."""
    if isinstance(before, dict):
        return all(name in now and _says_as_much(now[name], part) for name, part in before.items())
    return bool(now == before)


def test_an_aggregator_goes_on_with_the_state_of_the_last_release_and_its_results_are_equal(
    crowd: Crowd, expected: dict[str, Any]
) -> None:
    told = expected["aggregator"]
    crowd.engine(publish_query=False).drain()
    found = [window.to_dict() for window in crowd.windows()]
    assert len(found) == len(told["windows"]) > 0
    for now, before in zip(found, told["windows"], strict=True):
        # A later release may say more, and says nothing else; but its intervals are exact where few
        # reports support a label.
        told_now = {
            name: value for name, value in now.items() if name not in ("low", "high", "error")
        }
        told_before = {name: value for name, value in before.items() if name in told_now}
        assert _says_as_much(told_now, told_before)
        assert set(before) - set(told_before) == {"low", "high", "error"} & set(before)
        estimate = Window.from_dict(now).estimate
        if estimate is not None:
            np.testing.assert_allclose(
                estimate.interval(method="score"),
                np.transpose([before["low"], before["high"]]),
                atol=1e-12,
            )
        earlier = Window.from_dict(before)
        assert earlier.n == now["n"]
        if earlier.estimate is not None and earlier.estimate.reports is not None:
            assert earlier.estimate.reports == Window.from_dict(now).estimate.reports  # type: ignore[union-attr]
            assert earlier.estimate.reports.solved.n == now["n"]  # which its counts did not state
    assert crowd.counts().tolist() == told["counts"]
    assert [crowd.accounts(epoch) for epoch in range(6)] == told["accounts"]


def test_tokens_of_the_last_release_are_still_known(old: Path, expected: dict[str, Any]) -> None:
    with closing(connect(old / "aggregator" / "state.db")) as connection:
        for token in expected["aggregator"]["tokens"].values():
            assert find_token(connection, token) is not None
        assert find_token(connection, "deniable_guessed") is None


def test_a_copy_of_the_state_is_kept_before_it_is_brought_up_to_date_and_only_then(
    old: Path,
) -> None:
    path = old / "aggregator" / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        [(version,)] = connection.execute("SELECT value FROM meta WHERE name = 'schema'")
        before = list(connection.iterdump())
    for _ in range(2):
        connect(path).close()
    copies = sorted(path.parent.glob("state.db.schema-*"))
    assert [copy.name for copy in copies] == (
        [f"state.db.schema-{version}"] if version < STATE.version else []
    )
    for copy in copies:
        assert copy.stat().st_mode & 0o777 == 0o600
        with closing(sqlite3.connect(copy)) as connection:
            assert list(connection.iterdump()) == before


def test_a_migration_that_fails_leaves_the_state_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    connect(path).close()
    with closing(sqlite3.connect(path)) as connection:
        before = list(connection.iterdump())
    step = "CREATE TABLE added (a);\nINSERT INTO nowhere VALUES (1);\n"
    broken = replace(STATE, migrations={**STATE.migrations, STATE.version + 1: step})
    monkeypatch.setattr("deniable.aggregator.state.STATE", broken)
    with pytest.raises(StateError, match="no such table: nowhere"):
        connect(path)
    with closing(sqlite3.connect(path)) as connection:
        assert list(connection.iterdump()) == before
    assert (tmp_path / f"state.db.schema-{STATE.version}").exists()


def test_a_state_of_a_later_release_is_refused_in_one_line(old: Path) -> None:
    path = old / "aggregator" / "state.db"
    connect(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {STATE.version + 1}")
    with pytest.raises(
        StateError, match=rf"state.db was written by a newer release \(schema {STATE.version + 1};"
    ):
        State(path, ["one", "two"])
    settings = old / "aggregator.toml"
    RING.save(old / "ring.json")
    settings.write_text(
        'state = "aggregator/state.db"\nring = "ring.json"\n[[proxies]]\nname ='
        ' "http://127.0.0.1:1"\n[[proxies]]\nname = "http://127.0.0.1:2"\n'
    )
    result = CliRunner().invoke(cli, ["aggregator", "run", str(settings)])
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
    assert "by a newer release" in result.output


def test_a_proxy_goes_on_with_the_folder_of_the_last_release(
    old: Path, expected: dict[str, Any]
) -> None:
    told, folder = expected["proxy"], old / "proxy"
    query = SignedQuery.from_bytes(told["query"].encode()).unverified()
    intake = Intake(folder, IntakeRules(threshold=100, grace=600), lambda: told["now"])
    try:
        intake.set_channels(channels_of([(query.header, None)]))
        assert (intake.n_waiting, intake.n_ids) == (told["waiting"], told["ids"])
        # whoever sends them again is told that they are there
        for body in map(bytes.fromhex, told["bodies"]):
            (receipt,) = intake.take([Upload(b"ann", MOST_MESSAGES, body)])
            assert isinstance(receipt, UploadReceipt)
            assert receipt.accepted == 0
            assert receipt.already > 0
        intake.flush()
        assert intake.n_waiting == 0
    finally:
        intake.close()
    tokens = TokenStore(folder / "tokens.db")
    assert {role: tokens.find(token).role for role, token in told["tokens"].items()} == {  # type: ignore[union-attr]
        r: r for r in told["tokens"]
    }
    tokens.close()
    board = Board(folder / "queries.db", lambda: told["now"])
    assert json.loads(board.content) == json.loads(told["board"])
    board.close()


def test_a_device_goes_on_with_the_store_of_the_last_release(
    old: Path, expected: dict[str, Any]
) -> None:
    told = expected["client"]
    signed = SignedQuery.from_bytes(told["query"].encode())
    query = signed.unverified()
    store = Store(old / "client" / "ann.db.client", durable=False)
    with store.transaction() as transaction:
        assert str(transaction.charges.spent_on(query.analyst, query.id)) == told["spent"]
        waiting = {
            proxy: [
                share.record.hex() for share in transaction.outbox.due_shares(proxy, 1 << 40, 100)
            ]
            for proxy in query.proxies
        }
    assert waiting == told["waiting"]
    device = Device(
        Vault(old / "client" / "ann.db"),
        make_policy(query),
        store,
        clock=lambda: at(0),
        isolated=False,
    )
    assert device.answer(signed, at(3)).outcome == "answered"
    with store.transaction() as transaction:  # the permanent answer was paid for when it was drawn
        assert str(transaction.charges.spent_on(query.analyst, query.id)) == told["spent"]


def test_a_ring_of_the_last_release_is_read(old: Path) -> None:
    KeyRing.load(old / "ring.json").save(old / "again.json")
    RING.save(old / "now.json")
    assert json.loads((old / "again.json").read_text()) == json.loads(
        (old / "now.json").read_text()
    )


_WHAT = ("a file for this test", 0x64_6E_74_73)
_STEPS = {
    2: "ALTER TABLE one ADD COLUMN b INTEGER;",
    3: "UPDATE one SET b = 2 * a;\nDELETE FROM one WHERE a = 2;",
}
SCHEMAS = [
    FileSchema(*_WHAT, "CREATE TABLE one (a INTEGER);"),
    FileSchema(*_WHAT, "CREATE TABLE one (a, b);", _STEPS),
]


def test_a_proxys_file_is_brought_up_to_date_behind_a_copy_and_a_later_one_refused(
    tmp_path: Path,
) -> None:
    path = tmp_path / "file.db"
    before, after = SCHEMAS
    with closing(before.connect(path)) as connection:
        connection.execute("INSERT INTO one VALUES (1), (2)")
    with closing(after.connect(path)) as connection:
        assert connection.execute("SELECT a, b FROM one").fetchall() == [(1, 2)]
    with closing(sqlite3.connect(tmp_path / "file.db.schema-1")) as connection:
        assert connection.execute("SELECT a FROM one").fetchall() == [(1,), (2,)]
    with pytest.raises(
        LogError, match=r"was written by a newer release \(schema 3; this release reads up to 1\)"
    ):
        before.connect(path)


def test_checking_settings_leaves_a_state_of_the_last_release_as_it_is_and_says_what_will_happen(
    old: Path,
) -> None:
    state = next((old / "aggregator").rglob("state.db"))
    # what SQLite keeps beside it is put into it
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        names = [name for (name,) in connection.execute("SELECT name FROM proxies ORDER BY proxy")]
    before = state.read_bytes()
    RING.save(old / "ring.json")
    proxies = "".join(
        f'[[proxies]]\nname = "{name}"\nlog = "{i}.db"\n' for i, name in enumerate(names)
    )
    settings = old / "aggregator.toml"
    settings.write_text(f'state = "{state}"\nring = "ring.json"\nport = 0\n{proxies}')
    result = CliRunner().invoke(cli, ["aggregator", "check", str(settings), "--json"])
    messages = [
        each["message"] for each in json.loads(result.stdout)["findings"] if each["key"] == "state"
    ]
    assert any(
        f"the aggregator brings it to {STATE.version} when it starts" in message
        for message in messages
    )
    assert state.read_bytes() == before
    assert not list(state.parent.glob("*.schema-*")), (
        "nothing was brought up to date, so no copy was kept"
    )


def test_checking_a_proxy_leaves_its_tokens_of_the_last_release_as_they_are(old: Path) -> None:
    tokens = next(old.rglob("tokens.db"))
    before = tokens.read_bytes()
    RING.save(old / "ring.json")
    settings = old / "proxy.toml"
    settings.write_text(f'folder = "{tokens.parent}"\nring = "ring.json"\nport = 0\n')
    CliRunner().invoke(cli, ["proxy", "check", str(settings)])
    assert tokens.read_bytes() == before
