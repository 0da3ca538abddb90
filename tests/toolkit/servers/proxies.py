"""A proxy in a process of its own, on a port that the operating system chose."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from deniable.logs.sqlite_log import LogReader
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.service.tokens import Role, TokenStore
from deniable.wire.blocks import Block
from toolkit.queries import make_query
from toolkit.servers import loopback
from toolkit.shares import Words

_COMMAND = (
    "import sys; sys.modules.update(dict.fromkeys({blocked!r})); from deniable.cli import main;"
    " main()"
)


_ORIGIN = int(time.time()) // 600 * 600 - 6000
"""Of all queries of one run: those that are made later must count the same epochs."""


def query_of_today(**changes: Any) -> Query:
    """A query whose epochs are ten minutes long, so that all of a test falls in one or two of
    them."""
    return make_query(schedule=Schedule(_ORIGIN, _ORIGIN + 864_000, 600, 600, 600), **changes)


def signed(query: Query) -> SignedQuery:
    """The query, signed with a key made for it."""
    return sign(query, AnalystKey.generate(query.analyst))


class ProxyProcess:
    """A proxy that is started, stopped and killed; its folder stays."""

    def __init__(self, folder: Path, settings: str = "", blocked: tuple[str, ...] = ()) -> None:
        """`blocked` are modules that its process cannot import, as if they were not installed."""
        self.folder = folder
        self._command = [sys.executable, "-c", _COMMAND.format(blocked=blocked), "proxy", "run"]
        folder.mkdir(exist_ok=True)
        self.file = folder / "proxy.toml"
        self.file.write_text(f'folder = "data"\nport = 0\n{settings}')
        self.data = folder / "data"
        self.data.mkdir(mode=0o700, exist_ok=True)
        self.process: subprocess.Popen[str] | None = None

    def token(self, role: Role = "device", quota: int | None = None) -> dict[str, str]:
        """Headers with a new token."""
        book = TokenStore(self.data / "tokens.db")
        (token,) = book.add(role, quota)
        book.close()
        return {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}

    def start(self) -> str:
        """Run it; its address, once it answers."""
        errors = (self.folder / "stderr.jsonl").open("a")
        source = Path(__file__).parents[3] / "src"
        environment = {"PYTHONPATH": str(source), **os.environ}
        self.process = subprocess.Popen(  # noqa: S603 - our own command
            [*self._command, str(self.file)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )
        errors.close()
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (line, self.errors())
        self.address = line.removeprefix("listening on ").strip()
        return self.address

    def errors(self) -> str:
        """All that it wrote to standard error."""
        return (self.folder / "stderr.jsonl").read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, and give its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def __enter__(self) -> ProxyProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.stop(signal.SIGKILL)

    def publish(self, query: Query) -> None:
        """Put a query on its board."""
        answer = loopback.put(
            f"{self.address}/v1/queries/{query.id}",
            content=signed(query).to_bytes(),
            headers=self.token("operator"),
        )
        assert answer.status_code == 201, answer.text

    def children(self) -> list[int]:
        """The processes that it has started."""
        assert self.process is not None
        pid = self.process.pid
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def intake_and_workers(self) -> tuple[int, list[int]]:
        """The process of the intake, which alone has the lock of the folder open, and the
        workers."""
        lock = str(self.data / "lock")
        owners = {pid for pid in self.children() if lock in _open_files(pid)}
        assert len(owners) <= 1
        end = time.monotonic() + 20
        while not owners:
            assert time.monotonic() < end
            time.sleep(0.01)
            owners = {pid for pid in self.children() if lock in _open_files(pid)}
        (intake,) = owners
        return intake, [pid for pid in self.children() if pid != intake]

    def kill_child(self, pid: int) -> None:
        """Kill one of them, without a word."""
        os.kill(pid, signal.SIGKILL)

    def metrics(self) -> dict[str, int]:
        """What it counts."""
        text = loopback.get(f"{self.address}/metrics").text
        rows = [
            line.removeprefix("deniable_proxy_").rsplit(" ", 1)
            for line in text.splitlines()
            if not line.startswith("#")
        ]
        return {name: int(float(value)) for name, value in rows}

    def refused(self, reason: str) -> int:
        """How many requests it refused for this reason."""
        return self.metrics().get(f'refused_total{{reason="{reason}"}}', 0)

    def logged(self) -> Words:
        """All rows of its log, in the order of the log."""
        reader = LogReader(self.data / "log.db")
        blocks = [Block.from_bytes(content) for _, content in reader.read(0, 1_000_000)]
        reader.close()
        return np.concatenate(
            [np.empty((8, 0), dtype=np.uint64), *(block.columns for block in blocks)], axis=1
        )


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for each in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(each.readlink()))
    return found
