"""What indexes list and nobody has read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from sqlalchemy import Connection, any_, select

from common.packages import version_of
from common.releases import ReleaseState
from graph.repositories.affected import texts
from graph.tables import IndexProject, PackageVersionRow


def unread_of(
    connection: Connection, names: Collection[str]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Versions by PEP 440 that were on an index's last page and never read, by package and index.

    The newest come first; indexes of which everything was read are left out.
    """
    wanted = any_(texts(sorted(names)))
    row = PackageVersionRow
    read: dict[tuple[str, str], set[str]] = defaultdict(set)
    query = select(row.name, row.index_name, row.version).where(
        row.name == wanted, row.state != ReleaseState.UNREAD.value
    )
    for name, index, version in connection.execute(query):
        read[name, index].add(version)
    pages = select(IndexProject.name, IndexProject.index_name, IndexProject.listed)
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for name, index, listed in connection.execute(pages.where(IndexProject.name == wanted)):
        left = [
            (parsed, it)
            for it in set(listed) - read[name, index]
            if (parsed := version_of(it)) is not None
        ]
        if left:
            found.setdefault(name, {})[index] = tuple(it for _, it in sorted(left, reverse=True))
    return found
