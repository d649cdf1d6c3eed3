"""Records v3 of the PyTorch OSS benchmark database: read, and written from results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from ingest.benchmarks.readers.pytorch_v3 import v3_record
from ingest.sources.content_detection import system_of
from model.measurements.benchmark_results import Aggregate, Direction, Validity
from model.reasons import Reason
from tests.factories.benchmark_files import TORCHAO_RECORDS, VLLM_RECORDS, read_files


@pytest.mark.parametrize("text", [VLLM_RECORDS, TORCHAO_RECORDS])
def test_records_are_recognised(text: str) -> None:
    recognised = system_of(text.encode())
    assert recognised is not None
    assert recognised.key == "pytorch-v3"


def test_values_of_several_runs_are_samples_of_their_mean(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "pytorch-v3", {"a.json": VLLM_RECORDS})
    assert refusals == []
    rate = next(it for it in results if it.metric.name == "tokens_per_second")
    assert (rate.value, rate.samples) == (110.0, (100.0, 110.0, 120.0))
    assert rate.aggregate is Aggregate.MEAN
    assert (rate.metric.unit, rate.metric.direction) == ("tokens/s", Direction.HIGHER)
    assert rate.metric.definition == "vLLM benchmark"
    assert rate.benchmark == "meta-llama/Llama-3"
    assert (rate.parameters["phase"], rate.parameters["precision"]) == ("inference", "bfloat16")
    assert (rate.hardware["accelerator"], rate.accelerators) == ("Example GPU", 8)
    assert rate.software == {"torch": "2.5.1", "vllm": "07bf28e"}
    assert rate.measured_at is not None
    assert rate.measured_at.timestamp() == 1700000000


def test_infinity_is_no_value(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "pytorch-v3", {"a.json": VLLM_RECORDS})
    latency = next(it for it in results if it.metric.name == "latency")
    assert (latency.value, latency.validity) == (None, Validity.FAILED)
    assert latency.reason == "1 of 1 values are no numbers"
    assert (latency.hardware, latency.accelerators) == ({"cpu": "x86_64"}, 0)


def test_options_with_paths_and_machines_are_not_read(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "pytorch-v3", {"a.json": VLLM_RECORDS})
    first = next(it for it in results if it.metric.name == "p99_ttft_ms")
    assert first.benchmark == "llama"
    assert first.parameters["batch_size"] == 8
    assert "/home/jo" not in repr(results)
    assert "jos-laptop" not in repr(results)


def test_each_line_may_be_a_record(tmp_path: Path) -> None:
    results, refusals = read_files(tmp_path, "pytorch-v3", {"a.json": TORCHAO_RECORDS})
    assert refusals == []
    values = {it.benchmark: (it.metric.name, it.value, it.metric.direction) for it in results}
    assert values == {
        "small": ("speedup", 1.5, Direction.HIGHER),
        "large": ("graph_breaks", 0.0, Direction.UNKNOWN),
    }


def test_a_speedup_of_zero_is_a_run_that_failed(tmp_path: Path) -> None:
    text = TORCHAO_RECORDS.replace("[1.5]", "[0.0]")
    results, _ = read_files(tmp_path, "pytorch-v3", {"a.json": text})
    assert [it.value for it in results if it.metric.name == "speedup"] == [None]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"name": "vLLM benchmark", "mode"', '"mode"', "$[2].benchmark.name"),
        ('"name": "latency", ', "", "$[1].metric.name"),
    ],
)
def test_a_record_without_a_name_refuses_the_file(
    old: str, new: str, field: str, tmp_path: Path
) -> None:
    assert old in VLLM_RECORDS
    files = {"a.json": VLLM_RECORDS.replace(old, new)}
    results, (refusal,) = read_files(tmp_path, "pytorch-v3", files)
    assert (results, refusal.reason, refusal.field) == ([], Reason.MISSING_FIELD, field)


def test_a_written_record_is_read_as_the_same_value(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path / "a", "pytorch-v3", {"a.json": VLLM_RECORDS})
    rate = next(it for it in results if it.metric.name == "tokens_per_second")
    (again,), refusals = read_files(
        tmp_path / "b", "pytorch-v3", {"b.json": orjson.dumps([v3_record(rate)]).decode()}
    )
    assert refusals == []
    assert (again.value, again.samples, again.metric) == (rate.value, rate.samples, rate.metric)
    assert (again.hardware, again.software) == (rate.hardware, rate.software)
    assert (again.accelerators, again.measured_at) == (rate.accelerators, rate.measured_at)
    assert again.parameters["phase"] == "inference"


def test_a_result_without_a_value_has_no_record(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "pytorch-v3", {"a.json": VLLM_RECORDS})
    failed = next(it for it in results if it.value is None)
    assert v3_record(failed) is None


def test_samples_are_written_only_if_their_mean_is_the_value(tmp_path: Path) -> None:
    results, _ = read_files(tmp_path, "pytorch-v3", {"a.json": VLLM_RECORDS})
    rate = next(it for it in results if it.samples)
    minimum = v3_record(replace(rate, value=100.0, aggregate=Aggregate.MINIMUM))
    assert minimum is not None
    assert minimum["metric"]["benchmark_values"] == [100.0]
    assert minimum["metric"]["extra_info"]["aggregate"] == "minimum"
