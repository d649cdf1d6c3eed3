"""Runs jobs in containers of podman or docker, with one image per stack."""

import contextlib
import json
import math
import os
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from common.settings import Settings
from model.measurements.units import THREAD_VARIABLES
from pis.amun.hardware import hwinfo
from pis.amun.inspection_folder import JobSetup, job_result
from pis.amun.installer import BuildLog, LineCallback, build_failure
from pis.amun.jobs import FinishedJob, JobEnd, run_job
from pis.amun.launchers import Inspection, Job, JobResult, PreparedInspection
from pis.amun.launchers.images import (
    PYTHON,
    SCRIPT,
    BuiltImage,
    Engine,
    build_image,
    find_engine,
    isolation_options,
    prepared_of,
)
from pis.amun.launchers.local import unmet_requests
from pis.amun.processes import CONFINED, MEBIBYTE, SIGNAL_EXIT_CODE, JobLimits
from pis.amun.specification import Specification
from pis.temporary_folders import scratch_folder

#: Defaults if the specification requests nothing; unchanged since the first release.
DEFAULT_CPUS = 0.5
DEFAULT_MEMORY_BYTES = 256 * MEBIBYTE

#: Exit code of the engine if a container could not be started.
_NOT_STARTED = 125


@dataclass(frozen=True, slots=True)
class Allotment:
    """The resources of a container.

    :param cpus: CPU time per second of wall time
    :param threads: thread variables, so that libraries start no more threads
    """

    cpus: float
    limits: JobLimits
    threads: Mapping[str, str]


class ContainerLauncher:
    """Builds an image for each stack, and runs each job in a new container without network.

    :param on_line: called with each line of the build logs
    """

    name = "container"

    def __init__(self, settings: Settings, on_line: LineCallback | None = None) -> None:
        self._settings = settings
        self._on_line = on_line
        self._images: dict[str, BuiltImage] = {}

    def slots(self) -> int:
        """Return 1, as concurrent containers would disturb each other."""
        return 1

    def prepare(self, inspection: Inspection) -> PreparedInspection:
        """Build the image of the inspection's stack and script.

        :raises BuildFailed: with the log
        """
        log = BuildLog(self._on_line)
        unmet = list(unmet_requests(inspection.specification.run, hwinfo()))
        if unmet:
            raise build_failure("hardware-not-met", "; ".join(unmet), log)
        image = build_image(inspection, self._settings, log)
        self._images[image.identifier] = image
        return prepared_of(inspection, image, log)

    def run(self, prepared: PreparedInspection, job: Job) -> JobResult:
        """Run one job in a new container, which is always removed."""
        inspection, image = prepared.inspection, self._images[prepared.image or ""]
        allotment = allotment_of(inspection.specification)
        finished = run_container(find_engine(), image.identifier, inspection, allotment)
        setup = container_setup(allotment, prepared, self.name)
        return with_image_system(job_result(inspection, job, finished, setup), image.os_release)

    def close(self) -> None:
        """Do nothing: containers are already removed, and images remain as a cache."""


def allotment_of(specification: Specification) -> Allotment:
    """Return the resources that the specification requests, or else their defaults."""
    cpus = specification.run.cpus or DEFAULT_CPUS
    limits = replace(
        CONFINED,
        wall_s=specification.timeout_s,
        memory_bytes=specification.run.memory_bytes or DEFAULT_MEMORY_BYTES,
    )
    return Allotment(cpus, limits, dict.fromkeys(THREAD_VARIABLES, str(math.ceil(cpus))))


def container_setup(allotment: Allotment, prepared: PreparedInspection, launcher: str) -> JobSetup:
    """Return the setup of a job that ran within ``allotment``."""
    return JobSetup(
        launcher=launcher,
        confined=True,
        cpus=None,
        cpu_quota=allotment.cpus,
        memory_bytes=allotment.limits.memory_bytes,
        threads=allotment.threads,
        python_version=prepared.python_version,
    )


def run_container(
    engine: Engine, image: str, inspection: Inspection, allotment: Allotment
) -> FinishedJob:
    """Run the inspection's script once, and remove the container."""
    name = f"thoth-{uuid.uuid4()}"
    variables = {**allotment.threads, **dict(inspection.specification.environment)}
    options = [*isolation_options(), *_limits(engine, allotment), *_variables(variables)]
    command = [engine.path, "run", "--name", name, *options, image]
    command += [PYTHON, SCRIPT, *inspection.script.arguments]
    with scratch_folder("job") as folder:
        try:
            finished = run_job(
                command, environment=os.environ, limits=allotment.limits, workdir=folder
            )
            return _end_in_container(finished, _state(engine, name))
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                engine.call("rm", "--force", name)


def with_image_system(job: JobResult, os_release: Mapping[str, str]) -> JobResult:
    """In the result, replace the runner's operating system with the image's."""
    result = dict(job.result)
    result["os_release"] = dict(os_release) or None
    result["runtime_environment"] = result["runtime_environment"] | {
        "operating_system": {
            "name": os_release.get("id", "linux"),
            "version": os_release.get("version_id", ""),
        }
    }
    return JobResult(result, job.log)


def _limits(engine: Engine, allotment: Allotment) -> list[str]:
    limits = allotment.limits
    memory = str(limits.memory_bytes)
    options = ["--cpus", f"{allotment.cpus:g}", "--memory", memory, "--memory-swap", memory]
    options += ["--pids-limit", str(limits.processes), "--log-driver", "none"]
    options += ["--ulimit", f"fsize={limits.file_bytes}:{limits.file_bytes}"]
    # Its content counts as memory of the container.
    options += ["--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.disk_bytes},mode=1777"]  # noqa: S108
    if engine.name == "podman":  # by default it passes on the proxy's URL, with any password
        options += ["--http-proxy=false"]
    return options


def _variables(variables: Mapping[str, str]) -> list[str]:
    inside = {**variables, "HOME": "/tmp", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108
    return [option for name, value in inside.items() for option in ("--env", f"{name}={value}")]


def _state(engine: Engine, name: str) -> Mapping[str, Any]:
    """Return the engine's state of a container; empty if the container does not exist."""
    done = engine.call("inspect", "--format", "{{json .State}}", name)
    try:
        state = json.loads(done.stdout)
    except ValueError:
        return {}
    return state if isinstance(state, dict) else {}


def _end_in_container(finished: FinishedJob, state: Mapping[str, Any]) -> FinishedJob:
    """Return how the job ended, given how the engine's client ended.

    Engines report a signal as 128 plus the signal's number. Some engines do not report why the
    kernel sent the signal.
    """
    ended, exit_code = finished.ended, finished.exit_code
    if ended is JobEnd.EXITED and state.get("OOMKilled"):
        ended = JobEnd.MEMORY_LIMIT
    elif ended is JobEnd.EXITED and exit_code == _NOT_STARTED and not state:
        ended = JobEnd.LAUNCH_FAILED
    elif ended is JobEnd.EXITED and exit_code > SIGNAL_EXIT_CODE:
        ended = JobEnd.SIGNALLED
    if ended in {JobEnd.MEMORY_LIMIT, JobEnd.SIGNALLED} and exit_code > SIGNAL_EXIT_CODE:
        exit_code = SIGNAL_EXIT_CODE - exit_code
    return replace(finished, ended=ended, exit_code=exit_code, usage={})
