"""The page's own service: it serves code and the poll's document, and sees nothing of an answer."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI, Request, Response

from deniable.errors import RefusedError, ServiceError
from deniable.poll.link import page_policy
from deniable.poll.page_files import page_files
from deniable.service.http.hosting import Endpoint
from deniable.service.http.limits import ConnectionLimits, Tls
from deniable.service.http.server import problem

__all__ = ["create_page_app", "read_document", "serve_page"]

_HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


def create_page_app(document: bytes) -> FastAPI:
    """The page of one poll: its files at `/`, its document at `/poll.json`."""
    headers = {**_HEADERS, "Content-Security-Policy": page_policy(json.loads(document))}
    files = page_files()
    app = FastAPI(openapi_url=None)

    @app.exception_handler(RefusedError)
    def refused(request: Request, error: RefusedError) -> Response:
        content = problem(error.reason, error.status, error.detail)
        return Response(
            content, error.status, {**headers, "Content-Type": "application/problem+json"}
        )

    @app.get("/poll.json")
    def poll() -> Response:
        return Response(document, headers={**headers, "Content-Type": "application/json"})

    @app.get("/{path:path}")
    def file(path: str, request: Request) -> Response:
        found = files.get(path or "index.html")
        if found is None:
            raise RefusedError("address", 404, "No such endpoint, or method not allowed.")
        tag = f'"{found.hash[:24]}"'
        sent = {**headers, "Content-Type": found.kind, "ETag": tag}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=sent)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(found.compressed, headers={**sent, "Content-Encoding": "gzip"})
        return Response(found.content, headers=sent)

    return app


def read_document(path: Path) -> bytes:
    """A poll's document in a file."""
    try:
        content = path.read_bytes()
        json.loads(content)["proxies"]
    except OSError as error:
        raise ServiceError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise ServiceError(
            f"{path} is not a poll's document: deniable poll open writes it"
        ) from None
    return content


def serve_page(
    document: bytes, host: str, port: int, tls: Tls | None, announce: Callable[[str], None]
) -> None:
    """Serve the page until SIGTERM or SIGINT; `announce` is called with its address."""
    place = Endpoint(host, port, tls)
    listener = place.listen()
    try:
        server = place.server(create_page_app(document), ConnectionLimits(), Counter())
        for each in (signal.SIGTERM, signal.SIGINT):
            # uvicorn has handlers of its own while it runs, and raises the signal again at its end
            signal.signal(each, lambda *_: None)
        announce(place.address(listener))
        server.run(sockets=[listener])
    finally:
        listener.close()
