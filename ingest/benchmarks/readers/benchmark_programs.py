"""Files of pyperf, pytest-benchmark, asv, hyperfine, Google Benchmark and llama-bench.

:mod:`common.formats.benchmark_files` reads their series, as for ``thoth compare``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from posixpath import basename, dirname, join
from statistics import median
from typing import Any

from common.formats.benchmark_files import grouped_records, series_of
from ingest.benchmarks.result_tree import ResultTree, missing_value, reader_of_places
from ingest.benchmarks.results import (
    Run,
    mapping_of,
    measure,
    numbered_parts,
    time_of_epoch,
    time_of_text,
)
from model.json_fields import Fields
from model.measurements.benchmark_results import Aggregate, BenchmarkResult, ResultSeries, Validity

#: Where the files of a system name the parts of the machine, versions and the measured commit.
_PLACES = {
    "pyperf": {
        "cpu": "metadata.cpu_model_name", "python": "metadata.python_version",
        "pyperf": "metadata.perf_version",
    },
    "pytest-benchmark": {
        "cpu": "machine_info.cpu.brand_raw", "python": "machine_info.python_version",
        "pytest-benchmark": "version", "commit": "commit_info.id",
    },
    "asv": {"cpu": "params.cpu", "python": "params.python", "commit": "commit_hash"},
    "llama-bench": {
        "cpu": "cpu_info", "accelerator": "gpu_info", "llama.cpp": "build_commit",
        "llama.cpp build": "build_number", "ggml backends": "backends",
    },
}  # fmt: skip
#: Describes the machine of the results of asv beside it.
_MACHINE = "machine.json"
_PARTS = frozenset({"cpu", "accelerator"})
_QUANTITIES = {"bytes": "memory", "byte": "memory", "": "value", "integer": "value"}
#: llama-bench prints the mean of its repetitions; the others print the median.
_MEAN = frozenset({"llama-bench"})
#: Folders in a measured command, which may name a person.
_FOLDERS = re.compile(r"(?<![\w:])(?:~|[A-Za-z]:)?[/\\](?:[\w.@+-]+[/\\])+")


@reader_of_places
def read(tree: ResultTree, place: str) -> Iterator[BenchmarkResult]:
    """One result for each series, whose value is the median of its repetitions.

    Repetitions of several processes belong to one session: they share build, boot and day.
    """
    if basename(place) == _MACHINE:
        return
    file = tree.file(place)
    results: list[BenchmarkResult] = []
    for run, records in numbered_parts(file.run(""), grouped_records(file.json_content)):
        if series := series_of(records):
            identified = _identified(tree, replace(run, system=series[0].system), records[0])
            results += [_result(identified, each) for each in series]
    if not results:
        raise missing_value(place, "$", "the file has no benchmark")
    yield from results


def _result(run: Run, series: ResultSeries) -> BenchmarkResult:
    of_mean = not series.samples and series.system in _MEAN
    aggregate = Aggregate.MEAN if of_mean else Aggregate.MEDIAN
    metric = measure(
        _QUANTITIES.get(series.unit, "time"), series.unit, series.direction, series.system,
        Aggregate.SINGLE if len(series.samples) == 1 else aggregate, zero_counts=True,
    )  # fmt: skip
    name = _FOLDERS.sub("", series.name)
    return replace(run, benchmark=name, parameters={**run.parameters, **series.parameters}).result(
        metric,
        median(series.samples) if series.samples else series.summary,
        series.excluded or "there is no value",
        samples=series.samples if len(series.samples) > 1 else (),
        validity=Validity.UNKNOWN,
    )


def _identified(tree: ResultTree, run: Run, record: Fields) -> Run:
    """``run`` with machine, versions and time from its first object."""
    stated: dict[str, str] = {}
    for name, place in _PLACES.get(run.system, {}).items():
        *outer, key = place.split(".")
        inner: Mapping[str, Any] = record.record
        for part in outer:
            inner = mapping_of(inner, part)
        text = inner.get(key)
        if isinstance(text, str | int) and text and not str(text).startswith("/"):
            stated[name] = str(text)[:200]
    software: dict[str, str | None] = {it: stated[it] for it in stated if it not in _PARTS}
    files, parameters = run.files, dict(run.parameters)
    if run.system == "llama-bench" and isinstance(record.get("model_filename"), str):
        parameters["model"] = _FOLDERS.sub("", record["model_filename"])[:200]
    if run.system == "asv":
        for name, version in mapping_of(record.record, "requirements").items():
            software[name.rpartition("+")[2][:200]] = str(version)[:200] or None
        machine = tree.description(join(dirname(run.source), _MACHINE))
        cpu = machine and machine[0].get("cpu")
        if machine and isinstance(cpu, str) and cpu and "cpu" not in stated:
            stated["cpu"], files = cpu[:200], [*files, machine[1]]
    return replace(
        run,
        files=files,
        parameters=parameters,
        hardware={it: stated[it] for it in stated if it in _PARTS},
        software=software,
        measured_at=min(filter(None, _times(run.system, record)), default=None),
    )


def _times(system: str, record: Fields) -> Iterator[datetime | None]:
    """When benchmarks began, as far as the file says; clocks without a zone are read as UTC."""
    if system == "asv":
        columns = record.texts("result_columns")
        for row in record.nested("results").values():
            start = dict(zip(columns, row, strict=False)).get("started_at")
            yield time_of_epoch(start / 1e3) if type(start) is int else None
    elif system == "pyperf":
        for benchmark in record.each("benchmarks"):
            for run in benchmark.each("runs"):
                yield time_of_text(run.nested("metadata").get("date"))
    else:
        stated = record.get("test_time") or record.get("datetime")
        yield time_of_text(stated or mapping_of(record.record, "context").get("date"))
