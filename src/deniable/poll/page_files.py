"""The page's files as they are served: a document, a style sheet, one script of our own modules and
the JavaScript client's, and a service worker that keeps them for a browser without a network."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from deniable.errors import ServiceError
from deniable.poll.bundling import bundled

__all__ = ["PageFile", "page_files"]

_STATIC = Path(__file__).parent / "static"


class PageFile(NamedTuple):
    """A file of the page."""

    content: bytes
    compressed: bytes
    kind: str
    hash: str
    """SHA-256 of the content, in hexadecimal digits."""


def _client() -> Path:
    """The JavaScript client's modules: in the package or, where that was not built, beside it."""
    packaged = Path(__file__).parent / "client"
    for folder in (packaged, Path(__file__).parents[3] / "clients" / "js" / "src"):
        if (folder / "client.js").is_file():
            return folder
    raise ServiceError("the page's JavaScript client is missing: install deniable again")


def _script() -> str:
    folders = {"client": _client(), "js": _STATIC / "js"}
    modules = {
        f"{name}/{path.relative_to(folder).as_posix()}": path.read_text(encoding="utf-8")
        for name, folder in folders.items()
        for path in folder.rglob("*.js")
    }
    # a poll has no patterns, and a tenth of the script is about them
    modules["client/patterns.js"] = modules.pop("js/no_patterns.js")
    return bundled(modules, "js/app.js")


@cache
def page_files() -> dict[str, PageFile]:
    """Every file by its path."""
    texts = {
        "index.html": ("text/html", (_STATIC / "index.html").read_text(encoding="utf-8")),
        "poll.css": ("text/css", (_STATIC / "poll.css").read_text(encoding="utf-8")),
        "poll.js": ("text/javascript", _script()),
    }
    for path in sorted((_STATIC / "lang").glob("*.js")):  # words of one language each
        texts[path.name] = ("text/javascript", path.read_text(encoding="utf-8"))
    files = {name: _file(kind, text) for name, (kind, text) in texts.items()}
    files["sw.js"] = _file("text/javascript", _worker(files))
    return files


def _file(kind: str, text: str) -> PageFile:
    content = text.encode()
    return PageFile(
        content,
        gzip.compress(content, 9, mtime=0),
        f"{kind}; charset=utf-8",
        hashlib.sha256(content).hexdigest(),
    )


def _worker(files: Mapping[str, PageFile]) -> str:
    """The service worker, which knows the files that it keeps by their hashes."""
    hashes = {"" if name == "index.html" else name: each.hash for name, each in files.items()}
    text = (_STATIC / "sw.js").read_text(encoding="utf-8")
    return text.replace("{/* path: SHA-256 */}", json.dumps(hashes))
