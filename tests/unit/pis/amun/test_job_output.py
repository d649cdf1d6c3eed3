"""What counts as measured: the runner and ingest have to agree on every output."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ingest.inspections.parsing import parse_inspections
from model.measurements.inspection import Outcome
from pis.amun.inspect import InspectOptions, inspections_of
from pis.amun.inspection_folder import job_result, unknown_setup
from pis.amun.job_output import parsed_output, readings_of
from pis.amun.jobs import FinishedJob, JobEnd, failed_to_launch
from pis.amun.launchers import Job
from pis.amun.specification import load_specification
from tests.factories.inspections import inspection, job_document, measured, printed
from tests.factories.specifications import SCRIPT, specification

GOOD = {"rate": 12.5, "elapsed": 1.0}


def said(result: Any = GOOD, **fields: Any) -> dict[str, Any]:
    return {"name": "Mine", "component": "numpy", "@parameters": {}, "@result": result, **fields}


OUTPUTS: list[Any] = [
    said(),
    said({"rate": 1}),
    said({**GOOD, "unit": "GB/s", "repetitions": [1, 2.5]}),
    {"@results": [said(), said({})]},
    {"256": {"rate": 1.5, "elapsed_ms": 3}},
    said({"rate": -1.0, "elapsed": 1.0}),
    said({"rate": 0}),
    said({"rate": 1e12}),
    said({"rate": 1e305}),
    said({"rate": True}),
    said({"rate": "fast"}),
    said({"elapsed": 1.0}),
    said({"rate": 1.0, "elapsed": -1.0}),
    said({"rate": 1.0, "elapsed": 0}),
    said({"rate": 1.0, "elapsed": 1e300}),
    said({"rate": 1.0, "elapsed": "1"}),
    said({**GOOD, "unit": "parsecs"}),
    said({**GOOD, "unit": 5}),
    said({**GOOD, "repetitions": [1, -1]}),
    said({**GOOD, "repetitions": {}}),
    said({**GOOD, "repetitions": [None]}),
    said([GOOD]),
    said({}),
    said(None),
    said(name="x" * 501),
    said(name=5),
    said(component=[]),
    said(**{"@parameters": []}),
    said(**{"@parameters": {"device": 5}}),
    said(**{"@results": []}),
    {"@results": []},
    {"@results": [None]},
    {"@results": [said({"rate": -1})]},
    {"@results": {}},
    {"256": None},
    {"256": {"rate": -1}},
    {"name": "Mine"},
    {},
    "",
    "text",
]


@pytest.mark.parametrize("output", OUTPUTS, ids=str)
@pytest.mark.parametrize("exit_code", [0, 1])
def test_runner_and_ingest_agree_on_measured_jobs(output: Any, exit_code: int) -> None:
    result = job_document(0, output, exit_code=exit_code)
    (document,) = parse_inspections(inspection(result))
    outcomes = {it.outcome for it in document.observations}  # type: ignore[union-attr]
    assert bool(readings_of(result).rates) == (outcomes == {Outcome.MEASURED})
    assert (readings_of(result).fault is None) == (exit_code != 0 or outcomes == {Outcome.MEASURED})


@pytest.mark.parametrize("spread", [0.005, 0.9])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"conditions": {"throttled": True, "swapped": True}}, "throttled"),
        ({"conditions": {"swapped": True}}, "swapped"),
        ({"usage": {"ru_nswap": 1}}, "swapped"),
        ({"conditions": {"steal_share": 0.02}}, "steal"),
        ({"conditions": {"steal_share": None}}, None),
    ],
)
def test_runner_and_ingest_agree_on_unstable_jobs(
    changes: dict[str, Any], reason: str | None, spread: float
) -> None:
    result = job_document(0, printed(measured(200.0, spread=spread)), **changes)
    (document,) = parse_inspections(inspection(result))
    (observation,) = document.observations  # type: ignore[union-attr]
    wanted = reason or ("spread" if spread > 0.1 else None)
    assert readings_of(result).unstable == (observation.unstable_reason,) == (wanted,)


def finished(stdout: bytes, truncated: bool = False) -> FinishedJob:
    now = datetime.now(UTC)
    return FinishedJob(0, JobEnd.EXITED, stdout, b"", truncated, False, {}, now, now, {})


@pytest.mark.parametrize(
    ("stdout", "words"),
    [
        (b"", "nothing, or an empty object"),
        (b"hello", "not JSON: Expecting value: line 1, column 1 in 'hello'"),
        (b'{"a": 1}\n{"b": 2}', "line 2, column 1 in '{\"b\": 2}'"),
        (b'{"@result": {"rate": NaN}}', "NaN is not a number of JSON"),
        (b"{}\n{}\n", "more than one JSON document: line 2"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a": ' + b"[" * 300 + b"]" * 300 + b"}", "nested deeper"),
        (b"[]", "not an object"),
        (b"{}", "an empty object"),
        (b'{"rate": 5}', "no @result"),
        (b'{"@result": {"rate": -5}}', "a rate of -5e+09 FLOP/s"),
    ],
)
def test_job_log_says_why_there_is_no_result(stdout: bytes, words: str) -> None:
    (made,) = inspections_of(
        [load_specification(specification(script=SCRIPT))], "local", InspectOptions(Path())
    )
    job = job_result(made, Job("i", 0, "r", 0, 1, True), finished(stdout), unknown_setup("local"))
    assert "printed no result: " in job.log
    assert words in job.log
    written = json.loads(json.dumps(job.result))
    assert words in (readings_of(written).fault or "")


def test_job_log_says_that_output_was_truncated() -> None:
    result = {
        "exit_code": 0,
        "stdout": parsed_output(b'{"a": 1}', truncated=True),
        "truncated": {"stdout": True},
    }
    assert readings_of(result).fault == "standard output is longer than the limit and was cut"


def test_output_of_a_crashed_job_is_not_reported_as_faulty() -> None:
    made = failed_to_launch("gone", datetime.now(UTC))
    assert readings_of({"exit_code": made.exit_code, "ended": "launch-failed"}).fault is None
    assert not readings_of({"exit_code": 0, "ended": "timed-out", "stdout": said()}).rates
