"""A record with the bundled samples, advisories and an advice in it, for tests that only read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import neo4j
import pytest
import sqlalchemy
from flask import Flask
from sqlalchemy import text

from api.app import create_app
from api.service import EXTENSION
from common.settings import Settings
from graph.engine import graph_database, relational_url
from tests.factories.advisories import flask_sessions, requests_headers, write_archive
from tests.services.commands import ROOT, thoth

SAMPLES = ROOT / "samples"
_TEMPLATE = "thoth_template"
_NAME = "thoth_filled"


@pytest.fixture(scope="session")
def filled(
    postgresql: sqlalchemy.Engine,
    embedded_settings: Settings,
    embedded_graph: neo4j.Driver,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Settings]:
    """Settings of a record that was filled by the commands that people use; nobody writes to it.

    The graph is emptied by whichever test comes next.
    """
    with embedded_graph.session(database=graph_database(embedded_settings)) as session:
        session.run("MATCH (n) WHERE NOT n:SchemaMigration DETACH DELETE n").consume()
    with postgresql.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {_NAME} TEMPLATE {_TEMPLATE}"))
    url = relational_url(embedded_settings).set(database=_NAME, drivername="postgresql")
    settings = replace(
        embedded_settings,
        database_url=url.render_as_string(hide_password=False),
        rate_limit=None,
    )
    try:
        _fill(settings, tmp_path_factory.mktemp("filled"))
        yield settings
    finally:
        with postgresql.connect() as connection:
            connection.execute(text(f"DROP DATABASE {_NAME} WITH (FORCE)"))


@pytest.fixture(scope="session")
def filled_app(filled: Settings) -> Iterator[Flask]:
    """The service on that record."""
    app = create_app(filled)
    yield app
    app.extensions[EXTENSION].close()


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
        ("advise", str(project), "--python", "3.12", "--platform", "linux_x86_64"),
    ):
        done = thoth(settings, *command)
        assert done.returncode == 0, (command, done.stderr)
