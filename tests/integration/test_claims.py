"""A claim is explained by the command, the API and the page, all from the record."""

import json
from typing import Any, NamedTuple

import pytest
from flask.testing import FlaskClient
from sqlalchemy import insert, select, update

from common.settings import Settings
from graph.engine import Stores
from graph.record.access import Scope
from graph.tables import AdviceClaim, ClaimRow
from tests.services.commands import ROOT, WHERE, thoth
from tests.services.jobs import client_of


class Claimed(NamedTuple):
    """Stores, and an advice in them with claims."""

    stores: Stores
    report: dict[str, Any]


@pytest.fixture(scope="module")
def claimed(shared_stores: Stores) -> Claimed:
    """An advice on the samples, for the machine that they were measured on."""
    stores = shared_stores
    samples = ROOT / "samples"
    for command in (
        ("ingest", "inspections", str(samples / "inspections.tar.gz")),
        ("packages", "import", str(samples / "packages.jsonl.gz")),
    ):
        assert thoth(stores.settings, *command).returncode == 0
    options = ("--type", "performance", "--hardware", "fa9f8e70", "--json")
    done = thoth(stores.settings, "advise", str(samples / "project"), *WHERE, *options)
    assert done.returncode == 0, done.stderr
    return Claimed(stores, dict(json.loads(done.stdout)))


def explanation(settings: Settings, *arguments: str) -> dict[str, Any]:
    done = thoth(settings, "explain", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


def test_explain_command_explains_a_recorded_claim(claimed: Claimed) -> None:
    settings, report = claimed.stores.settings, claimed.report
    advice_id = report["metadata"]["document_id"]
    claims = report["result"]["report"]["products"][0]["claims"]
    for claim in claims:
        short = claim["claim_id"].removeprefix("sha256:")[:8]
        document = explanation(settings, f"{advice_id}/{short}", "--samples")
        assert document["claim"] == claim
        assert document["comparisons"] == report["result"]["report"]["family"]["comparisons"]
        assert document["samples"].keys() == set(claim["evidence"])
        assert all(document["samples"].values())
        assert len(document["pairs"]) == claim["pairs"] > 0
    several = thoth(settings, "explain", f"{advice_id}/sha256:")
    assert (several.returncode, "more than one claim: " in several.stderr) == (2, True)
    assert any(not it["beside_baseline"] for it in claims)
    recorded = next(it for it in claims if it["beside_baseline"])
    short = recorded["claim_id"].removeprefix("sha256:")[:8]
    assert explanation(settings, short)["claim"] == recorded
    shown = thoth(settings, "explain", short, "--samples").stdout
    assert "pairs of jobs that ran in turns" in shown
    assert shown.count("candidate") > recorded["jobs"]
    with client_of(settings, Scope.ADVISE, Scope.READ) as client:
        document = _served(client, f"/advice/{advice_id}", recorded)
    printed = explanation(settings, short)
    assert {key: document[key] for key in printed} == printed


def _served(client: FlaskClient, advice: str, claim: dict[str, Any]) -> dict[str, Any]:
    """What the API answers; the pages show it, too."""
    address = f"{advice}/claims/{claim['claim_id']}"
    document: dict[str, Any] = client.get(f"/api/v2{address}").get_json()
    assert document["claim"] == claim
    assert address in client.get(advice).get_data(as_text=True)
    page = client.get(address).get_data(as_text=True)
    for pair in document["pairs"]:
        assert f"{pair['difference_pct']:+.1f} %" in page
    for observation in claim["evidence"]:
        assert f"/jobs/{observation}" in page
    assert client.get(f"{advice}/claims/none").status_code == 404
    assert client.get(f"/api/v2{advice}/claims/none").status_code == 404
    assert client.get("/api/v2/advice/none/claims/none").status_code == 404
    return document


def test_verbose_advice_shows_claim_identifiers_that_explain_accepts(claimed: Claimed) -> None:
    options = ("--type", "performance", "--hardware", "fa9f8e70", "--verbose")
    project = str(ROOT / "samples" / "project")
    shown = thoth(claimed.stores.settings, "advise", project, *WHERE, *options).stdout
    (line,) = (it for it in shown.splitlines() if "/CLAIM` shows" in it)
    advice_id = line.partition("thoth explain ")[2].partition("/")[0]
    names = [it.split()[1].rstrip(":") for it in shown.splitlines() if it.startswith("claim ")]
    claims = claimed.report["result"]["report"]["products"][0]["claims"]
    assert len(names) == len(claims) > 1
    for name in names:
        assert explanation(claimed.stores.settings, f"{advice_id}/{name}")["advice_id"] == advice_id


def test_explain_recomputes_a_claim_of_an_earlier_version(claimed: Claimed) -> None:
    advice_id = claimed.report["metadata"]["document_id"]
    claims = claimed.report["result"]["report"]["products"][0]["claims"]
    claim = next(it for it in claims if it["beside_baseline"])
    earlier = "sha256:" + "0" * 64
    with claimed.stores.engine.begin() as connection:
        values = connection.execute(select(ClaimRow).where(ClaimRow.claim_id == claim["claim_id"]))
        (row,) = values.mappings()
        connection.execute(insert(ClaimRow).values({**row, "claim_id": earlier}))
        connection.execute(insert(AdviceClaim).values(advice_id=advice_id, claim_id=earlier))
    assert explanation(claimed.stores.settings, "00000000")["claim"] == claim
    with claimed.stores.engine.begin() as connection:
        connection.execute(
            update(ClaimRow).where(ClaimRow.claim_id == earlier).values(python_version="3.99")
        )
    done = thoth(claimed.stores.settings, "explain", "00000000")
    assert (done.returncode, "has no claim" in done.stderr) == (2, True)
