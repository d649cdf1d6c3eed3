"""What workers keep, and for how long: what they have read, old requests, the stores' processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, text

from adviser.answering.knowledge import GraphSource
from api.jobs import upkeep as upkeep_module
from api.jobs.request_run import WorkerContext
from api.jobs.upkeep import prune
from graph.engine import Stores
from graph.record.access import Scope
from graph.record.events import EventKind, plan_notices, record_event
from graph.record.freshness import changes
from graph.record.inspections import add_inspections
from ingest.inspections.pipeline import read_inspections
from ingest.sources.source_items import SourceLimits
from model.packages.environments import environment
from tests.factories.inspections import write_stack
from tests.factories.releases import release
from tests.services.commands import row_counts, thoth, thoth_json
from tests.services.jobs import ASKED, INDEXES, client_of, execute, run_jobs, upkeep
from tests.services.projection import answer, deliver, project, verified

LINUX = environment("3.11", "manylinux_2_28_x86_64")


@pytest.fixture
def known(stores: Stores) -> Stores:
    """A record with two packages, and no index that answers."""
    name, _, url = INDEXES.partition("=")
    settings = replace(stores.settings, package_indexes=((name, url),), rate_limit=None)
    made = replace(stores, settings=settings)
    deliver(made, [release("web", "1.0"), release("numpy", "2.0.0")])
    return made


@pytest.fixture
def shop(known: Stores) -> Iterator[WorkerContext]:
    """What a worker keeps warm."""
    made = WorkerContext(known.settings)
    yield made
    made.close()


def test_rows_of_a_long_transaction_are_seen_after_it_commits(
    known: Stores, shop: WorkerContext, tmp_path: Path
) -> None:
    name = "inspection-matmul-0000000a"
    write_stack(tmp_path, name, [200.0] * 10, {"numpy": "2.0.0"})
    (batch,) = read_inspections([str(tmp_path)], SourceLimits())
    with known.engine.connect() as long:
        add_inspections(long, known.settings, batch.deliveries)
        deliver(known, [release("other", "1.0")])
        _, before = shop.graph.read(known, ["numpy"], LINUX)
        assert shop.graph.read(known, ["numpy"], LINUX)[1] is before
        long.commit()
    _, after = shop.graph.read(known, ["numpy"], LINUX)
    assert (len(before.readings), len(after.readings)) == (0, 10)


def test_transaction_counts_as_one_change_when_it_commits(known: Stores) -> None:
    with known.engine.connect() as reader:
        start = changes(reader)
        with known.engine.connect() as writer:
            for number in range(3):
                writer.execute(text(DOCUMENT.format(number=number, kind="release")))
            reader.rollback()
            assert changes(reader) == start
            writer.commit()
            reader.rollback()
            assert changes(reader) == start + 1
            writer.execute(text(DOCUMENT.format(number=3, kind="report")))
            writer.commit()
        reader.rollback()
        assert changes(reader) == start + 1


DOCUMENT = (
    "INSERT INTO documents (document_id, kind, schema_version, source, size_bytes, body)"
    " VALUES ('sha256:{number}', '{kind}', 'test', 'test', 0, '')"
)


def test_snapshot_cache_keeps_the_last_value_beyond_its_limit(
    known: Stores, shop: WorkerContext
) -> None:
    first = shop.graph.read(known, ["web"], LINUX)
    shop.graph.read(known, ["numpy"], LINUX)
    assert shop.graph.read(known, ["web"], LINUX)[0] is first[0]
    little = GraphSource(limit=1)
    first, last = (little.read(known, [it], LINUX) for it in ("web", "numpy"))
    assert little.read(known, ["numpy"], LINUX)[0] is last[0]
    assert little.read(known, ["web"], LINUX)[0] is not first[0]


@pytest.fixture
def client(known: Stores) -> Iterator[FlaskClient]:
    """Who may ask for advice."""
    with client_of(known.settings, Scope.ADVISE) as made:
        yield made


def aged(engine: Engine, days: int) -> None:
    """Have all requests and writes be older."""
    for table, column in (("analyses", "finished_at"), ("audit_log", "at")):
        moved = f"UPDATE {table} SET {column} = {column} - interval '{days} days'"
        execute(engine, moved)


def test_pruning_deletes_old_requests_with_their_advice_and_keeps_those_of_commands(
    client: FlaskClient, known: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "BATCH", 1)
    (tmp_path / "requirements.in").write_text("web\n", encoding="utf-8")
    where = ("--python", "3.11", "--platform", "linux_x86_64")
    made = thoth_json(known.settings, "advise", str(tmp_path), *where)
    recorded = made["metadata"]["document_id"]
    old = [client.post("/api/v2/advice?force=true", json=ASKED) for _ in range(2)]
    run_jobs(known.settings)
    asked = [it.get_json()["analysis_id"] for it in old]
    client.post(f"/api/v2/advice/{asked[0]}/replay")
    run_jobs(known.settings)
    project(known)
    everything = row_counts(known.engine)
    assert (everything["analyses"], everything["advice"]) == (3, 3)

    aged(known.engine, 89)
    upkeep(known.settings, prune)
    assert row_counts(known.engine) == everything
    new = client.post("/api/v2/advice?force=true", json=ASKED)
    aged(known.engine, 2)
    upkeep(replace(known.settings, keep_requests_days=None), prune)
    assert row_counts(known.engine)["analyses"] == 4

    upkeep(known.settings, prune)
    left = row_counts(known.engine)
    assert (left["analyses"], left["advice"]) == (1, 1)
    assert left["documents"] < everything["documents"]
    assert client.get(old[0].headers["Location"]).status_code == 404
    assert client.get(f"/api/v2/advice/{asked[0]}").status_code == 404
    run_jobs(known.settings)
    assert client.get(new.headers["Location"]).get_json()["state"] == "succeeded"
    project(known)
    shown = {key for (key,) in answer(known, "MATCH (a:Advice) RETURN a.advice_id")}
    assert shown == {recorded, new.get_json()["analysis_id"]}
    assert verified(known).equal
    again = thoth(known.settings, "replay", recorded)
    assert again.returncode == 0, again.stderr


def test_stack_keeps_the_first_report_that_advised_it(client: FlaskClient, known: Stores) -> None:
    sent = client.post("/api/v2/advice", json=ASKED)
    run_jobs(known.settings)
    aged(known.engine, 91)
    upkeep(known.settings, prune)
    assert row_counts(known.engine)["advice"] == 0
    query = text("SELECT kind, source FROM documents JOIN stacks USING (document_id)")
    with known.engine.connect() as connection:
        named = [tuple(row) for row in connection.execute(query)]
    assert named == [("report", sent.get_json()["analysis_id"])]
    again = client.post("/api/v2/advice", json=ASKED)
    run_jobs(known.settings)
    done = client.get(again.headers["Location"]).get_json()
    assert (done["state"], again.get_json()["cached"]) == ("succeeded", False)


def test_audit_log_is_pruned_after_the_configured_days(client: FlaskClient, known: Stores) -> None:
    client.post("/api/v2/advice", json=ASKED)
    assert row_counts(known.engine)["audit_log"] == 1
    aged(known.engine, 364)
    upkeep(known.settings, prune)
    assert row_counts(known.engine)["audit_log"] == 1
    aged(known.engine, 2)
    upkeep(replace(known.settings, keep_audit_days=None), prune)
    assert row_counts(known.engine)["audit_log"] == 1
    upkeep(known.settings, prune)
    assert row_counts(known.engine)["audit_log"] == 0


def test_events_are_pruned_after_the_configured_days(known: Stores) -> None:
    with known.engine.begin() as connection:
        for _ in "12":
            record_event(connection, EventKind.RELEASE_GIVEN_UP, "flask==3.0.0", {})
        plan_notices(connection, {"build": True})
    execute(known.engine, "UPDATE events SET at = at - interval '401 days' WHERE event_id = 1")
    upkeep(replace(known.settings, keep_events_days=None), prune)
    assert row_counts(known.engine)["events"] == 2
    upkeep(known.settings, prune)
    counts = row_counts(known.engine)
    assert (counts["events"], counts["notices"]) == (1, 1)


def test_waiting_requests_are_read_without_scanning_ended_ones(known: Stores) -> None:
    with known.engine.connect() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        plan = connection.scalar(
            text(f"EXPLAIN (FORMAT JSON) {upkeep_module._ANALYSES_WITHOUT_JOB.text}")
        )
    assert "ix_analyses_open" in json.dumps(plan)
