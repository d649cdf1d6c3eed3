"""Drivers' errors become errors with a remedy; passwords appear nowhere."""

from pathlib import Path

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


def test_embedded_store_never_started_says_how_to_start_it(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    for ask in (relational_url, graph_url, graph_driver):
        with pytest.raises(StoreUnavailable) as caught:
            ask(settings)
        assert caught.value.hint == "run `thoth up`"


def test_any_postgresql_url_selects_psycopg2() -> None:
    url = relational_url(external(DATABASE_URL="postgresql://u:pw@db.example:5432/name"))
    assert url.drivername == "postgresql+psycopg2"
    assert "pw" not in url.render_as_string()


@pytest.mark.parametrize("url", ["postgresql://u:hidden@host:port/db", "postgresql://u:hidden@["])
def test_an_unreadable_database_url_is_not_repeated(url: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        relational_engine(external(DATABASE_URL=url))
    assert "hidden" not in str(caught.value)


def test_an_operational_error_names_store_and_remedy() -> None:
    settings = external(DATABASE_URL="postgresql://u:pw@h/db")
    error = sqlalchemy.exc.OperationalError("SELECT 1", {}, psycopg2.OperationalError("gone\nx"))
    with pytest.raises(StoreUnavailable) as caught, relational_errors(settings):
        raise error
    assert str(caught.value) == "PostgreSQL is unavailable: gone"
    assert "DATABASE_URL" in (caught.value.hint or "")


def test_remedy_for_an_embedded_store_is_thoth_up(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    with pytest.raises(StoreUnavailable) as caught, graph_errors(settings):
        raise neo4j.exceptions.ServiceUnavailable("refused")
    assert "thoth up" in (caught.value.hint or "")


def test_driver_message_is_shortened_to_its_first_line_without_colon() -> None:
    with pytest.raises(StoreUnavailable) as caught, graph_errors():
        raise neo4j.exceptions.ServiceUnavailable("Couldn't connect to h:1 (h):\nFailed to …")
    assert str(caught.value) == "the graph is unavailable: Couldn't connect to h:1 (h)"


class Usage:
    """Stands for what the system says of a disk that is almost full."""

    free = 5 * 2**20


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _folder: Usage())


@pytest.mark.usefixtures("full_disk")
def test_an_embedded_store_on_a_full_disk_names_the_disk(tmp_path: Path) -> None:
    settings = Settings.from_env({"THOTH_HOME": str(tmp_path)})
    remedy = "free space on the disk, then run the command again"
    with pytest.raises(StoreUnavailable) as caught, relational_errors(settings):
        raise psycopg2.OperationalError("server closed the connection unexpectedly")
    assert caught.value.hint == remedy
    with pytest.raises(StoreUnavailable) as caught, graph_errors(settings):
        raise neo4j.exceptions.DatabaseError("Error executing Cypher command")
    assert caught.value.hint == remedy


def test_table_that_cannot_grow_is_reported_as_a_full_disk() -> None:
    cause = 'could not extend file "base/1": wrote only 4096 of 8192 bytes at block 0'
    with pytest.raises(StoreUnavailable) as caught, relational_errors():
        raise psycopg2.errors.DiskFull(cause)
    assert caught.value.hint == "free space on the disk, then run the command again"


def test_query_bug_is_not_hidden() -> None:
    bug = sqlalchemy.exc.ProgrammingError("SELEC", {}, psycopg2.ProgrammingError("syntax"))
    with pytest.raises(sqlalchemy.exc.ProgrammingError), relational_errors():
        raise bug
    with pytest.raises(neo4j.exceptions.CypherSyntaxError), graph_errors():
        raise neo4j.exceptions.CypherSyntaxError("Neo.ClientError.Statement.SyntaxError")
