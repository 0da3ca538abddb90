"""When certificates expire: one in a file, or one presented by another service."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography import x509

from deniable.service.http.limits import Tls

if TYPE_CHECKING:
    from deniable.service.metrics import Family

__all__ = ["certificate_families", "end_of_file", "end_of_peer"]


def certificate_families(
    tls: Tls | None, now: float, others: Mapping[str, float | None] | None = None
) -> list[Family]:
    """Metrics about a service's certificate and those that other services present to it."""
    from deniable.service.metrics import gauge  # noqa: PLC0415 - an extra

    ends = {
        "tls.certificate": None if tls is None else end_of_file(tls.certificate),
        **(others or {}),
    }
    left = [({"subject": name}, end - now) for name, end in ends.items() if end is not None]
    return [
        gauge(
            "certificate_seconds_left",
            "Seconds until a certificate expires: the service's own, or a proxy's.",
            left,
        )
    ]


def end_of_file(path: Path) -> float | None:
    """When the first certificate in a PEM file expires, in seconds since 1970; None if none can be
    read."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        return None


def end_of_peer(response: Any) -> float | None:
    """When the certificate presented with an `httpx.Response` expires; None without TLS."""
    stream = response.extensions.get("network_stream")
    tls = None if stream is None else stream.get_extra_info("ssl_object")
    content = (
        None if tls is None else tls.getpeercert(True)
    )  # httpcore exposes the inner object, which takes no keyword arguments
    return (
        None
        if not content
        else x509.load_der_x509_certificate(content).not_valid_after_utc.timestamp()
    )
