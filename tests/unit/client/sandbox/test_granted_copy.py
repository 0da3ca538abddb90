# ruff: noqa: S608 - SQL put together on purpose
"""What the sandbox's process is given: what is granted, as it is now, and nothing else."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from deniable.client import Vault, run
from deniable.client.sandbox import interface as sandbox
from deniable.client.sandbox import pool as sandbox_pool
from deniable.client.sandbox import process as sandbox_process
from deniable.client.sandbox.process import SandboxProcess
from deniable.errors import DeadlineError, NotGrantedError, SandboxError, TooMuchMemoryError
from deniable.randomness import seeded_source
from deniable.sql import guard
from toolkit.devices import asked, at, make_device, make_policy, queued, signed

SHARED, SECRET = "shared-7f3a", "secret-91bc"


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    vault = Vault.create(tmp_path / "ann.db")
    vault.import_rows(
        "t", {"a": "TEXT", "b": "TEXT"}, [(f"{SHARED}-{i}", f"{SECRET}-{i}") for i in range(50)]
    )
    vault.import_rows("diary", {"entry": "TEXT"}, [(f"{SECRET}-diary",)])
    vault.grant("t", ["a"])
    return vault


@contextmanager
def opened(vault: Vault) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(vault.path, isolation_level=None)) as connection:
        yield connection


def count(vault: Vault) -> int:
    return int(run(vault, "SELECT count(*) FROM t")[0][0])  # type: ignore[arg-type]


def process_of(vault: Vault) -> SandboxProcess:
    process = sandbox_pool.sessions.kept[vault.path]._process
    assert process is not None
    return process


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each time that a process is given rows or names."""
    seen: list[object] = []
    begin = SandboxProcess.begin

    def counted(self: SandboxProcess, shape: guard.Shape) -> None:
        seen.append(shape)
        begin(self, shape)

    monkeypatch.setattr(SandboxProcess, "begin", counted)
    return seen


# --- kept up to date


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_each_commit_of_somebody_else_is_in_the_next_answer_whatever_the_clock_says(
    vault: Vault, mode: str, loads: list[object]
) -> None:
    with opened(vault) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        assert count(vault) == 50
        times = vault.path.stat()
        for i in range(5):
            connection.execute("INSERT INTO t VALUES ('new', 'x')")
            # as two writes within one tick of a file's clock
            os.utime(vault.path, ns=(times.st_atime_ns, times.st_mtime_ns))
            assert count(vault) == 51 + i
        assert len(loads) == 6


def test_a_vault_that_does_not_change_is_copied_once(vault: Vault, loads: list[object]) -> None:
    for _ in range(10):
        assert count(vault) == 50
        sandbox.check(vault, "SELECT a FROM t")
    assert loads == [(("t", (("a", "TEXT"),)),)] * 2  # once with rows, once for what compiles


def test_what_is_rolled_back_is_never_in_an_answer(vault: Vault) -> None:
    with opened(vault) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN")
        connection.execute("DELETE FROM t")
        assert count(vault) == 50
        connection.execute("ROLLBACK")
    assert count(vault) == 50


def test_a_file_that_was_replaced_or_overwritten_is_read_anew(vault: Vault, tmp_path: Path) -> None:
    assert count(vault) == 50
    other = tmp_path / "other.db"
    shutil.copy(vault.path, other)
    with closing(sqlite3.connect(other, isolation_level=None)) as connection:
        connection.execute("DELETE FROM t WHERE a <> 'shared-7f3a-0'")
    shutil.copy(other, tmp_path / "third.db")
    other.replace(vault.path)  # a restored backup: another file under the same name
    assert count(vault) == 1
    # Written over in place: the same file, with SQLite's own counter of changes where it was.
    with closing(sqlite3.connect(tmp_path / "third.db", isolation_level=None)) as connection:
        connection.execute("INSERT INTO t VALUES ('x', 'y'), ('z', 'y')")
    body = bytearray((tmp_path / "third.db").read_bytes())
    before = vault.path.read_bytes()
    body[24:28], body[92:96] = before[24:28], before[92:96]
    time.sleep(0.02)  # a tick of the file's clock
    vault.path.write_bytes(body)
    assert count(vault) == 3


def test_a_change_of_what_is_granted_ends_the_process_that_held_it(vault: Vault) -> None:
    count(vault)
    held = process_of(vault)
    vault.import_rows("t", {"a": "TEXT", "b": "TEXT"}, [("x", "y")])
    assert count(vault) == 51
    assert process_of(vault) is held
    vault.grant("t", ["b"])
    assert len(run(vault, "SELECT b FROM t")) == 51
    assert process_of(vault) is not held
    assert not held.alive
    vault.withdraw("t", ["b"])
    for ask in (run, sandbox.check):
        with pytest.raises(NotGrantedError):
            ask(vault, "SELECT b FROM t")


# --- nothing else


def pid_of(vault: Vault) -> int:
    count(vault)
    return process_of(vault)._process.pid


@pytest.mark.skipif(sys.platform != "linux", reason="reads a process's memory under /proc")
def test_the_memory_of_the_process_holds_what_is_granted_and_nothing_that_is_not(
    vault: Vault,
) -> None:
    pid = pid_of(vault)
    held = b""
    with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            (first, last), rights = (
                (int(x, 16) for x in line.split()[0].split("-")),
                line.split()[1],
            )
            if rights.startswith("rw"):
                memory.seek(first)
                held += memory.read(last - first)
    assert SHARED.encode() in held
    assert SECRET.encode() not in held
    assert b"diary" not in held
    assert bytes(vault.path) not in held


@pytest.mark.skipif(sys.platform != "linux", reason="looks under /proc")
def test_the_process_has_its_pipes_and_no_other_descriptor_and_no_environment(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    with opened(vault):  # a descriptor that must not be handed on
        pid = pid_of(vault)
        places = {
            int(each.name): str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()
        }
    assert set(places) == {0, 1, 2}
    assert places[0].startswith("pipe:")
    assert places[2] == "/dev/null"
    assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
    assert str(vault.path) not in Path(f"/proc/{pid}/cmdline").read_text()


DECLARED = [
    *(
        "",
        "INT",
        "INTEGER",
        "TINYINT",
        "BIGINT UNSIGNED",
        "CHARACTER(20)",
        "VARCHAR(9)",
        "TEXT",
        "CLOB",
        "BLOB",
        "REAL",
        "DOUBLE",
    ),
    *(
        "FLOAT",
        "NUMERIC",
        "DECIMAL(10,5)",
        "BOOLEAN",
        "DATE",
        "STRING",
        "ANY",
        "FLOATING POINT",
        "CHARINT",
        "XYZ",
    ),
]
CELLS: list[object] = [
    None,
    0,
    1,
    -5,
    1.0,
    2.5,
    -0.0,
    1e300,
    2**53 + 1,
    -(1 << 63),
    "",
    "1",
    "1.0",
    "1e3",
    " 7",
    "x",
    "é",
    b"",
    b"\xff",
]


def test_cells_are_the_same_in_the_copy_whatever_their_columns_are_declared_as(
    tmp_path: Path,
) -> None:
    vault = Vault.create(tmp_path / "kinds.db")
    layouts = {"loose": DECLARED, "firm": ["ANY", "INT", "REAL", "TEXT", "BLOB"]}
    with opened(vault) as connection:
        connection.execute("BEGIN")
        for table, kinds in layouts.items():
            fields = ", ".join(f"c{i} {kind}" for i, kind in enumerate(kinds))
            connection.execute(
                f"CREATE TABLE {table} (secret TEXT, {fields})"
                f" {'STRICT' if table == 'firm' else ''}"
            )
            for i in range(len(kinds)):
                for cell in CELLS:
                    try:
                        connection.execute(f"INSERT INTO {table} (c{i}) VALUES (?)", (cell,))
                    except sqlite3.IntegrityError:
                        assert table == "firm"
        connection.execute("COMMIT")
        for table, kinds in layouts.items():
            vault.grant(table, [f"c{i}" for i in range(len(kinds))])
        for table, kinds in layouts.items():
            for i, kind in enumerate(kinds):
                # The type, the value as a number, and whether it equals a text and a number: the
                # affinity decides that.
                seen = f"typeof(c{i}), CAST(c{i} + 0 AS TEXT), c{i} = '1', c{i} = 1, length(c{i})"
                for what in (
                    f"{seen}, c{i} FROM {table} WHERE typeof(c{i}) <> 'blob'",
                    f"{seen} FROM {table}",
                ):
                    own = [
                        repr(row).replace("-0.0", "0.0")
                        for row in connection.execute(f"SELECT {what}")
                    ]
                    given = run(vault, f"SELECT {what}", isolated=False)
                    assert sorted(map(repr, given)) == sorted(own), (table, kind)


def test_a_declaration_that_names_what_must_not_be_copied_shares_nothing(vault: Vault) -> None:
    with opened(vault) as connection:
        connection.execute('CREATE TABLE odd ("" TEXT, made AS (b), b TEXT)')
        connection.execute("CREATE VIEW peek AS SELECT entry FROM diary")
        connection.execute("CREATE TABLE counted (n INTEGER PRIMARY KEY AUTOINCREMENT)")
        for table, column in (
            *(
                ("odd", ""),
                ("odd", "made"),
                ("peek", "entry"),
                ("sqlite_sequence", "seq"),
                ("sqlite_master", "sql"),
            ),
            *(("deniable_shared", "table_name"), ("t", "rowid"), ("nothing", "a"), ("", "")),
        ):
            connection.execute("INSERT INTO deniable_shared VALUES (?, ?)", (table, column))
    assert vault.grants() == {"t": ("a",)}
    assert count(vault) == 50


# --- too large, locked, failing: the answer changes, and nothing that shows


def test_what_is_too_large_to_be_copied_is_said_to_be(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place, name, value, error, said in (
        (sandbox_process, "LARGEST_COPY", 200, TooMuchMemoryError, "too large to be copied"),
        (sandbox, "_COPY_TIME", -1.0, DeadlineError, "could not be copied in the time"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(place, name, value)
            for _ in range(2):
                with pytest.raises(error, match=said):
                    count(vault)
        sandbox_pool.close_all()
        assert count(vault) == 50
        sandbox_pool.close_all()


FAILING: dict[str, tuple[str, dict[str, Any]]] = {
    "an overflow": ("SELECT CASE WHEN distance > 5 THEN abs(-9223372036854775807 - 1) ELSE 1 END FROM trips", {}),
    "a deadline": (
        "SELECT count(*) FROM trips a, trips b, trips c, trips d, trips e, trips f, trips g, trips h WHERE a.distance > 5",
        {"deadline": 0.1},
    ),
    "too many rows": ("SELECT a.distance FROM trips a, trips b, trips c", {"max_rows": 1000}),
    "too much memory": (
        f"SELECT a.distance FROM trips a, trips b, trips c, (SELECT '{'x' * 5000}' AS x)"
        " ORDER BY CASE WHEN a.distance > 5 THEN x || x || b.distance || c.distance END",
        {"max_rows": 10**6, "max_memory": 4 << 20, "deadline": 20.0},
    ),
    "a long cell": (f"SELECT CASE WHEN distance > 5 THEN {'||'.join(['x'] * 20)} END FROM trips, (SELECT '{'x' * 5000}' x)", {}),
    "a blob": ("SELECT CASE WHEN distance > 5 THEN x'00' ELSE 1 END FROM trips", {}),
    "the clock": ("SELECT CASE WHEN distance > 5 THEN date('now') ELSE 1 END FROM trips", {}),
    "a killed process": (
        f"SELECT CASE WHEN distance > 5 THEN length(trim({'||'.join(['x'] * 30)}, y || y || 'x')) ELSE 1 END"
        f" FROM trips, (SELECT '{'x' * 2000}' x, '{'b' * 2600}' y)",
        {"deadline": 0.1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("failure", FAILING)
def test_a_failure_that_depends_on_the_data_changes_nothing_that_shows(
    tmp_path: Path, failure: str
) -> None:
    sql, policy = FAILING[failure]
    looks = []
    for name, distances in (("fails", [50.0] * 40), ("does not", [1.0])):
        (tmp_path / name).mkdir()
        query = asked(sql=sql)
        device = make_device(
            tmp_path / name,
            query,
            distances,
            policy=make_policy(query, **policy),
            source=seeded_source(3),
        )
        steps: list[str] = []
        device._on_step = steps.append
        looks.append((device.answer(signed(query), at(0)), steps, queued(device)))
        caps: dict[str, Any] = {"deadline": 1.0, "max_rows": 1000, "max_memory": 32 << 20, **policy}
        if name == "fails":
            with pytest.raises(SandboxError):
                run(device.vault, sql, isolated=False, **caps)
        else:
            run(device.vault, sql, isolated=False, **caps)
    assert looks[0] == looks[1]
    assert looks[0][0].outcome == "answered"


def test_a_vault_that_is_locked_or_gone_after_the_coin_was_flipped_is_answered_for_like_any_other(
    tmp_path: Path,
) -> None:
    looks = []
    for name in ("readable", "locked", "gone"):
        (tmp_path / name).mkdir()
        query = asked()
        device = make_device(
            tmp_path / name, query, policy=make_policy(query, deadline=0.1), source=seeded_source(3)
        )
        steps: list[str] = []
        with opened(device.vault) as connection:

            def on_step(step: str) -> None:
                steps.append(step)  # noqa: B023 - called at once
                if step == "sampled" and name == "locked":  # noqa: B023
                    connection.execute("BEGIN EXCLUSIVE")
                if step == "sampled" and name == "gone":  # noqa: B023
                    device.vault.path.unlink()  # noqa: B023

            device._on_step = on_step
            looks.append((device.answer(signed(query), at(0)), steps, queued(device)))
    assert looks[0] == looks[1] == looks[2]
    assert looks[0][0].outcome == "answered"
