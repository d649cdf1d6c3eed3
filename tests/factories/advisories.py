"""Advisories in the OSV format: single ones with sensible defaults, real facts, and many."""

import json
import random
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from graph.record.bulk import insert_new
from graph.record.packages import add_package_rows
from graph.tables import Document, PackageVersionRow
from ingest.advisories.osv import advisory_of
from model.advisories import Advisory
from model.json_documents import canonical_json, digest_bytes
from model.measurements.inspection import DocumentId
from model.packages.identity import package_version

NOW = datetime(2026, 6, 1, tzinfo=UTC)
#: Scores of 9.8, 7.5 and 5.3 by version 3.1, 6.9 by version 4.0 and 7.5 by version 2.
CRITICAL = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"
HIGH = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N"
MEDIUM = "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:L/I:N/A:N"
FOURTH = "CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:L/VI:L/VA:L/SC:N/SI:N/SA:N"
SECOND = "AV:N/AC:L/Au:N/C:P/I:P/A:P"


def affected(
    name: str = "flask",
    *ends: tuple[str, str],
    versions: Iterable[str] = (),
    ecosystem: str = "PyPI",
    type: str = "ECOSYSTEM",
) -> dict[str, Any]:
    """One entry of ``affected``; its range has these events, in this order."""
    events = [{kind: version} for kind, version in ends]
    return {
        "package": {"ecosystem": ecosystem, "name": name},
        "ranges": [{"type": type, "events": events}] if events else [],
        "versions": list(versions),
    }


def osv(
    identifier: str = "GHSA-aaaa-bbbb-cccc",
    *packages: dict[str, Any],
    modified: str = "2024-01-01T00:00:00Z",
    vector: str | None = None,
    **more: Any,
) -> dict[str, Any]:
    """An advisory; without packages, about all versions of Flask."""
    document: dict[str, Any] = {
        "schema_version": "1.6.0",
        "id": identifier,
        "modified": modified,
        "affected": list(packages) or [affected("flask", ("introduced", "0"))],
    }
    if vector is not None:
        kind = f"CVSS_V{vector[5]}" if vector.startswith("CVSS:") else "CVSS_V2"
        document["severity"] = [{"type": kind, "score": vector}]
    return document | more


def advisory(document: dict[str, Any]) -> Advisory:
    """What the parser makes of a document."""
    canonical = canonical_json(document)
    return advisory_of(document, canonical, DocumentId(digest_bytes(canonical)), NOW)


def flask_sessions() -> list[dict[str, Any]]:
    """Facts of CVE-2023-30861: both advisories about it, in words of our own.

    Flask before 2.2.5, and 2.3.0 up to 2.3.2, let a proxy cache one client's session
    cookie and give it to another.
    """
    ends = [("introduced", "0"), ("fixed", "2.2.5"), ("introduced", "2.3.0"), ("fixed", "2.3.2")]
    cve = "CVE-2023-30861"
    summary = "A session cookie may be cached by a proxy and sent to other clients"
    return [
        osv(
            "GHSA-m2qf-hxjv-5gpq", affected("Flask", *ends[:2]), affected("Flask", *ends[2:]),
            vector=HIGH, aliases=[cve, "PYSEC-2023-62"], summary=summary,
            published="2023-05-01T19:22:20Z", database_specific={"severity": "HIGH"},
        ),
        osv(
            "PYSEC-2023-62", affected("flask", *ends, versions=["2.2.4", "2.3.0", "2.3.1"]),
            aliases=[cve, "GHSA-m2qf-hxjv-5gpq"], details="Session cookies, proxies.\nMore.",
            published="2023-05-02T18:15:00Z",
        ),
    ]  # fmt: skip


def requests_headers() -> dict[str, Any]:
    """Facts of CVE-2018-18074: Requests before 2.20.0 kept credentials on a redirect to HTTP."""
    return osv(
        "PYSEC-2018-28",
        affected("requests", ("introduced", "0"), ("fixed", "2.20.0")),
        vector="CVSS:3.0/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N",
        aliases=["CVE-2018-18074", "GHSA-x84v-xcm2-53pg"],
        summary="Credentials are sent on in clear after a redirect from HTTPS to HTTP",
    )


def generated(count: int, packages: int, seed: int = 1) -> list[dict[str, Any]]:
    """Advisories shaped like those of the public archive: half in pairs of aliases.

    Packages are called ``package-0`` and so on; a few have most of the advisories.
    """
    chance = random.Random(seed)
    documents = []
    for number in range(count):
        # Numbers 2 k and 2 k + 1 are a pair if k is even.
        pair = number // 2
        aliases = [f"CVE-2024-{pair}"] if pair % 2 == 0 else []
        subject = random.Random(f"{seed}/{pair if aliases else number}")
        name = f"package-{int(subject.paretovariate(0.35)) % packages}"
        first, last = sorted((subject.randrange(25), subject.randrange(25)))
        ends = [("introduced", f"1.{first}" if first else "0"), ("fixed", f"1.{last}")]
        versions = [f"1.{minor}" for minor in range(first, last)]
        prefix = "GHSA" if number % 2 else "PYSEC"
        documents.append(
            osv(
                f"{prefix}-{number}", affected(name, *ends, versions=versions), aliases=aliases,
                vector=chance.choice((CRITICAL, HIGH, MEDIUM, FOURTH)), summary=f"Bug {pair}",
                details="What goes wrong, and how. " * 60,
                withdrawn="2024-02-01T00:00:00Z" if number % 50 == 0 else None,
            )
        )  # fmt: skip
    return documents


def write_archive(path: Path, documents: Iterable[dict[str, Any]]) -> Path:
    """A zip of documents, each named by its identifier; the same bytes at any time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for document in documents:
            info = zipfile.ZipInfo(f"{document['id']}.json")
            archive.writestr(info, json.dumps(document, indent=1), zipfile.ZIP_DEFLATED)
    return path


def add_versions(connection: Connection, *named: str) -> list[str]:
    """Rows of versions such as ``flask==2.2.4``, or ``name==version@index``; their purls."""
    row = ("sha256:none", "release", "release-1", "test", 0, b"", None)
    columns = ("document_id", "kind", "schema_version", "source", "size_bytes", "body", "location")
    insert_new(connection, Document, [row], columns)
    versions = []
    for text in named:
        name, _, rest = text.partition("==")
        version, _, index = rest.partition("@")
        versions.append(package_version(name, version, index or None))
    add_package_rows(connection, {it.name: "sha256:none" for it in versions})
    rows = [(it.purl, it.name, it.version, it.index, "sha256:none") for it in versions]
    named_columns = ("purl", "name", "version", "index_name", "document_id")
    insert_new(connection, PackageVersionRow, rows, named_columns)
    return [str(it.purl) for it in versions]
