"""Revisions of packages while what they stand for is written.

A package's revision is written when all that it stands for is in the graph. Until then it
has one of its own, which no snapshot has that was read before.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

import neo4j

from graph.projection.model import Row

_OF_VERSIONS = """
UNWIND $names AS name MATCH (package:Package {name: name})
SET package.revision = $revision
"""
_OF_VULNERABILITIES = """
UNWIND $ids AS id
MATCH (:Vulnerability {vulnerability_id: id})-[:AFFECTS]->(:PackageVersion)
      <-[:HAS_VERSION]-(package:Package)
WITH DISTINCT package SET package.revision = $revision
"""
_OF_ANY = """
MATCH (package:Package) WHERE package.revision IS NOT NULL
WITH package LIMIT $limit
SET package.revision = null
RETURN count(*) AS unsettled
"""
#: Packages that lose their revision in one transaction.
_UNSETTLED = 20_000


def unsettle_versions(tx: neo4j.ManagedTransaction, rows: Iterable[Row]) -> None:
    """The packages of versions get revisions that nobody knows; a row has the name second."""
    names = sorted({row[1] for row in rows})
    tx.run(_OF_VERSIONS, names=names, revision=_unsettled()).consume()


def unsettle_affected(tx: neo4j.ManagedTransaction, rows: Iterable[Row]) -> None:
    """The same for the packages that vulnerabilities affect; a row has the identifier first."""
    ids = [row[0] for row in rows]
    tx.run(_OF_VULNERABILITIES, ids=ids, revision=_unsettled()).consume()


def unsettle_everything(session: neo4j.Session) -> None:
    """No package has a revision afterwards."""
    while session.execute_write(_unsettle_some):
        pass


def _unsettle_some(tx: neo4j.ManagedTransaction) -> int:
    return int(tx.run(_OF_ANY, limit=_UNSETTLED).single(strict=True)["unsettled"])


def _unsettled() -> str:
    return f"unsettled:{uuid4().hex}"
