"""Published inspections of Project Thoth, and values computed from them independently."""

import csv
import os
from collections import Counter
from pathlib import Path
from statistics import median

import pytest

from ingest.inspections.parsing import parse_inspections
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument, RefusedDocument, SkippedFile
from model.errors import Reason
from model.measurements.inspection import InspectionDocument, Outcome, SchemaVersion

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[2].parent / "shared" / "data"
)
pytestmark = pytest.mark.skipif(
    not (DATA / "golden.csv").is_file(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)
#: What the golden values are in, in the units of the record.
UNITS = {"ms": 1e3, "GFLOPS": 1e-9}


def ingested(folder: str) -> tuple[list[InspectionDocument], list[RefusedDocument]]:
    documents: list[InspectionDocument] = []
    refusals: list[RefusedDocument] = []
    for raw in documents_of(str(DATA / "thoth" / folder)):
        for found in parse_inspections(raw) if isinstance(raw, RawDocument) else [raw]:
            if isinstance(found, RefusedDocument):
                refusals.append(found)
            else:
                documents.append(found)
    return documents, refusals


def golden() -> list[tuple[str, str, float, float, int]]:
    with (DATA / "golden.csv").open() as stream:
        return [
            (Path(row["path"]).name, row["metric"], UNITS[row["unit"]], float(row["value"]),
             int(row["n"]))
            for row in csv.DictReader(stream)
            if row["path"].startswith("thoth/inspections/")
        ]  # fmt: skip


def test_medians_of_real_inspections_equal_independent_computations() -> None:
    documents, refusals = ingested("inspections")
    assert refusals == []
    by_name = {document.name: document for document in documents}
    assert len(golden()) == 6
    for name, metric, unit, value, count in golden():
        seen = by_name[name].observations
        readings = [it.elapsed_s if metric == "median_elapsed" else it.rate for it in seen]
        assert len(readings) == count
        assert median(reading or 0 for reading in readings) * unit == pytest.approx(value, rel=1e-9)


def test_inspection_without_a_specification_is_recorded_with_a_note() -> None:
    documents, _ = ingested("inspections")
    unknown = [document for document in documents if document.stack is None]
    assert [document.name for document in unknown] == ["inspection-iotf-1-conv1d-2a71492d"]
    assert unknown[0].stack_note


def test_inspections_of_2019_and_2020_are_parsed() -> None:
    old, refused = ingested("inspections-legacy-2019")
    assert refused == []
    assert {document.schema_version for document in old} == {SchemaVersion.Y2019}
    outcomes = Counter(seen.outcome for document in old for seen in document.observations)
    assert outcomes == {Outcome.MEASURED: 3, Outcome.CRASHED: 1}
    newer, refused = ingested("inspections-2020-02")
    assert refused == []
    assert [document.name for document in newer] == [
        "inspection-cvut-4-ed9cd053",
        "inspection-cvut-4-158e4e4e",
    ]


def test_inspections_without_results_are_refused_with_the_reason() -> None:
    documents, refusals = ingested("dependency-monkey-zoo/inspection-2020-08-21")
    assert documents == []
    assert len(refusals) == 22
    assert {refusal.error.reason for refusal in refusals} == {Reason.UNKNOWN_SCHEMA}
    assert all("without results" in refusal.error.message for refusal in refusals)


def test_documents_that_are_no_inspections_are_refused() -> None:
    for folder in ("solver", "adviser"):
        documents, refusals = ingested(folder)
        assert documents == []
        assert {refusal.error.reason for refusal in refusals} <= {Reason.UNKNOWN_SCHEMA}


#: The system of each folder of other benchmarks' results.
SYSTEMS = {
    "aibench": "AIBench",
    "aiia-dnn": "AIIA DNN benchmark",
    "dawnbench": "DAWNBench",
    "deepbench": "DeepBench",
    "edge-aibench": "Edge AIBench",
    "hpe-dlcookbook": "HPE Deep Learning Benchmarking Suite",
    "ianvs": "KubeEdge Ianvs",
    "jetson": "NVIDIA Jetson benchmarks",
    "mlperf-inference-v0.5": "MLPerf Inference",
    "mlperf-training-v0.5": "MLPerf Training",
    "mlperf-training-v0.6": "MLPerf Training",
    "perfzero": "PerfZero",
    "pytorch-benchmark": "pytorch-benchmark",
    "tf-cnn-benchmarks": "tf_cnn_benchmarks",
}


@pytest.mark.parametrize("folder", SYSTEMS)
def test_benchmark_results_of_other_systems_are_skipped_by_name(folder: str) -> None:
    skipped: list[SkippedFile] = []
    (refusal,) = documents_of(str(DATA / folder), on_skipped=skipped.append)
    assert isinstance(refusal, RefusedDocument)
    assert refusal.error.reason == Reason.EMPTY_FOLDER
    results = [it for it in skipped if it.reason != "empty" and it.place != "README.md"]
    assert results
    assert {it.reason for it in results} == {f"result of {SYSTEMS[folder]}"}


def test_no_real_inspection_is_skipped_or_refused() -> None:
    for folder in ("inspections", "inspections-2020-02", "inspections-legacy-2019"):
        skipped: list[SkippedFile] = []
        documents = list(documents_of(str(DATA / "thoth" / folder), on_skipped=skipped.append))
        assert documents
        assert not any(isinstance(it, RefusedDocument) for it in documents)
        assert skipped == []
