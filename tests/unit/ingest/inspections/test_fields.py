"""A field that is wrong is named, with its own reason; nothing else ever escapes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ingest.inspections.parsing import parse_inspections
from ingest.inspections.results import Library, library_of
from ingest.inspections.specification import stack_of
from ingest.sources.source_items import RawDocument, RefusedDocument
from model.errors import InvalidDocument, Reason
from model.json_fields import Fields
from model.measurements.inspection import (
    Correction,
    Exclusion,
    InspectionDocument,
    Observation,
    Outcome,
)
from model.measurements.units import matmul_operations, matmul_operations_of_2019
from tests.factories.documents import (
    directory,
    directory_files,
    document_2019,
    document_2020_02,
    lock,
    result_document,
    single,
    specification,
    stdout,
)
from tests.factories.errors import raised

NOW = datetime(2024, 6, 1, tzinfo=UTC)
RESULT = "results/0/result:$"


def observed(**changes: Any) -> Observation:
    (document,) = parse_inspections(directory(result_document(**changes)), now=NOW)
    assert isinstance(document, InspectionDocument), document
    return document.observations[0]


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"stdout": stdout(rate=-1)}, Reason.RATE_NEGATIVE, ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=0)}, Reason.RATE_ZERO, ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=-0.0)}, Reason.RATE_ZERO, ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=1e308)}, Reason.RATE_OVERFLOW, ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=1.1e7)}, Reason.RATE_IMPLAUSIBLE, ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=1.1e7, unit="GOPS")}, Reason.RATE_IMPLAUSIBLE,
         ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=1.1e6, unit="GB/s")}, Reason.RATE_IMPLAUSIBLE,
         ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=1.1e10, unit="images/s")}, Reason.RATE_IMPLAUSIBLE,
         ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=1.1e6, unit="imports/s")}, Reason.RATE_IMPLAUSIBLE,
         ".stdout['@result'].rate"),
        ({"stdout": stdout(unit="furlongs/s")}, Reason.UNKNOWN_UNIT, ".stdout['@result'].unit"),
        ({"stdout": stdout(rate="214")}, Reason.WRONG_TYPE, ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=True)}, Reason.WRONG_TYPE, ".stdout['@result'].rate"),
        ({"stdout": stdout(rate=None)}, Reason.MISSING_FIELD, ".stdout['@result'].rate"),
        ({"stdout": stdout(elapsed=-1)}, Reason.OUT_OF_RANGE, ".stdout['@result'].elapsed"),
        ({"stdout": stdout(elapsed=0)}, Reason.OUT_OF_RANGE, ".stdout['@result'].elapsed"),
        ({"stdout": stdout(elapsed="1")}, Reason.WRONG_TYPE, ".stdout['@result'].elapsed"),
        ({"stdout": stdout(repetitions=[1, "2"])}, Reason.WRONG_TYPE,
         ".stdout['@result'].repetitions[1]"),
        ({"stdout": {"@result": 3}}, Reason.WRONG_TYPE, ".stdout['@result']"),
        ({"stdout": [1]}, Reason.WRONG_TYPE, ".stdout"),
        ({"stdout": {"name": 5}}, Reason.WRONG_TYPE, ".stdout.name"),
        ({"stdout": {"name": "n" * 501}}, Reason.OUT_OF_RANGE, ".stdout.name"),
        ({"stderr": {}}, Reason.WRONG_TYPE, ".stderr"),
        ({"exit_code": None}, Reason.MISSING_FIELD, ".exit_code"),
        ({"exit_code": False}, Reason.WRONG_TYPE, ".exit_code"),
        ({"exit_code": 2**40}, Reason.OUT_OF_RANGE, ".exit_code"),
        ({"start_datetime": "2024-06-03T00:00:01"}, Reason.FUTURE_TIMESTAMP, ".start_datetime"),
        ({"end_datetime": "9999-12-31T23:59:59-01:00"}, Reason.WRONG_TYPE, ".end_datetime"),
        ({"end_datetime": "0002-01-01T00:00:00+99:00"}, Reason.WRONG_TYPE, ".end_datetime"),
        ({"end_datetime": "9999-12-31T23:59:59"}, Reason.FUTURE_TIMESTAMP, ".end_datetime"),
        ({"end_datetime": "yesterday"}, Reason.WRONG_TYPE, ".end_datetime"),
        ({"end_datetime": 1714557600}, Reason.WRONG_TYPE, ".end_datetime"),
        ({"usage": {"ru_maxrss": 1.5}}, Reason.WRONG_TYPE, ".usage.ru_maxrss"),
        ({"usage": {"ru_maxrss": -1}}, Reason.OUT_OF_RANGE, ".usage.ru_maxrss"),
        ({"usage": {"ru_utime": "7"}}, Reason.WRONG_TYPE, ".usage.ru_utime"),
        ({"usage": []}, Reason.WRONG_TYPE, ".usage"),
        ({"hwinfo": {"cpu_info": {"family": "6"}}}, Reason.WRONG_TYPE, ".hwinfo.cpu_info.family"),
        ({"hwinfo": {"cpu_info": {"family": 6}, "cpu_features": {"flags": ["sse", 1]}}},
         Reason.WRONG_TYPE, ".hwinfo.cpu_features.flags[1]"),
        ({"hwinfo": {"gpu": [{"name": 1}]}}, Reason.WRONG_TYPE, ".hwinfo.gpu[0].name"),
        ({"hostname": 1}, Reason.WRONG_TYPE, ".hostname"),
        ({"script_sha256": 1}, Reason.WRONG_TYPE, ".script_sha256"),
        ({"script_sha256": "a" * 600}, Reason.OUT_OF_RANGE, ".script_sha256"),
        ({"os_release": "fedora"}, Reason.WRONG_TYPE, ".os_release"),
    ],
)  # fmt: skip
def test_invalid_field_of_an_inspection_result_is_named(
    changes: dict[str, Any], reason: Reason, field: str
) -> None:
    (refusal,) = parse_inspections(directory(result_document(**changes), place="a/b"), now=NOW)
    assert isinstance(refusal, RefusedDocument), refusal
    assert (refusal.error.reason, refusal.error.field) == (reason, RESULT + field)
    assert refusal.place == "a/b"


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        ({"python": {"requirements_locked": {"default": {"a": {"version": "==oops"}}}}},
         Reason.INVALID_VERSION, ".python.requirements_locked.default.a.version"),
        ({"python": {"requirements_locked": {"default": {"a": {"version": "==" + "1" * 9000}}}}},
         Reason.OUT_OF_RANGE, ".python.requirements_locked.default.a.version"),
        ({"python": {"requirements_locked": {"default": {"a": 1}}}},
         Reason.WRONG_TYPE, ".python.requirements_locked.default.a"),
        ({"python": {"requirements_locked": {"default": {"-x": "==1"}}}},
         Reason.WRONG_TYPE, ".python.requirements_locked.default['-x']"),
        ({"python": []}, Reason.WRONG_TYPE, ".python"),
        ({"python": {"requirements_locked": {"default": {"a" * 201: "==1"}}}},
         Reason.OUT_OF_RANGE, f".python.requirements_locked.default.{'a' * 201}"),
        ({"python": {"requirements_locked": {"default": {"a": {"version": "==1",
                                                               "index": "i" * 129}}}}},
         Reason.OUT_OF_RANGE, ".python.requirements_locked.default.a.index"),
        ({"packages": ["a", "b" * 501]}, Reason.OUT_OF_RANGE, ".packages[1]"),
        ({"base": "b" * 501}, Reason.OUT_OF_RANGE, ".base"),
        ({"packages": ["a", 1]}, Reason.WRONG_TYPE, ".packages[1]"),
        ({"environment": [{"name": "OMP_NUM_THREADS"}]},
         Reason.WRONG_TYPE, ".environment[0].value"),
        ({"run": {"requests": {"cpu": "many"}}}, Reason.WRONG_TYPE, ".run.requests.cpu"),
        ({"run": {"requests": {"cpu": True}}}, Reason.WRONG_TYPE, ".run.requests.cpu"),
        ({"base": 5}, Reason.WRONG_TYPE, ".base"),
        ({"script": 5}, Reason.WRONG_TYPE, ".script"),
        ({"@created": "2024-07-01"}, Reason.FUTURE_TIMESTAMP, "['@created']"),
    ],
)  # fmt: skip
def test_invalid_field_of_an_inspection_specification_is_named(
    changes: dict[str, Any], reason: Reason, field: str
) -> None:
    raw = directory(specification=specification(**changes))
    (refusal,) = parse_inspections(raw, now=NOW)
    assert isinstance(refusal, RefusedDocument), refusal
    assert refusal.error.reason == reason
    assert refusal.error.field == "build/specification:$" + field


def test_invalid_field_of_a_single_file_inspection_is_named_by_its_path() -> None:
    wrong_2019 = document_2019(stdout={"256": {"rate": 0}})
    requested = document_2019()
    requested["specification"]["run"]["requests"]["hardware"]["cpu_family"] = "six"
    conflicting = {"a": [document_2020_02(), document_2020_02(requirements_locked=lock(a="1"))]}
    fields = []
    for document in (wrong_2019, requested, conflicting):
        (refusal,) = parse_inspections(single(document))
        assert isinstance(refusal, RefusedDocument), refusal
        fields.append((refusal.error.reason, refusal.error.field))
    assert fields == [
        (Reason.RATE_ZERO, "$.job_log.stdout['256'].rate"),
        (Reason.WRONG_TYPE, "$.specification.run.requests.hardware.cpu_family"),
        (Reason.CONFLICTING_FIELDS, "$.a"),
    ]


def test_zero_timestamp_of_go_is_read_as_unknown() -> None:
    seen = observed(start_datetime="0001-01-01T00:00:00Z", end_datetime="0001-01-01T00:00:00+23:59")
    assert (seen.started_at, seen.ended_at) == (None, None)


def test_too_long_inspection_name_is_refused() -> None:
    bad = result_document(hostname=None, hwinfo=None)
    raw = RawDocument("a.zip", "deep/" + "i" * 501, files=directory_files(bad))
    (refusal,) = parse_inspections(raw)
    assert isinstance(refusal, RefusedDocument), refusal
    assert refusal.error.reason == Reason.OUT_OF_RANGE
    (refusal,) = parse_inspections(single({"i" * 501: [document_2020_02()]}))
    assert isinstance(refusal, RefusedDocument), refusal
    assert (refusal.error.reason, refusal.error.field) == (Reason.OUT_OF_RANGE, "$." + "i" * 501)


def test_keys_derived_from_long_names_fit_the_stores() -> None:
    """PostgreSQL holds keys of 2704 bytes, Neo4j of about 8 kB."""
    wide = "\U0001f40d"
    default = {"a" * 200: {"version": "==1", "index": wide * 128}}
    raw = directory(
        result_document(hostname=None, hwinfo=None),
        specification=specification(
            base=wide * 500,
            packages=[wide * 500],
            python={"requirements_locked": {"default": default}},
        ),
        place=wide * 500,
    )
    (document,) = parse_inspections(raw)
    assert isinstance(document, InspectionDocument), document
    environment = document.observations[0].environment
    keys = [document.name, document.stack.packages[0].purl, environment.base_image or ""]
    assert all(len(key.encode()) < 2704 for key in [*keys, *environment.native_packages])


def test_successful_job_without_a_measurement_counts_as_no_result() -> None:
    prints: list[Any] = ["", "hello", {}, None, {"@result": {}}]
    for printed in prints:
        seen = observed(stdout=printed)
        assert seen.outcome is Outcome.NO_RESULT
        assert seen.rate is None


def test_output_of_a_crashed_job_is_not_read_as_a_measurement() -> None:
    seen = observed(exit_code=1)
    assert seen.outcome is Outcome.CRASHED
    assert (seen.rate, seen.elapsed_s, seen.parameters) == (None, None, {})


def test_repetitions_are_stored_in_seconds() -> None:
    seen = observed(stdout=stdout(repetitions=[1.0, 1.25, 1.5]))
    assert seen.repetitions_s == (0.001, 0.00125, 0.0015)
    assert seen.elapsed_s == 0.00125


def _mini_batch(operations: float, elapsed_ms: float = 50.0, **changes: Any) -> Observation:
    printed = stdout(elapsed=elapsed_ms, rate=operations / elapsed_ms / 1e6)
    printed["@parameters"] = {"matrix_size": 512, "mini_batch": 40, "device": "cpu"}
    return observed(stdout={**printed, **changes})


def test_miscounted_matmul_rates_of_2019_are_corrected() -> None:
    seen = _mini_batch(matmul_operations_of_2019(512, 40))
    assert seen.correction == Correction.TENSORFLOW_MATMUL_MINI_BATCH
    assert seen.rate == pytest.approx(matmul_operations(512, 40) / 0.05)
    assert seen.rate is not None
    assert seen.reported_rate == pytest.approx(0.51202 * seen.rate, rel=1e-4)


@pytest.mark.parametrize(
    "seen",
    [
        _mini_batch(matmul_operations(512, 40)),
        _mini_batch(matmul_operations_of_2019(512, 40) * 1.002),
        _mini_batch(matmul_operations_of_2019(512, 40), component="pytorch"),
        _mini_batch(matmul_operations_of_2019(512, 40), name="PiConv2D"),
    ],
)
def test_rate_is_corrected_only_if_the_error_is_proven(seen: Observation) -> None:
    assert seen.correction is None
    assert seen.rate == seen.reported_rate


@pytest.mark.parametrize(
    ("component", "device", "exclusion"),
    [
        ("pytorch", "cuda:0", Exclusion.PYTORCH_MATMUL_UNSYNCHRONISED),
        ("pytorch", "GPU", Exclusion.PYTORCH_MATMUL_UNSYNCHRONISED),
        ("pytorch", "cpu", None),
        ("tensorflow", "gpu", None),
    ],
)
def test_gpu_matmul_measured_without_synchronisation_is_excluded(
    component: str, device: str, exclusion: Exclusion | None
) -> None:
    printed = {**stdout(), "component": component, "@parameters": {"device": device}}
    seen = observed(stdout=printed)
    assert seen.quarantine_reason == exclusion
    assert seen.rate == pytest.approx(214.5e9)


RUNNING = {"configuration": "OpenBLAS 0.3.27  USE64BITINT DYNAMIC_ARCH", "kernels": "Cooperlake"}


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ({}, Library()),
        ("text", Library()),
        ([1], Library()),
        ({"threads": {"requested": 4, "used": 2}}, Library(threads=2)),
        ({"threads": {"requested": 4, "used": None}}, Library(threads=4)),
        ({"threads": {"requested": "4", "used": True}}, Library()),
        ({"threads": {"used": -1}}, Library()),
        ({"threads": {"used": 2**40}}, Library()),
        ({"threads": 2}, Library()),
        ({"build": {"blas_runtime": [RUNNING]}}, Library(blas="OpenBLAS 0.3.27 Cooperlake")),
        ({"build": {"blas": {"name": "mkl", "version": "2024.1"}}}, Library(blas="mkl 2024.1")),
        ({"build": {"blas": "mkl", "blas_runtime": []}}, Library(blas="mkl")),
        ({"build": {"blas": "mkl", "blas_runtime": [RUNNING]}},
         Library(blas="OpenBLAS 0.3.27 Cooperlake")),
        ({"build": {"blas_runtime": [7], "blas": 7}}, Library()),
        ({"build": {"blas_runtime": [{"configuration": 7, "kernels": "x" * 200}]}},
         Library(blas="x" * 100)),
        ({"build": "x"}, Library()),
        ({"clock": {"tick_ns": 100}}, Library(tick_s=1e-7)),
        ({"clock": {"tick_ns": 0}}, Library()),
        ({"clock": {"tick_ns": 10**10}}, Library()),
        ({"clock": {"tick_ns": True}}, Library()),
    ],
)  # fmt: skip
def test_library_is_recognised_from_its_printed_output(printed: Any, expected: Library) -> None:
    assert library_of(printed) == expected


def test_lock_with_two_versions_of_a_package_is_refused() -> None:
    lock = {"default": {"numpy": {"version": "==1.18.1"}, "NumPy": {"version": "==1.99.0"}}}
    with raised(InvalidDocument, reason=Reason.CONFLICTING_FIELDS):
        stack_of(Fields(lock))
