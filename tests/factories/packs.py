"""Packs of evidence that was made in memory, written without a store."""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from adviser.exports.arrow_files import schema_of_table
from adviser.exports.tables import TABLES
from adviser.packs import manifest as parts
from adviser.packs.envelope import Assurance, read_private_key, signed
from model.measurements.evidence import Evidence
from model.packages.identity import package_version_of
from model.packages.native_libraries import bundled_document
from tests.factories.evidence import GAIN, Bench, jobs, series

MEASURED_AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def new_key(path: Path) -> None:
    """Write a private key as PEM, and its public key beside it as ``.pub``."""
    key = Ed25519PrivateKey.generate()
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    path.with_name(f"{path.name}.pub").write_bytes(public)


def pack_of(evidence: Evidence, folder: Path, *, key: Path | None = None, **changes: Any) -> Path:
    """A pack with the measurements of ``evidence``, in two sessions by turns.

    :param key: signs it, and is made if it does not exist
    :param changes: columns of all observations
    """
    jobs, documents = [], {}
    for number, it in enumerate(evidence.readings):
        series = evidence.series[it.series]
        documents[it.document_id] = {
            "document_id": it.document_id, "created_at": MEASURED_AT, "stack_digest": it.stack,
            "bundled": json.dumps(bundled_document(evidence.bundled)),
        }  # fmt: skip
        jobs.append(
            {
                "observation_id": it.observation_id, "document_id": it.document_id,
                "job_id": it.job_id, "comparison_key": series.comparison_key,
                "parameters": json.dumps(series.parameters), "device": series.device,
                "unit": series.unit.value, "rate": it.rate, "host": it.host, "block": it.block,
                "unstable_reason": it.unstable_reason, "hardware_digest": series.hardware_digest,
                "hardware": evidence.hardware[series.hardware_digest],
                "stack_digest": it.stack, "indicator": series.indicator,
                "script_sha256": series.script_sha256, "python_version": series.python_version,
                "component": "fast", "outcome": "measured", "ended_at": it.seen_at or MEASURED_AT,
                "boot": f"boot {number % 2}", "build": "one", **changes,
            }
        )  # fmt: skip
    purls = sorted({it for stack in evidence.stacks.values() for it in stack})
    releases = []
    for purl in purls:
        release = package_version_of(purl)
        releases.append(
            {"purl": purl, "name": release.name, "version": release.version, "state": "unread",
             "wheels": [], "extras": [], "requirements": [], "yanked": False,
             "has_sdist": False, "files_complete": False, "index": "test"}
        )  # fmt: skip
    hardware = [
        {"hardware_digest": key, "hardware": label, "identity": json.dumps({"source": key})}
        for key, label in evidence.hardware.items()
    ]
    stacks = [
        {"stack_digest": digest, "purl": purl}
        for digest, stack in evidence.stacks.items()
        for purl in stack
    ]
    rows = {
        "inspections": list(documents.values()), "observations": jobs, "samples": [],
        "hardware": hardware, "stacks": stacks, "releases": releases,
    }  # fmt: skip
    manifest = parts.PackManifest(
        name="test pack", licence="CC-BY-4.0", made_at=MEASURED_AT, measured_until=MEASURED_AT,
        checker_version="0", counts={name: len(it) for name, it in rows.items()},
        files=tuple(_written(folder, name, it) for name, it in rows.items()),
        scripts=tuple(
            parts.PackedIndicator(it.indicator, None, it.script_sha256, len(jobs))
            for it in evidence.series
        ),
        hardware=tuple(parts.PackedHardware(*it) for it in evidence.hardware.items()),
        sessions=tuple(
            parts.PackedSession(stack, None, boot, "one", "2026-11-29", 1)
            for stack in evidence.stacks
            for boot in ("boot 0", "boot 1")
        ),
        wheels=(),
    )  # fmt: skip
    (folder / "manifest.json").write_bytes(manifest.canonical)
    if key is not None:
        if not key.exists():
            new_key(key)
        envelope = signed(manifest, read_private_key(key), Assurance.SELF_ATTESTED)
        (folder / "envelope.json").write_bytes(envelope)
    return folder


def pack_on(hardware: str, folder: Path) -> Path:
    """A pack in which numpy 2 is 30 % faster than 1 on a hardware class; its key lies beside it.

    It was measured with the running version of Python.
    """
    bench, python = Bench(), "{}.{}".format(*sys.version_info)
    how = series(hardware=hardware, parameters={"operation": "sort"}, python_version=python)
    for version, gain in (("1", 0.0), ("2", GAIN)):
        rates, turns = jobs(gain, seed=int(version)), [f"run:{turn}" for turn in range(8)]
        bench.measure(bench.stack(f"numpy=={version}", "rest==1"), rates, how, blocks=turns)
    return pack_of(bench.evidence(hardware={hardware: "a class"}), folder, key=folder / "../key")


def _written(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> parts.PackFile:
    path = folder / name / "part-00000.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows), schema_of_table(TABLES[name])), path)
    data = path.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    return parts.PackFile(f"{name}/{path.name}", sha256, len(data))
