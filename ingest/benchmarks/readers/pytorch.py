"""Results of PyTorch models: pytorch-benchmark, and records v3 of the OSS benchmark database.

pytorch-benchmark returns a mapping that users write as YAML: latency of a batch and images a
second. Consoles print the tree of the model's modules before it. Its texts for readers are rounded,
so only ``metrics`` is read.

vLLM, torchbench and torchao write records v3. A file has a list of records, one record, or one
record on each line. A record has one metric of one model. Options of the measured program may
contain paths and names of machines, so only a few options are read.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean
from typing import Any

from common.formats.file_decoding import yaml_value
from graph.record.benchmark_entries import entry_id_of
from ingest.benchmarks.result_tree import (
    ResultFile,
    missing_value,
    reader_of_files,
    reader_of_parts,
)
from ingest.benchmarks.results import (
    HIGHER,
    LOWER,
    Run,
    direction_of,
    finite_number,
    is_rate_or_time,
    mapping_of,
    measure,
    model_name,
    positive_number,
    software_versions,
    stated_texts,
    time_of_epoch,
    unit_of,
    whole_number,
    with_parameters,
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

_DEFINITION = "pytorch-benchmark-1"
_LATENCY = measure("seconds_per_batch", "s", LOWER, _DEFINITION, Aggregate.MEAN)
_RATE = measure("images_per_second", "images/s", HIGHER, _DEFINITION, Aggregate.MEAN)
_MEMORY = measure("max_inference_memory", "bytes", LOWER, _DEFINITION, Aggregate.MAXIMUM)
#: Parts of a run that newer releases write by batch size; older ones write one peak of memory.
_BY_BATCH_SIZE = {
    "memory": {"max_inference_bytes": _MEMORY},
    "energy": {"joules": measure("joules", "J", LOWER, _DEFINITION)},
}
_BATCH_SIZE = re.compile(r"\Abatch_size_(\d{1,9})\Z")
#: The first line of the tree of modules names the class of the model.
_MODEL = re.compile(r"^(\w{1,100})\($", re.MULTILINE)
#: A line that continues a document: an empty one, one of a list or an inner mapping, or a key.
_CONTINUES = re.compile(r"\s*\Z|[ -]|[a-z_]+:(?:\s|\Z)")


def _documents(file: ResultFile) -> Iterator[tuple[str, str]]:
    """Each YAML document with the console output before it."""
    before: list[str] = []
    document: list[str] = []
    complete = False
    for line in [*file.text.split("\n"), "end of the file"]:
        starts = line.startswith("device:")
        if document and (starts or not _CONTINUES.match(line)):
            yield "\n".join(before), "\n".join(document)
            before, document, complete = [], [], True
        if starts or document:
            document.append(line)
        else:
            before.append(line)
    if not complete:
        raise missing_value(file.place, "device", "no line begins with `device:`")


@reader_of_parts("pytorch-benchmark", _documents)
def read_benchmark(run: Run, text: tuple[str, str]) -> Iterator[BenchmarkResult]:
    """Results of a document of pytorch-benchmark, by batch size and part of the work."""
    before, written = text
    value = yaml_value(written)
    document = value if isinstance(value, dict) else {}
    device = document.get("device")
    device = device[:100] if isinstance(device, str) else ""
    counts = {name: whole_number(document.get(name)) for name in ("flops", "params")}
    parameters: dict[str, Parameter] = {**stated_texts(None, device=device)}
    run = replace(
        run,
        benchmark=next(reversed(_MODEL.findall(before)), "unknown"),
        parameters=parameters | {name: it for name, it in counts.items() if it},
        hardware=_parts(mapping_of(document, "machine_info"), device),
        # The library runs a model on one device.
        accelerators=0 if device == "cpu" else 1 if device.startswith("cuda") else None,
        software={"torch": None},
    )
    timing = mapping_of(document, "timing")
    if not timing:
        raise InvalidDocument(Reason.MISSING_FIELD, "no batch was timed", field="$.timing")
    for batch_size, parts in _by_batch_size(timing):
        for part in parts:
            metrics = mapping_of(mapping_of(parts, part), "metrics")
            timed = with_parameters(run, batch_size=batch_size, part=str(part)[:100])
            yield timed.result(_LATENCY, metrics.get("seconds_per_batch_mean"))
            batches = positive_number(metrics.get("batches_per_second_mean"))
            yield timed.result(_RATE, None if batches is None else batches * batch_size)
    yield from run.results(document, {"max_inference_memory": _MEMORY})
    for part, measures in _BY_BATCH_SIZE.items():
        for batch_size, measured in _by_batch_size(mapping_of(document, part)):
            yield from with_parameters(run, batch_size=batch_size).results(measured, measures)


def _by_batch_size(measured: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for key in measured:
        match = _BATCH_SIZE.match(key) if isinstance(key, str) else None
        if match is not None:
            yield int(match[1]), mapping_of(measured, key)


def _parts(machine: Mapping[str, Any], device: str) -> dict[str, str]:
    """Names of the parts; the name of the machine is not read."""
    gpus = machine.get("gpus")
    named = (
        it.get("name") for it in (gpus if isinstance(gpus, list) else ()) if isinstance(it, dict)
    )
    names = {it[:200] for it in named if isinstance(it, str) and it}
    # Which of several kinds was used is not known.
    accelerator = names.pop() if device != "cpu" and len(names) == 1 else None
    return stated_texts(200, cpu=mapping_of(machine, "cpu").get("model"), accelerator=accelerator)


#: Fields of a runner that name parts of the hardware.
_RUNNER_PARTS = {"description": "type", "cpu": "cpu_info", "accelerator": "gpu_info"}
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
def read_records(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file, sorted by machine and software."""
    # Results of one entry must follow each other, and records of several machines may alternate.
    entries: dict[str, list[BenchmarkResult]] = {}
    for number, record in enumerate(_records(file)):
        result = _of_record(file.run("pytorch-v3"), record, f"$[{number}]")
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
                Reason.MISSING_FIELD, "the record lacks this name", field=f"{at}.{key}"
            )
    extra = mapping_of(metric, "extra_info")
    unit = _text(extra, "unit") or unit_of(str(name))
    stated = _text(extra, "direction")
    direction = Direction(stated) if stated in set(Direction) else direction_of(str(name))
    samples, reason = _samples(metric.get("benchmark_values"), unit)
    several = len(samples) > 1
    definition = _text(extra, "definition") or str(suite)
    counts = [it.get("gpu_count") for it in _runners(record) if _text(it, "gpu_info") is not None]
    gpus = [it for it in counts if type(it) is int and it > 0]
    on_cpu = _text(mapping_of(benchmark, "extra_info"), "device") == "cpu"
    accelerators = sum(gpus) if counts and len(gpus) == len(counts) else 0 if on_cpu else None
    software: dict[str, str | None] = {}
    for package, dependency in list(mapping_of(record, "dependencies").items())[:_MOST_PARAMETERS]:
        if isinstance(dependency, dict):
            known = next(iter(software_versions([package])), package.lower()[:_LONGEST])
            # A revision stands for a version that is not given.
            software[known] = _text(dependency, "version") or _text(dependency, "sha")
    aggregate = Aggregate.MEAN if several else Aggregate.SINGLE
    return replace(
        run,
        benchmark=model_name(_text(model, "name") or str(suite)),
        parameters=_parameters(benchmark, model, extra),
        hardware=_hardware(record, benchmark),
        accelerators=accelerators,
        software=software,
        measured_at=time_of_epoch(record.get("timestamp")),
        validity=Validity.UNKNOWN if samples else Validity.FAILED,
        reason=reason,
    ).stated(
        measure(str(name), unit, direction, definition, aggregate),
        fmean(samples) if samples else None,
        samples=samples if several else (),
    )


def _samples(values: Any, unit: str) -> tuple[tuple[float, ...], str | None]:
    """All values of a metric; none, and the reason, if a value is no measured number."""
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
        for name, key in _RUNNER_PARTS.items():
            value = _text(runner, key)
            if value is not None and _may_be_stored(value):
                hardware.setdefault(name, value)
    described = mapping_of(benchmark, "extra_info")
    arch, device = _text(described, "arch"), _text(described, "device")
    if arch is not None:
        hardware.setdefault("cpu" if device == "cpu" else "accelerator", arch)
    return hardware


def _runners(record: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    runners = record.get("runners")
    return (it for it in (runners if isinstance(runners, list) else ()) if isinstance(it, dict))


def _text(record: Mapping[str, Any], key: str) -> str | None:
    value = record.get(key)
    return value[:_LONGEST] or None if isinstance(value, str) else None
