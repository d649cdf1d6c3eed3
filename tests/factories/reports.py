"""Reports of advice made in memory, as their readers have them, and what checks them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adviser.advise import Advice, advise
from adviser.reports.checking import AdviceInputs, check_report
from adviser.reports.documents import (
    SCHEMA_VERSION,
    ReleaseKnowledge,
    report_bytes,
    report_document,
    result_document,
)
from adviser.reports.serialization import code_version, dataclass_to_json
from adviser.scoring.criteria import RecommendationType
from model.advice import AdviceHead, StoredAdvice
from model.measurements.evidence import Evidence
from tests.factories.evidence import Bench, jobs
from tests.factories.requests import INDEX, known_for, request_for, snapshot_for

SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "report.schema.json"
METADATA = {
    "analyzer": "adviser", "analyzer_version": code_version(), "hostname": "host",
    "thoth_deployment_name": "local", "datetime": "2026-01-01T00:00:00+00:00",
    "document_id": "adviser-260101000000-00000000000000aa", "timestamp": 1, "duration": 0.5,
    "timings": {"search_s": 0.01}, "arguments": {}, "os_release": {},
    "distribution": {
        "codename": "", "id": "", "like": "", "version": "",
        "version_parts": {"major": "", "minor": "", "build_number": ""},
    },
    "python": {
        "api_version": 1013, "major": 3, "minor": 12, "micro": 1, "serial": 0,
        "implementation_name": "cpython", "releaselevel": "final",
    },
}  # fmt: skip


def report_of(advice: Advice, known: ReleaseKnowledge | None = None) -> dict[str, Any]:
    result = result_document(advice, known_for(advice) if known is None else known)
    # As a reader has it: tuples are lists.
    return dict(json.loads(report_bytes(report_document(result, METADATA))))


def material_of(advice: Advice) -> AdviceInputs:
    return AdviceInputs(
        advice.request, advice.snapshot, advice.evidence, known_for(advice), advice.premises
    )


def problems(report: dict[str, Any], advice: Advice) -> list[str]:
    return check_report(report, material_of(advice))


#: ``fast`` in three versions, a month apart.
SLOWER_SUCCESSOR = {
    "fast": {
        version: {"uploaded_at": f"2023-0{version}-01T00:00:00+00:00"}
        for version in ("3", "2", "1")
    }
}


def kept() -> Advice:
    """The project keeps ``fast`` 2, as 3 is a third slower."""
    bench = Bench()
    for version, level in (("2", 0.0), ("3", -0.4)):
        bench.measure(bench.stack(f"fast=={version}"), jobs(level, 20))
    files = {"requirements.in": "fast>=2\n", "requirements.txt": "fast==2\n"}
    request = request_for(files=files, kind=RecommendationType.PERFORMANCE)
    return advise(request, snapshot_for(request, SLOWER_SUCCESSOR), bench.evidence())


def evidence() -> Evidence:
    """``core`` 1.0 next to 1.1, which is faster and open in one more indicator."""
    bench = Bench()
    for version, level in (("1.0", 0.0), ("1.1", 0.3), ("2.0", 0.1)):
        bench.measure(bench.stack(f"core=={version}", "tool==1.0", "web==2.0"), jobs(level))
    bench.measure(bench.stack("core==1.0", "tool==1.0", "web==1.0"), jobs(0, 3))
    return bench.evidence()


def made(manifest: str = "web\ntool\n") -> Advice:
    request = request_for(manifest, RecommendationType.PERFORMANCE, count=2)
    return advise(request, snapshot_for(request, INDEX), evidence())


def stored_report(advice: Advice, report: dict[str, Any]) -> StoredAdvice:
    head = AdviceHead(
        report["metadata"]["document_id"], advice.request.kind.value,
        advice.resolution.status.value, advice.snapshot.revision,
        report["metadata"]["result_digest"], datetime(2026, 1, 1, tzinfo=UTC),
    )  # fmt: skip
    return StoredAdvice(
        head, SCHEMA_VERSION, dataclass_to_json(advice.request), advice.snapshot.to_json(),
        advice.evidence.to_json(), dataclass_to_json(known_for(advice)), report_bytes(report),
    )  # fmt: skip
