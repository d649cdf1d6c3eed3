"""The series of result files that a person's benchmarks write."""

import json
from pathlib import Path
from typing import Any

import pytest

from common.formats.benchmark_files import ONLY_SUMMARY, read_benchmark_file
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Direction, ResultSeries
from tests.factories.benchmark_files import sample_text
from tests.factories.errors import raised

SOURCES = Path(__file__).parents[3] / ".." / "shared" / "data" / "sources"


def read(value: Any) -> list[ResultSeries]:
    return list(read_benchmark_file(json.dumps(value).encode()))


def of_sample(name: str) -> dict[str, ResultSeries]:
    return {it.label: it for it in read_benchmark_file(sample_text(name).encode())}


def test_pyperf_results_decide_only_with_repetitions() -> None:
    """What else is read of these samples is beside them."""
    (processes,) = of_sample("pyperf/processes").values()
    assert processes.excluded is None
    # The median of the first warm-ups; the process that calibrates has no values.
    assert processes.first == pytest.approx(1.679e-5, rel=1e-3)
    (_, broken) = of_sample("google-benchmark/repetitions").values()
    assert broken.excluded == "the benchmark failed: no device"
    asv = of_sample("asv/parameters-and-failures")
    assert asv["b.track_answer"].excluded is not None
    assert asv["b.peakmem_plain"].excluded is None
    series = of_sample("pytest-benchmark/data-and-summary")
    assert {name: it.excluded for name, it in series.items()} == {
        "test_b.py::test_sort (n=10)": None,
        "test_b.py::test_sort (n=100)": ONLY_SUMMARY,
        "test_b.py::test_call[ident]": None,
    }
    (aggregate,) = of_sample("google-benchmark/aggregates").values()
    assert (aggregate.samples, aggregate.excluded) == ((), ONLY_SUMMARY)
    assert aggregate.summary == pytest.approx(21212.46, rel=1e-5)


def test_asv_units_follow_the_benchmark_name() -> None:
    units = {
        "time_a": "s", "timeraw_a": "s", "TimeSort": "s", "Timeraw_a": "s", "mem_a": "bytes",
        "PeakMemAll": "bytes", "timer_x": "", "timeit": "", "memory": "", "Timeline": "",
    }  # fmt: skip
    results = {f"bench.Suite.{name}": [[1.0], []] for name in units}
    file = {"commit_hash": "0", "result_columns": ["result", "params"], "results": results}
    assert {it.name.rpartition(".")[2]: it.unit for it in read(file)} == units


def test_llama_bench_results_of_two_builds_are_refused() -> None:
    content = sample_text("llama-bench/two-builds").encode()
    with raised(InvalidDocument, reason=Reason.CONFLICTING_FIELDS, field="$[1]"):
        read_benchmark_file(content)


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: [it], lambda it: {"results": [it]}])
def test_benchmark_results_in_thoths_format_state_unit_and_direction(wrap: Any) -> None:
    (series,) = read(wrap({
        "benchmark": "serve", "parameters": {"users": 8, "tags": []}, "unit": "requests/s",
        "direction": "higher", "samples": [90, 110.5], "first": 60,
    }))  # fmt: skip
    assert series == ResultSeries(
        "thoth", "serve", {"users": 8}, "requests/s", Direction.HIGHER, (90.0, 110.5), first=60.0
    )


def test_indicator_document_gives_the_rate_of_each_repetition() -> None:
    (series,) = read({
        "name": "PiMatmul", "component": "numpy", "@parameters": {"matrix_size": 8},
        "@result": {"rate": 4.0, "elapsed": 2.0, "repetitions": [1.0, 2.0, 4.0]},
    })  # fmt: skip
    assert (series.samples, series.unit) == ((8.0, 4.0, 2.0), "GFLOPS")
    assert series.direction is Direction.HIGHER


@pytest.mark.parametrize("samples", [[0, 1.0], [-1.0, 2.0], []])
def test_benchmark_without_positive_samples_is_not_compared(samples: list[float]) -> None:
    document = {"benchmark": "loss", "direction": "lower", "samples": samples}
    assert read(document)[0].excluded is not None
    assert read(document | {"direction": "unknown", "samples": [1.0]})[0].excluded is not None


HYPERFINE: dict[str, Any] = {"command": "sleep 1", "times": [1.0]}


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        ({}, Reason.UNKNOWN_SCHEMA, "$"),
        ([], Reason.MISSING_FIELD, "$"),
        ([1], Reason.WRONG_TYPE, "$[0]"),
        ({"results": [HYPERFINE, HYPERFINE | {"command": 7}]}, Reason.WRONG_TYPE,
         "$.results[1].command"),
        ({"results": [HYPERFINE | {"times": [1, "2"]}]}, Reason.WRONG_TYPE,
         "$.results[0].times[1]"),
        ({"results": [HYPERFINE | {"times": [1, -2]}]}, Reason.OUT_OF_RANGE,
         "$.results[0].times[1]"),
        ({"results": [HYPERFINE | {"times": [1e300]}]}, Reason.OUT_OF_RANGE,
         "$.results[0].times[0]"),
        ({"results": [HYPERFINE | {"times": {}}]}, Reason.WRONG_TYPE, "$.results[0].times"),
        ({"results": [HYPERFINE | {"command": "x" * 3000}]}, Reason.OUT_OF_RANGE,
         "$.results[0].command"),
        ({"benchmarks": [{"runs": [{"values": [True]}], "metadata": {"name": "a"}}]},
         Reason.WRONG_TYPE, "$.benchmarks[0].runs[0].values[0]"),
        ({"benchmarks": [{"runs": []}]}, Reason.MISSING_FIELD, "$.benchmarks[0].metadata.name"),
        ({"machine_info": {}, "benchmarks": [{"stats": {}}]}, Reason.MISSING_FIELD,
         "$.benchmarks[0].fullname"),
        ({"context": {}, "benchmarks": [{"name": "a"}]}, Reason.MISSING_FIELD,
         "$.benchmarks[0].real_time"),
        ({"commit_hash": "0", "result_columns": ["result", "params"],
          "results": {"time_a": [[1, 2], [["1", "2", "3"]]]}}, Reason.CONFLICTING_FIELDS,
         "$.results.time_a.result"),
        ({"commit_hash": "0", "result_columns": ["result", "params"],
          "results": {"time_a": [[1], [list("ab")] * 60]}}, Reason.CONFLICTING_FIELDS,
         "$.results.time_a.result"),
        ([{"samples_ns": [1, "x"]}], Reason.WRONG_TYPE, "$[0].samples_ns[1]"),
        ({"benchmark": "a", "samples": [1], "direction": "up"}, Reason.OUT_OF_RANGE,
         "$.direction"),
        ({"name": "a", "@result": {"elapsed": 1}}, Reason.MISSING_FIELD, "$['@result'].rate"),
    ],
)  # fmt: skip
def test_malformed_benchmark_file_is_refused(value: Any, reason: Reason, field: str) -> None:
    with raised(InvalidDocument, reason=reason, field=field):
        read(value)


@pytest.mark.parametrize(
    "content", [b"", b"not json", b'{"a": 1', b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 5000]
)
def test_benchmark_file_that_is_not_json_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidDocument):
        read_benchmark_file(content)


@pytest.mark.skipif(not SOURCES.exists(), reason="the shared result files are not here")
def test_published_asv_result_files_are_read() -> None:
    django = read_benchmark_file((SOURCES / "django-asv/1a8fd5cf-conda-py3.13.json").read_bytes())
    assert {len(it.samples) for it in django if it.unit == "s" and not it.excluded} == {10}
    sunpy = (SOURCES / "sunpy-asv/0070bd3e-virtualenv-py3.9.json").read_bytes()
    timed = [it for it in read_benchmark_file(sunpy) if it.unit == "s"]
    assert {it.excluded for it in timed} == {ONLY_SUMMARY}
