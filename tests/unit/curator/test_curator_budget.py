"""The budget of a table cannot be passed: not by any sequence of calls, not by two processes, not
by killing one at any point."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deniable.curator import Curator, CuratorBudget, question
from deniable.curator.noise import LaplaceNoise
from deniable.errors import (
    BudgetExceededError,
    BudgetFileError,
    CuratorError,
    DeniableError,
    ParameterError,
)

TABLE = {
    "age": [20, 30, 40, 50, 60, 70],
    "city": ["Oslo", "Paris"] * 3,
    "hole": [1.0, None, 3.0, 4.0, 5.0, 6.0],
}
BOUNDS = (18, 95)
CALLS: dict[str, Callable[[Curator, Any], Any]] = {
    "count": lambda c, e: c.count(epsilon=e),
    "sum": lambda c, e: c.sum("age", epsilon=e, bounds=BOUNDS),
    "mean": lambda c, e: c.mean("age", epsilon=e, bounds=BOUNDS),
    "variance": lambda c, e: c.variance("age", epsilon=e, bounds=BOUNDS),
    "median": lambda c, e: c.median("age", epsilon=e, bounds=BOUNDS, step=1),
    "maximum": lambda c, e: c.maximum("age", epsilon=e, bounds=BOUNDS, step=1),
    "histogram": lambda c, e: c.histogram("city", epsilon=e, labels=["Oslo", "Paris"]),
    "most frequent": lambda c, e: c.most_frequent("city", epsilon=e, labels=["Oslo", "Paris"]),
    "filter": lambda c, e: c.where("age", ">", 45).mean("age", epsilon=e, bounds=BOUNDS),
    "groups": (
        lambda c, e: c.group_by("city", ["Oslo", "Paris"]).mean("age", epsilon=e, bounds=BOUNDS)
    ),
    "several": lambda c, e: c.release(
        [question("count"), question("sum", "age", bounds=BOUNDS)], epsilon=e
    ),
}
REFUSED: dict[str, Callable[[Curator, Any], Any]] = {
    "no bounds": lambda c, e: c.mean("age", epsilon=e),
    "bounds the wrong way round": lambda c, e: c.mean("age", epsilon=e, bounds=(95, 18)),
    "unknown column": lambda c, e: c.mean("height", epsilon=e, bounds=BOUNDS),
    "not numbers": lambda c, e: c.mean("city", epsilon=e, bounds=BOUNDS),
    "a missing value": lambda c, e: c.mean("hole", epsilon=e, bounds=BOUNDS),
    "a missing value among the filtered": (
        lambda c, e: c.where("age", ">", 65).mean("hole", epsilon=e, bounds=BOUNDS)
    ),
    "no labels": lambda c, e: c.histogram("city", epsilon=e),
    "no keys": lambda c, e: c.group_by("city").count(epsilon=e),
    "half of several": lambda c, e: c.release(
        [question("count"), question("sum", "height", bounds=BOUNDS)], epsilon=e
    ),
    "nothing": lambda c, e: c.release([], epsilon=e),
    "no epsilon": lambda c, e: c.count(epsilon=0),
    "epsilon below 0": lambda c, e: c.count(epsilon=-1),
    "no number": lambda c, e: c.count(epsilon=float("nan")),
    "too much": lambda c, e: c.sum("age", epsilon=1000, bounds=BOUNDS),
    "too little": lambda c, e: c.variance("age", epsilon="1e-12", bounds=BOUNDS),
}
AMOUNTS = [0.1, 0.25, "0.3", Fraction(1, 3), 0.5, 1, 1.5]


def exact(amount: Any) -> Fraction:
    return Fraction(str(amount))


@pytest.mark.slow
@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(
    calls=st.lists(
        st.tuples(st.sampled_from([*CALLS, *REFUSED]), st.sampled_from(AMOUNTS)), max_size=12
    ),
    total=st.sampled_from([0.5, 1, Fraction(5, 2)]),
    neighbours=st.sampled_from(["add-remove", "replace-one"]),
    kept=st.booleans(),
)
def test_no_sequence_of_calls_spends_more_than_there_is_and_every_refusal_leaves_the_budget_as_it_was(
    tmp_path: Path, calls: list[tuple[str, Any]], total: Any, neighbours: Any, kept: bool
) -> None:
    file = tmp_path / "budget.json"
    file.unlink(missing_ok=True)
    curator = Curator(
        TABLE,
        CuratorBudget.at(file, total) if kept else CuratorBudget(total),
        neighbours=neighbours,
    )
    spent = Fraction(0)
    for name, amount in calls:
        before = file.read_bytes() if file.exists() else None
        # The size of a table whose rows are only replaced is public, and free.
        cost = Fraction(0) if (name, neighbours) == ("count", "replace-one") else exact(amount)
        if name in CALLS and spent + cost <= exact(total):
            assert CALLS[name](curator, amount) is not None
            spent += cost
        else:
            with pytest.raises(DeniableError) as refused:
                (CALLS | REFUSED)[name](curator, amount)
            assert "\n" not in str(refused.value)
            if name in CALLS:
                assert isinstance(refused.value, BudgetExceededError)
            assert (file.read_bytes() if file.exists() else None) == before
        assert curator.budget.spent == spent <= curator.budget.epsilon == exact(total)
        if kept and file.exists():  # another process reads the same
            assert CuratorBudget.at(file).spent == spent


SPENDER = """
import random, sys, time
from fractions import Fraction
from deniable.curator import CuratorBudget, Curator
from deniable.errors import BudgetExceededError
write = CuratorBudget._write
CuratorBudget._write = lambda self, state: (time.sleep(0.005), write(self, state))  # time for the other to read what is old then
file, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
curator = Curator({"age": [20, 30, 40]}, CuratorBudget.at(file, 4))
bought, least = Fraction(0), None
print("ready", flush=True)
sys.stdin.readline()  # both begin together
for _ in range(40):
    amount = Fraction(rng.randint(1, 9), 20)
    try:
        curator.count(epsilon=amount)
        bought += amount
    except BudgetExceededError:
        least = amount if least is None else min(least, amount)
print(bought, least)
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_two_processes_together_spend_no_more_than_there_is(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "budget.json"
    spenders = [
        subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", SPENDER, str(file), str(10 * seed + i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    for spender in spenders:
        assert spender.stdout is not None
        assert spender.stdout.readline() == "ready\n"
    for spender in spenders:
        assert spender.stdin is not None
        spender.stdin.write("go\n")
        spender.stdin.flush()
    results = [spender.communicate(timeout=60)[0].split() for spender in spenders]
    assert [spender.returncode for spender in spenders] == [0, 0]
    budget = CuratorBudget.at(file)
    assert budget.spent == sum(Fraction(bought) for bought, _ in results) <= 4
    # Each asked for 10 on average, so both were refused; what was refused would not fit now,
    # either.
    assert all(budget.spent + Fraction(least) > 4 for _, least in results)


RELEASER = """
import sys
from deniable.curator import CuratorBudget, Curator
curator = Curator({"age": [20, 30, 40]}, CuratorBudget.at(sys.argv[1], 1000))
while True:
    curator.count(epsilon=1)
    print(1, flush=True)
"""


def test_whatever_was_revealed_before_a_kill_was_charged(tmp_path: Path) -> None:
    """Killed from outside after so many releases, at whatever point it is then."""
    file, revealed, kills = tmp_path / "budget.json", 0, [1, 2, 5, 11]
    for count in kills:
        releaser = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", RELEASER, str(file)], stdout=subprocess.PIPE, text=True
        )
        assert releaser.stdout is not None
        for _ in range(count):
            assert releaser.stdout.readline() == "1\n"
        os.kill(releaser.pid, signal.SIGKILL)
        revealed += count + len(releaser.stdout.read().split())
        assert releaser.wait(timeout=30) == -signal.SIGKILL
        releaser.stdout.close()
    spent = CuratorBudget.at(file).spent
    assert revealed <= spent <= revealed + len(kills)
    Curator({"age": [20, 30, 40]}, CuratorBudget.at(file)).count(epsilon=1)  # and it goes on
    assert CuratorBudget.at(file).spent == spent + 1


class KilledError(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("step", range(8))
def test_at_no_step_of_a_release_can_a_kill_reveal_what_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    file = tmp_path / "budget.json"
    curator = Curator({"age": [20, 30, 40]}, CuratorBudget.at(file, 10))
    curator.count(epsilon=1)
    taken: list[str] = []

    def killing(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if len(taken) == step:
                taken.append(f"killed before {name}")
                raise KilledError
            taken.append(name)
            return function(*arguments, **options)

        return wrapped

    monkeypatch.setattr("deniable.curator.budget.os.open", killing("open", os.open))
    monkeypatch.setattr("deniable.curator.budget.os.fsync", killing("fsync", os.fsync))
    monkeypatch.setattr("deniable.curator.budget.Path.replace", killing("replace", Path.replace))
    monkeypatch.setattr(LaplaceNoise, "add", killing("draw", LaplaceNoise.add))
    killed = False
    try:
        curator.count(epsilon=2)
    except KilledError:
        killed = True
    monkeypatch.undo()
    # lock, partial file, its fsync, replacement, folder, its fsync, draw
    assert killed == (step < 7), taken
    spent = CuratorBudget.at(file).spent
    assert spent == (1 if "replace" not in taken else 3)
    assert "draw" not in taken or spent == 3
    assert Curator({"age": [20, 30, 40]}, CuratorBudget.at(file)).count(epsilon=1).epsilon == 1


def test_a_file_that_cannot_be_written_reveals_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "budget.json"
    curator = Curator(TABLE, CuratorBudget.at(file, 1))
    curator.count(epsilon="0.5")
    drawn: list[Any] = []
    monkeypatch.setattr(LaplaceNoise, "add", lambda self, numbers: drawn.append(numbers))

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("deniable.curator.budget.os.fsync", full)
    with pytest.raises(BudgetFileError, match="No space left on device"):
        curator.count(epsilon="0.25")
    assert drawn == []
    assert CuratorBudget.at(file).spent == Fraction(1, 2)


def test_a_budget_that_vanished_is_not_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "budget.json"
    curator = Curator(TABLE, CuratorBudget.at(file, 1))
    curator.count(epsilon=1)
    opened = Curator(TABLE, CuratorBudget.at(file, 1))  # has seen the file and knows the total
    file.unlink()
    for orphan in (curator, opened):
        with pytest.raises(BudgetFileError, match="does not exist"):
            orphan.count(epsilon=1)


def test_a_file_that_is_no_budget_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "budget.json"
    Curator(TABLE, CuratorBudget.at(file, 1)).count(epsilon=1)
    good = json.loads(file.read_text())
    broken = [
        "",
        "{",
        "[]",
        "{}",
        json.dumps(good | {"format": "something else"}),
        json.dumps(good | {"epsilon": "-1"}),
        json.dumps(good | {"epsilon": "1/2"}),
        json.dumps(good | {"ledger": {}}),
        json.dumps(good | {"basis": []}),
    ]
    for text in broken:
        file.write_text(text)
        with pytest.raises(BudgetFileError, match="is not a file of the format"):
            CuratorBudget.at(file, 1)
        assert file.read_text() == text


def test_a_total_is_not_changed_by_asking(tmp_path: Path) -> None:
    file = tmp_path / "budget.json"
    Curator(TABLE, CuratorBudget.at(file, 1)).count(epsilon="0.5")
    with pytest.raises(BudgetFileError, match="is a budget of epsilon 1, not 5"):
        CuratorBudget.at(file, 5)
    with pytest.raises(BudgetFileError, match="does not exist"):
        CuratorBudget.at(tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


def test_two_names_of_one_file_are_one_budget(tmp_path: Path) -> None:
    file, other = tmp_path / "budget.json", tmp_path / "link.json"
    Curator(TABLE, CuratorBudget.at(file, 1)).count(epsilon="0.75")
    other.symlink_to(file)
    with pytest.raises(BudgetExceededError):
        Curator(TABLE, CuratorBudget.at(other)).count(epsilon="0.5")
    Curator(TABLE, CuratorBudget.at(other)).count(epsilon="0.25")
    assert CuratorBudget.at(file).left == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "budget.json",
        "link.json",
        "budget.json.lock",
    }


def test_a_budget_belongs_to_one_table_and_one_way_of_counting(tmp_path: Path) -> None:
    """Who filters the table first and asks then, as if it were whole, would make the filtered size
    public."""
    budget = CuratorBudget.at(tmp_path / "budget.json", 1)
    frame = {"id": [1, 2, 3, 4], "age": [20, 30, 40, 50]}
    Curator(frame, budget, neighbours="replace-one").mean("age", epsilon="0.5", bounds=BOUNDS)
    filtered = {name: values[:1] for name, values in frame.items()}
    for other, options in (
        (filtered, {"neighbours": "replace-one"}),
        (frame, {"neighbours": "add-remove"}),
        (frame, {"neighbours": "replace-one", "person": "id"}),
        (frame, {"neighbours": "replace-one", "person": "id", "rows": 2}),
    ):
        with pytest.raises(BudgetFileError, match="belongs to one table, counted one way"):
            Curator(other, budget, **options)
    assert budget.spent == Fraction(1, 2)


def test_a_public_size_binds_the_budget_too() -> None:
    """Or it could be had for nothing, and the rest under neighbours for whom it is private."""
    budget = CuratorBudget(1)
    assert Curator(TABLE, budget, neighbours="replace-one").count(epsilon=1).value == 6
    assert budget.spent == 0
    with pytest.raises(BudgetFileError, match="has neighbours = 'replace-one', not 'add-remove'"):
        Curator(TABLE, budget)


def test_a_budget_in_memory_cannot_be_copied_or_carried_into_another_process() -> None:
    budget = CuratorBudget(1)
    assert copy.copy(budget) is copy.deepcopy(budget) is budget
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(budget)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _ = budget.left
            os.write(writer, b"spent twice")
        except BudgetFileError:
            os.write(writer, b"refused")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"refused"
    os.close(reader)
    os.close(writer)


def test_a_budget_in_a_file_survives_pickling_as_the_same_budget(tmp_path: Path) -> None:
    budget = CuratorBudget.at(tmp_path / "budget.json", 1)
    Curator(TABLE, budget).count(epsilon="0.5")
    same = pickle.loads(pickle.dumps(budget))  # noqa: S301 - our own
    Curator(TABLE, same).count(epsilon="0.5")
    assert budget.left == 0


def test_ten_times_a_tenth_is_one() -> None:
    curator = Curator(TABLE, 1)
    for _ in range(10):
        curator.count(epsilon=0.1)
    assert curator.budget.left == 0
    with pytest.raises(
        BudgetExceededError, match=r"epsilon 1e-06 was requested, but 0 of 1 is left"
    ):
        curator.count(epsilon=1e-6)


@pytest.mark.parametrize("total", [0, -1, float("inf"), float("nan"), "much", None, True])
def test_a_total_must_be_a_number_above_0(total: Any) -> None:
    with pytest.raises(ParameterError):
        CuratorBudget(total)


def test_a_refused_table_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "budget.json"
    with pytest.raises(CuratorError):
        Curator({"age": []}, CuratorBudget.at(file, 1))
    with pytest.raises(CuratorError):
        Curator(TABLE, CuratorBudget.at(file, 1)).sum("height", epsilon=1, bounds=BOUNDS)
    assert list(tmp_path.iterdir()) == []
