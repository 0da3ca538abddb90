"""However a demonstration is ended politely, nothing of it is left: no process, no file."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[3] / "src"
COMMAND = [
    sys.executable,
    "-c",
    "from deniable.cli import main; main()",
    "demo",
    "--population",
    "200",
    "--seconds",
    "60",
]


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [
        int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()
    ]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
@pytest.mark.parametrize(
    ("how", "early"),
    [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGINT, True)],
    ids=["int", "term", "starting"],
)
def test_an_interrupt_leaves_nothing_running_and_no_file(
    how: signal.Signals, early: bool, tmp_path: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(  # noqa: S603
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        started: list[int] = []
        deadline = time.monotonic() + 60
        while len(started) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
            started = children(process.pid)
        assert len(started) == 3  # two proxies and an aggregator
        if not early:
            assert process.stdout is not None
            while not process.stdout.readline().startswith("Window"):
                pass
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(how)
        out, errors = process.communicate(timeout=40)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors == ""
    assert out.endswith("Stopped. Nothing is left running.\n")
    assert [pid for pid in started if is_alive(pid)] == []
    assert list(tmp_path.iterdir()) == []
    assert re.search("[\x1b\r]", out) is None  # no control codes where no terminal is


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are found in /proc")
def test_no_service_outlives_a_demonstration_that_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(  # noqa: S603
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Window"):
            assert process.poll() is None
        started = children(process.pid)
        assert len(started) >= 3
    finally:
        process.kill()
        process.communicate()
    deadline = time.monotonic() + 30
    while any(is_alive(pid) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [pid for pid in started if is_alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
