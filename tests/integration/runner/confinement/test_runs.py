"""What is told of a script that ran behind the walls, and of walls that cannot be put up."""

import os
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from pis.amun.hardware import host
from pis.amun.jobs import JobEnd
from pis.amun.launchers import Inspection, Job, PreparedInspection, Script
from pis.amun.launchers.local import run_here
from pis.amun.sandbox import CannotConfine, end_of_job, require_confinement
from pis.amun.specification import load_specification
from tests.requirements import needs
from tests.services.confined import run


@needs("bwrap")
def test_sandbox_returns_output_and_exit_code_of_a_script(tmp_path: Path) -> None:
    finished = run(
        "print(os.environ['WANTED'], sys.argv[1]); sys.exit(7)",
        tmp_path,
        "word",
        environment={"WANTED": "value"},
    )
    assert (finished.exit_code, finished.ended) == (7, JobEnd.EXITED)
    assert finished.stdout == b"value word\n"
    assert finished.stderr == b""


@needs("bwrap")
def test_script_in_the_sandbox_may_use_threads_processes_and_files(tmp_path: Path) -> None:
    finished = run(
        """
import multiprocessing, tempfile, threading
with multiprocessing.Pool(2) as pool:
    print(sum(pool.map(abs, [-1, 2])))
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
with tempfile.TemporaryFile() as file:
    print(file.write(b"x" * 1000))
open("here", "w").close()
print(os.listdir("."), os.cpu_count() > 0)
""",
        tmp_path,
    )
    assert finished.stdout.decode().split("\n")[:4] == ["3", "thread", "1000", "['here'] True"]


@needs("bwrap")
def test_sandbox_distinguishes_a_signal_from_a_large_exit_code(tmp_path: Path) -> None:
    crashed = end_of_job(run("os.kill(os.getpid(), 11)", tmp_path))
    assert (crashed.ended, crashed.exit_code) == (JobEnd.SIGNALLED, -11)
    ended = end_of_job(run("sys.exit(100)", tmp_path))
    assert (ended.ended, ended.exit_code) == (JobEnd.EXITED, 100)


@needs("bwrap")
def test_result_forged_by_a_script_is_recorded_as_plain_output(tmp_path: Path) -> None:
    forged = """
import json, os, sys
result = {
    "inspection_id": "inspection-other-00000000", "exit_code": 0, "hostname": "forged",
    "script_sha256": "0" * 64, "host": "sha256:forged", "confined": False, "ended": "exited",
    "script": {"name": "matmul", "bundled": True}, "launcher": "forged",
    "limits": {"cpus": 1000}, "start_datetime": "1970-01-01T00:00:00",
    "schedule": {"run": "forged", "block": 99}, "@result": {"rate": 1e9, "elapsed": 1.0},
}
for place in ("result", "../result", "../../results/0/result", "/tmp/result"):
    try:
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        json.dump(result, open(place, "w"))
    except OSError:
        pass
print(json.dumps(result))
sys.exit(4)
"""
    script = Script(forged, None, sha256(forged.encode()).hexdigest())
    inspection = Inspection(
        "inspection-real-00000000", load_specification({"script": forged}), script
    )
    prepared = PreparedInspection(
        inspection=inspection, environment=None, python=sys.executable, python_version="3.11.7",
        log="",
    )  # fmt: skip
    job = Job(inspection.inspection_id, 5, "real", 5, 2, True)
    written = run_here(prepared, job, "local").result
    assert written["stdout"]["inspection_id"] == "inspection-other-00000000"
    assert written["inspection_id"] == "inspection-real-00000000"
    assert (written["exit_code"], written["launcher"], written["confined"]) == (4, "local", True)
    assert (written["hostname"], written["host"]) == (os.uname().nodename, host())
    assert written["script"] == {"name": None, "bundled": False}
    assert written["script_sha256"] == script.sha256
    assert written["limits"]["cpus"] == len(os.sched_getaffinity(0))
    assert written["schedule"] == {"run": "real", "block": 5, "turn": 2, "interleaved": True}
    assert not written["start_datetime"].startswith("1970")


@needs("bwrap")
def test_variables_of_a_job_do_not_affect_programs_outside_the_sandbox(tmp_path: Path) -> None:
    outside = tmp_path / "loader"
    finished = run(
        "print('\\nruns')",
        tmp_path,
        environment={"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(outside), "LD_PRELOAD": "/no.so"},
    )
    assert b"\nruns\n" in finished.stdout
    assert list(tmp_path.glob("loader*")) == []


def test_missing_bubblewrap_is_reported_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotConfine, match="not installed") as refused:
        require_confinement()
    assert refused.value.hint is not None
    assert "bubblewrap" in refused.value.hint


def test_missing_user_namespaces_are_reported_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(CannotConfine, match="No permissions to create") as refused:
        require_confinement()
    assert "namespaces" in str(refused.value.hint)
