"""What running any of the services as a process takes: its log lines, its socket, and uvicorn told how to serve."""

from __future__ import annotations

import errno
import gc
import json
import logging
import socket
import ssl
import time
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import uvicorn

from deniable.errors import ParameterError
from deniable.service.certificates import server_context
from deniable.service.guarded_protocol import guarded_protocol
from deniable.service.limits import ConnectionLimits, Tls

__all__ = ["Endpoint", "freeze_garbage", "write_json_lines"]

_SECONDS_TO_STOP = 10
_GARBAGE = 20_000
"""Objects made and not dropped after which the garbage collector looks at the youngest."""


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event, and what the caller chose to add. Of an exception only its type is said."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one event."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        fields = {"time": when, "level": record.levelname.lower(), "event": record.getMessage().strip()}
        fields.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0]:
            fields["error"] = record.exc_info[0].__name__
        return json.dumps(fields)


def write_json_lines(service: str) -> None:
    """Have the events of a service, and what uvicorn warns of, written as JSON, a line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in ((service, logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def freeze_garbage() -> None:
    """Have the garbage collector pass over what a process has made up to now, which stays: it would walk all of it each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE, 20, 50)


@dataclass(frozen=True)
class Endpoint:
    """Where a service can be reached."""

    host: str
    port: int
    tls: Tls | None

    def listen(self) -> socket.socket:
        """A socket to which connections can be made."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle on
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
            listener.listen(2048)
        except OSError as error:
            listener.close()
            raise self._refusal(error) from None
        return listener

    def _refusal(self, error: OSError) -> ParameterError:
        """Which setting keeps a socket from being opened, and why."""
        if error.errno == errno.EADDRINUSE:
            return ParameterError("port", self.port, f"is already in use on {self.host}")
        if error.errno == errno.EACCES:
            return ParameterError("port", self.port, "needs a privilege: it must be at least 1024, or the process must have it")
        reason = error.strerror or str(error)
        return ParameterError("host", self.host, f"must be a name or address of this machine: {reason}")

    def address(self, listener: socket.socket) -> str:
        """The address of a socket, as others write it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{listener.getsockname()[1]}"

    def server(self, app: Any, limits: ConnectionLimits, refusals: Counter[str]) -> uvicorn.Server:
        """A server of an application that keeps to the limits, and counts whom it turns away."""
        config = uvicorn.Config(
            app,
            http=guarded_protocol(limits, refusals, app),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=limits.header_deadline,
            timeout_graceful_shutdown=_SECONDS_TO_STOP,
        )
        config.load()
        config.ssl = self.tls_context
        return uvicorn.Server(config)

    @cached_property
    def tls_context(self) -> ssl.SSLContext | None:
        """What connections are encrypted with; None for a service without TLS."""
        return None if self.tls is None else server_context(self.tls, int(time.time()))
