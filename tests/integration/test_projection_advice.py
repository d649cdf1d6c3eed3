"""Advice in the record and in each graph product: its stacks, its evidence, nothing twice."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from graph.engine import Stores
from graph.projection import lag, rebuild, sync_few
from graph.projection.outbox import only_projector
from graph.record.advice import add_advice, advice_of
from graph.record.retention import forget_analyses
from graph.tables import (
    AdviceObservation,
    AdviceRow,
    AnalysisRow,
    Document,
    ObservationRow,
    OutboxEntry,
)
from ingest.inspections.pipeline import ingest_inspections
from ingest.sources.source_items import SourceLimits
from model.advice import AdviceLinks, AdviceRequestSummary, RecommendedStack
from model.measurements.inspection import Stack
from model.packages.identity import package_version
from tests.factories.inspections import write_stack
from tests.factories.stored_advice import advice_id, recorded_claim, stored_advice
from tests.services.projection import answer, project, verified

NAME = "inspection-matmul-0000000a"
MEASURED = Stack.of((package_version("numpy", "2.0.0"),))
NEW = Stack.of((package_version("numpy", "2.0.0"), package_version("unheard-of", "7.0")))
HARM = "CVE-2024-0"


@pytest.fixture
def stores(stores_on_each_product: Stores, tmp_path: Path) -> Stores:
    """An inspection of ``MEASURED`` in a test's own record and in each graph product."""
    write_stack(tmp_path, NAME, [200.0, 201.0, 202.0, 203.0], {"numpy": "2.0.0"})
    stores = stores_on_each_product
    ingest_inspections(stores.settings, stores.engine, [str(tmp_path)], SourceLimits())
    project(stores)
    return stores


def observations(stores: Stores) -> list[str]:
    with stores.engine.connect() as connection:
        return sorted(connection.scalars(select(ObservationRow.observation_id)))


def add(stores: Stores, number: int, links: AdviceLinks, status: str = "optimal") -> bool:
    with stores.engine.begin() as connection:
        return add_advice(connection, stores.settings, stored_advice(number, status), links)


def test_advised_stack_that_was_measured_is_a_single_node(stores: Stores) -> None:
    named = observations(stores)[:3]
    stacks = (RecommendedStack(NEW, 1.5), RecommendedStack(MEASURED, -0.25))
    assert add(stores, 7, AdviceLinks(stacks, [*named, HARM]))
    assert lag(stores.engine).count >= 2
    project(stores)
    report = verified(stores)
    assert [kind.differences for kind in report.kinds if not kind.equal] == []
    assert answer(
        stores,
        "MATCH (:Advice {advice_id: $key})-[r:RECOMMENDED]->(s:Stack)"
        " RETURN r.rank, r.score, s.digest, EXISTS { (s)<-[:INSPECTED]-(:Inspection) }"
        " ORDER BY r.rank",
        key=advice_id(7),
    ) == [[1, 1.5, NEW.digest, False], [2, -0.25, MEASURED.digest, True]]
    evidence = "MATCH (:Advice {advice_id: $key})-[:BASED_ON]->(o:Observation)"
    found = answer(stores, f"{evidence} RETURN o.observation_id", key=advice_id(7))
    assert sorted(one for (one,) in found) == named
    ((node, made),) = answer(
        stores,
        "MATCH (a:Advice {advice_id: $key}) RETURN properties(a), a.created_at",
        key=advice_id(7),
    )
    head = stored_advice(7).head
    assert (node["python_version"], node["platform"]) == (head.python_version, head.platform)
    assert (node["status"], node["recommendation_type"]) == ("optimal", "latest")
    assert (made.to_native().astimezone(UTC)) == head.created_at
    with stores.engine.connect() as connection:
        report_document = connection.scalar(
            select(AdviceRow.report_document_id).where(AdviceRow.advice_id == advice_id(7))
        )
        assert advice_of(connection, stores.settings, advice_id(7)) == stored_advice(7)
    assert node["document_id"] == report_document
    included = "MATCH (:Stack {digest: $key})-[:INCLUDES]->(v) RETURN v.purl ORDER BY v.purl"
    assert answer(stores, included, key=NEW.digest) == [[it.purl] for it in NEW.packages]


def test_advice_without_a_stack_recommends_no_stack_in_the_graph(stores: Stores) -> None:
    assert add(stores, 8, AdviceLinks(), status="infeasible")
    project(stores)
    assert verified(stores).equal
    found = answer(
        stores,
        "MATCH (a:Advice {advice_id: $key}) RETURN a.status, COUNT { (a)-->() }",
        key=advice_id(8),
    )
    assert found == [["infeasible", 0]]


def test_repeated_projection_of_advice_does_not_change_the_graph(stores: Stores) -> None:
    links = AdviceLinks((RecommendedStack(NEW, 1.0),), observations(stores)[:2])
    assert add(stores, 9, links)
    project(stores)
    once = verified(stores)
    assert once.equal
    assert not add(stores, 9, AdviceLinks((RecommendedStack(MEASURED, 2.0),), observations(stores)))
    assert lag(stores.engine).count == 0
    with stores.engine.begin() as connection:
        entries = [{"kind": "advice", "key": advice_id(9)}, {"kind": "stack", "key": NEW.digest}]
        connection.execute(insert(OutboxEntry), entries)
    project(stores)
    assert verified(stores).kinds == once.kinds
    rebuild(stores.engine, stores.driver, database=stores.database)
    assert verified(stores).kinds == once.kinds


def test_projecting_advice_restores_its_lost_stacks_and_observations(stores: Stores) -> None:
    links = AdviceLinks((RecommendedStack(MEASURED, 1.0),), observations(stores))
    assert add(stores, 10, links)
    answer(stores, "MATCH (n) WHERE n:Stack OR n:Inspection OR n:Observation DETACH DELETE n")
    project(stores)
    ((stacks, seen),) = answer(
        stores,
        "MATCH (a:Advice {advice_id: $key})"
        " RETURN COUNT { (a)-[:RECOMMENDED]->(:Stack) }, COUNT { (a)-[:BASED_ON]->(:Observation) }",
        key=advice_id(10),
    )
    assert (stacks, seen) == (1, len(links.evidence))


OLDER = Stack.of((package_version("numpy", "1.9.0"),))
CLAIM = recorded_claim(NEW.digest, OLDER.digest, package=None, interval_low_pct=None)
ASKED_FOR = AdviceRequestSummary(
    ["numpy>=1.9", "unheard-of"], ["numpy", "unheard-of"], "sha256:here", 2
)
CLAIMED = AdviceLinks(
    (RecommendedStack(NEW, 1.0), RecommendedStack(OLDER, 0.5)), claims=(CLAIM,), request=ASKED_FOR
)


def test_claim_node_is_linked_to_its_stacks_and_differing_packages(stores: Stores) -> None:
    assert add(stores, 20, CLAIMED)
    project(stores)
    assert verified(stores).equal
    ((node,),) = answer(
        stores, "MATCH (:Advice {advice_id: $key})-[:CLAIMS]->(c) RETURN properties(c)",
        key=advice_id(20),
    )  # fmt: skip
    assert (node["claim_id"], node["verdict"], node["jobs"]) == (CLAIM.claim_id, "slower", 5)
    assert node["parameters"] == '{"matrix_size":512}'
    assert not {"package", "interval_low_pct", "needs"} & node.keys()
    ((candidate, baseline),) = answer(
        stores,
        "MATCH (s:Stack)<-[:CANDIDATE]-(c:Claim)-[:BASELINE]->(b:Stack) RETURN s.digest, b.digest",
    )
    assert (candidate, baseline) == (NEW.digest, OLDER.digest)
    found = answer(
        stores,
        "MATCH (:Claim)-[d:DIFFERS_IN]->(p:Package) RETURN p.name, d.version, d.index,"
        " d.baseline_version, d.baseline_index, d.version_key > d.baseline_version_key"
        " ORDER BY p.name",
    )
    assert found == [
        ["numpy", "2.0.0", "pypi", "1.9.0", "pypi", True],
        ["unheard-of", "7.0", "pypi", None, None, None],
    ]
    ((request, kind),) = answer(
        stores,
        "MATCH (:Advice {advice_id: $key})-[:ANSWERS]->(r) RETURN properties(r), labels(r)[0]",
        key=advice_id(20),
    )
    assert (kind, request["packages"]) == ("Request", ["numpy", "unheard-of"])
    assert request["requirements"] == ["numpy>=1.9", "unheard-of"]
    assert (request["hardware"], request["stack_count"]) == ("sha256:here", 2)
    assert (request["python_version"], request["recommendation_type"]) == ("3.11", "latest")


def test_claim_node_is_deleted_with_its_last_advice(stores: Stores) -> None:
    for number in (21, 22):
        assert add(stores, number, CLAIMED)
    project(stores)
    query = "MATCH (c:Claim) RETURN COUNT { (c)<-[:CLAIMS]-() } AS makers"
    assert answer(stores, query) == [[2]]
    forget(stores, 21)
    assert verified(stores).equal
    assert answer(stores, query) == [[1]]
    assert answer(stores, "MATCH (r:Request) RETURN count(r)") == [[1]]
    forget(stores, 22)
    assert verified(stores).equal
    assert answer(stores, "MATCH (n) WHERE n:Claim OR n:Request RETURN count(n)") == [[0]]
    with stores.engine.connect() as connection:
        kinds = select(func.count()).where(Document.kind == "report")
        # The stacks say by which report they were named first.
        assert connection.scalar(kinds) == 1


def forget(stores: Stores, number: int) -> None:
    """As if the advice had been asked for over HTTP, long ago."""
    with stores.engine.begin() as connection:
        request = select(AdviceRow.request_document_id).where(
            AdviceRow.advice_id == advice_id(number)
        )
        row = {
            "analysis_id": advice_id(number), "kind": "adviser", "state": "succeeded",
            "parameters": {}, "request_document_id": connection.scalar(request), "cache_key": "",
            "finished_at": datetime(2020, 1, 1, tzinfo=UTC),
        }  # fmt: skip
        connection.execute(insert(AnalysisRow), row)
        assert forget_analyses(connection, timedelta(days=1), 10) == 1
    project(stores)


def test_changed_claim_node_is_found_and_repaired(stores: Stores) -> None:
    assert add(stores, 23, CLAIMED)
    project(stores)
    answer(stores, "MATCH (c:Claim)-[d:DIFFERS_IN]->(:Package {name: 'numpy'}) SET d.version = '9'")
    answer(stores, "MATCH (c:Claim) SET c.verdict = 'faster' REMOVE c.jobs")
    answer(stores, "MATCH (r:Request) SET r.packages = ['other']")
    found = {kind.kind: kind.differences for kind in verified(stores).kinds if not kind.equal}
    assert {kind: [it.properties for it in them] for kind, them in found.items()} == {
        "Claim": [("jobs", "verdict")],
        "Request": [("packages",)],
        "(:Claim)-[:DIFFERS_IN]->(:Package)": [("version",)],
    }
    rebuild(stores.engine, stores.driver, database=stores.database)
    assert verified(stores).equal


def test_quick_projection_handles_few_entries_and_leaves_many(stores: Stores) -> None:
    assert add(stores, 12, AdviceLinks((RecommendedStack(MEASURED, 1.0),)))
    assert not sync_few(stores.engine, stores.driver, most=0, database=stores.database)
    assert lag(stores.engine).count == 1
    assert sync_few(stores.engine, stores.driver, database=stores.database)
    assert lag(stores.engine).count == 0
    assert verified(stores).equal


def test_quick_projection_does_not_wait_for_another_projection(stores: Stores) -> None:
    assert add(stores, 13, AdviceLinks())
    with only_projector(stores.engine, 1.0):
        assert not sync_few(stores.engine, stores.driver, database=stores.database)
    assert lag(stores.engine).count == 1
    assert sync_few(stores.engine, stores.driver, database=stores.database)
    with stores.engine.connect() as connection:
        assert not connection.scalar(select(func.count()).select_from(AdviceObservation).where(
            AdviceObservation.advice_id == advice_id(13)
        ))  # fmt: skip
