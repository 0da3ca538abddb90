"""A test run that is killed leaves no server behind. Loaded as a plugin by conftest.py.

Beside each test process stands a small watcher. When that process ends, in whatever way, the
watcher ends every process that was started from it, however many processes lie between: all of them
have inherited one variable of the environment.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

_NAME = "DENIABLE_TEST_PROCESS"
_WATCHER = """
import os, signal, sys
sys.stdin.buffer.read()
marker = sys.argv[1].encode()
found = True
while found:  # again, for what was started meanwhile
    found = False
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if marker in file.read().split(b"\\0"):
                    os.kill(int(pid), signal.SIGKILL)
                    found = True
        except OSError:
            pass  # it has ended, or is not ours
"""


def pytest_configure(config: pytest.Config) -> None:
    if sys.platform != "linux":
        return
    # A session of its own: what kills the run or interrupts it at the terminal does not reach the
    # watcher.
    token = secrets.token_hex(16)
    command = [sys.executable, "-I", "-S", "-c", _WATCHER, f"{_NAME}={token}"]
    environment = {name: value for name, value in os.environ.items() if name != _NAME}
    watcher = subprocess.Popen(  # noqa: S603 - ours
        command, stdin=subprocess.PIPE, env=environment, start_new_session=True
    )
    os.environ[_NAME] = token

    def let_go() -> None:
        assert watcher.stdin is not None
        watcher.stdin.close()
        watcher.wait()

    config.add_cleanup(let_go)
