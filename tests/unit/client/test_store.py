"""The store of a device over its life: files of earlier versions, and files that were put back."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from deniable.client.device import Device
from deniable.client.payment import scope_of
from deniable.client.sandbox.answer import FREE, name_of
from deniable.client.storage.schema import STORE
from deniable.client.storage.store import Store
from deniable.client.witness import Witness
from deniable.errors import StoreError
from deniable.privacy.ledger import PrivacyEvent
from deniable.queries.query import Query
from deniable.service.files import row_checks
from toolkit.devices import asked, at, make_device, opened, signed

VERSION_1 = """
CREATE TABLE secret (key BLOB NOT NULL);
CREATE TABLE versions (analyst TEXT, query TEXT, serial INTEGER NOT NULL, digest BLOB NOT NULL, signed BLOB NOT NULL,
                       PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE epochs (analyst TEXT, query TEXT, epoch INTEGER NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE spent (analyst TEXT, query TEXT, epsilon TEXT NOT NULL, PRIMARY KEY (analyst, query)) WITHOUT ROWID;
CREATE TABLE charges (time INTEGER NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL, epsilon TEXT NOT NULL);
CREATE INDEX charges_by_time ON charges (time);
CREATE TABLE memo (place INTEGER PRIMARY KEY, scope BLOB NOT NULL, answer BLOB NOT NULL UNIQUE, permanent BLOB NOT NULL);
CREATE INDEX memo_by_scope ON memo (scope);
CREATE TABLE queue (place INTEGER PRIMARY KEY AUTOINCREMENT, proxy TEXT NOT NULL, due INTEGER NOT NULL,
                    expires INTEGER NOT NULL, record BLOB NOT NULL);
CREATE INDEX queue_by_proxy ON queue (proxy, due);
CREATE TABLE proxies (proxy TEXT PRIMARY KEY, failures INTEGER NOT NULL, retry_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE receipts (place INTEGER PRIMARY KEY AUTOINCREMENT, time INTEGER NOT NULL, outcome TEXT NOT NULL,
                       reason TEXT NOT NULL, detail TEXT NOT NULL, analyst TEXT NOT NULL, query TEXT NOT NULL,
                       serial INTEGER NOT NULL, question TEXT NOT NULL, epoch INTEGER, epsilon TEXT NOT NULL, left TEXT,
                       verified INTEGER NOT NULL, first INTEGER NOT NULL, times INTEGER NOT NULL);
CREATE INDEX receipts_by_query ON receipts (analyst, query);
CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
"""
SECRET = bytes(range(32))


def write_version_1(path: Path, query: Query, permanents: dict[int, bytes]) -> None:
    """A store as version 1 left it, after so many distinct answers to a memoized query, each
    charged when it was drawn."""
    path.touch(mode=0o600)
    with Store(path.with_name("scratch"), durable=False).transaction() as transaction:
        transaction._db.execute("UPDATE secret SET key = ?", (SECRET,))
        keys = {
            index: name_of(scope_of(query), transaction.secret(), [index]) for index in permanents
        }
    with closing(sqlite3.connect(path)) as old:
        old.executescript(
            VERSION_1 + f"PRAGMA application_id = {STORE.application_id}; PRAGMA user_version = 1;"
        )
        old.execute("INSERT INTO secret VALUES (?)", (SECRET,))
        old.execute("INSERT INTO epochs VALUES (?, ?, 5)", (query.analyst, query.id))
        cost = Fraction(repr(query.epsilon))
        old.execute(
            "INSERT INTO spent VALUES (?, ?, ?)",
            (query.analyst, query.id, str(cost * len(permanents))),
        )
        for time, (index, row) in enumerate(permanents.items()):
            old.execute(
                "INSERT INTO memo (scope, answer, permanent) VALUES (?, ?, ?)",
                (scope_of(query), keys[index], row),
            )
            old.execute(
                "INSERT INTO charges VALUES (?, ?, ?, ?)",
                (at(time), query.analyst, query.id, str(cost)),
            )
        old.commit()


@pytest.mark.parametrize("n_drawn", [1, 2])
def test_a_store_of_version_1_keeps_its_permanent_answers_and_pays_the_whole_reserve_whatever_was_drawn(
    tmp_path: Path, n_drawn: int
) -> None:
    query = asked(memoize=True, distinct=2)
    permanents = dict([(3, b"\x05\x00"), (8, b"\x06\x01")][:n_drawn])
    cost = Fraction(repr(query.epsilon))
    write_version_1(tmp_path / "ann.db.client", query, permanents)
    device = make_device(tmp_path, query, [3.5])
    receipt = device.answer(signed(query), at(6))
    assert (receipt.outcome, receipt.epsilon) == ("answered", 2 * cost)
    assert [message.report[:2] for message in opened(device)] == [permanents[3]], (
        "what was drawn once is not drawn again"
    )
    with device.store.transaction() as transaction:
        assert transaction._db.execute("PRAGMA user_version").fetchone() == (STORE.version,)
        # Another seat was added, free, if there was room.
        [seats] = transaction.seats.of(scope_of(query), 1)
        assert [seat.permanent for seat in seats if seat.spoke != FREE] == list(permanents.values())
        assert len(seats) == 2
        assert transaction.charges.spent_on(query.analyst, query.id) == (n_drawn + 2) * cost
        assert transaction.charges.accountant((), at(6)).spent() == (n_drawn + 2) * cost
    assert device.answer(signed(query), at(7)).epsilon == 0


def test_a_migration_that_is_cut_off_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    query = asked(memoize=True)
    path = tmp_path / "ann.db.client"
    write_version_1(path, query, {3: b"\x05\x00"})
    with pytest.raises(KeyboardInterrupt), Store(path, durable=False).transaction():
        raise KeyboardInterrupt
    with closing(sqlite3.connect(path)) as old:
        assert old.execute("PRAGMA user_version").fetchone() == (1,)
        assert len(old.execute("SELECT * FROM memo").fetchone()) == 4


def test_a_store_of_version_2_learns_what_is_shared(tmp_path: Path) -> None:
    device = make_device(tmp_path, asked())
    with device.store.transaction() as transaction:
        row_checks.unguard(transaction._db)
        for table in ("shared", "decided", "answers", "revoked", "asked", "feed_heads"):
            transaction._db.execute(f"DROP TABLE {table}")
        transaction._db.execute("DROP INDEX queue_by_answer")
        for column in ("answer", "tried"):
            transaction._db.execute(f"ALTER TABLE queue DROP COLUMN {column}")
        transaction._db.execute("PRAGMA user_version = 2")
    with device.store.transaction() as transaction:
        assert transaction.granted() is None
    assert device.answer(signed(asked()), at(0)).outcome == "answered"
    with device.store.transaction() as transaction:
        assert transaction.granted() == (("trips", (("distance", "REAL"),)),)
    device.vault.withdraw("trips")
    assert device.answer(signed(asked()), at(1)).reason == "not shared"
    with device.store.transaction() as transaction:
        assert transaction.granted() == ()


# --- restored from a backup


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    """A device whose store has a witness elsewhere, as the command line makes it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = make_device(tmp_path, asked())
    return Device(made.vault, made.policy, Store.beside(made.vault.path), isolated=False)


def test_a_store_that_was_restored_from_a_backup_is_not_answered_from(
    tmp_path: Path, device: Device
) -> None:
    query = asked()
    device.answer(signed(query), at(0))
    shutil.copy(device.store.path, tmp_path / "backup")
    for epoch in (1, 2):
        device.answer(signed(query), at(epoch))
    shutil.copy(tmp_path / "backup", device.store.path)
    with pytest.raises(StoreError, match="lacks 2 changes") as error:
        device.answer(signed(query), at(3))
    witness = device.store.witness
    assert witness is not None
    assert str(witness.path) in str(error.value)
    assert json.loads(witness.path.read_text())["changes"] == 3
    witness.path.unlink()  # as the message says: the owner takes the ledger as it is
    assert device.answer(signed(query), at(3)).outcome == "answered"


def test_a_store_that_was_deleted_is_missed_too(device: Device) -> None:
    device.answer(signed(asked()), at(0))
    device.store.path.unlink()
    with pytest.raises(StoreError, match="1 changes of another store"):
        device.answer(signed(asked()), at(0))


def test_a_witness_is_its_owners_alone_tells_nothing_and_a_damaged_one_is_reported(
    device: Device,
) -> None:
    device.answer(signed(asked()), at(0))
    witness = device.store.witness
    assert witness is not None
    assert witness.path.stat().st_mode & 0o777 == 0o600
    assert set(json.loads(witness.path.read_text())) == {"store", "changes", "check"}
    assert device.vault.path.name not in witness.path.name
    for damaged in (b"", b"{}", b"[1]", b'{"store": "x", "changes": "y"}'):
        witness.path.write_bytes(damaged)
        with pytest.raises(StoreError, match="cannot be read"):
            device.answer(signed(asked()), at(1))


def test_where_no_witness_can_be_kept_nothing_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "state").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = make_device(tmp_path, asked())
    store = Store.beside(made.vault.path)
    with pytest.raises(StoreError, match="cannot be made"):
        Device(made.vault, made.policy, store, isolated=False).answer(signed(asked()), at(0))
    with Store(store.path, durable=False).transaction() as transaction:
        assert not transaction.versions.is_decided(asked().analyst, asked().id, 0)


def test_a_process_that_dies_between_store_and_witness_accuses_nobody(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.answer(signed(asked()), at(0))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Witness, "write", die)
        with pytest.raises(KeyboardInterrupt):
            device.answer(signed(asked()), at(1))
    assert device.answer(signed(asked()), at(1)).outcome == "again"
    assert device.answer(signed(asked()), at(2)).outcome == "answered"


def test_a_reserve_is_replaced_and_never_counted_twice(tmp_path: Path) -> None:
    event = PrivacyEvent("City", "q", 100, 2)
    with Store(tmp_path / "store", durable=False).transaction() as transaction:
        for time in (100, 200, 300):
            transaction.charges.add(PrivacyEvent("City", "q", time, 2), b"scope")
        transaction.charges.add(event)
        assert transaction.charges.spent_on("City", "q") == 4
        assert transaction.charges.reserved_cost(b"scope") == 2
        assert transaction.charges.accountant((), 300).spent() == 4
        assert transaction.charges.accountant((), 300, b"scope").spent() == 2
