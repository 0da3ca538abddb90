"""Certificates for this machine that vouch for themselves."""

from __future__ import annotations

import base64
import datetime
import hashlib
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def self_signed(
    folder: Path,
    name: str,
    days: float = 1,
    hosts: tuple[str, ...] = (),
    password: bytes | None = None,
) -> Path:
    """Write NAME.pem and NAME.key for 127.0.0.1 and other hosts; gives the certificate's path. It
    expires after so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = [
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        *(x509.DNSName(host) for host in hosts),
    ]
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    lock = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
    (folder / f"{name}.key").write_bytes(secret)
    (folder / f"{name}.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    return folder / f"{name}.pem"


def public_key_pin(certificate: Path) -> str:
    """The hash of a certificate's public key, by which a browser can be told to trust this one."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    written = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b64encode(hashlib.sha256(written).digest()).decode()
