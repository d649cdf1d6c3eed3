"""What an export knows of versions that are not in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the extra `export` is not installed")

import pyarrow as pa
import pyarrow.parquet as pq

from adviser.answering.exported_lock_knowledge import _Export
from adviser.exports.croissant import CROISSANT_FILE


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
