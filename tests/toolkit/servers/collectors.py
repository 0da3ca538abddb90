"""A collector in a process of its own, in front of a proxy that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from deniable.service.tokens import TokenStore
from toolkit.servers import loopback
from toolkit.servers.proxies import ProxyProcess

_COMMAND = [sys.executable, "-c", "from deniable.cli import main; main()", "collector", "run"]


class CollectorProcess:
    """A collector that is started, stopped and killed."""

    def __init__(self, folder: Path, proxy: ProxyProcess, settings: str = "") -> None:
        self.folder, self.proxy, self._settings = folder, proxy, settings
        folder.mkdir(exist_ok=True)
        self.process: subprocess.Popen[str] | None = None
        self._port = 0
        book = TokenStore(proxy.data / "tokens.db")
        (token,) = book.add("collector")
        book.close()
        (folder / "collector.token").write_text(token)

    def start(self) -> str:
        """Run it; its address, once it can be used."""
        text = (
            f'proxy = "{self.proxy.address}"\ntoken_file = "collector.token"\nport ='
            f' {self._port}\nrefresh = "1 s"\n'
        )
        (self.folder / "collector.toml").write_text(text + self._settings)
        environment = {"PYTHONPATH": str(Path(__file__).parents[3] / "src"), **os.environ}
        with (self.folder / "stderr.jsonl").open("a") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                [*_COMMAND, str(self.folder / "collector.toml")],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), (line, (self.folder / "stderr.jsonl").read_text())
        self.address = line.removeprefix("listening on ").strip()
        self._port = int(self.address.rsplit(":", 1)[1])
        end = time.monotonic() + 20
        while loopback.get(f"{self.address}/readyz").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.02)
        return self.address

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End it, and give its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def metrics(self) -> dict[str, int]:
        """What it counts."""
        text = loopback.get(f"{self.address}/metrics").text
        rows = [
            line.removeprefix("deniable_collector_").rsplit(" ", 1)
            for line in text.splitlines()
            if not line.startswith("#")
        ]
        return {name: int(float(value)) for name, value in rows}

    def __enter__(self) -> CollectorProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.stop(signal.SIGKILL)
