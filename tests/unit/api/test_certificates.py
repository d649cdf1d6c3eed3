"""Certificates of this machine's own making: private, reused, and made anew when they must be."""

from __future__ import annotations

import ssl
import stat
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

from cryptography import x509

from api.server.certificates import self_signed
from api.server.http_server import _ReloadedTls


def names_of(path: Path) -> set[str]:
    found = x509.load_pem_x509_certificate(path.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(it.value) for it in names}


def test_a_certificate_is_made_for_this_machine_and_reused(tmp_path: Path) -> None:
    first = self_signed(tmp_path / "tls")
    assert {"localhost", "127.0.0.1", "::1"} < names_of(first.path)
    assert self_signed(tmp_path / "tls") == first


def test_only_its_owner_can_read_the_key_of_a_certificate(tmp_path: Path) -> None:
    made = self_signed(tmp_path / "tls")
    made.key_path.chmod(0o644)
    self_signed(tmp_path / "tls")
    assert stat.S_IMODE(made.key_path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "tls").stat().st_mode) == 0o700


def test_a_name_that_it_lacks_makes_a_new_one(tmp_path: Path) -> None:
    first = self_signed(tmp_path / "tls")
    second = self_signed(tmp_path / "tls", ["192.0.2.7", "build.example"])
    assert second.fingerprint != first.fingerprint
    assert {"192.0.2.7", "build.example"} <= names_of(second.path)


def test_broken_files_are_replaced(tmp_path: Path) -> None:
    made = self_signed(tmp_path / "tls")
    for path in (made.path, made.key_path):
        path.write_text("not PEM", "utf-8")
        self_signed(tmp_path / "tls")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(made.path, made.key_path)


def certificate_shown_by(context: ssl.SSLContext) -> bytes:
    """The certificate that a client sees in a handshake, without the network."""
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    sent, answered = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(answered, sent)
    server = context.wrap_bio(sent, answered, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    certificate = client.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    made, renewed = self_signed(tmp_path / "now"), self_signed(tmp_path / "later")
    config = SimpleNamespace(certfile=str(made.path), keyfile=str(made.key_path))

    def load() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(config.certfile, config.keyfile)
        return context

    context = _ReloadedTls()(config, load)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    first = certificate_shown_by(context)
    made.path.write_bytes(renewed.path.read_bytes())
    assert certificate_shown_by(context) == first  # the key is still the other one
    made.key_path.write_bytes(renewed.key_path.read_bytes())
    assert certificate_shown_by(context) == ssl.PEM_cert_to_DER_cert(renewed.path.read_text())
