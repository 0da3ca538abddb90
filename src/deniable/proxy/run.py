"""Running a proxy as a process: its socket, its TLS, its log lines, and a stop that loses nothing."""

from __future__ import annotations

import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable

import uvicorn

from deniable.errors import SettingsError
from deniable.proxy.server import guarded_protocol
from deniable.proxy.service import Proxy, create_app
from deniable.proxy.settings import Settings

__all__ = ["JsonLines", "serve"]

_SECONDS_TO_STOP = 10
_SWITCH = 0.0005
"""Seconds after which the thread of the intake lets that of the connections go on: by default uploads wait ten times as long."""
_LOGGER = logging.getLogger("deniable.proxy")


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


def _write_json_lines() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("deniable.proxy", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def serve(settings: Settings, announce: Callable[[str], None] = lambda _: None) -> bool:
    """Run a proxy until it is told to stop (SIGTERM, SIGINT); then flush. False if it had to give up because the disk failed.

    `announce` is called with the address once connections can be made.
    """
    _write_json_lines()
    sys.setswitchinterval(_SWITCH)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle on
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise SettingsError(
            "port", settings.port, f"cannot be listened on at {settings.host}: {error.strerror}", "proxy"
        ) from None

    def give_up(*_: object) -> None:
        server.should_exit = True

    proxy = Proxy(settings, on_failure=give_up)
    config = uvicorn.Config(
        create_app(proxy),
        http=guarded_protocol(settings.limits, proxy.refusals),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.limits.header_deadline,
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
        ssl_certfile=settings.tls.certificate if settings.tls else None,
        ssl_keyfile=settings.tls.key if settings.tls else None,
    )
    server = uvicorn.Server(config)
    for each in (signal.SIGTERM, signal.SIGINT):  # uvicorn has its own while it runs, and raises them again when it has ended
        signal.signal(each, give_up)
    port = listener.getsockname()[1]
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    announce(f"{'https' if settings.tls else 'http'}://{host}:{port}")
    _LOGGER.info("started", extra={"fields": {"port": port, "tls": settings.tls is not None, "waiting": proxy.intake.n_waiting}})
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()
    _LOGGER.info("stopped", extra={"fields": {"accepted": proxy.intake.counters["accepted"]}})
    return not proxy.desk.failed
