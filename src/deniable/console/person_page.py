"""Serving the owner's page on the loopback address, until Ctrl-C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from deniable.console.person_app import PersonSession, create_person_app
from deniable.service.http.hosting import Endpoint
from deniable.service.http.limits import ConnectionLimits

__all__ = ["serve_person"]

_LOOPBACK = "127.0.0.1"


def serve_person(
    vault: Path, policy_file: Path, port: int, announce: Callable[[str], None]
) -> None:
    """Serve the page; `announce` is called with its URL, with the token after `#`."""
    session = PersonSession()
    place = Endpoint(_LOOPBACK, port, None)
    listener = place.listen()
    try:
        server = place.server(
            create_person_app(vault, policy_file, session), ConnectionLimits(), Counter()
        )
        announce(f"{place.address(listener)}/console/#{session.token}")
        server.run(sockets=[listener])
    finally:
        listener.close()
