from __future__ import annotations

import datetime
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.client import TableInfo, Vault, run
from deniable.client.vaults.file_schema import VAULT
from deniable.errors import ImportDataError, MissingExtraError, VaultError

SECRET = "swordfish"  # noqa: S105 - a cell that no message may show


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault.create(tmp_path / "ann.db")


def contents(vault: Vault, table: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(vault.path)
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a test's own table
    connection.close()
    return rows


def execute(vault: Vault, sql: str) -> None:
    connection = sqlite3.connect(vault.path, isolation_level=None)
    connection.execute(sql)
    connection.close()


def csv_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "data.csv"
    path.write_bytes(text.encode())
    return path


def test_a_new_vault_is_empty_and_its_owners_alone(vault: Vault) -> None:
    assert vault.tables() == []
    assert vault.grants() == {}
    assert vault.path.stat().st_mode & 0o777 == 0o600
    assert Vault.open(vault.path) == vault


def test_a_vault_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = Vault.create(tmp_path / "open.db").path
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_never_made_again(vault: Vault, tmp_path: Path) -> None:
    before = vault.path.read_bytes()
    with pytest.raises(VaultError, match="exists already"):
        Vault.create(vault.path)
    assert vault.path.read_bytes() == before
    with pytest.raises(VaultError, match="cannot be created: No such file or directory"):
        Vault.create(tmp_path / "no" / "folder.db")


def test_a_vault_others_can_open_is_refused(vault: Vault) -> None:
    for mode in (0o640, 0o604, 0o620):
        vault.path.chmod(mode)
        with pytest.raises(VaultError, match=f"has mode 0{mode:o}"):
            Vault.open(vault.path)


def test_a_file_that_is_no_vault_is_refused(tmp_path: Path) -> None:
    plain = tmp_path / "plain.db"
    connection = sqlite3.connect(plain)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    noise = tmp_path / "noise.db"
    noise.write_bytes(b"no database" * 1000)
    for path, words in (
        (plain, "is not a vault"),
        (noise, "SQLITE_NOTADB"),
        (tmp_path / "absent.db", "No such file"),
    ):
        if path.exists():
            path.chmod(0o600)
        with pytest.raises(VaultError, match=words):
            Vault.open(path)
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.parametrize("version", [VAULT.version + 1, 99])
def test_a_vault_of_a_newer_release_is_refused(vault: Vault, version: int) -> None:
    execute(vault, f"PRAGMA user_version = {version}")
    with pytest.raises(VaultError, match=rf"by a newer release \(schema {version};"):
        Vault.open(vault.path)
    execute(vault, "PRAGMA user_version = 0")
    with pytest.raises(VaultError, match="is not a vault"):
        Vault.open(vault.path)


def test_a_vault_of_the_first_version_is_brought_up_to_date_by_whoever_uses_it(
    vault: Vault,
) -> None:
    for use in (
        lambda: Vault.open(vault.path),
        lambda: Vault(vault.path).record("rides", {"km": 1}),
        lambda: Vault(vault.path).forget(),
    ):
        execute(vault, "DROP TABLE deniable_keeping")
        execute(vault, "PRAGMA user_version = 1")
        use()
        assert contents(vault, "deniable_keeping") == []
        assert Vault.open(vault.path).grants() == {}


def test_a_vault_left_by_a_crash_in_mid_write_is_as_before(vault: Vault) -> None:
    vault.import_rows("t", {"a": "INTEGER"}, [(1,)])
    # SIGKILL while a transaction's pages are in the file already: only the journal knows what stood
    # there.
    code = (
        "import os, signal, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA cache_size = 2'); c.execute('BEGIN')\n"
        "c.executemany('INSERT INTO t VALUES (?)', [(i,) for i in range(100000)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(vault.path)], check=False)  # noqa: S603 - our own code
    assert vault.path.with_name("ann.db-journal").exists()
    Vault.open(vault.path).grant("t", ["a"])
    assert list(run(vault, "SELECT a FROM t", isolated=False)) == [(1,)]


def test_rows_come_back_as_they_went_in(vault: Vault) -> None:
    rows = [
        (1, 2.5, "x"),
        (-(1 << 63), 3, "é ' \" ;"),
        (None, None, None),
        ((1 << 63) - 1, float("inf"), ""),
    ]
    assert vault.import_rows("t", {"i": "INTEGER", "r": "REAL", "x": "TEXT"}, rows) == 4
    assert vault.import_rows("T", {"R": "REAL", "x": "TEXT", "i": "INTEGER"}, [(0.5, "y", 7)]) == 1
    assert contents(vault, "t") == [*rows, (7, 0.5, "y")]
    assert vault.tables() == [TableInfo("t", 5, (), ("i", "r", "x"))]


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("INTEGER", SECRET),
        ("INTEGER", 1.5),
        ("INTEGER", True),
        ("INTEGER", 1 << 63),
        ("REAL", SECRET),
        ("REAL", float("nan")),
        ("TEXT", 5),
        ("TEXT", SECRET + "\0"),
        ("TEXT", SECRET.encode()),
    ],
)
def test_a_cell_of_the_wrong_kind_is_refused_unseen_and_nothing_is_kept(
    vault: Vault, kind: str, cell: object
) -> None:
    good = {"INTEGER": 1, "REAL": 1.0, "TEXT": "x"}[kind]
    with pytest.raises(
        ImportDataError, match=f"row 2, column 'a': the cell is not {kind}"
    ) as caught:
        vault.import_rows("t", {"a": kind}, [(good,), (cell,)])
    assert SECRET not in str(caught.value)
    assert vault.tables() == []


def test_a_row_of_another_length_is_refused(vault: Vault) -> None:
    with pytest.raises(ImportDataError, match="row 1 has 1 cells, and there are 2 columns"):
        vault.import_rows("t", {"a": "TEXT", "b": "TEXT"}, [("x",)])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "1a",
        "a b",
        'a"b',
        "a;b",
        "a" * 64,
        "é",
        "rowid",
        "OID",
        "_rowid_",
        "sqlite_x",
        "pragma_x",
        "deniable_x",
    ],
)
def test_a_name_that_is_not_safe_is_refused_for_tables_and_columns(vault: Vault, name: str) -> None:
    with pytest.raises(VaultError, match="table"):
        vault.import_rows(name, {"a": "TEXT"}, [])
    with pytest.raises(VaultError, match="column"):
        vault.import_rows("t", {name: "TEXT"}, [])
    assert vault.tables() == []


def test_a_table_keeps_its_columns(vault: Vault) -> None:
    vault.import_rows("t", {"a": "INTEGER", "b": "TEXT"}, [(1, "x")])
    for columns, words in (
        ({"a": "INTEGER"}, "differ in their columns: b"),
        ({"a": "INTEGER", "b": "TEXT", "c": "TEXT"}, "differ in their columns: c"),
        ({"a": "REAL", "b": "TEXT"}, "column 'a' of t is INTEGER, not REAL"),
        ({"a": "BLOB", "b": "TEXT"}, "the kinds are INTEGER, REAL, TEXT"),
        ({}, "at least one name"),
        ({"a": "INTEGER", "A": "INTEGER"}, "a name twice"),
    ):
        with pytest.raises(VaultError, match=words):
            vault.import_rows("t", columns, [])


def test_shares_grow_and_shrink_by_column(vault: Vault) -> None:
    vault.import_rows("Rides", {"km": "REAL", "City": "TEXT", "fare": "REAL"}, [])
    vault.grant("rides", ["CITY"])
    vault.grant("Rides", ["km", "city"])
    assert vault.grants() == {"Rides": ("km", "City")}
    vault.withdraw("RIDES", ["KM"])
    assert vault.grants() == {"Rides": ("City",)}
    vault.withdraw("rides")
    assert vault.grants() == {}
    assert Vault.open(vault.path).tables() == [TableInfo("Rides", 0, (), ("km", "City", "fare"))]


def test_what_cannot_be_shared_is_refused_and_nothing_changes(vault: Vault) -> None:
    vault.import_rows("t", {"a": "INTEGER", "b": "TEXT"}, [])
    vault.grant("t", ["a"])
    execute(vault, "CREATE VIEW v AS SELECT b FROM t")
    execute(vault, "CREATE VIRTUAL TABLE f USING fts5(x)")
    execute(vault, "CREATE TABLE g (x, y AS (x + 1), z AS (x + 2) STORED, 'odd name')")
    for table, columns, words in (
        ("t", ["b", "nothing"], "column 'nothing' is not an ordinary column of t"),
        ("t", ["rowid"], "column 'rowid'"),
        ("t", [], "at least one name"),
        ("t", "b", "must be a list"),
        ("t", ["b", "B"], "a name twice"),
        ("nothing", ["a"], "no ordinary table 'nothing'"),
        ("v", ["b"], "no ordinary table 'v'"),
        ("f", ["x"], "no ordinary table 'f'"),
        ("g", ["y"], "column 'y' is not an ordinary column"),
        ("g", ["z"], "column 'z' is not an ordinary column"),
        ("g", ["odd name"], "column 'odd name' must be a name"),
        ("deniable_shared", ["table_name"], "no ordinary table"),
        ("sqlite_master", ["sql"], "no ordinary table"),
    ):
        with pytest.raises(VaultError, match=words):
            vault.grant(table, columns)
        assert vault.grants() == {"t": ("a",)}
    for table, withheld, words in (
        ("t", ["a", "b"], "column 'b' of t is not granted"),
        ("g", None, "nothing of table 'g' is granted"),
    ):
        with pytest.raises(VaultError, match=words):
            vault.withdraw(table, withheld)
        assert vault.grants() == {"t": ("a",)}


def test_csv_kinds_are_read_off_the_whole_file(vault: Vault, tmp_path: Path) -> None:
    text = (
        "whole,real,postcode,mixed,empty,huge,code,odd,dot,exp\r\n"
        "1,1.5,06000,1,,9223372036854775807,9223372036854775808,e5,.5,1e3\r\n"
        '-20,2,69001,"x, ""y""",,1,1.5,-,-.5,2E-2\r\n,,,,,,,,,\r\n'
    )
    assert vault.import_csv("t", csv_file(tmp_path, "\ufeff" + text)) == 3
    assert contents(vault, "t") == [
        (1, 1.5, "06000", "1", None, 9223372036854775807, "9223372036854775808", "e5", 0.5, 1000.0),
        (-20, 2.0, "69001", 'x, "y"', None, 1, "1.5", "-", -0.5, 0.02),
        (None,) * 10,
    ]


def test_csv_rows_added_later_keep_the_tables_kinds(vault: Vault, tmp_path: Path) -> None:
    vault.import_csv("t", csv_file(tmp_path, "a,b\n1,x\n"))
    vault.import_csv("t", csv_file(tmp_path, "B,A\n5,2\n"))
    assert contents(vault, "t") == [(1, "x"), (2, "5")]
    with pytest.raises(
        ImportDataError, match="row 2, column 'a': the cell is not INTEGER"
    ) as caught:
        vault.import_csv("t", csv_file(tmp_path, f"a,b\n3,z\n{SECRET},z\n"))
    assert SECRET not in str(caught.value)
    assert len(contents(vault, "t")) == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,a\n1,2\n", "a column twice"),
        ("a,b\n1\n", "row 1 has 1 cells"),
        ("a\n1\n2,3\n", "row 2 has 2 cells"),
        ('a\n"open\n', "not a CSV file"),
        ("Start Time\n1\n", "column 'Start Time' must be a name"),
    ],
)
def test_a_csv_file_that_is_not_right_is_refused_whole(
    vault: Vault, tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(VaultError, match=words):
        vault.import_csv("t", csv_file(tmp_path, text))
    assert vault.tables() == []


def test_a_file_that_cannot_be_read_is_refused(vault: Vault, tmp_path: Path) -> None:
    latin = tmp_path / "latin.csv"
    latin.write_bytes(b"a\ncaf\xe9\n")
    with pytest.raises(ImportDataError, match="not UTF-8") as caught:
        vault.import_csv("t", latin)
    assert "caf" not in str(caught.value)
    for read in (vault.import_csv, vault.import_parquet):
        with pytest.raises(ImportDataError, match="No such file"):
            read("t", tmp_path / "absent")
    with pytest.raises(ImportDataError, match="not a Parquet file"):
        vault.import_parquet("t", latin)
    assert vault.tables() == []


def test_parquet_columns_become_sqlite_kinds(vault: Vault, tmp_path: Path) -> None:
    day = datetime.date(2026, 3, 1)
    moment = datetime.datetime(2026, 3, 1, 8, 15)
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int16()),
            "r": pa.array([0.5, float("nan")]),
            "x": ["a", None],
            "flag": [True, False],
            "day": [day, None],
            "at": [moment, None],
            "code": pa.array(["u", "v"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "data.parquet")
    assert vault.import_parquet("t", tmp_path / "data.parquet") == 2
    assert contents(vault, "t") == [
        (1, 0.5, "a", 1, "2026-03-01", "2026-03-01T08:15:00", "u"),
        (None, None, None, 0, None, None, "v"),
    ]
    pq.write_table(pa.table({"list": [[1]]}), tmp_path / "list.parquet")
    with pytest.raises(ImportDataError, match="column 'list' is of type list"):
        vault.import_parquet("u", tmp_path / "list.parquet")


def test_parquet_without_its_extra_says_what_to_install(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"deniable\[frames\]"):
        vault.import_parquet("t", "data.parquet")
