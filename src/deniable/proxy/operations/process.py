"""Running a proxy as a process: its socket, TLS, log lines, and a clean stop that loses nothing."""

from __future__ import annotations

import logging
import signal
import socket
import sys
from collections.abc import Callable

from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.api import create_app
from deniable.proxy.web.workers import supervise
from deniable.service.files.database import keep_files_private, usable_storage
from deniable.service.http.hosting import Endpoint, freeze_garbage, write_json_lines

__all__ = ["serve"]

_SWITCH = 0.0005
"""Seconds after which the intake thread yields to the one that handles connections: a tenth of
Python's default."""
_LOGGER = logging.getLogger("deniable.proxy")


def serve(settings: ProxySettings, announce: Callable[[str], None] = lambda _: None) -> bool:
    """Run a proxy until SIGTERM or SIGINT, then flush. False if it had to give up because the disk
    failed.

    `announce` is called with the address once it accepts connections.
    """
    keep_files_private()
    write_json_lines("deniable.proxy")
    sys.setswitchinterval(_SWITCH)
    place = Endpoint(settings.host, settings.port, settings.tls)
    _ = place.tls_context  # report a mistake in it before anything is opened
    listener = place.listen()
    try:
        if settings.workers:
            return supervise(
                settings, place, listener, lambda *how: _run_intake(settings, *how), announce
            )
        return _run(settings, place, listener, lambda: announce(place.address(listener)))
    finally:
        listener.close()


def _run_intake(
    settings: ProxySettings, inside: socket.socket, workers_token: str, ready: Callable[[], None]
) -> bool:
    return _run(settings, Endpoint("127.0.0.1", 0, None), inside, ready, workers_token)


def _run(
    settings: ProxySettings,
    place: Endpoint,
    listener: socket.socket,
    ready: Callable[[], None],
    workers_token: str | None = None,
) -> bool:
    """Run the process that owns the intake."""

    def give_up(*_: object) -> None:
        server.should_exit = True

    with usable_storage("folder", settings.folder):
        proxy = ProxyService(settings, on_failure=give_up, workers_token=workers_token)
    server = place.server(create_app(proxy), settings.limits, proxy.refusals)
    for each in (
        signal.SIGTERM,
        signal.SIGINT,
        # uvicorn installs its own handlers while it runs, and re-raises the signals when it has
        # ended
    ):
        signal.signal(each, give_up)
    ready()
    document = {
        "port": listener.getsockname()[1],
        "tls": place.tls is not None,
        "waiting": proxy.intake.n_waiting,
    }
    _LOGGER.info("started", extra={"fields": document})
    freeze_garbage()
    server.run(sockets=[listener])
    _LOGGER.info("stopped", extra={"fields": {"accepted": proxy.intake.counters["accepted"]}})
    return not proxy.worker.failed
