"""A stack with a vulnerable release that other releases of the stack require."""

from typing import Any

from sqlalchemy import Connection, insert

from graph.tables import (
    AdvisoryPackage,
    AdvisoryRow,
    AdvisorySource,
    AffectedVersion,
    RequirementRow,
    StackPackage,
    StackRow,
    VulnerabilityRow,
)
from model.packages.identity import package_version
from tests.factories.advisories import NOW, add_versions

#: Digest of the stack.
AFFECTED_STACK = "sha256:" + "a5" * 32
_RELEASES = ("an-app==1.0", "a-web==2.0", "a-lib==1.0", "a-tool==3.0")
#: Release, required package, text, extras that need it.
_REQUIREMENTS = (
    ("an-app==1.0", "a-web", "a-web>=2", []),
    ("an-app==1.0", "a-lib", 'a-lib; extra == "lib"', ["lib"]),
    ("a-web==2.0", "a-lib", "a-lib<2", []),
    ("an-app==1.0", "a-tool", 'a-tool; extra == "tool"', ["tool"]),
)


def add_affected_stack(connection: Connection, text: str = "") -> None:
    """Add the stack: ``a-lib`` is affected, and so is ``a-tool``, which only an extra requires.

    :param text: every free text in it
    """
    add_versions(connection, *_RELEASES)
    purls = dict(zip(_RELEASES, map(_purl, _RELEASES), strict=True))
    connection.execute(insert(RequirementRow), [
        {"purl": purls[release], "position": position, "raw": text or raw, "name": name,
         "specifier": "", "extras": [], "for_extras": extras}
        for position, (release, name, raw, extras) in enumerate(_REQUIREMENTS)
    ])  # fmt: skip
    connection.execute(insert(AdvisorySource).values(source="all.zip", advisories=2, as_of=NOW))
    connection.execute(insert(StackRow).values(
        digest=AFFECTED_STACK, package_count=len(purls), document_id="sha256:none"
    ))  # fmt: skip
    connection.execute(
        insert(StackPackage),
        [{"stack_digest": AFFECTED_STACK, "purl": purl} for purl in purls.values()],
    )
    for identifier, release in (("CVE-2026-1", "a-lib==1.0"), ("CVE-2026-2", "a-tool==3.0")):
        values: dict[str, Any] = {
            "vulnerability_id": identifier, "aliases": [identifier], "severity": "high",
            "summary": text or "Reads too far", "modified_at": NOW, "document_id": "sha256:none",
        }  # fmt: skip
        connection.execute(insert(VulnerabilityRow).values(**values))
        advisory = values | {"advisory_id": f"PYSEC-{identifier}"}
        connection.execute(insert(AdvisoryRow).values(**advisory))
        connection.execute(insert(AdvisoryPackage).values(
            advisory_id=advisory["advisory_id"], position=0, name=release.partition("==")[0],
            ranges=[[{"introduced": "0"}]], versions=[],
        ))  # fmt: skip
        affected = {"vulnerability_id": identifier, "purl": purls[release]}
        connection.execute(insert(AffectedVersion).values(**affected))


def _purl(release: str) -> str:
    name, _, version = release.partition("==")
    return str(package_version(name, version).purl)
