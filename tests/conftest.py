"""Tests run in as many processes as there are cores: each may use one thread for linear algebra, or they wait for each other."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Devices note elsewhere how new their stores are (`Store.beside`): not among the files of the person who runs the tests.
_STATE = tempfile.TemporaryDirectory(prefix="deniable-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

pytest_plugins = ["toolkit.brokers", "toolkit.sparks", "toolkit.browser"]

_HERE = Path(__file__).parent
_SERVERS = {"the_broker", "spark"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a server run in one process (`--dist loadgroup`). Servers and simulations stay out of the quick lane."""
    for item in items:
        path = item.path
        fixtures: Any = getattr(item, "fixturenames", ())
        if _SERVERS & set(fixtures):
            item.add_marker(pytest.mark.xdist_group("java"))
        elif path.parent == _HERE / "integration":
            item.add_marker(pytest.mark.xdist_group(path.stem))
        elif path.parent == _HERE / "browser":  # one browser at a time: several on two cores would slow each other down
            item.add_marker(pytest.mark.xdist_group("browser"))
        if path.parent in (_HERE / "integration", _HERE / "statistical", _HERE / "browser"):
            item.add_marker(pytest.mark.slow)
