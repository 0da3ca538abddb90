"""Limits on the resources connections may use, and a service's certificate."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.service.files.settings import Bytes, FilePath, Seconds

__all__ = ["ConnectionLimits", "Tls"]


@dataclass(frozen=True)
class ConnectionLimits:
    """What one connection, and all of them together, may use."""

    largest_body: Bytes = 4 << 20
    """Bytes of one upload."""
    most_waiting: Bytes = 256 << 20
    """Bytes of all uploads that have arrived and are being received or examined; above it, uploads
    are deferred."""
    most_uploads_per_token: int = 32
    """Concurrent uploads under one token. Together they may use at most half of `most_waiting`."""
    most_connections: int = 1000
    body_deadline: Seconds = 30
    """Seconds within which a body must arrive, and for which a client may leave its response
    unread."""
    header_deadline: Seconds = 10
    """Seconds within which the head of a request must arrive; an idle connection is closed after
    the same time."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            whole(each.name, getattr(self, each.name), 1, 1 << 40)
        if self.most_waiting < self.largest_body:
            raise ParameterError(
                "most_waiting",
                self.most_waiting,
                f"must hold one body, of up to {self.largest_body} bytes",
            )


@dataclass(frozen=True)
class Tls:
    """The certificate chain and the key, as PEM files."""

    certificate: FilePath
    key: FilePath
    password_file: FilePath | None = None
    """A file that contains the key's password, if the key is encrypted."""
