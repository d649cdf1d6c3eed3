"""Types of an inspection: one software stack, its jobs and their observations.

Units: durations in seconds, memory in bytes, rates per second in whole units
(:class:`model.measurements.units.Unit`), times in UTC. A digest is ``sha256:`` and 64 hexadecimal
digits of the canonical JSON of the value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NewType

from model.declared_fields import COMPARISON_KEY, DEVICE, DIGEST, PARAMETERS, Field, public
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


class Correction(StrEnum):
    """Corrections of rates that were published with a wrong operation count."""

    #: The TensorFlow matmul that multiplied only the additions by the mini batch:
    #: n³ + b(n³ − n²) operations were counted where b(2n³ − n²) were done.
    TENSORFLOW_MATMUL_MINI_BATCH = "tensorflow-matmul-mini-batch"


class Exclusion(StrEnum):
    """Why an observation is stored but excluded from every comparison."""

    #: The PyTorch matmul that did not synchronise the GPU before stopping the clock measured the
    #: launch, not the product; the recorded data cannot correct it.
    PYTORCH_MATMUL_UNSYNCHRONISED = "pytorch-matmul-unsynchronised"
    #: The host ended the build or the job, which says nothing about the stack.
    HOST_PROBLEM = "host-problem"


class Outcome(StrEnum):
    """How a job ended."""

    MEASURED = "measured"
    CRASHED = "crashed"
    #: Exit code 0, but no measurement on standard output.
    NO_RESULT = "no_result"
    #: The stack could not be installed, so no job ran.
    BUILD_FAILED = "build_failed"
    #: The host ended the build or the job (:mod:`model.measurements.job_stability`), not the stack.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationValues:
    """Values of one result of one job, in the record, the API, exports and the graph alike."""

    observation_id: Annotated[str, public("Identifier of the observation.", DIGEST)]
    job_id: Annotated[str, public("Identifier of the job.", f"{DIGEST}:0")]
    position: Annotated[int, public("Position within the inspection, from 0.", 0)]
    outcome: Annotated[str, public("How the job ended.", values=Outcome)]
    exit_code: Annotated[int, public("Exit code of the job, or of the build.", 0)]
    comparison_key: Annotated[str, COMPARISON_KEY]
    parameters: Annotated[dict[str, Any], PARAMETERS]
    device: Annotated[str | None, DEVICE]
    elapsed_s: Annotated[
        float | None, public("Duration of one measured call.", 0.0029, unit="s")
    ] = None
    rate: Annotated[
        float | None,
        public("Rate after any correction; null if nothing was measured.", 9.4e10, unit="`unit`"),
    ] = None
    reported_rate: Annotated[
        float | None, public("Rate in the document, before any correction.", 9.4e10, unit="`unit`")
    ] = None
    unit: Annotated[str | None, public("Unit of the rates.", "FLOP/s")] = None
    repetitions_s: Annotated[
        Sequence[float], Field("Duration of each repetition.", [0.0029, 0.0028], unit="s")
    ] = ()
    correction: Annotated[
        str | None, public("How a rate with a wrong definition was corrected.")
    ] = None
    quarantine_reason: Annotated[
        str | None, public("Why no comparison uses the observation, as a code.")
    ] = None
    unstable_reason: Annotated[
        str | None, public("Why comparisons leave the job out as unstable, as a code.")
    ] = None
    failure_reason: Annotated[
        str | None,
        public("Why the build failed, the host ended the job or the output is invalid, as a code."),
    ] = None
    failure_message: Annotated[str | None, Field("Why it failed, for people.")] = None
    host: Annotated[str | None, public("Digest of the machine within its hardware class.")] = None
    block: Annotated[str | None, public("Block of jobs that ran in turns on one host.")] = None
    turn: Annotated[
        int | None, public("Position of the job within its block or its inspection.", 0)
    ] = None
    steal_share: Annotated[
        float | None,
        public("Share of processor time that the hypervisor gave to others, 0 to 1.", 0.01),
    ] = None
    started_at: Annotated[datetime | None, public("When the job started.")] = None
    ended_at: Annotated[datetime | None, public("When the job ended.")] = None
    memory_bytes: Annotated[
        int | None, public("Peak memory of the job.", 120_000_512, unit="B")
    ] = None
    user_s: Annotated[float | None, public("Processor time in user mode.", 3.1, unit="s")] = None
    system_s: Annotated[float | None, public("Processor time in the kernel.", 0.2, unit="s")] = None
    spread: Annotated[
        float | None,
        public("Median absolute deviation of the repetitions over their median.", 0.004),
    ] = None
    minor_faults: Annotated[int | None, public("Page faults without input or output.", 11_250)] = (
        None
    )
    major_faults: Annotated[int | None, public("Page faults with input or output.", 0)] = None
    voluntary_switches: Annotated[int | None, public("Voluntary context switches.", 15)] = None
    involuntary_switches: Annotated[int | None, public("Involuntary context switches.", 3)] = None
    blocks_read: Annotated[int | None, public("Blocks read from disk.", 0)] = None
    blocks_written: Annotated[int | None, public("Blocks written to disk.", 8)] = None
    throttled: Annotated[bool | None, public("Whether heat or a quota slowed the job down.")] = None
    swapped: Annotated[bool | None, public("Whether the machine swapped during the job.")] = None
    load: Annotated[float | None, public("Load average of the minute before the job.", 0.2)] = None
    launcher: Annotated[
        str | None, public("What started the job: local, ray, container or kubernetes.", "local")
    ] = None
    threads: Annotated[
        int | None, public("Threads that the library used, or else that were requested.", 1)
    ] = None
    blas: Annotated[
        str | None, public("Linear algebra library and its kernels.", "OpenBLAS 0.3.27 Cooperlake")
    ] = None
    tick_share: Annotated[
        float | None, public("Smallest step of the clock over the time of a repetition.", 1e-6)
    ] = None
    boot: Annotated[
        str | None, public("Digest of the start of the machine: jobs since then share it.")
    ] = None
    build: Annotated[
        str | None,
        public("Installation of the environment; of older documents, digest of the environment."),
    ] = None
    energy_j: Annotated[
        float | None,
        public("Energy that the machine's counters showed during the job.", 41.5, unit="J"),
    ] = None
    energy_note: Annotated[
        str | None, public("Counters that the energy sums, or why the energy is unknown.", "gpu-0")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation(ObservationValues):
    """One result of one job; a job that measured three sizes has three observations.

    A failed build has a single observation, and no job. ``comparison_key`` is the digest of
    indicator, script, parameters, device and hardware class: only observations with equal keys are
    compared. ``repetitions_s`` is empty and ``spread`` is ``None`` if the document has no
    repetitions, or too few.
    """

    outcome: Outcome
    unit: Unit | None = None
    indicator: PerformanceIndicator
    hardware: Hardware
    environment: RuntimeEnvironment


@dataclass(frozen=True, slots=True)
class InspectionDocument:
    """One inspection as it is stored in the record.

    :param document_id: digest of ``body``
    :param collector: program that wrote the document
    :param stack: ``None`` if the document has no lock; ``stack_note`` says so
    :param body: canonical JSON of the delivery, without private data
    :param bundled: libraries that its wheels bundle, in the form of
        :func:`model.packages.native_libraries.bundled_document`; ``None`` if unknown
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
    bundled: Mapping[str, Any] | None = None

    @property
    def job_count(self) -> int:
        """Number of jobs that the host did not end; each has one observation or more."""
        excluded = (Outcome.BUILD_FAILED, Outcome.HOST_PROBLEM)
        return len({it.job_id for it in self.observations if it.outcome not in excluded})
