"""What an export knows of versions that are not in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adviser.answering.exported_lock_knowledge import _OBSERVATIONS, _Export
from adviser.exports.croissant import CROISSANT_FILE
from model.packages.identity import package_version
from tests.factories.universes import snapshot_of


def write_table(folder: Path, name: str, *rows: dict[str, Any]) -> None:
    (folder / name).mkdir()
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / name / "part-0.parquet")


def test_the_advisories_are_read_once_for_all_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / CROISSANT_FILE).write_text('{"datePublished": "2026-11-26T00:00:00+00:00"}')
    vulnerability = {"vulnerability_id": "CVE-1"}
    advisory = {"advisory_id": "GHSA-1"}
    package = {"name": "package-0", "versions": ["2"], "ranges": json.dumps([])}
    write_table(tmp_path, "vulnerabilities", vulnerability | {"severity": "high", "score": 7.5})
    write_table(tmp_path, "advisories", advisory | vulnerability | {"withdrawn_at": None})
    write_table(tmp_path, "advisory_packages", advisory | package)
    export, read = _Export(tmp_path), list[str]()
    rows = _Export._rows

    def noted(self: _Export, table: str, *arguments: Any, **wanted: Any) -> Any:
        read.append(table)
        return rows(self, table, *arguments, **wanted)

    monkeypatch.setattr(_Export, "_rows", noted)
    versions = [(f"package-{number}", it) for number in range(100) for it in ("1", "2")]
    known = export.vulnerabilities_by_version(versions)
    assert known.keys() == set(versions)
    affected = {key: [it.id for it in them] for key, them in known.items() if them}
    assert affected == {("package-0", "2"): ["CVE-1"]}
    assert sorted(read) == ["advisories", "advisory_packages", "vulnerabilities"]
    assert export.vulnerabilities_by_version([]) == {}


def test_measurements_are_of_one_hardware_class_and_need_no_repetitions(tmp_path: Path) -> None:
    (tmp_path / CROISSANT_FILE).write_text('{"datePublished": "2026-11-26T00:00:00+00:00"}')
    snapshot = snapshot_of({"a": {"1": {}}}, ["a"])
    text = dict.fromkeys(_OBSERVATIONS, "x") | {"parameters": "{}"}
    none = dict.fromkeys(("unstable_reason", "started_at", "ended_at", "quarantine_reason"))
    job = text | none | {"unit": "FLOP/s", "rate": 2.0, "elapsed_s": None, "outcome": "measured"}
    jobs = [
        job | {"observation_id": it, "comparison_key": it, "hardware_digest": it}
        for it in ("here", "elsewhere")
    ]
    tampered = job | {"observation_id": "other", "quarantine_reason": "tampered"}
    write_table(tmp_path, "observations", *jobs, tampered)
    write_table(tmp_path, "stacks", {"stack_digest": "x", "purl": package_version("a", "1").purl})
    write_table(tmp_path, "inspections", {"document_id": "x", "created_at": None})
    write_table(tmp_path, "samples", {"observation_id": "unknown", "duration_s": 1.0})
    hardware = [{"hardware_digest": it, "hardware": it, "identity": "{}"} for it in ("here", "x")]
    write_table(tmp_path, "hardware", *hardware)
    write_table(tmp_path, "advisory_archives", {"read_at": "x"})
    export = _Export(tmp_path)
    every, some = export.evidence(snapshot), export.evidence(snapshot, ["here"])
    assert [it.observation_id for it in every.readings] == ["elsewhere", "here"]
    assert [(it.observation_id, it.rate) for it in some.readings] == [("here", 2.0)]
    assert (every.refused, some.refused) == (1, 1)
