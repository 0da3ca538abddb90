"""What a person or a researcher uses works where the system has none of POSIX's own parts, as
Windows has not. Services run on POSIX systems (docs/deploy.md)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_WITHOUT_POSIX = """
import asyncio, fcntl, importlib.abc, os, pathlib, signal, sqlite3, ssl, subprocess, sys, types
import click, cryptography.x509, fastapi, httpx, numpy, pandas, pydantic, rich.console, rich.live
import networkx, opendp.prelude, pyarrow, scipy.optimize, scipy.stats, uvicorn

MODULES = {"fcntl", "grp", "pwd", "pty", "resource", "termios", "tty"}
OF_OS = (
    "register_at_fork fork forkpty fchmod fchown chown getuid geteuid getgid getloadavg pread pwrite"
    " sched_getaffinity sched_setaffinity O_CLOEXEC O_DIRECTORY O_NOFOLLOW statvfs fdatasync"
    " posix_spawn uname wait3 getpgid killpg setsid"
)
OF_SIGNAL = "SIGALRM SIGCHLD SIGHUP SIGPROF SIGUSR1 SIGXCPU setitimer pthread_sigmask"


class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def locking(handle, mode, n):  # as Windows does it: at the place where the file is
    what = fcntl.LOCK_UN if mode == 0 else fcntl.LOCK_EX | fcntl.LOCK_NB
    fcntl.lockf(handle, what, n, os.lseek(handle, 0, os.SEEK_CUR))


sys.modules["msvcrt"] = types.ModuleType("msvcrt")
sys.modules["msvcrt"].__dict__.update(locking=locking, LK_UNLCK=0, LK_NBLCK=2)
sys.meta_path.insert(0, Absent())
for name in MODULES:
    sys.modules.pop(name, None)
for name in OF_OS.split():
    if hasattr(os, name):
        delattr(os, name)
for name in OF_SIGNAL.split():
    if hasattr(signal, name):
        delattr(signal, name)
sys.platform = "win32"
"""


def _without_posix(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-c", _WITHOUT_POSIX + code, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


_LIBRARY = """
import deniable
for name in deniable.__all__:
    getattr(deniable, name)
import deniable.curator, deniable.graphs, deniable.planning, deniable.release, deniable.survey
survey = deniable.DirectEncoding(["no", "yes"], epsilon=3.0)
print(survey.estimate(survey.privatize(["yes"] * 1000)).n)
path = pathlib.Path(sys.argv[1])
budget = deniable.curator.CuratorBudget.at(path / "budget", epsilon=1.0)
print(budget.epsilon)
key = deniable.AnalystKey.generate("council")
key.save(path / "key")
print(deniable.AnalystKey.load(path / "key").owner)
"""


def test_the_library_does_without_posix(tmp_path: Path) -> None:
    done = _without_posix(_LIBRARY, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1000", "1", "council"]


_CLIENT = """
import deniable.cli.person.client, deniable.cli.person.vault, deniable.console.person_app
from toolkit.devices import asked, at, bits, make_device, make_policy, opened, signed
from deniable.client.sandbox.interface import walls

exact = {"name": "UnaryEncoding", "a": 1 - 2**-40, "b": 2**-40}
query = asked(mechanism=exact)
policy = make_policy(query, epsilon_per_answer=1000)
device = make_device(pathlib.Path(sys.argv[1]), query, [3.5], policy=policy)
print(device.answer(signed(query), at(0)).outcome)
print(*[bits(message.report, 11).tolist().index(1) for message in opened(device)])
"""


@pytest.mark.slow
def test_a_device_does_without_posix(tmp_path: Path) -> None:
    tests = Path(__file__).parents[2]
    done = _without_posix(f"sys.path.insert(0, {str(tests)!r})\n{_CLIENT}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["answered", "3"]
