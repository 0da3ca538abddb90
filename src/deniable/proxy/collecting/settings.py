"""A collector's settings, written as TOML."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.service.files.settings import FilePath, Seconds, read_settings_file
from deniable.service.http.cross_origin import BrowserRules
from deniable.service.http.limits import ConnectionLimits, Tls

__all__ = ["CollectorSettings", "read_collector_settings"]

_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True)
class CollectorSettings:
    """A collector's settings."""

    proxy: str
    """The address of the one proxy it belongs to."""
    token_file: FilePath
    """A file that contains a token of the proxy with the role collector, and nothing else."""
    ca: FilePath | None = None
    """CA certificates to verify the proxy's, in PEM; by default those that the operating system
    trusts."""
    host: str = "127.0.0.1"
    port: int = 8650
    """0 lets the operating system choose."""
    refresh: Seconds = 2
    """Seconds between checks for changes in the proxy's tokens and queries."""
    silent: Seconds = 10
    """Seconds without a response to such a check after which the proxy counts as silent."""
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    browser: BrowserRules = field(default_factory=BrowserRules)
    tls: Tls | None = None

    def __post_init__(self) -> None:
        try:
            at = urlsplit(self.proxy)
            usable = (
                at.scheme in ("http", "https")
                and bool(at.hostname)
                and (at.port or 1)
                and at.path in ("", "/")
            )
        except (ValueError, AttributeError, TypeError):
            usable = False
        if not usable:
            raise ParameterError(
                "proxy", self.proxy, "must be one address such as https://proxy-1.example:8600"
            )
        if at.scheme == "http" and at.hostname not in _LOOPBACK:
            raise ParameterError(
                "proxy", self.proxy, "must begin with https://, unless the proxy is on this machine"
            )
        whole("port", self.port, 0, 65535)
        for name in ("refresh", "silent"):
            whole(name, getattr(self, name), 1, 3600)
        if not isinstance(self.host, str) or not self.host:
            raise ParameterError("host", self.host, "must be a host's name or address")

    def token(self) -> str:
        """The token under which it forwards uploads."""
        try:
            token = self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it holds no token"
            raise ParameterError(
                "token_file", str(self.token_file), f"cannot be read: {reason}"
            ) from None
        if not token or len(token.split()) != 1:
            raise ParameterError(
                "token_file", str(self.token_file), "must hold one token and nothing else"
            )
        return token

    def trusted(self) -> ssl.SSLContext | bool:
        """How the proxy's certificate is verified."""
        if self.ca is None:
            return True
        try:
            return ssl.create_default_context(cafile=str(self.ca))
        except ssl.SSLError:
            raise ParameterError("ca", str(self.ca), "must hold certificates in PEM") from None
        except OSError as error:
            raise ParameterError("ca", str(self.ca), f"cannot be read: {error.strerror}") from None


def read_collector_settings(path: str | Path) -> CollectorSettings:
    """The settings in a TOML file. Paths in it are relative to the file's folder."""
    return read_settings_file(path, CollectorSettings)
