"""Runs jobs on this machine, one at a time. Other launchers use this launcher on their nodes."""

import json
import math
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import which
from types import MappingProxyType
from typing import Any

import psutil

from common.formats.benchmark_files import MAX_BYTES
from common.settings import SECRET_VARIABLES, Settings
from model.errors import ProjectError
from model.measurements.units import THREAD_VARIABLES
from pis.amun.environments import build_environment
from pis.amun.hardware import hwinfo, read_limits, separate_cores
from pis.amun.inspection_folder import JobSetup, job_result
from pis.amun.installer import BuildLog, LineCallback, build_failure
from pis.amun.jobs import FinishedJob, run_job
from pis.amun.launchers import BuildFailed, Inspection, Job, JobResult, PreparedInspection, Script
from pis.amun.limit_watch import Watch
from pis.amun.processes import CONFINED, JobLimits
from pis.amun.sandbox import (
    CannotConfine,
    end_of_job,
    interpreter_folders,
    require_confinement,
    sandbox_command,
)
from pis.amun.specification import ResourceRequests, Specification
from pis.command_specifications import DESCRIPTION, RESULTS, RESULTS_FILE, Command, results_document
from pis.temporary_folders import scratch_folder

#: Variables of the runner that a job inherits. All others could be secrets.
_INHERITED = (*THREAD_VARIABLES, "CUDA_VISIBLE_DEVICES")
_NOTHING: Mapping[str, str] = MappingProxyType({})
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_LOCALE = "C.UTF-8"
#: Copies the specification's files into the working folder, which exists only in the sandbox.
#: `cp` is called by its path, as the specification may set PATH.
_COPY_FILES = '/bin/cp -r "$1"/. . && shift && exec "$@"'


class LocalLauncher:
    """Builds environments and runs jobs on this machine."""

    name = "local"

    def __init__(
        self,
        settings: Settings,
        on_line: LineCallback | None = None,
        commands: Sequence[Command] = (),
        concealed: Mapping[str, str] = _NOTHING,
    ) -> None:
        """Make a launcher for values from the command line; documents have none of their secrets.

        :param commands: they run as in the person's shell
        :param concealed: the value of a variable for each digest in a specification
        """
        self._settings = settings
        self._on_line = on_line
        self._commands = commands
        self._concealed = concealed
        self._uses = ExitStack()

    def slots(self) -> int:
        """Return 1, as concurrent jobs would disturb each other."""
        return 1

    def prepare(self, inspection: Inspection) -> PreparedInspection:
        """Build the environment of the inspection's lock."""
        return prepare_here(inspection, self._settings, self._uses, self._on_line)

    def run(self, prepared: PreparedInspection, job: Job) -> JobResult:
        """Run one job in a new process."""
        return run_here(prepared, job, self.name, self._commands, self._concealed)

    def close(self) -> None:
        """Give up the environments, which ``thoth clean`` may remove then."""
        self._uses.close()


def prepare_here(
    inspection: Inspection,
    settings: Settings,
    uses: ExitStack,
    on_line: LineCallback | None = None,
) -> PreparedInspection:
    """Build the environment of an inspection on this machine.

    :param uses: until it is closed, the environment is in use
    :raises BuildFailed: also if this machine does not meet the requirements
    """
    log = BuildLog(on_line)
    specification = inspection.specification
    for note in _notes(specification):
        log.write(note)
    unmet = list(unmet_requests(specification.run, hwinfo()))
    if unmet:
        raise build_failure("hardware-not-met", "; ".join(unmet), log)
    missing = [package for package in specification.packages if not _is_installed(package)]
    if missing:
        names = " ".join(missing)
        hint = f"install them with the system's package manager: {names}"
        message = f"not installed on this machine: {names}"
        raise build_failure("native-packages-missing", message, log, hint=hint)
    if inspection.script.confined:
        try:
            require_confinement()
        except CannotConfine as error:
            raise build_failure("cannot-confine", str(error), log, hint=error.hint or "") from error
    elif inspection.script.trusted:
        log.write("the script runs as the current user, without a sandbox")
    try:
        environment = build_environment(
            specification.lock, settings, specification.python_version, on_line, uses
        )
    except BuildFailed as error:
        error.log = str(log) + error.log
        raise
    return PreparedInspection(
        inspection=inspection,
        environment=environment.digest,
        python=str(environment.python),
        python_version=environment.python_version,
        log=str(log) + environment.log,
        build=environment.build,
        bundled=environment.bundled,
    )


def run_here(
    prepared: PreparedInspection,
    job: Job,
    launcher: str,
    commands: Sequence[Command] = (),
    concealed: Mapping[str, str] = _NOTHING,
) -> JobResult:
    """Run one job in a new process on this machine.

    :param launcher: name of the launcher in the result
    :param commands: commands that trusted jobs run, as in a shell
    :param concealed: see :class:`LocalLauncher`
    :raises CommandChanged: if files of the command changed; the job does not count
    """
    specification, script = prepared.inspection.specification, prepared.inspection.script
    own = ((name, concealed.get(value, value)) for name, value in specification.environment)
    specification = replace(specification, environment=tuple(own))
    limits = limits_of(specification, script)
    requested = specification.run.cpus
    cpus = separate_cores(math.ceil(requested)) if requested else None
    variables = _variables(specification, Path(prepared.python), cpus)
    with scratch_folder("job") as folder:
        if commands and script.trusted:
            description = json.loads(dict(specification.files)[DESCRIPTION])
            command = next(it for it in commands if it.is_of(description["parameters"]))
            variables = shell_variables(specification, Path(prepared.python), command)
            command.require_unchanged()
            finished = _run_in_project(prepared, folder, limits, variables, command, description)
            command.require_unchanged()
        else:
            run = _run_confined if script.confined else _run_unconfined
            finished = run(prepared, folder, limits, variables, cpus)
    groups = read_limits()
    memory = [size for size in (groups.memory_bytes, limits.memory_bytes) if size is not None]
    setup = JobSetup(
        launcher=launcher,
        confined=script.confined,
        cpus=len(cpus) if cpus else len(os.sched_getaffinity(0)),
        cpu_quota=groups.cpu_quota,
        memory_bytes=min(memory, default=None),
        threads={name: variables[name] for name in THREAD_VARIABLES if name in variables},
        python_version=prepared.python_version,
    )
    return job_result(prepared.inspection, job, finished, setup)


def limits_of(specification: Specification, script: Script) -> JobLimits:
    """Return the limits of a job; without a sandbox, only time and output are limited."""
    if not script.confined:
        return JobLimits(wall_s=specification.timeout_s)
    memory_bytes = specification.run.memory_bytes or CONFINED.memory_bytes
    return replace(CONFINED, wall_s=specification.timeout_s, memory_bytes=memory_bytes)


def _run_unconfined(
    prepared: PreparedInspection,
    folder: Path,
    limits: JobLimits,
    variables: Mapping[str, str],
    cpus: list[int] | None,
) -> FinishedJob:
    inspection = prepared.inspection
    workdir = folder / "work"
    _write_files(workdir, inspection.specification.files)
    path = _write_script(folder, inspection.script)
    environment = {**variables, "HOME": str(folder), "TMPDIR": str(folder)}
    command = [prepared.python, str(path), *inspection.script.arguments]
    return run_job(command, environment=environment, limits=limits, workdir=workdir, cpus=cpus)


def _run_in_project(
    prepared: PreparedInspection,
    folder: Path,
    limits: JobLimits,
    variables: Mapping[str, str],
    command: Command,
    description: Mapping[str, Any],
) -> FinishedJob:
    inspection = prepared.inspection
    described = folder / "work"
    content = json.dumps({**description, "arguments": command.program})
    _write_files(described, ((DESCRIPTION, content),))
    path = _write_script(folder, inspection.script)
    environment = {**variables, "THOTH_COMMAND": str(described / DESCRIPTION)}
    # Isolated: modules of the project must not replace those that the script imports.
    arguments = [prepared.python, "-I", str(path)]
    finished = run_job(arguments, environment=environment, limits=limits, workdir=command.folder)
    writes_results = any(RESULTS in it for it in command.arguments)
    return _with_results(finished, described) if writes_results else finished


def _with_results(finished: FinishedJob, folder: Path) -> FinishedJob:
    """Replace the output of a command with the results in the file that it wrote."""
    if finished.exit_code:
        return finished
    try:
        with (folder / RESULTS_FILE).open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        document = results_document(json.loads(finished.stdout), content)
    except (OSError, ProjectError) as error:
        reason = f"the command succeeded, but its file {RESULTS} cannot be read"
        message = f"error: {reason}: {getattr(error, 'strerror', None) or error}\n".encode()
        return replace(finished, exit_code=1, stderr=finished.stderr + message)
    return replace(finished, stdout=json.dumps(document).encode())


def _run_confined(
    prepared: PreparedInspection,
    folder: Path,
    limits: JobLimits,
    variables: Mapping[str, str],
    cpus: list[int] | None,
) -> FinishedJob:
    inspection = prepared.inspection
    workdir, inputs = folder / "work", folder / "inputs"
    workdir.mkdir()
    inputs.mkdir()
    path = _write_script(inputs, inspection.script)
    _write_files(inputs / "files", inspection.specification.files)
    command = [prepared.python, str(path), *inspection.script.arguments]
    command = ["/bin/sh", "-c", _COPY_FILES, "files", str(inputs / "files"), *command]
    sandboxed = sandbox_command(
        command,
        workdir=workdir,
        readable=[inputs, *_interpreter(prepared.python)],
        limits=limits,
        environment=variables,
    )
    # The programs that make the sandbox get no variables of the specification.
    outside = {"PATH": _SYSTEM_PATH, "LANG": _LOCALE}
    finished = run_job(
        sandboxed, environment=outside, limits=limits, workdir=workdir, cpus=cpus, watch=Watch
    )
    return end_of_job(finished)


@cache
def _interpreter(python: str) -> tuple[Path, ...]:
    return tuple(interpreter_folders(Path(python)))


def _write_script(folder: Path, script: Script) -> Path:
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
    """Return the job's variables except those of its folders; the specification has precedence."""
    threads = dict.fromkeys(THREAD_VARIABLES, str(len(cpus))) if cpus else {}
    return {
        "PATH": f"{python.parent}:{_SYSTEM_PATH}",
        "LANG": _LOCALE,
        "PYTHONDONTWRITEBYTECODE": "1",
        **{name: os.environ[name] for name in _INHERITED if name in os.environ},
        **threads,
        **dict(specification.environment),
    }


def shell_variables(specification: Specification, python: Path, command: Command) -> dict[str, str]:
    """Return the variables of this process, with the environment of ``python`` active.

    Settings with secrets are left out. The specification's variables have precedence.
    """
    own = {
        it: value for it, value in os.environ.items() if it not in {"PYTHONHOME", *SECRET_VARIABLES}
    }
    own["PATH"] = f"{python.parent}:{own.get('PATH', _SYSTEM_PATH)}"
    own["VIRTUAL_ENV"] = str(python.parent.parent)
    if command.project:
        folders = [it for it in (command.folder / "src", command.folder) if it.is_dir()]
        paths = [*map(str, folders), *filter(None, [own.get("PYTHONPATH")])]
        own["PYTHONPATH"] = os.pathsep.join(paths)
    return own | dict(specification.environment)


def _notes(specification: Specification) -> Iterator[str]:
    if specification.base is not None:
        yield f"the image {specification.base} is not used: jobs run directly on this machine"
    for package in specification.python_packages:
        yield f"not installed, as this launcher does not need it: {package}"
    cpus = specification.run.cpus
    if cpus is not None and cpus != math.ceil(cpus):
        yield f"{cpus:g} processors were requested; jobs are pinned to {math.ceil(cpus)}"


def unmet_requests(requests: ResourceRequests, info: Mapping[str, Any]) -> Iterator[str]:
    """Yield the requests that the machine described by ``info`` does not meet."""
    cpu, hardware = info["cpu_info"], requests.hardware
    for name, value, actual in (
        ("cpu_family", hardware.cpu_family, cpu.get("family")),
        ("cpu_model", hardware.cpu_model, cpu.get("model")),
    ):
        if value not in (None, actual):
            yield f"{name} {value} was requested, this machine has {actual}"
    brand = str(cpu.get("brand_raw", ""))
    if hardware.processor is not None and hardware.processor.lower() not in brand.lower():
        yield f"processor {hardware.processor!r} was requested, this machine has {brand!r}"
    cores = (cpu.get("sockets") or 1) * (cpu.get("cores") or 1)
    if hardware.physical_cpus is not None and hardware.physical_cpus > cores:
        yield f"{hardware.physical_cpus} physical cores were requested, this machine has {cores}"
    usable = len(os.sched_getaffinity(0))
    if requests.cpus is not None and math.ceil(requests.cpus) > usable:
        yield f"{requests.cpus:g} processors were requested, {usable} are available"
    memory = psutil.virtual_memory().total
    if requests.memory_bytes is not None and requests.memory_bytes > memory:
        yield f"{requests.memory_bytes} bytes of memory were requested, this machine has {memory}"


def _is_installed(package: str) -> bool:
    dpkg = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", "--", package]
    for query, expected in ((dpkg, "installed"), (["rpm", "--query", package], "")):
        if which(query[0]) is not None:
            done = subprocess.run(query, capture_output=True, text=True, check=False)
            if done.returncode == 0 and expected in ("", done.stdout):
                return True
    return False
