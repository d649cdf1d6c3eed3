"""What indexes answered when they were asked for projects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Connection, select

from graph.tables import IndexProject


@dataclass(frozen=True, slots=True)
class IndexAnswer:
    """An index's last word about a project.

    :param state: ``known``, ``missing`` (it has no such project) or ``failed`` (it gave no page)
    :param trouble: why it failed, for a person
    """

    state: str
    trouble: str | None = None


def answers_of(
    connection: Connection, names: Collection[str]
) -> dict[tuple[str, str], IndexAnswer]:
    """The last word of every index that was ever asked for these projects, by index and name."""
    row = IndexProject
    query = select(row.index_name, row.name, row.state, row.problem, row.message)
    rows = connection.execute(query.where(row.name.in_(names)))
    return {
        (index, name): IndexAnswer(state, f"{message} [{problem}]" if problem else None)
        for index, name, state, problem, message in rows
    }
