"""Jobs as real processes: how they end, and that nothing of them stays."""

import itertools
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from pis.amun import jobs, limit_watch
from pis.amun.jobs import STDOUT_BYTES, FinishedJob, JobEnd, run_job
from pis.amun.limit_watch import Watch
from pis.amun.processes import CONFINED, JobLimits
from tests.services.waiting import wait_until

ROOT = Path(__file__).parents[4]
PATH = {"PATH": "/usr/bin:/bin"}


def run(program: str, tmp_path: Path, **options: Any) -> FinishedJob:
    limits = options.pop("limits", JobLimits(wall_s=60.0))
    environment = options.pop("environment", PATH)
    command = [sys.executable, "-c", program]
    return run_job(command, environment=environment, limits=limits, workdir=tmp_path, **options)


def shell(program: str, tmp_path: Path, **options: Any) -> FinishedJob:
    limits = options.pop("limits", JobLimits(wall_s=60.0))
    command = ["/bin/sh", "-c", program]
    return run_job(command, environment=PATH, limits=limits, workdir=tmp_path, **options)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(params=["with a pidfd", "without"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of learning that a process ended."""

    def refuse(pid: int) -> int:
        raise PermissionError(pid)

    if request.param == "without":
        monkeypatch.setattr(os, "pidfd_open", refuse)


@pytest.mark.usefixtures("_either_way")
def test_output_exit_code_and_usage_are_recorded(tmp_path: Path) -> None:
    finished = run("import sys; print('out'); print('err', file=sys.stderr); exit(3)", tmp_path)
    assert (finished.exit_code, finished.ended) == (3, JobEnd.EXITED)
    assert (finished.stdout, finished.stderr) == (b"out\n", b"err\n")
    assert finished.usage["ru_maxrss"] > 0
    assert finished.started_at <= finished.ended_at
    assert finished.conditions["before"]["cpu_ticks"] > 0


def test_job_sees_only_the_environment_variables_given_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    finished = run_job(
        ["/usr/bin/env"], environment={"A": "b"}, limits=JobLimits(), workdir=tmp_path
    )
    assert finished.stdout == b"A=b\n"


def test_job_ended_by_a_signal_has_a_negative_exit_code(tmp_path: Path) -> None:
    finished = run("import os; os.kill(os.getpid(), 11)", tmp_path)
    assert (finished.exit_code, finished.ended) == (-11, JobEnd.SIGNALLED)


def test_job_that_ended_in_time_has_not_timed_out_if_its_runner_looks_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    looks = itertools.count()  # the first look sets the deadline

    def monotonic() -> float:
        if not next(looks):
            return 0.0
        (tmp_path / "go").touch()
        os.waitid(os.P_PID, started[0], os.WEXITED | os.WNOWAIT)
        return 3600.0

    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=monotonic))
    program = "until [ -e go ]; do sleep 0.01; done; exit 3"
    finished = shell(program, tmp_path, watch=lambda pid, _limits: started.append(pid))
    assert (finished.exit_code, finished.ended) == (3, JobEnd.EXITED)


@pytest.mark.usefixtures("_either_way")
def test_a_job_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "GRACE_S", 0.2)
    time_is_up_once_there_is(tmp_path / "deaf", monkeypatch)
    program = "trap '' TERM; echo 1; touch deaf; while :; do echo; sleep 9; done"
    finished = shell(program, tmp_path)
    assert (finished.exit_code, finished.ended) == (-signal.SIGKILL, JobEnd.TIMED_OUT)
    assert finished.stdout.split() == [b"1"]


def time_is_up_once_there_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the clock of jobs go on by an hour when a job makes ``file``.

    A job that prints something afterwards wakes its runner, which looks at the clock.
    """
    looks = itertools.count()  # the first look sets the deadline

    def monotonic() -> float:
        return time.monotonic() + 3600 * (next(looks) > 0 and file.exists())

    monkeypatch.setattr(jobs, "time", SimpleNamespace(monotonic=monotonic))


def test_job_that_exits_cleanly_after_its_time_limit_is_timed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time_is_up_once_there_is(tmp_path / "ready", monkeypatch)
    program = "trap 'echo 2; exit 0' TERM; echo 1; touch ready; while :; do echo; sleep 0.05; done"
    finished = shell(program, tmp_path)
    assert (finished.ended, finished.stdout.split()) == (JobEnd.TIMED_OUT, [b"1", b"2"])
    assert finished.exit_code != 0


def test_long_output_is_truncated_and_endless_output_ends_the_job(tmp_path: Path) -> None:
    finished = run(f"import sys; sys.stdout.write('ab' * {STDOUT_BYTES})", tmp_path)
    assert finished.ended is JobEnd.EXITED
    assert finished.stdout_truncated
    assert not finished.stderr_truncated
    assert finished.stdout == b"ab" * (STDOUT_BYTES // 2)
    limits = JobLimits(wall_s=60.0, output_bytes=4_000_000)
    finished = shell("yes; sleep 60", tmp_path, limits=limits)
    assert finished.ended is JobEnd.OUTPUT_LIMIT
    assert finished.exit_code < 0


@pytest.mark.usefixtures("_either_way")
def test_job_continues_after_closing_its_output(tmp_path: Path) -> None:
    program = "exec >&- 2>&-; sleep 0.3; echo done > done; exit 5"
    finished = shell(program, tmp_path)
    assert finished.exit_code == 5
    assert (tmp_path / "done").exists()


@pytest.mark.usefixtures("_either_way")
def test_background_process_neither_delays_nor_outlives_the_job(tmp_path: Path) -> None:
    finished = shell("sleep 600 & echo $!", tmp_path)
    assert (finished.exit_code, finished.ended) == (0, JobEnd.EXITED)
    assert gone(int(finished.stdout))


def test_process_in_another_process_group_does_not_delay_the_job(tmp_path: Path) -> None:
    leaves = "setsid sh -c 'touch left; exec sleep 600' & while ! test -e left; do sleep 0.01; done"
    finished = shell(f"{leaves}; echo $!", tmp_path)
    assert (finished.exit_code, finished.ended) == (0, JobEnd.EXITED)
    psutil.Process(int(finished.stdout)).kill()


def test_job_that_cannot_be_started_is_recorded_as_launch_failure(tmp_path: Path) -> None:
    finished = run_job(
        ["/no/such/program"], environment=PATH, limits=JobLimits(), workdir=tmp_path / "none"
    )
    assert (finished.exit_code, finished.ended) == (127, JobEnd.LAUNCH_FAILED)
    assert b"none" in finished.stderr


def test_job_is_ended_at_its_resource_limits(tmp_path: Path) -> None:
    class Strict:
        def __init__(self, pid: int, limits: JobLimits) -> None:
            self.looks = 0

        def breach(self) -> JobEnd | None:
            self.looks += 1
            return JobEnd.MEMORY_LIMIT if self.looks > 2 else None

        def usage(self) -> dict[str, float | int]:
            return {"ru_utime": 1.5}

    finished = shell("sleep 60", tmp_path, watch=Strict)
    assert (finished.exit_code, finished.ended) == (-signal.SIGKILL, JobEnd.MEMORY_LIMIT)
    assert finished.usage == {"ru_utime": 1.5}


def test_cpu_pinning_applies_to_the_job_and_not_to_the_runner(tmp_path: Path) -> None:
    own = os.sched_getaffinity(0)
    one = min(own)
    finished = run("import os; print(os.sched_getaffinity(0))", tmp_path, cpus=[one])
    assert finished.stdout.decode().strip() == str({one})
    assert os.sched_getaffinity(0) == own


def test_interrupted_job_leaves_no_process(tmp_path: Path) -> None:
    class Interrupted:
        def __init__(self, pid: int, limits: JobLimits) -> None:
            self.pid = pid
            (tmp_path / "pid").write_text(str(pid))

        def breach(self) -> JobEnd | None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shell("sleep 60", tmp_path, watch=Interrupted)
    assert gone(int((tmp_path / "pid").read_text()))


def test_job_ends_when_its_runner_is_killed(tmp_path: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from pis.amun.jobs import run_job\n"
        "from pis.amun.processes import JobLimits\n"
        "run_job(['/bin/sh', '-c', 'echo $$ > pid; exec sleep 120'], environment={},"
        f" limits=JobLimits(), workdir=Path({str(tmp_path)!r}))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as runner:
        noted = tmp_path / "pid"
        wait_until(lambda: noted.exists() and noted.read_text(), "the job has noted its process")
        runner.kill()
    wait_until(lambda: gone(int(noted.read_text())), "the job has ended")


PLENTY = replace(CONFINED, memory_bytes=1 << 60, processes=1 << 30)


def breach(**limits: int) -> JobEnd | None:
    return Watch(os.getpid(), replace(PLENTY, **limits)).breach()


def test_memory_shortage_of_the_machine_differs_from_a_memory_limit_of_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limit_watch, "available_bytes", lambda: 1 << 60)
    assert breach() is None
    assert breach(memory_bytes=1) is JobEnd.MEMORY_LIMIT
    assert breach(processes=1) is JobEnd.PROCESS_LIMIT
    monkeypatch.setattr(limit_watch, "available_bytes", lambda: 0)
    assert breach() is JobEnd.HOST_MEMORY
    assert breach(memory_bytes=1) is JobEnd.MEMORY_LIMIT
