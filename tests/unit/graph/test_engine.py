"""Drivers' errors become errors with a remedy; passwords appear nowhere."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import neo4j.exceptions
import psycopg2.errors
import pytest
import sqlalchemy.exc

from common.settings import Settings
from graph.engine import (
    graph_driver,
    graph_errors,
    graph_url,
    relational_engine,
    relational_errors,
    relational_url,
)
from model.errors import InvalidSettings, StoreUnavailable


def external(**environ: str) -> Settings:
    return Settings.from_env({"THOTH_HOME": "/nonexistent", **environ})


def test_error_of_a_never_started_store_says_how_to_start_it(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    for ask in (relational_url, graph_url, graph_driver):
        with pytest.raises(StoreUnavailable) as caught:
            ask(settings)
        assert caught.value.hint == "run `thoth up`"


def test_postgresql_url_is_accepted_without_a_driver_name() -> None:
    url = relational_url(external(DATABASE_URL="postgresql://u:pw@db.example:5432/name"))
    assert url.drivername == "postgresql+psycopg2"
    assert "pw" not in url.render_as_string()


@pytest.mark.parametrize("url", ["postgresql://u:hidden@host:port/db", "postgresql://u:hidden@["])
def test_error_about_an_invalid_database_url_does_not_repeat_it(url: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        relational_engine(external(DATABASE_URL=url))
    assert "hidden" not in str(caught.value)


FREE = "free space on the disk, then run the command again"
LOST = psycopg2.OperationalError("server closed the connection unexpectedly")
REFUSED = neo4j.exceptions.ServiceUnavailable("Couldn't connect to h:1 (h):\nFailed to …")
NO_BLOCK = psycopg2.errors.DiskFull('could not extend file "base/1": wrote only 4096 bytes')


@pytest.mark.parametrize(
    ("errors", "error", "free_mb", "cause", "remedy"),
    [
        (
            relational_errors, sqlalchemy.exc.OperationalError("SELECT 1", {}, LOST), 900,
            "PostgreSQL is unavailable: server closed", "run `thoth up`",
        ),
        (relational_errors, LOST, 5, "PostgreSQL is unavailable", FREE),
        (relational_errors, NO_BLOCK, 900, "PostgreSQL is unavailable", FREE),
        (
            graph_errors, REFUSED, 900, "the graph is unavailable: Couldn't connect to h:1 (h)",
            "run `thoth up`",
        ),
        (graph_errors, neo4j.exceptions.DatabaseError("Error executing"), 5, "the graph", FREE),
    ],
)  # fmt: skip
def test_database_driver_error_is_reported_with_store_and_remedy(
    errors: Any, error: Exception, free_mb: int, cause: str, remedy: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free_mb * 2**20))
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    with pytest.raises(StoreUnavailable) as caught, errors(settings):
        raise error
    assert str(caught.value).startswith(cause)
    assert not str(caught.value).endswith(":")
    assert (caught.value.hint or "").startswith(remedy)


def test_error_of_an_external_store_names_its_setting() -> None:
    settings = external(DATABASE_URL="postgresql://u:pw@h/db")
    with pytest.raises(StoreUnavailable) as caught, relational_errors(settings):
        raise LOST
    assert "DATABASE_URL" in (caught.value.hint or "")


def test_query_syntax_error_is_not_reported_as_an_unavailable_store() -> None:
    bug = sqlalchemy.exc.ProgrammingError("SELEC", {}, psycopg2.ProgrammingError("syntax"))
    with pytest.raises(sqlalchemy.exc.ProgrammingError), relational_errors():
        raise bug
    with pytest.raises(neo4j.exceptions.CypherSyntaxError), graph_errors():
        raise neo4j.exceptions.CypherSyntaxError("Neo.ClientError.Statement.SyntaxError")
