"""The rooms of the house: how many modules a folder has, and that a public name means one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import deniable

SOURCE = Path(deniable.__file__).parent
TESTS = Path(__file__).parents[2]
MOST_MODULES = 20


def crowded(folders: Iterable[Path]) -> list[str]:
    """The folders with more modules than a reader takes in at once."""
    modules = {
        folder: [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        for folder in folders
    }
    return [folder.name for folder, found in modules.items() if len(found) > MOST_MODULES]


def shared_names(paths: Iterable[Path]) -> dict[str, list[str]]:
    """The public classes that several modules define under one name."""
    found = defaultdict(list)
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.stem)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def with_examples(paths: Iterable[Path]) -> list[str]:
    """The modules that doctest would find something in."""
    example = re.compile(r"^\s*>>> ", re.MULTILINE)
    return [path.name for path in paths if example.search(path.read_text(encoding="utf-8"))]


def folders_below(root: Path) -> list[Path]:
    return [root, *(path for path in root.rglob("*") if path.is_dir())]


def test_no_folder_of_the_package_has_more_than_twenty_modules() -> None:
    assert crowded(folders_below(SOURCE)) == []


def test_the_unit_tests_mirror_the_rooms_and_none_of_their_folders_is_crowded() -> None:
    unit = TESTS / "unit"
    assert crowded(folders_below(unit)) == []
    assert crowded(folders_below(TESTS / "integration")) == []
    rooms = {path.name for path in SOURCE.iterdir() if path.is_dir()}
    own = {path.name for path in unit.iterdir() if path.is_dir()} - {"house", "__pycache__"}
    assert own <= rooms, "a folder of unit tests has the name of the room that it tests"


def test_no_two_public_classes_share_a_name() -> None:
    assert shared_names(SOURCE.rglob("*.py")) == {}


def test_no_test_has_examples_in_docstrings_for_nobody_would_run_them() -> None:
    assert with_examples(TESTS.rglob("*.py")) == []


def test_a_crowded_folder_a_shared_name_and_an_example_are_seen(tmp_path: Path) -> None:
    for number in range(MOST_MODULES + 1):
        (tmp_path / f"module_{number}.py").write_text("class Place:\n    pass\n" * (number < 2))
    (tmp_path / "example.py").write_text('"""One and one.\n\n    >>> 1 + 1\n    2\n"""\n')
    assert with_examples(tmp_path.glob("*.py")) == ["example.py"]
    assert crowded([tmp_path]) == [tmp_path.name]
    assert sorted(shared_names(tmp_path.glob("*.py"))["Place"]) == ["module_0", "module_1"]
