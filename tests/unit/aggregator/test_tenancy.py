"""Rights and what old tokens have of them, what an aggregator notices by itself, and what becomes
of revoked keys' queries."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.state import connect, signed
from deniable.aggregator.web.tokens import (
    RIGHTS,
    add_token,
    find_token,
    grant,
    list_tokens,
    parse_rights,
    token_id,
)
from deniable.errors import AuditLogError, ParameterError, RefusedError, RevokedKeyError
from deniable.proxy.board import Board
from deniable.proxy.schemas.board import BOARD
from deniable.queries.budget import Budget
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.query import Query
from deniable.queries.signed.envelope import Version
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign, sign_version, signing_keys
from deniable.service.audit_log import read_events
from deniable.service.files import row_checks
from deniable.service.files.ring import RingFile
from deniable.service.files.schemas import transaction
from deniable.service.schemas.tokens import TOKENS
from deniable.service.tokens import TokenStore, new_token, token_hash
from toolkit.adaptive import CONTROLLER, adaptive_query
from toolkit.crowds import KEY, RING, minute_query
from toolkit.devices import Network, asked, at, make_device
from toolkit.devices import signed as signed_query

OTHER = AnalystKey("Mallory", bytes(range(1, 33)))
BOTH = RING.add(OTHER.public)
QUERY = minute_query()
NOW = QUERY.schedule.origin


# --- rights


def old_state(path: Path, *queries: tuple[Query, AnalystKey]) -> dict[str, str]:
    """A state as version 3 left it, with tokens of both roles under two names; the tokens."""
    connection = connect(path)
    for query, key in queries:
        publish(connection, sign(query, key), BOTH, query.proxies, NOW)
    with transaction(connection):
        row_checks.unguard(connection)
        connection.execute("DROP TABLE versions")
        connection.execute("ALTER TABLE queries DROP COLUMN analyst")
        connection.execute("ALTER TABLE closures DROP COLUMN audited")
        connection.execute("DROP TABLE grants")
        connection.execute("DROP TABLE tokens")
        connection.execute("DROP TABLE granules")
        connection.execute("DROP TABLE sealed")
        connection.execute(
            "CREATE TABLE tokens (digest BLOB PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL,"
            " made INTEGER NOT NULL)"
        )
        tokens = {}
        for name in (KEY.owner, "Mallory", "a newspaper"):
            for role in ("analyst", "reader"):
                tokens[f"{name} {role}"] = token = new_token()
                connection.execute(
                    "INSERT INTO tokens VALUES (?, ?, ?, 0)", (token_hash(token), name, role)
                )
        connection.execute("UPDATE meta SET value = 3 WHERE name = 'schema'")
        connection.execute("PRAGMA application_id = 0")
        connection.execute("PRAGMA user_version = 0")
    connection.close()
    return tokens


def rights_of(path: Path, tokens: dict[str, str], analyst: str) -> dict[str, tuple[str, ...]]:
    connection = connect(path)
    holders = {name: find_token(connection, token) for name, token in tokens.items()}
    connection.close()
    return {name: holder.rights(analyst) for name, holder in holders.items() if holder is not None}


def test_old_tokens_keep_their_own_analysts_queries_and_mallory_gets_none_of_acmes(
    tmp_path: Path,
) -> None:
    theirs = minute_query(id="theirs", analyst=OTHER.owner)
    tokens = old_state(tmp_path / "state.db", (QUERY, KEY), (theirs, OTHER))
    assert rights_of(tmp_path / "state.db", tokens, KEY.owner) == {
        f"{KEY.owner} analyst": RIGHTS,
        f"{KEY.owner} reader": ("read",),
        **{
            f"{name} {role}": ()
            for name in ("Mallory", "a newspaper")
            for role in ("analyst", "reader")
        },
    }


def test_where_there_is_one_analyst_old_tokens_of_other_names_read_but_stop_and_delete_nothing(
    tmp_path: Path,
) -> None:
    tokens = old_state(tmp_path / "state.db", (QUERY, KEY))
    found = rights_of(tmp_path / "state.db", tokens, KEY.owner)
    assert found[f"{KEY.owner} analyst"] == RIGHTS
    assert {found[f"{name} analyst"] for name in ("Mallory", "a newspaper")} == {
        ("read", "publish")
    }
    assert {found[f"{name} reader"] for name in ("Mallory", "a newspaper")} == {("read",)}


def test_rights_are_granted_replaced_taken_back_and_listed(tmp_path: Path) -> None:
    connection = connect(tmp_path / "state.db")
    token = add_token(connection, "acme", ["read"], 0, label="dashboard")
    grant(connection, token_id(token)[:6], "City", ["read", "stop"])
    grant(connection, token_id(token), "City", ["read"])
    holder = find_token(connection, token)
    assert holder is not None
    assert (holder.rights("acme"), holder.rights("City"), holder.rights("nobody")) == (
        ("read",),
        ("read",),
        (),
    )
    grant(connection, token_id(token), "City", [])
    (row,) = list_tokens(connection)
    assert (row["id"], row["label"], row["rights"]) == (
        token_id(token),
        "dashboard",
        {"acme": ["read"]},
    )
    operator = add_token(connection, "", (), 0, operator=True)
    for bad in ("", "xyz", "ff" * 8):
        with pytest.raises(ParameterError, match="token = "):
            grant(connection, bad, "City", ["read"])
    with pytest.raises(ParameterError, match="is an operator's"):
        grant(connection, token_id(operator), "City", ["read"])
    with pytest.raises(ParameterError, match="must be some of read, publish, stop, delete"):
        add_token(connection, "acme", ["write"], 0)
    assert len(list_tokens(connection)) == 2
    connection.close()


def test_rights_are_written_with_commas() -> None:
    assert parse_rights("--may", "stop, read") == ("read", "stop")
    assert parse_rights("--may", "none") == ()
    with pytest.raises(ParameterError, match="--may = 'rea'"):
        parse_rights("--may", "rea")


# --- what an aggregator notices by itself


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    BOTH.save(tmp_path / "ring.json")
    proxies = [
        ProxySource(name, "http://127.0.0.1:9", tmp_path / f"log{i}.db")
        for i, name in enumerate(QUERY.proxies)
    ]
    made = Service(
        AggregatorSettings(tmp_path / "state.db", tmp_path / "ring.json", proxies),
        clock=lambda: NOW,
    )
    yield made
    made.stop()


def told(service: Service) -> list[tuple[str, str]]:
    return [(event["event"], event.get("subject", "")) for event in read_events(service.audit.path)]


def test_an_epoch_that_was_closed_without_a_proxy_is_recorded_once(service: Service) -> None:
    service.queries.publish(QUERY.id, sign(QUERY, KEY).to_bytes())
    with service.writing() as connection:
        row = (signed(QUERY.channel_tag), 7, "1")
        connection.execute("INSERT INTO closures (channel, epoch, missing) VALUES (?, ?, ?)", row)
    for _ in range(3):
        service.parts._housekeeping_step()
    found = [
        event for event in read_events(service.audit.path) if event["event"] == "epoch.incomplete"
    ]
    assert [
        (event["subject"], event["details"]["epoch"], event["details"]["queries"])
        for event in found
    ] == [(f"proxy:{QUERY.proxies[1]}", 7, [QUERY.id])]


def test_what_cannot_be_recorded_is_not_done(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.queries.publish(QUERY.id, sign(QUERY, KEY).to_bytes())
    before = service.queries.versions(QUERY.id), service.feed.head

    def full(*_: object, **__: object) -> None:
        raise AuditLogError("audit.jsonl cannot be written: No space left on device")

    monkeypatch.setattr(service.audit, "record", full)
    with pytest.raises(AuditLogError):
        service.queries.publish(QUERY.id, sign(QUERY.revised(question="And now?"), KEY).to_bytes())
    with pytest.raises(AuditLogError):
        service.queries.stop(QUERY.id)
    assert (service.queries.versions(QUERY.id), service.feed.head) == before
    assert service.queries.listed(QUERY.id)[0]["stopped"] is None
    monkeypatch.undo()


def test_queries_fall_with_their_key_once_and_those_of_other_keys_stay(
    service: Service, tmp_path: Path
) -> None:
    theirs = minute_query(id="theirs", analyst=OTHER.owner)
    service.queries.publish(QUERY.id, sign(QUERY, KEY).to_bytes())
    service.queries.publish(theirs.id, sign(theirs, OTHER).to_bytes())
    service.parts._housekeeping_step()
    BOTH.revoke(KEY.public.id).save(tmp_path / "ring.json")
    for _ in range(2):
        service.parts._housekeeping_step()
    events = told(service)
    assert events.count(("key.revoked", f"key:{KEY.public.id}")) == 1
    assert events.count(("query.withdrawn", f"query:{QUERY.id}")) == 1
    assert [query["stopped"] is None for query in service.queries.listed()] == [False, True]
    with service.reading() as connection:
        orders = set(connection.execute("SELECT id, what FROM relays WHERE NOT done"))
    assert {(QUERY.id, "stop"), (f"key {KEY.public.id}", "revoke"), ("theirs", "publish")} == orders
    with pytest.raises(RevokedKeyError):
        service.queries.publish("more", sign(minute_query(id="more"), KEY).to_bytes())


def test_a_key_that_is_taken_off_the_ring_withdraws_its_queries_and_an_expired_one_does_not(
    service: Service, tmp_path: Path
) -> None:
    theirs = minute_query(id="theirs", analyst=OTHER.owner)
    service.queries.publish(QUERY.id, sign(QUERY, KEY).to_bytes())
    service.queries.publish(theirs.id, sign(theirs, OTHER).to_bytes())
    KeyRing().add(OTHER.public, valid_until=NOW - 1).save(tmp_path / "ring.json")
    service.parts._housekeeping_step()
    assert [query["stopped"] is None for query in service.queries.listed()] == [False, True]


def test_a_ring_that_cannot_be_read_leaves_the_keys_as_they_were_and_says_why_until_it_can(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ring.json"
    RING.save(path)
    file = RingFile(path, logging.getLogger("test"))
    path.write_text("{")
    assert len(file.ring()) == 1
    assert "ring.json is not a file of the format" in file.problem
    path.unlink()
    assert len(file.ring()) == 1
    assert "cannot be read" in file.problem
    BOTH.save(path)
    assert (len(file.ring()), file.problem) == (2, "")


# --- proxies and devices


def test_a_version_falls_with_the_controllers_key_and_the_analysts_query_with_its_own(
    service: Service, tmp_path: Path
) -> None:
    query = adaptive_query(60, 0.05, 50.0)
    base = sign(query, KEY)
    version = sign_version(
        base, Version(query.digest.hex(), 2, 0.4, {"p": 0.5, "q": 0.5}), CONTROLLER
    )
    assert signing_keys(base) == {KEY.public.id}
    assert signing_keys(version) == {KEY.public.id, CONTROLLER.public.id}
    service.queries.publish(query.id, base.to_bytes())
    BOTH.ban(CONTROLLER.public).save(tmp_path / "ring.json")
    service.parts._housekeeping_step()
    # no version of the controller's is asked
    assert service.queries.listed(query.id)[0]["stopped"] is None
    BOTH.save(tmp_path / "ring.json")
    service.queries.publish(query.id, version.to_bytes())
    BOTH.ban(CONTROLLER.public).save(tmp_path / "ring.json")
    service.parts._housekeeping_step()
    assert service.queries.listed(query.id)[0]["stopped"] is not None


def test_a_board_withdraws_what_a_revoked_key_signed_and_never_takes_it_again(
    tmp_path: Path,
) -> None:
    mine, theirs = asked(), asked(id="theirs", analyst=OTHER.owner)
    board = Board(tmp_path / "queries.db", lambda: at(0))
    withdrawn: list[str] = []
    board.publish(mine.id, signed_query(mine).to_bytes())
    board.publish(theirs.id, sign(theirs, OTHER).to_bytes())
    tag = board.etag
    assert board.revoke([KEY.public.id], lambda query, _: withdrawn.append(query.id)) == [
        KEY.public.id
    ]
    assert (withdrawn, len(board)) == ([mine.id], 1)
    assert board.listed()[2] == KEY.public.id
    assert board.etag != tag
    assert board.revoke([KEY.public.id]) == []
    for again in (board, Board(tmp_path / "queries.db", lambda: at(0))):
        with pytest.raises(RefusedError, match="was revoked"):
            again.publish("more", signed_query(asked(id="more")).to_bytes())
    board.close()


@pytest.mark.parametrize("name", ["tokens.db", "queries.db"])
def test_files_of_the_release_before_are_brought_up_to_date_with_what_they_hold(
    tmp_path: Path, name: str
) -> None:
    layout, schema = (
        (
            TOKENS,
            (
                "CREATE TABLE tokens (hash BLOB PRIMARY KEY, role TEXT NOT NULL, quota INTEGER)"
                " WITHOUT ROWID"
            ),
        )
        if name == "tokens.db"
        else (
            BOARD,
            (
                "CREATE TABLE versions (id TEXT, serial INTEGER, signed BLOB, stopped INTEGER,"
                " PRIMARY KEY (id, serial))"
            ),
        )
    )
    token, query = new_token(), asked()
    old = sqlite3.connect(tmp_path / name)
    old.execute(f"PRAGMA application_id = {layout.application_id}")
    old.execute("PRAGMA user_version = 1")
    old.execute(schema)
    if name == "tokens.db":
        old.execute("INSERT INTO tokens VALUES (?, 'operator', NULL)", (token_hash(token),))
    else:
        old.execute(
            "INSERT INTO versions VALUES (?, 1, ?, NULL)",
            (query.id, signed_query(query).to_bytes()),
        )
    old.commit()
    old.close()
    if name == "tokens.db":
        book = TokenStore(tmp_path / name)
        found = book.find(token)
        assert found is not None
        assert found.role == "operator"
        assert [(row["label"], row["made"], row["last_used"]) for row in book.listed()] == [
            ("", None, None)
        ]
        book.note_use(found, 86_400 * 3 + 5)
        assert book.listed()[0]["last_used"] == "1970-01-04"
        book.close()
    else:
        board = Board(tmp_path / name, lambda: at(0))
        assert (len(board), board.revoked) == (1, ())
        board.close()


def test_a_device_refuses_the_query_of_a_key_that_any_proxy_says_was_revoked_until_it_says_so_no_more(
    tmp_path: Path,
) -> None:
    query = asked()
    device = make_device(tmp_path, query)
    one, two = query.proxies[:2]
    network = Network(
        relayed={one: [signed_query(query).to_bytes()], two: []},
        told_revoked={two: frozenset([KEY.public.id])},
    )
    for epoch in range(2):
        (receipt,) = device.answer_all(device.fetch(network), at(epoch))
        assert (receipt.outcome, receipt.reason) == ("refused", "revoked key")
    network.down = {two}  # silence takes nothing back
    assert device.answer_all(device.fetch(network), at(2))[0].reason == "revoked key"
    network.down, network.told_revoked = set(), {}
    assert device.answer_all(device.fetch(network), at(3))[0].outcome == "answered"


def test_what_a_query_can_cost_for_life_is_bounded_by_its_epochs_its_budget_and_its_envelope() -> (
    None
):
    query = minute_query(budget=Budget())
    assert lifetime_epsilon(query) == pytest.approx(query.epsilon_local * query.schedule.n_epochs)
    assert lifetime_epsilon(minute_query(budget=Budget(epsilon=90.0))) == 90.0
