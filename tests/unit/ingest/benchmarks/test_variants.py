"""Forms of result files that differ from the published samples: other releases, other captures."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from ingest.sources.content_detection import system_of
from model.measurements.benchmark_results import Validity
from tests.factories.benchmark_files import (
    AIOT_BENCH_LOG,
    AIPERF_REPORT,
    DEEPBENCH_ALL_REDUCE,
    DEEPBENCH_CONSOLE,
    DEEPBENCH_CONVOLUTIONS,
    DEEPBENCH_INTEGER_PRODUCTS,
    DEEPBENCH_LAYERS,
    DEEPBENCH_MKL_CONVOLUTIONS,
    DEEPBENCH_MPI_ALL_REDUCE,
    DLBS_LOG,
    ENDPOINT_REPORT,
    LOADGEN_SUMMARY,
    PYTORCH_BENCHMARK_CONSOLE,
    TF_CNN_LOG,
    TF_CNN_RUNS,
    TRAINING_JSON_LOG,
    read_files,
    training_log,
)
from tests.factories.benchmark_tables import (
    FACES,
    JETSON_CONSOLE,
    NVPROF_TABLE,
    NVPROF_TABLES,
    TRTEXEC_SUMMARY,
    TRTEXEC_WALLTIME,
    jmeter_log,
)


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
        (DEEPBENCH_ALL_REDUCE, "deepbench"),
        (DEEPBENCH_MPI_ALL_REDUCE, "deepbench"),
        (DEEPBENCH_INTEGER_PRODUCTS, "deepbench"),
        (DEEPBENCH_MKL_CONVOLUTIONS, "deepbench"),
        (TRTEXEC_SUMMARY, "jetson"),
        (TRTEXEC_WALLTIME, "jetson"),
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
        "{}", "{}  ", "\x1b[32m{}\x1b[0m", "[1,0]<stdout>:{}", "2023-01-01T00:00:00.123Z {}",
        "[pod/worker-0/main] {}", "worker_1  | {}", "0: {}", " 3: {}", "[0] {}",
        "[2023-01-01 00:00:00] {}", "2023-01-01 00:00:00,123 {}", "Jan  1 00:00:00 {}",
        "Jan 01 00:00:00 build-17 run[12]: {}", "01-01 00:00:00.123  1234  1250 I bench: {}",
        "I/bench ( 1234): {}", "0: 2023-01-01T00:00:00Z {}", "INFO:tensorflow:{}",
        "2023-01-01 00:00:00,123 WARNING __main__: {}", "[2023-01-01 00:00:00,1][a.b][INFO] - {}",
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


def test_all_reduce_on_a_console_has_a_time_for_each_size(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "deepbench", {"log": DEEPBENCH_ALL_REDUCE})
    assert refusals == []
    assert {(it.benchmark, it.metric.name, it.metric.unit) for it in results} == {
        ("all_reduce", "time", "ms")
    }
    assert [(it.value, it.accelerators, it.parameters) for it in results] == [
        (value, ranks, {"size_floats": floats, "precision": "float", "algorithm": algorithm,
                        "ranks": ranks})
        for value, ranks, floats, algorithm in (
            (0.2535, 2, 100_000, "Ring"), (0.173, 8, 100_000, "NCCL"), (None, 8, 3_097_600, "NCCL"),
        )
    ]  # fmt: skip


#: Output of another program, whose rows begin with a number, too.
_PRODUCTS = """    m       n      k      a_t     b_t      precision        time (usec)
   1760     16   1760      n      n         float            180
"""


def test_all_reduce_of_mpi_may_run_on_processors(tmp_path: Path) -> None:
    log = f"{DEEPBENCH_MPI_ALL_REDUCE}{_PRODUCTS}"
    results, _ = read_files(tmp_path, "deepbench", {"log": log})
    reduced = [it for it in results if it.benchmark == "all_reduce"]
    assert [(it.value, it.accelerators, it.parameters["ranks"]) for it in reduced] == [
        (0.14, None, 4), (1.85, None, 4),
    ]  # fmt: skip


def test_matrix_products_of_integers_have_their_precision(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "deepbench", {"log": DEEPBENCH_INTEGER_PRODUCTS})
    times = [it for it in results if it.metric.name == "time"]
    named = ("precision", "b_transpose")
    assert [(it.value, *(it.parameters[name] for name in named)) for it in times] == [
        (5.1245, "int8", "T"), (None, "double", "N"), (0.3505, "uint8", "T"),
    ]  # fmt: skip
    rate = next(it for it in results if it.metric.name == "rate")
    assert rate.value == pytest.approx(2 * 5124 * 700 * 2048 / 5124.5e-6 / 1e12)


def test_convolutions_of_mkl_have_a_rate_if_their_strides_are_known(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "deepbench", {"log": DEEPBENCH_MKL_CONVOLUTIONS})
    times = {it.parameters["pass"]: it for it in results if it.metric.name == "time"}
    assert {name: it.value for name, it in times.items()} == {
        "forward": 0.42, "backward_weights": None, "backward_inputs": 0.4,
    }  # fmt: skip
    assert {(it.parameters["s"], it.parameters["r"]) for it in results} == {(20, 5)}
    assert "pad_w" not in times["forward"].parameters
    (rate,) = (it for it in results if it.metric.name == "rate")
    assert rate.value == pytest.approx(2 * 341 * 79 * 32 * 1 * 5 * 20 * 4 / 0.4 / 1e9)


@pytest.mark.parametrize("line", ["0: {}", "05-06 08:07:30.432  1234  1250 I bench: {}"])
@pytest.mark.parametrize(
    ("text", "key"), [(DEEPBENCH_CONSOLE, "deepbench"), (AIOT_BENCH_LOG, "aiot-bench")]
)
def test_labels_of_tasks_change_no_value(text: str, key: str, line: str, tmp_path: Path) -> None:
    labelled = "".join(line.format(it) + "\n" for it in text.splitlines())
    recognised = system_of(labelled.encode())
    assert recognised is not None
    assert recognised.key == key
    plain, _ = read_files(tmp_path / "plain", key, {"log": text})
    results, _ = read_files(tmp_path / "labelled", key, {"log": labelled})
    assert [(it.benchmark, it.value, it.parameters) for it in results] == [
        (it.benchmark, it.value, it.parameters) for it in plain
    ]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("aiia-dnn", "processor_name: X\nlatency: 12,5 ms\nthroughput: 1,280\ntop1: 75,1%\n"),
        ("edge-aibench", FACES.replace("0.", "0,")),
        ("edge-aibench", "lane,detection,light,sign\n1,5,2,5,3,5,4,5\n"),
        ("aiperf", AIPERF_REPORT.replace(".", ",")),
        ("mlperf-inference", "BLEU: 23,8\n"),
        ("mlperf-inference", "accuracy=76,034%, good=38017, total=50000\n"),
        ("tf_cnn_benchmarks", TF_CNN_LOG.replace(".", ",")),
        ("tf_cnn_benchmarks", "name_gpu,num_gpu,vgg16\nV100,1,210,5\n"),
        ("deepbench", DEEPBENCH_CONSOLE.replace("         38", "      1,238")),
        ("deepbench", DEEPBENCH_INTEGER_PRODUCTS.replace(".", ",")),
        ("jetson", JETSON_CONSOLE.replace(".", ",")),
        ("jetson", TRTEXEC_SUMMARY.replace(".", ",")),
        ("jetson", TRTEXEC_WALLTIME.replace(".", ",")),
        ("hpe-dlcookbook", DLBS_LOG.replace("96.3", "96,3").replace("166.1", "1,166")),
        ("aibench", NVPROF_TABLE.replace(".", ",")),
        ("ianvs", "algorithm,f1,paradigm,time\nfpn,0,95,single,2025-01-06 14:30:30\n"),
    ],
)  # fmt: skip
def test_a_number_with_a_comma_is_no_value(key: str, text: str, tmp_path: Path) -> None:
    folder = {"tf-throughput.csv": text} if text.startswith("name_gpu") else {"accuracy.txt": text}
    results, refusals = read_files(tmp_path, key, folder)
    assert [(it.metric.name, it.value) for it in results if it.value is not None] == []
    assert not any(it.samples for it in results)
    assert refusals or any(it.reason for it in results)


def test_a_total_that_is_no_number_is_named(tmp_path: Path) -> None:
    text = "TensorFlow:  1.15\nModel:       resnet50\ntotal images/sec: 953,43\n"
    (total,), _ = read_files(tmp_path, "tf_cnn_benchmarks", {"log": text})
    assert (total.value, total.reason) == (None, "the total is '953,43'")


def _logged(step: int, rate: float, minute: int, name: str = "current_examples_per_sec") -> str:
    return (
        f'{{"name": "{name}", "value": {rate}, "global_step": {step}, '
        f'"timestamp": "2019-03-25T09:{minute}:00Z"}}\n'
    )


def _described(model: str, minute: int) -> str:
    return (
        f'{{"model_name": "{model}", "machine_config": {{}}, '
        f'"run_date": "2019-03-25T09:{minute}:00Z"}}\n'
    )


_TWO_RUNS = (
    _logged(1, 300.0, 11) + _logged(10, 310.0, 12)
    + _logged(10, 305.0, 13, "average_examples_per_sec")
    + _logged(1, 90.0, 21) + _logged(10, 100.0, 22)
    + _logged(10, 95.0, 23, "average_examples_per_sec")
)  # fmt: skip


@pytest.mark.parametrize(
    ("described", "models"),
    [
        (_described("vgg16", 10) + _described("resnet50", 20), ["vgg16", "resnet50"]),
        (_described("resnet50", 20), ["unknown", "resnet50"]),
        (_described("vgg16", 10), ["vgg16", "unknown"]),
    ],
    ids=["both", "the last", "the first"],
)
def test_two_runs_in_one_folder_are_told_apart(
    described: str, models: list[str], tmp_path: Path
) -> None:
    files = {"benchmark.log": described, "metric.log": _TWO_RUNS}
    results, refusals = read_files(tmp_path, "tf_cnn_benchmarks", files)
    assert refusals == []
    assert [(it.source, it.value, it.samples) for it in results] == [
        ("metric.log#0", 305.0, (300.0, 310.0)), ("metric.log#1", 95.0, (90.0, 100.0)),
    ]  # fmt: skip
    assert [it.benchmark for it in results] == models


def test_the_line_in_which_a_run_was_killed_is_left_out(tmp_path: Path) -> None:
    first, _, second = _TWO_RUNS.partition('{"name": "average_examples_per_sec"')
    files = {"metric.log": f'{first}{{"name": "average_exa{second.partition(chr(10))[2]}'}
    results, refusals = read_files(tmp_path, "tf_cnn_benchmarks", files)
    assert refusals == []
    assert [(it.value, it.samples) for it in results] == [(None, ()), (95.0, (100.0,))]


def test_a_description_without_values_names_the_missing_file(tmp_path: Path) -> None:
    files = {"benchmark.log": _described("vgg16", 10)}
    results, (refusal,) = read_files(tmp_path, "tf_cnn_benchmarks", files)
    assert (results, refusal.field) == ([], "metric.log")


def test_trtexec_of_tensorrt_5_prints_times_of_the_gpu_and_the_host(tmp_path: Path) -> None:
    (result,), refusals = read_files(tmp_path, "jetson", {"log": TRTEXEC_WALLTIME})
    assert refusals == []
    assert (result.metric.name, result.value, result.samples) == ("gpu_latency", 9.0, (8.5, 9.5))
    assert (result.benchmark, result.parameters) == ("ResNet50_224x224", {"batch_size": 4})
    assert "/home/jo" not in repr(result)


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [(TRTEXEC_WALLTIME, "ResNet50_224x224", "vgg19"), (TRTEXEC_SUMMARY, "m.onnx", "n.onnx")],
)
def test_runs_of_trtexec_in_one_log_are_told_apart(
    text: str, old: str, new: str, tmp_path: Path
) -> None:
    (alone, *_), _ = read_files(tmp_path / "one", "jetson", {"log": text})
    both = "some shell output\n" + text + text.replace(old, new)
    results, _ = read_files(tmp_path / "two", "jetson", {"log": both})
    latencies = [it for it in results if it.metric.name == "gpu_latency"]
    assert [(it.source, it.value) for it in latencies] == [
        ("log#0", alone.value), ("log#1", alone.value),
    ]  # fmt: skip
    assert latencies[0].benchmark != latencies[1].benchmark


def test_logs_of_two_phones_in_one_file_are_told_apart(tmp_path: Path) -> None:
    other = AIOT_BENCH_LOG.replace("Example Phone", "Other Phone").replace("vips:50.0", "vips:30.0")
    text = "--------- beginning of main\n" + AIOT_BENCH_LOG + "\n" + other
    alone, _ = read_files(tmp_path / "one", "aiot-bench", {"log": AIOT_BENCH_LOG})
    results, refusals = read_files(tmp_path / "two", "aiot-bench", {"log": text})
    assert refusals == []
    first, second = ([it for it in results if it.source == name] for name in ("log#0", "log#1"))
    assert [(it.value, it.parameters) for it in first] == [
        (it.value, it.parameters) for it in alone
    ]
    assert second[0].value == 30.0
    assert {it.hardware["description"] for it in second} == {"Other Phone"}


def _lines(log: str, seconds: int) -> str:
    """The same lines, some time later."""
    return re.sub(r"15930\d{5}", lambda match: str(int(match[0]) + seconds), log)


_OLD_TRAINING_LOG = (
    ":::MLPv0.5.0 ssd 1593018060.0 (ssd.py:3) run_start\n"
    ":::MLPv0.5.0 ssd 1593018660.0 (ssd.py:3) run_stop: true\n"
)


@pytest.mark.parametrize(
    "log",
    [training_log(1593018060, 1593018660), TRAINING_JSON_LOG, _OLD_TRAINING_LOG],
    ids=["v0.6", "v0.7", "v0.5"],
)
def test_runs_in_one_log_of_a_training_are_runs_of_its_entry(log: str, tmp_path: Path) -> None:
    files = {"slurm-17.out": log + _lines(log, 1000) + _lines(log, 2000)}
    results, refusals = read_files(tmp_path, "mlperf-training", files)
    assert refusals == []
    assert results[0].samples == pytest.approx((10.0, 10.0, 10.0), abs=0.02)
    assert results[0].value == pytest.approx(10.0, abs=0.02)


def test_trainings_of_two_benchmarks_in_one_log_are_two_entries(tmp_path: Path) -> None:
    other = _lines(TRAINING_JSON_LOG.replace("ssd", "bert"), 1000)
    other = other.replace("1593019660", "1593019780")
    files = {"slurm-17.out": TRAINING_JSON_LOG + other}
    results, refusals = read_files(tmp_path, "mlperf-training", files)
    assert refusals == []
    times = [it for it in results if it.metric.unit == "minutes"]
    assert [(it.benchmark, it.value) for it in times] == [("ssd", 10.0), ("bert", 12.0)]


def test_processes_whose_logs_follow_each_other_are_one_run(tmp_path: Path) -> None:
    log = training_log(1593018060, 1593018660)
    results, _ = read_files(tmp_path, "mlperf-training", {"slurm-17.out": log + log})
    assert results[0].samples == pytest.approx((10.0,), abs=0.02)


def test_summaries_outside_folders_of_runs_claim_nothing_together(tmp_path: Path) -> None:
    files = {
        f"logs/{model}/mlperf_log_summary.txt": LOADGEN_SUMMARY.format(
            rate=rate, verdict="VALID", constraints="Yes"
        )
        for model, rate in (("bert", 20), ("resnet50", 300))
    }
    results, _ = read_files(tmp_path, "mlperf-inference", files)
    assert [it.value for it in results] == [20, 300]
    assert [it.source for it in results] == list(files)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_logs_of_requests_have_other_delimiters(delimiter: str, tmp_path: Path) -> None:
    text = (
        "timeStamp,elapsed,label,responseCode,success,allThreads\n"
        "1620288450432,118,Search,200,true,200\n1620288450532,2"
    ).replace(",", delimiter)
    recognised = system_of(text.encode())
    assert recognised is not None
    results, refusals = read_files(tmp_path, recognised.key, {"log": text})
    assert (refusals, results[0].value, results[0].parameters["requests"]) == ([], 118, 1)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("mlperf-training", _OLD_TRAINING_LOG), ("aibench", NVPROF_TABLES),
        ("pytorch-benchmark", PYTORCH_BENCHMARK_CONSOLE), ("mlperf-inference", "BLEU: 23.8\n"),
    ],
)  # fmt: skip
def test_spaces_at_the_ends_of_lines_change_no_value(key: str, text: str, tmp_path: Path) -> None:
    padded = text.replace("\n", "  \n")
    assert system_of(padded.encode()) == system_of(text.encode()) is not None
    plain, _ = read_files(tmp_path / "plain", key, {"s/accuracy.txt": text})
    results, refusals = read_files(tmp_path / "padded", key, {"s/accuracy.txt": padded})
    assert refusals == []
    assert [(it.benchmark, it.value) for it in results] == [
        (it.benchmark, it.value) for it in plain
    ]
    assert plain


def test_other_output_may_come_before_a_log_of_requests(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "aibench", {"log": "$ cat result.jtl\n" + jmeter_log([5, 7])})
    assert results[0].value == 6


def test_summaries_of_two_scenarios_on_one_console_are_told_apart(tmp_path: Path) -> None:
    server = LOADGEN_SUMMARY.format(rate=200, verdict="VALID", constraints="Yes")
    offline = server.replace("Server", "Offline").replace(
        "Scheduled samples per second : 200", "Samples per second: 300"
    )
    results, _ = read_files(tmp_path, "mlperf-inference", {"run.log": offline + server})
    assert [(it.source, it.metric.name, it.value, it.parameters["scenario"]) for it in results] == [
        ("run.log#0", "Samples per second", 300, "Offline"),
        ("run.log#1", "Scheduled samples per second", 200, "Server"),
    ]


def test_runs_of_dlbs_in_one_log_are_told_apart(tmp_path: Path) -> None:
    first = '__exp.id__="a"\n' + DLBS_LOG
    second = '__exp.id__="b"\n' + DLBS_LOG.replace("=16\n", "=32\n").partition("__results")[0]
    results, _ = read_files(tmp_path, "hpe-dlcookbook", {"log": first + second})
    assert [(it.source, it.parameters["batch_size"], it.value) for it in results] == [
        ("log#0", 16, 96.3), ("log#0", 16, 166.1), ("log#1", 32, None), ("log#1", 32, None),
    ]  # fmt: skip


@pytest.mark.parametrize("columns", ["same", "other"])
def test_programs_append_to_a_rank_table(columns: str, tmp_path: Path) -> None:
    text = "algorithm,paradigm,accuracy,latency\nfpn,single,0.9,12\n"
    more = text if columns == "same" else "algorithm,paradigm,latency,accuracy\nfpn,single,12,0.9\n"
    results, refusals = read_files(tmp_path, "ianvs", {"rank.csv": text + more})
    assert refusals == []
    values = [(it.metric.name, it.value) for it in results]
    assert sorted(values) == 2 * [("accuracy", 0.9)] + 2 * [("latency", 12)]


def test_a_second_table_of_epochs_refuses_the_file(tmp_path: Path) -> None:
    table = "epoch\thours\ttop1Accuracy\n1\t1.5\t50\n2\t3.0\t94.5\n"
    results, (refusal,) = read_files(tmp_path, "dawnbench", {"CIFAR10/a.tsv": table + table})
    assert (results, refusal.field) == ([], "line 4")


def test_runs_without_heads_are_told_apart(tmp_path: Path) -> None:
    """Processes repeat later steps after the total of the first process, but not the first step."""
    text = (
        "Step\tImg/sec\tloss\n1\timages/sec: 78.1 +/- 0.0 (jitter = 0.0)\t9.0\n"
        "10\timages/sec: 83.3 +/- 2.0 (jitter = 3.4)\t8.2\ntotal images/sec: 82.4\n"
        "10\timages/sec: 83.2 +/- 2.0 (jitter = 3.4)\t8.2\ntotal images/sec: 82.3\n"
    )
    other = text.replace("8", "1")
    results, _ = read_files(tmp_path, "tf_cnn_benchmarks", {"log": text + "2 workers\n" + other})
    values = {(it.source, it.metric.name): it.value for it in results}
    assert values["log#0", "total_images_per_sec"] == 82.4
    assert values["log#0", "images_per_sec"] == 83.2
    assert values["log#1", "total_images_per_sec"] == 12.4
    assert values["log#1", "images_per_sec"] == 13.2
    assert {source for source, _ in values} == {"log#0", "log#1"}


def test_summaries_of_trtexec_in_a_document_are_told_apart(tmp_path: Path) -> None:
    summary = (
        "=== Performance summary ===\nThroughput: {} qps\n\n"
        "GPU Compute Time: min = 2 ms, max = 3 ms, mean = {} ms, median = 2.9 ms\n\n"
    )
    text = f"## Batch 1\n{summary.format(344, 2.9)}## Batch 4\n{summary.format(106, 9.4)}"
    results, _ = read_files(tmp_path, "jetson", {"README.md": text})
    assert [(it.source, it.value) for it in results] == [
        ("README.md#0", 2.9), ("README.md#0", 344), ("README.md#1", 9.4), ("README.md#1", 106),
    ]  # fmt: skip


def test_algorithms_behind_the_times_are_not_read(tmp_path: Path) -> None:
    header, row = DEEPBENCH_CONVOLUTIONS.splitlines()[3::2]
    text = f"{header}   bwd_inputs_algo\n{row}   ConvolutionBwdDataAlgoGEMM\n"
    plain, _ = read_files(tmp_path / "plain", "deepbench", {"log": DEEPBENCH_CONVOLUTIONS})
    results, refusals = read_files(tmp_path / "more", "deepbench", {"log": text})
    assert refusals == []
    assert [(it.value, it.parameters) for it in results] == [
        (it.value, it.parameters) for it in plain
    ]


@pytest.mark.parametrize(
    "line",
    [
        "Created TensorFlow device (/device:GPU:0 with 14725 MB memory) -> physical GPU "
        "(device: 0, name: Example GPU, pci bus id: 0000:d9:00.0, compute capability: 7.0)",
        "Created device /device:GPU:0 with 63950 MB memory:  -> device: 0, name: Example GPU, "
        "pci bus id: 0000:1b:00.0",
        "name: Example GPU major: 6 minor: 1 memoryClockRate(GHz): 1.645",
    ],
)
def test_tensorflow_names_the_gpu_before_the_head_of_a_run(line: str, tmp_path: Path) -> None:
    text = f"{line}\n{line}\n" + TF_CNN_LOG.replace("224 per", "224.0 per").replace(
        "training", "BenchmarkMode.TRAIN"
    )
    results, _ = read_files(tmp_path / "one", "tf_cnn_benchmarks", {"log": text})
    assert {it.hardware["accelerator"] for it in results} == {"Example GPU"}
    assert results[0].parameters["batch_size"] == 224
    assert results[0].parameters["phase"] == "training"
    for other in (text.replace("Example", "Other", 1), text.replace("/gpu:", "/cpu:")):
        results, _ = read_files(tmp_path / "two", "tf_cnn_benchmarks", {"log": other})
        assert {len(it.hardware) for it in results} == {0}


@pytest.mark.parametrize("line", ["latency: 0.2 min", "power: 0.25 kW", "throughput: 1.28k"])
def test_a_value_in_an_unknown_unit_is_not_read(line: str, tmp_path: Path) -> None:
    (result,), _ = read_files(tmp_path, "aiia-dnn", {"log": f"processor_name: X\n{line}\n"})
    assert result.value is None
    assert result.reason == f"the unit of {line.partition(': ')[2]!r} is unknown"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"exact_match": 83.25, "f1": 90.5}\nhash=3e7b\n', {"exact_match": 83.25, "f1": 90.5}),
        (
            "\nResults\n\n{'rouge1': 44.5, 'rouge2': 22.1, 'rougeL': 28.7, 'rougeLsum': 42.1, "
            "'gen_len': 28336574, 'gen_num': 24576}\nhash=22\n",
            {"rouge1": 44.5, "rouge2": 22.1, "rougeL": 28.7},
        ),
    ],
)
def test_accuracies_of_later_tasks(text: str, values: dict[str, float], tmp_path: Path) -> None:
    recognised = system_of(text.encode())
    assert recognised is not None
    assert recognised.key == "mlperf-inference"
    place = "closed/O/results/m/bert-99/Offline/accuracy/accuracy.txt"
    results, refusals = read_files(tmp_path, recognised.key, {place: text})
    assert refusals == []
    assert {it.metric.name: it.value for it in results} == values
    assert {(it.system, it.benchmark, it.metric.definition) for it in results} == {
        ("mlperf-inference", "bert-99", "mlperf-inference")
    }


def test_bounds_of_language_models_are_parameters(tmp_path: Path) -> None:
    text = LOADGEN_SUMMARY.format(rate=70, verdict="VALID", constraints="Yes")
    text += "ttft_latency (ns): 2000000000\ntpot_latency (ns): 200000000\n"
    results, _ = read_files(tmp_path, "mlperf-inference", {"mlperf_log_summary.txt": text})
    assert results[0].parameters["ttft_latency (ns)"] == 2_000_000_000
    assert results[0].parameters["tpot_latency (ns)"] == 200_000_000


@pytest.mark.parametrize(
    ("key", "text", "name"),
    [
        ("aibench", jmeter_log([5, 7]).replace('"a, b"', "OK"), "result.jtl"),
        (
            "edge-aibench",
            "lane,detection,light,sign\n0.2,0.5,0.3,0.1\n0.4,0.6,0.2,0.1\n",
            "data.csv",
        ),
    ],
)
def test_columns_may_have_another_order(key: str, text: str, name: str, tmp_path: Path) -> None:
    rows = [line.split(",") for line in text.splitlines()]
    other = "".join(",".join([*row[2:], *row[:2]]) + "\n" for row in rows)
    assert system_of(other.encode()) == system_of(text.encode()) is not None
    plain, _ = read_files(tmp_path / "plain", key, {name: text})
    results, refusals = read_files(tmp_path / "other", key, {name: other})
    assert refusals == []
    assert {(it.benchmark, it.metric.name, it.value) for it in results} == {
        (it.benchmark, it.metric.name, it.value) for it in plain
    }


def test_summaries_of_perfzero_may_be_a_list(tmp_path: Path) -> None:
    summary = '{"ml_framework_info": {}, "benchmark_result": {"name": "b", "wall_time": %s}}'
    text = f"[{summary % 14.5}, {summary % 15.5}]"
    results, refusals = read_files(tmp_path, "perfzero", {"all.json": text})
    assert refusals == []
    assert [(it.source, it.value) for it in results] == [("all.json#0", 14.5), ("all.json#1", 15.5)]


@pytest.mark.parametrize(
    ("benchmark", "direction"), [("ssd", "higher"), ("llama2_70b_lora", "lower"), ("rnnt", "lower")]
)
def test_a_loss_of_a_training_is_better_if_it_is_lower(
    benchmark: str, direction: str, tmp_path: Path
) -> None:
    log = TRAINING_JSON_LOG.replace('"ssd"', f'"{benchmark}"')
    results, _ = read_files(tmp_path, "mlperf-training", {"s/x/result_0.txt": log})
    (accuracy,) = (it for it in results if it.metric.name == "eval_accuracy")
    assert accuracy.metric.direction == direction


def test_an_accuracy_that_is_one_of_two_metrics_is_not_read(tmp_path: Path) -> None:
    line = ':::MLLOG {"key": "eval_accuracy", "value": 0.16, "metadata": {"metric": "CLIP"}}\n'
    log = TRAINING_JSON_LOG.replace('"eval_accuracy"', '"before"') + line
    results, refusals = read_files(tmp_path, "mlperf-training", {"s/x/result_0.txt": log})
    assert refusals == []
    assert {it.metric.name for it in results} == {"time_to_train_olympic_mean"}


@pytest.mark.parametrize(
    ("load", "definition"),
    [
        ("", "mlperf-inference-endpoints-1"),
        (", use_legacy_loadgen_qps_metrics=True", "mlperf-inference-endpoints-issuing-1"),
    ],
)
def test_a_report_of_an_endpoint_has_rates_and_latencies(
    load: str, definition: str, tmp_path: Path
) -> None:
    text = ENDPOINT_REPORT.replace("target_concurrency=None", f"target_concurrency=None{load}")
    recognised = system_of(text.encode())
    assert recognised is not None
    assert recognised.key == "mlperf-inference"
    place = "closed/X/results/m/llama2-70b/Server/report.txt"
    results, refusals = read_files(tmp_path, "mlperf-inference", {place: text})
    assert refusals == []
    assert {it.metric.name: (it.value, it.metric.unit) for it in results} == {
        "QPS": (29.99, "queries/s"), "TPS": (11758.25, "tokens/s"), "ttft_mean": (212.03, "ms"),
        "ttft_p50": (205.52, "ms"), "ttft_p90": (253.33, "ms"), "ttft_p99": (303.55, "ms"),
        "latency_mean": (1469.83, "ms"), "latency_p99": (7848.62, "ms"),
    }  # fmt: skip
    first = results[0]
    assert (first.benchmark, first.reason) == ("llama2-70b", "2 of 6000 samples failed")
    assert first.parameters["load_pattern"] == "poisson"
    assert first.metric.definition == definition


@pytest.mark.parametrize("end", [1, 2, 3])
def test_a_table_that_ends_inside_a_number_has_its_complete_rows(end: int, tmp_path: Path) -> None:
    text = DEEPBENCH_CONSOLE.replace("          0\n", "          4567\n")
    results, refusals = read_files(tmp_path, "deepbench", {"log": text[:-end]})
    assert refusals == []
    assert [it.value for it in results if it.metric.name == "time"] == [0.038]
