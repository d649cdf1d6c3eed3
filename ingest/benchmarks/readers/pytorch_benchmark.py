"""pytorch-benchmark: latency of a batch and images a second of PyTorch models.

The library returns a mapping that users write as YAML. Consoles print the tree of the model's
modules before it. Its texts for readers are rounded, so that only ``metrics`` is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from common.formats.yaml_documents import yaml_value
from ingest.benchmarks.result_tree import ResultFile, missing_value, reader_of_files
from ingest.benchmarks.results import HIGHER, LOWER, Run, measure, numbered_parts, with_parameters
from ingest.benchmarks.values import mapping_of, positive_number, stated_texts, whole_number
from model.errors import InvalidDocument, Reason
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, Parameter

_DEFINITION = "pytorch-benchmark-1"
_LATENCY = measure("seconds_per_batch", "s", LOWER, _DEFINITION, Aggregate.MEAN)
_RATE = measure("images_per_second", "images/s", HIGHER, _DEFINITION, Aggregate.MEAN)
_MEMORY = measure("max_inference_memory", "bytes", LOWER, _DEFINITION, Aggregate.MAXIMUM)
#: Parts of a run that newer releases write by batch size; older ones write one peak of memory.
_BY_BATCH_SIZE = (
    ("memory", "max_inference_bytes", _MEMORY),
    ("energy", "joules", measure("joules", "J", LOWER, _DEFINITION)),
)
_BATCH_SIZE = re.compile(r"\Abatch_size_(\d{1,9})\Z")
#: The first line of the tree of modules names the class of the model.
_MODEL = re.compile(r"^(\w{1,100})\($", re.MULTILINE)
_KEY = re.compile(r"[a-z_]+:(?:\s|\Z)")


@reader_of_files
def read(file: ResultFile) -> Iterator[BenchmarkResult]:
    """Results of a file, by batch size and part of the work."""
    documents = list(_documents(file.text))
    if not documents:
        raise missing_value(file.place, "device", "no line begins with `device:`")
    for run, (before, document) in numbered_parts(file.run("pytorch-benchmark"), documents):
        models = _MODEL.findall(before)
        benchmark = models[-1] if models else "unknown"
        yield from _of_document(replace(run, benchmark=benchmark), yaml_value(document))


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


def _of_document(run: Run, value: Any) -> Iterator[BenchmarkResult]:
    document = value if isinstance(value, dict) else {}
    device = document.get("device")
    device = device[:100] if isinstance(device, str) else ""
    counts = {name: whole_number(document.get(name)) for name in ("flops", "params")}
    parameters: dict[str, Parameter] = {**stated_texts(None, device=device)}
    run = replace(
        run,
        parameters=parameters | {name: it for name, it in counts.items() if it},
        hardware=_hardware(document, device),
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
    if "max_inference_memory" in document:
        yield run.result(_MEMORY, document["max_inference_memory"])
    for part, name, each in _BY_BATCH_SIZE:
        for batch_size, measured in _by_batch_size(mapping_of(document, part)):
            if name in measured:
                yield with_parameters(run, batch_size=batch_size).result(each, measured[name])


def _by_batch_size(measured: Mapping[str, Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for key in measured:
        match = _BATCH_SIZE.match(key) if isinstance(key, str) else None
        if match is not None:
            yield int(match[1]), mapping_of(measured, key)


def _hardware(document: Mapping[str, Any], device: str) -> dict[str, str]:
    """Names of the parts; the name of the machine is not read."""
    machine = mapping_of(document, "machine_info")
    gpus = machine.get("gpus")
    named = (
        it.get("name") for it in (gpus if isinstance(gpus, list) else ()) if isinstance(it, dict)
    )
    names = {it[:200] for it in named if isinstance(it, str) and it}
    # Which of several kinds was used is not known.
    accelerator = names.pop() if device != "cpu" and len(names) == 1 else None
    return stated_texts(200, cpu=mapping_of(machine, "cpu").get("model"), accelerator=accelerator)
