"""Where jobs run: every launcher builds what a stack needs and runs one job at a time a slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from common.errors import ProjectError
from common.host_problems import is_host_build
from pis.amun.specification import Specification


class BuildFailed(ProjectError):
    """What a stack needs could not be made; recorded as a result of its own.

    :param reason: stable code: ``hash-mismatch``, ``no-wheel``, ``build-failed``, or one of
        :data:`common.host_problems.BUILD_REASONS`
    :param log: everything that was said until then
    :param exit_code: of the program that failed; 1 if none did
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
        """Whether the host is to blame, so that the failure says nothing of the stack."""
        return is_host_build(self.reason, self.message)

    def __str__(self) -> str:
        return f"{self.message} [{self.reason}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return _build_failed, (self.reason, self.message, self.log, self.exit_code, self.hint)


def _build_failed(
    reason: str, message: str, log: str, exit_code: int, hint: str | None
) -> BuildFailed:
    """A failed build that came from another process."""
    return BuildFailed(reason, message, log=log, exit_code=exit_code, hint=hint or "")


@dataclass(frozen=True, slots=True)
class Script:
    """What a job runs: one text, and what it is called with.

    :param name: of the bundled indicator, ``None`` for a submitted script
    :param sha256: of the text's UTF-8 bytes, hexadecimal
    :param trusted: whether the person who runs it vouches for it, on the command line
    """

    text: str
    name: str | None
    sha256: str
    arguments: tuple[str, ...] = ()
    trusted: bool = False

    @property
    def bundled(self) -> bool:
        """Whether the script is ours."""
        return self.name is not None

    @property
    def confined(self) -> bool:
        """Whether the script runs in a sandbox or not at all."""
        return not (self.bundled or self.trusted)


@dataclass(frozen=True, slots=True)
class Inspection:
    """One specification under its identifier, with the script that its jobs run."""

    inspection_id: str
    specification: Specification
    script: Script


@dataclass(frozen=True, slots=True)
class Prepared:
    """An inspection whose environment stands.

    :param environment: digest of the environment or image, ``sha256:…``
    :param python: the interpreter that runs the script: a path here, a name in an image
    :param log: of the build
    :param python_version: of that interpreter, such as ``3.11.7``; empty if not known
    :param image: the image that was built, for launchers that build one
    :param dockerfile: the recipe of that image
    """

    inspection: Inspection
    environment: str | None
    python: str
    log: str
    python_version: str = ""
    image: str | None = None
    dockerfile: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One fresh process of one inspection.

    :param number: its folder below ``results``
    :param run: identifier of this invocation of the executor
    :param block: jobs of one block run close together, one of each inspection
    :param turn: 1 for the first job of the block
    :param slot: ``0 … launcher.slots() - 1``; all jobs of a block have the same, and jobs of
        two slots may run at a time
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
    """The result document of one job (``results/N/result``), and its log for a person."""

    result: dict[str, Any]
    log: str


class Launcher(Protocol):
    """Builds what inspections need, and runs their jobs."""

    name: str

    def slots(self) -> int:
        """How many blocks may run at a time; 1 where they would disturb each other."""

    def prepare(self, inspection: Inspection) -> Prepared:
        """Build what the inspection needs.

        :raises BuildFailed: with the log
        """

    def run(self, prepared: Prepared, job: Job) -> JobResult:
        """Run one job in a fresh process; whatever the script does ends in the result."""

    def close(self) -> None:
        """Give back what the launcher holds."""
