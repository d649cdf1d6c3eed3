"""What the person who waits is told, and what scripts read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli.inspect_view import Lines, print_outcomes
from pis.amun.installer import BuildLog, build_failure, reason_of
from pis.amun.launchers import BuildFailed, Job
from pis.amun.outcomes import InspectionOutcome, Noise
from tests.factories.specifications import measured

OUT = Path("/out dir")
MEASURED = InspectionOutcome(
    "inspection-matmul-1f2e3d4c", OUT / "inspection-matmul-1f2e3d4c", "measured", "numpy", "2.2.6",
    3, 0, (10.0, 1234.5, 2000.0), "GFLOPS",
)  # fmt: skip
NOT_BUILT = InspectionOutcome(
    "inspection-matmul-00000000", OUT / "inspection-matmul-00000000", "build_failed", None, None,
    0, 0, (), None, BuildFailed("no-wheel", "there is none"),
)  # fmt: skip


def test_the_table_names_stacks_rates_and_the_next_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_outcomes([MEASURED, NOT_BUILT], OUT, as_json=False, ingested=False)
    said = capsys.readouterr()
    assert "numpy 2.2.6" in said.out
    assert "1,234 GFLOPS" in said.out or "1,235 GFLOPS" in said.out
    assert "not built: no-wheel" in said.out
    assert "next: thoth ingest inspections '/out dir'" in said.err


def test_after_ingest_the_stacks_are_next(capsys: pytest.CaptureFixture[str]) -> None:
    print_outcomes([MEASURED], OUT, as_json=False, ingested=True)
    assert "next: thoth stacks" in capsys.readouterr().err


def test_scripts_read_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    print_outcomes([MEASURED, NOT_BUILT], OUT, as_json=True, ingested=False)
    said = capsys.readouterr()
    first, second = json.loads(said.out)["inspections"]
    assert (first["state"], first["jobs_measured"], first["median_rate"]) == ("measured", 3, 1234.5)
    assert (second["state"], second["reason"]) == ("build_failed", "no-wheel")
    assert said.err == ""


def test_a_job_that_failed_is_reported_with_its_last_words() -> None:
    lines: list[str] = []
    told = Lines(lines.append)
    told.jobs_started(2)
    crashed: dict[str, Any] = {
        **measured(),
        "exit_code": 1,
        "stderr": "Trace\nValueError: \x1b[x\n",
    }
    told.job_finished(Job("i", 0, "r", 0, 1, True), measured())
    told.job_finished(Job("i", 1, "r", 1, 1, True), crashed)
    assert lines[1:] == [
        "i job 0: measured, 1 left",
        "i job 1: exited, exit code 1: ValueError: \\x1b[x, 0 left",
    ]


def test_a_build_log_never_has_a_password() -> None:
    lines: list[str] = []
    log = BuildLog(lines.append)
    log.write("from https://me:hidden@own.example/simple\nand more")
    error = build_failure("build-failed", "no answer from https://me:hidden@own.example", log)
    assert "hidden" not in str(error) + error.log + "".join(lines)
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("error: Hash mismatch for `numpy==2.2.6`", "hash-mismatch"),
        ("cause: No space left on device (os error 28)", "disk-full"),
        ("error sending request for url (http://x/)", "index-unreachable"),
        ("cause: dns error", "index-unreachable"),
        ("Because numpy==1.7.0 has no usable\n wheels and you require", "no-wheel"),
        ("Because there is no version of numpy==99.0", "no-wheel"),
        ("Because nobody was not found in the package registry", "no-wheel"),
        ("something else", "build-failed"),
    ],
)
def test_the_installers_words_tell_the_reason(said: str, reason: str) -> None:
    assert reason_of(said) == reason


def test_a_failed_build_survives_the_way_between_processes() -> None:
    import pickle

    error = BuildFailed("no-wheel", "there is none", log="all\n", exit_code=2, hint="another")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (again.reason, again.log, again.exit_code, again.hint) == (
        "no-wheel",
        "all\n",
        2,
        "another",
    )
    assert str(again) == "there is none [no-wheel]"


def test_a_job_without_result_is_reported_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines: list[str] = []
    told = Lines(lines.append)
    told.jobs_started(1)
    told.job_finished(Job("i", 0, "r", 0, 1, True), {**measured(), "stdout": "NaN"})
    assert lines == [
        "1 job to run",
        "i job 0: printed no result: NaN is not a JSON number, 0 left",
    ]
    failed_one = replace(MEASURED, state="failed", failed=1, fault="a rate of zero")
    print_outcomes([failed_one], OUT, as_json=False, ingested=False)
    assert "1 job failed: printed no result: a rate of zero; see" in capsys.readouterr().err


def test_jobs_that_did_not_run_are_reported_with_the_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broken = replace(MEASURED, state="failed", measured=0, failed=1, fault="a unit", not_run=2)
    print_outcomes([broken, replace(MEASURED, not_run=3)], OUT, as_json=False, ingested=False)
    told = capsys.readouterr().err
    assert "stopped: 5 jobs did not run. The script must print one JSON object" in told
    assert "thoth pi pin --script" in told
    assert "next: " not in told
    print_outcomes([broken], OUT, as_json=True, ingested=False)
    (document,) = json.loads(capsys.readouterr().out)["inspections"]
    assert (document["jobs_not_run"], document["fault"]) == (2, "a unit")


def test_an_identifier_stays_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    long = replace(MEASURED, inspection_id=f"inspection-{'x' * 150}-1f2e3d4c")
    print_outcomes([long], OUT, as_json=False, ingested=False)
    assert long.inspection_id in capsys.readouterr().out


NOISY = replace(
    MEASURED,
    noise=(Noise(10, {"spread": 1, "steal": 5}, 0.97), Noise(10, {}, 0.02)),
)


def test_noise_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    print_outcomes([NOISY], OUT, as_json=False, ingested=False)
    told = capsys.readouterr()
    assert "97.0%" in told.out
    lines = told.err.splitlines()
    assert lines[:3] == [
        "left out of comparisons: numpy 2.2.6: "
        "1 with scattered repetitions, 5 with stolen CPU time",
        "warning: numpy 2.2.6: comparisons leave out 6 of 10 jobs",
        "warning: numpy 2.2.6: the jobs spread by 97 %, so only large differences can be settled",
    ]
    print_outcomes([NOISY], OUT, as_json=True, ingested=False)
    (document,) = json.loads(capsys.readouterr().out)["inspections"]
    assert document["measurements"][0] == {
        "jobs": 10, "left_out": {"spread": 1, "steal": 5}, "spread_pct": 97.0,
    }  # fmt: skip
    assert len(document["warnings"]) == 2


def test_steady_jobs_are_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    steady = replace(MEASURED, noise=(Noise(10, {}, 0.02),))
    print_outcomes([steady], OUT, as_json=False, ingested=True)
    assert capsys.readouterr().err == "next: thoth stacks\n"
