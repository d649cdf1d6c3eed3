"""Stacks, and the package versions that they include."""

from __future__ import annotations

from sqlalchemy import select

from graph.projection.model import EdgeKind, NodeKind, Subject
from graph.projection.packages import PACKAGE_VERSION
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
