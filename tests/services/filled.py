"""A record with the bundled samples, advisories and an advice in it, for tests that only read."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import neo4j
import pytest
import sqlalchemy
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import make_url, text

from api.app import create_app
from api.store_access import EXTENSION
from common.settings import Settings
from graph.engine import graph_database, relational_engine
from graph.record.access import Scope, create_token
from graph.tables import Base
from tests.factories.advisories import flask_sessions, requests_headers, write_archive
from tests.services.commands import ROOT, thoth
from tests.services.databases import new_database

SAMPLES = ROOT / "samples"
#: What clients who only read and a projector leave behind; no test compares it.
_CHANGING = {
    "tokens", "page_sessions", "request_counts", "audit_log", "outbox", "graph_checkpoints"
}  # fmt: skip
_REFUSE = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'the filled record is shared and only read: a test changes its table %', TG_TABLE_NAME;
END $$
"""


@pytest.fixture(scope="session")
def filled(
    postgresql: sqlalchemy.Engine,
    embedded_settings: Settings,
    embedded_graph: neo4j.Driver,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Settings]:
    """Settings of a record that was filled by the commands that people use, and refuses changes.

    The graph is emptied by whichever test comes next.
    """
    with embedded_graph.session(database=graph_database(embedded_settings)) as session:
        session.run("MATCH (n) WHERE NOT n:SchemaMigration DETACH DELETE n").consume()
    with new_database(postgresql, replace(embedded_settings, rate_limit=None)) as settings:
        _fill(settings, tmp_path_factory.mktemp("filled"))
        _protect(settings)
        yield settings


@pytest.fixture(scope="session")
def filled_app(filled: Settings) -> Iterator[Flask]:
    """The service on that record."""
    app = create_app(filled)
    yield app
    app.extensions[EXTENSION].close()


@pytest.fixture(scope="session")
def filled_client(filled_app: Flask) -> FlaskClient:
    """A client that shows the token of an operator."""
    with filled_app.extensions[EXTENSION].writing() as connection:
        _, secret = create_token(connection, "operator", [Scope.ADMIN], None)
    client = filled_app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {secret}"
    return client


def _protect(settings: Settings) -> None:
    """Make each later change of a row an error, except in :data:`_CHANGING`."""
    engine = relational_engine(settings)
    with engine.begin() as connection:
        connection.execute(text(_REFUSE))
        for table in sorted(Base.metadata.tables.keys() - _CHANGING):
            connection.execute(
                text(
                    f"CREATE TRIGGER only_read BEFORE INSERT OR UPDATE OR DELETE ON {table}"
                    " FOR EACH ROW EXECUTE FUNCTION refuse_change()"
                )
            )
    engine.dispose()


#: Ends the refusal for one transaction, for a test that puts everything back.
UNPROTECTED = text("SET LOCAL session_replication_role = replica")


def unprotected(settings: Settings) -> Settings:
    """Settings of the same record without the refusal, for a test that puts everything back."""
    url = make_url(settings.database_url or "")
    options = {"options": "-c session_replication_role=replica"}
    changed = url.update_query_dict(options).render_as_string(hide_password=False)
    return replace(settings, database_url=changed)


def got(client: FlaskClient, path: str, expected: int = 200, /, **query: Any) -> Any:
    """The JSON document of a response with the status that is expected."""
    response = client.get(path, query_string=query or None)
    assert response.status_code == expected, (path, query, response.text)
    return response.json


def every(client: FlaskClient, path: str, limit: int, **query: Any) -> Iterator[Any]:
    """All items of a list, by following its pages."""
    page = got(client, path, limit=limit, **query)
    yield from page["items"]
    while page["next"] is not None:
        assert len(page["items"]) == limit
        page = got(client, page["next"])
        yield from page["items"]


def _fill(settings: Settings, folder: Path) -> None:
    advisories = write_archive(folder / "all.zip", [*flask_sessions(), requests_headers()])
    project = folder / "project"
    project.mkdir()
    (project / "requirements.in").write_text("flask\n", encoding="utf-8")
    for command in (
        ("ingest", "inspections", str(SAMPLES / "inspections.tar.gz")),
        ("packages", "import", str(SAMPLES / "packages.jsonl.gz"), "--as-of", "2026-11-21"),
        ("advisories", "sync", str(advisories)),
        ("graph", "sync"),
        # On the machine of the samples, whatever machine this is.
        ("advise", str(project), "--python", "3.12", "--platform", "linux_x86_64",
         "--hardware", "fa9f8e70"),
    ):  # fmt: skip
        done = thoth(settings, *command)
        assert done.returncode == 0, (command, done.stderr)
