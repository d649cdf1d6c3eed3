"""Forms of result files that differ from the published samples: other releases, other captures."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from common.benchmark_results import Validity
from ingest.sources.content_detection import system_of
from tests.factories.benchmark_files import (
    DEEPBENCH_CONVOLUTIONS,
    DEEPBENCH_LAYERS,
    DLBS_LOG,
    LOADGEN_SUMMARY,
    TF_CNN_LOG,
    TF_CNN_RUNS,
    TRAINING_JSON_LOG,
    read_files,
)
from tests.factories.benchmark_tables import NVPROF_TABLE, TRTEXEC_SUMMARY


def test_runs_in_one_console_are_told_apart(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "tf_cnn_benchmarks", {"log": TF_CNN_RUNS})
    totals = [it for it in results if it.metric.name == "total_images_per_sec"]
    assert [(it.source, it.benchmark, it.value) for it in totals] == [
        ("log#0", "vgg16", None), ("log#1", "resnet50", 312.5), ("log#2", "resnet50", 900.25),
    ]  # fmt: skip
    assert totals[0].reason == "the run printed no total"
    accuracies = {it.metric.name: it.value for it in results if "accuracy" in it.metric.name}
    assert accuracies == {"eval_top_1_accuracy": 0.764, "eval_top_5_accuracy": 0.931}
    (jitter,) = (it for it in results if it.metric.name == "jitter")
    assert (jitter.value, jitter.validity) == (None, Validity.FAILED)


def test_processes_repeat_the_head_of_a_run(tmp_path: Path) -> None:
    head = "TensorFlow:  1.15\nModel:       resnet50\n"
    text = "Some output\n" + 4 * head + "total images/sec: 10.5\n"
    (total,), _ = read_files(tmp_path, "tf_cnn_benchmarks", {"log": text})
    assert (total.source, total.value) == ("log", 10.5)


def test_rates_without_a_head_are_of_an_unknown_model(tmp_path: Path) -> None:
    (total,), refusals = read_files(
        tmp_path, "tf_cnn_benchmarks", {"log": "total images/sec: 991.92\n"}
    )
    assert refusals == []
    assert (total.benchmark, total.value, total.accelerators) == ("unknown", 991.92, None)


def test_convolutions_on_a_console_have_a_time_for_each_pass(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "deepbench", {"log": DEEPBENCH_CONVOLUTIONS})
    times = {it.parameters["pass"]: it.value for it in results if it.metric.name == "time"}
    assert times == {
        "forward": 0.1, "backward_inputs": None, "backward_weights": 0.3, "total": 0.4,
    }  # fmt: skip
    (rate, _) = (it for it in results if it.metric.name == "rate")
    # 341 columns and 79 rows of outputs; see the definition of the workbooks.
    assert rate.value == pytest.approx(2 * 341 * 79 * 32 * 1 * 5 * 20 * 4 / 0.1 / 1e9)
    assert rate.parameters["horizontal_stride"] == 2


def test_a_stride_of_zero_gives_no_rate(tmp_path: Path) -> None:
    text = DEEPBENCH_CONVOLUTIONS.replace("2         2        float", "0         2        float")
    results, _ = read_files(tmp_path, "deepbench", {"log": text})
    assert {it.metric.name for it in results} == {"time"}


def test_layers_on_a_console(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "deepbench", {"log": DEEPBENCH_LAYERS})
    assert [(it.benchmark, it.parameters["pass"], it.value) for it in results] == [
        ("rnn_vanilla", "forward", 8.197), ("rnn_vanilla", "backward", 9.0),
        ("rnn_lstm", "forward", 1.5), ("rnn_lstm", "backward", None),
    ]  # fmt: skip
    assert results[0].parameters["hidden_units"] == 1760
    assert {it.metric.name for it in results} == {"time"}


def test_a_summary_of_trtexec_without_averages(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "jetson", {"log": TRTEXEC_SUMMARY})
    assert {it.metric.name: it.value for it in results} == {
        "gpu_latency": 7.35, "throughput": 2545.21,
    }  # fmt: skip
    assert results[0].software == {"tensorrt": "8.4.1"}


def test_a_failed_run_of_trtexec_has_no_latency(tmp_path: Path) -> None:
    text = TRTEXEC_SUMMARY.partition("[07/25/2022-19:02:56]")[0] + "&&&& FAILED TensorRT.trtexec\n"
    (result,), _ = read_files(tmp_path, "jetson", {"log": text})
    assert (result.value, result.reason) == (None, "trtexec printed no latency")


def test_the_default_table_of_nvprof(tmp_path: Path) -> None:
    (result,), refusals = read_files(tmp_path, "aibench", {"log": NVPROF_TABLE})
    assert refusals == []
    assert result.value == pytest.approx(400)
    assert result.parameters == {
        "share of volta_sgemm(float*, int), %": 75.0, "share of [CUDA memcpy HtoD], %": 25.0,
    }  # fmt: skip


def test_training_logs_with_json_lines(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "mlperf-training", {"s/ssd/result_0.txt": TRAINING_JSON_LOG})
    values = {it.metric.name: it.value for it in results}
    assert values == {"time_to_train_olympic_mean": 10.0, "eval_accuracy": 0.231}
    assert {(it.system, it.metric.definition) for it in results} == {("mlperf-training",) * 2}


def test_gzipped_logs_are_recognised_and_read(tmp_path: Path) -> None:
    results, refusals = read_files(
        tmp_path, "hpe-dlcookbook", {"a.log.gz": gzip.compress(DLBS_LOG.encode())}
    )
    assert refusals == []
    assert [it.value for it in results] == [96.3, 166.1]


def test_a_damaged_gzipped_log_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(DLBS_LOG.encode())[:-20]
    results, (refusal,) = read_files(tmp_path, "hpe-dlcookbook", {"a.log.gz": packed})
    assert (results, refusal.reason) == ([], "unreadable")


@pytest.mark.parametrize(
    "folder", ["audit/m/resnet/Server/TEST01", "results/m/resnet/Server/test_4a"]
)
def test_audit_runs_are_left_out(folder: str, tmp_path: Path) -> None:
    text = LOADGEN_SUMMARY.format(rate=5, verdict="VALID", constraints="Yes")
    place = f"{folder}/performance/run_1/mlperf_log_summary.txt"
    assert read_files(tmp_path, "mlperf-inference", {place: text}) == ([], [])


@pytest.mark.parametrize(
    ("text", "system"),
    [
        (TF_CNN_RUNS, "tf_cnn_benchmarks"),
        (DEEPBENCH_CONVOLUTIONS, "deepbench"),
        (DEEPBENCH_LAYERS, "deepbench"),
        (TRTEXEC_SUMMARY, "jetson"),
        (NVPROF_TABLE, "aibench"),
        (TRAINING_JSON_LOG, "mlperf-training"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_variants_are_recognised(text: str, system: str, encoding: str) -> None:
    recognised = system_of(text.encode(encoding))
    assert recognised is not None
    assert recognised.key == system


def test_a_description_may_spell_the_name_of_its_machine_differently(tmp_path: Path) -> None:
    text = LOADGEN_SUMMARY.format(rate=5, verdict="VALID", constraints="Yes")
    files = {
        "c/I/results/ICL-I3-1005G1_OpenVINO-Windows/resnet/Server/performance/run_1/"
        "mlperf_log_summary.txt": text,
        "c/I/systems/ICL-i31005G1_openvino.json": '{"host_processor_model_name": "i3-1005G1"}',
        "c/I/systems/ICL.json": '{"host_processor_model_name": "another"}',
    }
    results, _ = read_files(tmp_path, "mlperf-inference", files)
    assert {it.hardware["cpu"] for it in results} == {"i3-1005G1"}


@pytest.mark.parametrize(
    ("status", "validity"),
    [
        (': {"success": true}', Validity.VALID),
        (': "true"', Validity.VALID),
        (': {"success": "true"}', Validity.VALID),
        ("", Validity.UNKNOWN),
        (': {"success": false}', Validity.UNKNOWN),
    ],
)
def test_runs_of_v05_state_their_success_in_several_ways(
    status: str, validity: Validity, tmp_path: Path
) -> None:
    log = (
        ":::MLPv0.5.0 ssd 1544237576.0 (ssd.py:3) run_start\n"
        f":::MLPv0.5.0 ssd 1544238176.0 (ssd.py:3) run_stop{status}\n"
    )
    (result,), _ = read_files(tmp_path, "mlperf-training", {"s/ssd/result_0.txt": log})
    assert (result.value, result.validity) == (10.0, validity)
    assert (result.reason is None) == (validity is Validity.VALID)


def test_the_score_of_minigo_is_in_its_last_evaluation(tmp_path: Path) -> None:
    log = (
        ':::MLL 0.0 submission_benchmark: {"value": "minigo"}\n'
        ":::MLL 1560000000.0 run_start: {'value': None, 'metadata': {'lineno': 1}}\n"
        ":::MLL 1560000100.0 eval_result: "
        "{'value': 0.4, 'metadata': {'iteration': 1, 'timestamp': 90.0}}\n"
        ":::MLL 1560000700.0 eval_result: "
        "{'value': 0.51, 'metadata': {'iteration': 2, 'timestamp': 600.0}}\n"
        ":::MLL 1560000900.0 run_stop: {'value': None, 'metadata': {'status': 'success'}}\n"
    )
    results, _ = read_files(tmp_path, "mlperf-training", {"s/minigo/result_0.txt": log})
    assert {it.metric.name: it.value for it in results} == {
        "time_to_train_olympic_mean": 10.0, "eval_accuracy": 0.51,
    }  # fmt: skip


def test_a_table_of_dawnbench_may_have_another_order_and_a_byte_order_mark(tmp_path: Path) -> None:
    table = "\ufeffhours\tepoch\ttop5Accuracy\r\n0.25\t1\t80.5\r\n0.5\t2\t93.01\r\n"
    recognised = system_of(table.encode())
    assert recognised is not None
    assert recognised.key == "dawnbench"
    (result,), _ = read_files(tmp_path, "dawnbench", {"ImageNet/train/a.tsv": table})
    assert result.value == 0.5


@pytest.mark.parametrize(
    "line",
    [
        "{}", "\x1b[32m{}\x1b[0m", "[1,0]<stdout>:{}", "2023-01-01T00:00:00.123Z {}",
        "[pod/worker-0/main] {}", "worker_1  | {}",
    ],
)  # fmt: skip
def test_launchers_and_terminals_mark_the_lines_of_a_run(line: str, tmp_path: Path) -> None:
    text = "".join(line.format(it) + "\n" for it in TF_CNN_LOG.splitlines())
    recognised = system_of(text.encode())
    assert recognised is not None
    results, _ = read_files(tmp_path, recognised.key, {"log": text})
    assert results[0].software == {"tensorflow": "1.15"}
    assert {it.metric.name: (it.benchmark, it.value) for it in results} == {
        "total_images_per_sec": ("resnet50", 953.43), "images_per_sec": ("resnet50", 954.3),
        "uncertainty": ("resnet50", 0.5), "jitter": ("resnet50", 5.1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("total images/sec: 1e+05", 1e5),
        ("total images/sec: 146,827.16", None),
        ("total\timages/sec:\t2.24", 2.24),
    ],
)
def test_a_total_is_read_whole_or_not_at_all(
    line: str, value: float | None, tmp_path: Path
) -> None:
    text = f"TensorFlow:  1.15\nModel:       resnet50\n{line}\n"
    (total,), _ = read_files(tmp_path, "tf_cnn_benchmarks", {"log": text})
    assert total.value == value


@pytest.mark.parametrize(
    ("end", "value"),
    [
        ("", 310.5),
        ('{"name": "average_examples_per_sec", "val', 310.5),
        ('{"name": "average_examples_per_sec", "value": NaN}', None),
    ],
)
def test_the_run_beside_its_metrics_may_have_been_killed(
    end: str, value: float | None, tmp_path: Path
) -> None:
    files = {
        "benchmark_run.log": '{"model_name": "vgg16", "machine_config": {}}',
        "metric.log": f'{{"name": "average_examples_per_sec", "value": 310.5}}\n{end}',
    }
    (average,), refusals = read_files(tmp_path, "tf_cnn_benchmarks", files)
    assert (refusals, average.benchmark, average.value) == ([], "vgg16", value)


def test_convolutions_of_amd_have_no_precision(tmp_path: Path) -> None:
    text = (
        "   w      h      c      n      k      r      s    pad_w  pad_h    stride_w  stride_h    "
        "fwd_time (usec)  bwd_inputs_time (usec)  bwd_params_time (usec)  total_time (usec)   "
        "fwd_algo \n"
        "  700    161      1      4     32      5     20      0       0         2         2"
        "           100                    2034                    3045               5179"
        "   ConvolutionFwdAlgoGEMM\n"
        "                  Totals           100     2034      3045      5179\n"
    )
    results, _ = read_files(tmp_path, "deepbench", {"log": text})
    assert {it.parameters["pass"] for it in results if it.metric.name == "time"} == {
        "forward", "backward_inputs", "backward_weights", "total",
    }  # fmt: skip
    rate = next(it for it in results if it.metric.name == "rate")
    assert rate.value == pytest.approx(2 * 341 * 79 * 32 * 1 * 5 * 20 * 4 / 0.1 / 1e9)


def test_sparse_products_of_a_console_count_only_operations_that_are_not_zero(
    tmp_path: Path,
) -> None:
    text = (
        "    m       n      k      a_t     b_t    sparsity   sparse time (usec)  "
        "dense time (usec)  speedup\n"
        "   7680      1   2560      0      0       0.95              52             255"
        "             4.90385\n"
    )
    results, _ = read_files(tmp_path, "deepbench", {"log": text})
    assert [(it.benchmark, it.parameters.get("pass"), it.value) for it in results] == [
        ("sparse_gemm", None, 0.052),
        ("sparse_gemm", None, pytest.approx(2 * 7680 * 2560 * 0.05 / 0.052 / 1e9)),
        ("sparse_gemm", "dense", 0.255),
        ("sparse_gemm", "dense", pytest.approx(2 * 7680 * 2560 / 0.255 / 1e9)),
    ]


@pytest.mark.parametrize(
    ("paddings", "pad_h", "columns"),
    [("1", 1, 54), ("1,2", 1, 54), ("1,0", 0, 54)],
    ids=["one padding", "padding and splits", "two paddings"],
)
def test_convolutions_of_libxsmm_have_their_paddings(
    paddings: str, pad_h: int, columns: int, tmp_path: Path
) -> None:
    operations = 2 * columns * (54 + 2 * pad_h - 2) * 64 * 64 * 3 * 3 * 8
    text = (
        f"PERFDUMP,FP,1.8.1,64,8,64,64,54,54,3,3,1,{paddings},0.001,{operations / 1e6:.5g},0.1\n"
        f"PERFDUMP,WU,1.8.1,64,8,64,64,54,54,3,3,1,{paddings},-nan,nan,0.1\n"
    )
    time, rate, failed = read_files(tmp_path, "deepbench", {"log": text})[0]
    assert (time.value, time.parameters["pass"], time.parameters["pad_h"]) == (1, "forward", pad_h)
    assert rate.value == pytest.approx(operations / 1e9)
    assert (failed.value, failed.parameters["pass"]) == (None, "backward_weights")


@pytest.mark.parametrize(
    ("latency", "milliseconds"), [("0.0125 s/batch", 12.5), ("12.5ms", 12.5), ("12500 us", 12.5)]
)
def test_a_latency_of_a_block_may_have_another_unit(
    latency: str, milliseconds: float, tmp_path: Path
) -> None:
    block = f"processor_name: X\nmodel_name: resnet50\nlatency: {latency}\n"
    (result,), _ = read_files(tmp_path, "aiia-dnn", {"log": block})
    assert (result.value, result.metric.unit) == (pytest.approx(milliseconds), "ms")


def test_a_title_names_the_framework_that_a_log_parser_left_out(tmp_path: Path) -> None:
    row = '{"exp.model_title": "VGG16", "exp.framework_title": "TensorFlow", '
    text = f'{{"data": [{row}"exp.framework_ver": "1.8.0", "results.time": 1.5}}]}}'
    results, _ = read_files(tmp_path, "hpe-dlcookbook", {"log": text})
    assert results[0].software == {"tensorflow": "1.8.0"}


def test_a_command_line_of_trtexec_names_model_and_batch(tmp_path: Path) -> None:
    text = (
        "&&&& RUNNING TensorRT.trtexec [TensorRT v8401] # /usr/bin/trtexec "
        "--onnx=/home/jo/models/resnet50.onnx --int8 --batch=8\n"
        "[07/25/2022-19:02:56] [I] GPU Compute Time: min = 0.9 ms, max = 2 ms, mean = 0.95 ms\n"
    )
    (result,), _ = read_files(tmp_path, "jetson", {"log": text})
    assert (result.benchmark, result.parameters, result.value) == (
        "resnet50", {"batch_size": 8}, 0.95,
    )  # fmt: skip


def test_a_log_of_requests_may_end_inside_a_line(tmp_path: Path) -> None:
    text = (
        "timeStamp,elapsed,label,responseCode,success,allThreads\n"
        "1620288450432,118,Search,200,true,200\n1620288450532,2"
    )
    results, refusals = read_files(tmp_path, "aibench", {"log": text})
    assert (refusals, results[0].value, results[0].parameters["requests"]) == ([], 118, 1)


def test_python_writes_numbers_that_are_no_json(tmp_path: Path) -> None:
    metrics = '[{"name": "loss", "value": NaN}, {"name": "exp_per_second", "value": 0}]'
    text = (
        '{"ml_framework_info": {}, "benchmark_result": '
        f'{{"name": "NaN", "wall_time": 14.5, "metrics": {metrics}}}}}'
    )
    results, refusals = read_files(tmp_path, "perfzero", {"log": text})
    assert refusals == []
    assert [(it.benchmark, it.metric.name, it.value) for it in results] == [
        ("NaN", "wall_time", 14.5), ("NaN", "loss", None), ("NaN", "exp_per_second", None),
    ]  # fmt: skip
    record = '{"benchmark": {"name": "b"}, "metric": {"name": "%s", "benchmark_values": [%s]}}'
    text = f"[{record % ('ttft_ms', 'NaN')}, {record % ('tpot_ms', '2.5')}]"
    results, _ = read_files(tmp_path, "pytorch-v3", {"log": text})
    assert [(it.metric.name, it.value) for it in results] == [("ttft_ms", None), ("tpot_ms", 2.5)]
