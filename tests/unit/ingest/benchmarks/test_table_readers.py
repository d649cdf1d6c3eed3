"""Readers of tables and logs of other systems: values, and what must not become a value."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from ingest.benchmarks.pipeline import known_system
from ingest.benchmarks.result_tree import ResultTree
from ingest.benchmarks.text_tables import tables_with_bars
from ingest.sources.content_detection import HEAD_BYTES, system_of
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidDocument
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Direction, Validity
from model.reasons import Reason
from tests.factories.benchmark_files import read_files
from tests.factories.benchmark_tables import (
    AIIA_BLOCK,
    AIIA_TABLE,
    FACES,
    FRAMES,
    IANVS_BOX,
    IANVS_CSV,
    IANVS_JOB,
    IANVS_MARKDOWN,
    IANVS_WITHOUT_RANK,
    JETSON_CONSOLE,
    JETSON_INPUTS,
    NVPROF,
    NVPROF_TABLES,
    jmeter_log,
    jmeter_xml,
    trtexec_log,
)

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[4].parent / "shared" / "data"
)
real_files = pytest.mark.skipif(
    not (DATA / "golden.csv").is_file(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)


def real_results(folder: str, key: str) -> list[BenchmarkResult]:
    """Results of the files below ``folder`` that are recognised as those of one system."""
    root = DATA / folder
    files = sorted(it.relative_to(root).as_posix() for it in root.rglob("*") if it.is_file())
    places = []
    for place in files:
        with (root / place).open("rb") as stream:
            system = system_of(stream.read(HEAD_BYTES))
        if system is not None and system.key == key:
            places.append(place)
    tree = ResultTree("source", LocalFileSystem(), str(root), files, SourceLimits())
    reader = known_system(key).reader
    assert reader is not None
    results = []
    for item in reader(tree, places):
        assert not isinstance(item, InvalidDocument), item
        results.append(item)
    return results


def values(results: list[BenchmarkResult]) -> dict[tuple[str, str], float | None]:
    """Values by benchmark and metric."""
    return {(it.benchmark, it.metric.name): it.value for it in results}


def test_a_box_joins_cells_that_the_console_wrapped() -> None:
    text = """## Leaderboard
finished
+------+-----------+------------+
| rank | algorithm |    time    |
+------+-----------+------------+
|  1   |  a long   | 2024-10-28 |
|      |   name    |  16:58:30  |
|  2   | fpn_learn | 2024-10-29 |
|      |    ing    |  16:58:30  |
+------+-----------+------------+
"""
    (table,) = tables_with_bars(text)
    assert table.heading == "Leaderboard"
    assert table.header == ["rank", "algorithm", "time"]
    assert [row[:2] for row in table.rows] == [["1", "a long name"], ["2", "fpn_learning"]]


@pytest.mark.parametrize(
    ("system", "text"),
    [
        ("ianvs", IANVS_MARKDOWN), ("aiia-dnn", AIIA_TABLE),
        ("jetson", "| Model Name | FPS | Note |\n|---|---|---|\n| vgg | 12.5 | |\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("separator", ["|---|", "|:-:|---|", "--- | ---:", "|-" * 12 + "|"])
def test_the_separator_of_a_table_may_have_any_number_of_cells(
    system: str, text: str, separator: str, tmp_path: Path
) -> None:
    lines = text.split("\n")
    at = next(number for number, it in enumerate(lines) if set(it) <= set("|:-\t ") and "-" in it)
    other = "\n".join([*lines[:at], separator, *lines[at + 1 :]])
    tables = [
        read_files(tmp_path / name, system, {"table.md": it})
        for name, it in (("whole", text), ("other", other))
    ]
    assert [refusals for _, refusals in tables] == [[], []]
    assert values(tables[1][0]) == values(tables[0][0])
    assert len(tables[0][0]) > 0


@pytest.mark.parametrize("separator", ["|-|", "|-|-|", "|-|-|-|"])
def test_a_row_may_be_shorter_than_the_header(separator: str) -> None:
    (table,) = tables_with_bars(f"|a|b|\n{separator}\n|1|2|\n|3|\n")
    assert [*table.rows] == [["1", "2"], ["3", ""]]


@pytest.mark.parametrize("rows", ["|1|", "|1|2|\n|1|2|3|"])
def test_rows_that_disagree_with_the_header_make_no_table(rows: str) -> None:
    assert [*tables_with_bars(f"|a|b|\n|-|\n{rows}\n")] == []


def test_the_console_gives_each_model_once_and_no_rate_of_a_failed_build(tmp_path: Path) -> None:
    files = {"run.txt": JETSON_CONSOLE, "nx-benchmarks.csv": JETSON_INPUTS}
    results, refusals = read_files(tmp_path, "jetson", files)
    assert refusals == []
    assert values(results) == {
        ("inception_v4", "fps"): 311.73,
        ("vgg19_N2", "fps"): None,
        ("yolov3-tiny-416", "fps"): 546.69,
    }
    first, failed, _ = results
    assert (failed.validity, failed.reason) == (Validity.FAILED, "an engine could not be built")
    assert first.hardware == {"description": "Jetson nx"}
    assert first.parameters["batch_size_gpu"] == 2
    assert "workspace_dla" not in first.parameters
    assert "/home/jo" not in repr(results)


def test_rates_of_engines_add_up_while_all_ran(tmp_path: Path) -> None:
    files = {
        # 4 averages of 1 s each from 10:00:00; the last one ends the window.
        "m/net_b4_ws2048_gpu.txt": trtexec_log("10:00:00", [50.0, 8.0, 8.0, 20.0], 10.0),
        # Averages that end at 1.5, 2.5, 3.5 and 4.5 s.
        "m/net_b1_ws1024_dla1.txt": trtexec_log("10:00:01", [5.0, 5.0, 5.0, 90.0], 5.0),
    }
    (result,), refusals = read_files(tmp_path, "jetson", files)
    assert refusals == []
    assert (result.source, result.benchmark, result.aggregate) == ("m", "net", Aggregate.SUM)
    assert result.value == pytest.approx(4 * 1000 / 8 + 1 * 1000 / 5)
    assert (result.accelerators, result.software) == (2, {"tensorrt": "8.2.1"})
    assert result.parameters["precision"] == "FP32+INT8"
    assert (result.parameters["batch_size_gpu"], result.parameters["batch_size_dla1"]) == (4, 1)


def test_an_engine_without_a_latency_fails_the_model(tmp_path: Path) -> None:
    files = {
        "m/net_b4_ws2048_gpu.txt": trtexec_log("10:00:00", [8.0, 8.0, 8.0]),
        "m/net_b1_ws1024_dla1.txt": "&&&& FAILED TensorRT.trtexec\n",
    }
    (result,), _ = read_files(tmp_path, "jetson", files)
    assert (result.value, result.validity) == (None, Validity.FAILED)
    assert result.reason == "no latency of dla1 while all engines ran"


def test_a_single_log_of_trtexec_gives_a_latency_and_no_rate(tmp_path: Path) -> None:
    files = {"log.txt": trtexec_log("10:00:00", [8.0, 9.0, 10.0])}
    (result,), _ = read_files(tmp_path, "jetson", files)
    assert (result.metric.name, result.value, result.samples) == ("gpu_latency", 9.0, (8, 9, 10))
    assert result.hardware == {"accelerator": "Xavier"}
    assert result.parameters["batch_size"] == 4


@real_files
def test_published_rates_of_jetson_boards() -> None:
    results = real_results("jetson", "jetson")
    assert {name: value for (name, _), value in values(results[1:]).items()} == {
        "inception_v4": 311.73, "vgg19_N2": 66.43, "super_resolution_bsd500": 150.46,
        "unet-segmentation": 145.42, "pose_estimation": 237.1, "yolov3-tiny-416": 546.69,
        "ResNet50_224x224": 824.02, "ssd-mobilenet-v1": 887.6,
    }  # fmt: skip
    failed = results[0]
    assert (failed.value, failed.reason) == (None, "an engine could not be built")
    assert failed.parameters["batch_size_gpu"] == 16
    assert "shl666" not in repr(results)


IANVS_ID = "3a76bc25-cc0b-11ef-9f00-65cc74a7c013"


def test_rank_tables_keep_only_the_identifier_of_a_path(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "ianvs", {"pcb/rank/all_rank.csv": IANVS_CSV})
    assert refusals == []
    last = [it for it in results if it.parameters.get("test_case") == IANVS_ID]
    assert [(it.metric.name, it.value, it.reason) for it in last] == [
        ("f1_score", 0.95, None),
        ("map", None, "the cell is empty"),
    ]
    assert {it.benchmark for it in results} == {"pcb/singletask"}
    assert {it.metric.direction for it in results} == {Direction.UNKNOWN}
    assert {it.parameters["basemodel"] for it in results} == {"FPN"}
    assert last[0].parameters["basemodel-lr"] == 0.1
    assert results[1].reason == "the cell has 'N/A' instead of a number"
    assert results[0].measured_at is not None
    assert "/home" not in repr(results)


def test_the_job_tells_the_direction_of_metrics(tmp_path: Path) -> None:
    files = {"pcb/rank/all_rank.csv": IANVS_CSV, "pcb/benchmarkingjob.yaml": IANVS_JOB}
    results, _ = read_files(tmp_path, "ianvs", files)
    directions = {it.metric.name: it.metric.direction for it in results if "rank" in it.source}
    assert directions == {"f1_score": Direction.HIGHER, "map": Direction.LOWER}
    assert results[0].files[0].place == "pcb/benchmarkingjob.yaml"


@pytest.mark.parametrize("job", ["{" * 5000, "a: [", "benchmarkingjob: 3", "- " * 3000, "&a [*a]"])
def test_an_unreadable_job_tells_no_direction(job: str, tmp_path: Path) -> None:
    files = {"rank/all_rank.csv": IANVS_CSV, "benchmarkingjob.yaml": job}
    results, _ = read_files(tmp_path, "ianvs", files)
    assert {it.metric.direction for it in results} == {Direction.UNKNOWN}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (IANVS_WITHOUT_RANK, {"accuracy": 0.92, "latency": 0.25}),
        (IANVS_MARKDOWN, {"f1_score": 0.9572}),
        (IANVS_BOX, {"Accuracy": 84.22}),
    ],
)
def test_all_spellings_of_a_rank_table_are_read(
    text: str, expected: dict[str, float], tmp_path: Path
) -> None:
    results, refusals = read_files(tmp_path, "ianvs", {"case/table": text})
    assert refusals == []
    assert {it.metric.name: it.value for it in results} == expected
    assert system_of(text.encode()) == known_system("ianvs")


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_spreadsheets_write_other_delimiters(delimiter: str, tmp_path: Path) -> None:
    text = IANVS_CSV.replace(",", delimiter).replace("0.84", "0,84")
    assert system_of(text.encode()) == known_system("ianvs")
    results, refusals = read_files(tmp_path, "ianvs", {"pcb/rank/all_rank.csv": text})
    assert refusals == []
    scores = [(it.value, it.reason) for it in results if it.metric.name == "f1_score"]
    assert scores == [(None, "the cell has '0,84' instead of a number"), (0.95, None)]


def test_a_row_with_too_many_cells_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    text = IANVS_CSV.replace("0.84,N/A", "0,84,N/A")
    results, (refusal,) = read_files(tmp_path, "ianvs", {"pcb/rank/all_rank.csv": text})
    assert [it.value for it in results] == [0.95, None]
    assert (refusal.reason, refusal.field) == (Reason.WRONG_TYPE, "row 3")


def test_a_wrapped_path_keeps_its_identifier(tmp_path: Path) -> None:
    (result,), _ = read_files(tmp_path, "ianvs", {"case/table": IANVS_BOX})
    assert result.parameters["test_case"] == "b8eb2606-950a-11ef-8cbc-c97e05df5d14"
    assert result.parameters["algorithm"] == "query routing"
    assert result.measured_at == datetime(2024, 10, 28, 16, 58, 30, tzinfo=UTC)


def test_definitions_of_two_scenarios_never_meet(tmp_path: Path) -> None:
    files = {"a/rank.csv": IANVS_CSV, "b/rank.csv": IANVS_CSV}
    results, _ = read_files(tmp_path, "ianvs", files)
    assert len({it.metric.definition for it in results if it.metric.name == "f1_score"}) == 2


@real_files
def test_published_rank_tables() -> None:
    results = real_results("ianvs", "ianvs")
    scores = [it.value for it in results if it.metric.name == "f1_score"]
    assert scores == [0.9572, 0.9444, 0.8440, 0.8527]
    ratios = [it.value for it in results if it.metric.name == "samples_transfer_ratio"]
    assert ratios == [0.5263, 0.5789]
    lifelong = {it.metric.name: it.value for it in results if "lifelonglearning" in it.benchmark}
    assert lifelong == pytest.approx(
        {"accuracy": 0.5206033, "BWT": 0.0423965, "FWT": 0.0229971}, abs=5e-8
    )
    (first, *_) = (it for it in results if it.value == 0.9572)
    assert first.parameters["momentum"] == 0.95


def test_columns_of_frames_have_different_lengths(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "edge-aibench", {"data.csv": FRAMES})
    assert refusals == []
    means = {it.benchmark: it for it in results if it.metric.name == "frame_latency_mean"}
    assert {name: it.samples for name, it in means.items()} == {
        "lane keeping": (0.2, 0.4),
        "object detection": (0.5, 0.25),
        "traffic sign classification": (0.1, 0.1),
    }
    assert means["object detection"].value == 0.375


@pytest.mark.parametrize("cell", ["0", "-1", "abc", "nan", "1e400"])
def test_a_latency_that_is_none_refuses_the_file(cell: str, tmp_path: Path) -> None:
    text = FRAMES.replace("0.25", cell)
    results, (refusal,) = read_files(tmp_path, "edge-aibench", {"data.csv": text})
    assert [it for it in results if it.benchmark == "object detection"] == []
    assert (refusal.reason, refusal.field) == (Reason.WRONG_TYPE, "detection, row 4")


def test_tasks_behind_one_without_a_latency_are_read(tmp_path: Path) -> None:
    results, (refusal,) = read_files(
        tmp_path, "edge-aibench", {"data.csv": FRAMES.replace("0.25", "nan")}
    )
    assert {it.benchmark for it in results} == {"lane keeping", "traffic sign classification"}
    assert refusal.field == "detection, row 4"


def test_face_recognition_tells_its_rate_of_false_accepts(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "edge-aibench", {"lfw.txt": FACES})
    rows = {it.metric.name: it for it in results}
    assert {name: it.value for name, it in rows.items()} == {
        "accuracy": 0.9965, "validation_rate": 0.98367, "area_under_curve": 0.999,
        "equal_error_rate": 0.003,
    }  # fmt: skip
    assert rows["validation_rate"].parameters["false_accept_rate"] == 0.001


@pytest.mark.parametrize(
    ("key", "script"), [("edge-aibench", "label_image.py"), ("aibench", "train.py")]
)
def test_kernels_are_parameters_of_the_gpu_time(key: str, script: str, tmp_path: Path) -> None:
    text = NVPROF.format(script=script)
    assert system_of(text.encode()) == known_system(key)
    (result,), refusals = read_files(tmp_path, key, {"nvprof.log": text})
    assert refusals == []
    assert (result.benchmark, result.metric.unit) == (script, "ms")
    assert result.value == pytest.approx(400)
    assert result.parameters == {
        "share of volta_sgemm<float, int=1>, %": 75.0,
        "share of [CUDA memcpy HtoD], %": 25.0,
    }
    assert "/home/jo" not in repr(result)


def test_api_calls_are_no_time_of_the_gpu(tmp_path: Path) -> None:
    (result,), refusals = read_files(tmp_path, "aibench", {"nvprof.log": NVPROF_TABLES})
    assert refusals == []
    assert result.value == pytest.approx(400)


@pytest.mark.parametrize(
    ("old", "new"), [("25.0,100.0", "25.0,n/a"), ("25.0,100.0,5,20.0,1.0,50.0,", "25.0,100.0,5")]
)
def test_a_table_of_kernels_is_summed_whole_or_not_at_all(
    old: str, new: str, tmp_path: Path
) -> None:
    text = NVPROF_TABLES.replace(old, new)
    results, (refusal,) = read_files(tmp_path, "aibench", {"nvprof.log": text})
    assert (results, refusal.reason) == ([], Reason.WRONG_TYPE)


def test_percentiles_of_requests_are_taken_by_index(tmp_path: Path) -> None:
    text = jmeter_log(list(range(1, 101)), failed=25)
    results, refusals = read_files(tmp_path, "aibench", {"result.jtl": text})
    assert refusals == []
    expected = {
        "latency_mean": 50.5, "latency_p50": 51, "latency_p90": 91, "latency_p99": 100,
        "latency_max": 100, "throughput": 100 / 99.1, "error_rate": 0.25,
    }  # fmt: skip
    assert {name: it for (_, name), it in values(results).items()} == pytest.approx(expected)
    assert {it.benchmark for it in results} == {"Search"}
    assert results[0].parameters == {"requests": 100, "threads": 20, "path": "/search"}
    assert "corp.example" not in repr(results)


@pytest.mark.parametrize(
    ("old", "new"), [(",7,Search", ",,Search"), (",7,Search", ",NaN,Search"), (",7,Sea", ",7,Se,")]
)
def test_a_request_without_a_time_is_left_out(old: str, new: str, tmp_path: Path) -> None:
    text = jmeter_log([5, 7, 9]).replace(old, new)
    results, refusals = read_files(tmp_path, "aibench", {"result.jtl": text})
    assert refusals == []
    rows = {it.metric.name: it for it in results}
    assert (rows["latency_mean"].value, rows["latency_mean"].samples) == (7, (5, 9))
    assert rows["latency_mean"].parameters["requests"] == 2
    assert rows["throughput"].value is None
    assert {it.reason for it in results} == {
        "1 of 3 rows have no time or too many cells and are left out, row 3 first"
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (jmeter_log([]), Reason.MISSING_FIELD),
        (jmeter_log([1]).replace(",1,", ",fast,"), Reason.WRONG_TYPE),
        (jmeter_log([1]).replace("elapsed", "other"), Reason.MISSING_FIELD),
        (jmeter_log([1]).replace("Search", '"' + "x" * 200_000), Reason.UNKNOWN_SCHEMA),
    ],
)
def test_a_log_without_latencies_is_refused(text: str, reason: Reason, tmp_path: Path) -> None:
    results, (refusal,) = read_files(tmp_path, "aibench", {"result.jtl": text})
    assert (results, refusal.reason) == ([], reason)


def test_nul_characters_are_dropped(tmp_path: Path) -> None:
    text = jmeter_log([1], label="Sea\0rch")
    results, refusals = read_files(tmp_path, "aibench", {"result.jtl": text})
    assert refusals == []
    assert {it.benchmark for it in results} == {"Search"}


@real_files
def test_frames_of_automated_driving() -> None:
    results = real_results("edge-aibench/v2/analysis/latency", "edge-aibench")
    rows = values(results)
    assert len(next(it.samples for it in results if it.benchmark == "lane keeping")) == 2431
    lane, sign = "lane keeping", "traffic sign classification"
    assert rows[lane, "frame_latency_mean"] == pytest.approx(0.075018, abs=5e-7)
    assert rows[lane, "frame_latency_p99"] == pytest.approx(0.080310, abs=5e-7)
    assert rows["object detection", "frame_latency_mean"] == pytest.approx(0.009242, abs=5e-7)
    light = rows["traffic light classification", "frame_latency_mean"]
    assert light == pytest.approx(0.024693, abs=5e-7)
    assert rows[sign, "frame_latency_mean"] == pytest.approx(0.052323, abs=5e-7)
    assert rows[sign, "frame_latency_max"] == pytest.approx(0.296849, abs=5e-7)


@real_files
def test_requests_kernels_and_scores_of_aibench() -> None:
    results = real_results("aibench", "aibench")
    rows = {it.metric.name: it.value for it in results if it.benchmark == "Search"}
    assert rows == pytest.approx(
        {
            "latency_mean": 140.897, "latency_p50": 129, "latency_p90": 198, "latency_p99": 270,
            "latency_max": 381, "throughput": 6.6367, "error_rate": 0,
        },
        abs=1e-4,
    )  # fmt: skip
    (kernels,) = (it for it in results if it.metric.name == "gpu_time")
    assert kernels.parameters["share of volta_sgemm_128x64_nn, %"] == 11.013482
    assert [it.value for it in results if it.metric.name == "rouge-1_f"] == [
        0.4412018559893622, 0.4499047033247696,
    ]  # fmt: skip


def test_cells_with_wide_spaces_and_dashes(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "aiia-dnn", {"table.md": AIIA_TABLE})
    assert refusals == []
    assert values(results) == {
        ("mobilenet_v2", "fps"): 101.9, ("mobilenet_v2", "top1"): 71.3,
        ("mobilenet_v2", "top5"): 88.3, ("vgg16", "fps"): None, ("vgg16", "top1"): None,
        ("vgg16", "top5"): None, ("vdsr", "fps"): 12.42, ("vdsr", "psnr"): 24.92,
    }  # fmt: skip
    first = results[0]
    assert first.hardware == {"description": "Phone", "accelerator": "chip", "device": "NPU"}
    assert first.software == {"hiai": None}
    assert first.parameters["precision"] == "float16"
    assert first.parameters["task"] == results[3].parameters["task"] == "Object_Classification"
    assert {it.reason for it in results if it.value is None} == {"not tested"}


def test_a_block_with_full_width_colons(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "aiia-dnn", {"log.txt": AIIA_BLOCK})
    assert refusals == []
    assert values(results) == {
        ("resnet50", "latency"): 12.5, ("resnet50", "throughput"): 1280,
        ("resnet50", "power"): None, ("resnet50", "top1"): 75.1,
    }  # fmt: skip
    assert results[0].parameters == {"task": "classification", "batch_size": 16}
    assert results[0].hardware == {"description": "V100"}


@real_files
def test_published_table_of_aiia() -> None:
    results = real_results("aiia-dnn", "aiia-dnn")
    phone = values([it for it in results if it.hardware["description"] == "Huawei_Mate_20"][:-2])
    expected = {
        ("mobilenet_v2", "fps"): 101.9, ("mobilenet_v2", "top1"): 71.3,
        ("mobilenet_v2", "top5"): 88.3, ("resnet101", "fps"): 43.78, ("vgg16", "fps"): 32.38,
        ("inception_v3", "fps"): 58.32, ("ssd_mobilenetv1", "fps"): 65.68,
        ("ssd_mobilenetv1", "mAP"): 0.84, ("ssd_mobilenetv1", "mIoU"): 0.83,
        ("vdsr", "fps"): 12.42, ("vdsr", "psnr"): 24.92, ("fcn", "fps"): None,
    }  # fmt: skip
    assert {key: phone[key] for key in expected} == expected
    board = values([it for it in results if it.hardware["description"] == "ROC_RK3399_PC"])
    assert board["mobilenet_v2", "fps"] == 17.41
    assert (board["mobilenet_v2", "top1"], board["mobilenet_v2", "top5"]) == (73.3, 91.3)
    assert board["vdsr", "psnr"] is None


LOGS = (
    ("jetson", JETSON_CONSOLE), ("jetson", JETSON_INPUTS), ("jetson", trtexec_log("1", [8.0])),
    ("ianvs", IANVS_CSV), ("ianvs", IANVS_MARKDOWN), ("ianvs", IANVS_BOX),
    ("edge-aibench", FRAMES), ("edge-aibench", FACES), ("edge-aibench", NVPROF),
    ("aibench", NVPROF), ("aibench", jmeter_log([5, 6])), ("aiia-dnn", AIIA_TABLE),
    ("aiia-dnn", AIIA_BLOCK),
)  # fmt: skip


@pytest.mark.parametrize(("key", "text"), LOGS)
def test_a_damaged_file_is_read_or_refused(key: str, text: str, tmp_path: Path) -> None:
    chosen = random.Random(17)
    for _ in range(60):
        at, length = chosen.randrange(len(text)), chosen.choice((0, 1, 7, len(text)))
        piece = chosen.choice(("", "9" * 400, '"', "|", "\n", "+--+\n", "-1e99", "\u3000", "nan"))
        damaged = text[:at] + piece + text[at + length :]
        results, refusals = read_files(tmp_path, key, {"net_b4_ws1_gpu.txt": damaged, "a": damaged})
        assert len(refusals) <= 2
        assert all(it.value is not None or it.reason for it in results)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_log_of_requests_in_xml_says_the_same_as_in_csv(encoding: str, tmp_path: Path) -> None:
    text = jmeter_xml([5, 6, 10], failed=1).replace("\n", "\r\n")
    recognised = system_of(text.encode(encoding))
    assert recognised is not None
    assert recognised.key == "aibench"
    expected, _ = read_files(tmp_path / "csv", "aibench", {"a.jtl": jmeter_log([5, 6, 10], 1)})
    results, refusals = read_files(tmp_path / "xml", "aibench", {"a.jtl": text.encode(encoding)})
    assert refusals == []
    assert [replace(it, files=()) for it in results] == [replace(it, files=()) for it in expected]


def test_a_log_of_requests_that_ends_inside_a_number_has_its_complete_rows(tmp_path: Path) -> None:
    text = "timeStamp,label,success,elapsed\n1620288450000,a,true,120\n1620288451000,a,true,130\n"
    results, refusals = read_files(tmp_path, "aibench", {"a.jtl": text.removesuffix("0\n")})
    assert (refusals, results[0].value, results[0].parameters["requests"]) == ([], 120, 1)


def test_a_log_in_xml_that_ends_early_has_its_complete_requests(tmp_path: Path) -> None:
    text = jmeter_xml([5, 6, 10])
    cut = text[: text.rindex("</httpSample>")]
    results, refusals = read_files(tmp_path, "aibench", {"a.jtl": cut})
    assert (refusals, results[0].value, results[0].parameters["requests"]) == ([], 5.5, 2)


@pytest.mark.parametrize("log", [jmeter_log, jmeter_xml])
def test_logs_of_requests_in_one_file_are_told_apart(
    log: Callable[[list[int]], str], tmp_path: Path
) -> None:
    results, refusals = read_files(tmp_path, "aibench", {"a.jtl": log([5, 7]) + log([20, 40])})
    assert refusals == []
    means = [(it.source, it.value) for it in results if it.metric.name == "latency_mean"]
    assert means == [("a.jtl#0", 6), ("a.jtl#1", 30)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (jmeter_xml([5]).replace('lb="Search"', 'lb="&bomb;"').replace(
            "<testResults", '<!DOCTYPE a [<!ENTITY bomb "x">]>\n<testResults', 1
        ), "not XML: undefined entity"),
        (jmeter_xml([5, 6]).replace("</java.net.URL>", "", 1), "not XML: mismatched tag"),
        (jmeter_xml([5]).replace(' s="true"', ""), "request 1 has no such attribute"),
        ("<testResults version='1.2'></testResults>", "the log has no request"),
    ],
)  # fmt: skip
def test_a_damaged_log_in_xml_is_refused(text: str, message: str, tmp_path: Path) -> None:
    results, (refusal,) = read_files(tmp_path, "aibench", {"a.jtl": text})
    assert (results, refusal.message) == ([], message)
