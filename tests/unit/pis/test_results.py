"""From times to the result document, and metrics beside those of foreign results."""

import math

import pytest

from ingest.benchmarks.readers.deepbench import convolution_operations
from model.measurements.benchmark_results import Direction, Metric
from model.measurements.units import Unit
from pis.catalogue import INDICATORS, indicator_of
from pis.indicators.deepbench_conv import SIZES, PaddedConvolution
from pis.indicators.deepbench_shapes import CONVOLUTION_PRESETS
from pis.indicators.errors import WrongResult
from pis.indicators.long_runs import RUNS, SAMPLES
from pis.indicators.peak import Peak
from pis.indicators.results import RATE_UNITS, result_of
from pis.indicators.tails import percentile
from pis.indicators.timing import Timing
from pis.metrics import metric_values, metrics_of, names_by_title


def timing(*repetitions_s: float) -> Timing:
    return Timing(repetitions_s, 8, 12, 0.5, True, None)


def test_indicator_rate_is_the_amount_per_median_time() -> None:
    result = result_of(timing(1e-3, 9e-3, 2e-3), 4_000_000_000, "FLOP", 1.25, None)
    assert result["elapsed"] == 2.0
    assert result["rate"] == pytest.approx(2000.0)
    assert result["unit"] == "GFLOPS"
    assert result["repetitions"] == [1.0, 9.0, 2.0]
    assert result["per_call"] == {"amount": 4_000_000_000, "unit": "FLOP"}
    assert result["checksum"] == 1.25


def test_mean_error_and_jitter_are_computed_from_rates() -> None:
    result = result_of(timing(1.0, 0.5, 0.25), 1, "images", 0.0, None)  # 1, 2 and 4 a second
    assert result["mean"] == pytest.approx(7 / 3)
    assert result["standard_error"] == pytest.approx(math.sqrt(7 / 3 / 3))
    assert result["jitter"] == pytest.approx(1.4826)
    assert result_of(timing(1.0), 1, "tokens", 0.0, None)["standard_error"] is None


def test_rate_above_the_peak_or_invalid_checksum_is_refused() -> None:
    peak = Peak(832e9, "2 CPUs x 64 a cycle (avx512f) x 6.5 GHz")
    assert result_of(timing(1.0), 832 * 10**9, "FLOP", 0.0, peak)["rate"] == pytest.approx(832.0)
    with pytest.raises(WrongResult, match="peak of 832 GFLOPS"):
        result_of(timing(1.0), 833 * 10**9, "FLOP", 0.0, peak)
    with pytest.raises(WrongResult, match="nan"):
        result_of(timing(1.0), 1, "B", math.nan, None)


@pytest.mark.parametrize(
    ("unit", "shown", "rate"),
    [
        ("FLOP", "GFLOPS", 2.0),
        ("OP", "GOPS", 2.0),
        ("B", "GB/s", 2.0),
        ("images", "images/s", 2e9),
        ("tokens", "tokens/s", 2e9),
        ("imports", "imports/s", 2e9),
        (SAMPLES, "samples/s", 2e9),
        (RUNS, "runs/s", 2e9),
    ],
)
def test_each_kind_of_work_has_its_rate_unit(unit: str, shown: str, rate: float) -> None:
    result = result_of(timing(1.0), 2 * 10**9, unit, 0.0, None)
    assert (result["unit"], result["rate"]) == (shown, pytest.approx(rate))
    assert unit in RATE_UNITS


@pytest.mark.parametrize("name", INDICATORS)
def test_each_indicator_declares_metrics_with_definition_and_direction(name: str) -> None:
    defaults = {it.name: it.default for it in indicator_of(name).all_parameters()}
    declared = metrics_of(name, defaults)
    assert declared
    for each in declared:
        assert each.metric.definition
        assert each.metric.direction is not Direction.UNKNOWN
    assert len({(it.metric, it.aggregate) for it in declared}) == len(declared)
    assert names_by_title()[indicator_of(name).title] == name


def test_convolution_reports_time_and_rate_as_deepbench_defines_them() -> None:
    values = list(
        metric_values(
            "PiDeepBenchConv", {"pass": "forward"}, Unit.FLOP_PER_SECOND, 4e12, 0.5e-3, (0.5e-3,)
        )
    )
    assert [(it.declared.metric, it.value) for it in values] == [
        (Metric("time", "ms", Direction.LOWER, "deepbench-1"), 0.5),
        (Metric("rate", "TFLOPS", Direction.HIGHER, "deepbench-1"), 4.0),
    ]


@pytest.mark.parametrize("preset", CONVOLUTION_PRESETS)
def test_convolution_indicator_and_deepbench_reader_count_equal_operations(preset: str) -> None:
    for sizes in CONVOLUTION_PRESETS[preset]:
        shape = PaddedConvolution(*sizes)
        assert shape.operations == convolution_operations(dict(zip(SIZES, sizes, strict=True)))


def test_gemm_indicator_shares_only_its_time_metric_with_deepbench() -> None:
    definitions = {it.metric.name: it.metric.definition for it in metrics_of("gemm")}
    assert definitions == {"rate": "thoth-gemm-1", "time": "deepbench-1"}


@pytest.mark.parametrize(
    ("cell", "benchmark"), [("rnn", "rnn_vanilla"), ("lstm", "rnn_lstm"), ("gru", "rnn_gru")]
)
def test_recurrent_metrics_are_named_as_in_deepbench(cell: str, benchmark: str) -> None:
    first = metrics_of("deepbench-rnn", {"cell": cell})[0]
    assert (first.benchmark, first.metric.definition) == (benchmark, "deepbench-1")


def test_user_script_has_no_declared_metrics() -> None:
    assert list(metric_values("MyKernel", {}, Unit.FLOP_PER_SECOND, 1.0, 1.0)) == []


def values_by_name(
    title: str, seconds: tuple[float, ...], **parameters: object
) -> dict[str, float]:
    values = metric_values(
        title, parameters, Unit.IMAGES_PER_SECOND, 8 / seconds[0], seconds[0], seconds
    )
    return {it.declared.metric.name: it.value for it in values}


def test_training_throughput_metrics_follow_tf_cnn_benchmarks() -> None:
    """Eight images a step in 1, 2, 1 and 4 s: rates 8, 4, 8 and 2."""
    values = values_by_name("PiCnnThroughput", (1.0, 2.0, 1.0, 4.0))
    assert values == {
        "total_images_per_sec": 32 / 8,
        "images_per_sec": 8 / 2,
        "uncertainty": pytest.approx((6.75**0.5) / 2),  # mean 5.5, deviations 2.5, 1.5, 2.5, 3.5
        "jitter": pytest.approx(1.4826 * 2),  # median 6, deviations 2, 2, 2, 4
    }


def test_batch_metrics_follow_pytorch_benchmark_and_aiia() -> None:
    values = values_by_name("PiBatchLatency", (1.0, 4.0), part="total")
    assert values == {"seconds_per_batch": 2.5, "images_per_second": 5.0}
    values = values_by_name("PiBatchSweep", (1.0, 3.0))
    assert values == {"latency": 2000.0, "throughput": 4.0}


def test_frame_latency_percentiles_equal_those_of_the_result_reader() -> None:
    seconds = tuple(float(number) for number in range(1, 101))
    values = values_by_name("PiFrameLatency", seconds, form="frame")
    for suffix, per_cent in (("p50", 50), ("p90", 90), ("p99", 99)):
        assert values[f"frame_latency_{suffix}"] == percentile(seconds, per_cent)
    assert values["frame_latency_max"] == 100.0
    assert values_by_name("PiFrameLatency", (2.0,), form="tail") == {"frame_latency_p99": 2.0}


def test_compilation_reports_a_time_and_the_compiled_network_a_rate() -> None:
    by_phase = {
        phase: [(it.metric.name, it.metric.unit) for it in metrics_of("compile", {"phase": phase})]
        for phase in ("cold", "warm", "call", "all")
    }
    time, rate = ("compile_time", "s"), ("rate", "images/s")
    assert by_phase == {"cold": [time], "warm": [time], "call": [rate], "all": [time, rate]}


@pytest.mark.parametrize(
    ("name", "unit"), [("matmul", "GFLOPS"), ("memory", "GB/s"), ("generate", "tokens/s")]
)
def test_rate_metric_has_the_unit_of_its_indicator(name: str, unit: str) -> None:
    assert metrics_of(name)[0].metric.unit == unit
