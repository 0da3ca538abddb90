"""No SQL tells apart two vaults that differ only in what is not granted: over a thousand texts, on
ten versions of SQLite."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Vault, run
from deniable.client.device import Device
from deniable.client.sandbox import interface as sandbox
from deniable.client.sandbox import pool as sandbox_pool
from deniable.client.sandbox import process as sandbox_process
from deniable.client.sandbox.granted import VaultCopy, VaultReader
from deniable.client.storage.store import Store
from deniable.errors import DeniableError, NotGrantedError
from deniable.queries.columns.column import Column
from deniable.randomness import seeded_source
from deniable.sql import guard
from toolkit.attacks.sql_mutations import LISTED, mutated
from toolkit.attacks.sql_texts import HEX_LITERAL, build
from toolkit.devices import asked, at, make_policy, queued, signed
from toolkit.references.sqlite_versions import VARIABLE, VERSIONS, extension

TEXTS = [*LISTED, *mutated(900, seed=14)]
N_ELSEWHERE = 550  # on versions other than the one at hand
# none of these takes long: what is late is late by more than a busy machine explains
DEADLINE = 20.0


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, Vault]:
    folder = tmp_path_factory.mktemp("vaults")
    return build(folder / "one.db", 1), build(folder / "two.db", 2)


@pytest.fixture(params=["at hand", *VERSIONS])
def sqlite(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each version in turn, in the sandbox's processes."""
    version = sqlite3.sqlite_version
    sandbox_pool.close_all()
    if request.param != "at hand":
        version = request.param
        library = extension(version)
        if library is None:
            pytest.skip(
                f"{VARIABLE} names no folder with SQLite {version}"
                " (tests/toolkit/references/sqlite_versions.py fetches it)"
            )
        preload = f"import ctypes; ctypes.CDLL({str(library)!r}, ctypes.RTLD_GLOBAL)\n"
        monkeypatch.setattr(sandbox_process, "_BOOT", preload + sandbox_process._BOOT)
    process = sandbox_process.SandboxProcess(0, 8 << 20)
    process.close()
    assert process.sqlite == version
    yield version
    sandbox_pool.close_all()


def behaviour(vault: Vault, sql: str) -> tuple[Any, ...]:
    """All that a caller can see: whether and how it was refused before it ran, then what it gave,
    or how it failed."""
    try:
        checked: Any = sandbox.check(vault, sql, deadline=DEADLINE)
    except DeniableError as error:
        checked = type(error), str(error)
    try:
        rows = run(vault, sql, deadline=DEADLINE)
    except DeniableError as error:
        return checked, type(error), str(error)
    return checked, rows.columns, str(list(rows))  # as text: 1 and 1.0 are equal, and differ


def test_no_text_tells_the_twins_apart(twins: tuple[Vault, Vault], sqlite: str) -> None:
    texts = TEXTS if sqlite == sqlite3.sqlite_version else TEXTS[:N_ELSEWHERE]
    assert len(set(texts)) == len(texts) >= (1_000 if texts is TEXTS else 500)
    told = [sql for sql in texts if behaviour(twins[0], sql) != behaviour(twins[1], sql)]
    assert not told


def test_a_withheld_table_cannot_be_joined_behind_a_hex_literal(
    twins: tuple[Vault, Vault], sqlite: str
) -> None:
    for isolated in (False, True):
        with pytest.raises(DeniableError) as caught:
            run(twins[0], HEX_LITERAL, isolated=isolated)
        if sqlite < "3.46":  # from there on the literal and the word behind it are one bad token
            assert type(caught.value) is NotGrantedError


def test_many_of_the_texts_tell_the_vaults_themselves_apart(
    twins: tuple[Vault, Vault], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # two of the texts make files

    def raw(vault: Vault, sql: str) -> str:
        with closing(sqlite3.connect(vault.uri, uri=True)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1 << 20)
            connection.set_progress_handler(lambda: 1, 10**6)  # some would never end
            try:
                return str(connection.execute(sql).fetchall())
            except (sqlite3.Error, sqlite3.Warning, UnicodeEncodeError) as error:
                return str(error)

    assert sum(raw(twins[0], sql) != raw(twins[1], sql) for sql in TEXTS) >= 150


def copied(vault: Vault) -> guard.GrantedCopy:
    """What the sandbox's process makes of what it is given, in this process."""
    reader = VaultReader(vault.path)
    with reader.snapshot(1.0) as snapshot:
        shape, version = snapshot.shape(), snapshot.version
    copy = guard.GrantedCopy(shape)

    def take(table: int, rows: list[Any]) -> int:
        copy.add(table, rows)
        return len(rows)

    copying = VaultCopy(reader, shape, version)
    while not copying.advance(1.0, math.inf, take):
        pass
    reader.close()
    copy.seal()
    return copy


def test_the_twins_copies_are_the_same_byte_for_byte_and_hold_no_secret(
    twins: tuple[Vault, Vault],
) -> None:
    images = []
    for vault in twins:
        with closing(copied(vault)) as copy:
            copy._db.set_authorizer(None)
            images.append(copy._db.serialize())
    assert images[0] == images[1]
    assert b"Lyon" in images[0]
    for secret in (
        b"salary",
        b"note",
        b"entry",
        b"place",
        b"diary",
        b"positive",
        b"nameless",
        b"VARCHAR",
        b"NOCASE",
        b"spy",
    ):
        assert secret in twins[1].path.read_bytes().replace(b"\0", b"")  # which is UTF-16
        assert secret not in images[0].replace(b"\0", b"")


def test_every_text_takes_as_many_steps_on_one_twin_as_on_the_other(
    twins: tuple[Vault, Vault],
) -> None:
    # Steps of SQLite's machine: what a query's time is made of, without the noise of the machine it
    # runs on.
    counts: list[list[int]] = []
    for vault in twins:
        counts.append([])
        with closing(copied(vault)) as copy:
            steps = 0

            def step() -> int:
                nonlocal steps
                steps += 1
                return 0

            copy._db.set_progress_handler(step, 1)
            for sql in TEXTS:
                steps = 0
                try:
                    guard.check_text(sql)
                    copy.query(sql, (0, 0), 1_000, 32 << 20, DEADLINE)
                except guard.DisallowedSqlError:
                    pass
                counts[-1].append(steps)
    assert counts[0] == counts[1]
    assert sum(n > 10 for n in counts[0]) >= 100


@pytest.mark.slow
def test_receipts_charges_and_shares_are_the_same_on_both_twins(
    twins: tuple[Vault, Vault], tmp_path: Path
) -> None:
    """Under the same coins, all that a device writes, queues and spends is the same; and it answers
    some of the texts."""
    columns = [Column("x", ["31", "Lyon", "hiv"], other=True)]
    policy = make_policy(asked(columns=columns), limits=(), queue_messages=10**6, deadline=DEADLINE)
    seen: list[list[Any]] = []
    for i, vault in enumerate(twins):
        seen.append([])
        device = Device(
            vault, policy, Store(tmp_path / f"{i}.client", durable=False), source=seeded_source(5)
        )
        for number, sql in enumerate(LISTED):
            try:
                question = asked(columns=columns, id=f"q{number}", sql=sql)
            except DeniableError:  # what cannot even be asked
                continue
            steps: list[str] = []
            device._on_step = steps.append
            seen[-1].append((device.answer(signed(question), at(0)), steps))
        seen[-1].append(queued(device))
    assert seen[0] == seen[1]
    outcomes = [receipt.outcome for receipt, _ in seen[0][:-1]]
    assert outcomes.count("answered") >= 20
    assert outcomes.count("refused") >= 100
