"""``thoth export parquet`` writes what the API lists, and nothing private."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from adviser.exports.parquet import EXPORT_FILE
from adviser.exports.tables import TABLES, ColumnType
from common.settings import Settings
from graph.engine import relational_engine
from tests.services.commands import ROOT, thoth, thoth_json
from tests.services.filled import every, got

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def exported(filled: Settings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of the filled record."""
    folder = tmp_path_factory.mktemp("exports") / "export"
    report = thoth_json(filled, "export", "parquet", str(folder))
    assert report["folder"] == str(folder)
    assert [it["name"] for it in report["tables"]] == list(TABLES)
    for table in report["tables"]:
        assert table["rows"] == len(rows_of(folder, table["name"])), table
    return folder


def rows_of(folder: Path, table: str) -> Rows:
    rows: Rows = ds.dataset(folder / table).to_table().to_pylist()
    return rows


def listed(client: FlaskClient, path: str) -> Iterator[dict[str, Any]]:
    """All items of a list of the API."""
    return every(client, path, 500)


def as_listed(row: dict[str, Any]) -> dict[str, Any]:
    """A row with times and JSON as the API writes them."""
    values = {name: _as_listed(value) for name, value in row.items()}
    for name in ("parameters", "hardware", "software"):
        if isinstance(values.get(name), str) and values[name].startswith("{"):
            values[name] = json.loads(values[name])
    return values


def _as_listed(value: Any) -> Any:
    if isinstance(value, datetime):
        assert value.utcoffset() == timedelta(0)
        return value.isoformat()
    return value


def assert_equal_rows(exported: Rows, expected: Rows, key: str) -> None:
    """Each expected item has its row, with equal values in all columns that both have."""
    rows = {row[key]: as_listed(row) for row in exported}
    items = {item[key]: item for item in expected}
    assert len(rows) == len(exported)
    assert rows.keys() == items.keys()
    assert rows
    common = next(iter(rows.values())).keys() & next(iter(items.values())).keys()
    assert len(common) >= 5
    for name, item in items.items():
        assert {it: rows[name][it] for it in common} == {it: item[it] for it in common}


def test_exported_inspections_jobs_and_hardware_equal_the_api_responses(
    exported: Path, filled_client: FlaskClient
) -> None:
    inspections = list(listed(filled_client, "/api/v2/inspections"))
    assert_equal_rows(rows_of(exported, "inspections"), inspections, "document_id")
    observations = list(listed(filled_client, "/api/v2/observations"))
    assert_equal_rows(rows_of(exported, "observations"), observations, "observation_id")
    hardware = {
        it["hardware_digest"]: json.loads(it["identity"]) for it in rows_of(exported, "hardware")
    }
    listed_classes = listed(filled_client, "/api/v2/hardware")
    assert hardware == {it["digest"]: it["identity"] for it in listed_classes} != {}


def test_exported_samples_are_the_repetitions_of_observations(
    exported: Path, filled_client: FlaskClient
) -> None:
    samples: dict[str, list[float]] = defaultdict(list)
    for row in rows_of(exported, "samples"):
        assert row["repetition"] == len(samples[row["observation_id"]])
        samples[row["observation_id"]].append(row["duration_s"])
    expected = {
        item["observation_id"]: item["repetitions_s"]
        for item in listed(filled_client, "/api/v2/observations")
        if item["repetitions_s"]
    }
    assert samples == expected


def test_exported_stacks_are_the_inspected_stacks_with_packages(
    exported: Path, filled_client: FlaskClient
) -> None:
    packages: dict[str, set[str]] = defaultdict(set)
    for row in rows_of(exported, "stacks"):
        packages[row["stack_digest"]].add(row["purl"])
    stacks = listed(filled_client, "/api/v2/stacks")
    assert packages.keys() == {it["digest"] for it in stacks if it["inspections"]}
    for digest, purls in packages.items():
        detail = got(filled_client, f"/api/v2/stacks/{digest}")
        assert purls == {it["purl"] for it in detail["packages"]}


def test_exported_releases_and_advisories_equal_the_api_responses(
    exported: Path, filled_client: FlaskClient
) -> None:
    releases: Rows = []
    for package in listed(filled_client, "/api/v2/packages"):
        path = f"/api/v2/packages/{package['name']}/versions"
        for version in listed(filled_client, path):
            detail = got(filled_client, f"{path}/{version['version']}?index={version['index']}")
            raw = [it["raw"] for it in detail["requirements"]]
            releases.append(detail | {"requirements": raw})
    assert_equal_rows(rows_of(exported, "releases"), releases, "purl")
    advisories: Rows = []
    affected: dict[str, set[str]] = {}
    named: Rows = []
    for vulnerability in listed(filled_client, "/api/v2/vulnerabilities"):
        path = f"/api/v2/vulnerabilities/{vulnerability['vulnerability_id']}"
        advisories += got(filled_client, path)["advisories"]
        versions = {it["purl"] for it in listed(filled_client, f"{path}/versions")}
        affected[vulnerability["vulnerability_id"]] = versions
        named.append(got(filled_client, path))
    assert_equal_rows(rows_of(exported, "vulnerabilities"), named, "vulnerability_id")
    rows = rows_of(exported, "advisories")
    assert_equal_rows(rows, advisories, "advisory_id")
    assert all(set(row["affected"]) == affected[row["vulnerability_id"]] for row in rows)


def test_exported_benchmark_results_equal_the_api_response(
    exported: Path, filled_client: FlaskClient
) -> None:
    def key(item: dict[str, Any]) -> tuple[Any, ...]:
        return item["source"], item["benchmark"], str(item["parameters"]), item["metric"]

    items = sorted(listed(filled_client, "/api/v2/benchmarks"), key=key)
    rows = sorted(map(as_listed, rows_of(exported, "benchmarks")), key=key)
    assert len(rows) == len(items) > 0
    for row, item in zip(rows, items, strict=True):
        shared = row.keys() & item.keys() - {"measured_at"}
        assert len(shared) > 10
        assert {it: row[it] for it in shared} == {it: item[it] for it in shared}


def test_exported_advice_equals_the_api_response_except_for_identifiers(
    exported: Path, filled_client: FlaskClient
) -> None:
    expected = []
    stacks = listed(filled_client, "/api/v2/stacks")
    inspected = {it["digest"] for it in stacks if it["inspections"]}
    for item in listed(filled_client, "/api/v2/advice"):
        digest = f"sha256:{hashlib.sha256(item['advice_id'].encode()).hexdigest()}"
        for stack in got(filled_client, f"/api/v2/advice/{item['advice_id']}")["stacks"]:
            known = stack["stack_digest"] if stack["stack_digest"] in inspected else None
            names = ("recommendation_type", "status", "result_digest", "created_at")
            values = {name: item[name] for name in names}
            expected.append({"advice_digest": digest, **values, **stack, "stack_digest": known})
    rows = [as_listed(row) for row in rows_of(exported, "advice")]
    assert expected
    assert [{it: row[it] for it in expected[0]} for row in rows] == expected


def test_exported_verdicts_equal_the_stacks_command(exported: Path, filled: Settings) -> None:
    groups = thoth_json(filled, "stacks", "--all", "--json")["groups"]
    expected = {
        (group["comparison_key"], group["python_version"], stack["stack_digest"]): {
            "median_rate": stack["median_rate"],
            "jobs": stack["jobs"],
            "differing_packages": [
                f"{it['name']} {it['baseline_version'] or 'none'} → {it['version'] or 'none'}"
                for it in stack["differing_packages"]
            ],
            **(stack["comparison"] or {"verdict": None}),
        }
        for group in groups
        for stack in group["stacks"]
    }
    rows = {
        (row["comparison_key"], row["python_version"], row["stack_digest"]): row
        for row in rows_of(exported, "verdicts")
    }
    assert rows.keys() == expected.keys()
    assert any(values["verdict"] for values in expected.values())
    for key, values in expected.items():
        assert {it: rows[key][it] for it in values} == values


def test_exported_rows_name_their_document_and_columns_are_described(exported: Path) -> None:
    known = {row["document_id"] for row in rows_of(exported, "inspections")}
    for name, table in TABLES.items():
        dataset = ds.dataset(exported / name)
        units = {}
        for column in table.columns:
            metadata = dataset.schema.field(column.name).metadata
            assert metadata[b"description"].decode() == column.description
            units[column.name] = metadata.get(b"unit", b"").decode()
            if column.type is ColumnType.TIME:
                assert str(dataset.schema.field(column.name).type) == "timestamp[us, tz=UTC]"
            seconds = column.name.endswith("_s")
            assert (units[column.name] == "s") == seconds, column.name
        for row in dataset.to_table().to_pylist():
            documents = row["document_ids"] if name == "verdicts" else [row["document_id"]]
            assert documents
            assert all(it.startswith("sha256:") for it in documents)
            if name in ("observations", "samples", "verdicts"):
                assert set(documents) <= known


def test_exports_contain_no_private_values(
    exported: Path, filled: Settings, filled_client: FlaskClient
) -> None:
    """Neither secrets nor tokens, addresses, identifiers, requests, messages or local paths."""
    response = filled_client.post("/api/v2/advice", json={"requirements": ["flask"]})
    assert response.status_code in (202, 400, 422)
    engine = relational_engine(filled)
    private: set[str] = {str(ROOT), filled_client.environ_base["HTTP_AUTHORIZATION"].split()[1]}
    queries = (
        "SELECT unnest(ARRAY[token_id, name, prefix, digest]) FROM tokens",
        "SELECT unnest(ARRAY[address, request_id]) FROM audit_log",
        "SELECT advice_id FROM advice",
        "SELECT DISTINCT source FROM documents",
        "SELECT stack_digest FROM advised_stacks"
        " WHERE stack_digest NOT IN (SELECT stack_digest FROM inspections)",
        "SELECT DISTINCT failure_message FROM observations",
    )
    with engine.connect() as connection:
        for query in queries:
            values = {it for it in connection.scalars(text(query)) if it and len(it) > 5}
            assert values or "audit_log" in query, query
            private |= values
    engine.dispose()
    # Everything that a reader can see: the description, the footers and all values.
    seen = [path.read_bytes().decode("utf-8", "replace") for path in exported.rglob("*.*")]
    seen += [str(rows_of(exported, name)) for name in TABLES]
    assert {it for it in private if any(it in content for content in seen)} == set()


def test_export_can_be_limited_to_a_single_table(filled: Settings, tmp_path: Path) -> None:
    done = thoth(filled, "export", "parquet", str(tmp_path / "a"), "--only", "stacks")
    assert done.returncode == 0, done.stderr
    assert sorted(it.name for it in (tmp_path / "a").iterdir()) == [EXPORT_FILE, "stacks"]
    document = json.loads((tmp_path / "a" / EXPORT_FILE).read_text())
    assert [it["name"] for it in document["tables"]] == ["stacks"]


def test_nightly_run_replaces_the_export(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    nightly = replace(settings, ingest_sources=(str(ROOT / "samples" / "inspections.tar.gz"),))
    for _ in range(2):
        done = thoth(nightly, "ingest", "nightly", EXPORT_FOLDER=str(folder))
        assert done.returncode == 0, done.stderr
        assert str(folder) in done.stdout
        assert len(rows_of(folder, "inspections")) == 22
    (folder / EXPORT_FILE).unlink()
    done = thoth(nightly, "ingest", "nightly", EXPORT_FOLDER=str(folder))
    assert done.returncode == 1
    assert "other content" in done.stderr
    assert len(rows_of(folder, "inspections")) == 22
