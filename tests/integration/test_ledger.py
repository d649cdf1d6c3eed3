"""The ledger in the record, on the command line and over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import insert, select

from adviser.advise import advise, in_this_process
from adviser.answering.advice_scoring import recorded_ledger, score_past_advice
from adviser.reports.record_links import links_in
from adviser.scoring.criteria import RecommendationType
from api.app import create_app
from api.service import EXTENSION
from cli.ingest import ingest
from cli.ledger import ledger
from graph.engine import Stores
from graph.record.advice import add_advice
from graph.record.ledger import recent_identical_pairs
from graph.record.loop import BatchState, add_batch, open_night, set_batch_state
from graph.tables import AdviceScoreRow, HardwareRow, WatchRow
from model.advice import StoredAdvice
from tests.factories.advisories import CRITICAL, affected, osv, write_archive
from tests.factories.inspections import (
    write_stack,
)
from tests.factories.reports import report_of, stored_report
from tests.factories.requests import NOTHING, request_for, snapshot_for
from tests.services.commands import thoth

INDEX = {"numpy": {"2.2.0": {}, "2.1.0": {}}}


def planted(stores: Stores, number: int, manifest: str) -> StoredAdvice:
    """An advice of before anything was measured, for the machine of the inspections."""
    with stores.engine.connect() as connection:
        hardware = connection.scalar(select(HardwareRow.digest))
    request = request_for(manifest, RecommendationType.PERFORMANCE, hardware=hardware)
    advice = advise(request, snapshot_for(request, INDEX), NOTHING)
    report = report_of(advice)
    report["metadata"]["document_id"] = f"adviser-260101000000-{number:016x}"
    return stored_report(advice, report)


def give(stores: Stores, advice: StoredAdvice) -> None:
    links = links_in(json.loads(advice.report)["result"])
    with stores.engine.begin() as connection:
        assert add_advice(connection, stores.settings, advice, links)


def measure(stores: Stores, folder: Path, turn: int, version: str, rate: float) -> None:
    """Ingest an inspection of a release of numpy with ten jobs of about this rate."""
    name = f"inspection-matmul-0000000{'ab'[turn]}"
    rates = [rate * (1 + 0.002 * (-1) ** (block + turn)) for block in range(10)]
    write_stack(folder, name, rates, {"numpy": version}, turn)
    done = CliRunner().invoke(ingest, ["inspections", str(folder)], obj=stores.settings)
    assert done.exit_code == 0, done.output


def rows(stores: Stores) -> list[Any]:
    with stores.engine.connect() as connection:
        columns = AdviceScoreRow.__table__.columns
        return list(connection.execute(select(*columns).order_by(AdviceScoreRow.number)))


@pytest.fixture
def scored(stores: Stores, tmp_path: Path) -> Stores:
    """Two pieces of advice; by later measurements, the second recommends the slower release."""
    folder = tmp_path / "inspections"
    measure(stores, folder, 0, "2.2.0", 160.0)
    give(stores, planted(stores, 1, "numpy==2.1.0\n"))
    give(stores, planted(stores, 2, "numpy\n"))
    counts = score_past_advice(stores.engine, stores.settings, in_this_process)
    assert (counts.scored, counts.known) == (2, 0)
    assert "surpassed" not in {it.outcome for it in rows(stores)}
    measure(stores, folder, 1, "2.1.0", 200.0)
    return stores


def test_planted_bad_advice_is_found(scored: Stores) -> None:
    counts = score_past_advice(scored.engine, scored.settings, in_this_process)
    assert (counts.scored, counts.unreadable) == (2, 0)
    (month,) = recorded_ledger(scored.engine)
    assert (month.month, month.advices) == ("2026-01", 2)
    assert (month.still_best.count, month.still_best.total) == (1, 2)
    assert month.worst_advice == "adviser-260101000000-0000000000000002"
    assert month.worst_regret_points is not None
    assert month.worst_regret_points > 0
    assert month.worst_regret_pct is not None
    assert 2 < month.worst_regret_pct <= 25.1


def test_a_vulnerability_that_became_known_later_counts_against_past_advice(
    stores: Stores, tmp_path: Path
) -> None:
    measure(stores, tmp_path / "inspections", 0, "2.2.0", 160.0)
    give(stores, planted(stores, 1, "numpy\n"))
    give(stores, planted(stores, 2, "numpy==2.1.0\n"))
    score_past_advice(stores.engine, stores.settings, in_this_process)
    assert {it.outcome for it in rows(stores)} <= {"best", "untested"}
    archive = write_archive(
        tmp_path / "all.zip",
        [osv("GHSA-new", affected("numpy", versions=["2.2.0"]), vector=CRITICAL)],
    )
    done = thoth(stores.settings, "advisories", "sync", str(archive))
    assert done.returncode == 0, done.stderr
    before = len(rows(stores))
    score_past_advice(stores.engine, stores.settings, in_this_process)
    new = {it.advice_id[-1]: it.outcome for it in rows(stores)[before:]}
    assert new["1"] == "surpassed"
    assert new["2"] in ("best", "untested")
    (month,) = recorded_ledger(stores.engine)
    assert month.worst_advice == "adviser-260101000000-0000000000000001"
    assert score_past_advice(stores.engine, stores.settings, in_this_process).scored == 0


def test_scoring_again_stores_nothing_and_goes_on_after_an_interruption(scored: Stores) -> None:
    def interrupt(done: int, advices: int) -> None:
        assert advices == 2
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score_past_advice(scored.engine, scored.settings, in_this_process, on_advice=interrupt)
    first = rows(scored)
    assert len(first) == 3
    counts = score_past_advice(scored.engine, scored.settings, in_this_process)
    assert (counts.scored, counts.known) == (1, 1)
    whole = rows(scored)
    assert whole[:3] == first
    counts = score_past_advice(scored.engine, scored.settings, in_this_process)
    assert (counts.scored, counts.known) == (0, 2)
    assert rows(scored) == whole


def test_advice_that_cannot_be_read_is_counted_and_the_rest_is_scored(
    scored: Stores,
) -> None:
    give(scored, replace(planted(scored, 3, "numpy\n"), request=b'{"later": 1}'))
    counts = score_past_advice(scored.engine, scored.settings, in_this_process)
    assert (counts.scored, counts.unreadable) == (2, 1)


def test_pairs_of_the_loop_that_were_claimed_to_differ_are_counted(stores: Stores) -> None:
    with stores.engine.begin() as connection:
        watch = {"watch_id": "w", "kind": "package", "name": "numpy", "source": "person"}
        more = {"weight": 1.0, "request": {}, "state": "seen"}
        connection.execute(insert(WatchRow), [{**watch, **more}])
        night = open_night(connection).night
        for verdict in ("equivalent", "faster", "undetermined"):
            stacks = [{"label": verdict}]
            batch = add_batch(connection, night, "w", "PiMatmul", stacks, blocks=2)
            report = {"aa_verdict": verdict}
            set_batch_state(connection, batch, BatchState.INGESTED, report=report)
        # A batch without a report has no pair yet.
        add_batch(connection, night, "w", "PiMatmul", [{"label": "planned"}], blocks=2)
    (month,) = recorded_ledger(stores.engine)
    assert (month.advices, month.false_claims.count, month.false_claims.total) == (0, 1, 3)
    with stores.engine.connect() as connection:
        recent = recent_identical_pairs(connection)
    assert recent == {"equivalent": 1, "faster": 1, "undetermined": 1}


def test_the_command_scores_and_shows_the_ledger(scored: Stores) -> None:
    done = CliRunner().invoke(ledger, ["--update", "--json"], obj=scored.settings)
    assert done.exit_code == 0, done.output
    (month,) = json.loads(done.stdout)["months"]
    assert month["outcomes"]["surpassed"] == 1
    text = CliRunner().invoke(ledger, [], obj=scored.settings)
    assert text.exit_code == 0, text.output
    assert "worst advice adviser-260101000000-0000000000000002" in text.stdout


def test_without_advice_the_command_names_the_next_step(stores: Stores) -> None:
    done = CliRunner().invoke(ledger, [], obj=stores.settings)
    assert done.exit_code == 0
    assert "thoth ledger --update" in done.stdout


def test_the_api_shows_the_same_ledger(scored: Stores) -> None:
    done = CliRunner().invoke(ledger, ["--update", "--json"], obj=scored.settings)
    app = create_app(scored.settings)
    answer = app.test_client().get("/api/v2/ledger")
    app.extensions[EXTENSION].close()
    assert answer.status_code == 200
    assert answer.json is not None
    assert answer.json["months"] == json.loads(done.stdout)["months"]
