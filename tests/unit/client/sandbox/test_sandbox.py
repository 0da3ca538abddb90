# ruff: noqa: S608 - SQL put together on purpose
"""The sandbox against SQL that means harm, and SQL that does not."""

from __future__ import annotations

import hashlib
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from deniable.client import SandboxRows, Vault, run
from deniable.client.sandbox import interface as sandbox
from deniable.client.sandbox import pool as sandbox_pool
from deniable.client.sandbox import process as sandbox_process
from deniable.errors import (
    BadSqlError,
    CellError,
    DeadlineError,
    DeniableError,
    ForbiddenSqlError,
    NotGrantedError,
    ParameterError,
    SandboxError,
    TooComplexError,
    TooManyRowsError,
    TooMuchMemoryError,
    VaultError,
)
from deniable.sql import guard
from toolkit.attacks.sql_texts import BENIGN, HOSTILE, QUOTED, STOPPED, build, links, nested

DEADLINE = 0.2
# seconds of processor time beyond the deadline, in which processes start: a bomb that nothing stops
# takes minutes
MARGIN = 2.0
MEMORY = 16 << 20
MAX_ROWS = 2_000


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vault, Vault]:
    folder = tmp_path_factory.mktemp("vaults")
    return build(folder / "one.db", 1), build(folder / "two.db", 2)


def outcome(
    vault: Vault, sql: str, **options: Any
) -> tuple[str, str | list[tuple[guard.Cell, ...]]]:
    try:
        rows = run(vault, sql, **options)
    except DeniableError as error:
        return type(error).__name__, str(error)
    return "rows", list(rows)


def processor_time() -> float:
    """Seconds that the sandbox's processes have used: those that have ended, and those that are
    kept."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    kept = [session._process for session in sandbox_pool.sessions.kept.values()] + [
        sandbox_pool._compiler._process
    ]
    if sys.platform != "linux":
        sandbox_pool.close_all()
        kept = []
    ticks = 0
    for process in kept:
        status = (
            Path(f"/proc/{process._process.pid}/stat") if process is not None else Path("/nowhere")
        )
        if status.exists():
            ticks += sum(map(int, status.read_text().rpartition(")")[2].split()[11:13]))
    return ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def folder_state(vault: Vault) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in vault.path.parent.iterdir()
    }


def test_the_list_is_long_and_names_each_attack_once() -> None:
    assert len({name for name, _, _ in HOSTILE}) == len(HOSTILE) >= 40
    assert len({sql for _, sql, _ in HOSTILE}) == len(HOSTILE)


@pytest.mark.parametrize("isolated", [False, True], ids=["taking turns", "isolated"])
@pytest.mark.parametrize(
    ("sql", "error"),
    [(sql, error) for _, sql, error in HOSTILE],
    ids=[name for name, _, _ in HOSTILE],
)
def test_hostile_sql_is_refused_in_time_and_leaves_no_trace(
    twins: tuple[Vault, Vault], sql: str, error: type[SandboxError], isolated: bool
) -> None:
    before = folder_state(twins[0])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = processor_time()
    with pytest.raises(SandboxError) as caught:
        run(
            twins[0],
            sql,
            deadline=DEADLINE,
            max_rows=MAX_ROWS,
            max_memory=MEMORY,
            isolated=isolated,
        )
    elapsed = processor_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory) * (
        1 if sys.platform == "darwin" else 1024
    )
    assert isinstance(caught.value, STOPPED if error in STOPPED else error), caught.value
    assert elapsed < DEADLINE + MARGIN
    assert grown < 2 * MEMORY
    assert folder_state(twins[0]) == before


@pytest.mark.parametrize(
    "sql", [sql for _, sql, _ in HOSTILE], ids=[name for name, _, _ in HOSTILE]
)
def test_nothing_undeclared_makes_a_difference(twins: tuple[Vault, Vault], sql: str) -> None:
    # The twins differ in all that is not granted: if no query can tell them apart, none reads what
    # is not granted.
    options: dict[str, Any] = {
        "deadline": DEADLINE / 4,
        "max_rows": MAX_ROWS,
        "max_memory": MEMORY,
        "isolated": False,
    }
    one, two = outcome(twins[0], sql, **options), outcome(twins[1], sql, **options)
    assert one == two or {one[0], two[0]} <= {each.__name__ for each in STOPPED}


@pytest.mark.parametrize("isolated", [False, True], ids=["taking turns", "isolated"])
@pytest.mark.parametrize(
    "name", [name for name, _, error in HOSTILE if error is TooMuchMemoryError]
)
def test_memory_is_capped_where_time_and_rows_are_not_short(
    twins: tuple[Vault, Vault], name: str, isolated: bool
) -> None:
    sql = next(sql for each, sql, _ in HOSTILE if each == name)
    with pytest.raises(TooMuchMemoryError, match=f"more than max_memory = {MEMORY} bytes"):
        run(twins[0], sql, deadline=60, max_rows=10**6, max_memory=MEMORY, isolated=isolated)


@pytest.mark.parametrize("sql", QUOTED)
def test_a_name_in_double_quotes_does_not_tell_whether_there_is_such_a_column(
    twins: tuple[Vault, Vault], sql: str
) -> None:
    # SQLite takes a quoted name that it does not find for a text. `hiv` and a column without a name
    # are in one twin alone.
    assert outcome(twins[0], sql) == outcome(twins[1], sql)


def test_the_twins_would_be_told_apart_without_the_sandbox(twins: tuple[Vault, Vault]) -> None:
    told = 0
    for sql in [*QUOTED, *(sql for _, sql, error in HOSTILE if error is NotGrantedError)]:
        answers = []
        for vault in twins:
            with closing(sqlite3.connect(vault.uri, uri=True)) as connection:
                try:
                    answers.append(str(connection.execute(sql).fetchall()))
                except sqlite3.Error as failure:
                    answers.append(str(failure))
        told += answers[0] != answers[1]
    assert told >= 25


@pytest.mark.parametrize("isolated", [False, True], ids=["taking turns", "isolated"])
@pytest.mark.parametrize(
    ("sql", "answer"),
    [(sql, answer) for _, sql, answer in BENIGN],
    ids=[name for name, _, _ in BENIGN],
)
def test_plain_sql_gives_the_right_answer_on_both_twins(
    twins: tuple[Vault, Vault], sql: str, answer: list[tuple[guard.Cell, ...]], isolated: bool
) -> None:
    for vault in twins:
        rows = run(vault, sql, isolated=isolated, deadline=20)
        assert [*map(repr, rows)] == [*map(repr, answer)]  # 1 and 1.0 are equal, and differ


def test_every_function_on_the_list_is_one_that_sqlite_has_and_can_be_called(
    twins: tuple[Vault, Vault],
) -> None:
    windows = {"dense_rank", "rank", "row_number", "lag", "lead", "first_value", "last_value"}
    two = {
        "glob",
        "ifnull",
        "instr",
        "like",
        "mod",
        "nullif",
        "pow",
        "power",
        "substr",
        "substring",
        "coalesce",
        "strftime",
    }
    for name in sorted(guard.FUNCTIONS | set(guard.CALENDAR)):
        arguments = (
            ""
            if name.endswith(("rank", "number"))
            else "1, 1, 1"
            if name == "iif"
            else "1, 1"
            if name in two
            else "1"
        )
        run(
            twins[0],
            f"SELECT {name}({arguments}){' OVER ()' if name in windows else ''}",
            isolated=False,
        )


def test_every_function_off_the_list_is_refused(twins: tuple[Vault, Vault]) -> None:
    connection = sqlite3.connect(":memory:")
    functions = {
        (name, max(n, 0))
        for name, n in connection.execute("SELECT name, narg FROM pragma_function_list")
    }
    modules = {row[0] for row in connection.execute("SELECT name FROM pragma_module_list")}
    pragmas = {
        f"pragma_{row[0]}" for row in connection.execute("SELECT name FROM pragma_pragma_list")
    }
    connection.close()
    others = {
        (name, n) for name, n in functions if name not in guard.FUNCTIONS | set(guard.CALENDAR)
    }
    assert len(others) > 50
    for name, n in others:
        with pytest.raises((ForbiddenSqlError, BadSqlError)):
            run(twins[0], f'SELECT "{name}"({", ".join(["1"] * n)})', isolated=False)
    assert len(modules | pragmas) > 20
    for name in modules | pragmas:
        with pytest.raises(SandboxError):
            run(twins[0], f"SELECT count(*) FROM {name}", isolated=False)
        # even under cover of a common table expression of the same name
        with pytest.raises(SandboxError):
            run(
                twins[0],
                f"SELECT (WITH {name} AS (SELECT 1) SELECT count(*) FROM {name}), (SELECT count(*)"
                f" FROM {name})",
                isolated=False,
            )


def test_the_page_lists_the_functions_that_are_allowed() -> None:
    page = " ".join(
        (Path(__file__).parents[4] / "docs" / "vault.md").read_text(encoding="utf-8").split()
    )
    assert f"`{' '.join(sorted(guard.FUNCTIONS))}`, and `{' '.join(guard.CALENDAR)}`" in page


def test_what_is_absent_and_what_is_withdrawn_sound_the_same(twins: tuple[Vault, Vault]) -> None:
    for there, absent in (("diary", "diarx"), ("people.salary", "people.salarx")):
        text = "SELECT count(*) FROM {}" if "." not in there else "SELECT {} FROM people"
        for ask in (run, sandbox.check):
            messages = []
            for name in (there, absent):
                with pytest.raises(NotGrantedError) as caught:
                    ask(twins[0], text.format(name))
                messages.append(str(caught.value))
            assert messages == [f"{there} is not granted", f"{absent} is not granted"]


def test_a_check_counts_columns_and_refuses_what_does_not_compile_and_nothing_else(
    twins: tuple[Vault, Vault],
) -> None:
    for sql, n_columns in (
        ("SELECT age FROM people", 1),
        ("SELECT * FROM people", 2),
        ("SELECT city, count(*), 3 FROM people GROUP BY city ORDER BY 2 LIMIT 0", 3),
        ("SELECT 1, 2 UNION SELECT 3, 4", 2),
        ("WITH a AS (SELECT age, 1 FROM people) SELECT count(*) OVER () FROM a", 1),
        ("SELECT abs(-9223372036854775807 - 1)", 1),  # fails when it runs, as data may make it fail
        (f"SELECT count(*) FROM {', '.join(['people'] * 20)}", 1),  # would never end
    ):
        for vault in twins:
            assert sandbox.check(vault, sql) == n_columns
    for name, sql, error in HOSTILE:
        # known when it runs: a word may come from a cell
        looks_at_the_clock = name.startswith(("the clock", "the time zone"))
        if error in (NotGrantedError, ForbiddenSqlError, BadSqlError) and not looks_at_the_clock:
            with pytest.raises((NotGrantedError, ForbiddenSqlError, BadSqlError)):
                sandbox.check(twins[0], sql)


def test_a_row_too_many_is_refused_and_not_cut(twins: tuple[Vault, Vault]) -> None:
    assert len(run(twins[0], "SELECT age FROM people", max_rows=5, isolated=False)) == 5
    with pytest.raises(TooManyRowsError, match="more than max_rows = 4"):
        run(twins[0], "SELECT age FROM people", max_rows=4, isolated=False)


def test_rows_know_their_columns_and_hide_their_cells(twins: tuple[Vault, Vault]) -> None:
    rows = run(twins[0], "SELECT age AS years, city FROM people WHERE age = 58", isolated=False)
    assert rows.columns == ("years", "city")
    assert rows[0] == (58, "Metz")
    assert rows[:1] == ((58, "Metz"),)
    assert isinstance(rows, SandboxRows)
    assert "58" not in f"{rows!r} {rows}"
    assert "Metz" not in f"{rows!r} {rows}"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[Vault, sqlite3.Connection]]:
    vault = Vault.create(tmp_path / "small vault?100%.db")
    connection = sqlite3.connect(vault.path, isolation_level=None)
    connection.execute("CREATE TABLE t (a, b, c)")
    vault.grant("t", ["a"])
    yield vault, connection
    connection.close()


@pytest.mark.parametrize("isolated", [False, True], ids=["taking turns", "isolated"])
def test_cells_that_are_no_answer_are_refused_without_being_shown(
    small: tuple[Vault, sqlite3.Connection], isolated: bool
) -> None:
    vault, connection = small
    for cell in (
        "CAST(x'6869ff68696464656e' AS TEXT)",
        "x'68696464656e'",
        f"'hidden{'x' * guard.LARGEST_CELL}'",
    ):
        connection.execute("DELETE FROM t")
        connection.execute(f"INSERT INTO t (a) VALUES ({cell})")
        with pytest.raises(CellError) as caught:
            run(vault, "SELECT a FROM t", isolated=isolated)
        assert "hi" not in str(caught.value).replace("this", "")
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__
        assert run(vault, "SELECT count(*) FROM t", isolated=isolated)[0] == (1,)


@pytest.mark.parametrize("isolated", [False, True], ids=["taking turns", "isolated"])
@pytest.mark.parametrize(
    "words", ["too many", "one statement at a time", "no such table: ", "stack overflow"]
)
def test_sql_cannot_make_an_error_quote_a_cell(
    twins: tuple[Vault, Vault], words: str, isolated: bool
) -> None:
    sql = f"SELECT CAST(x'ff' AS TEXT) || '{words}' || city AS \"{words}\" FROM people"
    with pytest.raises(SandboxError) as caught:
        run(twins[0], sql, isolated=isolated)
    assert "Lyon" not in str(caught.value)


def test_shares_end_when_something_else_takes_the_tables_place(
    small: tuple[Vault, sqlite3.Connection],
) -> None:
    vault, connection = small
    connection.execute("INSERT INTO t VALUES (1, 2, 3)")
    replacements = [
        ("CREATE VIEW t AS SELECT b AS a FROM old", "DROP VIEW t"),
        ("CREATE VIRTUAL TABLE t USING fts5(a)", "DROP TABLE t"),
        ("CREATE TABLE t (b, a AS (b + 1))", "DROP TABLE t"),
        ("CREATE TABLE t (b)", "DROP TABLE t"),
    ]
    connection.execute("ALTER TABLE t RENAME TO old")
    for make, drop in replacements:
        connection.execute(make)
        with pytest.raises((NotGrantedError, ForbiddenSqlError)):
            run(vault, "SELECT a FROM t", isolated=False)
        assert vault.grants() == {}
        connection.execute(drop)
    connection.execute("ALTER TABLE old RENAME TO t")
    assert run(vault, "SELECT a FROM t", isolated=False)[0] == (1,)


def test_rows_never_come_in_the_order_of_a_withheld_column_or_of_the_row_numbers(
    small: tuple[Vault, sqlite3.Connection],
) -> None:
    vault, connection = small
    cells = [3, None, "x", 1.0, 1, b"b", -2.5, "", 0.0, -0.0, 1 << 60, "X"]
    orders = []
    for b in (1, -1):
        connection.execute("DELETE FROM t")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, 0)", [(cell, b * i) for i, cell in enumerate(cells[::b])]
        )
        for index in ("t (b, a)", "t (a, b)", "t (a DESC) WHERE b <> 0", "t (a + b)"):
            connection.execute(f"CREATE INDEX i ON {index}")
            texts = run(vault, "SELECT typeof(a), CAST(a AS TEXT) FROM t", isolated=False)
            reals = run(vault, "SELECT a FROM t WHERE typeof(a) = 'real'", isolated=False)
            orders.append(str([*texts, *reals]))
            connection.execute("DROP INDEX i")
    assert len(set(orders)) == 1
    sizes = [
        row[0]
        for row in run(
            vault, "SELECT a FROM t WHERE typeof(a) IN ('integer', 'real')", isolated=False
        )
    ]
    assert sizes == sorted(cell for cell in cells if isinstance(cell, int | float))


def test_what_is_withdrawn_is_refused_from_the_next_query_on(
    small: tuple[Vault, sqlite3.Connection],
) -> None:
    vault, _ = small
    run(vault, "SELECT a FROM t", isolated=False)
    vault.withdraw("t", ["a"])
    with pytest.raises(NotGrantedError):
        run(vault, "SELECT a FROM t", isolated=False)
    with pytest.raises(NotGrantedError):
        run(vault, "SELECT count(*) FROM t", isolated=False)


def test_a_vault_that_is_being_written_is_waited_for_and_then_given_up(
    small: tuple[Vault, sqlite3.Connection],
) -> None:
    vault, connection = small
    connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(VaultError, match="SQLITE_BUSY"):
        run(vault, "SELECT a FROM t", deadline=0.1, isolated=False)
    connection.execute("COMMIT")
    assert len(run(vault, "SELECT a FROM t", isolated=False)) == 0


def test_a_file_that_is_no_vault_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"x" * 5000)
    for name in ("noise", "absent"):
        with pytest.raises(VaultError, match="cannot be read"):
            run(Vault(tmp_path / name), "SELECT 1", isolated=False)
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    "caps",
    [
        {"deadline": 0},
        {"deadline": float("nan")},
        {"deadline": True},
        {"deadline": 1e9},
        {"max_rows": 0},
        {"max_rows": 1.5},
        {"max_memory": 1000},
    ],
    ids=str,
)
def test_caps_that_make_no_sense_are_refused(
    twins: tuple[Vault, Vault], caps: dict[str, Any]
) -> None:
    with pytest.raises(ParameterError, match=next(iter(caps))):
        run(twins[0], "SELECT 1", **caps)


def boot(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the next processes of the sandbox run other code once they have said what holds them."""
    monkeypatch.setattr(
        sandbox_process,
        "_BOOT",
        "import json, sys\n"
        "def say(**what):\n"
        "    body = json.dumps(what).encode()\n"
        "    sys.stdout.buffer.write(len(body).to_bytes(8, 'little') + body)\n"
        "    sys.stdout.flush()\n"
        "def sealed():\n"
        "    say(sealed=True, small=True)\n"
        f"say(walls={{}})\n{code}",
    )
    sandbox_pool.close_all()


@pytest.fixture
def strange(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    sandbox_pool.close_all()


def test_a_process_that_does_not_answer_is_killed(
    twins: tuple[Vault, Vault], strange: pytest.MonkeyPatch
) -> None:
    boot(strange, "sealed()\nimport time; time.sleep(60)")
    strange.setattr(sandbox_process, "_START_UP", 1.0)
    start = time.monotonic()
    with pytest.raises(DeadlineError, match=r"deadline of 0\.1 s"):
        run(twins[0], "SELECT 1", deadline=0.1)
    assert time.monotonic() - start < 2 * MARGIN


@pytest.mark.parametrize(
    "code",
    [
        "sealed()\nraise SystemExit(3)",
        "sealed()\nsys.stdout.buffer.write(b'x' * 8); sys.stdout.flush()",  # a frame of 8 exabytes
        "sealed()\nsys.stdout.buffer.write(bytes([1] + [0] * 7) + b'{'); sys.stdout.flush()",
        "sealed()\nsay(columns=['a'], rows=[[[1]]])",
        "sealed()\nsay(columns=['a'], rows=[[1, 2]])",
        "sealed()\nsay(columns=['a'], rows=[[True]])",
        "sealed()\nsay(columns=['a'], rows=[[1 << 63]])",
        "sealed()\nsay(columns='a', rows=[])",
        "sealed()\nsay(rows=7)",
        "sealed()\nsay(reason='unheard of', detail='x')",
    ],
)
def test_a_process_that_breaks_or_was_taken_over_is_an_error_of_the_tree(
    twins: tuple[Vault, Vault], strange: pytest.MonkeyPatch, code: str
) -> None:
    boot(strange, f"{code}\nsys.stdin.buffer.read()")
    with pytest.raises(SandboxError):
        run(twins[0], "SELECT 1")
    strange.undo()
    assert run(twins[0], "SELECT 1")[0] == (1,)  # in a new process


def test_a_machine_that_cannot_start_a_process_is_an_error_of_the_tree(
    twins: tuple[Vault, Vault], strange: pytest.MonkeyPatch
) -> None:
    sandbox_pool.close_all()
    strange.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(SandboxError, match="cannot be started: No such file"):
        run(twins[0], "SELECT 1")


@pytest.mark.parametrize(
    "body", ["SELECT 1 AS v FROM {} x, {} y", "SELECT count(*) AS v FROM {} x, {} y"]
)
def test_what_sqlite_does_before_it_calls_back_is_bounded(
    twins: tuple[Vault, Vault], body: str
) -> None:
    # SQLite copies 2**26 subqueries before it runs anything, and asks nobody.
    for ask in (sandbox.check, run):
        start = processor_time()
        with pytest.raises(STOPPED):
            ask(twins[0], links(26, body), deadline=DEADLINE, max_memory=MEMORY)
        assert processor_time() - start < MARGIN + DEADLINE


def test_a_query_that_ends_its_process_does_not_end_the_next_one(
    twins: tuple[Vault, Vault],
) -> None:
    bomb = next(sql for name, sql, _ in HOSTILE if name == "trim, quadratic")
    for _ in range(2):
        with pytest.raises(DeadlineError):
            run(twins[0], bomb, deadline=DEADLINE)
        assert run(twins[0], "SELECT count(*) FROM people")[0] == (5,)


def test_growth_is_stopped_by_what_it_costs_and_not_by_how_it_is_spelled(
    twins: tuple[Vault, Vault],
) -> None:
    spellings = ["v", "[v]", "V", '"v"', "`V`", "/**/v", "\ufeffv", "+v", "(v)"]
    for spelling in spellings:
        start = processor_time()
        with pytest.raises((*STOPPED, TooComplexError)):
            run(
                twins[0], nested(12, "+".join([spelling] * 8)), deadline=DEADLINE, max_memory=MEMORY
            )
        assert processor_time() - start < MARGIN + DEADLINE


@pytest.mark.parametrize("isolated", [False, True], ids=["taking turns", "isolated"])
def test_slow_functions_are_stopped_between_two_calls_of_the_progress_handler(
    small: tuple[Vault, sqlite3.Connection], isolated: bool
) -> None:
    # A hundred searches of a long text in a longer one are fewer instructions than SQLite runs
    # between two calls.
    vault, connection = small
    connection.execute("INSERT INTO t (a) VALUES (?), (?)", ("a" * 65_000, "a" * 32_000 + "b"))
    searches = ", ".join(["instr(x.a, y.a) + instr(x.a, y.a)"] * 60)
    start = processor_time()
    with pytest.raises(DeadlineError):
        run(
            vault,
            f"SELECT {searches} FROM t x, t y WHERE x.a < y.a",
            deadline=DEADLINE,
            isolated=isolated,
        )
    assert processor_time() - start < DEADLINE + MARGIN
