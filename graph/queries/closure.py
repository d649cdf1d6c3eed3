"""Cypher questions about the closure of packages: one for each layer, never one a package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import neo4j

#: A package and the extras that are asked of it.
Wanted = tuple[str, Sequence[str]]

#: A layer: each package in one row with its versions, and each version with what it requires.
#:
#: Of the requirements that name extras only those are read that name one that is asked of the
#: package. Where a marker says ``or``, or ``!=`` of an extra, it may hold without any, and is
#: read as well. The two lists are made inside of the row because ``OPTIONAL MATCH`` costs
#: twice as much, and on ArcadeDB a list that is made of an absent version has every edge
#: of the graph in it. A time travels as text: that takes a tenth of what a time takes.
PACKAGES = """
UNWIND $wanted AS wanted
MATCH (package:Package {name: wanted[0]})
RETURN package.name AS name, package.revision AS revision,
  [(package)-[:HAS_VERSION]->(version:PackageVersion) | [
    version.purl, version.version, version.index, version.state, version.problem,
    version.requires_python, version.yanked, version.yanked_reason,
    toString(version.uploaded_at), version.wheels, version.has_sdist, version.files_complete,
    version.extras,
    [(version)-[edge:REQUIRES]->(required:Package)
      WHERE edge.extra IS NULL
        OR any(extra IN edge.extra WHERE extra IN wanted[1])
        OR edge.marker CONTAINS ' or '
        OR edge.marker CONTAINS 'extra !='
        OR edge.marker CONTAINS '!= extra'
      | [required.name, edge.specifier, edge.marker, edge.extras, edge.url]]
  ]] AS versions
ORDER BY name
"""

VULNERABILITIES = """
UNWIND $names AS name
MATCH (:Package {name: name})-[:HAS_VERSION]->(version:PackageVersion)
      <-[:AFFECTS]-(vulnerability:Vulnerability)
RETURN version.purl AS purl, vulnerability.vulnerability_id AS id,
  vulnerability.severity AS severity, vulnerability.score AS score
ORDER BY purl, id
"""

REVISIONS = """
UNWIND $names AS name
MATCH (package:Package {name: name})
RETURN package.name AS name, package.revision AS revision
ORDER BY name
"""


class RequirementRecord(NamedTuple):
    """An edge ``REQUIRES``; extras are those asked of the required package."""

    name: str
    specifier: str | None
    marker: str | None
    extras: Sequence[str] | None
    url: str | None


class VersionRecord(NamedTuple):
    """A node ``PackageVersion`` with what it requires, an absent property as ``None``."""

    purl: str
    version: str
    index_name: str
    state: str | None
    problem: str | None
    requires_python: str | None
    yanked: bool | None
    yanked_reason: str | None
    uploaded_at: str | None
    wheels: Sequence[str] | None
    has_sdist: bool | None
    files_complete: bool | None
    extras: Sequence[str] | None
    requires: Sequence[Sequence[Any]]


class PackageRecord(NamedTuple):
    """A node ``Package`` with all its versions, in no order."""

    name: str
    revision: str | None
    versions: Sequence[Sequence[Any]]


class VulnerabilityRecord(NamedTuple):
    """An edge ``AFFECTS``: which version, by what."""

    purl: str
    id: str
    severity: str | None
    score: float | None


def packages_of(tx: neo4j.ManagedTransaction, wanted: Sequence[Wanted]) -> list[PackageRecord]:
    """The packages that are known of those wanted, in name order; each may be named once."""
    rows = [[name, list(extras)] for name, extras in wanted]
    return [PackageRecord(*record.values()) for record in tx.run(PACKAGES, wanted=rows)]


def vulnerabilities_of(
    tx: neo4j.ManagedTransaction, names: Sequence[str]
) -> list[VulnerabilityRecord]:
    """What affects the versions of packages, by version and identifier."""
    records = tx.run(VULNERABILITIES, names=list(names))
    return [VulnerabilityRecord(*record.values()) for record in records]


def revisions_of(tx: neo4j.ManagedTransaction, names: Sequence[str]) -> Mapping[str, str | None]:
    """The revision of each package; ``None`` for one that is not known, or has no versions."""
    rows = tx.run(REVISIONS, names=list(names))
    known = {row["name"]: row["revision"] for row in rows}
    return {name: known.get(name) for name in names}
