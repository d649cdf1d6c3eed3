"""Serving benchmarks of vLLM (``vllm bench serve``) and SGLang (``bench_serving``), and llm-d.

A file of the first two has one object, or one on each line. All requests of an object are one run
of one server. The clients measure whatever server answers, and name neither its version nor the
machine.

Benchmark reports 0.2 and 0.2.1 of llm-d, as YAML or JSON, summarise the requests of one run. They
name the components of the stack with accelerator and version; a report of a server that llm-d did
not set up may lack them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from common.formats.file_decoding import yaml_value
from ingest.benchmarks.result_tree import ResultTree, reader_of_places
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    finite_number,
    mapping_of,
    measure,
    model_name,
    numbered_parts,
    time_of_text,
    whole_number,
)
from ingest.benchmarks.user_metadata import identified
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
    "mean": Aggregate.MEAN, "median": Aggregate.MEDIAN, "p50": Aggregate.P50, "p90": Aggregate.P90,
    "p99": Aggregate.P99,
}  # fmt: skip
_MEASURES = {
    system: {key: measure(key, unit, HIGHER, system, Aggregate.TOTAL)
             for key, unit in _RATES.items()}
    | {f"{key}_{of}_ms": measure(f"{key}_{of}_ms", "ms", LOWER, system, by)
       for of in _LATENCIES for key, by in _SUMMARIES.items() if key != "p50"}
    for system in ("vllm-bench", "sglang-bench")
}  # fmt: skip
#: What distinguishes runs of one model.
_PARAMETERS = (
    "dataset_name", "num_prompts", "request_rate", "burstiness", "max_concurrency",
    "random_input_len", "random_output_len", "random_range_ratio", "sharegpt_output_len",
    "total_input_tokens",
)  # fmt: skip


@reader_of_places
def read(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """Results of each object of vLLM or SGLang; if an object is refused, the file is refused."""
    file = tree.file(place)
    parts = numbered_parts(file.run("vllm-bench"), file.json_records())
    yield from [result for run, it in parts for result in _of_record(run, it, tree.stated)]


def _of_record(run: Run, record: Fields, stated: Mapping[str, str]) -> Iterator[BenchmarkResult]:
    if "total_output_tokens_retokenized" in record:
        run = replace(run, system="sglang-bench")
    measures = {key: it for key, it in _MEASURES[run.system].items() if key in record}
    if not measures:
        raise record.invalid(Reason.MISSING_FIELD, "the object has no rate", "request_throughput")
    server = mapping_of(record.record, "server_info")
    backend = record.text("backend") or record.text("endpoint_type") or ""
    model = record.text("model_id") or server.get("model_path")
    parameters: dict[str, Any] = {"backend": backend} if backend else {}
    parameters |= {key: record.get(key) for key in _PARAMETERS if key in record}
    if parameters.get("request_rate", 0) is None:
        parameters["request_rate"] = "inf"  # SGLang writes a number that JSON does not have
    completed, total = record.integer("completed"), record.integer("num_prompts")
    failed = record.integer("failed")
    if failed is None and completed is not None and total is not None:
        failed = total - completed
    run = replace(
        run,
        benchmark=model_name(model) if isinstance(model, str) else "unknown",
        parameters={key: it for key, it in parameters.items() if isinstance(it, str | int | float)},
        measured_at=time_of_text(record.get("date"), "%Y%m%d-%H%M%S"),
        reason=f"{failed} of {total or 'the'} requests failed" if failed else None,
    )
    # A server of SGLang says its own version.
    own = {**server, "sglang": server.get("version")} if backend.startswith("sglang") else server
    own = {key: it for key, it in own.items() if key not in ("version", "model", "device")}
    run = identified(run, {**own, **record}, stated, backend=backend, at=record.at)
    # Of each request, if a detailed file has all of them.
    times_s = [
        record.checked_number(it, 0.0, 1e9, "ttfts", at)
        for at, it in enumerate(record.sequence("ttfts"))
    ]
    first_tokens_ms = tuple(1e3 * it for it in times_s) if all(times_s) else ()
    for key, each in measures.items():
        samples = first_tokens_ms if "_ttft_" in key else ()
        yield run.result(each, record.number(key), samples=samples)


_LLM_D = "llm-d"
_VERSIONS = ("0.2", "0.2.1")
_DIRECTIONS = {"latency": LOWER, "throughput": HIGHER}
#: Fields of the standardized load that say what was measured.
_LOAD = ("tool", "tool_version", "source", "rate_qps", "concurrency", "stage")
_LENGTHS = ("input_seq_len", "output_seq_len")
_ENGINE = ("role", "replicas")


@reader_of_places
def read_reports(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """Results of a report of llm-d."""
    file = tree.file(place)
    report = Fields(yaml_value(file.text))
    version = report.required_text("version")
    if version not in _VERSIONS:
        message = f"version {version} is not read: convert the report to {_VERSIONS[-1]}"
        raise report.invalid(Reason.UNKNOWN_SCHEMA, message, "version")
    run = _described(file.run(_LLM_D), report, tree)
    aggregate = report.nested("results").nested("request_performance").nested("aggregate")
    results = [
        result
        for part in _DIRECTIONS
        for name, statistics in aggregate.nested(part).items()
        if statistics is not None
        for result in _of_quantity(run, part, name, aggregate.nested(part).nested(name))
    ]
    if not results:
        raise aggregate.invalid(Reason.MISSING_FIELD, "the report has no latency and no throughput")
    yield from results


def _of_quantity(run: Run, part: str, name: str, statistics: Fields) -> Iterator[BenchmarkResult]:
    unit = statistics.required_text("units")
    # Programs that make load define the time between tokens differently.
    definition = f"{_LLM_D}, {run.parameters.get('tool', 'unknown tool')}"
    for key, aggregate in _SUMMARIES.items():
        if key == "median" or statistics.get(key) is None:
            continue
        value = finite_number(statistics[key])
        if value is None or value < 0:
            message = f"{str(statistics[key])[:40]!r} is not a number of at least 0"
            raise statistics.invalid(Reason.OUT_OF_RANGE, message, key)
        each = measure(f"{name[:100]}_{key}", unit, _DIRECTIONS[part], definition, aggregate)
        yield run.result(each, value)


def _described(run: Run, report: Fields, tree: ResultTree) -> Run:
    """``run`` with the inference engine of the stack, and the load."""
    scenario = report.nested("scenario")
    standardized = [it.nested("standardized") for it in scenario.each("stack")]
    engines = [it for it in standardized if it.get("kind") == "inference_engine"]
    engine = engines[0] if engines else Fields({}, scenario)
    load, metadata = (scenario.nested("load").nested(it) for it in ("standardized", "metadata"))
    aggregate = report.nested("results").nested("request_performance").nested("aggregate")
    requests = aggregate.nested("requests")
    failures, total = requests.text("failures"), requests.text("total")
    stated = {key: load.text(key) for key in _LOAD}
    stated |= {key: load.nested(key).text("value") for key in _LENGTHS}
    stated |= {key: engine.text(key) for key in _ENGINE}
    parameters: dict[str, Parameter] = {key: text for key, text in stated.items() if text}
    # Other loads at the same time, whose effect is in the values.
    if others := metadata.texts("concurrent_with"):
        parameters["concurrent_with"] = ", ".join(sorted(others))[:500]
    run = replace(
        run,
        benchmark=model_name(engine.nested("model").text("name") or "unknown"),
        parameters=parameters,
        measured_at=time_of_text(report.nested("run").nested("time").get("start")),
        reason=f"{failures} of {total} requests failed" if whole_number(failures) else None,
    )
    accelerator, tool = engine.nested("accelerator"), (engine.text("tool") or "").lower()
    # Whether each of several replicas or engines has this number of accelerators is not defined.
    alone = len(engines) == 1 and engine.get("replicas", "1") == "1"
    version = engine.text("tool_version") or ""
    versions = {tool: version}
    if "/" in version:  # an image: `…/llm-d-cuda:0.3.1`
        tag = version.rpartition("/")[2].partition(":")[2]
        versions = {"image": version, tool: tag.removeprefix("v")}
    own = {
        "accelerator": accelerator.text("model"), "tp": accelerator.nested("parallelism").get("tp"),
        "accelerators": accelerator.text("count") if alone else None, **versions,
    }  # fmt: skip
    return identified(run, own, tree.stated, backend=tool, at=engine.at)
