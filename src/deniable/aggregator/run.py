"""Running an aggregator as a process: its socket, its TLS, its log lines, and a stop that lets followers go."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable

import uvicorn

from deniable.aggregator.api import create_app
from deniable.aggregator.service import Service
from deniable.aggregator.settings import Settings
from deniable.errors import SettingsError
from deniable.proxy.run import JsonLines
from deniable.proxy.server import guarded_protocol
from deniable.proxy.settings import Limits

__all__ = ["serve"]

_SECONDS_TO_STOP = 10


def _write_json_lines() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    for name, level in (("deniable.aggregator", logging.INFO), ("uvicorn.error", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def serve(settings: Settings, announce: Callable[[str], None] = lambda _: None) -> None:
    """Run an aggregator until it is told to stop (SIGTERM, SIGINT). `announce` is given the address once it can be reached."""
    _write_json_lines()
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio leaves Nagle on
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        rule = f"cannot be listened on at {settings.host}: {error.strerror}"
        raise SettingsError("port", settings.port, rule, "aggregator") from None
    try:
        service = Service(settings)
        limits = Limits(header_deadline=settings.header_deadline, most_connections=settings.most_connections)
        config = uvicorn.Config(
            create_app(service, ending=lambda: server.should_exit),
            http=guarded_protocol(limits, service.refusals),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=settings.header_deadline,
            timeout_graceful_shutdown=_SECONDS_TO_STOP,
            ssl_certfile=settings.tls.certificate if settings.tls else None,
            ssl_keyfile=settings.tls.key if settings.tls else None,
        )
        server = uvicorn.Server(config)

        def end(*_: object) -> None:
            server.should_exit = True

        for each in (signal.SIGTERM, signal.SIGINT):  # uvicorn has its own while it runs, and raises them again when it has ended
            signal.signal(each, end)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        announce(f"{'https' if settings.tls else 'http'}://{host}:{listener.getsockname()[1]}")
        server.run(sockets=[listener])
    finally:
        listener.close()
