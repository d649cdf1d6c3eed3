"""pytorch-benchmark: latency of a batch and images a second of PyTorch models.

The library returns a mapping that users write as YAML. Consoles print the tree of the model's
modules before it. Its texts for readers are rounded, so that only ``metrics`` is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from ingest.benchmarks.result_tree import (
    ResultFile,
    missing_value,
    numbered_parts,
    reader_of_files,
)
from ingest.benchmarks.values import measured_or_failed, positive_number, whole_number
from model.errors import InvalidDocument
from model.measurements.benchmark_results import (
    Aggregate,
    BenchmarkResult,
    Direction,
    MeasuredFile,
    Metric,
    Parameter,
)
from model.reasons import Reason

SYSTEM = "pytorch-benchmark"
_DEFINITION = "pytorch-benchmark-1"
_LATENCY = Metric("seconds_per_batch", "s", Direction.LOWER, _DEFINITION)
_RATE = Metric("images_per_second", "images/s", Direction.HIGHER, _DEFINITION)
_MEMORY = Metric("max_inference_memory", "bytes", Direction.LOWER, _DEFINITION)
_ENERGY = Metric("joules", "J", Direction.LOWER, _DEFINITION)
#: Parts of a run that newer releases write by batch size.
_BY_BATCH_SIZE = (
    ("memory", "max_inference_bytes", _MEMORY, Aggregate.MAXIMUM),
    ("energy", "joules", _ENERGY, Aggregate.SINGLE),
)
_BATCH_SIZE = re.compile(r"\Abatch_size_(\d{1,9})\Z")
#: The first line of the tree of modules names the class of the model.
_MODEL = re.compile(r"^(\w{1,100})\($", re.MULTILINE)
_KEY = re.compile(r"[a-z_]+:(?:\s|\Z)")
#: Characters of a document; real ones have fewer than 10,000, and the parser is slow.
_LONGEST = 500_000


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file, by batch size and part of the work."""
    place, files = file.place, (file.measured,)
    documents = list(_documents(file.text))
    if not documents:
        raise missing_value(place, "device", "no line begins with `device:`")
    for source, (before, document) in numbered_parts(place, documents):
        models = _MODEL.findall(before)
        yield from _of_run(_parsed(document), models[-1] if models else "unknown", source, files)


def _documents(text: str) -> Iterator[tuple[str, str]]:
    """Each YAML document with the console output before it."""
    before: list[str] = []
    document: list[str] = []
    for line in [*text.split("\n"), "end of the file"]:
        starts = line.startswith("device:")
        if document and (starts or not _continues(line)):
            yield "\n".join(before), "\n".join(document)
            before, document = [], []
        if starts or document:
            document.append(line)
        else:
            before.append(line)


def _continues(line: str) -> bool:
    return not line.strip() or line[0] in " -" or _KEY.match(line) is not None


def _parsed(document: str) -> Mapping[str, Any]:
    """The document with all scalars as texts.

    :raises InvalidDocument: if it is no YAML
    """
    if len(document) > _LONGEST:
        raise InvalidDocument(
            Reason.FILE_TOO_LARGE, f"the document has more than {_LONGEST} characters", field="$"
        )
    try:
        # This loader makes texts, lists and mappings only; it is a part of the safe loader.
        value = yaml.load(document, Loader=yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidDocument(
            Reason.INVALID_YAML, str(error).splitlines()[0][:200], field="$"
        ) from None
    return _mapping(value)


def _of_run(
    run: Mapping[str, Any], model: str, source: str, files: Sequence[MeasuredFile]
) -> Iterator[BenchmarkResult]:
    device = run.get("device")
    device = device[:100] if isinstance(device, str) else ""
    shared: dict[str, Parameter] = {"device": device} if device else {}
    for name in ("flops", "params"):
        count = whole_number(run.get(name))
        if count:
            shared[name] = count
    common: dict[str, Any] = {
        "system": SYSTEM,
        "source": source,
        "benchmark": model,
        "hardware": _hardware(run, device),
        # The library runs a model on one device.
        "accelerators": 0 if device == "cpu" else 1 if device.startswith("cuda") else None,
        "software": {"torch": None},
        "files": files,
    }
    timing = _mapping(run.get("timing"))
    if not timing:
        raise InvalidDocument(Reason.MISSING_FIELD, "no batch was timed", field="$.timing")
    for batch_size, parts in _by_batch_size(timing):
        for part, measured in parts.items():
            metrics = _mapping(_mapping(measured).get("metrics"))
            parameters = {**shared, "batch_size": batch_size, "part": str(part)[:100]}
            batches = positive_number(metrics.get("batches_per_second_mean"))
            for metric, value in (
                (_LATENCY, metrics.get("seconds_per_batch_mean")),
                (_RATE, None if batches is None else batches * batch_size),
            ):
                yield measured_or_failed(
                    value, metric=metric, aggregate=Aggregate.MEAN, parameters=parameters, **common
                )
    # Older releases write one peak of memory; newer ones write a peak for each batch size.
    if "max_inference_memory" in run:
        yield measured_or_failed(
            run["max_inference_memory"], metric=_MEMORY, aggregate=Aggregate.MAXIMUM,
            parameters=shared, **common,
        )  # fmt: skip
    for part, name, metric, rule in _BY_BATCH_SIZE:
        for batch_size, measured in _by_batch_size(_mapping(run.get(part))):
            if name in measured:
                yield measured_or_failed(
                    measured[name], metric=metric, aggregate=rule,
                    parameters={**shared, "batch_size": batch_size}, **common,
                )  # fmt: skip


def _by_batch_size(measured: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for key, value in measured.items():
        match = _BATCH_SIZE.match(key) if isinstance(key, str) else None
        if match is not None:
            yield int(match[1]), _mapping(value)


def _hardware(run: Mapping[str, Any], device: str) -> dict[str, str]:
    """Names of the parts; the name of the machine is not read."""
    machine = _mapping(run.get("machine_info"))
    cpu = _mapping(machine.get("cpu")).get("model")
    gpus = machine.get("gpus")
    names = {
        name[:200]
        for gpu in (gpus if isinstance(gpus, list) else ())
        if isinstance(name := _mapping(gpu).get("name"), str) and name
    }
    hardware = {"cpu": cpu[:200]} if isinstance(cpu, str) and cpu else {}
    # Which of several kinds was used is not known.
    if device != "cpu" and len(names) == 1:
        hardware["accelerator"] = names.pop()
    return hardware


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
