"""The four generations become one kind of document, with units fixed at the door."""

from __future__ import annotations

from typing import Any

import pytest

from ingest.inspections.parsing import parse_inspections
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument, RefusedDocument, SourceLimits
from model.errors import Reason
from model.measurements.inspection import InspectionDocument, SchemaVersion
from tests.factories.documents import (
    GENERATIONS,
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
def test_job_logs_that_are_none_refuse_the_whole_document(logs: Any) -> None:
    refusal = refused(single(document_with_job_logs(job_logs=logs)))
    assert refusal.error.field.startswith("$.job_logs")


def test_another_clock_is_the_same_class_and_another_stepping_is_not() -> None:
    def digest_of(path: str, key: str, value: Any) -> str:
        result = result_document()
        result["hwinfo"][path][key] = value
        return parsed(directory(result)).observations[0].comparison_key

    first = parsed(directory()).observations[0].comparison_key
    assert digest_of("cpu_info", "hz_actual_friendly", "3.1 GHz") == first
    assert digest_of("cpu_features", "hz_actual", [31, 0]) == first
    assert digest_of("cpu_info", "stepping", 7) != first


def test_the_same_content_is_one_document_whatever_its_folder_and_spelling() -> None:
    first = parsed(directory(place="a/inspection-x"))
    files = directory_files()
    hwinfo = encoded(result_document()["hwinfo"])
    files["results/0/hwinfo"] = hwinfo.replace(b", ", b",\n  ")
    files["results/0/result"] = files["results/0/result"].replace(b", ", b",\n")
    second = parsed(RawDocument("elsewhere", files=files))
    assert first.document_id == second.document_id
    assert first.body == second.body


def test_jobs_are_taken_in_the_order_of_their_numbers() -> None:
    results = [result_document(exit_code=number) for number in range(12)]
    document = parsed(directory(*results))
    assert [seen.exit_code for seen in document.observations] == list(range(12))
    assert [seen.position for seen in document.observations] == list(range(12))


def test_private_data_is_not_in_the_body() -> None:
    document = parsed(
        directory(
            result_document(stderr="mail jo@mail.example"),
            specification=specification(author="Jo Doe"),
            log=b"by jo@mail.example \x00\xff",
        )
    )
    assert b"mail.example" not in document.body
    assert b"Jo Doe" not in document.body


def test_a_number_written_in_two_ways_is_a_conflict() -> None:
    files = directory_files(result_document(), result_document(exit_code=1))
    files["results/01/result"] = files["results/1/result"]
    refusal = refused(RawDocument("delivery", "a", files=files))
    assert refusal.error.reason == Reason.CONFLICTING_FIELDS
    assert refusal.error.field in ("results/01", "results/1")
    assert "results/1 " in refusal.error.message + " "


def test_without_a_hash_scripts_of_two_components_are_not_compared() -> None:
    def key_of(component: str) -> str:
        result = result_document(script_sha256=None)
        result["stdout"]["component"] = component
        return parsed(directory(result)).observations[0].comparison_key

    assert key_of("tensorflow") != key_of("pytorch")
    assert key_of("tensorflow") == key_of("tensorflow")


def test_a_stored_document_is_read_as_the_same_inspection() -> None:
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
def test_what_only_resembles_a_stored_folder_is_refused(results: Any) -> None:
    body = {"results": results, "status": {"state": "finished"}}
    assert refused(single(body)).error.reason in {Reason.UNKNOWN_SCHEMA, Reason.WRONG_TYPE}
