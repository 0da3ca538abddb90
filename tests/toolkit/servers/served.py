"""An application of ours, served on loopback by a thread of this process: what a process would do,
within a test's reach."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from deniable.service.http.cross_origin import CrossOrigin
from deniable.service.http.hosting import Endpoint
from deniable.service.http.limits import ConnectionLimits

__all__ = ["addresses", "served"]


def addresses(app: Any) -> set[str]:
    """Every method and path that an application answers."""
    found = set()
    for route in app.routes:
        methods: Iterable[str] = getattr(route, "methods", None) or ["MOUNT"]
        found |= {
            f"{method} {getattr(route, 'path', route)}" for method in methods if method != "HEAD"
        }
    return found


@contextmanager
def served(
    app: Any, limits: ConnectionLimits | None = None, pages: CrossOrigin | None = None
) -> Iterator[httpx.Client]:
    """A client of the application while it is served; its lifespan begins and ends with that."""
    place = Endpoint("127.0.0.1", 0, None)
    listener = place.listen()
    server = place.server(app, limits or ConnectionLimits(), Counter(), pages)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        with httpx.Client(base_url=place.address(listener), timeout=30) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()
        assert not thread.is_alive()
