"""The metrics of indicators, in the vocabulary of results of other benchmark systems.

The statistics of this project compare rates. A metric is for people: it has a name, a unit, a
direction and a definition, and its value follows from the durations of a job's repetitions.
An indicator and a foreign system have the same definition only if they measure the same quantity
in the same way.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median, pstdev
from typing import Any

from model.measurements.benchmark_results import (
    Aggregate,
    Direction,
    Metric,
    Parameter,
    SharedMetric,
)
from model.measurements.units import DISPLAY_UNITS, Unit
from pis.catalogue import INDICATORS, LIBRARY_INDICATORS, indicator_of
from pis.indicators.tails import percentile

#: The value of a metric from the amount of work in a call and the seconds per call of each
#: repetition.
Formula = Callable[[float, Sequence[float]], float]

#: Definitions of other systems, as the readers of their results name them.
_DEEPBENCH = "deepbench-1"
_TF_CNN = "tf_cnn_benchmarks-1"
_PYTORCH_BENCHMARK = "pytorch-benchmark-1"
_AIIA = "aiia-dnn-1"
_EDGE_AIBENCH = "edge-aibench-2"
_AIOT_BENCH = "aiot-bench-1"
_MLPERF_INFERENCE = "mlperf-inference-v0.5"


@dataclass(frozen=True, slots=True)
class DeclaredMetric:
    """A metric that an indicator measures.

    :param benchmark: name of the benchmark, as in foreign results with an equal definition
    :param aggregate: how the value follows from the repetitions
    """

    benchmark: str
    metric: Metric
    aggregate: Aggregate
    formula: Formula


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value of a metric in one job.

    :param samples: the values of the repetitions, if the value is a summary of such values
    """

    declared: DeclaredMetric
    value: float
    samples: tuple[float, ...] = ()


def metrics_of(
    name: str, parameters: Mapping[str, Any] | None = None, unit: Unit | None = None
) -> tuple[DeclaredMetric, ...]:
    """The metrics of the indicator ``name``; the metric that comparisons use comes first.

    :param parameters: of one measurement; some indicators measure several quantities
    :param unit: of the measurement's rate; by default the unit for the default parameters
    :raises UnknownIndicator: if there is no such indicator

    >>> [it.metric.name for it in metrics_of("deepbench-conv", {"pass": "forward"})]
    ['time', 'rate']
    >>> metrics_of("gemm")[0].metric.definition
    'thoth-gemm-1'
    """
    indicator_of(name)
    return _DECLARED.get(name, _own)(name, parameters or {}, unit or _default_unit(name))


def _default_unit(name: str) -> Unit:
    return _DEFAULT_UNITS.get(name, Unit.FLOP_PER_SECOND)


@cache
def names_by_title() -> dict[str, str]:
    """Names of the indicators by their titles in documents, such as ``PiMatmul``."""
    return {indicator_of(name).title: name for name in INDICATORS}


def metric_values(
    title: str,
    parameters: Mapping[str, Any],
    unit: Unit,
    rate: float,
    elapsed_s: float,
    repetitions_s: Sequence[float] = (),
) -> Iterator[MetricValue]:
    """The value of each metric in one measurement of a job; none for a script of a user.

    :param title: of the indicator in the document
    :param rate: in ``unit``
    :param elapsed_s: seconds per call
    :param repetitions_s: seconds per call of each repetition; empty if the document has none

    >>> values = metric_values("PiMatmul", {}, Unit.FLOP_PER_SECOND, 4e9, 0.5, (0.25, 0.5, 1.0))
    >>> [(it.value, it.samples) for it in values]
    [(4.0, (8.0, 4.0, 2.0))]
    """
    name = names_by_title().get(title)
    if name is None:
        return
    amount, seconds = rate * elapsed_s, tuple(repetitions_s) or (elapsed_s,)
    for declared in metrics_of(name, parameters, unit):
        samples: tuple[float, ...] = ()
        if declared.aggregate in _OF_SAMPLES and len(seconds) > 1:
            samples = tuple(declared.formula(amount, (sample,)) for sample in seconds)
        yield MetricValue(declared, declared.formula(amount, seconds), samples)


@cache
def shared_metrics() -> tuple[SharedMetric, ...]:
    """The metrics of indicators that have definitions of other systems.

    >>> {it.metric.definition for it in shared_metrics() if it.indicator == "PiGemm"}
    {'deepbench-1'}
    """
    return tuple(
        SharedMetric(
            indicator_of(name).title,
            parameters,
            unit,
            declared.benchmark,
            declared.metric,
            declared.formula,
        )
        for name in _DECLARED
        for parameters in _CASES.get(name, ({},))
        for declared, unit in _by_unit(name, parameters)
        if not declared.metric.definition.startswith("thoth-")
    )


def _by_unit(
    name: str, parameters: Mapping[str, Parameter]
) -> Iterator[tuple[DeclaredMetric, Unit | None]]:
    """Metrics with the unit of the rate that they need; networks also take sequences."""
    unit = _default_unit(name)
    of_any = {it.metric for it in metrics_of(name, parameters, Unit.TOKENS_PER_SECOND)}
    for declared in metrics_of(name, parameters, unit):
        yield declared, None if declared.metric in of_any else unit


#: Units of the rates with default parameters, where they are not FLOP/s.
_DEFAULT_UNITS = {
    "memory": Unit.BYTES_PER_SECOND,
    "import": Unit.IMPORTS_PER_SECOND,
    "generate": Unit.TOKENS_PER_SECOND,
    **dict.fromkeys(
        ("train", "infer", "compile", "cnn-throughput", "batch-latency", "batch-sweep"),
        Unit.IMAGES_PER_SECOND,
    ),
    **dict.fromkeys(LIBRARY_INDICATORS, Unit.RUNS_PER_SECOND),
}

#: Rules whose samples are values of the same metric.
_OF_SAMPLES = frozenset(
    {Aggregate.MEAN, Aggregate.MEDIAN, Aggregate.P50, Aggregate.P90, Aggregate.P99,
     Aggregate.MAXIMUM, Aggregate.MINIMUM}
)  # fmt: skip


def median_rate(factor: float = 1.0) -> Formula:
    """Work over the median time, divided by ``factor``.

    >>> median_rate()(6.0, (1.0, 2.0, 9.0))
    3.0
    """
    return lambda amount, seconds: amount / median(seconds) / factor


def mean_rate(amount: float, seconds: Sequence[float]) -> float:
    """Work over the mean time: all work over all time.

    >>> mean_rate(6.0, (1.0, 2.0, 9.0))
    1.5
    """
    return amount / fmean(seconds)


def mean_of_rates(amount: float, seconds: Sequence[float]) -> float:
    """The mean of the repetitions' rates.

    >>> mean_of_rates(6.0, (1.0, 2.0, 3.0))
    3.6666666666666665
    """
    return fmean(amount / sample for sample in seconds)


def median_time(factor: float = 1.0) -> Formula:
    """The median time, multiplied by ``factor``.

    >>> median_time(1e3)(6.0, (1.0, 2.0, 9.0))
    2000.0
    """
    return lambda amount, seconds: median(seconds) * factor


def mean_time(factor: float = 1.0) -> Formula:
    """The mean time, multiplied by ``factor``."""
    return lambda amount, seconds: fmean(seconds) * factor


def time_percentile(per_cent: int) -> Formula:
    """The time at index ``floor(p n)`` of ``n`` ordered times, at most the last one."""
    return lambda amount, seconds: percentile(seconds, per_cent)


def rate_uncertainty(amount: float, seconds: Sequence[float]) -> float:
    """Standard deviation of the rates (that of a population) over the root of their number.

    >>> rate_uncertainty(4.0, (1.0, 2.0, 1.0, 2.0))  # rates 4, 2, 4, 2: deviation 1
    0.5
    """
    rates = [amount / sample for sample in seconds]
    return pstdev(rates) / math.sqrt(len(rates))


def rate_jitter(amount: float, seconds: Sequence[float]) -> float:
    """1.4826 times the median absolute deviation of the rates.

    >>> rate_jitter(4.0, (1.0, 2.0, 4.0))  # rates 4, 2, 1: deviations 2, 0, 1
    1.4826
    """
    rates = [amount / sample for sample in seconds]
    middle = median(rates)
    return 1.4826 * median(abs(rate - middle) for rate in rates)


#: Name, unit, direction and definition of a metric, and how its value follows.
_Rule = tuple[str, str, Direction, str, Aggregate, Formula]
_LOWER, _HIGHER = Direction.LOWER, Direction.HIGHER
_TIME: _Rule = ("time", "ms", _LOWER, _DEEPBENCH, Aggregate.MEDIAN, median_time(1e3))


def _declared(benchmark: str, *rules: _Rule) -> tuple[DeclaredMetric, ...]:
    return tuple(
        DeclaredMetric(benchmark, Metric(name, unit, direction, definition), aggregate, formula)
        for name, unit, direction, definition, aggregate, formula in rules
    )


def _own(name: str, parameters: Mapping[str, Any], unit: Unit) -> tuple[DeclaredMetric, ...]:
    """The median rate, by a definition of this project."""
    multiple, rule = DISPLAY_UNITS[unit], (_HIGHER, f"thoth-{name}-1", Aggregate.MEDIAN)
    return _declared(name, ("rate", multiple.name, *rule, median_rate(multiple.factor)))


def _gemm(name: str, parameters: Mapping[str, Any], unit: Unit) -> tuple[DeclaredMetric, ...]:
    """The rate counts k - 1 additions per result, DeepBench's counts k: only times are equal."""
    return (*_own(name, parameters, unit), *_declared("gemm", _TIME))


def _recurrent(name: str, parameters: Mapping[str, Any], unit: Unit) -> tuple[DeclaredMetric, ...]:
    """DeepBench's formulas count the products with the state only: only times are equal."""
    cell = str(parameters.get("cell", "rnn"))
    benchmark = "rnn_vanilla" if cell == "rnn" else f"rnn_{cell}"
    return (*_declared(benchmark, _TIME), *_own(name, parameters, unit))


def _compilation(
    name: str, parameters: Mapping[str, Any], unit: Unit
) -> tuple[DeclaredMetric, ...]:
    rule = ("compile_time", "s", _LOWER, f"thoth-{name}-1", Aggregate.MEDIAN, median_time())
    phase, rate = parameters.get("phase"), _own(name, parameters, unit)
    time = () if phase == "call" else _declared(name, rule)
    return time if phase in ("cold", "warm") else (*time, *rate)


def _of_images(
    times: Sequence[_Rule], rates: Sequence[_Rule]
) -> Callable[[str, Mapping[str, Any], Unit], tuple[DeclaredMetric, ...]]:
    """Metrics of networks: only for images, also ``rates``; without ``times``, our own metrics."""

    def declared(
        name: str, parameters: Mapping[str, Any], unit: Unit
    ) -> tuple[DeclaredMetric, ...]:
        if unit is Unit.IMAGES_PER_SECOND:
            return _declared(name, *times, *rates)
        return _declared(name, *times) or _own(name, parameters, unit)

    return declared


#: Metrics that depend on one parameter: its name, and the rules by its values, the default first.
#: The scenario multi stream of v0.5 had another definition: the most samples per query.
_CHOSEN: dict[str, tuple[str, dict[str, tuple[_Rule, ...]]]] = {
    "frame-latency": ("form", {
        "frame": tuple(
            (f"frame_latency_{suffix}", "s", _LOWER, _EDGE_AIBENCH, aggregate, formula)
            for suffix, aggregate, formula in (
                ("mean", Aggregate.MEAN, mean_time()), ("p50", Aggregate.P50, time_percentile(50)),
                ("p90", Aggregate.P90, time_percentile(90)),
                ("p99", Aggregate.P99, time_percentile(99)),
                ("max", Aggregate.MAXIMUM, time_percentile(100)),
            )
        ),
        # One percentile for each group of frames.
        "tail": (("frame_latency_p99", "s", _LOWER, "thoth-frame-latency-1", Aggregate.MEDIAN,
                  median_time()),),
    }),
    "vips": ("score", {
        "vips": (("vips", "images/s", _HIGHER, _AIOT_BENCH, Aggregate.MEDIAN, median_rate()),),
        "vops": (("vops", "FLOP/s", _HIGHER, _AIOT_BENCH, Aggregate.MEDIAN, median_rate()),),
    }),
    "loadgen": ("scenario", {
        "single-stream": (("90th percentile latency (ns)", "ns", _LOWER, _MLPERF_INFERENCE,
                           Aggregate.MEDIAN, median_time(1e9)),),
        "multi-stream": (("99th percentile latency (ns)", "ns", _LOWER, "thoth-loadgen-1",
                          Aggregate.MEDIAN, median_time(1e9)),),
        "server": (("Scheduled samples per second", "samples/s", _HIGHER, _MLPERF_INFERENCE,
                    Aggregate.MEDIAN, median_rate()),),
        "offline": (("Samples per second", "samples/s", _HIGHER, _MLPERF_INFERENCE,
                     Aggregate.MEDIAN, median_rate()),),
    }),
}  # fmt: skip


def _chosen(name: str, parameters: Mapping[str, Any], unit: Unit) -> tuple[DeclaredMetric, ...]:
    """The metrics for the parameter's value; a load without a scenario has all metrics."""
    parameter, by_value = _CHOSEN[name]
    chosen = by_value.get(str(parameters.get(parameter)))
    if chosen is None and name == "loadgen":
        return _declared(name, *(it for rules in by_value.values() for it in rules))
    return _declared(name, *(next(iter(by_value.values())) if chosen is None else chosen))


#: Parameters that decide which metrics an indicator measures.
_CASES: dict[str, tuple[dict[str, Parameter], ...]] = {
    "deepbench-rnn": ({"cell": "rnn"}, {"cell": "lstm"}, {"cell": "gru"}),
    **{
        name: tuple({parameter: value} for value in by_value)
        for name, (parameter, by_value) in _CHOSEN.items()
    },
}

_DECLARED: dict[str, Callable[[str, Mapping[str, Any], Unit], tuple[DeclaredMetric, ...]]] = {
    "gemm": _gemm,
    "deepbench-conv": lambda name, parameters, unit: _declared(
        "convolution", _TIME,
        ("rate", "TFLOPS", _HIGHER, _DEEPBENCH, Aggregate.MEDIAN, median_rate(1e12)),
    ),
    "deepbench-rnn": _recurrent,
    "compile": _compilation,
    # The quantities of tf_cnn_benchmarks, for steps that are timed one by one.
    "cnn-throughput": _of_images((), (
        ("total_images_per_sec", "images/s", _HIGHER, _TF_CNN, Aggregate.TOTAL, mean_rate),
        ("images_per_sec", "images/s", _HIGHER, _TF_CNN, Aggregate.MEAN, mean_rate),
        ("uncertainty", "images/s", _LOWER, _TF_CNN, Aggregate.SINGLE, rate_uncertainty),
        ("jitter", "images/s", _LOWER, _TF_CNN, Aggregate.SINGLE, rate_jitter),
    )),
    "batch-latency": _of_images(
        [("seconds_per_batch", "s", _LOWER, _PYTORCH_BENCHMARK, Aggregate.MEAN, mean_time())],
        [("images_per_second", "images/s", _HIGHER, _PYTORCH_BENCHMARK, Aggregate.MEAN,
          mean_of_rates)],
    ),
    "batch-sweep": _of_images(
        [("latency", "ms", _LOWER, _AIIA, Aggregate.MEAN, mean_time(1e3))],
        [("throughput", "frames/s", _HIGHER, _AIIA, Aggregate.MEAN, mean_rate)],
    ),
    "frame-latency": _chosen,
    "vips": _chosen,
    "loadgen": _chosen,
    "time-to-accuracy": lambda name, parameters, unit: _declared(
        name, ("time_to_accuracy", "s", _LOWER, f"thoth-{name}-1", Aggregate.MEDIAN, median_time())
    ),
    # AIPerf's formula; its rules also demand an hour, its data set and an accuracy.
    "automl": lambda name, parameters, unit: _declared(
        name, ("score", "GFLOPS", _HIGHER, f"thoth-{name}-1", Aggregate.MEDIAN, median_rate(1e9))
    ),
}  # fmt: skip
