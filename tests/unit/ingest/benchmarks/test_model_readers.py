"""Readers of results of whole models: pytorch-benchmark, PerfZero, AIoT Bench and AIPerf."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.sources.content_detection import system_of
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Direction, Validity
from model.reasons import Reason
from tests.factories.benchmark_files import (
    AIOT_BENCH_LOG,
    AIPERF_REPORT,
    PERFZERO_SUMMARY,
    PYTORCH_BENCHMARK_CONSOLE,
    read_files,
)

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[4].parent / "shared" / "data"
)
needs_data = pytest.mark.skipif(
    not (DATA / "golden.csv").is_file(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)


def by_metric(results: list[BenchmarkResult]) -> dict[str, BenchmarkResult]:
    return {it.metric.name: it for it in results}


@pytest.mark.parametrize(
    ("text", "system"),
    [
        (PYTORCH_BENCHMARK_CONSOLE, "pytorch-benchmark"),
        (PYTORCH_BENCHMARK_CONSOLE.replace("\n", "\r\n"), "pytorch-benchmark"),
        (PERFZERO_SUMMARY, "perfzero"),
        (AIOT_BENCH_LOG, "aiot-bench"),
        (AIPERF_REPORT, "aiperf"),
    ],
)
def test_a_system_is_recognised_by_the_content(text: str, system: str) -> None:
    recognised = system_of(text.encode())
    assert recognised is not None
    assert recognised.key == system


def test_the_tree_of_modules_before_the_yaml_names_the_model(tmp_path: Path) -> None:
    results, refusals = read_files(
        tmp_path, "pytorch-benchmark", {"a.txt": PYTORCH_BENCHMARK_CONSOLE}
    )
    assert refusals == []
    assert {it.benchmark for it in results} == {"SmallNet"}
    seconds = {it.parameters["batch_size"]: it for it in results if it.metric.unit == "s"}
    assert {size: it.value for size, it in seconds.items()} == {1: 0.016, 8: 0.02}
    assert seconds[8].parameters["part"] == "total"
    assert seconds[8].aggregate is Aggregate.MEAN
    assert seconds[8].samples == ()
    rates = [it for it in results if it.metric.name == "images_per_second"]
    assert [it.value for it in rates] == [62.5, 400.0]
    assert rates[0].metric.direction is Direction.HIGHER
    assert rates[0].hardware == {"cpu": "Example CPU", "accelerator": "Example GPU"}
    assert rates[0].accelerators == 1
    assert rates[0].software == {"torch": None}
    assert by_metric(results)["max_inference_memory"].value == 736250368
    assert "jos-laptop" not in repr(results)


def test_newer_releases_write_memory_and_energy_by_batch_size(tmp_path: Path) -> None:
    newer = PYTORCH_BENCHMARK_CONSOLE.replace(
        "max_inference_memory: 736250368",
        "energy:\n  batch_size_1:\n    joules: 0.5\n"
        "memory:\n  batch_size_8:\n    max_inference_bytes: 1024",
    )
    results, _ = read_files(tmp_path, "pytorch-benchmark", {"a.txt": newer})
    energy, memory = by_metric(results)["joules"], by_metric(results)["max_inference_memory"]
    assert (energy.value, energy.parameters["batch_size"]) == (0.5, 1)
    assert (memory.value, memory.parameters["batch_size"]) == (1024, 8)


def test_a_time_that_is_no_number_is_a_failed_result(tmp_path: Path) -> None:
    text = PYTORCH_BENCHMARK_CONSOLE.replace("0.016", "nan").replace("62.5", "0")
    results, _ = read_files(tmp_path, "pytorch-benchmark", {"a.txt": text})
    failed = [it for it in results if it.validity is Validity.FAILED]
    assert [it.value for it in failed] == [None, None]
    assert {it.reason for it in failed} == {"the value is missing, zero or no number"}


@pytest.mark.parametrize(
    "timing", ["timing: [1,\n", "timing: " + "[" * 5000 + "\n", "timing: &a [*a, *b]\n"]
)
def test_broken_yaml_is_refused(timing: str, tmp_path: Path) -> None:
    text = PYTORCH_BENCHMARK_CONSOLE.partition("timing:")[0] + timing
    results, (refusal,) = read_files(tmp_path, "pytorch-benchmark", {"a.txt": text})
    assert (results, refusal.reason) == ([], Reason.INVALID_YAML)


@needs_data
def test_published_runs_of_efficientnet(tmp_path: Path) -> None:
    files = {
        name: (DATA / "pytorch-benchmark" / name).read_text()
        for name in ("readme-macbook-i7-cpu.yaml", "readme-rtx2080-cuda.yaml")
    }
    results, refusals = read_files(tmp_path, "pytorch-benchmark", files)
    assert refusals == []
    assert {(it.parameters["flops"], it.parameters["params"]) for it in results} == {
        (401669732, 5288548)
    }
    seconds = {
        (it.source, it.parameters["batch_size"], it.parameters["part"]): it.value
        for it in results
        if it.metric.name == "seconds_per_batch"
    }
    cpu, gpu = files
    assert seconds[cpu, 1, "on_device_inference"] == pytest.approx(0.0744385, abs=5e-8)
    assert seconds[cpu, 8, "on_device_inference"] == pytest.approx(0.5094102, abs=5e-8)
    assert seconds[gpu, 1, "total"] == pytest.approx(0.0158180, abs=5e-8)
    assert seconds[gpu, 8, "total"] == pytest.approx(0.0175328, abs=5e-8)
    assert len(seconds) == 2 + 2 * 4
    assert "d40049" not in repr(results)
    assert "monster" not in repr(results)


def test_comments_are_allowed_outside_texts(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "perfzero", {"a.txt": PERFZERO_SUMMARY})
    assert refusals == []
    rows = by_metric(results)
    rate = rows["exp_per_second"]
    assert (rate.value, rate.metric.unit, rate.metric.direction) == (90.5, "examples/s", "higher")
    assert rows["accuracy_top_1"].value == 0.25
    assert rows["max_rss"].value == 4269047808
    assert rows["max_cpu_percent"].metric.direction is Direction.UNKNOWN
    assert rate.benchmark == "official.resnet.ExampleTests.unit_test"
    assert rate.accelerators == 2
    assert rate.software == {
        "tensorflow": "1.13.0",
        "nvidia-driver": "410.48",
        "tensorflow/models": "f788046ca876a8820e05b0b48c1fc2e16b0955bc",
    }
    assert rate.measured_at is not None
    assert rate.measured_at.year == 2019
    assert "jos-laptop" not in repr(results)


def test_a_wall_time_of_minus_one_was_not_reported(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "perfzero", {"a.txt": PERFZERO_SUMMARY})
    wall_time = by_metric(results)["wall_time"]
    assert (wall_time.value, wall_time.validity) == (None, Validity.UNKNOWN)
    assert wall_time.reason == "wall_time was not reported"


def test_a_summary_is_read_within_a_log(tmp_path: Path) -> None:
    log = (
        "2019-02-13 INFO: {'not': json}\n{ broken\n" + PERFZERO_SUMMARY + "2019-02-13 INFO: done\n"
    )
    results, refusals = read_files(tmp_path, "perfzero", {"perfzero.log": log})
    assert refusals == []
    assert by_metric(results)["exp_per_second"].value == 90.5


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"has_exception": false', '"has_exception": true', "the benchmark raised an exception"),
        ('unit_test",\n    "succeeded": true', 'unit_test",\n    "succeeded": false',
         "the benchmark did not succeed"),
    ],
)  # fmt: skip
def test_an_execution_that_failed_has_no_values(
    old: str, new: str, reason: str, tmp_path: Path
) -> None:
    assert old in PERFZERO_SUMMARY
    files = {"a.txt": PERFZERO_SUMMARY.replace(old, new)}
    results, _ = read_files(tmp_path, "perfzero", files)
    assert {(it.value, it.validity, it.reason) for it in results} == {
        (None, Validity.FAILED, reason)
    }


def test_a_value_outside_its_bounds_is_invalid(tmp_path: Path) -> None:
    text = PERFZERO_SUMMARY.replace('0.25, "succeeded": true', '0.125, "succeeded": false')
    results, _ = read_files(tmp_path, "perfzero", {"a.txt": text})
    accuracy = by_metric(results)["accuracy_top_1"]
    assert (accuracy.value, accuracy.validity) == (0.125, Validity.INVALID)
    assert accuracy.reason == "the value violates its bounds (0.2)"


@needs_data
def test_the_documented_execution_of_perfzero(tmp_path: Path) -> None:
    name = "readme-annotated-summary.txt"
    text = (DATA / "perfzero" / name).read_text()
    results, refusals = read_files(tmp_path, "perfzero", {name: text})
    assert refusals == []
    assert {it.metric.name: it.value for it in results} == {
        "wall_time": 14.552583694458008,
        "accuracy_top_5": 0.7558000087738037,
        "accuracy_top_1": 0.2639999985694885,
        "max_rss": 4269047808,
        "max_vms": 39894450176,
        "max_cpu_percent": 771.1,
    }
    (wall_time, *_) = results
    assert wall_time.benchmark.endswith("EstimatorCifar10BenchmarkTests.unit_test")
    assert wall_time.hardware["accelerator"] == "Tesla V100-SXM2-16GB"
    assert wall_time.accelerators == 2
    assert wall_time.software["tensorflow"] == "1.13.0-dev20190206"


def test_each_workload_of_a_phone_and_its_sums_are_read(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "aiot-bench", {"a.log": AIOT_BENCH_LOG})
    assert refusals == []
    vips = by_metric(results)["vips"]
    # 0.75 / 0.05 s + 0.70 / 0.02 s
    assert (vips.value, vips.aggregate) == (50.0, Aggregate.SUM)
    assert vips.parameters["workloads"] == "pytorch resnet50, tflite mobilenet_v2"
    assert vips.hardware == {"description": "Example Phone", "cpu": "qcom"}
    rates = {it.benchmark: it for it in results if it.metric.name == "images_per_second"}
    assert {name: it.value for name, it in rates.items()} == {
        "resnet50": 20.0,
        "mobilenet_v2": 50.0,
    }
    assert rates["mobilenet_v2"].parameters["quantisation"] == "int8"
    assert rates["mobilenet_v2"].parameters["framework"] == "tflite"
    assert rates["resnet50"].parameters["device"] == "cpu"
    accuracies = [it.value for it in results if it.metric.name == "accuracy"]
    assert accuracies == [0.75, 0.7]


def test_a_workload_without_a_time_failed(tmp_path: Path) -> None:
    text = AIOT_BENCH_LOG.replace("time_avg:20.0ms", "time_avg:NaNms")
    results, _ = read_files(tmp_path, "aiot-bench", {"a.log": text})
    failed = [it for it in results if it.validity is Validity.FAILED]
    assert {it.benchmark for it in failed} == {"mobilenet_v2"}
    assert [it.metric.name for it in failed] == ["time_avg", "images_per_second"]


def test_final_scores_have_the_series_of_the_search(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "aiperf", {"results.txt": AIPERF_REPORT})
    assert refusals == []
    rows = by_metric(results)
    assert (rows["score"].value, rows["score"].samples) == (560.5, (540.0, 560.5))
    assert (rows["regulated_score"].value, rows["error"].value) == (700.25, 28.5)
    assert {it.validity for it in results} == {Validity.VALID}
    assert rows["score"].parameters == {"hours": 1.2}


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("Final Score", "!!! Test failed due to low accuracy !!!\nFinal Score",
         "Test failed due to low accuracy"),
        ("['0.6', '1.2']", "['0.3', '0.6']", "the search ran for 0.6 of at least 1 hours"),
        ("['40.0', '28.5']", "['40.0', '30.5']",
         "the error is 30.5 %, and at most 30 % is allowed"),
    ],
)  # fmt: skip
def test_a_search_that_violates_a_rule_is_invalid(
    old: str, new: str, reason: str, tmp_path: Path
) -> None:
    report = AIPERF_REPORT.replace(old, new, 1)
    results, _ = read_files(tmp_path, "aiperf", {"results.txt": report})
    assert {(it.validity, it.reason) for it in results} == {(Validity.INVALID, reason)}
    assert by_metric(results)["score"].value == 560.5
