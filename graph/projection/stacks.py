"""Stacks, and the package versions that they include."""

from __future__ import annotations

from collections.abc import Iterable

import neo4j
from sqlalchemy import ARRAY, Connection, Text, any_, literal, select

from graph.projection.model import EdgeKind, NodeKind, Subject
from graph.projection.mutable import project_mutable
from graph.projection.packages import PACKAGE_VERSION, PACKAGE_VERSIONS
from graph.projection.write import chunks, missing, project_subject
from graph.tables import StackPackage, StackRow

STACK = NodeKind(
    label="Stack",
    rows=select(StackRow.digest, StackRow.package_count, StackRow.document_id),
    owner=StackRow.digest,
)

INCLUDES = EdgeKind(
    type="INCLUDES",
    start=STACK,
    end=PACKAGE_VERSION,
    rows=select(StackPackage.stack_digest.label("start"), StackPackage.purl.label("end")),
    owner=StackPackage.stack_digest,
)

STACKS = Subject(node=STACK, edges=(INCLUDES,))


def project_stacks(connection: Connection, session: neo4j.Session, keys: Iterable[str]) -> None:
    """Create the stacks of ``keys`` that are missing, and their package versions before them."""
    for some in chunks(missing(session, STACK, keys)):
        included = select(StackPackage.purl).where(
            StackPackage.stack_digest == any_(literal(some, ARRAY(Text)))
        )
        purls = connection.scalars(included.distinct()).all()
        # Those that are there follow their own entries.
        project_mutable(
            connection, session, PACKAGE_VERSIONS, missing(session, PACKAGE_VERSION, purls)
        )
        project_subject(connection, session, STACKS, some)
