"""When certificates end: that of a file, and that which another service shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509

from deniable.service.limits import Tls

if TYPE_CHECKING:
    from deniable.service.metrics import Family

__all__ = ["certificate_families", "end_of_file", "end_of_peer"]


def certificate_families(tls: Tls | None, now: float, others: Mapping[str, float | None] | None = None) -> list[Family]:
    """What metrics tell of the certificate of a service, and of those that others show it."""
    from deniable.service.metrics import gauge  # noqa: PLC0415 - an extra

    ends = {"tls.certificate": None if tls is None else end_of_file(tls.certificate), **(others or {})}
    left = [({"subject": name}, end - now) for name, end in ends.items() if end is not None]
    return [gauge("certificate_seconds_left", "Until a certificate ends: the service's own, or a proxy's.", left)]


def end_of_file(path: Path) -> float | None:
    """When the first certificate of a PEM file ends, in seconds since 1970; None if there is none that can be read."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        return None


def end_of_peer(response: Any) -> float | None:
    """When the certificate ends that the service showed from which an `httpx.Response` came; None without TLS."""
    stream = response.extensions.get("network_stream")
    tls = None if stream is None else stream.get_extra_info("ssl_object")
    content = None if tls is None else tls.getpeercert(True)  # httpcore shows the inner object, which takes no names
    return None if not content else x509.load_der_x509_certificate(content).not_valid_after_utc.timestamp()
