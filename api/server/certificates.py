"""A self-signed certificate, for a service that has no other certificate."""

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock

from common.files import PRIVATE, private_folder, write_atomically

#: Browsers refuse certificates with a longer validity.
_VALID_FOR = timedelta(days=397)
#: A certificate that expires sooner is replaced.
_RENEWED_BEFORE = timedelta(days=7)
#: Tolerance for clocks of clients that are slow.
_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a certificate, with the fingerprint that people compare.

    :param path: PEM; clients may trust it as it is
    :param fingerprint: SHA-256 of the certificate
    """

    path: Path
    key_path: Path
    fingerprint: str
    expires_at: datetime


def self_signed(folder: Path, more_names: Iterable[str] = ()) -> Certificate:
    """Return the certificate in ``folder``; create it unless a valid certificate covers all names.

    :param folder: made if missing, for its owner alone
    :param more_names: names or addresses beside this machine's own
    """
    private_folder(folder)
    path, key_path = folder / "certificate.pem", folder / "key.pem"
    names = _names(more_names)
    with FileLock(folder / "lock", mode=0o600):
        certificate = _usable(path, key_path, names)
        if certificate is None:
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = _create(key, names)
            # The key first: an old certificate beside it does not match and is replaced.
            pem = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            write_atomically(key_path, pem, PRIVATE)
            write_atomically(path, certificate.public_bytes(serialization.Encoding.PEM), PRIVATE)
        # The folder may have been copied without its modes.
        key_path.chmod(0o600)
    digest = certificate.fingerprint(hashes.SHA256()).hex(":").upper()
    return Certificate(path, key_path, digest, certificate.not_valid_after_utc)


def expires_at(path: Path) -> datetime | None:
    """When a certificate in PEM expires; ``None`` if the file cannot be read."""
    try:
        return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return None


def _names(more: Iterable[str]) -> list[x509.GeneralName]:
    addresses: list[x509.GeneralName] = []
    for name in dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), *more]):
        try:
            addresses.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            if name.isascii():
                addresses.append(x509.DNSName(name))
    return addresses


def _usable(
    path: Path, key_path: Path, names: Iterable[x509.GeneralName]
) -> x509.Certificate | None:
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        recorded = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return None
    matches = key.public_key() == certificate.public_key() and set(names) <= set(recorded)
    return (
        certificate
        if matches and certificate.not_valid_after_utc - _RENEWED_BEFORE > datetime.now(UTC)
        else None
    )


def _create(key: ec.EllipticCurvePrivateKey, names: list[x509.GeneralName]) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Thoth, self-signed")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now - _SKEW + _VALID_FOR)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # Not a CA: trusting it means trusting this server only, not what it might sign.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
