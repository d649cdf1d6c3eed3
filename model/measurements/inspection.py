"""Types of an inspection: one software stack, its jobs and their observations.

Units: durations in seconds, memory in bytes, rates per second in whole units
(:class:`model.measurements.units.Unit`), times in UTC. A digest is ``sha256:`` and 64 hexadecimal
digits of the canonical JSON of the value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NewType

from model.json_documents import digest
from model.measurements.units import Unit
from model.packages.identity import PackageVersion

#: ``collector`` of documents that this project's own programs write.
OWN_COLLECTOR = "thoth"

DocumentId = NewType("DocumentId", str)
StackDigest = NewType("StackDigest", str)


class SchemaVersion(StrEnum):
    """Supported generations of inspection documents."""

    #: One document: specification, status and a ``job_log`` keyed by matrix size.
    Y2019 = "inspection-2019"
    #: One document: specification, status and a list of ``job_logs``.
    Y2020_02_JOB_LOGS = "inspection-2020-02-job-logs"
    #: One result document with the requirements beside the measurement.
    Y2020_02 = "inspection-2020-02"
    #: Several documents of 2020-02 in a dictionary keyed by inspection.
    Y2020_02_DICTIONARY = "inspection-2020-02-dictionary"
    #: One folder for each inspection: ``build/specification`` and ``results/N/result``.
    DIRECTORY = "inspection-directory"


class Outcome(StrEnum):
    """How a job ended."""

    MEASURED = "measured"
    CRASHED = "crashed"
    #: Exit code 0, but no measurement on standard output.
    NO_RESULT = "no_result"
    #: The stack could not be installed, so no job ran.
    BUILD_FAILED = "build_failed"
    #: The host ended the build or the job (:mod:`model.measurements.host_problems`), not the stack.
    HOST_PROBLEM = "host_problem"


@dataclass(frozen=True, slots=True)
class Stack:
    """The locked packages of an environment, in name order."""

    digest: StackDigest
    packages: tuple[PackageVersion, ...]

    @classmethod
    def of(cls, packages: tuple[PackageVersion, ...]) -> Stack:
        """The stack of these packages, in any order."""
        ordered = tuple(sorted(set(packages), key=lambda package: package.purl))
        return cls(StackDigest(digest([package.purl for package in ordered])), ordered)


@dataclass(frozen=True, slots=True)
class Hardware:
    """A hardware class, without any measured clock rate (rule 1 of docs/statistics.md).

    ``digest`` is computed from ``identity``; ``label`` is for display.
    """

    digest: str
    label: str
    identity: dict[str, Any]


@dataclass(frozen=True, slots=True)
class RuntimeEnvironment:
    """Operating system, Python and image of a stack; ``None`` where not recorded."""

    digest: str
    os_name: str | None
    os_version: str | None
    python_version: str | None
    cuda_version: str | None
    base_image: str | None
    native_packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PerformanceIndicator:
    """A performance indicator: a measuring script, identified by its content."""

    indicator_id: str
    name: str
    component: str | None
    script_sha256: str | None


@dataclass(frozen=True, slots=True)
class Observation:
    """One result of one job; a job that measured three sizes has three observations.

    A failed build has a single observation, and no job.

    :param position: index within the inspection, from 0
    :param comparison_key: digest of indicator, script, parameters, device and hardware class;
        only observations with equal keys are compared
    :param rate: in ``unit``, after any ``correction``; ``reported_rate`` is the rate in the
        document, in the same unit
    :param repetitions_s: raw durations, if the document has them
    :param spread: median absolute deviation of the repetitions over their median; ``None`` below
        two repetitions
    :param quarantine_reason: why it is excluded from every comparison
    :param unstable_reason: stability rule that flagged the job
    :param failure_reason: code of why the build failed, or of what ended the job from outside
    :param failure_message: the same for a person
    :param host: digest that identifies the machine, if the runner recorded it
    :param block: jobs of one block on one host ran interleaved; ``None`` if they did not
    :param turn: position within its block or its inspection
    :param steal_share: share of CPU time that the hypervisor took, within [0, 1]
    :param throttled: whether heat or a quota slowed the job down
    :param load: load average of the minute before the job
    :param launcher: what started the job, such as ``local`` or ``ray``
    :param threads: that the library used, or else that were requested
    :param blas: linear algebra library and its kernels, as the script reported them
    :param tick_share: smallest step of the clock as a share of the time of a repetition
    """

    observation_id: str
    job_id: str
    position: int
    outcome: Outcome
    exit_code: int
    indicator: PerformanceIndicator
    hardware: Hardware
    environment: RuntimeEnvironment
    parameters: dict[str, Any]
    device: str | None
    comparison_key: str
    elapsed_s: float | None = None
    rate: float | None = None
    reported_rate: float | None = None
    repetitions_s: tuple[float, ...] = ()
    correction: str | None = None
    unit: Unit | None = None
    quarantine_reason: str | None = None
    unstable_reason: str | None = None
    failure_reason: str | None = None
    failure_message: str | None = None
    host: str | None = None
    block: str | None = None
    turn: int | None = None
    steal_share: float | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    memory_bytes: int | None = None
    user_s: float | None = None
    system_s: float | None = None
    spread: float | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    blocks_read: int | None = None
    blocks_written: int | None = None
    throttled: bool | None = None
    swapped: bool | None = None
    load: float | None = None
    launcher: str | None = None
    threads: int | None = None
    blas: str | None = None
    tick_share: float | None = None


@dataclass(frozen=True, slots=True)
class InspectionDocument:
    """One inspection as it is stored in the record.

    :param document_id: digest of ``body``
    :param collector: program that wrote the document
    :param stack: ``None`` if the document has no lock; ``stack_note`` says so
    :param body: canonical JSON of the delivery, without private data
    """

    document_id: DocumentId
    schema_version: SchemaVersion
    collector: str
    name: str
    stack: Stack | None
    stack_note: str | None
    created_at: datetime | None
    observations: tuple[Observation, ...]
    body: bytes = field(repr=False)

    @property
    def job_count(self) -> int:
        """Number of jobs that the host did not end; each has one observation or more."""
        excluded = (Outcome.BUILD_FAILED, Outcome.HOST_PROBLEM)
        return len({it.job_id for it in self.observations if it.outcome not in excluded})
