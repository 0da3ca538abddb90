"""Two proxies and an aggregator as an operator runs them: processes with settings files, their log
lines, and their faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
from click.testing import CliRunner

from deniable.cli import cli
from deniable.local.services import free_ports
from toolkit.crowds import RING
from toolkit.servers.proxies import ProxyProcess

__all__ = ["AggregatorProcess", "OperatedSystem", "small_disk", "wait_until"]

_T = TypeVar("_T")


def wait_until(look: Callable[[], _T], seconds: float) -> _T:
    """What a look gives once it is true; fails when it is not after so many seconds."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return found


class AggregatorProcess:
    """An aggregator in a process of its own."""

    def __init__(self, folder: Path, file: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.file, self._environment = folder, file, environment
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Run it; its address."""
        source = Path(__file__).parents[3] / "src"
        command = [
            sys.executable,
            "-c",
            "from deniable.cli import main; main()",
            "aggregator",
            "run",
            str(self.file),
        ]
        with (self.folder / "aggregator.jsonl").open("a") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": str(source), **self._environment},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert " at http" in line, (line, self.lines())
        self.address = line.split()[-1]
        return self.address

    def lines(self) -> list[dict[str, Any]]:
        """What it logged."""
        return [
            json.loads(line)
            for line in (self.folder / "aggregator.jsonl").read_text().splitlines()
            if line.startswith("{")
        ]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self.process is None:
            return
        self.process.send_signal(how)
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None


class OperatedSystem:
    """Proxy "one", whose log the aggregator reads from its file, "two", whose log it reads over
    HTTP, and the aggregator."""

    def __init__(
        self, folder: Path, intake: str, limits: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self._ports = folder, free_ports(2)
        self._intake, self._scheme = intake, ["http", "http"]
        self.proxies = [ProxyProcess(folder / name) for name in ("one", "two")]
        for i in range(2):
            self.write_proxy(i)
        RING.save(folder / "ring.json")
        self._limits, self._environment = limits, environment or {}
        self.settings = folder / "aggregator.toml"

    def write_proxy(self, i: int, certificate: Path | None = None) -> None:
        """Write the settings of a proxy, with or without TLS."""
        tls = (
            ""
            if certificate is None
            else (
                f'[tls]\ncertificate = "{certificate}"\nkey = "{certificate.with_suffix(".key")}"\n'
            )
        )
        self._scheme[i] = "http" if certificate is None else "https"
        text = f'folder = "data"\nport = {self._ports[i]}\n[intake]\n{self._intake}\n{tls}'
        self.proxies[i].file.write_text(text)

    def url(self, i: int) -> str:
        """The address of a proxy."""
        return f"{self._scheme[i]}://127.0.0.1:{self._ports[i]}"

    def start(self) -> None:
        """Start everything."""
        lines = ['state = "state/state.db"', 'ring = "ring.json"', "port = 0"]
        (self.folder / "state").mkdir(exist_ok=True)
        for i, (name, proxy) in enumerate(zip(("one", "two"), self.proxies, strict=True)):
            proxy.start()
            token = self.folder / f"{name}.token"
            token.write_text(proxy.token("operator")["Authorization"].removeprefix("Bearer "))
            lines += [
                "[[proxies]]",
                f'name = "{name}"',
                f'url = "{self.url(i)}"',
                f'token_file = "{token.name}"',
            ]
        lines.insert(7, 'log = "one/data/log.db"')
        self.settings.write_text("\n".join([*lines, "[limits]", self._limits, ""]))
        self.aggregator = AggregatorProcess(self.folder, self.settings, self._environment)
        self.aggregator.start()

    def stop(self) -> None:
        """End everything."""
        if hasattr(self, "aggregator"):
            self.aggregator.stop(signal.SIGKILL)
        for proxy in self.proxies:
            if proxy.process is not None:
                proxy.process.send_signal(signal.SIGCONT)
                proxy.stop(signal.SIGKILL)

    def token(self) -> str:
        """A token of an analyst."""
        result = CliRunner().invoke(
            cli, ["aggregator", "token", str(self.settings), "--name", "City of Exampleton"]
        )
        assert result.exit_code == 0, result.output
        return next(word for word in result.output.split() if word.startswith("deniable_"))

    # --- what is wrong

    def faults(self, page: str = "readyz") -> dict[tuple[str, str], str]:
        """What the aggregator's health page names: fault and subject, and the detail."""
        told = httpx.get(f"{self.aggregator.address}/{page}").json()
        return {(each["fault"], each["subject"]): each["detail"] for each in told["faults"]}

    def measured(self) -> set[tuple[str, str]]:
        """The faults in the aggregator's metrics."""
        return _measured(self.aggregator.address, "aggregator")

    def logged(self, event: str = "fault") -> set[tuple[str, str]]:
        """The faults in the aggregator's log."""
        return {
            (line["fault"], line["subject"])
            for line in self.aggregator.lines()
            if line["event"] == event
        }

    def sees(self, fault: str, subject: str, within: float) -> None:
        """Wait until health, log and metrics name a fault, and nobody else is blamed for it."""
        key = (fault, subject)
        wait_until(
            lambda: key in self.faults() and key in self.measured() and key in self.logged(), within
        )
        assert {subject for name, subject in self.faults() if name == fault} == {subject}

    def no_longer_sees(self, fault: str, subject: str, within: float) -> None:
        """Wait until it is gone from all three."""
        key = (fault, subject)
        wait_until(
            lambda: (
                key not in self.faults()
                and key not in self.measured()
                and key in self.logged("fault mended")
            ),
            within,
        )


def _measured(address: str, service: str) -> set[tuple[str, str]]:
    found = set()
    for line in httpx.get(f"{address}/metrics").text.splitlines():
        if line.startswith(f"deniable_{service}_fault{{"):
            labels = dict(
                each.split("=", 1)
                for each in line[line.index("{") + 1 : line.index("}")].split(",")
            )
            found.add((labels["fault"].strip('"'), labels["subject"].strip('"')))
    return found


@contextmanager
def small_disk(place: Path, n_bytes: int) -> Iterator[None]:
    """Mount a disk of so many bytes in memory; raises a `PermissionError` where that is not
    allowed."""
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={n_bytes},mode=0700", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise PermissionError(done.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)  # noqa: S603, S607
