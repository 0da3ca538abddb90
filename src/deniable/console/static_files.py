"""The console's files, served from memory with headers that let a page load nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI, Request, Response

from deniable.errors import RefusedError

__all__ = ["HEADERS", "POLICY", "add_static_files"]

_FOLDER = Path(__file__).parent / "static"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src"
    " 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class _File(NamedTuple):
    content: bytes
    kind: str
    tag: str


def _read() -> dict[str, _File]:
    files = {}
    for path in sorted(_FOLDER.rglob("*")):
        if path.suffix in _KINDS:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
            files[path.relative_to(_FOLDER).as_posix()] = _File(content, _KINDS[path.suffix], tag)
    return files


def add_static_files(app: FastAPI, home: str) -> None:
    """Serve the files under `/console/`, with the page `home` at `/console/` itself; `/` leads
    there."""
    files = _read()

    @app.get("/", include_in_schema=False)
    def root() -> Response:
        return Response(status_code=307, headers={**HEADERS, "Location": "/console/"})

    @app.get("/console", include_in_schema=False)
    def without_slash() -> Response:
        return Response(status_code=307, headers={**HEADERS, "Location": "/console/"})

    @app.get("/console/{path:path}", include_in_schema=False)
    def file(path: str, request: Request) -> Response:
        found = files.get(path or home)
        if found is None:
            raise RefusedError("address", 404, "No such endpoint, or method not allowed.")
        headers = {**HEADERS, "ETag": found.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, headers={**headers, "Content-Type": found.kind})
