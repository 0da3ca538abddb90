"""Programs are attacked like mechanisms: a line of value in, a line of report out."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from deniable.audit import Program, audit_callable
from deniable.cli import cli
from deniable.errors import ParameterError

CLIENT = """
import random, sys
coins = random.Random({seed})
for line in sys.stdin:
    yes = line.strip() == "yes"
    print("yes" if yes ^ (coins.random() < 0.25) else "no", flush=True)
"""


def client(folder: Path, seed: object = 1) -> list[str]:
    file = folder / "client.py"
    file.write_text(CLIENT.format(seed=seed))
    return [sys.executable, str(file)]


def test_a_program_s_true_claim_holds_and_a_false_one_does_not(tmp_path: Path) -> None:
    """Seeded coins; the false claim is 0.8 times the loss."""
    with Program(client(tmp_path)) as program:
        assert audit_callable(program, ["yes", "no"], math.log(3), n=20_000).holds
        assert not audit_callable(program, ["yes", "no"], 0.8 * math.log(3), n=20_000).holds


def test_a_program_that_is_seeded_when_it_starts_is_seen_only_if_it_is_started_again(
    tmp_path: Path,
) -> None:
    with Program(client(tmp_path)) as program:
        assert len({program("yes") for _ in range(50)}) == 2
    with Program(client(tmp_path), restart=True) as program:
        assert len({program("yes") for _ in range(5)}) == 1


def test_the_command_says_whether_the_claim_holds(tmp_path: Path) -> None:
    options = ["--value", "yes", "--value", "no", "--n-reports", "20000"]
    for claim, code in (("1.1", 0), ("0.8", 1)):
        ran = CliRunner().invoke(
            cli, ["audit", "command", "--claim", claim, *options, "--", *client(tmp_path)]
        )
        assert ran.exit_code == code, ran.output


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("", "ended"),
        ("import time; time.sleep(600)", "did not answer a line within 0.2 s"),
        ("import sys; print(sys.stdin.readline(), end='')", "ended"),
    ],
    ids=["ends at once", "is silent", "answers once"],
)
def test_a_program_that_does_not_answer_is_named(code: str, what: str) -> None:
    program = Program([sys.executable, "-c", code], timeout=0.2 if "sleep" in code else 60)
    program_killed = pytest.raises(ParameterError, match=what)
    with program_killed, program:
        for _ in range(3):
            program("1")


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(ParameterError, match="cannot be started"):
        Program(["./no-such-client"])("1")
