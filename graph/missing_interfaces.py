"""Finds native interfaces that a wheel needs and an environment lacks, in the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neo4j import ManagedTransaction

#: Returns a row of nulls if nothing is missing, and no row if the wheel or environment is unknown.
MISSING_INTERFACES = """
MATCH (artifact:Artifact {sha256: $sha256})
MATCH (environment:NativeEnvironment {digest: $digest})
OPTIONAL MATCH (artifact)-[:NEEDS]->(needed:NativeInterface)
WHERE NOT EXISTS { (needed)<-[:PROVIDES]-(environment) }
RETURN needed.interface AS interface, needed.library AS library, needed.version AS version
ORDER BY interface
"""

BROUGHT_BY = """
MATCH (version:PackageVersion)-[:BUILT_AS]->(artifact:Artifact)
UNWIND artifact.bundled AS library
WITH library, version.name AS package
WHERE library IN $libraries
RETURN library, collect(DISTINCT package) AS packages
"""


@dataclass(frozen=True, slots=True)
class MissingInterface:
    """An interface that an environment lacks.

    :param version: symbol version; ``None`` if the whole library is missing
    :param brought_by: packages with an analysed wheel that bundles the library, sorted
    """

    interface: str
    library: str
    version: str | None
    brought_by: tuple[str, ...] = ()


def missing_interfaces(
    tx: ManagedTransaction, sha256: str, digest: str
) -> list[MissingInterface] | None:
    """Interfaces that the wheel needs and the environment lacks, sorted by name.

    :param sha256: SHA-256 of the wheel
    :param digest: digest of the environment
    :returns: ``None`` if the wheel or the environment is not in the graph
    """
    rows = [record.data() for record in tx.run(MISSING_INTERFACES, sha256=sha256, digest=digest)]
    if not rows:
        return None
    interfaces = [MissingInterface(**row) for row in rows if row["interface"] is not None]
    packages = _bundling_packages(tx, sorted({it.library for it in interfaces}))
    return [
        MissingInterface(it.interface, it.library, it.version, packages.get(it.library, ()))
        for it in interfaces
    ]


def _bundling_packages(
    tx: ManagedTransaction, libraries: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    if not libraries:
        return {}
    rows = tx.run(BROUGHT_BY, libraries=list(libraries))
    return {row["library"]: tuple(sorted(row["packages"])) for row in rows}
