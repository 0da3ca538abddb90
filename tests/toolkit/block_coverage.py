"""Which parts of the package the tests run: `DENIABLE_COVERAGE=1 pytest -n auto` measures them, and
fails where a room has less than its floor.

Python before 3.12 can trace lines only at half the speed. So a block is what is counted, as in Go:
the body of a function, a branch, a loop or a handler gets one statement more as the package is
imported, `__blocks__[n] = 1`, which costs a few per cent. Processes that tests start are not seen:
what only they run counts as not run, and the floors are those of the quick lane.
"""

from __future__ import annotations

import ast
import os
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

import pytest

FLOORS = Path(__file__).with_name("coverage_floors.toml")
_NAME = "__blocks__"
_OUTPUT = "deniable_blocks"
_PACKAGE = "deniable"


class _Blocks(ast.NodeTransformer):
    """Puts a probe at the start of each block of a function, and counts them."""

    def __init__(self) -> None:
        self.n = self._depth = 0

    def _probe(self, body: list[ast.stmt], after: int = 0) -> list[ast.stmt]:
        first = body[min(after, len(body) - 1)]
        [probe] = ast.parse(f"{_NAME}[{self.n}] = 1").body
        self.n += 1
        for node in ast.walk(probe):
            ast.copy_location(node, first)
        return [*body[:after], probe, *body[after:]]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        documented = ast.get_docstring(node, clean=False) is not None
        rest = node.body[documented:]
        if all(isinstance(each, ast.Expr | ast.Pass) for each in rest):
            return node  # a protocol's method: there is nothing to run
        self._depth += 1
        node.body = self._probe(node.body, int(documented))
        self.generic_visit(node)
        self._depth -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self._depth and isinstance(
            node, ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.match_case
        ):
            node.body = self._probe(node.body)
            other = getattr(node, "orelse", [])
            if other and not (len(other) == 1 and isinstance(other[0], ast.If)):
                cast(Any, node).orelse = self._probe(other)
        return node


def probed(source: bytes, path: str) -> tuple[ast.Module, int]:
    """A module with its probes, and how many they are."""
    blocks = _Blocks()
    tree: ast.Module = blocks.visit(ast.parse(source, path))
    return tree, blocks.n


class _Loader(SourceFileLoader):
    """Loads a module with its probes."""

    def get_code(self, fullname: str) -> CodeType:
        tree, blocks = probed(self.get_data(self.path), self.path)
        measured[self.path] = bytearray(blocks)
        code: CodeType = compile(tree, self.path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        module.__dict__[_NAME] = measured[self.path]
        exec(code, module.__dict__)  # noqa: S102 - as every loader does


class _Finder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] != self._package:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


measured: dict[str, bytearray] = {}
"""By file: a byte for each block, 1 where it was run."""


def install(package: str) -> MetaPathFinder:
    """From now on modules of this package are measured as they are imported."""
    finder = _Finder(package)
    sys.meta_path.insert(0, finder)
    return finder


def add(found: Mapping[str, bytes]) -> None:
    """Add what another process ran."""
    for path, ran in found.items():
        known = measured.setdefault(path, bytearray(len(ran)))
        known[:] = bytes(map(max, known, ran))


def rooms(root: Path) -> dict[str, tuple[int, int]]:
    """How many blocks of each room were run, and how many it has; "." are the modules of none."""
    sums: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path in root.rglob("*.py"):
        # what nobody imported has blocks too
        ran = measured.get(str(path)) or bytearray(probed(path.read_bytes(), str(path))[1])
        room, _, module = path.relative_to(root).as_posix().partition("/")
        name = room if module else "."
        sums[name] = (sums[name][0] + sum(ran), sums[name][1] + len(ran))
    return dict(sums)


def below(found: Mapping[str, tuple[int, int]], floors: Mapping[str, float]) -> list[str]:
    """The rooms that have less than their floor, or none."""
    faults = [f"{room} has no floor" for room in sorted(set(found) - set(floors))]
    for room, (ran, blocks) in sorted(found.items()):
        if 100 * ran < floors.get(room, 0) * blocks:
            faults.append(
                f"{room}: {100 * ran / blocks:.2f} % of {blocks} blocks, floor {floors[room]} %"
            )
    return faults


class _Measured:
    """Brings what the workers ran to where the run was started, and compares it with the floors."""

    def __init__(self) -> None:
        self._faults: list[str] = []

    def pytest_testnodedown(self, node: Any) -> None:
        add(getattr(node, "workeroutput", {}).get(_OUTPUT, {}))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = {path: bytes(ran) for path, ran in measured.items()}
            return
        found = rooms(session.config.rootpath / "src" / _PACKAGE)
        self._faults = below(found, tomllib.loads(FLOORS.read_text(encoding="utf-8")))
        if self._faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        root = terminalreporter.config.rootpath / "src" / _PACKAGE
        terminalreporter.section("blocks that were run, in per cent")
        found = rooms(root)
        for room, (ran, blocks) in sorted(found.items()):
            terminalreporter.write_line(f"{100 * ran / max(1, blocks):7.2f}  {room} ({blocks})")
        ran, blocks = (sum(each) for each in zip(*found.values(), strict=True))
        terminalreporter.write_line(f"{100 * ran / blocks:7.2f}  in all ({blocks})")
        for fault in self._faults:
            terminalreporter.write_line(f"below its floor: {fault}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("DENIABLE_COVERAGE"):
        config.pluginmanager.register(_Measured(), "block_coverage")


if os.environ.get("DENIABLE_COVERAGE"):
    install(_PACKAGE)
