"""Parts from which readers make results: values in texts, measures in tables, facts of a run.

A reader finds a text or a number, and names its :class:`Measure`. A value that is missing, no
number or impossible becomes a failed result with a reason, never a guess.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, TypeVar

from packaging.utils import canonicalize_name

from model.errors import InvalidDocument
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Parameter,
    Validity,
)
from pis.indicators.tails import percentile

HIGHER, LOWER = Direction.HIGHER, Direction.LOWER
_Part = TypeVar("_Part")

#: Sums of larger numbers overflow; no measurement is larger.
_LARGEST = 1e30
_NUMBER = re.compile(r"[+-]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][+-]?\d{1,3})?")
_LARGEST_COUNT = 2**53
#: Times before 1980 are clocks that were not set; times after 2100 are no seconds.
_EARLIEST_S, _LATEST_S = 315_532_800, 4_102_444_800


def finite_number(value: object) -> float | None:
    """A text or a JSON value as a number; ``None`` if it is no number or too large to store.

    >>> finite_number(" 2.50 "), finite_number("N/A"), finite_number("nan"), finite_number("1e999")
    (2.5, None, None, None)
    >>> finite_number("3\\x1e")
    3.0
    >>> finite_number(7), finite_number(True), finite_number(float("inf")), finite_number(None)
    (7.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if isinstance(value, str):
        text = value.strip()  # more than float() takes off
        if not _NUMBER.fullmatch(text):
            return None
        value = float(text)
    # An integer may be too large for a float; NaN is not less than anything.
    return float(value) if abs(value) <= _LARGEST else None


def positive_number(value: object) -> float | None:
    """A finite number above zero, or ``None``: no time and no rate is zero.

    >>> positive_number("0.00"), positive_number(-1), positive_number("3")
    (None, None, 3.0)
    """
    number = finite_number(value)
    return number if number is not None and number > 0 else None


def whole_number(value: object) -> int | None:
    """A count of zero or more, also as a text or a float; ``None`` for other values.

    >>> whole_number("8"), whole_number(8.0), whole_number("8.5"), whole_number("-1")
    (8, 8, None, None)
    """
    number = finite_number(value)
    if number is None or not number.is_integer() or not 0 <= number <= _LARGEST_COUNT:
        return None
    return int(number)


def time_of_epoch(seconds: object) -> datetime | None:
    """The time of ``seconds`` since 1970, or ``None`` if that is no date of a measurement.

    >>> str(time_of_epoch("1700000000")), time_of_epoch("0"), time_of_epoch(1e18)
    ('2023-11-14 22:13:20+00:00', None, None)
    """
    number = finite_number(seconds)
    if number is None or not _EARLIEST_S <= number <= _LATEST_S:
        return None
    return datetime.fromtimestamp(number, UTC)


def time_of_text(text: object, form: str | None = None) -> datetime | None:
    """A time in UTC, or ``None``; a text without a zone is read as UTC.

    :param form: directives of ``strptime`` without a zone; ISO 8601 without ``form``

    >>> str(time_of_text("2020-05-01T10:00:00+02:00")), time_of_text("yesterday")
    ('2020-05-01 08:00:00+00:00', None)
    """
    try:
        if form is not None:
            return datetime.strptime(str(text), form).replace(tzinfo=UTC)
        time = datetime.fromisoformat(str(text))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def product_of(*counts: object) -> int | None:
    """The product of counts, such as nodes and accelerators in each; ``None`` if one is unknown.

    >>> product_of("2", 8), product_of(2, None)
    (16, None)
    """
    numbers = [whole_number(it) for it in counts]
    return None if None in numbers else math.prod(it or 0 for it in numbers)


def stated_texts(most: int | None, **values: object) -> dict[str, str]:
    """The texts among ``values`` that are not empty, cut to ``most`` characters.

    >>> stated_texts(3, cpu="Xeon", accelerator="", description=None)
    {'cpu': 'Xeo'}
    """
    return {name: it[:most] for name, it in values.items() if isinstance(it, str) and it}


def model_name(name: str) -> str:
    """The last part of a path; names such as ``meta-llama/Llama-3`` stay whole.

    >>> model_name("/models/Llama-3/"), model_name("meta-llama/Llama-3")
    ('Llama-3', 'meta-llama/Llama-3')
    """
    if name.startswith(("/", "~", ".")) or "\\" in name:
        return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or "unknown"
    return name


def first_group(pattern: re.Pattern[str], text: str) -> str | None:
    """The first group of the first match in ``text``; ``None`` if nothing matches."""
    match = pattern.search(text)
    return match[1] if match else None


def mapping_of(record: object, key: str) -> Mapping[str, Any]:
    """The object at ``key``; empty if there is none."""
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, dict) else {}


#: Tried in this order; the first match counts.
_DIRECTIONS = (
    (re.compile(r"per_(?:sec|second|min|minute|joule)\b|per_s\b|/s(?:ec)?\b|tps\b"),
     Direction.HIGHER),
    (re.compile(r"throughput|speed_?up|accuracy|bandwidth|flops\b|precision|recall|goodput|sqnr"),
     Direction.HIGHER),
    (re.compile(r"latency|ttft|tpot|itl\b|e2el|time\b|_time_|duration|memory|_rss\b|_vms\b|loss\b"
                r"|seconds?_per|(?:^|_)(?:ns|us|ms|s|sec|seconds|bytes|mb|gb)\b|wer\b|perplexity"),
     Direction.LOWER),
)  # fmt: skip
_UNITS = (
    (re.compile(r"tok(?:en)?s?(?:_throughput|_per_sec(?:ond)?|/s(?:ec)?|ps)\b"), "tokens/s"),
    (re.compile(r"(?:requests?|req)(?:_throughput|_per_sec(?:ond)?|/s(?:ec)?)\b"), "requests/s"),
    (re.compile(r"exp(?:amples)?_per_sec(?:ond)?\b"), "examples/s"),
    (re.compile(r"(?:images|img)(?:_per_sec(?:ond)?|/s(?:ec)?)\b"), "images/s"),
    (re.compile(r"gb(?:_per_sec(?:ond)?|/s(?:ec)?)\b"), "GB/s"),
    (re.compile(r"tflops\b"), "TFLOP/s"),
    (re.compile(r"speed_?up\b"), "x"),
    (re.compile(r"(?:^|_|\()ms\b"), "ms"),
    (re.compile(r"(?:^|_|\()us\b"), "us"),
    (re.compile(r"(?:^|_|\()ns\b"), "ns"),
    (re.compile(r"(?:^|_|\()(?:s|sec|seconds)\b"), "s"),
    (re.compile(r"bytes\b|_rss\b|_vms\b"), "bytes"),
    (re.compile(r"(?:^|_|\()mb\b"), "MB"),
    (re.compile(r"(?:^|_|\()gb\b"), "GB"),
    (re.compile(r"percent\b|\(%\)"), "%"),
)


def direction_of(name: str) -> Direction:
    """Which values of the metric ``name`` are better, or ``UNKNOWN``.

    >>> [str(direction_of(it)) for it in ("tokens_per_second", "p99_ttft_ms", "graph_breaks")]
    ['higher', 'lower', 'unknown']
    """
    text = name.lower()
    return next((it for pattern, it in _DIRECTIONS if pattern.search(text)), Direction.UNKNOWN)


def unit_of(name: str) -> str:
    """The unit in the name of a metric; empty if there is none.

    >>> unit_of("median_ttft_ms"), unit_of("requests_per_second"), unit_of("accuracy_top_1")
    ('ms', 'requests/s', '')
    """
    text = name.lower()
    return next((unit for pattern, unit in _UNITS if pattern.search(text)), "")


def is_rate_or_time(unit: str) -> bool:
    """Whether a value of zero in ``unit`` means that nothing was measured.

    >>> is_rate_or_time("tokens/s"), is_rate_or_time("bytes")
    (True, False)
    """
    return unit.endswith("/s") or unit in ("x", "s", "ms", "us", "ns")


#: Spellings in result files, and the one name for each of them.
_NAMES = {
    "tensorflow": "tensorflow", "tf": "tensorflow", "pytorch": "torch", "torch": "torch",
    "mxnet": "mxnet", "apache mxnet": "mxnet", "caffe": "caffe", "caffe2": "caffe2",
    "tensorrt": "tensorrt", "cuda": "cuda", "cuda version": "cuda", "cudnn": "cudnn",
    "cudnn version": "cudnn", "openvino": "openvino", "onnx runtime": "onnxruntime",
    "onnxruntime": "onnxruntime", "nccl": "nccl", "mkl": "mkl", "keras": "keras",
    "dali": "dali", "libjpeg-turbo": "libjpeg-turbo",
}  # fmt: skip
#: Frameworks that a text may name with other words behind, such as "PyTorch NVIDIA Release 19.05".
_FRAMEWORKS = ("tensorflow", "pytorch", "mxnet", "caffe")
#: A name of one or more words, and a version with at least one digit behind it.
_PART = re.compile(
    r"(?P<name>[A-Za-z][\w+ .-]*?)[\s:=]*\bv?(?P<version>\d+(?:\.\d+)*(?:[.\w+-]*\w)?)?\s*\Z"
)
_LONGEST = 300


def software_versions(parts: str | Iterable[str]) -> dict[str, str | None]:
    """Versions in ``parts`` by lower-case name; unknown versions are ``None``.

    :param parts: a list such as ``"TensorRT 6.0, CUDA 10.1"``, or its parts

    >>> software_versions("TensorRT 6.0, CUDA 10.1, cuDNN 7.6.3")
    {'tensorrt': '6.0', 'cuda': '10.1', 'cudnn': '7.6.3'}
    >>> software_versions("Pytorch v0.3.1")
    {'torch': '0.3.1'}
    >>> software_versions("TensorFlow"), software_versions("PyTorch NVIDIA Release 19.05")
    ({'tensorflow': None}, {'torch': None})
    """
    texts = re.split(r"[,;/&]| and ", parts) if isinstance(parts, str) else parts
    versions: dict[str, str | None] = {}
    for text in texts:
        match = _PART.match(text.strip()[:_LONGEST])
        if match is None:
            continue
        name = match["name"].strip(" -:").lower()
        known, version = _NAMES.get(name), match["version"]
        first = name.split(" ")[0]
        if known is None and first in _FRAMEWORKS:
            known, version = _NAMES[first], None  # the number is the version of something else
        if known is None:
            # A sentence is not a name: "optimised for" 3 is not a version of anything.
            if version is None or " " in name:
                continue
            known = str(canonicalize_name(name))
        if versions.get(known) is None:
            versions[known] = version
    return versions


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric, and how its values follow from samples.

    :param zero_counts: for quantities that can be zero, such as an accuracy
    """

    metric: Metric
    aggregate: Aggregate
    zero_counts: bool = False


def measure(
    name: str,
    unit: str,
    direction: Direction,
    definition: str,
    aggregate: Aggregate = Aggregate.SINGLE,
    *,
    zero_counts: bool = False,
) -> Measure:
    """A line in the table of a reader; see :class:`Metric` and :class:`Measure`."""
    return Measure(Metric(name, unit, direction, definition), aggregate, zero_counts)


@dataclass(frozen=True, slots=True)
class Run:
    """The fields that the results of a run share; see :class:`BenchmarkResult`."""

    system: str
    source: str
    files: Sequence[MeasuredFile]
    benchmark: str = "unknown"
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    hardware: Mapping[str, str] = field(default_factory=dict)
    accelerators: int | None = None
    software: Mapping[str, str | None] = field(default_factory=dict)
    measured_at: datetime | None = None
    validity: Validity = Validity.UNKNOWN
    reason: str | None = None

    def result(
        self,
        measure: Measure,
        value: object,
        failure: str = "the value is missing, zero or no number",
        **changes: Any,
    ) -> BenchmarkResult:
        """A result with ``value`` if that is a number above zero, else a failed result.

        :param failure: reason of a failed result
        :param changes: fields that differ from those of the run, for a measured value
        """
        number = finite_number(value) if measure.zero_counts else positive_number(value)
        if number is None or number < 0:
            changes |= {"validity": Validity.FAILED, "reason": failure, "samples": ()}
            number = None
        return self.stated(measure, number, **changes)

    def results(
        self,
        row: Mapping[str, object],
        measures: Mapping[str, Measure],
        failure: Callable[[object], str] | None = None,
        **changes: Any,
    ) -> Iterator[BenchmarkResult]:
        """A result for each measure whose column ``row`` has.

        :param measures: by column
        :param failure: reason of a failed result, of the cell
        """
        for column, each in measures.items():
            if column in row:
                because = {} if failure is None else {"failure": failure(row[column])}
                yield self.result(each, row[column], **because, **changes)

    def stated(self, measure: Measure, value: float | None, **changes: Any) -> BenchmarkResult:
        """A result with exactly this value."""
        shared = {name: getattr(self, name) for name in _SHARED} | changes
        return BenchmarkResult(
            metric=measure.metric, value=value, **{"aggregate": measure.aggregate, **shared}
        )


_SHARED = tuple(it.name for it in fields(Run))


def run_of(system: str, source: str, *files: MeasuredFile) -> Run:
    """A run with its files in order."""
    return Run(system, source, sorted(files, key=lambda it: it.place))


def with_parameters(run: Run, **parameters: Parameter) -> Run:
    """``run`` with more parameters."""
    return replace(run, parameters={**run.parameters, **parameters})


def numbered_parts(run: Run, parts: Sequence[_Part]) -> Iterator[tuple[Run, _Part]]:
    """Each part of a file with its run; sources of several parts have a number."""
    for number, part in enumerate(parts):
        source = run.source if len(parts) == 1 else f"{run.source}#{number}"
        yield replace(run, source=source), part


def results_of_parts(
    run: Run, parts: Sequence[_Part], results: Callable[[Run, _Part], Iterator[BenchmarkResult]]
) -> Iterator[BenchmarkResult]:
    """Results of each part of a file; other parts are read even if one is refused.

    :param results: reads a part
    :raises InvalidDocument: after all results, the first refusal
    """
    refusal: InvalidDocument | None = None
    for part_run, part in numbered_parts(run, parts):
        try:
            yield from results(part_run, part)
        except InvalidDocument as error:
            refusal = refusal or error
    if refusal is not None:
        raise refusal


def latency_summaries(
    run: Run, name: str, unit: str, definition: str, samples: Sequence[float]
) -> Iterator[BenchmarkResult]:
    """Mean, p50, p90, p99 and maximum of one or more ``samples``."""
    ordered = sorted(samples)
    for aggregate, value in (
        (Aggregate.MEAN, fmean(samples)),
        (Aggregate.P50, percentile(ordered, 50)),
        (Aggregate.P90, percentile(ordered, 90)),
        (Aggregate.P99, percentile(ordered, 99)),
        (Aggregate.MAXIMUM, ordered[-1]),
    ):
        suffix = "max" if aggregate is Aggregate.MAXIMUM else aggregate.value
        each = measure(f"{name}_{suffix}", unit, LOWER, definition, aggregate)
        yield run.stated(each, value, samples=tuple(samples))
