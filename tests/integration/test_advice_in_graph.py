"""``thoth advise`` leaves its answer in the graph: what it recommends, and what that rests on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from graph.engine import Stores
from graph.projection import lag
from graph.projection.outbox import only_projector
from graph.record.releases import ReleaseDelivery, add_releases
from graph.tables import HardwareRow, ObservationRow
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from tests.factories.inspections import (
    inspection_files,
    specification_document,
    stack_jobs,
    write,
)
from tests.factories.releases import release
from tests.services.commands import thoth, thoth_json
from tests.services.projection import answer, project, verified

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHERE = ("--python", "3.11", "--platform", "manylinux_2_28_x86_64")
SLOW = [200.0 * 0.96**block for block in range(10)]
FAST = [1.06 * rate * (1 + 0.002 * (-1) ** block) for block, rate in enumerate(SLOW)]
RECOMMENDED = """
MATCH (:Advice {advice_id: $key})-[r:RECOMMENDED]->(s:Stack)-[:INCLUDES]->(v:PackageVersion)
RETURN r.rank, v.name + ' ' + v.version, EXISTS { (s)<-[:INSPECTED]-(:Inspection) }
ORDER BY r.rank, v.name
"""
BASED_ON = """
MATCH (:Advice {advice_id: $key})-[:BASED_ON]->(o:Observation) RETURN o.observation_id
"""


@pytest.fixture
def measured(stores: Stores, tmp_path: Path) -> Stores:
    """The older of two releases is the faster one, as twenty jobs in turns have shown."""
    for turn, (version, rates) in enumerate((("2.0.0", FAST), ("2.1.0", SLOW))):
        name = f"inspection-matmul-0000000{turn}"
        files = inspection_files(
            stack_jobs(rates, name, turn), specification_document({"numpy": version})
        )
        write(tmp_path / "inspections" / name, files)
    other = inspection_files(
        stack_jobs(SLOW, "inspection-matmul-00000002", 2), specification_document({"jax": "0.4.0"})
    )
    write(tmp_path / "inspections" / "inspection-matmul-00000002", other)
    ingest_inspections(
        stores.settings, stores.engine, [str(tmp_path / "inspections")], SourceLimits()
    )
    with stores.engine.begin() as connection:
        releases = [release("numpy", version) for version in ("2.0.0", "2.1.0")]
        deliveries = [ReleaseDelivery(it, "test", NOW) for it in releases]
        add_releases(connection, stores.settings, deliveries)
    project(stores)
    return stores


@pytest.fixture
def asked(tmp_path: Path) -> str:
    """A folder that asks for what was measured."""
    (tmp_path / "requirements.in").write_text("numpy\n", encoding="utf-8")
    return str(tmp_path)


def test_an_advice_is_in_the_graph_with_what_it_rests_on(measured: Stores, asked: str) -> None:
    with measured.engine.connect() as connection:
        hardware = str(connection.scalars(select(HardwareRow.digest)).one())
        seen = set(connection.scalars(select(ObservationRow.observation_id)))
    report = thoth_json(
        measured.settings, "advise", asked, *WHERE, "--type", "performance", "--count", "2",
        "--hardware", hardware,
    )  # fmt: skip
    key = report["metadata"]["document_id"]
    assert lag(measured.engine).count == 0
    assert verified(measured).equal
    found = answer(measured, RECOMMENDED, key=key)
    assert found == [[1, "numpy 2.0.0", True], [2, "numpy 2.1.0", True]]
    evidence = {one for (one,) in answer(measured, BASED_ON, key=key)}
    assert len(evidence) == 20 < len(seen)
    claims = report["result"]["report"]["products"][0]["claims"]
    assert evidence == {one for claim in claims for one in claim["evidence"]}


def test_an_advice_that_found_nothing_recommends_nothing(
    measured: Stores, asked: str, tmp_path: Path
) -> None:
    (tmp_path / "requirements.in").write_text("numpy>=3\n", encoding="utf-8")
    assert thoth(measured.settings, "advise", asked, *WHERE).returncode == 1
    found = answer(measured, "MATCH (a:Advice) RETURN a.status, COUNT { (a)-[:RECOMMENDED]->() }")
    assert found == [["infeasible", 0]]
    assert verified(measured).equal


def test_an_advice_waits_for_no_projector_and_comes_with_the_next(
    measured: Stores, asked: str
) -> None:
    with only_projector(measured.engine, 1.0):
        assert thoth(measured.settings, "advise", asked, *WHERE).returncode == 0
    assert lag(measured.engine).count > 0
    assert answer(measured, "MATCH (a:Advice) RETURN count(a)") == [[0]]
    project(measured)
    assert answer(measured, "MATCH (a:Advice) RETURN count(a)") == [[1]]
    assert verified(measured).equal
