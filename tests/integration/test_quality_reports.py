"""Quality reports of the bundled samples: the command, the API, the page and the file."""

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from common.settings import Settings
from graph.engine import Stores
from tests.services.commands import thoth, thoth_json
from tests.services.jobs import client_of


@pytest.fixture(scope="module")
def client(filled_app: Flask) -> FlaskClient:
    return filled_app.test_client()


@pytest.fixture(scope="module")
def key(client: FlaskClient) -> str:
    """The key of the matrix products of NumPy."""
    items = client.get("/api/v2/reports?indicator=PiMatmul").get_json()["items"]
    (largest,) = (it for it in items if it["stacks"] == 6)
    return str(largest["comparison_key"])


def _report(client: FlaskClient, key: str) -> Mapping[str, Any]:
    response = client.get(f"/api/v2/reports/{key}")
    assert response.status_code == 200, response.get_data(as_text=True)
    return dict(response.get_json())


def test_quality_report_agrees_with_the_observations(client: FlaskClient, key: str) -> None:
    (series,) = _report(client, key)["series"]
    jobs = client.get(f"/api/v2/observations?comparison_key={key}&limit=500").get_json()["items"]
    by_id = {it["observation_id"]: it for it in jobs}
    assert len(by_id) == 60
    reported = {it["observation_id"] for s in series["stacks"] for it in s["quality"]["jobs"]}
    assert reported == by_id.keys()
    base = series["baseline"]["stack_digest"]
    (base_rate,) = (it["median_rate"] for it in series["stacks"] if it["stack_digest"] == base)
    for stack in series["stacks"]:
        quality = stack["quality"]
        counted = [it["rate"] for it in quality["jobs"] if it["left_out"] is None]
        assert quality["rate"]["n"] == len(counted) == 10 - len(stack["unstable"])
        assert quality["rate"]["median"] == pytest.approx(median(counted))
        if effect := stack["comparison"]:
            ratio = 1 + effect["difference_pct"] / 100
            assert stack["median_rate"] / base_rate == pytest.approx(ratio)
        else:
            assert quality["rate"]["median"] == pytest.approx(stack["median_rate"])
        assert quality["rate"]["minimum"] <= quality["rate"]["lower_quartile"]
        assert quality["spreads"][-1]["repetitions"] <= quality["variance"]["repetitions"]
        for job in quality["jobs"]:
            assert job["elapsed_s"] == pytest.approx(
                median(by_id[job["observation_id"]]["repetitions_s"])
            )


def test_quality_report_has_the_verdicts_of_the_stacks_command(
    client: FlaskClient, filled: Settings
) -> None:
    groups = client.get("/api/v2/comparison-groups?indicator=PiConv2D").get_json()["items"]
    (group,) = (it for it in groups if len(it["stacks"]) == 6)
    (series,) = _report(client, group["comparison_key"])["series"]
    effects = {it["stack_digest"]: it["comparison"] for it in series["stacks"] if it["comparison"]}
    for stack in group["stacks"]:
        if effect := stack["comparison"]:
            assert effects[stack["stack_digest"]]["difference_pct"] == effect["difference_pct"]
            if effect["verdict"] != "undetermined":
                assert effects[stack["stack_digest"]]["verdict"] == effect["verdict"]
    # Fewer comparisons share the error rate, so the report may settle more.
    prefix = group["comparison_key"].removeprefix("sha256:")[:10]
    document = thoth_json(filled, "report", prefix)
    assert document["series"] == [series]


def test_quality_report_file_is_self_contained_and_shows_every_stack(
    client: FlaskClient, filled: Settings, key: str, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    done = thoth(filled, "report", key, "-o", str(path))
    assert (done.returncode, done.stderr) == (0, "")
    content = path.read_text(encoding="utf-8")
    HTMLParser().feed(content)
    assert not re.search(r"<(script|link|img|iframe)\b|\b(href|src)=|url\(|@import", content)
    (series,) = _report(client, key)["series"]
    for stack in series["stacks"]:
        assert stack["label"] in content
        if stack["comparison"]:
            assert f"{stack['comparison']['difference_pct']:+.1f} %" in content
    jobs = sum(len(it["quality"]["jobs"]) for it in series["stacks"])
    assert content.count("<circle") >= jobs


def test_report_can_cover_one_inspection(client: FlaskClient, filled: Settings) -> None:
    listed = client.get("/api/v2/inspections?indicator=PiMatmul").get_json()["items"]
    inspection = next(it for it in listed if it["job_count"] == 10)
    (series,) = thoth_json(filled, "report", f"somewhere/{inspection['name']}/")["series"]
    (stack,) = series["stacks"]
    assert (stack["jobs"], stack["stack_digest"]) == (10, inspection["stack_digest"])
    assert stack["comparison"] is None
    identifier = inspection["document_id"]
    (alone,) = client.get(
        f"/api/v2/reports/{series['comparison_key']}?inspection={identifier}"
    ).get_json()["series"]
    assert alone == series


def test_unknown_report_or_baseline_is_an_api_problem(client: FlaskClient, key: str) -> None:
    assert client.get("/api/v2/reports/ffff").status_code == 404
    wrong = client.get(f"/api/v2/reports/{key}?baseline=ffff")
    assert wrong.status_code == 400
    assert "baseline" in wrong.get_json()["detail"]
    other = client.get(f"/api/v2/reports/{key}?inspection=ffff")
    assert other.status_code == 200
    assert other.get_json()["series"] == []


def test_empty_record_has_no_series(stores: Stores) -> None:
    with client_of(stores.settings) as client:
        assert client.get("/api/v2/reports").get_json()["items"] == []
    done = thoth(stores.settings, "report", "16d417f6")
    assert done.returncode == 1
