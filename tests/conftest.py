"""How the suite runs: a process per core, servers shared, long groups first. `--costs N` lists the
most expensive tests."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

# Collection makes a million objects that live as long as the run: no use in looking for garbage
# among them, neither now nor later (`pytest_collection_finish`).
gc.disable()

# Each process may use one thread for linear algebra, or they wait for each other.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Lines of commands are as wide as they are, on every machine; a test that wants a width sets it.
os.environ.pop("COLUMNS", None)

# A run starts some hundred processes of ours. Where the environment forbids bytecode, each would
# compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Devices note elsewhere how new their stores are (`Store.beside`): not among the files of the
# person who runs the tests.
_STATE = tempfile.TemporaryDirectory(prefix="deniable-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

pytest_plugins = [
    "toolkit.block_coverage",  # the first, for it sees what is imported after it
    "toolkit.costs",
    "toolkit.servers.leftovers",
    "toolkit.servers.brokers",
    "toolkit.servers.sparks",
    "toolkit.servers.browser",
]

_HERE = Path(__file__).parent
_SLOW = ("integration", "statistical", "browser")
_SERVERS = {"the_broker", "spark"}
_FIRST = ("java", "browser")
"""The longest groups, in this order: what is left for the end must be short, or one process works
while the others wait."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto`: a process per core, and one more where tests wait for servers, so that no core
    waits with them."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return cores if "not slow" in config.option.markexpr else cores + 1


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick lane does not import what it would leave out."""
    slow = config.option.markexpr == "not slow" and collection_path.parent == _HERE
    return True if slow and collection_path.name in _SLOW else None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Examples of docstrings are those of src: of the files here, which have none, pytest would
    import and search each a second time. (`tests/unit/house/test_house.py` sees to the "none".)"""
    return [each for each in (yield) if not isinstance(each, DoctestModule)]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests that share something costly into one process (`--dist loadgroup`), and keep servers
    out of the quick lane."""
    for item in items:
        if _folder(item) in _SLOW:
            item.add_marker(pytest.mark.slow)
        group = _group(item)
        if group and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_rank)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def _folder(item: pytest.Item) -> str:
    """The folder of `tests` that a test is in, or that its folder is in; "" for doctests of src."""
    return item.path.relative_to(_HERE).parts[0] if item.path.is_relative_to(_HERE) else ""


def _group(item: pytest.Item) -> str:
    """The server that a test needs, or its file if that has fixtures for all its tests or the test
    is quick: what pytest-xdist does for a group grows with the number of groups, and for thousands
    of them costs more than the tests. Nothing if any process will do."""
    # one browser at a time: several on two cores would slow each other down
    if _folder(item) == "browser":
        return "browser"
    if _SERVERS & set(getattr(item, "fixturenames", ())):
        return "java"
    found: dict[str, Any] = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    shared = any(each.scope == "module" for definitions in found.values() for each in definitions)
    return (
        item.nodeid.partition("::")[0] if shared or item.get_closest_marker("slow") is None else ""
    )


def _rank(item: pytest.Item) -> int:
    mark = item.get_closest_marker("xdist_group")
    if mark and mark.args[0] in _FIRST:
        return _FIRST.index(mark.args[0])
    if item.get_closest_marker("slow") is None:
        return len(_FIRST) + 2
    return len(_FIRST) + (mark is None)
