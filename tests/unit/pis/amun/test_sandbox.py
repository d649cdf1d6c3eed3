"""What a sandboxed job's end says of the job, and what of the sandbox."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from pis.amun.inspection_folder import failed_to_launch
from pis.amun.jobs import FinishedJob, JobEnd
from pis.amun.sandbox import end_of_job

ENDED = replace(
    failed_to_launch("", datetime(2024, 5, 1, tzinfo=UTC)), exit_code=0, ended=JobEnd.EXITED
)


def ending(exit_code: int, stderr: bytes = b"", stdout: bytes = b"") -> FinishedJob:
    return end_of_job(replace(ENDED, exit_code=exit_code, stderr=stderr, stdout=stdout))


@pytest.mark.parametrize("program", [b"bwrap", b"setpriv", b"prlimit"])
def test_a_sandbox_that_refuses_is_no_crash_of_the_script(program: bytes) -> None:
    finished = ending(1, program + b": No permissions to create new namespace\n")
    assert (finished.ended, finished.exit_code) == (JobEnd.LAUNCH_FAILED, 1)


def test_a_script_that_fails_is_a_crash() -> None:
    assert ending(1, b"Traceback: bwrap: x").ended is JobEnd.EXITED
    assert ending(1, b"bwrap: printed by the script", b"a line").ended is JobEnd.EXITED
    assert ending(0, b"bwrap: a warning").ended is JobEnd.EXITED


def test_a_signal_shows_as_in_a_shell() -> None:
    assert (ending(139).ended, ending(139).exit_code) == (JobEnd.SIGNALLED, -11)
