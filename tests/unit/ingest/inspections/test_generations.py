"""The four generations become one kind of document, with units fixed at the door."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.inspections.parsing import parse_inspections
from ingest.sources.reader import documents_of
from ingest.sources.source_items import RawDocument, RefusedDocument, SourceLimits
from model.measurements.inspection import InspectionDocument, Outcome, SchemaVersion
from model.reasons import Reason
from tests.factories.documents import (
    directory,
    directory_files,
    document_2019,
    document_2020_02,
    document_with_job_logs,
    encoded,
    lock,
    result_document,
    single,
    specification,
)
from tests.factories.generations import FOLDER as GENERATIONS
from tests.services.commands import ROOT


def parsed(raw: RawDocument) -> InspectionDocument:
    (document,) = parse_inspections(raw)
    assert isinstance(document, InspectionDocument), document
    return document


def refused(raw: RawDocument) -> RefusedDocument:
    (refusal,) = parse_inspections(raw)
    assert isinstance(refusal, RefusedDocument), refusal
    return refusal


def test_a_folder_is_read_with_units_fixed() -> None:
    document = parsed(directory())
    (seen,) = document.observations
    assert document.schema_version is SchemaVersion.DIRECTORY
    assert document.name == "inspection-matmul-0a1b2c3d"
    assert document.created_at == datetime(2024, 5, 1, 9, tzinfo=UTC)
    assert seen.outcome is Outcome.MEASURED
    assert seen.elapsed_s == pytest.approx(0.00125)
    assert seen.rate == pytest.approx(214.5e9)
    assert seen.memory_bytes == 350288 * 1024
    assert (seen.user_s, seen.system_s) == (7.25, 0.5)
    assert seen.started_at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert seen.ended_at == datetime(2024, 5, 1, 10, 1, 0, 500_000, tzinfo=UTC)
    assert (seen.indicator.name, seen.indicator.component) == ("PiMatmul", "tensorflow")
    assert document.stack is not None
    assert [package.purl for package in document.stack.packages] == [
        "pkg:pypi/numpy@1.18.5",
        "pkg:pypi/tensorflow@2.2.0",
    ]


def test_2019_has_an_observation_for_each_size() -> None:
    document = parsed(single(document_2019()))
    small, large = document.observations
    assert document.schema_version is SchemaVersion.Y2019
    assert document.name == "inspect-002c9fbb7513b20b"
    assert small.parameters == {
        "device": "cpu", "dtype": "float32", "matrix_size": 256, "reps": 5,
    }  # fmt: skip
    assert (small.elapsed_s, small.rate) == (0.00025, 125.5e9)
    assert (large.elapsed_s, large.rate) == (0.4, 5.25e9)
    assert (small.position, large.position) == (0, 1)
    assert small.job_id == large.job_id
    assert small.observation_id != large.observation_id
    assert small.started_at == datetime(2019, 1, 22, 11, 23, 56, tzinfo=UTC)
    assert (small.indicator.name, small.indicator.component) == ("PiMatmul", "tensorflow")
    assert small.hardware.identity == {
        "source": "requested", "processor": "Skylake", "family": 6, "model": 94,
        "physical_cpus": 32, "cpus": 64, "cpu_quota": 0.5,
    }  # fmt: skip


def test_a_crash_of_2019_is_of_the_indicator_that_its_script_is() -> None:
    crash = parsed(single(document_2019(exit_code=-6, stdout="")))
    (seen,) = crash.observations
    assert (seen.outcome, seen.exit_code, seen.rate) == (Outcome.CRASHED, -6, None)
    assert seen.indicator == parsed(single(document_2019())).observations[0].indicator


def test_a_dictionary_brings_several_inspections() -> None:
    raw = single({"inspection-a-00000001": [document_2020_02()],
                  "inspection-b-00000002": [document_2020_02(exit_code=1)]})  # fmt: skip
    first, second = parse_inspections(raw)
    assert isinstance(first, InspectionDocument)
    assert isinstance(second, InspectionDocument)
    assert first.schema_version is SchemaVersion.Y2020_02_DICTIONARY
    assert (first.name, second.name) == ("inspection-a-00000001", "inspection-b-00000002")
    assert first.stack == second.stack
    assert second.observations[0].outcome is Outcome.CRASHED


def test_one_bad_inspection_of_a_dictionary_leaves_the_others() -> None:
    raw = single({"a": [document_2020_02()], "b": [document_2020_02(exit_code="0")]})
    first, second = parse_inspections(raw)
    assert isinstance(first, InspectionDocument)
    assert isinstance(second, RefusedDocument)
    assert second.error.field == "$.b[0].exit_code"


def test_a_document_with_job_logs_is_one_inspection_with_all_its_jobs() -> None:
    document = parsed(single(document_with_job_logs(20)))
    assert document.schema_version is SchemaVersion.Y2020_02_JOB_LOGS
    assert document.name == "inspection-test-e666815e"
    assert document.job_count == len(document.observations) == 20
    assert document.created_at == datetime(2020, 2, 12, 14, 54, 57, 643346, tzinfo=UTC)
    assert document.stack is not None
    assert [package.name for package in document.stack.packages] == ["numpy", "tensorflow"]
    seen = document.observations[7]
    assert (seen.outcome, seen.indicator.component) == (Outcome.MEASURED, "tensorflow")
    assert seen.ended_at == datetime(2020, 2, 12, 14, 58, 7, tzinfo=UTC)


def test_one_broken_job_log_refuses_the_whole_document() -> None:
    document = document_with_job_logs(3)
    document["job_logs"][1]["exit_code"] = "0"
    refusal = refused(single(document))
    assert (refusal.error.reason, refusal.error.field) == (
        Reason.WRONG_TYPE, "$.job_logs[1].exit_code",
    )  # fmt: skip


@pytest.mark.parametrize("logs", [[], None, {"0": {}}, "[]", [[]]])
def test_job_logs_that_are_none_refuse_the_whole_document(logs: Any) -> None:
    refusal = refused(single(document_with_job_logs(job_logs=logs)))
    assert refusal.error.field.startswith("$.job_logs")


def test_a_document_with_a_list_of_results_among_other_keys_is_no_dictionary() -> None:
    document = document_with_job_logs()
    document["logs"] = document.pop("job_logs")
    refusal = refused(single(document))
    assert refusal.error.reason == Reason.UNKNOWN_SCHEMA
    assert "'build_log, created, inspection_id, logs, specification, status'" in (
        refusal.error.message
    )


def test_a_single_document_of_2020_02_has_the_same_jobs_as_in_the_dictionary() -> None:
    alone = parsed(single(document_2020_02()))
    within = parsed(single({"inspection-a": [document_2020_02()]}))
    assert alone.schema_version is SchemaVersion.Y2020_02
    assert alone.name == "inspection-matmul-0a1b2c3d"
    assert alone.stack is not None
    assert [package.version for package in alone.stack.packages] == ["1.9.0"]
    assert alone.observations[0].ended_at is not None
    assert alone.observations[0].job_id == within.observations[0].job_id
    assert alone.document_id != within.document_id


def test_both_spellings_of_the_processor_are_one_hardware_class() -> None:
    spec = specification(environment=None, run=None)
    new = parsed(directory(specification=spec)).observations[0].hardware
    old = parsed(single(document_2020_02())).observations[0].hardware
    assert new.digest == old.digest
    assert old.label == "Intel Xeon Gold 6130, 64 CPUs"


def test_the_hardware_class_holds_identities_and_no_clock() -> None:
    (seen,) = parsed(directory()).observations
    assert seen.hardware.label == "Intel Xeon Gold 6130, 64 CPUs, quota 2, OMP_NUM_THREADS=2"
    assert seen.hardware.identity == {
        "source": "measured", "machine": "x86_64", "vendor": "GenuineIntel", "family": 6,
        "model": 85, "stepping": 4, "flags": ["avx2", "fma", "sse2", "sse3"], "cpus": 64,
        "cpu_quota": 2.0, "threads_environment": {"OMP_NUM_THREADS": "2"},
    }  # fmt: skip


def test_another_clock_is_the_same_class_and_another_stepping_is_not() -> None:
    def digest_of(path: str, key: str, value: Any) -> str:
        result = result_document()
        result["hwinfo"][path][key] = value
        return parsed(directory(result)).observations[0].comparison_key

    first = parsed(directory()).observations[0].comparison_key
    assert digest_of("cpu_info", "hz_actual_friendly", "3.1 GHz") == first
    assert digest_of("cpu_features", "hz_actual", [31, 0]) == first
    assert digest_of("cpu_info", "stepping", 7) != first


def test_accelerators_are_part_of_the_class() -> None:
    result = result_document()
    result["hwinfo"]["gpu"] = [
        {"name": "Tesla T4", "compute_capability": "7.5", "driver_version": "535.104.05",
         "cuda_version": "12.2.140", "cudnn_version": "8.9.7"}
    ]  # fmt: skip
    hardware = parsed(directory(result)).observations[0].hardware
    assert hardware.identity["gpus"] == [
        {"name": "Tesla T4", "compute_capability": "7.5", "driver": "535.104.05", "cuda": "12.2",
         "cudnn": "8.9"}
    ]  # fmt: skip
    assert "Tesla T4" in hardware.label


def test_what_a_job_ran_in_is_recorded() -> None:
    environment = parsed(directory()).observations[0].environment
    assert (environment.os_name, environment.os_version) == ("rhel", "8.2")
    assert environment.python_version == "3.8"
    assert environment.base_image == "images.example/python:3.8"
    assert environment.native_packages == ("libgomp", "which")
    old = document_2020_02(runtime_environment={"operating_system": {"name": None}})
    environment = parsed(single(old)).observations[0].environment
    assert (environment.os_name, environment.python_version) == ("rhel", "3.6")


def test_without_specification_the_stack_is_unknown_and_it_says_so() -> None:
    document = parsed(directory(specification=False))
    assert document.stack is None
    assert document.stack_note == "the inspection was published without its specification"


def test_entries_that_name_no_version_are_noted() -> None:
    locked = lock(numpy="1.18.5")
    locked["default"]["mine"] = {"git": "https://code.example/mine", "ref": "abc"}
    locked["default"]["other"] = {"path": "."}
    python = {"requirements": {}, "requirements_locked": locked}
    document = parsed(directory(specification=specification(python=python)))
    assert document.stack is not None
    assert len(document.stack.packages) == 1
    assert document.stack_note == "without entries that name no version: mine, other"


def test_the_same_content_is_one_document_whatever_its_folder_and_spelling() -> None:
    first = parsed(directory(place="a/inspection-x"))
    files = directory_files()
    hwinfo = encoded(result_document()["hwinfo"])
    files["results/0/hwinfo"] = hwinfo.replace(b", ", b",\n  ")
    files["results/0/result"] = files["results/0/result"].replace(b", ", b",\n")
    second = parsed(RawDocument("elsewhere", files=files))
    assert first.document_id == second.document_id
    assert first.body == second.body


def test_a_larger_delivery_later_has_the_same_jobs() -> None:
    twin = result_document(hostname=None)
    small = parsed(directory(twin, twin))
    large = parsed(directory(twin, twin, twin, result_document(exit_code=3)))
    assert small.job_count == 2
    assert large.job_count == 4
    assert [seen.job_id for seen in large.observations[:2]] == [
        seen.job_id for seen in small.observations
    ]


def test_jobs_are_taken_in_the_order_of_their_numbers() -> None:
    results = [result_document(exit_code=number) for number in range(12)]
    document = parsed(directory(*results))
    assert [seen.exit_code for seen in document.observations] == list(range(12))
    assert [seen.position for seen in document.observations] == list(range(12))


def test_a_folder_without_host_names_is_named_by_its_folder() -> None:
    result = result_document(hostname=None, hwinfo=None)
    assert parsed(directory(result, place="x/inspection-y")).name == "inspection-y"
    document = parsed(single(result))
    assert document.name == f"inspection-{document.document_id[7:15]}"


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


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (single(specification()), "a specification without results"),
        (RawDocument(
            "x", files={"build/specification": encoded(specification())}
        ), "without results"),
        (single({"metadata": {}, "result": {}}), "'metadata, result'"),
        (single([1]), "list"),
        (single({**document_2020_02(), "schema_version": "inspection-2031"}), "inspection-2031"),
        (single({**document_2019(), "schema_version": 7}), "schema_version '7'"),
        (single({}), "no known generation"),
        (single({"a": [], "b": [document_2020_02()]}), "without results"),
    ],
)  # fmt: skip
def test_unknown_shapes_are_refused_by_name(raw: RawDocument, said: str) -> None:
    refusal = next(found for found in parse_inspections(raw) if isinstance(found, RefusedDocument))
    assert refusal.error.reason == Reason.UNKNOWN_SCHEMA
    assert said in refusal.error.message
    assert "inspection-directory" in refusal.error.message


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
