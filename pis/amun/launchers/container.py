"""Jobs in containers of podman or docker, from an image that is built for each stack."""

from __future__ import annotations

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
from common.units import THREAD_VARIABLES
from pis.amun.hardware import hwinfo
from pis.amun.inspection_folder import Ran, job_result
from pis.amun.installer import BuildLog, Say, failed
from pis.amun.job_limits import (
    CONFINED,
    MEBIBYTE,
    JobLimits,
)
from pis.amun.jobs import Ended, Finished, run_job
from pis.amun.launchers import Inspection, Job, JobResult, Prepared
from pis.amun.launchers.containerfile import PYTHON, SCRIPT
from pis.amun.launchers.images import (
    BuiltImage,
    Engine,
    build_image,
    find_engine,
    isolation,
    prepared_of,
)
from pis.amun.launchers.local import unmet_requests
from pis.amun.specification import Specification
from pis.scratch import scratch_folder

#: What a job gets where its specification asks for nothing; so it has always been.
DEFAULT_CPUS = 0.5
DEFAULT_MEMORY_BYTES = 256 * MEBIBYTE

#: The engine's own exit code where a container could not be started.
_NOT_STARTED = 125
_SIGNALLED = 128


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a container may take.

    :param cpus: processors' worth of time
    :param threads: thread variables, so that libraries start no more than that
    """

    cpus: float
    limits: JobLimits
    threads: Mapping[str, str]


class ContainerLauncher:
    """Builds an image for each stack, and runs each job in a new container without network.

    :param say: called with each line of a build's log
    """

    name = "container"

    def __init__(self, settings: Settings, say: Say | None = None) -> None:
        self._settings = settings
        self._say = say
        self._images: dict[str, BuiltImage] = {}

    def slots(self) -> int:
        """One: containers of one machine would disturb each other."""
        return 1

    def prepare(self, inspection: Inspection) -> Prepared:
        """Build the image of the inspection's stack and script.

        :raises BuildFailed: with the log
        """
        log = BuildLog(self._say)
        unmet = list(unmet_requests(inspection.specification.run, hwinfo()))
        if unmet:
            raise failed("hardware-not-met", "; ".join(unmet), log)
        image = build_image(inspection, self._settings, log)
        self._images[image.identifier] = image
        return prepared_of(inspection, image, log)

    def run(self, prepared: Prepared, job: Job) -> JobResult:
        """Run one job in a new container, which is removed whatever happens."""
        inspection, image = prepared.inspection, self._images[prepared.image or ""]
        allotment = allotment_of(inspection.specification)
        finished = run_container(find_engine(), image.identifier, inspection, allotment)
        ran = ran_within(allotment, prepared, self.name)
        return of_image(job_result(inspection, job, finished, ran), image.os_release)

    def close(self) -> None:
        """Nothing is held: containers are gone, and images stay, since they are the cache."""


def allotment_of(specification: Specification) -> Allotment:
    """What the specification asks for, else the defaults of containers."""
    cpus = specification.run.cpus or DEFAULT_CPUS
    limits = replace(
        CONFINED,
        wall_s=specification.timeout_s,
        memory_bytes=specification.run.memory_bytes or DEFAULT_MEMORY_BYTES,
    )
    return Allotment(cpus, limits, dict.fromkeys(THREAD_VARIABLES, str(math.ceil(cpus))))


def ran_within(allotment: Allotment, prepared: Prepared, launcher: str) -> Ran:
    """How a job ran that was held by an allotment."""
    return Ran(
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
) -> Finished:
    """Run the inspection's script once, and remove the container."""
    name = f"thoth-{uuid.uuid4()}"
    variables = {**allotment.threads, **dict(inspection.specification.environment)}
    options = [*isolation(), *_limits(engine, allotment), *_variables(variables)]
    command = [engine.path, "run", "--name", name, *options, image]
    command += [PYTHON, SCRIPT, *inspection.script.arguments]
    with scratch_folder("job") as folder:
        try:
            finished = run_job(
                command,
                environment=os.environ,
                limits=allotment.limits,
                workdir=folder,
            )
            return _as_contained(finished, _state(engine, name))
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                engine.call("rm", "--force", name)


def of_image(job: JobResult, os_release: Mapping[str, str]) -> JobResult:
    """What the runner says of its own system, said of the image's."""
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
    # What is in it counts as the container's memory.
    options += ["--tmpfs", f"/tmp:rw,nosuid,nodev,size={limits.disk_bytes},mode=1777"]  # noqa: S108
    if engine.name == "podman":  # else it hands on the proxy, whose address may hold a password
        options += ["--http-proxy=false"]
    return options


def _variables(variables: Mapping[str, str]) -> list[str]:
    inside = {**variables, "HOME": "/tmp", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108
    return [word for name, value in inside.items() for word in ("--env", f"{name}={value}")]


def _state(engine: Engine, name: str) -> Mapping[str, Any]:
    """What the engine knows of a container; nothing if there was none."""
    done = engine.call("inspect", "--format", "{{json .State}}", name)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _as_contained(finished: Finished, state: Mapping[str, Any]) -> Finished:
    """``finished`` said of the job, not of the client that waited for it.

    Engines tell a signal as 128 + its number, and not all of them why the kernel sent it.
    """
    ended, exit_code = finished.ended, finished.exit_code
    if ended is Ended.EXITED and state.get("OOMKilled"):
        ended = Ended.MEMORY_LIMIT
    elif ended is Ended.EXITED and exit_code == _NOT_STARTED and not state:
        ended = Ended.LAUNCH_FAILED
    elif ended is Ended.EXITED and exit_code > _SIGNALLED:
        ended = Ended.SIGNALLED
    if ended in {Ended.MEMORY_LIMIT, Ended.SIGNALLED} and exit_code > _SIGNALLED:
        exit_code = _SIGNALLED - exit_code
    return replace(finished, ended=ended, exit_code=exit_code, usage={})
