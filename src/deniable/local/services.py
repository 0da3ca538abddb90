"""Proxies and an aggregator as processes: write their settings, make their tokens, start, watch and
always stop them."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.aggregator.state import connect
from deniable.aggregator.web.tokens import RIGHTS, add_token, grant, token_id
from deniable.analyst.analyst import Analyst
from deniable.errors import ServiceError
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import SignedQuery
from deniable.service.tokens import Role, TokenStore

__all__ = ["Address", "Aggregator", "LocalProxy", "Services", "free_ports", "publish_everywhere"]

_SOURCE = str(Path(__file__).parents[2])
"""Where this package was imported from, so that the processes run the same code."""
_CODE = """
import os, signal, threading
def end_with_parent():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_parent, daemon=True).start()
from deniable.cli import main
main()
"""
"""The command, which also stops when its standard input closes: however its parent dies, even if it
is killed."""
_COMMAND = (sys.executable, "-c", _CODE)
_SECONDS_TO_START = 60.0
_SECONDS_TO_STOP = 15.0
_SECONDS_TO_RELAY = 30.0
_POLL = 0.05


def publish_everywhere(analyst: Analyst, signed: SignedQuery) -> None:
    """Publish a query, and wait until every proxy relays it."""
    query = signed.unverified().id
    document = analyst.publish(signed)
    give_up = time.monotonic() + _SECONDS_TO_RELAY
    while set(document["relayed"].values()) != {"done"}:
        if time.monotonic() > give_up:
            raise ServiceError(f"the query did not reach the proxies: {document['relayed']}")
        time.sleep(_POLL)
        document = next(each for each in analyst.queries() if each["id"] == query)


def free_ports(n: int) -> list[int]:
    """Ports on this machine that are free at the moment."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@dataclass(frozen=True)
class Address:
    """Where a service listens, and how others reach it."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    url: str = ""
    """As devices and the aggregator see it; by default made of host and port."""
    password_file: Path | None = None
    """Holds the password of the key, if that is encrypted."""

    def __post_init__(self) -> None:
        if not self.url:
            host = f"[{self.host}]" if ":" in self.host else self.host
            object.__setattr__(
                self, "url", f"http{'s' if self.certificate else ''}://{host}:{self.port}"
            )

    def settings(self) -> dict[str, Any]:
        """As a service's settings say it."""
        files = {
            "certificate": self.certificate,
            "key": self.key,
            "password_file": self.password_file,
        }
        tls = {name: str(path) for name, path in files.items() if path is not None}
        return {"host": self.host, "port": self.port, **({"tls": tls} if tls else {})}


@dataclass(frozen=True)
class LocalProxy:
    """A proxy, started here or run by someone else."""

    name: str
    """What people call it; queries call it by its url."""
    address: Address
    here: bool = True
    intake: Mapping[str, Any] = field(default_factory=dict)
    enrolment: Mapping[str, Any] = field(default_factory=dict)
    browser: Mapping[str, Any] = field(default_factory=dict)
    token_file: Path | None = None
    """The token with which the aggregator publishes and reads; created if missing, for a proxy that
    is started here."""


@dataclass(frozen=True)
class Aggregator:
    """An aggregator, here or elsewhere."""

    address: Address
    here: bool = True
    limits: Mapping[str, Any] = field(default_factory=dict)
    history: Mapping[str, Any] | None = field(default_factory=lambda: {"folder": "history"})
    """The settings of its history; None for none. Without PyArrow there is none either."""
    controller: Path | None = None
    """The key with which it adapts queries whose envelopes name it."""

    @property
    def keeps_history(self) -> bool:
        """Whether counted reports are kept."""
        return self.history is not None and importlib.util.find_spec("pyarrow") is not None


class Services:
    """The services of one system that run on this machine. A context manager: whatever happens,
    they stop when it ends.

    They run in their own sessions, so an interrupt at the terminal reaches only this process, which
    then stops them.
    """

    def __init__(
        self,
        folder: Path,
        ring: KeyRing,
        proxies: Sequence[LocalProxy],
        aggregator: Aggregator,
        others: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.folder, self.ring = folder, folder / "ring.json"
        self.proxies, self.aggregator = list(proxies), aggregator
        self.others = dict(others or {})
        """Other commands that run beside them, by name; each prints a line when it listens."""
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._launcher = ThreadPoolExecutor(1)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ring.save(self.ring)
        for proxy in self.proxies:
            if proxy.here:
                self._prepare_proxy(proxy)
        if aggregator.here:
            self._prepare_aggregator()

    @classmethod
    def on_free_ports(
        cls, folder: Path, ring: KeyRing, n_proxies: int, intake: Mapping[str, Any], patience: int
    ) -> Services:
        """Proxies and an aggregator for a while, at ports of this machine that are free."""
        first, *others = free_ports(n_proxies + 1)
        proxies = [
            LocalProxy(f"proxy-{i}", Address(port=port), intake=intake)
            for i, port in enumerate(others, start=1)
        ]
        return cls(
            folder, ring, proxies, Aggregator(Address(port=first), limits={"patience": patience})
        )

    def analyst(self) -> Analyst:
        """An analyst who may do everything with the queries of the keys on the ring."""
        return Analyst(
            self.aggregator.address.url, self.analyst_token_file.read_text(encoding="utf-8").strip()
        )

    # --- settings and tokens

    def _prepare_proxy(self, proxy: LocalProxy) -> None:
        settings: dict[str, Any] = {
            "folder": proxy.name,
            "ring": str(self.ring),
            **proxy.address.settings(),
        }
        (self.folder / proxy.name).mkdir(mode=0o700, exist_ok=True)
        tables = {"intake": proxy.intake, "enrolment": proxy.enrolment, "browser": proxy.browser}
        _write_toml(
            self.folder / f"{proxy.name}.toml",
            settings | {name: dict(each) for name, each in tables.items() if each},
        )
        if not self._token_file(proxy).exists():
            _write_private(self._token_file(proxy), self.token(proxy, "operator"))

    def _prepare_aggregator(self) -> None:
        proxies = []
        for proxy in self.proxies:
            document = {
                "name": proxy.address.url,
                "url": proxy.address.url,
                "token_file": str(self._token_file(proxy)),
            }
            if proxy.here:
                document["log"] = str(self.folder / proxy.name / "log.db")
            proxies.append(document)
        settings = {
            "state": "aggregator.db",
            "ring": str(self.ring),
            **self.aggregator.address.settings(),
        }
        if self.aggregator.controller is not None:
            settings["controller"] = str(self.aggregator.controller)
        tables = {"limits": dict(self.aggregator.limits)}
        if self.aggregator.keeps_history:
            tables["history"] = dict(self.aggregator.history or {})
        _write_toml(self.folder / "aggregator.toml", {**settings, **tables, "proxies": proxies})
        self._prepare_analyst_token()

    def _prepare_analyst_token(self) -> None:
        """A token of the analysts whose keys are on the ring: anyone who runs a whole system asks
        for all of them."""
        owners = sorted({trusted.key.owner for trusted in KeyRing.load(self.ring)})
        connection = connect(self.folder / "aggregator.db")
        try:
            if not self.analyst_token_file.exists():
                token = add_token(
                    connection, owners[0], RIGHTS, int(time.time()), label="made with the system"
                )
                _write_private(self.analyst_token_file, token)
            token = self.analyst_token_file.read_text(encoding="utf-8").strip()
            for owner in owners:
                grant(connection, token_id(token), owner, RIGHTS)
        finally:
            connection.close()

    def _token_file(self, proxy: LocalProxy) -> Path:
        return proxy.token_file or self.folder / f"{proxy.name}.operator-token"

    @property
    def analyst_token_file(self) -> Path:
        """Where the token for the aggregator's interface is."""
        return self.folder / "analyst-token"

    def token(
        self, proxy: LocalProxy, role: Role = "device", quota: int | None = None, count: int = 1
    ) -> str:
        """New tokens of a proxy that is started here, one per line."""
        book = TokenStore(self.folder / proxy.name / "tokens.db")
        try:
            return "\n".join(book.add(role, quota, count))
        finally:
            book.close()

    # --- processes

    @property
    def names(self) -> list[str]:
        """The services that run here."""
        return [
            *(proxy.name for proxy in self.proxies if proxy.here),
            *(["aggregator"] * self.aggregator.here),
            *self.others,
        ]

    def __enter__(self) -> Services:
        try:
            for name in self.names:
                self.start(name)
            for name in self.names:
                self.wait_until_up(name)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, name: str) -> None:
        """Start a service that does not run.

        In another thread, for an interrupt reaches the main thread alone, and could fall between a
        process's birth and its entry in the list of those to be ended.
        """
        self._launcher.submit(self._launch, name).result()

    def _launch(self, name: str) -> None:
        kind = "aggregator" if name == "aggregator" else "proxy"
        command = self.others.get(name) or (kind, "run", str(self.folder / f"{name}.toml"))
        path = os.pathsep.join(filter(None, [_SOURCE, os.environ.get("PYTHONPATH", "")]))
        with self._errors(name).open("a") as errors:
            self._processes[name] = subprocess.Popen(  # noqa: S603 - our own command
                [*_COMMAND, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )

    def wait_until_up(self, name: str) -> None:
        """Return once a service reports that it is listening."""
        process = self._processes[name]
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        timer = threading.Timer(_SECONDS_TO_START, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            process.wait()
            raise ServiceError(f"{name} did not start: {self._last_words(name)}")

    def _errors(self, name: str) -> Path:
        return self.folder / f"{name}.stderr"

    def _last_words(self, name: str) -> str:
        lines = self._errors(name).read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("deniable: ") if lines else "it printed no error"

    def check(self) -> None:
        """Raise an error if one of the services has exited."""
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise ServiceError(
                    f"{name} exited with code {process.returncode}: {self._last_words(name)}"
                )

    def pid(self, name: str) -> int:
        """The process of a service."""
        return self._processes[name].pid

    def kill(self, name: str) -> None:
        """Kill a service at once, whatever it is doing."""
        self._end(self._processes.pop(name), signal.SIGKILL)

    def stop(self) -> None:
        """Stop all services: first the proxies, which flush what is waiting. None can be started
        afterwards."""
        self._launcher.shutdown()
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            self._end(process, signal.SIGTERM)
        self._processes.clear()

    def _end(self, process: subprocess.Popen[str], how: signal.Signals) -> None:
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def _write_private(path: Path, content: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(content + "\n")


def _toml_value(value: Any) -> str:
    if not isinstance(value, Mapping):
        return json.dumps(value)
    return f"{{ {', '.join(f'{json.dumps(name)} = {_toml_value(each)}' for name, each in value.items())} }}"


def _write_toml(path: Path, tree: Mapping[str, Any]) -> None:
    """Settings as TOML: plain values first, then tables, then lists of tables."""

    def assignments(values: Mapping[str, Any]) -> list[str]:
        return [f"{name} = {_toml_value(value)}" for name, value in values.items()]

    lines = assignments(
        {name: value for name, value in tree.items() if not isinstance(value, dict | list)}
    )
    for name, value in tree.items():
        if isinstance(value, dict):
            lines += [f"[{name}]", *assignments(value)]
        elif isinstance(value, list):
            for each in value:
                lines += [f"[[{name}]]", *assignments(each)]
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
