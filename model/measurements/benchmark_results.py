"""Results of benchmarks that other programs measured: one record for all systems.

A result has one metric. Metrics are comparable only if their definitions are equal, because systems
use the same name for different quantities. What a file does not say stays unknown (``None`` or a
missing key) and is never guessed.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from statistics import fmean
from typing import Annotated, Any

from model.declared_fields import Field, public

#: A parameter of a benchmark, such as a batch size or a precision.
Parameter = str | int | float | bool

#: Software in result files that is the package of the same name on the default index. Other names
#: may belong to unrelated packages.
PYTHON_PACKAGES = frozenset(
    {
        "accelerate", "bigdl", "executorch", "flash-attn", "flashinfer-python", "jax", "jaxlib",
        "keras", "lmdeploy", "mxnet", "numpy", "onnxruntime", "onnxruntime-gpu", "openvino",
        "sacrebleu", "sglang", "tensorflow", "tensorflow-gpu", "tensorrt", "tensorrt-llm",
        "tf-nightly", "tf-nightly-gpu", "torch", "torchao", "torchaudio", "torchvision",
        "transformers", "triton", "vllm",
    }
)  # fmt: skip


class Direction(StrEnum):
    """Which values of a metric are better; stored values are never renamed."""

    HIGHER = "higher"
    LOWER = "lower"
    #: The file does not say, and the name of the metric is not known.
    UNKNOWN = "unknown"


class Validity(StrEnum):
    """Whether a result counts by the rules of its system; stored values are never renamed."""

    VALID = "valid"
    #: The rules of the system were violated, for example a bound on latency.
    INVALID = "invalid"
    #: There is no value: a crash, a failed build, an unsupported operation.
    FAILED = "failed"
    #: The file does not say.
    UNKNOWN = "unknown"


class Aggregate(StrEnum):
    """How the value of a result follows from its samples; stored values are never renamed."""

    SINGLE = "single"
    MEAN = "mean"
    MEDIAN = "median"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    SUM = "sum"
    #: The mean without the fastest and the slowest run.
    OLYMPIC_MEAN = "olympic mean"
    P50 = "p50"
    P90 = "p90"
    P99 = "p99"
    #: A rate over the whole run: all work divided by all time.
    TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Metric:
    """A measured quantity.

    :param name: the name that the system uses
    """

    name: str
    unit: Annotated[str, public("Unit of the value; empty for counts and fractions.", "GFLOPS")]
    direction: Annotated[Direction, public("Which values are better.")]
    definition: Annotated[
        str, public("Only values with the same definition are comparable.", "mlperf-training-v0.6")
    ]


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """A file that a result was read from."""

    place: Annotated[str, Field("Path inside the source.", "dawnbench/CIFAR10/train/entry.json")]
    sha256: Annotated[str, Field("Digest of the content.", "1f2e3d4c5b6a7988" * 4)]


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One value of one metric, with everything that its files say about it.

    :param samples: all samples behind ``value``; empty if the file has only the summary
    :param files: the files that the result was read from, ordered by path
    """

    system: Annotated[str, public("Key of the benchmark system.", "thoth")]
    source: Annotated[
        str, public("Path of the file or folder; the name of one of our inspections.")
    ]
    benchmark: Annotated[str, public("Task, model or operation.", "PiMatmul")]
    metric: Metric
    value: Annotated[
        float | None,
        public(
            "The value; null if nothing was measured, which is never valid.", 217.6, unit="`unit`"
        ),
    ]
    aggregate: Annotated[Aggregate, public("How the value follows from its samples.")]
    parameters: Annotated[
        Mapping[str, Parameter], public("Data set, phase, batch size and the like.")
    ] = field(default_factory=dict)
    samples: Annotated[Sequence[float], public("All samples behind the value.", unit="`unit`")] = ()
    validity: Annotated[Validity, public("Validity by the rules of the system.")] = Validity.UNKNOWN
    reason: Annotated[
        str | None, public("Why the result is not valid, or which of its runs or jobs failed.")
    ] = None
    hardware: Annotated[Mapping[str, str], public("Names of the machine's parts.")] = field(
        default_factory=dict
    )
    accelerators: Annotated[
        int | None, public("Number of accelerators; 0 for processors alone.", 8)
    ] = None
    software: Annotated[
        Mapping[str, str | None], public("Versions by name; null for an unknown version.")
    ] = field(default_factory=dict)
    measured_at: Annotated[datetime | None, public("Start of the measurement.")] = None
    files: Sequence[MeasuredFile] = ()

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"{self.metric.name}: {self.value} is not a finite number")
        if self.value is None and self.validity is Validity.VALID:
            raise ValueError(f"{self.metric.name}: a valid result needs a value")


@dataclass(frozen=True, slots=True)
class ResultSeries:
    """One benchmark of a result file that a person's program wrote in one job.

    :param system: key of the program whose format the file has, such as ``pyperf``
    :param parameters: distinguish it from other benchmarks of the same name
    :param unit: of all values, as the file names it
    :param samples: the repetitions, in order; empty if the file has only a summary
    :param summary: the program's summary of repetitions that it did not keep
    :param first: the first repetition of a process, before any warm-up
    :param excluded: why the series decides nothing; ``None`` if it may decide
    """

    system: str
    name: str
    parameters: Mapping[str, Parameter]
    unit: str
    direction: Direction
    samples: tuple[float, ...]
    summary: float | None = None
    first: float | None = None
    excluded: str | None = None

    @property
    def label(self) -> str:
        """Name and parameters, which are unique in a file.

        >>> ResultSeries("asv", "b.time_sort", {"n": 10}, "s", Direction.LOWER, (1.0,)).label
        'b.time_sort (n=10)'
        """
        parameters = ", ".join(f"{key}={it}" for key, it in self.parameters.items())
        return f"{self.name} ({parameters})" if parameters else self.name


@dataclass(frozen=True, slots=True)
class SharedMetric:
    """A metric that an indicator of ours measures by the definition of another system.

    :param indicator: title of the indicator in documents, such as ``PiGemm``
    :param parameters: required parameters of a job
    :param unit: required unit of a job's rate; ``None`` for any unit
    :param benchmark: name that the other system gives the benchmark
    :param formula: the value of a job from the amount of work in a call and the seconds per call of
        each repetition
    """

    indicator: str
    parameters: Mapping[str, Parameter]
    unit: str | None
    benchmark: str
    metric: Metric
    formula: Callable[[float, Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class ResultContext:
    """Number of a benchmark system's results that concern a request; they decide nothing.

    :param software: the required package that the results name; ``None`` for any software
    :param hardware: model of the requested machine's part that they were measured on; ``None`` for
        any machine
    """

    system: str
    results: int
    software: str | None = None
    hardware: str | None = None


def olympic_mean(values: Sequence[float]) -> float:
    """The mean without the smallest and the largest value, as MLPerf training scores an entry.

    One or two values are averaged, because no value would remain.

    :raises ValueError: if there is no value

    >>> olympic_mean([5.0, 1.0, 3.0, 100.0, 4.0])
    4.0
    """
    if not values:
        raise ValueError("the olympic mean of no values")
    ordered = sorted(values)
    return fmean(ordered[1:-1] if len(ordered) > 2 else ordered)


def result_document(result: BenchmarkResult) -> dict[str, Any]:
    """A result as ``thoth benchmarks --json`` and the API give it."""
    return {
        "system": result.system,
        "source": result.source,
        "benchmark": result.benchmark,
        "parameters": dict(result.parameters),
        "metric": result.metric.name,
        "unit": result.metric.unit,
        "direction": result.metric.direction.value,
        "definition": result.metric.definition,
        "value": result.value,
        "samples": list(result.samples),
        "aggregate": result.aggregate.value,
        "validity": result.validity.value,
        "reason": result.reason,
        "hardware": dict(result.hardware),
        "accelerators": result.accelerators,
        "software": dict(result.software),
        "measured_at": None if result.measured_at is None else result.measured_at.isoformat(),
        "files": [{"place": it.place, "sha256": it.sha256} for it in result.files],
    }
