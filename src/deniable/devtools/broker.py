"""A private Kafka broker on this machine's loopback, for `deniable kafka dev` and for tests. Not
for production.

One KRaft process (broker and controller), with libraries from Maven Central. What clients write
goes to the data folder, which can be kept: a broker restarted on it, even after a kill, still has
everything it had acknowledged.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deniable.devtools.maven import jars, java
from deniable.errors import ServiceError

__all__ = ["KAFKA_VERSION", "Broker", "SecureListener", "kafka_jars"]

KAFKA_VERSION = "4.3.1"
_ARTIFACTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")
_HOST = "127.0.0.1"
_SECONDS_TO_START = 120.0
_SECONDS_TO_STOP = 30.0
_STARTED = "Kafka Server started"
_TAKEN = "Address already in use"
_END_WITH_PARENT = """
import ctypes, os, signal, sys
parent, *command = sys.argv[1:]
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == int(parent):
    os.execvp(command[0], command)
"""
"""Replaces itself with the given command; Linux ends it when the thread that started it ends, even
if that was killed."""


def kafka_jars() -> Path:
    """The folder with the broker's libraries, which are downloaded if missing."""
    return jars(f"kafka-{KAFKA_VERSION}", _ARTIFACTS)


@dataclass(frozen=True)
class SecureListener:
    """A second listener, over TLS, for users with passwords (SASL PLAIN and SCRAM-SHA-512).

    PLAIN accepts the users named here; SCRAM users are created with Kafka's own tools.
    """

    certificate: Path
    key: Path
    users: Mapping[str, str] = field(default_factory=dict, repr=False)


class Broker:
    """A broker on a data folder. As a context manager, it starts on entry and stops on exit.

    The ports are chosen on construction and stay the same however often it is killed and restarted.
    """

    def __init__(
        self, data: Path, port: int = 0, secure: SecureListener | None = None, heap: str = "512m"
    ) -> None:
        self.data, self._heap, self._secure = data.absolute(), heap, secure
        self._chosen = port
        self._process: subprocess.Popen[bytes] | None = None
        self._choose_ports()

    def _choose_ports(self) -> None:
        with contextlib.ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
            for each in sockets:
                each.bind((_HOST, 0))
            free, self._controller, self._secured = (each.getsockname()[1] for each in sockets)
        self._port = self._chosen or free

    @property
    def bootstrap(self) -> str:
        """The address for clients."""
        return f"{_HOST}:{self._port}"

    @property
    def secure_bootstrap(self) -> str:
        """The address for clients that use TLS."""
        return f"{_HOST}:{self._secured}"

    @property
    def log(self) -> Path:
        """The broker's log file."""
        return self.data / "broker.log"

    @property
    def running(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and self._process.poll() is None

    # --- life

    def start(self) -> None:
        """Start it, and return once it accepts requests."""
        if self.running:
            raise ServiceError(f"the broker at {self.bootstrap} is running already")
        if self._chosen and self._is_taken():
            raise self._taken()
        libraries = kafka_jars()
        fresh = not (self.data / "log" / "meta.properties").exists()
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        for attempt in range(3):
            self._write_properties()
            if fresh and not attempt:
                self._format(libraries)
            try:
                self._launch(libraries)
                return
            except _PortTakenError:
                if self._chosen or not fresh or attempt == 2:
                    raise self._taken() from None
                # another process took one of them between the choice and the start
                self._choose_ports()

    def _is_taken(self) -> bool:
        with socket.socket() as probe:
            # a broker that was just killed does not block the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, self._port))
            except OSError:
                return True
            return False

    def _taken(self) -> ServiceError:
        return ServiceError(f"the broker cannot start: {self.bootstrap} is already in use")

    def kill(self) -> None:
        """Kill it at once, as a crash would (SIGKILL). Its data are kept."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Shut it down cleanly. Its data are kept."""
        self._end(signal.SIGTERM)

    def __enter__(self) -> Broker:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_SECONDS_TO_STOP)
        # it took too long, or the wait was interrupted: never leave the process behind
        except BaseException:
            process.kill()
            process.wait()
            raise

    # --- starting it

    def _write_properties(self) -> None:
        listeners = [f"CLIENTS://{self.bootstrap}"]
        if self._secure:
            listeners.append(f"SECURE://{self.secure_bootstrap}")
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{_HOST}:{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*listeners, f"CONTROLLER://{_HOST}:{self._controller}"]),
            "advertised.listeners": ",".join(listeners),
            "listener.security.protocol.map": (
                "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL"
            ),
            "inter.broker.listener.name": "CLIENTS",
            "log.dirs": str(self.data / "log"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",  # a misspelt topic is an error, not a new topic
            "broker.heartbeat.interval.ms": "300",
            # how long a killed broker counts as alive and holds up a new one
            "broker.session.timeout.ms": "3000",
            "message.max.bytes": str(16 << 20),
            **(self._secure_settings(self._secure) if self._secure else {}),
        }
        lines = "".join(f"{name}={_escaped(value)}\n" for name, value in settings.items())
        path = self.data / "server.properties"
        with os.fdopen(
            os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(lines)

    @staticmethod
    def _secure_settings(secure: SecureListener) -> dict[str, str]:
        place = "listener.name.secure."
        users = " ".join(f'user_{name}="{password}"' for name, password in secure.users.items())
        plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
        return {
            f"{place}ssl.keystore.type": "PEM",
            f"{place}ssl.keystore.certificate.chain": secure.certificate.read_text(),
            f"{place}ssl.keystore.key": secure.key.read_text(),
            f"{place}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"{place}plain.sasl.jaas.config": plain,
            f"{place}scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        }

    def _command(self, libraries: Path, main: str, *arguments: str) -> list[str]:
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        logging = {
            "logFile": str(self.log),
            "defaultLogLevel": "warn",
            "showDateTime": "true",
            "log.kafka.server.KafkaRaftServer": "info",  # says when it has started
        }
        options = [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in logging.items()]
        return [
            java(),
            f"-Xmx{self._heap}",
            *quick,
            *options,
            "-cp",
            f"{libraries}/*",
            main,
            *arguments,
        ]

    def _format(self, libraries: Path) -> None:
        cluster = secrets.token_urlsafe(16)
        options = (
            "format",
            "-t",
            cluster if not cluster.startswith("-") else f"A{cluster[1:]}",
            "-c",
        )
        command = self._command(
            libraries, "kafka.tools.StorageTool", *options, str(self.data / "server.properties")
        )
        done = subprocess.run(  # noqa: S603 - ours
            command, capture_output=True, text=True, timeout=_SECONDS_TO_START, check=False
        )
        if done.returncode:
            raise ServiceError(
                f"{self.data} cannot be formatted for Kafka:"
                f" {(done.stderr or done.stdout).strip()[-300:]}"
            )

    def _launch(self, libraries: Path) -> None:
        command = self._command(libraries, "kafka.Kafka", str(self.data / "server.properties"))
        self.log.unlink(missing_ok=True)
        with (self.data / "broker.out").open("wb") as output:
            # its own session: an interrupt at the terminal reaches only us, and we shut it down
            # cleanly
            if sys.platform == "linux":
                command = [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    _END_WITH_PARENT,
                    str(os.getpid()),
                    *command,
                ]
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _SECONDS_TO_START
        while not self._said(_STARTED):
            if not self.running or self._said(_TAKEN) or time.monotonic() > deadline:
                taken = self._said(_TAKEN)
                self.kill()
                if taken:
                    raise _PortTakenError
                raise ServiceError(
                    f"the broker did not start; {self.log} and broker.out beside it say why"
                )
            time.sleep(0.05)

    def _said(self, words: str) -> bool:
        return self.log.exists() and words in self.log.read_text(encoding="utf-8", errors="replace")


class _PortTakenError(Exception):
    """One of the ports is already in use."""


def _escaped(value: str) -> str:
    r"""A value as a Java properties file writes it, with line ends escaped as the two characters
    `\n`."""
    return value.replace("\\", "\\\\").strip().replace("\n", "\\n")
