"""When certificates end: that of a file, and that which another service shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cryptography import x509

__all__ = ["end_of_file", "end_of_peer"]


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
    content = None if tls is None else tls.getpeercert(binary_form=True)
    return None if not content else x509.load_der_x509_certificate(content).not_valid_after_utc.timestamp()
