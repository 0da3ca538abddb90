"""Sizes at which a reader still sees the whole: of modules, folders, functions and lines."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "deniable"
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 400
MOST_MODULES = 20
MOST_COMPLEXITY = 20
"""Of McCabe's paths through a function; from 21 on radon rates a function D."""
LONGEST_LINE = 100

STILL_WIDE = 275
"""Lines that are still longer."""

_BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.Assert,
    ast.comprehension,
    ast.match_case,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def complexity(function: ast.AST) -> int:
    """McCabe's number as radon counts it: one path, and one more for each branch, loop, handler,
    condition of a comprehension, alternative of `and` and `or`, and `else` of a loop or `try`.
    What an inner function does is added."""
    paths = 1
    for node in ast.walk(function):
        paths += isinstance(node, _BRANCHES)
        if isinstance(node, ast.BoolOp):
            paths += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            paths += len(node.ifs)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.Try):
            paths += bool(node.orelse)
    return paths + sum(isinstance(node, _FUNCTIONS) for node in ast.walk(function)) - 1


def too_complex(source: str) -> list[str]:
    """The functions with more paths than a reader follows."""
    return [
        f"{node.name}: {complexity(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, _FUNCTIONS) and complexity(node) > MOST_COMPLEXITY
    ]


def too_long(lengths: dict[str, int]) -> list[str]:
    """The modules with more lines than a reader keeps in mind."""
    return sorted(name for name, n in lengths.items() if n > MOST_LINES)


def test_no_module_is_over_400_lines() -> None:
    lengths = {
        path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines()) for path in MODULES
    }
    assert len(lengths) > 500  # the folder was found
    assert too_long(lengths) == []
    assert too_long({"a.py": 401, "b.py": 400}) == ["a.py"]


def test_no_folder_has_more_than_20_modules() -> None:
    folders = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert not {folder for folder, n in folders.items() if n > MOST_MODULES}


def test_no_function_is_rated_d_or_worse() -> None:
    found = {}
    for path in MODULES:
        name = path.relative_to(SOURCE).as_posix()
        if complicated := too_complex(path.read_text()):
            found[name] = {each.partition(":")[0] for each in complicated}
    assert not found


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("pass", 1),
        ("if a and b or c: pass", 4),
        ("for a in b:\n  pass\n else: pass", 3),
        ("try: pass\n except A: pass\n except B: pass\n else: pass", 4),
        ("return [a for a in b if a if not a] or (1 if a else 2)", 6),
        ("def g():\n  while a: assert a\n return g", 4),
    ],
)
def test_paths_are_counted_as_radon_does(body: str, paths: int) -> None:
    [function] = ast.parse(f"def f():\n {body}").body
    assert complexity(function) == paths


def test_a_function_of_21_paths_is_noticed() -> None:
    branches = "\n".join(f" if a == {i}: pass" for i in range(19))
    assert not too_complex(f"def f(a):\n{branches}")
    assert too_complex(f"def f(a):\n{branches}\n if a: pass") == ["f: 21"]


def test_lines_over_100_characters_become_fewer_only() -> None:
    wide = [line for path in MODULES for line in path.read_text().splitlines()]
    n = sum(len(line) > LONGEST_LINE for line in wide)
    assert n <= STILL_WIDE
