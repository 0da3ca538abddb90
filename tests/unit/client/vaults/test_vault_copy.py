# ruff: noqa: S608 - SQL put together on purpose
"""How a vault is copied: in steps, hardly in its owner's way, under limits that tell nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Vault, run
from deniable.client.sandbox import interface as sandbox
from deniable.client.sandbox import pool as sandbox_pool
from deniable.client.sandbox import process as sandbox_process
from deniable.client.sandbox.granted import VaultCopy
from deniable.errors import TooMuchMemoryError
from deniable.queries.buckets import Buckets
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.columns.column import Column

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {})"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    sandbox_pool.close_all()
    yield
    sandbox_pool.close_all()


def vault_of(
    path: Path, n_rows: int, *, hidden: int = 0, mode: str = "DELETE", kind: str = ""
) -> Vault:
    """A vault with rows that are granted, and bytes that are not."""
    vault = Vault.create(path)
    with closing(sqlite3.connect(vault.path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(f"CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT) {kind}")
        connection.execute(f"INSERT INTO t {NUMBERS.format(n_rows)} SELECT i, 'place ' || i FROM n")
        connection.execute("CREATE TABLE diary (entry BLOB)")
        connection.execute("INSERT INTO diary VALUES (zeroblob(?))", (hidden,))
        connection.commit()
    vault.grant("t", ["a", "b"])
    return vault


def count(vault: Vault) -> int:
    return int(run(vault, "SELECT count(*) FROM t")[0][0])  # type: ignore[arg-type]


# --- memory

FEW = "(SELECT a AS i FROM t WHERE a <= 16)"
WIDE = "||".join(["x"] * 8)
SORTED = (
    f"SELECT x FROM (SELECT {WIDE} || p.i || q.i || r.i AS x FROM {FEW} p, {FEW} q, {FEW} r,"
    f" (SELECT '{'x' * 1000}' AS x))"
)
"""Texts of 8,000 characters, 4,096 of them."""


@pytest.mark.slow
def test_how_much_memory_a_query_has_tells_nothing_of_what_the_vault_holds(tmp_path: Path) -> None:
    vaults = {
        "small": vault_of(tmp_path / "small.db", 16),
        "much that is not granted": vault_of(tmp_path / "hidden.db", 16, hidden=30 << 20),
        "much that is granted": vault_of(tmp_path / "shared.db", 150_000),
    }
    for name, vault in vaults.items():
        enough = run(
            vault,
            f"SELECT count(*) FROM ({SORTED} WHERE 1 ORDER BY x LIMIT 400)",
            max_memory=8 << 20,
            deadline=20.0,
        )
        assert enough[0] == (400,), name
        with pytest.raises(TooMuchMemoryError):  # sorting takes 32 MB
            run(
                vault,
                f"SELECT count(*) FROM ({SORTED} ORDER BY x LIMIT 4000)",
                max_memory=8 << 20,
                deadline=20.0,
            )


@pytest.mark.slow
def test_a_copy_that_outgrows_the_process_that_made_it_gets_another_with_the_same_limits(
    tmp_path: Path,
) -> None:
    vault = vault_of(tmp_path / "ann.db", 16)
    assert count(vault) == 16
    first = sandbox_pool.sessions.kept[vault.path]._process
    with closing(sqlite3.connect(vault.path)) as connection, connection:
        connection.execute(
            f"INSERT INTO t {NUMBERS.format(200_000)} SELECT i + 16, 'place ' || i FROM n"
        )
    assert count(vault) == 200_016
    second = sandbox_pool.sessions.kept[vault.path]._process
    assert second is not first
    with pytest.raises(TooMuchMemoryError):
        run(
            vault,
            f"SELECT count(*) FROM ({SORTED} ORDER BY x LIMIT 4000)",
            max_memory=8 << 20,
            deadline=20.0,
        )
    with closing(sqlite3.connect(vault.path)) as connection, connection:
        connection.execute("DELETE FROM t WHERE a > 16")
    assert count(vault) == 16
    # whose limits had room for more
    assert sandbox_pool.sessions.kept[vault.path]._process is not second


def test_what_is_too_large_is_tried_once_and_answered_for_like_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = vault_of(tmp_path / "ann.db", 20_000)
    monkeypatch.setattr(sandbox_process, "LARGEST_COPY", 100_000)
    begun: list[object] = []
    real = sandbox_process.SandboxProcess.begin

    def begin(process: Any, shape: Any) -> None:
        begun.append(shape)
        real(process, shape)

    monkeypatch.setattr(sandbox_process.SandboxProcess, "begin", begin)
    for _ in range(3):
        assert answer(vault) == [NONE]
    assert len(begun) == 1
    with closing(sqlite3.connect(vault.path)) as connection, connection:
        connection.execute("DELETE FROM t WHERE a > 100")
    assert answer(vault) == [0]


# --- the owner's writes


def write(vault: Vault, key: int) -> None:
    """Change all rows at once, and add one, as a program that waits for nobody."""
    with closing(sqlite3.connect(vault.path, timeout=0.0)) as owner, owner:
        owner.execute("UPDATE t SET b = 'new'")
        owner.execute("INSERT INTO t VALUES (?, 'new')", (key,))


@pytest.mark.parametrize("kind", ["", "WITHOUT ROWID"])
def test_an_owner_can_write_while_a_large_vault_is_copied_and_the_copy_is_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    vault = vault_of(tmp_path / "ann.db", 60_000, kind=kind)
    real, advanced, locks = VaultCopy.advance, 0, []

    def advance(copying: VaultCopy, patience: float, until: float, take: Any) -> bool:
        nonlocal advanced
        locks.append(copying._lock)
        copying._lock = 0.0  # a chunk at a time, however quick the machine is
        over = real(copying, patience, until, take)
        advanced += 1
        if advanced in (2, 5):  # while it is copied, and again after the copy has begun anew
            write(vault, -advanced)
        return over

    monkeypatch.setattr(VaultCopy, "advance", advance)
    assert run(vault, "SELECT count(*), sum(b = 'new') FROM t")[0] == (60_002, 60_002)
    assert advanced > 10
    assert locks[0] == 0.25
    assert set(locks) == {0.25, 0.5, 1.0, 0.0}  # longer ones for an owner who writes often
    assert sandbox_pool.sessions.kept[vault.path]._lock == 0.25


def test_in_wal_mode_the_copy_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = vault_of(tmp_path / "ann.db", 20_000, mode="WAL")
    real, written = sandbox_process.SandboxProcess.add, 0

    def add(process: Any, table: int, rows: list[Any]) -> int:
        nonlocal written
        if not written:
            write(vault, -1)
        written += 1
        return real(process, table, rows)

    monkeypatch.setattr(sandbox_process.SandboxProcess, "add", add)
    assert run(vault, "SELECT count(*), sum(b = 'new') FROM t")[0] == (20_000, 0)
    assert run(vault, "SELECT count(*), sum(b = 'new') FROM t")[0] == (20_001, 20_001)
    assert written > 2


def test_every_row_is_copied_whatever_its_number_and_whatever_the_columns_are_called(
    tmp_path: Path,
) -> None:
    vault = Vault.create(tmp_path / "ann.db")
    layouts = {
        "usual": "(n INTEGER, place TEXT)",
        "named": "(rowid INTEGER, oid INTEGER, _rowid_ INTEGER, n INTEGER)",
        "key": "(n INTEGER PRIMARY KEY, place TEXT)",
        "partly": "(rowid TEXT, n INTEGER)",
    }
    numbers = [-(1 << 63), -5, 0, 7, *range(100, 1500), (1 << 63) - 2, (1 << 63) - 1]
    with closing(sqlite3.connect(vault.path)) as connection, connection:
        for table, columns in layouts.items():
            connection.execute(f"CREATE TABLE {table} {columns}")
            number = {"usual": "rowid", "named": None, "key": "n", "partly": "oid"}[table]
            if number in ("rowid", "oid"):
                connection.executemany(
                    f"INSERT INTO {table} ({number}, n) VALUES (?, ?)", [(i, i) for i in numbers]
                )
            else:
                connection.executemany(
                    f"INSERT INTO {table} (n) VALUES (?)", [(i,) for i in numbers]
                )
    for table in layouts:
        vault.grant(table, ["n"])
        assert [row[0] for row in run(vault, f"SELECT n FROM {table}", max_rows=5000)] == numbers


# --- in steps


def answer(vault: Vault, within: float = 30.0) -> list[int]:
    buckets = Buckets([Column("n", ["[1,1000)", "[1000,inf)"])])
    task = sandbox.SandboxTask("SELECT count(*) FROM t", buckets.plain, "aggregate", 1, 1)
    return sandbox.answer(
        vault, task, lambda n, _: list(range(n)), within=within, deadline=10.0
    ).buckets


def test_a_copy_that_takes_longer_than_there_is_time_rests_and_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = vault_of(tmp_path / "ann.db", 30_000)
    begun, real = 0, sandbox_process.SandboxProcess.begin

    def begin(process: Any, shape: Any) -> None:
        nonlocal begun
        begun += 1
        real(process, shape)

    monkeypatch.setattr(sandbox_process.SandboxProcess, "begin", begin)
    answers: list[list[int]] = []
    while not answers or (answers[-1] == [NONE] and len(answers) < 500):
        # no time for the copy, except for a chunk of it
        answers.append(answer(vault, within=10.0 + sandbox._SPARE))
    assert answers[-1] == [1]
    assert len(answers) > 5
    assert begun == 1
    write(vault, -1)
    assert answer(vault, within=10.0 + sandbox._SPARE) == [NONE]  # what has changed is copied again
    assert answer(vault) == [1]
