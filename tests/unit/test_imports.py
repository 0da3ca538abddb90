"""The doors between the rooms: who may import whom (docs/architecture.md)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import deniable

SOURCE = Path(deniable.__file__).parent

# A room imports only rooms above it in this list.
ROOMS = [
    "errors",
    "randomness",
    "checks",
    "toml_file",
    "estimation",
    "mechanisms",
    "privacy",
    "planning",
    "queries",
    "wire",
    "service",
    "logs",
    "client",
    "proxy",
    "aggregator",
    "analyst",
    "console",
    "survey",
    "curator",
    "graphs",
    "release",
    "local",
    "audit",
    "reproduce",
    "sizing",
    "devtools",
    "cli",
]
CLOSED = {
    "client": {"estimation", "aggregator"},
    "proxy": set(ROOMS) - {"wire", "queries", "service", "logs", "errors", "checks", "toml_file", "proxy"},
}
# Heavy or sensitive libraries, and the only rooms that may import them.
LIBRARIES = {
    "confluent_kafka": {"logs", "aggregator", "devtools"},
    "pyspark": {"aggregator"},
    "opendp": {"curator"},
}
PURE = {"mechanisms", "estimation", "privacy", "planning"}
INPUT_OUTPUT = {
    "socket",
    "http",
    "urllib",
    "requests",
    "httpx",
    "sqlite3",
    "subprocess",
    "shutil",
    "tempfile",
    "logging",
}

FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_modules(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide which room is entered"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    assert room in ROOMS, f"{room} has no place in the plan of the house"
    for module in imported_modules(path):
        top, _, rest = module.partition(".")
        if top != "deniable":
            assert room in LIBRARIES.get(top, {room}), f"{module} may only be imported in {LIBRARIES.get(top)}"
            assert not (room in PURE and top in INPUT_OUTPUT), f"{room} does no input or output, and imports {module}"
            continue
        target = rest.partition(".")[0]
        if not target:  # the public surface: only the outermost room uses it
            assert room == "cli", f"{room} imports the whole package"
            continue
        assert ROOMS.index(target) <= ROOMS.index(room), f"{room} imports {target}, which lies below it"
        assert target not in CLOSED.get(room, set()), f"{room} must not be able to reach {target}"


def test_the_public_names_are_listed_sorted_and_there() -> None:
    assert deniable.__all__ == sorted(deniable.__all__)
    for name in deniable.__all__:
        assert hasattr(deniable, name), name


def test_importing_does_not_load_scipy_or_frames() -> None:
    heavy = ["scipy", "pandas", "polars", "pyarrow", "matplotlib", "rich", "click"]
    code = f"import sys, deniable; print([m for m in {heavy!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert out.stdout.strip() == "[]"
