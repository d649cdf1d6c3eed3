"""From nothing to an answer, by the commands of the README and nothing else."""

import re
from typing import Any

import pytest

from tests.services.commands import ROOT
from tests.services.installation import Installation

#: Documents of all generations, made up.
DOCUMENTS = "tests/data/inspections"
#: Measured ones.
SAMPLES = "samples/inspections.tar.gz"

OUTCOMES = """
MATCH (:Inspection)-[:OBSERVED]->(o:Observation)
RETURN o.outcome AS outcome, count(o) AS seen
ORDER BY seen
"""


@pytest.mark.slow
def test_verdicts_from_ingested_documents_survive_a_restart(fresh: Installation) -> None:
    before = fresh.run("thoth", "status", "--json")
    assert (before.returncode, fresh.home.exists()) == (3, False)

    taken_in = fresh.run("thoth", "ingest", "inspections", DOCUMENTS)
    assert taken_in.returncode == 0, taken_in.stderr
    assert "Starting PostgreSQL and the graph" in taken_in.stderr
    assert "20 read: 20 new, 0 already known, 0 quarantined" in taken_in.stdout
    assert "up to date" in taken_in.stdout

    # Each of these stacks was inspected once, on a night of its own: what differs may be the night.
    assert {it["verdict"] for it in comparisons(fresh.json("stacks", "--json"))} == {"undetermined"}

    rows = fresh.json("cypher", OUTCOMES, "--format", "json")["rows"]
    assert rows == [{"outcome": "crashed", "seen": 2}, {"outcome": "measured", "seen": 92}]
    assert "refused" in fresh.run("thoth", "cypher", "CREATE (n:Package)").stderr

    fresh.thoth("ingest", "inspections", SAMPLES)
    document = fresh.json("stacks", "--json")
    assert {it["verdict"] for it in comparisons(document)} == {"slower", "undetermined"}
    slower = [it for it in comparisons(document) if it["verdict"] == "slower"]
    assert all(it["interval_high_pct"] < -2 for it in slower)

    assert fresh.thoth("graph", "verify").rstrip().endswith("equal")
    status = fresh.json("status", "--json")
    assert [store["up"] for store in status["stores"]] == [True, True]
    assert {store["schema"] == store["expected_schema"] for store in status["stores"]} == {True}

    fresh.thoth("down")
    fresh.thoth("status", code=3)
    # What was learnt is still there tomorrow.
    assert comparisons(fresh.json("stacks", "--json")) == comparisons(document)


@pytest.mark.slow
def test_samples_give_advice_on_an_empty_machine(fresh: Installation) -> None:
    done = fresh.run("sh", "samples/advice.sh")
    assert done.returncode == 0, done.stderr
    assert "Use numpy 2.4.6: it is 18 % faster than your 2.0.2 in PiConv2D" in done.stdout
    assert len(done.stdout.splitlines()) <= 35


@pytest.mark.slow
def test_demo_judges_an_upgrade_without_a_store(fresh: Installation) -> None:
    if not any((ROOT / "evidence").glob("*.tar")):
        pytest.skip("no pack ships with this version")
    done = fresh.run("sh", "samples/demo.sh")
    assert done.returncode == 0, done.stderr
    assert re.search("(faster|slower) than .* session", done.stdout)
    assert "seconds, in order" in done.stdout
    assert not fresh.home.exists()


def comparisons(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every stack next to its baseline."""
    return [
        stack["comparison"]
        for group in document["groups"]
        for stack in group["stacks"]
        if stack["comparison"]
    ]
