"""Every kind of SQLite file has one schema: no table is created elsewhere, and a migrated file is
like a new one. tests/vectors/schemas has the schemas of earlier versions, as they were released."""

from __future__ import annotations

import importlib
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import deniable
from deniable.service.files import row_checks
from deniable.service.files.schemas import FileSchema, transaction

SOURCE = Path(deniable.__file__).parent
EARLIER = sorted((Path(__file__).parents[3] / "vectors" / "schemas").glob("*.sql"))
NOT_OUR_FILES = {
    "sql/compile_main.py": "in memory",
    "sql/guard.py": "in memory",
    "reproduce/papers/lavengood_pairs.py": "in memory",
    "reproduce/papers/lavengood_tweets.py": "in memory",
    "analyst/history_sql.py": "in memory",
    "client/vaults/recording.py": "the owner's tables",
    "client/vaults/vault.py": "the owner's tables",
    "service/files/row_checks.py": "check sums, which each guarded file has",
    "service/files/schemas.py": "its own example",
}


def is_schema(path: Path) -> bool:
    return path.stem.endswith("schema") or path.parent.name == "schemas"


def kinds() -> dict[str, FileSchema]:
    found = {}
    for path in filter(is_schema, SOURCE.rglob("*.py")):
        name = ".".join(("deniable", *path.relative_to(SOURCE).with_suffix("").parts))
        for constant, value in vars(importlib.import_module(name)).items():
            if isinstance(value, FileSchema):
                found[constant.lower()] = value
    return found


KINDS = kinds()


def shape(connection: sqlite3.Connection) -> dict[str, Any]:
    """All that a schema says, however its statements are written."""
    found: dict[str, Any] = {}
    for _, name, kind, _, without_rowid, strict in connection.execute("PRAGMA table_list"):
        if kind != "table" or name.startswith("sqlite_"):
            continue
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", (name,)
        ).fetchone()
        indexes = sorted(
            (unique, origin, partial, connection.execute(f"PRAGMA index_xinfo({index})").fetchall())
            for _, index, unique, origin, partial in connection.execute(
                f"PRAGMA index_list({name})"
            )
        )
        columns = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
        found[name] = (without_rowid, strict, "AUTOINCREMENT" in sql, columns, indexes)
    triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
    return found | {"triggers": connection.execute(triggers).fetchall()}


def cut_off(kind: FileSchema, connection: sqlite3.Connection, path: Path) -> None:
    with transaction(connection):
        kind.bring_up_to_date(connection, path)
        raise KeyboardInterrupt


def test_tables_of_files_are_created_by_their_schemas_only() -> None:
    assert {"log", "tokens", "board", "enrolment", "bound_uses", "state", "store", "vault"} == set(
        KINDS
    )
    elsewhere = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if not is_schema(path) and re.search(r"CREATE\s+TABLE", path.read_text(), re.IGNORECASE)
    }
    assert elsewhere == set(NOT_OUR_FILES)


def test_every_kind_has_its_own_letters_and_numbered_migrations() -> None:
    letters = [kind.application_id for kind in KINDS.values()]
    assert len(set(letters)) == len(letters)
    for name, kind in KINDS.items():
        assert sorted(kind.migrations) == list(range(2, kind.version + 1)), name
    migrated = {name for name, kind in KINDS.items() if kind.migrations}
    assert migrated <= {path.stem.partition("-")[0] for path in EARLIER}


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_a_migrated_file_has_the_schema_of_a_new_one(path: Path, tmp_path: Path) -> None:
    kind = KINDS[path.stem.partition("-")[0]]
    found = []
    for name, script in (("old.db", path.read_text()), ("new.db", "")):
        with closing(sqlite3.connect(tmp_path / name)) as connection:
            connection.executescript(script)
        with closing(kind.connect(tmp_path / name)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (kind.version,)
            assert connection.execute("PRAGMA application_id").fetchone() == (kind.application_id,)
            found.append(shape(connection))
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert found[0] == found[1]


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_a_newer_release_or_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    kind, path = KINDS[name], tmp_path / "file.db"
    with closing(kind.connect(path)) as connection:
        assert set(kind.tables) <= {row[1] for row in connection.execute("PRAGMA table_list")}
        connection.execute(f"PRAGMA user_version = {kind.version + 1}")
    rule = rf"newer release \(schema {kind.version + 1}; this release reads up to {kind.version}\)"
    with pytest.raises(kind.error, match=rule):
        kind.connect(path)
    for other in KINDS.values():
        if other is not kind:
            with pytest.raises(other.error, match=f"is not {other.what}$"):
                other.connect(path)


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_a_migration_that_is_cut_off_leaves_the_file_as_it_was(path: Path, tmp_path: Path) -> None:
    kind, old = KINDS[path.stem.partition("-")[0]], tmp_path / "old.db"
    with closing(sqlite3.connect(old, isolation_level=None)) as connection:
        connection.executescript(path.read_text())
        before = list(connection.iterdump()), shape(connection)
        row_checks.prepare(connection)
        with pytest.raises(KeyboardInterrupt):
            cut_off(kind, connection, old)
        assert (list(connection.iterdump()), shape(connection)) == before
