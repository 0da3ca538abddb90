"""What is measured of the package: a block that no test runs is seen, and a room below its floor is
refused."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from toolkit import block_coverage

MODULE = '''
class Protocol:
    def nothing(self) -> None:
        """Nothing to run."""


def sign(number):
    """Three blocks, and one more for the loop."""
    if number < 0:
        return "-"
    elif number == 0:
        return "0"
    else:
        for _ in range(number):
            pass
    return "+"


def guarded(number):
    try:
        return 1 / number
    except ZeroDivisionError:
        return None
'''
PLANTED = """

def untested(number):
    return number + 1
"""


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package `planted` with a room, in which what runs is measured."""
    room = tmp_path / "planted" / "room"
    room.mkdir(parents=True)
    for folder in (room, room.parent):
        (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(block_coverage, "measured", {})
    for name in ("planted", "planted.room", "planted.room.module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    block_coverage.install("planted")
    return room


def test_a_block_counts_when_it_was_run_and_not_before(measured: Path) -> None:
    (measured / "module.py").write_text(MODULE)
    module = importlib.import_module("planted.room.module")
    root = measured.parent
    # sign, its two branches, the last one and the loop; guarded and its handler
    assert block_coverage.rooms(root) == {".": (0, 0), "room": (0, 7)}
    ran = []
    calls = [("sign", -1), ("sign", 0), ("sign", 2), ("guarded", 2), ("guarded", 0)]
    for name, number in calls:
        getattr(module, name)(number)
        ran.append(block_coverage.rooms(root)["room"][0])
    assert ran == [2, 3, 5, 6, 7]
    assert [module.sign(number) for number in (-1, 0, 2)] == ["-", "0", "+"]


def test_a_module_that_nobody_imports_counts_as_not_run(measured: Path) -> None:
    (measured / "module.py").write_text(MODULE)
    assert block_coverage.rooms(measured.parent)["room"] == (0, 7)


def test_what_several_processes_ran_is_added_up(measured: Path) -> None:
    path = measured / "module.py"
    path.write_text(MODULE)
    block_coverage.add({str(path): bytes([1, 0, 0, 1, 0, 0, 0])})
    block_coverage.add({str(path): bytes([1, 1, 0, 0, 0, 0, 0])})
    assert block_coverage.rooms(measured.parent)["room"] == (3, 7)


def test_planted_code_without_a_test_falls_below_the_floor(measured: Path) -> None:
    (measured / "module.py").write_text(MODULE + PLANTED)
    module = importlib.import_module("planted.room.module")
    for number in (-1, 0, 2):
        module.sign(number)
        module.guarded(number)
    found = block_coverage.rooms(measured.parent)
    assert block_coverage.below(found, {".": 100, "room": 100}) == [
        "room: 87.50 % of 8 blocks, floor 100 %"
    ]
    module.untested(1)
    assert (
        block_coverage.below(block_coverage.rooms(measured.parent), {".": 100, "room": 100}) == []
    )


def test_a_room_without_a_floor_is_named() -> None:
    assert block_coverage.below({"room": (1, 2)}, {}) == ["room has no floor"]
