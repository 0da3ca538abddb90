# ruff: noqa: S608 - SQL put together on purpose
"""The process that runs an analyst's SQL can open, reach and start nothing, and does not outlive
the one that started it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import deniable
from deniable.cli.person.vault import vault as command
from deniable.client import Vault
from deniable.client.sandbox import interface as sandbox
from deniable.sql import confinement

SOURCE = Path(deniable.__file__).parent
LINUX = sys.platform == "linux"
pytestmark = pytest.mark.skipif(
    not LINUX, reason="the walls are Linux's; elsewhere `sandbox.walls()` says which hold"
)

# Ways out for code that has taken over the process. Walls that are named are left out, to see what
# the others hold.
ATTEMPTS = """
import json, os, resource, socket, sys, types
for name, path in (("deniable", sys.argv[1]), ("deniable.sql", sys.argv[1] + "/sql")):
    package = types.ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package
from deniable.sql import confinement
for wall in sys.argv[2:]:
    setattr(confinement, wall, lambda *_: False)
walls = confinement.confine(64 << 20, 10)
def run():
    try:
        os.execv("/nowhere/program", ["program"])
    except FileNotFoundError:  # it was looked for
        pass
ways = {
    "read a file": lambda: os.close(os.open("/etc/hostname", os.O_RDONLY)),
    "list a folder": lambda: os.listdir("/"),
    "write a file": lambda: os.close(os.open("/dev/null", os.O_WRONLY)),
    "look at a file": lambda: os.stat("/etc/hostname"),
    "open a socket": lambda: socket.socket().close(),
    "open a local socket": lambda: socket.socket(socket.AF_UNIX).close(),
    "start a process": lambda: os._exit(0) if os.fork() == 0 else os.wait(),
    "run a program": run,
    "send a signal": lambda: os.kill(os.getppid(), 0),
    "take memory": lambda: bytearray(300 << 20),
    "lift a limit": lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40)),
}
done = {}
for name, way in ways.items():
    try:
        way()
        done[name] = True
    except (OSError, MemoryError, ValueError):
        done[name] = False
sys.stdout.write(json.dumps([walls, done]))
"""


def attempt(*holes: str) -> tuple[dict[str, bool], dict[str, bool]]:
    command = [sys.executable, "-I", "-S", "-c", ATTEMPTS, str(SOURCE), *holes]
    walls, done = json.loads(
        subprocess.run(command, capture_output=True, check=True, timeout=30).stdout  # noqa: S603
    )
    return walls, done


def available() -> dict[str, bool]:
    return {name: held for name, held in attempt()[0].items() if held}


def test_no_way_out_is_left_open() -> None:
    walls, done = attempt()
    assert walls["rlimits"] and walls["address space"]  # noqa: PT018 - every Linux has these
    if not (walls["landlock"] and walls["seccomp"]):
        pytest.skip(f"this kernel has {walls}")
    assert not any(done.values()), done


def test_each_wall_holds_without_the_others() -> None:
    walls = available()
    if "seccomp" in walls:
        _, done = attempt("_limit", "_landlock", "_limit_address_space")
        assert {name for name, did in done.items() if did} <= {"take memory"}
    if "landlock" in walls:
        _, done = attempt("_limit", "_seccomp")
        assert not any(
            done[name] for name in ("read a file", "list a folder", "write a file", "take memory")
        )
    _, done = attempt("_landlock", "_seccomp")
    assert not any(
        done[name]
        for name in (
            "read a file",
            "write a file",
            "open a socket",
            "open a local socket",
            "take memory",
        )
    )
    if os.getuid() != 0:  # the limit on processes is not for root
        assert not done["start a process"]
    # without any, there is a way
    assert attempt("_limit", "_landlock", "_seccomp", "_limit_address_space")[1]["read a file"]


def test_a_wall_that_is_not_there_is_not_claimed() -> None:
    walls, _ = attempt("_landlock", "_seccomp")
    assert walls == {"rlimits": True, "address space": True, "landlock": False, "seccomp": False}


def test_the_command_line_says_which_walls_hold_here() -> None:
    expected = {**attempt()[0], "heap": True}
    assert sandbox.walls() == expected
    assert set(expected) == {*confinement.WALLS, "heap"}
    printed = CliRunner().invoke(command, ["sandbox", "--json"])
    assert printed.exit_code == 0
    assert json.loads(printed.output)["walls"] == expected
    text = CliRunner().invoke(command, ["sandbox"]).output
    assert [line.split()[0] for line in text.splitlines()[1:]] == [
        "yes" if held else "no" for held in expected.values()
    ]


@pytest.mark.parametrize("busy", [False, True])
def test_the_process_does_not_outlive_a_parent_that_is_killed(tmp_path: Path, busy: bool) -> None:
    vault = Vault.create(tmp_path / "ann.db")
    vault.import_rows("t", {"a": "INTEGER"}, [(i,) for i in range(100)])
    vault.grant("t", ["a"])
    slow = f"SELECT count(*) FROM {', '.join(f't t{i}' for i in range(9))}"
    code = (
        "import sys\n"
        "from deniable.client import Vault, run; from deniable.client.sandbox import pool as sandbox_pool\n"
        "vault = Vault.open(sys.argv[1])\n"
        "run(vault, 'SELECT a FROM t')\n"
        "print(sandbox_pool.sessions.kept[vault.path]._process._process.pid, flush=True)\n"
        + (f"run(vault, {slow!r}, deadline=2)\n" if busy else "import time; time.sleep(60)\n")
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    with subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", code, str(vault.path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        status = Path(f"/proc/{pid}/status")
        assert "State" in status.read_text()
        time.sleep(0.2 if busy else 0)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    ends = time.monotonic() + 10
    while status.exists() and "Z (zombie)" not in status.read_text() and time.monotonic() < ends:
        time.sleep(0.05)
    assert time.monotonic() < ends
