"""A device's way to the proxies of a local system: function calls instead of a network."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.client.http_transport import refusal
from deniable.errors import RefusedError, UploadError
from deniable.local.system import LocalSystem, Request
from deniable.proxy.intake.uploads import Upload

__all__ = ["LocalTransport"]


@dataclass
class LocalTransport:
    """The transport of a whole device to the proxies of a simulated system, which knows it as
    `client`.

    `offset` is how many seconds the device's clock is ahead of the system's; :meth:`clock` is that
    clock.
    """

    system: LocalSystem
    client: bytes
    offset: int = 0
    concurrent: bool = False

    def clock(self) -> float:
        """The time on the device."""
        return float(self.system.now + self.offset)

    def _number(self, proxy: str) -> int:
        return list(self.system.query.proxies).index(proxy)

    def send(self, proxy: str, token: str, body: bytes) -> None:
        """Deliver the records to the proxy."""
        replies = self.system.take(self._number(proxy), [Upload(self.client, None, body)])
        if replies is None:
            raise UploadError("did not answer in time")
        (reply,) = replies
        if isinstance(reply, RefusedError):
            raise refusal(reply.status, retry_after=reply.retry_after or 0)

    def queries(self, proxy: str) -> list[bytes]:
        """The signed queries, if the proxy is up."""
        number = self._number(proxy)
        up = self.system.is_up(number)
        if self.system._record:
            self.system.traffic.append(
                Request(self.system.now, number, self.client, b"", 200 if up else 0)
            )
        if not up:
            raise UploadError("did not answer in time")
        return self.system.signed()

    def revoked(self, proxy: str) -> frozenset[str]:
        """None: nothing is revoked here."""
        return frozenset()

    def skew(self, proxy: str) -> float | None:
        """The proxy's clock minus the device's."""
        return float(-self.offset)
