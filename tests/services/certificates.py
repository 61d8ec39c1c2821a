"""A certificate authority and a certificate for localhost, as PEM files."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.services.processes import HOST


def make_certificates(folder: Path) -> None:
    """Write `ca.pem`, and `server.pem` with certificate and key in the format of Kafka brokers."""
    ca_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root, name = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("tests", HOST))
    ca_certificate = _builder(root, root, ca_key.public_key()).add_extension(
        x509.BasicConstraints(True, None), True
    )
    alt_name = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    server_certificate = _builder(name, root, server_key.public_key()).add_extension(alt_name, False)
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca_certificate.sign(ca_key, hashes.SHA256()).public_bytes(pem))
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(
        key + server_certificate.sign(ca_key, hashes.SHA256()).public_bytes(pem)
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
    )
