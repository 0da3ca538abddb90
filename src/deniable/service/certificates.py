"""A service's certificate and key: read once, before it listens; an error names the setting that is
wrong."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from deniable.errors import ParameterError
from deniable.queries.times import iso_time
from deniable.service.http.limits import Tls

__all__ = ["CertificateFacts", "read_certificate", "server_context"]


@dataclass(frozen=True)
class CertificateFacts:
    """The contents of a certificate."""

    names: tuple[str, ...]
    """The host names and addresses it is valid for."""
    since: int
    until: int


def server_context(tls: Tls, now: int) -> ssl.SSLContext:
    """TLS 1.3 with one ticket per handshake: a returning device can resume in any process that was
    forked after this."""
    read_certificate(tls, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 1
    try:
        # Without a password argument, OpenSSL would prompt for one at the terminal.
        context.load_cert_chain(tls.certificate, tls.key, _password(tls) or b"")
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or error.strerror or "no such pair"
        raise ParameterError(
            "tls.certificate", str(tls.certificate), f"cannot be used by OpenSSL: {reason}"
        ) from None
    return context


def read_certificate(tls: Tls, now: int) -> CertificateFacts:
    """The certificate, if it is currently valid and matches the key."""
    certificate = _certificate(tls.certificate)
    key = _key(tls)
    if _public(key) != certificate.public_key().public_bytes(*_ENCODING):
        raise ParameterError(
            "tls.key", str(tls.key), f"must be the key of the certificate {tls.certificate}"
        )
    since, until = (
        _seconds(at) for at in (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
    )
    if not since <= now <= until:
        words = (
            f"expired at {iso_time(until)}"
            if now > until
            else f"is not valid before {iso_time(since)}"
        )
        raise ParameterError(
            "tls.certificate", str(tls.certificate), f"{words}: it must be valid now"
        )
    return CertificateFacts(_names(certificate), since, until)


_ENCODING = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _seconds(at: datetime.datetime) -> int:
    return int(at.timestamp())


def _public(key: PrivateKeyTypes) -> bytes:
    return key.public_key().public_bytes(*_ENCODING)


def _content(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ParameterError(name, str(path), f"cannot be read: {error.strerror}") from None


def _certificate(path: Path) -> x509.Certificate:
    content = _content("tls.certificate", path)
    try:
        # the service's own comes first, then the chain
        return x509.load_pem_x509_certificates(content)[0]
    except ValueError:
        raise ParameterError(
            "tls.certificate", str(path), "must hold a certificate in PEM"
        ) from None


def _password(tls: Tls) -> bytes | None:
    if tls.password_file is None:
        return None
    return _content("tls.password_file", tls.password_file).strip(b"\r\n")


def _key(tls: Tls) -> PrivateKeyTypes:
    content, password = _content("tls.key", tls.key), _password(tls)
    load: Callable[..., PrivateKeyTypes] = serialization.load_pem_private_key
    try:
        return load(content, password)
    except TypeError:  # it is encrypted and there is no password, or vice versa
        if password is not None:
            return load(content, None)
        raise ParameterError(
            "tls.key", str(tls.key), "is encrypted: tls.password_file must name its password"
        ) from None
    except ValueError:
        if password is not None and b"ENCRYPTED" in content:
            rule = f"cannot decrypt {tls.key}: it must hold the key's password and nothing else"
            raise ParameterError("tls.password_file", str(tls.password_file), rule) from None
        raise ParameterError("tls.key", str(tls.key), "must hold a private key in PEM") from None


def _names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    hosts = found.get_values_for_type(x509.DNSName)
    return (*hosts, *(str(address) for address in found.get_values_for_type(x509.IPAddress)))
