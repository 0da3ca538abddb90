"""The short run: what is kept is replayed and mutated, the same way every time; and the runner
finds a bug that is planted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deniable.wire.marks import MarkRecord
from fuzz.judging import CORPUS, judge, kept, load, mutations, names
from fuzz.running import spread

_SLOW = {
    "table": 40,
    "http": 60,
    "sql": 60,
    "signed_query": 80,
    "query": 100,
    "query_file": 80,
    "settings": 100,
}
"""Mutations of targets of which one takes a millisecond or more; of the others, `_MUTATIONS`."""
_MUTATIONS = 400
REQUIRED = os.environ.get("DENIABLE_REQUIRE_ATHERIS") == "1"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", names())
def test_decoders_refuse_with_an_error_of_the_tree_or_give_back_what_they_were_given(
    name: str,
) -> None:
    target = load(name)
    inputs = kept(name)
    accepted = sum(judge(target.check, each) for each in inputs)
    assert accepted > 0, "a target that accepts nothing tests only how bytes are refused"
    mutated = mutations(
        inputs, target.DICTIONARY, _SLOW.get(name, _MUTATIONS), target.LONGEST, seed=25
    )
    refused = sum(not judge(target.check, each) for each in mutated)
    assert refused, "a target that refuses nothing tests nothing"


def test_the_kept_corpus_is_small_and_of_targets_that_exist() -> None:
    files = list(CORPUS.glob("*"))
    assert {path.stem for path in files} <= set(names())
    assert sum(path.stat().st_size for path in files) < 300_000


def test_a_long_run_gives_every_target_its_part() -> None:
    shares = spread(names(), 10_000_000)
    assert sum(shares.values()) >= 10_000_000
    assert min(shares.values()) >= 50_000


def _escapes(_: bytes) -> None:
    raise KeyError("planted")


def _accepts_garbage(data: bytes) -> None:
    assert MarkRecord.from_bytes(data).to_bytes() + b"!" == data


@pytest.mark.parametrize(
    ("check", "error"), [(_escapes, KeyError), (_accepts_garbage, AssertionError)]
)
def test_the_judge_lets_other_errors_and_accepted_garbage_through(check, error) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error):
        judge(check, MarkRecord(1, 2).to_bytes())
    assert not judge(lambda data: MarkRecord.from_bytes(data) and None, b"")


def test_mutations_are_the_same_for_the_same_seed() -> None:
    first, again, other = (
        list(mutations([b"abc" * 20], [b"word"], 50, 100, seed)) for seed in (1, 1, 2)
    )
    assert first == again != other
    assert all(len(each) <= 100 for each in first)


PLANTED = """
import atheris
from deniable.errors import WireError
WEIGHT, LONGEST, DICTIONARY = 1, 8, []
def seeds(): return [b"nothing"]
@atheris.instrument_func
def check(data):
    if data[:1] == b"b":
        if data[1:2] == b"u":
            if data[2:3] == b"g":
                if data[3:4] == b"!":
                    raise ZeroDivisionError
    raise WireError("kind", "none")
"""
"""Four bytes that chance alone finds once in four thousand million executions."""


@pytest.mark.slow
def test_guided_fuzzing_finds_a_planted_bug_and_writes_its_input_down(tmp_path: Path) -> None:
    if not REQUIRED:
        pytest.importorskip(
            "atheris",
            reason="atheris is not installed: pip install 'deniable[fuzz]'",
            exc_type=ImportError,
        )
    copy = tmp_path / "tests"
    here = Path(__file__).parent
    (copy / "fuzz" / "targets").mkdir(parents=True)
    for path in here.glob("*.py"):
        if not path.name.startswith("test_"):
            (copy / "fuzz" / path.name).write_bytes(path.read_bytes())
    (copy / "fuzz" / "targets" / "__init__.py").touch()
    (copy / "fuzz" / "targets" / "planted.py").write_text(PLANTED)
    command = [
        sys.executable,
        str(copy / "fuzz"),
        "--executions",
        "200_000",
        "--findings",
        str(tmp_path / "found"),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "1 findings" in ended.stdout
    (found,) = (path for path in (tmp_path / "found").iterdir() if path.suffix != ".txt")
    assert found.read_bytes()[:4] == b"bug!"
    replayed = subprocess.run(
        [*command[:2], "planted", "--replay", str(found)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ZeroDivisionError" in replayed.stderr
