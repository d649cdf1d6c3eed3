"""What the person who waits is told, and what scripts read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.inspect_view import Lines, print_outcomes
from pis.amun.installer import BuildLog, build_failure, reason_of
from pis.amun.launchers import BuildFailed, Job
from pis.amun.outcomes import InspectionOutcome, Noise
from tests.factories.golden import compare_views
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


NOISY = replace(MEASURED, noise=(Noise(10, {"spread": 1, "steal": 5}, 0.97), Noise(10, {}, 0.02)))
BROKEN = replace(MEASURED, state="failed", measured=0, failed=1, fault="a unit", not_run=2)
OUTCOMES = {
    "a stack that was not built": [MEASURED, NOT_BUILT],
    "a job without a result": [replace(MEASURED, state="failed", failed=1, fault="a rate of zero")],
    "jobs that did not run": [BROKEN, replace(MEASURED, not_run=3)],
    "a long identifier": [replace(MEASURED, inspection_id=f"inspection-{'x' * 150}-1f2e3d4c")],
    "noise": [NOISY],
    "steady jobs": [replace(MEASURED, noise=(Noise(10, {}, 0.02),))],
}


def lines_of_jobs() -> list[str]:
    """What is told of three jobs while they run."""
    lines: list[str] = []
    told = Lines(lines.append)
    crashed = {"exit_code": 1, "stderr": "Trace\nValueError: \x1b[x\n"}
    told.jobs_started(3)
    for number, changes in enumerate(({}, crashed, {"stdout": "NaN"})):
        told.job_finished(Job("i", number, "r", number, 1, True), {**measured(), **changes})
    return lines


def test_outcomes_are_shown_as_in_their_golden_file(capsys: pytest.CaptureFixture[str]) -> None:
    views = {"jobs": "\n".join(lines_of_jobs())}
    for title, outcomes in OUTCOMES.items():
        print_outcomes(outcomes, OUT, as_json=False, ingested=title == "steady jobs")
        told = capsys.readouterr()
        print_outcomes(outcomes, OUT, as_json=True, ingested=False)
        document = capsys.readouterr()
        assert document.err == ""
        json.loads(document.out)
        views[title] = f"{told.out}--- stderr\n{told.err}--- JSON\n{document.out}"
    compare_views("inspections", views)
