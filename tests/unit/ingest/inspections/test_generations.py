"""The four generations become one kind of document; rows change only with the parsers' version."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graph.record.inspections import derived_rows
from graph.tables import Base, table_of
from graph.verification.parser_version import CHANGED_COLUMNS, PARSER_VERSION, columns_changed_since
from ingest.inspections.parsing import parse_inspections, parse_stored
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument, RefusedDocument, SourceLimits
from model.errors import Reason
from model.measurements.inspection import Correction, InspectionDocument, Outcome, SchemaVersion
from tests.factories.documents import (
    GENERATIONS,
    SAMPLES,
    directory,
    directory_files,
    document_with_job_logs,
    encoded,
    result_document,
    single,
    specification,
)
from tests.services.commands import ROOT


def parsed(raw: RawDocument) -> InspectionDocument:
    (document,) = parse_inspections(raw)
    assert isinstance(document, InspectionDocument), document
    return document


def refused(raw: RawDocument) -> RefusedDocument:
    (refusal,) = parse_inspections(raw)
    assert isinstance(refusal, RefusedDocument), refusal
    return refusal


@pytest.mark.parametrize("logs", [[], None, {"0": {}}, "[]", [[]]])
def test_inspection_with_invalid_job_logs_is_refused_as_a_whole(logs: Any) -> None:
    refusal = refused(single(document_with_job_logs(job_logs=logs)))
    assert refusal.error.field.startswith("$.job_logs")


def test_hardware_class_depends_on_stepping_but_not_on_clock_rate() -> None:
    def digest_of(path: str, key: str, value: Any) -> str:
        result = result_document()
        result["hwinfo"][path][key] = value
        return parsed(directory(result)).observations[0].comparison_key

    first = parsed(directory()).observations[0].comparison_key
    assert digest_of("cpu_info", "hz_actual_friendly", "3.1 GHz") == first
    assert digest_of("cpu_features", "hz_actual", [31, 0]) == first
    assert digest_of("cpu_info", "stepping", 7) != first


def test_equal_inspections_have_one_identifier_whatever_folder_and_formatting() -> None:
    first = parsed(directory(place="a/inspection-x"))
    files = directory_files()
    hwinfo = encoded(result_document()["hwinfo"])
    files["results/0/hwinfo"] = hwinfo.replace(b", ", b",\n  ")
    files["results/0/result"] = files["results/0/result"].replace(b", ", b",\n")
    second = parsed(RawDocument("elsewhere", files=files))
    assert first.document_id == second.document_id
    assert first.body == second.body


def test_jobs_of_an_inspection_are_read_in_numerical_order() -> None:
    results = [result_document(exit_code=number) for number in range(12)]
    document = parsed(directory(*results))
    assert [seen.exit_code for seen in document.observations] == list(range(12))
    assert [seen.position for seen in document.observations] == list(range(12))


def test_private_data_is_removed_from_the_stored_inspection() -> None:
    document = parsed(
        directory(
            result_document(stderr="mail jo@mail.example"),
            specification=specification(author="Jo Doe"),
            log=b"by jo@mail.example \x00\xff",
        )
    )
    assert b"mail.example" not in document.body
    assert b"Jo Doe" not in document.body


def test_inspection_with_two_results_of_one_job_number_is_refused() -> None:
    files = directory_files(result_document(), result_document(exit_code=1))
    files["results/01/result"] = files["results/1/result"]
    refusal = refused(RawDocument("delivery", "a", files=files))
    assert refusal.error.reason == Reason.CONFLICTING_FIELDS
    assert refusal.error.field in ("results/01", "results/1")
    assert "results/1 " in refusal.error.message + " "


def test_scripts_without_a_hash_are_compared_only_within_a_component() -> None:
    def key_of(component: str) -> str:
        result = result_document(script_sha256=None)
        result["stdout"]["component"] = component
        return parsed(directory(result)).observations[0].comparison_key

    assert key_of("tensorflow") != key_of("pytorch")
    assert key_of("tensorflow") == key_of("tensorflow")


def test_stored_inspection_delivered_again_gives_an_equal_inspection() -> None:
    """As a client gets it from the service and sends it to another one."""
    kinds = set()
    for source in (str(GENERATIONS), str(ROOT / "samples" / "inspections.tar.gz")):
        for raw in documents_of(source, SourceLimits()):
            assert isinstance(raw, RawDocument)
            for document in parse_inspections(raw):
                assert isinstance(document, InspectionDocument)
                again = parsed(RawDocument("somewhere", data=document.body))
                assert again.document_id == document.document_id
                assert again.observations == document.observations
                assert again.stack == document.stack
                kinds.add(document.schema_version)
    assert kinds >= {
        SchemaVersion.DIRECTORY,
        SchemaVersion.Y2020_02_DICTIONARY,
        SchemaVersion.Y2019,
    }


@pytest.mark.parametrize("results", [{}, [1], [{"result": 1}], [{"result": {}, "other": 1}]])
def test_malformed_stored_folder_document_is_refused(results: Any) -> None:
    body = {"results": results, "status": {"state": "finished"}}
    assert refused(single(body)).error.reason in {Reason.UNKNOWN_SCHEMA, Reason.WRONG_TYPE}


def documents(source: Path, *, by_content: bool = True) -> list[InspectionDocument]:
    """All of a source, recognised by content or by the names of files."""
    found, on_skipped = [], lambda skipped: pytest.fail(repr(skipped))
    for raw in documents_of(str(source), on_skipped=on_skipped if by_content else None):
        assert isinstance(raw, RawDocument), raw
        for document in parse_inspections(raw):
            assert isinstance(document, InspectionDocument), document
            found.append(document)
    return found


def test_sample_documents_cover_every_generation_and_outcome() -> None:
    found = documents(GENERATIONS)
    assert {document.schema_version for document in found} == set(SchemaVersion)
    seen = [observation for document in found for observation in document.observations]
    assert Counter(it.outcome for it in seen)[Outcome.CRASHED] == 2
    assert [it.correction for it in seen if it.correction] == [
        Correction.TENSORFLOW_MATMUL_MINI_BATCH
    ]
    assert [it.name for it in found if it.stack is None] == [
        "inspection-conv2d-unknown-xeon-3325a194"
    ]
    assert not [it.unstable_reason for it in seen if it.unstable_reason]


def test_samples_are_interleaved_measurements_of_bundled_indicators() -> None:
    found = documents(SAMPLES)
    seen = [observation for document in found for observation in document.observations]
    outcomes = Counter(observation.outcome for observation in seen)
    assert len(found) == 22
    assert outcomes == {Outcome.MEASURED: 200, Outcome.CRASHED: 2, Outcome.BUILD_FAILED: 1}
    measured = [it for it in seen if it.outcome is Outcome.MEASURED]
    assert {it.indicator.name for it in measured} == {"PiMatmul", "PiConv2D"}
    assert {it.indicator.component for it in measured} == {"numpy", "torch", "tensorflow"}
    assert all(it.host and it.block and len(it.repetitions_s) >= 9 for it in measured)
    assert SAMPLES.stat().st_size < 500_000


def test_samples_contain_the_stacks_of_the_cookbook() -> None:
    text = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
    asked = set(re.findall(r"sha256:[0-9a-f]{64}", text))
    assert asked
    assert asked <= {document.stack.digest for document in documents(SAMPLES) if document.stack}


#: Of all rows of the documents in the samples and in ``tests/data``, by version.
ROWS = {4: "76416b035dcc5978ddc2dc3c761937c28892e9a679d652e52369bd22fd023ac6"}


@pytest.fixture(scope="module")
def known() -> list[InspectionDocument]:
    return [*documents(SAMPLES), *documents(GENERATIONS, by_content=False)]


def test_stored_inspection_parses_like_its_delivery(known: list[InspectionDocument]) -> None:
    assert len({it.schema_version for it in known}) >= 4
    for it in known:
        assert parse_stored(it.body, it.schema_version, it.name) == it


def test_every_inspection_column_can_be_derived_from_the_stored_document(
    known: list[InspectionDocument],
) -> None:
    made = {model: row for it in known for model, row in derived_rows(it)}
    assert len(made) == 5
    for model, row in made.items():
        assert row.keys() == set(table_of(model).columns.keys()), model


def test_parser_version_is_increased_if_rows_of_known_documents_change(
    known: list[InspectionDocument],
) -> None:
    digest = hashlib.sha256()
    for it in sorted(known, key=lambda document: document.document_id):
        for model, row in derived_rows(it):
            # A column that is empty for all that was stored before is no change.
            known_values = {name: value for name, value in row.items() if value is not None}
            text = json.dumps([table_of(model).name, known_values], default=str, sort_keys=True)
            digest.update(text.encode())
    assert {PARSER_VERSION: digest.hexdigest()} == ROWS, (
        "parsers make other rows of known documents: raise PARSER_VERSION, name the columns in"
        " CHANGED_COLUMNS, and set the digest here"
    )


def test_columns_listed_as_changed_by_a_parser_version_exist() -> None:
    assert max(CHANGED_COLUMNS) == PARSER_VERSION
    tables = Base.metadata.tables
    for name in columns_changed_since(-1):
        table, _, column = name.removeprefix("+").partition("=")[0].partition(".")
        assert table in tables, name
        assert not column or column in tables[table].columns, name
    assert columns_changed_since(PARSER_VERSION) == frozenset()
