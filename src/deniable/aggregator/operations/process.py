"""Running an aggregator as a process: its socket, TLS, log lines, and a stop that releases
followers."""

from __future__ import annotations

import signal
from collections.abc import Callable

from fastapi import FastAPI

from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.public_results import PUBLIC_PAGES
from deniable.service.files.database import keep_files_private, usable_storage
from deniable.service.http.hosting import Endpoint, write_json_lines
from deniable.service.http.limits import ConnectionLimits

__all__ = ["serve"]


def serve(
    settings: AggregatorSettings,
    announce: Callable[[str], None] = lambda _: None,
    extend: Callable[[FastAPI, Service], None] = lambda _, __: None,
) -> None:
    """Run an aggregator until it receives SIGTERM or SIGINT. `announce` is called with the address
    once it can be reached.

    `extend` adds to the interface what lower rooms provide: the console.
    """
    keep_files_private()
    write_json_lines("deniable.aggregator")
    place = Endpoint(settings.host, settings.port, settings.tls)
    _ = place.tls_context  # report a mistake in it before anything is opened
    listener = place.listen()
    try:
        with usable_storage("state", settings.state):
            service = Service(settings)
        limits = ConnectionLimits(
            header_deadline=settings.header_deadline, most_connections=settings.most_connections
        )
        app = create_app(service, ending=lambda: server.should_exit)
        extend(app, service)
        server = place.server(app, limits, service.refusals, PUBLIC_PAGES)

        def end(*_: object) -> None:
            server.should_exit = True

        # uvicorn handles them while it runs, and raises them again afterwards
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, end)
        announce(place.address(listener))
        server.run(sockets=[listener])
    finally:
        listener.close()
