"""Which web pages may use a service from another origin (CORS), and the replies to browsers that
ask first.

A browser lets a page read a response from another origin only if the response names that origin,
and sends anything but the simplest requests only after a preflight has said that it may. Everything
here is off until an operator names origins. Cookies are never allowed: a page presents its token
itself, so that a page can do no more than the token that it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from deniable.errors import ParameterError, RefusedError

__all__ = ["ANY_ORIGIN", "PREFLIGHTS", "BrowserRules", "CrossOrigin", "OpenPaths", "check_origin"]

ANY_ORIGIN = "*"
PREFLIGHTS = "preflights"
"""The name under which services count preflights, beside the reasons of their refusals."""
_MOST_ORIGINS = 100
_ORIGIN = re.compile(r"(https?)://([a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(:[0-9]{1,5})?", re.ASCII)
_LOOPBACK = frozenset({"127.0.0.1", "[::1]", "localhost"})
_EXPOSED = b"access-control-expose-headers: Date, ETag, Retry-After, Revoked-Keys\r\n"
_SECONDS_KEPT = 7200
"""How long a browser may remember the reply to a preflight: the longest that Chromium honours."""
_ALLOWED = (
    b"access-control-allow-headers: Authorization, Content-Type,"
    b" If-None-Match\r\naccess-control-max-age: %d\r\n" % _SECONDS_KEPT
)
_VARY = b"vary: Origin\r\n"
_Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class BrowserRules:
    """Which web pages may use this service."""

    origins: tuple[str, ...] = ()
    """Origins such as https://poll.example, whose pages may enrol, poll and upload; ["*"] for every
    page. Empty: none may."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "origins", tuple(self.origins))
        if len(self.origins) > _MOST_ORIGINS:
            raise ParameterError(
                "origins", len(self.origins), f"must be at most {_MOST_ORIGINS} origins"
            )
        for origin in self.origins:
            check_origin(origin)
        if ANY_ORIGIN in self.origins and len(self.origins) > 1:
            raise ParameterError(
                "origins", list(self.origins), 'must be ["*"] alone, or a list of origins'
            )


def check_origin(origin: str) -> None:
    """Raise :class:`ParameterError` if this is not an origin as browsers write it."""
    if origin == ANY_ORIGIN:
        return
    found = _ORIGIN.fullmatch(origin)
    if found is None or (found[3] and not 0 < int(found[3][1:]) < 1 << 16):
        rule = (
            "must be an origin as browsers write it: https://poll.example, in lower case, without a"
            " path or a final slash"
        )
        raise ParameterError("origins", origin, rule)
    if found[1] == "http" and found[2] not in _LOOPBACK:
        raise ParameterError(
            "origins", origin, "must begin with https://, unless the page is on this machine"
        )
    if found[3] == {"http": ":80", "https": ":443"}[found[1]]:
        raise ParameterError(
            "origins", origin, "must not name the default port, because browsers leave it out"
        )


class OpenPaths(NamedTuple):
    """The paths that pages may use, and by which methods."""

    exact: Mapping[bytes, bytes]
    """The methods by path, as a list with commas."""
    patterns: Sequence[tuple[re.Pattern[bytes], bytes]] = ()
    """The same for paths that contain a name."""

    def methods(self, path: bytes) -> bytes:
        """The methods that a page may use at a path, whatever its parameters; empty if none."""
        path = path.partition(b"?")[0]
        if (found := self.exact.get(path)) is not None:
            return found
        return next((methods for pattern, methods in self.patterns if pattern.fullmatch(path)), b"")


class CrossOrigin:
    """The headers that tell browsers which pages may read a response.

    >>> pages = CrossOrigin(["https://poll.example"], OpenPaths({b"/v1/shares": b"POST"}))
    >>> pages.lines([(b"origin", b"https://poll.example")]).splitlines()[0]
    b'access-control-allow-origin: https://poll.example'
    >>> pages.lines([(b"origin", b"https://other.example")])
    b'vary: Origin\\r\\n'
    """

    def __init__(self, origins: Iterable[str], paths: OpenPaths) -> None:
        self.paths = paths
        names = [origin.encode() for origin in origins]
        self._everyone = (
            b"access-control-allow-origin: *\r\n" + _EXPOSED
            if ANY_ORIGIN.encode() in names
            else None
        )
        self._lines = {
            name: b"access-control-allow-origin: %b\r\n%b%b" % (name, _EXPOSED, _VARY)
            for name in names
        }
        self.before_the_head = b"access-control-allow-origin: *\r\n" + _EXPOSED
        """For a refusal before any head was read, such as too many connections: it says nothing
        that depends on the page."""

    @classmethod
    def of(cls, rules: BrowserRules, paths: OpenPaths) -> CrossOrigin | None:
        """What a service's settings allow; None if no page may use it."""
        return cls(rules.origins, paths) if rules.origins else None

    def lines(self, headers: _Headers) -> bytes:
        """The lines to add to the response to a request with these headers, whose path is open."""
        if self._everyone is not None:
            return self._everyone
        for name, value in headers:
            if name == b"origin":
                return self._lines.get(value, _VARY)
        return _VARY

    def allows(self, headers: _Headers) -> bool:
        """Whether a request comes from a page that may use the service, or from no page at all."""
        shown = [value for name, value in headers if name == b"origin"]
        return self._everyone is not None or all(value in self._lines for value in shown)

    def is_preflight(self, method: bytes, path: bytes, headers: _Headers) -> bool:
        """Whether a browser asks what a page may send to an open path."""
        return (
            method == b"OPTIONS"
            and any(name == b"access-control-request-method" for name, _ in headers)
            and self.paths.methods(path) != b""
        )

    def preflight(self, path: bytes, headers: _Headers) -> bytes:
        """The lines that answer a preflight, besides :meth:`lines`; raises :class:`RefusedError`
        for a page not allowed."""
        if not self.allows(headers):
            raise RefusedError(
                "origin", 403, "pages of this origin may not use this service (browser.origins)"
            )
        return b"access-control-allow-methods: %b\r\n%b" % (self.paths.methods(path), _ALLOWED)
