"""Benchmark reports 0.2 and 0.2.1 of llm-d, as YAML or JSON.

A report summarises the requests of one run. It names the components of the stack with accelerator
and version; a report of a server that llm-d did not set up may lack them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from common.formats.yaml_documents import yaml_value
from ingest.benchmarks.result_tree import ResultTree, reader_of_places
from ingest.benchmarks.results import HIGHER, LOWER, Run, measure
from ingest.benchmarks.stated_facts import identified
from ingest.benchmarks.values import finite_number, model_name, time_of_text, whole_number
from model.errors import Reason
from model.json_fields import Fields
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

_SYSTEM = "llm-d"
_VERSIONS = ("0.2", "0.2.1")
_SUMMARIES = {
    "mean": Aggregate.MEAN, "p50": Aggregate.P50, "p90": Aggregate.P90, "p99": Aggregate.P99,
}  # fmt: skip
_DIRECTIONS = {"latency": LOWER, "throughput": HIGHER}
#: Fields of the standardized load that say what was measured.
_LOAD = ("tool", "tool_version", "source", "rate_qps", "concurrency", "stage")
_LENGTHS = ("input_seq_len", "output_seq_len")
_ENGINE = ("role", "replicas")


def _results(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    file = tree.file(place)
    report = Fields(yaml_value(file.text))
    version = report.required_text("version")
    if version not in _VERSIONS:
        message = f"version {version} is not read: convert the report to {_VERSIONS[-1]}"
        raise report.invalid(Reason.UNKNOWN_SCHEMA, message, "version")
    run = _run(file.run(_SYSTEM), report, tree)
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


read = reader_of_places(_results)


def _of_quantity(run: Run, part: str, name: str, statistics: Fields) -> Iterator[BenchmarkResult]:
    unit = statistics.required_text("units")
    # Programs that make load define the time between tokens differently.
    definition = f"{_SYSTEM}, {run.parameters.get('tool', 'unknown tool')}"
    for key, aggregate in _SUMMARIES.items():
        if statistics.get(key) is None:
            continue
        value = finite_number(statistics[key])
        if value is None or value < 0:
            message = f"{str(statistics[key])[:40]!r} is no number from 0 on"
            raise statistics.invalid(Reason.OUT_OF_RANGE, message, key)
        each = measure(f"{name[:100]}_{key}", unit, _DIRECTIONS[part], definition, aggregate)
        yield run.result(each, value)


def _run(run: Run, report: Fields, tree: ResultTree) -> Run:
    """``run`` with the inference engine of the stack, and the load."""
    scenario = report.nested("scenario")
    standardized = [it.nested("standardized") for it in scenario.each("stack")]
    engines = [it for it in standardized if it.get("kind") == "inference_engine"]
    engine = engines[0] if engines else Fields({}, scenario)
    load = scenario.nested("load")
    aggregate = report.nested("results").nested("request_performance").nested("aggregate")
    requests = aggregate.nested("requests")
    failures, total = requests.text("failures"), requests.text("total")
    run = replace(
        run,
        benchmark=model_name(engine.nested("model").text("name") or "unknown"),
        parameters=_parameters(load.nested("standardized"), load.nested("metadata"), engine),
        measured_at=time_of_text(report.nested("run").nested("time").get("start")),
        reason=f"{failures} of {total} requests failed" if whole_number(failures) else None,
    )
    accelerator, tool = engine.nested("accelerator"), (engine.text("tool") or "").lower()
    # Whether each of several replicas or engines has this number of accelerators is not defined.
    alone = len(engines) == 1 and engine.get("replicas", "1") == "1"
    own = {
        "accelerator": accelerator.text("model"), "tp": accelerator.nested("parallelism").get("tp"),
        "accelerators": accelerator.text("count") if alone else None,
        **_versions(tool, engine.text("tool_version") or ""),
    }  # fmt: skip
    return identified(run, own, tree.stated, backend=tool, at=engine.at)


def _versions(tool: str, version: str) -> dict[str, str]:
    """The version of a tool, which may be an image: ``…/llm-d-cuda:0.3.1``."""
    if "/" not in version:
        return {tool: version}
    tag = version.rpartition("/")[2].partition(":")[2]
    return {"image": version, tool: tag.removeprefix("v")}


def _parameters(load: Fields, metadata: Fields, engine: Fields) -> dict[str, Parameter]:
    stated = {key: load.text(key) for key in _LOAD}
    stated |= {key: load.nested(key).text("value") for key in _LENGTHS}
    stated |= {key: engine.text(key) for key in _ENGINE}
    parameters: dict[str, Parameter] = {key: text for key, text in stated.items() if text}
    # Other loads at the same time, whose effect is in the values.
    if others := metadata.texts("concurrent_with"):
        parameters["concurrent_with"] = ", ".join(sorted(others))[:500]
    return parameters
