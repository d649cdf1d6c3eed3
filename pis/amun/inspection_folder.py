"""Reads and writes inspection folders. Every document is written whole or not at all.

A folder holds ``build/specification``, ``build/log``, ``build/status`` and, for each job,
``results/N/result``, ``hwinfo`` and ``log``.
"""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from common.formats.job_results import DOCUMENT_VERSION
from model.measurements.job_stability import (
    is_host_build,
    is_host_end,
    noise_warnings,
    robust_variation,
)
from model.packages.identity import distributions_of
from model.packages.native_libraries import Bundled, bundled_document
from pis.amun.hardware import boot, host, hwinfo, os_release, runtime_environment
from pis.amun.job_output import Readings, decode_output, parsed_output, readings_of
from pis.amun.jobs import FinishedJob
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, PreparedInspection

_NUMBER = re.compile(r"[0-9]{1,9}\Z")
_PART = ".part"
#: Suffix of a folder that is being replaced.
_REPLACED_SUFFIX = ".old"


@dataclass(frozen=True, slots=True)
class JobSetup:
    """How the runner set up a job. The job's output cannot change the setup.

    :param cpus: number of processors that the job could use
    :param cpu_quota: quota of the control groups, in processors
    :param threads: thread variables of the job, such as ``OMP_NUM_THREADS``
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
    """How a build ended; ``reason`` is ``None`` if it succeeded.

    :param bundled: libraries that the wheels bundle; ``None`` if unknown
    """

    reason: str | None
    message: str
    exit_code: int
    started_at: datetime
    finished_at: datetime
    environment: str | None
    launcher: str
    bundled: Bundled | None = None

    @property
    def host_problem(self) -> bool:
        """Whether the host caused the failure; if so, it does not count against the stack."""
        return self.reason is not None and is_host_build(self.reason, self.message)

    @property
    def state(self) -> str:
        """``succeeded`` or ``failed``."""
        return "succeeded" if self.reason is None else "failed"

    def document(self) -> dict[str, Any]:
        """The content of ``build/status``."""
        return {
            "state": self.state,
            "reason": self.reason,
            "host_problem": self.host_problem,
            "message": self.message,
            "exit_code": self.exit_code,
            "started_at": iso_time(self.started_at),
            "finished_at": iso_time(self.finished_at),
            "environment": self.environment,
            "launcher": self.launcher,
            **({} if self.bundled is None else {"bundled": bundled_document(self.bundled)}),
        }


def job_result(inspection: Inspection, job: Job, finished: FinishedJob, ran: JobSetup) -> JobResult:
    """Return the result document of a job that ran on this machine."""
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
        "stderr": decode_output(finished.stderr),
        "truncated": {"stdout": finished.stdout_truncated, "stderr": finished.stderr_truncated},
        "usage": dict(finished.usage),
        "hwinfo": hwinfo(),
        "os_release": os_release(),
        "runtime_environment": runtime_environment(ran.python_version),
        "hostname": os.uname().nodename,
        "host": host(),
        "boot": boot(),
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
        "start_datetime": iso_time(finished.started_at),
        "end_datetime": iso_time(finished.ended_at),
    }
    return JobResult(result, _job_log(finished, readings_of(result).fault))


def with_environment(result: JobResult, prepared: PreparedInspection) -> JobResult:
    """Add the environment that the job ran in, unless the result names one."""
    environment = {
        "environment": prepared.environment,
        "environment_build": prepared.build,
        "python_full_version": prepared.python_version or None,
    }
    return replace(result, result={**result.result, **environment, **result.result})


def unknown_setup(launcher: str) -> JobSetup:
    """Return the setup of a job that could not be started."""
    return JobSetup(launcher, False, None, None, None, {}, None)


def iso_time(moment: datetime) -> str:
    """Format as ISO 8601 in UTC, always with microseconds."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def write_build(
    folder: Path, inspection: Inspection, status: BuildStatus, log: str, dockerfile: str | None
) -> None:
    """Write or replace ``build/``, unless jobs were measured in the same build."""
    if _is_same_build(folder, inspection, status):
        return
    files = {
        "specification": _json(inspection.specification.document),
        "log": log,
        "status": _json(status.document()),
    }
    if dockerfile is not None:
        files["Dockerfile"] = dockerfile
    _write_folder(folder / "build", files)


def _is_same_build(folder: Path, inspection: Inspection, status: BuildStatus) -> bool:
    written = read_build(folder)
    # Through JSON, as it turns tuples into lists.
    specification = json.loads(json.dumps(inspection.specification.document))
    return (
        bool(measured_jobs(folder))
        and written.get("state") == status.state == "succeeded"
        and written.get("environment") == status.environment
        and _read(folder / "build" / "specification") == specification
    )


def write_job(folder: Path, number: int, result: JobResult) -> None:
    """Write ``results/N`` atomically."""
    files = {
        "result": _json(result.result),
        "hwinfo": _json(result.result.get("hwinfo") or {}),
        "log": result.log,
    }
    _write_folder(folder / "results" / str(number), files)


def finished_jobs(folder: Path) -> frozenset[int]:
    """Return the numbers of all jobs that have a result."""
    try:
        entries = list((folder / "results").iterdir())
    except OSError:
        return frozenset()
    return frozenset(
        int(path.name)
        for path in entries
        if _NUMBER.match(path.name) and (path / "result").is_file()
    )


def measured_jobs(folder: Path) -> frozenset[int]:
    """Return the finished jobs, except those that the host ended, which run again."""
    return frozenset(
        number for number in finished_jobs(folder) if not is_host_result(read_job(folder, number))
    )


def is_host_result(result: Mapping[str, Any]) -> bool:
    """Whether the host ended the job; such a job does not count against the stack."""
    exit_code = result.get("exit_code")
    return is_host_end(result.get("ended"), exit_code if isinstance(exit_code, int) else 0)


def environments_of(folder: Path) -> frozenset[str]:
    """Return the digests of the environments that measured jobs ran in.

    Results from earlier releases of this product name no environment.
    """
    digests = (read_job(folder, number).get("environment") for number in measured_jobs(folder))
    return frozenset(digest for digest in digests if isinstance(digest, str))


def read_build(folder: Path) -> dict[str, Any]:
    """Return ``build/status``; empty if it cannot be read."""
    return _read(folder / "build" / "status")


def read_job(folder: Path, number: int) -> dict[str, Any]:
    """Return the result document of a job; empty if it cannot be read."""
    return _read(folder / "results" / str(number) / "result")


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def recover(folder: Path) -> None:
    """Restore folders that an interrupted run was replacing, and remove incomplete ones."""
    for parent in (folder, folder / "results"):
        for aside in list(parent.glob(f"*{_REPLACED_SUFFIX}")):
            _put_back(aside)
        for part in list(parent.glob(f"*{_PART}")):
            shutil.rmtree(part, ignore_errors=True)


def _put_back(aside: Path) -> None:
    """Finish a replacement; an old folder is set aside only after its new version is complete."""
    folder = aside.with_suffix("")
    part = folder.with_name(f"{folder.name}{_PART}")
    if not folder.exists():
        (part if part.is_dir() else aside).rename(folder)
    shutil.rmtree(aside, ignore_errors=True)


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write a temporary folder, flush it, and swap it for the old one.

    A folder with the final name is always complete; :func:`recover` repairs an interrupted swap.
    """
    part = folder.with_name(f"{folder.name}{_PART}")
    aside = folder.with_name(f"{folder.name}{_REPLACED_SUFFIX}")
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


def _job_log(finished: FinishedJob, fault: str | None) -> str:
    """Return standard output and standard error as text for a person.

    :param fault: fault of the output of a job that ended normally
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
        yield decode_output(data).rstrip("\n") + "\n"


@dataclass(frozen=True, slots=True)
class Noise:
    """The variation of one measurement between the jobs of an inspection.

    :param jobs: number of jobs with this measurement
    :param left_out: how many of them comparisons exclude, by reason
    :param variation: coefficient of variation of the other rates, from the median absolute
        deviation; ``None`` for fewer than two
    """

    jobs: int
    left_out: Mapping[str, int]
    variation: float | None


@dataclass(frozen=True, slots=True)
class InspectionOutcome:
    """One inspection after a run.

    :param state: ``measured`` if all jobs were measured, ``failed`` if a job failed,
        ``build_failed`` if the environment could not be built, ``host_problem`` if only the host
        prevented the build or a job, ``stopped`` if jobs did not run because a job of the same
        script broke the result protocol
    :param failed: number of jobs without a measurement, including those that the host ended
    :param host_problems: number of jobs that the host ended; they run again
    :param not_run: number of jobs that did not run, though the environment was built
    :param rates: all measurements of all measured jobs, in order; empty if units differ
    :param fault: fault of the output of the first job that ended normally without a result
    :param noise: for each measurement, in the order of the jobs' output
    """

    inspection_id: str
    folder: Path
    state: str
    component: str | None
    component_version: str | None
    measured: int
    failed: int
    rates: tuple[float, ...]
    unit: str | None
    failure: BuildFailed | None = None
    fault: str | None = None
    noise: tuple[Noise, ...] = ()
    host_problems: int = 0
    not_run: int = 0

    @property
    def label(self) -> str:
        """Name and version of the measured component; ``unknown`` if no job named it."""
        return " ".join(filter(None, [self.component, self.component_version])) or "unknown"

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings about noise, for a person, without duplicates."""
        texts = (
            warning
            for noise in self.noise
            for warning in noise_warnings(self.label, noise.jobs, noise.left_out, noise.variation)
        )
        return iter(dict.fromkeys(texts))

    @property
    def median_rate(self) -> float | None:
        """Median rate of the measured jobs."""
        return median(self.rates) if self.rates else None


def outcome_of(inspection: Inspection, out: Path, failure: BuildFailed | None) -> InspectionOutcome:
    """Read the outcome of ``inspection`` from its folder below ``out``."""
    folder = out / inspection.inspection_id
    numbers = finished_jobs(folder) & set(range(inspection.specification.batch_size))
    results = [read_job(folder, number) for number in sorted(numbers)]
    readings = [readings_of(result) for result in results]
    outputs = [result["stdout"] for result, job in zip(results, readings, strict=True) if job.rates]
    units = {unit for job in readings for unit in job.units}
    component = next(
        (str(output["component"]) for output in outputs if output.get("component")), None
    )
    failed = len(results) - len(outputs)
    host_problems = sum(map(is_host_result, results))
    not_run = 0 if failure else inspection.specification.batch_size - len(numbers)
    locked = inspection.specification.lock.version_of(
        *distributions_of("pytorch" if component == "torch" else component)
    )
    return InspectionOutcome(
        inspection_id=inspection.inspection_id,
        folder=folder,
        state=_state(failure, failed, host_problems, not_run),
        component=component,
        component_version=locked,
        measured=len(outputs),
        failed=failed,
        rates=tuple(rate for job in readings for rate in job.rates) if len(units) == 1 else (),
        unit=units.pop() if len(units) == 1 else None,
        failure=failure,
        fault=next((job.fault for job in readings if job.fault), None),
        noise=tuple(_noise(readings)),
        host_problems=host_problems,
        not_run=not_run,
    )


def _noise(readings: Sequence[Readings]) -> Iterator[Noise]:
    for n in range(max((len(job.rates) for job in readings), default=0)):
        jobs = [job for job in readings if n < len(job.rates)]
        reasons = Counter(str(job.unstable[n]) for job in jobs if job.unstable[n])
        rates = [job.rates[n] for job in jobs if not job.unstable[n]]
        variation = robust_variation(rates) if len(rates) > 1 else None
        yield Noise(len(jobs), dict(sorted(reasons.items())), variation)


def _state(failure: BuildFailed | None, failed: int, host_problems: int, not_run: int) -> str:
    if failure is not None:
        return "host_problem" if failure.host_problem else "build_failed"
    if failed > host_problems:
        return "failed"
    if host_problems:
        return "host_problem"
    return "stopped" if not_run else "measured"
