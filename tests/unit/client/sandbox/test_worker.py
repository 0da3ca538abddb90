# ruff: noqa: S608 - SQL put together on purpose
"""One place where data may be touched: a confined process that gives one answer of fixed size."""

from __future__ import annotations

import ast
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import deniable
from deniable.client import Vault, run
from deniable.client.encoding import no_answer
from deniable.client.payment import scope_of
from deniable.client.permanent_answers import PermanentAnswers
from deniable.client.sandbox import answer as sandbox_answer
from deniable.client.sandbox import interface as sandbox
from deniable.client.sandbox import pool as sandbox_pool
from deniable.client.sandbox import process as sandbox_process
from deniable.client.sandbox import worker as sandbox_main
from deniable.client.sandbox.answer import FREE, name_of
from deniable.client.sandbox.process import SandboxProcess
from deniable.errors import ParameterError, QueryFileError
from deniable.queries.buckets import Buckets
from deniable.queries.columns.bucket_index import NONE, BucketIndex
from deniable.queries.columns.column import Column
from deniable.queries.files import parse_query
from deniable.queries.header import SEPARATOR
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.queries.validation import MOST_PATTERN_STEPS
from deniable.randomness import seeded_source
from deniable.sql import guard
from toolkit.devices import KEY, asked, at, make_device, make_policy, queued, signed

SOURCE = Path(deniable.__file__).parent


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    sandbox_pool.close_all()
    yield
    sandbox_pool.close_all()


def first(n: int, most: int) -> list[int]:
    return list(range(min(n, most)))


def task_of(
    query: Query, seats: Sequence[tuple[bytes, int]] = ((bytes(32), FREE),)
) -> sandbox.SandboxTask:
    memo = (
        b"scope",
        b"secret" * 4,
        no_answer(query),
        query.distinct,
        (tuple(seats),) * query.most_rows,
    )
    given = query.sql, query.buckets.plain, query.rows, query.most_rows, query.ones
    return sandbox.SandboxTask(*given, memo if query.memoize else None)


def found_by(vault: Vault, query: Query, **options: Any) -> sandbox.SandboxAnswer:
    return sandbox.answer(
        vault, task_of(query), first, **{"within": 30.0, "deadline": 5.0, **options}
    )


def buckets_of(vault: Vault, query: Query, **options: Any) -> list[int]:
    return found_by(vault, query, **options).buckets


# --- all of it happens there

USUAL = [Column("distance", [f"[{i},{i + 1})" for i in range(10)], other=True)]
AGES = [Column("distance", ["[0,inf)", "[2,inf)", "[4,inf)"], overlapping=True)]
KINDS: dict[str, dict[str, Any]] = {
    "random": {"columns": USUAL},
    "aggregate": {"columns": USUAL, "rows": "aggregate"},
    "several": {"columns": USUAL, "rows": "several", "most_rows": 3},
    "memoized": {"columns": USUAL, "memoize": True},
    "several ones": {"columns": AGES, "ones": 2},
    "several ones of all rows": {"columns": AGES, "ones": 2, "rows": "all"},
    "several, memoized": {"columns": USUAL, "rows": "several", "most_rows": 3, "memoize": True},
    "several ones, memoized": {"columns": AGES, "ones": 2, "memoize": True},
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_chosen_and_put_into_buckets_in_the_process_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    query = asked(mechanism={"name": "OptimizedUnary", "epsilon": 1.0}, **KINDS[kind])
    device = make_device(
        tmp_path, query, [4.5] if kind == "aggregate" else [4.5, 4.25], source=seeded_source(1)
    )

    def touched(*_: Any) -> Any:
        raise AssertionError("data were touched outside")

    for name in ("index", "indices", "index_many"):
        for place in (Buckets, Column):
            if hasattr(place, name):
                monkeypatch.setattr(place, name, touched)
    monkeypatch.setattr(sandbox, "run", touched)
    found = device._found(query, None, 0)
    if query.memoize:
        with device.store.transaction() as transaction:
            found = device._found(query, PermanentAnswers.of(transaction, query), 0)
    if query.ones > 1:
        assert set(found.buckets) < {0, 1, 2}
    else:
        nobody = no_answer(query) if query.memoize else NONE
        assert found.buckets == [4, 4, nobody][: query.most_rows]


DATA: dict[str, tuple[str, list[float | None]]] = {
    "no row": ("SELECT distance FROM trips", []),
    "one row": ("SELECT distance FROM trips", [1.5]),
    "many rows": ("SELECT distance FROM trips", [i / 7 for i in range(900)]),
    "too many rows": ("SELECT a.distance FROM trips a, trips b", [1.5] * 200),
    "a row in no bucket": ("SELECT distance FROM trips", [-5.0]),
    "a failure": ("SELECT abs(-9223372036854775807 - 1) FROM trips", [1.5]),
    "another number of columns": ("SELECT distance, 1 FROM trips", [1.5]),
    "a long text": (f"SELECT '{'x' * 4096}' FROM trips", [1.5]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_out_has_the_same_number_and_size_of_frames_whatever_the_data_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    sizes: list[int | None] = []
    real = sandbox_main.read_frame

    def read_frame(*arguments: Any) -> bytes | None:
        body = real(*arguments)
        sizes.append(None if body is None else len(body))
        return body

    seen, answers = set(), set()
    for i, (sql, distances) in enumerate(DATA.values()):
        (tmp_path / str(i)).mkdir()
        query = asked(
            mechanism={"name": "OptimizedUnary", "epsilon": 1.0}, **{**KINDS[kind], "sql": sql}
        )
        vault = make_device(tmp_path / str(i), query, distances).vault
        run(vault, "SELECT 1")  # the copy is there
        with monkeypatch.context() as patched:
            patched.setattr(sandbox_main, "read_frame", read_frame)
            answers.add(str(found_by(vault, query, max_rows=1000)[:]))
        seen.add(tuple(sizes))
        sizes.clear()
    assert len(answers) > 1
    assert len(seen) == 1, seen
    assert None not in seen.pop()


def test_a_process_that_asks_for_impossible_draws_or_buckets_is_ended_and_nothing_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = asked(columns=USUAL, mechanism={"name": "OptimizedUnary", "epsilon": 1.0})
    vault = make_device(tmp_path, query).vault
    for i, frames in enumerate(
        (
            [(1 << 60).to_bytes(8, "little")],
            [bytes(8), (99).to_bytes(4, "little")],
            [bytes(8), b""],
            [b"x"],
        )
    ):
        assert buckets_of(vault, query) == [3]
        with monkeypatch.context() as patched:
            said = iter(frames)
            patched.setattr(sandbox_main, "read_frame", lambda *_: next(said))  # noqa: B023 - called at once
            assert buckets_of(vault, query) == [NONE], i
    assert buckets_of(vault, query) == [3]


def test_permanent_answers_are_looked_up_in_the_process_and_an_answer_given_before_does_not_leave_it_again(
    tmp_path: Path,
) -> None:
    query = asked(
        columns=USUAL,
        memoize=True,
        distinct=2,
        mechanism={"name": "OptimizedUnary", "epsilon": 1.0},
    )
    vault = make_device(tmp_path, query, [3.5]).vault
    mine, another = (name_of(b"scope", b"secret" * 4, [bucket]) for bucket in (3, 5))
    free = bytes(32), FREE
    for seats, buckets, speaks in (
        ([free], [3], (0, mine)),  # drawn now
        ([(another, 2), free], [3], (1, mine)),
        ([(another, 2), (mine, 1)], [NONE], (1, mine)),  # drawn before
        ([(another, 2), (bytes(32), 1)], [NONE], (0, another)),  # no room: the one that spoke last
    ):
        found = sandbox.answer(vault, task_of(query, seats), first, within=30.0, deadline=5.0)
        assert found == (buckets, [speaks], "")


def test_a_process_that_names_a_seat_that_is_not_there_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = asked(columns=USUAL, memoize=True, mechanism={"name": "OptimizedUnary", "epsilon": 1.0})
    vault = make_device(tmp_path, query).vault
    assert buckets_of(vault, query) == [3]
    session = sandbox_pool.sessions.kept[vault.path]._process
    said = (3).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes(32)
    with monkeypatch.context() as patched:
        patched.setattr(sandbox_main, "read_frame", lambda *_: said)
        assert buckets_of(vault, query) == [no_answer(query)]
    assert session is not None
    assert not session.alive


def test_a_compromised_process_cannot_rename_a_permanent_answer(tmp_path: Path) -> None:
    query = asked(
        columns=USUAL,
        memoize=True,
        mechanism={"name": "OptimizedUnary", "epsilon": 1.0},
        instantaneous=None,
    )
    device = make_device(tmp_path, query, source=seeded_source(3))
    device.answer(signed(query), at(0))
    with device.store.transaction() as transaction:
        [[before]] = transaction.seats.of(scope_of(query), 1)
        said = sandbox.SandboxAnswer([5], [(0, b"x" * 32)])
        PermanentAnswers.of(transaction, query).reports(transaction, said, 1, device.source)
        [[after]] = transaction.seats.of(scope_of(query), 1)
    assert (after.name, after.permanent) == (before.name, before.permanent)
    assert after.spoke == 1


# --- one deadline, of processor time

HEAVY = [{"regex": f"[ab]*a[ab]{{380}}{letter}"} for letter in "cdefghijkl"]
"""Patterns that take about 0.02 s each for a text of 4,096 letters a and b."""
LONG = "abbabaabbaababba" * 60  # 960 characters


def heavy() -> Query:
    """A query within the bound that makes 1,600 long texts for those who go far."""
    made = "CASE WHEN a.distance > 5 THEN x || x || x || x || a.distance || b.distance END"
    text = f"{made} FROM trips a, trips b, (SELECT '{LONG}' x)"
    columns = [Column("text", HEAVY, kind="text", overlapping=True)]
    return asked(
        sql=f"SELECT {text}",
        columns=columns,
        ones=2,
        memoize=True,
        mechanism={"name": "OptimizedUnary", "epsilon": 1.0},
    )


def processor_time() -> float:
    """Of the sandbox's processes that have ended."""
    sandbox_pool.close_all()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_patterns_that_take_minutes_for_some_data_are_stopped_at_the_deadline(
    tmp_path: Path,
) -> None:
    looks = []
    for name, distances in (("slow", [6.0 + i for i in range(40)]), ("quick", [1.0])):
        (tmp_path / name).mkdir()
        policy = make_policy(heavy(), deadline=0.3)
        device = make_device(
            tmp_path / name, heavy(), distances, policy=policy, source=seeded_source(2)
        )
        before = processor_time()
        looks.append((device.answer(signed(heavy()), at(0)), queued(device)))
        assert processor_time() - before < 8.0  # 1,600 rows of 0.2 s each would be minutes
    assert looks[0] == looks[1]
    assert looks[0][0].outcome == "answered"


def test_time_that_others_take_does_not_count_against_a_deadline(tmp_path: Path) -> None:
    copy = guard.GrantedCopy((("t", (("a", "INTEGER"),)),))
    copy.seal()
    copy.query("SELECT a FROM t", (0, 0), 10, 1 << 20, 0.05)
    time.sleep(0.2)  # the process waits for the processor
    copy.check_time()
    copy.close()
    # The kernel's timer neither: this process waits for its draws for longer than its deadline.
    query = asked(columns=USUAL, mechanism={"name": "OptimizedUnary", "epsilon": 1.0})
    vault = make_device(tmp_path, query).vault

    def slowly(n: int, most: int) -> list[int]:
        time.sleep(0.5)
        return first(n, most)

    assert sandbox.answer(vault, task_of(query), slowly, within=30.0, deadline=0.1).buckets == [3]


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_is_put_into_a_bucket_once_the_time_of_the_sql_is_over(kind: str) -> None:
    """The kernel's timer and the parent's watch would end the process a little later."""
    query = asked(mechanism={"name": "OptimizedUnary", "epsilon": 1.0}, **KINDS[kind])
    copy = guard.GrantedCopy((("t", (("a", "INTEGER"),)),))
    copy.seal()
    copy.query("SELECT a FROM t", (0, 0), 10, 1 << 20, 0.05)
    index = BucketIndex(query.buckets.plain)
    rows = [(4.5,)] if kind == "aggregate" else [(4.5,), (4.25,)]
    assert sandbox_answer.found(copy, index, task_of(query).plan, rows, lambda n: first(n, 1))
    ends = time.process_time() + 0.1
    while time.process_time() < ends:
        pass
    with pytest.raises(guard.DisallowedSqlError):
        sandbox_answer.found(copy, index, task_of(query).plan, rows, lambda n: first(n, 1))
    copy.close()


def test_a_machine_that_cannot_compile_a_query_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be busy with what it copies, and it may lack the memory that a large copy takes."""
    query = asked()
    looks = []
    for name in ("idle", "no process", "late", "killed"):
        (tmp_path / name).mkdir()
        device = make_device(tmp_path / name, query, source=seeded_source(4))
        sandbox_pool.close_all()
        sandbox_pool._compiler._verdicts.clear()  # the first device's verdict would do for all
        with monkeypatch.context() as patched:
            if name == "no process":
                patched.setattr(sys, "executable", "/nowhere/python")
            if name == "late":
                patched.setattr(sandbox_process, "_START_UP", -10.0)
            if name == "killed":
                patched.setattr(
                    SandboxProcess,
                    "compile",
                    lambda process, *_: process.close() and process._ask((), 5.0),
                )
            looks.append((device.answer(signed(query), at(0)), queued(device)))
    assert [receipt.outcome for receipt, _ in looks] == ["answered"] * 4
    # only its owner is told that the device could not read its data
    plain = [(replace(receipt, detail=""), queue) for receipt, queue in looks]
    assert plain == plain[:1] * 4


# --- patterns are bounded when a query is signed


def with_positions(n: int, **changes: Any) -> Query:
    """A query whose patterns have this many positions."""
    patterns = [
        {"regex": f"{letter}[ab]{{{min(400, n - 400 * i) - 1}}}"}
        for i, letter in enumerate("cdefghijklmno")
        if n > 400 * i
    ]
    several: dict[str, Any] = {"ones": 2, "mechanism": {"name": "OptimizedUnary", "epsilon": 1.0}}
    overlapping = "rows" not in changes
    columns = [Column("text", patterns, kind="text", other=True, overlapping=overlapping)]
    return asked(columns=columns, **{**(several if overlapping else {}), **changes})


@pytest.mark.slow
def test_patterns_that_take_too_many_steps_cannot_be_signed_or_read_from_a_file() -> None:
    assert with_positions(4096).pattern_steps == MOST_PATTERN_STEPS
    sign(with_positions(4096), KEY)
    for query in (with_positions(4097), with_positions(1366, rows="several", most_rows=3)):
        with pytest.raises(ParameterError, match="characters in patterns' must be at most"):
            sign(query, KEY)
    with pytest.raises(
        ParameterError,
        match=r"1366 characters in patterns' must be at most 1365 with most_rows = 3",
    ):
        with_positions(1366, rows="several", most_rows=3).check_patterns()
    parts = ", ".join(f'{{ regex = "{chr(0x4E00 + i)}[ab]{{399}}" }}' for i in range(11))
    text = f"""
id = "q"
analyst = "City"
sql = "SELECT a FROM t"
ones = 2
proxies = ["https://one.example", "https://two.example"]
[[columns]]
name = "text"
overlapping = true
buckets = [{parts}]
[schedule]
origin = 2026-01-01T00:00:00Z
expires = 2026-02-01T00:00:00Z
every = 600
window = 3600
slide = 600
[mechanism]
name = "TwoCoin"
p = 0.5
q = 0.5
"""
    with pytest.raises(QueryFileError, match="4400 characters in patterns' must be at most 4096"):
        parse_query(text)
    assert parse_query(text.replace("399", "300")).pattern_steps == 11 * 301 * 4096


def test_a_query_that_was_signed_before_there_was_a_bound_is_refused_with_a_receipt(
    tmp_path: Path,
) -> None:
    query = with_positions(5000)
    old = SignedQuery(query.content, KEY.public.id, KEY.sign(SEPARATOR + query.content))
    device = make_device(tmp_path, query)
    steps: list[str] = []
    device._on_step = steps.append
    for epoch in range(2):
        receipt = device.answer(old, at(epoch))
        assert (receipt.outcome, receipt.reason, receipt.query) == ("refused", "patterns", query.id)
        assert "5000 characters in patterns' must be at most 4096" in receipt.detail
    assert "read" not in steps
    assert queued(device) == []


# --- who may import what

READER = "deniable.client.sandbox.granted"
ITS_ONLY_USER = "client/sandbox/pool.py"


def names_of(code: str) -> set[str]:
    """The modules that are imported, and what is imported from them, with full names."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(
                {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
            )
    return found


def openers(code: str) -> set[str]:
    """Ways to get at rows of a vault: its reader, or SQL that returns rows."""
    used = {
        ast.unparse(node) for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Attribute)
    }
    reads = {name for name in names_of(code) if name == READER or name.startswith(READER + ".")}
    return (
        reads
        | (used & {"sandbox.run", "session.process"})
        | ({"deniable.client.sandbox.interface.run"} & names_of(code))
    )


@pytest.mark.slow
def test_nothing_but_the_sandbox_reads_a_vault_for_an_analyst() -> None:
    allowed = {
        ITS_ONLY_USER: {READER},
        "client/sandbox/interface.py": {"session.process"},
        "client/__init__.py": {"deniable.client.sandbox.interface.run"},
    }
    for path in sorted((SOURCE / "client").glob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        found = {
            each if not each.startswith(READER) else READER
            for each in openers(path.read_text(encoding="utf-8"))
        }
        assert found <= allowed.get(name, set()), f"{name} may not use {found}"
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).as_posix() != ITS_ONLY_USER:
            assert not any(
                each.startswith(READER) for each in openers(path.read_text(encoding="utf-8"))
            ), path


@pytest.mark.parametrize(
    "planted",
    [
        "from deniable.client.sandbox.granted import VaultReader",
        "from deniable.client.sandbox import granted",
        "import deniable.client.sandbox.granted as reader",
        "def read():\n    from deniable.client.sandbox.granted import VaultCopy",
        "from deniable.client.sandbox import interface as sandbox\nrows = sandbox.run(vault, sql)",
        "from deniable.client.sandbox.interface import run",
    ],
)
def test_an_import_of_the_reader_is_noticed(planted: str) -> None:
    device = (SOURCE / "client" / "device.py").read_text(encoding="utf-8")
    assert not openers(device)
    assert openers(f"{device}\n{planted}\n")


def test_the_process_loads_six_files_of_this_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = (
        "import sys\nsys.stdout.write(' '.join(name for name in sys.modules if"
        " name.startswith('deniable.')))"
    )
    monkeypatch.setattr(
        sandbox_process, "_BOOT", sandbox_process._BOOT.replace("sandbox_main.main()", dump)
    )
    command = [sys.executable, "-I", "-S", "-c", sandbox_process._BOOT, str(SOURCE)]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())  # noqa: S603 - our own code
    files = {
        "client.sandbox.answer",
        "client.sandbox",
        "client.sandbox.worker",
        "queries.columns",
        "queries.columns.bucket_index",
        "sql.confinement",
        "sql.guard",
        "sql.limits",
    }
    assert loaded == {f"deniable.{name}" for name in files | {"client", "queries", "sql"}}
