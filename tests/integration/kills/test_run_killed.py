"""A test run that is killed leaves no server behind, and its processes share one broker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolkit.servers.brokers import require_kafka

_TESTS = """
import os, subprocess, sys, time
from pathlib import Path
import pytest

PLACE = Path({place!r})

@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_of_kafka(broker, name):
    (PLACE / name).write_text(str(broker._process.pid))
    time.sleep(600 * (name == "three"))

def test_of_another_server():
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    server = subprocess.Popen([sys.executable, "-I", "-S", "-c", deaf], start_new_session=True)
    (PLACE / "server").write_text(str(server.pid))
    (PLACE / "process").write_text(str(os.getpid()))
    time.sleep(600)
"""
_NAMES = ("one", "two", "three", "server", "process")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_run_that_is_killed_leaves_no_broker_and_no_other_server(tmp_path: Path) -> None:
    require_kafka()
    here = Path(__file__).parents[2]
    (tmp_path / "test_inner.py").write_text(_TESTS.format(place=str(tmp_path)))
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(here.parent / "src"), str(here)]),
    }
    options = [
        "-c",
        str(here.parent / "pyproject.toml"),
        "-p",
        "conftest",
        "-p",
        "no:cacheprovider",
        "-n",
        "2",
    ]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        f"--basetemp={tmp_path / 'temporary'}",
        str(tmp_path / "test_inner.py"),
    ]
    run = subprocess.Popen(  # noqa: S603 - ours
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while not all(
            (tmp_path / name).exists() and (tmp_path / name).read_text() for name in _NAMES
        ):
            assert run.poll() is None, run.stdout and run.stdout.read()
            assert time.monotonic() < deadline, sorted(path.name for path in tmp_path.iterdir())
            time.sleep(0.05)
    finally:
        run.kill()
        run.wait()
        if run.stdout is not None:
            run.stdout.close()
    found = {name: int((tmp_path / name).read_text()) for name in _NAMES}
    # one broker, whichever process a test ran in
    assert len({found[name] for name in ("one", "two", "three")}) == 1
    deadline = time.monotonic() + 20
    while left := [name for name, pid in found.items() if _lives(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
