"""Signs a pack with Ed25519: a DSSE envelope around an in-toto statement.

See https://github.com/secure-systems-lab/dsse and https://in-toto.io/Statement/v1. The subjects are
the pack and the measured wheels. The predicate follows the draft *eval-result* of in-toto: the
measurements with their number and script, and who vouches for them.
"""

import base64
import hashlib
from enum import StrEnum
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from adviser.packs.manifest import PackManifest
from model.errors import InvalidArgument, InvalidDocument, Reason
from model.json_documents import canonical_json, load_json
from model.json_fields import Fields

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:thoth:predicate:evidence-pack:v0.1"


class Assurance(StrEnum):
    """Who vouches for the measurements."""

    SELF_ATTESTED = "self_attested"
    THIRD_PARTY = "third_party"
    REPRODUCED = "reproduced"


def statement_of(manifest: PackManifest, assurance: Assurance) -> dict[str, Any]:
    """The statement that a signature of a pack signs."""
    pack = {"name": manifest.name, "digest": {"sha256": manifest.digest.removeprefix("sha256:")}}
    wheels = (
        {"name": wheel.purl, "digest": {"sha256": sha256}}
        for wheel in manifest.wheels
        for sha256 in wheel.sha256
    )
    metrics = (
        {
            "metric": indicator.name,
            "sampleSize": indicator.measurements,
            "harness": {"name": indicator.name, "digest": {"sha256": indicator.script_sha256}},
        }
        for indicator in manifest.scripts
    )
    return {
        "_type": STATEMENT_TYPE,
        "subject": [pack, *wheels],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "metrics": list(metrics),
            "checker": {"name": "thoth", "version": manifest.checker_version},
            "assuranceLevel": assurance.value,
            "basis": "substrate_observed",
        },
    }


def signed(manifest: PackManifest, key: Ed25519PrivateKey, assurance: Assurance) -> bytes:
    """The envelope of a pack; equal arguments give equal bytes."""
    payload = canonical_json(statement_of(manifest, assurance))
    public = key.public_key()
    signature = key.sign(_encoded(PAYLOAD_TYPE, payload))
    return canonical_json(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [
                {"keyid": fingerprint(public), "sig": base64.b64encode(signature).decode()}
            ],
            # Not part of DSSE, whose readers ignore it: policies name keys by fingerprint.
            "publicKey": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
            .decode(),
        }
    )  # fmt: skip


def verified_key(envelope: bytes, manifest: PackManifest) -> tuple[str, Assurance]:
    """The fingerprint of the key that signed a pack, and who vouches for it.

    The trust policy decides whether to trust this key.

    :raises InvalidDocument: if the envelope does not fit its key or the manifest
    """
    fields = Fields(load_json(envelope)[0])
    signature, *more = [*fields.each("signatures")] or [Fields({})]
    public = _public_key(fields.required_text("publicKey", most=1_000).encode())
    keyid = signature.required_text("keyid")
    if more or keyid != fingerprint(public):
        raise _tampered("it is signed with another key than it names", "$.signatures")
    payload = _decoded(fields, "payload")
    kind = fields.required_text("payloadType")
    try:
        public.verify(_decoded(signature, "sig"), _encoded(kind, payload))
    except InvalidSignature:
        raise _tampered("the signature does not verify", "$.signatures") from None
    if kind != PAYLOAD_TYPE:
        raise InvalidDocument(
            Reason.UNKNOWN_SCHEMA, f"{kind[:80]!r} is not {PAYLOAD_TYPE}", field="$.payloadType"
        )
    predicate = Fields(load_json(payload)[0]).nested("predicate")
    assurance = predicate.choice("assuranceLevel", Assurance, "level of assurance")
    if payload != canonical_json(statement_of(manifest, assurance)):
        raise _tampered("it was signed for another manifest", "$.payload")
    return keyid, assurance


def read_private_key(path: Path) -> Ed25519PrivateKey:
    """The private key in a file of PEM; errors never show its content.

    :raises InvalidArgument: if it is no Ed25519 key without a password
    """
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidArgument(
            f"{path}: not an Ed25519 key in PEM without a password",
            hint="`openssl genpkey -algorithm ed25519 -out FILE` makes one",
        )
    return key


def public_fingerprint(path: Path) -> str:
    """The fingerprint of the public key in a file of PEM.

    :raises InvalidArgument: if the file has no such key
    """
    try:
        return fingerprint(_public_key(path.read_bytes()))
    except OSError as error:
        raise InvalidArgument(f"{path}: {error.strerror}") from None
    except InvalidDocument as error:
        raise InvalidArgument(f"{path}: {error.message}") from None


def fingerprint(key: Ed25519PublicKey) -> str:
    """``sha256:…`` of the key in DER, as ``openssl pkey -pubin -outform DER | sha256sum``."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def _encoded(kind: str, payload: bytes) -> bytes:
    """The signed bytes: DSSE's pre-authentication encoding (PAE)."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def _public_key(pem: bytes) -> Ed25519PublicKey:
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise _tampered("not a public Ed25519 key in PEM", "$.publicKey")
    return key


def _decoded(fields: Fields, name: str) -> bytes:
    try:
        return base64.b64decode(fields.required_text(name, most=2**26), validate=True)
    except ValueError:
        raise fields.invalid(Reason.WRONG_TYPE, "is not Base64", name) from None


def _tampered(message: str, field: str) -> InvalidDocument:
    return InvalidDocument(Reason.TAMPERED, message, field=field)
