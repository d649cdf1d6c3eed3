"""The documents of an inspection on disk: written whole or not at all.

The layout is that of inspection documents: ``build/specification``, ``build/log``,
``build/status`` and, for each job, ``results/N/result``, ``hwinfo`` and ``log``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common.formats.job_results import DOCUMENT_VERSION
from common.host_problems import is_host_build, is_host_end
from pis.amun.hardware import host, hwinfo, os_release, runtime_environment
from pis.amun.job_output import decoded, parsed_output, readings_of
from pis.amun.jobs import Ended, Finished
from pis.amun.launchers import Inspection, Job, JobResult, Prepared

_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_PART = ".part"
#: What a folder is called while another takes its place.
_ASIDE = ".old"


@dataclass(frozen=True, slots=True)
class Ran:
    """How the runner ran a job, which nothing that the job prints can change.

    :param cpus: processors that the job could use
    :param cpu_quota: of the control groups, in processors
    :param threads: thread variables that the job was given
    """

    launcher: str
    confined: bool
    cpus: int | None
    cpu_quota: float | None
    memory_bytes: int | None
    threads: Mapping[str, str]
    python_version: str | None


@dataclass(frozen=True, slots=True)
class BuildStatus:
    """How a build ended; ``reason`` is ``None`` where it succeeded."""

    reason: str | None
    message: str
    exit_code: int
    started_at: datetime
    finished_at: datetime
    environment: str | None
    launcher: str

    @property
    def host_problem(self) -> bool:
        """Whether the host is to blame, so that the failure says nothing of the stack."""
        return self.reason is not None and is_host_build(self.reason, self.message)

    @property
    def state(self) -> str:
        """``succeeded`` or ``failed``."""
        return "succeeded" if self.reason is None else "failed"

    def document(self) -> dict[str, Any]:
        """As it is written to ``build/status``."""
        return {
            "state": self.state,
            "reason": self.reason,
            "host_problem": self.host_problem,
            "message": self.message,
            "exit_code": self.exit_code,
            "started_at": written_time(self.started_at),
            "finished_at": written_time(self.finished_at),
            "environment": self.environment,
            "launcher": self.launcher,
        }


def job_result(inspection: Inspection, job: Job, finished: Finished, ran: Ran) -> JobResult:
    """The result document of a finished job, as of the machine that this runs on."""
    script = inspection.script
    result = {
        "document_version": DOCUMENT_VERSION,
        "inspection_id": inspection.inspection_id,
        "script": {"name": script.name, "bundled": script.bundled},
        "script_sha256": script.sha256,
        "exit_code": finished.exit_code,
        "ended": str(finished.ended),
        "host_problem": is_host_end(finished.ended, finished.exit_code),
        "stdout": parsed_output(finished.stdout, truncated=finished.stdout_truncated),
        "stderr": decoded(finished.stderr),
        "truncated": {"stdout": finished.stdout_truncated, "stderr": finished.stderr_truncated},
        "usage": dict(finished.usage),
        "hwinfo": hwinfo(),
        "os_release": os_release(),
        "runtime_environment": runtime_environment(ran.python_version),
        "hostname": os.uname().nodename,
        "host": host(),
        "launcher": ran.launcher,
        "confined": ran.confined,
        "trusted_script": script.trusted,
        "limits": {
            "cpus": ran.cpus,
            "cpu_quota": ran.cpu_quota,
            "memory_bytes": ran.memory_bytes,
            "threads": dict(ran.threads),
        },
        "conditions": dict(finished.conditions),
        "schedule": {
            "run": job.run,
            "block": job.block,
            "turn": job.turn,
            "interleaved": job.interleaved,
        },
        "start_datetime": written_time(finished.started_at),
        "end_datetime": written_time(finished.ended_at),
    }
    return JobResult(result, _job_log(finished, readings_of(result).fault))


def attributed(result: JobResult, prepared: Prepared) -> JobResult:
    """The result with the environment that the job ran in; one that it names already stays."""
    named = {
        "environment": prepared.environment,
        "python_full_version": prepared.python_version or None,
    }
    return replace(result, result={**result.result, **named, **result.result})


def failed_to_launch(words: str, started_at: datetime) -> Finished:
    """A job that never began."""
    return Finished(
        exit_code=127,
        ended=Ended.LAUNCH_FAILED,
        stdout=b"",
        stderr=words.encode("utf-8", "backslashreplace"),
        stdout_truncated=False,
        stderr_truncated=False,
        usage={},
        started_at=started_at,
        ended_at=datetime.now(UTC),
        conditions={},
    )


def unknown_run(launcher: str) -> Ran:
    """What can be said of how a job ran that never began."""
    return Ran(launcher, False, None, None, None, {}, None)


def written_time(moment: datetime) -> str:
    """ISO, UTC, always with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def write_build(
    folder: Path, inspection: Inspection, status: BuildStatus, log: str, dockerfile: str | None
) -> None:
    """Write ``build/``; one that is there is replaced, unless it says the same already."""
    if _says_the_same(folder, inspection, status):
        return
    files = {
        "specification": _json(inspection.specification.document),
        "log": log,
        "status": _json(status.document()),
    }
    if dockerfile is not None:
        files["Dockerfile"] = dockerfile
    _write_folder(folder / "build", files)


def _says_the_same(folder: Path, inspection: Inspection, status: BuildStatus) -> bool:
    """Whether the jobs that are there were measured in this very build."""
    written = read_build(folder)
    return (
        bool(measured_jobs(folder))
        and written.get("state") == status.state == "succeeded"
        and written.get("environment") == status.environment
        and _read(folder / "build" / "specification") == _reread(inspection.specification.document)
    )


def _reread(value: Mapping[str, Any]) -> Any:
    """As JSON gives it back: tuples are lists there."""
    return json.loads(json.dumps(value))


def write_job(folder: Path, number: int, result: JobResult) -> None:
    """Write ``results/N``, which appears complete."""
    files = {
        "result": _json(result.result),
        "hwinfo": _json(result.result.get("hwinfo") or {}),
        "log": result.log,
    }
    _write_folder(folder / "results" / str(number), files)


def finished_jobs(folder: Path) -> frozenset[int]:
    """Numbers of the jobs whose results are complete."""
    try:
        entries = list((folder / "results").iterdir())
    except OSError:
        return frozenset()
    return frozenset(
        int(it.name) for it in entries if _NUMBER.match(it.name) and (it / "result").is_file()
    )


def measured_jobs(folder: Path) -> frozenset[int]:
    """Those of the finished jobs that the host did not end; the others run again."""
    return frozenset(it for it in finished_jobs(folder) if not is_host_result(read_job(folder, it)))


def is_host_result(result: Mapping[str, Any]) -> bool:
    """Whether a job was ended by the host, so that it says nothing of the stack."""
    exit_code = result.get("exit_code")
    return is_host_end(result.get("ended"), exit_code if isinstance(exit_code, int) else 0)


def environments_of(folder: Path) -> frozenset[str]:
    """Digests that the results name of jobs that began; results of earlier releases name none."""
    named = (read_job(folder, it).get("environment") for it in measured_jobs(folder))
    return frozenset(it for it in named if isinstance(it, str))


def read_build(folder: Path) -> dict[str, Any]:
    """``build/status``; empty if it cannot be read."""
    return _read(folder / "build" / "status")


def read_job(folder: Path, number: int) -> dict[str, Any]:
    """The result document of one job; empty if it cannot be read."""
    return _read(folder / "results" / str(number) / "result")


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def recover(folder: Path) -> None:
    """Put back what an interrupted run left aside, and remove what it left half written."""
    for parent in (folder, folder / "results"):
        for aside in list(parent.glob(f"*{_ASIDE}")):
            _put_back(aside)
        for part in list(parent.glob(f"*{_PART}")):
            shutil.rmtree(part, ignore_errors=True)


def _put_back(aside: Path) -> None:
    """Finish the exchange: a folder is set aside only after its successor was complete."""
    folder = aside.with_suffix("")
    part = folder.with_name(f"{folder.name}{_PART}")
    if not folder.exists():
        (part if part.is_dir() else aside).rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write beside, flush, exchange: what was there is deleted after the new one has its place.

    A folder of that name is complete at any moment; :func:`recover` ends what was interrupted.
    """
    part = folder.with_name(f"{folder.name}{_PART}")
    aside = folder.with_name(f"{folder.name}{_ASIDE}")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for name, text in files.items():
        with (part / name).open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    if folder.exists():
        shutil.rmtree(aside, ignore_errors=True)
        folder.rename(aside)
    part.rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _job_log(finished: Finished, fault: str | None) -> str:
    """Both outputs, for a person who looks for the cause.

    :param fault: what is wrong with the output of a job that ended well
    """
    parts = [
        f"ended: {finished.ended}, exit code {finished.exit_code}\n",
        f"printed no result: {fault}\n" if fault else "",
        *_section("standard output", finished.stdout, finished.stdout_truncated),
        *_section("standard error", finished.stderr, finished.stderr_truncated),
    ]
    return "".join(parts)


def _section(title: str, data: bytes, truncated: bool) -> Iterable[str]:
    if data:
        yield f"--- {title}{' (its beginning)' if truncated else ''}\n"
        yield decoded(data).rstrip("\n") + "\n"
