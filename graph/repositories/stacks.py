"""Stacks into the record, whoever names them: an inspection that ran one, an advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection

from common.inspection import Stack
from graph.repositories.bulk import insert_new
from graph.repositories.packages import add_unread_versions
from graph.tables import Base, PackageVersionRow, StackPackage, StackRow


def stack_rows(stack: Stack, document_id: str) -> Iterator[tuple[type[Base], dict[str, Any]]]:
    """Every row that :func:`add_stacks` makes of ``stack``, by column.

    Of package versions only what names them: the rest is what indexes say of them.
    """
    yield StackRow, {
        "digest": stack.digest, "package_count": len(stack.packages), "document_id": document_id,
    }  # fmt: skip
    for package in stack.packages:
        yield StackPackage, {"stack_digest": stack.digest, "purl": package.purl}
        yield PackageVersionRow, {
            "purl": package.purl, "name": package.name, "version": package.version,
            "index_name": package.index, "document_id": document_id,
        }  # fmt: skip


def add_stacks(connection: Connection, named: Iterable[tuple[Stack, str]]) -> list[str]:
    """Insert the stacks that are not there yet, and the package versions that they name.

    A stack is its packages: measured or advised, the same versions are one row. The caller
    writes the outbox entries of the stacks.

    :param named: stacks, each with the document that names it; of several the first counts
    :returns: the digests that were new
    """
    stacks: dict[str, tuple[Stack, str]] = {}
    for stack, document_id in named:
        stacks.setdefault(stack.digest, (stack, document_id))
    new = insert_new(
        connection, StackRow,
        [(key, len(stack.packages), document_id) for key, (stack, document_id) in stacks.items()],
        ("digest", "package_count", "document_id"), "digest",
    )  # fmt: skip
    # Of a stack that is there the versions are there as well.
    add_unread_versions(
        connection,
        (
            (package.purl, package.name, package.version, package.index, document_id)
            for stack, document_id in map(stacks.__getitem__, new)
            for package in stack.packages
        ),
    )
    insert_new(
        connection, StackPackage,
        [(key, package.purl) for key in new for package in stacks[key][0].packages],
        ("stack_digest", "purl"),
    )  # fmt: skip
    return new
