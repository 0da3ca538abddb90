"""Faults are told apart by their type, never by words in a message."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src" / "deniable"
ONLY_WORDS = {
    "sql/compile_main.py": "SQLite names a missing table or column in its message only",
    "sql/guard.py": "SQLite has one code for most mistakes in a statement, and Python none",
    "toml_file.py": "before Python 3.14, tomllib states the line in its message only",
}
"""Modules that read the words of an error, and why: it has nothing else."""
_TEXT_METHODS = {
    *("startswith", "endswith", "find", "index", "partition", "rpartition", "count"),
}
_ATTRIBUTES = {"detail", "rule", "message", "problem"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def errors_in(function: ast.AST) -> set[str]:
    """The names that errors have in a function or module."""
    found = {
        node.name
        for node in ast.walk(function)
        if isinstance(node, ast.ExceptHandler) and node.name
    }
    if isinstance(function, _FUNCTIONS):
        for argument in (*function.args.args, *function.args.kwonlyargs):
            kind = "" if argument.annotation is None else ast.unparse(argument.annotation)
            if kind.endswith(("Error", "Exception")):
                found.add(argument.arg)
    return found


def is_text(node: ast.AST, errors: set[str], texts: set[str]) -> bool:
    """Whether an expression is the text of an error."""
    if isinstance(node, ast.Name):
        return node.id in texts
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("lower", "strip") and is_text(node.func.value, errors, texts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        inner = node.args[0]
        return (
            node.func.id in ("str", "repr") and isinstance(inner, ast.Name) and inner.id in errors
        )
    if isinstance(node, ast.Attribute):
        return (
            isinstance(node.value, ast.Name)
            and node.value.id in errors
            and node.attr in _ATTRIBUTES
        )
    return False


def read_words(source: str) -> Iterator[int]:
    """The lines that look for words in the text of an error."""
    tree = ast.parse(source)
    for function in [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS)]:
        errors = errors_in(function)
        texts = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and is_text(node.value, errors, set())
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                # two messages may be compared: is it still the same problem?
                words = any(isinstance(side, ast.Constant) for side in sides) or isinstance(
                    node.ops[0], ast.In | ast.NotIn
                )
                if words and any(is_text(side, errors, texts) for side in sides):
                    yield node.lineno
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                own = node.func.attr in _TEXT_METHODS and is_text(node.func.value, errors, texts)
                searched = node.func.attr in ("search", "match", "fullmatch") and any(
                    is_text(each, errors, texts) for each in node.args
                )
                if own or searched:
                    yield node.lineno


def test_no_module_looks_for_words_in_the_text_of_an_error() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): lines
        for path in sorted(SOURCE.rglob("*.py"))
        if (lines := sorted(set(read_words(path.read_text(encoding="utf-8")))))
    }
    assert {name: lines for name, lines in found.items() if name not in ONLY_WORDS} == {}
    assert set(ONLY_WORDS) == set(found)


@pytest.mark.parametrize(
    "line",
    [
        'return "damaged" in str(error)',
        'return str(error).startswith("row ")',
        'return error.detail == "no such query"',
        'text = str(error)\n  return "x" in text',
        'return re.search("x", str(error))',
        'return "x" not in str(error).lower()',
    ],
)
def test_looking_for_words_is_noticed(line: str) -> None:
    source = f"def f():\n try: pass\n except ValueError as error:\n  {line}"
    assert list(read_words(source))
    assert list(read_words(f"def f(error: ParameterError):\n if 1:\n  {line}"))


@pytest.mark.parametrize(
    "line",
    ["return str(error)", "return error.reason == 'x'", "return isinstance(error, KeyError)"],
)
def test_passing_a_message_on_is_not(line: str) -> None:
    assert not list(read_words(f"def f(error: OSError):\n {line}"))
