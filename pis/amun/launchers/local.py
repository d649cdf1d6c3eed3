"""Jobs on this machine, one at a time; what other launchers run on a node of theirs, too."""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

import psutil

from common.settings import Settings
from common.units import THREAD_VARIABLES
from pis.amun.control_groups import read_limits
from pis.amun.environments import build_environment
from pis.amun.hardware import hwinfo, separate_cores
from pis.amun.inspection_folder import Ran, job_result
from pis.amun.installer import BuildLog, Say, failed
from pis.amun.job_limits import CONFINED, JobLimits
from pis.amun.jobs import Finished, run_job
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, Prepared, Script
from pis.amun.limit_watch import Watch
from pis.amun.sandbox import (
    CannotConfine,
    confined,
    interpreter_folders,
    of_job,
    require_confinement,
)
from pis.amun.specification import ResourceRequests, Specification
from pis.scratch import scratch_folder

#: What a job gets of the runner's own environment; secrets of the runner are not in it.
_PASSED_ON = (*THREAD_VARIABLES, "CUDA_VISIBLE_DEVICES")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_LOCALE = "C.UTF-8"
#: Files of a specification are copied into the working folder, which exists only inside; by
#: its path, since the job's own PATH may name nothing that is there.
_WITH_FILES = '/bin/cp -r "$1"/. . && shift && exec "$@"'


class LocalLauncher:
    """Builds and runs on this machine."""

    name = "local"

    def __init__(self, settings: Settings, say: Say | None = None) -> None:
        self._settings = settings
        self._say = say

    def slots(self) -> int:
        """One: two jobs at a time would measure each other."""
        return 1

    def prepare(self, inspection: Inspection) -> Prepared:
        """Build the environment of the inspection's lock."""
        return prepare_here(inspection, self._settings, self._say)

    def run(self, prepared: Prepared, job: Job) -> JobResult:
        """Run one job in a fresh process."""
        return run_here(prepared, job, self.name)

    def close(self) -> None:
        """Nothing is held."""


def prepare_here(inspection: Inspection, settings: Settings, say: Say | None = None) -> Prepared:
    """What :meth:`LocalLauncher.prepare` does, for every launcher that runs on bare machines.

    :raises BuildFailed: also if this machine is not what was asked for
    """
    log = BuildLog(say)
    specification = inspection.specification
    for note in _notes(specification):
        log.write(note)
    _require_hardware(specification.run, log)
    _require_packages(specification.packages, log)
    if inspection.script.confined:
        _require_walls(log)
    elif inspection.script.trusted:
        log.write("the script runs as the user who started it, without a sandbox: --trust-script")
    try:
        environment = build_environment(
            specification.lock, settings, specification.python_version, say
        )
    except BuildFailed as error:
        error.log = str(log) + error.log
        raise
    return Prepared(
        inspection=inspection,
        environment=environment.digest,
        python=str(environment.python),
        python_version=environment.python_version,
        log=str(log) + environment.log,
    )


def run_here(prepared: Prepared, job: Job, launcher: str) -> JobResult:
    """Run one job in a fresh process on this machine, and say how it went.

    :param launcher: the name that the result bears
    """
    specification, script = prepared.inspection.specification, prepared.inspection.script
    limits = limits_of(specification, script)
    wanted = specification.run.cpus
    cpus = separate_cores(math.ceil(wanted)) if wanted else None
    variables = _variables(specification, Path(prepared.python), cpus)
    with scratch_folder("job") as folder:
        start = _confined if script.confined else _unconfined
        finished = start(prepared, folder, limits, variables, cpus)
    groups = read_limits()
    memory = [it for it in (groups.memory_bytes, limits.memory_bytes) if it is not None]
    ran = Ran(
        launcher=launcher,
        confined=script.confined,
        cpus=len(cpus) if cpus else len(os.sched_getaffinity(0)),
        cpu_quota=groups.cpu_quota,
        memory_bytes=min(memory, default=None),
        threads={it: variables[it] for it in THREAD_VARIABLES if it in variables},
        python_version=prepared.python_version,
    )
    return job_result(prepared.inspection, job, finished, ran)


def limits_of(specification: Specification, script: Script) -> JobLimits:
    """What one job may take; a script without a sandbox has no limits but time and output."""
    if not script.confined:
        return JobLimits(wall_s=specification.timeout_s)
    memory_bytes = specification.run.memory_bytes or CONFINED.memory_bytes
    return replace(CONFINED, wall_s=specification.timeout_s, memory_bytes=memory_bytes)


def _unconfined(
    prepared: Prepared,
    folder: Path,
    limits: JobLimits,
    variables: Mapping[str, str],
    cpus: list[int] | None,
) -> Finished:
    inspection = prepared.inspection
    workdir = folder / "work"
    _write_files(workdir, inspection.specification.files)
    path = _written(folder, inspection.script)
    environment = {**variables, "HOME": str(folder), "TMPDIR": str(folder)}
    command = [prepared.python, str(path), *inspection.script.arguments]
    return run_job(command, environment=environment, limits=limits, workdir=workdir, cpus=cpus)


def _confined(
    prepared: Prepared,
    folder: Path,
    limits: JobLimits,
    variables: Mapping[str, str],
    cpus: list[int] | None,
) -> Finished:
    inspection = prepared.inspection
    workdir, given = folder / "work", folder / "given"
    for place in (workdir, given):
        place.mkdir()
    path = _written(given, inspection.script)
    _write_files(given / "files", inspection.specification.files)
    command = [prepared.python, str(path), *inspection.script.arguments]
    command = ["/bin/sh", "-c", _WITH_FILES, "files", str(given / "files"), *command]
    walled = confined(
        command,
        workdir=workdir,
        readable=[given, *_interpreter(prepared.python)],
        limits=limits,
        environment=variables,
    )
    # The programs that put up the walls get nothing that the specification says.
    outside = {"PATH": _SYSTEM_PATH, "LANG": _LOCALE}
    finished = run_job(
        walled, environment=outside, limits=limits, workdir=workdir, cpus=cpus, watch=Watch
    )
    return of_job(finished)


@cache
def _interpreter(python: str) -> tuple[Path, ...]:
    return tuple(interpreter_folders(Path(python)))


def _written(folder: Path, script: Script) -> Path:
    path = folder / "script.py"
    path.write_bytes(script.text.encode())
    return path


def _write_files(folder: Path, files: tuple[tuple[str, str], ...]) -> None:
    folder.mkdir()
    for relative, content in files:
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")


def _variables(
    specification: Specification, python: Path, cpus: list[int] | None
) -> dict[str, str]:
    """The job's environment, but for its folders; the specification's word is the last."""
    threads = dict.fromkeys(THREAD_VARIABLES, str(len(cpus))) if cpus else {}
    return {
        "PATH": f"{python.parent}:{_SYSTEM_PATH}",
        "LANG": _LOCALE,
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
        **threads,
        **dict(specification.environment),
    }


def _notes(specification: Specification) -> Iterator[str]:
    if specification.base is not None:
        yield f"the image {specification.base} is not used: jobs run on this machine as it is"
    for package in specification.python_packages:
        yield f"not installed, since nothing here needs it: {package}"
    wanted = specification.run.cpus
    if wanted is not None and wanted != math.ceil(wanted):
        yield f"{wanted:g} processors were asked for; jobs are pinned to {math.ceil(wanted)}"


def _require_hardware(requests: ResourceRequests, log: BuildLog) -> None:
    unmet = list(unmet_requests(requests, hwinfo()))
    if unmet:
        raise failed("hardware-not-met", "; ".join(unmet), log)


def unmet_requests(requests: ResourceRequests, info: Mapping[str, Any]) -> Iterator[str]:
    """What was asked for and the machine described by ``info`` is not."""
    cpu, wanted = info["cpu_info"], requests.hardware
    for name, value, has in (
        ("cpu_family", wanted.cpu_family, cpu.get("family")),
        ("cpu_model", wanted.cpu_model, cpu.get("model")),
    ):
        if value not in (None, has):
            yield f"{name} {value} was asked for, this machine has {has}"
    brand = str(cpu.get("brand_raw", ""))
    if wanted.processor is not None and wanted.processor.lower() not in brand.lower():
        yield f"processor {wanted.processor!r} was asked for, this machine has {brand!r}"
    cores = (cpu.get("sockets") or 1) * (cpu.get("cores") or 1)
    if wanted.physical_cpus is not None and wanted.physical_cpus > cores:
        yield f"{wanted.physical_cpus} physical cores were asked for, this machine has {cores}"
    usable = len(os.sched_getaffinity(0))
    if requests.cpus is not None and math.ceil(requests.cpus) > usable:
        yield f"{requests.cpus:g} processors were asked for, {usable} may be used here"
    memory = psutil.virtual_memory().total
    if requests.memory_bytes is not None and requests.memory_bytes > memory:
        yield f"{requests.memory_bytes} bytes of memory were asked for, this machine has {memory}"


def _require_packages(packages: tuple[str, ...], log: BuildLog) -> None:
    missing = [package for package in packages if not _is_installed(package)]
    if missing:
        names = " ".join(missing)
        error = failed("native-packages-missing", f"not installed here: {names}", log)
        error.hint = f"install them with the system's package manager: {names}"
        raise error


def _is_installed(package: str) -> bool:
    queries = (["dpkg-query", "--show", "--showformat=${db:Status-Status}"], ["rpm", "--query"])
    for query in queries:
        if which(query[0]) is None:
            continue
        done = subprocess.run(
            [*query, "--", package] if query[0] == "dpkg-query" else [*query, package],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0 and (query[0] == "rpm" or done.stdout == "installed"):
            return True
    return False


def _require_walls(log: BuildLog) -> None:
    try:
        require_confinement()
    except CannotConfine as error:
        raised = failed("cannot-confine", str(error), log)
        raised.hint = error.hint
        raise raised from error
