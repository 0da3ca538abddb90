"""SQL is compiled in a process that has nothing else to lose: within its memory and processor time,
whatever the text says."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.cli import cli
from deniable.errors import SandboxError
from deniable.sql import checking, guard
from deniable.sql.checking import check_sql
from toolkit.attacks.sql_bombs import comments, doubling


def own_and_childrens_seconds() -> tuple[float, float]:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    "text",
    [doubling(20), doubling(40), comments(2000), comments(2000) + "/*", "SELECT " + "(" * 4000],
    ids=len,
)
def test_whatever_the_text_neither_this_process_nor_the_other_takes_long(text: str) -> None:
    before = own_and_childrens_seconds()
    assert check_sql(text).problem
    after = own_and_childrens_seconds()
    assert after[0] - before[0] < 0.5
    assert after[1] - before[1] < 4


def test_the_start_of_a_text_is_found_in_linear_time() -> None:
    start = time.process_time()
    with pytest.raises(guard.DisallowedSqlError, match="must begin with SELECT"):
        # with a pattern that backtracks 1.4 s, and twice that with each comment more
        guard.check_text(comments(24))
    assert time.process_time() - start < 0.3
    guard.check_text("/* a */ -- b\n/**/SELECT 1")


def test_a_text_that_takes_its_processor_time_is_refused_and_not_run_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "_SECONDS", 0.05)
    monkeypatch.setattr(checking, "_MEMORY", 1 << 30)
    assert "too long to compile" in check_sql(doubling(20)).problem


def test_a_process_that_gives_no_verdict_is_an_error_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checking, "_BOOT", "print('[' * 100_000)")
    with pytest.raises(SandboxError, match="gave no verdict"):
        check_sql("SELECT 1")
    monkeypatch.setattr(checking, "_BOOT", "while True: print('x' * 65536)")
    with pytest.raises(SandboxError, match="gave no verdict"):
        check_sql("SELECT 1")


def test_the_process_that_checks_loads_the_rules_and_the_walls_and_nothing_else_of_ours() -> None:
    listing = (
        "\nimport sys; sys.stderr.write(' '.join(sorted(m for m in sys.modules if"
        " m.startswith('deniable'))))"
    )
    folder = Path(checking.__file__).parent
    command = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        checking._BOOT + listing,
        str(folder.parent),
        str(folder),
    ]
    request = '{"sql": "SELECT 1", "memory": 33554432, "seconds": 1.0}'
    done = subprocess.run(command, input=request, capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    loaded = (
        "deniable deniable.sql deniable.sql.compile_main deniable.sql.confinement"
        " deniable.sql.guard deniable.sql.limits"
    )
    assert done.stderr == loaded


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT random() FROM trips", "would be refused by every device: the function random"),
        (doubling(20), "would be refused by every device: the query needs more than"),
        (
            "SELECT distance, speed FROM trips",
            "must return 1 columns, one for each of `columns`; it returns 2",
        ),
    ],
    ids=["a function", "a bomb", "columns"],
)
def test_query_check_says_what_devices_would_refuse(tmp_path: Path, sql: str, says: str) -> None:
    file = tmp_path / "q.toml"
    assert CliRunner().invoke(cli, ["query", "new", str(file)]).exit_code == 0
    file.write_text(file.read_text().replace("SELECT distance FROM trips", sql))
    start = time.process_time()
    done = CliRunner().invoke(cli, ["query", "check", str(file)])
    assert time.process_time() - start < 5
    assert done.exit_code == 2
    assert says in done.stderr
