"""The list of changes in the record, on the command line, and over HTTP."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import delete, select

from adviser.answering.change_recording import record_changes
from cli.changes import changes
from cli.ingest import ingest
from graph.engine import Stores
from graph.record.changes import ChangeFilter, all_changes, browse_changes
from graph.tables import ChangeLookRow, ChangeRow
from model.packages.native_libraries import CONTEXT
from tests.factories.inspections import write_stack
from tests.services.commands import run_here
from tests.services.jobs import client_of
from tests.services.threads import in_threads

RATES = [200.0 * (1 + 0.002 * (-1) ** block) for block in range(10)]


@pytest.fixture(scope="module")
def measured(shared_stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Three releases of numpy in otherwise equal stacks; the second is a quarter faster."""
    stores, folder = shared_stores, tmp_path_factory.mktemp("inspections")
    for turn, (version, factor) in enumerate([("2.0.0", 1.0), ("2.1.0", 1.25), ("2.2.0", 1.25)]):
        rates = [
            factor * rate * (1 + 0.001 * (turn - 1) * (-1) ** n) for n, rate in enumerate(RATES)
        ]
        name = f"inspection-matmul-0000000{'abc'[turn]}"
        blas = [{"name": "OpenBLAS", "version": f"0.3.2{turn}", "source": "libopenblas.so"}]
        write_stack(
            folder, name, rates, {"numpy": version}, turn, bundled={f"numpy=={version}": blas}
        )
    done = run_here(ingest, stores.settings, "inspections", str(folder))
    assert done.exit_code == 0, done.stderr
    return stores


def forget(stores: Stores) -> None:
    with stores.engine.begin() as connection:
        connection.execute(delete(ChangeRow))
        connection.execute(delete(ChangeLookRow))


@pytest.fixture(scope="module")
def client(measured: Stores) -> Iterator[FlaskClient]:
    record_changes(measured.engine)
    with client_of(measured.settings) as client:
        yield client


def rows(stores: Stores) -> list[Any]:
    with stores.engine.connect() as connection:
        return [
            *connection.execute(select(*ChangeRow.__table__.columns).order_by(ChangeRow.number)),
            *connection.execute(
                select(*ChangeLookRow.__table__.columns).order_by(ChangeLookRow.change_id)
            ),
        ]


def test_performance_changes_are_recorded_once_by_concurrent_processes(measured: Stores) -> None:
    forget(measured)
    in_threads(*[lambda: record_changes(measured.engine)] * 4)
    before = rows(measured)
    assert len(before) == 3
    assert record_changes(measured.engine) == ()
    assert rows(measured) == before


def test_changes_are_filtered_by_each_parameter(measured: Stores) -> None:
    record_changes(measured.engine)
    now = datetime.now(UTC)
    with measured.engine.connect() as connection:
        (stored,) = all_changes(connection)
        versions = stored.from_version, stored.to_version
        assert (stored.package, *versions) == ("numpy", "2.0.0", "2.1.0")
        for wanted, count in (
            (ChangeFilter(package="numpy"), 1), (ChangeFilter(package="flask"), 0),
            (ChangeFilter(since=stored.recorded_at), 1), (ChangeFilter(since=now), 0),
            (ChangeFilter(kind="machine"), 0), (ChangeFilter(event="announced"), 1),
            (ChangeFilter(refers_to=stored.change_id), 1), (ChangeFilter(refers_to="sha256:0"), 0),
        ):  # fmt: skip
            assert len(browse_changes(connection, wanted, limit=10)) == count, wanted


def test_changes_command_records_and_lists_changes(measured: Stores) -> None:
    forget(measured)
    assert "--update" in run_here(changes, measured.settings).stdout
    done = run_here(changes, measured.settings, "--update", "--json")
    assert done.exit_code == 0, done.stderr
    (listed,) = json.loads(done.stdout)["changes"]
    assert listed["title"].startswith("numpy 2.0.0 → 2.1.0: 2")
    assert listed["bundled"] == "numpy 2.1.0 bundles OpenBLAS 0.3.21 instead of 0.3.20"
    text = run_here(changes, measured.settings, "--since", "7d", "--package", "NumPy")
    assert "announced: numpy 2.0.0 → 2.1.0" in (line := " ".join(text.stdout.split()))
    assert f"{listed['bundled']} ({CONTEXT})" in line


def test_api_lists_changes_and_returns_a_change_by_identifier(client: FlaskClient) -> None:
    page = client.get("/api/v2/changes", query_string={"package": "numpy"}).json
    assert page is not None
    (item,) = page["items"]
    assert page["next"] is None
    one = client.get(f"/api/v2/changes/{item['change_id']}").json
    assert one is not None
    assert {key: one[key] for key in item} == item
    assert client.get("/api/v2/changes/sha256:00").status_code == 404
    for since, status in (
        ("now", 400),
        ("0001-01-01T00:00:00+14:00", 400),
        # An offset that PostgreSQL does not accept.
        ("2026-01-01T00:00:00-20:40", 200),
    ):
        answer = client.get("/api/v2/changes", query_string={"since": since})
        assert answer.status_code == status, since


def test_pages_show_the_performance_changes_of_the_api(client: FlaskClient) -> None:
    page = client.get("/api/v2/changes").json
    assert page is not None
    for address in ("/", "/changes", f"/changes/{page['items'][0]['change_id']}"):
        content = client.get(address).text
        assert page["items"][0]["title"] in content
        assert f"{page['items'][0]['observed_pct']:+.1f} %" in content
