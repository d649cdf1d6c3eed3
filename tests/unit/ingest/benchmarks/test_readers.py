"""Readers of other systems' result files: values, and what must not become a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from ingest.benchmarks.systems import SYSTEMS
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Validity
from model.reasons import Reason
from tests.factories.benchmark_files import (
    DAWNBENCH_ENTRY,
    DAWNBENCH_TABLE,
    DEEPBENCH_CONSOLE,
    DLBS_LOG,
    LOADGEN_SUMMARY,
    TF_CNN_LOG,
    read_files,
    training_log,
)

PERFORMANCE = "closed/org/results/machine/resnet/Server/performance"


def by_metric(results: list[BenchmarkResult]) -> dict[str, BenchmarkResult]:
    return {it.metric.name: it for it in results}


def summary(rate: float | str, verdict: str = "VALID", constraints: str = "Yes") -> str:
    return LOADGEN_SUMMARY.format(rate=rate, verdict=verdict, constraints=constraints)


STREAM = """MLPerf Results Summary
SUT name :
Scenario : {scenario}
Mode     : PerformanceOnly
{share}.0th percentile latency (ns) : 4100
Result is : VALID
  Min duration satisfied : Yes
  Early stopping satisfied: Yes
{estimates}
Additional Stats
Mean latency (ns)               : 3100
"""
ESTIMATES = """Early Stopping Result:
 * Processed at least 64 queries (2048).
 * Early stopping 90.0th percentile estimate: 4200
 * Early stopping 99th percentile estimate: 5200"""


@pytest.mark.parametrize(
    ("scenario", "share", "estimates", "expected"),
    [
        ("SingleStream", 90, ESTIMATES, {"90": (4200.0, "valid"), "99": (5200.0, "valid")}),
        ("MultiStream", 99, ESTIMATES.replace("90.0th", "50th"),
         {"50": (4200.0, "valid"), "99": (5200.0, "valid")}),
        ("SingleStream", 90, "Early Stopping Result:\n * Only processed 9 queries.",
         {"90": (None, "failed")}),
        ("MultiStream", 99, ESTIMATES.replace(": 5200", ":").replace("99th", "99.0th"),
         {"90": (4200.0, "valid"), "99": (None, "failed")}),
        ("SingleStream", 90, ESTIMATES.replace(": 4200", ": 8.23 ms"),
         {"90": (None, "failed"), "99": (5200.0, "valid")}),
        ("SingleStream", 90, f"TTFT {ESTIMATES}\nMean First Token latency (ns) : 100", {}),
    ],
)  # fmt: skip
def test_the_estimate_of_early_stopping_is_a_result(
    scenario: str,
    share: int,
    estimates: str,
    expected: dict[str, tuple[float | None, str]],
    tmp_path: Path,
) -> None:
    text = STREAM.format(scenario=scenario, share=share, estimates=estimates)
    results, refusals = read_files(tmp_path, "mlperf-inference", {"a": text})
    assert refusals == []
    read = {
        it.metric.name.removeprefix("Early stopping ")[:2]: (it.value, it.validity)
        for it in results
        if it.metric.name.startswith("Early stopping ")
    }
    assert read == expected
    named = by_metric(results)
    assert named[f"{share}th percentile latency (ns)"].value == 4100
    assert named["Mean latency (ns)"].validity is Validity.VALID
    assert {it.system for it in results} == {"mlperf-inference"}


@pytest.mark.parametrize(
    ("verdict", "line", "reason"),
    [
        ("VALID", "1 ERROR encountered. See detailed log.", "LoadGen logged 1 error"),
        ("VALID", "12 ERRORS encountered. See detailed log.", "LoadGen logged 12 errors"),
        ("INVALID", "2 ERRORS encountered. See detailed log.",
         "LoadGen: performance constraints; LoadGen logged 2 errors"),
        ("VALID", "No errors encountered during test.", None),
    ],
)  # fmt: skip
def test_errors_that_the_log_counts_make_a_reason(
    verdict: str, line: str, reason: str | None, tmp_path: Path
) -> None:
    constraints = "Yes" if verdict == "VALID" else "NO"
    text = f"{summary(5, verdict, constraints)}\n{line}\n"
    results, _ = read_files(tmp_path, "mlperf-inference", {"a": text})
    assert {(str(it.validity), it.reason) for it in results} == {(verdict.lower(), reason)}


@pytest.mark.parametrize("system", [it for it in SYSTEMS if it.module], ids=lambda it: it.key)
def test_an_empty_list_of_files_has_no_results(system: object, tmp_path: Path) -> None:
    assert read_files(tmp_path, system.key, {}) == ([], [])  # type: ignore[attr-defined]


@pytest.mark.parametrize("system", [it for it in SYSTEMS if it.module], ids=lambda it: it.key)
@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"a": ', "a\tb\n1\t2\n", "x" * 5000, "{" * 3000, "0\n" * 100]
)
def test_a_file_of_something_else_gives_no_value(system: object, text: str, tmp_path: Path) -> None:
    names = ("a.json", "a.tsv", "metric.log", "mlperf_log_summary.txt", "e/result_0.txt")
    results, _ = read_files(tmp_path, system.key, dict.fromkeys(names, text))  # type: ignore[attr-defined]
    assert [it for it in results if it.value is not None] == []


def test_the_last_line_of_a_repeated_key_counts(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "hpe-dlcookbook", {"a.log": DLBS_LOG})
    assert refusals == []
    rows = by_metric(results)
    assert rows["results.time"].value == 96.3
    assert rows["results.throughput"].value == 166.1
    assert rows["results.time"].software == {"tensorflow": "1.8.0"}
    assert rows["results.time"].accelerators == 1


def test_a_failed_run_has_a_reason_instead_of_a_value(tmp_path: Path) -> None:
    failed = DLBS_LOG.replace('"success"', '"failure"') + '__exp.status_msg__="out of memory"\n'
    results, _ = read_files(tmp_path, "hpe-dlcookbook", {"a.log": failed})
    assert {(it.value, it.validity, it.reason) for it in results} == {
        (None, Validity.FAILED, "out of memory")
    }


def test_the_first_epoch_at_the_target_gives_time_and_cost(tmp_path: Path) -> None:
    files = {"CIFAR10/train/a.json": DAWNBENCH_ENTRY, "CIFAR10/train/a.tsv": DAWNBENCH_TABLE}
    results, refusals = read_files(tmp_path, "dawnbench", files)
    assert refusals == []
    rows = by_metric(results)
    assert (rows["time_to_accuracy"].value, rows["training_cost"].value) == (1.5, 3.0)
    assert rows["time_to_accuracy"].source == "CIFAR10/train/a.tsv"
    assert rows["time_to_accuracy"].software == {"torch": "0.1.12", "cuda": "8.0"}
    assert "jo@mail.example" not in repr(results)
    assert "Jo Doe" not in repr(results)


def test_an_entry_that_misses_the_target_is_a_failed_result(tmp_path: Path) -> None:
    table = DAWNBENCH_TABLE.replace("94.", "93.")
    files = {"CIFAR10/train/a.json": DAWNBENCH_ENTRY, "CIFAR10/train/a.tsv": table}
    results, _ = read_files(tmp_path, "dawnbench", files)
    assert [(it.value, it.reason) for it in results] == [(None, "no epoch reaches top1Accuracy 94")]


def test_console_rows_may_have_a_prefix_and_no_loss(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "tf_cnn_benchmarks", {"1": TF_CNN_LOG})
    assert refusals == []
    rows = by_metric(results)
    assert rows["total_images_per_sec"].value == 953.43
    assert rows["images_per_sec"].samples == (950.0, 954.3)
    assert (rows["uncertainty"].value, rows["jitter"].value) == (0.5, 5.1)
    assert rows["total_images_per_sec"].accelerators == 2
    assert rows["total_images_per_sec"].parameters["batch_size"] == 224


def test_a_run_without_a_total_crashed(tmp_path: Path) -> None:
    log = TF_CNN_LOG.partition("total")[0]
    results, _ = read_files(tmp_path, "tf_cnn_benchmarks", {"1": log})
    total = by_metric(results)["total_images_per_sec"]
    assert (total.value, total.validity) == (None, Validity.FAILED)


def test_the_score_of_a_training_entry_is_the_olympic_mean(tmp_path: Path) -> None:
    minutes = (10, 20, 30, 40, 100)
    files = {
        f"org/results/machine/resnet/result_{number}.txt": training_log(1000, 1000 + 60 * it)
        for number, it in enumerate(minutes)
    }
    files["org/systems/machine.json"] = (
        '{"number_of_nodes": "2", "accelerators_per_node": "8", "accelerator_model_name": "V100",'
        ' "framework": "TensorFlow 1.14", "submitter": "Jo", "division": "closed"}'
    )
    results, refusals = read_files(tmp_path, "mlperf-training", files)
    assert refusals == []
    score = by_metric(results)["time_to_train_olympic_mean"]
    assert (score.value, score.samples) == (30.0, (10.0, 20.0, 30.0, 40.0, 100.0))
    assert (score.aggregate, score.validity) == (Aggregate.OLYMPIC_MEAN, Validity.VALID)
    assert score.source == "org/results/machine/resnet"
    assert score.accelerators == 16
    assert by_metric(results)["accelerator_hours"].value == 30.0 * 16 / 60
    assert score.software == {"tensorflow": "1.14"}
    assert "Jo" not in repr(results)


def test_an_aborted_run_counts_and_is_told(tmp_path: Path) -> None:
    files = {
        "e/result_0.txt": training_log(0, 60),
        "e/result_1.txt": training_log(0, 120, "abort"),
        "e/result_2.txt": training_log(0, 180),
    }
    results, _ = read_files(tmp_path, "mlperf-training", files)
    score = by_metric(results)["time_to_train_olympic_mean"]
    assert (score.value, score.validity) == (2.0, Validity.UNKNOWN)
    assert score.reason == "1 of 3 runs did not reach the target"


def test_logs_of_another_form_are_refused(tmp_path: Path) -> None:
    files = {"e/result_1.txt": "MLPerf: resnet [06/13/19 00:30:56], run_start\n"}
    results, (refusal,) = read_files(tmp_path, "mlperf-training", files)
    assert (results, refusal.reason, refusal.place) == ([], Reason.UNKNOWN_SCHEMA, "e")


def test_a_server_claims_the_minimum_of_its_runs(tmp_path: Path) -> None:
    files = {
        f"{PERFORMANCE}/run_{number}/mlperf_log_summary.txt": summary(rate)
        for number, rate in enumerate((300.0, 200.0, 250.0))
    }
    results, refusals = read_files(tmp_path, "mlperf-inference", files)
    assert refusals == []
    (entry,) = (it for it in results if it.aggregate is Aggregate.MINIMUM)
    assert (entry.value, entry.source, entry.validity) == (200.0, PERFORMANCE, Validity.VALID)
    assert entry.benchmark == "resnet"


def test_an_invalid_run_names_the_violated_condition(tmp_path: Path) -> None:
    place = f"{PERFORMANCE}/run_1/mlperf_log_summary.txt"
    (result,), _ = read_files(tmp_path, "mlperf-inference", {place: summary(5.0, "INVALID", "NO")})
    assert (result.value, result.validity) == (5.0, Validity.INVALID)
    assert result.reason == "LoadGen: performance constraints"


def test_audit_runs_and_accuracy_summaries_are_no_results(tmp_path: Path) -> None:
    audit = PERFORMANCE.replace("performance", "test_4a/performance")
    accuracy = PERFORMANCE.replace("performance", "accuracy")
    files = {
        f"{audit}/run_1/mlperf_log_summary.txt": summary(1.0),
        f"{accuracy}/mlperf_log_summary.txt": "No errors encountered during test.\n",
    }
    assert read_files(tmp_path, "mlperf-inference", files) == ([], [])


def test_rates_of_matrix_products_follow_from_times(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "deepbench", {"gemm.txt": DEEPBENCH_CONSOLE})
    assert refusals == []
    first, rate, zero = results
    assert (first.value, first.metric.unit) == (0.038, "ms")
    assert rate.value == pytest.approx(2 * 1760 * 16 * 1760 / 38e-6 / 1e12)
    assert first.parameters["b_transpose"] == "T"
    assert (zero.value, zero.reason) == (None, "the time is zero")


def test_an_infinite_rate_is_no_value(tmp_path: Path) -> None:
    place = f"{PERFORMANCE}/run_1/mlperf_log_summary.txt"
    (result,), refusals = read_files(tmp_path, "mlperf-inference", {place: summary("inf")})
    assert refusals == []
    assert (result.value, result.validity) == (None, Validity.FAILED)
