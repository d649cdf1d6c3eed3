"""What a wheel needs and an environment does not provide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from neo4j import ManagedTransaction

#: One row at least if both are in the graph, so that nothing missing and nothing known differ.
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

    :param version: of its symbols; ``None`` if the whole library is not there
    :param brought_by: packages of which an analysed wheel brings the library along, sorted
    """

    interface: str
    library: str
    version: str | None
    brought_by: tuple[str, ...] = ()


def missing_interfaces(
    tx: ManagedTransaction, sha256: str, digest: str
) -> list[MissingInterface] | None:
    """What the wheel needs and the environment does not provide, in the order of names.

    :returns: ``None`` if the graph does not have one of the two
    """
    rows = [record.data() for record in tx.run(MISSING_INTERFACES, sha256=sha256, digest=digest)]
    if not rows:
        return None
    found = [MissingInterface(**row) for row in rows if row["interface"] is not None]
    packages = _brought_by(tx, sorted({it.library for it in found}))
    return [
        MissingInterface(it.interface, it.library, it.version, packages.get(it.library, ()))
        for it in found
    ]


def _brought_by(tx: ManagedTransaction, libraries: Sequence[str]) -> dict[str, tuple[str, ...]]:
    if not libraries:
        return {}
    rows = tx.run(BROUGHT_BY, libraries=list(libraries))
    return {row["library"]: tuple(sorted(row["packages"])) for row in rows}
