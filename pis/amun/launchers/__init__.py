"""Launchers build the environments of inspections and run their jobs, one at a time per slot."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from model.errors import ProjectError
from model.measurements.job_stability import is_host_build
from model.packages.native_libraries import Bundled
from pis.amun.specification import Specification


class BuildFailed(ProjectError):
    """The environment of a stack could not be built; this failure is itself a result.

    :param reason: stable code: ``hash-mismatch``, ``no-wheel``, ``build-failed``, or one of
        :data:`model.measurements.job_stability.BUILD_REASONS`
    :param log: log of the build
    :param exit_code: of the program that failed, else 1
    """

    def __init__(
        self, reason: str, message: str, *, log: str = "", exit_code: int = 1, hint: str = ""
    ) -> None:
        super().__init__(reason, message, log, exit_code, hint)
        self.reason = reason
        self.message = message
        self.log = log
        self.exit_code = exit_code
        self.hint = hint or None

    @property
    def host_problem(self) -> bool:
        """Whether the host caused the failure, so that it does not count against the stack."""
        return is_host_build(self.reason, self.message)

    def __str__(self) -> str:
        return f"{self.message} [{self.reason}]"

    def __reduce__(self) -> tuple[Any, ...]:
        # An error may come from another process.
        again = partial(BuildFailed, log=self.log, exit_code=self.exit_code, hint=self.hint or "")
        return again, (self.reason, self.message)


@dataclass(frozen=True, slots=True)
class Script:
    """The script that jobs run.

    :param name: name of a bundled indicator, ``None`` for a submitted script
    :param sha256: hex digest of the text in UTF-8
    :param arguments: command-line arguments
    :param trusted: set by ``--trust-script``: runs without a sandbox
    """

    text: str
    name: str | None
    sha256: str
    arguments: tuple[str, ...] = ()
    trusted: bool = False

    @property
    def bundled(self) -> bool:
        """Whether the script is a bundled indicator."""
        return self.name is not None

    @property
    def confined(self) -> bool:
        """Whether the script must run in a sandbox."""
        return not (self.bundled or self.trusted)


@dataclass(frozen=True, slots=True)
class Inspection:
    """A specification with its identifier and the script of its jobs."""

    inspection_id: str
    specification: Specification
    script: Script


@dataclass(frozen=True, slots=True)
class PreparedInspection:
    """An inspection with its built environment.

    :param environment: digest of the environment or image, ``sha256:…``; ``None`` if nodes differ
    :param build: identifies one installation of the environment; ``None`` if unknown
    :param python: path of the interpreter, on this machine or in the image
    :param log: log of the build
    :param python_version: version of the interpreter, such as ``3.11.7``; empty if unknown
    :param image: the built image, for launchers that build one
    :param dockerfile: the Containerfile of that image
    :param bundled: libraries that the wheels bundle; ``None`` if unknown
    """

    inspection: Inspection
    environment: str | None
    python: str
    log: str
    python_version: str = ""
    image: str | None = None
    dockerfile: str | None = None
    build: str | None = None
    bundled: Bundled | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One run of an inspection's script, in a new process.

    :param number: name of its folder below ``results``
    :param run: identifier of this invocation of the executor
    :param block: number of its block; the jobs of a block run close together
    :param turn: position in the block, from 1
    :param slot: ``0 … launcher.slots() - 1``, the same for all jobs of a block. Jobs of different
        slots may run concurrently
    """

    inspection_id: str
    number: int
    run: str
    block: int
    turn: int
    interleaved: bool
    slot: int = 0


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result document of a job (``results/N/result``), and its log for people."""

    result: dict[str, Any]
    log: str


class Launcher(Protocol):
    """Builds the environments of inspections and runs their jobs."""

    name: str

    def slots(self) -> int:
        """Return how many blocks may run concurrently; 1 if they would disturb each other."""

    def prepare(self, inspection: Inspection) -> PreparedInspection:
        """Build the environment of the inspection.

        :raises BuildFailed: with the log
        """

    def run(self, prepared: PreparedInspection, job: Job) -> JobResult:
        """Run one job in a new process; the result describes any failure of the script."""

    def close(self) -> None:
        """Release the launcher's resources."""
