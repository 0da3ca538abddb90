"""What `check` examines before a service starts: files, certificates, disks, ports, and whether
other services are reachable."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from deniable.errors import DeniableError, ParameterError, ResponseError
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.times import iso_time
from deniable.service.certificates import read_certificate
from deniable.service.files.database import free_bytes, storage_reason
from deniable.service.http.limits import Tls
from deniable.service.http.reading import ask, bearer

__all__ = ["SECONDS_TO_REACH", "Finding", "Inspection"]

SECONDS_TO_REACH = 5.0
"""How long another service may take to respond."""
_LITTLE_DISK, _TOO_LITTLE_DISK = 1 << 30, 64 << 20
_SOON = 21 * 86400
_LARGEST_ANSWER = 1 << 20
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - compared with, not listened on
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class Finding:
    """Something an operator should know: an error keeps the service from working, a warning does
    not."""

    level: Literal["error", "warning"]
    key: str
    value: Any
    text: str


@dataclass
class Inspection:
    """The findings, and what was checked."""

    now: int = field(default_factory=lambda: int(time.time()))
    findings: list[Finding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)

    def error(self, key: str, value: Any, text: str) -> None:
        """Record a problem that keeps the service from working."""
        self.findings.append(Finding("error", key, value, text))

    def warn(self, key: str, value: Any, text: str) -> None:
        """Record something that may be intended or a mistake."""
        self.findings.append(Finding("warning", key, value, text))

    @contextmanager
    def looking_at(self, key: str, value: Any = None) -> Iterator[None]:
        """Check one thing: an error raised inside becomes a finding about the key."""
        self.checked.append(key)
        try:
            yield
        except ParameterError as error:
            self.error(error.name, error.value, error.rule or error.message)
        except DeniableError as error:
            self.error(key, value, f"is not usable: {error}")
        except OSError as error:
            self.error(key, value, f"cannot be read: {error.strerror or error}")

    # --- files

    def folder(self, key: str, path: Path) -> None:
        """Check that a folder, or the folder of a file, exists or can be created, is writable, and
        has space."""
        with self.looking_at(key, str(path)):
            at = next(each for each in (path, *path.absolute().parents) if each.exists())
            if not at.is_dir():
                raise ParameterError(key, str(path), f"must be a folder: {at} is a file")
            try:
                with tempfile.TemporaryFile(dir=at) as trial:
                    trial.write(b"\0")
            except OSError as error:
                raise ParameterError(
                    key, str(path), f"cannot be written: {storage_reason(at, error)}"
                ) from None
            free = free_bytes(at)
            if free < _TOO_LITTLE_DISK:
                raise ParameterError(
                    key,
                    str(path),
                    f"is on a full disk: {free >> 20} MiB are free, and 64 MiB must be",
                )
            if free < _LITTLE_DISK:
                self.warn(
                    key,
                    str(path),
                    f"has {free >> 20} MiB left on its disk; 1 GiB or more would be safe",
                )

    def token_file(self, key: str, path: Path | None) -> str:
        """The token in a file; if there is none, records a finding and returns an empty string."""
        token = ""
        with self.looking_at(key, None if path is None else str(path)):
            if path is None:
                return ""
            content = path.read_text(encoding="utf-8", errors="replace").strip()
            if not content or len(content.split()) != 1:
                raise ParameterError(key, str(path), "must hold one token and nothing else")
            if path.stat().st_mode & 0o077 and os.name == "posix":
                self.warn(key, str(path), "can be read by other users; its mode should be 0600")
            token = content
        return token  # noqa: RET504 - or what was raised became a finding

    def ring(self, key: str, path: Path | None) -> None:
        """Check that a ring of analysts' keys has at least one that is valid now."""
        with self.looking_at(key, None if path is None else str(path)):
            if path is None:
                self.warn(
                    key,
                    None,
                    "is not set: queries of anyone who has an operator's token are relayed",
                )
                return
            ring = KeyRing.load(path)
            good = [
                each
                for each in ring
                if not each.revoked and each.valid_from <= self.now < each.valid_until
            ]
            if not good:
                self.warn(
                    key,
                    str(path),
                    f"holds no key that is valid now, of {len(ring)}: no query will be taken",
                )

    # --- the network

    def endpoint(
        self, host: str, port: int, tls: Tls | None, url: str | None = None, running: bool = False
    ) -> None:
        """Check where the service is to listen, and its certificate; `url` is the address that
        others use for it.

        If the service is already `running`, its port is expected to be in use.
        """
        from deniable.service.http.hosting import Endpoint  # noqa: PLC0415 - needs uvicorn

        if not running:
            with self.looking_at("port", port):
                Endpoint(host, port, None).listen().close()
        if tls is None:
            if host not in _LOOPBACK:
                self.warn(
                    "tls",
                    None,
                    "is not set: tokens cross the network in clear, unless TLS ends in front of"
                    f" {host}",
                )
            return
        with self.looking_at("tls", str(tls.certificate)):
            facts = read_certificate(tls, self.now)
            if facts.until - self.now < _SOON:
                self.warn(
                    "tls.certificate",
                    str(tls.certificate),
                    f"expires soon, at {iso_time(facts.until)}",
                )
            name = (
                (urlsplit(url).hostname or url)
                if url
                else ""
                if host in (*_EVERYWHERE, *_LOOPBACK)
                else host
            )
            if (name or not facts.names) and not any(_covers(each, name) for each in facts.names):
                valid = (
                    f"it is valid for {', '.join(facts.names)}"
                    if facts.names
                    else "it names no host"
                )
                rule = (
                    f"must name {name or 'the host that clients connect to'}, or they refuse it;"
                    f" {valid}"
                )
                self.error("tls.certificate", str(tls.certificate), rule)
            if tls.key.stat().st_mode & 0o077 and os.name == "posix":
                self.warn(
                    "tls.key", str(tls.key), "can be read by other users; its mode should be 0600"
                )

    def reach(
        self, key: str, url: str, path: str, token: str = "", verify: Any = True
    ) -> tuple[int, str]:
        """The status and reason of another service's response; if there is none, records a finding
        and returns status 0."""
        import httpx  # noqa: PLC0415 - slow to import

        found = (0, "")
        with self.looking_at(key, url):
            try:
                with httpx.Client(
                    timeout=SECONDS_TO_REACH, verify=verify, trust_env=True
                ) as client:
                    headers = bearer(token) if token else {}
                    answer = ask(
                        client,
                        "GET",
                        f"{url.rstrip('/')}{path}",
                        _LARGEST_ANSWER,
                        SECONDS_TO_REACH,
                        headers=headers,
                    )
            except ResponseError as error:
                raise ParameterError(key, url, error.detail) from None
            found = answer.status, answer.text[:200]
        return found  # noqa: RET504 - or what was raised became a finding


def _covers(pattern: str, name: str) -> bool:
    if pattern.startswith("*."):
        return name.partition(".")[2].lower() == pattern[2:].lower()
    return pattern.lower() == name.lower()
