"""What the executor of this project writes is read in full: units, turns, limits, failures."""

from datetime import timedelta
from typing import Any

import pytest

from ingest.inspections.parsing import parse_inspections
from ingest.sources.source_items import RawDocument, RefusedDocument
from model.errors import Reason
from model.measurements.inspection import Exclusion, InspectionDocument, Observation, Outcome
from model.measurements.job_stability import BUILD_REASONS
from tests.factories.inspections import (
    BEGAN,
    RUN,
    failed_status,
    hwinfo,
    inspection,
    inspection_files,
    job_document,
    measured,
    printed,
    specification_document,
    status_document,
)


def parsed(raw: RawDocument) -> InspectionDocument:
    (document,) = parse_inspections(raw)
    assert isinstance(document, InspectionDocument), document
    return document


def refused(raw: RawDocument) -> tuple[str, str]:
    (refusal,) = parse_inspections(raw)
    assert isinstance(refusal, RefusedDocument), refusal
    return refusal.error.reason, refusal.error.field


def observed(output: Any = None, **changes: Any) -> Observation:
    return parsed(inspection(job_document(0, output, **changes))).observations[0]


@pytest.mark.parametrize(
    ("cpus", "cpu_quota", "quota"),
    [
        (4, None, None),
        (8, None, None),
        (None, None, None),
        (4, 1.5, 1.5),
        (2, 1.5, 1.5),
        (2, 3.0, 2.0),
        (None, 0.5, 0.5),
    ],
)
def test_fewer_cpus_than_the_machine_has_are_recorded_as_a_quota(
    cpus: int | None, cpu_quota: float | None, quota: float | None
) -> None:
    limits = {"cpus": cpus, "cpu_quota": cpu_quota, "memory_bytes": 2**30, "threads": {}}
    identity = observed(limits=limits).hardware.identity
    assert identity.get("cpu_quota") == quota
    assert "threads_environment" not in identity


@pytest.mark.parametrize("version", [2, 0, "1", 1.0, True])
def test_inspection_of_an_unknown_document_version_is_refused(version: Any) -> None:
    raw = inspection(job_document(0, document_version=version))
    assert refused(raw) == (Reason.UNKNOWN_SCHEMA, "results/0/result:$.document_version")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"host": 1}, ".host"),
        ({"boot": 1}, ".boot"),
        ({"environment_build": 1}, ".environment_build"),
        ({"inspection_id": 1}, ".inspection_id"),
        ({"script": "x"}, ".script"),
        ({"script": {"name": 1, "bundled": True}}, ".script.name"),
        ({"script": {"name": "matmul", "bundled": 1}}, ".script.bundled"),
        ({"ended": 1}, ".ended"),
        ({"schedule": []}, ".schedule"),
        ({"schedule": {"run": RUN, "block": "0", "interleaved": True}}, ".schedule.block"),
        ({"schedule": {"run": 1}}, ".schedule.run"),
        ({"schedule": {"interleaved": "yes"}}, ".schedule.interleaved"),
        ({"conditions": {"throttled": 1}}, ".conditions.throttled"),
        ({"conditions": {"steal_share": "0"}}, ".conditions.steal_share"),
        ({"conditions": {"before": {"load": ["1"]}}}, ".conditions.before.load"),
        ({"launcher": 1}, ".launcher"),
        ({"limits": {"cpus": 1.5}}, ".limits.cpus"),
        ({"limits": {"cpu_quota": "1"}}, ".limits.cpu_quota"),
        ({"limits": {"threads": {"OMP_NUM_THREADS": 1.5}}}, ".limits.threads.OMP_NUM_THREADS"),
    ],
)
def test_invalid_field_of_a_job_document_is_named(changes: dict[str, Any], field: str) -> None:
    expected = (Reason.WRONG_TYPE, "results/0/result:$" + field)
    assert refused(inspection(job_document(0, **changes))) == expected


def test_job_condition_with_a_share_above_one_is_refused() -> None:
    raw = inspection(job_document(0, conditions={"steal_share": 1.5}))
    assert refused(raw) == (Reason.OUT_OF_RANGE, "results/0/result:$.conditions.steal_share")


@pytest.mark.parametrize(
    ("output", "reason", "field"),
    [
        (printed(measured(-1.0)), Reason.RATE_NEGATIVE, "$.stdout['@result'].rate"),
        (printed(measured(1.0, "m/s")), Reason.UNKNOWN_UNIT, "$.stdout['@result'].unit"),
        (
            {"@results": [measured(1.0), {"@result": {"rate": "fast"}}]},
            Reason.WRONG_TYPE,
            "$.stdout['@results'][1]['@result'].rate",
        ),
        ({"@results": {}}, Reason.WRONG_TYPE, "$.stdout['@results']"),
        (
            {**printed(measured(1.0)), "@results": []},
            Reason.CONFLICTING_FIELDS,
            "$.stdout['@results']",
        ),
        ({"512": 3}, Reason.WRONG_TYPE, "$.stdout['512']"),
        ({"name": 5}, Reason.WRONG_TYPE, "$.stdout.name"),
    ],
)
def test_invalid_output_of_a_job_does_not_affect_other_jobs(
    output: Any, reason: Reason, field: str
) -> None:
    good, bad = parsed(inspection(job_document(0), job_document(1, output))).observations
    assert good.outcome is Outcome.MEASURED
    assert (bad.outcome, bad.failure_reason) == (Outcome.NO_RESULT, reason)
    assert bad.failure_message.startswith(field)
    assert (bad.indicator.name, bad.indicator.component) == ("PiMatmul", "numpy")


@pytest.mark.parametrize("output", [[1], 7, True, "text", {}, ""])
def test_job_output_that_is_no_measurement_counts_as_no_result(output: Any) -> None:
    seen = observed(output)
    assert (seen.outcome, seen.failure_reason) == (Outcome.NO_RESULT, None)


@pytest.mark.parametrize("ended", ["timed-out", "memory-limit", "output-limit"])
@pytest.mark.parametrize("exit_code", [0, -15])
def test_terminated_job_counts_as_crashed_despite_its_output(ended: str, exit_code: int) -> None:
    seen = observed(exit_code=exit_code, ended=ended)
    assert (seen.outcome, seen.failure_reason) == (Outcome.CRASHED, ended)
    assert (seen.exit_code, seen.rate) == (exit_code, None)


@pytest.mark.parametrize(
    ("ended", "exit_code"),
    [("launch-failed", 127), ("host-memory", -9), ("signalled", -9), ("signalled", -15)],
)
@pytest.mark.parametrize("marked", [True, False])
def test_job_ended_by_the_host_is_not_blamed_on_the_stack(
    ended: str, exit_code: int, marked: bool
) -> None:
    mark = {"host_problem": True} if marked else {}  # documents of earlier releases have none
    document = parsed(inspection(job_document(0, "", exit_code=exit_code, ended=ended, **mark)))
    (seen,) = document.observations
    assert (seen.outcome, seen.failure_reason) == (Outcome.HOST_PROBLEM, ended)
    assert seen.quarantine_reason == Exclusion.HOST_PROBLEM
    assert document.job_count == 0


@pytest.mark.parametrize("exit_code", [-11, -6, -4, -8, -7])
def test_job_ended_by_a_fault_signal_counts_as_crashed(exit_code: int) -> None:
    seen = observed(exit_code=exit_code, ended="signalled")
    assert (seen.outcome, seen.quarantine_reason) == (Outcome.CRASHED, None)


@pytest.mark.parametrize(
    ("packages", "parameters", "component"),
    [
        ({"numpy": "2.1.0"}, {}, "numpy"),
        ({"torch": "2.4.0", "numpy": "2.1.0"}, {}, "torch"),
        ({"tensorflow-cpu": "2.16.2", "numpy": "1.26.4"}, {}, "tensorflow"),
        ({"torch": "2.4.0", "tensorflow": "2.16.2"}, {}, "numpy"),
        ({"torch": "2.4.0", "numpy": "2.1.0"}, {"framework": "numpy"}, "numpy"),
    ],
)
def test_framework_of_a_job_is_the_requested_or_the_only_installed_framework(
    packages: dict[str, str], parameters: dict[str, str], component: str
) -> None:
    specification = specification_document(packages, parameters=parameters)
    raw = inspection(job_document(0, "", exit_code=1), specification=specification)
    assert parsed(raw).observations[0].indicator.component == component


def failed(**parts: Any) -> Observation:
    (seen,) = parsed(inspection(**{"status": failed_status(), **parts})).observations
    return seen


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        *((reason, "in words") for reason in sorted(BUILD_REASONS)),
        ("build-failed", "cause: No space left on device (os error 28)"),
        ("build-failed", "neither podman nor docker is installed"),
        ("build-failed", "uv cannot be run: no such file"),
        ("build-failed", "ClusterUnavailable: no Ray cluster answers"),
        ("build-failed", "Failed to download distribution due to network timeout."),
    ],
)
def test_build_failure_caused_by_the_host_is_not_blamed_on_the_stack(
    reason: str, message: str
) -> None:
    document = parsed(inspection(status=failed_status(reason, message)))
    (seen,) = document.observations
    assert (seen.outcome, seen.failure_reason) == (Outcome.HOST_PROBLEM, reason)
    assert seen.quarantine_reason == Exclusion.HOST_PROBLEM
    assert document.job_count == 0


def test_runner_decides_whether_a_failure_is_a_host_problem() -> None:
    marked = {**failed_status("build-failed"), "host_problem": True}
    assert failed(status=marked).outcome is Outcome.HOST_PROBLEM
    cleared = {**failed_status("timed-out"), "host_problem": False}
    assert failed(status=cleared).outcome is Outcome.BUILD_FAILED
    wrong = inspection(status={**failed_status(), "host_problem": "yes"})
    assert refused(wrong) == (Reason.WRONG_TYPE, "build/status:$.host_problem")


def test_long_failure_message_is_shortened_in_rows_and_complete_in_the_document() -> None:
    raw = inspection(status=failed_status(message="conflict " * 500))
    document = parsed(raw)
    assert len(document.observations[0].failure_message or "") == 500
    assert document.body.count(b"conflict") == 500


def test_each_build_attempt_is_a_separate_observation() -> None:
    later = (BEGAN + timedelta(hours=1)).isoformat()
    again = failed(status={**failed_status(), "started_at": later})
    other_stack = failed(specification=specification_document({"numpy": "1.15.0"}))
    assert len({failed().observation_id, again.observation_id, other_stack.observation_id}) == 3
    assert failed() == failed()


@pytest.mark.parametrize("state", ["succeeded", "running", None])
def test_inspection_with_a_successful_build_and_no_jobs_is_refused(state: str | None) -> None:
    raw = inspection(status=status_document(state=state))
    assert refused(raw)[0] == Reason.UNKNOWN_SCHEMA


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"exit_code": "1"}, ".exit_code"),
        ({"reason": 1}, ".reason"),
        ({"message": []}, ".message"),
        ({"started_at": 5}, ".started_at"),
    ],
)
def test_invalid_field_of_a_build_status_is_named(changes: dict[str, Any], field: str) -> None:
    raw = inspection(status={**failed_status(), **changes})
    assert refused(raw) == (Reason.WRONG_TYPE, "build/status:$" + field)


def test_build_status_changes_the_inspection_identifier() -> None:
    first = parsed(inspection(job_document(0)))
    second = parsed(inspection(job_document(0), status=status_document(launcher="ray")))
    assert first.document_id != second.document_id
    assert first.observations[0].job_id == second.observations[0].job_id
    files = inspection_files([job_document(0)])
    del files["build/status"]
    assert b"status" not in parsed(RawDocument("x", files=files)).body[-200:]


def test_hosts_of_one_hardware_class_share_a_comparison_key() -> None:
    here = observed()
    there = observed(host="sha256:" + "ff" * 32)
    assert here.comparison_key == there.comparison_key
    other = observed(hwinfo=hwinfo(stepping=7))
    assert here.comparison_key != other.comparison_key
