"""How the suite runs: a process per core, servers shared, long groups first. `--costs N` lists the most expensive tests."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

# Each process may use one thread for linear algebra, or they wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# A run starts some hundred processes of ours. Where the environment forbids bytecode, each would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Devices note elsewhere how new their stores are (`Store.beside`): not among the files of the person who runs the tests.
_STATE = tempfile.TemporaryDirectory(prefix="deniable-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

pytest_plugins = ["toolkit.costs", "toolkit.leftovers", "toolkit.brokers", "toolkit.sparks", "toolkit.browser"]

_HERE = Path(__file__).parent
_SERVERS = {"the_broker", "spark"}
_FIRST = ("java", "browser")
"""The longest groups, in this order: what is left for the end must be short, or one process works while the others wait."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: a process per core, and one more where tests wait for servers, so that no core waits with them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores if "not slow" in config.option.markexpr else cores + 1


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that share something costly into one process (`--dist loadgroup`), and keep servers out of the quick lane."""
    for item in items:
        group = _group(item)
        if group and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
        if item.path.parent in (_HERE / "integration", _HERE / "statistical", _HERE / "browser"):
            item.add_marker(pytest.mark.slow)
    items.sort(key=_rank)


def _group(item: pytest.Item) -> str:
    """The server that a test needs, or its file if that has fixtures for all its tests; nothing if any process will do."""
    if item.path.parent == _HERE / "browser":  # one browser at a time: several on two cores would slow each other down
        return "browser"
    if _SERVERS & set(getattr(item, "fixturenames", ())):
        return "java"
    found: dict[str, Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return item.path.stem if any(each.scope == "module" for definitions in found.values() for each in definitions) else ""


def _rank(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    if mark is None:
        return len(_FIRST) + 1 + (item.get_closest_marker("slow") is None)
    return _FIRST.index(mark.args[0]) if mark.args[0] in _FIRST else len(_FIRST)
