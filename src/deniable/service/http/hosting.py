"""What running any service as a process takes: log lines, a socket, and uvicorn's configuration."""

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
from deniable.service.http.cross_origin import CrossOrigin
from deniable.service.http.guarded_protocol import guarded_protocol
from deniable.service.http.hot_path import HotFront
from deniable.service.http.limits import ConnectionLimits, Tls
from deniable.service.http.request_rules import RequestRules

__all__ = ["Endpoint", "freeze_garbage", "write_json_lines"]

_SECONDS_TO_STOP = 10
_GARBAGE = 20_000
"""Net new objects after which the garbage collector examines the youngest generation."""


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, event, and what the caller added. Of an exception,
    only the type is logged."""

    def format(self, record: logging.LogRecord) -> str:
        """One event as a line."""
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        fields = {
            "time": when,
            "level": record.levelname.lower(),
            "event": record.getMessage().strip(),
        }
        fields.update(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0]:
            fields["error"] = record.exc_info[0].__name__
        return json.dumps(fields)


def write_json_lines(service: str) -> None:
    """Write a service's events and uvicorn's warnings as JSON, one per line."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in ((service, logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def freeze_garbage() -> None:
    """Exclude all existing objects, which are permanent, from garbage collection: it would walk
    them all every time."""
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
        """A listening socket."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # named, or asyncio leaves Nagle on
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((self.host, self.port))
            listener.listen(2048)
        except OSError as error:
            listener.close()
            raise self._refusal(error) from None
        return listener

    def _refusal(self, error: OSError) -> ParameterError:
        """Which setting prevents the socket from being opened, and why."""
        if error.errno == errno.EADDRINUSE:
            return ParameterError("port", self.port, f"is already in use on {self.host}")
        if error.errno == errno.EACCES:
            return ParameterError(
                "port",
                self.port,
                "needs a privilege: it must be at least 1024, or the process must have it",
            )
        reason = error.strerror or str(error)
        return ParameterError(
            "host", self.host, f"must be a name or address of this machine: {reason}"
        )

    def address(self, listener: socket.socket) -> str:
        """The URL of a socket."""
        return self.url_of(listener.getsockname()[1])

    def url_of(self, port: int) -> str:
        """The URL of a port of this host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{port}"

    def server(
        self,
        app: Any,
        limits: ConnectionLimits,
        refusals: Counter[str],
        pages: CrossOrigin | None = None,
    ) -> uvicorn.Server:
        """A server for an application that enforces the limits and counts what it refuses.

        `pages` says which web pages of other origins may use it; a :class:`HotFront` says so
        itself.
        """
        pages = app.pages if isinstance(app, HotFront) else pages
        config = uvicorn.Config(
            RequestRules(app, refusals, pages),
            http=guarded_protocol(limits, refusals, app, pages),
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
        """The TLS context for connections; None for a service without TLS."""
        return None if self.tls is None else server_context(self.tls, int(time.time()))
