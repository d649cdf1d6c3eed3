"""Record v3 of the PyTorch OSS benchmark database, as vLLM, torchbench and torchao write it.

A file has a list of records, one record, or one record on each line. A record has one metric of one
model. Options of the measured program may contain paths and names of machines, so that only a few
of them are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from graph.record.benchmark_entries import entry_id_of
from ingest.benchmarks.result_tree import ResultFile, reader_of_files
from ingest.benchmarks.results import Run, measure
from ingest.benchmarks.values import (
    direction_of,
    finite_number,
    is_rate_or_time,
    mapping_of,
    model_name,
    software_versions,
    time_of_epoch,
    unit_of,
)
from model.errors import InvalidDocument, Reason
from model.json_documents import json_value_of
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    Parameter,
    Validity,
)

SYSTEM = "pytorch-v3"
#: Fields of a runner that name parts of the hardware.
_PARTS = {"description": "type", "cpu": "cpu_info", "accelerator": "gpu_info"}
#: Options of the measured program that say what was measured.
_OPTIONS = (
    "batch_size", "input_len", "output_len", "random_input_len", "random_output_len", "num_prompts",
    "request_rate", "max_concurrency", "tensor_parallel_size", "pipeline_parallel_size",
    "quantization", "dtype", "kv_cache_dtype", "max_model_len", "num_iters", "dataset_name",
    "backend", "async_engine", "enforce_eager",
)  # fmt: skip
#: Words in keys whose values may name a person, a machine or a file.
_PRIVATE = ("user", "author", "mail", "host", "node", "path", "dir", "file", "url", "token", "key")
_LONGEST = 200
_MOST_PARAMETERS = 40


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file, sorted by machine and software."""
    # Results of one entry must follow each other, and records of several machines may alternate.
    entries: dict[str, list[BenchmarkResult]] = {}
    for number, record in enumerate(_records(file)):
        result = _of_record(file.run(SYSTEM), record, f"$[{number}]")
        entries.setdefault(entry_id_of(result), []).append(result)
    for results in entries.values():
        yield from results


def _records(file: ResultFile) -> list[Any]:
    try:
        value = file.json_value()
    except InvalidDocument as error:
        # Other programs may have written to the console, too.
        lines = [it for it in file.text.split("\n") if it.startswith(("{", "["))]
        # A broken list or object begins with a line of its own, and stays refused as a whole.
        if not lines or any(it.rstrip(",") in ("[", "{") for it in lines):
            raise error from None
        lines = [it for it in lines if it.startswith("{")]
        return [json_value_of(line.encode()) for line in lines]
    return value if isinstance(value, list) else [value]


def _of_record(run: Run, record: Any, at: str) -> BenchmarkResult:
    metric, benchmark = mapping_of(record, "metric"), mapping_of(record, "benchmark")
    model = mapping_of(record, "model")
    name, suite = _text(metric, "name"), _text(benchmark, "name")
    for key, text in (("metric.name", name), ("benchmark.name", suite)):
        if text is None:
            raise InvalidDocument(
                Reason.MISSING_FIELD, "the record is not named", field=f"{at}.{key}"
            )
    extra = mapping_of(metric, "extra_info")
    unit = _text(extra, "unit") or unit_of(str(name))
    stated = _text(extra, "direction")
    direction = Direction(stated) if stated in set(Direction) else direction_of(str(name))
    samples, reason = _samples(metric.get("benchmark_values"), unit)
    several = len(samples) > 1
    definition = _text(extra, "definition") or str(suite)
    aggregate = Aggregate.MEAN if several else Aggregate.SINGLE
    return replace(
        run,
        benchmark=model_name(_text(model, "name") or str(suite)),
        parameters=_parameters(benchmark, model, extra),
        hardware=_hardware(record, benchmark),
        accelerators=_accelerators(record, benchmark),
        software=_software(record),
        measured_at=time_of_epoch(record.get("timestamp")),
        validity=Validity.UNKNOWN if samples else Validity.FAILED,
        reason=reason,
    ).stated(
        measure(str(name), unit, direction, definition, aggregate),
        fmean(samples) if samples else None,
        samples=samples if several else (),
    )


def _samples(values: Any, unit: str) -> tuple[tuple[float, ...], str | None]:
    """All values of a metric; none, and the reason, if one of them is no measured number."""
    listed = values if isinstance(values, list) else []
    finite = (finite_number(it) for it in listed if not isinstance(it, str))
    numbers = tuple(it for it in finite if it is not None)
    if not listed:
        return (), "there is no value"
    if len(numbers) < len(listed):
        return (), f"{len(listed) - len(numbers)} of {len(listed)} values are no numbers"
    if is_rate_or_time(unit) and min(numbers) <= 0:
        return (), "a time or a rate is not positive"
    return numbers, None


def _parameters(
    benchmark: Mapping[str, Any], model: Mapping[str, Any], extra: Mapping[str, Any]
) -> dict[str, Parameter]:
    parameters: dict[str, Parameter] = {"suite": str(benchmark["name"])[:_LONGEST]}
    stated = {"phase": benchmark.get("mode"), "precision": benchmark.get("dtype")}
    stated |= {"model_type": model.get("type"), "backend": model.get("backend")}
    described = mapping_of(benchmark, "extra_info")
    options = mapping_of(described, "args")
    stated |= {key: options.get(key) for key in _OPTIONS if key in options}
    for source in (described, mapping_of(model, "extra_info"), extra):
        for key, value in source.items():
            if not any(word in key.lower() for word in _PRIVATE):
                stated.setdefault(key[:_LONGEST], value)
    for key in ("unit", "direction", "definition", "arch"):
        stated.pop(key, None)
    for key, value in stated.items():
        if len(parameters) < _MOST_PARAMETERS and value is not None and _may_be_stored(value):
            parameters[key] = value
    return parameters


def _may_be_stored(value: Any) -> bool:
    """Whether ``value`` is a number or a short text that is no path, no address and no option."""
    if isinstance(value, str):
        short = 0 < len(value) <= _LONGEST
        return short and not value.startswith(("/", "~", ".", "<")) and not {"@", "\\"} & {*value}
    return isinstance(value, bool) or finite_number(value) is not None


def _hardware(record: Mapping[str, Any], benchmark: Mapping[str, Any]) -> dict[str, str]:
    """Names of the parts, and the type of the runner; its name may be a person's machine."""
    hardware: dict[str, str] = {}
    for runner in _runners(record):
        for name, key in _PARTS.items():
            value = _text(runner, key)
            if value is not None and _may_be_stored(value):
                hardware.setdefault(name, value)
    described = mapping_of(benchmark, "extra_info")
    arch, device = _text(described, "arch"), _text(described, "device")
    if arch is not None:
        hardware.setdefault("cpu" if device == "cpu" else "accelerator", arch)
    return hardware


def _accelerators(record: Mapping[str, Any], benchmark: Mapping[str, Any]) -> int | None:
    counts = [it.get("gpu_count") for it in _runners(record) if _text(it, "gpu_info") is not None]
    numbers = [it for it in counts if type(it) is int and it > 0]
    if counts and len(numbers) == len(counts):
        return sum(numbers)
    return 0 if _text(mapping_of(benchmark, "extra_info"), "device") == "cpu" else None


def _runners(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    runners = record.get("runners")
    return (it for it in (runners if isinstance(runners, list) else ()) if isinstance(it, dict))


def _software(record: Mapping[str, Any]) -> dict[str, str | None]:
    """Versions of the dependencies; a revision stands for a version that is not given."""
    versions: dict[str, str | None] = {}
    for name, dependency in list(mapping_of(record, "dependencies").items())[:_MOST_PARAMETERS]:
        if isinstance(dependency, dict):
            version = _text(dependency, "version") or _text(dependency, "sha")
            known = next(iter(software_versions([name])), name.lower()[:_LONGEST])
            versions[known] = version
    return versions


def _text(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    return value[:_LONGEST] or None if isinstance(value, str) else None
