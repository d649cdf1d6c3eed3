"""What can be said about the stores from outside, without starting or changing anything."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import text

from common.errors import ProjectError
from common.settings import Settings
from graph.embedded import EmbeddedStores, Service
from graph.embedded.arcadedb import ArcadeDB
from graph.embedded.postgresql import PostgreSQL
from graph.engine import (
    GRAPH,
    POSTGRESQL,
    graph_database,
    graph_driver,
    graph_errors,
    graph_url,
    relational_engine,
    relational_errors,
    relational_url,
    server_agent,
)
from graph.migrate import SchemaState, graph_state, relational_state


@dataclass(frozen=True, slots=True)
class StoreStatus:
    """One store, seen from outside.

    :param url: without the password; ``None`` for an embedded store that is down
    :param problem: why it counts as down, or what is wrong with its schema
    :param size_bytes: its data; ``None`` where the store does not say
    """

    name: str
    up: bool
    embedded: bool
    url: str | None = None
    pid: int | None = None
    version: str | None = None
    schema: str | None = None
    expected_schema: str | None = None
    size_bytes: int | None = None
    problem: str | None = None
    hint: str | None = None


def inventory(settings: Settings) -> list[StoreStatus]:
    """Both stores, PostgreSQL first; takes at most the connect timeout for each."""
    return [
        _status(settings, PostgreSQL, POSTGRESQL, settings.embedded_database, _ask_postgresql),
        _status(settings, ArcadeDB, GRAPH, settings.embedded_graph, _ask_graph),
    ]


def _status(
    settings: Settings,
    kind: type[Service],
    name: str,
    embedded: bool,
    ask: Callable[[Settings, StoreStatus], StoreStatus],
) -> StoreStatus:
    record = EmbeddedStores(settings).record_of(kind) if embedded else None
    status = StoreStatus(name, up=False, embedded=embedded, pid=record.pid if record else None)
    if embedded and record is None:
        return replace(status, problem="not running", hint="run `thoth up`")
    try:
        return ask(settings, status)
    except ProjectError as error:
        return replace(status, problem=str(error), hint=error.hint)


def _ask_postgresql(settings: Settings, status: StoreStatus) -> StoreStatus:
    url = relational_url(settings).render_as_string(hide_password=True)
    engine = relational_engine(settings)
    try:
        with relational_errors(settings), engine.connect() as connection:
            found = replace(
                status,
                up=True,
                url=url,
                version=str(connection.scalar(text("SHOW server_version"))),
                size_bytes=connection.scalar(text("SELECT pg_database_size(current_database())")),
            )
            return _with_schema(found, lambda: relational_state(connection))
    finally:
        engine.dispose()


def _ask_graph(settings: Settings, status: StoreStatus) -> StoreStatus:
    database = graph_database(settings)
    with graph_errors(settings), graph_driver(settings) as driver:
        agent = server_agent(driver, database)
        size = _size_of(EmbeddedStores(settings).home.graph) if settings.embedded_graph else None
        found = replace(status, up=True, url=graph_url(settings), version=agent, size_bytes=size)
        return _with_schema(found, lambda: graph_state(driver, database))


def _with_schema(status: StoreStatus, ask: Callable[[], SchemaState]) -> StoreStatus:
    try:
        state = ask()
    except ProjectError as error:
        return replace(status, problem=str(error), hint=error.hint)
    hint = "run `thoth migrate`" if state.pending else None
    return replace(
        status,
        schema=state.current,
        expected_schema=state.expected,
        problem=f"{len(state.pending)} schema steps to apply" if state.pending else None,
        hint=hint,
    )


def _size_of(folder: Path) -> int:
    """Bytes below ``folder``; files that come and go meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except FileNotFoundError:
                continue
    return total
