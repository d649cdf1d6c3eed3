"""Results that other people published, read as they published them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ingest.benchmarks.pipeline import known_system
from ingest.benchmarks.result_tree import ResultTree
from ingest.sources.content_detection import HEAD_BYTES, system_of
from ingest.sources.source_items import SourceLimits
from model.errors import InvalidDocument
from model.measurements.benchmark_results import BenchmarkResult

DATA = Path(
    os.environ.get("THOTH_REAL_DATA") or Path(__file__).parents[4].parent / "shared" / "data"
)
pytestmark = pytest.mark.skipif(
    not (DATA / "golden.csv").is_file(),
    reason="no real documents here; THOTH_REAL_DATA names a folder that has them",
)


def published(folder: str, key: str, **stated: str) -> list[BenchmarkResult]:
    """Results of the files below ``folder`` that are recognised as those of one system.

    :param stated: what a person states beside them
    """
    root = DATA / folder
    files = sorted(it.relative_to(root).as_posix() for it in root.rglob("*") if it.is_file())
    places = []
    for place in files:
        with (root / place).open("rb") as stream:
            system = system_of(stream.read(HEAD_BYTES))
        if system is not None and system.key == key:
            places.append(place)
    tree = ResultTree("source", root, files, SourceLimits(), stated=stated)
    reader = known_system(key).reader
    results = []
    for item in reader(tree, places):
        assert not isinstance(item, InvalidDocument), item
        results.append(item)
    return results


def values(results: list[BenchmarkResult]) -> dict[tuple[str, str], float | None]:
    """Values by benchmark and metric."""
    return {(it.benchmark, it.metric.name): it.value for it in results}


def test_published_rates_of_jetson_boards() -> None:
    results = published("jetson", "jetson")
    assert {name: value for (name, _), value in values(results[1:]).items()} == {
        "inception_v4": 311.73, "vgg19_N2": 66.43, "super_resolution_bsd500": 150.46,
        "unet-segmentation": 145.42, "pose_estimation": 237.1, "yolov3-tiny-416": 546.69,
        "ResNet50_224x224": 824.02, "ssd-mobilenet-v1": 887.6,
    }  # fmt: skip
    failed = results[0]
    assert (failed.value, failed.reason) == (None, "an engine could not be built")
    assert failed.parameters["batch_size_gpu"] == 16
    assert "shl666" not in repr(results)


def test_published_rank_tables() -> None:
    results = published("ianvs", "ianvs")
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


def test_frames_of_automated_driving() -> None:
    results = published("edge-aibench/v2/analysis/latency", "edge-aibench")
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


def test_requests_kernels_and_scores_of_aibench() -> None:
    results = published("aibench", "aibench")
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
        0.4412018559893622,
        0.4499047033247696,
    ]


def test_published_table_of_aiia() -> None:
    results = published("aiia-dnn", "aiia-dnn")
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


def test_published_runs_of_efficientnet() -> None:
    results = published("pytorch-benchmark", "pytorch-benchmark")
    assert {(it.parameters["flops"], it.parameters["params"]) for it in results} == {
        (401669732, 5288548)
    }
    seconds = {
        (it.source, it.parameters["batch_size"], it.parameters["part"]): it.value
        for it in results
        if it.metric.name == "seconds_per_batch"
    }
    cpu, gpu = ("readme-macbook-i7-cpu.yaml", "readme-rtx2080-cuda.yaml")
    assert seconds[cpu, 1, "on_device_inference"] == pytest.approx(0.0744385, abs=5e-8)
    assert seconds[cpu, 8, "on_device_inference"] == pytest.approx(0.5094102, abs=5e-8)
    assert seconds[gpu, 1, "total"] == pytest.approx(0.0158180, abs=5e-8)
    assert seconds[gpu, 8, "total"] == pytest.approx(0.0175328, abs=5e-8)
    assert len(seconds) == 2 + 2 * 4
    assert "d40049" not in repr(results)
    assert "monster" not in repr(results)


def test_the_documented_execution_of_perfzero() -> None:
    results = published("perfzero", "perfzero")
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


def test_a_published_run_of_the_vllm_benchmark() -> None:
    results = published(
        "sources/llm-serving", "vllm-bench", sglang="0.5.3", accelerator="NVIDIA H200"
    )
    assert {it.benchmark for it in results} == {"openai/gpt-oss-120b"}
    rows = {it.metric.name: it.value for it in results}
    assert rows["request_throughput"] == 7.676086369889036
    assert rows["total_token_throughput"] == 21599.708731885275
    assert rows["median_ttft_ms"] == 116.71616450007605
    assert rows["p99_itl_ms"] == 14.940836879909503
    assert results[0].parameters["max_concurrency"] == 64
    assert (results[0].software, results[0].hardware) == (
        {"sglang": "0.5.3"}, {"accelerator": "NVIDIA H200"},
    )  # fmt: skip


def test_published_tables_of_aiconfigurator() -> None:
    results = published("sources/aiconfigurator", "aiconfigurator")
    vllm = {
        (it.software["vllm"], it.parameters["kernel_source"], it.parameters["message_size"]): it
        for it in results
        if it.benchmark == "all_reduce" and it.parameters["num_gpus"] == 2
    }
    old, new = (vllm[it, "vLLM_custom_graph", 128] for it in ("0.19.0", "0.24.0"))
    assert (old.value, new.value) == (0.004266560077667236, 0.004291520118713379)
    assert vllm["0.24.0", "vLLM_custom_eager", 256].value == 0.019676159620285034
    # Nobody says which collector measured them, so that they are not comparable.
    assert old.metric.definition != new.metric.definition
    assert {it.hardware["accelerator"] for it in results} == {"NVIDIA H100 80GB HBM3"}
    attention = next(it for it in results if "sglang" in it.software)
    assert (attention.software, attention.value) == ({"sglang": "0.5.10"}, 0.086627197265625)


def test_published_results_of_asv() -> None:
    django = published("sources/django-asv", "asv")
    rows = {(it.software["commit"][:8], it.benchmark.rpartition(".")[2]): it for it in django}
    first, later = (rows[it, "time_multi_value_dict"] for it in ("1a8fd5cf", "3e4e0db6"))
    assert first.value == pytest.approx(0.22469926450003186)
    assert (len(first.samples), first.samples[0]) == (10, 0.22114578200000778)
    assert later.value == pytest.approx(0.23001493200001732)
    assert rows["b731e884", "time_form_clean"].value == pytest.approx(4.3106880165234834e-05)
    assert first.hardware == {}  # its machine.json names no processor
    (sunpy,) = (
        it for it in published("sources/sunpy-asv", "asv")
        if it.benchmark.endswith("time_is_time") and it.software["commit"].startswith("0070bd3e")
    )  # fmt: skip
    assert (sunpy.value, sunpy.samples) == (0.0003064363636371347, ())
    assert sunpy.hardware == {"cpu": "2-core unknown"}
    assert f"{sunpy.measured_at:%Y-%m-%d %H}" == "2022-02-07 04"
