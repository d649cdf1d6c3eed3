"""What indexes answered when they were asked for projects."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, func, literal, select

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


def asked_since(
    connection: Connection, names: Collection[str], ago: timedelta
) -> set[tuple[str, str]]:
    """Which indexes were asked for which of these projects within a time, by index and name."""
    row = IndexProject
    query = select(row.index_name, row.name).where(
        row.name.in_(names), row.asked_at > func.clock_timestamp() - literal(ago)
    )
    return {(index, name) for index, name in connection.execute(query)}
