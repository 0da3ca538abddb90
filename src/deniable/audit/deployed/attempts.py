"""What attacks on a running service found: what was tried, what was seen, and whether the service
holds."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from deniable.display import Bar, Display
from deniable.errors import ParameterError, ResponseError
from deniable.results import Result, fields_of

__all__ = ["Attempt", "RawAnswer", "ServiceAudit", "ServiceTarget"]

_SECONDS = 60.0
_LARGEST_HEAD = 1 << 16


@dataclass(frozen=True, eq=False)
class Attempt(Result):
    """One attack on a service."""

    name: str
    tried: str
    seen: str
    verdict: Literal["holds", "broken", "not tried"]

    def __str__(self) -> str:
        word = self.verdict.upper() if self.verdict == "broken" else self.verdict
        return f"  {self.name}: {word}\n    tried: {self.tried}\n    seen: {self.seen}"


@dataclass(frozen=True, eq=False)
class ServiceAudit(Result):
    """All attacks on one deployment."""

    address: str
    attempts: tuple[Attempt, ...]

    @property
    def holds(self) -> bool:
        """Whether no attack succeeded. Those that were not tried say nothing."""
        return all(each.verdict != "broken" for each in self.attempts)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what follows from it."""
        return {**fields_of(self), "holds": self.holds}

    def _display(self, confidence: float = 0.95) -> Display:
        columns = ("attack", "verdict", "tried", "seen")
        rows = [(each.name, each.verdict, each.tried, each.seen) for each in self.attempts]
        verdicts = [each.verdict for each in self.attempts]
        bars = [
            Bar(verdict, float(verdicts.count(verdict)))
            for verdict in ("holds", "broken", "not tried")
        ]
        return Display(columns, rows, tuple(str(self).splitlines()[:1]), bars, "attacks")

    def __str__(self) -> str:
        n = sum(each.verdict != "not tried" for each in self.attempts)
        head = (
            f"{self.address}: {'holds' if self.holds else 'BROKEN'} ({n} of {len(self.attempts)}"
            " attacks tried)"
        )
        return "\n".join([head, *map(str, self.attempts)])


class RawAnswer(NamedTuple):
    """The status and header lines of an answer, the lines in lower case."""

    status: int
    lines: tuple[str, ...]

    def values(self, name: str) -> list[str]:
        """The values of a header, in their order."""
        pairs = (line.partition(":") for line in self.lines)
        return [value.strip() for key, _, value in pairs if key == name]


@dataclass(frozen=True)
class ServiceTarget:
    """The address of a service, and a token for it."""

    url: str
    token: str = ""

    def __post_init__(self) -> None:
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise ParameterError(
                "url",
                self.url,
                "must be the address of a service, beginning with http:// or https://",
            )

    def connect(self) -> socket.socket:
        """A connection, over TLS for https."""
        place = urlsplit(self.url)
        port = place.port or (443 if place.scheme == "https" else 80)
        try:
            plain = socket.create_connection((place.hostname or "", port), _SECONDS)
            if place.scheme == "http":
                return plain
            return ssl.create_default_context().wrap_socket(plain, server_hostname=place.hostname)
        except OSError as error:
            raise ResponseError(
                0, "unreachable", f"{self.url} cannot be reached: {error}"
            ) from None

    def head(self, line: str, headers: Sequence[str] = ()) -> bytes:
        """The head of a request, with the token unless headers are given."""
        place = urlsplit(self.url)
        shown = headers or ([f"Authorization: Bearer {self.token}"] if self.token else [])
        return "\r\n".join([f"{line} HTTP/1.1", f"Host: {place.netloc}", *shown, "", ""]).encode(
            "latin-1"
        )

    def raw(self, request: bytes) -> RawAnswer:
        """The head of the answer to these bytes."""
        with self.connect() as connection:
            connection.sendall(request)
            return read_head(connection)


def read_head(connection: socket.socket) -> RawAnswer:
    """The next head on a connection; status 0 if there is none."""
    content = b""
    try:
        while (
            b"\r\n\r\n" not in content
            and len(content) < _LARGEST_HEAD
            and (part := connection.recv(4096))
        ):
            content += part
        first, *lines = content.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        return RawAnswer(int(first.split(" ")[1]), tuple(line.lower() for line in lines))
    except (OSError, ValueError, IndexError, http.client.HTTPException):
        return RawAnswer(0, ())
