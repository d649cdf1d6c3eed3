"""Serving benchmarks of vLLM (``vllm bench serve``) and SGLang (``bench_serving``).

A file has one object, or one on each line. All requests of an object are one run of one server. The
clients measure whatever server answers, and name neither its version nor the machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ingest.benchmarks.result_tree import ResultTree, reader_of_places
from ingest.benchmarks.results import HIGHER, LOWER, Measure, Run, measure, numbered_parts
from ingest.benchmarks.stated_facts import identified
from ingest.benchmarks.values import mapping_of, model_name, time_of_text
from model.errors import Reason
from model.json_fields import Fields
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

_RATES = {
    "request_throughput": "requests/s", "input_throughput": "tokens/s",
    "output_throughput": "tokens/s", "total_token_throughput": "tokens/s",
    "total_throughput": "tokens/s",
}  # fmt: skip
_LATENCIES = ("ttft", "tpot", "itl", "e2el", "e2e_latency")
_SUMMARIES = {
    "mean": Aggregate.MEAN, "median": Aggregate.MEDIAN, "p90": Aggregate.P90, "p99": Aggregate.P99,
}  # fmt: skip


def _measures(system: str) -> Mapping[str, Measure]:
    rates = {
        key: measure(key, unit, HIGHER, system, Aggregate.TOTAL) for key, unit in _RATES.items()
    }
    names = [(f"{it}_{of}_ms", by) for of in _LATENCIES for it, by in _SUMMARIES.items()]
    return rates | {key: measure(key, "ms", LOWER, system, by) for key, by in names}


_MEASURES = {key: _measures(key) for key in ("vllm-bench", "sglang-bench")}
#: What distinguishes runs of one model.
_PARAMETERS = (
    "dataset_name", "num_prompts", "request_rate", "burstiness", "max_concurrency",
    "random_input_len", "random_output_len", "random_range_ratio", "sharegpt_output_len",
    "total_input_tokens",
)  # fmt: skip


def _results(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    parts = numbered_parts(file.run("vllm-bench"), file.json_records())
    # A line that is refused refuses the file.
    yield from [result for run, it in parts for result in _of_record(run, it, tree.stated)]


read = reader_of_places(_results)


def _of_record(run: Run, record: Fields, stated: Mapping[str, str]) -> Iterator[BenchmarkResult]:
    if "total_output_tokens_retokenized" in record:
        run = replace(run, system="sglang-bench")
    measures = {key: it for key, it in _MEASURES[run.system].items() if key in record}
    if not measures:
        raise record.invalid(Reason.MISSING_FIELD, "the object has no rate", "request_throughput")
    server = mapping_of(record.record, "server_info")
    backend = record.text("backend") or record.text("endpoint_type") or ""
    model = record.text("model_id") or server.get("model_path")
    run = replace(
        run,
        benchmark=model_name(model) if isinstance(model, str) else "unknown",
        parameters=_parameters(record, backend),
        measured_at=time_of_text(record.get("date"), "%Y%m%d-%H%M%S"),
        reason=_failures(record),
    )
    # A server of SGLang says its own version.
    own = {**server, "sglang": server.get("version")} if backend.startswith("sglang") else server
    own = {key: it for key, it in own.items() if key not in ("version", "model", "device")}
    run = identified(run, {**own, **record}, stated, backend=backend, at=record.at)
    first_tokens = _first_tokens_ms(record)
    for key, each in measures.items():
        samples = first_tokens if "_ttft_" in key else ()
        yield run.result(each, record.number(key), samples=samples)


def _parameters(record: Fields, backend: str) -> dict[str, Parameter]:
    stated: dict[str, Any] = {key: record.get(key) for key in _PARAMETERS if key in record}
    if stated.get("request_rate", 0) is None:
        stated["request_rate"] = "inf"  # SGLang writes a number that JSON does not have
    parameters = {key: it for key, it in stated.items() if isinstance(it, str | int | float)}
    return {"backend": backend, **parameters} if backend else parameters


def _failures(record: Fields) -> str | None:
    completed, total = record.integer("completed"), record.integer("num_prompts")
    failed = record.integer("failed")
    if failed is None and completed is not None and total is not None:
        failed = total - completed
    return f"{failed} of {total or 'the'} requests failed" if failed else None


def _first_tokens_ms(record: Fields) -> tuple[float, ...]:
    """Milliseconds to the first token of each request, if a detailed file has all of them."""
    times = record.sequence("ttfts")
    numbers = [record.checked_number(it, 0.0, 1e9, "ttfts", at) for at, it in enumerate(times)]
    return tuple(1e3 * it for it in numbers) if all(numbers) else ()
