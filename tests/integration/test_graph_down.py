"""A store that does not answer: the graph never holds up ingest, the record's loss is told."""

import random
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import neo4j
import pytest

from common.settings import Settings
from graph.engine import GRAPH, Stores, graph_errors
from graph.hung_stores import watchdog
from graph.migrate import migrated_stores
from graph.projection import lag
from model.errors import StoreUnavailable
from tests.factories.documents import GENERATIONS, directory_files
from tests.services.commands import row_counts, thoth, thoth_json
from tests.services.ports import closed_port, silent_port
from tests.services.projection import verified

pytestmark = pytest.mark.faults


@pytest.fixture(params=["closed", "silent"])
def dead_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port where nobody listens, and one where nobody answers."""
    if request.param == "closed":
        yield closed_port()
        return
    with silent_port() as port:
        yield port


def without_graph(stores: Stores, port: int) -> Settings:
    return replace(
        stores.settings,
        graph_url=f"bolt://127.0.0.1:{port}",
        graph_password="unheard",
        connect_timeout_s=1.0,
    )


def test_ingest_works_without_the_graph_and_updates_it_later(
    stores: Stores, dead_port: int
) -> None:
    blind = without_graph(stores, dead_port)
    done = thoth(blind, "ingest", "inspections", str(GENERATIONS))
    assert done.returncode == 0, done.stderr
    assert "20 read: 20 new" in done.stdout
    behind = lag(stores.engine).count
    assert behind > 20
    assert "the graph is unavailable" in done.stderr
    assert f"{behind} entries wait; `thoth graph sync`" in done.stderr
    assert "Traceback" not in done.stderr
    assert not verified(stores).equal
    assert thoth_json(blind, "graph", "lag")["count"] == behind
    again = thoth_json(blind, "ingest", "inspections", str(GENERATIONS))
    assert (again["inspection"]["new"], again["graph"]["lag"]) == (0, behind)
    assert again["graph"]["error"].startswith("the graph is unavailable")
    assert "unheard" not in str(again)
    seen = thoth_json(stores.settings, "ingest", "inspections", str(GENERATIONS))
    assert (seen["inspection"]["new"], seen["graph"]["lag"]) == (0, 0)
    assert verified(stores).equal


@pytest.mark.parametrize("arguments", [("graph", "sync"), ("cypher", "RETURN 1")])
def test_graph_commands_without_the_graph_exit_with_one_error(
    stores: Stores, dead_port: int, arguments: tuple[str, ...]
) -> None:
    done = thoth(without_graph(stores, dead_port), *arguments)
    assert_one_error(done.returncode, done.stderr, "the graph", "GRAPH_URL")


def test_ingest_without_the_record_exits_with_one_error(settings: Settings, dead_port: int) -> None:
    url = f"postgresql://thoth:unheard@127.0.0.1:{dead_port}/thoth"
    lost = replace(settings, database_url=url, connect_timeout_s=2.0)
    for arguments in (("ingest", "inspections", str(GENERATIONS)), ("stacks",)):
        done = thoth(lost, *arguments)
        assert_one_error(done.returncode, done.stderr, "PostgreSQL", "DATABASE_URL")


def test_ingest_with_an_unwritable_document_store_writes_no_row(
    stores: Stores, tmp_path: Path
) -> None:
    (tmp_path / "store").write_text("a file, where a folder is needed")
    settings = replace(stores.settings, document_store_url=(tmp_path / "store").as_uri())
    log = random.Random(2).randbytes(600_000).hex().encode()
    for name, data in directory_files(log=log).items():
        path = tmp_path / "inspection-large" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    done = thoth(settings, "ingest", "inspections", str(tmp_path / "inspection-large"))
    assert_one_error(done.returncode, done.stderr, "the document store", "DOCUMENT_STORE_URL")
    assert {name: it for name, it in row_counts(stores.engine).items() if it} == {
        "document_store": 1, "graph_checkpoints": 1, "knowledge": 1, "record_checks": 1
    }  # fmt: skip


def assert_one_error(code: int, stderr: str, store: str, variable: str) -> None:
    """The store's name and the remedy, and no traceback or password."""
    assert code == 3, stderr
    error, hint = stderr.strip().splitlines()
    assert error.startswith(f"error: {store} is unavailable: ")
    assert hint.startswith("hint: ")
    assert variable in hint
    assert "unheard" not in stderr


def test_command_that_needs_no_graph_does_not_connect_to_it(stores: Stores) -> None:
    blind = without_graph(stores, closed_port())
    with migrated_stores(blind, graph_on_use=True) as opened:
        assert opened.opened_driver is None
        assert lag(opened.engine).count >= 0
        with pytest.raises(StoreUnavailable, match="the graph"):
            _ = opened.driver
    with migrated_stores(stores.settings, graph_on_use=True) as opened:
        assert opened.driver is opened.driver


def test_timeout_while_decoding_a_graph_value_is_reported(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_arguments: Any, **_more: Any) -> None:
        signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(neo4j.graph.Node, "__init__", late)
    with (
        pytest.raises(StoreUnavailable, match="no answer"),
        watchdog(GRAPH, 3600),
        graph_errors(stores.settings),
        stores.driver.session(database=stores.database) as session,
    ):
        session.run("MATCH (n:SchemaMigration) RETURN n LIMIT 1").data()
